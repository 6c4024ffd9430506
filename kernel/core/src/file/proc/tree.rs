//! The nodes of `/proc` and `/sys`: what there is, where, and by which numbers files refer to it.

use motet_abi::file::*;
use motet_layout::FILES_MAX;
use motet_protocol::threads;

use super::super::socket::interface;

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Entry {
    Root = 1,
    SelfLink,
    ThreadSelf,
    MountsLink,
    NetLink,
    Cpuinfo,
    Meminfo,
    Uptime,
    Loadavg,
    Stat,
    Version,
    Filesystems,
    Cmdline,
    Interrupts,
    Motet,
    MotetPs,
    Vms,
    Sys,
    SysKernel,
    Hostname,
    Ostype,
    Osrelease,
    PidMax,
    ThreadsMax,
    SysRandom,
    Uuid,
    BootId,
    RealtimePeriod,
    RealtimeRuntime,
    SysVm,
    OvercommitMemory,
    RandomPlaces,
    MmapMinAddr,
    NgroupsMax,
    SysvIpc,
    SysvShm,
    SysvSem,
    SysvMsg,
    ShmMax,
    ShmAll,
    ShmMni,
    ShmForced,
    SemLimits,
    MsgMax,
    MsgMnb,
    MsgMni,
    SysFs,
    SysInotify,
    InotifyEvents,
    InotifyInstances,
    InotifyWatches,
    ProtectedHardlinks,
    ProtectedSymlinks,
    Process,
    ProcessStat,
    ProcessStatus,
    ProcessStatm,
    ProcessCmdline,
    ProcessEnviron,
    ProcessComm,
    ProcessMaps,
    ProcessPersonality,
    ProcessMounts,
    ProcessLimits,
    ProcessMountinfo,
    ProcessCrossings,
    ProcessMigrations,
    ProcessVectors,
    ProcessStartIsa,
    ProcessExe,
    ProcessCwd,
    ProcessRoot,
    ProcessFd,
    ProcessFdLink,
    ProcessFdinfo,
    ProcessFdinfoOf,
    ProcessTask,
    ProcessNet,
    NetDev,
    NetTcp,
    NetTcp6,
    NetUdp,
    NetUdp6,
    NetUnix,
    NetRaw,
    NetRoute,
    NetArp,
    NetInterfaces6,
    NetSockstat,
    NetRaw6,
    NetPacket,
    NetRoute6,
    NetSockstat6,
    NetSnmp,
    NetNetstat,
    SysfsRoot,
    Devices,
    SystemDevices,
    Cores,
    CoresOnline,
    CoresOffline,
    CoresPresent,
    CoresPossible,
    CoresMax,
    Core,
    CoreOnline,
    Topology,
    CorePackage,
    CoreNumber,
    ThreadSiblings,
    ThreadSiblingsList,
    CoreCpus,
    CoreCpusList,
    CoreSiblings,
    CoreSiblingsList,
    PackageCpus,
    PackageCpusList,
    CoreIsa,
    CoreExtensions,
    CoreVectorBytes,
    HiddenHarts,
    HiddenOnline,
    HiddenOffline,
    HiddenPresent,
    HiddenHart,
    HiddenHartOnline,
    Nodes,
    NodesOnline,
    NodesPossible,
    NodesWithCores,
    NodesWithMemory,
    NodesWithNormalMemory,
    Node,
    NodeCpulist,
    NodeCpumap,
    NodeDistance,
    NodeMeminfo,
    DevicesVirtual,
    VirtualNet,
    Loopback,
    LoopbackAddress,
    LoopbackMtu,
    LoopbackState,
    LoopbackFlags,
    LoopbackIndex,
    LoopbackType,
    LoopbackAddressLen,
    LoopbackAssigned,
    LoopbackBroadcast,
    LoopbackCarrier,
    LoopbackCarrierChanges,
    LoopbackCarrierDowns,
    LoopbackCarrierUps,
    LoopbackDevice,
    LoopbackPort,
    LoopbackDormant,
    LoopbackLink,
    LoopbackMode,
    LoopbackNamed,
    LoopbackGroup,
    LoopbackDown,
    LoopbackTesting,
    LoopbackQueue,
    LoopbackEvent,
    LoopbackClass,
    Counted,
    CountedCollisions,
    CountedMulticast,
    CountedRxBytes,
    CountedRxDropped,
    CountedRxErrors,
    CountedRxPackets,
    CountedTxBytes,
    CountedTxDropped,
    CountedTxErrors,
    CountedTxPackets,
    Class,
    ClassNet,
    ClassLoopback,
}

use Entry as E;

pub(super) const DIRECTORY: u32 = S_IFDIR | 0o555;
const PRIVATE_DIRECTORY: u32 = S_IFDIR | 0o500;
const FILE: u32 = S_IFREG | 0o444;
const PRIVATE: u32 = S_IFREG | 0o400;
const WRITABLE: u32 = S_IFREG | 0o644;
const LINK: u32 = S_IFLNK | 0o777;

/// Every named node: where it is, its name, what it is, its mode. Processes, descriptors and cores are named by number.
pub(super) const TABLE: &[(Entry, &str, Entry, u32)] = &[
    (E::Root, "self", E::SelfLink, LINK),
    (E::Root, "thread-self", E::ThreadSelf, LINK),
    (E::Root, "mounts", E::MountsLink, LINK),
    (E::Root, "net", E::NetLink, LINK),
    (E::Root, "cpuinfo", E::Cpuinfo, FILE),
    (E::Root, "meminfo", E::Meminfo, FILE),
    (E::Root, "uptime", E::Uptime, FILE),
    (E::Root, "loadavg", E::Loadavg, FILE),
    (E::Root, "stat", E::Stat, FILE),
    (E::Root, "version", E::Version, FILE),
    (E::Root, "filesystems", E::Filesystems, FILE),
    (E::Root, "cmdline", E::Cmdline, FILE),
    (E::Root, "interrupts", E::Interrupts, FILE),
    (E::Root, "motet", E::Motet, FILE),
    (E::Root, "motet-ps", E::MotetPs, FILE),
    (E::Root, "vms", E::Vms, FILE),
    (E::Root, "sys", E::Sys, DIRECTORY),
    (E::Root, "sysvipc", E::SysvIpc, DIRECTORY),
    (E::SysvIpc, "shm", E::SysvShm, FILE),
    (E::SysvIpc, "sem", E::SysvSem, FILE),
    (E::SysvIpc, "msg", E::SysvMsg, FILE),
    (E::Sys, "kernel", E::SysKernel, DIRECTORY),
    (E::Sys, "vm", E::SysVm, DIRECTORY),
    (E::Sys, "fs", E::SysFs, DIRECTORY),
    (E::SysFs, "inotify", E::SysInotify, DIRECTORY),
    (E::SysInotify, "max_queued_events", E::InotifyEvents, FILE),
    (E::SysInotify, "max_user_instances", E::InotifyInstances, FILE),
    (E::SysInotify, "max_user_watches", E::InotifyWatches, FILE),
    (E::SysFs, "protected_hardlinks", E::ProtectedHardlinks, FILE),
    (E::SysFs, "protected_symlinks", E::ProtectedSymlinks, FILE),
    (E::SysKernel, "hostname", E::Hostname, FILE),
    (E::SysKernel, "ostype", E::Ostype, FILE),
    (E::SysKernel, "osrelease", E::Osrelease, FILE),
    (E::SysKernel, "pid_max", E::PidMax, FILE),
    (E::SysKernel, "threads-max", E::ThreadsMax, FILE),
    (E::SysKernel, "random", E::SysRandom, DIRECTORY),
    (E::SysRandom, "uuid", E::Uuid, FILE),
    (E::SysRandom, "boot_id", E::BootId, FILE),
    (E::SysKernel, "sched_rt_period_us", E::RealtimePeriod, FILE),
    (E::SysKernel, "sched_rt_runtime_us", E::RealtimeRuntime, WRITABLE),
    (E::SysKernel, "randomize_va_space", E::RandomPlaces, WRITABLE),
    (E::SysKernel, "shmmax", E::ShmMax, FILE),
    (E::SysKernel, "shmall", E::ShmAll, FILE),
    (E::SysKernel, "shmmni", E::ShmMni, FILE),
    (E::SysKernel, "shm_rmid_forced", E::ShmForced, FILE),
    (E::SysKernel, "sem", E::SemLimits, FILE),
    (E::SysKernel, "msgmax", E::MsgMax, FILE),
    (E::SysKernel, "msgmnb", E::MsgMnb, FILE),
    (E::SysKernel, "msgmni", E::MsgMni, FILE),
    (E::SysVm, "overcommit_memory", E::OvercommitMemory, FILE),
    (E::SysVm, "mmap_min_addr", E::MmapMinAddr, FILE),
    (E::SysKernel, "ngroups_max", E::NgroupsMax, FILE),
    (E::Process, "stat", E::ProcessStat, FILE),
    (E::Process, "status", E::ProcessStatus, FILE),
    (E::Process, "statm", E::ProcessStatm, FILE),
    (E::Process, "cmdline", E::ProcessCmdline, FILE),
    (E::Process, "environ", E::ProcessEnviron, PRIVATE),
    (E::Process, "comm", E::ProcessComm, WRITABLE),
    (E::Process, "maps", E::ProcessMaps, FILE),
    (E::Process, "personality", E::ProcessPersonality, PRIVATE),
    (E::Process, "mounts", E::ProcessMounts, FILE),
    (E::Process, "mountinfo", E::ProcessMountinfo, FILE),
    (E::Process, "limits", E::ProcessLimits, FILE),
    (E::Process, "crossings", E::ProcessCrossings, FILE),
    (E::Process, "migrations", E::ProcessMigrations, FILE),
    (E::Process, "vectors", E::ProcessVectors, FILE),
    (E::Process, "start_isa", E::ProcessStartIsa, WRITABLE),
    (E::Process, "exe", E::ProcessExe, LINK),
    (E::Process, "cwd", E::ProcessCwd, LINK),
    (E::Process, "root", E::ProcessRoot, LINK),
    (E::Process, "fd", E::ProcessFd, PRIVATE_DIRECTORY),
    (E::Process, "fdinfo", E::ProcessFdinfo, DIRECTORY),
    (E::Process, "task", E::ProcessTask, DIRECTORY),
    (E::Process, "net", E::ProcessNet, DIRECTORY),
    (E::ProcessNet, "dev", E::NetDev, FILE),
    (E::ProcessNet, "tcp", E::NetTcp, FILE),
    (E::ProcessNet, "tcp6", E::NetTcp6, FILE),
    (E::ProcessNet, "udp", E::NetUdp, FILE),
    (E::ProcessNet, "udp6", E::NetUdp6, FILE),
    (E::ProcessNet, "unix", E::NetUnix, FILE),
    (E::ProcessNet, "raw", E::NetRaw, FILE),
    (E::ProcessNet, "route", E::NetRoute, FILE),
    (E::ProcessNet, "arp", E::NetArp, FILE),
    (E::ProcessNet, "if_inet6", E::NetInterfaces6, FILE),
    (E::ProcessNet, "sockstat", E::NetSockstat, FILE),
    (E::ProcessNet, "raw6", E::NetRaw6, FILE),
    (E::ProcessNet, "packet", E::NetPacket, FILE),
    (E::ProcessNet, "ipv6_route", E::NetRoute6, FILE),
    (E::ProcessNet, "sockstat6", E::NetSockstat6, FILE),
    (E::ProcessNet, "snmp", E::NetSnmp, FILE),
    (E::ProcessNet, "netstat", E::NetNetstat, FILE),
    (E::SysfsRoot, "devices", E::Devices, DIRECTORY),
    (E::Devices, "system", E::SystemDevices, DIRECTORY),
    (E::SystemDevices, "cpu", E::Cores, DIRECTORY),
    (E::Cores, "online", E::CoresOnline, FILE),
    (E::Cores, "offline", E::CoresOffline, FILE),
    (E::Cores, "present", E::CoresPresent, FILE),
    (E::Cores, "possible", E::CoresPossible, FILE),
    (E::Cores, "kernel_max", E::CoresMax, FILE),
    (E::Core, "online", E::CoreOnline, WRITABLE),
    (E::Core, "isa", E::CoreIsa, FILE),
    (E::Core, "extensions", E::CoreExtensions, FILE),
    (E::Core, "vector_bytes", E::CoreVectorBytes, FILE),
    (E::Core, "topology", E::Topology, DIRECTORY),
    (E::Topology, "physical_package_id", E::CorePackage, FILE),
    (E::Topology, "core_id", E::CoreNumber, FILE),
    (E::Topology, "thread_siblings", E::ThreadSiblings, FILE),
    (E::Topology, "thread_siblings_list", E::ThreadSiblingsList, FILE),
    (E::Topology, "core_cpus", E::CoreCpus, FILE),
    (E::Topology, "core_cpus_list", E::CoreCpusList, FILE),
    (E::Topology, "core_siblings", E::CoreSiblings, FILE),
    (E::Topology, "core_siblings_list", E::CoreSiblingsList, FILE),
    (E::Topology, "package_cpus", E::PackageCpus, FILE),
    (E::Topology, "package_cpus_list", E::PackageCpusList, FILE),
    (E::Cores, "hidden", E::HiddenHarts, DIRECTORY),
    (E::HiddenHarts, "online", E::HiddenOnline, FILE),
    (E::HiddenHarts, "offline", E::HiddenOffline, FILE),
    (E::HiddenHarts, "present", E::HiddenPresent, FILE),
    (E::HiddenHart, "online", E::HiddenHartOnline, WRITABLE),
    (E::SystemDevices, "node", E::Nodes, DIRECTORY),
    (E::Nodes, "online", E::NodesOnline, FILE),
    (E::Nodes, "possible", E::NodesPossible, FILE),
    (E::Nodes, "has_cpu", E::NodesWithCores, FILE),
    (E::Nodes, "has_memory", E::NodesWithMemory, FILE),
    (E::Nodes, "has_normal_memory", E::NodesWithNormalMemory, FILE),
    (E::Node, "cpulist", E::NodeCpulist, FILE),
    (E::Node, "cpumap", E::NodeCpumap, FILE),
    (E::Node, "distance", E::NodeDistance, FILE),
    (E::Node, "meminfo", E::NodeMeminfo, FILE),
    (E::Devices, "virtual", E::DevicesVirtual, DIRECTORY),
    (E::DevicesVirtual, "net", E::VirtualNet, DIRECTORY),
    (E::VirtualNet, interface::NAME, E::Loopback, DIRECTORY),
    (E::Loopback, "address", E::LoopbackAddress, FILE),
    (E::Loopback, "mtu", E::LoopbackMtu, FILE),
    (E::Loopback, "operstate", E::LoopbackState, FILE),
    (E::Loopback, "flags", E::LoopbackFlags, FILE),
    (E::Loopback, "ifindex", E::LoopbackIndex, FILE),
    (E::Loopback, "type", E::LoopbackType, FILE),
    (E::Loopback, "addr_len", E::LoopbackAddressLen, FILE),
    (E::Loopback, "addr_assign_type", E::LoopbackAssigned, FILE),
    (E::Loopback, "broadcast", E::LoopbackBroadcast, FILE),
    (E::Loopback, "carrier", E::LoopbackCarrier, FILE),
    (E::Loopback, "carrier_changes", E::LoopbackCarrierChanges, FILE),
    (E::Loopback, "carrier_down_count", E::LoopbackCarrierDowns, FILE),
    (E::Loopback, "carrier_up_count", E::LoopbackCarrierUps, FILE),
    (E::Loopback, "dev_id", E::LoopbackDevice, FILE),
    (E::Loopback, "dev_port", E::LoopbackPort, FILE),
    (E::Loopback, "dormant", E::LoopbackDormant, FILE),
    (E::Loopback, "iflink", E::LoopbackLink, FILE),
    (E::Loopback, "link_mode", E::LoopbackMode, FILE),
    (E::Loopback, "name_assign_type", E::LoopbackNamed, FILE),
    (E::Loopback, "netdev_group", E::LoopbackGroup, FILE),
    (E::Loopback, "proto_down", E::LoopbackDown, FILE),
    (E::Loopback, "testing", E::LoopbackTesting, FILE),
    (E::Loopback, "tx_queue_len", E::LoopbackQueue, FILE),
    (E::Loopback, "uevent", E::LoopbackEvent, FILE),
    (E::Loopback, "subsystem", E::LoopbackClass, LINK),
    (E::Loopback, "statistics", E::Counted, DIRECTORY),
    (E::Counted, "collisions", E::CountedCollisions, FILE),
    (E::Counted, "multicast", E::CountedMulticast, FILE),
    (E::Counted, "rx_bytes", E::CountedRxBytes, FILE),
    (E::Counted, "rx_dropped", E::CountedRxDropped, FILE),
    (E::Counted, "rx_errors", E::CountedRxErrors, FILE),
    (E::Counted, "rx_packets", E::CountedRxPackets, FILE),
    (E::Counted, "tx_bytes", E::CountedTxBytes, FILE),
    (E::Counted, "tx_dropped", E::CountedTxDropped, FILE),
    (E::Counted, "tx_errors", E::CountedTxErrors, FILE),
    (E::Counted, "tx_packets", E::CountedTxPackets, FILE),
    (E::SysfsRoot, "class", E::Class, DIRECTORY),
    (E::Class, "net", E::ClassNet, DIRECTORY),
    (E::ClassNet, interface::NAME, E::ClassLoopback, LINK),
];

/// A node: what it is, of which process or thread, and which descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcNode {
    pub(super) entry: Entry,
    pub(super) id: u32,
    pub(super) fd: u32,
    /// The process below whose `task` it is, 0: below none. In sysfs: the core, hidden hart, or island.
    pub(super) tasks_of: u32,
}

/// `/proc`.
pub const ROOT: ProcNode = ProcNode { entry: E::Root, id: 0, fd: 0, tasks_of: 0 };

/// `/sys`.
pub const SYSFS_ROOT: ProcNode = ProcNode { entry: E::SysfsRoot, ..ROOT };

const _: () = assert!(threads::TIDS < 1 << 16 && FILES_MAX < 1 << 16, "a node's number has 16 bits for each");

impl ProcNode {
    /// The number by which open files and processes refer to it.
    pub fn raw(self) -> u64 {
        self.entry as u64 | u64::from(self.id) << 8 | u64::from(self.fd) << 24 | u64::from(self.tasks_of) << 40
    }

    /// The node of a number; `/proc` itself for a number that is none.
    pub fn from_raw(raw: u64) -> Self {
        let entries = TABLE.iter().map(|row| row.2).chain([
            E::Root,
            E::Process,
            E::ProcessFdLink,
            E::ProcessFdinfoOf,
            E::SysfsRoot,
            E::Core,
            E::HiddenHart,
            E::Node,
        ]);
        match entries.into_iter().find(|&entry| entry as u64 == raw & 0xff) {
            Some(entry) => {
                let part = |shift: u32| u32::from((raw >> shift) as u16);
                Self { entry, id: part(8), fd: part(24), tasks_of: part(40) }
            }
            None => ROOT,
        }
    }

    /// Inode number.
    pub fn number(self) -> u64 {
        1 << 56 | self.raw()
    }

    /// The number that names it in the directory above it, if a number does.
    pub(super) fn place(self) -> u32 {
        match self.entry {
            E::Core | E::HiddenHart | E::Node => self.tasks_of,
            E::ProcessFdLink | E::ProcessFdinfoOf => self.fd,
            _ => self.id,
        }
    }

    pub(super) fn of(self, entry: Entry) -> Self {
        Self { entry, fd: 0, ..self }
    }

    /// `/proc/<id>`.
    pub(super) fn process(id: u32) -> Self {
        Self { entry: E::Process, id, ..ROOT }
    }

    /// `/proc/<pid>/task/<tid>`.
    pub(super) fn task(pid: u32, tid: u32) -> Self {
        Self { entry: E::Process, id: tid, tasks_of: pid, ..ROOT }
    }

    /// The named nodes in it, with their places in the table.
    pub(super) fn named(self) -> impl Iterator<Item = (usize, &'static (Entry, &'static str, Entry, u32))> {
        // A thread has no threads.
        let is_here =
            move |row: &(Entry, _, Entry, _)| row.0 == self.entry && (self.tasks_of == 0 || row.2 != E::ProcessTask);
        TABLE.iter().enumerate().filter(move |(_, row)| is_here(row))
    }
}

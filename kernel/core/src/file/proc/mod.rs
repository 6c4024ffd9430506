//! procfs, and what there is of sysfs: files made of text when they are read. A node is a number; nothing is kept between two reads.
#![expect(clippy::wildcard_enum_match_arm, reason = "each operation concerns a few of the many kinds of node")]

mod cores;
mod descriptors;
mod loopback;
mod machine;
mod maps;
mod motet;
mod mounts;
mod net;
mod nodes;
mod open;
mod process;
mod system;
mod sysvipc;
mod text;
mod tree;
mod vectors;

use core::fmt::Write;

use motet_layout::sync::Ordering;

use motet_abi::{Errno, file::*};
use motet_hal::Machine;
use motet_layout::{CORES_MAX, FileRecord, GROUPS_MAX, Isa, ProcessRecord, THREAD_FREE, ThreadRecord};
use motet_protocol::{Context, ipc::posix, notify, threads};

use super::{
    descriptor::table,
    path::{
        absolute::path_or_last,
        node::{self, Node},
        records::Records,
    },
};
use crate::{
    ability::Migrations,
    call::{Call, PATH_MAX, SysResult, cost},
    chain::Snapshot,
    cpu::{Cpu, KERNEL_RELEASE},
    cursor::Cursor,
    due,
    ipc::{self, Limit},
    mm,
    permission::{self, FileRights, Identity},
    random, realtime, tree as processes, vm,
};
use descriptors::FilesOf;
pub use open::open;
use text::{LineStart, Text};
use tree::{DIRECTORY, Entry, Entry as E, TABLE};
pub use tree::{ProcNode, ROOT, SYSFS_ROOT};

/// Type and permissions.
pub fn mode(node: ProcNode) -> u32 {
    match node.entry {
        E::ProcessFdLink => S_IFLNK | 0o700,
        E::ProcessFdinfoOf => S_IFREG | 0o444,
        entry => TABLE.iter().find(|row| row.2 == entry).map_or(DIRECTORY, |row| row.3),
    }
}

/// Owner and group: of what concerns a process those that it acts by, unless only the superuser may look into it.
pub fn owner<M: Machine>(cpu: &Cpu<M>, node: ProcNode) -> (u32, u32) {
    if node.id == 0 {
        return (0, 0);
    }
    let of = |_: &_, process: &ProcessRecord| {
        let identity = Identity::of(process);
        let is_opaque = permission::is_opaque(process) && node.entry != E::Process && node.entry != E::ProcessTask;
        if is_opaque { (0, 0) } else { (identity.users.effective.0, identity.groups.effective.0) }
    };
    with_thread(cpu, node.id, of).unwrap_or((0, 0))
}

/// Fails with `EACCES` unless those rights allow all of `mask` with a node.
pub fn check<M: Machine>(call: &Call<M>, node: ProcNode, rights: &FileRights, mask: u32) -> Result<(), Errno> {
    if node.entry == E::ProcessFdinfo {
        return check_inspection(call, node);
    }
    let mode = mode(node);
    // What everybody may: most.
    if mask & !mode & 7 == 0 {
        return Ok(());
    }
    let is_own = |_: &_, process: &ProcessRecord| core::ptr::eq(process, call.process);
    if node.entry == E::ProcessFd && with_thread(call.cpu, node.id, is_own) == Some(true) {
        return Ok(());
    }
    let (uid, gid) = owner(call.cpu, node);
    rights.check_mode(mode, uid, gid, mask)
}

/// Fails with `EACCES` unless the caller may open a file: what shows a process's memory is for those who may look into it.
pub fn check_inspected<M: Machine>(call: &Call<M>, node: ProcNode) -> Result<(), Errno> {
    match node.entry {
        E::ProcessMaps
        | E::ProcessSmaps
        | E::ProcessSmapsRollup
        | E::ProcessEnviron
        | E::ProcessCrossings
        | E::ProcessVectors
        | E::ProcessFdinfo
        | E::ProcessFdinfoOf => check_inspection(call, node),
        _ => Ok(()),
    }
}

/// Fails with `EACCES` unless the caller may look into the process that a node is of.
fn check_inspection<M: Machine>(call: &Call<M>, node: ProcNode) -> Result<(), Errno> {
    let may = |_: &_, process: &'static _| permission::may_inspect(call.process, process, false);
    with_thread(call.cpu, node.id, may).unwrap_or(Ok(())).map_err(|_| Errno::EACCES)
}

/// Whether it is below `/sys`, and not below `/proc`.
pub fn is_of_sysfs(node: ProcNode) -> bool {
    let above = core::iter::successors(Some(node), |node| parent(*node));
    above.last().is_some_and(|root| root == SYSFS_ROOT)
}

/// Whether it is the folder of a process or a thread, or in it.
pub fn is_of_process(node: ProcNode) -> bool {
    node.id != 0 && !is_of_sysfs(node)
}

/// Whether it is a directory.
pub fn is_directory(node: ProcNode) -> bool {
    mode(node) & S_IFMT == S_IFDIR
}

/// Whether it can be opened for writing.
pub fn writable(node: ProcNode) -> bool {
    mode(node) & 0o222 != 0
}

/// The directory above, `None` for `/proc` and `/sys`.
pub fn parent(node: ProcNode) -> Option<ProcNode> {
    match node.entry {
        E::Root | E::SysfsRoot => None,
        E::Core => Some(ProcNode { entry: E::Cores, ..ROOT }),
        E::HiddenHart => Some(ProcNode { entry: E::HiddenHarts, ..ROOT }),
        E::Node => Some(ProcNode { entry: E::Nodes, ..ROOT }),
        E::Process if node.tasks_of != 0 => Some(ProcNode::process(node.tasks_of).of(E::ProcessTask)),
        E::Process => Some(ROOT),
        E::ProcessFdLink => Some(node.of(E::ProcessFd)),
        E::ProcessFdinfoOf => Some(node.of(E::ProcessFdinfo)),
        entry => TABLE.iter().find(|row| row.2 == entry).map(|row| node.of(row.0)),
    }
}

/// What `name` names in a directory.
pub fn lookup<M: Machine>(call: &Call<M>, dir: ProcNode, name: &[u8]) -> Option<ProcNode> {
    if let Some((_, row)) = dir.named().find(|(_, row)| row.1.as_bytes() == name) {
        return Some(dir.of(row.2));
    }
    if let Some(kind) = cores::Kind::in_directory(dir) {
        return cores::named(call.cpu, kind, name);
    }
    if dir.entry == E::Nodes {
        return nodes::named(call.cpu, name);
    }
    let number = number(name)?;
    match dir.entry {
        E::Root => with_thread(call.cpu, number, |_, _| ProcNode::process(number)),
        E::ProcessTask => {
            let process = with_thread(call.cpu, dir.id, |_, process| call.cpu.raw(process))?;
            let of_thread = with_thread(call.cpu, number, |_, process| call.cpu.raw(process))?;
            (process == of_thread).then_some(ProcNode::task(dir.id, number))
        }
        E::ProcessFd | E::ProcessFdinfo => {
            let files = FilesOf::new(call.cpu, dir.id)?;
            let used = table::next_used(call.cpu, files.files, number) == Some(number);
            used.then_some(ProcNode { entry: descriptors::in_directory(dir), fd: number, ..dir })
        }
        _ => None,
    }
}

/// Collects a directory's entries from `records.next` on.
pub fn list<M: Machine>(call: &Call<M>, dir: ProcNode, records: &mut Records) {
    if records.next == 0 && !records.push(dir.number(), 1, DIRECTORY, b".") {
        return;
    }
    let above = parent(dir).unwrap_or(ROOT);
    if records.next == 1 && !records.push(above.number(), 2, DIRECTORY, b"..") {
        return;
    }
    for (index, row) in dir.named() {
        let position = 2 + index as u64;
        if position >= records.next && !records.push(dir.of(row.2).number(), position + 1, row.3, row.1.as_bytes()) {
            return;
        }
    }
    let first = 2 + TABLE.len() as u64;
    let mut at = records.next.max(first) - first;
    while let Some((number, node)) = next_numbered(call, dir, at as u32) {
        let mut digits = [0; 14];
        let next = first + u64::from(number) + 1;
        if !records.push(node.number(), next, mode(node), numbered_name(node, number, &mut digits)) {
            return;
        }
        at = u64::from(number) + 1;
        due::spend_locked(call.cpu, 3 * cost::OBJECT);
    }
    records.next = records.next.max(first);
}

/// The next entry named by a number that is at least `from`.
fn next_numbered<M: Machine>(call: &Call<M>, dir: ProcNode, from: u32) -> Option<(u32, ProcNode)> {
    let cpu = call.cpu;
    match dir.entry {
        E::Root => next_thread(cpu, from, |thread, process| thread.tid.get() == process.pid.get())
            .map(|id| (id, ProcNode::process(id))),
        E::ProcessTask => {
            let of = with_thread(cpu, dir.id, |_, process| cpu.raw(process))?;
            next_thread(cpu, from, |_, process| cpu.raw(process) == of).map(|id| (id, ProcNode::task(dir.id, id)))
        }
        E::ProcessFd | E::ProcessFdinfo => {
            let files = FilesOf::new(cpu, dir.id)?;
            let fd = table::next_used(cpu, files.files, from)?;
            Some((fd, ProcNode { entry: descriptors::in_directory(dir), fd, ..dir }))
        }
        E::Cores | E::HiddenHarts => cores::next(cpu, cores::Kind::in_directory(dir)?, from),
        E::Nodes => nodes::next(cpu, from),
        _ => None,
    }
}

/// Bytes that the text of a link has at most, if that is where it leads.
const LINK_MAX: usize = 64;

/// Where a link leads directly, `None` for links that are paths.
pub fn follow<'c, M: Machine>(call: &Call<'c, M>, link: ProcNode) -> Result<Option<Node<'c, M>>, Errno> {
    let cells = |choose: fn(&'static ProcessRecord) -> &'static [motet_layout::Cell64; 2]| {
        with_thread(call.cpu, link.id, |_, process| node::load(call.cpu, choose(process))).ok_or(Errno::ENOENT)
    };
    if matches!(link.entry, E::ProcessExe | E::ProcessCwd | E::ProcessRoot | E::ProcessFdLink) {
        check_inspection(call, link)?;
    }
    match link.entry {
        E::ProcessExe => cells(|process| &process.exe).map(Some),
        E::ProcessCwd => cells(|process| &process.cwd).map(Some),
        E::ProcessRoot => cells(|process| &process.root).map(Some),
        E::ProcessFdLink => {
            let files = FilesOf::new(call.cpu, link.id).ok_or(Errno::ENOENT)?;
            let file = table::get_from(call.cpu, files.files, link.fd as i32).map_err(|_| Errno::ENOENT)?;
            Ok(Some(Node::of_file(call.cpu, file)))
        }
        _ => Ok(None),
    }
}

/// What `readlink` says; returns its length.
///
/// # Errors
/// `ENOENT`, `ENAMETOOLONG`.
pub fn link_text<M: Machine>(call: &Call<M>, link: ProcNode, into: &mut [u8]) -> Result<usize, Errno> {
    let mut line = Line { bytes: into, len: 0 };
    let (pid, tid) = (call.process.pid.get(), call.thread.tid.get());
    let written = match link.entry {
        E::SelfLink => write!(line, "{pid}"),
        E::ThreadSelf => write!(line, "{pid}/task/{tid}"),
        E::MountsLink => write!(line, "self/mounts"),
        E::NetLink => write!(line, "self/net"),
        E::ClassLoopback => write!(line, "../../devices/virtual/net/lo"),
        E::LoopbackClass => write!(line, "../../../../class/net"),
        _ => return target_text(call, link, into),
    };
    written.map_err(|_| Errno::ENAMETOOLONG)?;
    Ok(line.len)
}

fn target_text<M: Machine>(call: &Call<M>, link: ProcNode, into: &mut [u8]) -> Result<usize, Errno> {
    let target = follow(call, link)?.ok_or(Errno::EINVAL)?;
    let mut line = Line { bytes: &mut *into, len: 0 };
    if let Some(written) = target.write_name(&mut line) {
        written.map_err(|_| Errno::ENAMETOOLONG)?;
        return Ok(line.len);
    }
    let mut path = [0; PATH_MAX];
    // What never had a name has none to show.
    let path = path_or_last(call, &target, &mut path).unwrap_or(b"/ (deleted)");
    let into = into.get_mut(..path.len()).ok_or(Errno::ENAMETOOLONG)?;
    into.copy_from_slice(path);
    Ok(path.len())
}

/// Reads from a file at `position`, by an open file, which keeps where that was; returns the bytes read.
fn read<M: Machine>(
    call: &Call<M>,
    node: ProcNode,
    file: &FileRecord,
    position: u64,
    into: &mut Cursor<M>,
) -> SysResult {
    if is_directory(node) {
        return Err(Errno::EISDIR.into());
    }
    // It may have become another's since it was opened.
    check_inspected(call, node)?;
    match node.entry {
        E::ProcessCmdline => return process::read_memory(call, node.id, position, into, |p| &p.arguments),
        E::ProcessEnviron => return process::read_memory(call, node.id, position, into, |p| &p.environment),
        E::ProcessVectors => return vectors::read(call, node.id, position, into),
        E::NetSockstat | E::NetSockstat6 | E::NetSnmp => return net::counted(call, node.entry, position, into),
        _ => {}
    }
    let mut text = Text::new(into, position).been_at(LineStart::of(file));
    // An error means that the buffer is full or bad; `finish` knows which.
    let _ = generate(call, node, &mut text);
    if let Some(place) = text.place() {
        place.keep(file);
    }
    text.finish()
}

/// Writes to a file: a process's name, the instruction set that its programs start on, whether a core is in use, the limit of real-time
/// threads, and whether programs are placed at random, can be written.
fn write<M: Machine>(call: &Call<M>, node: ProcNode, from: &mut Cursor<M>) -> SysResult {
    let len = from.remaining();
    let mut line = [0; 16];
    let read = from.read(&mut line[..15])?;
    let end = line[..read].iter().position(|&byte| byte == b'\n').unwrap_or(read);
    line[end..].fill(0);
    match node.entry {
        E::ProcessComm => write_name(call, node.id, line)?,
        E::ProcessStartIsa => write_start_isa(call, node.id, &line[..end])?,
        E::CoreOnline | E::HiddenHartOnline => cores::set_online(call, node, &line[..end])?,
        E::RealtimeRuntime => realtime::set_limit(call.cpu, &line[..end])?,
        E::RandomPlaces => random::set_placed(call.cpu, &line[..end])?,
        _ => return Err(Errno::EACCES.into()),
    }
    Ok(len)
}

fn write_name<M: Machine>(call: &Call<M>, id: u32, name: [u8; 16]) -> Result<(), Errno> {
    with_thread(call.cpu, id, |thread, process| {
        if !core::ptr::eq(process, call.process) {
            return Err(Errno::EINVAL);
        }
        let leads = thread.tid.get() == process.pid.get();
        for (index, byte) in name.into_iter().enumerate() {
            thread.name[index].store(byte, Ordering::Relaxed);
            if leads {
                process.name[index].store(byte, Ordering::Relaxed);
            }
        }
        Ok(())
    })
    .ok_or(Errno::ESRCH)?
}

/// A process chooses only for itself (and what it will start).
fn write_start_isa<M: Machine>(call: &Call<M>, id: u32, name: &[u8]) -> Result<(), Errno> {
    let chosen = match core::str::from_utf8(name) {
        Ok("none") => 0,
        Ok(name) => Isa::from_name(name).ok_or(Errno::EINVAL)? as u32,
        Err(_) => return Err(Errno::EINVAL),
    };
    let is_own = with_thread(call.cpu, id, |_, process| core::ptr::eq(process, call.process)).ok_or(Errno::ESRCH)?;
    if !is_own {
        return Err(Errno::EPERM);
    }
    call.process.start_isa.store(chosen, Ordering::Relaxed);
    Ok(())
}

fn generate<M: Machine>(call: &Call<M>, node: ProcNode, out: &mut Text<M>) -> core::fmt::Result {
    match node.entry {
        E::Cpuinfo => machine::cpuinfo(call.cpu, out),
        E::Meminfo => machine::meminfo(call.cpu, out),
        E::Uptime => machine::uptime(call.cpu, out),
        E::Loadavg => machine::loadavg(call.cpu, out),
        E::Stat => machine::stat(call.cpu, out),
        E::Interrupts => machine::interrupts(call.cpu, out),
        E::Version => machine::version(out),
        E::Filesystems => mounts::file_systems(out),
        E::Cmdline => out.write_str("motet\n"),
        E::Hostname => out.write_str("motet\n"),
        E::Ostype => out.write_str("Linux\n"),
        E::Osrelease => writeln!(out, "{}", KERNEL_RELEASE),
        E::PidMax | E::ThreadsMax => writeln!(out, "{}", threads::TIDS),
        E::OvercommitMemory => out.write_str("0\n"),
        E::RandomPlaces => writeln!(out, "{}", random::placed(call.cpu) as u32),
        E::ProtectedHardlinks | E::ProtectedSymlinks => out.write_str("1\n"),
        E::SysvShm | E::SysvSem | E::SysvMsg => sysvipc::show(call.cpu, node.entry, out),
        E::InotifyEvents => writeln!(out, "{}", notify::EVENTS_MAX),
        E::InotifyInstances => writeln!(out, "{}", notify::INSTANCES_MAX),
        E::InotifyWatches => writeln!(out, "{}", notify::watches_max(call.cpu)),
        E::MqueueQueues => writeln!(out, "{}", posix::QUEUES_MAX),
        E::MqueueMessages => writeln!(out, "{}", posix::COUNT_MAX[0]),
        E::MqueueBytes => writeln!(out, "{}", posix::BYTES_MAX),
        E::ShmMax => ipc::limit(Limit::Segment, out),
        E::ShmAll => ipc::limit(Limit::Pages, out),
        E::ShmMni => ipc::limit(Limit::Segments, out),
        E::ShmForced => ipc::limit(Limit::Forced, out),
        E::SemLimits => ipc::limit(Limit::Semaphores, out),
        E::MsgMax => ipc::limit(Limit::Message, out),
        E::MsgMnb => ipc::limit(Limit::Queue, out),
        E::MsgMni => ipc::limit(Limit::Queues, out),
        E::RealtimePeriod => writeln!(out, "{}", realtime::PERIOD_US),
        E::RealtimeRuntime => match realtime::limit_us(call.cpu) {
            Some(limit_us) => writeln!(out, "{limit_us}"),
            None => out.write_str("-1\n"),
        },
        E::MmapMinAddr => writeln!(out, "{}", mm::LOWEST),
        E::NgroupsMax => writeln!(out, "{GROUPS_MAX}"),
        E::Uuid => machine::uuid(call.cpu, out),
        E::BootId => machine::boot_id(call.cpu, out),
        E::Motet => motet::counters(call.cpu, out),
        E::MotetPs => motet::processes(call.cpu, out),
        E::Vms => vm::show(call.cpu, out),
        E::ProcessStat => process::stat(call.cpu, node.id, node.tasks_of == 0, out),
        E::ProcessStatus => process::status(call.cpu, node.id, out),
        E::ProcessStatm => process::statm(call.cpu, node.id, out),
        E::ProcessComm => process::comm(call.cpu, node.id, out),
        E::ProcessPersonality => process::personality(call.cpu, node.id, out),
        E::ProcessMaps => maps::maps(call, node.id, out),
        E::ProcessSmaps => maps::smaps(call, node.id, out),
        E::ProcessSmapsRollup => maps::smaps_rollup(call, node.id, out),
        E::ProcessLimits => process::limits(call.cpu, node.id, out),
        E::ProcessCrossings => {
            let of = |thread, process| Snapshot::of(call.cpu, thread, process);
            with_thread(call.cpu, node.id, of).map_or(Ok(()), |snapshot| snapshot.write(out))
        }
        E::ProcessMigrations => {
            let of = |thread: &_, _: &_| Migrations::of(thread);
            with_thread(call.cpu, node.id, of).map_or(Ok(()), |migrations| migrations.write(out))
        }
        E::ProcessStartIsa => {
            let chosen = with_thread(call.cpu, node.id, |_, process| process.start_isa.load(Ordering::Relaxed));
            writeln!(out, "{}", chosen.and_then(Isa::from_raw).map_or("none", Isa::name))
        }
        E::ProcessFdinfoOf => descriptors::show(call, node, out),
        E::ProcessMounts => mounts::mounts(call, node.id, out),
        E::ProcessMountinfo => mounts::mountinfo(call, node.id, out),
        E::Root | E::SelfLink | E::ThreadSelf | E::MountsLink | E::NetLink => Ok(()),
        E::NetDev
        | E::NetTcp
        | E::NetTcp6
        | E::NetUdp
        | E::NetUdp6
        | E::NetUnix
        | E::NetRaw
        | E::NetRaw6
        | E::NetPacket
        | E::NetRoute6
        | E::NetNetstat
        | E::NetRoute
        | E::NetArp
        | E::NetInterfaces6 => net::show(call, node.entry, out),
        E::LoopbackAddress
        | E::LoopbackMtu
        | E::LoopbackState
        | E::LoopbackFlags
        | E::LoopbackIndex
        | E::LoopbackType
        | E::LoopbackAddressLen
        | E::LoopbackAssigned
        | E::LoopbackBroadcast
        | E::LoopbackCarrier
        | E::LoopbackCarrierChanges
        | E::LoopbackCarrierDowns
        | E::LoopbackCarrierUps
        | E::LoopbackDevice
        | E::LoopbackPort
        | E::LoopbackDormant
        | E::LoopbackLink
        | E::LoopbackMode
        | E::LoopbackNamed
        | E::LoopbackGroup
        | E::LoopbackDown
        | E::LoopbackTesting
        | E::LoopbackQueue
        | E::LoopbackEvent
        | E::CountedCollisions
        | E::CountedMulticast
        | E::CountedRxBytes
        | E::CountedRxDropped
        | E::CountedRxErrors
        | E::CountedRxPackets
        | E::CountedTxBytes
        | E::CountedTxDropped
        | E::CountedTxErrors
        | E::CountedTxPackets => loopback::show(node.entry, out),
        E::CoresOnline => cores::write_set(call.cpu, cores::Kind::Core, Some(true), out),
        E::CoresOffline => cores::write_set(call.cpu, cores::Kind::Core, Some(false), out),
        E::CoresPresent | E::CoresPossible => cores::write_set(call.cpu, cores::Kind::Core, None, out),
        E::CoresMax => writeln!(out, "{}", CORES_MAX - 1),
        E::CorePackage | E::CoreNumber | E::CoreIsa | E::CoreExtensions | E::CoreVectorBytes => {
            cores::write_what_it_is(call.cpu, node, out)
        }
        E::ThreadSiblings | E::CoreCpus | E::CoreSiblings | E::PackageCpus => {
            cores::write_siblings(call.cpu, node, false, out)
        }
        E::ThreadSiblingsList | E::CoreCpusList | E::CoreSiblingsList | E::PackageCpusList => {
            cores::write_siblings(call.cpu, node, true, out)
        }
        E::HiddenOnline => cores::write_set(call.cpu, cores::Kind::Hidden, Some(true), out),
        E::HiddenOffline => cores::write_set(call.cpu, cores::Kind::Hidden, Some(false), out),
        E::HiddenPresent => cores::write_set(call.cpu, cores::Kind::Hidden, None, out),
        E::CoreOnline | E::HiddenHartOnline => cores::write_is_online(call.cpu, node, out),
        E::NodesOnline
        | E::NodesPossible
        | E::NodesWithCores
        | E::NodesWithMemory
        | E::NodesWithNormalMemory
        | E::NodeCpulist
        | E::NodeCpumap
        | E::NodeDistance
        | E::NodeMeminfo => nodes::show(call.cpu, node, out),
        E::SysfsRoot
        | E::Nodes
        | E::Node
        | E::Devices
        | E::SystemDevices
        | E::Cores
        | E::Core
        | E::HiddenHarts
        | E::HiddenHart
        | E::Topology
        | E::DevicesVirtual
        | E::VirtualNet
        | E::Loopback
        | E::Class
        | E::ClassNet
        | E::Counted
        | E::LoopbackClass
        | E::ClassLoopback => Ok(()),
        E::Sys | E::SysvIpc | E::SysKernel | E::SysRandom | E::SysVm | E::SysFs | E::SysInotify | E::SysMqueue => {
            Ok(())
        }
        E::Process | E::ProcessCmdline | E::ProcessEnviron | E::ProcessExe | E::ProcessCwd | E::ProcessRoot => Ok(()),
        E::ProcessVectors | E::ProcessFd | E::ProcessFdLink | E::ProcessFdinfo | E::ProcessTask => Ok(()),
        E::ProcessNet | E::NetSockstat | E::NetSockstat6 | E::NetSnmp => Ok(()),
    }
}

/// Calls `look` with a thread and its process under the process-tree lock, if there is one of that id.
fn with_thread<M: Machine, R>(
    cpu: &Cpu<M>,
    id: u32,
    look: impl FnOnce(&'static ThreadRecord, &'static ProcessRecord) -> R,
) -> Option<R> {
    let _tree = processes::lock_tree(cpu);
    let thread = threads::lookup(cpu, id).filter(|thread| thread.state.load(Ordering::Relaxed) != THREAD_FREE)?;
    Some(look(thread, processes::process_of(cpu, thread)))
}

/// The lowest thread id from `from` on whose thread satisfies `which`.
fn next_thread<M: Machine>(
    cpu: &Cpu<M>,
    from: u32,
    which: impl Fn(&ThreadRecord, &'static ProcessRecord) -> bool,
) -> Option<u32> {
    let _tree = processes::lock_tree(cpu);
    let mut threads = threads::from(cpu, from);
    threads.find(|thread| which(thread, processes::process_of(cpu, thread))).map(|thread| thread.tid.get())
}

/// Text in a slice.
struct Line<'b> {
    bytes: &'b mut [u8],
    len: usize,
}

impl Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let into = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(core::fmt::Error)?;
        into.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// A name that is a decimal number without leading zeroes.
fn number(name: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(name).ok()?;
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// The name of a node that has a number.
fn numbered_name(node: ProcNode, number: u32, into: &mut [u8; 14]) -> &[u8] {
    let mut line = Line { bytes: into, len: 0 };
    let prefix = match node.entry {
        E::Node => nodes::PREFIX,
        _ => cores::Kind::of(node).map_or("", cores::Kind::prefix),
    };
    // Ten digits are enough for 32 bits.
    let _ = write!(line, "{prefix}{number}");
    let len = line.len;
    &into[..len]
}

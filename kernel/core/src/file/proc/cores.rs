//! `/sys/devices/system/cpu`: which cores there are, and which are in use, as in Linux's `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/core-api/cpu_hotplug.rst`. Numbers of cores are those of `sched_setaffinity` and `/proc/cpuinfo`. In `hidden` the same of
//! harts that only the firmware has, numbered as if they were cores of their own.

use core::fmt::{Result, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{CORES_MAX, CORES_PER_ISLAND_MAX, CoreId, Isa, IslandId, sync::Ordering};
use motet_protocol::{
    cores::{all_cores, core_record},
    run_queue,
};

use super::{Entry as E, ProcNode, ROOT, machine::islands, number, text::Text};
use crate::{
    ability,
    call::{Call, Stop},
    cpu::Cpu,
    hotplug,
};

/// What a directory here is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A core.
    Core,
    /// A hart that only the firmware has.
    Hidden,
}

impl Kind {
    /// What a directory has directories of.
    pub fn in_directory(dir: ProcNode) -> Option<Self> {
        match dir.entry {
            E::Cores => Some(Self::Core),
            E::HiddenHarts => Some(Self::Hidden),
            _ => None,
        }
    }

    /// What a node is, or is about.
    pub fn of(node: ProcNode) -> Option<Self> {
        match node.entry {
            E::Core | E::CoreOnline => Some(Self::Core),
            E::HiddenHart | E::HiddenHartOnline => Some(Self::Hidden),
            _ => None,
        }
    }

    /// What is before the number in the directory's name.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Core => "cpu",
            Self::Hidden => "hart",
        }
    }

    /// The directory of a core or hart.
    fn node(self, core: CoreId) -> ProcNode {
        let entry = match self {
            Self::Core => E::Core,
            Self::Hidden => E::HiddenHart,
        };
        ProcNode { entry, tasks_of: core.index() as u32, ..ROOT }
    }

    /// Whether one is there.
    fn is_there<M: Machine>(self, cpu: &Cpu<M>, core: CoreId) -> bool {
        match self {
            Self::Core => all_cores(cpu).any(|other| other == core),
            Self::Hidden => islands(cpu)
                .any(|(id, record)| core.island() == id && core.index_in_island() < record.hidden_harts.get() as usize),
        }
    }

    /// All that there are, in the order of their numbers.
    fn all<M: Machine>(self, cpu: &Cpu<M>) -> impl Iterator<Item = CoreId> {
        let ids = islands(cpu).flat_map(|(id, _)| (0..CORES_PER_ISLAND_MAX).map(move |index| CoreId::new(id, index)));
        ids.filter(move |&core| self.is_there(cpu, core))
    }

    fn is_online<M: Machine>(self, cpu: &Cpu<M>, core: CoreId) -> bool {
        match self {
            Self::Core => run_queue::is_online(cpu, core),
            Self::Hidden => {
                let out = cpu.pool.header().islands[core.island().index()].hidden_out.load(Ordering::Relaxed);
                out >> core.index_in_island() & 1 == 0
            }
        }
    }
}

/// The directory of that name.
pub fn named<M: Machine>(cpu: &Cpu<M>, kind: Kind, name: &[u8]) -> Option<ProcNode> {
    let core = CoreId::from_raw(number(name.strip_prefix(kind.prefix().as_bytes())?)?)?;
    kind.is_there(cpu, core).then(|| kind.node(core))
}

/// The first core or hart from `from` on.
pub fn next<M: Machine>(cpu: &Cpu<M>, kind: Kind, from: u32) -> Option<(u32, ProcNode)> {
    let core = kind.all(cpu).find(|core| core.index() as u32 >= from)?;
    Some((core.index() as u32, kind.node(core)))
}

/// Writes the set of cores or harts that are in use, or not in use, or of all, as Linux writes sets: ranges with commas between them.
pub fn write_set<M: Machine>(cpu: &Cpu<M>, kind: Kind, online: Option<bool>, out: &mut Text<M>) -> Result {
    let is_in = |core: &CoreId| online.is_none_or(|online| kind.is_online(cpu, *core) == online);
    write_list(kind.all(cpu).filter(is_in).map(CoreId::index), out)
}

/// Writes ascending numbers as Linux writes sets: ranges with commas between them.
pub fn write_list<M: Machine>(numbers: impl Iterator<Item = usize>, out: &mut Text<M>) -> Result {
    let mut numbers = numbers.peekable();
    let mut separator = "";
    while let Some(first) = numbers.next() {
        let mut last = first;
        while let Some(next) = numbers.next_if_eq(&(last + 1)) {
            last = next;
        }
        write!(out, "{separator}{first}")?;
        if last != first {
            write!(out, "-{last}")?;
        }
        separator = ",";
    }
    out.write_char('\n')
}

/// Writes the set of cores as Linux writes masks: hexadecimal digits, 32 bits between commas, the last core that there may be first.
fn write_mask<M: Machine>(cpu: &Cpu<M>, cores: impl Iterator<Item = CoreId>, out: &mut Text<M>) -> Result {
    const GROUP: usize = 32;
    let mut groups = [0u32; CORES_MAX / GROUP];
    cores.for_each(|core| groups[core.index() / GROUP] |= 1 << (core.index() % GROUP));
    let last = Kind::Core.all(cpu).last().map_or(0, CoreId::index);
    write!(out, "{:01$x}", groups[last / GROUP], last % GROUP / 4 + 1)?;
    groups[..last / GROUP].iter().rev().try_for_each(|group| write!(out, ",{group:08x}"))?;
    out.write_char('\n')
}

/// Two lines of `status`: the cores in use that a thread with this affinity may run on, as a mask and as a list.
pub fn write_allowed<M: Machine>(cpu: &Cpu<M>, affinity: [u64; 2], out: &mut Text<M>) -> Result {
    let is_allowed = |core: &CoreId| run_queue::is_online(cpu, *core) && run_queue::allowed(affinity, *core);
    out.write_str("Cpus_allowed:\t")?;
    write_mask(cpu, Kind::Core.all(cpu).filter(is_allowed), out)?;
    out.write_str("Cpus_allowed_list:\t")?;
    write_list(Kind::Core.all(cpu).filter(is_allowed).map(CoreId::index), out)
}

/// Writes the set of an island's cores that are in use.
pub fn write_island<M: Machine>(cpu: &Cpu<M>, island: IslandId, is_list: bool, out: &mut Text<M>) -> Result {
    let cores = Kind::Core.all(cpu).filter(|core| core.island() == island && run_queue::is_online(cpu, *core));
    if is_list { write_list(cores.map(CoreId::index), out) } else { write_mask(cpu, cores, out) }
}

/// `cpuN/topology/*_siblings`, `*_cpus` and lists of them: a core has one thread, and an island is a package.
pub fn write_siblings<M: Machine>(cpu: &Cpu<M>, node: ProcNode, is_list: bool, out: &mut Text<M>) -> Result {
    let Some(core) = CoreId::from_raw(node.tasks_of) else { return Ok(()) };
    let is_of_core = matches!(node.entry, E::ThreadSiblings | E::ThreadSiblingsList | E::CoreCpus | E::CoreCpusList);
    let is_sibling = move |other: &CoreId| {
        *other == core || !is_of_core && other.island() == core.island() && run_queue::is_online(cpu, *other)
    };
    let siblings = Kind::Core.all(cpu).filter(is_sibling);
    if is_list { write_list(siblings.map(CoreId::index), out) } else { write_mask(cpu, siblings, out) }
}

/// `cpuN/isa`, `extensions`, `vector_bytes`, `topology/physical_package_id` and `core_id`: where a core belongs, and what it has that others may lack.
pub fn write_what_it_is<M: Machine>(cpu: &Cpu<M>, node: ProcNode, out: &mut Text<M>) -> Result {
    let Some(core) = CoreId::from_raw(node.tasks_of) else { return Ok(()) };
    match node.entry {
        E::CorePackage => writeln!(out, "{}", core.island().index()),
        E::CoreNumber => writeln!(out, "{}", core.index_in_island()),
        E::CoreIsa => writeln!(out, "{}", cpu.isa_of(core).map_or("", Isa::name)),
        E::CoreVectorBytes => writeln!(out, "{}", core_record(cpu, core).vector_bytes.get()),
        _ => writeln!(out, "{}", ability::of_any_core(cpu, core)),
    }
}

/// `cpuN/online`, `hartN/online`.
pub fn write_is_online<M: Machine>(cpu: &Cpu<M>, node: ProcNode, out: &mut Text<M>) -> Result {
    let it = Kind::of(node).zip(CoreId::from_raw(node.tasks_of));
    let is_online = it.is_some_and(|(kind, core)| kind.is_online(cpu, core));
    writeln!(out, "{}", u32::from(is_online))
}

/// Takes a core or hart out of use, or brings it back.
pub fn set_online<M: Machine>(call: &Call<M>, node: ProcNode, text: &[u8]) -> core::result::Result<(), Stop> {
    let online = match text {
        b"0" => false,
        b"1" => true,
        _ => return Err(Errno::EINVAL.into()),
    };
    let core = CoreId::from_raw(node.tasks_of).ok_or(Errno::ENODEV)?;
    let done = match Kind::of(node) {
        Some(Kind::Core) => hotplug::set_online(call, core, online),
        Some(Kind::Hidden) => hotplug::set_hidden_online(call, core.island(), core.index_in_island(), online),
        None => Err(Errno::ENODEV.into()),
    };
    done.map(|_| ())
}

//! `/sys/devices/system/cpu`: which cores there are, and which are in use, as in Linux's `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/core-api/cpu_hotplug.rst`. Numbers of cores are those of `sched_setaffinity` and `/proc/cpuinfo`.

use core::fmt::{Result, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::CoreId;
use motet_protocol::cores::all_cores;

use super::{Entry as E, ProcNode, ROOT, number, text::Text};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    hotplug,
};

/// `cpuN` of a core.
fn node(core: CoreId) -> ProcNode {
    ProcNode { entry: E::Core, tasks_of: core.index() as u32, ..ROOT }
}

fn core_of(node: ProcNode) -> Option<CoreId> {
    CoreId::from_raw(node.tasks_of)
}

/// The directory of that name, `cpuN`.
pub fn named<M: Machine>(cpu: &Cpu<M>, name: &[u8]) -> Option<ProcNode> {
    let index = number(name.strip_prefix(b"cpu")?)?;
    all_cores(cpu).find(|core| core.index() as u32 == index).map(node)
}

/// The first core from `from` on.
pub fn next<M: Machine>(cpu: &Cpu<M>, from: u32) -> Option<(u32, ProcNode)> {
    all_cores(cpu).find(|core| core.index() as u32 >= from).map(|core| (core.index() as u32, node(core)))
}

/// A set of cores as Linux writes it: ranges with commas between them.
pub fn write_set<M: Machine>(cpu: &Cpu<M>, out: &mut Text<M>, is_in: impl Fn(CoreId) -> bool) -> Result {
    let mut cores = all_cores(cpu).filter(|&core| is_in(core)).map(CoreId::index).peekable();
    let mut separator = "";
    while let Some(first) = cores.next() {
        let mut last = first;
        while let Some(next) = cores.next_if_eq(&(last + 1)) {
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

/// `cpuN/online`.
pub fn write_is_online<M: Machine>(cpu: &Cpu<M>, node: ProcNode, out: &mut Text<M>) -> Result {
    let is_online = core_of(node).is_some_and(|core| hotplug::is_online(cpu, core));
    writeln!(out, "{}", u32::from(is_online))
}

/// Takes a core out of use, or brings it back.
pub fn write_online<M: Machine>(call: &Call<M>, node: ProcNode, text: &[u8]) -> core::result::Result<(), Stop> {
    let online = match text {
        b"0" => false,
        b"1" => true,
        _ => return Err(Errno::EINVAL.into()),
    };
    let core = core_of(node).ok_or(Errno::ENODEV)?;
    hotplug::set_online(call, core, online).map(|_| ())
}

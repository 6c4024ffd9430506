//! The other kernels of a machine in which each island has one of its own (`os = "multikernel"`): they say who they are, and send messages.
//!
//! Protocol page: `docs/protocols/messages.md`. The first core takes messages, each kernel's in the order in which they were sent.

mod lent;
mod outgoing;
mod watch;

pub use lent::{is_on as reads_in_place, read_in_place};
pub use outgoing::{pages_max, post, post_lent, post_pages};
pub use watch::{begin_space, end_space, watch};

use motet_abi::Errno;
use motet_hal::{Interrupts, Machine};
use motet_layout::{CoreId, FINGERPRINT, Isa, NODES_MAX, Peers, TIMER_MESSAGES, handshake::then_look, sync::Ordering};
use motet_protocol::{
    Context, count,
    peer::{
        HEADER_LEN, Header, Malformed, MessageKind, NodeInfo,
        bodies::{Fields, Probe},
        in_turn,
    },
    ring::{Ring, Slot},
    timer,
};

use crate::{alarm, cpu::Cpu};

/// Messages that are taken from each kernel before this core looks what else is due.
const AT_ONCE: u32 = 32;
/// How long a page that has come is left to the threads that have waited for it, in nanoseconds, unless they want the next one before: otherwise other kernels might take it away
/// before a thread has executed the instruction that needs it, again and again.
const HOLD_NS: u64 = 100_000;
/// How long this kernel waits before it looks again for room in a full ring, in nanoseconds.
const ROOM_NS: u64 = 20_000;
/// What is no message, of one kernel: then no more is taken from it.
const REFUSED_MAX: u64 = 16;

/// Whether other kernels have islands of this machine.
#[inline(always)]
pub fn are_there<M: Machine>(cpu: &Cpu<M>) -> bool {
    // Asked at each sleep: the header may be behind a link.
    cpu.islands.has_peers()
}

/// Whether this kernel has a command to run: the first one of the machine does. Hosts of tests may give others one, too.
pub fn has_command<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).node.get() == 0 || cpu.pool.header().command_args.get() != 0
}

/// This kernel's number.
pub fn own_node<M: Machine>(cpu: &Cpu<M>) -> u32 {
    of(cpu).node.get()
}

/// Another kernel whose cores have this instruction set.
pub fn of_isa<M: Machine>(cpu: &Cpu<M>, isa: Isa) -> Option<u32> {
    let record = of(cpu);
    others(record).find(|&node| isa_of(cpu, node) == Some(isa))
}

/// The instruction set of a kernel's cores, if it has said so.
pub fn isa_of<M: Machine>(cpu: &Cpu<M>, node: u32) -> Option<Isa> {
    if node == own_node(cpu) {
        return Some(M::ISA);
    }
    Isa::from_raw(of(cpu).isas.get(node as usize)?.load(Ordering::Relaxed))
}

/// The record of this kernel's peers.
pub fn of<M: Machine>(cpu: &Cpu<M>) -> &'static Peers {
    &cpu.pool.header().peers
}

/// Tells all peers who this kernel is.
pub fn introduce<M: Machine>(cpu: &Cpu<M>) {
    lent::begin(cpu);
    let info = NodeInfo { isa: M::ISA, fingerprint: FINGERPRINT }.body();
    for node in others(of(cpu)) {
        if let Err(errno) = post(cpu, node, &info) {
            cpu.log(format_args!("kernel {node} cannot be sent anything: {}", errno.name()));
        }
    }
}

/// Sends a probe, whose receiver wants these numbers in their order, from 0. For tests: `/dev/probe` alone calls it.
///
/// # Errors
/// `EAGAIN`: others have to go first; otherwise as [`post`].
pub fn probe<M: Machine>(cpu: &Cpu<M>, node: u32, number: u64) -> Result<(), Errno> {
    if outgoing::has_waiting(cpu, node) {
        return Err(Errno::EAGAIN);
    }
    post(cpu, node, &Probe { number: number.into() })
}

/// Whether all peers have said who they are.
pub fn are_known<M: Machine>(cpu: &Cpu<M>) -> bool {
    let record = of(cpu);
    let known = record.known.load(Ordering::Acquire);
    others(record).all(|node| known & 1 << node != 0)
}

/// The first core was rung, or has left messages before: takes some of each kernel's in turn. If more are there, the core comes back for them.
#[cold]
pub fn take_messages<M: Machine>(cpu: &Cpu<M>, acts: &impl Acts<M>) {
    if cpu.id.index() != 0 {
        return;
    }
    let record = of(cpu);
    let count = record.count.get().clamp(1, NODES_MAX as u32);
    in_turn(record.node.get(), count, record.taken_from.get()).for_each(|node| take_from(cpu, node, acts));
    lent::collect(cpu, None);
    let is_left = outgoing::send_kept(cpu);
    // First this, and then the look: who ends the hold meanwhile rings.
    record.is_put_off.store(1, Ordering::Release);
    then_look();
    let held_until_ns = held_until_ns(cpu);
    if held_until_ns.is_none() {
        record.is_put_off.store(0, Ordering::Release);
    }
    let has_more = |node| ring_from(cpu, record, node).is_some_and(|ring| has_more(record, ring));
    if held_until_ns.is_none() && others(record).any(has_more) {
        cpu.ring(cpu.id);
    }
    let again_ns = held_until_ns.or_else(|| is_left.then(|| cpu.now_ns() + ROOM_NS));
    look_at(cpu, again_ns);
}

/// The first core looks at the rings at that time, too.
fn look_at<M: Machine>(cpu: &Cpu<M>, again_ns: Option<u64>) {
    let look = &of(cpu).look;
    timer::disarm(cpu, look);
    if let Some(again_ns) = again_ns {
        look.kind.set(TIMER_MESSAGES);
        timer::arm(cpu, look, again_ns);
        alarm::set_timer(cpu, again_ns);
    }
}

/// A page has come, and threads that have waited for it go on: they use it before other kernels' messages are acted on.
pub fn hold<M: Machine>(cpu: &Cpu<M>) {
    of(cpu).held_until_ns.store(cpu.now_ns() + HOLD_NS, Ordering::Relaxed);
}

/// A thread has come further: it wants something of another kernel.
#[inline]
pub fn hold_no_longer<M: Machine>(cpu: &Cpu<M>) {
    let record = of(cpu);
    record.held_until_ns.store(0, Ordering::Release);
    then_look();
    if record.is_put_off.load(Ordering::Relaxed) != 0 && record.is_put_off.swap(0, Ordering::AcqRel) != 0 {
        if cpu.id.index_in_island() == 0 {
            cpu.due.defer(Interrupts::DOORBELL);
        } else {
            cpu.ring(CoreId::new(cpu.island(), 0));
        }
    }
}

/// Until when no message is to be taken, if that is not over.
fn held_until_ns<M: Machine>(cpu: &Cpu<M>) -> Option<u64> {
    let held_until_ns = of(cpu).held_until_ns.load(Ordering::Relaxed);
    (held_until_ns != 0 && held_until_ns > cpu.now_ns()).then_some(held_until_ns)
}

/// Whether a kernel's ring is to be looked at once more, without being rung.
fn has_more(record: &Peers, ring: Ring) -> bool {
    if record.coalesces.get() == 0 { ring.has_message() } else { !ring.fall_asleep() }
}

/// The numbers of the other kernels: a mask of nodes has a bit for each.
fn others(record: &Peers) -> impl Iterator<Item = u32> + use<> {
    let (own, count) = (record.node.get(), record.count.get().min(NODES_MAX as u32));
    (0..count).filter(move |&node| node != own)
}

/// The ring of a kernel that sends messages.
fn ring_from<M: Machine>(cpu: &Cpu<M>, record: &'static Peers, node: u32) -> Option<Ring> {
    let is_broken = record.broken.load(Ordering::Relaxed) & 1 << node != 0;
    if is_broken { None } else { Ring::from_node(cpu.machine.windows(), record, node) }
}

/// What this kernel does for the messages of others. It sends by [`post`], which never waits, and takes none.
pub trait Acts<M: Machine> {
    /// Acts on a message of `node`, which lies in `slot`.
    ///
    /// # Errors
    /// It says what cannot be.
    fn act(&self, cpu: &Cpu<M>, node: u32, header: Header, slot: Slot) -> Result<(), Malformed>;
}

/// What follows the header of the message in a slot: copied, as the sender may still write there.
pub fn body<B: Fields>(slot: Slot) -> B {
    let mut body = B::zeroed();
    slot.read(HEADER_LEN, body.bytes_mut());
    body
}

/// Takes some of what a kernel has sent.
fn take_from<M: Machine>(cpu: &Cpu<M>, node: u32, acts: &impl Acts<M>) {
    let record = of(cpu);
    let Some(ring) = ring_from(cpu, record, node) else { return };
    for _ in 0..AT_ONCE {
        if held_until_ns(cpu).is_some() {
            return;
        }
        match ring.take(|slot| take(cpu, node, slot, acts)) {
            None => return,
            Some(Ok(())) => {}
            // Whoever sends too much that is none is not listened to any more.
            Some(Err(why)) if refuse(cpu, node, why) => return,
            Some(Err(_)) => {}
        }
        record.taken_from.set(node);
        cpu.relax();
    }
}

fn take<M: Machine>(cpu: &Cpu<M>, node: u32, slot: Slot, acts: &impl Acts<M>) -> Result<(), Malformed> {
    let record = of(cpu);
    let mut bytes = [0; HEADER_LEN];
    slot.read(0, &mut bytes);
    let header = Header::read(bytes, node as u8)?;
    let kind = header.kind;
    if kind == MessageKind::NodeInfo {
        know(record, node, &NodeInfo::read(&body(slot))?)?;
    } else if kind == MessageKind::Probe {
        count_probe(record, node, body::<Probe>(slot).number.get())?;
    } else if record.known.load(Ordering::Relaxed) & 1 << node == 0 {
        return Err(Malformed::Unasked);
    } else {
        acts.act(cpu, node, header, slot)?;
    }
    count(&record.taken[kind as usize]);
    record.bytes_taken.fetch_add(header.message_len(), Ordering::Relaxed);
    Ok(())
}

/// A probe has come.
fn count_probe(record: &Peers, node: u32, number: u64) -> Result<(), Malformed> {
    let next = &record.probes[node as usize % NODES_MAX];
    if number != next.load(Ordering::Relaxed) {
        return Err(Malformed::Order(number));
    }
    count(next);
    Ok(())
}

/// A kernel has said who it is.
fn know(record: &Peers, node: u32, info: &NodeInfo) -> Result<(), Malformed> {
    if info.fingerprint != FINGERPRINT {
        return Err(Malformed::Fingerprint(info.fingerprint));
    }
    if record.known.load(Ordering::Relaxed) & 1 << node == 0 {
        record.isas[node as usize % NODES_MAX].store(info.isa as u32, Ordering::Relaxed);
    }
    if record.known.fetch_or(1 << node, Ordering::AcqRel) & 1 << node != 0 {
        return Err(Malformed::Again);
    }
    Ok(())
}

/// A kernel has sent what is no message. `true`: no more is taken from it.
#[cold]
fn refuse<M: Machine>(cpu: &Cpu<M>, node: u32, why: Malformed) -> bool {
    let record = of(cpu);
    if matches!(why, Malformed::NoMemory) {
        // That is not its fault.
        cpu.log(format_args!("a page of kernel {node} is lost: there is no memory"));
        return false;
    }
    let refused = record.refused[node as usize % NODES_MAX].fetch_add(1, Ordering::Relaxed) + 1;
    if refused == 1 {
        cpu.log(format_args!("kernel {node} has sent what is no message: {why:?}"));
    }
    if refused == REFUSED_MAX {
        record.broken.fetch_or(1 << node, Ordering::Relaxed);
        cpu.log(format_args!("kernel {node} has sent {REFUSED_MAX} such messages: no more are taken from it"));
    }
    refused >= REFUSED_MAX
}

//! The other kernels of a machine in which each island has one of its own (`os = "multikernel"`): they say who they are, and send messages.
//!
//! Protocol page: `docs/protocols/messages.md`. The first core takes messages, each kernel's in the order in which they were sent. What acts on a message
//! sends none: it would wait for room while nobody makes any.

use motet_hal::{Interrupts, Machine};
use motet_layout::{FINGERPRINT, NODES_MAX, Peers, sync::Ordering};
use motet_protocol::{
    Context, count,
    peer::{HEADER_LEN, Header, MESSAGE_LEN_MAX, Malformed, MessageKind, NodeInfo, bell_of},
    ring::{Ring, Slot, Unsent},
};

use crate::{alarm, cpu::Cpu};

/// Messages that are taken from each kernel before this core looks what else is due.
const AT_ONCE: u32 = 32;
/// What is no message, of one kernel: then no more is taken from it.
const REFUSED_MAX: u64 = 16;
/// Longest wait for room in a ring, in nanoseconds: a kernel that takes nothing for so long does not work.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Whether other kernels have islands of this machine.
#[inline(always)]
pub fn are_there<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).count.get() > 1
}

/// Whether this kernel has a command to run: the first one of the machine does. Hosts of tests may give others one, too.
pub fn has_command<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).node.get() == 0 || cpu.pool.header().command_args.get() != 0
}

/// The record of this kernel's peers.
pub fn of<M: Machine>(cpu: &Cpu<M>) -> &'static Peers {
    &cpu.pool.header().peers
}

/// Tells all peers who this kernel is.
pub fn introduce<M: Machine>(cpu: &Cpu<M>) {
    let info = NodeInfo { isa: M::ISA, fingerprint: FINGERPRINT }.to_bytes();
    for node in others(of(cpu)) {
        if let Err(why) = send(cpu, node, MessageKind::NodeInfo, &info) {
            cpu.log(format_args!("kernel {node} cannot be sent anything: {why:?}"));
        }
    }
}

/// Sends a probe, whose receiver wants these numbers in their order, from 0. For tests: `/dev/probe` alone calls it.
///
/// # Errors
/// As [`send`].
pub fn probe<M: Machine>(cpu: &Cpu<M>, node: u32, number: u64) -> Result<(), Unsent> {
    send(cpu, node, MessageKind::Probe, &number.to_le_bytes())
}

/// Whether all peers have said who they are.
pub fn are_known<M: Machine>(cpu: &Cpu<M>) -> bool {
    let record = of(cpu);
    let known = record.known.load(Ordering::Acquire);
    others(record).all(|node| known & 1 << node != 0)
}

/// The first core was rung, or has left messages before: takes some of each kernel's in turn. If more are there, the core comes back for them.
#[cold]
pub fn take_messages<M: Machine>(cpu: &Cpu<M>) {
    if cpu.id.index() != 0 {
        return;
    }
    let record = of(cpu);
    others(record).for_each(|node| take_from(cpu, node));
    let has_more = |node| ring_from(cpu, record, node).is_some_and(|ring| has_more(record, ring));
    if others(record).any(has_more) {
        cpu.due.defer(Interrupts::DOORBELL);
        alarm::set_timer(cpu, cpu.now_ns());
    }
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

/// Sends a message, of which `body` follows the header. While there is no room, this core takes what has come.
///
/// # Errors
/// The other kernel takes nothing, or has written what cannot be.
fn send<M: Machine>(cpu: &Cpu<M>, node: u32, kind: MessageKind, body: &[u8]) -> Result<(), Unsent> {
    let record = of(cpu);
    let ring = Ring::to(cpu.machine.windows(), record, node).ok_or(Unsent::Broken)?;
    let header = Header { node: record.node.get() as u8, kind }.to_bytes();
    let write = |slot: Slot| {
        slot.write(0, &header);
        slot.write(HEADER_LEN, body);
    };
    let since_ns = cpu.now_ns();
    loop {
        match ring.send(write) {
            Ok(()) => break,
            Err(Unsent::Full) if cpu.now_ns() - since_ns < PATIENCE_NS => {
                take_messages(cpu);
                cpu.relax();
            }
            Err(why) => return Err(why),
        }
    }
    count(&record.sent[kind as usize]);
    record.bytes_sent.fetch_add(kind.message_len() as u64, Ordering::Relaxed);
    if record.coalesces.get() == 0 || ring.take_asleep() {
        count(&record.doorbells);
        cpu.ring(bell_of(record.node.get(), node));
    }
    Ok(())
}

/// Takes some of what a kernel has sent.
fn take_from<M: Machine>(cpu: &Cpu<M>, node: u32) {
    let record = of(cpu);
    let Some(ring) = ring_from(cpu, record, node) else { return };
    let mut bytes = [0; MESSAGE_LEN_MAX];
    for _ in 0..AT_ONCE {
        if ring.take(|slot| slot.read(0, &mut bytes)).is_none() {
            return;
        }
        if let Err(why) = act_on(cpu, node, &bytes)
            && !refuse(cpu, node, why)
        {
            return;
        }
        cpu.relax();
    }
}

/// A kernel has sent what is no message. Whether more is taken from it.
fn refuse<M: Machine>(cpu: &Cpu<M>, node: u32, why: Malformed) -> bool {
    let record = of(cpu);
    let refused = record.refused[node as usize % NODES_MAX].fetch_add(1, Ordering::Relaxed) + 1;
    if refused == 1 {
        cpu.log(format_args!("kernel {node} has sent what is no message: {why:?}"));
    }
    if refused == REFUSED_MAX {
        record.broken.fetch_or(1 << node, Ordering::Relaxed);
        cpu.log(format_args!("kernel {node} has sent {REFUSED_MAX} such messages: no more are taken from it"));
    }
    refused < REFUSED_MAX
}

fn act_on<M: Machine>(cpu: &Cpu<M>, node: u32, bytes: &[u8; MESSAGE_LEN_MAX]) -> Result<(), Malformed> {
    let record = of(cpu);
    let (header, body) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Len(0))?;
    let header = Header::read(*header, node as u8)?;
    match header.kind {
        MessageKind::NodeInfo => {
            let info = NodeInfo::read(*body.first_chunk().ok_or(Malformed::Len(0))?)?;
            if info.fingerprint != FINGERPRINT {
                return Err(Malformed::Fingerprint(info.fingerprint));
            }
            if record.known.fetch_or(1 << node, Ordering::AcqRel) & 1 << node != 0 {
                return Err(Malformed::Again);
            }
        }
        MessageKind::Probe => {
            let number = u64::from_le_bytes(*body.first_chunk().ok_or(Malformed::Len(0))?);
            let next = &record.probes[node as usize % NODES_MAX];
            if number != next.load(Ordering::Relaxed) {
                return Err(Malformed::Order(number));
            }
            count(next);
        }
    }
    count(&record.taken[header.kind as usize]);
    record.bytes_taken.fetch_add(header.kind.message_len() as u64, Ordering::Relaxed);
    Ok(())
}

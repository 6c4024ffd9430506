//! The other kernels of a machine in which each island has one of its own (`os = "multikernel"`): they say who they are, and send messages.
//!
//! Protocol page: `docs/protocols/messages.md`. One core at a time takes messages, each kernel's in the order in which they were sent.

use motet_hal::Machine;
use motet_layout::{FINGERPRINT, NODES_MAX, Peers, sync::Ordering};
use motet_protocol::{
    Context, count,
    peer::{HEADER_LEN, Header, Malformed, MessageKind, NodeInfo, bell_of},
    ring::Ring,
};

use crate::cpu::Cpu;

/// Whether other kernels have islands of this machine.
#[inline(always)]
pub fn are_there<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).count.get() > 1
}

/// Whether this is the kernel that runs the machine's command.
pub fn is_first<M: Machine>(cpu: &Cpu<M>) -> bool {
    of(cpu).node.get() == 0
}

/// The record of this kernel's peers.
pub fn of<M: Machine>(cpu: &Cpu<M>) -> &'static Peers {
    &cpu.pool.header().peers
}

/// Tells all peers who this kernel is.
pub fn introduce<M: Machine>(cpu: &Cpu<M>) {
    let info = NodeInfo { isa: M::ISA, fingerprint: FINGERPRINT }.to_bytes();
    for node in others(of(cpu)) {
        send(cpu, node, MessageKind::NodeInfo, &info);
    }
}

/// Whether all peers have said who they are.
pub fn are_known<M: Machine>(cpu: &Cpu<M>) -> bool {
    let record = of(cpu);
    let known = record.known.load(Ordering::Acquire);
    others(record).all(|node| known & 1 << node != 0)
}

/// This core was rung: takes the messages that have come.
#[cold]
pub fn take_messages<M: Machine>(cpu: &Cpu<M>) {
    let record = of(cpu);
    // Who finds another core there has been rung for messages that this one may have looked for too early.
    while record.taking.swap(1, Ordering::AcqRel) == 0 {
        others(record).for_each(|node| take_from(cpu, node));
        record.taking.store(0, Ordering::Release);
        if !others(record).any(|node| Ring::from(cpu.pool, record, node).is_some_and(|ring| !ring.wait_for_message())) {
            return;
        }
    }
}

/// The numbers of the other kernels.
fn others(record: &Peers) -> impl Iterator<Item = u32> + use<> {
    let (own, count) = (record.node.get(), record.count.get().min(NODES_MAX as u32));
    (0..count).filter(move |&node| node != own)
}

/// Sends a message, of which `body` follows the header. While there is no room, this core takes what has come.
fn send<M: Machine>(cpu: &Cpu<M>, node: u32, kind: MessageKind, body: &[u8]) {
    let record = of(cpu);
    let Some(ring) = Ring::to(cpu.pool, record, node) else { return };
    let header = Header { node: record.node.get() as u8, kind }.to_bytes();
    while ring
        .send(|slot| {
            cpu.pool.write(slot, &header);
            cpu.pool.write(slot.add(HEADER_LEN as u64), body);
        })
        .is_err()
    {
        take_messages(cpu);
        cpu.relax();
    }
    count(&record.sent[kind as usize]);
    record.bytes_sent.fetch_add(kind.len() as u64, Ordering::Relaxed);
    if record.coalesces.get() == 0 || ring.is_asleep() {
        ring_kernel(cpu, node);
    }
}

fn ring_kernel<M: Machine>(cpu: &Cpu<M>, node: u32) {
    count(&of(cpu).doorbells);
    cpu.ring(bell_of(of(cpu).node.get(), node));
}

/// Takes all that a kernel has sent.
fn take_from<M: Machine>(cpu: &Cpu<M>, node: u32) {
    let record = of(cpu);
    let Some(ring) = Ring::from(cpu.pool, record, node) else { return };
    let mut bytes = [0; MessageKind::NodeInfo.len()];
    while ring.take(|slot| cpu.pool.read(slot, &mut bytes)).is_some() {
        if let Err(why) = act_on(cpu, node, &bytes) {
            count(&record.refused);
            cpu.log(format_args!("kernel {node} has sent what is no message: {why:?}"));
        }
        if ring.is_awaited() {
            ring_kernel(cpu, node);
        }
    }
}

fn act_on<M: Machine>(cpu: &Cpu<M>, node: u32, bytes: &[u8; MessageKind::NodeInfo.len()]) -> Result<(), Malformed> {
    let record = of(cpu);
    let (header, body) = bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Len(0))?;
    let header = Header::read(*header, node as u8)?;
    match header.kind {
        MessageKind::NodeInfo => {
            let info = NodeInfo::read(body.try_into().map_err(|_| Malformed::Len(body.len() as u64))?)?;
            if info.fingerprint != FINGERPRINT {
                return Err(Malformed::Fingerprint(info.fingerprint));
            }
            record.known.fetch_or(1 << node, Ordering::AcqRel);
        }
    }
    count(&record.taken[header.kind as usize]);
    record.bytes_taken.fetch_add(header.kind.len() as u64, Ordering::Relaxed);
    Ok(())
}

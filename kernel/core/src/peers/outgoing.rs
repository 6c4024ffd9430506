//! Messages go out. Nobody waits for room: a message that its ring has no room for is kept in this kernel's memory, and goes later.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{CoreId, Frame, OUTGOING_MAX, OutgoingRecord, PAGE_SIZE, Peers, sync::Ordering};
use motet_protocol::{
    Context, count,
    lock::lock,
    memory::{alloc_frame_on, release_frame},
    peer::{HEADER_LEN, Header, MessageKind, bell_of, bodies::Body},
    ring::{Ring, Unsent},
    slab,
};

use super::{of, others};
use crate::cpu::Cpu;

/// Longest wait for room in a ring, in nanoseconds: a kernel that takes nothing for so long does not work.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Sends a message. It never waits: if the ring is full, the message goes later, in its order.
///
/// # Errors
/// `EIO`: the other kernel has written what cannot be; `ENOMEM`: the ring is full, and there is no memory to keep the message.
pub fn post<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B) -> Result<(), Errno> {
    post_with(cpu, node, body, None)
}

/// As [`post`]; a page follows.
///
/// # Errors
/// As for [`post`].
pub fn post_page<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B, page: Frame) -> Result<(), Errno> {
    post_with(cpu, node, body, Some(page))
}

fn post_with<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B, page: Option<Frame>) -> Result<(), Errno> {
    let record = of(cpu);
    let header = Header { node: record.node.get() as u8, kind: B::KIND }.to_bytes();
    let is_broken = record.broken.load(Ordering::Relaxed).checked_shr(node).is_none_or(|broken| broken & 1 != 0);
    if is_broken || record.outgoing.len() <= node as usize {
        return Err(Errno::EIO);
    }
    if !has_waiting(cpu, node) {
        let ring = Ring::to(cpu.machine.windows(), record, node).ok_or(Errno::EIO)?;
        let sent = ring.send(|slot| {
            slot.write(0, &header);
            slot.write(HEADER_LEN, body.bytes());
            if let Some(page) = page {
                slot.write_page(HEADER_LEN + size_of::<B>(), cpu.pool, page);
            }
        });
        match sent {
            Ok(()) => {
                has_sent(cpu, ring, node, B::KIND);
                return Ok(());
            }
            Err(Unsent::Broken) => {
                is_lost(cpu, node, "has broken its ring");
                return Err(Errno::EIO);
            }
            Err(Unsent::Full) => {}
        }
    }
    const { assert!(HEADER_LEN + size_of::<B>() <= OUTGOING_MAX) };
    keep(cpu, node, [&header, body.bytes()], page)
}

/// Whether messages to a kernel wait for room.
pub fn has_waiting<M: Machine>(cpu: &Cpu<M>, node: u32) -> bool {
    of(cpu).outgoing.get(node as usize).is_some_and(|first| first.load(Ordering::Acquire) != 0)
}

/// A message was written: counts it, and rings its receiver.
fn has_sent<M: Machine>(cpu: &Cpu<M>, ring: Ring, node: u32, kind: MessageKind) {
    let record = of(cpu);
    count(&record.sent[kind as usize]);
    record.bytes_sent.fetch_add(kind.message_len() as u64, Ordering::Relaxed);
    if record.coalesces.get() == 0 || ring.take_asleep() {
        count(&record.doorbells);
        cpu.ring(bell_of(record.node.get(), node));
    }
}

/// From now on nothing is sent to a kernel, and the first core lets go of it ([`watch`](super::watch)).
#[cold]
fn is_lost<M: Machine>(cpu: &Cpu<M>, node: u32, why: &str) {
    if of(cpu).broken.fetch_or(1 << node, Ordering::Relaxed) & 1 << node == 0 {
        cpu.log(format_args!("kernel {node} {why}: no more is sent to it"));
        cpu.ring(CoreId::new(cpu.island(), 0));
    }
}

/// Keeps a message, of a header and a body, until there is room for it.
#[cold]
#[inline(never)]
fn keep<M: Machine>(cpu: &Cpu<M>, node: u32, [header, body]: [&[u8]; 2], page: Option<Frame>) -> Result<(), Errno> {
    let record = of(cpu);
    let kept = slab::alloc::<OutgoingRecord>(cpu).ok_or(Errno::ENOMEM)?;
    if let Some(page) = page {
        // As it is now.
        let Some(copy) = alloc_frame_on(cpu, cpu.memory_index()) else {
            slab::free(cpu, kept);
            return Err(Errno::ENOMEM);
        };
        cpu.pool.copy(page.addr(), copy.addr(), PAGE_SIZE as usize);
        kept.page.set(copy.0);
    }
    let at = cpu.pool.addr_of(&kept.bytes);
    cpu.pool.write(at, header);
    cpu.pool.write(at.add(header.len() as u64), body);
    kept.len.set((header.len() + body.len()) as u32);
    let guard = lock(cpu, &record.outgoing_lock);
    let (first, last) = (&record.outgoing[node as usize], &record.outgoing_last[node as usize]);
    match cpu.object::<OutgoingRecord>(last.get()).filter(|_| first.load(Ordering::Relaxed) != 0) {
        Some(before) => before.next.set(cpu.raw(kept)),
        None => {
            record.full_since_ns[node as usize].set(cpu.now_ns());
            first.store(cpu.raw(kept), Ordering::Release);
        }
    }
    last.set(cpu.raw(kept));
    drop(guard);
    // The first core looks for room from now on.
    cpu.ring(CoreId::new(cpu.island(), 0));
    Ok(())
}

/// The first core: sends what was kept, as far as there is room. `true`: some is left.
pub fn send_kept<M: Machine>(cpu: &Cpu<M>) -> bool {
    let record = of(cpu);
    others(record).filter(|&node| record.outgoing[node as usize].load(Ordering::Acquire) != 0).fold(
        false,
        |is_left, node| {
            let _guard = lock(cpu, &record.outgoing_lock);
            is_left | !send_to(cpu, record, node)
        },
    )
}

/// `true`: nothing is left for this kernel. The list's lock is held.
fn send_to<M: Machine>(cpu: &Cpu<M>, record: &'static Peers, node: u32) -> bool {
    let first = &record.outgoing[node as usize];
    let Some(ring) = Ring::to(cpu.machine.windows(), record, node) else { return true };
    while let Some(kept) = cpu.object::<OutgoingRecord>(first.load(Ordering::Relaxed)) {
        let mut bytes = [0; OUTGOING_MAX];
        let len = (kept.len.get() as usize).min(OUTGOING_MAX);
        cpu.pool.read(cpu.pool.addr_of(&kept.bytes), &mut bytes[..len]);
        let page = Some(Frame(kept.page.get())).filter(|page| !page.is_none());
        let send = || {
            ring.send(|slot| {
                slot.write(0, &bytes[..len]);
                if let Some(page) = page {
                    slot.write_page(len, cpu.pool, page);
                }
            })
        };
        // What was kept for a kernel that is lost is sent no more.
        let is_there = record.broken.load(Ordering::Relaxed) & 1 << node == 0;
        let sent = if is_there { send() } else { Err(Unsent::Broken) };
        let full_since_ns = &record.full_since_ns[node as usize];
        if sent == Err(Unsent::Full) {
            if cpu.now_ns() - full_since_ns.get() < PATIENCE_NS {
                return false;
            }
            is_lost(cpu, node, "takes nothing");
        } else if sent == Err(Unsent::Broken) {
            is_lost(cpu, node, "has broken its ring");
        }
        full_since_ns.set(cpu.now_ns());
        if sent.is_ok()
            && let Some(kind) = MessageKind::from_raw(bytes[1])
        {
            has_sent(cpu, ring, node, kind);
        }
        if let Some(page) = page {
            release_frame(cpu, page);
        }
        first.store(kept.next.get(), Ordering::Release);
        slab::free(cpu, kept);
    }
    true
}

//! Messages go out. Nobody waits for room: a message that its ring has no room for is kept in this kernel's memory, and goes later.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{CoreId, Frame, OUTGOING_MAX, OutgoingRecord, PAGE_SIZE, PAGES_MAX, Peers, sync::Ordering};
use motet_protocol::{
    Context, count,
    lock::lock,
    memory::{alloc_frame_on, release_frame, share_frame},
    peer::{HEADER_LEN, Header, MessageKind, bell_of, bodies::Body},
    ring::{Ring, Slot, Unsent},
    slab,
};

use super::{lent, of, others};
use crate::cpu::Cpu;

/// Longest wait for room in a ring, in nanoseconds: a kernel that takes nothing for so long does not work.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Sends a message. It never waits: if the ring is full, the message goes later, in its order.
///
/// # Errors
/// `EIO`: the other kernel has written what cannot be; `ENOMEM`: the ring is full, and there is no memory to keep the message.
pub fn post<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B) -> Result<(), Errno> {
    post_pages(cpu, node, body, &[])
}

/// As [`post`]; pages follow, of which there is room for [`pages_max`] in a slot.
///
/// # Errors
/// As for [`post`].
pub fn post_pages<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B, pages: &[Frame]) -> Result<(), Errno> {
    post_with(cpu, node, body, pages, false)
}

/// As [`post`]; the message says where these pages are, which are kept until it is taken.
///
/// # Errors
/// As for [`post`].
pub fn post_lent<M: Machine, B: Body>(cpu: &Cpu<M>, node: u32, body: &B, pages: &[Frame]) -> Result<(), Errno> {
    post_with(cpu, node, body, pages, true)
}

fn post_with<M: Machine, B: Body>(
    cpu: &Cpu<M>,
    node: u32,
    body: &B,
    pages: &[Frame],
    lends: bool,
) -> Result<(), Errno> {
    let record = of(cpu);
    let more = if lends { 0 } else { pages.len() - usize::from(B::HAS_PAGE) };
    let header = Header { node: record.node.get() as u8, kind: B::KIND, pages: more as u32 };
    let header_bytes = header.to_bytes();
    let is_broken = record.broken.load(Ordering::Relaxed).checked_shr(node).is_none_or(|broken| broken & 1 != 0);
    if is_broken || record.outgoing.len() <= node as usize {
        return Err(Errno::EIO);
    }
    if !has_waiting(cpu, node) {
        let ring = Ring::to(cpu.machine.windows(), record, node).ok_or(Errno::EIO)?;
        let write = |slot: Slot| {
            slot.write(0, &header_bytes);
            slot.write(HEADER_LEN, body.bytes());
            if !lends {
                write_pages(cpu, slot, HEADER_LEN + size_of::<B>(), pages);
            }
        };
        let sent = if lends {
            let _guard = lock(cpu, &record.outgoing_lock);
            lent::send(cpu, (ring, node), pages, write)
        } else {
            ring.send(write)
        };
        match sent {
            Ok(()) => {
                has_sent(cpu, ring, node, header);
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
    keep(cpu, node, [&header_bytes, body.bytes()], (pages, lends))
}

/// How many pages a message of a kind has room for in a slot.
pub fn pages_max<M: Machine>(cpu: &Cpu<M>, kind: MessageKind) -> usize {
    let room = u64::from(of(cpu).slot_len.get()).saturating_sub(kind.message_len() as u64);
    ((room / PAGE_SIZE) as usize).min(PAGES_MAX)
}

fn write_pages<M: Machine>(cpu: &Cpu<M>, slot: Slot, mut offset: usize, pages: &[Frame]) {
    for &page in pages {
        slot.write_page(offset, cpu.pool, page);
        offset += PAGE_SIZE as usize;
    }
}

/// Whether messages to a kernel wait for room.
pub fn has_waiting<M: Machine>(cpu: &Cpu<M>, node: u32) -> bool {
    of(cpu).outgoing.get(node as usize).is_some_and(|first| first.load(Ordering::Acquire) != 0)
}

/// A message was written: counts it, and rings its receiver.
fn has_sent<M: Machine>(cpu: &Cpu<M>, ring: Ring, node: u32, header: Header) {
    let record = of(cpu);
    count(&record.sent[header.kind as usize]);
    record.bytes_sent.fetch_add(header.message_len(), Ordering::Relaxed);
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
fn keep<M: Machine>(
    cpu: &Cpu<M>,
    node: u32,
    [header, body]: [&[u8]; 2],
    (pages, lends): (&[Frame], bool),
) -> Result<(), Errno> {
    let record = of(cpu);
    let kept = slab::alloc::<OutgoingRecord>(cpu).ok_or(Errno::ENOMEM)?;
    kept.lends.set(lends.into());
    for (&page, copied) in pages.iter().zip(&kept.pages) {
        if lends {
            share_frame(cpu, page);
            copied.set(page.0);
            continue;
        }
        // As it is now.
        let Some(copy) = alloc_frame_on(cpu, cpu.memory_index()) else {
            release(cpu, kept);
            return Err(Errno::ENOMEM);
        };
        cpu.pool.copy(page.addr(), copy.addr(), PAGE_SIZE as usize);
        copied.set(copy.0);
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

/// Pages that follow a message that was kept.
fn pages_of(kept: &OutgoingRecord) -> ([Frame; PAGES_MAX], usize) {
    let pages = kept.pages.each_ref().map(|page| Frame(page.get()));
    (pages, pages.iter().take_while(|page| !page.is_none()).count())
}

/// Frees a message that was kept, and its pages.
fn release<M: Machine>(cpu: &Cpu<M>, kept: &'static OutgoingRecord) {
    let (pages, count) = pages_of(kept);
    pages[..count].iter().for_each(|&page| release_frame(cpu, page));
    slab::free(cpu, kept);
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
        let (pages, count) = pages_of(kept);
        let send = || {
            if kept.lends.get() != 0 {
                return lent::send(cpu, (ring, node), &pages[..count], |slot| slot.write(0, &bytes[..len]));
            }
            ring.send(|slot| {
                slot.write(0, &bytes[..len]);
                write_pages(cpu, slot, len, &pages[..count]);
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
            && let Some(header) = bytes.first_chunk()
            && let Ok(header) = Header::read(*header, record.node.get() as u8)
        {
            has_sent(cpu, ring, node, header);
        }
        first.store(kept.next.get(), Ordering::Release);
        release(cpu, kept);
    }
    true
}

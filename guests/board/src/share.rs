//! The first area of memory that this machine shares with others, and its doorbells (docs/vms.md). Only virtual machines that were told so have one.

use core::{
    ptr,
    sync::atomic::{Ordering, fence},
};

use crate::isa;

/// Its number at the interrupt controller: the line is high while somebody has rung.
pub const INTERRUPT: u32 = isa::SHARE_INTERRUPT;
/// 32-bit words of it that are used here: a page.
pub const WORDS: usize = 1024;

const ID: usize = 0;
const RUNG: usize = 4;
const RING: usize = 8;
const BEGUN: usize = 12;

/// The number of this machine among its peers.
#[must_use]
pub fn id() -> u32 {
    register(ID)
}

/// The peers that have rung since this was asked last, a bit each.
#[must_use]
pub fn rung() -> u32 {
    let rung = register(RUNG);
    fence(Ordering::Acquire);
    rung
}

/// The peers that have begun, or begun again, since this was asked last, a bit each.
#[must_use]
pub fn begun() -> u32 {
    register(BEGUN)
}

/// Rings a peer.
pub fn ring(peer: u32) {
    fence(Ordering::Release);
    // SAFETY: the registers of the area, which is this crate's.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(isa::SHARE_REGISTERS + RING).write_volatile(peer) };
}

/// A word of the memory.
#[must_use]
pub fn load(index: usize) -> u32 {
    // SAFETY: as above; whatever others store is a number.
    unsafe { word(index).read_volatile() }
}

/// Changes a word of the memory.
pub fn store(index: usize, value: u32) {
    // SAFETY: as above.
    unsafe { word(index).write_volatile(value) };
}

fn word(index: usize) -> *mut u32 {
    assert!(index < WORDS);
    ptr::with_exposed_provenance_mut(isa::SHARE_MEMORY + 4 * index)
}

fn register(offset: usize) -> u32 {
    // SAFETY: as above.
    unsafe { ptr::with_exposed_provenance_mut::<u32>(isa::SHARE_REGISTERS + offset).read_volatile() }
}

//! Page-table formats of all ISAs, and one walker: the "remote CPU driver" of Stramash (§5, §6.4) for every ISA and
//! every level.
//!
//! x86-64 4-level, AArch64 4 KiB / 48-bit and RISC-V Sv48 tables have the same geometry (four levels of nine bits); only
//! the entries differ. A [`Format`] is therefore plain data and code that every kernel is compiled with, and a [`Table`]
//! is any island's page table as any kernel (or the host, or a test) sees it in the pool: `pool + root + format + map`.
//!
//! Tables of the second stage ([`Stage2`]), which translate what a guest takes for physical addresses, go by the same walker. They may have
//! fewer levels and a longer root.
//!
//! Invariants:
//! - Tables lie in the pool and hold *local* physical addresses of the island that translates by them ([`PhysMap`]).
//! - Only user and guest pages of 4 KiB are described here; the kernel half of a root (slots 256..511) is never read or written.
//! - Levels are numbered 3 (root) to 0 (the table of pages), as in the RISC-V manual.
//! - Every entry is born with its accessed and dirty bits set, so no hardware ever writes to a table and plain stores
//!   cannot lose an update.
//! - What an edit takes out of a table, pages and tables, belongs to a [`Withdrawal`] until nobody can use it any more.
//! - What an entry holds is an allegation until [`Format::decode`] has accepted it: it is the exact inverse of the
//!   encoder, and everything else is [`Entry::Corrupt`].
//!
//! How kernels share tables while hardware walks them: `docs/protocols/remote-walk.md`.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod aarch64;
mod aarch64_stage2;
mod attr;
mod format;
mod map;
mod stage2;
mod sv48;
mod table;
mod withdraw;
mod x86_64;

pub use attr::Attr;
pub use format::{Entry, Format, Stage};
pub use map::PhysMap;
pub use stage2::Stage2;
pub use table::{Leaf, OutOfFrames, PAGE_ENTRIES, Table, allow_stores_by};
pub use withdraw::{Mapped, Unused, Withdrawal};

/// Bits of user addresses.
const USER_BITS: u32 = 47;
/// Levels of every user table: 3 (root) down to 0.
pub const LEVELS: u8 = 4;
/// Entries in a table page.
pub const ENTRIES: usize = 512;

//! Residency: which page of an address space is where, in the page tables of all islands.
//!
//! Every island that uses a space has a page table of it, in its own format, in the pool. The table of the space's *home*
//! is the authority: each resident page has a leaf there, which holds the reference to its frame. The other islands' tables
//! are caches of it. A fault fills them from the home's table (remote walk), or first enters a page into the home's (remote
//! insertion). Whoever removes pages removes them from all tables, waits for the shoot-down, and then releases them.
//!
//! Nothing else edits page tables of programs. Kernels know VMAs, and decide which page a fault enters where, and whether it may; then they
//! call one of these functions, with the space's lock held:
//!
//! | file | operations |
//! |---|---|
//! | `tables` | roots, [`table`], [`Home`], [`dismantle`] |
//! | `walk` | [`readable`], [`writable`], [`find`]: the one part that needs no lock |
//! | `insert` | [`insert()`], [`fill`], [`break_copy`], [`show`], [`synchronise`] |
//! | `granted` | [`grant`], [`granted()`], [`allow_stores`]: pages that may be stored to at once |
//! | `region` | [`next_region`], [`region_at`]: what is known of 2 MiB |
//! | `replica` | [`replicate`], [`original`]: copies near islands that only read |
//! | `withdraw` | [`unmap`], [`drop_pages`], [`protect`], [`freeze`], [`hide`], [`move_pages`] |
//! | `fork` | [`copy`] |
//! | `reverse` | [`forget_file`], [`write_protect_file`]: from pages of a file to where they are mapped |
//!
//! Invariants:
//! - A leaf in a cache is in the home's table, too, with the same frame and at least the same access, but for
//!   [`Kind::Borrowed`] ones.
//! - Of a page that has a replica, the home's leaf does not allow stores.
//! - A leaf allows execution only if its island has synchronised its fetches with the frame (`FrameRecord::synced`).
//! - `SpaceRecord::resident` counts the leaves of the home's table.
//!
//! Protocol page: `docs/protocols/residency.md`.

mod fork;
mod granted;
mod insert;
mod region;
mod replica;
mod reverse;
mod tables;
mod walk;
mod withdraw;

use motet_layout::Frame;
use motet_paging::{Format, PhysMap};

pub use fork::{Copying, copy};
pub use granted::{allow_stores, entry_of, forget_granted_to, grant, granted};
pub use insert::{break_copy, fill, insert, show, synchronise};
pub use region::{REGION_LEN, Region, next_region, region_at};
pub use replica::{may_replicate, original, reads_replica, replicate};
pub use reverse::{forget_file, mapped, write_protect_file};
pub use tables::{Home, dismantle, ensure_root, ensure_table, make_root, prepare, table};
pub use walk::{find, readable, writable};
pub use withdraw::{Part, drop_pages, freeze, freeze_those, hide, move_pages, protect, unmap};

use crate::Context;
pub use crate::{leaf::Kind, replicas::is_replica};

/// An actor with a memory-management unit: a core of an island that has tables.
pub trait Mmu: Context {
    /// The format of the actor's island.
    fn own_format(&self) -> Format;

    /// Where the actor's island sees the pool.
    fn own_map(&self) -> PhysMap<'static>;

    /// Fills the kernel's half of a root of the actor's island.
    fn prepare_root(&self, root: Frame);

    /// Orders the actor's edits of tables before its own translations.
    fn page_table_fence(&self);

    /// Drops what the actor's core has cached of the translation of a page.
    fn flush_page(&self, page: u64);

    /// Drops all of the actor's core's user translations.
    fn flush_user(&self);

    /// Synchronises the instruction fetches of the actor's island with what is in a frame.
    fn sync_instructions(&self, frame: Frame);
}

//! Pages and tables that edits remove from page tables, and the type that owns them until a shoot-down.
//!
//! Hardware and lock-free walkers may use an entry until the shoot-down that follows its removal, and so the frame that it named,
//! which may be a page or a table. So edits that remove entries hand all these frames to a [`Withdrawal`], and
//! a frame that is read from a table is a [`Mapped`], which nobody can release.

use core::ops::Range;

use motet_layout::{Frame, PoolAddr};

/// A frame that a page table names. Whoever takes it out of the table cannot release it: the [`Withdrawal`] does, when
/// nobody can use the entry any more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mapped(Frame);

impl Mapped {
    /// Where its bytes are.
    #[inline(always)]
    pub fn addr(self) -> PoolAddr {
        self.0.addr()
    }

    /// Its name, to look at its record, to add a reference to it, or to write into an entry; never to drop a reference, which is
    /// its table's.
    #[inline(always)]
    pub fn named(self) -> Frame {
        self.0
    }
}

impl From<Frame> for Mapped {
    #[inline(always)]
    fn from(frame: Frame) -> Self {
        Self(frame)
    }
}

/// Answers for what was taken out of the page tables of an address space: tells those that may still use it, waits for
/// them, and only then releases what it was given. There is one outside of tests, `motet_protocol::shootdown::Stale`.
pub trait Withdrawal {
    /// Root of the table whose leaves hold the references to their frames.
    fn home(&self) -> Frame;

    /// An entry was taken back or allows less than before.
    fn narrowed(&mut self);

    /// A table is out of its tree. With `holds_pages` it is one of pages, and its leaves, which are as they were, hold
    /// references to them.
    fn take_table(&mut self, table: Frame, holds_pages: bool);

    /// The leaves of the home's table in this range are inactive and are to be removed, with their references.
    fn take_range(&mut self, range: Range<u64>);

    /// This page was replaced in the home's table.
    fn take_page(&mut self, page: Mapped);

    /// A [borrowed](crate::Leaf::is_borrowed) leaf that shows this page is gone. The frame may have been the leaf's alone.
    fn give_up_borrowed(&mut self, _page: Mapped) {}
}

/// Proof that no core and no walker uses the tables that are given with it, now or later. There is one outside of tests,
/// `motet_protocol::shootdown::Unused`.
pub trait Unused {}

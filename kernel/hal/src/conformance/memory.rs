//! The pool, translation caches and instruction caches of one core.

use core::ops::Range;

use motet_layout::{Cell64, Frame, PAGE_SIZE, PoolAddr};
use motet_paging::{Attr, Mapped, Withdrawal};

use super::programs::Step;
use super::user::{CODE_VA, DATA_VA, Space, trap_code};
use super::{Check, Suite, ensure, same};
use crate::{Access, Machine, Trap};

/// A second data page, beside [`DATA_VA`].
const OTHER_VA: u64 = DATA_VA + PAGE_SIZE;

impl<M: Machine> Suite<M> {
    pub(super) fn memory_tests(&self) {
        self.test("pool_bytes", Self::pool_bytes);
        self.test("counter_is_monotonic", Self::counter_is_monotonic);
        self.test("new_mapping_is_seen", Self::new_mapping_is_seen);
        self.test("flush_page", Self::flush_page);
        self.test("flush_user", Self::flush_user);
        self.test("activate_space", Self::activate_space);
        self.test("permissions_change", Self::permissions_change);
        self.test("own_code_rewritten", Self::own_code_rewritten);
    }

    fn pool_bytes(&self) -> Check {
        let (from, to) = (self.scratch.frame(), self.scratch.frame());
        let pattern: [u8; 16] = core::array::from_fn(|index| index as u8 * 17);
        self.pool.write(from.addr().add(5), &pattern);
        self.pool.copy(from.addr().add(5), to.addr().add(8), pattern.len());
        same(
            "first word, little-endian",
            self.word(to, 1).get(),
            u64::from_le_bytes([0, 17, 34, 51, 68, 85, 102, 119]),
        )?;
        let mut back = [0; 16];
        self.pool.read(to.addr().add(8), &mut back);
        ensure(back == pattern, "bytes read back", back[15].into(), pattern[15].into())?;
        self.frame_is_zeroed(to, from)?;
        self.frame_is_zeroed(from, to)?;
        let object = self.pool.at::<Cell64>(PoolAddr(to.addr().0 + 24));
        same("address of an object", self.pool.addr_of(object).0, to.addr().0 + 24)
    }

    /// All of it, and nothing of another one, which usually lies beside it.
    fn frame_is_zeroed(&self, frame: Frame, other: Frame) -> Check {
        let words = |of: Frame| (0..PAGE_SIZE / 8).map(move |index| self.word(of, index));
        words(frame).chain(words(other)).for_each(|word| word.set(u64::MAX));
        self.machine.zero_frame(frame);
        let set = |of| words(of).filter(|word| word.get() != 0).count() as u64;
        same("words set in a zeroed frame", set(frame), 0)?;
        same("words set in another frame", set(other), PAGE_SIZE / 8)
    }

    fn counter_is_monotonic(&self) -> Check {
        let start = self.machine.counter_ns();
        let mut last = start;
        for _ in 0..10_000 {
            let now = self.machine.counter_ns();
            ensure(now >= last, "counter went back", now, last)?;
            last = now;
        }
        let moved = self.wait_until(super::SHORT_NS, || self.machine.counter_ns() > start);
        ensure(moved, "counter stands still", last, start + 1)
    }

    /// A space whose program loads the word at [`OTHER_VA`]; the words of two frames tell them apart.
    fn loader(&self) -> Result<(Space, [Frame; 2]), super::Failure> {
        let space = self.space(&[Step::Load, Step::Syscall])?;
        let frames = [self.scratch.frame(), self.scratch.frame()];
        self.word(frames[0], 0).set(111);
        self.word(frames[1], 0).set(222);
        Ok((space, frames))
    }

    /// Runs a loader once and expects it to find `value`.
    fn loads(&self, space: &Space, what: &'static str, value: u64) -> Check {
        space.set(M::ISA, 0, OTHER_VA);
        let trap = self.run_to_trap(space);
        same(what, if trap == Trap::Syscall { space.value(M::ISA) } else { 0xf000 | trap_code(trap) }, value)
    }

    fn faults(&self, space: &Space, access: Access) -> Check {
        space.set(M::ISA, 0, OTHER_VA);
        let expected = Trap::PageFault { address: OTHER_VA, access };
        let trap = self.run_to_trap(space);
        ensure(trap == expected, "trap", trap_code(trap), trap_code(expected))
    }

    /// A page mapped after its absence was noticed needs a fence, but no flush.
    fn new_mapping_is_seen(&self) -> Check {
        let (space, frames) = self.loader()?;
        self.machine.activate_space(space.table.root);
        self.faults(&space, Access::Read)?;
        self.map(&space.table, OTHER_VA, frames[0], Attr::READ)?;
        self.machine.page_table_fence();
        self.loads(&space, "word of the new page", 111)
    }

    fn flush_page(&self) -> Check {
        let (space, frames) = self.loader()?;
        self.map(&space.table, OTHER_VA, frames[0], Attr::READ)?;
        self.machine.page_table_fence();
        self.machine.activate_space(space.table.root);
        for round in 0..20 {
            self.loads(&space, "word before the change", [111, 222][round % 2])?;
            self.map(&space.table, OTHER_VA, frames[(round + 1) % 2], Attr::READ)?;
            self.machine.page_table_fence();
            self.machine.flush_page(OTHER_VA);
            self.loads(&space, "word after the flush", [222, 111][round % 2])?;
        }
        space.table.forget(OTHER_VA..OTHER_VA + PAGE_SIZE, &mut Scratch, |_| true);
        self.machine.page_table_fence();
        self.machine.flush_page(OTHER_VA);
        self.faults(&space, Access::Read)
    }

    /// Replaces a whole table of pages, so that cached upper levels are stale, too.
    fn flush_user(&self) -> Check {
        let (space, frames) = self.loader()?;
        self.map(&space.table, OTHER_VA, frames[0], Attr::READ)?;
        self.machine.page_table_fence();
        self.machine.activate_space(space.table.root);
        self.loads(&space, "word before the change", 111)?;
        space.table.unlink(DATA_VA..DATA_VA + (1 << 21), &mut Scratch);
        self.map(&space.table, OTHER_VA, frames[1], Attr::READ)?;
        self.machine.page_table_fence();
        self.machine.flush_user();
        self.loads(&space, "word after the flush", 222)
    }

    fn activate_space(&self) -> Check {
        let (first, frames) = self.loader()?;
        let (second, other) = self.loader()?;
        self.map(&first.table, OTHER_VA, frames[0], Attr::READ)?;
        self.map(&second.table, OTHER_VA, other[1], Attr::READ)?;
        self.machine.page_table_fence();
        for _ in 0..20 {
            self.machine.activate_space(first.table.root);
            self.loads(&first, "word of the first space", 111)?;
            self.machine.activate_space(second.table.root);
            self.loads(&second, "word of the second space", 222)?;
        }
        self.machine.activate_space(Frame::NONE);
        second.set(M::ISA, 0, OTHER_VA);
        let expected = Trap::PageFault { address: CODE_VA, access: Access::Execute };
        let trap = self.run_to_trap(&second);
        ensure(trap == expected, "trap without a space", trap_code(trap), trap_code(expected))
    }

    /// Copy-on-write's steps: read-only, then writable.
    fn permissions_change(&self) -> Check {
        let space = self.space(&[Step::Store, Step::Syscall])?;
        let page = self.scratch.frame();
        self.map(&space.table, OTHER_VA, page, Attr::READ | Attr::COW)?;
        self.machine.page_table_fence();
        self.machine.activate_space(space.table.root);
        self.faults(&space, Access::Write)?;
        self.map(&space.table, OTHER_VA, page, Attr::READ | Attr::WRITE)?;
        self.machine.page_table_fence();
        self.machine.flush_page(OTHER_VA);
        space.set(M::ISA, 77, OTHER_VA);
        same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
        same("word stored", self.word(page, 0).get(), 77)?;
        self.map(&space.table, OTHER_VA, page, Attr::READ)?;
        self.machine.page_table_fence();
        self.machine.flush_page(OTHER_VA);
        self.faults(&space, Access::Write)
    }

    fn own_code_rewritten(&self) -> Check {
        let space = self.space(&[Step::Constant(1), Step::Syscall])?;
        self.machine.activate_space(space.table.root);
        for value in 1..50 {
            self.write_program(space.code, &[Step::Constant(value), Step::Syscall]);
            space.set(M::ISA, 0, DATA_VA);
            same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
            same("constant in the code", space.value(M::ISA), value.into())?;
        }
        Ok(())
    }
}

/// The suite flushes by itself, and nobody uses its scratch frames again.
struct Scratch;

impl Withdrawal for Scratch {
    fn home(&self) -> Frame {
        Frame::NONE
    }
    fn narrowed(&mut self) {}
    fn take_table(&mut self, _table: Frame, _holds_pages: bool) {}
    fn take_range(&mut self, _range: Range<u64>) {}
    fn take_page(&mut self, _page: Mapped) {}
}

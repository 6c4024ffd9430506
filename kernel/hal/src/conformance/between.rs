//! Tests between islands: coherence, atomicity, ordering, doorbells, remote page tables, remote code.

use motet_layout::{Cell64, CoreId, Frame, IslandId, PAGE_SIZE, PoolAddr};
use motet_layout::{
    handshake::then_look,
    sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};
use motet_paging::Attr;

use super::programs::{Program, Step};
use super::scratch::Area;
use super::user::{CODE_VA, DATA_VA, trap_code};
use super::{Check, SHORT_NS, Suite, ensure, same};
use crate::{Interrupts, Machine, Trap};

/// Increments of one word by every island, when all take part.
const INCREMENTS_ALL: u64 = 500_000;
/// Increments of one word by each of a pair.
const INCREMENTS_PAIR: u64 = 50_000;
const LOCK_ROUNDS: u64 = 5_000;
const PING_ROUNDS: u64 = 500;
const EDITS: u64 = 20;
const LITMUS_SLOTS: u64 = PAGE_SIZE / 8;
/// With more islands than this, an island is paired with its neighbour only: the pairs would use up the scratch part.
const ISLANDS_FULLY_PAIRED: usize = 4;

impl<M: Machine> Suite<M> {
    pub(super) fn between_tests(&self) {
        self.test("meeting", Self::meet);
        self.test("same_bytes_everywhere", Self::same_bytes_everywhere);
        self.test("atomics_all", Self::atomics_all);
        self.pairs("atomics_pairs", Self::atomics_pair);
        self.test("lock", Self::lock);
        self.pairs("message_passing", Self::message_passing);
        self.pairs("store_buffering", Self::store_buffering);
        self.pairs("doorbells", Self::ping_pong);
        self.pairs("remote_page_table_edit", Self::remote_table);
        self.pairs("remote_code_rewritten", Self::remote_code);
        self.test("farewell", Self::meet);
    }

    /// Runs `body` on every ordered pair of islands, one pair after the other, with the words' index and the own role
    /// (0 or 1); islands that are not concerned wait.
    fn pairs(&self, name: &str, body: impl Fn(&Self, usize, usize, IslandId) -> Check) {
        self.test(name, |suite| {
            let mut result = Ok(());
            let mut index = 0;
            for first in 0..suite.islands {
                let neighbours_only = suite.islands > ISLANDS_FULLY_PAIRED;
                let partner =
                    |&second: &usize| second != first && (!neighbours_only || second == (first + 1) % suite.islands);
                for second in (0..suite.islands).filter(partner) {
                    suite.meet()?;
                    let own = suite.island.index();
                    let other = IslandId(if own == first { second } else { first } as u8);
                    if own == first || own == second {
                        let outcome = body(suite, index, usize::from(own == second), other);
                        result = result.and(outcome);
                    }
                    index += 1;
                }
            }
            suite.meet()?;
            result
        });
    }

    /// Every island writes a word of its own; all read all.
    fn same_bytes_everywhere(&self) -> Check {
        let greeting = |island: usize| 0x0102_0304_0506_0700 + island as u64;
        self.scratch
            .shared(Area::Greeting, self.island.index())
            .store(greeting(self.island.index()), Ordering::Release);
        self.meet()?;
        for island in 0..self.islands {
            same(
                "another island's word",
                self.scratch.shared(Area::Greeting, island).load(Ordering::Acquire),
                greeting(island),
            )?;
            let first = self.scratch.object::<AtomicU8>(Area::Greeting, island as u64 * 8);
            same("its first byte", first.load(Ordering::Relaxed).into(), island as u64)?;
        }
        Ok(())
    }

    /// Increments the words of an area in every way and width.
    fn increment(&self, area: Area, base: u64, count: u64) {
        let word = self.scratch.object::<AtomicU64>(area, base);
        let exchanged = self.scratch.object::<AtomicU64>(area, base + 8);
        let half = self.scratch.object::<AtomicU32>(area, base + 16);
        let half_exchanged = self.scratch.object::<AtomicU32>(area, base + 20);
        let short = self.scratch.object::<AtomicU16>(area, base + 24);
        let byte = self.scratch.object::<AtomicU8>(area, base + 26);
        for round in 0..count {
            word.fetch_add(1, Ordering::Relaxed);
            // One in eight of the others: they are slower, and as many as it takes to collide.
            if round % 8 == 0 {
                half.fetch_add(1, Ordering::Relaxed);
                short.fetch_add(1, Ordering::Relaxed);
                byte.fetch_add(1, Ordering::Relaxed);
                let mut seen = exchanged.load(Ordering::Relaxed);
                while let Err(now) =
                    exchanged.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
                {
                    seen = now;
                }
                let mut seen = half_exchanged.load(Ordering::Relaxed);
                while let Err(now) =
                    half_exchanged.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
                {
                    seen = now;
                }
            }
            if round % 1024 == 0 {
                self.machine.relax();
            }
        }
    }

    fn check_increments(&self, area: Area, base: u64, count: u64) -> Check {
        let eighth = count.div_ceil(8);
        let word = |offset| self.scratch.object::<AtomicU64>(area, base + offset).load(Ordering::Acquire);
        same("64-bit increments", word(0), count)?;
        same("64-bit exchanges", word(8), eighth)?;
        same("32-bit increments", word(16) & 0xffff_ffff, eighth)?;
        same("32-bit exchanges", word(16) >> 32, eighth)?;
        same("16-bit increments", word(24) & 0xffff, eighth & 0xffff)?;
        same("8-bit increments", word(24) >> 16 & 0xff, eighth & 0xff)?;
        same("bits beside narrow words", word(24) >> 24, 0)
    }

    fn atomics_all(&self) -> Check {
        self.meet()?;
        self.increment(Area::Atomics, 0, INCREMENTS_ALL);
        self.meet()?;
        self.check_increments(Area::Atomics, 0, INCREMENTS_ALL * self.islands as u64)
    }

    fn atomics_pair(&self, index: usize, role: usize, _other: IslandId) -> Check {
        // A frame of the pair's own: role 0 brings it.
        let base = self.exchange_frame(Area::AtomicPairs, index, role)?.addr().0;
        let base = base - self.pool.addr_of(self.scratch.shared(Area::AtomicPairs, 0)).0;
        self.increment(Area::AtomicPairs, base, INCREMENTS_PAIR);
        self.together(Area::AtomicPairs, index)?;
        self.check_increments(Area::AtomicPairs, base, 2 * INCREMENTS_PAIR)
    }

    /// Role 0 allocates a frame and tells role 1.
    fn exchange_frame(&self, area: Area, index: usize, role: usize) -> Result<Frame, super::Failure> {
        let word = self.pair_word(area, index);
        if role == 0 {
            let frame = self.scratch.frame();
            word.store(frame.0.into(), Ordering::Release);
            return Ok(frame);
        }
        self.expect(|| word.load(Ordering::Acquire) != 0, "frame from the other island")?;
        Ok(Frame(word.load(Ordering::Relaxed) as u32))
    }

    /// Waits until both islands of a pair have come here.
    fn together(&self, area: Area, index: usize) -> Check {
        let word = self.pair_word(area, index);
        word.fetch_add(1 << 32, Ordering::AcqRel);
        self.expect(|| word.load(Ordering::Acquire) >> 32 == 2, "other island of the pair")
    }

    /// A word of a pair: low half the frame, high half who has come.
    fn pair_word(&self, area: Area, index: usize) -> &'static AtomicU64 {
        self.scratch.shared(area, index)
    }

    fn expect(&self, condition: impl FnMut() -> bool, what: &'static str) -> Check {
        ensure(self.wait_until(SHORT_NS, condition), what, 0, 1)
    }

    /// Mutual exclusion by a word, around a counter that is no atomic.
    fn lock(&self) -> Check {
        let word = self.scratch.shared(Area::Lock, 0);
        let counter = self.scratch.object::<Cell64>(Area::Lock, 64);
        self.meet()?;
        for _ in 0..LOCK_ROUNDS {
            while word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                self.machine.relax();
            }
            counter.set(counter.get() + 1);
            word.store(0, Ordering::Release);
        }
        self.meet()?;
        same("counter behind the lock", counter.get(), LOCK_ROUNDS * self.islands as u64)
    }

    /// Role 0 stores data, then a flag; role 1 must never see the flag without the data.
    fn message_passing(&self, index: usize, role: usize, _other: IslandId) -> Check {
        let frame = self.exchange_frame(Area::MessagePassing, index, role)?;
        let (data, flag) = (self.word(frame, 0), self.pool.at::<AtomicU64>(frame.addr().add(128)));
        let read = self.pool.at::<AtomicU64>(frame.addr().add(256));
        self.together(Area::MessagePassing, index)?;
        if role == 0 {
            for round in 1..=LITMUS_SLOTS {
                data.set(round);
                flag.store(round, Ordering::Release);
            }
            return self.expect(|| read.load(Ordering::Acquire) == LITMUS_SLOTS, "message received");
        }
        let mut last = 0;
        let mut stale = 0;
        let done = self.wait_until(SHORT_NS, || {
            let flag = flag.load(Ordering::Acquire);
            let data = data.get();
            stale |= u64::from(data < flag || flag < last);
            last = flag;
            flag == LITMUS_SLOTS
        });
        read.store(LITMUS_SLOTS, Ordering::Release);
        ensure(done, "messages", last, LITMUS_SLOTS)?;
        same("flags seen without their data", stale, 0)
    }

    /// Each stores its word, fences, and loads the other's: not both may miss.
    fn store_buffering(&self, index: usize, role: usize, _other: IslandId) -> Check {
        let first = self.exchange_frame(Area::StoreBuffering, index, role)?;
        // Pages of role 0's words, role 1's words and what either saw: role 0 leaves their numbers in the first.
        if role == 0 {
            for page in 0..3 {
                self.word(first, page).set(self.scratch.frame().0.into());
            }
        }
        self.together(Area::StoreBuffering, index)?;
        let pages: [u64; 3] = core::array::from_fn(|page| self.word(first, page as u64).get());
        let slot = |page: u64, index: u64| self.pool.at::<AtomicU64>(PoolAddr(page * PAGE_SIZE + index * 8));
        let (own, others) = (pages[role], pages[1 - role]);
        let seen = pages[2];
        let start = self.pool.at::<AtomicU64>(first.addr().add(512));
        start.fetch_add(1, Ordering::AcqRel);
        self.expect(|| start.load(Ordering::Acquire) >= 2, "start")?;
        for index in 0..LITMUS_SLOTS {
            slot(own, index).store(1, Ordering::Relaxed);
            then_look();
            let other = slot(others, index).load(Ordering::Relaxed);
            // Bits by role: 1 and 2 for "saw the other's store", 4 and 8 for "looked".
            slot(seen, index).fetch_or(other << role | 4 << role, Ordering::AcqRel);
        }
        start.fetch_add(1, Ordering::AcqRel);
        self.expect(|| start.load(Ordering::Acquire) == 4, "end")?;
        let both_missed = (0..LITMUS_SLOTS).filter(|&index| slot(seen, index).load(Ordering::Acquire) & 3 == 0).count();
        same("rounds in which both missed the other's store", both_missed as u64, 0)
    }

    /// A ball goes to and fro; each side sleeps without a timeout in between. A lost doorbell ends in the guard timer.
    fn ping_pong(&self, index: usize, role: usize, other: IslandId) -> Check {
        let ball = self.scratch.shared(Area::PingPong, index);
        let peer = CoreId::new(other, 0);
        self.machine.set_timer(self.machine.counter_ns() + 3 * SHORT_NS);
        for round in 0..PING_ROUNDS {
            let own_turn = 2 * round + role as u64;
            while ball.load(Ordering::Acquire) != own_turn {
                let interrupts = self.machine.wait_for_interrupt();
                let late = interrupts.contains(Interrupts::TIMER);
                ensure(!late, "rounds before a doorbell was lost", round, PING_ROUNDS)?;
            }
            ball.store(own_turn + 1, Ordering::Release);
            self.machine.ring(peer);
        }
        Ok(())
    }

    /// Role 0 edits the page table that role 1 runs user code by, and rings; role 1 flushes and must see the new page.
    fn remote_table(&self, index: usize, role: usize, other: IslandId) -> Check {
        let word = |offset: u64| self.scratch.object::<AtomicU64>(Area::RemoteTable, (index as u64 % 8) * 64 + offset);
        let (root, generation, seen) = (word(0), word(8), word(16));
        if role == 0 {
            let pages = [self.scratch.frame(), self.scratch.frame()];
            self.word(pages[1], 0).set(1);
            self.expect(|| root.load(Ordering::Acquire) != 0, "the other island's root table")?;
            let table = self.table(other, Frame(root.load(Ordering::Relaxed) as u32))?;
            return self.tell_of_rounds([root, generation, seen], other, "notice of the edit", |round| {
                self.map(&table, DATA_VA, pages[round as usize % 2], Attr::READ)
            });
        }
        let result = self.follow_remote_edits(root, generation, seen);
        seen.store(u64::MAX, Ordering::Release);
        result
    }

    /// Role 0 of what is edited in rounds: edits, tells the other island of it, and waits until that has seen it, or has failed.
    fn tell_of_rounds(
        &self,
        [what, generation, seen]: [&AtomicU64; 3],
        other: IslandId,
        notice: &'static str,
        edit: impl Fn(u64) -> Check,
    ) -> Check {
        for round in 1..=EDITS {
            edit(round)?;
            generation.store(round, Ordering::Release);
            self.machine.ring(CoreId::new(other, 0));
            self.expect(|| seen.load(Ordering::Acquire) >= round, notice)?;
            if seen.load(Ordering::Acquire) == u64::MAX {
                break;
            }
        }
        self.expect(|| seen.load(Ordering::Acquire) == u64::MAX, "end of the other island")?;
        for word in [what, generation, seen] {
            word.store(0, Ordering::Release);
        }
        Ok(())
    }

    fn follow_remote_edits(&self, root: &AtomicU64, generation: &AtomicU64, seen: &AtomicU64) -> Check {
        let space = self.space(&[Step::Load, Step::Syscall])?;
        self.machine.activate_space(space.table.root);
        root.store(space.table.root.0.into(), Ordering::Release);
        let start = self.machine.counter_ns();
        let mut last = 0;
        while last < EDITS {
            space.set(M::ISA, 99, DATA_VA);
            let trap = self.machine.run_user(space.frame);
            let now = generation.load(Ordering::Acquire);
            if now != last {
                self.machine.flush_page(DATA_VA);
                space.set(M::ISA, 99, DATA_VA);
                same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
                same("word after a remote edit", space.value(M::ISA), now % 2)?;
                seen.store(now, Ordering::Release);
                last = now;
            } else if !matches!(trap, Trap::Interrupt(_)) {
                same("trap", trap_code(trap), trap_code(Trap::Syscall))?;
            }
            ensure(self.machine.counter_ns() - start < 2 * SHORT_NS, "remote edits in time", last, EDITS)?;
        }
        Ok(())
    }

    /// Role 0 rewrites the code that role 1 executes; role 1 synchronises and must execute the new code.
    fn remote_code(&self, index: usize, role: usize, other: IslandId) -> Check {
        let word = |offset: u64| self.scratch.object::<AtomicU64>(Area::RemoteCode, (index as u64 % 8) * 64 + offset);
        let (code, generation, seen) = (word(0), word(8), word(16));
        if role == 0 {
            let isa = motet_layout::Isa::from_raw(self.pool.header().islands[other.index()].isa.get());
            let isa = isa.ok_or(super::Failure { what: "ISA of the other island", found: 0, expected: 1 })?;
            self.expect(|| code.load(Ordering::Acquire) != 0, "the other island's code")?;
            let frame = Frame(code.load(Ordering::Relaxed) as u32);
            return self.tell_of_rounds([code, generation, seen], other, "execution of the new code", |round| {
                let program = Program::new(isa, &[Step::Constant(100 + round as u16), Step::Syscall]);
                self.pool.write(frame.addr(), program.bytes());
                Ok(())
            });
        }
        let result = self.follow_remote_code(code, generation, seen);
        seen.store(u64::MAX, Ordering::Release);
        result
    }

    fn follow_remote_code(&self, code: &AtomicU64, generation: &AtomicU64, seen: &AtomicU64) -> Check {
        let space = self.space(&[Step::Constant(100), Step::Syscall])?;
        self.machine.activate_space(space.table.root);
        let run = |expected: u64| {
            for _ in 0..3 {
                space.set(M::ISA, 0, DATA_VA);
                same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
                same("constant in the code", space.value(M::ISA), expected)?;
            }
            Ok(())
        };
        run(100)?;
        same(
            "pc",
            space.frame.pc.get(),
            CODE_VA + Program::new(M::ISA, &[Step::Constant(0), Step::Syscall]).bytes().len() as u64,
        )?;
        code.store(space.code.0.into(), Ordering::Release);
        for round in 1..=EDITS {
            self.expect(|| generation.load(Ordering::Acquire) == round, "rewritten code")?;
            self.machine.sync_instructions(space.code);
            run(100 + round)?;
            seen.store(round, Ordering::Release);
        }
        Ok(())
    }
}

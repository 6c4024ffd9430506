//! The other cores of an island: started by a test, then told by mailbox what to do.

use motet_layout::sync::Ordering;
use motet_layout::{CoreId, Frame, PoolAddr, UserFrame};

use super::programs::{Step, value_register};
use super::scratch::{Mailbox, Scratch};
use super::user::{CODE_VA, DATA_VA, trap_code};
use super::{Check, SHORT_NS, Suite, ensure, same};
use crate::{Machine, Trap};
use motet_paging::Attr;

/// Reply: argument 0 plus one.
const PING: u64 = 1;
/// Reply: the core's counter.
const CLOCK: u64 = 2;
/// Runs the frame at argument 1 in the space with root argument 0, over and over from its beginning, until the signal
/// word is odd; at every doorbell it flushes all translations and notices the signal. Reply: the code of a trap that is
/// no system call, or 1.
const RUN: u64 = 3;

/// What a started core does.
pub fn obey<M: Machine>(machine: &'static M) -> ! {
    let scratch = Scratch::new(machine.pool());
    let mailbox = scratch.mailbox(machine.core());
    mailbox.noticed.store(1, Ordering::Release);
    let mut last = 0;
    loop {
        let request = mailbox.request.load(Ordering::Acquire);
        if request == last {
            machine.wait_for_interrupt();
            continue;
        }
        last = request;
        let arguments = mailbox.argument.map(|word| word.load(Ordering::Relaxed));
        let reply = match request & 0xff {
            PING => arguments[0] + 1,
            CLOCK => machine.counter_ns(),
            RUN => run_until_told(machine, &mailbox, arguments),
            _ => u64::MAX,
        };
        mailbox.reply.store(reply, Ordering::Relaxed);
        mailbox.done.store(request, Ordering::Release);
        machine.ring(CoreId::new(machine.island(), 0));
    }
}

fn run_until_told<M: Machine>(machine: &'static M, mailbox: &Mailbox, [root, frame]: [u64; 2]) -> u64 {
    let frame = machine.pool().at::<UserFrame>(PoolAddr(frame));
    // A signal's doorbell may have merged with the request's: look before the first wait for one.
    let signal = mailbox.signal.load(Ordering::Acquire);
    machine.activate_space(Frame(root as u32));
    mailbox.noticed.store(signal, Ordering::Release);
    loop {
        match machine.run_user(frame) {
            Trap::Syscall => {
                frame.pc.set(CODE_VA);
                let signal = mailbox.signal.load(Ordering::Acquire);
                if signal % 2 == 1 {
                    machine.activate_space(Frame::NONE);
                    return 1;
                }
            }
            Trap::Interrupt(_) => {
                let signal = mailbox.signal.load(Ordering::Acquire);
                machine.flush_user();
                mailbox.noticed.store(signal, Ordering::Release);
            }
            trap => {
                machine.activate_space(Frame::NONE);
                return trap_code(trap);
            }
        }
    }
}

impl<M: Machine> Suite<M> {
    pub(super) fn worker_tests(&self) {
        self.test("start_core", Self::start_cores);
        self.test("doorbell_to_siblings", Self::doorbell_to_siblings);
        self.test("counters_agree", Self::counters_agree);
        self.test("sibling_shoot_down", Self::sibling_shoot_down);
    }

    fn siblings(&self) -> impl Iterator<Item = CoreId> + use<M> {
        let island = self.island;
        (1..self.cores).map(move |index| CoreId::new(island, index))
    }

    fn start_cores(&self) -> Check {
        let refused = self.machine.start_core(motet_layout::CORES_PER_ISLAND_MAX - 1).is_err();
        ensure(
            refused || self.cores == motet_layout::CORES_PER_ISLAND_MAX,
            "start of a core that does not exist",
            1,
            0,
        )?;
        for core in self.siblings() {
            ensure(
                self.machine.start_core(core.index_in_island()).is_ok(),
                "start of core",
                0,
                core.index_in_island() as u64,
            )?;
            let noticed = self.scratch.mailbox(core).noticed;
            let alive = self.wait_until(SHORT_NS, || noticed.load(Ordering::Acquire) == 1);
            ensure(alive, "started cores that arrived", 0, core.index_in_island() as u64)?;
        }
        Ok(())
    }

    /// Sends a request without waiting for it.
    fn tell(&self, core: CoreId, command: u64, arguments: [u64; 2]) -> u64 {
        let mailbox = self.scratch.mailbox(core);
        let request = (mailbox.request.load(Ordering::Relaxed) & !0xff) + 0x100 | command;
        for (word, argument) in mailbox.argument.iter().zip(arguments) {
            word.store(argument, Ordering::Relaxed);
        }
        mailbox.request.store(request, Ordering::Release);
        self.machine.ring(core);
        request
    }

    /// Waits for a request's reply by doorbells alone: a lost one shows as the guard timer's interrupt.
    fn hear(&self, core: CoreId, request: u64) -> Result<u64, super::Failure> {
        let mailbox = self.scratch.mailbox(core);
        self.machine.set_timer(self.machine.counter_ns() + SHORT_NS);
        while mailbox.done.load(Ordering::Acquire) != request {
            let interrupts = self.machine.wait_for_interrupt();
            let late = interrupts.contains(crate::Interrupts::TIMER);
            ensure(!late, "doorbells to or from a sibling that were lost", request >> 8, core.0.into())?;
        }
        self.machine.set_timer(u64::MAX);
        Ok(mailbox.reply.load(Ordering::Relaxed))
    }

    fn doorbell_to_siblings(&self) -> Check {
        for core in self.siblings() {
            for round in 0..500 {
                let request = self.tell(core, PING, [round, 0]);
                same("reply", self.hear(core, request)?, round + 1)?;
            }
        }
        Ok(())
    }

    fn counters_agree(&self) -> Check {
        for core in self.siblings() {
            for _ in 0..50 {
                let before = self.machine.counter_ns();
                let request = self.tell(core, CLOCK, [0, 0]);
                let there = self.hear(core, request)?;
                let after = self.machine.counter_ns();
                ensure(there >= before, "sibling's counter behind", there, before)?;
                ensure(there <= after, "sibling's counter ahead", there, after)?;
            }
        }
        Ok(())
    }

    /// A sibling loads from a page in a loop while the page is replaced under it.
    fn sibling_shoot_down(&self) -> Check {
        for core in self.siblings() {
            let space = self.space(&[Step::Load, Step::Syscall])?;
            let pages = [space.data, self.scratch.frame()];
            self.word(pages[1], 0).set(1);
            let mailbox = self.scratch.mailbox(core);
            mailbox.signal.store(0, Ordering::Relaxed);
            mailbox.noticed.store(0, Ordering::Relaxed);
            let arguments = [space.table.root.0.into(), self.pool.addr_of(space.frame).0];
            let request = self.tell(core, RUN, arguments);
            let value = &space.frame.regs[value_register(M::ISA)];
            for round in 1..=20u64 {
                self.map(&space.table, DATA_VA, pages[(round % 2) as usize], Attr::READ)?;
                mailbox.signal.store(round * 2, Ordering::Release);
                self.machine.ring(core);
                let noticed = self.wait_until(SHORT_NS, || mailbox.noticed.load(Ordering::Acquire) == round * 2);
                ensure(
                    noticed,
                    "shoot-downs a running sibling noticed",
                    mailbox.noticed.load(Ordering::Relaxed),
                    round * 2,
                )?;
                let seen = self.wait_until(SHORT_NS, || value.get() == round % 2);
                ensure(seen, "word a sibling sees after its flush", value.get(), round % 2)?;
            }
            mailbox.signal.store(41, Ordering::Release);
            same("trap of the sibling", self.hear(core, request)?, 1)?;
        }
        Ok(())
    }
}

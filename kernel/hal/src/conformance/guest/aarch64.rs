//! What AArch64 guests have of their own: an interrupt interface, a timer, ID registers.

use motet_layout::{Isa, aarch64_guest as words};
use motet_paging::Stage2;

use super::{
    super::{Check, Failure, SHORT_NS, Suite, ensure, same, user::trap_code},
    CODE, Guest, NOTHING,
};
use crate::{Access, GuestException, GuestTrap, Interrupts, Machine, SystemRegister, Trap};

/// A guest's exception vectors in its page of program, and what is there for its interrupts at EL1.
const VECTORS: u64 = 0x800;
const INTERRUPT_VECTOR: u64 = VECTORS + 0x280;

const CALL: u32 = 0xd400_0002; // hvc #0
const COUNT: [u32; 2] = [0x9100_0400, 0x17ff_ffff]; // 1: add x0, x0, #1; b 1b

/// Lets interrupts of group 1 come.
const LET_INTERRUPTS: [u32; 5] = [
    0xd280_1e09, // mov x9, #0xf0
    0xd518_4609, // msr icc_pmr_el1, x9
    0xd280_0029, // mov x9, #1
    0xd518_cce9, // msr icc_igrpen1_el1, x9
    0xd503_42ff, // msr daifclr, #2
];
const ACKNOWLEDGE: u32 = 0xd538_cc03; // mrs x3, icc_iar1_el1
const END: u32 = 0xd518_cc23; // msr icc_eoir1_el1, x3
const RETURN: u32 = 0xd69f_03e0; // eret

/// Turns the timer on, 1024 ticks from now.
const SET_TIMER: [u32; 5] = [
    0xd53b_e040, // mrs x0, cntvct_el0
    0x9110_0009, // add x9, x0, #1024
    0xd51b_e349, // msr cntv_cval_el0, x9
    0xd280_0029, // mov x9, #1
    0xd51b_e329, // msr cntv_ctl_el0, x9
];
const LATER: u32 = 0x9150_0009; // add x9, x0, #0x400000: after the guest has stopped
const STOP_TIMER: u32 = 0xd51b_e33f; // msr cntv_ctl_el0, xzr

/// Interrupt id of a device, and of the virtual timer.
const DEVICE: u64 = 33;
const TIMER: u64 = 27;
/// A list register (ICH_LR<n>_EL2): pending, active, of group 1, priority 0x80; it interrupts the hypervisor when the guest ends it.
const PENDING: u64 = 1 << 62;
const ACTIVE: u64 = 1 << 63;
const GROUP_1: u64 = 1 << 60 | 0x80 << 48;
const TELL_END: u64 = 1 << 41;

/// Stops of a guest that tell of nothing, until one that tells of something.
const EMPTY_MAX: u64 = 100;
/// How long a guest is let run, in nanoseconds.
const SLICE_NS: u64 = 20_000_000;

impl<M: Machine> Suite<M> {
    pub(super) fn aarch64_guest_tests(&self, format: Stage2) {
        if M::ISA != Isa::AArch64 {
            return;
        }
        self.test("guest_after_reset", |suite| suite.guest_after_reset(format));
        self.test("guest_registers_of_its_own", |suite| suite.guest_registers_of_its_own(format));
        self.test("guest_takes_interrupts", |suite| suite.guest_takes_interrupts(format));
        self.test("guest_active_interrupts", |suite| suite.guest_active_interrupts(format));
        self.test("guest_timer", |suite| suite.guest_timer(format));
        self.test("guest_timer_while_it_waits", |suite| suite.guest_timer_while_it_waits(format));
        self.test("guest_clock", |suite| suite.guest_clock(format));
        self.test("guest_aborts", |suite| suite.guest_aborts(format));
    }

    /// Runs instructions and a call; what is in x0 then.
    fn guest_value(&self, guest: &Guest, value: u64, words: &[u32]) -> Result<u64, Failure> {
        self.guest_words(guest, 0, words);
        self.guest_words(guest, 4 * words.len() as u64, &[CALL]);
        guest.frame.regs[0].set(value);
        self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
        Ok(guest.frame.regs[0].get())
    }

    fn guest_after_reset(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        same("exception level", self.guest_value(&guest, 0, &[0xd538_4240])?, 1 << 2)?; // mrs x0, currentel
        same("masks", self.guest_value(&guest, 0, &[0xd53b_4220])?, 0xf << 6)?; // mrs x0, daif
        let control = self.guest_value(&guest, 0, &[0xd538_1000])?; // mrs x0, sctlr_el1
        same("translation and caches", control & (1 << 12 | 1 << 2 | 1), 0)?;
        same("RES1 without later extensions", control & (1 << 29 | 1 << 28 | 1 << 11), 1 << 29 | 1 << 28 | 1 << 11)
    }

    fn guest_registers_of_its_own(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        guest.system.words[words::AFFINITY].set(0x302);
        same("affinity", self.guest_value(&guest, 0, &[0xd538_00a0])?, 1 << 31 | 0x302)?; // mrs x0, mpidr_el1
        let features = self.guest_value(&guest, 0, &[0xd538_0400])?; // mrs x0, id_aa64pfr0_el1
        same("exception levels, SVE", features & 0xf_0000_ffff, 0x11)?;
        let instructions = self.guest_value(&guest, 0, &[0xd538_0620])?; // mrs x0, id_aa64isar1_el1
        same("pointer authentication", instructions & 0xff00_0ff0, 0)?;
        let debug = self.guest_value(&guest, 1 << 15, &[0xd510_0240, 0xd530_0240])?; // msr mdscr_el1, x0; mrs x0, mdscr_el1
        same("what a debug register keeps", debug, 0)?;
        // Its counters begin where they are told to: mrs x0, cntvct_el0; mrs x0, cntpct_el0.
        let now = self.guest_value(&guest, 0, &[0xd53b_e040])?;
        guest.system.words[words::COUNTER_OFFSET].set(now);
        let physical = self.guest_value(&guest, 0, &[0xd53b_e020])?;
        let virtual_count = self.guest_value(&guest, 0, &[0xd53b_e040])?;
        ensure(physical <= virtual_count && virtual_count < now, "the guest's counter", virtual_count, now)?;
        // Interrupts to other cores of the guest are the hypervisor's to make: msr icc_sgi1r_el1, x0.
        self.guest_words(&guest, 0, &[0xd518_cba0]);
        let sgi = SystemRegister { number: 0xc65d, is_write: true, register: 0 };
        self.guest_stops(&guest, "an interrupt to another core", GuestTrap::SystemRegister(sgi))?;
        self.guest_words(&guest, 0, &[0xd400_0063]); // smc #3
        self.guest_stops(&guest, "a call of firmware", GuestTrap::Hypercall { immediate: 3 })?;
        same("the guest's pc", guest.frame.pc.get(), CODE + 4)
    }

    /// A guest that takes interrupts, by a handler of these instructions, after it has run `then`.
    fn guest_with_handler(&self, format: Stage2, handler: &[u32], then: &[u32]) -> Result<Guest, Failure> {
        let guest = self.guest(format)?;
        self.guest_words(&guest, 0, &LET_INTERRUPTS);
        self.guest_words(&guest, 4 * LET_INTERRUPTS.len() as u64, then);
        self.guest_words(&guest, INTERRUPT_VECTOR, handler);
        guest.system.words[words::VBAR].set(CODE + VECTORS);
        Ok(guest)
    }

    fn guest_takes_interrupts(&self, format: Stage2) -> Check {
        let handler = [ACKNOWLEDGE, END, CALL, RETURN];
        let guest = self.guest_with_handler(format, &handler, &[0xd503_42df, CALL, 0xd503_42ff, COUNT[0], COUNT[1]])?;
        let list = &guest.system.words[words::LIST + 1];
        // Once it lets interrupts, masks them and calls (msr daifset, #2; hvc #0; msr daifclr, #2).
        self.guest_stops(&guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
        list.set(PENDING | GROUP_1 | DEVICE);
        let pc = guest.frame.pc.get();
        guest.frame.pc.set(pc - 4);
        self.guest_stops(&guest, "a call while interrupts are masked", GuestTrap::Hypercall { immediate: 0 })?;
        same("the pc of a guest that masks interrupts", guest.frame.pc.get(), pc)?;
        same("an interrupt that has not been taken", list.get(), PENDING | GROUP_1 | DEVICE)?;
        self.guest_stops(&guest, "a call of the handler", GuestTrap::Hypercall { immediate: 0 })?;
        same("the pc of the handler", guest.frame.pc.get(), CODE + INTERRUPT_VECTOR + 12)?;
        same("the interrupt", guest.frame.regs[3].get(), DEVICE)?;
        same("an interrupt that has ended", list.get() & (PENDING | ACTIVE), 0)
    }

    /// A guest that is in its handler has that interrupt active, and no other of that priority comes, whoever ran meanwhile.
    fn guest_active_interrupts(&self, format: Stage2) -> Check {
        let handler = [ACKNOWLEDGE, CALL, END, RETURN];
        let guest = || self.guest_with_handler(format, &handler, &COUNT);
        let guests = [guest()?, guest()?];
        for (n, guest) in (0..).zip(&guests) {
            guest.system.words[words::LIST].set(PENDING | GROUP_1 | DEVICE + n);
            self.guest_stops(guest, "a call of the handler", GuestTrap::Hypercall { immediate: 0 })?;
        }
        for (n, guest) in (0..).zip(&guests) {
            let list = &guest.system.words[words::LIST];
            same("the interrupt", guest.frame.regs[3].get(), DEVICE + n)?;
            same("an interrupt that is active", list.get(), ACTIVE | GROUP_1 | DEVICE + n)?;
            let priorities = guest.system.words[words::ACTIVE_PRIORITIES[1]].get();
            ensure(priorities != 0, "active priorities", priorities, 1)?;
            guest.system.words[words::LIST + 1].set(PENDING | GROUP_1 | DEVICE + 8 + n);
            // After this one's end the next comes at once.
            self.guest_stops(guest, "a call of the handler", GuestTrap::Hypercall { immediate: 0 })?;
            same("the next interrupt", guest.frame.regs[3].get(), DEVICE + 8 + n)?;
            same("an interrupt that has ended", list.get() & (PENDING | ACTIVE), 0)?;
        }
        Ok(())
    }

    /// Lets a guest run until it stops for something, or for nothing when `condition` holds; for so long at most.
    fn guest_runs_until(
        &self,
        guest: &Guest,
        patience_ns: u64,
        condition: impl Fn() -> bool,
    ) -> Result<Interrupts, Failure> {
        self.machine.set_timer(self.machine.counter_ns() + patience_ns);
        for _ in 0..EMPTY_MAX {
            match self.machine.run_guest(guest.frame, guest.system, guest.root) {
                Trap::Interrupt(Interrupts::EMPTY) if !condition() => {}
                Trap::Interrupt(interrupts) => return Ok(interrupts),
                trap => return Err(Failure { what: "trap", found: trap_code(trap), expected: 0x100 }),
            }
        }
        Err(Failure { what: "stops that tell of nothing", found: EMPTY_MAX, expected: 0 })
    }

    /// The guest's timer stops it once, and the guest takes the interrupt that is made of it.
    fn guest_timer(&self, format: Stage2) -> Check {
        let handler = [ACKNOWLEDGE, STOP_TIMER, END, 0xd400_0022, RETURN]; // hvc #1
        let [a, b, c, d, e] = SET_TIMER;
        let guest = self.guest_with_handler(format, &handler, &[a, b, c, d, e, COUNT[0], COUNT[1]])?;
        let due = || self.machine.guest_timer_ns(guest.system);
        same("a timer that is off", due(), u64::MAX)?;
        let fired = || due() <= self.machine.counter_ns();
        let stopped = self.guest_runs_until(&guest, SHORT_NS, fired)?;
        same("interrupts", stopped.0.into(), Interrupts::EMPTY.0.into())?;
        ensure(fired(), "the timer", due(), self.machine.counter_ns())?;
        // It goes on though the timer has fired, until the kernel's own timer stops it; a busy host may not let it run in the first slices.
        let (before, start) = (guest.frame.regs[0].get(), self.machine.counter_ns());
        while guest.frame.regs[0].get() == before && self.machine.counter_ns() < start + SHORT_NS {
            let stopped = self.guest_runs_until(&guest, SLICE_NS, || false)?;
            same("interrupts", stopped.0.into(), Interrupts::TIMER.0.into())?;
        }
        ensure(guest.frame.regs[0].get() > before, "what it counted", guest.frame.regs[0].get(), before)?;
        // It is told, and turns the timer off.
        let list = &guest.system.words[words::LIST];
        list.set(PENDING | GROUP_1 | TELL_END | TIMER);
        let stopped = self.guest_runs_until(&guest, SHORT_NS, || list.get() & (PENDING | ACTIVE) == 0)?;
        same("interrupts", stopped.0.into(), Interrupts::EMPTY.0.into())?;
        same("the interrupt", guest.frame.regs[3].get(), TIMER)?;
        same("a list register whose interrupt has ended", list.get() & (PENDING | ACTIVE), 0)?;
        same("a timer that is off", due(), u64::MAX)?;
        list.set(0);
        // The next time it stops the guest again.
        self.guest_stops(&guest, "a call of the handler", GuestTrap::Hypercall { immediate: 1 })?;
        guest.frame.pc.set(CODE);
        let stopped = self.guest_runs_until(&guest, SHORT_NS, fired)?;
        same("interrupts", stopped.0.into(), Interrupts::EMPTY.0.into())?;
        ensure(fired(), "the timer", due(), self.machine.counter_ns())
    }

    /// The kernel sees that a timer fires while its guest does not run.
    fn guest_timer_while_it_waits(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        same("a timer that is off has fired", self.machine.has_guest_timer_fired(guest.system).into(), 0)?;
        let [read, _, deadline, one, on] = SET_TIMER;
        self.guest_value(&guest, 0, &[read, LATER, deadline, one, on])?;
        let due_ns = self.machine.guest_timer_ns(guest.system);
        let start = self.machine.counter_ns();
        while !self.machine.has_guest_timer_fired(guest.system) {
            let now = self.machine.counter_ns();
            ensure(now < start + SHORT_NS, "the timer has not fired", now, due_ns)?;
        }
        ensure(
            due_ns <= self.machine.counter_ns(),
            "it has fired before it is due",
            self.machine.counter_ns(),
            due_ns,
        )?;
        self.guest_value(&guest, 0, &[STOP_TIMER])?;
        same("a timer that is off has fired", self.machine.has_guest_timer_fired(guest.system).into(), 0)
    }

    /// A guest's counter begins where the kernel says.
    fn guest_clock(&self, format: Stage2) -> Check {
        const READ: u32 = 0xd53b_e040; // mrs x0, cntvct_el0
        const SECOND_NS: u64 = 1_000_000_000;
        let guest = self.guest(format)?;
        let hertz = self.guest_value(&guest, 0, &[0xd53b_e000])?; // mrs x0, cntfrq_el0
        let start = self.machine.counter_ns();
        for ahead_ns in [0, SECOND_NS] {
            self.machine.set_guest_clock(guest.system, ahead_ns.wrapping_sub(start));
            let before = self.machine.counter_ns() - start + ahead_ns;
            let found = (u128::from(self.guest_value(&guest, 0, &[READ])?) * 1_000_000_000 / u128::from(hertz)) as u64;
            let after = self.machine.counter_ns() - start + ahead_ns;
            // Roundings of ticks.
            ensure(found + 1000 >= before && found <= after + 1000, "the guest's clock", found, before)?;
        }
        Ok(())
    }

    /// A guest that is told that nothing is at an address learns which it was.
    fn guest_aborts(&self, format: Stage2) -> Check {
        const SYNCHRONOUS_VECTOR: u64 = VECTORS + 0x200;
        const EXTERNAL_READ: u64 = 0x25 << 26 | 1 << 25 | 0x10;
        let guest = self.guest(format)?;
        self.guest_words(&guest, 0, &[0xf940_0001]); // ldr x1, [x0]
        self.guest_words(&guest, SYNCHRONOUS_VECTOR, &[0xd538_6000, 0xd538_5201, CALL]); // mrs x0, far_el1; mrs x1, esr_el1
        guest.system.words[words::VBAR].set(CODE + VECTORS);
        guest.frame.regs[0].set(NOTHING);
        let trap = self.run_guest(&guest);
        let is_fault = matches!(trap, Trap::Guest(GuestTrap::Fault { address, .. }) if address.get() == NOTHING);
        ensure(is_fault, "a load of nothing", trap_code(trap), NOTHING)?;
        self.machine.raise_in_guest(guest.frame, guest.system, GuestException::Access(Access::Read));
        self.guest_stops(&guest, "a call of the handler", GuestTrap::Hypercall { immediate: 0 })?;
        same("the address", guest.frame.regs[0].get(), NOTHING)?;
        same("the syndrome", guest.frame.regs[1].get(), EXTERNAL_READ)
    }
}

//! Guests, on cores that have them.

mod aarch64;
mod instructions;
mod riscv64;

use core::cell::Cell;

use motet_layout::{Frame, GuestSystem, UserFrame};
use motet_paging::{Attr, PhysMap, Stage2, Table};

use instructions::{Instructions, instructions};

use super::{
    Check, Failure, SHORT_NS, Suite, ensure,
    programs::{Program, Step, address_register, value_register},
    same,
    user::trap_code,
};
use crate::{Access, GuestAccess, GuestException, GuestTrap, Interrupts, Machine, Trap};

/// Where a guest's program is, and a page that it may write: physical addresses of the guest.
const CODE: u64 = 0x8000_0000;
const DATA: u64 = 0x1_0000_0000;
/// A page that it may only read, and one that is not there.
const READ_ONLY: u64 = DATA + 0x1000;
const NOTHING: u64 = 0x4000_0008;

/// A guest with a page of program and a page of data.
struct Guest {
    root: Frame,
    code: Frame,
    data: Frame,
    frame: &'static UserFrame,
    system: &'static GuestSystem,
}

impl<M: Machine> Suite<M> {
    pub(super) fn guest_tests(&self) {
        let (Some(format), Some(instructions)) = (self.machine.guest_format(), instructions(M::ISA)) else {
            return;
        };
        self.test("guest_calls", |suite| suite.guest_calls(format));
        self.test("guest_is_served", |suite| suite.guest_is_served(format));
        self.test("guest_memory", |suite| suite.guest_memory(format));
        self.test("guest_waits", |suite| suite.guest_waits(format, &instructions));
        self.test("guest_registers", |suite| suite.guest_registers(format, &instructions));
        self.test("guest_interrupted", |suite| suite.guest_interrupted(format));
        self.test("guest_loads", |suite| suite.guest_loads(format, &instructions));
        self.test("guest_keeps_system_registers", |suite| suite.guest_keeps_system_registers(format, &instructions));
        if !instructions.open_float.is_empty() {
            self.test("guest_floating_point", |suite| suite.guest_floating_point(format, &instructions));
        }
        self.test("guest_is_refused", |suite| suite.guest_is_refused(format, &instructions));
        self.aarch64_guest_tests(format);
        self.riscv64_guest_tests(format);
        self.test("user_after_guest", |suite| suite.user_after_guest(format));
    }

    fn guest(&self, format: Stage2) -> Result<Guest, Failure> {
        let record = &self.pool.header().islands[self.island.index()];
        let frames = (format.root_bytes() / motet_layout::PAGE_SIZE) as u32;
        let root = self.scratch.frames(frames);
        let map = PhysMap::new(&record.ranges, self.pool.len());
        let table = Table { pool: self.pool, root, format, map };
        let [code, data, read_only, frame, system] = core::array::from_fn(|_| self.scratch.frame());
        let pages = [(CODE, code, Attr::EXECUTE), (DATA, data, Attr::WRITE), (READ_ONLY, read_only, Attr::READ)];
        for (address, page, attr) in pages {
            let mapped = table.map(address, page, attr, &mut || Some(self.scratch.frame()));
            ensure(mapped.is_ok(), "mapping", 0, 1)?;
        }
        self.machine.page_table_fence();
        self.machine.flush_guests();
        let (frame, system) = (self.pool.at::<UserFrame>(frame.addr()), self.pool.at(system.addr()));
        frame.isa.set(M::ISA as u32);
        Ok(Guest { root, code, data, frame, system })
    }

    fn guest_program(&self, guest: &Guest, steps: &[Step], words: &[u32]) {
        let mut program = Program::new(M::ISA, steps);
        words.iter().for_each(|word| program.word(*word));
        self.pool.write(guest.code.addr(), program.bytes());
        self.machine.sync_instructions(guest.code);
        guest.frame.pc.set(CODE);
    }

    /// Puts instructions at an offset into its page of program, which begins with the first.
    fn guest_words(&self, guest: &Guest, at: u64, words: &[u32]) {
        for (index, word) in (0..).zip(words) {
            self.pool.write(guest.code.addr().add(at + 4 * index), &word.to_le_bytes());
        }
        self.machine.sync_instructions(guest.code);
        guest.frame.pc.set(CODE);
    }

    /// Goes on until a trap that is no interrupt, but not for ever.
    fn run_guest(&self, guest: &Guest) -> Trap {
        let deadline = self.machine.counter_ns() + SHORT_NS;
        self.machine.set_timer(deadline);
        loop {
            match self.machine.run_guest(guest.frame, guest.system, guest.root) {
                Trap::Interrupt(_) if self.machine.counter_ns() < deadline => {}
                trap => return trap,
            }
        }
    }

    /// Goes on, and fails unless `expected` stops the guest.
    fn guest_stops(&self, guest: &Guest, what: &'static str, expected: GuestTrap) -> Check {
        let trap = self.run_guest(guest);
        if trap != Trap::Guest(expected) {
            self.log(format_args!("{trap:?}, pc {:#x}", guest.frame.pc.get()));
        }
        ensure(trap == Trap::Guest(expected), what, trap_code(trap), trap_code(Trap::Guest(expected)))
    }

    fn guest_calls(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        let value = value_register(M::ISA);
        self.guest_program(
            &guest,
            &[Step::Increment(value), Step::Hypercall, Step::Increment(value), Step::Hypercall],
            &[],
        );
        guest.frame.regs[value].set(0x1234_5678_9abc);
        for n in 1..3 {
            self.guest_stops(&guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
            same("the guest's register", guest.frame.regs[value].get(), 0x1234_5678_9abc + n)?;
        }
        let size = Program::new(M::ISA, &[Step::Hypercall, Step::Increment(value)]).bytes().len() as u64;
        same("the guest's pc", guest.frame.pc.get(), CODE + 2 * size)
    }

    /// Calls that are served while the guest's registers may be in the core: it keeps them all, and goes on behind the call.
    fn guest_is_served(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        let value = value_register(M::ISA);
        let pair = [Step::Increment(value), Step::Hypercall];
        let steps = [pair, pair, pair];
        self.guest_program(&guest, steps.as_flattened(), &[]);
        for (number, register) in guest.frame.regs.iter().enumerate() {
            register.set(number as u64 * 0x0101_0101_0101);
        }
        let before: [u64; 31] = core::array::from_fn(|number| guest.frame.regs[number].get());
        let is_call = |trap| trap == Trap::Guest(GuestTrap::Hypercall { immediate: 0 });
        let (served, mut returned) = (Cell::new(0), 0);
        let serve = |trap| {
            let is_served = is_call(trap) && served.get() < 2;
            served.set(served.get() + u64::from(is_served));
            is_served
        };
        while served.get() + returned < 3 {
            let trap = self.machine.run_guest_with(guest.frame, guest.system, guest.root, serve);
            ensure(is_call(trap) || matches!(trap, Trap::Interrupt(_)), "a call", trap_code(trap), 0)?;
            returned += u64::from(is_call(trap));
        }
        for (number, before) in before.into_iter().enumerate() {
            let wanted = before + if number == value { 3 } else { 0 };
            same("the guest's register", guest.frame.regs[number].get(), wanted)?;
        }
        same(
            "the guest's pc",
            guest.frame.pc.get(),
            CODE + Program::new(M::ISA, steps.as_flattened()).bytes().len() as u64,
        )
    }

    fn guest_memory(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        let (value, address) = (value_register(M::ISA), address_register(M::ISA));
        let run = |steps: &[Step], at: u64| {
            self.guest_program(&guest, steps, &[]);
            guest.frame.regs[address].set(at);
        };
        self.word(guest.data, 2).set(40);
        run(&[Step::Load, Step::Increment(value), Step::Store, Step::Hypercall], DATA + 16);
        self.guest_stops(&guest, "loads and stores", GuestTrap::Hypercall { immediate: 0 })?;
        same("what the guest stored", self.word(guest.data, 2).get(), 41)?;
        let access = |kind| GuestAccess {
            size_bytes: 8,
            register: Some(value as u8),
            instruction_bytes: 4,
            ..GuestAccess::unknown(kind)
        };
        let fault = |at: u64, access| GuestTrap::Fault { access, address: at.into() };
        run(&[Step::Load], NOTHING);
        self.guest_stops(&guest, "a load of nothing", fault(NOTHING, access(Access::Read)))?;
        same("the guest's pc", guest.frame.pc.get(), CODE)?;
        run(&[Step::Store], READ_ONLY + 8);
        self.guest_stops(&guest, "a store to what is only read", fault(READ_ONLY + 8, access(Access::Write)))?;
        run(&[Step::Jump], DATA);
        let fetch = GuestAccess::unknown(Access::Execute);
        self.guest_stops(&guest, "a jump to data", fault(DATA, fetch))?;
        same("the guest's pc", guest.frame.pc.get(), DATA)
    }

    fn guest_waits(&self, format: Stage2, instructions: &Instructions) -> Check {
        let guest = self.guest(format)?;
        self.guest_program(&guest, &[], &[instructions.wait, instructions.read_missing]);
        self.guest_stops(&guest, "a wait", GuestTrap::WaitForInterrupt)?;
        same("the guest's pc", guest.frame.pc.get(), CODE + 4)?;
        let missing = GuestTrap::SystemRegister(instructions.missing);
        self.guest_stops(&guest, "a system register", missing)?;
        same("the guest's pc", guest.frame.pc.get(), CODE + 4)
    }

    /// Two guests that take turns do not see each other's system registers, nor each other's memory.
    fn guest_registers(&self, format: Stage2, instructions: &Instructions) -> Check {
        let guests = [self.guest(format)?, self.guest(format)?];
        let (value, address) = (value_register(M::ISA), address_register(M::ISA));
        for (n, guest) in (1..).zip(&guests) {
            self.guest_program(guest, &[Step::Hypercall], &[instructions.write_system]);
            let call = Program::new(M::ISA, &[Step::Hypercall]);
            self.pool.write(guest.code.addr().add(call.bytes().len() as u64 + 4), call.bytes());
            self.machine.sync_instructions(guest.code);
            guest.frame.regs[value].set(0x1111 * n);
            guest.frame.regs[address].set(DATA);
            self.word(guest.data, 0).set(n);
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
        }
        for (n, guest) in (1..).zip(&guests) {
            self.guest_program(guest, &[], &[instructions.read_system]);
            self.pool.write(
                guest.code.addr().add(4),
                Program::new(M::ISA, &[Step::Hypercall, Step::Load, Step::Hypercall]).bytes(),
            );
            self.machine.sync_instructions(guest.code);
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
            same("a guest's system register", guest.frame.regs[value].get(), 0x1111 * n)?;
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
            same("a guest's memory", guest.frame.regs[value].get(), n)?;
        }
        Ok(())
    }

    /// Loads and stores of other sizes say what they do to which register.
    fn guest_loads(&self, format: Stage2, instructions: &Instructions) -> Check {
        let guest = self.guest(format)?;
        for &(word, access) in instructions.accesses {
            self.guest_words(&guest, 0, &[word]);
            guest.frame.regs[address_register(M::ISA)].set(NOTHING);
            self.guest_stops(&guest, "an access", GuestTrap::Fault { access, address: NOTHING.into() })?;
        }
        Ok(())
    }

    /// Each of two guests finds in its system registers what it has written there.
    fn guest_keeps_system_registers(&self, format: Stage2, instructions: &Instructions) -> Check {
        let guests = [self.guest(format)?, self.guest(format)?];
        let value = value_register(M::ISA);
        let pattern = |index: usize, n: usize| 0x1234_5678_9abc_def0_u64.rotate_left(4 * index as u32 + 20 * n as u32);
        let access = |guest: &Guest, word: u32| {
            self.guest_program(guest, &[], &[word]);
            self.pool.write(guest.code.addr().add(4), Program::new(M::ISA, &[Step::Hypercall]).bytes());
            self.machine.sync_instructions(guest.code);
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })
        };
        for (index, register) in instructions.registers.iter().enumerate() {
            for (n, guest) in guests.iter().enumerate() {
                guest.frame.regs[value].set(pattern(index, n) & register.mask);
                access(guest, register.write)?;
            }
        }
        for (index, register) in instructions.registers.iter().enumerate() {
            for (n, guest) in guests.iter().enumerate() {
                access(guest, register.read)?;
                let (found, expected) =
                    (guest.frame.regs[value].get() & register.mask, pattern(index, n) & register.mask);
                if found != expected {
                    self.log(format_args!("register {:#x} of guest {n}", register.write));
                }
                same("a guest's system register", found, expected)?;
            }
        }
        Ok(())
    }

    /// A guest's floating-point registers are switched as a program's.
    fn guest_floating_point(&self, format: Stage2, instructions: &Instructions) -> Check {
        let guests = [self.guest(format)?, self.guest(format)?];
        let value = value_register(M::ISA);
        let run = |guest: &Guest, step: Step, number: u64| {
            self.guest_words(guest, 0, instructions.open_float);
            let at = guest.code.addr().add(4 * instructions.open_float.len() as u64);
            self.pool.write(at, Program::new(M::ISA, &[step, Step::Hypercall]).bytes());
            self.machine.sync_instructions(guest.code);
            guest.frame.regs[value].set(number);
            self.machine.load_ext(guest.frame);
            self.guest_stops(guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
            self.machine.save_ext(guest.frame);
            Ok::<u64, Failure>(guest.frame.regs[value].get())
        };
        for (n, guest) in (1..).zip(&guests) {
            run(guest, Step::SetLastExt, 0x7777_0000 + n)?;
        }
        for (n, guest) in (1..).zip(&guests) {
            same("a guest's floating-point register", run(guest, Step::GetLastExt, 0)?, 0x7777_0000 + n)?;
        }
        Ok(())
    }

    fn guest_interrupted(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        self.guest_program(&guest, &[Step::Count], &[]);
        let start = self.machine.counter_ns();
        let count = &guest.frame.regs[value_register(M::ISA)];
        // A busy host may take longer to its first instruction than the timer has.
        while count.get() == 0 && self.machine.counter_ns() < start + SHORT_NS {
            self.machine.set_timer(self.machine.counter_ns() + 1_000_000);
            let interrupts = loop {
                match self.machine.run_guest(guest.frame, guest.system, guest.root) {
                    Trap::Interrupt(Interrupts::EMPTY) => {}
                    Trap::Interrupt(interrupts) => break interrupts,
                    trap => return Err(Failure { what: "trap", found: trap_code(trap), expected: 0x100 }),
                }
            };
            same("interrupts", interrupts.0.into(), Interrupts::TIMER.0.into())?;
        }
        ensure(count.get() != 0, "what the guest counted to", 0, 1)
    }

    /// A guest's handler is told of an instruction that it does not have, and returns behind it.
    fn guest_is_refused(&self, format: Stage2, instructions: &Instructions) -> Check {
        const VECTORS: u64 = 0x800;
        let guest = self.guest(format)?;
        let vectors = &instructions.vectors;
        self.guest_program(&guest, &[], &[vectors.set, instructions.read_missing]);
        self.pool.write(guest.code.addr().add(8), Program::new(M::ISA, &[Step::Hypercall]).bytes());
        self.guest_words(&guest, VECTORS + vectors.offset, vectors.handler);
        guest.frame.regs[value_register(M::ISA)].set(CODE + VECTORS);
        self.guest_stops(&guest, "what it does not have", GuestTrap::SystemRegister(instructions.missing))?;
        self.machine.raise_in_guest(guest.frame, guest.system, GuestException::IllegalInstruction { word: 0 });
        self.guest_stops(&guest, "a call behind it", GuestTrap::Hypercall { immediate: 0 })?;
        let size = Program::new(M::ISA, &[Step::Hypercall]).bytes().len() as u64;
        same("the guest's pc", guest.frame.pc.get(), CODE + 8 + size)?;
        same("the cause", guest.frame.regs[vectors.register].get(), vectors.cause)
    }

    /// A program that runs after a guest is a program.
    fn user_after_guest(&self, format: Stage2) -> Check {
        let guest = self.guest(format)?;
        self.guest_program(&guest, &[Step::Hypercall], &[]);
        self.guest_stops(&guest, "a call", GuestTrap::Hypercall { immediate: 0 })?;
        self.kernel_addresses_are_closed()?;
        self.load_and_store()?;
        self.extended_state()
    }
}

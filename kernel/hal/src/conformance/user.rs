//! User mode: registers, traps, extended state.

use motet_layout::{Frame, IslandId, POOL_VA, PoolAddr, UserFrame};
use motet_paging::{Attr, Format, PhysMap, Table};

use super::programs::{
    Program, Step, address_register, breakpoint_advance, general_registers, is_clobbered, thread_register,
    traps_misaligned, value_register,
};
use super::{Check, Failure, Suite, ensure, same};
use crate::{Access, Interrupts, Machine, Trap};

/// Where programs are mapped.
pub const CODE_VA: u64 = 0x40_0000;
/// Where data is mapped; in another table of pages than the code.
pub const DATA_VA: u64 = 0x4000_0000;
/// Interrupts in a row that may be for nothing.
const EARLY_MAX: u64 = 1000;
/// Never mapped.
const NOWHERE_VA: u64 = 0x1234_5000;

/// A user address space of an island, one page of code, one of data, and a register frame.
pub struct Space {
    pub table: Table<'static>,
    pub code: Frame,
    pub data: Frame,
    pub frame: &'static UserFrame,
}

/// A number that says which trap it was, for messages and mailboxes.
pub const fn trap_code(trap: Trap) -> u64 {
    match trap {
        Trap::Syscall => 1,
        Trap::PageFault { access: Access::Read, .. } => 2,
        Trap::PageFault { access: Access::Write, .. } => 3,
        Trap::PageFault { access: Access::Execute, .. } => 4,
        Trap::IllegalInstruction { .. } => 5,
        Trap::Breakpoint => 6,
        Trap::Arithmetic => 7,
        Trap::Misaligned { .. } => 8,
        Trap::BadAddress { .. } => 9,
        Trap::Guest(_) => 10,
        Trap::Interrupt(interrupts) => 0x100 | interrupts.0 as u64,
    }
}

impl Space {
    pub fn value(&self, isa: motet_layout::Isa) -> u64 {
        self.frame.regs[value_register(isa)].get()
    }

    /// Prepares to run from the beginning with `value` and `address` in their registers.
    pub fn set(&self, isa: motet_layout::Isa, value: u64, address: u64) {
        self.frame.pc.set(CODE_VA);
        self.frame.regs[value_register(isa)].set(value);
        self.frame.regs[address_register(isa)].set(address);
    }
}

impl<M: Machine> Suite<M> {
    pub(super) fn user_tests(&self) {
        self.test("syscall_preserves_registers", Self::syscall_preserves_registers);
        self.test("registers_reach_the_core", Self::registers_reach_the_core);
        self.test("thread_pointer", Self::thread_pointer);
        self.test("load_and_store", Self::load_and_store);
        self.test("page_faults", Self::page_faults);
        self.test("kernel_addresses_are_closed", Self::kernel_addresses_are_closed);
        self.test("illegal_instruction", Self::illegal_instruction);
        self.test("breakpoint", Self::breakpoint);
        self.test("misaligned", Self::misaligned);
        self.test("extended_state", Self::extended_state);
    }

    /// The table with root `root` of any island.
    pub(super) fn table(&self, island: IslandId, root: Frame) -> Result<Table<'static>, Failure> {
        let record = &self.pool.header().islands[island.index()];
        let format = motet_layout::Isa::from_raw(record.paging.get()).and_then(Format::from_isa);
        let unknown = Failure { what: "paging format", found: record.paging.get().into(), expected: 1 };
        let map = PhysMap::new(&record.ranges, self.pool.len());
        Ok(Table { pool: self.pool, root, format: format.ok_or(unknown)?, map })
    }

    /// A fresh space with a program mapped at [`CODE_VA`] and a zeroed page at [`DATA_VA`].
    pub(super) fn space(&self, steps: &[Step]) -> Result<Space, Failure> {
        let root = self.scratch.frame();
        self.machine.prepare_root(root);
        let frame = self.pool.at::<UserFrame>(self.scratch.frame().addr());
        let space = Space {
            table: self.table(self.island, root)?,
            code: self.scratch.frame(),
            data: self.scratch.frame(),
            frame,
        };
        self.write_program(space.code, steps);
        self.map(&space.table, CODE_VA, space.code, Attr::READ | Attr::EXECUTE)?;
        self.map(&space.table, DATA_VA, space.data, Attr::READ | Attr::WRITE)?;
        self.machine.page_table_fence();
        frame.isa.set(M::ISA as u32);
        frame.status.set(initial_status(M::ISA));
        space.set(M::ISA, 0, DATA_VA);
        Ok(space)
    }

    pub(super) fn write_program(&self, code: Frame, steps: &[Step]) {
        self.pool.write(code.addr(), Program::new(M::ISA, steps).bytes());
        self.machine.sync_instructions(code);
    }

    pub(super) fn map(&self, table: &Table<'_>, address: u64, frame: Frame, attr: Attr) -> Check {
        let mapped = table.map(address, frame, attr, &mut || Some(self.scratch.frame()));
        ensure(mapped.is_ok(), "mapping", 0, 1)
    }

    /// Runs until a trap that is no interrupt.
    pub(super) fn run_to_trap(&self, space: &Space) -> Trap {
        loop {
            match self.machine.run_user(space.frame) {
                Trap::Interrupt(_) => {}
                trap => return trap,
            }
        }
    }

    /// Runs `steps` with `address` in a fresh space.
    fn run_steps(&self, steps: &[Step], address: u64) -> Result<(Trap, Space), Failure> {
        let space = self.space(steps)?;
        Ok((self.run_again(&space, steps, address), space))
    }

    /// Runs other `steps` in the same space.
    fn run_again(&self, space: &Space, steps: &[Step], address: u64) -> Trap {
        self.write_program(space.code, steps);
        space.set(M::ISA, 0, address);
        self.machine.activate_space(space.table.root);
        self.run_to_trap(space)
    }

    fn syscall_preserves_registers(&self) -> Check {
        let space = self.space(&[Step::Syscall, Step::Syscall])?;
        self.machine.activate_space(space.table.root);
        let pattern = |round: u64, register: usize| 0x0123_4567_89ab_cd00 * (round + 1) ^ register as u64 * 8;
        for round in 0..2 {
            let pc = space.frame.pc.get();
            for register in general_registers(M::ISA) {
                space.frame.regs[register].set(pattern(round, register));
            }
            same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
            for register in general_registers(M::ISA).filter(|&register| !is_clobbered(M::ISA, register)) {
                same("register after a system call", space.frame.regs[register].get(), pattern(round, register))?;
            }
            let size = Program::new(M::ISA, &[Step::Syscall]).bytes().len() as u64;
            same("pc after a system call", space.frame.pc.get(), pc + size)?;
        }
        Ok(())
    }

    fn registers_reach_the_core(&self) -> Check {
        let space = self.space(&[])?;
        let mut program = Program::new(M::ISA, &[]);
        for register in general_registers(M::ISA) {
            program.step(M::ISA, Step::Increment(register));
            space.frame.regs[register].set(0x1000_0000_0000 * register as u64 + 7);
        }
        program.step(M::ISA, Step::Syscall);
        self.pool.write(space.code.addr(), program.bytes());
        self.machine.sync_instructions(space.code);
        self.machine.activate_space(space.table.root);
        same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
        for register in general_registers(M::ISA).filter(|&register| !is_clobbered(M::ISA, register)) {
            same(
                "register incremented by user code",
                space.frame.regs[register].get(),
                0x1000_0000_0000 * register as u64 + 8,
            )?;
        }
        Ok(())
    }

    fn thread_pointer(&self) -> Check {
        let space = self.space(&[Step::ThreadPointer, Step::Syscall])?;
        self.word(space.data, 0).set(DATA_VA); // as a thread control block begins on x86-64
        space.frame.regs[thread_register(M::ISA)].set(DATA_VA);
        self.machine.activate_space(space.table.root);
        same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
        same("thread pointer in user mode", space.value(M::ISA), DATA_VA)?;
        same("thread pointer in the frame", space.frame.regs[thread_register(M::ISA)].get(), DATA_VA)
    }

    pub(super) fn load_and_store(&self) -> Check {
        let space = self.space(&[Step::Load, Step::Increment(value_register(M::ISA)), Step::Store, Step::Syscall])?;
        self.machine.activate_space(space.table.root);
        self.word(space.data, 1).set(41);
        space.set(M::ISA, 0, DATA_VA + 8);
        same("trap", trap_code(self.run_to_trap(&space)), trap_code(Trap::Syscall))?;
        same("word in the pool", self.word(space.data, 1).get(), 42)?;
        same("word before it", self.word(space.data, 0).get(), 0)
    }

    fn page_faults(&self) -> Check {
        let fault = |address, access| Trap::PageFault { address, access };
        let cases = [
            (Step::Load, NOWHERE_VA + 8, fault(NOWHERE_VA + 8, Access::Read)),
            (Step::Store, NOWHERE_VA + 16, fault(NOWHERE_VA + 16, Access::Write)),
            (Step::Store, CODE_VA + 64, fault(CODE_VA + 64, Access::Write)),
            (Step::Jump, NOWHERE_VA, fault(NOWHERE_VA, Access::Execute)),
            (Step::Jump, DATA_VA, fault(DATA_VA, Access::Execute)),
            (Step::Load, 0, fault(0, Access::Read)),
        ];
        let space = self.space(&[])?;
        for (step, address, expected) in cases {
            let trap = self.run_again(&space, &[step, Step::Syscall], address);
            same("kind of fault", trap_code(trap), trap_code(expected))?;
            ensure(trap == expected, "address of the fault", address_of(trap), address)?;
            let at = if step == Step::Jump { address } else { CODE_VA };
            same("pc of the fault", space.frame.pc.get(), at)?;
            same("address register", space.frame.regs[address_register(M::ISA)].get(), address)?;
        }
        Ok(())
    }

    pub(super) fn kernel_addresses_are_closed(&self) -> Check {
        let space = self.space(&[])?;
        for address in [POOL_VA, 1 << 47, 1 << 62, u64::MAX - 7] {
            for step in [Step::Load, Step::Store, Step::Jump] {
                if step == Step::Jump && address == u64::MAX - 7 {
                    continue; // not an instruction boundary everywhere
                }
                let trap = self.run_again(&space, &[step, Step::Syscall], address);
                let refused = matches!(trap, Trap::PageFault { .. } | Trap::BadAddress { .. });
                ensure(refused, "trap at a kernel or non-canonical address", trap_code(trap), 9)?;
            }
        }
        Ok(())
    }

    fn illegal_instruction(&self) -> Check {
        let (trap, space) = self.run_steps(&[Step::Illegal], DATA_VA)?;
        same("trap", trap_code(trap), trap_code(Trap::IllegalInstruction { word: 0 }))?;
        same("pc", space.frame.pc.get(), CODE_VA)
    }

    fn breakpoint(&self) -> Check {
        let (trap, space) = self.run_steps(&[Step::Breakpoint], DATA_VA)?;
        same("trap", trap_code(trap), trap_code(Trap::Breakpoint))?;
        same("pc", space.frame.pc.get(), CODE_VA + breakpoint_advance(M::ISA))
    }

    fn misaligned(&self) -> Check {
        // Across 16 bytes, within which AArch64 with LSE2 and RISC-V with Zama16b allow it.
        let address = DATA_VA + 13;
        let (trap, _) = self.run_steps(&[Step::AlignedAccess, Step::Syscall], address)?;
        if !traps_misaligned(M::ISA) {
            return same("trap", trap_code(trap), trap_code(Trap::Syscall));
        }
        same("trap", trap_code(trap), trap_code(Trap::Misaligned { address: 0 }))?;
        same("address", address_of(trap), address)
    }

    /// Two threads' extended registers, switched as a kernel switches them.
    pub(super) fn extended_state(&self) -> Check {
        let writer = [
            Step::SetFirstExt,
            Step::SetLastExt,
            Step::Syscall,
            Step::GetFirstExt,
            Step::Syscall,
            Step::GetLastExt,
            Step::Syscall,
        ];
        let threads = [self.space(&writer)?, self.space(&writer)?];
        for (index, thread) in threads.iter().enumerate() {
            thread.set(M::ISA, 0x5555_0000 + index as u64, DATA_VA);
            thread.frame.ext_valid.set(0);
            self.machine.activate_space(thread.table.root);
            self.machine.load_ext(thread.frame);
            same("trap", trap_code(self.run_to_trap(thread)), trap_code(Trap::Syscall))?;
            self.machine.save_ext(thread.frame);
            same("ext_valid", thread.frame.ext_valid.get().into(), 1)?;
        }
        for (index, thread) in threads.iter().enumerate() {
            self.machine.activate_space(thread.table.root);
            self.machine.load_ext(thread.frame);
            for _ in 0..2 {
                same("trap", trap_code(self.run_to_trap(thread)), trap_code(Trap::Syscall))?;
                same("extended register", thread.value(M::ISA), 0x5555_0000 + index as u64)?;
            }
        }
        let fresh = self.space(&[Step::GetLastExt, Step::Syscall])?;
        fresh.frame.ext_valid.set(0);
        self.machine.activate_space(fresh.table.root);
        self.machine.load_ext(fresh.frame);
        same("trap", trap_code(self.run_to_trap(&fresh)), trap_code(Trap::Syscall))?;
        same("initial extended register", fresh.value(M::ISA), 0)
    }

    /// Word `index` of a frame.
    pub(super) fn word(&self, frame: Frame, index: u64) -> &'static motet_layout::Cell64 {
        self.pool.at(PoolAddr(frame.addr().0 + index * 8))
    }

    /// Runs `space` and says which interrupt stopped it. One that tells of nothing, as of a timer that fires before its deadline and is
    /// set again, does not count; more than [`EARLY_MAX`] of them are a failure.
    pub(super) fn run_to_interrupt(&self, space: &Space) -> Result<Interrupts, Failure> {
        for _ in 0..=EARLY_MAX {
            match self.machine.run_user(space.frame) {
                Trap::Interrupt(Interrupts::EMPTY) => {}
                Trap::Interrupt(interrupts) => return Ok(interrupts),
                trap => {
                    return Err(Failure {
                        what: "trap instead of an interrupt",
                        found: trap_code(trap),
                        expected: 0x100,
                    });
                }
            }
        }
        Err(Failure { what: "interrupts that tell of nothing", found: EARLY_MAX + 1, expected: EARLY_MAX })
    }
}

fn address_of(trap: Trap) -> u64 {
    match trap {
        Trap::PageFault { address, .. } | Trap::Misaligned { address } | Trap::BadAddress { address } => address,
        Trap::Syscall
        | Trap::IllegalInstruction { .. }
        | Trap::Breakpoint
        | Trap::Arithmetic
        | Trap::Interrupt(_)
        | Trap::Guest(_) => 0,
    }
}

/// What a fresh thread has in `status`: interrupts on (x86-64), user mode with everything clear elsewhere.
const fn initial_status(isa: motet_layout::Isa) -> u64 {
    match isa {
        motet_layout::Isa::X86_64 => 0x202,
        motet_layout::Isa::AArch64 | motet_layout::Isa::RiscV64 | motet_layout::Isa::Hosted => 0,
    }
}

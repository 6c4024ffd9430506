//! Vector registers that not every core of the ISA has. A HAL without them passes.

use motet_layout::{VECTOR_FRAMES_MAX, Vectors, vector_frames};

use super::programs::{Step, call_clears_vector, float_clears_vector};
use super::user::{CODE_VA, DATA_VA, Space, trap_code};
use super::{Check, Failure, Suite, ensure, same};
use crate::{Machine, Trap};

impl<M: Machine> Suite<M> {
    pub(super) fn vector_tests(&self) {
        if self.machine.vector_bytes() == 0 {
            return self.log(format_args!("no vector registers"));
        }
        self.test("vectors_begin_closed_and_initial", Self::vectors_begin_closed_and_initial);
        self.test("vectors_survive_closing", Self::vectors_survive_closing);
        self.test("vectors_survive_other_threads", Self::vectors_survive_other_threads);
        self.test("vectors_and_the_base_state", Self::vectors_and_the_base_state);
        self.test("vectors_kept_open_survive_other_threads", Self::vectors_kept_open_survive_other_threads);
        self.test("withheld_vectors_are_illegal", Self::withheld_vectors_are_illegal);
    }

    /// A thread that has no extended state yet, loaded.
    fn fresh(&self) -> Result<Space, Failure> {
        let space = self.space(&[])?;
        // What a frame that is not valid holds means nothing.
        space.frame.ext.iter().for_each(|word| word.set(u64::MAX));
        space.frame.ext_valid.set(0);
        space.frame.vector_bytes.set(self.machine.vector_bytes());
        self.give_area(&space);
        self.machine.load_ext(space.frame);
        Ok(space)
    }

    /// An area for the core's vector registers, if the HAL needs one, with values that mean nothing.
    fn give_area(&self, space: &Space) {
        let (format, bytes) = (self.machine.vector_format(), self.machine.vector_bytes());
        if format == 0 {
            return;
        }
        let frames = [(); VECTOR_FRAMES_MAX].map(|()| self.scratch.frame());
        let frames = &frames[..vector_frames(format, bytes as usize)];
        let address = Vectors::lay_out(self.pool, frames, format, bytes);
        if let Some(area) = Vectors::at(self.pool, address) {
            area.words().for_each(|word| word.set(u64::MAX));
        }
        space.frame.vectors.set(address.0);
    }

    /// Runs a step and a breakpoint, with `value` in its register.
    fn step(&self, space: &Space, step: Step, value: u64) -> Trap {
        self.write_program(space.code, &[step, Step::Breakpoint]);
        space.set(M::ISA, value, DATA_VA);
        self.machine.activate_space(space.table.root);
        self.run_to_trap(space)
    }

    /// As a kernel does: opens the vector registers if the step traps for that.
    fn vector_step(&self, space: &Space, step: Step, value: u64) -> Result<u64, Failure> {
        if matches!(self.step(space, step, value), Trap::IllegalInstruction { .. }) {
            ensure(!self.machine.are_vectors_open(), "vectors open at an illegal instruction", 1, 0)?;
            same("pc of the illegal instruction", space.frame.pc.get(), CODE_VA)?;
            self.machine.open_vectors(space.frame);
            ensure(self.machine.are_vectors_open(), "vectors open", 0, 1)?;
            same("trap", trap_code(self.step(space, step, value)), trap_code(Trap::Breakpoint))?;
        }
        Ok(space.value(M::ISA))
    }

    fn vectors_begin_closed_and_initial(&self) -> Check {
        let first = self.fresh()?;
        ensure(!self.machine.are_vectors_open(), "vectors open for a fresh thread", 1, 0)?;
        self.vector_step(&first, Step::SetVector, u64::MAX)?;
        let second = self.fresh()?;
        ensure(!self.machine.are_vectors_open(), "vectors open for another fresh thread", 1, 0)?;
        if M::ISA == motet_layout::Isa::RiscV64 {
            return Ok(()); // elements cannot be read before their size is set
        }
        same("initial vector register", self.vector_step(&second, Step::GetVector, 1)?, 0)
    }

    fn vectors_survive_closing(&self) -> Check {
        let space = self.fresh()?;
        for value in 0x5555_0000..0x5555_0002 {
            self.vector_step(&space, Step::SetVector, value)?;
            self.machine.close_vectors(space.frame);
            same("vector register", self.vector_step(&space, Step::GetVector, 0)?, value)?;
            same("the same again", self.vector_step(&space, Step::GetVector, 0)?, value)?;
        }
        Ok(())
    }

    fn vectors_survive_other_threads(&self) -> Check {
        let threads = [self.fresh()?, self.fresh()?, self.fresh()?];
        let value = |index: usize| 0x7777_0000 + index as u64;
        for (index, thread) in threads.iter().enumerate() {
            self.machine.load_ext(thread.frame);
            self.vector_step(thread, Step::SetVector, value(index))?;
            self.machine.save_ext(thread.frame);
        }
        for (index, thread) in threads.iter().enumerate() {
            self.machine.load_ext(thread.frame);
            // Stored while they are closed, if they are, they stay.
            self.machine.save_ext(thread.frame);
            self.machine.load_ext(thread.frame);
            same("vector register", self.vector_step(thread, Step::GetVector, 0)?, value(index))?;
        }
        Ok(())
    }

    /// Floating-point registers are parts of vector registers on some ISAs, and the rest is what the ISA says.
    fn vectors_and_the_base_state(&self) -> Check {
        let space = self.fresh()?;
        let left = |cleared: bool| if cleared { 0 } else { 0x9999 };
        self.vector_step(&space, Step::SetVector, 0x9999)?;
        self.machine.close_vectors(space.frame);
        same("trap", trap_code(self.step(&space, Step::SetLastExt, 0)), trap_code(Trap::Breakpoint))?;
        self.machine.save_ext(space.frame);
        self.machine.load_ext(space.frame);
        let found = self.vector_step(&space, Step::GetVector, 1)?;
        same("vector register after a part was set", found, left(float_clears_vector(M::ISA)))?;
        same("trap", trap_code(self.step(&space, Step::SetLastExt, 0x4444)), trap_code(Trap::Breakpoint))?;
        self.machine.close_vectors(space.frame);
        same("trap", trap_code(self.step(&space, Step::GetLastExt, 0)), trap_code(Trap::Breakpoint))?;
        same("floating-point register", space.value(M::ISA), 0x4444)?;

        self.vector_step(&space, Step::SetVector, 0x9999)?;
        same("trap", trap_code(self.step(&space, Step::Syscall, 0)), trap_code(Trap::Syscall))?;
        let found = self.vector_step(&space, Step::GetVector, 1)?;
        same("vector register after a system call", found, left(call_clears_vector(M::ISA)))
    }

    fn vectors_kept_open_survive_other_threads(&self) -> Check {
        self.machine.keep_vectors_open();
        self.vectors_survive_other_threads()?;
        self.vectors_survive_closing()
    }

    /// For good: the last test of them.
    fn withheld_vectors_are_illegal(&self) -> Check {
        let space = self.fresh()?;
        self.vector_step(&space, Step::SetVector, 1)?;
        self.machine.withhold_vectors();
        same("bytes in withheld registers", self.machine.vector_bytes().into(), 0)?;
        for valid in [1, 0] {
            space.frame.ext_valid.set(valid);
            self.machine.load_ext(space.frame);
            let trap = self.step(&space, Step::SetVector, 1);
            same("trap", trap_code(trap), trap_code(Trap::IllegalInstruction { word: 0 }))?;
            same("pc of the illegal instruction", space.frame.pc.get(), CODE_VA)?;
        }
        Ok(())
    }
}

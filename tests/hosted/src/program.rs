//! Building user programs: code at a fixed address, writable data behind it, ELF around both.

use motet_hal_hosted::asm::{Assembler, Label};
use motet_hal_hosted::elf::{Segment, executable};
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;

use crate::calls::Sys;

/// Where programs are loaded.
pub const CODE: u64 = 0x1_0000;
/// Where their writable data begins; it reads as zero.
pub const DATA: u64 = 0x20_0000;
const DATA_LEN: u64 = 64 << 10;

/// A program under construction. Registers for its own use are in `asm.roles.saved`.
pub struct Program {
    /// The assembler, for everything that has no shorthand here.
    pub asm: Assembler,
    isa: Isa,
    strings: Vec<(Label, Vec<u8>)>,
}

impl Program {
    /// The executable file of a program for `isa`, whose instructions `write` appends.
    pub fn build(isa: Isa, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let code = Segment { address: CODE, flags: 5, bytes: Self::code(isa, CODE, write), memory_len: 0 };
        let data = Segment { address: DATA, flags: 6, bytes: Vec::new(), memory_len: DATA_LEN };
        executable(isa, CODE, &[code, data])
    }

    /// Instructions at an address, with their strings.
    pub fn code(isa: Isa, address: u64, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut program = Self { asm: Assembler::new(isa, address), isa, strings: Vec::new() };
        write(&mut program);
        for (label, bytes) in std::mem::take(&mut program.strings) {
            program.asm.bind(label);
            program.asm.bytes(&bytes);
        }
        program.asm.finish()
    }

    /// Argument register `index` = constant.
    pub fn arg(&mut self, index: usize, value: u64) {
        let register = self.asm.roles.args[index];
        self.asm.li(register, value);
    }

    /// A word of memory = constant. Uses the last saved register and the last argument's.
    pub fn store_at(&mut self, address: u64, value: u64) {
        let [.., at] = self.asm.roles.saved;
        let [.., word] = self.asm.roles.args;
        self.asm.li(at, address);
        self.asm.li(word, value);
        self.asm.op_i(Op::St64, word, at, 0);
    }

    /// Argument register `index` = another register.
    pub fn arg_from(&mut self, index: usize, register: u8) {
        let arg = self.asm.roles.args[index];
        self.asm.mov(arg, register);
    }

    /// Argument register `index` = address of a string, kept with the code.
    pub fn arg_string(&mut self, index: usize, text: &str) {
        let label = self.string(text);
        let register = self.asm.roles.args[index];
        self.asm.lea(register, label);
    }

    /// A zero-terminated string behind the code.
    pub fn string(&mut self, text: &str) -> Label {
        let label = self.asm.label();
        self.strings.push((label, text.bytes().chain([0]).collect()));
        label
    }

    /// A system call with constant arguments.
    pub fn call(&mut self, call: Sys, args: &[u64]) {
        self.asm.syscall(call.number(self.isa), args);
    }

    /// A system call whose arguments are in their registers.
    pub fn call_as_is(&mut self, call: Sys) {
        self.call(call, &[]);
    }

    /// register = result of the last system call.
    pub fn result_to(&mut self, register: u8) {
        let result = self.asm.roles.result;
        self.asm.mov(register, result);
    }

    /// Exits with `status` unless the last system call succeeded.
    pub fn or_exit(&mut self, status: u64) {
        let good = self.asm.label();
        let (result, scratch) = (self.asm.roles.result, self.asm.roles.args[5]);
        self.asm.li(scratch, 0);
        self.asm.branch(Op::Bge, result, scratch, good);
        self.call(Sys::ExitGroup, &[status]);
        self.asm.bind(good);
    }

    /// Exits with `status` unless the last system call's result is `wanted`.
    pub fn or_exit_unless(&mut self, wanted: u64, status: u64) {
        let good = self.asm.label();
        let (result, scratch) = (self.asm.roles.result, self.asm.roles.args[5]);
        self.asm.li(scratch, wanted);
        self.asm.branch(Op::Beq, result, scratch, good);
        self.call(Sys::ExitGroup, &[status]);
        self.asm.bind(good);
    }

    /// Writes a text to a descriptor.
    pub fn print(&mut self, fd: u64, text: &str) {
        self.arg(0, fd);
        self.arg_string(1, text);
        self.arg(2, text.len() as u64);
        self.call_as_is(Sys::Write);
    }

    /// register = the machine's time in nanoseconds, by way of 16 bytes at `at`. (Islands' counters differ.) Uses the last argument register.
    pub fn now_ns(&mut self, register: u8, scratch: u8, at: u64) {
        self.call(Sys::ClockGettime, &[1, at]); // CLOCK_MONOTONIC
        let base = self.asm.roles.args[5];
        self.asm.li(base, at);
        self.asm.op_i(Op::Ld64, register, base, 0);
        self.asm.li(scratch, 1_000_000_000);
        self.asm.op(Op::Mul, register, register, scratch);
        self.asm.op_i(Op::Ld64, scratch, base, 8);
        self.asm.op(Op::Add, register, register, scratch);
    }

    /// Does `body` again and again until so much time has passed. It leaves `end` alone.
    pub fn repeat_for(&mut self, ns: u64, [end, now, scratch]: [u8; 3], at: u64, mut body: impl FnMut(&mut Self)) {
        self.now_ns(end, scratch, at);
        self.asm.li(scratch, ns);
        self.asm.op(Op::Add, end, end, scratch);
        let again = self.asm.here();
        body(self);
        self.asm.li(now, 500);
        let count = self.asm.here();
        self.asm.op_i(Op::Addi, now, now, -1);
        self.asm.li(scratch, 0);
        self.asm.branch(Op::Bne, now, scratch, count);
        self.now_ns(now, scratch, at);
        self.asm.branch(Op::Bltu, now, end, again);
    }

    /// Ends the process.
    pub fn exit(&mut self, status: u64) {
        self.call(Sys::ExitGroup, &[status]);
    }

    /// register = 32-bit word at a constant address. Uses the last argument register.
    pub fn load_u32(&mut self, register: u8, address: u64) {
        let scratch = self.asm.roles.args[5];
        self.asm.li(scratch, address);
        self.asm.op_i(Op::Ld32, register, scratch, 0);
    }

    /// Forks: the child continues at the returned label's binding, the parent behind this. Its pid goes to `pid`.
    pub fn fork(&mut self, pid: u8) -> Label {
        let child = self.asm.label();
        self.fork_to(pid, child);
        child
    }

    /// As [`fork`](Self::fork), where the child continues at `child`.
    pub fn fork_to(&mut self, pid: u8, child: Label) {
        self.call(Sys::Clone, &[17, 0, 0, 0, 0]); // SIGCHLD
        self.or_exit(120);
        self.result_to(pid);
        let zero = self.asm.roles.args[5];
        self.asm.li(zero, 0);
        self.asm.branch(Op::Beq, pid, zero, child);
    }

    /// Forks: the child does what `child` writes, which ends it or makes it another program; the parent goes on behind this. Its pid goes to `pid`.
    pub fn fork_with(&mut self, pid: u8, child: impl FnOnce(&mut Self)) {
        let begins = self.fork(pid);
        let behind = self.asm.label();
        self.asm.jump(behind);
        self.asm.bind(begins);
        child(self);
        self.asm.bind(behind);
    }

    /// Leaves a process behind that has the same descriptors, and sleeps for ever: whoever looks at the pool when the machine has ended finds
    /// what they name. Uses the last saved register.
    pub fn leave_open(&mut self) {
        let [.., pid] = self.asm.roles.saved;
        self.fork_with(pid, |program| {
            program.call(Sys::Ppoll, &[0, 0, 0, 0, 8]);
            program.exit(0);
        });
    }

    /// Waits until there is no child any more. `zero`: a register that is free for that, and 0 afterwards.
    pub fn wait_for_all(&mut self, zero: u8) {
        let again = self.asm.here();
        self.call(Sys::Wait4, &[u64::MAX, 0, 0, 0]);
        let result = self.asm.roles.result;
        self.asm.li(zero, 0);
        self.asm.branch(Op::Bge, result, zero, again);
    }

    /// Waits for any child; its wait status is at [`DATA`] + 8.
    pub fn wait(&mut self) {
        self.call(Sys::Wait4, &[u64::MAX, DATA + 8, 0, 0]);
        self.or_exit(121);
    }

    /// Replaces the program; does not return but by exiting with 122.
    pub fn exec(&mut self, path: &str) {
        // Arguments at DATA + 64: the path, then nothing; an empty environment.
        let label = self.string(path);
        let (first, second) = (self.asm.roles.args[0], self.asm.roles.args[1]);
        self.asm.lea(first, label);
        self.asm.li(second, DATA + 64);
        self.asm.op_i(Op::St64, first, second, 0);
        self.arg(2, DATA + 72);
        self.call_as_is(Sys::Execve);
        self.call(Sys::ExitGroup, &[122]);
    }
}

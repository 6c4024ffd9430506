//! The migration handlers of `motet_abi::migration` in hosted instructions, with each ISA's registers and calling convention.

use std::sync::LazyLock;

use motet_abi::{
    migration::Handler,
    own::{MIGRATE, MIGRATE_BACK},
};
use motet_layout::Isa;

use crate::{
    asm::{Assembler, Label},
    isa::Op,
};

/// Registers of a handler.
struct Registers {
    isa: Isa,
    /// Of the function that is called, and the stack pointer for it: as the real handlers have them.
    target: u8,
    stack: u8,
    /// The argument whose register a system call needs itself, and where it is meanwhile.
    moved: Option<(u8, u8)>,
    /// The function's result, and where the kernel takes it from.
    result: [u8; 2],
    /// What the kernel has kept on the stack, when it is handed back.
    kinds: u8,
    /// Of the function's return address; x86-64 has that on the stack.
    link: Option<u8>,
    /// One that functions preserve.
    saved: u8,
    /// One that they do not.
    scratch: u8,
    /// The arguments of functions, and of system calls.
    arguments: [u8; 8],
}

const REGISTERS: [Registers; 3] = [
    Registers {
        isa: Isa::X86_64,
        target: 10,
        stack: 0,
        moved: Some((1, 10)),
        result: [0, 10],
        kinds: 7,
        link: None,
        saved: 3,
        scratch: 11,
        arguments: [7, 6, 2, 1, 8, 9, 0, 0],
    },
    Registers {
        isa: Isa::AArch64,
        target: 16,
        stack: 17,
        moved: None,
        result: [0, 0],
        kinds: 2,
        link: Some(30),
        saved: 29,
        scratch: 9,
        arguments: [0, 1, 2, 3, 4, 5, 6, 7],
    },
    Registers {
        isa: Isa::RiscV64,
        target: 6,
        stack: 7,
        moved: Some((17, 5)),
        result: [10, 10],
        kinds: 12,
        link: Some(1),
        saved: 8,
        scratch: 28,
        arguments: [10, 11, 12, 13, 14, 15, 16, 17],
    },
];

/// The handler of an ISA.
pub fn handler(isa: Isa) -> Option<Handler> {
    static HANDLERS: LazyLock<[Handler; 3]> = LazyLock::new(|| REGISTERS.map(|registers| registers.handler()));
    HANDLERS.iter().find(|handler| handler.isa == isa).copied()
}

impl Registers {
    fn handler(&self) -> Handler {
        // All addresses in it are relative.
        let mut asm = Assembler::new(self.isa, 0);
        let at = |asm: &Assembler| u16::try_from(asm.address()).expect("a handler is short");
        if let Some((from, to)) = self.moved {
            asm.mov(to, from);
        }
        asm.syscall(MIGRATE, &[]);
        let again_at = at(&asm);
        let (again, done) = (asm.here(), asm.label());
        asm.li(self.scratch, 0);
        asm.branch(Op::Beq, self.target, self.scratch, done);
        self.call(&mut asm);
        asm.syscall(MIGRATE_BACK, &[]);
        asm.jump(again);
        asm.bind(done);
        let nothing_at = at(&asm);
        self.leave(&mut asm);
        let system_call_at = at(&asm);
        self.system_call(&mut asm);
        Handler { isa: self.isa, code: asm.finish().leak(), again_at, nothing_at, system_call_at }
    }

    /// Calls the target on its stack, and puts its result and the kinds where the kernel looks for them.
    fn call(&self, asm: &mut Assembler) {
        let sp = asm.roles.stack;
        asm.op_i(Op::Addi, sp, sp, -32);
        if let Some(link) = self.link {
            asm.op_i(Op::St64, link, sp, 0);
        }
        asm.op_i(Op::St64, self.saved, sp, 8);
        asm.mov(self.saved, sp);
        asm.mov(sp, self.stack);
        match self.link {
            Some(link) => asm.op_i(Op::Jalr, link, self.target, 0),
            None => {
                let back: Label = asm.label();
                asm.op_i(Op::Addi, sp, sp, -8);
                asm.lea(self.scratch, back);
                asm.op_i(Op::St64, self.scratch, sp, 0);
                asm.op_i(Op::Jalr, self.scratch, self.target, 0);
                asm.bind(back);
            }
        }
        asm.mov(sp, self.saved);
        asm.op_i(Op::Ld64, self.kinds, sp, 16);
        if let Some(link) = self.link {
            asm.op_i(Op::Ld64, link, sp, 0);
        }
        asm.op_i(Op::Ld64, self.saved, sp, 8);
        asm.op_i(Op::Addi, sp, sp, 32);
        let [result, to] = self.result;
        if to != result {
            asm.mov(to, result);
        }
    }

    fn leave(&self, asm: &mut Assembler) {
        let sp = asm.roles.stack;
        let to = self.link.unwrap_or(self.scratch);
        if self.link.is_none() {
            asm.op_i(Op::Ld64, to, sp, 0);
            asm.op_i(Op::Addi, sp, sp, 8);
        }
        asm.op_i(Op::Jalr, self.scratch, to, 0);
    }

    fn system_call(&self, asm: &mut Assembler) {
        let (number, arguments) = (asm.roles.number, asm.roles.args);
        asm.mov(number, self.arguments[0]);
        // Each goes where an argument was that is not needed any more.
        for (index, to) in arguments.into_iter().enumerate() {
            match self.isa == Isa::X86_64 && index == 5 {
                true => asm.op_i(Op::Ld64, to, asm.roles.stack, 8),
                false => asm.mov(to, self.arguments[index + 1]),
            }
        }
        asm.op(Op::Syscall, 0, 0, 0);
        self.leave(asm);
    }
}

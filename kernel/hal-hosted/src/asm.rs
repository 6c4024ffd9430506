//! An assembler for test programs: a builder with labels.
//!
//! ```
//! use motet_hal_hosted::{asm::Assembler, isa::Op};
//! use motet_layout::Isa;
//! let mut asm = Assembler::new(Isa::Hosted, 0x10000);
//! let again = asm.here();
//! asm.op_i(Op::Addi, 0, 0, -1);
//! asm.li(1, 0);
//! asm.branch(Op::Bne, 0, 1, again);
//! asm.syscall(93, &[]); // exit
//! let program = asm.finish();
//! assert_eq!(program.len() % 8, 0);
//! ```

use motet_layout::Isa;

use crate::isa::{INSTRUCTION_SIZE, Instruction, Op, Roles};

/// A place in a program; bound once with [`Assembler::bind`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// Builds a program that will be loaded at a fixed address.
#[derive(Debug)]
pub struct Assembler {
    /// Which registers mean what on the island the program is for.
    pub roles: Roles,
    base: u64,
    words: Vec<u64>,
    /// Addresses of labels, `None` while unbound.
    labels: Vec<Option<u64>>,
    /// Instructions (index) whose immediate is the distance to a label.
    fixups: Vec<(usize, Label)>,
}

impl Assembler {
    /// A program for islands that say they have `isa`, whose first instruction lies at `base`.
    pub fn new(isa: Isa, base: u64) -> Self {
        Self { roles: Roles::of(isa), base, words: Vec::new(), labels: Vec::new(), fixups: Vec::new() }
    }

    /// The address of the next instruction.
    pub fn address(&self) -> u64 {
        self.base + self.words.len() as u64 * INSTRUCTION_SIZE
    }

    /// A label to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// A label here.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Binds a label to the next instruction.
    ///
    /// # Panics
    /// When it is bound already.
    pub fn bind(&mut self, label: Label) {
        let here = self.address();
        assert!(self.labels[label.0].replace(here).is_none(), "label bound twice");
    }

    /// Appends a word of data (or any instruction).
    pub fn word(&mut self, word: u64) {
        self.words.push(word);
    }

    /// Appends bytes, padded with zeroes to whole words.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    /// Appends an instruction with three registers.
    pub fn op(&mut self, op: Op, a: u8, b: u8, c: u8) {
        self.word(Instruction { op, a, b, c, imm: 0 }.encode());
    }

    /// Appends an instruction with two registers and an immediate.
    pub fn op_i(&mut self, op: Op, a: u8, b: u8, imm: i32) {
        self.word(Instruction { op, a, b, c: 0, imm }.encode());
    }

    /// Appends an atomic operation on the word of `size` bytes at the address in `c`.
    pub fn atomic(&mut self, op: Op, a: u8, b: u8, c: u8, size: i32) {
        self.word(Instruction { op, a, b, c, imm: size }.encode());
    }

    /// a = b.
    pub fn mov(&mut self, a: u8, b: u8) {
        self.op_i(Op::Addi, a, b, 0);
    }

    /// a = value, in one or two instructions.
    pub fn li(&mut self, a: u8, value: u64) {
        self.op_i(Op::Li, a, 0, value as i32);
        if value as i32 as i64 as u64 != value {
            self.op_i(Op::Lih, a, 0, (value >> 32) as i32);
        }
    }

    /// a = address of a label.
    pub fn lea(&mut self, a: u8, label: Label) {
        self.fixups.push((self.words.len(), label));
        self.op_i(Op::Lea, a, 0, 0);
    }

    /// Branches to a label if a and b compare so.
    pub fn branch(&mut self, op: Op, a: u8, b: u8, label: Label) {
        self.fixups.push((self.words.len(), label));
        self.op_i(op, a, b, 0);
    }

    /// Jumps to a label.
    pub fn jump(&mut self, label: Label) {
        self.branch(Op::Beq, self.roles.stack, self.roles.stack, label);
    }

    /// Jumps to a label; `link` takes the return address.
    pub fn call(&mut self, link: u8, label: Label) {
        self.fixups.push((self.words.len(), label));
        self.op_i(Op::Jal, link, 0, 0);
    }

    /// System call `number` with constant arguments; argument registers beyond them are as they are.
    pub fn syscall(&mut self, number: u64, args: &[u64]) {
        for (index, &value) in args.iter().enumerate() {
            self.li(self.roles.args[index], value);
        }
        self.li(self.roles.number, number);
        self.op(Op::Syscall, 0, 0, 0);
    }

    /// The program's bytes.
    ///
    /// # Panics
    /// When a label was used and not bound, or is out of reach.
    pub fn finish(mut self) -> Vec<u8> {
        for (at, label) in std::mem::take(&mut self.fixups) {
            let target = self.labels[label.0].expect("label used but not bound");
            let distance = target.wrapping_sub(self.base + at as u64 * INSTRUCTION_SIZE) as i64;
            let imm = i32::try_from(distance).expect("label out of reach");
            self.words[at] = self.words[at] & 0xffff_ffff | u64::from(imm as u32) << 32;
        }
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}

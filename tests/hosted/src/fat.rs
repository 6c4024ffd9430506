//! Building programs that hold the text of several ISAs, function by function at the same addresses.

use motet_abi::fat::{NOTE_NAME, NOTE_TYPE, PT_TEXT, Signature, VERSION};
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;

use crate::program::{CODE, DATA, Program};

const PAGE: usize = 4096;
const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
/// Bytes of writable data.
const DATA_LEN: u64 = 64 << 10;

/// A function: the n-th one lies in the n-th page of the text.
#[derive(Clone)]
pub struct Function {
    /// Its name in messages.
    pub name: &'static str,
    /// The ISA that runs it; `None`: whichever the thread is on.
    pub pin: Option<Isa>,
    /// What it takes and gives.
    pub signature: Signature,
    /// Must not run elsewhere.
    pub strict: bool,
    /// Appends its instructions.
    pub write: fn(&mut Body<'_>),
}

/// The address of the n-th function.
pub const fn address_of(index: usize) -> u64 {
    CODE + (index * PAGE) as u64
}

/// A function's instructions for one ISA, with that ISA's calling convention.
pub struct Body<'a> {
    /// For everything that has no shorthand here.
    pub program: &'a mut Program,
    /// The ISA.
    pub isa: Isa,
    slots: i32,
}

impl Body<'_> {
    /// Makes room for `slots` words at the stack pointer, and keeps the return address above them.
    pub fn enter(&mut self, slots: i32) {
        // With the return address, which x86-64 callers have pushed, an even number of words.
        self.slots = slots | 1;
        let sp = self.program.asm.roles.stack;
        match self.link() {
            Some(link) => {
                self.program.asm.op_i(Op::Addi, sp, sp, -8 * (self.slots + 1));
                self.program.asm.op_i(Op::St64, link, sp, 8 * self.slots);
            }
            None => self.program.asm.op_i(Op::Addi, sp, sp, -8 * self.slots),
        }
    }

    /// Undoes [`enter`](Self::enter) and returns.
    pub fn leave(&mut self) {
        let (sp, scratch) = (self.program.asm.roles.stack, self.scratch());
        self.program.asm.op_i(Op::Ld64, scratch, sp, 8 * self.slots);
        self.program.asm.op_i(Op::Addi, sp, sp, 8 * (self.slots + 1));
        let ignored = self.program.asm.roles.args[4];
        self.program.asm.op_i(Op::Jalr, ignored, scratch, 0);
    }

    /// Calls the function at an address; its arguments are in their registers.
    pub fn call(&mut self, address: u64) {
        let scratch = self.scratch();
        match self.link() {
            Some(link) => {
                self.program.asm.li(scratch, address);
                self.program.asm.op_i(Op::Jalr, link, scratch, 0);
            }
            None => {
                let sp = self.program.asm.roles.stack;
                let back = self.program.asm.label();
                self.program.asm.op_i(Op::Addi, sp, sp, -8);
                self.program.asm.lea(scratch, back);
                self.program.asm.op_i(Op::St64, scratch, sp, 0);
                self.program.asm.li(scratch, address);
                let ignored = self.program.asm.roles.args[4];
                self.program.asm.op_i(Op::Jalr, ignored, scratch, 0);
                self.program.asm.bind(back);
            }
        }
    }

    /// Stores a register in a slot.
    pub fn store(&mut self, register: u8, slot: i32) {
        let sp = self.program.asm.roles.stack;
        self.program.asm.op_i(Op::St64, register, sp, 8 * slot);
    }

    /// Loads a register from a slot.
    pub fn load(&mut self, register: u8, slot: i32) {
        let sp = self.program.asm.roles.stack;
        self.program.asm.op_i(Op::Ld64, register, sp, 8 * slot);
    }

    /// The first argument's register.
    pub fn argument(&self) -> u8 {
        self.program.asm.roles.args[0]
    }

    /// The result's register.
    pub fn result(&self) -> u8 {
        self.program.asm.roles.result
    }

    /// A register that no call preserves.
    pub fn scratch(&self) -> u8 {
        self.program.asm.roles.args[5]
    }

    fn link(&self) -> Option<u8> {
        match self.isa {
            Isa::X86_64 => None,
            Isa::AArch64 => Some(30),
            Isa::RiscV64 => Some(1),
            Isa::Hosted => Some(14),
        }
    }
}

/// The executable; execution begins with the first function, which must be the primary ISA's or anybody's.
pub fn executable(primary: Isa, functions: &[Function]) -> Vec<u8> {
    let texts = ISAS.map(|isa| text(isa, functions));
    let note = note(primary, functions);
    let others: Vec<Isa> = ISAS.into_iter().filter(|&isa| isa != primary).collect();
    let text_len = (functions.len() * PAGE) as u64;
    let offset = |isa: Isa| PAGE as u64 * 16 + text_len * (isa as u64 - 1);
    let mut headers = vec![
        header(1, 5, offset(primary), CODE, text_len, text_len),
        header(1, 6, 0, DATA, 0, DATA_LEN),
        header(4, 4, 2048, 0, note.len() as u64, note.len() as u64),
    ];
    for &isa in &others {
        headers.push(header(PT_TEXT, 5 | (isa as u32) << 20, offset(isa), CODE, text_len, text_len));
    }
    let machine = match primary {
        Isa::X86_64 => 62u16,
        Isa::AArch64 => 183,
        Isa::RiscV64 => 243,
        Isa::Hosted => 0x4d54,
    };
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    file.extend(machine.to_le_bytes());
    file.extend(1u32.to_le_bytes());
    for word in [CODE, 64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(0u32.to_le_bytes());
    for half in [64u16, 56, headers.len() as u16, 64, 0, 0] {
        file.extend(half.to_le_bytes());
    }
    file.extend(headers.concat());
    file.resize(2048, 0);
    file.extend(&note);
    assert!(file.len() <= 16 * PAGE, "too many functions");
    for (isa, text) in ISAS.into_iter().zip(&texts) {
        file.resize(offset(isa) as usize, 0);
        file.extend(text);
    }
    file
}

fn header(kind: u32, flags: u32, offset: u64, address: u64, file_len: u64, memory_len: u64) -> Vec<u8> {
    let words = [offset, address, address, file_len, memory_len, PAGE as u64];
    let start = kind.to_le_bytes().into_iter().chain(flags.to_le_bytes());
    start.chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
}

fn text(isa: Isa, functions: &[Function]) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let code = Program::code(isa, address_of(index), |program| {
            (function.write)(&mut Body { program, isa, slots: 0 });
        });
        assert!(code.len() <= PAGE, "{} is longer than a page", function.name);
        text.extend(code);
        text.resize((index + 1) * PAGE, 0);
    }
    text
}

fn note(primary: Isa, functions: &[Function]) -> Vec<u8> {
    let mut names = Vec::new();
    let mut pins = Vec::new();
    let mut count = 0u32;
    for (index, function) in functions.iter().enumerate() {
        let Some(isa) = function.pin else { continue };
        count += 1;
        pins.extend(address_of(index).to_le_bytes());
        pins.extend((PAGE as u64).to_le_bytes());
        for word in [isa as u32, names.len() as u32, function.name.len() as u32, u32::from(function.strict) << 1] {
            pins.extend(word.to_le_bytes());
        }
        pins.extend(function.signature.words.to_le_bytes());
        pins.extend(function.signature.floats.to_le_bytes());
        pins.extend(function.signature.result.to_le_bytes());
        pins.extend(0u64.to_le_bytes());
        names.extend(function.name.bytes());
    }
    names.resize(names.len().next_multiple_of(4), 0);
    let mut descriptor = Vec::new();
    for word in [VERSION, primary as u32, count, names.len() as u32] {
        descriptor.extend(word.to_le_bytes());
    }
    // Distinct, so that a thread pointer that is carried without them is wrong.
    for bias in [0u64, 16, 32, 48] {
        descriptor.extend(bias.to_le_bytes());
    }
    descriptor.extend(pins);
    descriptor.extend(names);
    let mut note = Vec::new();
    for word in [NOTE_NAME.len() as u32, descriptor.len() as u32, NOTE_TYPE] {
        note.extend(word.to_le_bytes());
    }
    note.extend(NOTE_NAME);
    note.extend([0; 2]);
    note.extend(descriptor);
    note
}

//! Calling conventions: carrying a call, and its result, from a thread's registers of one ISA to those of another.
//!
//! | | integers | floats | result | return address | kept by the callee |
//! |---|---|---|---|---|---|
//! | x86-64 (System V ABI, 3.2) | rdi rsi rdx rcx r8 r9 | xmm0–7 | rax rdx, xmm0–1 | stack | rbx rbp r12–r15 |
//! | AArch64 (AAPCS64, 6) | x0–x7 | v0–v7 | x0 x1, v0–1 | x30 | x19–x29, d8–d15 |
//! | RISC-V (psABI, 2; LP64D) | a0–a7 | fa0–fa7 | a0 a1, fa0–1 | ra | s0–s11, fs0–fs11 |
//! | hosted | r0–r5 | | r0 r1 | r14 | r8–r13 |
//!
//! Further integers are on the stack, in order, eight bytes each.

use motet_layout::{Cell64, CrossingRecord, Isa, UserFrame};

use crate::{
    fat::{FLOATS_MAX, Signature, WORDS_MAX},
    registers,
};

/// Where an ISA's C functions find and leave things: indices into [`UserFrame::regs`] and, for floats, the word of
/// [`UserFrame::ext`] where each register's low half is.
struct Convention {
    words: &'static [u8],
    results: [u8; 2],
    /// The return address's register; `None`: on the stack.
    link: Option<u8>,
    kept: &'static [u8],
    floats: &'static [u8],
    kept_floats: &'static [u8],
    /// The word of `ext` with the floating-point control register, and its bits there.
    control: Option<(u8, u64)>,
}

const X86_64: Convention = Convention {
    words: &[7, 6, 2, 1, 8, 9],
    results: [0, 2],
    link: None,
    kept: &[3, 5, 12, 13, 14, 15],
    // FXSAVE: XMM0 is at byte 160.
    floats: &[20, 22, 24, 26, 28, 30, 32, 34],
    kept_floats: &[],
    // MXCSR: rounding, flush to zero, masks; not the exception flags.
    control: Some((3, 0xffc0)),
};
const AARCH64: Convention = Convention {
    words: &[0, 1, 2, 3, 4, 5, 6, 7],
    results: [0, 1],
    link: Some(30),
    kept: &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29],
    floats: &[0, 2, 4, 6, 8, 10, 12, 14],
    kept_floats: &[16, 18, 20, 22, 24, 26, 28, 30],
    control: Some((65, u64::MAX)),
};
const RISCV64: Convention = Convention {
    words: &[10, 11, 12, 13, 14, 15, 16, 17],
    results: [10, 11],
    link: Some(1),
    // gp belongs to the program and is the same for all its functions.
    kept: &[8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 3],
    floats: &[10, 11, 12, 13, 14, 15, 16, 17],
    kept_floats: &[8, 9, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27],
    // frm, not the exception flags.
    control: Some((32, 0xe0)),
};
const HOSTED: Convention = Convention {
    words: &[0, 1, 2, 3, 4, 5],
    results: [0, 1],
    link: Some(14),
    kept: &[8, 9, 10, 11, 12, 13],
    floats: &[],
    kept_floats: &[],
    control: None,
};

#[inline(always)]
const fn convention(isa: Isa) -> &'static Convention {
    match isa {
        Isa::X86_64 => &X86_64,
        Isa::AArch64 => &AARCH64,
        Isa::RiscV64 => &RISCV64,
        Isa::Hosted => &HOSTED,
    }
}

/// Bytes below the stack pointer that a function may use without moving it (System V ABI, 3.2.2).
const RED_ZONE: u64 = 128;
/// The stack pointer's alignment at a call, on every ISA.
const STACK_ALIGN: u64 = 16;

/// The arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arguments {
    /// Integer words.
    pub words: [u64; WORDS_MAX],
    /// Floating-point values, as bits.
    pub floats: [u64; FLOATS_MAX],
}

/// What a function gives back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Results {
    /// Integer words.
    pub words: [u64; 2],
    /// Floating-point values, as bits.
    pub floats: [u64; 2],
}

/// Where the caller of the function that `frame`, of `isa`, is about to execute goes on: program counter and stack pointer.
/// `read` reads a word of user memory.
#[inline(always)]
pub fn return_point(isa: Isa, frame: &UserFrame, read: impl FnOnce(u64) -> Option<u64>) -> Option<(u64, u64)> {
    let sp = registers::sp_of(isa, frame);
    match convention(isa).link {
        Some(link) => Some((reg(frame, link), sp)),
        None => Some((read(sp)?, sp.wrapping_add(8))),
    }
}

/// Puts the arguments in the registers (and on the stack) of a thread that is about to execute a function into `into`; what
/// the function does not take is left as it is. The extended registers are stored. `None`: the stack cannot be read.
#[inline(always)]
pub fn arguments(
    isa: Isa,
    frame: &UserFrame,
    signature: &Signature,
    mut read: impl FnMut(u64) -> Option<u64>,
    into: &mut Arguments,
) -> Option<()> {
    let convention = convention(isa);
    let on_stack = registers::sp_of(isa, frame).wrapping_add(if convention.link.is_some() { 0 } else { 8 });
    for (index, word) in into.words.iter_mut().take(signature.word_count()).enumerate() {
        *word = match convention.words.get(index) {
            Some(&register) => reg(frame, register),
            None => read(on_stack.wrapping_add(8 * (index - convention.words.len()) as u64))?,
        };
    }
    for (float, &at) in into.floats.iter_mut().zip(convention.floats).take(signature.float_count()) {
        *float = ext(frame, at);
    }
    Some(())
}

/// The register for argument word `index` of a function, as `frame` has it; 0 if there is none.
#[inline(always)]
pub fn word_in_register(isa: Isa, frame: &UserFrame, index: usize) -> u64 {
    convention(isa).words.get(index).map_or(0, |&register| reg(frame, register))
}

/// The same for floating-point arguments. The extended registers are stored.
#[inline(always)]
pub fn float(isa: Isa, frame: &UserFrame, index: usize) -> u64 {
    convention(isa).floats.get(index).map_or(0, |&at| ext(frame, at))
}

/// The register with a function's return address; 0 where that is on the stack.
#[inline(always)]
pub fn link(isa: Isa, frame: &UserFrame) -> u64 {
    convention(isa).link.map_or(0, |link| reg(frame, link))
}

/// The entry of a function on another ISA.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its address.
    pub function: u64,
    /// Where it returns to.
    pub gate: u64,
    /// The end of the free part of its stack.
    pub stack: u64,
    /// Its thread pointer.
    pub tls: u64,
}

/// Words that [`enter`] may want on the stack.
pub const STACK_WORDS_MAX: usize = WORDS_MAX + 1;

/// What a function's stack begins with.
#[derive(Clone, Copy, Debug)]
pub struct StackWords {
    /// Where they go: the function's stack pointer.
    pub at: u64,
    /// The stack pointer when it returns.
    pub sp_at_return: u64,
    words: Words,
}

impl StackWords {
    /// Nothing: the function, which returns with the stack pointer `sp`, goes on.
    pub const fn none(sp: u64) -> Self {
        Self { at: sp, sp_at_return: sp, words: Words::None }
    }

    /// One word.
    pub const fn one(at: u64, word: u64) -> Self {
        Self { at, sp_at_return: at, words: Words::One(word) }
    }
}

/// None and one are made without filling an array.
#[derive(Clone, Copy, Debug)]
enum Words {
    None,
    One(u64),
    Many([u64; STACK_WORDS_MAX], usize),
}

impl StackWords {
    /// The words.
    pub fn words(&self) -> &[u64] {
        match &self.words {
            Words::None => &[],
            Words::One(word) => core::slice::from_ref(word),
            Words::Many(words, count) => &words[..*count],
        }
    }
}

/// The return address, if it is on the stack, and the arguments there.
fn words_on_stack(gate: Option<u64>, arguments: impl Iterator<Item = u64>) -> Words {
    let mut words = [0; STACK_WORDS_MAX];
    let mut count = 0;
    for (slot, word) in words.iter_mut().zip(gate.into_iter().chain(arguments)) {
        *slot = word;
        count += 1;
    }
    Words::Many(words, count)
}

/// Makes `frame` the registers of a thread that enters a function of `isa`. The caller writes the words that come back to
/// the stack.
pub fn enter(frame: &UserFrame, isa: Isa, entry: &Entry, signature: &Signature, arguments: &Arguments) -> StackWords {
    registers::clear(frame);
    if signature.float_count() != 0 {
        init_ext(frame, isa);
    }
    enter_kept(frame, isa, entry, signature, arguments)
}

/// As [`enter`], when the function's registers but for its arguments are to stay. The extended registers are stored if it takes floats.
pub fn enter_kept(
    frame: &UserFrame,
    isa: Isa,
    entry: &Entry,
    signature: &Signature,
    arguments: &Arguments,
) -> StackWords {
    let word = |index| signature.word_for(isa, index, arguments.words[index]);
    let count = signature.word_count();
    let in_registers = count.min(convention(isa).words.len());
    let mut stack = begin(frame, isa, entry, 8 * (count - in_registers) as u64);
    if count > in_registers {
        let gate = convention(isa).link.is_none().then_some(entry.gate);
        stack.words = words_on_stack(gate, (in_registers..count).map(word));
    }
    for index in 0..in_registers {
        set_word(frame, isa, index, word(index));
    }
    if signature.float_count() != 0 {
        let float = |index| match index < signature.float_count() {
            true => float_in_register(isa, arguments.floats[index], signature.is_single(index)),
            false => 0,
        };
        put_floats(frame, isa, &core::array::from_fn(float));
    }
    stack
}

/// Writes the arguments of a function of `isa` that it finds on its stack, which begins at `stack`, for a caller that passes the others
/// in registers. With [`begin`] from the second value on as its stack, it finds them.
pub fn arguments_on_stack(isa: Isa, stack: u64, signature: &Signature, arguments: &Arguments) -> (StackWords, u64) {
    let count = signature.word_count();
    let in_registers = count.min(convention(isa).words.len());
    let len = 8 * (count - in_registers) as u64;
    let at = arguments_at(stack, len);
    let words = (in_registers..count).map(|index| signature.word_for(isa, index, arguments.words[index]));
    (StackWords { at, sp_at_return: at, words: words_on_stack(None, words) }, stack.wrapping_sub(len))
}

/// The registers that the caller in `frame`, of `isa`, keeps over a call, as words of its stack below `sp`.
pub fn kept_on_stack(isa: Isa, frame: &UserFrame, sp: u64) -> StackWords {
    let kept = convention(isa).kept;
    let at = arguments_at(sp, 8 * kept.len() as u64);
    let words = words_on_stack(None, kept.iter().map(|&register| reg(frame, register)));
    StackWords { at, sp_at_return: at, words }
}

/// Where arguments of so many bytes lie on a stack: aligned, and the return address below them.
#[inline(always)]
const fn arguments_at(stack: u64, len: u64) -> u64 {
    stack.wrapping_sub(RED_ZONE + len) & !(STACK_ALIGN - 1)
}

/// As [`enter`], without arguments; those on the stack take `arguments_len` bytes. Registers that the function does not look at
/// keep what they have.
#[inline(always)]
pub fn begin(frame: &UserFrame, isa: Isa, entry: &Entry, arguments_len: u64) -> StackWords {
    let arguments_at = arguments_at(entry.stack, arguments_len);
    let mut stack = StackWords { at: arguments_at, sp_at_return: arguments_at, words: Words::None };
    match convention(isa).link {
        Some(link) => set_reg(frame, link, entry.gate),
        None => {
            stack.at = arguments_at - 8;
            stack.words = Words::One(entry.gate);
        }
    }
    registers::start(frame, isa, entry.function, stack.at);
    enter_fast(frame, isa);
    registers::set_tls_of(isa, frame, entry.tls);
    stack
}

/// Sets an argument word of a function, if there is a register for it: as that holds it.
#[inline(always)]
pub fn set_word(frame: &UserFrame, isa: Isa, index: usize, value: u64) {
    if let Some(&register) = convention(isa).words.get(index) {
        set_reg(frame, register, value);
    }
}

/// Sets the floating-point arguments of a function: as their registers hold them.
pub fn set_floats(frame: &UserFrame, isa: Isa, values: &[u64; FLOATS_MAX]) {
    init_ext(frame, isa);
    put_floats(frame, isa, values);
}

/// As [`set_floats`]; other extended registers stay, if they are stored and not in their initial state.
fn put_floats(frame: &UserFrame, isa: Isa, values: &[u64; FLOATS_MAX]) {
    hold_ext(frame, isa);
    for (&at, &value) in convention(isa).floats.iter().zip(values) {
        set_ext(frame, at, value);
    }
    if isa == Isa::X86_64 {
        set_reg(frame, 0, FLOATS_MAX as u64); // al: vector registers that a variadic function must store
    }
}

/// What a function of `isa` that has just returned leaves. The extended registers are stored if the signature has floats.
pub fn results(isa: Isa, frame: &UserFrame, signature: &Signature) -> Results {
    let convention = convention(isa);
    let floats = if signature.has_floats() { convention.floats } else { &[] };
    Results {
        words: [0, 1].map(|index| result_word(isa, frame, index)),
        floats: core::array::from_fn(|index| floats.get(index).map_or(0, |&at| ext(frame, at))),
    }
}

/// A result word.
#[inline(always)]
pub fn result_word(isa: Isa, frame: &UserFrame, index: usize) -> u64 {
    reg(frame, convention(isa).results[index % 2])
}

/// Stores what the caller in `frame`, which is `isa`'s, expects to find again. The extended registers are stored.
#[inline(always)]
pub fn save_caller(isa: Isa, frame: &UserFrame, record: &CrossingRecord) {
    let convention = convention(isa);
    for (slot, &register) in record.saved.iter().zip(convention.kept) {
        slot.set(reg(frame, register));
    }
    for (slot, &at) in record.saved_float.iter().zip(convention.kept_floats) {
        slot.set(ext(frame, at));
    }
    if let (Some((at, bits)), Some(slot)) = (convention.control, record.saved_float.last()) {
        slot.set(ext(frame, at) & bits);
    }
}

/// Makes `frame` the registers of the caller in `record`, to whom the function has returned `results`.
pub fn resume_caller(frame: &UserFrame, isa: Isa, record: &CrossingRecord, signature: &Signature, results: &Results) {
    let convention = convention(isa);
    registers::init_frame(frame, isa, record.return_pc.get(), record.caller_sp.get());
    enter_fast(frame, isa);
    // Only a damaged record has another one.
    let tls = record.caller_tls.get();
    registers::set_tls(frame, if registers::can_hold_tls(isa, tls) { tls } else { 0 });
    for (slot, &register) in record.saved.iter().zip(convention.kept) {
        set_reg(frame, register, slot.get());
    }
    for (index, &register) in convention.results.iter().enumerate() {
        set_reg(frame, register, signature.result_for(isa, index, results.words[index]));
    }
    init_ext(frame, isa);
    for (slot, &at) in record.saved_float.iter().zip(convention.kept_floats) {
        set_ext(frame, at, slot.get());
    }
    if let (Some((at, bits)), Some(slot)) = (convention.control, record.saved_float.last()) {
        set_ext(frame, at, ext(frame, at) & !bits | slot.get() & bits);
    }
    for (index, &at) in convention.floats.iter().take(2).enumerate() {
        set_ext(frame, at, float_in_register(isa, results.floats[index], signature.result_is_single(index)));
    }
}

/// What the stack of a caller has when it has just called a function, that of an ISA where the return address is there.
pub const fn return_address(isa: Isa, pc: u64, sp: u64) -> StackWords {
    match convention(isa).link {
        Some(_) => StackWords::none(sp),
        None => StackWords { at: sp.wrapping_sub(8), sp_at_return: sp, words: Words::One(pc) },
    }
}

/// Lets the caller in `frame`, which is about to go on behind a call ([`resume_caller`]), call `function` there instead. Where the return
/// address is on the stack, [`return_address`] has it.
pub fn call_instead(frame: &UserFrame, isa: Isa, function: u64, arguments: &[u64]) {
    let (pc, sp) = (registers::pc(frame), registers::sp_of(isa, frame));
    if let Some(link) = convention(isa).link {
        set_reg(frame, link, pc);
    }
    registers::set_pc(frame, function);
    registers::set_sp_of(isa, frame, return_address(isa, pc, sp).at);
    enter_fast(frame, isa);
    for (index, &argument) in arguments.iter().enumerate() {
        set_word(frame, isa, index, argument);
    }
}

/// As [`resume_caller`], when `frame` still holds the caller's registers, extended ones included, as they were at the call.
#[inline(always)]
pub fn return_to_caller(
    frame: &UserFrame,
    isa: Isa,
    record: &CrossingRecord,
    signature: &Signature,
    results: &Results,
) {
    return_to(frame, isa, [record.return_pc.get(), record.caller_sp.get()], signature, results);
}

/// As [`return_to_caller`], to a program counter with a stack pointer.
#[inline(always)]
pub fn return_to(frame: &UserFrame, isa: Isa, [pc, sp]: [u64; 2], signature: &Signature, results: &Results) {
    registers::set_pc(frame, pc);
    registers::set_sp_of(isa, frame, sp);
    enter_fast(frame, isa);
    set_results(frame, isa, signature, results);
}

/// Makes `frame`, whose extended registers are stored if the signature has floats, that of a caller to whom a function has returned.
#[inline(always)]
pub fn set_results(frame: &UserFrame, isa: Isa, signature: &Signature, results: &Results) {
    let convention = convention(isa);
    for (index, &register) in convention.results.iter().enumerate() {
        set_reg(frame, register, signature.result_for(isa, index, results.words[index]));
    }
    if signature.has_floats() {
        for (index, &at) in convention.floats.iter().take(2).enumerate() {
            set_ext(frame, at, float_in_register(isa, results.floats[index], signature.result_is_single(index)));
        }
    }
}

/// A floating-point value as a register of `isa` holds it: RISC-V keeps narrow ones in a box of ones (unprivileged
/// specification, "NaN boxing").
pub const fn float_in_register(isa: Isa, bits: u64, single: bool) -> u64 {
    match (isa, single) {
        (Isa::RiscV64, true) => bits as u32 as u64 | 0xffff_ffff_0000_0000,
        (_, true) => bits as u32 as u64,
        (_, false) => bits,
    }
}

/// Lets the kernel enter the frame, which is at the beginning or behind the end of a call, in the fastest way: SYSRET takes
/// the program counter from rcx and the flags from r11, both of which calls change (System V ABI, 3.2.1).
#[inline(always)]
fn enter_fast(frame: &UserFrame, isa: Isa) {
    if isa == Isa::X86_64 {
        let status = registers::initial_status(isa);
        frame.status.set(status);
        set_reg(frame, 1, frame.pc.get());
        set_reg(frame, 11, status);
    }
}

/// The frame holds its extended state, so that parts of it can be set.
pub fn hold_ext(frame: &UserFrame, isa: Isa) {
    if frame.ext_valid.get() == 0 {
        init_ext(frame, isa);
    }
}

/// Stores the initial extended state, so that parts of it can be set.
fn init_ext(frame: &UserFrame, isa: Isa) {
    frame.ext.iter().for_each(|word| word.set(0));
    frame.vector_bytes.set(0);
    if isa == Isa::X86_64 {
        // FCW; MXCSR and its mask (SDM, FXSAVE and FNINIT).
        set_ext(frame, 0, 0x037f);
        set_ext(frame, 3, 0x1f80 | 0xffff << 32);
    }
    frame.ext_valid.set(1);
}

#[inline(always)]
fn reg(frame: &UserFrame, index: u8) -> u64 {
    frame.regs.get(usize::from(index)).map_or(0, Cell64::get)
}

#[inline(always)]
fn set_reg(frame: &UserFrame, index: u8, value: u64) {
    if let Some(slot) = frame.regs.get(usize::from(index)) {
        slot.set(value);
    }
}

#[inline(always)]
fn ext(frame: &UserFrame, index: u8) -> u64 {
    frame.ext.get(usize::from(index)).map_or(0, Cell64::get)
}

#[inline(always)]
fn set_ext(frame: &UserFrame, index: u8, value: u64) {
    if let Some(slot) = frame.ext.get(usize::from(index)) {
        slot.set(value);
    }
}

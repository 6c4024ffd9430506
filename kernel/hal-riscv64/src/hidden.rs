//! Harts with vector registers that only the firmware has (docs/firmware.md): threads go there and come home by calls of the SBI.

use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use motet_abi::hidden::{
    AT_HOME, CALL_HOME, CALLED_HOME, CAUSE, COLLECT, COUNTER, DESCRIBE, EXTENSION, FLOATS, FORMAT, HEADER_WORDS,
    HIDDEN_HARTS, LOST, MIGRATE, REGISTERS, SIZE, TAKE_OVER, VALUE, VECTOR_BYTES, VECTOR_CONTROL, VECTOR_LEN, WAITING,
    context_words,
};
use motet_hal::{Interrupts, Machine as _, Trap, Unsent};
use motet_layout::{Cell64, UserFrame, VECTORS_RISCV64, Vectors};

use crate::{boot, console::log_line, machine::TheMachine, per_core::PerCore, sbi, trap};

/// Longest vector registers, in bytes, that the firmware knows.
const LEN_MAX: usize = 128;
/// Words of the largest context.
pub const CONTEXT_WORDS: usize = context_words(LEN_MAX);

/// Words of [`UserFrame::ext`] (`extended`): `fcsr` follows the floating-point registers.
const FLOAT_WORDS: usize = 33;
/// Which control word of an area (vstart, vtype, vl, vcsr) a context's are: `vstart`, `vl`, `vtype`, `vcsr`.
const CONTROL: [usize; 4] = [0, 2, 1, 3];

const CAUSE_SYSCALL: u64 = 8;
const ERROR_DENIED: isize = -4;

/// Bytes of a vector register of hidden harts; 0: there are none.
static LEN: AtomicUsize = AtomicUsize::new(0);
static HARTS: AtomicUsize = AtomicUsize::new(0);

/// Takes vector instructions over from the firmware, if it has hidden harts.
pub fn init() {
    if !sbi::has(EXTENSION) {
        return;
    }
    let len = sbi::call(EXTENSION, DESCRIBE, [VECTOR_BYTES, 0, 0]).1;
    if len > LEN_MAX {
        log_line!("threads cannot have vector registers of {} bits: hidden harts are not used", len * 8);
        return;
    }
    HARTS.store(sbi::call(EXTENSION, DESCRIBE, [HIDDEN_HARTS, 0, 0]).1, Relaxed);
    sbi::call(EXTENSION, TAKE_OVER, [1, 0, 0]);
    LEN.store(len, Relaxed);
}

/// How many there are. That the firmware has lost them all since shows when a thread is sent.
pub fn harts() -> usize {
    HARTS.load(Relaxed)
}

/// [`motet_hal::Machine::hidden_vector_bytes`].
pub fn vector_bytes() -> usize {
    LEN.load(Relaxed)
}

/// The area of a frame, if it is one for registers of hidden harts.
fn area(machine: &TheMachine, frame: &UserFrame) -> Option<Vectors<'static>> {
    let is_it = |area: &Vectors<'_>| area.format() == VECTORS_RISCV64 && area.register_bytes() == vector_bytes();
    Vectors::of(machine.pool(), frame).filter(is_it)
}

/// [`motet_hal::Machine::send_away`].
pub fn send_away(machine: &TheMachine, frame: &'static UserFrame, satp: u64) -> Result<usize, Unsent> {
    let (core, len) = (PerCore::this(), LEN.load(Relaxed) as u64);
    let put = |index: usize, word: u64| core.context[index].store(word, Relaxed);
    let is_valid = frame.ext_valid.get() == 1;
    let has_vectors = is_valid && frame.vector_bytes.get() != 0;
    let vectors = area(machine, frame).ok_or(Unsent::Unable)?;
    if has_vectors && u64::from(frame.vector_bytes.get()) != len {
        return Err(Unsent::Unable);
    }
    put(0, FORMAT);
    put(SIZE, 8 * context_words(len as usize) as u64);
    put(COUNTER, frame.pc.get());
    let registers = &core.context[REGISTERS..];
    registers.iter().zip(&frame.regs[1..32]).for_each(|(word, register)| word.store(register.get(), Relaxed));
    let floats = &core.context[FLOATS..][..FLOAT_WORDS];
    if is_valid {
        floats.iter().zip(&frame.ext).for_each(|(word, register)| word.store(register.get(), Relaxed));
    } else {
        floats.iter().for_each(|word| word.store(0, Relaxed));
    }
    put(VECTOR_LEN, if has_vectors { len } else { 0 });
    if has_vectors {
        (0..CONTROL.len()).for_each(|index| put(VECTOR_CONTROL + index, vectors.control()[CONTROL[index]].get()));
        for_groups(&core.context, vectors, |word, register| word.store(register.get(), Relaxed));
    }
    fence(SeqCst);
    match sbi::call(EXTENSION, MIGRATE, [boot::phys_of(&core.context) as usize, satp as usize, 0]) {
        (0, place) => {
            core.away.fetch_or(1 << place, Relaxed);
            Ok(place)
        }
        (ERROR_DENIED, _) => Err(Unsent::Full),
        _ => Err(Unsent::Unable),
    }
}

/// Does something for each word of v0 to v31 in a context and in an area, eight in a round: they are most of a trip.
#[inline(always)]
fn for_groups(context: &[AtomicU64; CONTEXT_WORDS], area: Vectors<'static>, copy: impl Fn(&AtomicU64, &Cell64)) {
    let words = 8 * area.register_bytes() / size_of::<u64>();
    for (part, group) in context[HEADER_WORDS..].chunks_exact(words).zip(area.groups()) {
        let (words, registers) = (part.as_chunks::<8>().0, group.as_chunks::<8>().0);
        for (words, registers) in words.iter().zip(registers) {
            words.iter().zip(registers).for_each(|(word, register)| copy(word, register));
        }
    }
}

/// [`motet_hal::Machine::at_home`].
pub fn at_home() -> u64 {
    // Cleared before the firmware looks: who comes home after that interrupts this core.
    match PerCore::this().may_be_home.swap(0, Relaxed) {
        0 => 0,
        _ => all_at_home(),
    }
}

fn all_at_home() -> u64 {
    sbi::call(EXTENSION, AT_HOME, [0; 3]).1 as u64
}

/// This core has taken an interrupt: perhaps that of a thread that has come home, or it is time to look for those that were lost.
pub fn note_interrupt() {
    PerCore::this().may_be_home.store(1, Relaxed);
}

/// [`motet_hal::Machine::call_home`].
pub fn call_home(place: usize) {
    sbi::call(EXTENSION, CALL_HOME, [place, 0, 0]);
    // One that waited is home without an interrupt.
    note_interrupt();
}

/// [`motet_hal::Machine::bring_home`].
pub fn bring_home() {
    let away = PerCore::this().away.load(Relaxed);
    (0..u64::BITS as usize).filter(|place| away >> place & 1 != 0).for_each(call_home);
    while all_at_home() & away != away {
        core::hint::spin_loop();
    }
}

/// [`motet_hal::Machine::take_home`].
pub fn take_home(machine: &TheMachine, place: usize, frame: &'static UserFrame) -> Trap {
    let core = PerCore::this();
    let collected = sbi::call(EXTENSION, COLLECT, [place, 0, 0]);
    assert!(collected == (0, 1), "a thread that is home is not there: {collected:?}");
    fence(SeqCst);
    core.away.fetch_and(!(1 << place), Relaxed);
    let get = |index: usize| core.context[index].load(Relaxed);
    frame.pc.set(get(COUNTER));
    let (registers, floats) = (&core.context[REGISTERS..], &core.context[FLOATS..][..FLOAT_WORDS]);
    frame.regs[1..32].iter().zip(registers).for_each(|(register, word)| register.set(word.load(Relaxed)));
    frame.ext.iter().zip(floats).for_each(|(register, word)| register.set(word.load(Relaxed)));
    frame.vector_bytes.set(0);
    // It was there when the thread left.
    if let Some(vectors) = area(machine, frame) {
        frame.vector_bytes.set(vector_bytes() as u32);
        (0..CONTROL.len()).for_each(|index| vectors.control()[CONTROL[index]].set(get(VECTOR_CONTROL + index)));
        for_groups(&core.context, vectors, |word, register| register.set(word.load(Relaxed)));
    }
    frame.ext_valid.set(1);
    // What this core's registers hold is older.
    core.ext_frame.store(0, Relaxed);
    core.vector_frame.store(0, Relaxed);
    match get(CAUSE) {
        CALLED_HOME => Trap::Interrupt(Interrupts::EMPTY),
        LOST => Trap::IllegalInstruction { word: 0 },
        CAUSE_SYSCALL => {
            frame.pc.set(get(COUNTER) + 4);
            Trap::Syscall
        }
        cause => trap::decode(machine, cause, get(VALUE)),
    }
}

/// [`motet_hal::Machine::is_any_waiting`].
pub fn is_any_waiting() -> bool {
    sbi::call(EXTENSION, WAITING, [0; 3]).1 != 0
}

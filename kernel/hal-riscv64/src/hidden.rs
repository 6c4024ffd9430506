//! Harts with vector registers that only the firmware has (docs/firmware.md): threads go there and come home by calls of the SBI.

use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

use motet_abi::hidden::{
    AT_HOME, CALL_HOME, CALLED_HOME, CAUSE, COLLECT, COUNTER, DESCRIBE, EMPLOY, EXTENSION, FLOATS, FORMAT,
    HIDDEN_HARTS, LOST, MIGRATE, REGISTERS, REMOVED, STAMP, TAKE_OVER, VALUE, VECTOR_BYTES, VECTOR_CONTROL, VECTOR_LEN,
    VECTORS, WAITING,
};
use motet_hal::{Interrupts, Machine as _, Trap, Unsent};
use motet_layout::{UserFrame, VECTORS_RISCV64, Vectors, sync::AtomicU32};

use crate::{boot, console::log_line, machine::TheMachine, per_core::PerCore, sbi, trap};

/// Longest vector registers, in bytes, that the firmware knows.
const LEN_MAX: usize = 128;
/// Words of [`UserFrame::ext`] (`extended`): `fcsr` follows the floating-point registers.
const FLOAT_WORDS: usize = 33;
/// Which control word of an area is `vtype`, and one that no instruction may use.
const TYPE: usize = 1;
const ILLEGAL_TYPE: u64 = 1 << 63;

/// [`PerCore::collected`]: 1 + the place of the thread.
const PLACE: usize = 0;

const CAUSE_SYSCALL: u64 = 8;
const ERROR_DENIED: isize = -4;

/// Bytes of a vector register of hidden harts; 0: there are none.
static LEN: AtomicUsize = AtomicUsize::new(0);
static HARTS: AtomicUsize = AtomicUsize::new(0);

/// Takes illegal instructions over from the firmware, if it is this project's.
pub fn init() {
    if !sbi::has(EXTENSION) {
        return;
    }
    sbi::call(EXTENSION, TAKE_OVER, [1, 0, 0]);
    let len = sbi::call(EXTENSION, DESCRIBE, [VECTOR_BYTES, 0, 0]).1;
    if len > LEN_MAX {
        log_line!("threads cannot have vector registers of {} bits: hidden harts are not used", len * 8);
        return;
    }
    HARTS.store(sbi::call(EXTENSION, DESCRIBE, [HIDDEN_HARTS, 0, 0]).1, Relaxed);
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
pub fn send_away(
    machine: &TheMachine,
    frame: &'static UserFrame,
    stamp: &'static AtomicU32,
    satp: u64,
) -> Result<usize, Unsent> {
    let (core, len) = (PerCore::this(), LEN.load(Relaxed) as u64);
    if core.collected[PLACE].load(Relaxed) != 0 {
        return Err(Unsent::Full);
    }
    let vectors = area(machine, frame).ok_or(Unsent::Unable)?;
    let has_floats = frame.ext_valid.get() == 1;
    let has_vectors = has_floats && frame.vector_bytes.get() != 0;
    if has_vectors && u64::from(frame.vector_bytes.get()) != len {
        return Err(Unsent::Unable);
    }
    if !has_vectors {
        reset(frame, vectors, has_floats);
    }
    let put = |index: usize, word: u64| core.context[index].store(word, Relaxed);
    put(0, FORMAT);
    put(VECTOR_LEN, len);
    put(COUNTER, frame.pc.get());
    put(REGISTERS, machine.phys_in_pool(&frame.regs[1]));
    put(FLOATS, machine.phys_in_pool(&frame.ext));
    put(VECTOR_CONTROL, machine.phys_in_pool(vectors.control()));
    for (index, group) in (VECTORS..).zip(vectors.groups()) {
        put(index, machine.phys_in_pool(&group[0]));
    }
    put(STAMP, machine.phys_in_pool(stamp));
    fence(Release); // the firmware tells another hart
    match sbi::call(EXTENSION, MIGRATE, [boot::phys_of(&core.context) as usize, satp as usize, 0]) {
        (0, place) => {
            core.away.fetch_or(1 << place, Relaxed);
            Ok(place)
        }
        (ERROR_DENIED, _) => Err(Unsent::Full),
        _ => Err(Unsent::Unable),
    }
}

/// Makes the values of a thread that has none those that it begins with. The frame does not say that it has them before it is home.
#[cold]
fn reset(frame: &UserFrame, vectors: Vectors<'_>, has_floats: bool) {
    if !has_floats {
        frame.ext[..FLOAT_WORDS].iter().for_each(|word| word.set(0));
    }
    vectors.words().for_each(|word| word.set(0));
    vectors.control()[TYPE].set(ILLEGAL_TYPE);
}

/// [`motet_hal::Machine::at_home`].
pub fn at_home() -> u64 {
    let core = PerCore::this();
    // Cleared before the firmware looks: who comes home after that interrupts this core.
    if core.may_be_home.swap(0, Relaxed) == 0 {
        return 0;
    }
    let away = core.away.load(Relaxed);
    if away.is_power_of_two() && core.collected[PLACE].load(Relaxed) == 0 {
        return collect_only(core, away.trailing_zeros() as usize);
    }
    all_at_home()
}

/// One thread is away: asking for it costs no more than asking whether it is home. Its place in the firmware is free then, so no other
/// one is sent before the kernel has taken this one.
fn collect_only(core: &PerCore, place: usize) -> u64 {
    if !collect(core, place) {
        return 0;
    }
    for (word, index) in core.collected[1..].iter().zip([COUNTER, CAUSE, VALUE]) {
        word.store(core.context[index].load(Relaxed), Relaxed);
    }
    core.collected[PLACE].store(1 + place as u64, Relaxed);
    1 << place
}

/// Has the firmware write the context of a place's thread, if that is home, and free the place.
fn collect(core: &PerCore, place: usize) -> bool {
    let is_home = sbi::call(EXTENSION, COLLECT, [place, 0, 0]) == (0, 1);
    if is_home {
        fence(Acquire); // another hart has written it, as the firmware says
        core.away.fetch_and(!(1 << place), Relaxed);
    }
    is_home
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
    let [counter, cause, value] = if core.collected[PLACE].load(Relaxed) == 1 + place as u64 {
        core.collected[PLACE].store(0, Relaxed);
        [1, 2, 3].map(|index: usize| core.collected[index].load(Relaxed))
    } else {
        assert!(collect(core, place), "a thread that is home is not at place {place}");
        [COUNTER, CAUSE, VALUE].map(|index| core.context[index].load(Relaxed))
    };
    frame.pc.set(counter);
    // The area was there when the thread left.
    frame.vector_bytes.set(vector_bytes() as u32);
    frame.ext_valid.set(1);
    // What this core's registers hold is older.
    core.ext_frame.store(0, Relaxed);
    core.vector_frame.store(0, Relaxed);
    match cause {
        CALLED_HOME => Trap::Interrupt(Interrupts::EMPTY),
        REMOVED => Trap::Interrupt(Interrupts::REMOVED),
        LOST => Trap::IllegalInstruction { word: 0 },
        CAUSE_SYSCALL => {
            frame.pc.set(counter + 4);
            Trap::Syscall
        }
        cause => trap::decode(machine, cause, value),
    }
}

/// [`motet_hal::Machine::employ_hidden`].
pub fn employ(number: usize, employed: bool) -> bool {
    loop {
        match sbi::call(EXTENSION, EMPLOY, [number, employed.into(), 0]) {
            (0, 0) => core::hint::spin_loop(),
            (error, _) => return error == 0,
        }
    }
}

/// [`motet_hal::Machine::is_any_waiting`].
pub fn is_any_waiting() -> bool {
    sbi::call(EXTENSION, WAITING, [0; 3]).1 != 0
}

//! The machine: its registers, its firmware, its memory.

use core::{
    arch::{asm, global_asm},
    fmt,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Cores, and bytes of a core's stack.
pub const CORES_MAX: usize = 8;
const STACK_BYTES: usize = 16 << 10;

#[repr(C, align(16))]
struct Stacks([[u8; STACK_BYTES]; CORES_MAX]);

/// Only their addresses are used here.
static mut STACKS: Stacks = Stacks([[0; STACK_BYTES]; CORES_MAX]);

global_asm!(
    // a0: the core's number, a1: the device tree, or what the core that started it gave.
    ".pushsection .text.start, \"ax\"",
    ".globl _start",
    "_start:",
    "la sp, {stacks}",
    "addi t0, a0, 1",
    "slli t0, t0, {shift}",
    "add sp, sp, t0",
    "la t0, motet_guest_trap",
    "csrw stvec, t0",
    "csrw sscratch, zero",
    "tail {begin}",
    // Interrupts and exceptions: what is in `sscratch` is where execution goes on after an exception; 0: not at all.
    ".balign 4",
    "motet_guest_trap:",
    "addi sp, sp, -256",
    ".irp n, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31",
    "sd x\\n, 8*\\n(sp)",
    ".endr",
    "call {trap}",
    ".irp n, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31",
    "ld x\\n, 8*\\n(sp)",
    ".endr",
    "addi sp, sp, 256",
    "sret",
    // Random programs: whatever has happened, another one begins.
    ".balign 4",
    "motet_guest_again:",
    "la sp, {stacks} + 16384",
    "call {again}",
    "csrw sepc, a1",
    ".irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "ld x\\n, 8*\\n(a0)",
    ".endr",
    "ld a0, 80(a0)",
    "sret",
    ".popsection",
    again = sym again,
    stacks = sym STACKS,
    shift = const STACK_BYTES.ilog2(),
    begin = sym begin,
    trap = sym trap,
);

/// How often each interrupt came, by its number, on each core.
static INTERRUPTS: [[AtomicU64; 16]; CORES_MAX] = [const { [const { AtomicU64::new(0) }; 16] }; CORES_MAX];
/// Exceptions that were expected: how many, and the last one's cause.
static EXPECTED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// What cores but the first do: a function's address.
static OTHERS: AtomicUsize = AtomicUsize::new(0);

macro_rules! read_csr {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading these registers changes nothing.
        unsafe { asm!(concat!("csrr {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

extern "C" fn begin(core: usize, argument: usize) -> ! {
    // SAFETY: the thread pointer is this program's to use: it is the core's number.
    unsafe { asm!("mv tp, {}", in(reg) core, options(nomem, nostack)) };
    if core != 0 {
        let function = OTHERS.load(Ordering::SeqCst);
        // SAFETY: `start` stores functions of this type only.
        let function = unsafe { core::mem::transmute::<usize, fn(usize)>(function) };
        function(argument);
        call(0x0048_534d, 1, [0; 3]);
    }
    let is_well = crate::main(argument).is_ok();
    shut_down(is_well)
}

extern "C" fn trap() {
    let cause = read_csr!("scause");
    if cause >> 63 != 0 {
        let number = (cause & 15) as usize;
        INTERRUPTS[core()][number].fetch_add(1, Ordering::SeqCst);
        match number {
            1 => clear_software(),
            5 => set_timer(u64::MAX),
            _ => {}
        }
        return;
    }
    let resume = read_csr!("sscratch");
    if resume == 0 {
        use fmt::Write;
        let (pc, value) = (read_csr!("sepc"), read_csr!("stval"));
        let _ = writeln!(Console, "exception {cause} at {pc:#x}, value {value:#x}");
        shut_down(false);
    }
    EXPECTED[0].fetch_add(1, Ordering::SeqCst);
    EXPECTED[1].store(cause, Ordering::Release);
    // SAFETY: the code that expects an exception has said where it goes on.
    unsafe { asm!("csrw sepc, {}", in(reg) resume, options(nostack)) };
}

/// How long a random program runs at most.
const PROGRAM_TICKS: u64 = 3_000;

/// Where and with which registers another random program begins.
#[repr(C)]
pub struct Begin {
    registers: usize,
    pc: u64,
}

extern "C" fn again() -> Begin {
    static REGISTERS: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
    let pc = crate::random::next_program(&REGISTERS);
    set_timer(now() + PROGRAM_TICKS);
    // SAFETY: the timer ends the program, unless that forbids it.
    unsafe { asm!("csrw sie, {}", "csrs sstatus, {}", in(reg) 0x20, in(reg) 0x20, options(nostack)) };
    Begin { registers: (&raw const REGISTERS).expose_provenance(), pc }
}

/// Begins random programs, and never comes back.
pub fn begin_random() -> ! {
    // SAFETY: the program is over; whatever happens is what is tried.
    unsafe {
        asm!("fence.i", "la t0, motet_guest_again", "csrw stvec, t0", ".4byte 0xffffffff", options(noreturn));
    }
}

/// This core's number.
pub fn core() -> usize {
    let core: usize;
    // SAFETY: reading a register.
    unsafe { asm!("mv {}, tp", out(reg) core, options(nomem, nostack)) };
    core % CORES_MAX
}

/// How often this core was interrupted by number `number`.
pub fn interrupts(core: usize, number: usize) -> u64 {
    INTERRUPTS[core][number].load(Ordering::SeqCst)
}

/// A call of the firmware: error and value.
pub fn call(extension: u64, function: u64, arguments: [u64; 3]) -> (i64, u64) {
    let (error, value): (i64, u64);
    // SAFETY: the firmware preserves all registers but the results; memory that it is told of is the caller's.
    unsafe {
        asm!("ecall", in("a7") extension, in("a6") function, inlateout("a0") arguments[0] => error,
            inlateout("a1") arguments[1] => value, in("a2") arguments[2], options(nostack));
    }
    (error, value)
}

/// Ends the machine.
pub fn shut_down(is_well: bool) -> ! {
    loop {
        call(0x5352_5354, 0, [0, u64::from(!is_well), 0]);
    }
}

/// Sets this core's timer.
pub fn set_timer(ticks: u64) {
    call(0x5449_4d45, 0, [ticks, 0, 0]);
}

/// The machine's time.
pub fn now() -> u64 {
    read_csr!("time")
}

/// Starts another core with a function.
pub fn start(core: usize, function: fn(usize), argument: usize) -> i64 {
    unsafe extern "C" {
        fn _start();
    }
    OTHERS.store(function as usize, Ordering::Release);
    call(0x0048_534d, 0, [core as u64, _start as *const () as u64, argument as u64]).0
}

fn clear_software() {
    // SAFETY: says that the interrupt has been taken.
    unsafe { asm!("csrci sip, 2", options(nostack)) };
}

/// Whether interrupts are taken: software and timer.
pub fn enable_interrupts(on: bool) {
    // SAFETY: the trap handler serves them.
    unsafe {
        asm!("csrw sie, {}", in(reg) 0x22, options(nostack));
        if on {
            asm!("csrsi sstatus, 2", options(nostack));
        } else {
            asm!("csrci sstatus, 2", options(nostack));
        }
    }
}

/// Waits until a condition holds that interrupts change. Interrupts are enabled, but masked between the check and the wait; a pending interrupt ends the
/// wait as well. An interrupt that is taken between the check and the wait would not end it.
pub fn wait_until(holds: impl Fn() -> bool) {
    let mut is_over = false;
    while !is_over {
        // SAFETY: interrupts are taken a moment later.
        unsafe { asm!("csrci sstatus, 2", options(nostack)) };
        is_over = holds();
        if !is_over {
            // SAFETY: nothing but waiting.
            unsafe { asm!("wfi", options(nostack)) };
        }
        // SAFETY: as they were.
        unsafe { asm!("csrsi sstatus, 2", options(nostack)) };
    }
}

/// Executes an instruction that should raise an exception. Returns the exception's cause; `None`: there was none.
pub fn cause_of<const WORD: u32>() -> Option<u64> {
    let before = EXPECTED[0].load(Ordering::SeqCst);
    // SAFETY: the instruction is tried for its exception, and changes a0 at most.
    unsafe {
        asm!("la {t}, 2f", "csrw sscratch, {t}", ".4byte {word}", "2:", "csrw sscratch, zero",
            t = out(reg) _, word = const WORD, out("a0") _, options(nostack));
    }
    (EXPECTED[0].load(Ordering::SeqCst) != before).then(|| EXPECTED[1].load(Ordering::SeqCst))
}

/// Adds up in floating-point registers, whose values must survive `rounds` calls of `meanwhile`.
pub fn floats(meanwhile: fn(), rounds: u64) -> u64 {
    let sum: u64;
    // SAFETY: turns the unit on; the program, built without floating point, does not use its registers.
    unsafe {
        asm!(".option push", ".option arch, +d", "li {t}, 0x2000", "csrs sstatus, {t}", "fcvt.d.l fs0, zero", "li {t}, 3",
            "fcvt.d.l fs1, {t}", ".option pop", t = out(reg) _, options(nostack));
    }
    for _ in 0..rounds {
        // SAFETY: as above.
        unsafe { asm!(".option push", ".option arch, +d", "fadd.d fs0, fs0, fs1", ".option pop", options(nostack)) };
        meanwhile();
    }
    // SAFETY: as above.
    unsafe {
        asm!(".option push", ".option arch, +d", "fcvt.l.d {}, fs0", ".option pop", out(reg) sum, options(nostack))
    };
    sum
}

/// The device tree, whose size is in its second word.
pub fn bytes_at_tree(address: usize) -> &'static [u8] {
    let start = core::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: whoever started the machine has put a tree there, and nobody changes it.
    unsafe {
        let size = u32::from_be(start.cast::<u32>().add(1).read()) as usize;
        core::slice::from_raw_parts(start, size)
    }
}

/// A word of memory that the program does not use otherwise.
pub fn word(address: usize) -> &'static AtomicU64 {
    // SAFETY: memory of the machine, behind the program, or nothing at all, which is an exception or ends the machine.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(address) }
}

/// Registers of devices.
pub fn store_byte(address: usize, value: u8) {
    // SAFETY: a device's register.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(value) };
}

/// Registers of devices.
pub fn load_byte(address: usize) -> u8 {
    // SAFETY: a device's register.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

/// The firmware's console.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (error, written) = call(0x4442_434e, 0, [rest.len() as u64, rest.as_ptr().addr() as u64, 0]);
            if error != 0 {
                return Err(fmt::Error);
            }
            rest = rest.get(written as usize..).unwrap_or_default();
        }
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    use fmt::Write;
    let _ = writeln!(Console, "{info}");
    shut_down(false)
}

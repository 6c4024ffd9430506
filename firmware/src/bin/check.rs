//! What machine tests start on the firmware instead of an operating system: it makes every call, with right and wrong
//! arguments, on all harts, and prints what it has found. A home of unsafe code: it is a small kernel.
#![no_std]
#![no_main]

use core::{
    arch::{asm, global_asm},
    fmt::{self, Write},
    panic::PanicInfo,
    sync::atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{Relaxed, Release, SeqCst},
    },
};

use motet_abi::hidden;
use motet_firmware::FIRMWARE;
use rustsbi::{
    SbiRet,
    spec::{base, dbcn, hsm, hsm::hart_state, rfnc, spi, srst, time},
};

const HARTS_MAX: usize = 8;
const STACK_SHIFT: usize = 13;
const ALL: usize = usize::MAX;
const SSIP: u64 = 1 << 1;
const STIP: u64 = 1 << 5;
/// `sstatus`: interrupts are taken.
const SIE: u64 = 1 << 1;
const SPP: u64 = 1 << 8;

/// Traps of the hart that checks: how many there were, and the last one's registers.
static TRAPS: AtomicUsize = AtomicUsize::new(0);
static LAST: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
/// Where the next exception goes on; 0: behind the instruction.
static GO_ON: AtomicU64 = AtomicU64::new(0);
/// Interrupts that each hart has had.
static INTERRUPTS: [AtomicUsize; HARTS_MAX] = [const { AtomicUsize::new(0) }; HARTS_MAX];
/// How far each hart has come.
static STEPS: [AtomicUsize; HARTS_MAX] = [const { AtomicUsize::new(0) }; HARTS_MAX];

#[repr(C)]
struct Frame([u64; 32]);

global_asm!(
    r#"
    .section .boot, "ax"
    .globl _start
_start:
    la t0, check_main
    j 1f
    .globl check_second
check_second:
    la t0, check_other
    j 1f
    .globl check_third
check_third:
    la t0, check_resumed
1:  la sp, check_stacks
    addi t1, a0, 1
    slli t1, t1, {shift}
    add sp, sp, t1
    la t1, check_trap_entry
    csrw stvec, t1
    csrr a2, satp
    jr t0

    .balign 4
check_trap_entry:
    addi sp, sp, -256
    .irp n, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    sd x\n, 8 * \n (sp)
    .endr
    mv a0, sp
    call check_trap
    .irp n, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    ld x\n, 8 * \n (sp)
    .endr
    addi sp, sp, 256
    sret

    .section .bss.check_stacks, "aw", @nobits
    .balign 4096
check_stacks:
    .zero {harts} << {shift}
    "#,
    shift = const STACK_SHIFT,
    harts = const HARTS_MAX,
);

unsafe extern "C" {
    fn check_second();
    fn check_third();
}

macro_rules! csr {
    (read $name:literal) => {{
        let value: u64;
        // SAFETY: reading this register has no side effect.
        unsafe { asm!(concat!("csrr {}, ", $name), out(reg) value, options(nomem, nostack)) };
        value
    }};
    ($operation:literal $name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: this program expects what the register then does.
        unsafe { asm!(concat!("csr", $operation, " ", $name, ", {}"), in(reg) value, options(nostack)) }
    }};
}

#[unsafe(no_mangle)]
extern "C" fn check_trap(frame: &mut Frame) {
    let (cause, counter) = (csr!(read "scause"), csr!(read "sepc"));
    if cause >> 63 != 0 {
        // A timer stays pending until it is set again.
        csr!("c" "sip", SSIP);
        csr!("c" "sie", cause_bit(cause) & STIP);
        // Stacks tell harts apart.
        let hart = (core::ptr::from_mut(frame).addr() - stacks()) >> STACK_SHIFT;
        INTERRUPTS[hart].fetch_add(1, SeqCst);
        LAST[0].store(cause, Release);
        return;
    }
    for (place, value) in LAST.iter().zip([cause, counter, csr!(read "stval"), csr!(read "sstatus")]) {
        place.store(value, Release);
    }
    TRAPS.fetch_add(1, SeqCst);
    let go_on = GO_ON.swap(0, SeqCst);
    csr!("w" "sepc", if go_on == 0 { counter + 4 } else { go_on });
    csr!("s" "sstatus", SPP);
}

const fn cause_bit(cause: u64) -> u64 {
    1 << (cause & 63)
}

fn stacks() -> usize {
    let at: usize;
    // SAFETY: an address.
    unsafe { asm!("la {}, check_stacks", out(reg) at) };
    at
}

fn call(extension: usize, function: usize, arguments: [usize; 5]) -> SbiRet {
    let (error, value);
    let [a0, a1, a2, a3, a4] = arguments;
    // SAFETY: the firmware keeps all other registers, and writes no memory but that of this program's console buffer.
    unsafe {
        asm!("ecall", inlateout("a0") a0 => error, inlateout("a1") a1 => value, in("a2") a2, in("a3") a3, in("a4") a4,
            in("a6") function, in("a7") extension, options(nostack));
    }
    SbiRet { error, value }
}

fn status(hart: usize) -> usize {
    call(hsm::EID_HSM, hsm::HART_GET_STATUS, [hart, 0, 0, 0, 0]).value
}

struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let written = call(dbcn::EID_DBCN, dbcn::CONSOLE_WRITE, [rest.len(), rest.as_ptr().addr(), 0, 0, 0]);
            assert!(written.error == 0 && written.value > 0, "{written:?}");
            rest = &rest[written.value..];
        }
        Ok(())
    }
}

macro_rules! say {
    ($($words:tt)*) => {{ let _ = writeln!(Console, $($words)*); }};
}

#[unsafe(no_mangle)]
extern "C" fn check_main(own: usize, _tree: usize) -> ! {
    say!("check: hart {own} runs");
    let harts = (0..HARTS_MAX)
        .take_while(|hart| call(hsm::EID_HSM, hsm::HART_GET_STATUS, [*hart, 0, 0, 0, 0]).error == 0)
        .count();
    base_calls();
    wrong_arguments(harts);
    forwarding();
    closed_memory();
    interrupts(own);
    timer(own);
    for hart in (0..harts).filter(|hart| *hart != own) {
        other_hart(own, hart);
    }
    fences(own, harts);
    say!("check: all of {harts} harts ok");
    call(srst::EID_SRST, srst::SYSTEM_RESET, [0; 5]);
    panic!("still here");
}

fn base_calls() {
    let base = |function, argument| call(base::EID_BASE, function, [argument, 0, 0, 0, 0]);
    assert_eq!(base(base::GET_SBI_SPEC_VERSION, 0).value >> 24, 2);
    assert_eq!(base(base::GET_SBI_IMPL_ID, 0).value, 4);
    for extension in [time::EID_TIME, spi::EID_SPI, rfnc::EID_RFNC, hsm::EID_HSM, srst::EID_SRST, dbcn::EID_DBCN] {
        assert_eq!(base(base::PROBE_EXTENSION, extension), SbiRet::success(1));
    }
    assert_eq!(base(base::PROBE_EXTENSION, 0x99), SbiRet::success(0));
    say!("check: base ok");
}

fn wrong_arguments(harts: usize) {
    let inside = FIRMWARE.start as usize + 0x100;
    let (parameter, address) = (SbiRet::invalid_param(), SbiRet::invalid_address());
    let wrong = [
        (0x99, 0, [0; 5], SbiRet::not_supported()),
        (hsm::EID_HSM, 99, [0; 5], SbiRet::not_supported()),
        (hsm::EID_HSM, hsm::HART_START, [harts, inside, 0, 0, 0], parameter),
        (hsm::EID_HSM, hsm::HART_START, [ALL, inside, 0, 0, 0], parameter),
        (hsm::EID_HSM, hsm::HART_START, [0, inside, 0, 0, 0], address),
        (hsm::EID_HSM, hsm::HART_START, [0, 0, 0, 0, 0], address),
        (hsm::EID_HSM, hsm::HART_GET_STATUS, [ALL, 0, 0, 0, 0], parameter),
        (hsm::EID_HSM, hsm::HART_SUSPEND, [7, 0, 0, 0, 0], parameter),
        (hsm::EID_HSM, hsm::HART_SUSPEND, [0x8000_0000, inside, 0, 0, 0], address),
        (spi::EID_SPI, 0, [1, harts, 0, 0, 0], parameter),
        (spi::EID_SPI, 0, [ALL, 0, 0, 0, 0], parameter),
        (rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I, [1, 1 << 40, 0, 0, 0], parameter),
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA, [1, 0, ALL - 5, 4096, 0], address),
        (rfnc::EID_RFNC, rfnc::REMOTE_SFENCE_VMA_ASID, [1, 0, 0, 4096, 1 << 16], parameter),
        (dbcn::EID_DBCN, dbcn::CONSOLE_WRITE, [8, inside, 0, 0, 0], parameter),
        (dbcn::EID_DBCN, dbcn::CONSOLE_READ, [8, inside, 0, 0, 0], parameter),
        (dbcn::EID_DBCN, dbcn::CONSOLE_WRITE, [ALL, FIRMWARE.end() as usize, 0, 0, 0], parameter),
        (srst::EID_SRST, srst::SYSTEM_RESET, [9, 0, 0, 0, 0], parameter),
        (srst::EID_SRST, srst::SYSTEM_RESET, [0, 9, 0, 0, 0], parameter),
    ];
    for (extension, function, arguments, want) in wrong {
        let got = call(extension, function, arguments);
        assert!(got.error == want.error, "{extension:x} {function} {arguments:x?}: {got:?}, not {want:?}");
    }
    say!("check: wrong arguments ok");
}

/// Illegal instructions reach this program as if they had been delegated, from S-mode and from U-mode; then they are.
fn forwarding() {
    for by_supervisor in [false, true, false] {
        let took_over = call(hidden::EXTENSION, hidden::TAKE_OVER, [by_supervisor.into(), 0, 0, 0, 0]);
        assert_eq!(took_over.error, 0);
        illegal();
        hidden_time(by_supervisor);
    }
    say!("check: illegal instructions ok");
}

fn illegal() {
    let before = TRAPS.load(SeqCst);
    let at: u64;
    // SAFETY: the handler goes on behind the illegal instruction.
    unsafe { asm!("la {at}, 2f", "2:", ".4byte 0xc0001073", at = out(reg) at) };
    let [cause, counter, value, state] = LAST.each_ref().map(|register| register.load(SeqCst));
    assert_eq!((TRAPS.load(SeqCst) - before, cause, counter), (1, 2, at));
    assert!(value == 0xc000_1073 && state & SPP != 0, "{value:x} {state:x}");
    let user: u64;
    // SAFETY: in U-mode one illegal instruction follows; the handler goes on behind it, in S-mode.
    unsafe {
        asm!("la {at}, 3f", "sd {at}, ({go_on})", "la {at}, 2f", "csrw sepc, {at}", "csrc sstatus, {spp}", "sret",
            "2:", ".4byte 0xc0001073", "3:",
            at = out(reg) user, go_on = in(reg) GO_ON.as_ptr(), spp = in(reg) SPP);
    }
    let [cause, counter, _, state] = LAST.each_ref().map(|register| register.load(SeqCst));
    assert_eq!((TRAPS.load(SeqCst) - before, cause, counter, state & SPP), (2, 2, user, 0));
}

/// The time is no secret of the supervisor's: the firmware answers who asks for it, unless the supervisor does.
fn hidden_time(by_supervisor: bool) {
    let (before, traps) = (csr!(read "time"), TRAPS.load(SeqCst));
    let hidden = csr!(read "scounteren") & !2;
    csr!("w" "scounteren", hidden);
    let mut seen = 0_u64;
    // SAFETY: in U-mode the time is read, and the call after it comes back, in S-mode.
    unsafe {
        asm!("la {at}, 3f", "sd {at}, ({go_on})", "la {at}, 2f", "csrw sepc, {at}", "csrc sstatus, {spp}", "sret",
            "2:", "csrr {seen}, time", "ecall", "3:",
            at = out(reg) _, seen = inout(reg) seen, go_on = in(reg) GO_ON.as_ptr(), spp = in(reg) SPP);
    }
    let (illegal, call_of_user) = (2, 8);
    let cause = if by_supervisor { illegal } else { call_of_user };
    assert_eq!((TRAPS.load(SeqCst) - traps, LAST[0].load(SeqCst)), (1, cause));
    assert!(by_supervisor || before <= seen && seen <= csr!(read "time"), "{before} {seen}");
}

fn closed_memory() {
    for address in [FIRMWARE.start, FIRMWARE.start + 0x12_0000, FIRMWARE.end() - 8] {
        // SAFETY: the handler goes on behind the load, the store, and at the label.
        unsafe {
            asm!(".option push", ".option norvc", "ld {value}, ({address})", ".option pop", address = in(reg) address, value = out(reg) _);
            assert_eq!(LAST[0].swap(0, SeqCst), 5, "a load from {address:x}");
            asm!(".option push", ".option norvc", "sd x0, ({address})", ".option pop", address = in(reg) address);
            assert_eq!(LAST[0].swap(0, SeqCst), 7, "a store to {address:x}");
            asm!("la {at}, 2f", "sd {at}, ({go_on})", "jr {address}", "2:",
                at = out(reg) _, go_on = in(reg) GO_ON.as_ptr(), address = in(reg) address);
            assert_eq!(LAST[0].swap(0, SeqCst), 1, "a jump to {address:x}");
        }
    }
    say!("check: closed memory ok");
}

fn allow_interrupts(bits: u64) {
    csr!("s" "sie", bits);
    csr!("s" "sstatus", SIE);
}

fn interrupts(own: usize) {
    allow_interrupts(SSIP);
    assert_eq!(call(spi::EID_SPI, 0, [1, own, 0, 0, 0]), SbiRet::success(0));
    while INTERRUPTS[own].load(SeqCst) == 0 {}
    assert_eq!(LAST[0].load(SeqCst), 1 << 63 | 1);
    say!("check: interrupts ok");
}

fn timer(own: usize) {
    let start = csr!(read "time");
    let before = INTERRUPTS[own].load(SeqCst);
    call(time::EID_TIME, 0, [ALL, 0, 0, 0, 0]);
    allow_interrupts(STIP);
    call(time::EID_TIME, 0, [start as usize + 20_000, 0, 0, 0, 0]);
    while INTERRUPTS[own].load(SeqCst) == before {}
    assert!(csr!(read "time") >= start + 20_000 && LAST[0].load(SeqCst) == 1 << 63 | 5);
    // One that sleeps is woken by it, and takes it then: not before, or nothing would wake it.
    csr!("c" "sstatus", SIE);
    call(time::EID_TIME, 0, [csr!(read "time") as usize + 20_000, 0, 0, 0, 0]);
    csr!("s" "sie", STIP);
    assert_eq!(call(hsm::EID_HSM, hsm::HART_SUSPEND, [0; 5]), SbiRet::success(0));
    assert_eq!(INTERRUPTS[own].load(SeqCst), before + 1);
    csr!("s" "sstatus", SIE);
    while INTERRUPTS[own].load(SeqCst) != before + 2 {}
    call(time::EID_TIME, 0, [ALL, 0, 0, 0, 0]);
    assert_eq!(csr!(read "sip") & STIP, 0);
    say!("check: timer ok");
}

/// Starts another hart, lets it sleep and wake, sleep and start anew, stop, and starts it again.
fn other_hart(own: usize, hart: usize) {
    let until = |what: &str, done: &dyn Fn() -> bool| {
        for _ in 0..1_000_000_000_u64 {
            if done() {
                return;
            }
        }
        panic!("hart {hart}: {what} does not come");
    };
    let start = || call(hsm::EID_HSM, hsm::HART_START, [hart, check_second as *const () as usize, 0x5eed + hart, 0, 0]);
    let ring = || assert_eq!(call(spi::EID_SPI, 0, [1, hart, 0, 0, 0]), SbiRet::success(0));
    let step = |step| move || STEPS[hart].load(SeqCst) == step;
    for round in 0..2 {
        let base = round * 3;
        assert_eq!(status(hart), hart_state::STOPPED);
        assert_eq!(start(), SbiRet::success(0));
        assert_eq!(start(), SbiRet::already_available());
        until("its start", &step(base + 1));
        until("its sleep", &|| status(hart) == hart_state::SUSPENDED);
        ring();
        until("its waking", &step(base + 2));
        until("its second sleep", &|| status(hart) == hart_state::SUSPENDED);
        // Fences do not wake it.
        assert_eq!(call(rfnc::EID_RFNC, rfnc::REMOTE_FENCE_I, [1, hart, 0, 0, 0]), SbiRet::success(0));
        assert_eq!((status(hart), STEPS[hart].load(SeqCst)), (hart_state::SUSPENDED, base + 2));
        ring();
        until("its new start", &step(base + 3));
        until("its stop", &|| status(hart) == hart_state::STOPPED);
    }
    say!("check: hart {hart} started by hart {own} ok");
}

/// Another hart's life in [`other_hart`].
#[unsafe(no_mangle)]
extern "C" fn check_other(own: usize, argument: usize, satp: usize) -> ! {
    assert_eq!((argument, satp), (0x5eed + own, 0));
    if STEPS[own].load(SeqCst) >= 6 {
        fence_until_told(own);
    }
    // It is woken, but by no trap.
    csr!("s" "sie", SSIP);
    STEPS[own].fetch_add(1, SeqCst);
    assert_eq!(call(hsm::EID_HSM, hsm::HART_SUSPEND, [0; 5]), SbiRet::success(0));
    assert_ne!(csr!(read "sip") & SSIP, 0);
    csr!("c" "sip", SSIP);
    STEPS[own].fetch_add(1, SeqCst);
    let again = check_third as *const () as usize;
    call(hsm::EID_HSM, hsm::HART_SUSPEND, [0x8000_0000, again, 0xabc, 0, 0]);
    panic!("hart {own} went on behind its call");
}

/// Where [`check_other`] starts anew.
#[unsafe(no_mangle)]
extern "C" fn check_resumed(own: usize, argument: usize, satp: usize) -> ! {
    assert_eq!((argument, satp, csr!(read "sie"), csr!(read "sip") & SSIP), (0xabc, 0, 0, 0));
    STEPS[own].fetch_add(1, SeqCst);
    call(hsm::EID_HSM, hsm::HART_STOP, [0; 5]);
    panic!("hart {own} went on behind its stop");
}

/// All harts fence each other at once.
fn fences(own: usize, harts: usize) {
    const ROUNDS: usize = 60;
    for hart in (0..harts).filter(|hart| *hart != own) {
        let second = check_second as *const () as usize;
        assert_eq!(call(hsm::EID_HSM, hsm::HART_START, [hart, second, 0x5eed + hart, 0, 0]), SbiRet::success(0));
    }
    for round in 0..ROUNDS {
        fence_others(round);
    }
    for hart in (0..harts).filter(|hart| *hart != own) {
        STEPS[hart].store(99, Release);
        while status(hart) != hart_state::STOPPED {}
    }
    say!("check: fences ok");
}

fn fence_until_told(own: usize) -> ! {
    let mut round = 0;
    while STEPS[own].load(Relaxed) != 99 {
        fence_others(round);
        round += 1;
    }
    call(hsm::EID_HSM, hsm::HART_STOP, [0; 5]);
    panic!("hart {own} went on behind its stop");
}

fn fence_others(round: usize) {
    let (function, arguments) = match round % 4 {
        0 => (rfnc::REMOTE_FENCE_I, [0, ALL, 0, 0, 0]),
        1 => (rfnc::REMOTE_SFENCE_VMA, [0, ALL, 0x1000, 0x8000, 0]),
        2 => (rfnc::REMOTE_SFENCE_VMA, [0, ALL, 0, 0, 0]),
        _ => (rfnc::REMOTE_SFENCE_VMA_ASID, [0, ALL, 0x1000, 0x80_0000, 3]),
    };
    assert_eq!(call(rfnc::EID_RFNC, function, arguments), SbiRet::success(0));
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    say!("check: failed: {info}");
    call(srst::EID_SRST, srst::SYSTEM_RESET, [0, 1, 0, 0, 0]);
    loop {
        core::hint::spin_loop();
    }
}

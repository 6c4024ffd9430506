//! The registers of the hart that runs this.

use core::{
    arch::asm,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use motet_firmware::{FIRMWARE, board::Hart, calls::Machine, hart::HartId, mail::Fence, state::Launch};
use motet_layout::marks;

use super::{Hardware, OWN_TIMER, SHARED, csr, entry, travel};

/// Bits of `mip` and `mie`.
pub const SUPERVISOR_SOFTWARE: u64 = 1 << 1;
const MACHINE_SOFTWARE: u64 = 1 << 3;
const SUPERVISOR_TIMER: u64 = 1 << 5;
const MACHINE_TIMER: u64 = 1 << 7;
const SUPERVISOR_EXTERNAL: u64 = 1 << 9;
const COUNTER_OVERFLOW: u64 = 1 << 13;
/// Of guests that run elsewhere.
const GUEST_EXTERNAL: u64 = 1 << 12;
const SUPERVISOR_INTERRUPTS: u64 =
    SUPERVISOR_SOFTWARE | SUPERVISOR_TIMER | SUPERVISOR_EXTERNAL | COUNTER_OVERFLOW | GUEST_EXTERNAL;

/// Exceptions that go to the supervisor without the firmware. Not: illegal instructions (2), unless it sees to them itself, calls of the
/// supervisor (9) and the machine (11), double traps (16), hardware errors (19).
const DELEGATED: u64 = 0xff & !ILLEGAL | 1 << 8 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15 | 1 << 18 | 0xf << 20;

/// An illegal instruction, among exceptions.
const ILLEGAL: u64 = 1 << 2;

/// Whether harts have `senvcfg`, and `sstateen0`.
pub static ENVIRONMENT: AtomicBool = AtomicBool::new(false);
pub static STATE_ENABLE: AtomicBool = AtomicBool::new(false);

/// Sets up what does not change while the hart is on, but for [`delegate_illegal`]. Bits that a hart does not have stay clear.
pub fn set_up(hardware: &Hardware) {
    let described = hardware.board.hart(hardware.own).expect("others do not come here");
    protect(hardware);
    // SAFETY: what the supervisor gets to handle and to use; nothing of it is the firmware's.
    unsafe {
        csr::write!("medeleg", DELEGATED);
        csr::write!("mideleg", SUPERVISOR_INTERRUPTS);
        csr::write!("mcounteren", u64::from(u32::MAX));
        csr::write!("mie", MACHINE_SOFTWARE);
    }
    set_up_environment(hardware, described);
    if csr::has!("0x30c") {
        STATE_ENABLE.store(true, Relaxed);
        const OWN_ENABLE: u64 = 1 << 63;
        // SAFETY: `mstateen0` to `mstateen3`: state that lower modes may use; of the others, `sstateen` decides.
        unsafe {
            csr::write!("0x30c", u64::MAX);
            csr::write!("0x30d", OWN_ENABLE);
            csr::write!("0x30e", OWN_ENABLE);
            csr::write!("0x30f", OWN_ENABLE);
        }
    }
    if hardware.board.hidden.contains(hardware.own) {
        travel::set_up_hidden();
    }
    if csr::has!("0x747") {
        const SUPERVISOR_SEED: u64 = 1 << 9;
        // SAFETY: `mseccfg`: the supervisor may read the entropy source.
        unsafe { csr::set!("0x747", SUPERVISOR_SEED) };
    }
}

/// Whether this hart's illegal instructions go to the supervisor without the firmware, which would do nothing but pass them on.
pub fn delegate_illegal(is_delegated: bool) {
    // SAFETY: such a trap is the supervisor's in both cases.
    unsafe {
        if is_delegated {
            csr::set!("medeleg", ILLEGAL);
        } else {
            csr::clear!("medeleg", ILLEGAL);
        }
    }
}

/// `menvcfg`: cache-block operations, memory types of pages, its own timer, updates of page tables.
fn set_up_environment(hardware: &Hardware, described: &Hart) {
    const CACHE_BLOCKS: u64 = 3 << 4 | 1 << 6 | 1 << 7;
    const UPDATES_TABLES: u64 = 1 << 61;
    const PAGE_MEMORY_TYPES: u64 = 1 << 62;
    const OWN_TIMER_BIT: u64 = 1 << 63;
    if !csr::has!("0x30a") {
        return;
    }
    ENVIRONMENT.store(true, Relaxed);
    let updates = if described.updates_tables { UPDATES_TABLES } else { 0 };
    // SAFETY: extensions that the supervisor may use.
    unsafe { csr::write!("0x30a", CACHE_BLOCKS | PAGE_MEMORY_TYPES | OWN_TIMER_BIT | updates) };
    OWN_TIMER[hardware.own.index()].store(csr::read!("0x30a") & OWN_TIMER_BIT, Relaxed);
}

/// Closes the firmware's memory to lower modes and opens all else to them. The page below the hart's stack is closed to the
/// firmware, too, until reset: the lock bit makes an entry count in M-mode.
fn protect(hardware: &Hardware) {
    const LOCKED: u64 = 1 << 7;
    const POWER_OF_TWO: u64 = 3 << 3;
    const ALL: u64 = 7;
    let range = |start: u64, len: u64| start >> 2 | (len >> 3) - 1;
    let guard = entry::guard_page(hardware.own);
    // SAFETY: lower modes get what is theirs; nobody uses the guard page.
    unsafe {
        csr::write!("pmpaddr0", range(guard, entry::GUARD_LEN));
        csr::write!("pmpaddr1", range(FIRMWARE.start, FIRMWARE.len));
        csr::write!("pmpaddr2", range(0, 1 << 56));
        csr::write!("pmpcfg0", LOCKED | POWER_OF_TWO | POWER_OF_TWO << 8 | (POWER_OF_TWO | ALL) << 16);
        asm!("sfence.vma", options(nostack));
    }
}

/// Prepares the entry to S-mode: no translation, no interrupts, and nothing left of what ran before.
pub fn prepare_launch(hardware: &Hardware, launch: Launch) {
    const SUPERVISOR: u64 = 1 << 11;
    /// SXL and UXL: fixed to 64 bits.
    const WIDTHS: u64 = 0xf << 32;
    let _ = SHARED.mail.take_interrupt(hardware.own);
    let status = csr::read!("mstatus") & WIDTHS | SUPERVISOR;
    delegate_illegal(travel::is_taken_over());
    // SAFETY: registers of the supervisor, which is not running.
    unsafe {
        csr::write!("mstatus", status);
        csr::write!("mepc", launch.address);
        csr::write!("satp", 0);
        csr::write!("stvec", launch.address & !3);
        csr::write!("sie", 0);
        csr::clear!("mie", MACHINE_TIMER);
        csr::clear!("mip", SUPERVISOR_SOFTWARE | SUPERVISOR_TIMER);
    }
    if OWN_TIMER[hardware.own.index()].load(Relaxed) != 0 {
        set_own_timer(u64::MAX);
    }
    fence(Fence::Instructions);
    fence(Fence::Addresses { start: 0, len: usize::MAX, asid: None });
}

/// Does a fence.
pub fn fence(fence: Fence) {
    const PAGE: usize = 4096;
    /// With more pages than this, all go.
    const PAGES_MAX: usize = 64;
    match fence {
        // SAFETY: fences take nothing from anybody but time, here and below.
        Fence::Instructions => unsafe { asm!("fence.i", options(nostack)) },
        Fence::Addresses { len: 0, .. } => {}
        Fence::Addresses { start, len, asid } if len <= PAGES_MAX * PAGE => {
            let (first, last) = (start / PAGE, (start + (len - 1)) / PAGE);
            for address in (first..=last).map(|page| page * PAGE) {
                match asid {
                    // SAFETY: as above.
                    None => unsafe { asm!("sfence.vma {}, x0", in(reg) address, options(nostack)) },
                    // SAFETY: as above.
                    Some(asid) => unsafe { asm!("sfence.vma {}, {}", in(reg) address, in(reg) asid, options(nostack)) },
                }
            }
        }
        // SAFETY: as above.
        Fence::Addresses { asid: None, .. } => unsafe { asm!("sfence.vma", options(nostack)) },
        // SAFETY: as above.
        Fence::Addresses { asid: Some(asid), .. } => unsafe {
            asm!("sfence.vma x0, {}", in(reg) asid, options(nostack))
        },
    }
}

/// Makes one of the supervisor's interrupts pending.
pub fn interrupt_supervisor(bit: u64) {
    // SAFETY: the supervisor takes it when it likes.
    unsafe { csr::set!("mip", bit) };
}

/// Sets `stimecmp`, on harts whose supervisor has it.
pub fn set_own_timer(ticks: u64) {
    // SAFETY: the supervisor's own register.
    unsafe { csr::write!("0x14d", ticks) };
}

/// The comparator has been set: no timer interrupt is pending, and one will come.
pub fn expect_timer() {
    // SAFETY: the supervisor has asked for it.
    unsafe {
        csr::clear!("mip", SUPERVISOR_TIMER);
        csr::set!("mie", MACHINE_TIMER);
    }
}

/// The comparator has interrupted: now it is the supervisor's interrupt, until that sets its timer again.
pub fn pass_timer() {
    // SAFETY: as above.
    unsafe {
        csr::clear!("mie", MACHINE_TIMER);
        csr::set!("mip", SUPERVISOR_TIMER);
    }
}

/// Whether the supervisor has an interrupt that it has enabled.
pub fn is_supervisor_interrupted() -> bool {
    let pending = csr::read!("mip") & csr::read!("mie");
    if pending & MACHINE_TIMER != 0 {
        pass_timer();
    }
    csr::read!("mip") & csr::read!("mie") & SUPERVISOR_INTERRUPTS != 0
}

/// Sleeps until the supervisor has an interrupt that it has enabled, and does what others ask for meanwhile.
pub fn sleep(hardware: &Hardware) {
    loop {
        hardware.serve();
        if is_supervisor_interrupted() {
            return;
        }
        wait();
    }
}

/// Waits for an interrupt that is enabled in `mie`; it is not taken.
pub fn wait() {
    // SAFETY: nothing but waiting.
    unsafe { asm!("wfi", options(nostack)) };
    mark::<{ marks::WOKE }>();
}

/// Tells whoever simulates this hart's time (`motet_layout::marks`).
#[inline(always)]
pub fn mark<const MARK: u8>() {
    // SAFETY: an instruction that does nothing. What is stored before it, and after it, stays there.
    unsafe { asm!(".4byte {word}", word = const marks::riscv64(MARK), options(nostack, preserves_flags)) };
}

/// The same, of a hart that is about to be rung.
#[inline(always)]
pub fn mark_ring(hart: HartId) {
    // SAFETY: as above.
    unsafe {
        asm!(".4byte {word}", word = const marks::riscv64(marks::RING_HART), in("a0") hart.index(),
            options(nostack, preserves_flags));
    }
}

/// Does nothing, for good.
pub fn park() -> ! {
    // SAFETY: nothing wakes this hart.
    unsafe { csr::write!("mie", 0) };
    loop {
        wait();
    }
}

//! One core: its private data, its system registers, the exception code (trap.s).

use core::arch::{asm, global_asm};
use core::mem::offset_of;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::extended;
use motet_layout::{CORES_PER_ISLAND_MAX, Cell64, CoreId, PAGE_SIZE, UserFrame};

/// Reads a system register.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading this register changes no state that Rust knows of.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Writes a system register that does not change what Rust's memory accesses mean.
macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: used for registers that control interrupts, timers and user mode only.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) }
    }};
}

/// An instruction without operands that orders or waits (it also keeps the compiler from moving memory accesses).
macro_rules! barrier {
    ($($instruction:literal);+) => {
        // SAFETY: barriers, TLB maintenance and waits do not change what Rust's memory accesses mean.
        unsafe { core::arch::asm!($($instruction),+, options(nostack, preserves_flags)) }
    };
}
pub(crate) use {barrier, read_register, write_register};

/// What the exception code and the panic handler need of a core. Reached through TPIDR_EL1; private to the island.
///
/// Written by the boot core before the core starts, then by the core itself.
#[repr(C, align(64))]
pub struct PerCore {
    /// SP_EL1 of the call that entered user mode.
    kernel_sp: AtomicU64,
    /// What `serve` is called with.
    serve_with: AtomicU64,
    /// The function that may serve stores of programs ([`serve_stores`]); 0: there is none.
    serve: AtomicU64,
    /// End of its stack.
    pub stack_top: AtomicU64,
    /// End of the stack for kernel exceptions.
    pub fault_stack: AtomicU64,
    /// [`CoreId`].
    pub id: AtomicU64,
    /// Affinity fields of its MPIDR_EL1.
    pub affinity: AtomicU64,
    /// x0..x30 and SP at a kernel exception.
    pub fault_regs: [AtomicU64; 32],
    /// 1 after the first kernel exception.
    pub faulted: AtomicU64,
    /// Bytes in a register of SVE; 0: there is none, or it is withheld.
    pub vector_bytes: AtomicU32,
    /// User code may use SVE.
    pub vectors_open: AtomicBool,
    /// Programs do not see what the cores of this ISA differ in.
    pub hides: AtomicBool,
    /// TPIDR_EL1 of the guest that stopped last.
    pub guest_thread_pointer: AtomicU64,
    /// The timer of guests does not interrupt this core.
    pub is_guest_timer_off: AtomicBool,
    /// Physical address of its redistributor.
    pub redistributor: AtomicU64,
    /// Which guest's translations it may have: addresses of the root, and of its core's
    /// [`GuestSystem`](motet_layout::GuestSystem); 0: of none.
    pub guest: [AtomicU64; 2],
}

/// The cores of this island.
pub static CORES: [PerCore; CORES_PER_ISLAND_MAX] = [const { PerCore::new() }; CORES_PER_ISLAND_MAX];

impl PerCore {
    const fn new() -> Self {
        Self {
            kernel_sp: AtomicU64::new(0),
            serve_with: AtomicU64::new(0),
            serve: AtomicU64::new(0),
            stack_top: AtomicU64::new(0),
            fault_stack: AtomicU64::new(0),
            id: AtomicU64::new(0),
            affinity: AtomicU64::new(0),
            fault_regs: [const { AtomicU64::new(0) }; 32],
            faulted: AtomicU64::new(0),
            vector_bytes: AtomicU32::new(0),
            vectors_open: AtomicBool::new(false),
            hides: AtomicBool::new(false),
            guest_thread_pointer: AtomicU64::new(0),
            is_guest_timer_off: AtomicBool::new(false),
            redistributor: AtomicU64::new(0),
            guest: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// This core's.
    #[inline(always)]
    pub fn this() -> &'static Self {
        let address: usize;
        // SAFETY: TPIDR_EL1 is constant from before the first Rust code on this core.
        unsafe { asm!("mrs {}, tpidr_el1", out(reg) address, options(pure, nomem, nostack, preserves_flags)) };
        // SAFETY: boot.s stores the address of an element of CORES, all of whose fields are atomic.
        unsafe { &*with_exposed_provenance::<Self>(address) }
    }

    /// Its identifier.
    #[inline(always)]
    pub fn core_id(&self) -> CoreId {
        CoreId(self.id.load(Ordering::Relaxed) as u8)
    }
}

unsafe extern "C" {
    fn motet_enter_user(frame: *const UserFrame) -> u64;
    fn motet_save_ext(ext: *const Cell64);
    fn motet_save_kept_ext(ext: *const Cell64);
    fn motet_load_ext(ext: *const Cell64);
    fn motet_clear_ext();
    fn motet_rewrite_frame(frame: *mut u8);
}

/// What [`enter_user`] returns for an interrupt; no exception syndrome looks like this.
pub const INTERRUPTED: u64 = u64::MAX;

/// Runs user code until the next exception; returns its syndrome (ESR_EL1) or [`INTERRUPTED`].
#[inline(always)]
pub fn enter_user(frame: &'static UserFrame) -> u64 {
    // SAFETY: the frame is writable memory for good; the assembly code keeps Rust's registers, enters EL0 whatever the
    // frame holds, and EL0 has no access to kernel memory. What it calls is 0 or was stored by `serve_stores`, which has not
    // returned; the call uses the stack below the kept registers.
    unsafe { motet_enter_user(frame) }
}

/// [`motet_hal::Machine::serve_stores`].
pub fn serve_stores<R, F: Fn(&'static UserFrame, u64) -> bool>(serve: F, run: impl FnOnce() -> R) -> R {
    let core = PerCore::this();
    core.serve_with.store(core::ptr::from_ref(&serve).expose_provenance() as u64, Ordering::Relaxed);
    core.serve.store(serve_store::<F> as *const () as u64, Ordering::Relaxed);
    let result = run();
    core.serve.store(0, Ordering::Relaxed);
    result
}

/// A program has stored to a page from which it may only load, and what registers functions keep are its own. Whether it goes on.
extern "C" fn serve_store<F: Fn(&'static UserFrame, u64) -> bool>(
    serve: &F,
    frame: &'static UserFrame,
    address: u64,
) -> u64 {
    u64::from(serve(frame, untagged(address)))
}

/// A user address without its tag (the hardware ignores the top byte of user addresses).
pub const fn untagged(address: u64) -> u64 {
    if address & 1 << 55 == 0 { address & 0x00ff_ffff_ffff_ffff } else { address }
}

/// Stores the extended registers.
pub fn save_ext(frame: &'static UserFrame) {
    const { assert!(size_of::<[Cell64; 192]>() >= 528) };
    // SAFETY: `ext` has room for 32 vector registers and two words, and its cells may be written through `&`.
    unsafe { motet_save_ext(frame.ext.as_ptr()) }
}

/// Stores those extended registers that C functions preserve (AAPCS64, 6.1.2).
pub fn save_kept_ext(frame: &'static UserFrame) {
    // SAFETY: as in `save_ext`.
    unsafe { motet_save_kept_ext(frame.ext.as_ptr()) }
}

/// Loads the extended registers: from the frame, or their initial state.
pub fn load_ext(frame: Option<&'static UserFrame>) {
    match frame {
        // SAFETY: as in `save_ext`; the kernel itself is compiled without these registers.
        Some(frame) => unsafe { motet_load_ext(frame.ext.as_ptr()) },
        // SAFETY: the kernel is compiled without these registers.
        None => unsafe { motet_clear_ext() },
    }
}

/// Rewrites 4096 bytes at `frame` onto themselves and drops stale instructions.
pub fn rewrite_frame(frame: *mut u8) {
    // SAFETY: the caller got the pointer from the pool, which is writable; adding zero atomically loses no other store.
    unsafe { motet_rewrite_frame(frame) }
}

/// Fills the 4096 bytes at `frame` with zeroes. By pairs of registers, 256 bytes a round: the compiler's `memset` takes six times
/// as many instructions. `dc zva` would take fewer, but the simulator of a timed machine does not see what that stores.
pub fn zero_frame(frame: *mut u8) {
    // SAFETY: the caller got the pointer from the pool, which is writable.
    unsafe {
        asm!(
            "2:",
            ".rept 16",
            "stp xzr, xzr, [{at}], #16",
            ".endr",
            "cmp {at}, {end}",
            "b.ne 2b",
            at = inout(reg) frame => _,
            end = in(reg) frame.wrapping_add(PAGE_SIZE as usize),
            options(nostack)
        );
    }
}

/// Whether the kernel is in EL2.
pub fn is_hypervisor() -> bool {
    read_register!("CurrentEL") >> 2 & 3 == 2
}

/// Sets up what user mode may do on this core, and drops the identity map.
pub fn init_user_mode() {
    extended::init();
    write_register!("cntkctl_el1", READ_COUNTER);
    write_register!("pmuserenr_el0", 0);
    write_register!("tpidrro_el0", 0);
    write_register!("mdscr_el1", 0);
    set_user_root(crate::memory::empty_root());
}

/// EL0VCTEN: programs read CNTVCT_EL0 and CNTFRQ_EL0.
const READ_COUNTER: u64 = 1 << 1;

/// As [`hide_counters`], and guests read theirs as before.
pub fn hide_counters_of_programs() {
    write_register!("cntkctl_el1", read_register!("cntkctl_el1") & !READ_COUNTER);
}

/// CNTVCT_EL0 and CNTFRQ_EL0 trap.
pub fn hide_counters(of_guests: u64) {
    write_register!("cntkctl_el1", of_guests);
}

/// Switches TTBR0 and drops user translations.
#[inline]
pub fn set_user_root(phys: u64) {
    // SAFETY: user addresses are never accessed by Rust code.
    unsafe {
        asm!("dsb ishst", "msr ttbr0_el1, {}", "isb", "tlbi aside1, xzr", "dsb nsh", "isb", in(reg) phys,
            options(nostack, preserves_flags));
    }
}

/// Drops user translations of one page.
#[inline]
pub fn flush_page(address: u64) {
    let operand = address >> 12 & 0xfff_ffff_ffff;
    // SAFETY: TLB maintenance.
    unsafe {
        asm!("dsb ishst", "tlbi vae1, {}", "dsb nsh", "isb", in(reg) operand, options(nostack, preserves_flags));
    }
}

/// PSCI is called with SMC rather than HVC.
static PSCI_SMC: AtomicBool = AtomicBool::new(false);

/// Says how PSCI is called on this machine.
pub fn call_psci_by_smc(by_smc: bool) {
    PSCI_SMC.store(by_smc, Ordering::Relaxed);
}

/// PSCI: starts a core at physical address `entry`, with `context` in x0. Returns PSCI's status.
pub fn psci_cpu_on(affinity: u64, entry: u64, context: u64) -> i32 {
    psci(0xc400_0003, affinity, entry, context) as i32
}

/// PSCI: turns this core off. Returns when that is not possible.
pub fn psci_cpu_off() {
    psci(0x8400_0002, 0, 0, 0);
}

fn psci(function: u64, a: u64, b: u64, c: u64) -> u64 {
    let mut status = function;
    if PSCI_SMC.load(Ordering::Relaxed) {
        // SAFETY: a firmware call by the SMC calling convention.
        unsafe { asm!("smc #0", inout("x0") status, in("x1") a, in("x2") b, in("x3") c, clobber_abi("C")) };
    } else {
        // SAFETY: as above.
        unsafe { asm!("hvc #0", inout("x0") status, in("x1") a, in("x2") b, in("x3") c, clobber_abi("C")) };
    }
    status
}

global_asm!(
    include_str!("trap.s"),
    kernel_sp = const offset_of!(PerCore, kernel_sp),
    serve = const offset_of!(PerCore, serve),
    guest_thread_pointer = const offset_of!(PerCore, guest_thread_pointer),
    fault_stack = const offset_of!(PerCore, fault_stack),
    fault_regs = const offset_of!(PerCore, fault_regs),
    pc = const offset_of!(UserFrame, pc),
    regs = const offset_of!(UserFrame, regs),
);
const _: () = assert!(offset_of!(PerCore, serve_with) == offset_of!(PerCore, kernel_sp) + 8);
const _: () = assert!(offset_of!(UserFrame, status) == offset_of!(UserFrame, pc) + 8);

//! Guests: EL2 with the virtualization host extensions (Arm ARM, D8.9 "FEAT_VHE"). The kernel is in EL2, programs in its EL0, guests
//! in EL1 and EL0 of their own.
//!
//! With HCR_EL2.E2H, the names of EL1's registers mean those of EL2, so the rest of this HAL does not know in which level it runs; the
//! guest's registers have names of their own here (`_EL12`, `_EL02`). TGE says whether EL0 runs a program (1) or a guest (0). VM stays 1, because it has no effect
//! on programs, and QEMU would drop all translations whenever it changes.
//!
//! A guest has floating point, but no SVE. Its timer is the core's virtual timer, its interrupts are those in the core's list
//! registers; ID registers and others that it has only in part are in [`registers`].

mod registers;

use core::{arch::asm, sync::atomic::Ordering::Relaxed};

use motet_hal::{Access, GuestAccess, GuestException, GuestTrap, Stage2, SystemRegister, Trap, Widen, ZERO_REGISTER};
use motet_layout::{Cell64, Frame, GuestSystem, UserFrame, aarch64_guest as words};

use crate::{
    cpu::{INTERRUPTED, PerCore, barrier, read_register, write_register},
    machine::AArch64,
};

/// HCR_EL2 for programs: E2H, RW, TGE, VM.
pub const HOST: u64 = 1 << 34 | 1 << 31 | 1 << 27 | 1;
/// For guests: E2H, RW, VM; physical interrupts and errors stop them (FMO, IMO, AMO), and virtual ones are on. SMC, WFI, ID registers,
/// registers of the implementation, ACTLR_EL1 and LORegions trap (TSC, TWI, TID3, TIDCP, TACR, TLOR), pointer authentication does
/// (API, APK are 0). Data cache maintenance by set and way cleans, too (SWIO).
const GUEST: u64 = 1 << 35 | 1 << 34 | 1 << 31 | 1 << 21 | 1 << 20 | 1 << 19 | 1 << 18 | 1 << 13 | 7 << 3 | 1 << 1 | 1;
/// CPTR_EL2 for guests: floating point is open, SVE is not, not even for the kernel.
const GUEST_EXTENDED: u64 = 3 << 20;
/// MDCR_EL2: debug and performance registers trap (TDRA, TDOSA, TDA, TPM, TPMCR).
const DEBUG_TRAPS: u64 = 7 << 9 | 3 << 5;
/// ICH_HCR_EL2: the virtual interrupt interface is on.
const INTERRUPTS_ON: u64 = 1;
/// VTCR_EL2 but for sizes: RES1, walks inner shareable and write-back.
const STAGE2_CONTROL: u64 = 1 << 31 | 3 << 12 | 1 << 10 | 1 << 8;
/// CNTHCTL_EL2, by EL1's name: guests' uses of the virtual timer and its counter trap (EL1TVT, EL1TVCT; FEAT_ECV), as those of the physical ones do.
pub const HIDDEN_TIME: u64 = 3 << 13;
/// MPIDR_EL1: RES1.
const AFFINITY_VALID: u64 = 1 << 31;
const PSTATE_MODE: u64 = 0x1f;
/// PSTATE.PAN.
const PRIVILEGED_ACCESS_NEVER: u64 = 1 << 22;
/// CNTV_CTL_EL0: on, masked, fired.
const TIMER_ON: u64 = 1;
const TIMER_MASKED: u64 = 2;
const TIMER_FIRED: u64 = 4;
const TIMER_STATE: u64 = TIMER_ON | TIMER_MASKED | TIMER_FIRED;

/// Runs an action for each system register that a guest has, with the word that keeps it and the bits that are inverted there.
macro_rules! each_register {
    ($action:ident, $system:expr) => {
        $action!($system, SCTLR, "S3_5_C1_C0_0", words::RESET_SCTLR);
        $action!($system, CPACR, "S3_5_C1_C0_2", 0);
        $action!($system, TTBR0, "S3_5_C2_C0_0", 0);
        $action!($system, TTBR1, "S3_5_C2_C0_1", 0);
        $action!($system, TCR, "S3_5_C2_C0_2", 0);
        $action!($system, SPSR, "S3_5_C4_C0_0", 0);
        $action!($system, ELR, "S3_5_C4_C0_1", 0);
        $action!($system, AFSR0, "S3_5_C5_C1_0", 0);
        $action!($system, AFSR1, "S3_5_C5_C1_1", 0);
        $action!($system, ESR, "S3_5_C5_C2_0", 0);
        $action!($system, FAR, "S3_5_C6_C0_0", 0);
        $action!($system, MAIR, "S3_5_C10_C2_0", 0);
        $action!($system, AMAIR, "S3_5_C10_C3_0", 0);
        $action!($system, VBAR, "S3_5_C12_C0_0", 0);
        $action!($system, CONTEXTIDR, "S3_5_C13_C0_1", 0);
        $action!($system, CNTKCTL, "S3_5_C14_C1_0", 0);
        $action!($system, SP, "sp_el1", 0);
        $action!($system, PAR, "par_el1", 0);
        $action!($system, TPIDRRO, "tpidrro_el0", 0);
        $action!($system, CSSELR, "csselr_el1", 0);
        $action!($system, COUNTER_OFFSET, "cntvoff_el2", 0);
        $action!($system, TIMER_DEADLINE, "S3_5_C14_C3_2", 0);
    };
}

macro_rules! each_interrupt_register {
    ($action:ident, $system:expr) => {
        $action!($system, words::INTERRUPT_CONTROL, "S3_4_C12_C11_7"); // ICH_VMCR_EL2
        $action!($system, words::ACTIVE_PRIORITIES[0], "S3_4_C12_C8_0"); // ICH_AP0R0_EL2
        $action!($system, words::ACTIVE_PRIORITIES[1], "S3_4_C12_C9_0"); // ICH_AP1R0_EL2
        $action!($system, words::LIST, "S3_4_C12_C12_0"); // ICH_LR<n>_EL2
        $action!($system, words::LIST + 1, "S3_4_C12_C12_1");
        $action!($system, words::LIST + 2, "S3_4_C12_C12_2");
        $action!($system, words::LIST + 3, "S3_4_C12_C12_3");
    };
}

macro_rules! load {
    ($system:expr, $word:ident, $name:literal, $inverted:expr) => {
        write_register!($name, $system.words[words::$word].get() ^ $inverted)
    };
    ($system:expr, $word:expr, $name:literal) => {
        write_register!($name, $system.words[$word].get())
    };
}

macro_rules! save {
    ($system:expr, $word:ident, $name:literal, $inverted:expr) => {
        $system.words[words::$word].set(read_register!($name) ^ $inverted)
    };
    ($system:expr, $word:expr, $name:literal) => {
        $system.words[$word].set(read_register!($name))
    };
}

unsafe extern "C" {
    static motet_vectors: u8;
    static motet_guest_vectors: u8;
    fn motet_enter_guest(frame: *const UserFrame, thread_pointer: u64) -> u64;
}

/// The format of guests' second stage, by the size of this core's physical addresses (ID_AA64MMFR0_EL1.PARange): a guest's are not
/// larger.
pub fn format() -> Option<Stage2> {
    let list_registers = (read_register!("S3_4_C12_C11_1") & 0x1f) + 1; // ICH_VTR_EL2
    let format = match read_register!("id_aa64mmfr0_el1") & 0xf {
        0 | 1 => None,
        2 => Some(Stage2::AArch64Bits40),
        3 | 4 => Some(Stage2::AArch64Bits42),
        _ => Some(Stage2::AArch64Bits48),
    };
    format.filter(|_| list_registers >= words::LIST_LEN as u64)
}

/// Whether this core can keep its time from guests (ID_AA64MMFR0_EL1.ECV).
pub fn can_hide_time() -> bool {
    read_register!("id_aa64mmfr0_el1") >> 60 != 0
}

/// Whether guests' time is the kernel's affair ([`HIDDEN_TIME`]): then the words of the timer are.
fn is_time_hidden() -> bool {
    read_register!("cntkctl_el1") & HIDDEN_TIME != 0
}

/// VTCR_EL2 (Arm ARM, D24.2 "VTCR_EL2"); [`Stage2`] says T0SZ and SL0.
fn stage2_control(format: Stage2) -> u64 {
    let (t0sz, sl0, size) = match format {
        Stage2::AArch64Bits40 => (24, 1, 2),
        Stage2::AArch64Bits42 => (22, 1, 3),
        Stage2::AArch64Bits48 => (16, 2, 5),
        Stage2::Sv39x4 | Stage2::Sv48x4 => unreachable!("a format of RISC-V"),
    };
    STAGE2_CONTROL | size << 16 | sl0 << 6 | t0sz
}

/// Readies this core for guests.
pub fn init(format: Stage2) {
    write_register!("tpidr_el2", read_register!("tpidr_el1"));
    write_register!("S3_4_C12_C9_5", 0xf); // ICC_SRE_EL2: guests have the interrupt interface by system registers, too
    write_register!("S3_4_C12_C11_0", 0); // ICH_HCR_EL2
    write_register!("S3_5_C14_C3_1", 0); // CNTV_CTL_EL02
    write_register!("mdcr_el2", read_register!("mdcr_el2") | DEBUG_TRAPS);
    write_register!("hstr_el2", 0);
    write_register!("vpidr_el2", read_register!("midr_el1"));
    write_register!("vtcr_el2", stage2_control(format));
    write_register!("vttbr_el2", 0);
    flush();
}

/// Drops this core's translations of guests: at the next entry.
pub fn flush() {
    PerCore::this().guest[0].store(0, Relaxed);
}

/// [`motet_hal::Machine::run_guest`].
pub fn run(machine: &AArch64, frame: &'static UserFrame, system: &'static GuestSystem, root: Frame) -> Trap {
    let root = machine.local_phys(root);
    let bytes = machine.guests.map_or(1, Stage2::root_bytes);
    assert!(root.is_multiple_of(bytes), "the root of a guest's tables is at {root:#x}");
    use_root(root, system);
    loop {
        let syndrome = enter(machine, frame, system);
        if syndrome == INTERRUPTED {
            return Trap::Interrupt(machine.gic.acknowledge());
        }
        let trap = decode(syndrome, frame);
        if !matches!(trap, GuestTrap::SystemRegister(access) if registers::serve(access, frame, system)) {
            return Trap::Guest(trap);
        }
        skip(frame);
    }
}

/// Runs the guest until the next exception; returns its syndrome (ESR_EL2) or [`INTERRUPTED`].
fn enter(machine: &AArch64, frame: &'static UserFrame, system: &'static GuestSystem) -> u64 {
    let word = |index: usize| -> &Cell64 { &system.words[index] };
    let pstate = word(words::PSTATE).get() ^ words::RESET_PSTATE;
    let own_extended = read_register!("cpacr_el1");
    each_register!(load, system);
    each_interrupt_register!(load, system);
    write_register!("vmpidr_el2", word(words::AFFINITY).get() | AFFINITY_VALID);
    // A timer of which the kernel knows that it has fired would stop the guest at once.
    let timer = if is_time_hidden() { 0 } else { word(words::TIMER_CONTROL).get() };
    machine.gic.let_guest_timer_interrupt(timer & TIMER_STATE != TIMER_ON | TIMER_FIRED);
    write_register!("S3_5_C14_C3_1", timer); // CNTV_CTL_EL02
    write_register!("S3_4_C12_C11_0", INTERRUPTS_ON); // ICH_HCR_EL2
    write_register!("cpacr_el1", GUEST_EXTENDED);
    write_register!("spsr_el1", checked(pstate));
    write_register!("vbar_el1", &raw const motet_guest_vectors as u64);
    write_register!("hcr_el2", GUEST);
    barrier!("isb");
    // SAFETY: the frame is writable memory for good; the assembly code keeps Rust's registers, and enters EL1 or EL0 of a guest, which
    // reaches what the second stage translates: memory of its own.
    let syndrome = unsafe { motet_enter_guest(frame, word(words::TPIDR).get()) };
    word(words::TPIDR).set(PerCore::this().guest_thread_pointer.load(Relaxed));
    write_register!("S3_0_C4_C2_3", PRIVILEGED_ACCESS_NEVER); // PAN, which exceptions from guests leave as it is
    each_register!(save, system);
    keep_fault_address(syndrome, system);
    if !is_time_hidden() {
        word(words::TIMER_CONTROL).set(read_register!("S3_5_C14_C3_1"));
    }
    write_register!("S3_5_C14_C3_1", 0);
    each_interrupt_register!(save, system);
    write_register!("S3_4_C12_C11_0", 0);
    word(words::PSTATE).set(frame.status.get() ^ words::RESET_PSTATE);
    write_register!("hcr_el2", HOST);
    write_register!("vbar_el1", &raw const motet_vectors as u64);
    write_register!("cpacr_el1", own_extended);
    write_register!("tpidrro_el0", 0);
    barrier!("isb");
    syndrome
}

/// Keeps the guest's virtual address of an abort, while its translation is still there. HPFAR_EL2 does not have the physical one of an
/// access that was not allowed (Arm ARM, D24.2 "HPFAR_EL2"): that is what the guest's own tables say.
fn keep_fault_address(syndrome: u64, system: &GuestSystem) {
    if !matches!(syndrome >> 26 & 0x3f, 0x20 | 0x24) {
        return;
    }
    let address = read_register!("far_el1");
    system.words[words::FAULT_ADDRESS].set(address);
    let (is_permission, is_of_walk) = (matches!(syndrome & 0x3f, 0x0c..=0x0f), syndrome & 1 << 7 != 0);
    if is_permission && !is_of_walk {
        // SAFETY: looks an address up; the guest's PAR_EL1 has been saved.
        unsafe { asm!("at s1e1r, {}", "isb", in(reg) address, options(nostack)) };
        let found = read_register!("par_el1");
        if found & 1 == 0 {
            write_register!("hpfar_el2", (found >> 12 & 0xf_ffff_ffff) << 4);
        }
    }
}

/// [`motet_hal::Machine::raise_in_guest`]: an exception taken to EL1 (Arm ARM, "AArch64.TakeException"). An instruction that there is not has
/// an unknown reason; where nothing answers there is an external abort, at the address of the last access that the second stage refused.
pub fn raise(frame: &UserFrame, system: &GuestSystem, exception: GuestException) {
    const KEPT: u64 = 0xf << 28 | 1 << 24; // NZCV, DIT
    const LENGTH_32: u64 = 1 << 25; // ESR_ELx.IL
    const EXTERNAL_ABORT: u64 = 0x10; // of no level of a table
    let word = |index: usize| -> &Cell64 { &system.words[index] };
    let pstate = word(words::PSTATE).get() ^ words::RESET_PSTATE;
    let vector = match pstate & PSTATE_MODE {
        0 => 0x400, // from EL0
        4 => 0,     // EL1 with SP_EL0
        _ => 0x200,
    };
    word(words::SPSR).set(pstate);
    word(words::ELR).set(frame.pc.get());
    let level = if pstate & PSTATE_MODE == 0 { 0 } else { 1 };
    let syndrome = match exception {
        GuestException::IllegalInstruction { .. } => 0,
        GuestException::Access(Access::Execute) => (0x20 | level) << 26 | EXTERNAL_ABORT,
        GuestException::Access(Access::Read) => (0x24 | level) << 26 | EXTERNAL_ABORT,
        GuestException::Access(Access::Write) => (0x24 | level) << 26 | EXTERNAL_ABORT | 1 << 6,
    };
    word(words::ESR).set(syndrome | LENGTH_32);
    if matches!(exception, GuestException::Access(_)) {
        word(words::FAR).set(word(words::FAULT_ADDRESS).get());
    }
    // PAN is set unless SCTLR_EL1.SPAN says that it stays.
    let control = word(words::SCTLR).get() ^ words::RESET_SCTLR;
    let pan = if control & 1 << 23 == 0 { PRIVILEGED_ACCESS_NEVER } else { pstate & PRIVILEGED_ACCESS_NEVER };
    word(words::PSTATE).set((pstate & KEPT | pan | words::RESET_PSTATE) ^ words::RESET_PSTATE);
    frame.pc.set(word(words::VBAR).get().wrapping_add(vector));
}

/// PSTATE for a guest: in AArch64, and in no higher exception level than EL1.
const fn checked(pstate: u64) -> u64 {
    match pstate & PSTATE_MODE {
        0 | 4 | 5 => pstate & 0xffff_ffff,
        _ => words::RESET_PSTATE,
    }
}

/// Has guests' memory translated by the tables at `root` from now on, without anything that the core remembers of another guest's core,
/// or of this one before it ran elsewhere.
fn use_root(root: u64, system: &GuestSystem) {
    let core = PerCore::this();
    let (this, here) = ([root, core::ptr::from_ref(system).addr() as u64], u64::from(core.core_id().0) + 1);
    let is_known = core.guest.each_ref().map(|word| word.load(Relaxed)) == this;
    core.guest.iter().zip(this).for_each(|(word, now)| word.store(now, Relaxed));
    if !is_known || system.words[words::LAST_CORE].get() != here {
        system.words[words::LAST_CORE].set(here);
        write_register!("vttbr_el2", root); // VMID 0 is every guest's
        barrier!("isb"; "dsb ishst"; "tlbi vmalls12e1"; "dsb nsh"; "isb");
    }
}

/// [`motet_hal::Machine::has_guest_timer_fired`]: whether it is on and has passed its deadline. The guest runs by what this has said, not by
/// what is a moment later.
pub fn has_timer_fired(system: &GuestSystem) -> bool {
    let control = &system.words[words::TIMER_CONTROL];
    let has_fired = deadline(system).is_some_and(|ticks| read_register!("cntvct_el0") >= ticks);
    control.set(control.get() & !TIMER_FIRED | if has_fired { TIMER_FIRED } else { 0 });
    has_fired
}

/// [`motet_hal::Machine::set_guest_clock`].
pub fn set_clock(machine: &AArch64, system: &GuestSystem, offset_ns: u64) {
    // A counter that is ahead of the time has a negative offset.
    let ahead_ns = offset_ns.cast_signed();
    let ticks = machine.clock.ticks(ahead_ns.unsigned_abs());
    let behind = if ahead_ns < 0 { ticks } else { ticks.wrapping_neg() };
    system.words[words::COUNTER_OFFSET].set(behind);
}

/// The tick of the core's counter at which the guest's timer fires, if it is on.
fn deadline(system: &GuestSystem) -> Option<u64> {
    let word = |index: usize| system.words[index].get();
    let is_on = word(words::TIMER_CONTROL) & (TIMER_ON | TIMER_MASKED) == TIMER_ON;
    let (deadline, behind) = (word(words::TIMER_DEADLINE), word(words::COUNTER_OFFSET).cast_signed());
    is_on.then(|| deadline.saturating_add_signed(behind))
}

/// [`motet_hal::Machine::guest_timer_ns`].
pub fn timer_ns(machine: &AArch64, system: &GuestSystem) -> u64 {
    deadline(system).map_or(u64::MAX, |ticks| machine.clock.ns(ticks))
}

/// What stopped a guest (ARM DDI 0487, ESR_EL2); moves its program counter over what that has done with.
fn decode(syndrome: u64, frame: &UserFrame) -> GuestTrap {
    let immediate = syndrome as u16;
    match syndrome >> 26 & 0x3f {
        0x01 => {
            skip(frame);
            GuestTrap::WaitForInterrupt
        }
        0x16 => GuestTrap::Hypercall { immediate },
        0x17 => {
            skip(frame);
            GuestTrap::Hypercall { immediate }
        }
        0x18 => GuestTrap::SystemRegister(system_register(syndrome)),
        0x20 => abort(syndrome, Access::Execute),
        0x24 => {
            let (is_write, is_maintenance) = (syndrome & 1 << 6 != 0, syndrome & 1 << 8 != 0);
            abort(syndrome, if is_write && !is_maintenance { Access::Write } else { Access::Read })
        }
        _ => GuestTrap::IllegalInstruction { word: 0.into() },
    }
}

fn skip(frame: &UserFrame) {
    frame.pc.set(frame.pc.get() + 4);
}

/// An access to a system register: ISS of a trapped MSR, MRS or system instruction.
fn system_register(syndrome: u64) -> SystemRegister {
    let field = |shift: u32, bits: u32| syndrome >> shift & ((1 << bits) - 1);
    let number = registers::number(field(20, 2), field(14, 3), field(10, 4), field(1, 4), field(17, 3));
    SystemRegister { number, is_write: syndrome & 1 == 0, register: general_register(field(5, 5)) }
}

/// Where a general register is in the frame; 31 is the one that is 0.
const fn general_register(number: u64) -> u8 {
    if number == 31 { ZERO_REGISTER } else { number as u8 }
}

/// An instruction or data abort of the second stage, by its fault status code. Its address is in two registers: the page's and, in the
/// virtual address, the byte's.
fn abort(syndrome: u64, kind: Access) -> GuestTrap {
    let (page, offset) =
        ((read_register!("hpfar_el2") >> 4 & 0xfff_ffff_ffff) << 12, read_register!("far_el1") & 0xfff);
    let is_of_walk = syndrome & 1 << 7 != 0;
    let address = (page | if is_of_walk { 0 } else { offset }).into();
    match syndrome & 0x3f {
        0x00..=0x0f => GuestTrap::Fault { access: describe(syndrome, kind), address }, // address size, translation, access flag, permission
        _ => GuestTrap::BadAddress { address },
    }
}

/// An access by ISS of a data abort, which says nothing of the register unless ISV is set. A walk of the guest's tables reads.
const fn describe(syndrome: u64, kind: Access) -> GuestAccess {
    let (is_of_walk, is_described) = (syndrome & 1 << 7 != 0, syndrome & 1 << 24 != 0);
    if is_of_walk || !is_described || matches!(kind, Access::Execute) {
        let kind = if is_of_walk { Access::Read } else { kind };
        return GuestAccess::unknown(kind);
    }
    let widen = match (syndrome & 1 << 21 != 0, syndrome & 1 << 15 != 0) {
        (false, _) => Widen::Zero,
        (true, false) => Widen::Sign32,
        (true, true) => Widen::Sign64,
    };
    GuestAccess {
        kind,
        size_bytes: 1 << (syndrome >> 22 & 3),
        register: Some(general_register(syndrome >> 16 & 31)),
        widen,
        instruction_bytes: 4,
    }
}

//! Guests: the hypervisor extension (privileged architecture, "H" Extension). The kernel is in HS-mode, guests in VS- and VU-mode.
//!
//! A guest is entered and left by the code that enters and leaves programs ([`trap`]). It is a guest because `hstatus.SPV` and
//! `sstatus.SPP` are set before, and its system registers are in the core. Instructions for features that guests do not have (vectors, the time, timers of
//! their own) are illegal in the guest, or trap to the kernel.

use core::{arch::asm, sync::atomic::Ordering::Relaxed};

use motet_hal::{
    Access, GuestAccess, GuestException, GuestInterrupts, GuestTrap, Interrupts, ServeTraps, Stage2, SystemRegister,
    Trap, Widen, ZERO_REGISTER,
};
use motet_layout::{Frame, GuestSystem, UserFrame};

use crate::{
    csr::{STATUS_FS, STATUS_VS, read_csr, write_csr},
    extended, hidden, interrupts,
    machine::TheMachine,
    per_core::{KnownGuest, PerCore, VMIDS_MAX},
    trap::{CAUSE_INTERRUPT, enter},
};

/// `sstatus`: the mode that a trap came from, and that SRET goes to, is VS-mode (or, of a kernel, S-mode).
const STATUS_SPP: u64 = 1 << 8;
/// `hstatus`: SRET goes to a guest, ...
const GUEST: u64 = 1 << 7;
/// ... whose WFI traps.
const WAITING_TRAPS: u64 = 1 << 21;

/// Exceptions that a guest handles itself: misaligned, illegal, breakpoints, system calls of its programs, faults of its own tables.
const EXCEPTIONS_OF_GUESTS: u64 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 12 | 1 << 13 | 1 << 15;
/// VS-mode's software, timer and external interrupts.
const INTERRUPTS_OF_GUESTS: u64 = SOFTWARE | TIMER | EXTERNAL;
/// Counters that a guest may read, if it wants: `instret` and `cycle`, and the time once the kernel has said how far it is from the core's
/// ([`set_clock`]). Otherwise reading it traps.
const COUNTERS: u64 = 5;
const TIME_COUNTER: u64 = 2;
/// Ticks of a guest's time in a second, as on QEMU's `virt` board, and nanoseconds of one.
const GUEST_HZ: u64 = 10_000_000;
const TICK_NS: i64 = 100;
/// VS-mode's software, timer and external interrupts in `hvip`; in `vsie` they are one bit lower.
const SOFTWARE: u64 = 1 << 2;
const TIMER: u64 = 1 << 6;
const EXTERNAL: u64 = 1 << 10;

/// Fields of `hgatp`.
const SV39X4: u64 = 8 << 60;
const VMID_SHIFT: u32 = 44;
const VMIDS: u64 = 0x3fff << VMID_SHIFT;

const CAUSE_ILLEGAL: u64 = 2;
const CAUSE_HYPERCALL: u64 = 10;
const CAUSE_VIRTUAL: u64 = 22;
const CAUSE_STORE: u64 = 23;
const WAIT_FOR_INTERRUPT: u32 = 0x1050_0073;

/// Words of [`GuestSystem`]: 1 if the guest is in VU-mode; its pending interrupts (`hvip`); `scounteren` and `senvcfg`, which programs of
/// the kernel and of guests have in common; the other registers.
const MODE: usize = 0;
const PENDING: usize = 1;
const READABLE_COUNTERS: usize = 2;
const ENVIRONMENT: usize = 3;
const FIRST_REGISTER: usize = 4;
/// Words of those registers that exceptions change, and bits of `vsstatus`.
const STATUS: usize = FIRST_REGISTER;
const ENABLED: usize = FIRST_REGISTER + 1;
const VECTOR: usize = FIRST_REGISTER + 2;
const EXCEPTION_PC: usize = FIRST_REGISTER + 4;
const CAUSE: usize = FIRST_REGISTER + 5;
const VALUE: usize = FIRST_REGISTER + 6;
/// The guest's virtual address of its last fault.
const FAULT_ADDRESS: usize = FIRST_REGISTER + 8;
/// 1 + the core where it ran last; 0: none. And 1 + the place where that one knows it.
const LAST_CORE: usize = FIRST_REGISTER + 9;
const PLACE: usize = FIRST_REGISTER + 10;
/// What the guest's time is more than the core's (`htimedelta`), in ticks.
const TIME_DELTA: usize = FIRST_REGISTER + 11;
const STATUS_SIE: u64 = 1 << 1;
const STATUS_SPIE: u64 = 1 << 5;

/// Runs an action for each system register that a core has for guests, with the word that keeps it: `vsstatus`, `vsie`, `vstvec`, `vsscratch`, `vsepc`, `vscause`, `vstval`, `vsatp`.
macro_rules! each_register {
    ($action:ident, $system:expr) => {
        $action!($system, FIRST_REGISTER, "0x200");
        $action!($system, FIRST_REGISTER + 1, "0x204");
        $action!($system, FIRST_REGISTER + 2, "0x205");
        $action!($system, FIRST_REGISTER + 3, "0x240");
        $action!($system, FIRST_REGISTER + 4, "0x241");
        $action!($system, FIRST_REGISTER + 5, "0x242");
        $action!($system, FIRST_REGISTER + 6, "0x243");
        $action!($system, FIRST_REGISTER + 7, "0x280");
    };
}

macro_rules! load {
    ($system:expr, $word:expr, $number:literal) => {
        write_csr!($number, $system.words[$word].get())
    };
}

macro_rules! save {
    ($system:expr, $word:expr, $number:literal) => {
        $system.words[$word].set(read_csr!($number))
    };
}

/// [`motet_hal::Machine::guest_format`].
pub fn format() -> Option<Stage2> {
    (PerCore::this().runs_guests.load(Relaxed) != 0).then_some(Stage2::Sv39x4)
}

/// Readies this core for guests, if it has the extension. They have no timers of their own: what would compare with their time is
/// for ever ahead of it.
pub fn init(machine: &TheMachine) {
    let core = PerCore::this();
    let hart = &machine.platform.harts()[core.core().index_in_island()];
    // The firmware that has hidden harts serves illegal instructions itself.
    let runs_guests = hart.has_letter('h') && hidden::harts() == 0;
    core.runs_guests.store(runs_guests.into(), Relaxed);
    if runs_guests {
        // SAFETY: they concern guests only.
        unsafe {
            write_csr!("0x602", EXCEPTIONS_OF_GUESTS); // hedeleg
            write_csr!("0x603", INTERRUPTS_OF_GUESTS); // hideleg
            write_csr!("0x606", COUNTERS); // hcounteren
            if hart.has("sstc") {
                write_csr!("0x24d", u64::MAX); // vstimecmp
            }
        }
        core.vmids.store(find_vmids(), Relaxed);
    }
}

/// Guests' counters are as programs': hidden.
pub fn hide_counters() {
    if format().is_some() {
        // SAFETY: it concerns guests only.
        unsafe { write_csr!("0x606", 0) }; // hcounteren
    }
}

/// [`motet_hal::Machine::set_guest_clock`]. The offset is rounded up: where the kernel finds that a guest's timer is due, it is due by the guest's
/// reading, too. A guest whose ticks are not the core's goes on to trap.
#[inline(always)]
pub fn set_clock(machine: &TheMachine, system: &GuestSystem, offset_ns: u64) {
    if machine.platform.timebase_hz != GUEST_HZ {
        return;
    }
    let behind_ns = offset_ns.cast_signed().wrapping_neg();
    system.words[TIME_DELTA].set(behind_ns.div_euclid(TICK_NS).wrapping_neg().cast_unsigned());
    let counters = read_csr!("0x606"); // hcounteren
    if counters & TIME_COUNTER == 0 {
        // SAFETY: it concerns guests only.
        unsafe { write_csr!("0x606", counters | TIME_COUNTER) };
    }
}

/// How many VMIDs this core uses. It holds those bits of `hgatp` that it has.
fn find_vmids() -> usize {
    // SAFETY: no guest runs.
    unsafe { write_csr!("0x680", SV39X4 | VMIDS) };
    let held = read_csr!("0x680") & VMIDS;
    // SAFETY: as above.
    unsafe { write_csr!("0x680", 0) };
    // 0 is none's, unless it is the only one.
    ((held >> VMID_SHIFT) as usize).clamp(1, VMIDS_MAX)
}

/// Whether the core of a guest has run on this core last, if it has run at all.
pub fn ran_here_last(system: &GuestSystem) -> bool {
    system.words[LAST_CORE].get() == 1 + PerCore::this().core().index() as u64
}

/// A guest's illegal instructions are its own, or come here first.
pub fn delegate_illegal(is_delegated: bool) {
    let exceptions = if is_delegated { EXCEPTIONS_OF_GUESTS } else { EXCEPTIONS_OF_GUESTS & !(1 << CAUSE_ILLEGAL) };
    // SAFETY: it concerns guests only.
    unsafe { write_csr!("0x602", exceptions) }; // hedeleg
}

/// Drops this core's translations of guests: each one's before it runs again.
pub fn flush() {
    PerCore::this().guests.iter().for_each(|guest| guest.system.store(0, Relaxed));
}

/// Each of the interrupts and its bit in `hvip`.
const INTERRUPTS: [(GuestInterrupts, u64); 3] =
    [(GuestInterrupts::SOFTWARE, SOFTWARE), (GuestInterrupts::TIMER, TIMER), (GuestInterrupts::EXTERNAL, EXTERNAL)];

/// [`motet_hal::Machine::guest_interrupts`].
pub fn interrupts(system: &GuestSystem) -> GuestInterrupts {
    let pending = system.words[PENDING].get();
    INTERRUPTS
        .iter()
        .filter(|(_, bit)| pending & bit != 0)
        .fold(GuestInterrupts::EMPTY, |set, (interrupt, _)| set.union(*interrupt))
}

/// [`motet_hal::Machine::set_guest_interrupts`].
pub fn set_interrupts(system: &GuestSystem, interrupts: GuestInterrupts) {
    let bits = INTERRUPTS.iter().filter(|(interrupt, _)| interrupts.contains(*interrupt)).map(|(_, bit)| bit).sum();
    system.words[PENDING].set(bits);
}

/// [`motet_hal::Machine::is_guest_interrupted`].
pub fn is_interrupted(system: &GuestSystem) -> bool {
    system.words[PENDING].get() >> 1 & system.words[ENABLED].get() != 0
}

/// [`motet_hal::Machine::raise_in_guest`]: what a core does for an exception that is delegated to VS-mode.
pub fn raise(frame: &UserFrame, system: &GuestSystem, exception: GuestException) {
    let (cause, value) = match exception {
        GuestException::IllegalInstruction { word } => (2, u64::from(word)),
        GuestException::Access(Access::Execute) => (1, system.words[FAULT_ADDRESS].get()),
        GuestException::Access(Access::Read) => (5, system.words[FAULT_ADDRESS].get()),
        GuestException::Access(Access::Write) => (7, system.words[FAULT_ADDRESS].get()),
    };
    let words = &system.words;
    let status = words[STATUS].get();
    let was_enabled = if status & STATUS_SIE != 0 { STATUS_SPIE } else { 0 };
    let was_supervisor = if words[MODE].get() & 1 == 0 { STATUS_SPP } else { 0 };
    words[STATUS].set(status & !(STATUS_SIE | STATUS_SPIE | STATUS_SPP) | was_enabled | was_supervisor);
    words[EXCEPTION_PC].set(frame.pc.get());
    words[CAUSE].set(cause);
    words[VALUE].set(value);
    words[MODE].set(0);
    // In vectored mode, too, exceptions go to the base.
    frame.pc.set(words[VECTOR].get() & !3);
}

unsafe extern "C" {
    static motet_guest_trap: u8;
    static motet_trap: u8;
}

/// What may serve a guest's traps while its registers are in the core.
struct Quick<'a, F> {
    machine: &'a TheMachine,
    system: &'static GuestSystem,
    serve: F,
}

/// A guest has trapped, and its registers are in the core, or in the frame those that this function does not keep. Whether the guest goes on. Each kind of trap
/// has a function of its own, which keeps only the registers that it needs.
extern "C" fn quick<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>) -> u64 {
    match read_csr!("scause") {
        cause if cause & CAUSE_INTERRUPT != 0 => quick_interrupt(frame, context),
        CAUSE_HYPERCALL => quick_call(frame, context),
        CAUSE_VIRTUAL => quick_register(frame, context),
        CAUSE_ILLEGAL => quick_illegal(frame),
        CAUSE_STORE => quick_store(frame, context),
        _ => 0,
    }
}

/// An interrupt of the core ([`quick`]).
#[inline(never)]
extern "C" fn quick_interrupt<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>) -> u64 {
    let taken = interrupts::take_here(context.machine);
    let is_served = serve(frame, context, Trap::Interrupt(taken), 0);
    if !is_served {
        PerCore::this().taken.store(u64::from(taken.0), Relaxed);
    }
    is_served.into()
}

/// A call of the guest's ([`quick`]).
#[inline(never)]
extern "C" fn quick_call<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>) -> u64 {
    serve(frame, context, Trap::Guest(GuestTrap::Hypercall { immediate: 0 }), 4).into()
}

/// An instruction on a register that the guest does not have ([`quick`]).
#[inline(never)]
extern "C" fn quick_register<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>) -> u64 {
    match system_register(read_csr!("stval") as u32) {
        Some(GuestTrap::SystemRegister(access)) if is_in_frame(access.register) => {
            serve(frame, context, Trap::Guest(GuestTrap::SystemRegister(access)), 0).into()
        }
        _ => 0,
    }
}

/// An illegal instruction, maybe one on floating-point registers that have not been loaded ([`quick`]).
#[inline(never)]
extern "C" fn quick_illegal(frame: &'static UserFrame) -> u64 {
    let is_given = extended::give(frame);
    if is_given {
        frame.pc.set(read_csr!("sepc"));
    }
    is_given.into()
}

/// A store that the tables do not allow ([`quick`]).
#[inline(never)]
extern "C" fn quick_store<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>) -> u64 {
    // Whether an interrupt that comes meanwhile is one that the guest takes.
    context.system.words[ENABLED].set(read_csr!("0x204")); // vsie
    let address = read_csr!("0x643") << 2 | read_csr!("stval") & 3; // htval
    let access = GuestAccess::unknown(Access::Write);
    let is_served = serve(frame, context, Trap::Guest(GuestTrap::Fault { access, address: address.into() }), 0);
    // Who has asked for a shoot-down meanwhile relies on it that this guest's translations are dropped before it goes on.
    u64::from(is_served && place_of(PerCore::this(), context.system).is_some())
}

/// Has a trap served, after an instruction of `skipped` bytes. `false`: it is not served.
#[inline(always)]
fn serve<F: ServeTraps>(frame: &'static UserFrame, context: &Quick<'_, F>, trap: Trap, skipped: u64) -> bool {
    frame.pc.set(read_csr!("sepc") + skipped);
    let pending = read_csr!("0x645"); // hvip
    context.system.words[PENDING].set(pending);
    let is_served = context.serve.serve(trap);
    if is_served {
        show_pending(context.system, pending);
    }
    is_served
}

/// Makes those interrupts pending in the guest that are by its record; `pending`: those that are.
#[inline(always)]
fn show_pending(system: &'static GuestSystem, pending: u64) {
    let now_pending = system.words[PENDING].get() & INTERRUPTS_OF_GUESTS;
    if now_pending != pending {
        // SAFETY: it concerns the guest only.
        unsafe { write_csr!("0x645", now_pending) };
    }
}

/// The place of a guest's core that runs here, unless its translations are to be dropped.
fn place_of(core: &PerCore, system: &'static GuestSystem) -> Option<usize> {
    let place = (system.words[PLACE].get() as usize).wrapping_sub(1);
    let is_its = |known: &KnownGuest| known.system.load(Relaxed) == core::ptr::from_ref(system).addr() as u64;
    core.guests.get(place).is_some_and(is_its).then_some(place)
}

/// [`motet_hal::Machine::widen_guest_page`]. HFENCE.GVMA of a page and a VMID: whatever the guest's own tables make of it. It also orders
/// earlier stores to tables.
pub fn widen_page(system: &'static GuestSystem, address: u64) {
    let core = PerCore::this();
    if let Some(place) = place_of(core, system) {
        // SAFETY: it drops translations.
        unsafe {
            asm!(
                ".insn r 0x73, 0, 0x31, x0, {page}, {vmid}",
                page = in(reg) address >> 2,
                vmid = in(reg) vmid(core, place),
                options(nostack)
            );
        }
    }
}

/// Whether a general register is in the frame when [`quick`] is called: ra, and those for temporary values and arguments.
fn is_in_frame(register: u8) -> bool {
    matches!(register, ZERO_REGISTER | 1 | 5..=7 | 10..=17 | 28..=31)
}

/// [`motet_hal::Machine::run_guest_with`].
#[inline(always)]
pub fn run(
    machine: &TheMachine,
    frame: &'static UserFrame,
    system: &'static GuestSystem,
    root: Frame,
    serve: impl ServeTraps,
) -> Trap {
    run_with(machine, frame, root, &Quick { machine, system, serve })
}

#[inline(always)]
fn run_with<F: ServeTraps>(
    machine: &TheMachine,
    frame: &'static UserFrame,
    root: Frame,
    context: &Quick<'_, F>,
) -> Trap {
    let (core, system) = (PerCore::this(), context.system);
    core.quick[0].store(quick::<F> as *const () as usize, Relaxed);
    core.quick[1].store(core::ptr::from_ref(context).addr(), Relaxed);
    let (status, counters, environment) = (read_csr!("sstatus"), read_csr!("scounteren"), read_csr!("0x10a"));
    let own = read_csr!("0x600") & !GUEST; // hstatus
    let mode = if system.words[MODE].get() & 1 == 0 { STATUS_SPP } else { 0 };
    // SAFETY: the guest's registers mean something to guests only. It reaches what the second stage translates: memory of its own.
    unsafe {
        use_root(machine.local_phys(root), system);
        each_register!(load, system);
        show_time(core, system.words[TIME_DELTA].get());
        write_csr!("0x645", system.words[PENDING].get() & INTERRUPTS_OF_GUESTS); // hvip
        write_csr!("scounteren", system.words[READABLE_COUNTERS].get());
        write_csr!("0x10a", system.words[ENVIRONMENT].get()); // senvcfg
        write_csr!("0x600", own | GUEST | WAITING_TRAPS);
        write_csr!("sstatus", status & !(STATUS_VS | STATUS_SPP) | mode);
        write_csr!("stvec", (&raw const motet_guest_trap).addr());
    }
    let (cause, pc) = enter(frame);
    let left = read_csr!("sstatus");
    let is_supervisor = left & STATUS_SPP != 0;
    system.words[MODE].set(u64::from(!is_supervisor));
    each_register!(save, system);
    system.words[PENDING].set(read_csr!("0x645"));
    system.words[READABLE_COUNTERS].set(read_csr!("scounteren"));
    system.words[ENVIRONMENT].set(read_csr!("0x10a"));
    // SAFETY: as they were before.
    unsafe {
        write_csr!("stvec", (&raw const motet_trap).addr());
        write_csr!("0x600", own);
        // Whether it has written floating-point registers stays to be seen.
        write_csr!("sstatus", status | left & STATUS_FS);
        write_csr!("scounteren", counters);
        write_csr!("0x10a", environment);
    }
    frame.pc.set(pc);
    if cause & CAUSE_INTERRUPT != 0 {
        // `quick` has taken them.
        return Trap::Interrupt(Interrupts(core.taken.swap(0, Relaxed) as u32));
    }
    let value = read_csr!("stval");
    system.words[FAULT_ADDRESS].set(value);
    let (trap, skipped) = decode(cause, value, read_csr!("0x643"), read_csr!("0x64a"));
    frame.pc.set(pc + skipped);
    Trap::Guest(trap)
}

/// Guests' time is this much more than the core's.
#[inline(always)]
fn show_time(core: &PerCore, delta: u64) {
    if core.time_delta.load(Relaxed) != delta {
        core.time_delta.store(delta, Relaxed);
        // SAFETY: it concerns guests only, whose time is compared with nothing.
        unsafe { write_csr!("0x605", delta) }; // htimedelta
    }
}

/// Has guests' memory translated by the tables at `root` from now on, for the core of a guest whose system registers are `system`: what
/// another core of the same machine has had translated, by its own tables of the first stage, is not this one's. So each has a VMID of its
/// own here, and keeps it and its translations while it runs on no other core.
///
/// # Safety
/// There is a root table, of 16 KiB.
#[inline(always)]
unsafe fn use_root(root: u64, system: &'static GuestSystem) {
    let core = PerCore::this();
    let place = (system.words[PLACE].get() as usize).wrapping_sub(1);
    let is_known = ran_here_last(system)
        && core.guests.get(place).is_some_and(|known| {
            known.system.load(Relaxed) == core::ptr::from_ref(system).addr() as u64 && known.root.load(Relaxed) == root
        });
    if is_known {
        // SAFETY: the caller's.
        unsafe { set_root(core, root, place) };
    } else {
        // SAFETY: the caller's.
        unsafe { get_known(core, root, system) };
    }
}

/// # Safety
/// There is a root table, and the place is that of its guest.
#[inline(always)]
unsafe fn set_root(core: &PerCore, root: u64, place: usize) {
    let hgatp = SV39X4 | vmid(core, place) << VMID_SHIFT | root >> 12;
    if core.hgatp.load(Relaxed) != hgatp {
        core.hgatp.store(hgatp, Relaxed);
        // SAFETY: the caller's.
        unsafe { write_csr!("0x680", hgatp) };
    }
}

#[inline(always)]
fn vmid(core: &PerCore, place: usize) -> u64 {
    if core.vmids.load(Relaxed) == 1 { 0 } else { place as u64 + 1 }
}

/// Gives the core of a guest a place, and drops what is translated under that VMID.
///
/// # Safety
/// There is a root table, of 16 KiB.
#[cold]
#[inline(never)]
unsafe fn get_known(core: &PerCore, root: u64, system: &'static GuestSystem) {
    assert!(root.is_multiple_of(Stage2::Sv39x4.root_bytes()), "the root of a guest's tables is at {root:#x}");
    let own = core::ptr::from_ref(system).addr() as u64;
    let (count, before) = (core.vmids.load(Relaxed), (system.words[PLACE].get() as usize).wrapping_sub(1));
    // Its place of before, if that is not another one's.
    let is_free = |place: usize| [0, own].contains(&core.guests[place].system.load(Relaxed));
    let place = if before < count && is_free(before) { before } else { core.next_vmid.fetch_add(1, Relaxed) % count };
    core.guests[place].system.store(own, Relaxed);
    core.guests[place].root.store(root, Relaxed);
    system.words[PLACE].set(place as u64 + 1);
    system.words[LAST_CORE].set(1 + core.core().index() as u64);
    // SAFETY: the caller's. HFENCE.GVMA of the VMID, and HFENCE.VVMA, which is about the one in use. What other cores of the guest have
    // written is executed from now on.
    unsafe {
        set_root(core, root, place);
        asm!(
            ".insn r 0x73, 0, 0x31, x0, x0, {vmid}",
            ".insn r 0x73, 0, 0x11, x0, x0, x0",
            "fence.i",
            vmid = in(reg) vmid(core, place),
            options(nostack)
        );
    }
}

/// What stopped a guest, and how many bytes of instructions that has done with. Causes: "Supervisor cause register values after trap";
/// `htval` is the address without its two lowest bits, `htinst` the instruction in a form that hides where its address came from.
fn decode(cause: u64, value: u64, htval: u64, instruction: u64) -> (GuestTrap, u64) {
    let fault = |kind| GuestTrap::Fault {
        access: describe(kind, instruction as u32),
        address: (htval << 2 | value & 3).into(),
    };
    match cause {
        CAUSE_HYPERCALL => (GuestTrap::Hypercall { immediate: 0 }, 4),
        20 => (fault(Access::Execute), 0),
        21 => (fault(Access::Read), 0),
        CAUSE_STORE => (fault(Access::Write), 0),
        CAUSE_VIRTUAL => match value as u32 {
            WAIT_FOR_INTERRUPT => (GuestTrap::WaitForInterrupt, 4),
            word => (system_register(word).unwrap_or(GuestTrap::IllegalInstruction { word: word.into() }), 0),
        },
        2 => (GuestTrap::IllegalInstruction { word: (value as u32).into() }, 0),
        _ => (GuestTrap::BadAddress { address: value.into() }, 0),
    }
}

/// An access by a transformed instruction ("Transformed Instruction or Pseudoinstruction for mtinst or htinst"): a load or a store of
/// general registers, or something else.
fn describe(kind: Access, instruction: u32) -> GuestAccess {
    const LOAD: u32 = 0x03;
    const STORE: u32 = 0x23;
    let opcode = instruction & 0x7d | 2; // bit 1 says whether it was compressed
    let size_bytes = 1 << (instruction >> 12 & 3);
    let (register, is_signed) = match (kind, opcode, instruction & 1) {
        (Access::Read, LOAD, 1) => (instruction >> 7, instruction >> 14 & 1 == 0 && size_bytes < 8),
        (Access::Write, STORE, 1) => (instruction >> 20, false),
        _ => return GuestAccess::unknown(kind),
    };
    GuestAccess {
        kind,
        size_bytes,
        register: Some(general_register(register)),
        widen: if is_signed { Widen::Sign64 } else { Widen::Zero },
        instruction_bytes: if instruction & 2 != 0 { 4 } else { 2 },
    }
}

/// Where a general register is in the frame.
const fn general_register(number: u32) -> u8 {
    if number & 31 == 0 { ZERO_REGISTER } else { (number & 31) as u8 }
}

/// An instruction on a system register that has a general register.
fn system_register(word: u32) -> Option<GuestTrap> {
    const SYSTEM: u32 = 0x73;
    let (kind, source) = (word >> 12 & 7, word >> 15 & 31);
    // CSRRS and CSRRC of x0 only read.
    let (is_write, register) = match kind {
        1 => (true, source),
        2 | 3 if source == 0 => (false, word >> 7 & 31),
        2 | 3 => (true, source),
        _ => return None,
    };
    let trap = SystemRegister { number: (word >> 20) as u16, is_write, register: general_register(register) };
    (word & 0x7f == SYSTEM).then_some(GuestTrap::SystemRegister(trap))
}

//! Threads' trips to hidden harts and back, at both ends. The supervisor does not notice: its hart waits here meanwhile, and
//! calls the thread home when the supervisor has an interrupt to take, or others ask the hart for something.

use core::{
    cell::UnsafeCell,
    hint,
    ptr::{with_exposed_provenance, with_exposed_provenance_mut},
    sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

use motet_firmware::{
    board::{Board, Range},
    calls::Machine,
    hart::{HARTS_MAX, HartId, HartSet},
    migrate::{self, Desk},
    traveller::{CALLED_HOME, Permissions, REMOVED, Traveller, reset_vectors, vector_words},
    trips::{Called, PLACES, Place, Stand, Ticket, Trips},
    vault::{Key, Memory, Translation, Vault},
    vector,
};
use motet_layout::marks;
use rustsbi::SbiRet;

use super::{
    Hardware, SHARED, csr, devices,
    entry::{Frame, motet_firmware_leave_with},
    hart::{self, ENVIRONMENT, STATE_ENABLE},
    registers,
    trap::refuse,
};

const ILLEGAL: u64 = 2;
const CALL_OF_USER: u64 = 8;
const PAGE_FAULTS: [u64; 3] = [12, 13, 15];
/// `mstatus`.
const PREVIOUS_MODE: u64 = 3 << 11;
const FLOATS: u64 = 3 << 13;
const VECTORS: u64 = 3 << 9;
const WIDTH: u64 = 3 << 32;
const WIDTH_64: u64 = 2 << 32;
const FROM_GUEST: u64 = 1 << 39;
const CHANGES_ACCESS: u64 = 1 << 17;

const SP: usize = 1;
const TP: usize = 3;

/// Memory for vector registers, and the most threads whose registers fit it: those of 128 bits.
const VECTOR_WORDS: usize = 384 << 7;
/// Longest vector registers, in bytes.
const VECTOR_LEN_MAX: u64 = 128;
const THREADS_MAX: usize = VECTOR_WORDS / vector_words(16);

static TRIPS: Trips = Trips::new();
static POSTS: Posts = Posts([const { UnsafeCell::new(Traveller::new()) }; PLACES]);
static HOMES: Homes = Homes([const { UnsafeCell::new(Home::new()) }; HARTS_MAX]);
/// The supervisor sees to illegal instructions itself, and sends threads if there are hidden harts.
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);
static VAULT: Locked = Locked { held: AtomicBool::new(false), vault: UnsafeCell::new(Vault::new()) };
static REGISTERS: VectorMemory = VectorMemory(UnsafeCell::new([0; VECTOR_WORDS]));
/// Where each hidden hart's thread came from.
static PLACE: [AtomicUsize; HARTS_MAX] = [const { AtomicUsize::new(0) }; HARTS_MAX];
/// `vlenb` of the hidden harts.
static VECTOR_LEN: AtomicU64 = AtomicU64::new(0);
static COUNTS: Counts = Counts::new();

/// What is counted of trips, by how they ended.
#[derive(Debug)]
struct Counts {
    calls: AtomicU64,
    page_faults: AtomicU64,
    exceptions: AtomicU64,
    called: AtomicU64,
}

impl Counts {
    const fn new() -> Self {
        let [calls, page_faults, exceptions, called] = [const { AtomicU64::new(0) }; 4];
        Self { calls, page_faults, exceptions, called }
    }
}

/// Says how many trips there have been, if there are hidden harts.
pub fn report() {
    if VECTOR_LEN.load(Relaxed) == 0 {
        return;
    }
    let Counts { calls, page_faults, exceptions, called } = &COUNTS;
    let [calls, page_faults, exceptions, called] =
        [calls, page_faults, exceptions, called].map(|count| count.load(Relaxed));
    devices::say(format_args!(
        "{} trips to hidden harts: {calls} ended by system calls, {page_faults} by page faults, {exceptions} by other \
         exceptions, {called} by interrupts",
        calls + page_faults + exceptions + called
    ));
}

/// Who is on the way from each place.
struct Posts([UnsafeCell<Traveller>; PLACES]);

// SAFETY: a place is whose claimed it, or its hart's, but while its trip is away, when it is the hidden hart's that took it (`trips`).
unsafe impl Sync for Posts {}

impl Posts {
    /// A place that the caller has.
    #[expect(clippy::mut_from_ref, reason = "as above")]
    fn of(&self, place: Place) -> &mut Traveller {
        // SAFETY: as above.
        unsafe { &mut *self.0[place.index()].get() }
    }
}

/// What a hart keeps of the thread that it waits for, where hidden harts find it, and the last thread whose turn did not come, with its turn.
struct Home {
    registers: [u64; 31],
    floats: [u64; 33],
    entry: usize,
    kept: Option<(Key, Ticket)>,
}

impl Home {
    const fn new() -> Self {
        Self { registers: [0; 31], floats: [0; 33], entry: 0, kept: None }
    }
}

struct Homes([UnsafeCell<Home>; HARTS_MAX]);

// SAFETY: it is the hart's; while its thread is away, the hidden hart's that took that, which knows addresses of registers in it.
unsafe impl Sync for Homes {}

impl Homes {
    /// The calling hart's.
    #[expect(clippy::mut_from_ref, reason = "as above")]
    fn of(&self, own: HartId) -> &mut Home {
        // SAFETY: as above.
        unsafe { &mut *self.0[own.index()].get() }
    }
}

struct VectorMemory(UnsafeCell<[u64; VECTOR_WORDS]>);

// SAFETY: a part is whose entry of the vault it is: its thread's, which is at one hart at a time.
unsafe impl Sync for VectorMemory {}

impl VectorMemory {
    /// The registers of an entry that the caller has claimed.
    #[expect(clippy::mut_from_ref, reason = "as above")]
    fn of(&self, entry: usize) -> &mut [u64] {
        let words = vector_words(VECTOR_LEN.load(Relaxed) as usize);
        // SAFETY: as above; entries lie below the limit, so that the whole part is inside.
        unsafe { core::slice::from_raw_parts_mut(self.0.get().cast::<u64>().add(entry * words), words) }
    }

    fn limit() -> usize {
        VECTOR_WORDS / vector_words(VECTOR_LEN.load(Relaxed) as usize)
    }
}

struct Locked {
    held: AtomicBool,
    vault: UnsafeCell<Vault<THREADS_MAX>>,
}

// SAFETY: the lock is held around each use.
unsafe impl Sync for Locked {}

impl Locked {
    fn with<R>(&self, act: impl FnOnce(&mut Vault<THREADS_MAX>) -> R) -> R {
        while self.held.compare_exchange_weak(false, true, Acquire, Relaxed).is_err() {
            hint::spin_loop();
        }
        // SAFETY: this hart has the lock, and traps of the firmware do not come back.
        let result = act(unsafe { &mut *self.vault.get() });
        self.held.store(false, Release);
        result
    }
}

/// Page tables of the supervisor's.
struct PageTables;

impl Memory for PageTables {
    fn load(&self, address: u64) -> u64 {
        word(address).load(Relaxed)
    }

    fn replace(&self, address: u64, seen: u64, new: u64) -> bool {
        word(address).compare_exchange(seen, new, Relaxed, Relaxed).is_ok()
    }
}

fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: a word of open memory (`pack` and `migrate` have looked), of which Rust knows nothing.
    unsafe { &*with_exposed_provenance::<AtomicU64>(address as usize) }
}

/// Before any hart runs threads: how long vector registers are, which is the same on all harts.
pub fn set_up(board: &Board) {
    if board.hidden == HartSet::default() {
        return;
    }
    let before = csr::read!("mstatus");
    // SAFETY: the unit is there, as the board says, and off again behind this.
    unsafe { csr::set!("mstatus", VECTORS) };
    VECTOR_LEN.store(csr::read!("0xc22"), Relaxed);
    // SAFETY: as it was.
    unsafe { csr::write!("mstatus", before) };
    if VECTOR_LEN.load(Relaxed) > VECTOR_LEN_MAX {
        refuse("vector registers are longer than 1024 bits");
    }
}

/// Sets up a hidden hart: nothing is delegated, and only other harts interrupt it.
pub fn set_up_hidden() {
    const MACHINE_SOFTWARE: u64 = 1 << 3;
    // SAFETY: nothing but the firmware's threads runs here.
    unsafe {
        csr::write!("medeleg", 0);
        csr::write!("mideleg", 0);
        csr::write!("mie", MACHINE_SOFTWARE);
        csr::write!("satp", 0);
    }
    hart::mark::<{ marks::HIDDEN }>();
}

/// Sends the thread that has come to an illegal instruction to a hidden hart, if that may have it, and waits for it. Answers
/// what is left to do at home; `None` if the thread is not for hidden harts.
pub fn travel(hardware: &Hardware, frame: &mut Frame) -> Option<Homecoming> {
    let place = Place::of(hardware.own);
    let key = pack(hardware, frame)?;
    let ticket = match HOMES.of(hardware.own).kept.take() {
        Some((whose, ticket)) if whose == key => ticket,
        _ => TRIPS.ticket(),
    };
    if let Some(rung) = TRIPS.post(place, ticket) {
        hardware.ring(rung);
    }
    let end = until_home(hardware, place);
    TRIPS.clear(place);
    // The rings that were taken while it waited may have been for this.
    hardware.serve();
    let (traveller, home) = (POSTS.of(place), HOMES.of(hardware.own));
    let by_call = end == End::Home && traveller.cause == CALL_OF_USER;
    VAULT.with(|vault| vault.release(home.entry, by_call));
    match end {
        End::Withdrawn => {
            home.kept = Some((key, ticket));
            return Some(Homecoming::Nothing);
        }
        // The instruction has not been done, and cannot be.
        End::Lost => return Some(Homecoming::Exception(ILLEGAL)),
        End::Home => {}
    }
    unpack(traveller, home, frame);
    count(traveller.cause);
    if matches!(traveller.cause, CALLED_HOME | REMOVED) {
        Some(Homecoming::Nothing)
    } else {
        Some(Homecoming::Exception(traveller.cause))
    }
}

/// Whether the supervisor sees to its programs' instructions itself.
pub fn is_taken_over() -> bool {
    TAKEN_OVER.load(Relaxed)
}

/// Counts a trip by how it has ended.
fn count(cause: u64) {
    let count = match cause {
        CALLED_HOME | REMOVED => &COUNTS.called,
        CALL_OF_USER => &COUNTS.calls,
        cause if PAGE_FAULTS.contains(&cause) => &COUNTS.page_faults,
        _ => &COUNTS.exceptions,
    };
    count.fetch_add(1, Relaxed);
}

/// What is left to do when a thread is home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Homecoming {
    /// It goes on.
    Nothing,
    /// It has had this exception, as registers of the machine's say now.
    Exception(u64),
}

/// Takes a thread's registers, if it may leave.
fn pack(hardware: &Hardware, frame: &Frame) -> Option<Key> {
    let status = csr::read!("mstatus");
    let is_thread = status & (PREVIOUS_MODE | FROM_GUEST | WIDTH | VECTORS | CHANGES_ACCESS) == WIDTH_64;
    let is_alone = hardware.board.hidden != HartSet::default() && !TAKEN_OVER.load(Relaxed);
    if !is_alone || !is_thread || !vector::is_vector(csr::read!("mtval")) {
        return None;
    }
    let satp = csr::read!("satp");
    let translation = Translation::new(satp)?;
    if !hardware.board.is_open(Range { start: translation.root, len: 4096 }) {
        return None;
    }
    let key = Key { root: translation.root, scratch: csr::read!("sscratch"), pointer: frame.0[TP] };
    let counter = csr::read!("mepc");
    let at = [counter, frame.0[SP]];
    let claim = VAULT.with(|vault| vault.claim(key, translation, at, VectorMemory::limit(), &PageTables)).ok()?;
    if claim.is_new {
        reset_vectors(REGISTERS.of(claim.index));
    }
    let (traveller, home) = (POSTS.of(Place::of(hardware.own)), HOMES.of(hardware.own));
    home.registers = frame.0;
    home.entry = claim.index;
    traveller.counter = counter;
    traveller.satp = satp;
    traveller.places.registers = (&raw mut home.registers).expose_provenance() as u64;
    traveller.places.floats = (&raw mut home.floats).expose_provenance() as u64;
    let vectors = REGISTERS.of(claim.index).as_mut_ptr().expose_provenance() as u64;
    traveller.places.set_vectors(vectors, VECTOR_LEN.load(Relaxed) as usize);
    traveller.permissions = permissions();
    traveller.float_state = status & FLOATS;
    if traveller.float_state != 0 {
        // SAFETY: the unit is on.
        unsafe { registers::motet_firmware_store_floats(&raw mut home.floats) };
    }
    Some(key)
}

/// What the supervisor of this hart lets programs use.
fn permissions() -> Permissions {
    Permissions {
        environment: if ENVIRONMENT.load(Relaxed) { csr::read!("0x10a") } else { 0 },
        counters: csr::read!("scounteren"),
        state_enable: if STATE_ENABLE.load(Relaxed) { csr::read!("0x10c") } else { 0 },
    }
}

/// Gives a thread's registers back to its own hart.
fn unpack(traveller: &Traveller, home: &Home, frame: &mut Frame) {
    frame.0 = home.registers;
    if traveller.float_state != 0 {
        // SAFETY: the unit is on, as it was when the thread left.
        unsafe { registers::motet_firmware_load_floats(&raw const home.floats) };
    }
    let status = csr::read!("mstatus") & !FLOATS | traveller.float_state;
    // SAFETY: the thread's, which this hart goes on with, or the supervisor in its place.
    unsafe {
        csr::write!("mstatus", status);
        csr::write!("mepc", traveller.counter);
        csr::write!("mtval", traveller.value);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Home,
    Withdrawn,
    Lost,
}

/// Waits until the thread is home. Whatever others want of this hart waits for that: so when their fences are done, and when the
/// supervisor takes an interrupt, no hidden hart uses this hart's page tables.
fn until_home(hardware: &Hardware, place: Place) -> End {
    let mut is_called = false;
    loop {
        hardware.take_ring();
        match TRIPS.stand(place) {
            Stand::Home | Stand::Nobody => return End::Home,
            Stand::Away(hidden) if SHARED.states.is_halted(hidden) => return End::Lost,
            Stand::Away(_) | Stand::Waits => {}
        }
        if is_called || !(SHARED.mail.is_waiting(hardware.own) || hart::is_supervisor_interrupted()) {
            hart::wait();
            continue;
        }
        match TRIPS.call_home(place) {
            Called::Home => return End::Home,
            Called::Withdrawn => return End::Withdrawn,
            Called::Ring(hidden) => hardware.ring(hidden),
        }
        is_called = true;
    }
}

/// Takes the next thread to this hidden hart, which enters it. `frame`: at the end of the hart's stack.
pub fn receive(hardware: &Hardware, frame: &mut Frame) -> ! {
    let own = hardware.own;
    let place = loop {
        take_ring(hardware);
        if let Some(place) = TRIPS.take(own).or_else(|| TRIPS.rest(own)) {
            break place;
        }
        if TRIPS.is_out(own)
            && let Some(other) = TRIPS.pass_on()
        {
            hardware.ring(other);
        }
        hart::wait();
        TRIPS.rise(own);
    };
    PLACE[own.index()].store(place.index(), Relaxed);
    if TRIPS.is_called(place) {
        // This hart has been taken out: the thread comes home before its first instruction.
        hardware.ring(own);
    }
    let traveller = &*POSTS.of(place);
    let places = &traveller.places;
    let status = csr::read!("mstatus") & !(PREVIOUS_MODE | FLOATS | VECTORS | WIDTH | FROM_GUEST | CHANGES_ACCESS);
    // SAFETY: the thread's registers, which are in the firmware's memory, or have been found to be in open memory (`traveller`), of which
    // Rust knows nothing. All translations of this hart are dropped before it runs.
    unsafe {
        csr::write!("mstatus", status | FLOATS | VECTORS | WIDTH_64);
        registers::motet_firmware_load_floats(at(places.floats));
        registers::motet_firmware_load_vectors(at(places.control), &raw const places.vectors);
        csr::write!("mstatus", status | traveller.float_state | VECTORS | WIDTH_64);
        csr::write!("mepc", traveller.counter);
        csr::write!("scounteren", traveller.permissions.counters);
        if ENVIRONMENT.load(Relaxed) {
            csr::write!("0x10a", traveller.permissions.environment);
        }
        if STATE_ENABLE.load(Relaxed) {
            csr::write!("0x10c", traveller.permissions.state_enable);
        }
        csr::write!("satp", traveller.satp);
    }
    hart::fence(motet_firmware::mail::Fence::Instructions);
    hart::fence(motet_firmware::mail::Fence::Addresses { start: 0, len: usize::MAX, asid: None });
    // SAFETY: as above; nobody who has called this needs the stack.
    unsafe { motet_firmware_leave_with(frame, at(places.registers)) }
}

/// Registers at an address of a traveller's.
fn at<T>(address: u64) -> *mut T {
    with_exposed_provenance_mut(address as usize)
}

/// Lets `write` change what a stamp is of, if there is one: it is odd meanwhile, and another one after (`motet_protocol::stamp`, for kernels).
fn stamped(stamp: u64, write: impl FnOnce()) {
    if stamp == 0 {
        return write();
    }
    // SAFETY: open memory (`traveller`), of which Rust knows nothing.
    let stamp = unsafe { &*with_exposed_provenance::<AtomicU32>(stamp as usize) };
    let odd = stamp.load(Relaxed) | 1;
    stamp.store(odd.wrapping_add(2), Relaxed);
    fence(Release);
    write();
    stamp.store(odd.wrapping_add(3), Release);
}

/// Withdraws what has rung this hidden hart.
fn take_ring(hardware: &Hardware) {
    hardware.take_ring();
    // Behind that: no ring of which it has been told, and that this hart has taken, wakes it later.
    hart::mark::<{ marks::WOKE }>();
}

/// A trap of a thread on this hidden hart: it goes home, and the next one comes.
pub fn send_home(hardware: &Hardware, frame: &mut Frame, cause: Option<u64>) {
    let place = Place::from_index(PLACE[hardware.own.index()].load(Relaxed)).expect("a place was stored there");
    if cause.is_none() {
        take_ring(hardware);
        if !TRIPS.is_called(place) {
            return;
        }
    }
    let traveller = POSTS.of(place);
    let places = &traveller.places;
    let status = csr::read!("mstatus");
    // SAFETY: as in `receive`.
    unsafe { registers::motet_firmware_copy_registers(at(places.registers), &raw const frame.0) };
    traveller.counter = csr::read!("mepc");
    let called = if TRIPS.is_out(hardware.own) { REMOVED } else { CALLED_HOME };
    traveller.cause = cause.unwrap_or(called);
    traveller.value = csr::read!("mtval");
    // SAFETY: as in `receive`; both units are on now, and the thread has left.
    unsafe {
        csr::set!("mstatus", FLOATS);
        // Or they are what they were when they were loaded.
        if status & FLOATS == FLOATS {
            registers::motet_firmware_store_floats(at(places.floats));
        }
        stamped(places.stamp, || {
            registers::motet_firmware_store_vectors(at(places.control), &raw const places.vectors)
        });
        csr::write!("satp", 0);
    }
    traveller.float_state = status & FLOATS;
    let home = TRIPS.home(place);
    if place.number().is_some() {
        count(traveller.cause);
    }
    TRIPS.end(place);
    // Behind that: who looks before does not look again.
    if let Some(home) = home {
        if place.number().is_some() {
            SHARED.mail.post_interrupt(home);
        }
        hardware.ring(home);
    }
    receive(hardware, frame);
}

/// A call of the extension.
pub fn call(hardware: &Hardware, function: usize, arguments: [usize; 2]) -> SbiRet {
    desk(hardware).call(function, arguments)
}

/// This hart stops: threads that its supervisor has sent come home, and are forgotten.
pub fn forget_all(hardware: &Hardware) {
    let desk = desk(hardware);
    for place in TRIPS.all_claimed(hardware.own) {
        while !desk.call_home(place) {
            hint::spin_loop();
        }
        TRIPS.clear(place);
    }
}

fn desk(hardware: &Hardware) -> Desk<'_, Hardware> {
    Desk { own: hardware.own, machine: hardware, board: hardware.board, trips: &TRIPS }
}

impl migrate::Machine for Hardware {
    fn ring(&self, hart: HartId) {
        Machine::ring(self, hart);
    }

    fn is_lost(&self, hart: HartId) -> bool {
        SHARED.states.is_halted(hart)
    }

    fn load(&self, address: u64) -> u64 {
        word(address).load(Relaxed)
    }

    fn store(&self, address: u64, value: u64) {
        word(address).store(value, Relaxed);
    }

    fn with<R>(&self, place: Place, act: impl FnOnce(&mut Traveller) -> R) -> R {
        act(POSTS.of(place))
    }

    fn permissions(&self) -> Permissions {
        permissions()
    }

    fn vector_len(&self) -> usize {
        VECTOR_LEN.load(Relaxed) as usize
    }

    fn take_over(&self, by_supervisor: bool) {
        TAKEN_OVER.store(by_supervisor, Relaxed);
        hart::delegate_illegal(by_supervisor);
    }
}

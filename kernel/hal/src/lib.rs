//! What a kernel needs from the machine under it: the contract between `kernel/core` and the HALs.
//!
//! The kernel runs to completion with interrupts masked and one stack per core. User code is entered by a call,
//! [`Machine::run_user`], which returns at the next trap with all registers in the thread's frame in the pool. So a HAL
//! has no scheduler, no kernel threads and no nested interrupts; the kernel core is plain Rust.
//!
//! Interrupts carry no information beyond "look": [`Interrupts`] says which kinds arrived, what they mean is in the pool.
#![no_std]
#![deny(missing_docs)]

pub mod boot;
#[expect(clippy::wildcard_enum_match_arm, reason = "the suite reports whatever other trap it finds")]
pub mod conformance;
mod guest;
pub mod interrupt;
pub mod ivshmem;
pub mod network;
pub mod pci;
pub mod pool_map;
pub mod registers;
pub mod steer;
mod text;
pub mod virtio;

pub use guest::{
    GuestAccess, GuestAddress, GuestException, GuestInterrupts, GuestTrap, GuestWord, SystemRegister, Widen,
    ZERO_REGISTER, register, set_register,
};
pub use motet_paging::Stage2;
pub use network::Network;
pub use text::Text;

use motet_abi::{
    gate::{self, Gate},
    hidden::PLACES_MAX,
    migration::{self, Handler},
};
use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, Frame, GuestSystem, Isa, IslandId, Pool, UserFrame, VISIBLE_WORDS, Windows, marks,
    sync::AtomicU32,
};

/// How a faulting access touched memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store (or read-modify-write).
    Write,
    /// An instruction fetch.
    Execute,
}

/// Why a thread does not go to a hidden hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsent {
    /// There is no place: another thread has to come home first.
    Full,
    /// No hidden hart can run it.
    Unable,
}

/// Why user code, or a guest, stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// A system call; number and arguments are in the frame, `pc` is after the call.
    Syscall,
    /// A translation or permission fault.
    PageFault {
        /// The address accessed.
        address: u64,
        /// The kind of access.
        access: Access,
    },
    /// An instruction this core does not have (or not in user mode).
    IllegalInstruction {
        /// Its first four bytes, little-endian, if the core tells them; 0: it does not.
        word: u32,
    },
    /// A breakpoint instruction (`pc` is at the breakpoint on AArch64 and RISC-V, after it on x86-64).
    Breakpoint,
    /// Division by zero or an unmasked floating-point exception.
    Arithmetic,
    /// A misaligned access or jump.
    Misaligned {
        /// The address accessed.
        address: u64,
    },
    /// An address outside of what the ISA can translate, or an error of the memory system.
    BadAddress {
        /// The address accessed, when known.
        address: u64,
    },
    /// Interrupts, already acknowledged; [`EMPTY`](Interrupts::EMPTY) if it turned out to be for nothing, as when a timer fires before its
    /// deadline and is set again.
    Interrupt(Interrupts),
    /// What stopped was a guest. Interrupts stop it as they stop a program: [`Interrupt`](Self::Interrupt).
    Guest(GuestTrap),
}

const _: () = assert!(size_of::<Trap>() == 16, "run_user returns it in two registers where the ISA can");

/// A set of interrupt kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Interrupts(pub u32);

impl Interrupts {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// The timer passed its deadline.
    pub const TIMER: Self = Self(1);
    /// A doorbell: look at the run-queue inbox, shoot-downs, host streams.
    pub const DOORBELL: Self = Self(2);
    /// No interrupt of a core's: a thread comes home because its hidden hart is taken out.
    pub const REMOVED: Self = Self(4);
    /// The network device has received a frame, or has room again for one to send. Of an island's first core.
    pub const NETWORK: Self = Self(8);

    /// Whether `kind` is among these.
    pub const fn contains(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }

    /// Both sets together.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Serves traps of a guest while the guest's registers are in the core ([`Machine::run_guest_with`]). Not a closure, so that it can be compiled into the
/// trap's code.
pub trait ServeTraps {
    /// Whether the trap is served, and the guest goes on.
    fn serve(&self, trap: Trap) -> bool;
}

impl<F: Fn(Trap) -> bool> ServeTraps for F {
    #[inline(always)]
    fn serve(&self, trap: Trap) -> bool {
        self(trap)
    }
}

/// The machine under one island's kernel. One value per island, shared by its cores; methods that concern "this core"
/// find it by the core's own register.
///
/// All methods are called with interrupts masked and return with interrupts masked.
pub trait Machine: Sync + 'static {
    /// The instruction set of this island's cores.
    const ISA: Isa;

    /// The core that executes the call.
    fn core(&self) -> CoreId;

    /// The island.
    fn island(&self) -> IslandId {
        self.core().island()
    }

    /// The pool, mapped at [`motet_layout::POOL_VA`] (anywhere when hosted).
    fn pool(&self) -> Pool;

    /// Windows to other kernels, mapped behind the pool; none, if all islands have one kernel.
    fn windows(&self) -> Windows {
        Windows::within(self.pool(), self.pool().len())
    }

    /// The kernel's command line (`key=value` words, see [`boot`]).
    fn command_line(&self) -> &str;

    /// Writes to the island's own diagnostic console (its serial port).
    fn log(&self, bytes: &[u8]);

    /// Runs user code with the registers of `frame` until a trap, and puts the registers back into the frame.
    ///
    /// The active address space is used. Extended state (floating point, vectors) is not touched: what is loaded stays.
    fn run_user(&self, frame: &'static UserFrame) -> Trap;

    /// Runs `run`. Until that comes back, a core may call `serve` in its [`run_user`](Self::run_user), when a program has stored to a page from which its
    /// tables only let it load: with the program's frame and the address, and before the program's registers leave the core, where the core can do so. If `serve`
    /// returns `true`, the store is executed again; otherwise the fault is returned, as always. In `frame` it finds nothing that is so of the program, and it
    /// must not run user code.
    fn serve_stores<R>(&self, _serve: impl Fn(&'static UserFrame, u64) -> bool, run: impl FnOnce() -> R) -> R {
        run()
    }

    /// The format of the second-stage tables, which translate guests' physical addresses, on this core; `None`: there are no guests on this
    /// core, and neither of the two calls below is made.
    fn guest_format(&self) -> Option<Stage2> {
        None
    }

    /// Runs a guest with the registers of `frame` and `system` until a trap ([`Trap::Interrupt`] or [`Trap::Guest`]), and puts the
    /// registers back. The tables at `root`, which are of [`guest_format`](Self::guest_format), translate its physical addresses.
    /// Its floating-point registers are those that are loaded, as a program's; it has no vector registers.
    fn run_guest(&self, _frame: &'static UserFrame, _system: &'static GuestSystem, _root: Frame) -> Trap {
        Trap::IllegalInstruction { word: 0 }
    }

    /// As [`run_guest`](Self::run_guest), but traps may be served before the guest's registers leave the core, where the core can do so.
    /// If `serve` returns `true`, it has served the trap and the guest goes on; otherwise the trap is returned. It finds in `frame` the
    /// program counter behind a call, and the registers that C functions need not keep; and in `system` the guest's interrupts, which are the only
    /// words there that it may change, whatever it returns. An interrupt has been acknowledged. A store that the tables do not allow is executed again if it was served.
    fn run_guest_with(
        &self,
        frame: &'static UserFrame,
        system: &'static GuestSystem,
        root: Frame,
        _serve: impl ServeTraps,
    ) -> Trap {
        self.run_guest(frame, system, root)
    }

    /// The time at which the guest's own timer fires, or has fired, on the clock of [`counter_ns`](Self::counter_ns); `u64::MAX`: it does not fire,
    /// or guests have no such timer. The timer stops the guest when it fires ([`Trap::Interrupt`]), but not again before it is set anew or the
    /// guest has handled the interrupt that the kernel makes of it.
    fn guest_timer_ns(&self, _system: &'static GuestSystem) -> u64 {
        u64::MAX
    }

    /// Whether the guest's timer has fired by now. If so, it does not stop the guest again, as said above; if not, it will.
    fn has_guest_timer_fired(&self, _system: &'static GuestSystem) -> bool {
        false
    }

    /// Sets the offset of a guest's counter, where guests have one: from now on it shows this core's counter plus `offset_ns` (wrapping). To be called before the guest
    /// runs, as it may have run on another island.
    fn set_guest_clock(&self, _system: &'static GuestSystem, _offset_ns: u64) {}

    /// Whether guests stop when they read the time or use their timer, once counters are [hidden](Self::hide_counters): they have no time of
    /// their own then.
    fn hides_guest_time(&self) -> bool {
        true
    }

    /// The ticks that a guest's counter shows after so much time, of ISAs whose guests have one of their own.
    fn guest_ticks(&self, ns: u64) -> u64 {
        ns
    }

    /// A time after which the guest's counter shows so many ticks.
    fn guest_ticks_ns(&self, ticks: u64) -> u64 {
        ticks
    }

    /// The interrupts that are pending in a guest that does not run. This call and the next two are for ISAs whose guests have interrupt
    /// lines (RISC-V). On AArch64 the list registers in [`GuestSystem`] have the interrupts.
    fn guest_interrupts(&self, _system: &'static GuestSystem) -> GuestInterrupts {
        GuestInterrupts::EMPTY
    }

    /// Sets the interrupts that are pending in a guest. When the guest runs, it may itself clear some.
    fn set_guest_interrupts(&self, _system: &'static GuestSystem, _interrupts: GuestInterrupts) {}

    /// Whether an interrupt is pending that ends the guest's wait for interrupts.
    fn is_guest_interrupted(&self, _system: &'static GuestSystem) -> bool {
        true
    }

    /// Makes a guest take an exception when it next runs, at the program counter of `frame`.
    fn raise_in_guest(&self, _frame: &'static UserFrame, _system: &'static GuestSystem, _exception: GuestException) {}

    /// Lends a guest the floating-point registers: when it runs they have the values of `guest`, loaded now or at their first use. Their present values
    /// are stored. `false`: this core does not do that, and nothing has happened.
    fn lend_ext(&self, _guest: &'static UserFrame, _system: &'static GuestSystem) -> bool {
        false
    }

    /// Takes back the registers that [`lend_ext`](Self::lend_ext) has lent; `frame` is that of the thread that runs. If their values are not the thread's own any
    /// more, they are [withheld](Self::withhold_ext).
    fn take_back_ext(&self, _guest: &'static UserFrame, _frame: &'static UserFrame) {}

    /// Withholds the extended registers from the thread with this frame, which runs from now on, because their values are not the thread's. Until the next
    /// [`load_ext`](Self::load_ext), the thread's first instruction that uses them is illegal ([`get_ext`](Self::get_ext)), and [`save_ext`](Self::save_ext) stores nothing.
    /// `false`: this core does not do that.
    fn withhold_ext(&self, _frame: &'static UserFrame) -> bool {
        false
    }

    /// Loads the registers of the thread with this frame, which has stopped at an illegal instruction, if they were withheld. Returns whether they were.
    fn get_ext(&self, _frame: &'static UserFrame) -> bool {
        false
    }

    /// Keeps the extended registers exactly as they are, whoever has them, until [`bring_ext_back`](Self::bring_ext_back): in between this core only runs guests,
    /// for which it [lends](Self::lend_ext) them. `false`: this core does not do that.
    fn set_ext_aside(&self) -> bool {
        false
    }

    /// The extended registers are as when they were [set aside](Self::set_ext_aside).
    fn bring_ext_back(&self) {}

    /// A guest's tables permit more of the page at a guest's physical address than before: drops what this core has of it for the guest with these registers, which
    /// has run last, or whose registers are in the core ([`run_guest_with`](Self::run_guest_with)).
    fn widen_guest_page(&self, _system: &'static GuestSystem, _address: u64) {
        self.page_table_fence();
        self.flush_guests();
    }

    /// Drops this core's translations of guests: to be called on each core that may have run a guest by tables that permit less now, or that
    /// do not exist any more.
    fn flush_guests(&self) {}

    /// Stores this core's extended state into `frame.ext`, and open vector registers into the frame's area if it has one, and sets
    /// `ext_valid`. `false`: what is there was equal to them before, and nothing was stored.
    fn save_ext(&self, frame: &'static UserFrame) -> bool;

    /// As [`Machine::save_ext`], but for a thread that calls a function: stores at least the registers that C functions preserve. The
    /// other registers in `frame.ext` may have any values that the thread once had.
    fn save_kept_ext(&self, frame: &'static UserFrame) {
        let _ = self.save_ext(frame);
    }

    /// Loads this core's extended state from `frame.ext`, or the initial state when `ext_valid` is 0. Vector registers that
    /// [`open_vectors`](Self::open_vectors) opens are closed then.
    fn load_ext(&self, frame: &'static UserFrame);

    /// Bytes in the vector registers that user code may have on this core and that not every core of the ISA has (RISC-V V, x86-64's AVX,
    /// AArch64's SVE); 0: none.
    fn vector_bytes(&self) -> u32 {
        0
    }

    /// The format of the area that a thread must have before the vector registers are opened for it ([`motet_layout::VectorArea`], `VECTORS_*`); 0: a
    /// thread needs no area, because the values are in its frame, or because there are no such registers.
    fn vector_format(&self) -> u32 {
        0
    }

    /// Hides this core's vector registers: from now on, its [`vector_bytes`](Self::vector_bytes) is 0.
    fn withhold_vectors(&self) {}

    /// Lets user code use these vector registers on this core, which has some, until [`close_vectors`](Self::close_vectors) or the next
    /// [`load_ext`](Self::load_ext). They get their values from the frame or its area, which is one of this core's format and length if the
    /// HAL has areas; or initial ones if there are none. Before, an instruction that uses them is illegal.
    fn open_vectors(&self, _frame: &'static UserFrame) {}

    /// Lets user code use the vector registers of this core for good, if it has some: every core of the ISA has them, so that nothing is
    /// to be learned from their first use. [`load_ext`](Self::load_ext) loads them too, and nothing closes them. Only where programs see
    /// whether they are open.
    fn keep_vectors_open(&self) {}

    /// As [`save_ext`](Self::save_ext), and closes the vector registers, unless the HAL says why not.
    fn close_vectors(&self, _frame: &'static UserFrame) -> bool {
        false
    }

    /// As [`close_vectors`](Self::close_vectors), where the program has no use for the values any more: they need not be stored. They may be closed.
    fn discard_vectors(&self, frame: &'static UserFrame) -> bool {
        self.are_vectors_open() && self.close_vectors(frame)
    }

    /// Instead of [`load_ext`](Self::load_ext): this core still holds what that would load, but values in vector registers may have been
    /// [discarded](Self::discard_vectors) on another core. Then these registers are closed.
    fn keep_ext(&self, _frame: &'static UserFrame) {}

    /// Whether the vector registers are open.
    fn are_vectors_open(&self) -> bool {
        false
    }

    /// Whether the vector registers are open, and user code may have written them since they were opened, or stored last.
    fn are_vectors_modified(&self) -> bool {
        self.are_vectors_open()
    }

    /// Whether instructions of the base ISA would change the values in the vector registers of the thread of `frame`. Then they must be open
    /// whenever it runs.
    fn must_have_vectors(&self, _frame: &'static UserFrame) -> bool {
        false
    }

    /// Harts with vector registers that only the firmware has, which run threads for this core; 0: none, and none of the calls below is made.
    fn hidden_harts(&self) -> usize {
        0
    }

    /// Bytes in a vector register of those harts.
    fn hidden_vector_bytes(&self) -> usize {
        0
    }

    /// The number of places for threads that cores of this island send.
    fn hidden_places(&self) -> usize {
        PLACES_MAX
    }

    /// Sends a thread with the registers of `frame`, extended ones too, and the tables of `root`, to a hidden hart. It has an area for
    /// vector registers of that length, whose stamp (`motet_protocol::stamp`) is `stamp`. Until it is taken home, hidden harts
    /// have frame and area. Answers a number below 64: its place.
    ///
    /// # Errors
    /// Why it stays.
    fn send_away(&self, _frame: &'static UserFrame, _stamp: &'static AtomicU32, _root: Frame) -> Result<usize, Unsent> {
        Err(Unsent::Unable)
    }

    /// The places whose threads have come home to this core, a bit each. An interrupt ([`Interrupts::DOORBELL`]) says that there is one more.
    fn at_home(&self) -> u64 {
        0
    }

    /// Calls a thread home, which takes a moment.
    fn call_home(&self, _place: usize) {}

    /// Calls all threads home that this core has sent, and waits until none is away.
    fn bring_home(&self) {}

    /// Takes a thread home: its frame is the thread's own again. Returns the trap that has stopped it.
    fn take_home(&self, _place: usize, _frame: &'static UserFrame) -> Trap {
        Trap::IllegalInstruction { word: 0 }
    }

    /// Takes a hidden hart of this island out of use, by its number, or brings it back. If it is taken out, its thread comes home ([`Interrupts::REMOVED`]).
    /// Waits until that is done. `false`: it is the last one in use, or lost.
    fn employ_hidden(&self, _number: usize, _employed: bool) -> bool {
        false
    }

    /// Whether threads wait for hidden harts.
    fn is_any_waiting(&self) -> bool {
        false
    }

    /// Writes the kernel half (if this ISA keeps it in the same table) into a fresh, zeroed root table in the pool.
    fn prepare_root(&self, root: Frame);

    /// Translates user addresses by `root` from now on, and drops all of this core's older user translations.
    /// [`Frame::NONE`]: no user address is mapped.
    fn activate_space(&self, root: Frame);

    /// Drops this core's user translations of the page at `address` (all sizes, all levels of the walk).
    fn flush_page(&self, address: u64);

    /// Drops all of this core's user translations.
    fn flush_user(&self);

    /// Makes instructions that anyone (another island included) wrote to `frame` visible to this island's fetches.
    ///
    /// QEMU notices writes to translated code only when its own process makes them, so besides the ISA's barriers this
    /// rewrites every word of the frame onto itself.
    fn sync_instructions(&self, frame: Frame);

    /// Fills a frame with zeroes, as page tables and new pages begin.
    #[inline(always)]
    fn zero_frame(&self, frame: Frame) {
        self.pool().zero_frame(frame);
    }

    /// Orders this core's earlier page-table stores before its later translations (AArch64 DSB+ISB, RISC-V SFENCE.VMA).
    fn page_table_fence(&self);

    /// Nanoseconds since an arbitrary fixed moment, monotonic, the same on all cores of the island. They pass as those of the
    /// host's monotonic clock, which QEMU's virtual clock follows.
    fn counter_ns(&self) -> u64;

    /// Called now and then, by any core: compares the counter with the host's clock and corrects its rate, if it is not that
    /// clock anyway. The counter does not go back for it.
    #[inline(always)]
    fn steer_counter(&self) {}

    /// Executes the no-op by which the simulator of a timed machine recognises `MARK` (see [`motet_layout::marks`]). It may write
    /// to the pool, so the compiler must take it for a store. Nothing where nobody looks.
    fn mark<const MARK: u8>() {}

    /// Lets the simulator of a timed machine store this core's simulated time into its core record
    /// ([`motet_layout::CoreRecord::clock_ns`]): executes [`motet_layout::marks::CLOCK`].
    #[inline(always)]
    fn publish_clock(&self) {
        Self::mark::<{ marks::CLOCK }>();
    }

    /// Tells the simulator of a timed machine that this core is about to ring the core that its core record names:
    /// executes [`motet_layout::marks::RING`].
    #[inline(always)]
    fn note_ring(&self) {
        Self::mark::<{ marks::RING }>();
    }

    /// Tells the simulator of a timed machine that this core has written what the core that its core record names looks
    /// at in a loop: executes [`motet_layout::marks::WROTE`].
    #[inline(always)]
    fn note_write(&self) {
        Self::mark::<{ marks::WROTE }>();
    }

    /// The gate of an ISA, in instructions that the ISA's cores in this machine execute.
    #[inline(always)]
    fn gate(isa: Isa) -> Gate {
        gate::gate(isa)
    }

    /// The migration handler of an ISA, in instructions that the ISA's cores in this machine execute.
    fn migration_handler(isa: Isa) -> Option<Handler> {
        migration::handler(isa)
    }

    /// Starts this core's migration engine, which the simulator of a timed machine is: executes
    /// [`motet_layout::marks::TRANSFER`].
    #[inline(always)]
    fn start_transfer(&self) {
        Self::mark::<{ marks::TRANSFER }>();
    }

    /// Starts the transfer engine of this core's island, which the simulator of a timed machine is: executes
    /// [`motet_layout::marks::ENGINE`].
    #[inline(always)]
    fn start_engine(&self) {
        Self::mark::<{ marks::ENGINE }>();
    }

    /// Has the frame that the core record names ([`motet_layout::CoreRecord::flush_addr`]) leave the island's caches, modified lines
    /// to memory, where these are not told of others' stores: executes [`motet_layout::marks::FLUSH`]. Such caches are a timed machine's.
    #[inline(always)]
    fn note_flush(&self) {
        Self::mark::<{ marks::FLUSH }>();
    }

    /// Tells the simulator of a timed machine that this core comes from [`wait_for_interrupt`](Self::wait_for_interrupt):
    /// executes [`motet_layout::marks::WOKE`]. A doorbell that was there already has come before its time; the core's
    /// clock goes on to it.
    #[inline(always)]
    fn note_wake(&self) {
        Self::mark::<{ marks::WOKE }>();
    }

    /// Tells the simulator of a timed machine which core this is and that it is ready to be timed: executes
    /// [`motet_layout::marks::CORE`].
    fn announce_core(&self) {
        let marks: [fn(); CORES_PER_ISLAND_MAX] = motet_layout::core_marks!(Self);
        marks[self.core().index_in_island()]();
    }

    /// Asks for a timer interrupt on this core when [`counter_ns`](Self::counter_ns) reaches `deadline_ns`;
    /// `u64::MAX`: none. A deadline in the past interrupts at once. Replaces the earlier deadline.
    fn set_timer(&self, deadline_ns: u64);

    /// Interrupts a core: of this island or of another. Orders earlier stores before the interrupt.
    fn ring(&self, target: CoreId);

    /// Interrupts the host.
    fn ring_host(&self);

    /// Sleeps until an interrupt is pending, acknowledges it and says which. Returns at once if one is pending already.
    /// May return an empty set.
    fn wait_for_interrupt(&self) -> Interrupts;

    /// Acknowledges pending interrupts without sleeping.
    fn poll_interrupts(&self) -> Interrupts;

    /// From now on, reading a counter of the hardware in user mode is an illegal instruction (x86-64: a bad address) on this core:
    /// counters show the host's time, and a timed machine has its own.
    fn hide_counters(&self);

    /// What programs see of this island's cores without a trap, beyond their extensions: words that mean something to the ISA alone
    /// (`motet_abi::visible`).
    fn visible(&self) -> [u64; VISIBLE_WORDS] {
        [0; VISIBLE_WORDS]
    }

    /// From now on, programs on this core do not see these of the words, a bit each, nor counters of time if that bit is among them (`visible_words::COUNTERS`):
    /// reading them traps, or they say that there is nothing to see. May be called again and again.
    fn hide(&self, _words: u32) {}

    /// A hint that this core spins.
    fn relax(&self);

    /// Starts core `index` (not 0) of this island at the kernel's entry point.
    ///
    /// # Errors
    /// A message when the machine has no such core or refuses.
    fn start_core(&self, index: usize) -> Result<(), &'static str>;

    /// The extensions of this core, as in `/proc/cpuinfo` flags (space-separated).
    fn extensions(&self) -> &str;

    /// The island's network device, for the one who asks first; `None`: there is none, or somebody has it. The next two calls are for who has
    /// got it, on the island's first core.
    fn take_network(&self) -> Option<Network> {
        None
    }

    /// Sends a frame of at most [`network::FRAME_BYTES_MAX`] bytes. `false`: there is no room, and [`Interrupts::NETWORK`] says when there is.
    fn send_frame(&self, _frame: &[u8]) -> bool {
        false
    }

    /// Takes the frame that was received first, into a buffer of [`network::FRAME_BYTES_MAX`] bytes; returns its length. `None`: there is none, and
    /// [`Interrupts::NETWORK`] says when there is. A longer frame is dropped.
    fn receive_frame(&self, _buffer: &mut [u8]) -> Option<usize> {
        None
    }

    /// Stops this core for good (after a panic, or a spare core).
    fn park(&self) -> !;
}

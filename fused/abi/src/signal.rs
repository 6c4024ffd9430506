//! Signals: numbers, default actions, `sigaction`, `siginfo`, alternate stacks. The numbers are the same on our ISAs.

use motet_layout::{Isa, UserFrame};

use crate::registers::sp;
use crate::wire::{Wire, put_at, wire_struct};

/// A set of signals: signal n is bit n - 1.
pub type SignalSet = u64;

/// Bytes of a signal set, as `sigsetsize` in system calls.
pub const SIGSET_SIZE: u64 = 8;
/// Number of signals: 1 to 64.
pub const NSIG: u32 = 64;
/// First real-time signal.
pub const SIGRTMIN: u32 = 32;

/// The terminal has gone.
pub const SIGHUP: u32 = 1;
/// Interrupt character.
pub const SIGINT: u32 = 2;
/// Quit character.
pub const SIGQUIT: u32 = 3;
/// Illegal instruction.
pub const SIGILL: u32 = 4;
/// Breakpoint.
pub const SIGTRAP: u32 = 5;
/// `abort`.
pub const SIGABRT: u32 = 6;
/// Access beyond an object, or misaligned.
pub const SIGBUS: u32 = 7;
/// Arithmetic.
pub const SIGFPE: u32 = 8;
/// Kill, for certain.
pub const SIGKILL: u32 = 9;
/// The program's own.
pub const SIGUSR1: u32 = 10;
/// Access to nothing.
pub const SIGSEGV: u32 = 11;
/// The program's own.
pub const SIGUSR2: u32 = 12;
/// Write without reader.
pub const SIGPIPE: u32 = 13;
/// Timer.
pub const SIGALRM: u32 = 14;
/// Asked to end.
pub const SIGTERM: u32 = 15;
/// Unused.
pub const SIGSTKFLT: u32 = 16;
/// A child changed state.
pub const SIGCHLD: u32 = 17;
/// Goes on.
pub const SIGCONT: u32 = 18;
/// Stops, for certain.
pub const SIGSTOP: u32 = 19;
/// Suspend character.
pub const SIGTSTP: u32 = 20;
/// Background read.
pub const SIGTTIN: u32 = 21;
/// Background write.
pub const SIGTTOU: u32 = 22;
/// Urgent data.
pub const SIGURG: u32 = 23;
/// Processor time limit.
pub const SIGXCPU: u32 = 24;
/// File size limit.
pub const SIGXFSZ: u32 = 25;
/// Virtual timer.
pub const SIGVTALRM: u32 = 26;
/// Profiling timer.
pub const SIGPROF: u32 = 27;
/// The window changed.
pub const SIGWINCH: u32 = 28;
/// Input or output possible.
pub const SIGIO: u32 = 29;
/// Power.
pub const SIGPWR: u32 = 30;
/// Bad system call.
pub const SIGSYS: u32 = 31;

/// The set of one signal.
pub const fn bit(signal: u32) -> SignalSet {
    1 << (signal - 1)
}

/// Signals that no one can block, catch or ignore.
pub const UNBLOCKABLE: SignalSet = bit(SIGKILL) | bit(SIGSTOP);

/// What a signal does when the process has not said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    /// Ends the process.
    Terminate,
    /// Ends the process, with a core dump.
    Core,
    /// Nothing.
    Ignore,
    /// Stops the process.
    Stop,
    /// Lets a stopped process go on.
    Continue,
}

/// The default action of a signal.
pub const fn default_action(signal: u32) -> DefaultAction {
    match signal {
        SIGQUIT | SIGILL | SIGTRAP | SIGABRT | SIGBUS | SIGFPE | SIGSEGV | SIGXCPU | SIGXFSZ | SIGSYS => {
            DefaultAction::Core
        }
        SIGCHLD | SIGURG | SIGWINCH => DefaultAction::Ignore,
        SIGSTOP | SIGTSTP | SIGTTIN | SIGTTOU => DefaultAction::Stop,
        SIGCONT => DefaultAction::Continue,
        _ => DefaultAction::Terminate,
    }
}

/// The name of a signal, for messages.
pub const fn name(signal: u32) -> &'static str {
    match signal {
        SIGHUP => "SIGHUP",
        SIGINT => "SIGINT",
        SIGQUIT => "SIGQUIT",
        SIGILL => "SIGILL",
        SIGTRAP => "SIGTRAP",
        SIGABRT => "SIGABRT",
        SIGBUS => "SIGBUS",
        SIGFPE => "SIGFPE",
        SIGKILL => "SIGKILL",
        SIGUSR1 => "SIGUSR1",
        SIGSEGV => "SIGSEGV",
        SIGUSR2 => "SIGUSR2",
        SIGPIPE => "SIGPIPE",
        SIGALRM => "SIGALRM",
        SIGTERM => "SIGTERM",
        SIGSTKFLT => "SIGSTKFLT",
        SIGCHLD => "SIGCHLD",
        SIGCONT => "SIGCONT",
        SIGSTOP => "SIGSTOP",
        SIGTSTP => "SIGTSTP",
        SIGTTIN => "SIGTTIN",
        SIGTTOU => "SIGTTOU",
        SIGURG => "SIGURG",
        SIGXCPU => "SIGXCPU",
        SIGXFSZ => "SIGXFSZ",
        SIGVTALRM => "SIGVTALRM",
        SIGPROF => "SIGPROF",
        SIGWINCH => "SIGWINCH",
        SIGIO => "SIGIO",
        SIGPWR => "SIGPWR",
        SIGSYS => "SIGSYS",
        _ => "SIGRT",
    }
}

/// `rt_sigprocmask`: adds.
pub const SIG_BLOCK: u32 = 0;
/// `rt_sigprocmask`: removes.
pub const SIG_UNBLOCK: u32 = 1;
/// `rt_sigprocmask`: replaces.
pub const SIG_SETMASK: u32 = 2;
/// Handler: the default action.
pub const SIG_DFL: u64 = 0;
/// Handler: nothing.
pub const SIG_IGN: u64 = 1;

/// `sa_flags`: no SIGCHLD for stopped children.
pub const SA_NOCLDSTOP: u64 = 1;
/// `sa_flags`: children leave nothing to wait for.
pub const SA_NOCLDWAIT: u64 = 2;
/// `sa_flags`: the handler gets `siginfo` and context.
pub const SA_SIGINFO: u64 = 4;
/// `sa_flags`: `sa_restorer` is set.
pub const SA_RESTORER: u64 = 0x0400_0000;
/// `sa_flags`: on the alternate stack.
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// `sa_flags`: system calls go on.
pub const SA_RESTART: u64 = 0x1000_0000;
/// `sa_flags`: the signal is not blocked in its handler.
pub const SA_NODEFER: u64 = 0x4000_0000;
/// `sa_flags`: once.
pub const SA_RESETHAND: u64 = 0x8000_0000;
/// `sa_flags` that there are.
pub const SA_KNOWN: u64 =
    SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_RESTORER | SA_ONSTACK | SA_RESTART | SA_NODEFER | SA_RESETHAND;

/// `struct sigaction` of the kernel, independently of any ISA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SigAction {
    /// Address of the handler, [`SIG_DFL`] or [`SIG_IGN`].
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to, if [`SA_RESTORER`] is set. RISC-V has none.
    pub restorer: u64,
    /// Signals blocked in the handler.
    pub mask: SignalSet,
}

impl SigAction {
    /// Whether the ISA's structure has `sa_restorer` (RISC-V does not define `SA_RESTORER`).
    const fn has_restorer(isa: Isa) -> bool {
        match isa {
            Isa::X86_64 | Isa::AArch64 | Isa::Hosted => true,
            Isa::RiscV64 => false,
        }
    }

    /// Bytes on an ISA.
    pub const fn size(isa: Isa) -> usize {
        if Self::has_restorer(isa) { 32 } else { 24 }
    }

    /// Its bytes; the first [`size`](Self::size) are used.
    pub fn encode(&self, isa: Isa) -> [u8; 32] {
        let words = if Self::has_restorer(isa) {
            [self.handler, self.flags, self.restorer, self.mask]
        } else {
            [self.handler, self.flags, self.mask, 0]
        };
        let mut out = [0; 32];
        words.put(&mut out);
        out
    }

    /// Reads [`size`](Self::size) bytes. Unblockable signals leave the mask.
    pub fn decode(isa: Isa, from: &[u8]) -> Self {
        let word = |n: usize| u64::take(&from[8 * n..]);
        let (restorer, mask) = if Self::has_restorer(isa) { (word(2), word(3)) } else { (0, word(2)) };
        Self { handler: word(0), flags: word(1), restorer, mask: mask & !UNBLOCKABLE }
    }
}

wire_struct! {
    /// `stack_t`: an alternate stack.
    SigStack: 24 {
        /// Lowest byte.
        0 ss_sp: u64,
        /// `SS_*`.
        8 ss_flags: u32,
        /// Bytes.
        16 ss_size: u64,
    }
}

/// `ss_flags`: in use.
pub const SS_ONSTACK: u32 = 1;
/// `ss_flags`: there is none.
pub const SS_DISABLE: u32 = 2;
/// `ss_flags`: disabled while a handler runs on it.
pub const SS_AUTODISARM: u32 = 1 << 31;

/// The least size `sigaltstack` accepts.
pub const fn min_alternate_stack(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => 2048,
        Isa::AArch64 => 5120,
    }
}

impl SigStack {
    /// No alternate stack.
    pub const NONE: Self = Self { ss_sp: 0, ss_flags: SS_DISABLE, ss_size: 0 };

    /// Whether a stack pointer is on it, and it is in use. One that disarms itself never is.
    pub const fn contains(&self, sp: u64) -> bool {
        self.ss_flags & (SS_DISABLE | SS_AUTODISARM) == 0 && sp.wrapping_sub(self.ss_sp).wrapping_sub(1) < self.ss_size
    }

    /// Where the frame of a handler with `flags` (`SA_*`) is built downwards from: the alternate stack's end when it is
    /// asked for and not in use, otherwise the thread's stack (below the red zone on x86-64).
    pub fn base(&self, frame: &UserFrame, flags: u64) -> u64 {
        let sp = sp(frame);
        if flags & SA_ONSTACK != 0 && self.ss_flags & SS_DISABLE == 0 && !self.contains(sp) {
            return self.ss_sp.wrapping_add(self.ss_size);
        }
        match crate::registers::frame_isa(frame) {
            Isa::X86_64 => sp.wrapping_sub(128), // System V ABI 3.2.2
            Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => sp,
        }
    }
}

/// `si_code`: `kill`.
pub const SI_USER: i32 = 0;
/// `si_code`: the kernel.
pub const SI_KERNEL: i32 = 0x80;
/// `si_code`: `sigqueue`.
pub const SI_QUEUE: i32 = -1;
/// `si_code`: a POSIX timer.
pub const SI_TIMER: i32 = -2;
/// `si_code`: a message has come (`mq_notify`).
pub const SI_MESGQ: i32 = -3;
/// `si_code`: a file is ready, of signals that have codes of their own.
pub const SI_SIGIO: i32 = -5;
/// `si_code`: `tkill`, `tgkill`.
pub const SI_TKILL: i32 = -6;
/// `si_code`: a file has input.
pub const POLL_IN: i32 = 1;
/// `si_code`: a file has room for output.
pub const POLL_OUT: i32 = 2;
/// `sigev_notify`: a signal to the process.
pub const SIGEV_SIGNAL: u32 = 0;
/// `sigev_notify`: nothing.
pub const SIGEV_NONE: u32 = 1;
/// `sigev_notify`: a thread that the library makes, which asks for [`SIGEV_THREAD_ID`]; to the kernel as [`SIGEV_SIGNAL`].
pub const SIGEV_THREAD: u32 = 2;
/// `sigev_notify`: a signal to a thread.
pub const SIGEV_THREAD_ID: u32 = 4;
/// SIGCHLD: the first code ([`WaitStatus::cld_code`](crate::process::WaitStatus::cld_code)).
pub const CLD_EXITED: i32 = 1;
/// SIGCHLD: the last code.
pub const CLD_CONTINUED: i32 = 6;
/// SIGSEGV: nothing mapped.
pub const SEGV_MAPERR: i32 = 1;
/// SIGSEGV: not allowed.
pub const SEGV_ACCERR: i32 = 2;
/// SIGBUS: misaligned.
pub const BUS_ADRALN: i32 = 1;
/// SIGBUS: beyond the object.
pub const BUS_ADRERR: i32 = 2;
/// SIGILL: unknown instruction.
pub const ILL_ILLOPC: i32 = 1;
/// SIGILL: unknown operand.
pub const ILL_ILLOPN: i32 = 2;
/// SIGFPE: integer division by zero.
pub const FPE_INTDIV: i32 = 1;
/// SIGTRAP: breakpoint.
pub const TRAP_BRKPT: i32 = 1;

/// `si_code` of an instruction that the processor does not have.
pub const fn illegal_code(isa: Isa) -> i32 {
    match isa {
        Isa::X86_64 => ILL_ILLOPN,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => ILL_ILLOPC,
    }
}

/// `si_code` of a breakpoint. Of [`SI_KERNEL`], no address is told.
pub const fn breakpoint_code(isa: Isa) -> i32 {
    match isa {
        Isa::X86_64 => SI_KERNEL,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => TRAP_BRKPT,
    }
}

/// `si_code` of an access to what is no address. Of [`SI_KERNEL`], no address is told: x86-64 processors do not say it.
pub const fn bad_address_code(isa: Isa) -> i32 {
    match isa {
        Isa::X86_64 => SI_KERNEL,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => SEGV_MAPERR,
    }
}

/// Bytes of `siginfo_t`.
pub const SIGINFO_SIZE: usize = 128;

/// Bytes 16 to 48 of `siginfo_t`: all of it that depends on why a signal was sent, as far as any ISA uses it.
pub type SigFields = [u64; 4];

/// Why a signal was sent: the part of `siginfo_t` that depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SigCause {
    /// Nothing to say.
    None,
    /// `kill`, `tgkill`: the sender.
    Sender {
        /// Process.
        pid: u32,
        /// User.
        uid: u32,
    },
    /// `sigqueue`: the sender and a word.
    Queued {
        /// Process.
        pid: u32,
        /// User.
        uid: u32,
        /// The word.
        value: u64,
    },
    /// A child: see [`WaitStatus`](crate::process::WaitStatus).
    Child {
        /// Process.
        pid: u32,
        /// User.
        uid: u32,
        /// Exit code or signal.
        status: i32,
        /// Time in user mode, [`USER_HZ`](crate::time::USER_HZ) ticks.
        user_time: i64,
        /// Time in the kernel.
        system_time: i64,
    },
    /// A fault at an address.
    Fault {
        /// The address.
        address: u64,
    },
    /// A POSIX timer.
    Timer {
        /// Its id.
        id: u32,
        /// Expirations not delivered.
        overrun: u32,
        /// Its word.
        value: u64,
    },
    /// A file has become ready.
    File {
        /// For what (`POLL*`).
        band: u32,
        /// Its descriptor.
        fd: u32,
    },
    /// What a program that queued the signal wrote, or what was kept of any of the others.
    Fields(SigFields),
}

impl SigCause {
    /// As `siginfo_t` holds it.
    pub fn fields(&self) -> SigFields {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        match *self {
            Self::None => [0; 4],
            Self::Sender { pid, uid } => [pair(pid, uid), 0, 0, 0],
            Self::Queued { pid, uid, value } | Self::Timer { id: pid, overrun: uid, value } => {
                [pair(pid, uid), value, 0, 0]
            }
            Self::Child { pid, uid, status, user_time, system_time } => [
                pair(pid, uid),
                pair(status.cast_unsigned(), 0),
                user_time.cast_unsigned(),
                system_time.cast_unsigned(),
            ],
            Self::Fault { address } => [address, 0, 0, 0],
            Self::File { band, fd } => [band.into(), fd.into(), 0, 0],
            Self::Fields(fields) => fields,
        }
    }
}

/// A signal with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SigInfo {
    /// The signal.
    pub signal: u32,
    /// `si_code`.
    pub code: i32,
    /// The reason.
    pub cause: SigCause,
}

impl SigInfo {
    /// `siginfo_t` (`asm-generic/siginfo.h`), the same on our ISAs.
    pub fn to_bytes(&self) -> [u8; SIGINFO_SIZE] {
        let mut out = [0; SIGINFO_SIZE];
        put_at(&mut out, 0, self.signal);
        put_at(&mut out, 8, self.code);
        self.cause.fields().put(&mut out[16..]);
        out
    }
}

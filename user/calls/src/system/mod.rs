//! Linux system calls, raw, and the start of a program. An ISA's part is its instructions and its numbers.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod isa;

/// Numbers of include/uapi/asm-generic/unistd.h, which AArch64 and RISC-V share.
#[cfg(not(target_arch = "x86_64"))]
mod generic {
    pub const FCNTL: usize = 25;
    pub const IOCTL: usize = 29;
    pub const FLOCK: usize = 32;
    pub const MKNODAT: usize = 33;
    pub const MKDIRAT: usize = 34;
    pub const FTRUNCATE: usize = 46;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const LSEEK: usize = 62;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PREAD64: usize = 67;
    pub const PWRITE64: usize = 68;
    pub const PPOLL: usize = 73;
    pub const NEWFSTATAT: usize = 79;
    pub const EXIT_GROUP: usize = 94;
    pub const FUTEX: usize = 98;
    pub const NANOSLEEP: usize = 101;
    pub const CLOCK_GETTIME: usize = 113;
    pub const SCHED_SETSCHEDULER: usize = 119;
    pub const SCHED_SETAFFINITY: usize = 122;
    pub const SCHED_GETAFFINITY: usize = 123;
    pub const KILL: usize = 129;
    pub const SETPRIORITY: usize = 140;
    pub const RT_SIGACTION: usize = 134;
    pub const REBOOT: usize = 142;
    pub const GETCPU: usize = 168;
    pub const GETPID: usize = 172;
    pub const SOCKETPAIR: usize = 199;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MUNMAP: usize = 215;
    pub const MMAP: usize = 222;
    pub const WAIT4: usize = 260;
    pub const SCHED_SETATTR: usize = 274;
    pub const SCHED_GETATTR: usize = 275;
    pub const MEMFD_CREATE: usize = 279;
}

#[cfg(feature = "heap")]
mod heap;
pub mod machine;
pub mod measured;

use core::{
    ffi::{CStr, c_char},
    sync::atomic::{AtomicPtr, Ordering},
};

use isa::number;
pub use isa::{ISA, mark, mark_with, spin, system_call};

use crate::cores::Cores;

/// A negated error number.
pub type Failure = isize;

/// Standard output.
pub const STDOUT: i32 = 1;
/// Standard error.
pub const STDERR: i32 = 2;

const AT_FDCWD: isize = -100;
const CLOCK_MONOTONIC: usize = 1;
const SIGCHLD: usize = 17;
const O_RDONLY: usize = 0;
const O_RDWR: usize = 2;
const REBOOT_MAGIC: [usize; 2] = [0xfee1_dead, 672_274_793];
const REBOOT_POWER_OFF: usize = 0x4321_fedc;

fn result(value: isize) -> Result<usize, Failure> {
    if (-4095..0).contains(&value) { Err(value) } else { Ok(value as usize) }
}

/// The id of this process.
#[inline(always)]
pub fn getpid() -> usize {
    // SAFETY: no pointers.
    unsafe { system_call(number::GETPID, [0; 6]) as usize }
}

/// Chooses what becomes of calls whose island is busy or missing: `CrossingPolicy` codes of `fused/abi/src/own.rs`.
///
/// # Errors
/// The kernel's.
pub fn crossings(busy: usize, missing: usize) -> Result<usize, Failure> {
    const CROSSINGS: usize = 0x4d02;
    // SAFETY: no pointers.
    result(unsafe { system_call(CROSSINGS, [busy, missing, 0, 0, 0, 0]) })
}

/// The cores that this thread may run on.
///
/// # Errors
/// The kernel's.
pub fn affinity() -> Result<Cores, Failure> {
    let mut cores = Cores::default();
    let args = [0, size_of::<Cores>(), cores.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes as many bytes as it is told, at most.
    result(unsafe { system_call(number::SCHED_GETAFFINITY, args) }).map(|_| cores)
}

/// From now on this thread, and what it starts, runs on these cores alone.
///
/// # Errors
/// The kernel's.
pub fn set_affinity(cores: Cores) -> Result<usize, Failure> {
    let args = [0, size_of::<Cores>(), cores.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads as many bytes as it is told.
    result(unsafe { system_call(number::SCHED_SETAFFINITY, args) })
}

/// The core that this thread is on now.
///
/// # Errors
/// The kernel's.
pub fn core() -> Result<usize, Failure> {
    let mut core = 0u32;
    // SAFETY: the kernel writes the core's number.
    result(unsafe { system_call(number::GETCPU, [(&raw mut core) as usize, 0, 0, 0, 0, 0]) }).map(|_| core as usize)
}

/// Opens an existing file for reading and writing.
///
/// # Errors
/// The kernel's.
pub fn open(path: &CStr) -> Result<i32, Failure> {
    open_for(path, O_RDWR)
}

/// Opens an existing file for reading.
///
/// # Errors
/// The kernel's.
pub fn open_to_read(path: &CStr) -> Result<i32, Failure> {
    open_for(path, O_RDONLY)
}

fn open_for(path: &CStr, flags: usize) -> Result<i32, Failure> {
    let args = [AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: the path is a terminated string, which the kernel only reads.
    result(unsafe { system_call(number::OPENAT, args) }).map(|fd| fd as i32)
}

/// Closes a descriptor.
pub fn close(fd: i32) {
    // SAFETY: no pointers, and no file of this program's is used after it.
    unsafe { system_call(number::CLOSE, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Reads into `bytes`; 0 at the end.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn read(fd: i32, bytes: &mut [u8]) -> Result<usize, Failure> {
    // SAFETY: the kernel writes `bytes` at most.
    result(unsafe { system_call(number::READ, [fd as usize, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0, 0]) })
}

/// Writes some of `bytes`.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn write(fd: i32, bytes: &[u8]) -> Result<usize, Failure> {
    // SAFETY: the kernel reads `bytes` at most.
    result(unsafe { system_call(number::WRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) })
}

/// Reading end and writing end of a new pipe.
///
/// # Errors
/// The kernel's.
pub fn pipe() -> Result<[i32; 2], Failure> {
    let mut ends = [0i32; 2];
    // SAFETY: the kernel writes two descriptors.
    result(unsafe { system_call(number::PIPE2, [ends.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) })?;
    Ok(ends)
}

/// Copies this process: the child's id, and 0 in the child.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn fork() -> Result<usize, Failure> {
    // SAFETY: without CLONE_VM the child has its own copy of all memory; this program has one thread and no locks.
    result(unsafe { system_call(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) })
}

/// Waits until this child ends.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn wait(child: usize) -> Result<usize, Failure> {
    // SAFETY: null pointers: neither status nor resource usage is asked for.
    result(unsafe { system_call(number::WAIT4, [child, 0, 0, 0, 0, 0]) })
}

/// Waits until this child ends: its status, as the C library's `WEXITSTATUS` and `WTERMSIG` take it apart.
///
/// # Errors
/// The kernel's.
pub fn wait_status(child: usize) -> Result<u32, Failure> {
    const EINTR: Failure = -4;
    let mut status = 0u32;
    loop {
        // SAFETY: the kernel writes the status; resource usage is not asked for.
        let ended = unsafe { system_call(number::WAIT4, [child, (&raw mut status) as usize, 0, 0, 0, 0]) };
        if ended != EINTR {
            return result(ended).map(|_| status);
        }
    }
}

/// Ignores a signal, or stops ignoring it.
pub fn ignore(signal: usize, ignored: bool) {
    // Handler (SIG_DFL is 0, SIG_IGN is 1), flags, restorer, mask; RISC-V and AArch64 have no restorer, and read less.
    let action = [usize::from(ignored), 0, 0, 0];
    // SAFETY: the kernel reads `action` at most; no code of this program becomes a handler.
    unsafe { system_call(number::RT_SIGACTION, [signal, action.as_ptr() as usize, 0, 8, 0, 0]) };
}

/// Replaces this program; returns only if that fails.
///
/// # Safety
/// `arguments` and `environment` point to terminated strings, and end with a null pointer.
pub unsafe fn execute(path: &CStr, arguments: *const *const c_char, environment: *const *const c_char) -> Failure {
    let args = [path.as_ptr() as usize, arguments as usize, environment as usize, 0, 0, 0];
    // SAFETY: the caller's promise; the kernel only reads.
    unsafe { system_call(number::EXECVE, args) }
}

/// Whether this child has ended. It is collected then.
///
/// # Errors
/// The kernel's.
pub fn has_ended(child: usize) -> Result<bool, Failure> {
    const WNOHANG: usize = 1;
    // SAFETY: null pointers: neither status nor resource usage is asked for.
    result(unsafe { system_call(number::WAIT4, [child, 0, WNOHANG, 0, 0, 0]) }).map(|ended| ended == child)
}

/// Kills a process for certain.
///
/// # Errors
/// The kernel's: it is another user's, or has ended.
pub fn kill_process(process: usize) -> Result<usize, Failure> {
    const SIGKILL: usize = 9;
    // SAFETY: no pointers.
    result(unsafe { system_call(number::KILL, [process, SIGKILL, 0, 0, 0, 0]) })
}

/// Kills a process for certain; -1: all but the first one and this one.
pub fn kill(process: isize) {
    const SIGKILL: usize = 9;
    // SAFETY: no pointers.
    unsafe { system_call(number::KILL, [process as usize, SIGKILL, 0, 0, 0, 0]) };
}

/// Ends this process.
#[inline(always)]
pub fn exit(status: u8) -> ! {
    loop {
        // SAFETY: no pointers.
        unsafe { system_call(number::EXIT_GROUP, [usize::from(status), 0, 0, 0, 0, 0]) };
    }
}

/// Switches the machine off, if this is a Linux and this process may; returns otherwise.
pub fn power_off() {
    let args = [REBOOT_MAGIC[0], REBOOT_MAGIC[1], REBOOT_POWER_OFF, 0, 0, 0];
    // SAFETY: no pointers.
    unsafe { system_call(number::REBOOT, args) };
}

/// Sleeps.
pub fn sleep(seconds: u64) {
    sleep_ns(seconds * 1_000_000_000);
}

/// Sleeps.
pub fn sleep_ns(duration_ns: u64) {
    let time = [duration_ns / 1_000_000_000, duration_ns % 1_000_000_000];
    // SAFETY: the kernel reads seconds and nanoseconds, and is not asked for the time that remains.
    unsafe { system_call(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Nanoseconds of the monotonic clock.
pub fn now_ns() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: the kernel writes seconds and nanoseconds, 64 bits each on all three ISAs.
    unsafe { system_call(number::CLOCK_GETTIME, [CLOCK_MONOTONIC, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// Types that may be all zero bytes, and need nothing when they go.
pub trait Plain: sealed::Sealed {}

impl<T: sealed::Sealed> Plain for T {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f64 {}
    impl Sealed for core::sync::atomic::AtomicU64 {}
}

/// New memory, for the rest of this process's life or until [`unmap`]; all of it is zero. A process that there is no memory for ends.
pub fn zeroed<T: Plain>(count: usize) -> &'static mut [T] {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    const NO_MEMORY: u8 = 71;
    let len = count.max(1) * size_of::<T>();
    let args = [0, len, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0];
    // SAFETY: new pages, where the kernel likes, take nothing away.
    match result(unsafe { system_call(number::MMAP, args) }) {
        // SAFETY: page-aligned, long enough, not unmapped before its end, nobody else's, and zero, which is a value of every `Plain` type.
        Ok(address) => unsafe {
            core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(address), count)
        },
        Err(_) => exit(NO_MEMORY),
    }
}

/// Gives memory back that [`zeroed`] gave.
pub fn unmap<T: Plain>(memory: &'static mut [T]) {
    let args = [memory.as_ptr().expose_provenance(), size_of_val(memory), 0, 0, 0, 0];
    // SAFETY: these pages were mapped for this slice alone, and the caller has given up the only reference to it.
    unsafe { system_call(number::MUNMAP, args) };
}

/// What the kernel put on the program's first stack.
static FIRST_STACK: AtomicPtr<usize> = AtomicPtr::new(core::ptr::null_mut());

/// The arguments of this program.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    count: usize,
    pointers: *const *const c_char,
}

impl Arguments {
    /// What the kernel put on a program's first stack.
    ///
    /// # Safety
    /// `stack` is the stack pointer that the kernel started the program with.
    pub unsafe fn new(stack: *const usize) -> Self {
        FIRST_STACK.store(stack.cast_mut(), Ordering::Release);
        // SAFETY: by the System V ABI of each ISA there are a count and that many pointers, for the program's life.
        unsafe { Self { count: *stack, pointers: stack.add(1).cast() } }
    }

    /// Those that the program was started with, for any of its threads.
    ///
    /// # Panics
    /// This is no program of [`program!`].
    pub fn of_program() -> Self {
        let stack = FIRST_STACK.load(Ordering::Acquire);
        assert!(!stack.is_null(), "no program has begun");
        // SAFETY: it was given to `new`, whose caller has promised the same.
        unsafe { Self { count: *stack, pointers: stack.add(1).cast::<*const c_char>().cast_const() } }
    }

    /// Argument `index`; 0 is the program's name.
    pub fn get(&self, index: usize) -> Option<&'static [u8]> {
        // SAFETY: see `new`; each pointer is of a terminated string.
        (index < self.count).then(|| unsafe { CStr::from_ptr(*self.pointers.add(index)).to_bytes() })
    }
}

impl Arguments {
    /// The value of an environment variable.
    pub fn variable(&self, name: &[u8]) -> Option<&'static [u8]> {
        let mut at = self.environment();
        loop {
            // SAFETY: see `new`: the environment follows the arguments, and ends with a null pointer.
            let entry = unsafe {
                if (*at).is_null() {
                    return None;
                }
                CStr::from_ptr(*at).to_bytes()
            };
            if let Some(value) = entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            // SAFETY: not the last one.
            at = unsafe { at.add(1) };
        }
    }

    /// Replaces this program by the one at `path`, whose arguments are those of this one from `first` on; returns only if
    /// that fails.
    ///
    /// # Panics
    /// There are fewer arguments.
    pub fn execute(&self, path: &CStr, first: usize) -> Failure {
        assert!(first < self.count);
        // SAFETY: see `new`: both end with a null pointer.
        unsafe { execute(path, self.pointers.add(first), self.environment()) }
    }

    fn environment(&self) -> *const *const c_char {
        // SAFETY: see `new`: the environment is behind the arguments and their null pointer.
        unsafe { self.pointers.add(self.count + 1) }
    }
}

/// Writes a decimal number into the end of `digits`.
pub fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

/// Makes `$main: fn(Arguments) -> u8` the program.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        /// Called with the first stack pointer by the few instructions that an ISA's module puts at `_start`.
        ///
        /// # Safety
        /// Nobody else calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn motet_program(stack: *const usize) -> ! {
            // SAFETY: `_start` passes it on unchanged.
            let arguments = unsafe { $crate::system::Arguments::new(stack) };
            $crate::system::exit($main(arguments))
        }

        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            $crate::system::exit(101)
        }
    };
}

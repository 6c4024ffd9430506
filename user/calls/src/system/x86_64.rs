//! x86-64.

use core::arch::{asm, global_asm};

global_asm!(".globl _start", "_start:", "mov rdi, rsp", "and rsp, -16", "call motet_program", "ud2");

/// The instruction set.
pub const ISA: motet_layout::Isa = motet_layout::Isa::X86_64;

/// Numbers of arch/x86/entry/syscalls/syscall_64.tbl.
pub mod number {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const LSEEK: usize = 8;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const PWRITE64: usize = 18;
    pub const FCNTL: usize = 72;
    pub const FLOCK: usize = 73;
    pub const FTRUNCATE: usize = 77;
    pub const SETPRIORITY: usize = 141;
    pub const SCHED_SETSCHEDULER: usize = 144;
    pub const PPOLL: usize = 271;
    pub const MEMFD_CREATE: usize = 319;
    pub const NANOSLEEP: usize = 35;
    pub const RT_SIGACTION: usize = 13;
    pub const GETPID: usize = 39;
    pub const SOCKETPAIR: usize = 53;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const REBOOT: usize = 169;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const GETCPU: usize = 309;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const SCHED_SETATTR: usize = 314;
    pub const SCHED_GETATTR: usize = 315;
    pub const FUTEX: usize = 202;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const MKNODAT: usize = 259;
    pub const NEWFSTATAT: usize = 262;
    pub const PIPE2: usize = 293;
}

/// # Safety
/// As the system call.
#[inline(always)]
pub unsafe fn system_call(number: usize, args: [usize; 6]) -> isize {
    let result;
    // SAFETY: the kernel preserves all registers but these; memory is the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

global_asm!(".globl motet_restorer", "motet_restorer:", "mov eax, 15", "syscall", "ud2");

unsafe extern "C" {
    /// `rt_sigreturn`, which a handler returns to.
    fn motet_restorer();
}

/// The kernel's `struct sigaction` with a handler, without flags and a mask.
pub fn action(handler: extern "C" fn(i32)) -> [usize; 4] {
    const SA_RESTORER: usize = 0x0400_0000;
    [handler as usize, SA_RESTORER, motet_restorer as *const () as usize, 0]
}

/// Executes mark `MARK`.
#[inline(always)]
pub fn mark<const MARK: u8>() {
    // SAFETY: a no-op.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80", ".4byte {0}", const const { crate::marks::x86_64(MARK) }, options(nostack))
    };
}

/// Executes mark `MARK` with these bytes in the first two argument registers. They need not be there.
#[inline(always)]
pub fn mark_with<const MARK: u8>(name: *const [u8]) {
    // SAFETY: a no-op; registers are only read.
    unsafe {
        asm!(".byte 0x0f, 0x1f, 0x80", ".4byte {0}", const const { crate::marks::x86_64(MARK) },
            in("rdi") name.cast::<u8>(), in("rsi") name.len(), options(nostack));
    }
}

/// Starts a thread that shares everything with this one, and calls `entry` with `argument`; a negated error number, or its id.
///
/// # Safety
/// `stack` is the end of memory that is the thread's alone, aligned to 16 bytes; all that it uses may be shared between threads.
pub unsafe fn thread(flags: usize, stack: usize, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result;
    // SAFETY: the thread begins with these registers and never returns; in the caller it is a system call.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "mov rdi, {argument}", "call {entry}", "ud2", "2:",
            argument = in(reg) argument, entry = in(reg) entry, inlateout("rax") number::CLONE => result, in("rdi") flags,
            in("rsi") stack, in("rdx") 0, in("r10") 0, in("r8") 0, out("rcx") _, out("r11") _);
    }
    result
}

/// Executes two instructions for each of `iterations`, at least one.
#[inline(never)]
pub fn spin(iterations: u64) {
    // SAFETY: counts down.
    unsafe {
        asm!("2:", "dec {0}", "jnz 2b", inout(reg) iterations => _, options(nostack));
    }
}
// What compilers expect a C library to have; targets without an operating system bring it along. Nothing unwinds.
#[cfg(target_os = "linux")]
global_asm!(
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen, rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
    "strlen:",
    "mov rax, rdi",
    "2: cmp byte ptr [rax], 0",
    "je 3f",
    "inc rax",
    "jmp 2b",
    "3: sub rax, rdi",
    "ret",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jae memcpy",
    // The end of the source is the beginning of the destination: from the end.
    "mov rcx, rdx",
    "lea rdi, [rdi + rcx - 1]",
    "lea rsi, [rsi + rcx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "cmp rdx, rdx",
    "repe cmpsb",
    "je 2f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "2: ret",
);

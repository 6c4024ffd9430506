//! System calls that are measured, and used by nothing else here.

use core::{ffi::CStr, sync::atomic::AtomicU32};

use super::{AT_FDCWD, Failure, isa, number, result, system_call};

/// Words of `struct stat` on any instruction set, at most.
const STATUS_WORDS: usize = 18;

/// The status of a file, in the words of the instruction set's `struct stat`.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn status(path: &CStr) -> Result<[u64; STATUS_WORDS], Failure> {
    let mut status = [0; STATUS_WORDS];
    let args = [AT_FDCWD as usize, path.as_ptr() as usize, status.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads the path, and writes a `struct stat`, for which there is room.
    result(unsafe { system_call(number::NEWFSTATAT, args) }).map(|_| status)
}

/// Handles a signal by a function that does nothing.
///
/// # Errors
/// The kernel's.
pub fn handle(signal: usize) -> Result<(), Failure> {
    extern "C" fn nothing(_signal: i32) {}
    let action = isa::action(nothing);
    // SAFETY: the kernel reads `action`; the handler returns as the instruction set wants it.
    result(unsafe { system_call(number::RT_SIGACTION, [signal, action.as_ptr() as usize, 0, 8, 0, 0]) }).map(drop)
}

/// Sends a process a signal.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn send(process: usize, signal: usize) -> Result<(), Failure> {
    // SAFETY: no pointers; who handles it has said how.
    result(unsafe { system_call(number::KILL, [process, signal, 0, 0, 0, 0]) }).map(drop)
}

/// Two words, 0, that this process shares with those that it makes.
///
/// # Errors
/// The kernel's.
pub fn shared_words() -> Result<[&'static AtomicU32; 2], Failure> {
    const PAGE: usize = 4096;
    const PROT_READ_WRITE: usize = 3;
    const MAP_SHARED_ANONYMOUS: usize = 0x21;
    let args = [0, PAGE, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, usize::MAX, 0];
    // SAFETY: a new page, where the kernel likes, takes nothing away.
    let address = result(unsafe { system_call(number::MMAP, args) })?;
    let words = core::ptr::with_exposed_provenance::<AtomicU32>(address);
    // SAFETY: the page is zero, never unmapped, and used as these words alone.
    Ok(unsafe { [&*words, &*words.add(1)] })
}

/// Waits until the word is woken, if it is `value`. May return early.
///
/// # Errors
/// `EAGAIN`: it is another value; the kernel's others.
#[inline(always)]
pub fn futex_wait(word: &AtomicU32, value: u32) -> Result<(), Failure> {
    const FUTEX_WAIT: usize = 0;
    // SAFETY: the kernel reads the word; there is no time-out.
    result(unsafe { system_call(number::FUTEX, [word.as_ptr() as usize, FUTEX_WAIT, value as usize, 0, 0, 0]) })
        .map(drop)
}

/// Wakes one that waits for the word: how many there were.
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn futex_wake(word: &AtomicU32) -> Result<usize, Failure> {
    const FUTEX_WAKE: usize = 1;
    // SAFETY: the word is a name here.
    result(unsafe { system_call(number::FUTEX, [word.as_ptr() as usize, FUTEX_WAKE, 1, 0, 0, 0]) })
}

/// Two connected stream sockets of the UNIX domain.
///
/// # Errors
/// The kernel's.
pub fn socket_pair() -> Result<[i32; 2], Failure> {
    const AF_UNIX: usize = 1;
    const SOCK_STREAM: usize = 1;
    let mut ends = [0i32; 2];
    // SAFETY: the kernel writes two descriptors.
    result(unsafe { system_call(number::SOCKETPAIR, [AF_UNIX, SOCK_STREAM, 0, ends.as_mut_ptr() as usize, 0, 0]) })?;
    Ok(ends)
}

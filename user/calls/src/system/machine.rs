//! System calls of a monitor of virtual machines.

use core::ffi::CStr;

use super::{AT_FDCWD, Failure, isa, number, result, system_call, zeroed};

const F_ADD_SEALS: usize = 1033;
const SEAL_SHRINK_AND_GROW: usize = 6;
const MFD_CLOEXEC_AND_ALLOW_SEALING: usize = 3;
const SEEK_SET: usize = 0;
const SEEK_END: usize = 2;
const POLLIN: u64 = 1;
/// A thread as the C library makes it: memory, files, signal actions and process in common.
const THREAD: usize = 0x5_0f00;
const STACK_WORDS: usize = 8 << 10;

/// A file without a name, of `bytes` zero bytes, that stays as long as it is.
///
/// # Errors
/// The kernel's.
pub fn memory(bytes: u64) -> Result<i32, Failure> {
    let name = c"vm";
    let args = [name.as_ptr() as usize, MFD_CLOEXEC_AND_ALLOW_SEALING, 0, 0, 0, 0];
    // SAFETY: the kernel reads the name.
    let fd = result(unsafe { system_call(number::MEMFD_CREATE, args) })?;
    // SAFETY: no pointers.
    result(unsafe { system_call(number::FTRUNCATE, [fd, bytes as usize, 0, 0, 0, 0]) })?;
    // SAFETY: no pointers.
    result(unsafe { system_call(number::FCNTL, [fd, F_ADD_SEALS, SEAL_SHRINK_AND_GROW, 0, 0, 0]) })?;
    Ok(fd as i32)
}

/// Makes a folder for this user alone.
///
/// # Errors
/// The kernel's.
pub fn make_folder(path: &CStr) -> Result<(), Failure> {
    // SAFETY: the kernel reads the path.
    result(unsafe { system_call(number::MKDIRAT, [AT_FDCWD as usize, path.as_ptr() as usize, 0o700, 0, 0, 0]) })
        .map(drop)
}

/// Opens a file for reading and writing, which is made for this user alone if it is not there.
///
/// # Errors
/// The kernel's.
pub fn open_or_make(path: &CStr) -> Result<i32, Failure> {
    const O_RDWR_AND_CREAT_AND_CLOEXEC: usize = 0o2000102;
    let args = [AT_FDCWD as usize, path.as_ptr() as usize, O_RDWR_AND_CREAT_AND_CLOEXEC, 0o600, 0, 0];
    // SAFETY: the kernel reads the path.
    result(unsafe { system_call(number::OPENAT, args) }).map(|fd| fd as i32)
}

/// Opens a named pipe, which is made for this user alone if it is not there, for reading and writing without waiting.
///
/// # Errors
/// The kernel's.
pub fn make_and_open_pipe(path: &CStr) -> Result<i32, Failure> {
    const S_IFIFO: usize = 0o010_000;
    const O_RDWR_AND_NONBLOCK_AND_CLOEXEC: usize = 0o2004002;
    const EEXIST: Failure = -17;
    // SAFETY: the kernel reads the path.
    match result(unsafe {
        system_call(number::MKNODAT, [AT_FDCWD as usize, path.as_ptr() as usize, S_IFIFO | 0o600, 0, 0, 0])
    }) {
        Ok(_) | Err(EEXIST) => {}
        Err(failure) => return Err(failure),
    }
    let args = [AT_FDCWD as usize, path.as_ptr() as usize, O_RDWR_AND_NONBLOCK_AND_CLOEXEC, 0, 0, 0];
    // SAFETY: as before.
    result(unsafe { system_call(number::OPENAT, args) }).map(|fd| fd as i32)
}

/// Locks a whole file for this process, if nobody has it locked.
///
/// # Errors
/// The kernel's: `EAGAIN`.
pub fn lock_file(fd: i32) -> Result<(), Failure> {
    const LOCK_EX_AND_NB: usize = 6;
    // SAFETY: no pointers.
    result(unsafe { system_call(number::FLOCK, [fd as usize, LOCK_EX_AND_NB, 0, 0, 0, 0]) }).map(drop)
}

/// Bytes of a file, whose position goes to its end.
///
/// # Errors
/// The kernel's.
pub fn size(fd: i32) -> Result<u64, Failure> {
    // SAFETY: no pointers.
    result(unsafe { system_call(number::LSEEK, [fd as usize, 0, SEEK_END, 0, 0, 0]) }).map(|size| size as u64)
}

/// Makes a file so long.
///
/// # Errors
/// The kernel's.
pub fn set_size(fd: i32, bytes: u64) -> Result<(), Failure> {
    // SAFETY: no pointers.
    result(unsafe { system_call(number::FTRUNCATE, [fd as usize, bytes as usize, 0, 0, 0, 0]) }).map(drop)
}

/// Writes all of `bytes` at a position of a file.
///
/// # Errors
/// The kernel's.
pub fn write_at(fd: i32, mut bytes: &[u8], mut position: u64) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let args = [fd as usize, bytes.as_ptr() as usize, bytes.len(), position as usize, 0, 0];
        // SAFETY: the kernel reads `bytes` at most.
        let written = result(unsafe { system_call(number::PWRITE64, args) })?;
        bytes = bytes.get(written..).unwrap_or_default();
        position += written as u64;
    }
    Ok(())
}

/// Reads from a position of a file.
///
/// # Errors
/// The kernel's.
pub fn read_at(fd: i32, bytes: &mut [u8], position: u64) -> Result<usize, Failure> {
    let args = [fd as usize, bytes.as_mut_ptr() as usize, bytes.len(), position as usize, 0, 0];
    // SAFETY: the kernel writes `bytes` at most.
    result(unsafe { system_call(number::PREAD64, args) })
}

/// The whole contents of a file.
///
/// # Errors
/// The kernel's.
pub fn contents(path: &CStr) -> Result<&'static [u8], Failure> {
    let fd = super::open_to_read(path)?;
    let seek = |whence| {
        // SAFETY: no pointers.
        result(unsafe { system_call(number::LSEEK, [fd as usize, 0, whence, 0, 0, 0]) })
    };
    let size = seek(SEEK_END)?;
    seek(SEEK_SET)?;
    let words: &'static mut [u64] = zeroed(size.div_ceil(8));
    // SAFETY: the same memory, as bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size) };
    let mut len = 0;
    while len < size {
        match super::read(fd, &mut bytes[len..])? {
            0 => break,
            read => len += read,
        }
    }
    super::close(fd);
    Ok(&bytes[..len])
}

/// `ioctl` with words that the kernel reads and writes.
///
/// # Errors
/// The kernel's.
pub fn control(fd: i32, request: u32, words: &mut [u64]) -> Result<usize, Failure> {
    let args = [fd as usize, request as usize, words.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes as many words as the request has, which are there.
    result(unsafe { system_call(number::IOCTL, args) })
}

/// `ioctl` with a number.
///
/// # Errors
/// The kernel's.
pub fn command(fd: i32, request: u32, argument: u64) -> Result<usize, Failure> {
    // SAFETY: no pointers.
    result(unsafe { system_call(number::IOCTL, [fd as usize, request as usize, argument as usize, 0, 0, 0]) })
}

/// Which of some files a read would not wait for; a negative descriptor is none.
pub fn readable<const N: usize>(fds: [i32; N]) -> [bool; N] {
    let no_time = [0u64; 2];
    poll(fds, no_time.as_ptr())
}

/// Waits until a read from one of some files would not; it may also come back before.
pub fn wait_until_readable<const N: usize>(fds: [i32; N]) {
    poll(fds, core::ptr::null());
}

fn poll<const N: usize>(fds: [i32; N], time: *const u64) -> [bool; N] {
    const REPLY_SHIFT: u32 = 48;
    let mut asked = fds.map(|fd| u64::from(fd as u32) | POLLIN << 32);
    let args = [asked.as_mut_ptr() as usize, N, time as usize, 0, 8, 0];
    // SAFETY: the kernel reads the time and writes to `asked`.
    match result(unsafe { system_call(number::PPOLL, args) }) {
        Ok(1..) => asked.map(|entry| entry >> REPLY_SHIFT != 0),
        Ok(_) | Err(_) => [false; N],
    }
}

/// Gives this thread a nice value; those that it starts inherit it.
///
/// # Errors
/// The kernel's.
pub fn set_nice(nice: i32) -> Result<usize, Failure> {
    // SAFETY: no pointers.
    result(unsafe { system_call(number::SETPRIORITY, [0, 0, nice as usize, 0, 0, 0]) })
}

/// Gives this thread a real-time priority, 1 to 99, with slices among its equals (SCHED_RR); those that it starts inherit it.
///
/// # Errors
/// The kernel's.
pub fn set_realtime(priority: u32) -> Result<usize, Failure> {
    const SCHED_RR: usize = 2;
    let at = (&raw const priority) as usize;
    // SAFETY: the priority is this function's own.
    result(unsafe { system_call(number::SCHED_SETSCHEDULER, [0, SCHED_RR, at, 0, 0, 0]) })
}

/// Lets this thread run for so long while others wait for its core, if it has no real-time policy; those that it starts inherit it.
///
/// # Errors
/// The kernel's.
pub fn set_slice(slice_ns: u64) -> Result<usize, Failure> {
    /// Words of `struct sched_attr`, and the one that has the slice.
    const WORDS: usize = 7;
    const RUNTIME: usize = 3;
    let mut attributes = [0_u64; WORDS];
    let args = [0, attributes.as_mut_ptr() as usize, 8 * WORDS, 0, 0, 0];
    // SAFETY: the kernel writes to the words at most.
    result(unsafe { system_call(number::SCHED_GETATTR, args) })?;
    attributes[RUNTIME] = slice_ns;
    // SAFETY: the kernel reads the words.
    result(unsafe { system_call(number::SCHED_SETATTR, [0, attributes.as_ptr() as usize, 0, 0, 0, 0]) })
}

/// Starts a thread.
///
/// # Errors
/// The kernel's.
pub fn spawn(entry: extern "C" fn(usize) -> !, argument: usize) -> Result<usize, Failure> {
    let stack: &'static mut [u64] = zeroed(STACK_WORDS);
    let end = stack.as_mut_ptr_range().end.expose_provenance();
    // SAFETY: the stack is new; a program without `unsafe` shares what may be shared alone.
    result(unsafe { isa::thread(THREAD, end, entry, argument) })
}

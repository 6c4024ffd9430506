//! Input of the guest's console. It comes from standard input, and from `motet vm console` on the host; the latter is read from the machine's file.
//! Bytes are read when the guest polls for them. While the guest has enabled interrupts for input, a thread waits for bytes, and reads some ahead.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use motet_calls::system::{self, Failure, machine};

use crate::monitor;

const STDIN: i32 = 0;
const EAGAIN: Failure = -11;
/// Bytes read ahead at most: as many as the serial port's FIFO has.
const AHEAD: usize = 16;

static LOCKED: AtomicBool = AtomicBool::new(false);
static BYTES: [AtomicU8; AHEAD] = [const { AtomicU8::new(0) }; AHEAD];
/// How many of [`BYTES`] have been taken, and how many are there. Written under the lock, as the next two.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
/// Whether standard input has ended.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// Whether the thread waits for a byte, or is about to.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
/// The thread's pipe: a byte in it lets it wait for input.
static REQUESTS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// How long to wait before trying a lock again.
const RETRY_NS: u64 = 10_000;

struct Guard;

/// Takes the lock. A thread that has it never waits for anything.
fn lock() -> Guard {
    while LOCKED.swap(true, Acquire) {
        system::sleep_ns(RETRY_NS);
    }
    Guard
}

impl Drop for Guard {
    fn drop(&mut self) {
        LOCKED.store(false, Release);
    }
}

/// Makes the thread that watches.
///
/// # Errors
/// The kernel's.
pub fn start(watch: extern "C" fn(usize) -> !) -> Result<(), Failure> {
    for (word, end) in REQUESTS.iter().zip(system::pipe()?) {
        word.store(end, Relaxed);
    }
    machine::spawn(watch, 0).map(drop)
}

/// The thread: calls `noticed` when there is input, each time that it has been [asked](watch).
pub fn watch_forever(noticed: fn()) -> ! {
    loop {
        let asked = system::read(REQUESTS[0].load(Relaxed), &mut [0]);
        if asked != Ok(1) {
            continue;
        }
        while !has_noticed() {
            machine::wait_until_readable(sources());
        }
        noticed();
    }
}

/// Called by the thread: whether there is input already, so that it need not wait.
fn has_noticed() -> bool {
    let _guard = lock();
    read_ahead(AHEAD);
    if is_noticed() {
        IS_WATCHING.store(false, Relaxed);
    }
    is_noticed()
}

/// The descriptors that bytes come from; a negative one is unused.
fn sources() -> [i32; 2] {
    [if HAS_ENDED.load(Relaxed) { -1 } else { STDIN }, monitor::machine()]
}

/// Reads what one source has, and returns how many bytes. The lock is held.
fn read(bytes: &mut [u8]) -> usize {
    let sources = sources();
    for (source, is_ready) in sources.into_iter().zip(machine::readable(sources)) {
        match if is_ready { system::read(source, bytes) } else { Err(EAGAIN) } {
            Ok(read @ 1..) => return read,
            Err(EAGAIN | monitor::EINTR) => {}
            Ok(_) | Err(_) if source == STDIN => HAS_ENDED.store(true, Relaxed),
            Ok(_) | Err(_) => {}
        }
    }
    0
}

/// Reads at most `at_most` bytes, if all bytes that were read have been taken. The lock is held.
fn read_ahead(at_most: usize) {
    let mut bytes = [0; AHEAD];
    let read = if is_noticed() { 0 } else { read(&mut bytes[..at_most]) };
    if read != 0 {
        BYTES.iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Relaxed));
        TAKEN.store(0, Relaxed);
        LEN.store(read, Relaxed);
    }
}

/// Has the thread wait for input, unless a byte has been read ahead.
pub fn watch() {
    let _guard = lock();
    if !is_noticed() && !IS_WATCHING.swap(true, Relaxed) {
        let _ = system::write(REQUESTS[1].load(Relaxed), &[0]);
    }
}

/// Whether there is a byte that has been read ahead.
pub fn is_noticed() -> bool {
    LEN.load(Relaxed) != TAKEN.load(Relaxed)
}

/// Whether there is a byte. The byte is read ahead, because only a read tells a byte from the end of the input. No more bytes are read: what the guest
/// does not ask for stays for other readers.
pub fn has_come() -> bool {
    if !is_noticed() && machine::readable(sources()).contains(&true) {
        let _guard = lock();
        read_ahead(1);
    }
    is_noticed()
}

/// Takes a byte, if there is one.
pub fn take() -> Option<u8> {
    let _guard = lock();
    read_ahead(1);
    let taken = TAKEN.load(Relaxed);
    is_noticed().then(|| {
        TAKEN.store(taken + 1, Relaxed);
        BYTES[taken].load(Relaxed)
    })
}

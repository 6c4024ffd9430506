//! Standard input, which is the guest's console. Bytes are read when the guest looks for them; while it is to be interrupted when one comes, a
//! thread waits for that, and reads some ahead.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use motet_calls::system::{self, machine};

const STDIN: i32 = 0;
/// Bytes read ahead at most: as many as the serial port's FIFO has.
const AHEAD: usize = 16;

static LOCKED: AtomicBool = AtomicBool::new(false);
static BYTES: [AtomicU8; AHEAD] = [const { AtomicU8::new(0) }; AHEAD];
/// Those of [`BYTES`] that have been taken, and those that are there. Written by who has the lock, as the next two.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// The thread is waiting for a byte, or about to.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
/// The thread's pipe: a byte in it lets it wait for input.
static REQUESTS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// How long who finds the lock taken waits.
const RETRY_NS: u64 = 10_000;

struct Guard;

/// Nobody waits for anything while it has the lock.
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

/// Makes the thread that watches, which calls `noticed` whenever it has read something.
///
/// # Errors
/// The kernel's.
pub fn start(watch: extern "C" fn(usize) -> !) -> Result<(), system::Failure> {
    for (word, end) in REQUESTS.iter().zip(system::pipe()?) {
        word.store(end, Relaxed);
    }
    machine::spawn(watch, 0).map(drop)
}

/// The thread: says when there is input, each time that it has been [asked](watch).
pub fn watch_forever(noticed: fn()) -> ! {
    loop {
        let asked = system::read(REQUESTS[0].load(Relaxed), &mut [0]);
        if asked != Ok(1) {
            continue;
        }
        while !HAS_ENDED.load(Relaxed) && LEN.load(Relaxed) == TAKEN.load(Relaxed) {
            machine::wait_until_readable(STDIN);
            let _guard = lock();
            read_ahead();
            if LEN.load(Relaxed) != TAKEN.load(Relaxed) {
                IS_WATCHING.store(false, Relaxed);
            }
        }
        noticed();
    }
}

/// Reads what there is, if nothing has been read that has not been taken. The lock is held.
fn read_ahead() {
    if LEN.load(Relaxed) != TAKEN.load(Relaxed) || !machine::is_readable(STDIN) {
        return;
    }
    let mut bytes = [0; AHEAD];
    match system::read(STDIN, &mut bytes) {
        Ok(0) => HAS_ENDED.store(true, Relaxed),
        Ok(read) => {
            BYTES.iter().zip(bytes).for_each(|(to, byte)| to.store(byte, Relaxed));
            TAKEN.store(0, Relaxed);
            LEN.store(read, Relaxed);
        }
        Err(_) => {}
    }
}

/// Lets the thread watch, unless there is something that it has read already.
pub fn watch() {
    let _guard = lock();
    ask_to_watch();
}

/// The lock is held.
fn ask_to_watch() {
    let is_needed = LEN.load(Relaxed) == TAKEN.load(Relaxed) && !HAS_ENDED.load(Relaxed);
    if is_needed && !IS_WATCHING.swap(true, Relaxed) {
        let _ = system::write(REQUESTS[1].load(Relaxed), &[0]);
    }
}

/// Whether there is a byte that has been read ahead.
pub fn is_noticed() -> bool {
    LEN.load(Relaxed) != TAKEN.load(Relaxed)
}

/// Whether there is a byte.
pub fn has_come() -> bool {
    is_noticed() || !HAS_ENDED.load(Relaxed) && machine::is_readable(STDIN)
}

/// Takes a byte, if there is one. `watches`: the next one is to be noticed.
pub fn take(watches: bool) -> Option<u8> {
    let _guard = lock();
    let byte = match TAKEN.load(Relaxed) {
        taken if taken != LEN.load(Relaxed) => {
            TAKEN.store(taken + 1, Relaxed);
            Some(BYTES[taken].load(Relaxed))
        }
        _ => take_at_once(),
    };
    if watches {
        ask_to_watch();
    }
    byte
}

/// One byte and no more: what the guest does not look for stays for others. The lock is held.
fn take_at_once() -> Option<u8> {
    if HAS_ENDED.load(Relaxed) || !machine::is_readable(STDIN) {
        return None;
    }
    let mut byte = [0];
    match system::read(STDIN, &mut byte) {
        Ok(0) => HAS_ENDED.store(true, Relaxed),
        Ok(_) => return Some(byte[0]),
        Err(_) => {}
    }
    None
}

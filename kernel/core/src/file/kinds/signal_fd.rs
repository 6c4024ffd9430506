//! Signals that are read (`signalfd`).
//!
//! The open file is only a set of signals: a reader takes its own pending signals, whoever made the file. All threads that wait are in
//! one queue of the machine, which every signal wakes; there are few of them.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_NONBLOCK, O_RDWR},
    signal::{CLD_CONTINUED, CLD_EXITED, POLL_IN, POLL_OUT, SI_TIMER, SIGCHLD, SIGSET_SIZE, UNBLOCKABLE},
};
use motet_hal::Machine;
use motet_layout::{FILE_SIGNAL, FileRecord, WaitQueue};

use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::{Cursor, partial},
    description::{
        self, Parts,
        kind::{INPUT, Kind, Queues, Transfer, if_so, queues},
    },
    file::descriptor::table,
    signal::{Origin, is_pending, take_pending},
};

/// Bytes of `struct signalfd_siginfo`.
const INFO_LEN: u64 = 128;

/// `signalfd(fd, set, set_size)`.
pub fn signalfd<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, 0)
}

/// `signalfd4(fd, set, set_size, flags)`: a new one, if `fd` is -1, otherwise changes which signals `fd` is for.
pub fn signalfd4<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, call.args[3] as u32)
}

fn create<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    let [fd, set, size, ..] = call.args;
    if size != SIGSET_SIZE || flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let set = call.read_user_u64(set)? & !UNBLOCKABLE;
    if fd as i32 == -1 {
        let parts = Parts { kind: FILE_SIGNAL, flags: O_RDWR | flags, inode: None, object: set };
        return Ok(table::install(call, description::create(call.cpu, &parts)?, flags & O_CLOEXEC != 0, 0)?);
    }
    let file = table::get(call, fd as i32)?;
    file.as_kind::<Signals>().ok_or(Errno::EINVAL)?;
    file.record().object.set(set);
    Ok(u64::from(fd as u32))
}

/// Signals that are read: the set.
#[derive(Clone, Copy)]
pub struct Signals(u64);

impl Kind for Signals {
    const CODES: &'static [u32] = &[FILE_SIGNAL];

    fn of<M: Machine>(_cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        Some(Self(file.object.get()))
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:[signalfd]")
    }

    /// Reads as many pending signals of the set as there is room for. Waits for the first.
    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        if into.remaining() < INFO_LEN {
            return Err(Errno::EINVAL.into());
        }
        // Faults now, not after a signal was taken.
        into.probe()?;
        call.wait_for(waiters(call.cpu), || {
            while into.remaining() >= INFO_LEN {
                if let Err(stop) = into.await_pages(INFO_LEN as usize) {
                    return partial(into.done(), stop).map(Some);
                }
                let Some((signal, origin)) = take_pending(call, self.0) else { break };
                let info = signalfd_info(signal, &origin);
                into.write(&info)?;
            }
            match into.done() {
                0 if how.nonblocking() => Err(Errno::EAGAIN.into()),
                0 => Ok(None),
                done => Ok(Some(done)),
            }
        })
    }

    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        if_so(is_pending(call, self.0), INPUT)
    }

    fn queues<M: Machine>(self, cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(waiters(cpu)), None)
    }
}

/// `struct signalfd_siginfo` (signalfd(2)).
fn signalfd_info(signal: u32, origin: &Origin) -> [u8; INFO_LEN as usize] {
    let [first, second, third, fourth] = origin.fields;
    let mut info = [0; INFO_LEN as usize];
    // A timer's signal has its id and overrun where others have the sender.
    let places = if origin.code == SI_TIMER { [24, 32] } else { [12, 16] };
    let words =
        [(0, signal), (8, origin.code.cast_unsigned()), (places[0], first as u32), (places[1], (first >> 32) as u32)];
    // A file's has what it is ready for, and its descriptor.
    let words = if (POLL_IN..=POLL_OUT).contains(&origin.code) && signal != SIGCHLD {
        [words[0], words[1], (20, second as u32), (28, first as u32)]
    } else {
        words
    };
    for (at, word) in words {
        info[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    if signal == SIGCHLD && (CLD_EXITED..=CLD_CONTINUED).contains(&origin.code) {
        info[40..44].copy_from_slice(&(second as u32).to_le_bytes());
        info[56..64].copy_from_slice(&third.to_le_bytes());
        info[64..72].copy_from_slice(&fourth.to_le_bytes());
    } else {
        info[44..48].copy_from_slice(&(second as u32).to_le_bytes());
        info[48..56].copy_from_slice(&second.to_le_bytes());
    }
    info
}

/// Those who wait for signals to read.
fn waiters<M: Machine>(cpu: &Cpu<M>) -> &'static WaitQueue {
    &cpu.pool.header().signal_waiters
}

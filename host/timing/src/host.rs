//! Host cores, and which thread has them.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity, sched_yield};

/// The host's cores that this process may use, as it was started.
static ALLOWED: OnceLock<Option<CpuSet>> = OnceLock::new();

/// Remembers which of the host's cores this process may use: before anybody pulls its threads.
pub(crate) fn remember_allowed() {
    ALLOWED.get_or_init(|| sched_getaffinity(None).ok());
}

/// The host core that this thread is on.
pub(crate) fn core() -> u32 {
    sched_getcpu() as u32
}

/// This thread's id.
pub(crate) fn thread() -> u32 {
    gettid().as_raw_nonzero().get().cast_unsigned()
}

/// Lets other threads that are ready run on this host core.
pub(crate) fn give_way() {
    sched_yield();
}

/// Brings a thread, which is ready but does not run, to a host core; afterwards it may run wherever it could before.
/// `false`: it is gone, or must not run there, or somebody else is moving it.
pub(crate) fn pull(thread: u32, to: u32) -> bool {
    let Some(Some(allowed)) = ALLOWED.get() else { return false };
    let Some(thread) = Pid::from_raw(thread.cast_signed()) else { return false };
    let to = to as usize;
    if to >= CpuSet::MAX_CPU || !allowed.is_set(to) || sched_getaffinity(Some(thread)).as_ref() != Ok(allowed) {
        return false;
    }
    let mut only = CpuSet::new();
    only.set(to);
    let moved = sched_setaffinity(Some(thread), &only).is_ok();
    // Two system calls: in between it is where it should be, and the second one does not move it.
    let _ = sched_setaffinity(Some(thread), allowed);
    moved
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_pulled_thread_runs_there_and_stays_free() {
        remember_allowed();
        let allowed = sched_getaffinity(None).unwrap();
        let (send, receive) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(thread()).unwrap();
            let _ = ended.recv();
        });
        let id = receive.recv().unwrap();
        for to in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
            assert!(pull(id, to as u32));
            assert_eq!(sched_getaffinity(Pid::from_raw(id.cast_signed())).as_ref(), Ok(&allowed));
        }
        assert!(!pull(id, CpuSet::MAX_CPU as u32), "there is no such core");
        // Bound by somebody: it stays where it was put.
        let mut only = CpuSet::new();
        only.set(core() as usize);
        if only != allowed {
            sched_setaffinity(Pid::from_raw(id.cast_signed()), &only).unwrap();
            assert!(!pull(id, core()));
        }
        end.send(()).unwrap();
        other.join().unwrap();
        assert!(!pull(0, core()), "nobody's thread");
    }
}

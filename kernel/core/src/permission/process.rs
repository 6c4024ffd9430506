//! Rules about other processes. The process-tree lock is held.

use motet_abi::{Errno, signal::SIGCONT};
use motet_layout::{ProcessRecord, sync::Ordering};
use motet_protocol::schedule::Schedule;

use super::credentials::{Capability, GroupId, Identity, ROOT, UserId, has, is_opaque};

/// `RLIMIT_RTPRIO`: the highest real-time priority.
const LIMIT_REALTIME: usize = 14;
/// `RLIMIT_NICE`: 20 less the lowest nice value that a process may take.
const LIMIT_NICE: usize = 13;

/// Fails with `EPERM` unless `sender` may send `target` a signal (kill(2)): its real or effective user is the target's real
/// or saved one, or it has `CAP_KILL`; or the signal lets a process of its session continue.
///
/// The first process is no exception: it is the command of the run, which `timeout` or Ctrl-C ends like any other. (On Linux
/// it is an init, which is sent only signals that it handles.) Who may not signal it cannot.
pub fn may_signal(sender: &ProcessRecord, target: &ProcessRecord, signal: u32) -> Result<(), Errno> {
    if core::ptr::eq(sender, target) {
        return Ok(());
    }
    let (own, theirs) = (Identity::of(sender).users, Identity::of(target).users);
    let is_same = |id| id == theirs.real || id == theirs.saved;
    let same_session = || sender.sid.load(Ordering::Relaxed) == target.sid.load(Ordering::Relaxed);
    let may = is_same(own.effective)
        || is_same(own.real)
        || has(sender, Capability::Kill)
        || signal == SIGCONT && same_session();
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Whether a process may be told by a signal what happens to a file, for whose owner a process with these ids has named it (fcntl(2), `F_SETOWN`).
pub fn may_tell(real: UserId, effective: UserId, target: &ProcessRecord) -> bool {
    let theirs = Identity::of(target).users;
    let is_same = |id| id == theirs.real || id == theirs.saved;
    effective == ROOT || is_same(effective) || is_same(real)
}

/// Fails with `EPERM` unless `inspector` may look into `target`: its memory, files and places (ptrace(2), "Ptrace access
/// mode checking"). `real`: its real ids count (`PTRACE_MODE_REALCREDS`), otherwise those for files.
pub fn may_inspect(inspector: &ProcessRecord, target: &ProcessRecord, real: bool) -> Result<(), Errno> {
    if core::ptr::eq(inspector, target) || has(inspector, Capability::Inspect) {
        return Ok(());
    }
    let (own, theirs) = (Identity::of(inspector), Identity::of(target));
    let (user, group, capabilities) = if real {
        (own.users.real, own.groups.real, own.permitted)
    } else {
        (own.users.file, own.groups.file, own.effective)
    };
    let is_same = theirs.users.all_are_same(user) && theirs.groups.all_are_same(group);
    let may = is_same && !is_opaque(target) && theirs.permitted & !capabilities == 0;
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Fails with `EPERM` unless `controller` may have what `target` has, as a debugger that is attached to it (pidfd_getfd(2); ptrace(2),
/// `PTRACE_MODE_ATTACH_REALCREDS`).
pub fn may_control(controller: &ProcessRecord, target: &ProcessRecord) -> Result<(), Errno> {
    may_inspect(controller, target, true)
}

/// Fails with `EPERM` unless `changer` may read and set limits of `target` (prlimit(2)).
pub fn may_limit(changer: &ProcessRecord, target: &ProcessRecord) -> Result<(), Errno> {
    if core::ptr::eq(changer, target) || has(changer, Capability::Limits) {
        return Ok(());
    }
    let (own, theirs) = (Identity::of(changer), Identity::of(target));
    let is_same = theirs.users.all_are_same(own.users.real) && theirs.groups.all_are_same(own.groups.real);
    if is_same { Ok(()) } else { Err(Errno::EPERM) }
}

/// Fails with `EPERM` unless `changer` may say how and where threads of `target` run (setpriority(2),
/// sched_setaffinity(2), sched_setscheduler(2)): its effective user is the target's real or effective one.
pub fn may_change(changer: &ProcessRecord, target: &ProcessRecord) -> Result<(), Errno> {
    let (own, theirs) = (Identity::of(changer).users.effective, Identity::of(target).users);
    let may = own == theirs.real || own == theirs.effective || has(changer, Capability::Schedule);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Fails with `EACCES` unless `changer` may give a thread of `target` a nice value that is lower than it has: only as low as
/// the target's `RLIMIT_NICE` says.
pub fn may_lower_nice(changer: &ProcessRecord, target: &ProcessRecord, nice: i32) -> Result<(), Errno> {
    let limit = target.limits[2 * LIMIT_NICE].get();
    let may = (20 - nice) as u64 <= limit || has(changer, Capability::Schedule);
    if may { Ok(()) } else { Err(Errno::EACCES) }
}

/// Fails with `EPERM` unless `changer` may have a thread of `target` scheduled otherwise (sched(7)): a real-time policy only if the target's
/// `RLIMIT_RTPRIO` is not 0, a higher priority only as high as that says, and children may not get again what was not to be theirs.
pub fn may_schedule(
    changer: &ProcessRecord,
    target: &ProcessRecord,
    before: Schedule,
    after: Schedule,
) -> Result<(), Errno> {
    may_change(changer, target)?;
    let limit = target.limits[2 * LIMIT_REALTIME].get();
    let begins = after.is_realtime() && after.policy() != before.policy() && limit == 0;
    let rises = after.priority() > before.priority() && u64::from(after.priority()) > limit;
    let gives_again = before.resets_on_fork() && !after.resets_on_fork();
    let may = !(begins || rises || gives_again) || has(changer, Capability::Schedule);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Fails with `EPERM` unless a process may say of a message that these send it: process, user and group (unix(7), `SCM_CREDENTIALS`). They are its own, or it has
/// the capability to take them.
pub fn may_send_as(sender: &ProcessRecord, [pid, user, group]: [u32; 3]) -> Result<(), Errno> {
    let own = Identity::of(sender);
    let may = (pid == sender.pid.get() || has(sender, Capability::Administer))
        && (own.users.contains(UserId(user)) || has(sender, Capability::SetUsers))
        && (own.groups.contains(GroupId(group)) || has(sender, Capability::SetGroups));
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

//! Sets of semaphores (semget(2), semop(2), semctl(2)).

use motet_abi::{
    Errno,
    ipc::{
        GETALL, GETNCNT, GETPID, GETVAL, GETZCNT, IPC_INFO, IPC_NOWAIT, IPC_RMID, IPC_SET, IPC_STAT, S_IRUGO, S_IWUGO,
        SEM_INFO, SEM_STAT, SEM_STAT_ANY, SEM_UNDO, SETALL, SETVAL, Sembuf, SemidDs, Seminfo,
    },
    wire::Wire,
};
use motet_hal::Machine;
use motet_layout::IpcObject;
use motet_protocol::{
    ipc::{
        self, Kind,
        semaphore::{
            ALL_MAX, OPERATIONS_MAX, Operation, Outcome, SET_MAX, VALUE_MAX, cost_of, last_process, operate, prepare,
            set_value, set_values, value, waits_for,
        },
        undo,
    },
    wait,
};

use super::{Told, find, find_own, find_told, find_usable, get, maker, now_s, perm_of, read_perm, set_perm, wait_in};
use crate::{
    call::{Call, Stop, SysResult, cost},
    time,
};

const SIZE: usize = Sembuf::SIZE;
/// Values that are copied at once.
const AT_ONCE: usize = 512;
/// What Linux says a record of undoing has, in bytes (`SEMUSZ`).
const UNDO_SIZE: u32 = 20;

/// `semget(key, count, flags)`.
pub fn semget<M: Machine>(call: &Call<M>) -> SysResult {
    let [key, count, flags, ..] = call.args;
    let count = u64::from(count as u32);
    if count > SET_MAX {
        return Err(Errno::EINVAL.into());
    }
    let check = |set: &'static IpcObject| if count > set.size.get() { Err(Errno::EINVAL) } else { Ok(()) };
    get(call, Kind::Set, (key as u32, flags as u32), check, |key, mode| {
        if count == 0 {
            return Err(Errno::EINVAL);
        }
        if ipc::table(call.cpu, Kind::Set).total.get() + count > ALL_MAX {
            return Err(Errno::ENOSPC);
        }
        ipc::make(call.cpu, Kind::Set, (key, mode), &maker(call), cost_of(count), |set| prepare(call.cpu, set, count))
    })
}

/// `semop(id, operations, count)`.
pub fn semop<M: Machine>(call: &Call<M>) -> SysResult {
    operate_all(call, 0)
}

/// `semtimedop(id, operations, count, timeout)`.
pub fn semtimedop<M: Machine>(call: &Call<M>) -> SysResult {
    operate_all(call, call.args[3])
}

fn operate_all<M: Machine>(call: &Call<M>, timeout: u64) -> SysResult {
    let [id, address, count, ..] = call.args;
    let count = u64::from(count as u32) as usize;
    if timeout != 0 && call.thread.deadline_ns.get() == 0 {
        call.thread.deadline_ns.set(time::deadline_of(call, timeout, false, false)?);
    }
    if count > OPERATIONS_MAX {
        return Err(Errno::E2BIG.into());
    }
    if count == 0 || (id as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = [0; OPERATIONS_MAX * SIZE];
    let bytes = &mut bytes[..count * SIZE];
    call.read_user(address, bytes)?;
    let all = || bytes.chunks_exact(SIZE).map(Sembuf::take);
    let operation_of = |wanted: Sembuf| Operation {
        number: wanted.sem_num,
        change: wanted.sem_op,
        undo: u32::from(wanted.sem_flg) & SEM_UNDO != 0,
    };
    let changes = all().any(|wanted| wanted.sem_op != 0);
    let (_guard, set) = find(call, Kind::Set, id)?;
    if all().any(|wanted| u64::from(wanted.sem_num) >= set.size.get()) {
        return Err(Errno::EFBIG.into());
    }
    crate::permission::may_use_ipc(call.process, set, if changes { S_IWUGO } else { S_IRUGO })?;
    let list = prepare_undo(call, set, all().map(operation_of))?;
    let pid = call.process.pid.get();
    match operate(call.cpu, set, all().map(operation_of), list, pid) {
        Outcome::Done => {
            set.times_s[0].set(now_s(call.cpu));
            Ok(0)
        }
        Outcome::OutOfRange => Err(Errno::ERANGE.into()),
        Outcome::Waits(index) => {
            let wanted = Sembuf::take(&bytes[index * SIZE..]);
            if u32::from(wanted.sem_flg) & IPC_NOWAIT != 0 || call.timed_out() {
                return Err(Errno::EAGAIN.into());
            }
            let operation = operation_of(wanted);
            call.thread.scratch[0].set(code_of(operation.number, operation.change == 0));
            wait_in(call, &set.waiters[0], waits_for(operation, count > 1))
        }
    }
}

/// What a thread that waits for a semaphore keeps: which one, and whether it is to be 0.
fn code_of(number: u16, is_zero: bool) -> u64 {
    1 + (u64::from(number) << 1 | u64::from(is_zero))
}

/// Makes room for what operations have to undo. The list that has it, if they have any.
fn prepare_undo<M: Machine>(
    call: &Call<M>,
    set: &'static IpcObject,
    operations: impl Iterator<Item = Operation>,
) -> Result<Option<&'static motet_layout::IpcUndoList>, Errno> {
    let mut list = None;
    let maker = maker(call);
    for operation in operations.filter(|operation| operation.undo) {
        let own = undo::make_list(call.cpu, call.process)?;
        undo::prepare(call.cpu, set, own, operation.number, (maker.uid, maker.is_privileged))?;
        list = Some(own);
    }
    Ok(list)
}

/// `semctl(id, number, command, argument)`.
pub fn semctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, number, command, ..] = call.args;
    if (id as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    match command as u32 {
        IPC_STAT => tell(call, Told::ById),
        SEM_STAT => tell(call, Told::ByPlace),
        SEM_STAT_ANY => tell(call, Told::Any),
        command @ (IPC_INFO | SEM_INFO) => tell_limits(call, command == SEM_INFO),
        GETALL => get_all(call),
        SETALL => set_all(call),
        command @ (GETVAL | GETPID | GETNCNT | GETZCNT) => get_one(call, number as u32, command),
        SETVAL => set_one(call, number as u32),
        IPC_SET => set(call),
        IPC_RMID => {
            let (_guard, set) = find_own(call, Kind::Set, id)?;
            ipc::remove(call.cpu, set);
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

fn tell<M: Machine>(call: &Call<M>, how: Told) -> SysResult {
    let (guard, set, result) = find_told(call, Kind::Set, call.args[0], how)?;
    let told =
        SemidDs { perm: perm_of(set), otime: set.times_s[0].get(), ctime: set.changed_s.get(), nsems: set.size.get() };
    drop(guard);
    let (bytes, len) = told.encode(call.isa);
    call.write_user(call.args[3], &bytes[..len])?;
    Ok(result)
}

fn tell_limits<M: Machine>(call: &Call<M>, tells_usage: bool) -> SysResult {
    let (count, total, highest) = {
        let _guard = ipc::lock_all(call.cpu);
        let table = ipc::table(call.cpu, Kind::Set);
        (table.count.get(), table.total.get() as u32, ipc::highest(call.cpu, Kind::Set))
    };
    let told = Seminfo {
        semmap: ALL_MAX as u32,
        semmni: Kind::Set.most(),
        semmns: ALL_MAX as u32,
        semmnu: ALL_MAX as u32,
        semmsl: SET_MAX as u32,
        semopm: OPERATIONS_MAX as u32,
        semume: OPERATIONS_MAX as u32,
        semusz: if tells_usage { count } else { UNDO_SIZE },
        semvmx: VALUE_MAX as u32,
        semaem: if tells_usage { total } else { VALUE_MAX as u32 },
    };
    call.write_user(call.args[3], &told.to_bytes())?;
    Ok(u64::from(highest))
}

fn set<M: Machine>(call: &Call<M>) -> SysResult {
    let perm = read_perm(call, call.args[3])?;
    let (_guard, set) = find_own(call, Kind::Set, call.args[0])?;
    set_perm(set, &perm, now_s(call.cpu))?;
    Ok(0)
}

fn get_one<M: Machine>(call: &Call<M>, number: u32, command: u32) -> SysResult {
    let (_guard, set) = find_usable(call, Kind::Set, call.args[0], S_IRUGO)?;
    let number =
        u16::try_from(number).ok().filter(|&number| u64::from(number) < set.size.get()).ok_or(Errno::EINVAL)?;
    let waiting = |is_zero: bool| {
        let code = code_of(number, is_zero);
        wait::count(call.cpu, &set.waiters[0], |thread| thread.scratch[0].get() == code)
    };
    Ok(u64::from(match command {
        GETVAL => value(call.cpu, set, number) as u32,
        GETPID => last_process(call.cpu, set, number),
        GETNCNT => waiting(false),
        _ => waiting(true),
    }))
}

fn set_one<M: Machine>(call: &Call<M>, number: u32) -> SysResult {
    let new = call.args[3] as i32;
    if !(0..=VALUE_MAX).contains(&new) {
        return Err(Errno::ERANGE.into());
    }
    let (_guard, set) = find(call, Kind::Set, call.args[0])?;
    let number =
        u16::try_from(number).ok().filter(|&number| u64::from(number) < set.size.get()).ok_or(Errno::EINVAL)?;
    crate::permission::may_use_ipc(call.process, set, S_IWUGO)?;
    set.changed_s.set(now_s(call.cpu));
    set_value(call.cpu, set, number, new, call.process.pid.get());
    Ok(0)
}

/// The first and the next semaphores of a set that are copied at once, up to `size`.
fn parts(size: u64) -> impl Iterator<Item = (usize, usize)> {
    (0..size as usize).step_by(AT_ONCE).map(move |first| (first, (size as usize - first).min(AT_ONCE)))
}

/// Tells all values; those of a large set part by part.
fn get_all<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, _, _, address, ..] = call.args;
    let size = find_usable(call, Kind::Set, id, S_IRUGO)?.1.size.get();
    let mut values = [0; 2 * AT_ONCE];
    for (first, len) in parts(size) {
        {
            let (_guard, set) = find(call, Kind::Set, id).map_err(|_| Errno::EIDRM)?;
            for (place, number) in values.chunks_exact_mut(2).zip((first..).take(len)) {
                (value(call.cpu, set, number as u16) as u16).put(place);
            }
        }
        call.write_user(address.wrapping_add(2 * first as u64), &values[..2 * len])?;
        call.serve_due(cost::PAGE);
    }
    Ok(0)
}

/// Sets all values, once all of them have been looked at; those of a large set part by part.
fn set_all<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, _, _, address, ..] = call.args;
    let size = find_usable(call, Kind::Set, id, S_IWUGO)?.1.size.get();
    let mut values = [0; AT_ONCE];
    for (first, len) in parts(size) {
        read_values(call, address, first, &mut values[..len])?;
    }
    for (first, len) in parts(size) {
        read_values(call, address, first, &mut values[..len])?;
        let (_guard, set) = find(call, Kind::Set, id).map_err(|_| Errno::EIDRM)?;
        if first == 0 {
            undo::forget(call.cpu, set, 0..=u16::MAX);
            set.changed_s.set(now_s(call.cpu));
        }
        set_values(call.cpu, set, first as u16, &values[..len], call.process.pid.get());
    }
    Ok(0)
}

fn read_values<M: Machine>(call: &Call<M>, address: u64, first: usize, values: &mut [u16]) -> Result<(), Stop> {
    let mut bytes = [0; 2 * AT_ONCE];
    let bytes = &mut bytes[..2 * values.len()];
    call.read_user(address.wrapping_add(2 * first as u64), bytes)?;
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(2)) {
        *value = u16::take(bytes);
        if i32::from(*value) > VALUE_MAX {
            return Err(Errno::ERANGE.into());
        }
    }
    call.serve_due(cost::PAGE);
    Ok(())
}

//! Segments of shared memory (shmget(2), shmop(2), shmctl(2)). Their pages are a file's without a name.

use motet_abi::{
    Errno,
    ipc::{
        IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, S_IRUGO, S_IWUGO, S_IXUGO, SHM_EXEC, SHM_HUGETLB, SHM_INFO, SHM_LOCK,
        SHM_RDONLY, SHM_REMAP, SHM_RND, SHM_STAT, SHM_STAT_ANY, SHM_UNLOCK, ShmInfo, ShmInfo64, ShmidDs,
    },
};
use motet_hal::Machine;
use motet_layout::{
    IPC_DESTROYED, IPC_LOCKED, InodeRecord, IpcObject, PAGE_SIZE, VMA_EXECUTE, VMA_NEVER_WRITE, VMA_READ, VMA_SHARED,
    VMA_WRITE, sync::Ordering,
};
use motet_protocol::{
    Context, fs,
    ipc::{self, Kind},
};

use super::{Told, find, find_own, find_told, find_usable, get, maker, now_s, perm_of, read_perm, set_perm};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    due, mm,
    permission::{self, Capability, owns_ipc},
};

/// Bytes of a segment (`SHMMAX`), and pages of all (`SHMALL`): as many as there is memory for.
pub const SHMMAX: u64 = u64::MAX - (1 << 24);
const SHMMIN: u64 = 1;
/// What a look at a segment costs.
const LOOKED: u64 = 30;

/// `shmget(key, size, flags)`.
pub fn shmget<M: Machine>(call: &Call<M>) -> SysResult {
    let [key, size, flags, ..] = call.args;
    let flags = flags as u32;
    let check = |segment: &'static IpcObject| if size > segment.size.get() { Err(Errno::EINVAL) } else { Ok(()) };
    get(call, Kind::Segment, (key as u32, flags), check, |key, mode| {
        // There are no huge pages.
        if !(SHMMIN..=SHMMAX).contains(&size) || flags & SHM_HUGETLB != 0 {
            return Err(Errno::EINVAL);
        }
        make(call, key, mode, size)
    })
}

fn make<M: Machine>(call: &Call<M>, key: u32, mode: u32, size: u64) -> Result<&'static IpcObject, Errno> {
    let (cpu, maker) = (call.cpu, maker(call));
    let len = size.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::EINVAL)?;
    if len > cpu.pool.len() {
        return Err(Errno::ENOMEM);
    }
    ipc::make(cpu, Kind::Segment, (key, mode), &maker, len, |segment| {
        let attributes =
            fs::Attributes { mode: fs::TYPE_REGULAR | 0o600, now_ns: cpu.realtime_ns(), ..fs::Attributes::default() };
        let pages = fs::new_inode(cpu, attributes).map_err(|_| Errno::ENOMEM)?;
        if let Err(errno) = fs::truncate(cpu, pages, len) {
            fs::put(cpu, pages);
            return Err(errno);
        }
        segment.size.set(size);
        segment.pids[0].set(maker.pid);
        segment.words[0].set(key);
        pages.segment.store(cpu.raw(segment), Ordering::Relaxed);
        segment.inode.set(cpu.raw(pages));
        Ok(())
    })
}

fn pages_of<M: Machine>(cpu: &Cpu<M>, segment: &IpcObject) -> Option<&'static InodeRecord> {
    cpu.object(segment.inode.get())
}

/// `shmat(id, address, flags)`.
pub fn shmat<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, address, flags, ..] = call.args;
    let flags = flags as u32;
    let address = match address {
        0 if flags & SHM_REMAP != 0 => return Err(Errno::EINVAL.into()),
        0 => None,
        _ if address % PAGE_SIZE == 0 => Some(address),
        _ if flags & SHM_RND == 0 => return Err(Errno::EINVAL.into()),
        _ => match address & !(PAGE_SIZE - 1) {
            0 if flags & SHM_REMAP != 0 => return Err(Errno::EINVAL.into()),
            address => Some(address),
        },
    };
    let (mut wanted, mut access) = (VMA_SHARED | VMA_READ, S_IRUGO);
    if flags & SHM_RDONLY != 0 {
        wanted |= VMA_NEVER_WRITE;
    } else {
        wanted |= VMA_WRITE;
        access |= S_IWUGO;
    }
    if flags & SHM_EXEC != 0 {
        wanted |= VMA_EXECUTE;
        access |= S_IXUGO;
    }
    let len = {
        let (_guard, segment) = find_usable(call, Kind::Segment, id, access)?;
        segment.size.get().next_multiple_of(PAGE_SIZE)
    };
    let attachment = mm::Attachment { address, len, flags: wanted, replaces: flags & SHM_REMAP != 0 };
    mm::attach(call, &attachment, || {
        let (guard, segment) = find_usable(call, Kind::Segment, id, access)?;
        let pages = pages_of(call.cpu, segment).ok_or(Errno::EINVAL)?;
        segment.times_s[0].set(now_s(call.cpu));
        segment.pids[1].set(call.process.pid.get());
        Ok((guard, pages))
    })
}

/// `shmdt(address)`.
pub fn shmdt<M: Machine>(call: &Call<M>) -> SysResult {
    let address = call.args[0];
    if address % PAGE_SIZE != 0 {
        return Err(Errno::EINVAL.into());
    }
    mm::detach(call, address)?;
    Ok(0)
}

/// `shmctl(id, command, buffer)`.
pub fn shmctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [id, command, ..] = call.args;
    if (id as i32) < 0 || (command as i32) < 0 {
        return Err(Errno::EINVAL.into());
    }
    match command as u32 {
        IPC_STAT => tell(call, Told::ById),
        SHM_STAT => tell(call, Told::ByPlace),
        SHM_STAT_ANY => tell(call, Told::Any),
        IPC_INFO => tell_limits(call),
        SHM_INFO => tell_usage(call),
        IPC_SET => set(call),
        IPC_RMID => remove(call),
        SHM_LOCK => set_locked(call, true),
        SHM_UNLOCK => set_locked(call, false),
        _ => Err(Errno::EINVAL.into()),
    }
}

fn tell<M: Machine>(call: &Call<M>, how: Told) -> SysResult {
    let (guard, segment, result) = find_told(call, Kind::Segment, call.args[0], how)?;
    let told = ShmidDs {
        shm_perm: perm_of(segment),
        shm_segsz: segment.size.get(),
        shm_atime: segment.times_s[0].get(),
        shm_dtime: segment.times_s[1].get(),
        shm_ctime: segment.changed_s.get(),
        shm_cpid: segment.pids[0].get(),
        shm_lpid: segment.pids[1].get(),
        shm_nattch: ipc::attached(call.cpu, segment),
    };
    drop(guard);
    call.write_user(call.args[2], &told.to_bytes())?;
    Ok(result)
}

fn tell_limits<M: Machine>(call: &Call<M>) -> SysResult {
    let most = u64::from(Kind::Segment.most());
    let told = ShmInfo64 { shmmax: SHMMAX, shmmin: SHMMIN, shmmni: most, shmseg: most, shmall: SHMMAX };
    call.write_user(call.args[2], &told.to_bytes())?;
    let _guard = ipc::lock_all(call.cpu);
    Ok(u64::from(ipc::highest(call.cpu, Kind::Segment)))
}

fn tell_usage<M: Machine>(call: &Call<M>) -> SysResult {
    let cpu = call.cpu;
    let (told, highest) = {
        let _guard = ipc::lock_all(cpu);
        let table = ipc::table(cpu, Kind::Segment);
        let resident = (0..table.high.get()).filter_map(|place| {
            due::spend_locked(cpu, LOOKED);
            pages_of(cpu, ipc::at(cpu, Kind::Segment, place)?).map(|pages| u64::from(pages.page_count.get()))
        });
        let shm_rss = resident.sum();
        let shm_tot = table.total.get() / PAGE_SIZE;
        (ShmInfo { used_ids: table.count.get(), shm_tot, shm_rss, shm_swp: 0 }, ipc::highest(cpu, Kind::Segment))
    };
    call.write_user(call.args[2], &told.to_bytes())?;
    Ok(u64::from(highest))
}

fn set<M: Machine>(call: &Call<M>) -> SysResult {
    let perm = read_perm(call, call.args[2])?;
    let (_guard, segment) = find_own(call, Kind::Segment, call.args[0])?;
    set_perm(segment, &perm, now_s(call.cpu))?;
    Ok(0)
}

/// A segment goes when nobody has it attached: at once, or with its last mapping.
fn remove<M: Machine>(call: &Call<M>) -> SysResult {
    let (_guard, segment) = find_own(call, Kind::Segment, call.args[0])?;
    ipc::forget_key(call.cpu, segment);
    segment.mode.set(segment.mode.get() | IPC_DESTROYED);
    ipc::remove_unless_attached(call.cpu, segment);
    Ok(0)
}

fn set_locked<M: Machine>(call: &Call<M>, is_locked: bool) -> SysResult {
    let (_guard, segment) = find(call, Kind::Segment, call.args[0])?;
    if !permission::has(call.process, Capability::LockMemory) {
        if !owns_ipc(call.process, segment) {
            return Err(Errno::EPERM.into());
        }
        if is_locked && segment.mode.get() & IPC_LOCKED == 0 {
            mm::check_locked(call.process, segment.size.get())?;
        }
    }
    // Pages of files stay in memory here in any case.
    let others = segment.mode.get() & !IPC_LOCKED;
    segment.mode.set(if is_locked { others | IPC_LOCKED } else { others });
    Ok(0)
}

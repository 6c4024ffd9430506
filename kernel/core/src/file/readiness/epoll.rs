//! Interest lists (`epoll`).
//!
//! A list holds a watch for each of its files, and a file has a tree of its watches, so that they go when it is closed. A watch stands
//! in its file's queues, and tells its list when the file wakes them (`motet_protocol::watch`). A thread that waits stands in
//! the list's own queue, and asks only the files of which the list has heard, or which were ready when they were asked last.
//! What came or went since a watch's last report, which `EPOLLET` asks, the file's own counts tell.
//!
//! Locks: the header's `epoll_lock` (which files are watched), then a list's, then that of a list that it watches.

use core::fmt::{self, Write};

use motet_abi::{
    Errno,
    file::{O_CLOEXEC, O_RDWR},
    terminal::*,
};
use motet_hal::{Access, Machine};
use motet_layout::{Cell64, EpollRecord, FILE_EPOLL, FileRecord, PoolAddr, WatchRecord, in_order, sync::Ordering};
use motet_protocol::{Context, lock::lock, slab, wait, watch};

use super::poll::{self, Asked};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    description::kind::{Facts, INPUT, Kind, Queues, if_so, queues},
    due,
    file::descriptor::{
        description::OpenFile,
        owner,
        table::{self, open_anonymous},
    },
    time,
};

/// Events returned by one call at most; the rest come with the next.
const EVENTS_AT_ONCE: usize = 64;
/// What may be asked of a file together with `EPOLLEXCLUSIVE`.
const WITH_EXCLUSIVE: u32 = EPOLLEXCLUSIVE | EPOLLWAKEUP | EPOLLET | (POLLIN | POLLOUT | POLLERR | POLLHUP) as u32;
/// Bits that say how to report, and not what.
const HOW: u32 = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE;
/// What is reported without being asked.
const ALWAYS: u32 = (POLLERR | POLLHUP) as u32;

/// `epoll_create(size)`.
pub fn epoll_create<M: Machine>(call: &Call<M>) -> SysResult {
    if call.args[0] as i32 <= 0 {
        return Err(Errno::EINVAL.into());
    }
    create(call, 0)
}

/// `epoll_create1(flags)`.
pub fn epoll_create1<M: Machine>(call: &Call<M>) -> SysResult {
    create(call, call.args[0] as u32)
}

/// `epoll_ctl(list, operation, fd, event)`. Lists watch lists, but only such as watch none themselves.
pub fn epoll_ctl<M: Machine>(call: &Call<M>) -> SysResult {
    let [list_fd, operation, fd, event, ..] = call.args;
    let operation = operation as u32;
    let event = if operation == EPOLL_CTL_DEL { EpollEvent::default() } else { read_event(call, event)? };
    let (list_file, file) = (table::get(call, list_fd as i32)?, table::get(call, fd as i32)?);
    poll::check_waitable(&file)?;
    let list = list_of(&list_file)?;
    if core::ptr::eq(list_file.record(), file.record()) {
        return Err(Errno::EINVAL.into());
    }
    let may_exclude = event.events & !WITH_EXCLUSIVE == 0 && file.record().kind.get() != FILE_EPOLL;
    if event.events & EPOLLEXCLUSIVE != 0 && !may_exclude {
        return Err(Errno::EINVAL.into());
    }
    match operation {
        EPOLL_CTL_ADD => add(call, (list, list_file.record()), (file.record(), fd as u32), event)?,
        EPOLL_CTL_DEL => remove(call, list, file.record(), fd as u32)?,
        EPOLL_CTL_MOD => change(call, list, file.record(), fd as u32, event)?,
        _ => return Err(Errno::EINVAL.into()),
    }
    // Those who wait now wait for other files, too.
    wait::wake(call.cpu, &list.waiters);
    Ok(0)
}

/// `epoll_wait(list, events, most, timeout_ms)`.
pub fn epoll_wait<M: Machine>(call: &Call<M>) -> SysResult {
    wait_for_events(call, poll::milliseconds(call.args[3]))
}

/// `epoll_pwait(list, events, most, timeout_ms, mask, mask_size)`.
pub fn epoll_pwait<M: Machine>(call: &Call<M>) -> SysResult {
    poll::with_mask(call, (call.args[4], call.args[5]), || epoll_wait(call))
}

/// `epoll_pwait2(list, events, most, timeout, mask, mask_size)`.
pub fn epoll_pwait2<M: Machine>(call: &Call<M>) -> SysResult {
    let [.., timeout, mask, mask_size] = call.args;
    let timeout_ns = if timeout == 0 { None } else { Some(time::read_timespec(call, timeout)?) };
    poll::with_mask(call, (mask, mask_size), || wait_for_events(call, timeout_ns))
}

/// An interest list.
#[derive(Clone, Copy)]
pub struct Epoll(&'static EpollRecord);

impl Kind for Epoll {
    const CODES: &'static [u32] = &[FILE_EPOLL];
    // It may hold what changes with time alone.
    const FACTS: Facts = Facts { is_asked: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "anon_inode:[eventpoll]")
    }

    /// Whether it has an event to report.
    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        if_so(look_through(call, self.0, &mut []) > 0, INPUT)
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        queues(Some(&self.0.waiters), None)
    }

    /// When the first of its files becomes ready by time alone.
    fn ready_ns<M: Machine>(self, call: &Call<M>) -> u64 {
        let _guard = lock(call.cpu, &self.0.lock);
        let watched = ASKED.watches(call.cpu, self.0).filter(|watch| watch.events.get() & !HOW != 0);
        watched.map(|watch| file_of(call, watch).ready_ns(call)).min().unwrap_or(u64::MAX)
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        free(cpu, self.0);
    }
}

/// Removes a file that is closed for good from all lists that watch it.
#[cold]
pub fn forget<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    let _all = lock(cpu, &cpu.pool.header().epoll_lock);
    while let Some(watch) = cpu.object::<WatchRecord>(file.watches.get()) {
        let list = cpu.pool.at::<EpollRecord>(PoolAddr(watch.list.get()));
        let _guard = lock(cpu, &list.lock);
        discard(cpu, list, file, watch);
    }
}

/// The queues of a file are others from now on: its watches go there, and who is told by a signal. Before the old ones go.
pub fn queues_have_changed<M: Machine>(cpu: &Cpu<M>, file: &'static FileRecord) {
    let _all = lock(cpu, &cpu.pool.header().epoll_lock);
    owner::queues_have_changed(cpu, file);
    let watches = watch::of_file(cpu, file);
    for watch in watches.from(watches.first()) {
        let list = cpu.pool.at::<EpollRecord>(PoolAddr(watch.list.get()));
        let _guard = lock(cpu, &list.lock);
        let queues = OpenFile::new(cpu, file, false).queues();
        // For who repairs the list.
        for (left, (queue, _)) in watch.left.iter().zip(queues) {
            left.set(queue.map_or(0, |queue| cpu.raw(queue)));
        }
        in_order();
        watch::leave(cpu, watch);
        for (side, (queue, events)) in queues.into_iter().enumerate() {
            if let Some(queue) = queue {
                watch::enter(cpu, watch, side, queue, u32::from(events));
            }
            in_order();
            watch.left[side].set(0);
        }
        ask(cpu, list, watch);
        wait::wake(cpu, &list.waiters);
        due::spend_locked(cpu, cost::OBJECT);
    }
}

/// Frees a list whose last open file was closed.
fn free<M: Machine>(cpu: &Cpu<M>, list: &'static EpollRecord) {
    {
        let _all = lock(cpu, &cpu.pool.header().epoll_lock);
        let _guard = lock(cpu, &list.lock);
        while let Some(watch) = ALL.first(cpu, list) {
            discard(cpu, list, cpu.pool.at(PoolAddr(watch.file.get())), watch);
            due::spend_locked(cpu, cost::OBJECT);
        }
    }
    // Nodes of threads that still wait must not stay linked in memory that becomes another list.
    wait::wake(cpu, &list.waiters);
    slab::free(cpu, list);
}

fn create<M: Machine>(call: &Call<M>, flags: u32) -> SysResult {
    if flags & !O_CLOEXEC != 0 {
        return Err(Errno::EINVAL.into());
    }
    let list = slab::alloc::<EpollRecord>(call.cpu).ok_or(Errno::ENOMEM)?;
    open_anonymous(call, FILE_EPOLL, list, O_RDWR | flags)
}

fn list_of<M: Machine>(file: &OpenFile<M>) -> Result<&'static EpollRecord, Errno> {
    file.as_kind().map(|Epoll(list)| list).ok_or(Errno::EINVAL)
}

fn read_event<M: Machine>(call: &Call<M>, address: u64) -> Result<EpollEvent, Stop> {
    let mut bytes = [0; 16];
    call.read_user(address, &mut bytes[..EpollEvent::size(call.isa)])?;
    Ok(EpollEvent::decode(call.isa, &bytes))
}

fn add<M: Machine>(
    call: &Call<M>,
    (list, list_file): (&'static EpollRecord, &'static FileRecord),
    (file, fd): (&'static FileRecord, u32),
    event: EpollEvent,
) -> Result<(), Errno> {
    let cpu = call.cpu;
    let watch = slab::alloc::<WatchRecord>(cpu).ok_or(Errno::ENOMEM)?;
    let _all = lock(cpu, &cpu.pool.header().epoll_lock);
    let _guard = lock(cpu, &list.lock);
    let refused = if watch::find(cpu, file, list, fd).is_some() {
        Some(Errno::EEXIST)
    } else if file.kind.get() == FILE_EPOLL && (list_file.watches.get() != 0 || nests(cpu, file)) {
        Some(Errno::ELOOP)
    } else {
        None
    };
    if let Some(errno) = refused {
        slab::free(cpu, watch);
        return Err(errno);
    }
    watch.list.set(cpu.raw(list));
    watch.fd.set(fd);
    set(watch, event);
    begin_change(cpu, watch);
    watch::enter_file(cpu, file, watch);
    ALL.append(cpu, list, watch);
    list.lists.set(list.lists.get() + u32::from(file.kind.get() == FILE_EPOLL));
    ask(cpu, list, watch);
    for (side, (queue, events)) in file_of(call, watch).queues().into_iter().enumerate() {
        if let Some(queue) = queue {
            watch::enter(cpu, watch, side, queue, u32::from(events));
        }
    }
    end_change(cpu);
    Ok(())
}

fn remove<M: Machine>(
    call: &Call<M>,
    list: &'static EpollRecord,
    file: &'static FileRecord,
    fd: u32,
) -> Result<(), Errno> {
    let _all = lock(call.cpu, &call.cpu.pool.header().epoll_lock);
    let _guard = lock(call.cpu, &list.lock);
    let watch = watch::find(call.cpu, file, list, fd).ok_or(Errno::ENOENT)?;
    discard(call.cpu, list, file, watch);
    Ok(())
}

fn change<M: Machine>(
    call: &Call<M>,
    list: &'static EpollRecord,
    file: &'static FileRecord,
    fd: u32,
    event: EpollEvent,
) -> Result<(), Errno> {
    let _all = lock(call.cpu, &call.cpu.pool.header().epoll_lock);
    let _guard = lock(call.cpu, &list.lock);
    let watch = watch::find(call.cpu, file, list, fd).ok_or(Errno::ENOENT)?;
    if (event.events | watch.events.get()) & EPOLLEXCLUSIVE != 0 {
        return Err(Errno::EINVAL);
    }
    set(watch, event);
    ask(call.cpu, list, watch);
    Ok(())
}

fn wait_for_events<M: Machine>(call: &Call<M>, timeout_ns: Option<u64>) -> SysResult {
    let [list_fd, events, most, ..] = call.args;
    let list_file = table::get(call, list_fd as i32)?;
    let list = list_of(&list_file)?;
    let size = EpollEvent::size(call.isa);
    let most = usize::try_from(most as i32).map_err(|_| Errno::EINVAL)?;
    if most == 0 || most > i32::MAX as usize / size {
        return Err(Errno::EINVAL.into());
    }
    let most = most.min(EVENTS_AT_ONCE);
    // Now: an event that could not be stored would be lost.
    call.user_runs(events, (most * size) as u64, Access::Write, |_, _| Ok(()))?;
    let mut found = [EpollEvent::default(); EVENTS_AT_ONCE];
    let count = poll::wait_until_ready(call, timeout_ns, |enter_queues| {
        let mut asked = Asked::default();
        if enter_queues {
            poll::enter(call, &list_file, POLLIN, &mut asked);
        }
        asked.ready = look_through(call, list, &mut found[..most]);
        Ok(asked)
    })?;
    for (index, event) in found[..count as usize].iter().enumerate() {
        call.write_user(events + (index * size) as u64, &event.encode(call.isa)[..size])?;
        call.serve_due(cost::PAGE);
    }
    Ok(count)
}

/// Looks which files of a list are ready: of those of which something was heard, or which were ready before. As many events as there is room for are reported, each once if it is an edge or
/// was asked for once; without room the list is only asked whether there is one.
fn look_through<M: Machine>(call: &Call<M>, list: &'static EpollRecord, into: &mut [EpollEvent]) -> u64 {
    let cpu = call.cpu;
    let _guard = lock(cpu, &list.lock);
    watch::take_ready(cpu, list, |watch| ask(cpu, list, watch));
    let mut ready = 0;
    let last = list.asked[1].get();
    let mut at = list.asked[0].get();
    while let Some(watch) = cpu.object::<WatchRecord>(at) {
        let is_last = at == last;
        at = watch.asked[1].get();
        due::spend_locked(cpu, 2 * cost::OBJECT);
        if let Some(event) = event_of(call, watch) {
            if let Some(place) = into.get_mut(ready) {
                *place = event.shown;
                report(call, list, watch, event.counts);
            }
            ready += 1;
        } else {
            await_events(call, list, watch);
        }
        if is_last || ready > 0 && ready >= into.len() {
            break;
        }
    }
    ready as u64
}

/// What a watch would report.
struct Event {
    shown: EpollEvent,
    /// The file's counts, read before its readiness was: what comes in between is reported again rather than not.
    counts: [Option<u64>; 2],
}

fn event_of<M: Machine>(call: &Call<M>, watch: &WatchRecord) -> Option<Event> {
    let wanted = watch.events.get();
    if wanted & !HOW == 0 {
        return None;
    }
    let file = file_of(call, watch);
    let counts = file.arrivals();
    let ready = u32::from(poll::readiness(call, &file)) & wanted;
    let is_new = |bits: u16, side: usize| {
        let seen = wanted & EPOLLET != 0 && watch.reported.get() != 0 && counts[side] == Some(watch.seen[side].get());
        ready & u32::from(bits) != 0 && !seen
    };
    let outgoing = POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR;
    (is_new(!outgoing, 0) || is_new(outgoing, 1))
        .then(|| Event { shown: EpollEvent { events: ready, data: watch.data.get() }, counts })
}

/// Notes that a watch's event is reported, and lets the others go first next time. The list's lock is held.
fn report<M: Machine>(
    call: &Call<M>,
    list: &'static EpollRecord,
    watch: &'static WatchRecord,
    counts: [Option<u64>; 2],
) {
    watch.reported.set(1);
    for (seen, count) in watch.seen.iter().zip(counts) {
        seen.set(count.unwrap_or(0));
    }
    if watch.events.get() & EPOLLONESHOT != 0 {
        watch.events.set(watch.events.get() & HOW);
    }
    ASKED.remove(call.cpu, list, watch);
    ASKED.append(call.cpu, list, watch);
    if watch.events.get() & EPOLLET != 0 {
        await_events(call, list, watch);
    }
}

/// The watch's file is asked when the list is looked through. The list's lock is held.
fn ask<M: Machine>(cpu: &Cpu<M>, list: &'static EpollRecord, watch: &'static WatchRecord) {
    if watch.is_asked.get() == 0 {
        watch.is_asked.set(1);
        ASKED.append(cpu, list, watch);
    }
}

/// The watch's file is not asked before something is heard of it: unless it may become ready without that.
fn await_events<M: Machine>(call: &Call<M>, list: &'static EpollRecord, watch: &'static WatchRecord) {
    if watch.is_asked.get() != 0 && !file_of(call, watch).facts().is_asked {
        watch.is_asked.set(0);
        ASKED.remove(call.cpu, list, watch);
    }
}

fn set(watch: &WatchRecord, event: EpollEvent) {
    watch.events.set(event.events | ALWAYS);
    watch.data.set(event.data);
    watch.reported.set(0);
}

/// The file that a watch is for, which stays while the list's lock is held.
fn file_of<'c, M: Machine>(call: &Call<'c, M>, watch: &WatchRecord) -> OpenFile<'c, M> {
    OpenFile::new(call.cpu, call.cpu.pool.at(PoolAddr(watch.file.get())), false)
}

/// Whether a list that is to be watched watches lists. The `epoll_lock` is held, so what it watches stays.
fn nests<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> bool {
    cpu.object::<EpollRecord>(file.object.get()).is_some_and(|list| list.lists.get() != 0)
}

/// Takes a watch out of its list and from its file, and frees it. Both locks are held.
fn discard<M: Machine>(
    cpu: &Cpu<M>,
    list: &'static EpollRecord,
    file: &'static FileRecord,
    watch: &'static WatchRecord,
) {
    begin_change(cpu, watch);
    watch::leave(cpu, watch);
    // Nobody puts it there any more.
    watch::take_ready(cpu, list, |watch| ask(cpu, list, watch));
    if watch.is_asked.get() != 0 {
        ASKED.remove(cpu, list, watch);
    }
    ALL.remove(cpu, list, watch);
    list.lists.set(list.lists.get() - u32::from(file.kind.get() == FILE_EPOLL));
    watch::leave_file(cpu, file, watch);
    end_change(cpu);
    slab::free(cpu, watch);
}

/// A watch is about to be among those of its file and not in its list, or the other way round. Both locks are held.
fn begin_change<M: Machine>(cpu: &Cpu<M>, watch: &'static WatchRecord) {
    cpu.pool.header().watch_changing.set(cpu.raw(watch));
    in_order();
}

fn end_change<M: Machine>(cpu: &Cpu<M>) {
    in_order();
    cpu.pool.header().watch_changing.set(0);
}

/// Repairs lists after cores have died. A dead core may have marked a watch and not pushed it onto its list's ready list, and no other core would push it any more. So all files of such
/// a list are asked. Every core that lives has passed; this one holds no lock.
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    let _watches = lock(cpu, &cpu.pool.header().epoll_lock);
    let is_marked = |watch: &&WatchRecord| watch.file.get() != 0 && watch.in_ready.load(Ordering::SeqCst) != 0;
    for watch in slab::all::<WatchRecord>(cpu).filter(is_marked) {
        if let Some(list) = cpu.object::<EpollRecord>(watch.list.get()) {
            let _guard = lock(cpu, &list.lock);
            recover_list(cpu, list);
        }
    }
}

/// Repairs which files are watched, when a core has died with the lock of that held: removes a watch that it was adding or discarding.
pub fn recover_all<M: Machine>(cpu: &Cpu<M>) {
    let Some(watch) = cpu.object::<WatchRecord>(cpu.pool.header().watch_changing.get()) else { return };
    let Some(file) = cpu.object::<FileRecord>(watch.file.get()) else {
        // It is nowhere yet, or any more.
        end_change(cpu);
        return slab::free(cpu, watch);
    };
    let list = cpu.pool.at::<EpollRecord>(PoolAddr(watch.list.get()));
    watch::recover_file(cpu, file);
    // The dead core had it, too: with it, the list is repaired.
    let _guard = lock(cpu, &list.lock);
    if ALL.watches(cpu, list).any(|other| core::ptr::eq(other, watch)) {
        discard(cpu, list, file, watch);
    } else {
        // In no queue, either: it enters them last, and leaves them first.
        watch::leave_file(cpu, file, watch);
        end_change(cpu);
        slab::free(cpu, watch);
    }
}

/// Repairs an interest list whose lock a dead core held and this one has now. Its forward links say which watches it has. All their files are asked, and the watches enter their queues again,
/// because the dead core may have taken events of some. In between the watches are in no queue, so no waker pushes one.
pub fn recover_list<M: Machine>(cpu: &Cpu<M>, list: &'static EpollRecord) {
    for watch in ALL.watches(cpu, list) {
        for (node, left) in watch.nodes.iter().zip(&watch.left) {
            if node.queue.load(Ordering::Relaxed) != 0 {
                left.set(node.queue.load(Ordering::Relaxed));
                in_order();
            }
        }
        watch::leave(cpu, watch);
    }
    list.ready.store(0, Ordering::Release);
    list.asked.iter().for_each(|end| end.set(0));
    let (mut previous, mut lists) = (0, 0);
    for watch in ALL.watches(cpu, list) {
        let is_list = |file: &FileRecord| file.kind.get() == FILE_EPOLL;
        lists += u32::from(cpu.object(watch.file.get()).is_some_and(is_list));
        watch.all[0].set(previous);
        previous = cpu.raw(watch);
        watch.in_ready.store(0, Ordering::Release);
        watch.is_asked.set(1);
        ASKED.append(cpu, list, watch);
    }
    list.all[1].set(previous);
    list.lists.set(lists);
    for watch in ALL.watches(cpu, list) {
        for (side, left) in watch.left.iter().enumerate() {
            if let Some(queue) = cpu.object(left.get()) {
                watch::enter(cpu, watch, side, queue, watch.nodes[side].bits.get());
                in_order();
                left.set(0);
            }
        }
    }
    wait::wake(cpu, &list.waiters);
}

/// A chain of a list's watches, linked in both directions. The list's lock is held.
struct Chain {
    /// First and last.
    ends: fn(&EpollRecord) -> &[Cell64; 2],
    /// Previous and next.
    links: fn(&WatchRecord) -> &[Cell64; 2],
}

/// All of them.
const ALL: Chain = Chain { ends: |list| &list.all, links: |watch| &watch.all };
/// Those whose files are asked.
const ASKED: Chain = Chain { ends: |list| &list.asked, links: |watch| &watch.asked };

impl Chain {
    fn first<M: Machine>(&self, cpu: &Cpu<M>, list: &EpollRecord) -> Option<&'static WatchRecord> {
        cpu.object((self.ends)(list)[0].get())
    }

    fn watches<M: Machine>(&self, cpu: &Cpu<M>, list: &EpollRecord) -> impl Iterator<Item = &'static WatchRecord> {
        core::iter::successors(self.first(cpu, list), |watch| cpu.object((self.links)(watch)[1].get()))
    }

    fn append<M: Machine>(&self, cpu: &Cpu<M>, list: &EpollRecord, watch: &'static WatchRecord) {
        let ([first, last], [previous, next]) = ((self.ends)(list), (self.links)(watch));
        next.set(0);
        previous.set(last.get());
        in_order();
        match cpu.object::<WatchRecord>(last.get()) {
            Some(before) => (self.links)(before)[1].set(cpu.raw(watch)),
            None => first.set(cpu.raw(watch)),
        }
        in_order();
        last.set(cpu.raw(watch));
    }

    fn remove<M: Machine>(&self, cpu: &Cpu<M>, list: &EpollRecord, watch: &WatchRecord) {
        let ([first, last], [previous, next]) = ((self.ends)(list), (self.links)(watch));
        match cpu.object::<WatchRecord>(previous.get()) {
            Some(before) => (self.links)(before)[1].set(next.get()),
            None => first.set(next.get()),
        }
        match cpu.object::<WatchRecord>(next.get()) {
            Some(after) => (self.links)(after)[0].set(previous.get()),
            None => last.set(previous.get()),
        }
    }
}

//! Whether what locks protect is whole when a run has ended: what is counted is what there is, and links go both ways. What a lock protects that
//! somebody has, dead or alive, is left out.

use std::collections::{BTreeMap, BTreeSet};

use motet_layout::sync::Ordering;
use motet_layout::{
    BLOCK_RESERVED, BY_PROCESS, Cell64, CoreId, DISTANCES, DmaFile, EntryRecord, EpollRecord, FILE_DMA, FILE_EPOLL,
    FILE_INOTIFY, FILE_PIPE_BOTH, FILE_PIPE_READ, FILE_PIPE_WRITE, FILE_PTY, FILE_PTY_MASTER, FILES_CLOEXEC,
    FileRecord, FilesRecord, Frame, IPC_UNDO, InodeRecord, InodeWatch, InotifyRecord, IpcMessage, IpcObject, IpcUndo,
    IpcUndoList, IpcUser, Lock, MoreNodes, OwnerRecord, PACKET_DROPPED, PACKET_IN_FLIGHT, PAGE_SIZE, PIPE_CAPACITY,
    POSIX_ARMED, PTY_MASTER, PacketRecord, PipeRecord, Pool, PoolAddr, PoolSafe, PosixTimerRecord, ProcessRecord,
    PtyRecord, QueuedSignal, SOCKET_LISTENING, SocketRecord, SpaceRecord, THREAD_FREE, TTY_INPUT_SIZE, ThreadRecord,
    TimerNode, ToldFrame, UserRecord, WaitNode, WaitQueue, WatchRecord,
};
use motet_protocol::{
    Context, hand,
    ipc::{self, Kind},
    lock,
    memory::{block, frame_record},
    pipe, rejoin, slab, threads,
    timer::of_process,
    treap::TreeNode,
};

/// Who looks.
struct Look(Pool);

impl Context for Look {
    fn core(&self) -> CoreId {
        CoreId::HOST
    }
    fn pool(&self) -> Pool {
        self.0
    }
    fn relax(&self) {}
    fn ring(&self, _target: CoreId) {}
}

/// Looks at a part of what locks protect, and says what is not whole there.
type Part = fn(&Look, &mut Vec<String>);

/// What is not whole, in words; nothing, if all is well.
pub fn broken(pool: Pool) -> Vec<String> {
    let look = Look(pool);
    let parts: [(&str, Part); 19] = [
        ("slabs", slabs),
        ("frames", frames),
        ("timers", timers),
        ("processes", processes),
        ("wait queues", wait_queues),
        ("directories", directories),
        ("pipes", pipes),
        ("sockets", sockets),
        ("packets", packets),
        ("files", files),
        ("descriptors", descriptors),
        ("interest lists", interest_lists),
        ("spaces", spaces),
        ("thread ids", ids),
        ("terminal", terminal),
        ("pseudo-terminals", ptys),
        ("transfers", transfers),
        ("System V IPC", ipc_of_system_v),
        ("watches of inodes", watches_of_inodes),
    ];
    let mut found = Vec::new();
    for (name, part) in parts {
        let mut of_it = Vec::new();
        part(&look, &mut of_it);
        found.extend(of_it.into_iter().map(|what| format!("{name}: {what}")));
    }
    found
}

fn is_free<const CLASS: u32>(lock: &Lock<CLASS>) -> bool {
    lock::holder(lock).is_none()
}

/// Says so unless both are the same.
fn same<T: PartialEq + std::fmt::Debug>(found: &mut Vec<String>, what: impl FnOnce() -> String, is: T, should: T) {
    if is != should {
        found.push(format!("{}: {is:?}, not {should:?}", what()));
    }
}

/// A list from a first one on, until it ends or comes back.
fn chain<T: PoolSafe>(pool: Pool, first: u64, next: impl Fn(&T) -> u64) -> Vec<&'static T> {
    let (mut list, mut seen, mut at) = (Vec::new(), BTreeSet::new(), first);
    while let Some(object) = pool.get::<T>(PoolAddr(at)).filter(|_| seen.insert(at)) {
        list.push(object);
        at = next(object);
    }
    list
}

fn slabs(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    let frames = || (0..(pool.len() / PAGE_SIZE) as u32).map(Frame);
    for (class, cache) in pool.header().slabs.iter().enumerate().filter(|(_, cache)| is_free(&cache.lock)) {
        let Some(per_frame) = (PAGE_SIZE as u32).checked_div(cache.object_size.get()) else { continue };
        let free: Vec<u32> = frames().filter_map(|frame| slab::free_in(pool, class, frame)).collect();
        let what = |what| move || format!("{what} of class {class}");
        same(found, what("objects"), cache.total.get(), free.len() as u32 * per_frame);
        same(found, what("objects in use"), cache.in_use.get(), cache.total.get() - free.iter().sum::<u32>());
        let listed = |frame| slab::listed_in(pool, frame, cache.object_size.get());
        let all_listed: u32 = frames().filter(|&frame| slab::free_in(pool, class, frame).is_some()).map(listed).sum();
        same(found, what("objects that are free"), free.iter().sum(), all_listed);
        let empty = free.iter().filter(|&&free| free == per_frame).count();
        same(found, what("empty frames"), cache.empty.get(), empty as u32);
        let list = |first: u32| {
            let next = |&at: &u32| Some(frame_record(pool, Frame(at)).next.get());
            std::iter::successors(Some(first), next).take_while(|&at| at != 0).take(1 << 20).collect::<Vec<u32>>()
        };
        let partial = list(cache.partial.get());
        let with_free = free.iter().filter(|&&free| free != 0).count();
        same(found, what("frames in the list"), partial.len(), with_free);
        let has_free = |&at: &u32| slab::free_in(pool, class, Frame(at)).is_some_and(|free| free != 0);
        same(
            found,
            what("frames with free objects in the list"),
            partial.iter().filter(|at| has_free(at)).count(),
            with_free,
        );
        same(found, what("retired frames"), list(cache.retired.get()).len() as u32, cache.retired_count.get());
    }
}

fn frames(look: &Look, found: &mut Vec<String>) {
    let (pool, state) = (look.pool(), &look.pool().header().memory);
    if !is_free(&state.lock) || !state.islands.iter().all(|share| is_free(&share.lock)) {
        return;
    }
    let words = state.block_frames.get() / 64;
    let word = |at: u32| pool.at::<Cell64>(PoolAddr(pool.header().frame_bitmap.get() + u64::from(at) * 8)).get();
    let owner = |at: u32| block(pool, at).owner.load(Ordering::Relaxed);
    let blocks = || 0..state.block_count.get();
    let unowned = blocks().filter(|&at| owner(at) == 0).count() as u32;
    same(found, || "free blocks".into(), state.free_blocks.load(Ordering::Relaxed), unowned);
    for (index, share) in state.islands.iter().enumerate() {
        let (mut free, mut owned) = (0, 0);
        for at in blocks().filter(|&at| owner(at) == index as u32 + 1 && owner(at) != BLOCK_RESERVED) {
            let set: u32 = (0..words).map(|offset| word(at * words + offset).count_ones()).sum();
            same(found, || format!("free frames of block {at}"), block(pool, at).free.get(), set);
            free += set;
            owned += 1;
        }
        let own = || format!("of island {index}");
        same(found, || format!("free {}", own()), share.free_frames.load(Ordering::Relaxed), free);
        same(found, || format!("frames {}", own()), share.owned_frames.load(Ordering::Relaxed), owned * words * 64);
        let by_distance: u32 = share.free_by_distance.iter().map(|free| free.get()).sum();
        same(found, || format!("free by distance {}", own()), by_distance, free);
        let mut listed = 0;
        for distance in 0..DISTANCES {
            let (mut at, mut seen) = (share.first[distance].get(), 0);
            while at != 0 && seen <= state.block_count.get() {
                (listed, seen, at) = (listed + 1, seen + 1, block(pool, at - 1).next.get());
            }
        }
        same(found, || format!("blocks in lists {}", own()), listed, owned);
    }
}

fn timers(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    for (index, core) in pool.header().cores.iter().enumerate().filter(|(_, core)| is_free(&core.timer_lock)) {
        let list: Vec<&TimerNode> = tree(look, found, &format!("timers of core {index}"), core.timer_root.get());
        for node in &list {
            same(found, || format!("core of one on core {index}"), node.core.load(Ordering::Relaxed), index as u32 + 1);
        }
        let process = |thread: &ThreadRecord| pool.get(PoolAddr(thread.process.load(Ordering::Relaxed)));
        let of_processes = threads::all(look).filter_map(process).map(|process: &ProcessRecord| &process.alarm);
        let posix = slab::all::<PosixTimerRecord>(look).map(|timer| &timer.node);
        let nodes = threads::all(look).map(|thread| &thread.timer).chain(of_processes).chain(posix);
        for node in nodes.filter(|node| node.core.load(Ordering::Relaxed) == index as u32 + 1) {
            let is_listed = list.iter().any(|listed| std::ptr::eq(*listed, node));
            same(found, || format!("whether {:#x} is on core {index}", look.raw(node)), is_listed, true);
        }
        if let Some(first) = list.first() {
            same(
                found,
                || format!("deadline of core {index}"),
                core.timer_deadline_ns.load(Ordering::Relaxed),
                first.deadline_ns.get(),
            );
        }
    }
}

/// The objects of a tree in its order, until they come back.
fn tree<N: TreeNode + 'static>(look: &Look, found: &mut Vec<String>, what: &str, root: u64) -> Vec<&'static N> {
    let (mut list, mut seen, mut open, mut at) = (Vec::<&N>::new(), BTreeSet::new(), Vec::new(), (root, 0));
    loop {
        while let Some(node) = look.pool().get::<N>(PoolAddr(at.0)).filter(|_| seen.insert(at.0)) {
            same(found, || format!("what is above {what}"), node.links().above.get(), at.1);
            open.push(node);
            at = (node.links().left.get(), at.0);
        }
        let Some(node) = open.pop() else { return list };
        let is_before = list.last().is_some_and(|last| node.is_before(last));
        same(found, || format!("order of {what}"), is_before, false);
        list.push(node);
        at = (node.links().right.get(), look.raw(node));
    }
}

fn processes(look: &Look, found: &mut Vec<String>) {
    let (pool, header) = (look.pool(), look.pool().header());
    if !is_free(&header.tree_lock) {
        return;
    }
    let of = |thread: &ThreadRecord| pool.get::<ProcessRecord>(PoolAddr(thread.process.load(Ordering::Relaxed)));
    let all: Vec<_> = threads::all(look)
        .filter_map(|thread| of(thread).filter(|process| process.pid.get() == thread.tid.get()))
        .collect();
    let mut tasks = 0;
    for process in &all {
        let pid = process.pid.get();
        let threads = chain::<ThreadRecord>(pool, process.threads.get(), |thread| thread.sibling.get());
        same(found, || format!("threads of {pid}"), process.thread_count.load(Ordering::Relaxed), threads.len() as u32);
        for (index, thread) in threads.iter().enumerate() {
            let before = index.checked_sub(1).map_or(0, |before| look.raw(threads[before]));
            same(found, || format!("thread before one of {pid}"), thread.sibling_before.get(), before);
        }
        tasks += threads.len().max(1) as u32;
        let children = chain::<ProcessRecord>(pool, process.first_child.get(), |child| child.next_sibling.get());
        let mut before = 0;
        for child in &children {
            same(found, || format!("previous child of {pid}"), child.prev_sibling.get(), before);
            same(
                found,
                || format!("parent of a child of {pid}"),
                child.parent.load(Ordering::Relaxed),
                look.raw(*process),
            );
            before = look.raw(*child);
        }
        let own = all.iter().filter(|child| child.parent.load(Ordering::Relaxed) == look.raw(*process)).count();
        same(found, || format!("children of {pid}"), children.len(), own);
    }
    let members: Vec<&ProcessRecord> = tree(look, found, "groups", header.groups.get());
    same(found, || "processes in groups".into(), members.len(), all.len());
    let of_processes = all.iter().map(|process| (&process.signal_queue, &process.signal_count));
    let queues = threads::all(look).map(|thread| (&thread.signal_queue, &thread.signal_count)).chain(of_processes);
    for (queue, count) in queues {
        let firsts = chain::<QueuedSignal>(pool, queue.get(), |signal| signal.next.get());
        let of_one =
            |first: &&'static QueuedSignal| chain(pool, look.raw(*first), |signal: &QueuedSignal| signal.same.get());
        for first in &firsts {
            let last = of_one(first).last().map_or(0, |last| look.raw(*last));
            same(found, || "the last signal of a number".into(), first.last.get(), last);
        }
        let known: usize = firsts.iter().map(|first| of_one(first).len()).sum();
        same(found, || "known signals".into(), count.get() as usize, known);
    }
    let users = chain::<UserRecord>(pool, header.users.get(), |user| user.next.get());
    let counted: u32 = users.iter().map(|user| user.tasks.load(Ordering::Relaxed)).sum();
    same(found, || "tasks of users".into(), counted, tasks);
    let timers: Vec<_> = slab::all::<PosixTimerRecord>(look).filter(|timer| timer.process.get() != 0).collect();
    let in_trees: usize =
        all.iter().map(|process| of_process(look, process)).map(|own| own.from(own.first()).count()).sum();
    same(found, || "timers of processes".into(), in_trees, timers.len());
    let counted: u32 = users.iter().map(|user| user.timers.get()).sum();
    same(found, || "timers of users".into(), counted as usize, timers.len());
    let is_by_time = |timer: &&&PosixTimerRecord| {
        timer.clock.get() >= BY_PROCESS && timer.state.get() == POSIX_ARMED && timer.signal.get() != 0
    };
    let by_time = timers.iter().filter(is_by_time).count();
    let tops = threads::all(look).flat_map(|thread| &thread.cpu_timers);
    let tops = tops.chain(all.iter().flat_map(|process| &process.cpu_timers)).map(Cell64::get).filter(|&top| top != 0);
    let listed: usize = tops.map(|top| tree::<TimerNode>(look, found, "timers by processor time", top).len()).sum();
    // Whose time has ended has none.
    same(found, || "whether there are more timers by processor time in trees".into(), listed > by_time, false);
}

fn wait_queues(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    let of_threads = threads::all(look).flat_map(|thread| &thread.nodes);
    let more = slab::all::<MoreNodes>(look).flat_map(|more| &more.nodes);
    let watches = slab::all::<WatchRecord>(look).flat_map(|watch| &watch.nodes);
    let owners = slab::all::<OwnerRecord>(look).flat_map(|owner| &owner.nodes);
    let nodes: Vec<&WaitNode> = of_threads.chain(more).chain(watches).chain(owners).collect();
    let queues: BTreeSet<u64> =
        nodes.iter().map(|node| node.queue.load(Ordering::Relaxed)).filter(|&queue| queue != 0).collect();
    for addr in queues {
        let Some(queue) = pool.get::<WaitQueue>(PoolAddr(addr)).filter(|queue| is_free(&queue.lock)) else { continue };
        let list = chain::<WaitNode>(pool, queue.head.load(Ordering::Relaxed), |node| node.next.get());
        let mut before = 0;
        for node in &list {
            same(found, || format!("previous in {addr:#x}"), node.prev.get(), before);
            same(found, || format!("queue of one in {addr:#x}"), node.queue.load(Ordering::Relaxed), addr);
            before = look.raw(*node);
        }
        same(found, || format!("tail of {addr:#x}"), queue.tail.get(), before);
        let own = nodes.iter().filter(|node| node.queue.load(Ordering::Relaxed) == addr).count();
        same(found, || format!("nodes in {addr:#x}"), list.len(), own);
    }
}

fn directories(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    let mut left = vec![pool.header().root_inode.get()];
    while let Some(dir) = left.pop().and_then(|addr| pool.get::<InodeRecord>(PoolAddr(addr))) {
        if !is_free(&dir.lock) {
            continue;
        }
        let entries = chain::<EntryRecord>(pool, dir.entries[0].get(), |entry| entry.next.get());
        let number = dir.number.get();
        let mut before = 0;
        for entry in &entries {
            same(found, || format!("previous in {number}"), entry.prev.get(), before);
            same(found, || format!("the directory of an entry of {number}"), entry.dir.get(), look.raw(dir));
            before = look.raw(*entry);
            let inode = pool.get::<InodeRecord>(PoolAddr(entry.inode.get()));
            left.extend(inode.filter(|inode| inode.mode.get() & 0o170_000 == 0o040_000).map(|inode| look.raw(inode)));
        }
        same(found, || format!("last of {number}"), dir.entries[1].get(), before);
        same(found, || format!("entries of {number}"), dir.entry_count.get() as usize, entries.len());
    }
}

fn pipes(look: &Look, found: &mut Vec<String>) {
    for pipe in
        slab::all::<PipeRecord>(look).filter(|pipe| pipe.refs.load(Ordering::Relaxed) != 0 && is_free(&pipe.lock))
    {
        let fits = pipe.head.get().wrapping_sub(pipe.tail.get()) as usize <= PIPE_CAPACITY;
        same(found, || "whether what is in it fits".into(), fits, true);
        same(found, || "a change of its ends".into(), pipe.changing.get(), 0);
        let ends = ends_open(look, pipe);
        if ends != [0, 0] {
            let counted = [&pipe.readers, &pipe.writers].map(|end| end.load(Ordering::Relaxed));
            same(found, || "readers and writers".into(), counted, ends);
        }
    }
}

/// For how many open files a pipe's ends are open, reading and writing.
fn ends_open(look: &Look, pipe: &'static PipeRecord) -> [u32; 2] {
    let mut open = [0, 0];
    for file in slab::all::<FileRecord>(look).filter(|file| file.object.get() == look.raw(pipe)) {
        let has = match file.kind.get() {
            FILE_PIPE_READ => [1, 0],
            FILE_PIPE_WRITE => [0, 1],
            FILE_PIPE_BOTH => [1, 1],
            _ => continue,
        };
        let ended = file.ended.load(Ordering::Relaxed);
        let is_open = u32::from(hand::count(file) != 0);
        (0..2).for_each(|end| open[end] += is_open * has[end] * (1 - (ended >> end & 1)));
    }
    open
}

fn sockets(look: &Look, found: &mut Vec<String>) {
    let header = look.pool().header();
    if is_free(&header.socket_lock) {
        let bound: Vec<&SocketRecord> = tree(look, found, "bound sockets", header.bound_sockets.get());
        let are_bound = slab::all::<SocketRecord>(look).filter(|socket| socket.is_bound.get() != 0).count();
        same(found, || "bound sockets".into(), bound.len(), are_bound);
    }
    let listens = |socket: &&'static SocketRecord| socket.state.load(Ordering::Relaxed) == SOCKET_LISTENING;
    for socket in slab::all::<SocketRecord>(look).filter(listens).filter(|socket| is_free(&socket.lock)) {
        let pending = chain::<SocketRecord>(look.pool(), socket.pending[0].get(), |socket| socket.next.get());
        same(found, || "how many wait".into(), socket.pending_count.get() as usize, pending.len());
        same(
            found,
            || "the last one".into(),
            socket.pending[1].get(),
            pending.last().map_or(0, |last| look.raw(*last)),
        );
    }
}

/// The packets in queues are those that say so, and what waits with sockets is listed.
fn packets(look: &Look, found: &mut Vec<String>) {
    let (pool, header) = (look.pool(), look.pool().header());
    let says = |packet: &PacketRecord, flag| packet.flags.load(Ordering::Relaxed) & flag != 0;
    for pipe in
        slab::all::<PipeRecord>(look).filter(|pipe| pipe.refs.load(Ordering::Relaxed) != 0 && is_free(&pipe.lock))
    {
        let all = chain::<PacketRecord>(pool, pipe.packets[0].get(), |packet| packet.next.get());
        same(found, || "the last packet".into(), pipe.packets[1].get(), all.last().map_or(0, |last| look.raw(*last)));
        for packet in &all {
            same(found, || "the queue of a packet".into(), packet.queue.get(), look.raw(pipe));
        }
        if pipe.packets_max.get() != 0 {
            same(
                found,
                || "packets in a queue".into(),
                pipe.head.get().wrapping_sub(pipe.tail.get()),
                all.len() as u32,
            );
        }
    }
    if !is_free(&header.rights_lock) {
        return;
    }
    let all = || slab::all::<PacketRecord>(look).filter(|packet| packet.rights.get() != 0);
    let listed = chain::<PacketRecord>(pool, header.in_flight.get(), |packet| packet.flight[1].get());
    let in_flight = all().filter(|packet| says(packet, PACKET_IN_FLIGHT)).count();
    same(found, || "packets in flight".into(), listed.len(), in_flight);
    let dropped = chain::<PacketRecord>(pool, header.dropped.load(Ordering::Relaxed), |packet| packet.next.get());
    same(
        found,
        || "dropped packets".into(),
        dropped.len(),
        all().filter(|packet| says(packet, PACKET_DROPPED)).count(),
    );
    let mut names: BTreeMap<u64, u32> = BTreeMap::new();
    listed.iter().flat_map(|packet| files_in(look, packet)).for_each(|file| *names.entry(file).or_default() += 1);
    for socket in slab::all::<SocketRecord>(look).filter(|socket| names.contains_key(&socket.file.get())) {
        same(found, || "how often a socket is in flight".into(), socket.in_flight.get(), names[&socket.file.get()]);
    }
}

/// The open files in a packet that is somewhere.
fn files_in(look: &Look, packet: &PacketRecord) -> Vec<u64> {
    let words = pipe::packet::rights(look, packet).unwrap_or_default();
    words.iter().map(|word| word.load(Ordering::Relaxed)).filter(|&word| word != 0).collect()
}

fn files(look: &Look, found: &mut Vec<String>) {
    for inode in slab::all::<InodeRecord>(look).filter(|inode| inode.refs.load(Ordering::Relaxed) != 0) {
        if is_free(&inode.lock) {
            same(
                found,
                || format!("a root of {} that does not count yet", inode.number.get()),
                inode.new_root.get(),
                0,
            );
            let root = Frame(inode.pages.get());
            let counted = || format!("pages of {}", inode.number.get());
            same(found, counted, inode.page_count.get(), pages(look, root, inode.page_levels.get()));
        }
    }
}

/// Pages in a tree, whose root is so many levels above them.
fn pages(look: &Look, frame: Frame, level: u32) -> u32 {
    if frame.is_none() || level == 0 {
        return u32::from(!frame.is_none());
    }
    let entries = look.pool().page_words(frame.addr()).expect("an index frame is in the pool");
    entries.iter().map(|entry| pages(look, Frame(entry.load(Ordering::Relaxed) as u32), level - 1)).sum()
}

/// What names an open file: descriptors, and threads whose call goes on with it. Cores have none in hand.
fn descriptors(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    let tables = || slab::all::<FilesRecord>(look).filter(|table| hand::count(*table) != 0);
    let mut named: BTreeMap<u64, u32> = BTreeMap::new();
    for table in tables() {
        let used = |fd: usize| table.inline[fd].load(Ordering::Relaxed) & !FILES_CLOEXEC;
        let high = (0..table.inline.len()).rev().find(|&fd| used(fd) != 0).map_or(0, |fd| fd as u32 + 1);
        (0..table.inline.len()).for_each(|fd| *named.entry(used(fd)).or_default() += 1);
        if is_free(&table.lock) {
            let is_high = table.high.get() >= high;
            same(found, || format!("whether descriptor {high} is not beyond the highest one"), is_high, true);
            let counted = (0..table.inline.len()).filter(|&fd| used(fd) != 0).count();
            same(found, || "first descriptors in use".into(), table.used[0].load(Ordering::Relaxed).into(), counted);
        }
    }
    for packet in slab::all::<PacketRecord>(look).filter(|packet| packet.rights.get() != 0) {
        files_in(look, packet).into_iter().for_each(|file| *named.entry(file).or_default() += 1);
    }
    let in_hand: BTreeSet<u64> =
        pool.header().cores.iter().flat_map(|core| &core.hand).map(|note| note.load(Ordering::Relaxed) & !15).collect();
    for file in slab::all::<FileRecord>(look) {
        let (raw, word) = (look.raw(file), hand::count(file));
        if word == 0 || in_hand.contains(&raw) {
            continue;
        }
        let words = |thread: &'static ThreadRecord| thread.scratch.iter().chain([&thread.guest_file]);
        let paused = threads::all(look).flat_map(words).filter(|word| word.get() == raw).count() as u32;
        let names = named.get(&raw).copied().unwrap_or_default();
        same(found, || format!("references to the open file {raw:#x}"), word, word.clamp(names, names + paused));
    }
}

fn interest_lists(look: &Look, found: &mut Vec<String>) {
    let pool = look.pool();
    if !is_free(&pool.header().epoll_lock) {
        return;
    }
    same(found, || "a watch that is being changed".into(), pool.header().watch_changing.get(), 0);
    let open = || slab::all::<FileRecord>(look).filter(|file| hand::count(*file) != 0);
    let mut watched = 0;
    for list in open().filter(|file| file.kind.get() == FILE_EPOLL).filter_map(|file| object(look, file)) {
        let list: &EpollRecord = list;
        let watches = chain::<WatchRecord>(pool, list.all[0].get(), |watch| watch.all[1].get());
        watched += watches.len();
        if !is_free(&list.lock) {
            continue;
        }
        both_ways(look, found, "list", &watches, &list.all, |watch| &watch.all);
        let asked = chain::<WatchRecord>(pool, list.asked[0].get(), |watch| watch.asked[1].get());
        both_ways(look, found, "those asked", &asked, &list.asked, |watch| &watch.asked);
        let is_list = |watch: &&&WatchRecord| {
            let file = pool.get::<FileRecord>(PoolAddr(watch.file.get()));
            file.is_some_and(|file| file.kind.get() == FILE_EPOLL)
        };
        let lists = watches.iter().filter(is_list).count();
        same(found, || "how many lists a list watches".into(), list.lists.get() as usize, lists);
        for watch in &watches {
            let is_asked = asked.iter().any(|asked| std::ptr::eq(*asked, *watch));
            same(found, || "whether a watch is asked".into(), is_asked, watch.is_asked.get() != 0);
            same(found, || "the list of a watch".into(), watch.list.get(), look.raw(list));
        }
    }
    for file in open() {
        let Some(owner) = pool.get::<OwnerRecord>(PoolAddr(file.owner.load(Ordering::Relaxed))) else { continue };
        if file.owner.load(Ordering::Relaxed) != 0 {
            same(found, || "the file of an owner".into(), owner.file.get(), look.raw(file));
            let stands = owner.nodes.iter().any(|node| node.queue.load(Ordering::Relaxed) != 0);
            same(found, || "whether an owner that is told stands in a queue".into(), stands, owner.is_on.get() != 0);
        }
    }
    for owner in slab::all::<OwnerRecord>(look).filter(|owner| owner.file.get() != 0) {
        let file = pool.get::<FileRecord>(PoolAddr(owner.file.get()));
        let named = file.map_or(0, |file| file.owner.load(Ordering::Relaxed));
        same(found, || "the owner of a file".into(), named, look.raw(owner));
    }
    let mut of_files = 0;
    for file in open() {
        let watches: Vec<&WatchRecord> = tree(look, found, "watches of a file", file.watches.get());
        for watch in &watches {
            same(found, || "the file of a watch".into(), watch.file.get(), look.raw(file));
        }
        of_files += watches.len();
    }
    same(found, || "watches of files".into(), of_files, watched);
}

fn object(look: &Look, file: &FileRecord) -> Option<&'static EpollRecord> {
    look.pool().get(PoolAddr(file.object.get()))
}

/// Links back, and the last one.
fn both_ways(
    look: &Look,
    found: &mut Vec<String>,
    what: &str,
    list: &[&'static WatchRecord],
    ends: &[Cell64; 2],
    links: fn(&WatchRecord) -> &[Cell64; 2],
) {
    let mut before = 0;
    for watch in list {
        same(found, || format!("previous in {what}"), links(watch)[0].get(), before);
        before = look.raw(*watch);
    }
    same(found, || format!("last in {what}"), ends[1].get(), before);
}

fn spaces(look: &Look, found: &mut Vec<String>) {
    for space in slab::all::<SpaceRecord>(look).filter(|space| space.refs.load(Ordering::Relaxed) != 0) {
        if is_free(&space.lock) && space.damaged.load(Ordering::Relaxed) == 0 {
            same(found, || "a change of VMAs".into(), space.changing.get(), 0);
        }
    }
}

/// Nobody has an id beyond the highest one, and no thread is left that a dead core was making.
fn ids(look: &Look, found: &mut Vec<String>) {
    let (pool, header) = (look.pool(), look.pool().header());
    if !is_free(&header.tid_lock) {
        return;
    }
    let high = header.threads_high.load(Ordering::Relaxed);
    let word = |tid: u32| pool.at::<Cell64>(PoolAddr(header.threads.get() + u64::from(tid) * 8)).get();
    let beyond = (high..header.threads_len.get()).filter(|&tid| word(tid) != 0).count();
    same(found, || format!("ids beyond {high}"), beyond, 0);
    let core = |thread: &ThreadRecord| CoreId::from_raw(thread.core.load(Ordering::Relaxed));
    let is_gone = |thread: &ThreadRecord| core(thread).is_some_and(|core| rejoin::is_gone(header, core.island()));
    let all = (1..header.threads_len.get()).filter_map(|tid| pool.get::<ThreadRecord>(PoolAddr(word(tid))));
    let unborn = all.filter(|thread| thread.state.load(Ordering::Relaxed) == THREAD_FREE && is_gone(thread)).count();
    same(found, || "threads that a dead core was making".into(), unborn, 0);
}

fn terminal(look: &Look, found: &mut Vec<String>) {
    let tty = &look.pool().header().tty;
    if is_free(&tty.lock) {
        let [ready, used] = [tty.ready.get(), tty.used.get()];
        same(
            found,
            || format!("whether {ready} of {used} bytes fit"),
            ready <= used && used <= TTY_INPUT_SIZE as u32,
            true,
        );
        let ends: u32 = tty.line_ends.iter().map(|word| word.get().count_ones()).sum();
        same(found, || format!("lines in {ready} bytes"), ends == 0, ready == 0);
    }
}

fn ptys(look: &Look, found: &mut Vec<String>) {
    let header = look.pool().header();
    if !is_free(&header.ptys_lock) {
        return;
    }
    let open = |kind: u32, pty: &'static PtyRecord| {
        let refers = |file: &&FileRecord| file.kind.get() == kind && file.object.get() == look.raw(pty);
        let counts = |file: &&FileRecord| hand::count(*file) != 0 && file.ended.load(Ordering::Relaxed) == 0;
        slab::all::<FileRecord>(look).filter(refers).filter(counts).count() as u32
    };
    for (number, word) in header.ptys.iter().enumerate() {
        let Some(pty) = look.object::<PtyRecord>(word.load(Ordering::Relaxed)) else { continue };
        same(found, || format!("number of terminal {number}"), pty.number.get() as usize, number);
        same(found, || format!("open files of terminal {number}"), pty.opens.get(), open(FILE_PTY, pty));
        let has_master = u32::from(pty.state.load(Ordering::Relaxed) & PTY_MASTER != 0);
        same(found, || format!("masters of terminal {number}"), has_master, open(FILE_PTY_MASTER, pty));
        let is_used = has_master != 0 || pty.opens.get() != 0 || pty.tty.session.get() != 0;
        same(found, || format!("whether terminal {number} is used"), is_used, true);
    }
}

/// Files of transfers that are open.
fn transfers(look: &Look, found: &mut Vec<String>) {
    let open = slab::all::<FileRecord>(look).filter(|file| hand::count(*file) != 0);
    for file in open.filter(|file| file.kind.get() == FILE_DMA).filter_map(|file| transfers_of(look, file)) {
        if is_free(&file.lock) {
            let held = file.under_way.get() + file.came.get().wrapping_sub(file.read.get());
            same(found, || "places that are taken".into(), file.used.get(), held);
            same(found, || "whether completions are being sorted".into(), file.sorting.get() == 1, false);
        }
    }
}

fn transfers_of(look: &Look, file: &FileRecord) -> Option<&'static DmaFile> {
    look.pool().get(PoolAddr(file.object.get()))
}

/// Who watches what, by each, and what was told.
fn watches_of_inodes(look: &Look, found: &mut Vec<String>) {
    let (pool, header) = (look.pool(), look.pool().header());
    if !is_free(&header.notify.lock) {
        return;
    }
    same(found, || "a queue that is being changed".into(), header.notify.changing.get(), 0);
    let watches: BTreeSet<u64> =
        slab::all::<InodeWatch>(look).filter(|watch| watch.mask.get() != 0).map(|watch| look.raw(watch)).collect();
    same(found, || "watches".into(), header.inode_watches.load(Ordering::Relaxed), watches.len() as u32);
    let of_inodes: Vec<u64> = slab::all::<InodeRecord>(look)
        .filter(|inode| inode.refs.load(Ordering::Relaxed) != 0)
        .flat_map(|inode| {
            let first = inode.watches.load(Ordering::Relaxed);
            chain::<InodeWatch>(pool, first, |watch| watch.next.get()).into_iter().map(move |watch| (inode, watch))
        })
        .map(|(inode, watch)| if watch.inode.get() == look.raw(inode) { look.raw(watch) } else { 0 })
        .collect();
    same(
        found,
        || "watches by inode".into(),
        (of_inodes.len(), of_inodes.into_iter().collect()),
        (watches.len(), watches.clone()),
    );
    let mut of_files = Vec::new();
    for instance in chain::<InotifyRecord>(pool, header.notify.instances.get(), |instance| instance.next.get()) {
        let tree = tree::<InodeWatch>(look, found, "watches by number", instance.watches.get());
        same(found, || "watches of an open file".into(), instance.watch_count.get(), tree.len() as u32);
        of_files.extend(tree.into_iter().map(|watch| look.raw(watch)));
        let frames = chain::<ToldFrame>(pool, instance.frames[0].get(), |frame| frame.next.get());
        let bytes: u32 = frames.iter().map(|frame| frame.used.get()).sum();
        let told = (instance.frame_count.get(), instance.bytes.load(Ordering::Relaxed) + instance.head.get());
        same(found, || "what was told".into(), told, (frames.len() as u32, bytes));
        let is_of = |file: &&FileRecord| {
            hand::count(*file) != 0 && file.kind.get() == FILE_INOTIFY && file.object.get() == look.raw(instance)
        };
        same(found, || "open files of one".into(), slab::all::<FileRecord>(look).filter(is_of).count(), 1);
    }
    same(found, || "watches by open file".into(), of_files.into_iter().collect(), watches);
}

/// Tables, keys, queues of messages, what is to be undone, and what users are counted for.
fn ipc_of_system_v(look: &Look, found: &mut Vec<String>) {
    let (pool, state) = (look.pool(), ipc::state(look));
    if !is_free(&state.lock) {
        return;
    }
    same(found, || "changes that are not made".into(), state.journal_len.get(), 0);
    let mut users = BTreeMap::<u64, (u64, u32, [u32; 4])>::new();
    let mut queue_bytes = BTreeMap::<u64, u64>::new();
    let mut add = |user: u64, bytes: u64, kind: Option<Kind>| {
        let counted = users.entry(user).or_default();
        *counted = (counted.0 + bytes, counted.1 + 1, counted.2);
        if let Some(kind) = kind {
            counted.2[kind as usize] += 1;
        }
    };
    for kind in Kind::ALL {
        let table = ipc::table(look, kind);
        let all: Vec<&IpcObject> = (0..kind.most()).filter_map(|place| ipc::at(look, kind, place)).collect();
        same(found, || format!("number of {kind:?}"), table.count.get(), all.len() as u32);
        let keys = tree::<IpcObject>(look, found, &format!("keys of {kind:?}"), table.keys.get());
        let with_key = all.iter().filter(|object| object.key.get() != 0).count();
        same(found, || format!("keys of {kind:?}"), keys.len(), with_key);
        for object in all {
            add(object.user.get(), object.charge.get(), Some(kind));
            if kind == Kind::Posix {
                *queue_bytes.entry(object.user.get()).or_default() += object.size.get();
                let file = pool.get::<InodeRecord>(PoolAddr(object.inode.get()));
                let named = file.map_or(0, |file| file.queue.load(Ordering::Relaxed));
                same(found, || "the queue of a file".into(), named, look.raw(object));
            }
            let list = chain::<IpcMessage>(pool, object.messages[0].get(), |message| message.next.get());
            let bytes: u64 = list.iter().map(|message| u64::from(message.len.get())).sum();
            let last = list.last().map_or(0, |last| look.raw(*last));
            let is_counted = (object.count.get(), object.bytes.get(), object.messages[1].get());
            same(found, || format!("messages of {}", object.id.get()), is_counted, (list.len() as u64, bytes, last));
            for undo in tree::<IpcUndo>(look, found, "what is to be undone", object.undo.get()) {
                same(
                    found,
                    || "whose record it is".into(),
                    (undo.kind.get(), undo.set.get()),
                    (IPC_UNDO, look.raw(object)),
                );
            }
        }
    }
    let lists: BTreeSet<u64> =
        slab::all::<ProcessRecord>(look).map(|process| process.undo.get()).filter(|&list| list != 0).collect();
    for list in lists.iter().filter_map(|&list| pool.get::<IpcUndoList>(PoolAddr(list))) {
        for undo in chain::<IpcUndo>(pool, list.first.get(), |undo| undo.next.get()) {
            same(
                found,
                || "whose list it is in".into(),
                (undo.kind.get(), undo.list.get()),
                (IPC_UNDO, look.raw(list)),
            );
            add(undo.user.get(), ipc::RECORD_SIZE, None);
        }
    }
    for message in slab::all::<IpcMessage>(look).filter(|message| message.kind.get() == motet_layout::IPC_MESSAGE) {
        add(message.user.get(), ipc::message::cost_of(u64::from(message.len.get())), None);
    }
    for user in chain::<IpcUser>(pool, state.users.get(), |user| user.next.get()) {
        let counted = (user.bytes.get(), user.refs.get(), user.objects.each_ref().map(motet_layout::Cell32::get));
        let should = users.remove(&look.raw(user)).unwrap_or_default();
        same(found, || format!("what user {} has", user.id.get()), counted, should);
        let should = queue_bytes.remove(&look.raw(user)).unwrap_or_default();
        same(found, || "bytes of queues".into(), user.queue_bytes.get(), should);
    }
}

//! `/dev/dma`: transfers within a program's own memory by the island's transfer engine (`docs/protocols/dma.md`).
//!
//! A written descriptor becomes a list of pieces of physical memory ([`transfer`]); each frame has a reference until the
//! engine has finished with it. So no frame is freed while it is read or written, whatever happens to the mapping, the file or the
//! process; and only `fork` has to wait for the engine. Reads return completions, in the order of their times.

mod transfer;

use core::fmt::{self, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    DMA_BAD_LENGTH, DMA_BYTES_MAX, DMA_FILE_TRANSFERS, DMA_LIST, DMA_OK, DMA_RINGS, DmaEngine, DmaFile, DmaList,
    FILE_DMA, FileRecord, PoolAddr, SpaceRecord, in_order,
};
use motet_protocol::{
    Context,
    engine::{self, Completion, Transfer},
    fs,
    lock::lock,
    slab, wait,
};

use crate::cursor::{Cursor, partial};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    description::{
        self, Parts,
        kind::{self, Facts, Kind, Queues, Transfer as How},
    },
    mm,
};

/// Bytes of a descriptor that a program writes, and of a completion that it reads.
const RECORD_LEN: u64 = 32;

/// What a program asks for.
#[derive(Clone, Copy)]
pub struct Asked {
    source: u64,
    destination: u64,
    bytes: u64,
    cookie: u64,
}

impl Asked {
    fn take(bytes: &[u8; RECORD_LEN as usize]) -> Self {
        let word =
            |at: usize| bytes[8 * at..8 * at + 8].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Self { source: word(0), destination: word(1), bytes: word(2), cookie: word(3) }
    }

    /// Fails for what no engine does.
    fn check(&self) -> Result<(), Errno> {
        if self.bytes == 0 || self.bytes > DMA_BYTES_MAX {
            return Err(Errno::EINVAL);
        }
        let end = |start: u64| start.checked_add(self.bytes).ok_or(Errno::EFAULT);
        let (source_end, destination_end) = (end(self.source)?, end(self.destination)?);
        let overlaps = self.source < destination_end && self.destination < source_end;
        if overlaps { Err(Errno::EINVAL) } else { Ok(()) }
    }
}

/// Opens the device, for itself.
///
/// # Errors
/// `ENOMEM`, `ENFILE`.
pub fn open<M: Machine>(call: &Call<M>, inode: fs::Held<'_, Cpu<M>>, flags: u32) -> Result<&'static FileRecord, Errno> {
    let transfers = slab::alloc::<DmaFile>(call.cpu).ok_or(Errno::ENOMEM)?;
    let parts = Parts { kind: FILE_DMA, flags, inode: Some(inode.inode()), object: call.cpu.raw(transfers) };
    let record = description::create(call.cpu, &parts).inspect_err(|_| close(call.cpu, transfers))?;
    // The description has taken over the reference.
    inode.release();
    Ok(record)
}

/// Transfers.
#[derive(Clone, Copy)]
pub struct Dma(&'static DmaFile);

impl Kind for Dma {
    const CODES: &'static [u32] = &[FILE_DMA];
    // Time alone may make it ready.
    const FACTS: Facts = Facts { is_asked: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/dma")
    }

    #[inline(never)]
    fn read<M: Machine>(self, call: &Call<M>, _file: &'static FileRecord, how: How, into: &mut Cursor<M>) -> SysResult {
        read(call, self.0, how.nonblocking(), into)
    }

    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: How,
        from: &mut Cursor<M>,
    ) -> SysResult {
        write(call, self.0, how.nonblocking(), from)
    }

    /// Whether a read, and a write, would not wait.
    fn readiness<M: Machine>(self, call: &Call<M>, _file: &FileRecord) -> u16 {
        let Self(file) = self;
        collect_all(call.cpu);
        let _guard = lock(call.cpu, &file.lock);
        kind::ready((ready(file, call.cpu.reading_ns()) != 0, file.used.get() < DMA_FILE_TRANSFERS as u32))
    }

    fn queues<M: Machine>(self, _cpu: &Cpu<M>, _file: &FileRecord) -> Queues {
        kind::queues(Some(&self.0.read_waiters), Some(&self.0.write_waiters))
    }

    fn arrivals<M: Machine>(self, cpu: &Cpu<M>) -> [Option<u64>; 2] {
        let _guard = lock(cpu, &self.0.lock);
        let read = self.0.read.get();
        [read.wrapping_add(ready(self.0, cpu.reading_ns())), read].map(|count| Some(u64::from(count)))
    }

    fn ready_ns<M: Machine>(self, call: &Call<M>) -> u64 {
        next_ns(call.cpu, self.0)
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        close(cpu, self.0);
    }
}

/// Starts the transfers that the descriptors say, one after the other. Waits for room for the first.
fn write<M: Machine>(call: &Call<M>, file: &'static DmaFile, nonblocking: bool, from: &mut Cursor<M>) -> SysResult {
    if from.remaining() < RECORD_LEN {
        return Err(Errno::EINVAL.into());
    }
    while from.remaining() >= RECORD_LEN {
        let mut bytes = [0; RECORD_LEN as usize];
        let started = from.peek(&mut bytes).and_then(|()| {
            let asked = Asked::take(&bytes);
            asked.check()?;
            start(call, file, nonblocking || from.done() > 0, &asked)
        });
        if let Err(stop) = started {
            return partial(from.done(), stop);
        }
        from.advance(RECORD_LEN as usize)?;
    }
    Ok(from.done())
}

/// Starts a transfer.
fn start<M: Machine>(call: &Call<M>, file: &'static DmaFile, nonblocking: bool, asked: &Asked) -> Result<(), Stop> {
    let (cpu, space) = (call.cpu, mm::space_of(call.cpu, call.process));
    let engine = &cpu.pool.header().dma[cpu.island().index()];
    loop {
        call.wait_for(&engine.waiters, || room_or(nonblocking, engine::has_room(engine)))?;
        call.wait_for(&file.write_waiters, || room_or(nonblocking, claim(cpu, file)))?;
        let forks = space.forks.get();
        let list = match transfer::build(call, space, asked) {
            Ok(list) => list,
            Err(errno) => {
                give_back(cpu, file);
                return Err(errno.into());
            }
        };
        list.file.set(cpu.raw(file));
        list.cookie.set(asked.cookie);
        list.space.set(cpu.raw(space));
        if hand_over(cpu, engine, space, forks, list, asked.bytes) {
            break;
        }
        // The memory is shared with a child by now, or others have taken the room.
        transfer::free(cpu, list);
        give_back(cpu, file);
    }
    if cpu.is_timed() {
        collect(cpu, engine);
    } else {
        cpu.machine.ring_host();
    }
    Ok(())
}

fn room_or(nonblocking: bool, has_room: bool) -> Result<Option<()>, Stop> {
    match has_room {
        true => Ok(Some(())),
        false if nonblocking => Err(Errno::EAGAIN.into()),
        false => Ok(None),
    }
}

/// Gives the engine a transfer, unless the space has been copied since its memory was found: what is written then may be a child's.
fn hand_over<M: Machine>(
    cpu: &Cpu<M>,
    engine: &DmaEngine,
    space: &SpaceRecord,
    forks: u32,
    list: &'static DmaList,
    bytes: u64,
) -> bool {
    let source = PoolAddr(cpu.raw(list));
    let flags = if cpu.is_timed() { DMA_LIST } else { DMA_LIST | DMA_RINGS };
    let transfer = Transfer { source, destination: PoolAddr::NULL, bytes, flags, core: cpu.id, id: source.0 };
    let _guard = lock(cpu, &space.lock);
    space.forks.get() == forks
        && engine::submit(cpu, engine, &transfer, || {
            if cpu.is_timed() {
                cpu.machine.start_engine();
            }
        })
}

/// Takes a place for one more transfer of a file.
fn claim<M: Machine>(cpu: &Cpu<M>, file: &DmaFile) -> bool {
    let _guard = lock(cpu, &file.lock);
    let has_room = file.used.get() < DMA_FILE_TRANSFERS as u32;
    if has_room {
        file.under_way.set(file.under_way.get() + 1);
        file.used.set(file.used.get() + 1);
    }
    has_room
}

/// Gives back a place that was taken for nothing.
fn give_back<M: Machine>(cpu: &Cpu<M>, file: &'static DmaFile) {
    let _guard = lock(cpu, &file.lock);
    file.used.set(file.used.get() - 1);
    file.under_way.set(file.under_way.get() - 1);
    wait::wake(cpu, &file.write_waiters);
}

/// Reads completions, as many as there are and there is room for. Waits for the first.
fn read<M: Machine>(call: &Call<M>, file: &'static DmaFile, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    if into.remaining() < RECORD_LEN {
        return Err(Errno::EINVAL.into());
    }
    // Faults now, not after a completion was taken.
    into.probe()?;
    call.wait_for(&file.read_waiters, || {
        collect_all(call.cpu);
        if file.sorting.get() == UNSORTED {
            return Err(Errno::EIO.into());
        }
        while into.remaining() >= RECORD_LEN {
            if let Err(stop) = into.await_pages(RECORD_LEN as usize) {
                return partial(into.done(), stop).map(Some);
            }
            let Some(bytes) = take(call.cpu, file) else { break };
            into.write(&bytes)?;
        }
        match into.done() {
            0 if nonblocking => Err(Errno::EAGAIN.into()),
            0 => {
                let next_ns = next_ns(call.cpu, file);
                call.thread.deadline_ns.set(if next_ns == u64::MAX { 0 } else { next_ns });
                Ok(None)
            }
            done => Ok(Some(done)),
        }
    })
}

/// The next completion, if its time has come.
fn take<M: Machine>(cpu: &Cpu<M>, file: &'static DmaFile) -> Option<[u8; RECORD_LEN as usize]> {
    let _guard = lock(cpu, &file.lock);
    if ready(file, cpu.reading_ns()) == 0 {
        return None;
    }
    let next = &file.completions[file.read.get() as usize % DMA_FILE_TRANSFERS];
    let words = [next.cookie.get(), u64::from(next.status.get()), next.bytes.get(), next.ended_ns.get()];
    file.read.set(file.read.get().wrapping_add(1));
    file.used.set(file.used.get() - 1);
    wait::wake(cpu, &file.write_waiters);
    let mut bytes = [0; RECORD_LEN as usize];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Some(bytes)
}

/// Completions whose time has come. The file's lock is held.
fn ready(file: &DmaFile, now_ns: u64) -> u32 {
    let unread = file.came.get().wrapping_sub(file.read.get());
    let has_ended = |ahead: u32| at(file, file.read.get().wrapping_add(ahead)).ended_ns.get() <= now_ns;
    (0..unread).take_while(|&ahead| has_ended(ahead)).count() as u32
}

fn at(file: &DmaFile, number: u32) -> &motet_layout::DmaCompletion {
    &file.completions[number as usize % DMA_FILE_TRANSFERS]
}

/// When the next completion's time comes, in machine time (`u64::MAX`: it is not known).
fn next_ns<M: Machine>(cpu: &Cpu<M>, file: &DmaFile) -> u64 {
    let _guard = lock(cpu, &file.lock);
    if file.came.get() == file.read.get() { u64::MAX } else { at(file, file.read.get()).ended_ns.get() }
}

/// Ends a file whose last descriptor was closed. Its transfers go on, and the file is freed with the last one.
fn close<M: Machine>(cpu: &Cpu<M>, file: &'static DmaFile) {
    collect_all(cpu);
    // Nodes of threads that still wait must not stay linked in memory that becomes another file.
    wait::wake(cpu, &file.read_waiters);
    wait::wake(cpu, &file.write_waiters);
    let guard = lock(cpu, &file.lock);
    file.closed.set(1);
    let is_unused = file.under_way.get() == 0;
    drop(guard);
    if is_unused {
        slab::free(cpu, file);
    }
}

/// Takes the completions of the island's engine, when a core was rung.
#[inline(always)]
pub fn rung<M: Machine>(cpu: &Cpu<M>) {
    let engine = &cpu.pool.header().dma[cpu.island().index()];
    if engine::has_completions(engine) {
        collect(cpu, engine);
    }
}

/// Takes what all engines have completed: what belongs to an island that has died, too.
fn collect_all<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    let engines = header.dma.iter().take(header.island_count.get() as usize);
    engines.filter(|engine| engine::has_completions(engine)).for_each(|engine| collect(cpu, engine));
}

#[cold]
fn collect<M: Machine>(cpu: &Cpu<M>, engine: &'static DmaEngine) {
    while let Some(completion) = engine::take(cpu, engine) {
        deliver(cpu, &completion);
        wait::wake(cpu, &engine.waiters);
        cpu.spend(cost::OBJECT);
    }
}

/// A transfer is over: lets go of its memory, and tells its file.
fn deliver<M: Machine>(cpu: &Cpu<M>, completion: &Completion) {
    let list = cpu.pool.get::<DmaList>(PoolAddr(completion.id));
    let file = list.and_then(|list| cpu.pool.get::<DmaFile>(PoolAddr(list.file.get())));
    let (Some(list), Some(file)) = (list, file) else {
        cpu.log(format_args!("a transfer of nobody has ended: its descriptor is damaged"));
        return;
    };
    let cookie = list.cookie.get();
    transfer::free(cpu, list);
    let ended_ns = if completion.arrives_ns == 0 { cpu.reading_ns() } else { completion.arrives_ns };
    let guard = lock(cpu, &file.lock);
    file.under_way.set(file.under_way.get() - 1);
    if file.closed.get() == 0 {
        add(file, cookie, completion, ended_ns);
        wait::wake(cpu, &file.read_waiters);
        return;
    }
    let is_unused = file.under_way.get() == 0;
    drop(guard);
    if is_unused {
        slab::free(cpu, file);
    }
}

/// Repairs a file whose lock a dead core held and this one has now. A completion that it was telling is lost; if it was sorting them, reads fail
/// from now on.
pub fn recover(file: &DmaFile) {
    file.used.set(file.under_way.get() + file.came.get().wrapping_sub(file.read.get()));
    if file.sorting.get() == SORTING {
        file.sorting.set(UNSORTED);
    }
}

/// [`DmaFile::sorting`].
const SORTING: u32 = 1;
const UNSORTED: u32 = 2;

/// Adds a completion in front of those that end later. The file's lock is held.
fn add(file: &DmaFile, cookie: u64, completion: &Completion, ended_ns: u64) {
    let before = file.sorting.get();
    file.sorting.set(before.max(SORTING));
    in_order();
    let mut number = file.came.get();
    file.came.set(number.wrapping_add(1));
    while number != file.read.get() && at(file, number.wrapping_sub(1)).ended_ns.get() > ended_ns {
        let (to, from) = (at(file, number), at(file, number.wrapping_sub(1)));
        to.cookie.set(from.cookie.get());
        to.status.set(from.status.get());
        to.bytes.set(from.bytes.get());
        to.ended_ns.set(from.ended_ns.get());
        number = number.wrapping_sub(1);
    }
    let to = at(file, number);
    to.cookie.set(cookie);
    to.status.set(status(completion.error));
    to.bytes.set(completion.done);
    to.ended_ns.set(ended_ns);
    in_order();
    file.sorting.set(before);
}

/// The error that a program is told of.
fn status(error: u32) -> u32 {
    match error {
        DMA_OK => 0,
        DMA_BAD_LENGTH => Errno::EINVAL as u32,
        // What the kernel wrote was damaged, or one of the program's pages lies behind both addresses.
        _ => Errno::EIO as u32,
    }
}

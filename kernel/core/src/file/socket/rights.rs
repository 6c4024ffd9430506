//! Packets in hand, and the open files in them (`SCM_RIGHTS`, unix(7)).
//!
//! A packet has a reference to each of its files. It goes with the packet: to whoever receives it, or it is dropped when nobody receives any more. What a closed
//! socket leaves goes to a list first, from which the outermost call frees it: files that are sockets with packets of files that are sockets take no stack so.
//!
//! Sockets may be in packets that only they could receive: in their own queues, or in each other's. Nobody would ever close them. So which sockets are in which
//! packets is known ([`PacketRecord::flight`]), and whenever a socket is closed, all of these are looked for from those that descriptors name ([`collect`]).

use motet_abi::{Errno, time::RLIMIT_NOFILE};
use motet_hal::Machine;
use motet_layout::{
    CoreId, FileRecord, ISLAND_RECLAIMING, IslandId, PACKET_DROPPED, PACKET_HAS_SOCKETS, PACKET_IN_FLIGHT, PAGE_SIZE,
    PacketRecord, PipeRecord, SocketRecord, in_order,
    sync::{AtomicU64, Ordering},
};
use motet_protocol::{
    Context,
    hand::{self, Holder},
    lock::{Guard, lock},
    pipe::packet::{self, Credentials, Limits},
    slab,
};

use super::{super::descriptor::description, Socket};
use crate::{
    call::{Call, cost},
    cpu::Cpu,
    description::kind::as_kind,
    due,
    permission::{Capability, has},
    tree::users,
};

/// What looking at a file in a packet costs.
const LOOKED_AT: u64 = cost::OBJECT / 4;
/// What dropping one costs.
const DROPPED: u64 = 2 * cost::OBJECT;

/// A packet in this core's hand. It is freed, with its files, unless it goes to a queue.
pub struct Packet<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    record: &'static PacketRecord,
}

impl<'c, M: Machine> Packet<'c, M> {
    /// A new one.
    ///
    /// # Errors
    /// `ENOBUFS`: there is no memory.
    pub fn new(cpu: &'c Cpu<M>) -> Result<Self, Errno> {
        packet::create(cpu).map(|record| Self { cpu, record }).ok_or(Errno::ENOBUFS)
    }

    /// One that this core has taken.
    pub fn taken(cpu: &'c Cpu<M>, record: &'static PacketRecord) -> Self {
        Self { cpu, record }
    }

    /// It.
    pub fn record(&self) -> &'static PacketRecord {
        self.record
    }

    /// It, which a queue has now.
    pub fn release(self) -> &'static PacketRecord {
        let record = self.record;
        core::mem::forget(self);
        record
    }

    /// Says who sends it.
    pub fn set_sender(&self, credentials: Credentials) {
        for (to, id) in self.record.credentials.iter().zip(credentials) {
            to.set(id);
        }
        self.record.flags.fetch_or(motet_layout::PACKET_HAS_CREDENTIALS, Ordering::Relaxed);
    }

    /// Who has sent it, if it says so.
    pub fn sender(&self) -> Option<Credentials> {
        let says = self.record.flags.load(Ordering::Relaxed) & motet_layout::PACKET_HAS_CREDENTIALS != 0;
        says.then(|| self.record.credentials.each_ref().map(|id| id.get()))
    }

    /// Adds an open file, whose reference is in hand.
    ///
    /// # Errors
    /// `EINVAL`: it has as many as it may; `ENOBUFS`. The file is closed.
    pub fn add(&self, file: &'static FileRecord) -> Result<(), Errno> {
        let cpu = self.cpu;
        self.place_of_next().map_or_else(
            |errno| {
                description::put(cpu, file);
                Err(errno)
            },
            |word| {
                if as_kind::<M, Socket>(cpu, file).is_some() {
                    self.record.flags.fetch_or(PACKET_HAS_SOCKETS, Ordering::Relaxed);
                }
                hand::give(cpu, file, Holder::word(cpu, word), || word.store(cpu.raw(file), Ordering::Relaxed));
                Ok(())
            },
        )
    }

    fn place_of_next(&self) -> Result<&'static AtomicU64, Errno> {
        let count = self.record.rights_count.get();
        if count as usize >= motet_layout::RIGHTS_MAX {
            return Err(Errno::EINVAL);
        }
        if self.record.rights.get() == 0 {
            let frame = motet_protocol::memory::alloc_common_zeroed_frame(self.cpu).ok_or(Errno::ENOBUFS)?;
            self.record.rights.set(frame.0);
        }
        self.record.rights_count.set(count + 1);
        packet::rights(self.cpu, self.record).and_then(|words| words.last()).ok_or(Errno::ENOBUFS)
    }

    /// Counts its files for whom they are sent by.
    ///
    /// # Errors
    /// `ETOOMANYREFS`: that user has sent too many that nobody has received.
    pub fn count_files(&self, call: &Call<M>) -> Result<(), Errno> {
        let may_more = has(call.process, Capability::Limits) || has(call.process, Capability::Administer);
        let has_too_many = || users::in_flight(call.cpu, call.process) > call.process.limits[2 * RLIMIT_NOFILE].get();
        if !may_more && has_too_many() {
            // Some may be in packets that nobody can receive.
            collect(call.cpu);
            if has_too_many() {
                return Err(Errno::ETOOMANYREFS);
            }
        }
        let user = users::send_files(call.cpu, call.process, self.record.rights_count.get());
        self.record.user.set(user);
        Ok(())
    }

    /// How many files it has had.
    pub fn file_count(&self) -> usize {
        self.record.rights_count.get() as usize
    }

    /// Takes one of its files, by number; the reference is in hand then.
    pub fn take_file(&self, index: usize) -> Option<&'static FileRecord> {
        let word = packet::rights(self.cpu, self.record)?.get(index)?;
        let file = self.cpu.object::<FileRecord>(word.load(Ordering::Relaxed))?;
        hand::fetch(self.cpu, file, Holder::word(self.cpu, word), || word.store(0, Ordering::Relaxed));
        Some(file)
    }
}

impl<M: Machine> Drop for Packet<'_, M> {
    fn drop(&mut self) {
        let (cpu, record) = (self.cpu, self.record);
        if record.flags.load(Ordering::Relaxed) & PACKET_IN_FLIGHT != 0 {
            let _guard = lock_rights(cpu);
            leave_flight(cpu, record);
        }
        let user = record.user.get();
        if user != 0 {
            record.user.set(0);
            in_order();
            users::take_files(cpu, user, record.rights_count.get());
        }
        for index in 0..self.file_count() {
            if let Some(file) = self.take_file(index) {
                description::put(cpu, file);
                due::spend_locked(cpu, DROPPED);
            }
        }
        packet::free(cpu, record);
    }
}

/// What is in packets does not move meanwhile, and nobody begins to accept a connection.
pub fn lock_rights<M: Machine>(cpu: &Cpu<M>) -> Guard<'static> {
    lock(cpu, &cpu.pool.header().rights_lock)
}

fn has_sockets(packet: &PacketRecord) -> bool {
    packet.flags.load(Ordering::Relaxed) & PACKET_HAS_SOCKETS != 0
}

/// [`packet::push`].
///
/// # Errors
/// As that.
pub fn push<M: Machine>(
    cpu: &Cpu<M>,
    queue: &'static PipeRecord,
    packet: &Packet<M>,
    limits: Limits,
) -> Result<bool, Errno> {
    with_sockets_in_flight(cpu, packet.record, || packet::push(cpu, queue, packet.record, limits))
}

/// Does what puts a packet into a queue. Its sockets are in flight if it did, and from before.
///
/// # Errors
/// As `push`.
pub fn with_sockets_in_flight<M: Machine>(
    cpu: &Cpu<M>,
    packet: &'static PacketRecord,
    push: impl FnOnce() -> Result<bool, Errno>,
) -> Result<bool, Errno> {
    if !has_sockets(packet) {
        return push();
    }
    let _guard = lock_rights(cpu);
    enter_flight(cpu, packet);
    let is_pushed = push();
    if is_pushed != Ok(true) {
        leave_flight(cpu, packet);
    }
    is_pushed
}

/// Takes the first packet of a queue, or mark of a stream, which `look` sees before, under the queue's lock.
pub fn take_first<'c, M: Machine>(
    cpu: &'c Cpu<M>,
    queue: &'static PipeRecord,
    mut look: impl FnMut(),
) -> Option<Packet<'c, M>> {
    let mut has_more = false;
    let taken = packet::pop_if(cpu, queue, |first| {
        look();
        has_more = has_sockets(first);
        !has_more
    });
    let taken = match taken {
        None if has_more => {
            let _guard = lock_rights(cpu);
            let look = |_: &PacketRecord| {
                look();
                true
            };
            let taken = packet::pop_if(cpu, queue, look)?;
            leave_flight(cpu, taken);
            taken
        }
        taken => taken?,
    };
    Some(Packet::taken(cpu, taken))
}

/// A file of a packet that still is in its queue, by number, with a reference in hand; `None`: the packet has gone, `Some(None)`: there is no such file. No descriptor but those that this call's thread has holds the socket
/// meanwhile, so [`collect`] must not come between.
pub fn look_at_file<M: Machine>(
    cpu: &Cpu<M>,
    queue: &'static PipeRecord,
    seen: packet::Seen,
    index: usize,
) -> Option<Option<&'static FileRecord>> {
    let _guard = lock_rights(cpu);
    packet::with_seen(cpu, queue, seen, |packet| {
        let word = packet::rights(cpu, packet)?.get(index)?;
        let file = cpu.object::<FileRecord>(word.load(Ordering::Relaxed))?;
        hand::take(cpu, file);
        Some(file)
    })
}

/// The sockets in a packet.
fn sockets_of<M: Machine>(cpu: &Cpu<M>, packet: &PacketRecord) -> impl Iterator<Item = &'static SocketRecord> {
    let words = packet::rights(cpu, packet).unwrap_or_default();
    words.iter().filter_map(|word| {
        let file = cpu.object::<FileRecord>(word.load(Ordering::Relaxed))?;
        as_kind::<M, Socket>(cpu, file).map(|Socket(socket)| socket)
    })
}

/// The packets with sockets that wait.
fn in_flight<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static PacketRecord> {
    let first = cpu.object::<PacketRecord>(cpu.pool.header().in_flight.get());
    core::iter::successors(first, |packet| cpu.object(packet.flight[1].get()))
}

/// The lock is held, as by all below.
fn enter_flight<M: Machine>(cpu: &Cpu<M>, packet: &'static PacketRecord) {
    packet.flags.fetch_or(PACKET_IN_FLIGHT, Ordering::Relaxed);
    in_order();
    list(cpu, packet);
}

fn list<M: Machine>(cpu: &Cpu<M>, packet: &'static PacketRecord) {
    let header = cpu.pool.header();
    let first = header.in_flight.get();
    packet.flight[0].set(0);
    packet.flight[1].set(first);
    if let Some(first) = cpu.object::<PacketRecord>(first) {
        first.flight[0].set(cpu.raw(packet));
    }
    header.in_flight.set(cpu.raw(packet));
    for socket in sockets_of(cpu, packet) {
        socket.in_flight.set(socket.in_flight.get() + 1);
    }
}

/// A packet with sockets has left its queue. The lock is held, if it has some.
pub fn leave_flight<M: Machine>(cpu: &Cpu<M>, packet: &'static PacketRecord) {
    if packet.flags.load(Ordering::Relaxed) & PACKET_IN_FLIGHT == 0 {
        return;
    }
    for socket in sockets_of(cpu, packet) {
        socket.in_flight.set(socket.in_flight.get().saturating_sub(1));
    }
    let [prev, next] = packet.flight.each_ref().map(|link| link.get());
    match cpu.object::<PacketRecord>(prev) {
        Some(prev) => prev.flight[1].set(next),
        None => cpu.pool.header().in_flight.set(next),
    }
    if let Some(next) = cpu.object::<PacketRecord>(next) {
        next.flight[0].set(prev);
    }
    in_order();
    packet.flags.fetch_and(!PACKET_IN_FLIGHT, Ordering::Relaxed);
}

/// Drops what waits in a queue from which nobody receives any more. May be done twice.
pub fn purge<M: Machine>(cpu: &Cpu<M>, queue: &'static PipeRecord) {
    purge_later(cpu, queue);
    free_dropped(cpu);
}

/// As [`purge`], with locks that do not allow files to be closed, none of which comes after wait queues: whoever drops packets next frees them.
pub fn purge_later<M: Machine>(cpu: &Cpu<M>, queue: &'static PipeRecord) {
    while let Some(packet) = take_first(cpu, queue, || {}) {
        let frames = u64::from(packet.record().len.get()) / PAGE_SIZE;
        if packet.file_count() == 0 {
            drop(packet);
        } else {
            let _guard = lock_rights(cpu);
            drop_later(cpu, packet.release());
        }
        due::spend_locked(cpu, DROPPED + cost::FRAME * frames);
    }
}

/// Puts a packet in hand among those that are to be freed.
fn drop_later<M: Machine>(cpu: &Cpu<M>, packet: &'static PacketRecord) {
    let dropped = &cpu.pool.header().dropped;
    packet.flags.fetch_or(PACKET_DROPPED, Ordering::Relaxed);
    in_order();
    packet.next.set(dropped.load(Ordering::Relaxed));
    dropped.store(cpu.raw(packet), Ordering::Relaxed);
    in_order();
    packet.holder.store(0, Ordering::Release);
}

/// Frees dropped packets, unless this core does so already, further out.
pub fn free_dropped<M: Machine>(cpu: &Cpu<M>) {
    let dropped = &cpu.pool.header().dropped;
    if dropped.load(Ordering::Relaxed) == 0 || !cpu.file.begins_to_free_packets() {
        return;
    }
    while let Some(packet) = take_dropped(cpu) {
        drop(packet);
    }
    cpu.file.has_freed_packets();
}

fn take_dropped<M: Machine>(cpu: &Cpu<M>) -> Option<Packet<'_, M>> {
    let dropped = &cpu.pool.header().dropped;
    let _guard = lock_rights(cpu);
    let packet = cpu.object::<PacketRecord>(dropped.load(Ordering::Relaxed))?;
    packet.holder.store(u32::from(cpu.id.0) + 1, Ordering::Relaxed);
    in_order();
    packet.flags.fetch_and(!PACKET_DROPPED, Ordering::Relaxed);
    in_order();
    dropped.store(packet.next.get(), Ordering::Relaxed);
    Some(Packet::taken(cpu, packet))
}

/// Finds the sockets that only packets name which nobody can receive, and drops what waits at these, so that they are closed. Each packet with sockets is looked
/// at a fixed number of times, and no other.
pub fn collect<M: Machine>(cpu: &Cpu<M>) {
    // What is freed further out may lead to more: who frees it comes here afterwards.
    if cpu.pool.header().in_flight.get() == 0 || cpu.file.frees_packets() {
        return;
    }
    {
        let _guard = lock_rights(cpu);
        for packet in in_flight(cpu) {
            looked_at(cpu, packet);
            for socket in sockets_of(cpu, packet) {
                socket.is_reached.set(0);
                socket.work.set(0);
            }
        }
        let mut work = 0;
        for packet in in_flight(cpu) {
            looked_at(cpu, packet);
            begin(cpu, &mut work, packet);
        }
        while let Some(packet) = take(cpu, &mut work) {
            looked_at(cpu, packet);
            sockets_of(cpu, packet).for_each(|socket| reach(cpu, &mut work, socket));
        }
        // What still waits at sockets waits for nobody.
        for packet in in_flight(cpu) {
            looked_at(cpu, packet);
            sockets_of(cpu, packet).for_each(|socket| move_work(cpu, &mut work, socket));
        }
        while let Some(lost) = take(cpu, &mut work) {
            drop_with_queue(cpu, lost);
        }
    }
    free_dropped(cpu);
}

/// A packet's files were looked at.
fn looked_at<M: Machine>(cpu: &Cpu<M>, packet: &PacketRecord) {
    due::spend_locked(cpu, LOOKED_AT * (1 + u64::from(packet.rights_count.get())));
}

/// Whose descriptors a packet waits for: those of the socket that is to receive it, or of the one that is to accept that. With the lock, nobody begins to accept
/// it, so the one that is to is there.
fn receiver<M: Machine>(cpu: &Cpu<M>, packet: &PacketRecord) -> Option<&'static SocketRecord> {
    let queue = cpu.object::<PipeRecord>(packet.queue.get())?;
    let reader = cpu.object::<SocketRecord>(queue.reader.load(Ordering::Acquire))?;
    // In this order: whoever accepts it gives it the file first.
    let waits = reader.acceptor.load(Ordering::Acquire) == 0 && reader.file.get() == 0;
    let listener = if waits { cpu.object(reader.listener.get()) } else { None };
    listener.or(Some(reader))
}

/// Puts a packet where it is looked at: among the `work`, if somebody can receive it or may, otherwise at the socket whose descriptors it waits for.
fn begin<M: Machine>(cpu: &Cpu<M>, work: &mut u64, packet: &'static PacketRecord) {
    if packet.holder.load(Ordering::Relaxed) != 0 {
        // It is a dead core's. The reclaimer says whose it is then.
        return put(cpu, work, packet);
    }
    let Some(receiver) = receiver(cpu, packet) else { return };
    if receiver.in_flight.get() == 0 {
        return put(cpu, work, packet);
    }
    let mut waiting = receiver.work.get();
    put(cpu, &mut waiting, packet);
    receiver.work.set(waiting);
    let file = cpu.object::<FileRecord>(receiver.file.get());
    let has_others = file.is_some_and(|file| hand::count(file) > receiver.in_flight.get());
    if has_others || receiver.is_reached.get() != 0 {
        reach(cpu, work, receiver);
    }
}

/// Somebody can receive from a socket, so what waits there is among the work.
fn reach<M: Machine>(cpu: &Cpu<M>, work: &mut u64, socket: &SocketRecord) {
    socket.is_reached.set(1);
    move_work(cpu, work, socket);
}

fn move_work<M: Machine>(cpu: &Cpu<M>, work: &mut u64, socket: &SocketRecord) {
    let mut waiting = socket.work.get();
    socket.work.set(0);
    while let Some(packet) = take(cpu, &mut waiting) {
        put(cpu, work, packet);
    }
}

fn put<M: Machine>(cpu: &Cpu<M>, work: &mut u64, packet: &'static PacketRecord) {
    packet.work.set(*work);
    *work = cpu.raw(packet);
}

fn take<M: Machine>(cpu: &Cpu<M>, work: &mut u64) -> Option<&'static PacketRecord> {
    let packet = cpu.object::<PacketRecord>(*work)?;
    *work = packet.work.get();
    Some(packet)
}

/// Drops a packet that nobody can receive, and what else is in its queue, unless that was done.
fn drop_with_queue<M: Machine>(cpu: &Cpu<M>, packet: &PacketRecord) {
    let Some(queue) = cpu.object::<PipeRecord>(packet.queue.get()) else { return };
    while let Some(packet) = packet::pop_if(cpu, queue, |_| true) {
        leave_flight(cpu, packet);
        drop_later(cpu, packet);
        due::spend_locked(cpu, LOOKED_AT);
    }
}

/// Repairs both lists, whose lock a dead core held and this one has now. Each packet says itself whether it is in flight, or dropped.
pub fn recover<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    header.in_flight.set(0);
    header.dropped.store(0, Ordering::Relaxed);
    slab::all::<SocketRecord>(cpu).for_each(|socket| socket.in_flight.set(0));
    let has = |packet: &PacketRecord, flag| packet.flags.load(Ordering::Relaxed) & flag != 0;
    slab::all::<PacketRecord>(cpu).filter(|packet| has(packet, PACKET_IN_FLIGHT)).for_each(|packet| list(cpu, packet));
    for packet in slab::all::<PacketRecord>(cpu).filter(|packet| has(packet, PACKET_DROPPED)) {
        packet.next.set(header.dropped.load(Ordering::Relaxed));
        header.dropped.store(cpu.raw(packet), Ordering::Relaxed);
    }
}

/// Leaves those packets that dead cores had in hand where they are, if they are in a queue or dropped. Every core that lives has passed since.
pub fn settle<M: Machine>(cpu: &Cpu<M>) {
    for packet in of_the_dead(cpu) {
        if packet::is_queued(cpu, packet) {
            continue;
        }
        let _guard = lock_rights(cpu);
        if packet.flags.load(Ordering::Relaxed) & PACKET_DROPPED != 0 {
            packet.holder.store(0, Ordering::Release);
        }
    }
}

/// Frees the packets that dead cores had in hand, and that were not [left](settle) elsewhere, and what they have not freed.
pub fn free_of_the_dead<M: Machine>(cpu: &Cpu<M>) {
    // Anew each time: what is freed may lead to more, and to other objects in the place of these.
    while let Some(packet) = of_the_dead(cpu).next() {
        drop(Packet::taken(cpu, packet));
    }
    free_dropped(cpu);
    collect(cpu);
}

fn of_the_dead<M: Machine>(cpu: &Cpu<M>) -> impl Iterator<Item = &'static PacketRecord> {
    let state_of = |island: IslandId| cpu.pool.header().islands[island.index()].state.load(Ordering::Acquire);
    slab::all::<PacketRecord>(cpu).filter(move |packet| {
        let holder = packet.holder.load(Ordering::Acquire).checked_sub(1).and_then(CoreId::from_raw);
        holder.is_some_and(|core| state_of(core.island()) == ISLAND_RECLAIMING)
    })
}

//! Pseudo-terminals: which there are, who has them open, and what their masters read and type.
//!
//! Each has its number in the header's table. It is freed when neither it nor its master is open and it controls no session: so that the foreground group can
//! be told when the session's leader ends ([`session_ended`]).

use motet_layout::sync::{AtomicU64, Ordering};

use motet_abi::{
    Errno,
    file::{Device, S_IFCHR},
    signal::{SIGCONT, SIGHUP},
    terminal::Termios,
};
use motet_hal::Machine;
use motet_layout::{
    CoreId, FileRecord, Frame, HostStream, InodeRecord, PAGE_SIZE, PTY_HUNG_UP, PTY_LEFT, PTY_LOCKED, PTY_MASTER,
    PTY_STREAM_SIZE, ProcessRecord, PtyRecord, TTY_PACKETS, in_order,
};
use motet_protocol::{
    Context,
    cores::is_dead,
    fs::{self, Attributes, Held},
    lock::lock,
    memory::{alloc_common_frame, release_frame},
    slab,
    stream::{self, Part, Side},
    wait,
};

use super::tty::{
    self,
    ioctl::set_attributes,
    terminal::{PTY_MAJOR, Terminal},
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    cursor::{Cursor, partial, stopped},
    permission::FileRights,
    signal::{self, Origin},
    tree,
};

/// The group that may write to all terminals (`tty`).
const GROUP: u32 = 5;
/// Its owner reads and writes a terminal, and that group writes it.
const MODE: u32 = S_IFCHR | 0o620;
/// Bytes that a master types at a time.
const CHUNK: usize = 256;

/// Makes a pseudo-terminal, which is locked, and has no master yet ([`begin`]).
///
/// # Errors
/// `ENOSPC`: there are as many as there can be; `ENOMEM`; `ENOENT`: there is no `/dev/pts`.
pub fn make<M: Machine>(call: &Call<M>) -> Result<&'static PtyRecord, Errno> {
    let cpu = call.cpu;
    let pty = slab::alloc::<PtyRecord>(cpu).ok_or(Errno::ENOMEM)?;
    pty.state.store(PTY_LOCKED, Ordering::Relaxed);
    if let Err(errno) = enter(cpu, pty) {
        slab::free(cpu, pty);
        return Err(errno);
    }
    if let Err(errno) = prepare(cpu, pty).and_then(|()| name(call, pty)) {
        put(cpu, pty);
        return Err(errno);
    }
    Ok(pty)
}

fn prepare<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord) -> Result<(), Errno> {
    let frame = || alloc_common_frame(cpu).ok_or(Errno::ENOMEM);
    pty.typed.set(frame()?.addr().0);
    for stream in [&pty.input, &pty.output] {
        stream.data.set(frame()?.addr().0);
        stream.capacity.set(PTY_STREAM_SIZE);
    }
    set_attributes(Terminal::of_pty(cpu, pty), &Termios::fresh_pty());
    Ok(())
}

/// Gives a pseudo-terminal the lowest number that is free.
fn enter<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord) -> Result<(), Errno> {
    let header = cpu.pool.header();
    let _guard = lock(cpu, &header.ptys_lock);
    let free = header.ptys.iter().position(|word| word.load(Ordering::Relaxed) == 0).ok_or(Errno::ENOSPC)?;
    pty.number.set(free as u32);
    pty.carrier.set(1 + u32::from(cpu.id.0));
    in_order();
    header.ptys[free].store(cpu.raw(pty), Ordering::Release);
    Ok(())
}

/// Makes its node in `/dev/pts`.
fn name<M: Machine>(call: &Call<M>, pty: &PtyRecord) -> Result<(), Errno> {
    let cpu = call.cpu;
    let number = pty.number.get();
    let mut digits = [0; 10];
    let (uid, _) = FileRights::of(call.process).owner();
    let rdev = Device { major: PTY_MAJOR, minor: number }.encode();
    let attributes = Attributes { mode: MODE, uid: uid.0, gid: GROUP, rdev, now_ns: cpu.realtime_ns() };
    let directory = directory(cpu)?;
    let inode = fs::create(cpu, directory.inode(), decimal(number, &mut digits), attributes)?;
    pty.inode.set(cpu.raw(inode.inode()));
    inode.release();
    Ok(())
}

/// Removes its node from `/dev/pts`, if it is there.
fn remove_name<M: Machine>(cpu: &Cpu<M>, pty: &PtyRecord) {
    let mut digits = [0; 10];
    let name = decimal(pty.number.get(), &mut digits);
    let is_own = |inode: &InodeRecord| if is_node_of(cpu, pty, inode) { Ok(()) } else { Err(Errno::EPERM) };
    if let Ok(directory) = directory(cpu) {
        // The superuser may have removed it, and made another one.
        let _ = fs::unlink(cpu, directory.inode(), name, cpu.realtime_ns(), is_own);
    }
}

/// Whether an inode is a pseudo-terminal's.
pub fn is_node_of<M: Machine>(cpu: &Cpu<M>, pty: &PtyRecord, inode: &InodeRecord) -> bool {
    cpu.object::<InodeRecord>(pty.inode.get()).is_some_and(|own| core::ptr::eq(own, inode))
}

/// `/dev/pts`.
fn directory<M: Machine>(cpu: &Cpu<M>) -> Result<Held<'_, Cpu<M>>, Errno> {
    let root = cpu.object::<InodeRecord>(cpu.pool.header().root_inode.get()).ok_or(Errno::ENOENT)?;
    let dev = fs::lookup(cpu, root, b"dev")?;
    fs::lookup(cpu, dev.inode(), b"pts")
}

fn decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

/// The pseudo-terminal of a number.
pub fn numbered<M: Machine>(cpu: &Cpu<M>, number: u32) -> Option<&'static PtyRecord> {
    cpu.object(cpu.pool.header().ptys.get(number as usize)?.load(Ordering::Acquire))
}

/// Gives a pseudo-terminal its master.
pub fn begin<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord, master: &'static FileRecord) {
    let _guard = lock(cpu, &cpu.pool.header().ptys_lock);
    pty.master.set(cpu.raw(master));
    pty.state.fetch_or(PTY_MASTER, Ordering::Release);
    pty.carrier.set(0);
    in_order();
    master.ended.store(0, Ordering::Release);
}

/// Counts an open file of a pseudo-terminal, which is not counted yet (`FileRecord::ended` is 1), if it `is_meant` still: the record may have become another
/// one's since the file was named.
///
/// # Errors
/// `EIO`: it is no terminal any more, or locked.
pub fn count<M: Machine>(
    cpu: &Cpu<M>,
    pty: &'static PtyRecord,
    file: &FileRecord,
    is_meant: impl FnOnce() -> bool,
) -> Result<(), Errno> {
    let _guard = lock(cpu, &cpu.pool.header().ptys_lock);
    let is_there = place(cpu, pty).is_some() && is_meant();
    let state = pty.state.load(Ordering::Relaxed);
    if !is_there || state & (PTY_MASTER | PTY_HUNG_UP | PTY_LOCKED) != PTY_MASTER {
        return Err(Errno::EIO);
    }
    pty.opens.set(pty.opens.get() + 1);
    pty.state.fetch_and(!PTY_LEFT, Ordering::Release);
    in_order();
    file.ended.store(0, Ordering::Release);
    Ok(())
}

/// An open file of a pseudo-terminal is closed: after the last one, the master is told. May be done twice.
pub fn closed<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord, file: &FileRecord) {
    {
        let _guard = lock(cpu, &cpu.pool.header().ptys_lock);
        if file.ended.load(Ordering::Relaxed) == 0 {
            if pty.opens.get() == 1 {
                pty.tty.exclusive.store(0, Ordering::Relaxed);
                pty.state.fetch_or(PTY_LEFT, Ordering::Release);
            }
            pty.opens.set(pty.opens.get() - 1);
            in_order();
            file.ended.store(1, Ordering::Release);
        }
    }
    wait::wake(cpu, &pty.readers);
}

/// A master is closed: the terminal is hung up. May be done twice, by another core if this one dies.
pub fn hang_up<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord, master: &FileRecord) {
    if master.ended.load(Ordering::Acquire) != 0 {
        return;
    }
    let ptys_lock = &cpu.pool.header().ptys_lock;
    {
        let _guard = lock(cpu, ptys_lock);
        pty.state.fetch_or(PTY_HUNG_UP, Ordering::Release);
    }
    let terminal = Terminal::of_pty(cpu, pty);
    terminal.wake_readers(cpu);
    terminal.wake_writers(cpu);
    remove_name(cpu, pty);
    tell_leader(cpu, terminal.session.get());
    let _guard = lock(cpu, ptys_lock);
    pty.state.fetch_and(!PTY_MASTER, Ordering::Release);
    in_order();
    master.ended.store(1, Ordering::Release);
}

/// The leader of a session that has lost its terminal is told. Its end tells the foreground group.
fn tell_leader<M: Machine>(cpu: &Cpu<M>, sid: u32) {
    let _tree = tree::lock_tree(cpu);
    if let Some(leader) = tree::lookup(cpu, sid).filter(|leader| leader.sid.load(Ordering::Relaxed) == sid) {
        for signal in [SIGHUP, SIGCONT] {
            signal::send_locked(cpu, leader, signal, Origin::KERNEL);
        }
    }
}

/// A process ends: if it leads a session, that loses its terminal. May be done twice.
pub fn session_ended<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) {
    let sid = process.sid.load(Ordering::Relaxed);
    if sid == process.pid.get() && sid != 1 {
        leader_ended(cpu, sid);
    }
}

#[cold]
fn leader_ended<M: Machine>(cpu: &Cpu<M>, sid: u32) {
    for terminal in Terminal::of_session(cpu, sid) {
        let signals: &[u32] = if terminal.is_hung_up() { &[SIGHUP, SIGCONT] } else { &[SIGHUP] };
        tty::leave_session(cpu, terminal, signals);
        if let Some(pty) = terminal.pty {
            put(cpu, pty);
        }
    }
}

/// Frees a pseudo-terminal, unless something has it, or another core frees it.
pub fn put<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord) {
    let ptys_lock = &cpu.pool.header().ptys_lock;
    {
        let _guard = lock(cpu, ptys_lock);
        let is_open = pty.state.load(Ordering::Relaxed) & PTY_MASTER != 0 || pty.opens.get() != 0;
        let is_used = is_open || pty.tty.session.get() != 0;
        let has_other = carrier(pty).is_some_and(|core| core != cpu.id && !is_dead(cpu, core));
        if place(cpu, pty).is_none() || is_used || has_other {
            return;
        }
        pty.carrier.set(1 + u32::from(cpu.id.0));
    }
    remove_name(cpu, pty);
    // Nodes of threads that still wait must not stay linked in memory that becomes another one.
    for queue in [&pty.readers, &pty.tty.readers, &pty.input.waiters, &pty.output.waiters] {
        wait::wake(cpu, queue);
    }
    for word in [&pty.typed, &pty.input.data, &pty.output.data] {
        let frame = word.get();
        word.set(0);
        if frame != 0 {
            release_frame(cpu, Frame((frame / PAGE_SIZE) as u32));
        }
    }
    let inode = cpu.object::<InodeRecord>(pty.inode.get());
    pty.inode.set(0);
    if let Some(inode) = inode {
        fs::put(cpu, inode);
    }
    {
        let _guard = lock(cpu, ptys_lock);
        if let Some(place) = place(cpu, pty) {
            place.store(0, Ordering::Release);
        }
    }
    slab::free(cpu, pty);
}

/// The core that makes a pseudo-terminal, or frees it.
fn carrier(pty: &PtyRecord) -> Option<CoreId> {
    pty.carrier.get().checked_sub(1).and_then(CoreId::from_raw)
}

/// Where the table has a pseudo-terminal. The table is locked.
fn place<M: Machine>(cpu: &Cpu<M>, pty: &'static PtyRecord) -> Option<&'static AtomicU64> {
    cpu.pool.header().ptys.iter().find(|word| word.load(Ordering::Relaxed) == cpu.raw(pty))
}

/// Counts again who has pseudo-terminals open, after a core has died that was changing it.
pub fn recover<M: Machine>(cpu: &Cpu<M>) {
    for pty in cpu.pool.header().ptys.iter().filter_map(|word| cpu.object::<PtyRecord>(word.load(Ordering::Relaxed))) {
        // One that is free is of no kind.
        let is_open = |file: &&FileRecord| {
            file.kind.get() != 0 && file.object.get() == cpu.raw(pty) && file.ended.load(Ordering::Relaxed) == 0
        };
        let (mut opens, mut has_master) = (0, false);
        for file in slab::all::<FileRecord>(cpu).filter(is_open) {
            if cpu.raw(file) == pty.master.get() { has_master = true } else { opens += 1 }
        }
        // Who was opening it has died, and so has closed it.
        if opens == 0 && pty.opens.get() != 0 {
            pty.state.fetch_or(PTY_LEFT, Ordering::Release);
        }
        pty.opens.set(opens);
        if !has_master {
            pty.state.fetch_and(!PTY_MASTER, Ordering::Release);
        }
    }
}

/// Frees pseudo-terminals that dead cores were making, or freeing. As `file::hands` says.
pub fn settle_the_dead<M: Machine>(cpu: &Cpu<M>) {
    for pty in cpu.pool.header().ptys.iter().filter_map(|word| cpu.object::<PtyRecord>(word.load(Ordering::Acquire))) {
        if carrier(pty).is_none_or(|core| is_dead(cpu, core)) {
            put(cpu, pty);
        }
    }
}

/// Whether the master would read something: what is shown, a packet, or that nobody has the terminal open any more.
pub fn is_readable(pty: &PtyRecord) -> bool {
    stream::used(&pty.output) > 0 || has_packet(pty)
}

/// Whether the next packet says that something has been done to the terminal.
pub fn has_packet(pty: &PtyRecord) -> bool {
    let packets = pty.tty.packets.load(Ordering::Acquire);
    packets & TTY_PACKETS != 0 && packets != TTY_PACKETS
}

/// Nobody has the terminal open any more.
pub fn is_left(pty: &PtyRecord) -> bool {
    pty.state.load(Ordering::Acquire) & PTY_LEFT != 0
}

/// Reads what is shown.
///
/// # Errors
/// `EIO`: nobody has the terminal open any more; `EAGAIN`.
pub fn read<M: Machine>(call: &Call<M>, pty: &'static PtyRecord, nonblocking: bool, into: &mut Cursor<M>) -> SysResult {
    if into.remaining() == 0 {
        return Ok(0);
    }
    call.wait_for(&pty.readers, || {
        // Looked at first: what was shown before is there then.
        let is_left = is_left(pty);
        if is_readable(pty) {
            return show(call, pty, into).map(Some);
        }
        if is_left {
            return Err(Errno::EIO.into());
        }
        if nonblocking { Err(Errno::EAGAIN.into()) } else { Ok(None) }
    })
}

fn show<M: Machine>(call: &Call<M>, pty: &'static PtyRecord, into: &mut Cursor<M>) -> SysResult {
    let packets = pty.tty.packets.load(Ordering::Acquire);
    if packets & TTY_PACKETS != 0 {
        // Faults now, not after the word was taken.
        into.run()?;
        let told = pty.tty.packets.fetch_and(TTY_PACKETS, Ordering::AcqRel) & !TTY_PACKETS;
        into.write(&[told as u8])?;
        if told != 0 {
            return Ok(1);
        }
    }
    let output: &'static HostStream = &pty.output;
    while into.remaining() > 0 && stream::used(output) > 0 {
        match stream::consume(call.cpu, output, || into.run()) {
            Ok(moved) => into.advance(moved.len)?,
            Err(stop) => return partial(into.done(), stop),
        }
    }
    wait::wake(call.cpu, &output.waiters);
    Ok(into.done())
}

/// Types.
///
/// # Errors
/// `EAGAIN`.
pub fn write<M: Machine>(
    call: &Call<M>,
    pty: &'static PtyRecord,
    nonblocking: bool,
    from: &mut Cursor<M>,
) -> SysResult {
    let terminal = Terminal::of_pty(call.cpu, pty);
    from.advance(call.thread.progress.get() as usize)?;
    call.wait_for(&pty.input.waiters, || {
        while from.remaining() > 0 {
            let mut bytes = [0; CHUNK];
            let bytes = &mut bytes[..CHUNK.min(from.remaining() as usize)];
            if let Err(stop) = from.peek(bytes) {
                return stopped(call, from.done(), stop).map(Some);
            }
            let moved = stream::produce_bytes(call.cpu, Side::Machine, &pty.input, Part::Fitting, bytes);
            from.advance(moved.len)?;
            tty::take_typed(call.cpu, terminal);
            if moved.len == 0 {
                call.thread.progress.set(from.done());
                return if nonblocking { partial(from.done(), Stop::from(Errno::EAGAIN)).map(Some) } else { Ok(None) };
            }
            if from.remaining() > 0 && call.pauses(cost::PAGE + 10 * CHUNK as u64) {
                call.thread.progress.set(from.done());
                return Err(Stop::Again);
            }
        }
        Ok(Some(from.done()))
    })
}

//! Connections with other machines: each has a socket of the protocols' and, but for its beginning and end, the far end of a program's socket.

use core::net::SocketAddrV4;

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::Frame;
use smoltcp::{
    iface::{SocketHandle, SocketSet},
    socket::tcp::{CongestionControl, Socket, State},
    time::{Duration, Instant},
    wire::{IpEndpoint, IpListenEndpoint},
};

use super::{Net, REQUESTS_AT_ONCE};
use crate::{
    cpu::Cpu,
    file::socket::gateway::{Arrived, Far, Gateway, Moved},
};

/// How long an answer to the first segment is waited for.
const ANSWER: Duration = Duration::from_secs(60);
/// How long one to any other segment is.
const SILENCE: Duration = Duration::from_secs(900);
/// How long a connection stays that its program has left, if nothing is heard (Linux `net.ipv4.tcp_fin_timeout`).
const LEFT: Duration = Duration::from_secs(60);
/// Pieces that are moved at once in each direction of a connection, and of all connections together.
const PIECES: usize = 8;
const PIECES_AT_ONCE: usize = 64;

/// What a connection is for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing.
    Free,
    /// A program wants it.
    Calling,
    /// Another machine wants it.
    Called,
    /// It is there.
    Open,
    /// Its program has left it, and the last segments are exchanged.
    Left,
    /// It was broken off, and the other machine is told.
    BrokenOff,
}

/// What becomes of another machine's wish to be connected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// The protocols answer it: they refuse it if nobody listens.
    Answered,
    /// Somebody listens, and there is no place for it now: it is as if it had not come, and comes again.
    Ignored,
}

/// Whether a connection's end was in a frame that has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It was.
    Answer,
    /// Nothing has come for too long.
    Nothing,
}

/// A place for a connection.
pub struct Connection {
    /// The protocols' socket.
    pub handle: SocketHandle,
    phase: Phase,
    far: Option<Far>,
    /// Whose it is.
    owner: u32,
    /// Since when it is so.
    since: Instant,
    has_sent_end: bool,
    has_told_end: bool,
}

impl Net {
    /// Takes wishes of programs. `true`: there may be more.
    pub(super) fn take_requests<M: Machine>(&mut self, cpu: &Cpu<M>, now: Instant) -> bool {
        for _ in 0..REQUESTS_AT_ONCE {
            let Some((far, [from, to])) = self.sockets_of_programs.take_request(cpu) else { return false };
            if let Err(errno) = self.call(far, [from, to], now) {
                far.fail(cpu, errno);
            }
        }
        true
    }

    fn call(&mut self, far: Far, [from, to]: [SocketAddrV4; 2], now: Instant) -> Result<(), Errno> {
        if self.is_there([to, from]) {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let owner = far.owner();
        let index = self.free_place(owner).ok_or(Errno::EAGAIN)?;
        let connection = &mut self.connections[index];
        let socket = self.sockets.get_mut::<Socket>(connection.handle);
        begin_anew(socket);
        let is_possible =
            socket.connect(self.interface.context(), IpEndpoint::from(to), IpEndpoint::from(from)).is_ok();
        if !is_possible || *from.ip() != self.address {
            socket.abort();
            return Err(Errno::ENETUNREACH);
        }
        connection.begin(Phase::Calling, Some(far), owner, now);
        Ok(())
    }

    /// A frame that is about to be looked at asks for a connection: if somebody listens for it, a place is prepared.
    pub(super) fn prepare_listener<M: Machine>(&mut self, cpu: &Cpu<M>, now: Instant, ends: [SocketAddrV4; 2]) -> Call {
        if self.is_there(ends) {
            return Call::Answered;
        }
        let Some(owner) = self.sockets_of_programs.listener(cpu, ends) else { return Call::Answered };
        let called = self.connections.iter().filter(|connection| connection.phase == Phase::Called).count();
        let is_full = called * 4 >= self.connections.len();
        let place = if is_full { None } else { self.free_place(owner) };
        let Some(index) = place else { return Call::Ignored };
        let connection = &mut self.connections[index];
        let socket = self.sockets.get_mut::<Socket>(connection.handle);
        begin_anew(socket);
        if socket.listen(IpListenEndpoint::from(IpEndpoint::from(ends[1]))).is_ok() {
            connection.begin(Phase::Called, None, owner, now);
        }
        Call::Answered
    }

    /// Whether there is a connection between another machine's end and one here.
    fn is_there(&self, ends: [SocketAddrV4; 2]) -> bool {
        let [there, here] = ends.map(IpEndpoint::from);
        self.connections.iter().filter(|connection| connection.phase != Phase::Free).any(|connection| {
            let socket = self.sockets.get::<Socket>(connection.handle);
            let is_past = connection.phase == Phase::Left && socket.state() == State::TimeWait;
            !is_past && socket.remote_endpoint() == Some(there) && socket.local_endpoint() == Some(here)
        })
    }

    /// A place for a user's next connection: no user has more than three quarters of them. One that only waits for late segments is used again.
    fn free_place(&mut self, owner: u32) -> Option<usize> {
        let is_used = |connection: &&Connection| connection.phase != Phase::Free && connection.owner == owner;
        if self.connections.iter().filter(is_used).count() * 4 >= self.connections.len() * 3 {
            let is_past = |connection: &Connection| connection.owner == owner && connection.is_past(&self.sockets);
            let index = self.connections.iter().position(is_past)?;
            return Some(self.reuse(index));
        }
        let free = self.connections.iter().position(|connection| connection.phase == Phase::Free);
        free.or_else(|| self.connections.iter().position(|connection| connection.is_past(&self.sockets)))
            .map(|index| self.reuse(index))
    }

    fn reuse(&mut self, index: usize) -> usize {
        let connection = &mut self.connections[index];
        self.sockets.get_mut::<Socket>(connection.handle).abort();
        connection.phase = Phase::Free;
        index
    }

    /// Moves bytes of all connections, and looks at what has become of them. `true`: there may be more.
    pub(super) fn serve_connections<M: Machine>(
        &mut self,
        cpu: &Cpu<M>,
        (frame, now): (Frame, Instant),
        heard: Heard,
    ) -> bool {
        let Self { connections, sockets, sockets_of_programs, served_first, waits, .. } = self;
        *waits = false;
        // Each connection comes first in turn: all pieces may be the first ones'.
        *served_first = (*served_first + 1) % connections.len().max(1);
        let (before, from) = connections.split_at_mut(*served_first);
        let (mut has_more, mut left) = (false, PIECES_AT_ONCE);
        for connection in from.iter_mut().chain(before).filter(|connection| connection.phase != Phase::Free) {
            let socket = sockets.get_mut::<Socket>(connection.handle);
            has_more |=
                connection.serve(cpu, (socket, sockets_of_programs), (frame, now), (heard, &mut left, &mut *waits));
        }
        has_more
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            handle: SocketHandle::default(),
            phase: Phase::Free,
            far: None,
            owner: 0,
            since: Instant::ZERO,
            has_sent_end: false,
            has_told_end: false,
        }
    }
}

impl Connection {
    fn begin(&mut self, phase: Phase, far: Option<Far>, owner: u32, now: Instant) {
        let handle = self.handle;
        *self = Self { handle, phase, far, owner, since: now, has_sent_end: false, has_told_end: false };
    }

    /// Whether it only waits for late segments.
    fn is_past(&self, sockets: &SocketSet<'_>) -> bool {
        self.phase == Phase::Left && sockets.get::<Socket>(self.handle).state() == State::TimeWait
    }

    fn serve<M: Machine>(
        &mut self,
        cpu: &Cpu<M>,
        (socket, programs): (&mut Socket<'_>, &Gateway),
        (frame, now): (Frame, Instant),
        (heard, left, waits): (Heard, &mut usize, &mut bool),
    ) -> bool {
        match (self.phase, self.far) {
            (Phase::Calling, Some(far)) => self.wait_for_answer(cpu, socket, far, (now, heard)),
            (Phase::Called, _) => *waits |= self.wait_for_greeting(cpu, socket, programs, now),
            (Phase::Open, Some(far)) => return self.exchange(cpu, socket, far, (frame, now), (heard, left)),
            (Phase::Left, _) => self.part(socket, now),
            (Phase::BrokenOff, _) if socket.remote_endpoint().is_none() || now >= self.since + ANSWER => {
                self.phase = Phase::Free;
            }
            _ => {}
        }
        false
    }

    fn wait_for_answer<M: Machine>(
        &mut self,
        cpu: &Cpu<M>,
        socket: &mut Socket<'_>,
        far: Far,
        (now, heard): (Instant, Heard),
    ) {
        let state = socket.state();
        if far.is_left() {
            self.break_off(cpu, socket, far, now);
        } else if state == State::Closed {
            far.fail(cpu, if heard == Heard::Answer { Errno::ECONNREFUSED } else { Errno::ETIMEDOUT });
            self.free();
        } else if !matches!(state, State::SynSent | State::SynReceived) {
            far.establish(cpu);
            self.open(socket, far);
        }
    }

    /// `true`: it is there, and the listener's list is full.
    fn wait_for_greeting<M: Machine>(
        &mut self,
        cpu: &Cpu<M>,
        socket: &mut Socket<'_>,
        programs: &Gateway,
        now: Instant,
    ) -> bool {
        let state = socket.state();
        if matches!(state, State::Listen | State::Closed) {
            // Its first segment was none, or was taken back.
            socket.abort();
            self.free();
        } else if state != State::SynReceived {
            match ends_of(socket).map_or(Arrived::Unwanted, |ends| programs.arrive(cpu, ends)) {
                Arrived::There(far) => self.open(socket, far),
                // What it sends stays here meanwhile.
                Arrived::Waits if now < self.since + ANSWER => return true,
                Arrived::Waits | Arrived::Unwanted => {
                    socket.abort();
                    (self.phase, self.since) = (Phase::BrokenOff, now);
                }
            }
        }
        false
    }

    fn open(&mut self, socket: &mut Socket<'_>, far: Far) {
        // Only while an answer is due: otherwise, a connection may be idle for as long as its programs like.
        socket.set_timeout(None);
        (self.phase, self.far) = (Phase::Open, Some(far));
    }

    /// Moves bytes in both directions, and ends. `true`: there may be more.
    fn exchange<M: Machine>(
        &mut self,
        cpu: &Cpu<M>,
        socket: &mut Socket<'_>,
        far: Far,
        (frame, now): (Frame, Instant),
        (heard, left): (Heard, &mut usize),
    ) -> bool {
        far.is_rung();
        let (given, has_given_all) = give(cpu, socket, (far, frame), left);
        let (taken, has_taken_all) = take(cpu, socket, (far, frame), left);
        if given == Moved::Gone || taken == Moved::Gone {
            self.break_off(cpu, socket, far, now);
            return false;
        }
        if taken == Moved::End && !self.has_sent_end {
            self.has_sent_end = true;
            socket.close();
        }
        socket.set_timeout((socket.send_queue() > 0).then_some(SILENCE));
        let state = socket.state();
        let has_heard_end = matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        if has_heard_end && socket.recv_queue() == 0 && !self.has_told_end {
            self.has_told_end = true;
            far.end_of_input(cpu);
        }
        if state == State::Closed && socket.recv_queue() == 0 {
            match (self.has_sent_end && self.has_told_end, heard) {
                (true, _) => far.close(cpu),
                (false, Heard::Answer) => far.fail(cpu, Errno::ECONNRESET),
                (false, Heard::Nothing) => far.fail(cpu, Errno::ETIMEDOUT),
            }
            self.free();
        } else if self.has_sent_end && far.is_left() {
            far.close(cpu);
            (self.phase, self.far, self.since) = (Phase::Left, None, now);
        }
        !has_given_all || !has_taken_all
    }

    /// Its program has left: what comes still is for nobody.
    fn part(&mut self, socket: &mut Socket<'_>, now: Instant) {
        let state = socket.state();
        let is_silent = now >= self.since + LEFT && socket.send_queue() == 0;
        if state == State::Closed {
            self.free();
        } else if state != State::TimeWait && (socket.can_recv() || is_silent) {
            socket.abort();
            (self.phase, self.since) = (Phase::BrokenOff, now);
        }
    }

    /// Its program has reset it.
    fn break_off<M: Machine>(&mut self, cpu: &Cpu<M>, socket: &mut Socket<'_>, far: Far, now: Instant) {
        socket.abort();
        far.close(cpu);
        (self.phase, self.far, self.since) = (Phase::BrokenOff, None, now);
    }

    fn free(&mut self) {
        (self.phase, self.far) = (Phase::Free, None);
    }
}

/// A socket of the protocols' knows nothing of the connection before.
fn begin_anew(socket: &mut Socket<'_>) {
    socket.set_timeout(Some(ANSWER));
    socket.set_congestion_control(CongestionControl::Reno);
}

/// Gives a program what has come. Whether that was all for which there is room.
fn give<M: Machine>(
    cpu: &Cpu<M>,
    socket: &mut Socket<'_>,
    (far, frame): (Far, Frame),
    left: &mut usize,
) -> (Moved, bool) {
    for _ in 0..PIECES {
        if !socket.can_recv() || far.room() == 0 && !far.is_left() {
            return (Moved::Bytes(0), true);
        }
        if *left == 0 {
            break;
        }
        *left -= 1;
        let moved = socket.recv(|bytes| match far.give(cpu, frame, bytes) {
            Moved::Bytes(len) => (len, Moved::Bytes(len)),
            end @ (Moved::End | Moved::Gone) => (0, end),
        });
        match moved {
            Ok(Moved::Bytes(len)) if len > 0 => {}
            Ok(other) => return (other, true),
            Err(_) => return (Moved::Bytes(0), true),
        }
    }
    (Moved::Bytes(0), false)
}

/// Takes what a program has sent. Whether that was all for which there is room.
fn take<M: Machine>(
    cpu: &Cpu<M>,
    socket: &mut Socket<'_>,
    (far, frame): (Far, Frame),
    left: &mut usize,
) -> (Moved, bool) {
    for _ in 0..PIECES {
        if !socket.can_send() || *left == 0 {
            return (if far.is_reset() { Moved::Gone } else { Moved::Bytes(0) }, *left != 0);
        }
        *left -= 1;
        let moved = socket.send(|room| match far.take(cpu, frame, room) {
            Moved::Bytes(len) => (len, Moved::Bytes(len)),
            end @ (Moved::End | Moved::Gone) => (0, end),
        });
        match moved {
            Ok(Moved::Bytes(len)) if len > 0 => {}
            Ok(other) => return (other, true),
            Err(_) => return (Moved::Bytes(0), true),
        }
    }
    (Moved::Bytes(0), false)
}

/// From where to where another machine has connected.
fn ends_of(socket: &Socket<'_>) -> Option<[SocketAddrV4; 2]> {
    let end = |at: IpEndpoint| {
        let smoltcp::wire::IpAddress::Ipv4(ip) = at.addr;
        SocketAddrV4::new(ip, at.port)
    };
    Some([end(socket.remote_endpoint()?), end(socket.local_endpoint()?)])
}

//! What a family of sockets is.
//!
//! A family is a small type in a file of its own, whose value is one socket. It says how its sockets are made, named, connected and ended, and what sending and
//! receiving do. What it says nothing about is answered as Linux answers for families that lack it. `super::families` has the list, and the one match over it.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{SocketRecord, WaitQueue};
use motet_protocol::pipe::packet::Credentials;

use super::{
    control::{Ancillary, Said},
    listed::Row,
    rights::Packet,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{Outlet, Queues},
    mm,
};

/// Bytes of the longest address (`struct sockaddr_storage`).
pub const ADDRESS_MAX: usize = 128;
/// Bytes of the longest value of an option (`struct tcp_info`, as programs know it).
pub const OPTION_MAX: usize = 104;

/// An address, as programs write it: its family and what that family makes of the rest. Empty: none.
#[derive(Clone, Copy)]
pub struct Address {
    bytes: [u8; ADDRESS_MAX],
    len: usize,
}

impl Address {
    /// No address.
    pub const NONE: Self = Self { bytes: [0; ADDRESS_MAX], len: 0 };

    /// One that these bytes are, of which there are [`ADDRESS_MAX`] at most.
    pub fn of(bytes: &[u8]) -> Self {
        let len = bytes.len().min(ADDRESS_MAX);
        let mut address = Self { len, ..Self::NONE };
        address.bytes[..len].copy_from_slice(&bytes[..len]);
        address
    }

    /// Reads one from user memory.
    ///
    /// # Errors
    /// `EINVAL`: there is none that long; `EFAULT`; [`Stop::Page`].
    pub fn read<M: Machine>(call: &Call<M>, at: u64, len: u64) -> Result<Self, Stop> {
        let len = usize::try_from(len as i32).ok().filter(|&len| len <= ADDRESS_MAX).ok_or(Errno::EINVAL)?;
        let mut address = Self { len, ..Self::NONE };
        call.read_user(at, &mut address.bytes[..len])?;
        Ok(address)
    }

    /// All of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Its family (`AF_*`), unless it is too short to have one.
    pub fn family(&self) -> Option<u32> {
        (self.len >= 2).then(|| u16::from_le_bytes([self.bytes[0], self.bytes[1]]).into())
    }

    /// Waits until the pages have come to which [`write`](Self::write) is to write, if it is.
    ///
    /// # Errors
    /// [`Stop::Page`]; `EFAULT`.
    pub fn await_pages<M: Machine>(call: &Call<M>, at: u64, len_at: u64) -> Result<(), Stop> {
        if at == 0 || !mm::has_late_pages(call.cpu, call.process) {
            return Ok(());
        }
        let room = u64::from(call.read_user_u32(len_at)?);
        call.await_pages(at, room.min(ADDRESS_MAX as u64))
    }

    /// Writes as much of it as there is room for, and its length.
    ///
    /// # Errors
    /// `EINVAL`: the room is negative; `EFAULT`; [`Stop::Page`].
    pub fn write<M: Machine>(&self, call: &Call<M>, at: u64, len_at: u64) -> Result<(), Stop> {
        let room = usize::try_from(call.read_user_u32(len_at)?.cast_signed()).map_err(|_| Errno::EINVAL)?;
        call.write_user(at, &self.bytes[..self.len.min(room)])?;
        call.write_user(len_at, &(self.len as u32).to_le_bytes())
    }
}

/// What a call sends, besides its bytes.
pub struct Sending<'a, 'c, M: Machine> {
    /// It does not wait.
    pub nonblocking: bool,
    /// `MSG_*`.
    pub flags: u32,
    /// Where to; none: to whom the socket is connected.
    pub address: &'a Address,
    /// Who says to send it.
    pub credentials: Option<Credentials>,
    /// What else is said of it.
    pub said: Said,
    /// A packet with open files that go with the bytes.
    pub files: Option<Packet<'c, M>>,
}

/// How a call receives.
#[derive(Clone, Copy)]
pub struct Receiving {
    /// It does not wait.
    pub nonblocking: bool,
    /// `MSG_*`.
    pub flags: u32,
}

/// What was received, besides bytes.
pub struct Received<'c, M: Machine> {
    /// `MSG_*` that the message has.
    pub flags: u32,
    /// Who has sent it, if that has a name.
    pub sender: Option<Address>,
    /// What else.
    pub ancillary: Ancillary<'c, M>,
}

impl<M: Machine> Received<'_, M> {
    /// Nothing.
    pub const fn nothing() -> Self {
        Self { flags: 0, sender: None, ancillary: Ancillary::NONE }
    }
}

/// A family of sockets: its value is one socket.
pub trait Family: Copy {
    /// `AF_*`, which addresses begin with.
    const CODE: u32;
    /// Open files may be sent (`SCM_RIGHTS`).
    const PASSES_RIGHTS: bool = false;
    /// Whoever receives may learn who has sent it (`SO_PASSCRED`).
    const TELLS_CREDENTIALS: bool = Self::PASSES_RIGHTS;

    /// The socket with that record.
    fn of(socket: &'static SocketRecord) -> Self;

    /// Says which kind a socket of `SOCK_*` and a protocol is (`SO_TYPE`, `SO_PROTOCOL`).
    ///
    /// # Errors
    /// `EPROTONOSUPPORT`, `ESOCKTNOSUPPORT`.
    fn check(kind: u32, protocol: u32) -> Result<[u32; 2], Errno>;

    /// Gets a new socket ready that has its kind, and that nobody knows yet.
    ///
    /// # Errors
    /// `ENOMEM`; it is to be closed.
    fn prepare<M: Machine>(self, _call: &Call<M>) -> Result<(), Errno> {
        Ok(())
    }

    /// Connects two new sockets to each other.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the family has no pairs; `ENOMEM`. They are to be closed.
    fn pair<M: Machine>(self, _call: &Call<M>, _other: Self) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// `bind`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    fn bind<M: Machine>(self, _call: &Call<M>, _address: &Address) -> Result<(), Stop> {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// `listen`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    fn listen<M: Machine>(self, _call: &Call<M>, _backlog: u32) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// `connect`.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    fn connect<M: Machine>(self, _call: &Call<M>, _nonblocking: bool, _address: &Address) -> Result<(), Stop> {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// `accept`: a socket that [this core has](SocketRecord::acceptor) and that needs a file.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    fn accept<M: Machine>(self, _call: &Call<M>, _nonblocking: bool) -> Result<&'static SocketRecord, Stop> {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// `shutdown`, of directions (`super::SHUT_*`).
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    fn shutdown<M: Machine>(self, _call: &Call<M>, _how: u32) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Its own address (`getsockname`).
    fn name<M: Machine>(self, cpu: &Cpu<M>) -> Address;

    /// That of whom it is connected to (`getpeername`).
    ///
    /// # Errors
    /// `ENOTCONN`.
    fn peer_name<M: Machine>(self, cpu: &Cpu<M>) -> Result<Address, Errno>;

    /// That of who has asked for it, which was accepted just now, and may have ended since.
    fn accepted_from<M: Machine>(self, cpu: &Cpu<M>) -> Address {
        self.peer_name(cpu).unwrap_or(Address::NONE)
    }

    /// Reads a control message of the family's own, of a level and a kind: the first of its bytes, and how many there are.
    ///
    /// # Errors
    /// `EINVAL`.
    fn control(self, _said: &mut Said, _which: (u32, u32), _data: &[u8], _len: u64) -> Result<(), Errno> {
        Ok(())
    }

    /// Sends.
    ///
    /// # Errors
    /// What send(2) says.
    fn send<M: Machine>(self, call: &Call<M>, how: Sending<M>, from: &mut Cursor<M>) -> SysResult;

    /// Receives bytes, and what comes with them ([`Received::nothing`] before). It is not returned, as it is large.
    ///
    /// # Errors
    /// What recv(2) says.
    fn receive<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        how: Receiving,
        into: &mut Cursor<M>,
        with: &mut Received<'c, M>,
    ) -> SysResult;

    /// Writes the value of an option that is the family's own, and says how long it is.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: it knows no such level; `ENOPROTOOPT`: no such option.
    fn option<M: Machine>(
        self,
        _cpu: &Cpu<M>,
        (level, _option): (u32, u32),
        _into: &mut [u8; OPTION_MAX],
    ) -> Result<usize, Errno> {
        Err(if level == super::flags::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP })
    }

    /// Sets an option that is the family's own.
    ///
    /// # Errors
    /// As [`Self::option`]; `EINVAL`, `EFAULT`.
    fn set_option<M: Machine>(
        self,
        _call: &Call<M>,
        (level, _option): (u32, u32),
        _value: (u64, u64),
    ) -> Result<(), Stop> {
        Err(if level == super::flags::SOL_SOCKET { Errno::ENOPROTOOPT } else { Errno::EOPNOTSUPP }.into())
    }

    /// What has gone wrong since this was last asked (`SO_ERROR`).
    fn take_error<M: Machine>(self, _cpu: &Cpu<M>) -> Option<Errno> {
        None
    }

    /// The events (`POLL*`) for which it is ready.
    fn readiness<M: Machine>(self, cpu: &Cpu<M>) -> u16;

    /// Who waits for it.
    fn queues<M: Machine>(self, cpu: &Cpu<M>) -> Queues;

    /// Counts that tell whether anything has come to it ([`Kind::arrivals`](crate::description::kind::Kind::arrivals)).
    fn arrivals<M: Machine>(self, _cpu: &Cpu<M>) -> [Option<u64>; 2] {
        [None, None]
    }

    /// Bytes that a read would return (`FIONREAD`).
    ///
    /// # Errors
    /// `EINVAL`: it listens.
    fn bytes_ready<M: Machine>(self, _cpu: &Cpu<M>) -> Result<u64, Errno> {
        Ok(0)
    }

    /// Bytes that were sent and that have not come to their receiver (`SIOCOUTQ`).
    ///
    /// # Errors
    /// `EINVAL`: it listens.
    fn bytes_unsent<M: Machine>(self, _cpu: &Cpu<M>) -> Result<u64, Errno> {
        Ok(0)
    }

    /// What lists of all sockets tell of it, `None`: nothing. It may be half made, or half gone: nothing of it is changed, and no lock is taken.
    fn listed<M: Machine>(self, _cpu: &Cpu<M>) -> Option<Row> {
        None
    }

    /// An `ioctl` that is the family's own.
    ///
    /// # Errors
    /// `ENOTTY`: it is another one.
    fn ioctl<M: Machine>(self, _call: &Call<M>, _request: (u32, u64)) -> SysResult {
        Err(Errno::ENOTTY.into())
    }

    /// Where bytes that `sendfile` sends to it go.
    ///
    /// # Errors
    /// `EINVAL`: nowhere. Programs then read and write.
    fn outlet<M: Machine>(self, _call: &Call<M>) -> Result<Outlet, Errno> {
        Err(Errno::EINVAL)
    }

    /// It is about to be closed: nobody finds it any more, and others are told. May be done twice.
    fn end<M: Machine>(self, cpu: &Cpu<M>);

    /// Frees it, with what it has. It has [ended](Self::end), if it had an open file.
    fn close<M: Machine>(self, cpu: &Cpu<M>);
}

/// Queues of a socket at which only one side waits.
pub fn one_queue(queue: &'static WaitQueue) -> Queues {
    [(Some(queue), u16::MAX), (None, crate::description::kind::OUTPUT)]
}

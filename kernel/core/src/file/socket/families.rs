//! The list of all families of sockets, and the one match over it.
//!
//! Who adds a family writes its file, in which a type implements [`Family`], and adds a row here. All that calls ask of a socket goes through this match, so no
//! other code asks which family a socket is of.

use motet_abi::{Errno, terminal::TIOCOUTQ};
use motet_hal::Machine;
use motet_layout::{SocketRecord, handshake::then_look, sync::Ordering};
use motet_protocol::wait;

use super::{
    SOCK_STREAM,
    control::Said,
    family::{Address, Family, OPTION_MAX, Received, Receiving, Sending},
    inet::Inet,
    listed::Row,
    netlink::Netlink,
    unix::Unix,
};
use crate::{
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::kind::{OUTPUT, Outlet, Queues},
};

/// Does something with a family (a type), by its code.
macro_rules! of_family {
    ($code:expr, $family:ident => $then:expr, else $none:expr) => {
        of_family! { @rows $code, $family => $then, else $none;
            AF_UNIX => Unix,
            AF_INET => Inet<2>,
            AF_INET6 => Inet<10>,
            AF_NETLINK => Netlink,
        }
    };
    (@rows $code:expr, $family:ident => $then:expr, else $none:expr; $($name:ident => $type:ty,)+) => {
        match $code {
            $(<$type as Family>::CODE => {
                type $family = $type;
                $then
            })+
            _ => $none,
        }
    };
}

/// Does something with what a socket is, whatever family it is of.
macro_rules! of_socket {
    ($socket:expr, $it:ident => $then:expr) => {
        of_family!($socket.family.get(), F => {
            let $it = <F as Family>::of($socket);
            $then
        }, else without_family($socket))
    };
}

#[cold]
fn without_family(socket: &SocketRecord) -> ! {
    panic!("a socket of family {}: shared structures are corrupt", socket.family.get())
}

/// [`Family::check`], of a family by its number.
///
/// # Errors
/// `EAFNOSUPPORT`: there is no such family; those of its own.
pub fn check(family: u32, kind: u32, protocol: u32) -> Result<[u32; 2], Errno> {
    of_family!(family, F => F::check(kind, protocol), else Err(Errno::EAFNOSUPPORT))
}

/// [`Family::PASSES_RIGHTS`].
pub fn passes_rights(socket: &SocketRecord) -> bool {
    of_family!(socket.family.get(), F => F::PASSES_RIGHTS, else without_family(socket))
}

/// [`Family::TELLS_CREDENTIALS`].
pub fn tells_credentials(socket: &SocketRecord) -> bool {
    of_family!(socket.family.get(), F => F::TELLS_CREDENTIALS, else without_family(socket))
}

/// [`Family::prepare`].
pub fn prepare<M: Machine>(call: &Call<M>, socket: &'static SocketRecord) -> Result<(), Errno> {
    of_socket!(socket, it => it.prepare(call))
}

/// [`Family::pair`]; both are of one family.
pub fn pair<M: Machine>(call: &Call<M>, [one, two]: [&'static SocketRecord; 2]) -> Result<(), Errno> {
    of_family!(one.family.get(), F => F::of(one).pair(call, F::of(two)), else without_family(one))
}

/// [`Family::bind`].
pub fn bind<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, address: &Address) -> Result<(), Stop> {
    of_socket!(socket, it => it.bind(call, address))
}

/// [`Family::listen`].
pub fn listen<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, backlog: u32) -> Result<(), Errno> {
    of_socket!(socket, it => it.listen(call, backlog))
}

/// [`Family::connect`].
pub fn connect<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
    address: &Address,
) -> Result<(), Stop> {
    of_socket!(socket, it => it.connect(call, nonblocking, address))
}

/// [`Family::accept`].
pub fn accept<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    nonblocking: bool,
) -> Result<&'static SocketRecord, Stop> {
    of_socket!(socket, it => it.accept(call, nonblocking))
}

/// [`Family::shutdown`].
pub fn shutdown<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, how: u32) -> Result<(), Errno> {
    of_socket!(socket, it => it.shutdown(call, how))
}

/// [`Family::name`].
pub fn name<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Address {
    of_socket!(socket, it => it.name(cpu))
}

/// [`Family::peer_name`].
pub fn peer_name<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Result<Address, Errno> {
    of_socket!(socket, it => it.peer_name(cpu))
}

/// [`Family::accepted_from`].
pub fn accepted_from<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Address {
    of_socket!(socket, it => it.accepted_from(cpu))
}

/// [`Family::control`].
///
/// # Errors
/// `EINVAL`.
pub fn control(
    socket: &'static SocketRecord,
    said: &mut Said,
    which: (u32, u32),
    data: &[u8],
    len: u64,
) -> Result<(), Errno> {
    of_socket!(socket, it => it.control(said, which, data, len))
}

/// [`Family::send`].
#[inline(never)]
pub fn send<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    how: Sending<M>,
    from: &mut Cursor<M>,
) -> SysResult {
    let sent = of_socket!(socket, it => it.send(call, how, from));
    match sent {
        Err(Stop::Block) => socket.wanted_room.store(1, Ordering::Release),
        Err(Stop::Error(Errno::EAGAIN)) => has_found_no_room(call.cpu, socket),
        _ => {}
    }
    sent
}

/// Somebody who does not wait has found no room. The socket's owner is told when there is some, also if that has come since; of packets, of which room for one
/// says nothing of another, only if it comes later.
#[cold]
#[inline(never)]
fn has_found_no_room<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    socket.wanted_room.store(1, Ordering::Release);
    then_look();
    if let [_, (Some(queue), _)] = queues(cpu, socket)
        && socket.kind.get() == SOCK_STREAM
        && readiness(cpu, socket) & OUTPUT != 0
    {
        wait::wake(cpu, queue);
    }
}

/// [`Family::receive`].
#[inline(never)]
pub fn receive<'c, M: Machine>(
    call: &Call<'c, M>,
    socket: &'static SocketRecord,
    how: Receiving,
    into: &mut Cursor<M>,
    with: &mut Received<'c, M>,
) -> SysResult {
    of_socket!(socket, it => it.receive(call, how, into, with))
}

/// [`Family::option`].
pub fn option<M: Machine>(
    cpu: &Cpu<M>,
    socket: &'static SocketRecord,
    which: (u32, u32),
    into: &mut [u8; OPTION_MAX],
) -> Result<usize, Errno> {
    of_socket!(socket, it => it.option(cpu, which, into))
}

/// [`Family::set_option`].
pub fn set_option<M: Machine>(
    call: &Call<M>,
    socket: &'static SocketRecord,
    which: (u32, u32),
    value: (u64, u64),
) -> Result<(), Stop> {
    of_socket!(socket, it => it.set_option(call, which, value))
}

/// [`Family::take_error`].
pub fn take_error<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Option<Errno> {
    of_socket!(socket, it => it.take_error(cpu))
}

/// [`Family::readiness`].
pub fn readiness<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> u16 {
    of_socket!(socket, it => it.readiness(cpu))
}

/// [`Family::queues`].
pub fn queues<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Queues {
    of_socket!(socket, it => it.queues(cpu))
}

/// [`Family::arrivals`].
pub fn arrivals<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> [Option<u64>; 2] {
    of_socket!(socket, it => it.arrivals(cpu))
}

/// [`Family::bytes_ready`].
pub fn bytes_ready<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Result<u64, Errno> {
    of_socket!(socket, it => it.bytes_ready(cpu))
}

/// [`Family::listed`]; one that is being made may be of no family yet.
pub fn listed<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) -> Option<Row> {
    of_family!(socket.family.get(), F => F::of(socket).listed(cpu), else None)
}

/// [`Family::ioctl`], and `SIOCOUTQ`.
pub fn ioctl<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, request: (u32, u64)) -> SysResult {
    if request.0 == TIOCOUTQ {
        let bytes = of_socket!(socket, it => it.bytes_unsent(call.cpu))?;
        call.write_user(request.1, &(bytes as u32).to_le_bytes())?;
        return Ok(0);
    }
    of_socket!(socket, it => it.ioctl(call, request))
}

/// [`Family::outlet`].
pub fn outlet<M: Machine>(call: &Call<M>, socket: &'static SocketRecord) -> Result<Outlet, Errno> {
    of_socket!(socket, it => it.outlet(call))
}

/// [`Family::end`].
pub fn end<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    of_socket!(socket, it => it.end(cpu));
}

/// [`Family::close`].
pub fn close<M: Machine>(cpu: &Cpu<M>, socket: &'static SocketRecord) {
    of_socket!(socket, it => it.close(cpu));
}

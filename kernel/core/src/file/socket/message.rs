//! System calls that send and receive, by sockets of whatever family.

use motet_abi::{
    Errno,
    file::{IOV_MAX, O_NONBLOCK},
    time::Timespec,
    wire::Wire,
};
use motet_hal::{Access, Machine};
use motet_layout::SocketRecord;

use super::{
    control::Control,
    families,
    family::{Address, Received, Receiving, Sending},
    flags::{MSG_CMSG_CLOEXEC, MSG_DONTWAIT},
    get,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cursor::Cursor,
    file::descriptor::description::OpenFile,
};

const MSG_WAITFORONE: u32 = 0x1_0000;

/// Bytes of `struct msghdr`, and where its fields are; of `struct mmsghdr`.
const HEADER_LEN: usize = 56;
const HEADER_NAME: usize = 0;
const HEADER_NAME_LEN: u64 = 8;
const HEADER_VECTOR: usize = 16;
const HEADER_COUNT: usize = 24;
const HEADER_CONTROL: usize = 32;
const HEADER_CONTROL_LEN: usize = 40;
const HEADER_FLAGS: u64 = 48;
const ENTRY_LEN: u64 = 64;

/// `sendto(fd, bytes, length, flags, address, address_length)`.
pub fn sendto<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, bytes, len, flags, address, address_len] = call.args;
    let (file, socket) = get(call, fd)?;
    let to = read_receiver(call, address, address_len)?;
    let mut from = Cursor::new(call, bytes, len, Access::Read);
    send(call, &file, socket, flags as u32, &to, Control::NONE, &mut from)
}

/// An address of no bytes is none.
fn read_receiver<M: Machine>(call: &Call<M>, at: u64, len: u64) -> Result<Address, Stop> {
    if at == 0 || len as u32 == 0 { Ok(Address::NONE) } else { Address::read(call, at, len) }
}

fn send<'c, M: Machine>(
    call: &Call<'c, M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    flags: u32,
    address: &Address,
    control: Control<'c, M>,
    from: &mut Cursor<M>,
) -> SysResult {
    let nonblocking = file.nonblocking() || flags & MSG_DONTWAIT != 0;
    let Control { credentials, said, files } = control;
    families::send(call, socket, Sending { nonblocking, flags, address, credentials, said, files }, from)
}

/// `sendmsg(fd, message, flags)`.
pub fn sendmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, message, flags, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    send_message(call, &file, socket, message, flags as u32)
}

fn send_message<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    message: u64,
    flags: u32,
) -> SysResult {
    let header = Header::read(call, message)?;
    let to = read_receiver(call, header.name, header.name_len.into())?;
    let mut from = Cursor::vector(call, header.vector, header.count, Access::Read)?;
    // What has gone on has sent them.
    let control = Control::read(
        call,
        header.control,
        (families::passes_rights(socket), call.thread.progress.get() == 0),
        |said, which, data, len| families::control(socket, said, which, data, len),
    )?;
    send(call, file, socket, flags, &to, control, &mut from)
}

/// `recvfrom(fd, bytes, length, flags, address, address_length)`.
pub fn recvfrom<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, bytes, len, flags, address, len_at] = call.args;
    let (file, socket) = get(call, fd)?;
    Address::await_pages(call, address, len_at)?;
    let mut into = Cursor::new(call, bytes, len, Access::Write);
    let mut received = Received::nothing();
    let len = receive(call, &file, socket, flags as u32, &mut into, &mut received)?;
    if address != 0 {
        write_sender(call, received.sender.as_ref(), address, len_at)?;
    }
    Ok(len)
}

/// Writes the address of whom a message is from: nothing, if that has no name.
fn write_sender<M: Machine>(call: &Call<M>, sender: Option<&Address>, address: u64, len_at: u64) -> Result<(), Stop> {
    match sender {
        Some(sender) if !sender.bytes().is_empty() => sender.write(call, address, len_at),
        _ => call.write_user(len_at, &0u32.to_le_bytes()),
    }
}

fn receive<'c, M: Machine>(
    call: &Call<'c, M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    flags: u32,
    into: &mut Cursor<M>,
    with: &mut Received<'c, M>,
) -> SysResult {
    let nonblocking = file.flags() & O_NONBLOCK != 0 || flags & MSG_DONTWAIT != 0;
    families::receive(call, socket, Receiving { nonblocking, flags }, into, with)
}

/// `recvmsg(fd, message, flags)`.
pub fn recvmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, message, flags, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    receive_message(call, &file, socket, message, flags as u32)
}

fn receive_message<M: Machine>(
    call: &Call<M>,
    file: &OpenFile<M>,
    socket: &'static SocketRecord,
    message: u64,
    flags: u32,
) -> SysResult {
    let header = Header::read(call, message)?;
    let mut into = Cursor::vector(call, header.vector, header.count, Access::Write)?;
    let name_len_at = message.wrapping_add(HEADER_NAME_LEN);
    Address::await_pages(call, header.name, name_len_at)?;
    if header.control.1 != 0 {
        call.await_pages(header.control.0, header.control.1)?;
    }
    let mut received = Received::nothing();
    let len = receive(call, file, socket, flags, &mut into, &mut received)?;
    if header.name != 0 {
        write_sender(call, received.sender.as_ref(), header.name, name_len_at)?;
    }
    let (control_len, told) = received.ancillary.write(call, header.control, flags)?;
    // 32 bits, as the C library of some programs has it; the others' upper half is 0 for lengths that there are.
    call.write_user(message.wrapping_add(HEADER_CONTROL_LEN as u64), &(control_len as u32).to_le_bytes())?;
    let told = flags & MSG_CMSG_CLOEXEC | received.flags | told;
    call.write_user(message.wrapping_add(HEADER_FLAGS), &told.to_le_bytes())?;
    Ok(len)
}

/// `sendmmsg(fd, messages, count, flags)`.
pub fn sendmmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, _, _, flags, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    each_message(call, |_, message| send_message(call, &file, socket, message, flags as u32))
}

/// `recvmmsg(fd, messages, count, flags, timeout)`: the time is looked at when a message has come.
pub fn recvmmsg<M: Machine>(call: &Call<M>) -> SysResult {
    let [fd, _, _, flags, timeout, ..] = call.args;
    let (file, socket) = get(call, fd)?;
    let [_, _, ends, _] = &call.thread.scratch;
    if timeout != 0 && ends.get() == 0 {
        let mut bytes = [0; Timespec::SIZE];
        call.read_user(timeout, &mut bytes)?;
        let ns = Timespec::take(&bytes).to_ns().ok_or(Errno::EINVAL)?;
        ends.set(call.cpu.reading_ns().saturating_add(ns).max(1));
    }
    let flags = flags as u32;
    each_message(call, |done, message| {
        if done > 0 && ends.get() != 0 && call.cpu.reading_ns() >= ends.get() {
            return Err(Errno::EAGAIN.into());
        }
        let waits_no_more = if done > 0 && flags & MSG_WAITFORONE != 0 { MSG_DONTWAIT } else { 0 };
        receive_message(call, &file, socket, message, flags & !MSG_WAITFORONE | waits_no_more)
    })
}

/// Sends or receives the messages of a vector, and writes the length of each. What is done counts, if one fails.
fn each_message<M: Machine>(call: &Call<M>, mut act: impl FnMut(u64, u64) -> SysResult) -> SysResult {
    let [_, vector, count, ..] = call.args;
    let count = u64::from(count as u32).min(IOV_MAX as u64);
    let done = &call.thread.scratch[0];
    while done.get() < count {
        let entry = vector.wrapping_add(done.get() * ENTRY_LEN);
        let len_at = entry.wrapping_add(HEADER_LEN as u64);
        match call.await_pages(len_at, 4).and_then(|()| act(done.get(), entry)) {
            Ok(len) => {
                call.thread.progress.set(0);
                call.thread.deadline_ns.set(0);
                if call.write_user(len_at, &(len as u32).to_le_bytes()).is_err() {
                    // Never by waiting for its page: the message would be sent or received once more.
                    return if done.get() > 0 { Ok(done.get()) } else { Err(Errno::EFAULT.into()) };
                }
                done.set(done.get() + 1);
                if done.get() < count && call.pauses(cost::STEP) {
                    return Err(Stop::Again);
                }
            }
            Err(Stop::Error(_)) if done.get() > 0 => break,
            // A call that is made anew has done nothing, and one that goes on does so with the message that is done in part.
            Err(Stop::Page) if done.get() > 0 && call.thread.progress.get() == 0 => break,
            Err(stop) => return Err(stop),
        }
    }
    Ok(done.get())
}

/// How many messages a `sendmmsg` or `recvmmsg` has done that a signal ends. One that is done in part counts.
pub fn messages_done<M: Machine>(call: &Call<M>) -> u64 {
    let (done, part) = (call.thread.scratch[0].get(), call.thread.progress.get());
    if part == 0 {
        return done;
    }
    let len_at = call.args[1].wrapping_add(done * ENTRY_LEN + HEADER_LEN as u64);
    // If that cannot be told, it counts as not done.
    done + u64::from(call.write_user(len_at, &(part as u32).to_le_bytes()).is_ok())
}

/// What is needed of a `struct msghdr`.
struct Header {
    name: u64,
    name_len: u32,
    vector: u64,
    count: u64,
    control: (u64, u64),
}

impl Header {
    fn read<M: Machine>(call: &Call<M>, address: u64) -> Result<Self, Stop> {
        let mut bytes = [0; HEADER_LEN];
        call.read_user(address, &mut bytes)?;
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|index| bytes[at + index]));
        // Two lengths are of 32 bits with padding behind in some C libraries.
        let (count, control_len) = (word(HEADER_COUNT) as u32, word(HEADER_CONTROL_LEN) as u32);
        if count as usize > IOV_MAX {
            return Err(Errno::EMSGSIZE.into());
        }
        Ok(Self {
            name: word(HEADER_NAME),
            name_len: word(HEADER_NAME_LEN as usize) as u32,
            vector: word(HEADER_VECTOR),
            count: u64::from(count),
            control: (word(HEADER_CONTROL), control_len.into()),
        })
    }
}

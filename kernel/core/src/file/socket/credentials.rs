//! Who has connected a socket, and who has sent something.

use motet_hal::Machine;
use motet_layout::{PipeRecord, SocketRecord, sync::Ordering};
use motet_protocol::{Context, pipe::packet::Credentials};

use super::flags::{SO_PASSCRED, is_on};
use crate::{
    call::Call,
    permission::{FileRights, Identity},
};

/// Who a process says it is, where it does not say otherwise.
pub fn own<M: Machine>(call: &Call<M>) -> Credentials {
    let (uid, gid) = FileRights::of(call.process).owner();
    [call.process.pid.get(), uid.0, gid.0]
}

/// Remembers who a socket is connected to (`SO_PEERCRED`).
pub fn set_peer(socket: &SocketRecord, credentials: Credentials) {
    for (to, value) in socket.peer.iter().zip(credentials) {
        to.set(value);
    }
}

/// Who is to be told to have sent something, if the sender says so, or either side wants to know (`SO_PASSCRED`).
pub fn sender_of<M: Machine>(
    call: &Call<M>,
    said: Option<Credentials>,
    socket: &SocketRecord,
    queue: &PipeRecord,
) -> Option<Credentials> {
    said.or_else(|| {
        let reader = call.cpu.object::<SocketRecord>(queue.reader.load(Ordering::Acquire));
        let is_wanted = is_on(socket, SO_PASSCRED) || reader.is_some_and(|reader| is_on(reader, SO_PASSCRED));
        is_wanted.then(|| {
            let own = Identity::of(call.process);
            [call.process.pid.get(), own.users.real.0, own.groups.real.0]
        })
    })
}

/// What is told of the sender, if the receiver wants to know: nobody, if that is not known.
pub fn told(socket: &SocketRecord, sender: Option<Credentials>) -> Option<Credentials> {
    /// Linux's `overflowuid`.
    const NOBODY: u32 = 65534;
    is_on(socket, SO_PASSCRED).then(|| sender.unwrap_or([0, NOBODY, NOBODY]))
}

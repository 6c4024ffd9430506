//! What is asked by `NETLINK_ROUTE`, and who answers that (rtnetlink(7)). Everybody may ask. Nothing can be changed.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::SocketRecord;

use super::{
    super::{
        interface::{check_change, unchanged},
        rights::Packet,
    },
    address, link,
    message::{Asked, Bytes, NLM_F_ACK, NLM_F_REQUEST, Reply, Request},
    options::{self, NETLINK_GET_STRICT_CHK},
    route,
};
use crate::call::{Call, Stop, cost};

/// Kinds below are messages of all protocols, which ask for nothing.
const KIND_MIN: u16 = 16;
const KIND_MAX: u16 = 123;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETRULE: u16 = 34;
/// Of each four kinds, the one that asks.
const GETS: u16 = 2;
/// All that there is is asked for (`NLM_F_ROOT`, `NLM_F_MATCH`).
const NLM_F_DUMP: u16 = 0x300;
/// Bytes that questions about neighbours, and about rules, begin with.
const OTHER_LEN: usize = 12;

/// Answers the messages of a packet: each by its answers, or an error.
pub fn answer<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, packet: &Packet<M>) {
    let mut bytes = Bytes::of(call, packet);
    while let Some((request, behind)) = Request::first(bytes) {
        let is_asked = request.flags & NLM_F_REQUEST != 0 && request.kind >= KIND_MIN;
        let told = if is_asked { answer_one(call, socket, &request) } else { Ok(Told::Nothing) };
        match told {
            // Its end says that all is well.
            Ok(Told::Dump) => {}
            Ok(Told::Nothing) if request.flags & NLM_F_ACK == 0 => {}
            Ok(Told::Nothing) => request.tell_error(socket, None),
            Err(errno) => request.tell_error(socket, Some(errno)),
        }
        bytes = behind;
        call.serve_due(cost::STEP);
    }
}

/// What was told of success.
enum Told {
    /// Nothing yet.
    Nothing,
    /// The end of a dump.
    Dump,
}

fn answer_one<M: Machine>(call: &Call<M>, socket: &'static SocketRecord, request: &Request<M>) -> Result<Told, Errno> {
    if request.kind > KIND_MAX {
        return Err(Errno::EOPNOTSUPP);
    }
    let Some([family]) = request.body.get(0) else { return Ok(Told::Nothing) };
    if request.kind % 4 != GETS {
        check_change(call)?;
        return change(request).map(|()| Told::Nothing);
    }
    let is_dump = request.flags & NLM_F_DUMP != 0;
    let asked = Asked { body: request.body, family, strict: options::is_on(socket, NETLINK_GET_STRICT_CHK) };
    let mut reply = Reply::new(request, socket, is_dump);
    let told = match (request.kind, is_dump) {
        (RTM_GETLINK, true) => link::dump(&asked, &mut reply),
        (RTM_GETLINK, false) => link::get(&asked, &mut reply),
        (RTM_GETADDR, true) => address::dump(&asked, &mut reply),
        (RTM_GETADDR, false) => address::get(&asked, &mut reply),
        (RTM_GETROUTE, true) => route::dump(&asked, &mut reply),
        (RTM_GETROUTE, false) => route::get(&asked, &mut reply),
        // There are none.
        (RTM_GETNEIGH | RTM_GETRULE, true) => asked.header::<OTHER_LEN>().map(|_| ()),
        _ => return Err(Errno::EOPNOTSUPP),
    };
    if is_dump {
        reply.done(told);
    } else {
        told?;
    }
    reply.deliver(call, socket);
    Ok(if is_dump { Told::Dump } else { Told::Nothing })
}

/// Nothing changes: whoever wants the device as it is gets that.
///
/// # Errors
/// `EOPNOTSUPP`.
fn change<M: Machine>(request: &Request<M>) -> Result<(), Errno> {
    let is_same = request.kind == RTM_NEWLINK && link::is_as_wanted(&request.body);
    match unchanged(is_same) {
        Err(Stop::Error(errno)) => Err(errno),
        _ => Ok(()),
    }
}

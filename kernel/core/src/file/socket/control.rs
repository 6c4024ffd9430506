//! Control messages: open files and credentials, from and to user memory (cmsg(3), unix(7)).

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PipeRecord, RIGHTS_MAX};
use motet_protocol::pipe::packet::{Credentials, Seen};

use super::{
    flags::{MSG_CMSG_CLOEXEC, MSG_CTRUNC, SOL_SOCKET},
    rights::{self, Packet},
};
use crate::{
    call::{Call, Stop, cost},
    file::descriptor::table,
    permission::may_send_as,
};

const SCM_RIGHTS: u32 = 1;
const SCM_CREDENTIALS: u32 = 2;
/// Bytes of `struct cmsghdr`; what follows is aligned likewise.
const HEADER_LEN: u64 = 16;
const CREDENTIALS_LEN: u64 = 12;
/// Most bytes of control messages (Linux `net.core.optmem_max`).
const CONTROL_MAX: u64 = 131_072;
const ALIGN: u64 = 8;

/// What control messages say of a packet that is sent, of families whose packets have that.
#[derive(Clone, Copy, Default)]
pub struct Said {
    /// The address that it is from.
    pub source: Option<[u8; 16]>,
    /// The interface that it leaves by, 0: any.
    pub interface: u32,
    /// Over how many machines it goes at most.
    pub hops: Option<u8>,
    /// What kind of service it wants.
    pub class: Option<u8>,
}

/// What a call sends with its bytes.
pub struct Control<'c, M: Machine> {
    /// Who says to send it.
    pub credentials: Option<Credentials>,
    /// What else is said.
    pub said: Said,
    /// A packet with open files, if there are any.
    pub files: Option<Packet<'c, M>>,
}

impl<'c, M: Machine> Control<'c, M> {
    /// Nothing.
    pub const NONE: Self =
        Self { credentials: None, said: Said { source: None, interface: 0, hops: None, class: None }, files: None };

    /// Reads control messages. Files are not taken again for the rest of a stream's bytes (`takes_files`). What a family has of
    /// its own is read by `of_family`: level and kind, the first of its bytes, and how many there are.
    ///
    /// # Errors
    /// `EINVAL`, `EBADF`, `EPERM`, `ENOBUFS`, `ETOOMANYREFS`, `EFAULT`; [`Stop::Page`].
    pub fn read(
        call: &Call<'c, M>,
        (at, len): (u64, u64),
        (passes_rights, takes_files): (bool, bool),
        of_family: impl Fn(&mut Said, (u32, u32), &[u8], u64) -> Result<(), Errno>,
    ) -> Result<Self, Stop> {
        let mut control = Self::NONE;
        if len > CONTROL_MAX {
            return Err(Errno::ENOBUFS.into());
        }
        let mut done = 0;
        // What is too short to be one ends them.
        while len - done >= HEADER_LEN {
            let header = at.wrapping_add(done);
            let own = call.read_user_u64(header)?;
            if own < HEADER_LEN || own > len - done {
                return Err(Errno::EINVAL.into());
            }
            let (level, kind) =
                (call.read_user_u32(header.wrapping_add(8))?, call.read_user_u32(header.wrapping_add(12))?);
            let data = (header.wrapping_add(HEADER_LEN), own - HEADER_LEN);
            match (level, kind) {
                (SOL_SOCKET, SCM_RIGHTS) if passes_rights => control.read_files(call, data, takes_files)?,
                (SOL_SOCKET, SCM_CREDENTIALS) if passes_rights && data.1 == CREDENTIALS_LEN => {
                    control.credentials = Some(read_credentials(call, data.0)?);
                }
                (SOL_SOCKET, SCM_RIGHTS | SCM_CREDENTIALS) if !passes_rights => {}
                (SOL_SOCKET, _) => return Err(Errno::EINVAL.into()),
                which => {
                    let mut bytes = [0; EXTRA_MAX];
                    let bytes = &mut bytes[..(data.1 as usize).min(EXTRA_MAX)];
                    call.read_user(data.0, bytes)?;
                    of_family(&mut control.said, which, bytes, data.1)?;
                }
            }
            done += own.next_multiple_of(ALIGN).min(len - done);
            call.serve_due(cost::OBJECT);
        }
        if let Some(files) = &control.files {
            files.count_files(call)?;
        }
        Ok(control)
    }

    fn read_files(&mut self, call: &Call<'c, M>, (at, len): (u64, u64), takes: bool) -> Result<(), Stop> {
        let count = len / 4;
        let before = self.files.as_ref().map_or(0, |files| files.file_count() as u64);
        if before + count > RIGHTS_MAX as u64 {
            return Err(Errno::EINVAL.into());
        }
        for index in 0..if takes { count } else { 0 } {
            let fd = call.read_user_u32(at.wrapping_add(index * 4))?;
            let files = match &mut self.files {
                Some(files) => files,
                none => none.insert(Packet::new(call.cpu)?),
            };
            files.add(table::get(call, fd.cast_signed())?.release())?;
            call.serve_due(cost::OBJECT);
        }
        Ok(())
    }
}

fn read_credentials<M: Machine>(call: &Call<M>, at: u64) -> Result<Credentials, Stop> {
    let mut ids = [0; 3];
    for (index, id) in ids.iter_mut().enumerate() {
        *id = call.read_user_u32(at.wrapping_add(4 * index as u64))?;
    }
    may_send_as(call.process, ids)?;
    Ok(ids)
}

/// Open files that were received.
pub enum Files<'c, M: Machine> {
    /// None.
    None,
    /// Those of a packet.
    Taken(Packet<'c, M>),
    /// Those of a packet that stays where it is, and how many. Another thread may receive it meanwhile.
    Seen(&'static PipeRecord, Seen, usize),
}

/// Bytes of the longest message that is neither files nor credentials (`struct in6_pktinfo`).
const EXTRA_MAX: usize = 20;
/// How many of these one packet may have.
const EXTRAS_MAX: usize = 5;

/// Control messages that a family tells of a packet, in their order.
#[derive(Clone, Copy)]
pub struct Extras {
    all: [([u32; 2], [u8; EXTRA_MAX], usize); EXTRAS_MAX],
    count: usize,
}

impl Extras {
    /// None.
    pub const NONE: Self = Self { all: [([0; 2], [0; EXTRA_MAX], 0); EXTRAS_MAX], count: 0 };

    /// One more, of a level and a kind.
    pub fn add(&mut self, which: [u32; 2], data: &[u8]) {
        let len = data.len().min(EXTRA_MAX);
        if let Some(extra) = self.all.get_mut(self.count) {
            extra.1[..len].copy_from_slice(&data[..len]);
            (extra.0, extra.2) = (which, len);
            self.count += 1;
        }
    }
}

/// What was received with bytes.
pub struct Ancillary<'c, M: Machine> {
    /// What a family tells.
    pub extras: Extras,
    /// Who has sent them, if the socket tells (`SO_PASSCRED`).
    pub credentials: Option<Credentials>,
    /// Open files.
    pub files: Files<'c, M>,
}

/// Where control messages go.
struct Room {
    at: u64,
    left: u64,
    used: u64,
}

impl Room {
    /// What a message takes.
    fn take(&mut self, len: u64) {
        let taken = len.next_multiple_of(ALIGN).min(self.left);
        self.at = self.at.wrapping_add(taken);
        self.left -= taken;
        self.used += taken;
    }
}

impl<M: Machine> Ancillary<'_, M> {
    /// Nothing.
    pub const NONE: Self = Self { extras: Extras::NONE, credentials: None, files: Files::None };

    fn file_count(&self) -> usize {
        match &self.files {
            Files::None => 0,
            Files::Taken(packet) => packet.file_count(),
            Files::Seen(_, _, count) => *count,
        }
    }

    /// Writes it as control messages, gives the files descriptors, and says how many bytes these messages have, and which `MSG_*` that adds.
    ///
    /// # Errors
    /// `EFAULT`; [`Stop::Again`]: what was looked at has gone.
    pub fn write(&self, call: &Call<M>, (at, len): (u64, u64), flags: u32) -> Result<(u64, u32), Stop> {
        let mut room = Room { at, left: if at == 0 { 0 } else { len }, used: 0 };
        let mut told = 0;
        for (which, data, len) in &self.extras.all[..self.extras.count] {
            told |= put(call, &mut room, *which, &data[..*len])?;
        }
        if let Some(ids) = self.credentials {
            let mut bytes = [0; CREDENTIALS_LEN as usize];
            for (to, id) in bytes.chunks_exact_mut(4).zip(ids) {
                to.copy_from_slice(&id.to_le_bytes());
            }
            told |= put(call, &mut room, [SOL_SOCKET, SCM_CREDENTIALS], &bytes)?;
        }
        if self.file_count() != 0 {
            told |= self.write_files(call, &mut room, flags)?;
        }
        Ok((room.used, told))
    }

    fn write_files(&self, call: &Call<M>, room: &mut Room, flags: u32) -> Result<u32, Stop> {
        let count = self.file_count();
        let fits = (room.left.saturating_sub(HEADER_LEN) / 4).min(count as u64) as usize;
        let close_on_exec = flags & MSG_CMSG_CLOEXEC != 0;
        let mut given = 0;
        while given < fits {
            let file = match &self.files {
                Files::None => None,
                Files::Taken(packet) => packet.take_file(given),
                Files::Seen(queue, seen, _) => match rights::look_at_file(call.cpu, queue, *seen, given) {
                    // It has gone: the call looks at what comes first now.
                    None if given == 0 => return Err(Stop::Again),
                    file => file.flatten(),
                },
            };
            let Some(fd) = file.and_then(|file| table::install(call, file, close_on_exec, 0).ok()) else { break };
            let to = room.at.wrapping_add(HEADER_LEN + 4 * given as u64);
            if call.write_user(to, &(fd as u32).to_le_bytes()).is_err() {
                // It was opened a moment ago.
                let _ = table::close(call.cpu, table::of(call.cpu, call.process), fd as i32);
                break;
            }
            given += 1;
            call.serve_due(2 * cost::OBJECT);
        }
        if given != 0 {
            write_header(call, room.at, HEADER_LEN + 4 * given as u64, [SOL_SOCKET, SCM_RIGHTS])?;
            room.take(HEADER_LEN + 4 * given as u64);
        }
        Ok(if given < count { MSG_CTRUNC } else { 0 })
    }
}

fn write_header<M: Machine>(call: &Call<M>, at: u64, len: u64, [level, kind]: [u32; 2]) -> Result<(), Stop> {
    let mut header = [0; HEADER_LEN as usize];
    header[..8].copy_from_slice(&len.to_le_bytes());
    header[8..12].copy_from_slice(&level.to_le_bytes());
    header[12..].copy_from_slice(&kind.to_le_bytes());
    call.write_user(at, &header)
}

/// Writes a message as far as there is room for it.
fn put<M: Machine>(call: &Call<M>, room: &mut Room, which: [u32; 2], data: &[u8]) -> Result<u32, Stop> {
    if room.left < HEADER_LEN {
        return Ok(MSG_CTRUNC);
    }
    let whole = HEADER_LEN + data.len() as u64;
    let len = whole.min(room.left);
    write_header(call, room.at, len, which)?;
    call.write_user(room.at.wrapping_add(HEADER_LEN), &data[..(len - HEADER_LEN) as usize])?;
    room.take(whole);
    Ok(if len < whole { MSG_CTRUNC } else { 0 })
}

//! Doorbells: the server side of QEMU's `ivshmem-doorbell` (docs/specs/ivshmem-spec.rst in QEMU's source).
//!
//! A doorbell is an eventfd. The set of peers is known before the first QEMU starts, so the whole conversation is
//! written into each island's socket beforehand: there is no server thread and no socket file. The host is a peer too,
//! with one vector.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    event::EventfdFlags,
    fs::MemfdFlags,
    net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType},
};

use motet_error::{Context, Result};

/// Version of the server protocol.
const PROTOCOL_VERSION: i64 = 0;
/// "This message carries the shared memory".
const SHARED_MEMORY: i64 = -1;
/// Bytes of the device's own shared memory, which nobody uses (the pool is ordinary RAM).
const SHARED_MEMORY_SIZE: u64 = 4096;

/// The doorbells of one machine. Peer ids: island index, then the host.
#[derive(Debug)]
pub struct Doorbells {
    /// `islands[i][k]` interrupts core k of island i.
    islands: Vec<Vec<OwnedFd>>,
    host: OwnedFd,
    /// The devices' own shared memory.
    memory: OwnedFd,
    /// Our ends, kept open: QEMU takes a closed server for an error.
    sockets: Vec<OwnedFd>,
    /// QEMU's ends, until it has them.
    qemu_sockets: Vec<Option<OwnedFd>>,
}

impl Doorbells {
    /// Doorbells for islands with these numbers of cores.
    ///
    /// # Errors
    /// The host refuses descriptors.
    pub fn create(core_counts: &[usize]) -> Result<Self> {
        let islands = core_counts
            .iter()
            .map(|&cores| (0..cores).map(|_| event()).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let memory = rustix::fs::memfd_create("motet-doorbell", MemfdFlags::CLOEXEC).host("a memory file")?;
        rustix::fs::ftruncate(&memory, SHARED_MEMORY_SIZE).host("memory")?;
        let mut this = Self { islands, host: event()?, memory, sockets: Vec::new(), qemu_sockets: Vec::new() };
        for island in 0..core_counts.len() {
            let (ours, qemus) = this.converse(island)?;
            this.sockets.push(ours);
            this.qemu_sockets.push(Some(qemus));
        }
        Ok(this)
    }

    /// Peer id of the host.
    pub fn host_peer(&self) -> u32 {
        self.islands.len() as u32
    }

    /// Vectors that every device has: as many as the largest island has cores.
    pub fn vectors(&self) -> usize {
        self.islands.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// The socket for QEMU's `-chardev socket,fd=`; its conversation is already in it. Each can be taken once.
    pub fn take_socket(&mut self, island: usize) -> Option<OwnedFd> {
        self.qemu_sockets[island].take()
    }

    /// A new socket for an island that is started again: both ends, ours to be kept open. Its doorbells are those that it had, so that other islands
    /// ring it as before; rings that it has not taken are forgotten.
    ///
    /// # Errors
    /// The host refuses descriptors.
    pub fn introduce_again(&self, island: usize) -> Result<(OwnedFd, OwnedFd)> {
        for bell in &self.islands[island] {
            let _ = rustix::io::read(bell, &mut [0u8; 8]);
        }
        self.converse(island)
    }

    /// Both ends of a socket that has an island's whole conversation in it: ours, and QEMU's.
    fn converse(&self, island: usize) -> Result<(OwnedFd, OwnedFd)> {
        let (ours, qemus) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .host("a socket")?;
        self.introduce(island, &ours, self.memory.as_fd()).host("doorbell descriptors")?;
        Ok((ours, qemus))
    }

    /// Readable when an island rang the host.
    pub fn host_bell(&self) -> BorrowedFd<'_> {
        self.host.as_fd()
    }

    /// Takes the rings that have arrived at the host; tells whether there were any.
    pub fn take_host_rings(&self) -> bool {
        rustix::io::read(&self.host, &mut [0u8; 8]).is_ok()
    }

    /// The eventfd that interrupts a core.
    pub fn bell(&self, island: usize, core: usize) -> BorrowedFd<'_> {
        self.islands[island][core].as_fd()
    }

    /// Interrupts a core. The caller has ordered its stores before.
    pub fn ring(&self, island: usize, core: usize) {
        // The counter can only be full when nobody ever takes rings; then one is pending already.
        let _ = rustix::io::write(&self.islands[island][core], &1u64.to_ne_bytes());
    }

    /// Sends everything a device expects: version, its id, the memory, every peer's vectors, its own vectors last.
    fn introduce(&self, island: usize, socket: &OwnedFd, memory: BorrowedFd<'_>) -> io::Result<()> {
        send(socket, PROTOCOL_VERSION, None)?;
        send(socket, island as i64, None)?;
        send(socket, SHARED_MEMORY, Some(memory))?;
        for (peer, vectors) in self.islands.iter().enumerate().filter(|(peer, _)| *peer != island) {
            for vector in vectors {
                send(socket, peer as i64, Some(vector.as_fd()))?;
            }
        }
        send(socket, i64::from(self.host_peer()), Some(self.host.as_fd()))?;
        for vector in &self.islands[island] {
            send(socket, island as i64, Some(vector.as_fd()))?;
        }
        Ok(())
    }
}

fn event() -> Result<OwnedFd> {
    rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).host("an event descriptor")
}

fn send(socket: &OwnedFd, value: i64, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    // Not to wait: nobody reads yet. 8 islands of 16 cores need 132 messages, the socket holds about 270.
    rustix::net::sendmsg(socket, &[IoSlice::new(&value.to_le_bytes())], &mut control, SendFlags::DONTWAIT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    use std::io::IoSliceMut;

    fn receive(socket: &OwnedFd) -> Option<(i64, Option<OwnedFd>)> {
        let mut bytes = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::DONTWAIT);
        if got.ok()?.bytes != 8 {
            return None;
        }
        let mut fd = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut fds) = message {
                fd = fds.next();
            }
        }
        Some((i64::from_le_bytes(bytes), fd))
    }

    #[test]
    fn a_device_is_told_everything_and_its_own_vectors_last() {
        let mut bells = Doorbells::create(&[1, 1, 2]).unwrap();
        assert_eq!((bells.host_peer(), bells.vectors()), (3, 2));
        let socket = bells.take_socket(1).unwrap();
        assert!(bells.take_socket(1).is_none());
        let mut got = Vec::new();
        while let Some((value, fd)) = receive(&socket) {
            got.push((value, fd));
        }
        let seen: Vec<(i64, bool)> = got.iter().map(|(value, fd)| (*value, fd.is_some())).collect();
        let want = [(0, false), (1, false), (-1, true), (0, true), (2, true), (2, true), (3, true), (1, true)];
        assert_eq!(seen, want);
        // The host's descriptor is the one the host listens to, and the island's is the one the host rings.
        rustix::io::write(got[6].1.as_ref().unwrap(), &1u64.to_ne_bytes()).unwrap();
        assert!(bells.take_host_rings() && !bells.take_host_rings());
        bells.ring(1, 0);
        assert!(rustix::io::read(got[7].1.as_ref().unwrap(), &mut [0u8; 8]).is_ok());
    }

    #[test]
    fn an_island_that_is_started_again_has_its_doorbells_without_old_rings() {
        let mut bells = Doorbells::create(&[1, 2]).unwrap();
        let first = bells.take_socket(1).unwrap();
        let all = |socket: &OwnedFd| std::iter::from_fn(|| receive(socket)).collect::<Vec<_>>();
        let values = |got: &[(i64, Option<OwnedFd>)]| got.iter().map(|(value, _)| *value).collect::<Vec<_>>();
        let told = values(&all(&first));
        bells.ring(1, 1);
        let (_server, again) = bells.introduce_again(1).unwrap();
        let got = all(&again);
        assert_eq!(values(&got), told);
        let own = got.last().and_then(|(_, fd)| fd.as_ref()).unwrap();
        assert!(rustix::io::read(own, &mut [0u8; 8]).is_err());
        bells.ring(1, 1);
        assert!(rustix::io::read(own, &mut [0u8; 8]).is_ok());
    }

    #[test]
    fn the_largest_machine_fits_into_the_sockets() {
        let mut bells = Doorbells::create(&[16; 8]).unwrap();
        for island in 0..8 {
            let socket = bells.take_socket(island).unwrap();
            let mut count = 0;
            while receive(&socket).is_some() {
                count += 1;
            }
            assert_eq!(count, 3 + 8 * 16 + 1);
        }
    }
}

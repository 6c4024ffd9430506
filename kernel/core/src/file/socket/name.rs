//! Names of sockets, as their families keep them: bytes.

use motet_layout::{AtomicByte, PacketRecord, SOCKET_NAME_MAX, SocketRecord, sync::Ordering};

/// A name. Empty: none.
pub struct Name {
    bytes: [u8; SOCKET_NAME_MAX],
    len: usize,
}

impl Name {
    /// One that these bytes are, of which there are [`SOCKET_NAME_MAX`] at most.
    pub fn of_bytes(from: &[u8]) -> Self {
        let len = from.len().min(SOCKET_NAME_MAX);
        let mut name = Self { bytes: [0; SOCKET_NAME_MAX], len };
        name.bytes[..len].copy_from_slice(&from[..len]);
        name
    }

    /// It.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn load((bytes, len): (&[AtomicByte; SOCKET_NAME_MAX], u32)) -> Self {
        let mut name = Self { bytes: [0; SOCKET_NAME_MAX], len: (len as usize).min(SOCKET_NAME_MAX) };
        for (to, byte) in name.bytes[..name.len].iter_mut().zip(bytes) {
            *to = byte.load(Ordering::Relaxed);
        }
        name
    }

    /// Stores it, and says how long it is.
    pub fn store(&self, into: &[AtomicByte; SOCKET_NAME_MAX]) -> u32 {
        for (to, &byte) in into.iter().zip(self.bytes()) {
            to.store(byte, Ordering::Relaxed);
        }
        self.len as u32
    }

    /// A socket's own.
    pub fn own(socket: &SocketRecord) -> Self {
        Self::load((&socket.name, socket.name_len.get()))
    }

    /// Its peer's.
    pub fn of_peer(socket: &SocketRecord) -> Self {
        Self::load((&socket.peer_name, socket.peer_name_len.get()))
    }

    /// That of whom has sent a packet.
    pub fn of_sender(packet: &PacketRecord) -> Self {
        Self::load((&packet.name, packet.name_len.get()))
    }
}

//! Which messages carry a guest's system calls home, and their results back: futexes and changes of ranges have kinds of their own, as in Popcorn's kernels.

use motet_abi::{Errno, Syscall};
use motet_hal::Machine;
use motet_protocol::peer::{
    MessageKind,
    bodies::{Body, FutexRequest, FutexResponse, SyscallForward, SyscallReply, VmaOpRequest, VmaOpResponse},
};

use crate::{cpu::Cpu, peers};

/// A system call that a guest wants.
pub struct Wanted {
    /// The thread at home.
    pub tid: u32,
    /// What has carried it.
    pub kind: MessageKind,
    /// The call ([`Syscall`]).
    pub call: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

impl From<SyscallForward> for Wanted {
    fn from(body: SyscallForward) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), kind: MessageKind::SyscallForward, call: body.call.get(), args }
    }
}

impl From<FutexRequest> for Wanted {
    fn from(body: FutexRequest) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), kind: MessageKind::FutexRequest, call: Syscall::Futex as u32, args }
    }
}

impl From<VmaOpRequest> for Wanted {
    fn from(body: VmaOpRequest) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), kind: MessageKind::VmaOpRequest, call: body.call.get(), args }
    }
}

/// The kind of message that carries a call.
pub fn carrier(name: Syscall) -> MessageKind {
    use Syscall::{Brk, Futex, Madvise, Mmap, Mprotect, Mremap, Munmap};
    match name {
        Futex => MessageKind::FutexRequest,
        Brk | Madvise | Mmap | Mprotect | Mremap | Munmap => MessageKind::VmaOpRequest,
        _ => MessageKind::SyscallForward,
    }
}

/// Sends a guest's call home.
///
/// # Errors
/// As of [`peers::post`].
pub fn send<M: Machine>(cpu: &Cpu<M>, home: u32, tid: u32, name: Syscall, args: [u64; 6]) -> Result<(), Errno> {
    let (tid, call, args) = (tid.into(), (name as u32).into(), args.map(Into::into));
    match carrier(name) {
        MessageKind::FutexRequest => peers::post(cpu, home, &FutexRequest { tid, args, rest: [0; 4] }),
        MessageKind::VmaOpRequest => peers::post(cpu, home, &VmaOpRequest { tid, call, args, ..Body::zeroed() }),
        _ => peers::post(cpu, home, &SyscallForward { tid, call, args }),
    }
}

/// Sends the result of a guest's call back. `tid`: the guest's half.
///
/// # Errors
/// As of [`peers::post`].
pub fn send_back<M: Machine>(
    cpu: &Cpu<M>,
    guest: u32,
    tid: u32,
    name: Option<Syscall>,
    result: i64,
) -> Result<(), Errno> {
    let (tid, result) = (tid.into(), result.cast_unsigned().into());
    match name.map(carrier) {
        Some(MessageKind::FutexRequest) => peers::post(cpu, guest, &FutexResponse { tid, result }),
        Some(MessageKind::VmaOpRequest) => peers::post(cpu, guest, &VmaOpResponse { tid, result, rest: [0; 28] }),
        _ => peers::post(cpu, guest, &SyscallReply { tid, result, rest: [0; 4] }),
    }
}

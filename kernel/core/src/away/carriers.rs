//! Which messages carry a remote's system calls home, and their results back: futexes and changes of ranges have kinds of their own, as in Popcorn's kernels.

use motet_abi::{Errno, Syscall};
use motet_hal::Machine;
use motet_protocol::peer::bodies::{
    CallResult, Fields, FutexRequest, FutexResponse, SyscallForward, SyscallReply, VmaOpRequest, VmaOpResponse,
};

use crate::{cpu::Cpu, peers};

/// What carries a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// `futex_request`, `futex_response`.
    Futex,
    /// `vma_op_request`, `vma_op_response`.
    Ranges,
    /// `syscall_forward`, `syscall_reply`.
    Any,
}

/// A system call that a remote wants.
pub struct Wanted {
    /// The thread at home.
    pub tid: u32,
    /// What has carried it.
    pub carrier: Carrier,
    /// The call ([`Syscall`]).
    pub call: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

impl From<SyscallForward> for Wanted {
    fn from(body: SyscallForward) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), carrier: Carrier::Any, call: body.call.get(), args }
    }
}

impl From<FutexRequest> for Wanted {
    fn from(body: FutexRequest) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), carrier: Carrier::Futex, call: Syscall::Futex as u32, args }
    }
}

impl From<VmaOpRequest> for Wanted {
    fn from(body: VmaOpRequest) -> Self {
        let args = body.args.map(|arg| arg.get());
        Self { tid: body.tid.get(), carrier: Carrier::Ranges, call: body.call.get(), args }
    }
}

/// What carries a call.
pub fn carrier(name: Syscall) -> Carrier {
    use Syscall::{Brk, Futex, Madvise, Mmap, Mprotect, Mremap, Munmap};
    if name == Futex {
        Carrier::Futex
    } else if matches!(name, Brk | Madvise | Mmap | Mprotect | Mremap | Munmap) {
        Carrier::Ranges
    } else {
        Carrier::Any
    }
}

/// Sends a remote's call home.
///
/// # Errors
/// As of [`peers::post`].
pub fn send<M: Machine>(cpu: &Cpu<M>, home: u32, tid: u32, name: Syscall, args: [u64; 6]) -> Result<(), Errno> {
    let (tid, call, args) = (tid.into(), (name as u32).into(), args.map(Into::into));
    match carrier(name) {
        Carrier::Futex => peers::post(cpu, home, &FutexRequest { tid, args, rest: [0; 4] }),
        Carrier::Ranges => peers::post(cpu, home, &VmaOpRequest { tid, call, args, ..Fields::zeroed() }),
        Carrier::Any => peers::post(cpu, home, &SyscallForward { tid, call, args }),
    }
}

/// Sends the result of a remote's call back. `tid`: the remote's half.
///
/// # Errors
/// As of [`peers::post`].
pub fn send_back<M: Machine>(
    cpu: &Cpu<M>,
    remote: u32,
    tid: u32,
    name: Option<Syscall>,
    result: i64,
) -> Result<(), Errno> {
    let result = CallResult { tid: tid.into(), result: result.cast_unsigned().into() };
    match name.map(carrier) {
        Some(Carrier::Futex) => peers::post(cpu, remote, &FutexResponse { result }),
        Some(Carrier::Ranges) => peers::post(cpu, remote, &VmaOpResponse { result, rest: [0; 28] }),
        Some(Carrier::Any) | None => peers::post(cpu, remote, &SyscallReply { result, rest: [0; 4] }),
    }
}

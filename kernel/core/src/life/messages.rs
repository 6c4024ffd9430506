//! What other kernels send, and who acts on it.

use motet_hal::Machine;
use motet_protocol::{
    Context,
    memory::{alloc_frame_on, release_frame},
    peer::{
        HEADER_LEN, Malformed, MessageKind,
        bodies::{FutexRequest, PageResponse, SyscallForward, VmaOpRequest},
    },
    ring::Slot,
};

use crate::{
    away,
    cpu::Cpu,
    futex,
    mm::kept::{self, Woken},
    peers::{self, Acts, body},
    process::remote,
    tree::lock_tree,
};

/// Takes what other kernels have sent.
pub fn take<M: Machine>(cpu: &Cpu<M>) {
    peers::take_messages(cpu, &Life);
    if cpu.id.index() == 0 {
        away::end_damaged(cpu);
        peers::watch(cpu, |node| away::lost(cpu, node, |word| futex::wake_shared(cpu, word)));
    }
}

struct Life;

impl<M: Machine> Acts<M> for Life {
    fn act(&self, cpu: &Cpu<M>, node: u32, kind: MessageKind, slot: Slot) -> Result<(), Malformed> {
        use MessageKind as K;
        match kind {
            // `peers` takes these.
            K::NodeInfo | K::Probe => Err(Malformed::Unasked),
            K::TaskMigrate => remote::arrive(cpu, node, &body(slot)),
            K::PageRequest
            | K::PageResponse
            | K::PageResponseShort
            | K::PageInvalidateRequest
            | K::PageInvalidateResponse => {
                if let Some(woken) = act_on_page(cpu, node, kind, slot)? {
                    futex::wake_shared(cpu, woken.word);
                    if woken.has_page {
                        peers::hold(cpu);
                    }
                }
                Ok(())
            }
            K::VmaInfoResponse => {
                in_tree(cpu, || kept::area_came(cpu, node, &body(slot), |word| futex::wake_shared(cpu, word)))
            }
            K::VmaInfoRequest => in_tree(cpu, || kept::area_wanted(cpu, node, &body(slot))),
            K::VmaOpRequest => in_tree(cpu, || act_on_ranges(cpu, node, &body(slot))),
            K::TaskPairing => in_tree(cpu, || away::paired(cpu, node, &body(slot))),
            K::TaskMigrateBack => in_tree(cpu, || away::came_back(cpu, node, &body(slot))),
            K::TaskExitOrigin => remote::ended_at_home(cpu, node, &body(slot)),
            K::TaskExitRemote => in_tree(cpu, || away::ended_away(cpu, node, &body(slot))),
            K::SyscallForward => in_tree(cpu, || away::wanted(cpu, node, &body::<SyscallForward>(slot).into())),
            K::FutexRequest => in_tree(cpu, || away::wanted(cpu, node, &body::<FutexRequest>(slot).into())),
            K::SyscallReply | K::FutexResponse | K::VmaOpResponse => {
                in_tree(cpu, || away::result_came(cpu, node, &body(slot)))
            }
        }
    }
}

/// Home has changed ranges, or a remote's thread changes some at home.
fn act_on_ranges<M: Machine>(cpu: &Cpu<M>, node: u32, body: &VmaOpRequest) -> Result<(), Malformed> {
    match body.tid.get() {
        0 => kept::forget(cpu, node, body, |word| futex::wake_shared(cpu, word)),
        _ => away::wanted(cpu, node, &(*body).into()),
    }
}

fn in_tree<M: Machine, R>(cpu: &Cpu<M>, act: impl FnOnce() -> R) -> R {
    let _tree = lock_tree(cpu);
    act()
}

/// Returns who is to be woken.
fn act_on_page<M: Machine>(cpu: &Cpu<M>, node: u32, kind: MessageKind, slot: Slot) -> Result<Option<Woken>, Malformed> {
    use MessageKind as K;
    let frame = if kind == K::PageResponse {
        let Some(frame) = alloc_frame_on(cpu, cpu.memory_index()) else {
            return in_tree(cpu, || kept::lack_memory(cpu, node, body::<PageResponse>(slot).pid.get())).map(|()| None);
        };
        slot.read_page(HEADER_LEN + size_of::<PageResponse>(), cpu.pool, frame);
        Some(frame)
    } else {
        None
    };
    let _tree = lock_tree(cpu);
    match (kind, frame) {
        (K::PageResponse, Some(frame)) => kept::came(cpu, node, &body(slot), frame),
        (_, Some(frame)) => {
            release_frame(cpu, frame);
            Ok(None)
        }
        (K::PageRequest, None) => kept::wanted(cpu, node, &body(slot)),
        (K::PageResponseShort, None) => kept::short_came(cpu, node, &body(slot)),
        (K::PageInvalidateRequest, None) => kept::invalidate(cpu, node, &body(slot)),
        (K::PageInvalidateResponse, None) => kept::invalidated(cpu, node, &body(slot)),
        (_, None) => Ok(None),
    }
}

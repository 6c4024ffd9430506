//! Calls that cross instruction sets (Flick, sections III and IV): a thread that calls a function pinned to another ISA
//! runs it on a core of that ISA, and comes back with its result.
//!
//! A call begins with a fetch from a view that only another ISA executes. It ends with a system call of the *gate*: instructions of the kernel to which
//! functions return. The kernel serves both without the program's help: it turns the registers of one ISA into
//! those of the other by the calling conventions (`motet_abi::convention`) and gives the thread to the other island's
//! core. A [`CrossingRecord`](motet_layout::CrossingRecord) has what the caller needs to go on; the records of one thread form a stack.
//!
//! [`call`] is a call's whole life on one page. The other files have its steps, and what is seldom:
//!
//! | file | |
//! |---|---|
//! | `fetch` | where a call begins |
//! | `request` | a call that a thread is about to make |
//! | `choose` | which core is to run it, by the process's policy |
//! | `cores` | which cores may |
//! | `caller`, `callee` | the steps of the short way, by core |
//! | `answers` | answers that come when the caller's core does something else |
//! | `message` | what lies in a call's message, and in its answer |
//! | `back` | calls back, where islands do not cache each other's memory |
//! | `gate` | where functions return to |
//! | `returns` | a function has returned: its caller goes on |
//! | `jump` | ends of calls by jumps (`longjmp`) and exceptions |
//! | `long` | the long way: through run queues |
//! | `migration` | as Flick does, for comparison |
//! | `elsewhere` | functions that another kernel's cores run |
//! | `damaged`, `report` | what goes wrong, and what is said of it |

mod answers;
mod back;
mod call;
mod callee;
mod caller;
mod choose;
mod cores;
mod damaged;
mod elsewhere;
mod fetch;
mod gate;
mod jump;
mod long;
mod message;
pub mod migration;
mod report;
mod request;
mod returns;

pub use answers::{
    first_returned, has_outcome, look_again, look_no_longer, make_returned_ready, stop_polling, stop_polling_calls,
};
pub use call::{called, called_from_noncoherent};
pub use choose::{call_on, set_policy};
pub use elsewhere::{Awaited, served, wait};
pub use fetch::fetch;
pub use gate::is_return;
pub use jump::{jump, leave};
pub use returns::call_return;

use motet_hal::{Interrupts, Machine, Trap};
use motet_layout::{ThreadRecord, UserFrame};
use motet_protocol::run_queue::Wake;

use crate::{
    chain::{self as records, stack},
    cpu::{Cpu, crossing as state},
};

/// What a core does in the middle of a call: its life does it, which is above this room.
pub trait Awake {
    /// Announces that this core is about to sleep, sleeps, and says why it is awake again. It has to serve shoot-downs.
    fn doze(&self) -> Wake;
    /// Acts on interrupts, and on those that were taken before.
    fn handle_interrupts(&self, interrupts: Interrupts);
    /// Acts on interrupts that were taken while a called function ran.
    fn interrupted_call(&self, thread: &'static ThreadRecord, interrupts: Interrupts);
    /// Serves the system call that a called function makes by these registers; its thread has not become one of this core. `None`: that cannot be.
    fn serve_elsewhere(&self, thread: &'static ThreadRecord, frame: &UserFrame) -> Option<i64>;
}

/// The thread of a function that this core was called to run, which has become an ordinary thread here and goes on, with what it has stopped at.
pub fn take_left<M: Machine>(cpu: &Cpu<M>) -> Option<(&'static ThreadRecord, Option<Trap>)> {
    cpu.crossing.take_left()
}

/// What became of a fetch that this island could not serve.
pub enum Fetch {
    /// It is an ordinary page fault.
    Fault,
    /// The thread goes on here.
    Run,
    /// The thread waits for its other half, in a system call.
    Waits,
    /// The thread no longer belongs to this core.
    Gone,
    /// A page of the caller's stack comes later: this core has noted which. The thread fetches again then.
    Page,
}

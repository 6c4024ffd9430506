//! Calls that cross instruction sets (Flick, sections III and IV): a thread that calls a function pinned to another ISA
//! runs it on a core of that ISA, and comes back with its result.
//!
//! A fetch from a view that only another ISA executes is a call; a system call of the *gate*, instructions of the kernel to which
//! functions return, is a return. The kernel does both at once, without the program's help: it turns the registers of one ISA into
//! those of the other by the calling conventions (`motet_abi::convention`) and gives the thread to the other island's
//! core. What the caller needs to go on is in a [`CrossingRecord`](motet_layout::CrossingRecord); records of one thread form a stack.
//!
//! [`call`] is a call's whole life on one page. The other files have its steps, and what is seldom:
//!
//! | file | |
//! |---|---|
//! | `request` | a call that a thread is about to make |
//! | `choose` | which core is to run it, by the process's policy |
//! | `caller`, `callee` | the steps of the short way, by core |
//! | `message` | what lies in a call's message, and in its answer |
//! | `back` | calls back, where islands do not cache each other's memory |
//! | `gate` | where functions return to |
//! | `long` | the long way: through run queues |
//! | `records`, `stack` | a thread's records, and its stacks |
//! | `migration` | as Flick does, for comparison |
//! | `damaged`, `report` | what goes wrong, and what is said of it |

mod back;
mod call;
mod callee;
mod caller;
mod choose;

mod damaged;
mod gate;
mod long;
mod message;
pub mod migration;
mod records;
mod report;
mod request;
mod stack;

pub use call::{called, called_from_afar, fetch};
pub use caller::{
    first_returned, has_news, look_again, look_no_longer, make_returned_ready, stop_polling, stop_polling_calls,
};
pub use choose::{call_on, set_policy};
pub use gate::{call_return, is_return};

pub use records::{copy_chain, forget};
pub use report::{Snapshot, backtrace};
pub use stack::release_stacks;

use crate::cpu::crossing as state;

/// What became of a fetch that this island could not serve.
pub enum Fetch {
    /// It is an ordinary page fault.
    Fault,
    /// The thread goes on here.
    Run,
    /// The thread no longer belongs to this core.
    Gone,
}

//! Who may do what to whom: the one home of every such rule (`docs/permissions.md` has them as a table).
//!
//! [`credentials`] says by whose rights a process acts, and how that changes; [`file`] decides about files, [`process`]
//! about other processes, [`ipc`] about what processes share by keys. Rules only look at records and answer; system calls ask before they act. A rule about another
//! process is asked under the process-tree lock, under which credentials change, so that an answer holds for as long as the
//! lock does.

mod credentials;
mod file;
mod ipc;
mod process;

#[cfg(test)]
pub use credentials::ROOT;
pub use credentials::{
    CAPABILITY_LAST, Capability, GroupId, Identity, Ids, Owned, UserId, contains, groups_of, has,
    has_new_privileges_barred, inherit, is_opaque, keeps_capabilities, set_flag, start_as_superuser, start_program,
};
pub use file::{FileRights, loses_privileges};
pub use ipc::{may_control_ipc, may_use_ipc, owns_ipc};
pub use process::{
    may_change, may_control, may_inspect, may_limit, may_lower_nice, may_schedule, may_send_as, may_signal, may_tell,
};

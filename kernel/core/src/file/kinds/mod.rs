//! Kinds of files that know no paths. `crate::kinds` has those for which a device of the machine is needed.

pub mod device;
pub mod ends;
pub mod event;
pub mod inode;
pub mod inotify;
pub mod message_queue;
pub mod metadata;
pub mod pidfd;
pub mod pipe;
pub mod pty;
pub mod seals;
pub mod signal_fd;
pub mod timer;

//! Paths, and what they name: look-ups, file systems and their nodes, the calls that are about them.

pub mod absolute;
pub mod attributes;
pub mod dir;
pub mod file_system;
pub mod lookup;
pub mod message_queues;
pub mod mount;
pub mod names;
pub mod node;
pub mod open;
mod ramfs;
pub mod records;
pub mod stat;
pub mod text;
mod unnamed;
pub mod watches;

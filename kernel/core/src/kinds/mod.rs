//! Kinds of files that are devices, and what they do. `file` has descriptors, and which call goes to which kind.

pub mod accel;
pub mod dma;
pub mod hardware;
pub mod late;
pub mod service;

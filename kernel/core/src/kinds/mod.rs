//! Kinds of files that are devices: what they are and do. Descriptors, and which call goes to which kind, are `file`'s.

pub mod accel;
pub mod dma;
pub mod hardware;
pub mod service;

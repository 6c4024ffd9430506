//! Waiting until files are ready: `select` and `poll`, interest lists (`epoll`).

pub mod epoll;
pub mod poll;

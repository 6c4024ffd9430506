//! Descriptors and the open files behind them: tables, references, positions, locks. What an open file is stands above (`file::kind`).

pub mod busy;
pub mod close;
mod deadlock;
pub mod description;
pub mod lock;
pub mod owner;
pub mod position;
pub mod range_calls;
pub mod range_lock;
pub mod table;

//! System calls that Linux does not have. Their numbers are the same on every ISA, far above Linux's.

/// `call_on(island, function, argument)`: calls `void *function(void *)` on a core of an island. To the program it is a
/// call of a C function: only registers that the calling convention preserves keep their values.
pub const CALL_ON: u64 = 0x4d00;
/// `island()`: the number of the island that the thread runs on.
pub const ISLAND: u64 = 0x4d01;

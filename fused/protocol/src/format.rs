//! Laying out a fresh pool: memory, and the tables whose size is fixed for the life of the machine.

use motet_layout::{PAGE_SIZE, Pool, PoolAddr, WaitQueue};

use crate::{
    memory::{self, FormatError},
    threads::TIDS,
};

/// Wait queues for futexes (a power of two).
const FUTEX_QUEUES: u64 = 1024;

/// Lays out a zeroed pool. Called once, by the host; memory can be allocated afterwards. Returns the address of `extra`
/// bytes set aside for the caller (page-aligned).
///
/// # Errors
/// When the pool is too small, or its length is no multiple of the block size.
pub fn format(pool: Pool, block_frames: u32, extra: u64) -> Result<PoolAddr, FormatError> {
    let threads_len = u64::from(TIDS) * 8;
    let futexes_len = FUTEX_QUEUES * size_of::<WaitQueue>() as u64;
    let tables_len = (threads_len + futexes_len).next_multiple_of(PAGE_SIZE);
    let tables = memory::format(pool, block_frames, tables_len + extra)?;
    let header = pool.header();
    header.threads.set(tables.0);
    header.threads_len.set(TIDS);
    header.futexes.set(tables.0 + threads_len);
    header.futexes_len.set(FUTEX_QUEUES as u32);
    Ok(tables.add(tables_len))
}

//! Directory records, which file systems collect for `getdents64`.

use motet_abi::file::dirent64;

/// Entries are collected in pieces of this many bytes, so that user memory is not touched with a directory locked.
pub const PIECE: usize = 2048;
/// Position of ".", which every directory has.
pub const POSITION_DOT: u64 = 0;
/// Position of "..", likewise.
pub const POSITION_DOT_DOT: u64 = 1;
/// Where the positions of a directory's own entries begin.
pub const POSITION_FIRST: u64 = 2;

/// Directory records collected for user memory.
pub struct Records {
    /// Room for them.
    pub(super) bytes: [u8; PIECE],
    /// Bytes that are used.
    pub(super) len: usize,
    /// Bytes that may be used.
    pub(super) limit: usize,
    /// Where the next call goes on.
    pub next: u64,
    /// What the file system keeps of the last entry that fits (the ramfs: its pool address).
    pub last: u64,
}

impl Records {
    /// Adds an entry; `next` is the position behind it. `false`: it does not fit.
    pub fn push(&mut self, number: u64, next: u64, mode: u32, name: &[u8]) -> bool {
        match dirent64(&mut self.bytes[self.len..self.limit], number, next as i64, mode, name) {
            Some(len) => {
                self.len += len;
                self.next = next;
                true
            }
            None => false,
        }
    }
}

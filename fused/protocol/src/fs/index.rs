//! A directory's index: entries by the hash of their name, in buckets that grow in number with the entries, one at a time (linear
//! hashing; Litwin, VLDB 1980). The first buckets lie in the inode; further ones are words of the inode's pages, which a directory
//! has no other use for. Whoever uses it holds the directory's lock.
//!
//! Each directory hashes with a number of its own that programs do not know, so that nobody can choose names that meet in one bucket.

use motet_layout::{Cell64, DIRECTORY_BUCKETS, EntryRecord, InodeRecord, PAGE_SIZE, PoolAddr};

use crate::Context;

use super::pages;

/// Entries per bucket, on average, from which on there is one more.
const LOAD: u32 = 2;
const WORDS_PER_PAGE: u32 = (PAGE_SIZE / 8) as u32;

/// The hash of a name in a directory: FNV-1a, started with the directory's own number.
#[inline]
pub(super) fn hash(dir: &InodeRecord, name: &[u8]) -> u32 {
    let start = 0x811c_9dc5 ^ dir.hash_start.get();
    name.iter().fold(start, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The entries of a bucket, by the hash of a name that it may hold.
pub(super) fn bucket<'a>(context: &impl Context, dir: &'a InodeRecord, hash: u32) -> &'a Cell64 {
    let count = bucket_count(dir);
    let (wide, narrow) = masks(count);
    let spread = spread(hash);
    let index = if spread & wide < count { spread & wide } else { spread & narrow };
    // A bucket that counts has its page.
    slot(context, dir, index).unwrap_or(&dir.buckets[0])
}

/// An entry has been added: there may be too few buckets for them. Without memory for more, there are.
pub(super) fn grow(context: &impl Context, dir: &InodeRecord) {
    let count = bucket_count(dir);
    if dir.entry_count.get() <= LOAD * count {
        return;
    }
    let (wide, narrow) = masks(count);
    let more = count - DIRECTORY_BUCKETS as u32;
    if pages::find_or_allocate(context, dir, u64::from(more / WORDS_PER_PAGE)).is_err() {
        return;
    }
    let (Some(from), Some(to)) = (slot(context, dir, count & narrow), slot(context, dir, count)) else { return };
    dir.more_buckets.set(more + 1);
    to.set(0);
    let mut link = from;
    while let Some(entry) = context.object::<EntryRecord>(link.get()) {
        if spread(entry.hash.get()) & wide == count {
            link.set(entry.bucket_next.get());
            entry.bucket_next.set(to.get());
            to.set(context.raw(entry));
        } else {
            link = &entry.bucket_next;
        }
    }
}

/// The directory has become empty: so the first buckets suffice.
pub(super) fn clear(context: &impl Context, dir: &InodeRecord) {
    if dir.more_buckets.get() != 0 {
        dir.more_buckets.set(0);
        pages::free_range(context, dir, 0, u64::MAX, u64::MAX);
    }
}

/// Makes the index anew, of the entries of a list.
pub(super) fn rebuild(context: &impl Context, dir: &InodeRecord, entries: impl Iterator<Item = &'static EntryRecord>) {
    for index in 0..bucket_count(dir) {
        if let Some(bucket) = slot(context, dir, index) {
            bucket.set(0);
        }
    }
    for entry in entries {
        let bucket = bucket(context, dir, entry.hash.get());
        entry.bucket_next.set(bucket.get());
        bucket.set(context.raw(entry));
    }
}

fn bucket_count(dir: &InodeRecord) -> u32 {
    DIRECTORY_BUCKETS as u32 + dir.more_buckets.get()
}

/// The bits of a hash that tell buckets apart which have been split in this round, and those that have not.
const fn masks(count: u32) -> (u32, u32) {
    let narrow = (1 << count.ilog2()) - 1;
    (narrow << 1 | 1, narrow)
}

/// The low bits of FNV-1a depend on few bits of the last bytes; the high ones of a product on all.
const fn spread(hash: u32) -> u32 {
    hash.wrapping_mul(0x9e37_79b1).reverse_bits()
}

/// The word of a bucket.
fn slot<'a>(context: &impl Context, dir: &'a InodeRecord, index: u32) -> Option<&'a Cell64> {
    let Some(more) = index.checked_sub(DIRECTORY_BUCKETS as u32) else { return Some(&dir.buckets[index as usize]) };
    let frame = pages::find(context, dir, u64::from(more / WORDS_PER_PAGE))?;
    Some(context.pool().at(PoolAddr(frame.addr().0 + u64::from(more % WORDS_PER_PAGE) * 8)))
}

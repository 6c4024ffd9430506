//! Bytes of a pool.

use motet_layout::{Pool, PoolAddr};

const POOL_LEN: usize = 1 << 20;

/// A pool whose bytes count 1 to 251, again and again.
fn pool() -> Pool {
    let words: &'static mut [u64] = vec![0; POOL_LEN / 8 + 512].leak();
    let base = words.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(4096));
    // SAFETY: page-aligned, POOL_LEN bytes, leaked, used in no other way.
    let pool = unsafe { Pool::new(base, POOL_LEN as u64) };
    pool.write(PoolAddr(0), &before());
    pool
}

fn before() -> Vec<u8> {
    (0..POOL_LEN).map(|at| (at % 251) as u8 + 1).collect()
}

fn bytes(pool: Pool) -> Vec<u8> {
    let mut bytes = vec![0; POOL_LEN];
    pool.read(PoolAddr(0), &mut bytes);
    bytes
}

#[test]
fn ranges_are_zeroed_whatever_their_alignment() {
    for (at, len) in [(0, 4096), (4096, 64), (64, 0), (128, 65), (130, 64), (192, 8), (POOL_LEN - 64, 64)] {
        let pool = pool();
        pool.zero(PoolAddr(at as u64), len);
        let mut expected = before();
        expected[at..at + len].fill(0);
        assert!(bytes(pool) == expected, "{len} bytes at {at}");
    }
}

#[test]
fn ranges_are_copied_even_when_they_overlap() {
    let lengths = [0, 1, 64, 65, 4096, 4100];
    let places = [(0, 8192), (8192, 0), (64, 128), (128, 64), (64, 64), (100, 171), (171, 100), (64, 4096), (4096, 64)];
    for (from, to) in places {
        for len in lengths {
            let pool = pool();
            pool.copy(PoolAddr(from), PoolAddr(to), len);
            let mut expected = before();
            expected.copy_within(from as usize..from as usize + len, to as usize);
            assert!(bytes(pool) == expected, "{len} bytes from {from} to {to}");
        }
    }
}

#[test]
#[should_panic(expected = "outside of the pool")]
fn whole_lines_beyond_the_end_are_refused() {
    pool().zero(PoolAddr(POOL_LEN as u64 - 64), 128);
}

//! Where an island has its private memory and the pool, and how large they may be.

use motet_layout::Isa;

/// Smallest pool: kernels' shared objects, the root file system and a few programs.
pub const POOL_SIZE_MIN: u64 = motet_protocol::memory::POOL_LEN_MIN;
/// Largest pool: every island can address this much physical memory, and a frame number has 32 bits.
pub const POOL_SIZE_MAX: u64 = 256 << 30;
/// Default size of a block, the unit in which islands take memory from the pool.
pub const BLOCK_SIZE_DEFAULT: u64 = motet_protocol::memory::BLOCK_FRAMES_DEFAULT as u64 * motet_layout::PAGE_SIZE;

/// Bytes past the pool's end that one RISC-V island maps besides the pool: QEMU puts its device tree there.
pub const TREE_SIZE: u64 = 2 << 20;

/// A piece of an island's map of the pool: (pool offset, local physical address, bytes).
pub type LocalRange = (u64, u64, u64);

/// Where an island of `isa` with `private` bytes of its own memory sees a pool of `pool_len` bytes.
///
/// - x86-64 (q35): RAM below 4 GiB is limited to the private memory (`max-ram-below-4g`), so the pool begins at 4 GiB
///   and firmware, which puts its tables at the top of low memory, stays out of it.
/// - AArch64 (virt): RAM begins at 1 GiB; the pool follows the private memory.
/// - RISC-V (virt): RAM begins at 2 GiB; the pool follows the private memory. QEMU puts the device tree into the last
///   2 MiB of RAM, so RAM is longer than the pool by [`TREE_SIZE`] or more (`HostPool::map_len` of the fabric).
pub fn local_ranges(isa: Isa, private: u64, pool_len: u64) -> Vec<LocalRange> {
    let base = match isa {
        Isa::X86_64 => 4 << 30,
        Isa::AArch64 | Isa::RiscV64 | Isa::Hosted => private_base(isa) + private,
    };
    vec![(0, base, pool_len)]
}

/// Where RAM begins on an ISA's board, and with it an island's private memory: a physical address.
pub(super) const fn private_base(isa: Isa) -> u64 {
    match isa {
        Isa::X86_64 => 0,
        Isa::AArch64 => 1 << 30,
        Isa::RiscV64 | Isa::Hosted => 2 << 30,
    }
}

/// The private memory an ISA's island has by default, in bytes, and the least it can have.
///
/// AArch64: QEMU puts the device tree 128 MiB above the start of RAM, and it must not lie in the pool.
pub const fn private_size(isa: Isa) -> (u64, u64) {
    match isa {
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => (64 << 20, 32 << 20),
        Isa::AArch64 => (256 << 20, 160 << 20),
    }
}

#[cfg(test)]
mod tests {
    use motet_layout::PAGE_SIZE;

    use super::*;

    #[test]
    fn the_pool_follows_private_memory() {
        assert_eq!(local_ranges(Isa::X86_64, 64 << 20, 1 << 30), [(0, 0x1_0000_0000, 1 << 30)]);
        assert_eq!(local_ranges(Isa::AArch64, 256 << 20, 1 << 30), [(0, 0x5000_0000, 1 << 30)]);
        assert_eq!(local_ranges(Isa::RiscV64, 64 << 20, 1 << 30), [(0, 0x8400_0000, 1 << 30)]);
    }

    #[test]
    fn ranges_cover_the_pool_without_overlap() {
        for isa in [Isa::X86_64, Isa::AArch64, Isa::RiscV64] {
            for pool_len in [32 << 20, 1 << 30, 3 << 30, 256 << 30] {
                let mut next = 0;
                for (offset, phys, len) in local_ranges(isa, 256 << 20, pool_len) {
                    assert_eq!((offset, phys % PAGE_SIZE), (next, 0));
                    next += len;
                }
                assert_eq!(next, pool_len);
            }
        }
    }
}

//! Names of memory: the pool's own addresses, and the kernel's virtual memory map, the same on every island.

/// Bytes in a page and in a frame; the same on every ISA Motet runs on.
pub const PAGE_SIZE: u64 = 4096;
/// log2 of [`PAGE_SIZE`].
pub const PAGE_SHIFT: u32 = 12;
/// Bytes in a cache line, for every ISA: 64 B lines are what all modelled machines have.
pub const LINE_SIZE: usize = 64;

/// First address past user space. 47 bits on every ISA, less one guard page (as on Linux x86-64).
pub const USER_END: u64 = 0x0000_7fff_ffff_f000;
/// Whether the bits of an address above the 48 that are translated repeat the highest of those. x86-64 faults when another
/// address is loaded into a segment's base (Intel SDM volume 1, section 3.3.7.1).
#[inline(always)]
pub const fn is_canonical(address: u64) -> bool {
    (address << 16).cast_signed() >> 16 == address.cast_signed()
}

/// Where every kernel maps the pool: a shared object has one virtual address on all islands.
pub const POOL_VA: u64 = 0xffff_9000_0000_0000;
/// Where a kernel maps its private memory: `PRIVATE_VA + local physical address`.
pub const PRIVATE_VA: u64 = 0xffff_a000_0000_0000;
/// Where a kernel maps device registers, uncached: `DEVICE_VA + local physical address` (the first 512 GiB).
pub const DEVICE_VA: u64 = 0xffff_b000_0000_0000;
/// Where kernel images are linked.
pub const KERNEL_VA: u64 = 0xffff_ffff_8000_0000;
/// First root-table slot of the kernel half (4 levels of 9 bits on every ISA).
pub const KERNEL_ROOT_SLOT: usize = 256;

/// An offset into the pool: the ISA-neutral name of a byte of shared physical memory. Zero names nothing (the header
/// is never referred to by address).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct PoolAddr(pub u64);

impl PoolAddr {
    /// The address that names nothing.
    pub const NULL: Self = Self(0);

    /// Whether this names nothing.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The frame that holds this byte.
    pub const fn frame(self) -> Frame {
        Frame((self.0 >> PAGE_SHIFT) as u32)
    }

    /// This address moved up by `bytes`.
    pub const fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// A 4 KiB frame of the pool: its offset / 4096. Frame 0 holds the header and so means "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Frame(pub u32);

impl Frame {
    /// No frame.
    pub const NONE: Self = Self(0);

    /// Whether this is no frame.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Address of the frame's first byte.
    pub const fn addr(self) -> PoolAddr {
        PoolAddr((self.0 as u64) << PAGE_SHIFT)
    }
}

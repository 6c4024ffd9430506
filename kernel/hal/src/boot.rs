//! How a kernel learns what machine it is in.
//!
//! The host passes a command line (PVH start info on x86-64, `/chosen/bootargs` elsewhere) of `key=value` words:
//! - `island=N`: its entry in the island table of the pool header;
//! - `pool=ADDR`: local physical address of the pool's first byte, hexadecimal with `0x`;
//! - `mode=MODE`: `run` (default), `conformance` (run the HAL conformance suite, report, stop), `stray-…` (read another kernel's memory, which must
//!   fault: `conformance::Stray`).
//!
//! A HAL checks that the pool lies in memory the machine describes before it reads the magic.

use motet_layout::{FINGERPRINT, IslandId, POOL_MAGIC, POOL_VERSION, Pool};

/// The parsed command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BootArgs<'a> {
    /// This kernel's island.
    pub island: IslandId,
    /// Local physical address of the pool.
    pub pool_phys: u64,
    /// What to do: `run`, `conformance`, or to go astray.
    pub mode: &'a str,
}

impl<'a> BootArgs<'a> {
    /// Parses a command line.
    ///
    /// # Errors
    /// What is missing or malformed.
    pub fn parse(line: &'a str) -> Result<Self, &'static str> {
        let (mut island, mut pool_phys, mut mode) = (None, None, "run");
        for word in line.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("island", value)) => {
                    island = value.parse().ok().and_then(IslandId::from_raw);
                }
                Some(("pool", value)) => {
                    pool_phys = value.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
                }
                Some(("mode", value)) => mode = value,
                _ => {}
            }
        }
        Ok(Self {
            island: island.ok_or("command line has no valid island=N")?,
            pool_phys: pool_phys.ok_or("command line has no valid pool=0xADDR")?,
            mode,
        })
    }
}

/// Why a kernel refuses to join a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The bytes at the pool's address are not a pool.
    Magic(u64),
    /// Another version of the header.
    Version(u32),
    /// The host (or another kernel) was built with other layouts.
    Fingerprint {
        /// In the header.
        pool: u64,
        /// Of this kernel.
        kernel: u64,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Magic(found) => write!(f, "no pool at the given address (magic {found:#018x})"),
            Self::Version(found) => write!(f, "pool header version {found}, this kernel knows {POOL_VERSION}"),
            Self::Fingerprint { pool, kernel } => write!(
                f,
                "layout fingerprint differs: pool {pool:#018x}, kernel {kernel:#018x}; rebuild both from one source"
            ),
        }
    }
}

/// Checks that `pool` is one this kernel can share.
///
/// # Errors
/// The reason it cannot.
pub fn check_pool(pool: Pool) -> Result<(), Refusal> {
    let header = pool.header();
    if header.magic.get() != POOL_MAGIC {
        return Err(Refusal::Magic(header.magic.get()));
    }
    if header.version.get() != POOL_VERSION {
        return Err(Refusal::Version(header.version.get()));
    }
    if header.fingerprint.get() != FINGERPRINT {
        return Err(Refusal::Fingerprint { pool: header.fingerprint.get(), kernel: FINGERPRINT });
    }
    Ok(())
}

//! What programs ask about the system: its name, and how much there is of what.

use motet_abi::system;
use motet_hal::Machine;
use motet_protocol::memory;

use crate::{
    call::{Call, SysResult},
    cpu::KERNEL_RELEASE,
    tree::{self, lock_tree},
};

const KERNEL_VERSION: &str = concat!("#1 SMP Motet ", env!("CARGO_PKG_VERSION"));
const NODE_NAME: &str = "motet";

/// `uname(buffer)`: the machine name is that of the caller's ISA.
pub fn uname<M: Machine>(call: &Call<M>) -> SysResult {
    call.write_user(call.args[0], &system::utsname(call.isa, NODE_NAME, KERNEL_RELEASE, KERNEL_VERSION))?;
    Ok(0)
}

/// `sysinfo(buffer)`, Linux `struct sysinfo` of 64-bit ISAs.
pub fn sysinfo<M: Machine>(call: &Call<M>) -> SysResult {
    let (free, total) = memory::usage(call.cpu.pool);
    let mut processes = 0u16;
    {
        let _tree = lock_tree(call.cpu);
        tree::for_each(call.cpu, |_| processes += 1);
    }
    let mut info = [0u8; 112];
    for (offset, word) in [(0, call.cpu.reading_ns() / 1_000_000_000), (32, total), (40, free)] {
        info[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    }
    info[80..82].copy_from_slice(&processes.to_le_bytes());
    info[104..108].copy_from_slice(&1u32.to_le_bytes());
    call.write_user(call.args[0], &info)?;
    Ok(0)
}

//! What processes have used (getrusage(2)).

use motet_abi::Errno;
use motet_hal::Machine;

use crate::{
    call::{Call, Stop, SysResult},
    cputime, tree,
};

/// Bytes of Linux's `struct rusage`.
pub const RUSAGE_LEN: u64 = 144;

/// `getrusage(who, usage)`.
pub fn getrusage<M: Machine>(call: &Call<M>) -> SysResult {
    let times = match call.args[0] as i32 {
        0 => {
            let (user, system) = tree::charged_times_ns(call);
            [user, system]
        }
        1 => {
            cputime::charge(call.cpu, call.thread);
            [call.thread.user_ns.get(), call.thread.system_ns.get()]
        }
        -1 => [call.process.child_times_ns[0].get(), call.process.child_times_ns[1].get()],
        _ => return Err(Errno::EINVAL.into()),
    };
    write_rusage(call, call.args[1], times)?;
    Ok(0)
}

/// Linux `struct rusage`, of which times are kept.
pub fn write_rusage<M: Machine>(call: &Call<M>, address: u64, times_ns: [u64; 2]) -> Result<(), Stop> {
    let mut usage = [0u8; RUSAGE_LEN as usize];
    for (index, ns) in times_ns.into_iter().enumerate() {
        usage[16 * index..16 * index + 8].copy_from_slice(&(ns / 1_000_000_000).to_le_bytes());
        usage[16 * index + 8..16 * index + 16].copy_from_slice(&(ns % 1_000_000_000 / 1000).to_le_bytes());
    }
    call.write_user(address, &usage)
}

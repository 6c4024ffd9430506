//! `prctl`: what a thread or process is called, and what it wants to be told.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, signal::NSIG};
use motet_hal::Machine;
use motet_layout::Isa;

use super::identity;
use crate::{
    ability,
    call::{Call, Stop, SysResult},
};

const PR_SET_PDEATHSIG: u64 = 1;
const PR_GET_PDEATHSIG: u64 = 2;
const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_GET_TIMING: u64 = 13;
const PR_SET_TIMING: u64 = 14;
const PR_SET_TIMERSLACK: u64 = 29;
const PR_GET_TIMERSLACK: u64 = 30;
const PR_SET_CHILD_SUBREAPER: u64 = 36;
const PR_GET_CHILD_SUBREAPER: u64 = 37;
const PR_SVE_SET_VL: u64 = 50;
const PR_SVE_GET_VL: u64 = 51;

/// What a thread begins with (`PR_SET_TIMERSLACK`).
const TIMER_SLACK_NS: u64 = 50_000;

/// `prctl(option, ...)`.
pub fn prctl<M: Machine>(call: &Call<M>) -> SysResult {
    match u64::from(call.args[0] as u32) {
        PR_SET_NAME => {
            let mut name = [0; 16];
            let len = match call.read_string(call.args[1], &mut name) {
                Ok(len) => len,
                Err(Stop::Error(Errno::ENAMETOOLONG)) => 15,
                Err(stop) => return Err(stop),
            };
            let leader = call.thread.tid.get() == call.process.pid.get();
            for (index, &byte) in name.iter().enumerate() {
                let byte = if index < len { byte } else { 0 };
                call.thread.name[index].store(byte, Ordering::Relaxed);
                if leader {
                    call.process.name[index].store(byte, Ordering::Relaxed);
                }
            }
            Ok(0)
        }
        PR_GET_NAME => {
            let name: [u8; 16] = core::array::from_fn(|index| call.thread.name[index].load(Ordering::Relaxed));
            call.write_user(call.args[1], &name)?;
            Ok(0)
        }
        PR_SET_PDEATHSIG => {
            if call.args[1] > u64::from(NSIG) {
                return Err(Errno::EINVAL.into());
            }
            call.process.death_signal.set(call.args[1] as u32);
            Ok(0)
        }
        PR_GET_PDEATHSIG => {
            call.write_user(call.args[1], &call.process.death_signal.get().to_le_bytes())?;
            Ok(0)
        }
        PR_SET_CHILD_SUBREAPER => {
            call.process.adopts.set(u32::from(call.args[1] != 0));
            Ok(0)
        }
        PR_GET_CHILD_SUBREAPER => {
            call.write_user(call.args[1], &call.process.adopts.get().to_le_bytes())?;
            Ok(0)
        }
        // How late timers may be, of which nothing is made here: they are as exact as they can be.
        PR_GET_TIMERSLACK => Ok(match call.thread.timer_slack_ns.get() {
            0 => TIMER_SLACK_NS,
            slack_ns => slack_ns,
        }),
        PR_SET_TIMERSLACK => {
            let asked = call.args[1].cast_signed();
            call.thread.timer_slack_ns.set(if asked <= 0 { 0 } else { asked.cast_unsigned() });
            Ok(0)
        }
        // Times are counted, not sampled, whatever is asked for; Linux has but the one value, too.
        PR_GET_TIMING => Ok(0),
        PR_SET_TIMING if call.args[1] == 0 => Ok(0),
        PR_SVE_GET_VL if call.isa == Isa::AArch64 => {
            Ok(ability::told_length(call.cpu, call.process).ok_or(Errno::EINVAL)?)
        }
        PR_SVE_SET_VL if call.isa == Isa::AArch64 => {
            let is_alone = super::exec::is_only_thread(call);
            let chosen = ability::choose_length(call.cpu, call.thread, call.args[1], is_alone);
            Ok(chosen.ok_or(Errno::EINVAL)?)
        }
        _ => identity::prctl(call),
    }
}

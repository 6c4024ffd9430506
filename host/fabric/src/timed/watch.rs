//! Whether a timed machine's cores make progress.

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use motet_layout::{CORE_IDLE, CORE_OUT, CORE_POLLING, CORES_PER_ISLAND_MAX, CoreRecord};
use motet_timing::{PACE_PARKED, PACE_WAITS};

use super::Clocks;
use crate::HostPool;

/// What a core has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doing {
    clock_ps: u64,
    halted: u32,
    idle_ps: u64,
    /// A running core's alarm is never off for long: its kernel limits the slice of each thread.
    alarm_ns: u64,
}

/// Why a core is thought to hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// Its clock stands still although it neither sleeps nor waits for another core.
    ClockStands,
    /// It was rung and does not wake.
    DoesNotWake,
    /// It runs, and does not take the interrupt that its own timer asked for.
    IgnoresInterrupts,
}

/// Looks for cores that hang.
#[derive(Debug, Default)]
pub struct Watch {
    /// For each core that runs: what it did at the last look, and at how many looks there was no progress.
    seen: BTreeMap<usize, (Doing, u32)>,
}

impl Watch {
    /// Looks at all cores. Returns the first that has shown no progress for `looks_max` looks: its island, its number
    /// there, and why.
    pub fn look(&mut self, clocks: &Clocks, pool: &HostPool, looks_max: u32) -> Option<(usize, usize, Symptom)> {
        for (core, record) in pool.core_records() {
            let Some(doing) = clocks.doing(core, record) else {
                self.seen.remove(&core);
                continue;
            };
            let (before, looks) = self.seen.get(&core).copied().unwrap_or((doing, 0));
            let Some(symptom) = symptom(before, doing) else {
                self.seen.insert(core, (doing, 0));
                continue;
            };
            if looks == looks_max {
                return Some((core / CORES_PER_ISLAND_MAX, core % CORES_PER_ISLAND_MAX, symptom));
            }
            self.seen.insert(core, (doing, looks + 1));
        }
        None
    }
}

/// What is suspicious between two looks at a core that runs.
fn symptom(before: Doing, now: Doing) -> Option<Symptom> {
    if now.clock_ps == before.clock_ps && now.idle_ps == before.idle_ps && now.halted == before.halted {
        return Some(if now.halted == 0 { Symptom::ClockStands } else { Symptom::DoesNotWake });
    }
    let awake = now.halted == 0 && now.idle_ps == before.idle_ps;
    let asked = now.alarm_ns == u64::MAX && before.alarm_ns == u64::MAX;
    (awake && asked).then_some(Symptom::IgnoresInterrupts)
}

impl Clocks {
    /// What a running core has done so far, for [`Watch`]; `None` while it sleeps or waits for other cores.
    fn doing(&self, core: usize, record: &CoreRecord) -> Option<Doing> {
        let clock = &self.region.cores[core];
        let is_here = clock.announced.load(Relaxed) != 0 && self.region.started.load(Relaxed) != 0;
        let waits = matches!(clock.pace.load(Relaxed), PACE_WAITS | PACE_PARKED);
        let notes = [&clock.wake_at_ps, &record.rung_at_ns, &record.written_at_ns];
        let is_rung = notes.iter().any(|note| note.load(Relaxed) != 0)
            || !matches!(record.state.load(Relaxed), CORE_IDLE | CORE_POLLING | CORE_OUT);
        let sleeps = clock.halted.load(Relaxed) != 0 && !is_rung;
        let settings = self.region.settings()?;
        let has_turn = !settings.deterministic || self.region.turn.load(Relaxed) == core as u32 + 1;
        if !is_here || waits || sleeps || !has_turn || self.region.stopped.load(Relaxed) != 0 {
            return None;
        }
        Some(Doing {
            clock_ps: clock.clock_ps.load(Relaxed),
            halted: clock.halted.load(Relaxed),
            idle_ps: clock.idle_ps.load(Relaxed),
            // A hidden hart has no alarm to ask for.
            alarm_ns: if clock.hidden.load(Relaxed) == 0 { record.alarm_ns.load(Relaxed) } else { 0 },
        })
    }

    /// The number that an island's QEMU has for a core.
    pub fn vcpu(&self, island: usize, core: usize) -> Option<usize> {
        let vcpu = self.region.cores[island * CORES_PER_ISLAND_MAX + core].vcpu.load(Relaxed);
        vcpu.checked_sub(1).map(|vcpu| vcpu as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Doing = Doing { clock_ps: 5, halted: 0, idle_ps: 1, alarm_ns: 9 };

    #[test]
    fn a_core_that_advances_and_has_an_alarm_is_well() {
        assert_eq!(symptom(RUNS, Doing { clock_ps: 6, ..RUNS }), None);
        let without = Doing { alarm_ns: u64::MAX, ..RUNS };
        assert_eq!(symptom(RUNS, Doing { clock_ps: 6, ..without }), None, "the alarm has just gone off");
        assert_eq!(symptom(without, Doing { clock_ps: 6, idle_ps: 2, ..without }), None, "it slept in between");
    }

    #[test]
    fn each_symptom_is_told_apart() {
        assert_eq!(symptom(RUNS, RUNS), Some(Symptom::ClockStands));
        let asleep = Doing { halted: 1, ..RUNS };
        assert_eq!(symptom(asleep, asleep), Some(Symptom::DoesNotWake));
        let without = Doing { alarm_ns: u64::MAX, ..RUNS };
        assert_eq!(symptom(without, Doing { clock_ps: 6, ..without }), Some(Symptom::IgnoresInterrupts));
    }
}

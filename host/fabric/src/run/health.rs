//! Health of islands: what they report, their QEMUs, heartbeats and clocks; and the error about an island that
//! does not live.

use std::sync::atomic::Ordering;

use motet_error::{Error, ErrorKind, Result};
use motet_layout::{ISLAND_FAILED, ISLAND_JOINED, IslandId, IslandRecord};
use motet_protocol::rejoin;
use motet_timing::{PS_PER_NS, TIME_END_PS};

use super::{Event, Mode, PINGS_MAX, Run};
use crate::{
    network, qemu,
    registers::{described, program_counters},
    timed::Symptom,
};

impl Run<'_> {
    /// Looks at what islands say of themselves, and whether their QEMUs run.
    pub(super) fn check_islands(&mut self) -> Result<()> {
        let header = self.pool.header();
        for index in 0..self.islands.len() {
            if self.islands[index].lost {
                continue;
            }
            let record = self.pool.island(index);
            match record.state.load(Ordering::Acquire) {
                ISLAND_FAILED if self.islands[index].restart.is_some() => {
                    self.lose_again(index, &format!("failed: {}", message_of(record)));
                    continue;
                }
                ISLAND_FAILED => {
                    let what = format!("failed: {}", message_of(record));
                    if !self.goes_on_without(index) {
                        return Err(self.failure(index, &what));
                    }
                    // Its other cores run still.
                    self.islands[index].qemu.kill();
                    self.lose(index, &what);
                    continue;
                }
                ISLAND_JOINED if !self.islands[index].joined => {
                    self.islands[index].joined = true;
                    self.options.network.lengthen_lists(index, self.islands[index].qemu.id());
                    let after = self.islands[index].started.elapsed();
                    if self.islands[index].restart.is_none() {
                        self.hooks.event(Event::Joined { island: index, after });
                    }
                }
                _ => {}
            }
            if let Some(status) = self.islands[index].qemu.exit_status() {
                // A machine that is being stopped may have ended by itself.
                if header.exit.load(Ordering::Acquire) == 0 {
                    let what = qemu::describe_exit(status);
                    if !self.goes_on_without(index) {
                        return Err(self.failure(index, &what));
                    }
                    match self.islands[index].restart {
                        Some(_) => self.lose_again(index, &format!("has died before it had joined: {what}")),
                        None => self.lose(index, &what),
                    }
                }
            }
        }
        if header.exit.load(Ordering::Acquire) == 0 { self.check_boot_time() } else { Ok(()) }
    }

    /// Whether the machine goes on when that island dies, or its kernel fails.
    fn goes_on_without(&self, index: usize) -> bool {
        self.options.survive && index != 0 && self.boot_clock.is_none() && self.clocks.is_none()
    }

    /// Lets the machine go on without an island, whose QEMU has ended. The first island ends what ran there.
    pub(super) fn lose(&mut self, index: usize, what: &str) {
        self.islands[index].lost = true;
        let header = self.pool.header();
        IslandId::from_raw(index as u32).into_iter().for_each(|island| rejoin::declare_dead(header, island));
        self.hooks.event(Event::Lost { island: index, what });
        self.bells.ring(0, 0);
    }

    /// Reports an island that has not joined in time.
    fn check_boot_time(&mut self) -> Result<()> {
        let limit = self.options.boot_timeout;
        let late = match self.options.mode {
            Mode::Run => self.islands.iter().position(|island| {
                let boots = !island.joined && !island.lost && island.restart.is_none();
                boots && island.started.elapsed() > limit
            }),
            // Islands wait for each other, so the one that has been silent longest is the first suspect.
            Mode::Conformance | Mode::StrayBehind | Mode::StrayAbove | Mode::StrayBelow | Mode::StrayDevice => {
                let silent = self.islands.iter().all(|island| island.said.elapsed() > limit);
                let first = (0..self.islands.len()).min_by_key(|&index| self.islands[index].said);
                first.filter(|_| silent)
            }
        };
        let what = match self.options.mode {
            Mode::Run => "it has not joined after",
            Mode::Conformance | Mode::StrayBehind | Mode::StrayAbove | Mode::StrayBelow | Mode::StrayDevice => {
                "no island has reported anything for"
            }
        };
        late.map_or(Ok(()), |index| Err(self.hang(index, &format!("{what} {} s", limit.as_secs_f64()))))
    }

    /// Rings islands whose heartbeat stands still (an idle island has none). One that does not react is as one that has died.
    pub(super) fn watch_heartbeats(&mut self) -> Result<()> {
        let mut silent = Vec::new();
        for index in 0..self.islands.len() {
            if self.islands[index].lost || self.islands[index].restart.is_some() {
                continue;
            }
            let heartbeat = self.pool.island(index).counters.heartbeat.load(Ordering::Relaxed);
            let island = &mut self.islands[index];
            if heartbeat != island.heartbeat {
                (island.heartbeat, island.pings) = (heartbeat, 0);
                continue;
            }
            if island.pings == PINGS_MAX {
                silent.push(index);
                continue;
            }
            island.pings += 1;
            self.bells.ring(index, 0);
        }
        // Others may only wait for the one that hangs: for what it has locked, or is asked to do.
        let suspicion = |&index: &usize| (!self.islands[index].qemu.is_stopped(), !self.goes_on_without(index));
        match silent.iter().copied().min_by_key(suspicion) {
            Some(index) => {
                silent.iter().for_each(|&other| self.islands[other].pings = 0);
                self.end_hanging(index)
            }
            None => Ok(()),
        }
    }

    /// Lets the machine go on without an island that hangs, if it may.
    fn end_hanging(&mut self, index: usize) -> Result<()> {
        let what = format!("no sign of life for {} s", self.options.hang_timeout.as_secs_f64());
        if !self.goes_on_without(index) {
            return Err(self.hang(index, &what));
        }
        let what = format!("hangs: {what} ({})", self.location(index, None));
        self.islands[index].qemu.kill();
        self.lose(index, &what);
        Ok(())
    }

    /// Reports a core of a timed machine that others wait for in vain. Nothing is rung: that would change the simulation.
    pub(super) fn watch_clocks(&mut self) -> Result<()> {
        let Some((clocks, watch)) = &mut self.clocks else { return Ok(()) };
        let Some((island, core, symptom)) = watch.look(clocks, self.pool, PINGS_MAX) else { return Ok(()) };
        let vcpu = clocks.vcpu(island, core);
        let what = match symptom {
            Symptom::ClockStands => "its clock stands still, and it neither sleeps nor waits for another core,",
            Symptom::DoesNotWake => "it was rung, and does not wake,",
            Symptom::IgnoresInterrupts => "it runs and takes no interrupts",
        };
        let seconds = self.options.hang_timeout.as_secs_f64();
        let location = self.location(island, vcpu);
        Err(self.failure(island, &format!("hangs: core {core}: {what} for {seconds} s ({location})")))
    }

    /// Ends a timed machine whose command sleeps, or runs, beyond the end of simulated time.
    pub(super) fn check_time(&self) -> Result<()> {
        let Some((clocks, _)) = &self.clocks else { return Ok(()) };
        if !clocks.are_at_end() {
            return Ok(());
        }
        let days = TIME_END_PS / PS_PER_NS / 1_000_000_000 / 86_400;
        let message = format!("the simulated time ends after {days} days, and the command has not ended by then");
        Err(Error::new(ErrorKind::Software, message))
    }

    /// Where a virtual CPU of an island is; all of them when it is not known which.
    fn location(&mut self, index: usize, vcpu: Option<usize>) -> String {
        let Some(registers) = self.islands[index].qemu.qmp.monitor("info registers -a") else {
            return "its QEMU does not answer".into();
        };
        let counters = program_counters(&registers);
        match vcpu.and_then(|vcpu| counters.get(vcpu)) {
            Some(counter) => format!("program counter: {}", described(counter)),
            None => format!("program counters: {}", counters.join(", ")),
        }
    }

    /// An error about an island, with the last lines of its console.
    pub(super) fn failure(&mut self, index: usize, what: &str) -> Error {
        self.drain_consoles();
        let island = &self.options.machine.islands[index];
        let name = &island.name;
        // What it is made of, as long as that may be why.
        let cpu = island.cpu.as_deref().filter(|_| self.boot_clock.is_some());
        let cpu = cpu.map_or_else(String::new, |cpu| format!(" (cpu = \"{cpu}\")"));
        let mut message = format!("island {name}{cpu} {what}");
        let lines = self.islands[index].qemu.console.last_lines();
        if let Some(line) = lines.iter().find(|line| line.contains(network::PORT_REFUSED)) {
            // Somebody took the port since it was tried.
            let message = format!("--publish: a port of this host cannot be had any more: {line}");
            return Error::new(ErrorKind::Unavailable, message);
        }
        if lines.is_empty() {
            message.push_str("\nits console is empty");
            if !cpu.is_empty() {
                message.push_str(": firmware or kernel need something that this cpu has not (docs/machines.md)");
            }
        } else {
            message.push_str("\nthe last lines of its console:");
        }
        for line in lines {
            message.push_str(&format!("\n  [{name}] {line}"));
        }
        Error::new(ErrorKind::Software, message)
    }

    /// An error about an island that does not react, with its program counters if its QEMU answers.
    fn hang(&mut self, index: usize, what: &str) -> Error {
        let location = self.location(index, None);
        self.failure(index, &format!("hangs: {what} ({location})"))
    }
}

/// Why an island failed, as it says itself.
fn message_of(record: &IslandRecord) -> String {
    let len = (record.message_len.load(Ordering::Acquire) as usize).min(record.message.len());
    let bytes: Vec<u8> = record.message[..len].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    String::from_utf8_lossy(&bytes).trim_end().chars().filter(|&c| c == '\n' || !c.is_control()).collect()
}

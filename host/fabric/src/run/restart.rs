//! Restarting islands that have died (`motet restart`), while the machine goes on (`motet_protocol::rejoin`).

use motet_error::Result;
use motet_layout::{CORE_OFFLINE, CoreId, IslandId, PoolHeader, sync::Ordering};
use motet_protocol::rejoin;

use super::{BootClock, Event, Run};
use crate::control::Asked;
use motet_machine::Crossing;

/// An island that is to join again.
pub(super) struct Restart {
    /// Who wants that, and waits for an answer.
    asked: Asked,
}

impl Run<'_> {
    /// Begins to start an island again, or says why that cannot be.
    pub(super) fn ask_restart(&mut self, asked: Asked) {
        match self.may_restart(asked.island()) {
            Ok(index) => self.islands[index].restart = Some(Restart { asked }),
            Err(why) => asked.refuse(&why),
        }
    }

    /// The island of that name, if it can be started again.
    fn may_restart(&self, name: &str) -> std::result::Result<usize, String> {
        let islands = &self.options.machine.islands;
        let Some(index) = islands.iter().position(|island| island.name == name) else {
            let names: Vec<&str> = islands.iter().map(|island| island.name.as_str()).collect();
            return Err(format!("it has no island {name}; its islands are {}", names.join(", ")));
        };
        let island = &self.islands[index];
        let refused = match () {
            () if self.clocks.is_some() => {
                "its time is simulated: it ends when an island dies, and none can be started again; motet run --survive, without --timed, \
                 runs one that goes on"
                    .into()
            }
            () if self.options.machine.multikernel.is_some() => "its islands have a kernel each, and none of these goes on without the others".into(),
            () if !self.options.survive => "it runs without --survive, so it ends when an island dies, and none can be started \
                again; motet run --survive runs one that goes on"
                .into(),
            () if index == 0 => format!(
                "{name} is its first island, which has the console and ends what others die with: the machine ends with it, so it cannot \
                 be started again; the others can"
            ),
            () if self.options.machine.crossing == Crossing::Flick => {
                "its calls migrate as Flick's do (crossing = \"flick\"), and cores there keep in mind which islands have died: \
                none is started again; machines whose file does not say so start them"
                    .into()
            }
            () if island.restart.is_some() => format!("island {name} is being started again already: wait for that"),
            () if !island.lost => {
                format!("island {name} lives (process {}); only one that has died is started again", island.qemu.id())
            }
            () if self.pool.header().exit.load(Ordering::Acquire) != 0 => {
                "its command has ended, and it is being stopped: start another one with motet run --survive".into()
            }
            () => return Ok(index),
        };
        Err(refused)
    }

    /// Whether somebody waits for an island to be started, or to join again.
    pub(super) fn is_restarting(&self) -> bool {
        self.islands.iter().any(|island| island.restart.is_some())
    }

    /// Starts islands whose dead are reclaimed, and tells who waits for those that have joined, or take too long.
    pub(super) fn go_on_restarting(&mut self) -> Result<()> {
        for index in 0..self.islands.len() {
            let island = &mut self.islands[index];
            let Some(restart) = island.restart.take() else { continue };
            if island.joined && !island.lost && is_awake(self.pool.header(), index) {
                let after = island.started.elapsed();
                restart.asked.done(&format!("{}\n", after.as_millis()));
                self.hooks.event(Event::Rejoined { island: index, after });
                continue;
            }
            let is_late = !island.lost && island.started.elapsed() > self.options.boot_timeout;
            let can_start = island.lost && id(index).is_some_and(|id| rejoin::is_gone(self.pool.header(), id));
            island.restart = Some(restart);
            if is_late {
                let what = format!("has not joined after {} s", self.options.boot_timeout.as_secs_f64());
                self.lose_again(index, &what);
            } else if can_start && let Err(error) = self.start_again(index) {
                self.lose_again(index, &error.message);
            }
        }
        if !self.is_restarting() {
            self.rejoin_clock = None;
        }
        Ok(())
    }

    /// Starts an island again, with the doorbells that it had: other islands need not know.
    fn start_again(&mut self, index: usize) -> Result<()> {
        if self.rejoin_clock.is_none() {
            self.rejoin_clock = Some(BootClock::start(self.pool)?);
        }
        id(index).into_iter().for_each(|id| rejoin::begin(self.pool.header(), id));
        let (ours, qemus) = self.bells.introduce_again(index)?;
        let started = self.launcher.start(index, qemus)?;
        let before = std::mem::replace(&mut self.islands[index], started);
        self.islands[index].restart = before.restart;
        self.islands[index].server = Some(ours);
        self.hooks.event(Event::Restarting { island: index });
        Ok(())
    }

    /// An island that was to join again has failed, or died again: the machine goes on without it, as before.
    pub(super) fn lose_again(&mut self, index: usize, what: &str) {
        let error = self.failure(index, what);
        self.islands[index].qemu.kill();
        if let Some(restart) = self.islands[index].restart.take() {
            restart.asked.refuse(&error.message);
        }
        self.lose(index, what);
    }

    /// The machine ends: nobody waits in vain.
    pub(super) fn end_restarts(&mut self) {
        for restart in self.islands.iter_mut().filter_map(|island| island.restart.take()) {
            restart
                .asked
                .refuse("it has ended, before the island had joined: start another one with motet run --survive");
        }
    }
}

/// Whether the island's first core, which is the last one to come, takes threads.
fn is_awake(header: &PoolHeader, index: usize) -> bool {
    id(index).is_some_and(|id| header.cores[CoreId::new(id, 0).index()].state.load(Ordering::Acquire) != CORE_OFFLINE)
}

fn id(index: usize) -> Option<IslandId> {
    IslandId::from_raw(index as u32)
}

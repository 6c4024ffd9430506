//! The worst-case latency of allocations of the FPGA, from a machine file: Ker-ONE's equations 5 to 8, with this machine's terms.
//!
//! A latency is from a store that traps until the store is executed, because its client's registers are connected. It is that of a thread whose core does nothing else,
//! with no interrupt but the FPGA's, on caches and TLBs that hold nothing of use. The parts that are this kernel's are bounded by the instructions that they
//! take and the cache lines and pages that they touch ([`ASK`], [`REVOKE`], [`WAKE`]): figures that were measured, and that a test compares with timed runs.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

use motet_coherence::config::{Config, IslandConfig};
use serde::Serialize;

use motet_error::{Error, ErrorKind, Result};
use motet_machine::{AcceleratorSpec, FpgaSpec, MachineSpec};

/// What the kernel executes at once: the most of the instruction sets.
#[derive(Clone, Copy, Debug)]
struct Work {
    instructions: u64,
    /// Lines of code and data that it touches.
    lines: u64,
    /// Pages of these.
    pages: u64,
    /// Handlers that begin and end.
    traps: u64,
    /// Interrupts of these.
    interrupts: u64,
}

/// A store traps, and the kernel gives its client a region that was offered. At first it has to look for the registers in the address space.
const TAKE: Work = Work { instructions: 1500, lines: 60, pages: 26, traps: 1, interrupts: 0 };
/// A store traps; the FPGA is told, and the thread waits.
const ASK: Work = Work { instructions: 2600, lines: 60, pages: 30, traps: 1, interrupts: 0 };
/// An interrupt; registers are taken away from who had them, and the FPGA is told.
const REVOKE: Work = Work { instructions: 2400, lines: 50, pages: 25, traps: 1, interrupts: 1 };
/// An interrupt; the thread is woken, runs, and stores again, which maps the registers writably.
const WAKE: Work = Work { instructions: 3000, lines: 70, pages: 35, traps: 2, interrupts: 1 };
/// The least urgent priority.
pub const LEAST_URGENT: u32 = 39;
/// Entries that a walk reads.
const WALK_READS: u64 = 4;

/// A client that the analysis knows of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Its accelerator's index.
    pub accelerator: usize,
    /// Its priority; 0 is the most urgent.
    pub priority: u32,
    /// For how long it computes with a region, in picoseconds.
    pub job_ps: u64,
}

/// The terms that bounds are made of, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Terms {
    /// A store traps, and a region that is idle and is that accelerator is assigned by the kernel itself.
    pub take_ps: u64,
    /// A store traps, and the FPGA is told (`T_trap`).
    pub trap_ps: u64,
    /// An interrupt of the FPGA's until a kernel has taken registers away. In Ker-ONE the manager does so.
    pub revoke_ps: u64,
    /// An interrupt of the FPGA's until the store is executed (`T_PL_irq` and `T_resume`).
    pub resume_ps: u64,
    /// The manager's search.
    pub search_ps: u64,
    /// Its solution 1: an assignment.
    pub assign_ps: u64,
    /// Solution 2: with reconfiguration.
    pub reconfigure_ps: u64,
    /// Solution 3: preemption.
    pub preempt_ps: u64,
    /// The interrupt of the configuration port.
    pub port_ps: u64,
    /// The interrupt of a region that has stopped.
    pub stop_ps: u64,
}

/// Bounds of a client's allocation, in picoseconds. What cannot happen is absent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Bound {
    /// The accelerator.
    pub accelerator: String,
    /// The client's priority.
    pub priority: u32,
    /// The longest time to the next consistency point of what it may stop (equation 7).
    pub preemption_wait_ps: Option<u64>,
    /// The longest reconfiguration (equation 8).
    pub reconfiguration_ps: u64,
    /// Path 1: a region that is idle and is that accelerator.
    pub direct_ps: u64,
    /// Path 2: one that is idle and becomes it.
    pub reconfigure_ps: u64,
    /// Path 3: one that is that accelerator and computes for another.
    pub preempt_ps: Option<u64>,
    /// Path 4: one that computes for another and becomes it.
    pub both_ps: Option<u64>,
    /// Others' reconfigurations go before, and the manager is busy with them.
    pub queue_ps: u64,
    /// Clients that are as urgent or more have the regions before.
    pub rivals_ps: u64,
    /// The worst of all.
    pub worst_ps: u64,
}

/// An analysis of a machine.
#[derive(Debug)]
pub struct Analysis<'a> {
    fpga: &'a FpgaSpec,
    terms: Terms,
}

impl<'a> Analysis<'a> {
    /// For clients on an island; without one, on the slowest.
    ///
    /// # Errors
    /// The machine has no FPGA, or no such island, or its model is wrong.
    pub fn new(machine: &'a MachineSpec, island: Option<&str>) -> Result<Self> {
        let message = "the machine has no FPGA: its file has no [fpga] table (docs/machines.md)";
        let fpga = machine.fpga.as_ref().ok_or_else(|| Error::new(ErrorKind::Usage, message))?;
        let config = machine.model_config()?;
        let wanted = |one: &IslandConfig| island.is_none_or(|name| one.name == name);
        let islands = (0..config.islands.len()).filter(|index| wanted(&config.islands[*index]));
        let terms = islands.map(|index| Terms::of(&config, index, fpga)).max_by_key(|terms| terms.resume_ps);
        let names = || config.islands.iter().map(|island| island.name.as_str()).collect::<Vec<_>>().join(", ");
        let terms = terms.ok_or_else(|| {
            let wanted = island.unwrap_or_default();
            Error::new(ErrorKind::Usage, format!("no island is called \"{wanted}\"; there are: {}", names()))
        })?;
        Ok(Self { fpga, terms })
    }

    /// What bounds are made of.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The index of an accelerator.
    ///
    /// # Errors
    /// The machine has none of that name.
    pub fn accelerator(&self, name: &str) -> Result<usize> {
        let names = || self.fpga.accelerators.iter().map(|one| one.kind.name()).collect::<Vec<_>>().join(", ");
        let found = self.fpga.accelerators.iter().position(|one| one.kind.name() == name);
        found.ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("no accelerator is called \"{name}\"; there are: {}", names()))
        })
    }

    /// Of each accelerator, for the most urgent client, and for one that nobody is less urgent than. `queues`: others ask at the same time.
    pub fn bounds(&self, queues: bool) -> Vec<Bound> {
        let of = |index: usize| {
            let all: Vec<&AcceleratorSpec> = self.fpga.accelerators.iter().collect();
            [self.bound(index, 0, &all, queues), self.bound(index, LEAST_URGENT, &[], queues)]
        };
        (0..self.fpga.accelerators.len()).flat_map(of).collect()
    }

    /// Of clients that are all that there are. Each of them asks at most once while another one waits.
    pub fn bounds_of(&self, clients: &[Client]) -> Vec<Bound> {
        let bound = |client: &Client| {
            let less_urgent = clients.iter().filter(|other| other.priority > client.priority);
            let victims: Vec<&AcceleratorSpec> = less_urgent.map(|other| self.spec(other.accelerator)).collect();
            self.bound(client.accelerator, client.priority, &victims, clients.len() > 1)
        };
        let meets = |one: &Client, other: &Client| self.meet(self.spec(one.accelerator), self.spec(other.accelerator));
        let with_rivals = |(index, client): (usize, &Client)| {
            let mut own = bound(client);
            let others = clients.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
            let rivals = others.filter(|other| other.priority <= client.priority && meets(client, other));
            let expire_ps = self.fpga.expire_us * 1_000_000;
            own.rivals_ps = rivals.map(|rival| bound(rival).worst_ps + expire_ps + rival.job_ps).sum();
            own.worst_ps += own.rivals_ps;
            own
        };
        clients.iter().enumerate().map(with_rivals).collect()
    }

    fn spec(&self, index: usize) -> &AcceleratorSpec {
        &self.fpga.accelerators[index]
    }

    /// Whether both fit into one of the regions.
    fn meet(&self, one: &AcceleratorSpec, other: &AcceleratorSpec) -> bool {
        one.regions.iter().any(|region| other.regions.contains(region))
    }

    fn load_ps(&self, region: usize) -> u64 {
        (u128::from(self.fpga.regions[region]) * u128::from(self.fpga.port_kib_ns) * 1000 / 1024) as u64
    }

    /// `victims`: what regions may compute for clients that are less urgent.
    fn bound(&self, index: usize, priority: u32, victims: &[&AcceleratorSpec], queues: bool) -> Bound {
        let (own, terms) = (self.spec(index), self.terms);
        let stopped = victims.iter().filter(|victim| self.meet(own, victim));
        let wait_ps = stopped.map(|victim| victim.frame_ns * 1000).max();
        // What is that accelerator already has to be one that is less urgent, too.
        let same_ps = victims.iter().any(|victim| victim.kind == own.kind).then_some(own.frame_ns * 1000);
        let load_ps = own.regions.iter().map(|region| self.load_ps(*region)).max().unwrap_or(0);
        let ready_ps = terms.revoke_ps + terms.resume_ps;
        let asked_ps = terms.trap_ps + terms.search_ps;
        let stop_ps = asked_ps + terms.preempt_ps + terms.stop_ps;
        let loaded_ps = load_ps + terms.port_ps;
        let direct_ps = terms.take_ps;
        let reconfigure_ps = asked_ps + terms.reconfigure_ps + loaded_ps + ready_ps;
        let preempt_ps = same_ps.map(|wait_ps| stop_ps + wait_ps + terms.assign_ps + ready_ps);
        let both_ps = wait_ps.map(|wait_ps| stop_ps + wait_ps + terms.reconfigure_ps + loaded_ps + ready_ps);
        let queue_ps = if queues { self.queue_ps(own) } else { 0 };
        let worst_ps = [Some(direct_ps), Some(reconfigure_ps), preempt_ps, both_ps].into_iter().flatten().max();
        Bound {
            accelerator: own.kind.name().into(),
            priority,
            preemption_wait_ps: wait_ps,
            reconfiguration_ps: load_ps,
            direct_ps,
            reconfigure_ps,
            preempt_ps,
            both_ps,
            queue_ps,
            rivals_ps: 0,
            worst_ps: worst_ps.unwrap_or(0) + queue_ps,
        }
    }

    /// The port takes one region after the other: all others may go before, each with the manager's longest routines.
    fn queue_ps(&self, own: &AcceleratorSpec) -> u64 {
        let terms = self.terms;
        let is_loaded = |region: &usize| self.fpga.accelerators.iter().any(|one| one.regions.contains(region));
        let mut loads: Vec<u64> =
            (0..self.fpga.regions.len()).filter(is_loaded).map(|region| self.load_ps(region)).collect();
        // Its own region is the one of them that costs least to leave out.
        let least = own.regions.iter().map(|region| self.load_ps(*region)).min().unwrap_or(0);
        if let Some(at) = loads.iter().position(|load_ps| *load_ps == least) {
            loads.remove(at);
        }
        let manager_ps = terms.search_ps + terms.preempt_ps + terms.stop_ps + terms.reconfigure_ps + terms.port_ps;
        loads.iter().map(|load_ps| load_ps + manager_ps).sum()
    }
}

impl Terms {
    fn of(config: &Config, island: usize, fpga: &FpgaSpec) -> Self {
        let (manager, doorbell_ps) = (&fpga.manager, config.links[island][island].doorbell_ps);
        let kernel_ps =
            |work: Work| work.bound_ps(&config.islands[island], config.device_ps.max(config.device_store_ps));
        Self {
            take_ps: kernel_ps(TAKE),
            trap_ps: kernel_ps(ASK),
            revoke_ps: doorbell_ps + kernel_ps(REVOKE),
            resume_ps: doorbell_ps + kernel_ps(WAKE),
            search_ps: manager.search_ns * 1000,
            assign_ps: manager.assign_ns * 1000,
            reconfigure_ps: manager.reconfigure_ns * 1000,
            preempt_ps: manager.preempt_ns * 1000,
            port_ps: manager.port_ns * 1000,
            stop_ps: manager.stop_ns * 1000,
        }
    }
}

impl Work {
    fn bound_ps(self, island: &IslandConfig, device_ps: u64) -> u64 {
        let timing = &island.timing;
        let slowest_fs = timing.instruction_fs.iter().copied().max().unwrap_or(0);
        let memory_ps = island.segments.iter().map(|segment| segment.load_ps.max(segment.fetch_ps)).max().unwrap_or(0);
        let line_ps = timing.l1i_ps.max(timing.l1d_ps) + timing.l2_ps + timing.l3_ps + memory_ps;
        let pages = if island.tlbs.is_some() { self.pages } else { 0 };
        // All instructions may access L1; lines come once.
        let first_level_ps = self.instructions * timing.l1d_ps / 3;
        let traps_ps = self.traps * (timing.traps.entry_ps + timing.traps.exit_ps)
            + self.interrupts * (timing.traps.end_of_interrupt_ps + timing.traps.wake_ps);
        self.instructions * slowest_fs / 1000
            + first_level_ps
            + (self.lines + pages * WALK_READS) * line_ps
            + traps_ps
            + DEVICE_ACCESSES * device_ps
    }
}

/// Registers of interrupt controllers that a kernel accesses for one of these.
const DEVICE_ACCESSES: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use motet_machine::ManagerSpec;

    /// The paper's machine, but for its kernel.
    fn machine() -> MachineSpec {
        MachineSpec::parse(include_str!("../../../machines/embedded.toml")).unwrap()
    }

    fn of<'b>(bounds: &'b [Bound], accelerator: &str, priority: u32) -> &'b Bound {
        bounds.iter().find(|bound| bound.accelerator == accelerator && bound.priority == priority).unwrap()
    }

    #[test]
    fn terms_of_the_fpga_are_the_papers() {
        let mut machine = machine();
        // The paper's manager (Table 4) is a program.
        machine.fpga.as_mut().unwrap().manager = ManagerSpec {
            search_ns: 500,
            assign_ns: 1130,
            reconfigure_ns: 2770,
            preempt_ns: 340,
            port_ns: 640,
            stop_ns: 280,
        };
        let analysis = Analysis::new(&machine, None).unwrap();
        let (terms, bounds) = (analysis.terms(), analysis.bounds(false));
        let kernel_ps = terms.trap_ps + terms.revoke_ps + terms.resume_ps;
        let us = |ps: u64| (ps as f64 / 1e6).round();
        // Equations 7 and 8 for QAM-16, and what equation 6 has for the manager.
        let qam16 = of(&bounds, "qam16", 0);
        assert_eq!(qam16.preemption_wait_ps, Some(47_000_000));
        assert_eq!(us(qam16.reconfiguration_ps), 810.0);
        let (stop_ps, load_ps) = (47_000_000, qam16.reconfiguration_ps);
        // No manager has a part in it.
        assert_eq!(qam16.direct_ps, terms.take_ps);
        assert_eq!(qam16.reconfigure_ps - kernel_ps, load_ps + 500_000 + 2_770_000 + 640_000);
        assert_eq!(qam16.preempt_ps.unwrap() - kernel_ps, stop_ps + 500_000 + 340_000 + 280_000 + 1_130_000);
        let both_ps = stop_ps + load_ps + 500_000 + 340_000 + 280_000 + 2_770_000 + 640_000;
        assert_eq!(qam16.both_ps.unwrap() - kernel_ps, both_ps);
        assert_eq!(qam16.worst_ps, qam16.both_ps.unwrap());
        let fft1024 = of(&bounds, "fft1024", 0);
        assert_eq!(fft1024.preemption_wait_ps, Some(33_600_000));
        assert_eq!(us(fft1024.reconfiguration_ps), 1206.0);
        let least = of(&bounds, "fft1024", 39);
        assert_eq!((least.preemption_wait_ps, least.both_ps, least.worst_ps), (None, None, least.reconfigure_ps));
    }

    #[test]
    fn who_waits_for_others_waits_longer() {
        let machine = machine();
        let analysis = Analysis::new(&machine, Some("ps")).unwrap();
        let (alone, queued) = (analysis.bounds(false), analysis.bounds(true));
        // Two other regions go through the port before.
        let more = of(&queued, "fft1024", 0).worst_ps - of(&alone, "fft1024", 0).worst_ps;
        assert!(((231 + 810) * 1_000_000..(231 + 810 + 20) * 1_000_000).contains(&more), "{more}");
        let client = |name: &str, priority| Client {
            accelerator: analysis.accelerator(name).unwrap(),
            priority,
            job_ps: 5_000_000_000,
        };
        let bounds = analysis.bounds_of(&[client("qam16", 1), client("qam64", 2), client("fft1024", 0)]);
        let rivals: Vec<u64> = bounds.iter().map(|bound| bound.rivals_ps).collect();
        // Nobody more urgent shares a region with QAM-16, and it is that for QAM-64; transforms of 1024 points are in another one.
        assert_eq!((rivals[0], rivals[2]), (0, 0));
        assert_eq!(rivals[1], bounds[0].worst_ps + 1_000_000_000 + 5_000_000_000);
        assert_eq!(bounds[0].preemption_wait_ps, Some(31_000_000));
        assert_eq!((bounds[0].preempt_ps, bounds[2].both_ps), (None, None), "nobody else has that accelerator");
    }

    #[test]
    fn what_is_not_there_is_named() {
        let machine = machine();
        let message = |error: Error| error.message;
        assert_eq!(
            message(Analysis::new(&machine, Some("x")).unwrap_err()),
            "no island is called \"x\"; there are: ps"
        );
        let analysis = Analysis::new(&machine, None).unwrap();
        assert_eq!(
            message(analysis.accelerator("dct").unwrap_err()),
            "no accelerator is called \"dct\"; there are: qam16, qam64, fft512, fft1024, aes128, sha256, fir"
        );
        let plain =
            MachineSpec::parse("[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n")
                .unwrap();
        assert!(message(Analysis::new(&plain, None).unwrap_err()).starts_with("the machine has no FPGA"));
    }
}

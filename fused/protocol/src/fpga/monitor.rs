//! The monitor: states of regions, the search for a region, waiting requests, and the configuration port. It is logic beside the CPUs.

use motet_layout::{
    FPGA_ACCELERATORS, Fpga, FpgaBitstream,
    handshake::then_look,
    sync::Ordering::{Release, SeqCst},
};

use super::{
    AcceleratorId, Device, Fault, IRQ_NEW_SOLUTION, IRQ_PORT_OVER, IRQ_STOPPED, InterfaceId, Job, Logic, Offer, Policy,
    RegionId, RegionState, SIGNAL_OVER, SIGNAL_WAIT, State, Status, Step, guest, regions, registers, signature,
    state_of,
};

/// [`motet_layout::FpgaInterface::request`]: the interface has no request.
pub const NO_REQUEST: u32 = 0;
/// The request waits: it is in the search list.
pub const LISTED: u32 = 1;
/// A region is being made ready for the request.
pub const SOLVED: u32 = 2;

/// How a region is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// The region is idle.
    Assign(RegionId),
    /// The region is taken from a less urgent client.
    Preempt(RegionId),
}

/// What the search has found for a request. Without a solution, a request is "unavailable".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Solution {
    /// Which region, and how.
    pub method: Method,
    /// Whether the region must be reconfigured as another accelerator first.
    pub reconfigures: bool,
}

impl Solution {
    /// The region.
    pub fn region(&self) -> RegionId {
        match self.method {
            Method::Assign(region) | Method::Preempt(region) => region,
        }
    }
}

/// The region that has the next event, and the event's time.
pub(super) fn next_event(fpga: &Fpga) -> Option<(RegionId, u64)> {
    let region = |id: RegionId| &fpga.regions[id.index()];
    let has_end = |id: &RegionId| match state_of(region(*id)) {
        RegionState::Busy | RegionState::Preempt | RegionState::Hold => true,
        RegionState::Reconfig => region(*id).loading.get() != 0,
        RegionState::Idle | RegionState::Switch => false,
    };
    let ends = regions(fpga).filter(has_end).map(|id| (id, region(id).until_ps.get()));
    ends.min_by_key(|(_, until_ps)| *until_ps)
}

impl<L: Logic> Device<'_, L> {
    /// Handles a region's event, whose time has come.
    pub(super) fn happens(&mut self, id: RegionId) {
        match self.state(id) {
            RegionState::Busy | RegionState::Preempt => self.end_frame(id),
            RegionState::Reconfig => self.raise(id, IRQ_PORT_OVER),
            // The client has not used its reservation. It stays connected until another client gets the region.
            RegionState::Hold => {
                self.set_state(id, RegionState::Idle);
                self.revoke_now();
            }
            RegionState::Idle | RegionState::Switch => {}
        }
    }

    /// Interrupts the manager.
    fn raise(&mut self, id: RegionId, signal: u32) {
        let region = self.region(id);
        region.signals.set(region.signals.get() | signal);
        self.serve_interrupts(id);
    }

    /// A frame is over: a consistency point.
    fn end_frame(&mut self, id: RegionId) {
        let region = self.region(id);
        region.frames.set(region.frames.get().wrapping_add(1));
        let is_stopped = self.state(id) == RegionState::Preempt;
        if let Some((client, job)) = self.client(id).and_then(|client| Some((client, self.job(client)?))) {
            let mut state: State = core::array::from_fn(|at| region.context[at].get());
            // The frame is not computed before kernels have answered. Otherwise an executor that is behind its time would compute it
            // again and again, never catch up, and never ring the cores.
            let awaits = guest::is_asked(self.interface(client));
            match if awaits { Err(Fault::Page) } else { self.logic.frame(&job, &mut state) } {
                Ok(Step::More) => {
                    region.context.iter().zip(state).for_each(|(word, value)| word.set(value));
                    region.until_ps.set(self.frame_end(job.accelerator));
                }
                Ok(Step::Over(result)) => self.end_job(client, Ok(result)),
                // The same frame is computed again: it has stored nothing yet.
                Err(Fault::Page) => {
                    region.until_ps.set(self.frame_end(job.accelerator));
                    self.ring(client);
                }
                Err(fault) => self.end_job(client, Err(fault)),
            }
        }
        if is_stopped {
            self.raise(id, IRQ_STOPPED);
        } else if self.client(id).is_none_or(|client| self.job(client).is_none()) {
            self.set_state(id, RegionState::Idle);
        }
    }

    pub(super) fn frame_end(&self, accelerator: AcceleratorId) -> u64 {
        self.now_ps.saturating_add(self.fpga.accelerators[accelerator.index()].frame_ps.get().max(1))
    }

    /// The job that an interface has begun.
    pub(super) fn job(&self, id: InterfaceId) -> Option<Job> {
        let interface = self.interface(id);
        (interface.begun.get() != 0).then(|| Job {
            interface: id,
            accelerator: self.accelerator_of(id),
            command: interface.command.get(),
            data_addr: interface.data_addr.get(),
            data_size: interface.data_size.get(),
            custom: core::array::from_fn(|at| interface.custom[at].get()),
        })
    }

    /// A client's job is over. The result is stored before the registers that report the end.
    pub(super) fn end_job(&mut self, id: InterfaceId, result: Result<u64, Fault>) {
        self.interface(id).begun.set(0);
        let Some(registers) = registers(self.pool, self.fpga, id) else { return };
        registers.result.store(result.unwrap_or(0), Release);
        registers.status.store(result.map_or_else(Fault::word, |_| Status::Done.word()), Release);
        registers.over.store(1, Release);
        then_look();
        if registers.interrupt_control.load(SeqCst) & 1 != 0 {
            self.signal(id, SIGNAL_OVER);
        }
    }

    /// Begins the jobs that clients have started. A start flag of an interface that is not connected is a request for a region.
    pub(super) fn begin_started(&mut self) -> bool {
        let mut changes = false;
        for id in self.interfaces() {
            let interface = self.interface(id);
            if !self.is_used(id) || interface.begun.get() != 0 || !self.is_started(id) {
                continue;
            }
            if interface.connected.load(SeqCst) != 0 {
                changes |= self.begin(id);
            } else if interface.region.get() == 0 && interface.request.get() == NO_REQUEST {
                self.request(id);
                changes = true;
            }
        }
        changes
    }

    fn is_started(&self, id: InterfaceId) -> bool {
        registers(self.pool, self.fpga, id).is_some_and(|registers| registers.start.load(SeqCst) & 0xff != 0)
    }

    /// Takes back a client's start flag; whether it was set.
    pub(super) fn take_start(&self, id: InterfaceId) -> bool {
        registers(self.pool, self.fpga, id).is_some_and(|registers| registers.start.swap(0, SeqCst) & 0xff != 0)
    }

    fn begin(&mut self, id: InterfaceId) -> bool {
        let Some(at) = RegionId::from_link(self.interface(id).region.get()) else { return false };
        if !matches!(self.state(at), RegionState::Idle | RegionState::Hold) {
            return false;
        }
        self.revoke_now();
        let Some(registers) = registers(self.pool, self.fpga, id) else { return false };
        registers.over.store(0, Release);
        registers.start.store(0, Release);
        then_look();
        let interface = self.interface(id);
        interface.command.set(registers.command.load(SeqCst));
        interface.data_addr.set(registers.data_addr.load(SeqCst));
        interface.data_size.set(registers.data_size.load(SeqCst));
        interface.custom.iter().zip(&registers.custom).for_each(|(word, value)| word.set(value.load(SeqCst)));
        interface.wants.store(0, Release);
        interface.begun.set(1);
        let Some(job) = self.job(id) else { return false };
        let mut state: State = [0; _];
        match self.logic.begin(&job, &mut state) {
            Ok(()) => {
                let region = self.region(at);
                region.context.iter().zip(state).for_each(|(word, value)| word.set(value));
                self.runs(at, id, job.accelerator);
            }
            Err(fault) => {
                self.end_job(id, Err(fault));
                self.set_state(at, RegionState::Idle);
            }
        }
        true
    }

    /// From now on, a region computes for a client.
    pub(super) fn runs(&mut self, at: RegionId, id: InterfaceId, accelerator: AcceleratorId) {
        self.region(at).until_ps.set(self.frame_end(accelerator));
        self.set_state(at, RegionState::Busy);
        self.set_status(id, Status::Running.word());
    }

    /// Puts an interface's request into the search list.
    pub(super) fn request(&mut self, id: InterfaceId) {
        let fpga = self.fpga;
        fpga.requests.set(fpga.requests.get().wrapping_add(1));
        fpga.sequence.set(fpga.sequence.get().wrapping_add(1));
        let interface = self.interface(id);
        interface.sequence.set(fpga.sequence.get());
        interface.requested_ps.set(self.now_ps);
        interface.request.set(LISTED);
        let status = if interface.begun.get() != 0 { Status::Preempted } else { Status::Waiting };
        self.set_status(id, status.word());
        // A client that is served at once gets only the signal of that. A client that was stopped gets an interrupt anyway.
        if self.search(id).is_none() {
            if interface.begun.get() != 0 { self.signal_late(id, SIGNAL_WAIT) } else { self.signal(id, SIGNAL_WAIT) }
        }
    }

    /// Searches regions for the waiting requests: for the most urgent one first, and among equally urgent ones in the order of coming. `true`: one
    /// was found.
    pub(super) fn search_list(&mut self) -> bool {
        let is_listed = |id: &InterfaceId| self.is_used(*id) && self.interface(*id).request.get() == LISTED;
        let mut after = None;
        loop {
            let key = |id: &InterfaceId| self.urgency(*id);
            let rest = self.interfaces().filter(is_listed).filter(|id| after.is_none_or(|after| key(id) > after));
            let Some(id) = rest.min_by_key(key) else { return false };
            if let Some(solution) = self.search(id) {
                self.solved(id, solution);
                return true;
            }
            after = Some(self.urgency(id));
        }
    }

    fn solved(&mut self, id: InterfaceId, solution: Solution) {
        let region = self.region(solution.region());
        self.interface(id).request.set(SOLVED);
        region.successor.set(id.link());
        let fpga = self.fpga;
        self.manage(fpga.manager_search_ps.get());
        self.manage(match solution.method {
            Method::Assign(_) => self.make_ready_ps(solution.reconfigures),
            Method::Preempt(_) => fpga.manager_preempt_ps.get(),
        });
        self.raise(solution.region(), IRQ_NEW_SOLUTION);
    }

    /// The sort key of requests: less is more urgent. No two requests have the same key.
    fn urgency(&self, id: InterfaceId) -> (u32, u64, u64) {
        let interface = self.interface(id);
        let is_by_deadline = self.policy() == Policy::Deadline;
        let due_ps = if is_by_deadline { self.due_ps(id).unwrap_or(u64::MAX) } else { 0 };
        (interface.priority.load(SeqCst), due_ps, interface.sequence.get())
    }

    fn due_ps(&self, id: InterfaceId) -> Option<u64> {
        let interface = self.interface(id);
        let deadline_ps = interface.deadline_ps.load(SeqCst);
        (deadline_ps != 0).then(|| interface.requested_ps.get().saturating_add(deadline_ps))
    }

    fn policy(&self) -> Policy {
        Policy::from_raw(self.fpga.policy.get()).unwrap_or(Policy::SmallestFirst)
    }

    /// Offers, for each accelerator, the region that a request would get at once: an idle one that is that accelerator already. No waiting request
    /// can use such a region; otherwise it would have got it.
    pub(super) fn offer_regions(&mut self) {
        for number in 0..(self.fpga.accelerator_count.get() as usize).min(FPGA_ACCELERATORS) {
            let Some(accelerator) = AcceleratorId::new(number) else { break };
            let idle = |at: &RegionId| self.state(*at) == RegionState::Idle;
            let fits = |at: &RegionId| self.bitstream(accelerator, *at).bytes.get() != 0;
            let found = self.regions().filter(|at| fits(at) && idle(at)).map(|at| self.assigned(at, accelerator));
            let best = found.min_by_key(|solution| self.size(solution)).filter(|solution| !solution.reconfigures);
            let offer = best.map(|solution| Offer { region: solution.region(), taken_by: None });
            self.fpga.accelerators[number].offer.store(offer.map_or(0, Offer::word), Release);
        }
    }

    /// The best solution for an interface's request. `None`: unavailable.
    pub(super) fn search(&self, id: InterfaceId) -> Option<Solution> {
        let accelerator = self.accelerator_of(id);
        let fits = |at: &RegionId| self.bitstream(accelerator, *at).bytes.get() != 0;
        let idle = |at: &RegionId| self.state(*at) == RegionState::Idle;
        let found = |method: Method| {
            let solution = Solution { method, reconfigures: false };
            let is_it = self.region(solution.region()).accelerator.get() == accelerator.link();
            Solution { reconfigures: !is_it, ..solution }
        };
        let size = |solution: &Solution| self.size(solution);
        let fitting = || self.regions().filter(fits);
        let assigned = fitting().filter(idle).map(|at| found(Method::Assign(at))).min_by_key(size);
        let preempted = || fitting().filter(|at| self.gives_way(*at, id)).map(|at| found(Method::Preempt(at)));
        if let (Policy::Deadline, Some(due_ps)) = (self.policy(), self.due_ps(id)) {
            let all = || fitting().filter(idle).map(|at| found(Method::Assign(at))).chain(preempted());
            let in_time = assigned.filter(|solution| self.ready_ps(solution, accelerator) <= due_ps);
            return in_time.or_else(|| all().min_by_key(|one| (self.ready_ps(one, accelerator), size(one))));
        }
        assigned.or_else(|| preempted().min_by_key(size))
    }

    fn assigned(&self, at: RegionId, accelerator: AcceleratorId) -> Solution {
        Solution { method: Method::Assign(at), reconfigures: self.region(at).accelerator.get() != accelerator.link() }
    }

    /// The sort key of solutions of one kind.
    fn size(&self, solution: &Solution) -> (bool, u32, RegionId) {
        let is_more = self.policy() == Policy::FewestReconfigurations && solution.reconfigures;
        (is_more, self.region(solution.region()).area.get(), solution.region())
    }

    /// Whether a region computes for a client that is less urgent than interface `id`.
    fn gives_way(&self, at: RegionId, id: InterfaceId) -> bool {
        let priority = |id: InterfaceId| self.interface(id).priority.load(SeqCst);
        self.state(at) == RegionState::Busy && self.client(at).is_some_and(|client| priority(client) > priority(id))
    }

    /// When a solution's region is ready, if the configuration port is free.
    fn ready_ps(&self, solution: &Solution, accelerator: AcceleratorId) -> u64 {
        let region = self.region(solution.region());
        let free_ps = match solution.method {
            Method::Assign(_) => self.now_ps,
            Method::Preempt(_) => region.until_ps.get(),
        };
        let bytes = self.bitstream(accelerator, solution.region()).bytes.get();
        free_ps.saturating_add(if solution.reconfigures { self.port_ps(bytes) } else { 0 })
    }

    fn port_ps(&self, bytes: u64) -> u64 {
        (u128::from(bytes) * u128::from(self.fpga.port_kib_ps.get()) / 1024).try_into().unwrap_or(u64::MAX)
    }

    pub(super) fn bitstream(&self, accelerator: AcceleratorId, at: RegionId) -> &FpgaBitstream {
        &self.fpga.accelerators[accelerator.index()].bitstreams[at.index()]
    }

    /// Gives the configuration port to the region that has waited longest for it.
    pub(super) fn use_port(&mut self) -> bool {
        let reconfigures = |at: &RegionId| self.state(*at) == RegionState::Reconfig;
        if self.regions().filter(reconfigures).any(|at| self.region(at).loading.get() != 0) {
            return false;
        }
        let next = self.regions().filter(reconfigures).min_by_key(|at| self.region(*at).sequence.get());
        let Some(at) = next else { return false };
        let region = self.region(at);
        let Some(id) = self.successor(at) else {
            // The client that wanted the region has gone. The region keeps its accelerator.
            region.successor.set(0);
            self.set_state(at, RegionState::Idle);
            return true;
        };
        let accelerator = self.accelerator_of(id);
        let bitstream = self.bitstream(accelerator, at);
        let signed = signature(self.fpga.key.get(), accelerator.0.into(), at.0.into(), bitstream.bytes.get());
        let is_for = (bitstream.accelerator.get(), bitstream.region.get()) == (accelerator.0.into(), at.0.into());
        if !is_for || bitstream.signature.get() != signed {
            self.refuse(at, Fault::Bitstream);
            return true;
        }
        region.accelerator.set(0);
        region.loading.set(1);
        region.until_ps.set(self.now_ps.saturating_add(self.port_ps(bitstream.bytes.get()).max(1)));
        true
    }
}

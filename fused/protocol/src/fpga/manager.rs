//! The manager executes solutions in steps. The next step follows when the monitor interrupts the manager, or a kernel answers (Ker-ONE's Figures
//! 10 and 11).

use motet_layout::{
    FPGA_ACCELERATORS,
    handshake::then_look,
    sync::Ordering::{Release, SeqCst},
};

use super::{
    AcceleratorId, Device, Fault, IRQ_NEW_SOLUTION, IRQ_PORT_OVER, IRQ_STOPPED, InterfaceId, Logic, Offer, REVOKE,
    REVOKE_LATER, RegionId, RegionState, SIGNAL_FAILED, SIGNAL_PREEMPT, SIGNAL_READY, Status,
    monitor::{LISTED, NO_REQUEST},
};

impl<L: Logic> Device<'_, L> {
    /// The manager's interrupt routines.
    pub(super) fn serve_interrupts(&mut self, at: RegionId) {
        let signals = self.region(at).signals.get();
        self.region(at).signals.set(0);
        if signals & IRQ_NEW_SOLUTION != 0 {
            self.run_solution(at);
        }
        if signals & IRQ_STOPPED != 0 {
            self.stopped(at);
        }
        if signals & IRQ_PORT_OVER != 0 {
            self.port_over(at);
        }
    }

    /// Charges the time of a step of the manager. The manager makes one step after the other, so what follows happens later.
    pub(super) fn manage(&mut self, cost_ps: u64) {
        if cost_ps != 0 {
            let until_ps = &self.fpga.manager_until_ps;
            self.now_ps = self.now_ps.max(until_ps.get()).saturating_add(cost_ps);
            until_ps.set(self.now_ps);
        }
    }

    /// The manager's time for giving a region to a client.
    pub(super) fn make_ready_ps(&self, reconfigures: bool) -> u64 {
        let fpga = self.fpga;
        if reconfigures { fpga.manager_reconfigure_ps.get() } else { fpga.manager_assign_ps.get() }
    }

    /// Gives a region to its successor. A region that computes is stopped at the next consistency point first.
    fn run_solution(&mut self, at: RegionId) {
        if self.state(at) == RegionState::Busy {
            self.fpga.preemptions.set(self.fpga.preemptions.get().wrapping_add(1));
            self.set_state(at, RegionState::Preempt);
        } else {
            self.disconnect(at);
        }
    }

    /// A region has stopped. The state of an unfinished job is saved. The job becomes a request by itself when its interface is disconnected.
    fn stopped(&mut self, at: RegionId) {
        self.manage(self.fpga.manager_stop_ps.get());
        let is_it = |next: InterfaceId| self.region(at).accelerator.get() == self.accelerator_of(next).link();
        let is_it = self.successor(at).map(is_it);
        if let Some(is_it) = is_it {
            self.manage(self.make_ready_ps(!is_it));
        }
        if let Some(client) = self.client(at).filter(|client| self.job(*client).is_some()) {
            let (interface, region) = (self.interface(client), self.region(at));
            interface.context.iter().zip(&region.context).for_each(|(word, value)| word.set(value.get()));
            self.set_status(client, Status::Preempted.word());
            // If the next client can be connected at once, it must not wait for a kernel that handles this client's signal first.
            if is_it == Some(true) {
                self.signal_late(client, SIGNAL_PREEMPT);
            } else {
                self.signal(client, SIGNAL_PREEMPT);
            }
        }
        self.disconnect(at);
    }

    /// Takes a region away from its client.
    fn disconnect(&mut self, at: RegionId) {
        self.set_state(at, RegionState::Switch);
        let client = self.client(at);
        self.region(at).interface.set(0);
        let Some(client) = client else { return };
        // If the next client can be connected at once, it must not wait for a kernel that takes these registers away first.
        let is_next = |next: InterfaceId| self.region(at).accelerator.get() == self.accelerator_of(next).link();
        let is_next = self.successor(at).is_some_and(is_next);
        self.take_registers(client, if is_next { REVOKE_LATER } else { REVOKE });
        let interface = self.interface(client);
        let has_asked = || interface.request.get() == NO_REQUEST && interface.asked.swap(0, SeqCst) != 0;
        if interface.begun.get() != 0 || has_asked() {
            self.request(client);
        }
    }

    /// Disconnects a client that has lost its region. From now on its registers cannot be mapped writably. If they are, its kernel must take the
    /// mapping away. Only the client itself waits for that, if it is to be connected again. A start flag that it stores until then is a request.
    fn take_registers(&mut self, client: InterfaceId, revoke: u32) {
        let interface = self.interface(client);
        interface.region.set(0);
        interface.connected.store(0, Release);
        then_look();
        if interface.writable.load(SeqCst) != 0 {
            interface.revoke.store(revoke, Release);
            if revoke == REVOKE {
                self.ring(client);
            }
        }
    }

    /// Demands now the registers whose removal was put off, and sends the signals that were put off.
    pub(super) fn revoke_now(&mut self) {
        for id in self.interfaces() {
            let interface = self.interface(id);
            let is_revoked = interface.revoke.load(SeqCst) == REVOKE_LATER;
            if is_revoked {
                interface.revoke.store(REVOKE, Release);
            }
            if is_revoked || interface.is_late.get() != 0 {
                interface.is_late.set(0);
                self.ring(id);
            }
        }
    }

    /// Withdraws all offers, and handles those that kernels have taken for their clients. The FPGA offers again when it has nothing left to do.
    pub(super) fn collect_takings(&mut self) {
        for number in 0..(self.fpga.accelerator_count.get() as usize).min(FPGA_ACCELERATORS) {
            let (Some(id), accelerator) = (AcceleratorId::new(number), &self.fpga.accelerators[number]) else { break };
            if accelerator.offer.load(SeqCst) == 0 {
                continue;
            }
            let offer = Offer::from_word(accelerator.offer.swap(0, SeqCst));
            if let Some(Offer { region, taken_by: Some(client) }) = offer {
                self.taken(region, id, client);
            }
        }
    }

    fn taken(&mut self, at: RegionId, accelerator: AcceleratorId, id: InterfaceId) {
        let (region, interface) = (self.region(at), self.interface(id));
        let is_free = at.index() < self.fpga.region_count.get() as usize
            && self.state(at) == RegionState::Idle
            && region.accelerator.get() == accelerator.link()
            && interface.accelerator.get() as usize == accelerator.index();
        let is_alone =
            interface.region.get() == 0 && interface.request.get() == NO_REQUEST && interface.begun.get() == 0;
        if !is_free || !is_alone || !self.is_used(id) {
            // The client has gone, or has another request. Its kernel takes its registers away. A start flag that it has stored is a request.
            if self.is_used(id) && interface.connected.load(SeqCst) == 0 && interface.writable.load(SeqCst) != 0 {
                interface.revoke.store(REVOKE, Release);
                self.ring(id);
            }
            return;
        }
        self.fpga.requests.set(self.fpga.requests.get().wrapping_add(1));
        if let Some(before) = self.client(at) {
            self.take_registers(before, REVOKE_LATER);
        }
        self.join(at, id);
        self.set_status(id, Status::Ready.word());
        self.hold(at);
        // Nobody waits for this signal, so it comes with the next interrupt.
        interface.signals.fetch_or(SIGNAL_READY, SeqCst);
        self.note_answer(id);
    }

    /// Continues a region's switch once no kernel is about to take the next client's registers away.
    pub(super) fn end_switches(&mut self) -> bool {
        let is_ready = |at: &RegionId| {
            self.state(*at) == RegionState::Switch && self.successor(*at).is_none_or(|next| self.keeps_registers(next))
        };
        let Some(at) = self.regions().find(is_ready) else { return false };
        self.load(at);
        true
    }

    /// Whether no kernel is about to take a client's registers away. A removal that was put off is cancelled.
    fn keeps_registers(&self, id: InterfaceId) -> bool {
        let revoke = &self.interface(id).revoke;
        if revoke.load(SeqCst) == REVOKE_LATER {
            revoke.store(0, Release);
        }
        revoke.load(SeqCst) == 0
    }

    /// A region has no client any more. It is connected to its successor, or reconfigured first if it is another accelerator.
    fn load(&mut self, at: RegionId) {
        let Some(id) = self.successor(at) else {
            self.region(at).successor.set(0);
            self.set_state(at, RegionState::Idle);
            return;
        };
        if self.region(at).accelerator.get() == self.accelerator_of(id).link() {
            self.connect(at, id);
            return;
        }
        let fpga = self.fpga;
        fpga.sequence.set(fpga.sequence.get().wrapping_add(1));
        self.region(at).sequence.set(fpga.sequence.get());
        self.region(at).loading.set(0);
        self.set_state(at, RegionState::Reconfig);
    }

    /// A bitstream has gone through the configuration port.
    fn port_over(&mut self, at: RegionId) {
        let (fpga, region) = (self.fpga, self.region(at));
        self.manage(fpga.manager_port_ps.get());
        region.loading.set(0);
        let Some(id) = self.successor(at) else {
            // The client that wanted the region has gone. The next one loads a bitstream again.
            region.successor.set(0);
            self.set_state(at, RegionState::Idle);
            return;
        };
        if fpga.port_faults.get() != 0 {
            fpga.port_faults.set(fpga.port_faults.get() - 1);
            self.refuse(at, Fault::Port);
            return;
        }
        fpga.loads.set(fpga.loads.get().wrapping_add(1));
        region.loads.set(region.loads.get().wrapping_add(1));
        region.accelerator.set(self.accelerator_of(id).link());
        self.connect(at, id);
    }

    /// A request has failed: reports the reason to the client, and makes the region idle.
    pub(super) fn refuse(&mut self, at: RegionId, fault: Fault) {
        let (fpga, region) = (self.fpga, self.region(at));
        fpga.load_errors.set(fpga.load_errors.get().wrapping_add(1));
        let id = InterfaceId::from_link(region.successor.get());
        region.successor.set(0);
        region.loading.set(0);
        self.set_state(at, RegionState::Idle);
        if let Some(id) = id {
            self.fail_request(id, fault);
        }
    }

    /// Reports a failed request. A client that has begun a job, or has stored its start flag, sees it in its registers. Otherwise its store has
    /// trapped, and its kernel reports the failure.
    fn fail_request(&mut self, id: InterfaceId, fault: Fault) {
        let interface = self.interface(id);
        interface.request.set(NO_REQUEST);
        if interface.begun.get() != 0 || self.take_start(id) {
            self.end_job(id, Err(fault));
        } else {
            self.set_status(id, fault.word());
            interface.refused.store(1, Release);
        }
        self.signal(id, SIGNAL_FAILED);
    }

    /// Connects an interface to a region. A stopped job continues. Without one, the region is reserved for the client for a time.
    fn connect(&mut self, at: RegionId, id: InterfaceId) {
        let (region, interface) = (self.region(at), self.interface(id));
        region.successor.set(0);
        self.join(at, id);
        self.signal(id, SIGNAL_READY);
        if let Some(job) = self.job(id) {
            region.context.iter().zip(&interface.context).for_each(|(word, value)| word.set(value.get()));
            self.runs(at, id, job.accelerator);
            self.revoke_now();
        } else {
            self.set_status(id, Status::Ready.word());
            self.hold(at);
        }
    }

    fn join(&mut self, at: RegionId, id: InterfaceId) {
        let interface = self.interface(id);
        self.region(at).interface.set(id.link());
        interface.region.set(at.link());
        interface.request.set(NO_REQUEST);
        interface.asked.store(0, Release);
        interface.refused.store(0, Release); // A thread that comes again now is not to be told of an error.
        interface.connected.store(1, Release);
        then_look();
    }

    /// Reserves a region for its client for a time.
    fn hold(&mut self, at: RegionId) {
        self.region(at).until_ps.set(self.now_ps.saturating_add(self.fpga.expire_ps.get()));
        self.set_state(at, RegionState::Hold);
    }

    /// A client has gone, in whatever state. A region that computes for it runs up to the next consistency point. The interface is not free before,
    /// so nothing is written into another client's memory.
    pub(super) fn client_left(&mut self, id: InterfaceId) {
        let interface = self.interface(id);
        interface.connected.store(0, Release);
        interface.revoke.store(0, Release);
        then_look();
        if interface.request.get() >= LISTED {
            interface.request.set(NO_REQUEST);
        }
        for at in self.regions() {
            let region = self.region(at);
            if region.successor.get() == id.link() {
                region.successor.set(0);
                // No other client needs to be stopped for this one any more.
                if self.state(at) == RegionState::Preempt && self.client(at).is_some() {
                    self.set_state(at, RegionState::Busy);
                }
            }
            if region.interface.get() == id.link() {
                self.leave_region(at);
            }
        }
    }

    fn leave_region(&mut self, at: RegionId) {
        match self.state(at) {
            RegionState::Busy => self.set_state(at, RegionState::Preempt),
            RegionState::Idle | RegionState::Hold => {
                self.region(at).interface.set(0);
                self.set_state(at, RegionState::Idle);
            }
            RegionState::Preempt | RegionState::Switch | RegionState::Reconfig => {}
        }
    }
}

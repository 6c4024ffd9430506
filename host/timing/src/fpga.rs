//! The FPGA of a timed machine (`motet_protocol::fpga`). Due steps are made before anybody asks for something later, and when the machine's time comes to
//! them; messages of kernels, and jobs that programs start, are seen at once. Its interrupts are not doorbells of other cores, but take as long.

use motet_accelerators::PoolLogic;
use motet_layout::sync::Ordering::SeqCst;
use motet_protocol::{
    fpga::{self, Device},
    service::clients::alive,
};

use crate::{Bells, Timing};

impl<B: Bells> Timing<B> {
    /// A core's kernel says that it has told the FPGA something. How much of the core's time the manager takes, in picoseconds.
    pub fn control_fpga(&self, core: usize, now_ps: u64) -> u64 {
        let Some(fpga) = self.logic().map(|logic| logic.fpga) else { return 0 };
        self.note_exchange(now_ps);
        self.run_fpga(core, now_ps);
        if fpga.attention.load(SeqCst) == 0 { 0 } else { self.hear_fpga(core, now_ps) }
    }

    /// A core's program has stored to the start register of an interface; the FPGA sees it at `seen_ps`.
    pub fn start_fpga(&self, core: usize, seen_ps: u64) {
        self.note_exchange(seen_ps);
        self.run_fpga(core, seen_ps);
        self.hear_fpga(core, seen_ps);
    }

    /// What a core that loads a register at `there_ps` waits: what the manager is doing then cannot be seen before it is through.
    pub fn managed_ps(&self, there_ps: u64) -> u64 {
        let fpga = self.pool.and_then(fpga::of);
        fpga.map_or(0, |fpga| fpga.manager_until_ps.get().saturating_sub(there_ps))
    }

    /// The FPGA does what is due until `until_ps`; a core that runs executes that.
    pub fn run_fpga(&self, core: usize, until_ps: u64) {
        if self.next_of_fpga().is_some_and(|at_ps| at_ps <= until_ps) {
            self.while_it_runs(core, || self.pass_fpga(core, until_ps));
        }
    }

    /// As [`run_fpga`](Self::run_fpga), where the core's interrupts are taken care of. Waits for nobody but who is the FPGA just now.
    pub(crate) fn pass_fpga(&self, core: usize, until_ps: u64) {
        while self.next_of_fpga().is_some_and(|at_ps| at_ps <= until_ps) {
            // Another core may have been faster.
            self.be_fpga(core, |device| device.pass(until_ps).unwrap_or(until_ps));
        }
    }

    /// When something happens next.
    pub(crate) fn next_of_fpga(&self) -> Option<u64> {
        fpga::next_ps(fpga::of(self.pool?)?)
    }

    fn hear_fpga(&self, core: usize, now_ps: u64) -> u64 {
        let mut done_ps = now_ps;
        self.while_it_runs(core, || done_ps = self.be_fpga(core, |device| device.hear(now_ps)));
        done_ps - now_ps
    }

    /// A core executes something that the FPGA does, and interrupts whom that concerns, when it is done.
    fn be_fpga(&self, core: usize, execute: impl FnOnce(&mut Device<'_, PoolLogic>) -> u64) -> u64 {
        let Some(logic) = self.logic() else { return 0 };
        let fpga = logic.fpga;
        self.acquire(core, &fpga.lock, |who| fpga::acquire(fpga, who), |holder, who| fpga::inherit(fpga, holder, who));
        let mut device = Device::new(logic.pool, fpga, &logic);
        let done_ps = execute(&mut device);
        let rings = device.rings();
        fpga::release(fpga);
        for target in rings.map(|target| alive(self.records.first(), target)) {
            self.interrupt(target, done_ps);
        }
        done_ps
    }

    fn logic(&self) -> Option<PoolLogic> {
        let pool = self.pool?;
        Some(PoolLogic { pool, fpga: fpga::of(pool)? })
    }
}

//! The FPGA: two clients want one region, for different accelerators or for one, kernels map their registers and take them away again, and the FPGA looks
//! whenever it is rung. Nobody has registers writable that are not connected, unless the FPGA has asked a kernel to take them away or will do so, or a kernel
//! has just taken a region that was offered; both get their results, and nobody sleeps for ever.

use std::sync::Arc;
use std::sync::Mutex as Ghost;
use std::sync::atomic::AtomicUsize;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{Fpga, FpgaInterface, FpgaRegisters, Pool, PoolAddr};
use motet_protocol::fpga::{
    AcceleratorId, Device, Fault, InterfaceId, Job, Logic, Offer, RegionId, RegionState, State, Step, clients,
    guest::Answer, registers, signature,
};
use shuttle::sync::Mutex;

use crate::harness::{Bell, explore, fresh_pool, must_be_caught, point, quietly, together};

/// Where the FPGA and its registers lie: in blocks that nobody allocates from.
const AT: PoolAddr = PoolAddr(4 << 20);
const REGISTERS: PoolAddr = PoolAddr(5 << 20);
/// Frames of each job.
const FRAMES: u64 = 2;
/// Jobs of each client, where both use one accelerator.
const JOBS: usize = 2;
/// Reservations that expire at once, before one does not.
const EXPIRIES: usize = 6;
const NEVER_PS: u64 = 1 << 60;
/// How often a core looks.
const LOOKS: usize = 4;
/// Steps of a kernel that is broken, between its look and what it says.
const BETWEEN: usize = 100;

/// Steps of the protocol, as they are and otherwise.
#[derive(Clone, Copy)]
struct Steps {
    /// Both clients use the same accelerator: what one does not use any more is offered to the other one, by whose kernel it is taken.
    is_shared: bool,
    /// The FPGA knows that it has asked a kernel to take registers away, until that has.
    waits: bool,
    /// Who maps registers says so, and then looks whether they are connected.
    says_first: bool,
    /// A kernel takes registers away, and then says that it has.
    protects_first: bool,
    /// A kernel says what was asked, and then rings the FPGA.
    asks_first: bool,
    /// A kernel clears `answered`, and then looks at all interfaces.
    clears_first: bool,
    /// A core looks itself what becomes of a request, for some time, before its client sleeps.
    looks: bool,
    /// Who has looked for long enough asks again before its client sleeps.
    asks_again: bool,
    /// The port fails at first.
    fails: bool,
    /// A request that the FPGA has not seen is forgotten with the refusal of the one before.
    forgets: bool,
}

const ALL: Steps = Steps {
    is_shared: false,
    waits: true,
    says_first: true,
    protects_first: true,
    asks_first: true,
    clears_first: true,
    looks: false,
    asks_again: true,
    fails: false,
    forgets: true,
};

struct Counting;

impl Logic for Counting {
    fn begin(&self, _: &Job, _: &mut State) -> Result<(), Fault> {
        Ok(())
    }

    fn frame(&self, job: &Job, state: &mut State) -> Result<Step, Fault> {
        state[0] += 1;
        Ok(if state[0] == FRAMES { Step::Over(100 + job.accelerator.index() as u64) } else { Step::More })
    }

    fn is_unmapped(&self, _: InterfaceId) -> bool {
        true
    }

    fn forget(&self, _: InterfaceId) {}
}

struct Machine {
    pool: Pool,
    fpga: &'static Fpga,
    steps: Steps,
    /// Whether registers are mapped writably: page tables, under their lock.
    mapped: [Mutex<bool>; 2],
    device: Bell,
    kernel: Bell,
    clients: [Bell; 2],
    over: AtomicUsize,
    /// When it is, for the FPGA.
    now_ps: Ghost<u64>,
}

impl Machine {
    fn new(steps: Steps) -> Self {
        let (pool, _) = fresh_pool(2);
        let fpga = pool.at::<Fpga>(AT);
        quietly(|| {
            pool.zero(AT, size_of::<Fpga>());
            pool.zero(REGISTERS, 2 * size_of::<FpgaRegisters>());
            fpga.region_count.set(1);
            fpga.accelerator_count.set(2);
            fpga.interface_count.set(2);
            fpga.port_faults.set(steps.fails.into());
            fpga.registers.set(REGISTERS.0);
            for number in 0..2 {
                let accelerator = &fpga.accelerators[number];
                accelerator.frame_ps.set(1);
                accelerator.bitstreams[0].bytes.set(1);
                accelerator.bitstreams[0].accelerator.set(number as u32);
                accelerator.bitstreams[0].signature.set(signature(0, number as u32, 0, 1));
                let accelerator =
                    AcceleratorId::new(if steps.is_shared { 0 } else { number }).expect("there is this one");
                // The second one takes the region from the first one.
                let client = clients::Client {
                    owner: 1,
                    user: 0,
                    accelerator,
                    core: 0,
                    priority: 1 - number as u32,
                    inode: PoolAddr::NULL,
                };
                clients::open(fpga, &client).expect("an interface is free");
            }
        });
        Self {
            pool,
            fpga,
            steps,
            mapped: [Mutex::new(false), Mutex::new(false)],
            device: Bell::default(),
            kernel: Bell::default(),
            clients: Default::default(),
            over: AtomicUsize::new(0),
            now_ps: Ghost::new(0),
        }
    }

    fn interface(&self, at: usize) -> &'static FpgaInterface {
        &self.fpga.interfaces[at]
    }

    fn registers(&self, at: usize) -> &'static FpgaRegisters {
        registers(self.pool, self.fpga, InterfaceId::new(at).expect("there is this one")).expect("in the pool")
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst) == 2 * self.jobs()
    }

    fn jobs(&self) -> usize {
        if self.steps.is_shared { JOBS } else { 1 }
    }

    /// The FPGA: it looks whenever it is rung, and time goes on to what happens next.
    fn device(&self) {
        let mut expiries = 0;
        while !self.is_over() {
            quietly(|| self.fpga.expire_ps.set(if expiries < EXPIRIES { 1 } else { NEVER_PS }));
            let now_ps = *self.now_ps.lock().expect("no panic");
            let mut device = Device::new(self.pool, self.fpga, &Counting);
            let next_ps = device.run(now_ps);
            if device.rings().count() > 0 {
                self.kernel.ring();
            }
            if !self.steps.waits {
                quietly(|| (0..2).for_each(|at| self.interface(at).revoke.store(0, SeqCst)));
            }
            self.check();
            match next_ps {
                Some(next_ps) if next_ps < NEVER_PS => {
                    let is_hold = quietly(|| self.fpga.regions[0].state.get() == RegionState::Hold as u32);
                    expiries += usize::from(is_hold);
                    *self.now_ps.lock().expect("no panic") = next_ps;
                    point();
                }
                _ => self.device.sleep(),
            }
        }
    }

    /// Whose registers are writable is connected, or is to be taken away.
    fn check(&self) {
        for at in 0..2 {
            let is_mapped = self.mapped[at].lock().expect("no panic while it was held");
            let (is_connected, is_revoked) =
                quietly(|| (self.interface(at).connected.load(SeqCst), self.interface(at).revoke.load(SeqCst)));
            let offers =
                quietly(|| [0, 1].map(|number| Offer::from_word(self.fpga.accelerators[number].offer.load(SeqCst))));
            let is_taken = offers.into_iter().flatten().any(|offer| offer.taken_by == InterfaceId::new(at));
            let is_known = is_connected + is_revoked > 0 || is_taken;
            assert!(!*is_mapped || is_known, "registers are writable that are not connected");
            let region = quietly(|| RegionId::from_link(self.interface(at).region.get()));
            assert!(is_connected == 0 || region.is_some(), "connected to nothing");
        }
    }

    /// A kernel: it does what the FPGA wants, and wakes clients.
    fn kernel(&self) {
        while !self.is_over() {
            self.kernel.sleep();
            let protect = |id: InterfaceId, interface: &FpgaInterface| {
                if !self.steps.protects_first {
                    clients::revoked(interface);
                }
                *self.mapped[id.index()].lock().expect("no panic while it was held") = false;
            };
            let has_revoked = clients::take_answered(
                self.fpga,
                protect,
                |_, _| Answer::Outside,
                |id, _| self.clients[id.index()].ring(),
            );
            if !self.steps.clears_first {
                // As if it had looked before.
                quietly(|| self.interface(1).signals.store(0, SeqCst));
            }
            if has_revoked {
                self.device.ring();
            }
        }
    }

    /// A client: stores its start flag, if that does not trap, and waits until it is over.
    fn client(&self, at: usize) {
        let (registers, accelerator) = (self.registers(at), if self.steps.is_shared { 0 } else { at as u64 });
        for _ in 0..self.jobs() {
            while !self.starts(at) {
                self.clients[at].sleep();
            }
            self.device.ring();
            while registers.start.load(SeqCst) != 0 || registers.over.load(SeqCst) == 0 {
                self.clients[at].sleep();
            }
            assert_eq!(registers.result.load(SeqCst), 100 + accelerator, "another result");
            self.over.fetch_add(1, SeqCst);
            self.device.ring();
            self.kernel.ring();
        }
    }

    /// A store. Page tables do not change while it is under way.
    fn starts(&self, at: usize) -> bool {
        self.is_told(at);
        let mut is_mapped = self.mapped[at].lock().expect("no panic while it was held");
        let interface = self.interface(at);
        *is_mapped = *is_mapped || self.may_write(at);
        if *is_mapped {
            self.registers(at).interrupt_control.store(1, SeqCst);
            self.registers(at).start.store(1, SeqCst);
            return true;
        }
        drop(is_mapped);
        if self.steps.looks && self.looks(at) {
            return false;
        }
        if !self.steps.asks_first {
            self.device.ring();
            point();
        }
        clients::ask(self.fpga, interface, interface.priority.load(SeqCst));
        if self.steps.asks_first {
            self.device.ring();
        }
        false
    }

    /// If its request was refused, a client is told, and reads why.
    fn is_told(&self, at: usize) {
        let interface = self.interface(at);
        let is_refused = if self.steps.forgets {
            clients::take_refusal(self.fpga, interface, || {})
        } else {
            interface.refused.swap(0, SeqCst) != 0
        };
        if is_refused {
            self.device.ring();
            // As long as the FPGA may take to look.
            (0..BETWEEN).for_each(|_| point());
            let status = self.registers(at).status.load(SeqCst);
            assert_eq!(status, Fault::Port.word(), "the registers do not say why");
        }
    }

    /// The last one of two ends the model. Any doorbell would tell what nobody was rung for.
    fn end_beside(&self) {
        if self.over.fetch_add(1, SeqCst) == 1 {
            self.kernel.ring();
            self.device.ring();
        }
    }

    /// A core looks what becomes of a request. `true`: it knows, or is broken; otherwise its client is to ask and sleep.
    fn looks(&self, at: usize) -> bool {
        let interface = self.interface(at);
        clients::ask_and_look(self.fpga, interface, interface.priority.load(SeqCst));
        self.device.ring();
        let is_decided = (0..LOOKS).any(|_| {
            point();
            clients::is_decided(interface)
        });
        if !self.steps.asks_again {
            // As long as the FPGA may take to connect it.
            (0..BETWEEN).for_each(|_| point());
        }
        clients::look_no_longer(interface);
        if is_decided {
            // Its store is executed again.
            self.clients[at].ring();
        }
        is_decided || !self.steps.asks_again
    }

    fn may_write(&self, at: usize) -> bool {
        let interface = self.interface(at);
        let may_write = || clients::may_write(self.fpga, InterfaceId::new(at).expect("there is this one"));
        if self.steps.says_first {
            return may_write();
        }
        if self.steps.is_shared {
            // As if it had taken the region before it says so.
            let has_taken = may_write();
            interface.writable.store(0, SeqCst);
            (0..BETWEEN).for_each(|_| point());
            interface.writable.store(has_taken.into(), SeqCst);
            return has_taken;
        }
        let is_connected = interface.connected.load(SeqCst) != 0;
        // As long as the FPGA may take to give the region to somebody else: otherwise few schedules do both.
        (0..BETWEEN).for_each(|_| point());
        if is_connected {
            interface.writable.store(1, SeqCst);
        }
        is_connected
    }
}

fn model(steps: Steps) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let machine = Arc::new(Machine::new(steps));
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for at in 0..2 {
            let machine = machine.clone();
            actors.push(Box::new(move || machine.client(at)));
        }
        let kernel = machine.clone();
        actors.push(Box::new(move || kernel.kernel()));
        let device = machine.clone();
        actors.push(Box::new(move || device.device()));
        together(actors);
    }
}

#[test]
fn registers_are_writable_only_while_connected_and_both_clients_get_results() {
    explore(1500, model(ALL));
}

const SHARED: Steps = Steps { is_shared: true, ..ALL };

#[test]
fn kernels_give_what_is_offered_to_their_clients() {
    explore(1500, model(SHARED));
}

const LOOKING: Steps = Steps { looks: true, ..ALL };

#[test]
fn a_core_that_looks_need_not_be_rung_and_sleeps_afterwards() {
    explore(1500, model(LOOKING));
    explore(1500, model(Steps { is_shared: true, ..LOOKING }));
}

#[test]
fn who_sleeps_after_it_has_looked_without_asking_again_is_caught() {
    must_be_caught(1500, model(Steps { asks_again: false, ..LOOKING }));
}

const FAILING: Steps = Steps { fails: true, ..LOOKING };

#[test]
fn who_is_refused_reads_why() {
    explore(1500, model(FAILING));
    explore(1500, model(Steps { is_shared: true, ..FAILING }));
}

#[test]
fn a_request_that_outlives_the_refusal_of_the_one_before_is_caught() {
    must_be_caught(1500, model(Steps { forgets: false, ..FAILING }));
}

/// Two threads store to the registers of one client: a core looks for the first one, and the second one sleeps.
fn beside(wakes: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let machine = Arc::new(Machine::new(ALL));
        let waits = Arc::new(Mutex::new(false));
        let connected = || {
            let machine = machine.clone();
            move || machine.interface(0).connected.load(SeqCst) != 0
        };
        let mut actors: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        let (looker, queue, is_connected) = (machine.clone(), waits.clone(), connected());
        actors.push(Box::new(move || {
            clients::ask_and_look(looker.fpga, looker.interface(0), 1);
            looker.device.ring();
            // It may have something else to do before that is decided.
            let _ = (0..LOOKS).any(|_| {
                (0..BETWEEN).for_each(|_| point());
                is_connected()
            });
            clients::look_no_longer(looker.interface(0));
            if wakes && std::mem::take(&mut *queue.lock().expect("no panic")) {
                looker.clients[0].ring();
            }
            looker.end_beside();
        }));
        let (sleeper, queue, is_connected) = (machine.clone(), waits, connected());
        actors.push(Box::new(move || {
            while !is_connected() {
                *queue.lock().expect("no panic") = true;
                clients::ask(sleeper.fpga, sleeper.interface(0), 1);
                sleeper.device.ring();
                if !is_connected() {
                    sleeper.clients[0].sleep();
                }
            }
            sleeper.end_beside();
        }));
        let kernel = machine.clone();
        actors.push(Box::new(move || kernel.kernel()));
        let device = machine.clone();
        actors.push(Box::new(move || {
            let mut now_ps = 0;
            while !device.is_over() {
                let mut fpga = Device::new(device.pool, device.fpga, &Counting);
                while let Some(next_ps) = fpga.run(now_ps) {
                    now_ps = next_ps;
                }
                if fpga.rings().count() > 0 {
                    device.kernel.ring();
                }
                device.device.sleep();
            }
        }));
        together(actors);
    }
}

#[test]
fn who_sleeps_beside_a_core_that_looks_is_woken_by_it() {
    explore(1500, beside(true));
}

#[test]
fn a_core_that_looks_and_wakes_nobody_is_caught() {
    must_be_caught(1500, beside(false));
}

#[test]
fn who_takes_before_it_says_that_it_maps_registers_is_caught() {
    must_be_caught(1500, model(Steps { says_first: false, ..SHARED }));
}

#[test]
fn an_fpga_that_forgets_what_it_has_asked_of_kernels_is_caught_where_regions_are_taken() {
    must_be_caught(1500, model(Steps { waits: false, ..SHARED }));
}

#[test]
fn an_fpga_that_forgets_what_it_has_asked_of_kernels_is_caught() {
    must_be_caught(1500, model(Steps { waits: false, ..ALL }));
}

#[test]
fn who_looks_before_it_says_that_it_maps_registers_is_caught() {
    must_be_caught(1500, model(Steps { says_first: false, ..ALL }));
}

#[test]
fn a_kernel_that_says_that_it_has_before_it_has_is_caught() {
    must_be_caught(1500, model(Steps { protects_first: false, ..ALL }));
}

#[test]
fn a_request_behind_its_doorbell_is_caught() {
    must_be_caught(1500, model(Steps { asks_first: false, ..ALL }));
}

#[test]
fn a_kernel_that_loses_what_clients_are_to_be_told_is_caught() {
    must_be_caught(1500, model(Steps { clears_first: false, ..ALL }));
}

//! Transfers of a virtual machine: whoever is the FPGA looks into its tables, while a kernel takes the machine apart. And pages that a transfer asks
//! kernels for: what is asked is answered, whatever has been answered before.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use motet_layout::sync::Ordering::{Release, SeqCst};
use motet_layout::{Fpga, Pool, PoolAddr, VmRecord};
use motet_protocol::fpga::{
    Fault, InterfaceId,
    guest::{self, Answer},
};

use crate::harness::{Bells, Core, Objects, explore, fresh_pool, must_be_caught, point, quietly, together};

/// Where the FPGA and the machine's record lie: in blocks that nobody allocates from.
const AT: PoolAddr = PoolAddr(4 << 20);
const TRANSFERS: usize = 3;

#[derive(Clone)]
struct World {
    pool: Pool,
    fpga: &'static Fpga,
    vm: PoolAddr,
    /// Ghost: its tables are somebody else's memory.
    is_apart: Arc<AtomicBool>,
    bells: Arc<Bells>,
}

impl World {
    fn new() -> Self {
        let (pool, base) = fresh_pool(2);
        let fpga = pool.at::<Fpga>(AT);
        let vm = pool.addr_of(Objects::new(pool, base).make::<VmRecord>());
        quietly(|| {
            pool.zero(AT, size_of::<Fpga>());
            fpga.interface_count.set(1);
            fpga.interfaces[0].guest.store(vm.0, Release);
        });
        Self { pool, fpga, vm, is_apart: Arc::default(), bells: Arc::default() }
    }

    fn id() -> InterfaceId {
        InterfaceId::new(0).expect("there is this one")
    }

    fn look_at_tables(&self) {
        for _ in 0..2 {
            assert!(!self.is_apart.load(Relaxed), "a transfer looks into tables that are somebody else's memory");
            point();
        }
    }

    fn device(&self, looks_again: bool) -> Box<dyn FnOnce() + Send> {
        let world = self.clone();
        Box::new(move || {
            for _ in 0..TRANSFERS {
                if looks_again {
                    if let Some(transfer) = guest::begin(world.pool, world.fpga, Self::id()) {
                        world.look_at_tables();
                        drop(transfer);
                    }
                } else if world.fpga.interfaces[0].guest.load(SeqCst) != 0 {
                    world.fpga.transfer.store(world.vm.0, Release);
                    world.look_at_tables();
                    world.fpga.transfer.store(0, Release);
                }
            }
        })
    }

    fn ends(&self, waits: bool) -> Box<dyn FnOnce() + Send> {
        let (core, world) = (Core::new(self.pool, 0, &self.bells), self.clone());
        Box::new(move || {
            world.fpga.interfaces[0].guest.store(0, Release);
            if waits {
                guest::end(&core, world.fpga, world.vm);
            }
            world.is_apart.store(true, Relaxed);
        })
    }
}

fn model(looks_again: bool, waits: bool) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let world = World::new();
        together(vec![world.device(looks_again), world.ends(waits)]);
    }
}

#[test]
fn no_transfer_looks_into_a_machine_that_is_taken_apart() {
    explore(3000, model(true, true));
}

#[test]
fn a_transfer_that_does_not_look_again_is_caught() {
    must_be_caught(3000, model(false, true));
}

#[test]
fn an_end_that_does_not_wait_is_caught() {
    must_be_caught(3000, model(true, false));
}

/// Two pages in turn, the second of which is none, while kernels answer.
#[test]
fn answers_are_about_the_page_that_is_asked_for() {
    explore(3000, || {
        let world = World::new();
        let is_done = Arc::new(AtomicBool::new(false));
        let (device, kernel, done) = (world.clone(), world.clone(), is_done.clone());
        let asks = move || {
            let found = |page: u64| loop {
                let transfer = guest::begin(device.pool, device.fpga, World::id()).expect("its machine lives");
                match transfer.pieces(page, 1, false, |_, _| ()) {
                    // There are no tables here: it stays unfound until it is refused.
                    Err(Fault::Page) => shuttle::thread::yield_now(),
                    result => return result,
                }
            };
            assert_eq!(found(0x1000), Err(Fault::Address));
            assert_eq!(found(0x2000), Err(Fault::Memory));
            assert_eq!(found(0x1000), Err(Fault::Address));
            is_done.store(true, Relaxed);
        };
        let answers = move || {
            while !done.load(Relaxed) {
                guest::take_wanted(&kernel.fpga.interfaces[0], |_, page| {
                    if page == 0x1000 { Answer::Outside } else { Answer::Exhausted }
                });
                shuttle::thread::yield_now();
            }
        };
        together(vec![Box::new(asks), Box::new(answers)]);
    });
}

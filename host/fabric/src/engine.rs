//! The transfer engines of machines that are not timed: one thread of the host, which copies within the pool while islands run.

use std::sync::{Arc, atomic::Ordering};

use motet_error::Result;
use motet_layout::{CORES_PER_ISLAND_MAX, Pool};
use motet_protocol::{Context, engine};

use crate::{Doorbells, HostPool, device_thread::DeviceThread};

/// The engines of a machine. Dropping it stops them.
pub struct Engines {
    pool: Pool,
    islands: usize,
    thread: DeviceThread,
}

impl Engines {
    /// Starts them.
    ///
    /// # Errors
    /// The host refuses a thread.
    pub fn start(pool: &HostPool, bells: &Arc<Doorbells>) -> Result<Self> {
        let (pool, islands) = (pool.pool(), pool.header().island_count.get() as usize);
        let bells = bells.clone();
        let thread = DeviceThread::start("engines", move |stop| {
            while !stop.load(Ordering::SeqCst) {
                if !serve(pool, islands, |island, core| bells.ring(island, core)) {
                    std::thread::park();
                }
            }
        })?;
        Ok(Self { pool, islands, thread })
    }

    /// The host was rung: perhaps for an engine.
    pub fn look(&self) {
        let mut engines = self.pool.header().dma.iter().take(self.islands);
        if engines.any(engine::has_work) {
            self.thread.look();
        }
    }
}

/// Each engine does one transfer, if it has any. `false`: none has.
fn serve(pool: Pool, islands: usize, ring: impl Fn(usize, usize)) -> bool {
    let header = pool.header();
    let mut has_served = false;
    for engine in header.dma.iter().take(islands) {
        let Some(served) = engine::serve(pool, engine, |_, _, _| {}, |_| 0) else { continue };
        has_served = true;
        let target = served.ring.map(|core| (core.island().index(), core.index() % CORES_PER_ISLAND_MAX));
        // A core that the machine does not have is a damaged descriptor's.
        if let Some((island, core)) =
            target.filter(|&(island, core)| island < islands && core < header.islands[island].core_count.get() as usize)
        {
            ring(island, core);
        }
    }
    has_served
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use motet_layout::{CoreId, DMA_BAD_ADDRESS, DMA_OK, DMA_OVERLAP, DMA_RINGS, IslandId, PAGE_SIZE, PoolAddr};
    use motet_machine::MachineSpec;
    use motet_protocol::engine::Transfer;
    use std::{cell::RefCell, time::Duration};

    fn pool() -> HostPool {
        let text = "[pool]\nsize = \"32MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        HostPool::create(&MachineSpec::parse(text).unwrap(), &Command::default(), 1, false).unwrap()
    }

    fn transfer(source: u64, destination: u64, bytes: u64, core: CoreId) -> Transfer {
        let (source, destination) = (PoolAddr(source), PoolAddr(destination));
        Transfer { source, destination, bytes, flags: DMA_RINGS, core, id: 7 }
    }

    const HERE: CoreId = CoreId::new(IslandId(0), 0);

    #[test]
    fn what_is_wrong_with_a_descriptor_is_said_and_the_next_one_is_carried_out() {
        let host = pool();
        let (pool, engine) = (host.pool(), &host.header().dma[0]);
        let memory = motet_protocol::memory::alloc_zeroed_frame(&host).unwrap().addr().0;
        pool.write(PoolAddr(memory), b"cantus");
        let end = pool.len();
        for (asked, error) in [
            (transfer(memory, end - 4, 8, HERE), DMA_BAD_ADDRESS),
            (transfer(u64::MAX - 3, memory, 8, HERE), DMA_BAD_ADDRESS),
            (transfer(memory, memory + 8, 16, HERE), DMA_OVERLAP),
            (transfer(memory, memory + PAGE_SIZE / 2, 6, HERE), DMA_OK),
        ] {
            assert!(engine::submit(&host, engine, &asked, || {}));
            let rung = RefCell::new(Vec::new());
            assert!(serve(pool, 1, |island, core| rung.borrow_mut().push((island, core))));
            assert_eq!(*rung.borrow(), [(0, 0)]);
            let completion = engine::take(&host, engine).unwrap();
            assert_eq!((completion.error, completion.id), (error, 7));
        }
        let mut copied = [0; 7];
        pool.read(PoolAddr(memory + PAGE_SIZE / 2), &mut copied);
        assert_eq!((&copied, engine.errors.get(), engine.error.get()), (b"cantus\0", 3, DMA_OVERLAP));
        assert!(!serve(pool, 1, |_, _| {}));
    }

    #[test]
    fn a_core_that_there_is_not_is_not_rung() {
        let host = pool();
        let memory = motet_protocol::memory::alloc_zeroed_frame(&host).unwrap().addr().0;
        let other = CoreId::new(IslandId(3), 2);
        assert!(engine::submit(&host, &host.header().dma[0], &transfer(memory, memory + 64, 64, other), || {}));
        assert!(serve(host.pool(), 1, |_, _| panic!("nobody is there")));
    }

    #[test]
    fn the_thread_copies_when_it_is_told_and_rings() {
        let host = pool();
        let bells = Arc::new(Doorbells::create(&[1]).unwrap());
        let engines = Engines::start(&host, &bells).unwrap();
        let engine = &host.header().dma[0];
        let memory = motet_protocol::memory::alloc_zeroed_frame(&host).unwrap().addr().0;
        assert!(engine::submit(&host, engine, &transfer(memory, memory + 64, 64, HERE), || {}));
        engines.look();
        while engine::take(&host, engine).is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It rings after it has said so.
        while rustix::io::read(bells.bell(0, 0), &mut [0u8; 8]).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

//! Islands that have a kernel each: a header each, in which a core has another number than in the machine.

use motet_layout::{CORE_AWAKE, CORE_IDLE, MESSAGE_KINDS_MAX, PoolHeader, sync::Ordering::SeqCst};
use motet_protocol::peer::bell_of;
use motet_timing::{ClockRegion, MessageCounts, Records, Timing};

use crate::{
    US,
    world::{Handle, QUANTUM_PS, fixed, zeroed},
};

struct Kernels {
    region: &'static ClockRegion,
    headers: Vec<&'static PoolHeader>,
    timing: Timing<Handle>,
}

impl Kernels {
    /// Whose islands have so many cores, and run.
    fn started(cores: &[u32]) -> Self {
        let region: &ClockRegion = zeroed();
        let headers: Vec<&PoolHeader> = cores.iter().map(|_| zeroed()).collect();
        for (header, &count) in headers.iter().zip(cores) {
            header.island_count.set(1);
            header.islands[0].core_count.set(count);
            for core in &header.cores[..count as usize] {
                core.state.store(CORE_AWAKE, SeqCst);
                core.alarm_ns.store(u64::MAX, SeqCst);
            }
        }
        region.set_up(fixed(QUANTUM_PS, false), cores.iter().sum::<u32>() as usize);
        let timing = Timing::new(region, Records::by_island(headers.clone()), Handle::default()).unwrap();
        let all: Vec<usize> = (0..)
            .zip(cores)
            .flat_map(|(island, &count)| (0..count as usize).map(move |core| island * 16 + core))
            .collect();
        while all.iter().filter(|&&core| !timing.announce(core)).count() > 0 {}
        Self { region, headers, timing }
    }

    /// When the first doorbell that was rung for a core arrives.
    fn rung_at_ns(&self, core: usize) -> u64 {
        self.headers[core / 16].cores[core % 16].rung_at_ns.load(SeqCst)
    }

    /// A core rings whom its kernel has this number for.
    fn ring(&self, core: usize, number: u8) {
        self.headers[core / 16].cores[core % 16].ring_target.set(number.into());
        self.timing.note_ring(core, US);
    }
}

#[test]
fn kernels_ring_their_own_cores_and_each_others_first_ones() {
    let world = Kernels::started(&[2, 1, 1]);
    let cores = [0, 1, 16, 32];
    for (own, header) in (0..).zip(&world.headers) {
        for node in 0..3 {
            let place = bell_of(own, node).island().index();
            header.islands[0].doorbell_ns[place].set(1000 * (own + 1) + 100 * node);
        }
    }
    // Who rings, by which number, and who is rung when.
    for (core, number, rung, after_ns) in [
        (0, bell_of(0, 1).0, 16, 1100),
        (16, bell_of(1, 0).0, 0, 2000),
        (16, bell_of(1, 2).0, 32, 2200),
        (32, bell_of(2, 1).0, 16, 3100),
        (0, 1, 1, 1000),
    ] {
        world.ring(core, number);
        for other in cores {
            let wanted = if other == rung { 1000 + after_ns } else { 0 };
            assert_eq!(world.rung_at_ns(other), wanted, "{core} rings {number}: {other}");
        }
        world.headers[rung / 16].cores[rung % 16].rung_at_ns.store(0, SeqCst);
    }
    // Nobody has these numbers.
    for number in [3 * 16, 127] {
        world.ring(0, number);
    }
    assert!(cores.iter().all(|&core| world.rung_at_ns(core) == 0));
}

#[test]
fn a_kernel_that_is_rung_wakes_and_the_first_ones_command_ends_time() {
    let world = Kernels::started(&[1, 1]);
    let [first, second] = [world.headers[0], world.headers[1]];
    first.islands[0].doorbell_ns[bell_of(0, 1).island().index()].set(2000);
    second.cores[0].state.store(CORE_IDLE, SeqCst);
    world.timing.sleep(16, US);
    world.ring(0, bell_of(0, 1).0);
    assert_eq!(world.timing.boundary(16, US).now_ps, US + 2 * US);
    second.peers.sent[3].store(7, SeqCst);
    second.peers.refused[0].store(2, SeqCst);
    first.peers.taken[3].store(6, SeqCst);
    first.peers.bytes_taken.store(132, SeqCst);
    first.exit.store(1, SeqCst);
    world.timing.boundary(0, 2 * US);
    assert!(world.timing.is_stopped());
    assert_eq!(second.exit.load(SeqCst), 1, "it is told, and traces no more");
    // Kernels go on for a moment, which does not count.
    second.peers.sent[3].store(8, SeqCst);
    let counted = |of: fn(&MessageCounts) -> u64| [0, 1].map(|kernel| of(&world.region.messages[kernel]));
    assert_eq!(counted(|counts| counts.sent[3].load(SeqCst)), [0, 7]);
    assert_eq!(counted(|counts| counts.taken[3].load(SeqCst)), [6, 0]);
    assert_eq!(counted(|counts| counts.bytes_taken.load(SeqCst)), [132, 0]);
    assert_eq!(counted(|counts| counts.refused.load(SeqCst)), [0, 2]);
    assert_eq!(counted(|counts| counts.sent[MESSAGE_KINDS_MAX - 1].load(SeqCst)), [0, 0]);
}

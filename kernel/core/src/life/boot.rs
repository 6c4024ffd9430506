//! Joining the machine, and starting its first process.

use core::sync::atomic::Ordering;

use motet_hal::Machine;
use motet_layout::{
    CORE_AWAKE, CORES_PER_ISLAND_MAX, CoreId, ISLAND_JOINED, IslandId, IslandRecord, PROCESS_ALIVE, ProcessRecord,
    SignalActions, THREAD_READY, ThreadRecord,
};
use motet_protocol::{Context, cores::core_record, groups, rejoin, slab, threads};

use crate::{ability, console, cpu::Cpu, file, net, peers, permission, process, tree};

/// Islands compare their counters with the machine's clock until so many of the differences agree.
const CLOCK_SAMPLES_AGREEING: u32 = 4;
/// They agree if they differ by no more than this, in nanoseconds.
const AGREEMENT_NS: i64 = 5_000;
/// But they compare them no more often than this: on a busy host each comparison may take a time slice of several processes.
const CLOCK_SAMPLES_MAX: usize = 32;

/// Runs this core of the kernel; never returns. The first core of an island joins the machine and starts the others;
/// the first island starts the first process once all have joined. An island that has died before joins a machine that runs
/// ([`rejoin`]).
pub fn run<M: Machine>(machine: &'static M) -> ! {
    if machine.core().index_in_island() != 0 {
        let cpu = Cpu::new(machine);
        ability::announce(&cpu);
        core_record(&cpu, cpu.id).state.store(CORE_AWAKE, Ordering::Release);
        cpu.start_timing();
        super::core_loop(&cpu)
    }
    let cpu = Cpu::new(machine);
    let record = cpu.island_record();
    record.clock_offset_ns.store(clock_offset_ns(machine), Ordering::Relaxed);
    publish_extensions(&cpu, record);
    record.visible.iter().zip(machine.visible()).for_each(|(to, word)| to.set(word));
    record.hidden_harts.set(machine.hidden_harts() as u32);
    ability::announce(&cpu);
    if rejoin::is_rejoining(&cpu) {
        join_again(&cpu, record);
    }
    for core in &cpu.pool.header().cores[cpu.id.index()..cpu.id.index() + CORES_PER_ISLAND_MAX] {
        core.timer_deadline_ns.store(u64::MAX, Ordering::Relaxed);
        core.alarm_ns.store(u64::MAX, Ordering::Relaxed);
    }
    core_record(&cpu, cpu.id).state.store(CORE_AWAKE, Ordering::Release);
    start_other_cores(&cpu, record);
    let has_peers = peers::are_there(&cpu);
    // Who comes first there must not depend on the host, so on a timed machine that has its time, too.
    if has_peers && !cpu.is_timed() {
        wait_for_peers(&cpu, pause);
    }
    record.joined_at_ns.set(cpu.reading_ns());
    record.state.store(ISLAND_JOINED, Ordering::Release);
    cpu.pool.header().joined.fetch_add(1, Ordering::SeqCst);
    machine.ring_host();
    cpu.log(format_args!("{} joined with {} cores", M::ISA.name(), record.core_count.get()));
    net::begin(&cpu);
    cpu.start_timing();
    if has_peers && cpu.is_timed() {
        wait_for_peers(&cpu, |cpu| cpu.machine.relax());
    }
    if cpu.id.index() == 0 {
        wait_for_all(&cpu);
        ability::find_scarce(&cpu);
        if let Err((island, why)) = ability::find_common(&cpu) {
            refuse(&cpu, island, why);
        }
        if peers::has_command(&cpu) {
            start_first_process(&cpu);
        }
    }
    super::core_loop(&cpu)
}

/// Joins a machine that runs. Each core is off until it is about to look what has come for it.
fn join_again<M: Machine>(cpu: &Cpu<M>, record: &IslandRecord) -> ! {
    rejoin::take_records(cpu);
    record.joined_at_ns.set(cpu.reading_ns());
    rejoin::join(cpu);
    start_other_cores(cpu, record);
    net::begin(cpu);
    cpu.log(format_args!("{} joined again with {} cores", M::ISA.name(), record.core_count.get()));
    cpu.machine.ring_host();
    super::core_loop(cpu)
}

/// Says which island cannot be of this machine, and stops. The host reads the line.
fn refuse<M: Machine>(cpu: &Cpu<M>, island: IslandId, why: &str) -> ! {
    cpu.log(format_args!("refused: island {}: {why}", island.0));
    cpu.machine.park()
}

/// The difference between the machine's clock, which the host keeps writing into the header, and this island's counter:
/// sampled at moments when the host's word changes. Timed machines have one clock.
fn clock_offset_ns<M: Machine>(machine: &'static M) -> u64 {
    if machine.pool().header().timed.get() != 0 {
        return 0;
    }
    // It has a longer time now to measure its rate over than when it was calibrated.
    machine.steer_counter();
    let word = &machine.pool().header().host_clock_ns;
    let mut seen = word.load(Ordering::Relaxed);
    best_difference(|| {
        let before = seen;
        while seen == before {
            machine.relax();
            seen = word.load(Ordering::Acquire);
        }
        seen.wrapping_sub(machine.counter_ns())
    })
}

/// Of samples of how much one clock is ahead of another (wrapping), read after it, the best one: whoever is kept from running
/// between the two makes the difference smaller, never larger. So samples go on until several agree that they were not.
fn best_difference(mut sample: impl FnMut() -> u64) -> u64 {
    let (mut best, mut agreeing) = (sample(), 1);
    for _ in 1..CLOCK_SAMPLES_MAX {
        let ahead_ns = sample().wrapping_sub(best).cast_signed();
        if ahead_ns > 0 {
            best = best.wrapping_add(ahead_ns as u64);
            agreeing = if ahead_ns <= AGREEMENT_NS { agreeing } else { 0 };
        }
        if ahead_ns >= -AGREEMENT_NS {
            agreeing += 1;
        }
        if agreeing == CLOCK_SAMPLES_AGREEING {
            break;
        }
    }
    best
}

fn publish_extensions<M: Machine>(cpu: &Cpu<M>, record: &IslandRecord) {
    let text = cpu.machine.extensions().as_bytes();
    for (to, &from) in record.extensions.iter().zip(text.iter().take(447)) {
        to.store(from, Ordering::Relaxed);
    }
}

fn start_other_cores<M: Machine>(cpu: &Cpu<M>, record: &IslandRecord) {
    for index in 1..(record.core_count.get() as usize).min(CORES_PER_ISLAND_MAX) {
        let core = core_record(cpu, CoreId::new(cpu.island(), index));
        if let Err(reason) = cpu.machine.start_core(index) {
            cpu.log(format_args!("core {index} does not start: {reason}"));
            record.core_count.set(index as u32);
            return;
        }
        while core.state.load(Ordering::SeqCst) == 0 {
            cpu.machine.relax();
        }
    }
}

fn wait_for_all<M: Machine>(cpu: &Cpu<M>) {
    let header = cpu.pool.header();
    while header.joined.load(Ordering::SeqCst) < header.island_count.get() {
        pause(cpu);
    }
}

/// The other kernels of the machine say who they are, too. Usually before this one has joined, so that the host says which one has not.
fn wait_for_peers<M: Machine>(cpu: &Cpu<M>, pause: fn(&Cpu<M>)) {
    peers::introduce(cpu);
    while !peers::are_known(cpu) {
        pause(cpu);
        super::messages::take(cpu);
    }
}

/// Polling, with pauses: the islands still booting need the host's cores.
fn pause<M: Machine>(cpu: &Cpu<M>) {
    cpu.machine.set_timer(cpu.machine.counter_ns() + 200_000);
    cpu.machine.wait_for_interrupt();
}

/// Makes process 1 of the command that the host put into the pool.
fn start_first_process<M: Machine>(cpu: &Cpu<M>) {
    let (Some(process), Some(thread), Some(actions)) =
        (slab::alloc::<ProcessRecord>(cpu), slab::alloc::<ThreadRecord>(cpu), slab::alloc::<SignalActions>(cpu))
    else {
        panic!("the pool is too small for the first process");
    };
    actions.refs.store(1, Ordering::Relaxed);
    process.actions.set(cpu.raw(actions));
    process.state.store(PROCESS_ALIVE, Ordering::Relaxed);
    process.thread_count.store(1, Ordering::Relaxed);
    process.threads.set(cpu.raw(thread));
    process.umask.set(0o022);
    process.started_ns.set(cpu.reading_ns());
    process::limits::set_default_limits(process, cpu.pool.len());
    permission::start_as_superuser(process);
    thread.process.store(cpu.raw(process), Ordering::Relaxed);
    thread.frame.vectors.set(0);
    thread.started_ns.set(cpu.reading_ns());
    ability::begin_ext(thread, thread.started_ns.get());
    thread.core.store(u32::from(cpu.id.0), Ordering::Relaxed);
    thread.state.store(THREAD_READY, Ordering::Relaxed);
    for word in thread.affinity.iter().chain(&thread.able) {
        word.store(u64::MAX, Ordering::Relaxed);
    }
    let pid = threads::register(cpu, thread).unwrap_or(1);
    process.pid.set(pid);
    process.pgid.store(pid, Ordering::Relaxed);
    process.sid.store(pid, Ordering::Relaxed);
    groups::enter(cpu, process);
    tree::users::enter(cpu, process, None);
    let started = file::open_first(cpu, process).and_then(|()| process::exec::start_first(cpu, process, thread));
    if let Err(errno) = started {
        console::kernel_message(cpu, format_args!("cannot start the command: {}", errno.name()));
        cpu.pool.header().exit.store(1 + 127, Ordering::Release);
        cpu.machine.ring_host();
    }
}

#[cfg(test)]
mod tests {
    use super::best_difference;

    /// The counter is behind the machine's clock, or ahead of it; the host or the island did not run for a while.
    #[test]
    fn delays_between_the_clocks_are_not_taken_for_their_difference() {
        for difference in [5_000_000_000u64, 3, 0, 5_000_000_000u64.wrapping_neg()] {
            // Most of the samples are late, the first ones all by much the same.
            let mut index = 0u64;
            let best = best_difference(|| {
                index += 1;
                let delay = if index > 8 && index % 5 == 0 { index % 3 * 500 } else { 1_000_000 + index * 7_000 };
                difference.wrapping_sub(delay)
            });
            assert_eq!(best, difference);
        }
    }

    #[test]
    fn a_host_that_is_always_late_does_not_keep_an_island_from_joining() {
        let mut index = 0u64;
        let best = best_difference(|| {
            index += 1;
            1_000_000_000 + 10_000 * index
        });
        assert_eq!((index as usize, best), (super::CLOCK_SAMPLES_MAX, 1_000_000_000 + 10_000 * index));
    }
}

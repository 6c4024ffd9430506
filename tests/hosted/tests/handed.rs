//! A thread goes to a core with vector registers and back, again and again, in the words of idle cores' states (`docs/protocols/wake-up.md`), while memory is
//! taken from under it, signals come, and islands die.

use motet_abi::signal::{SIGCONT, SIGILL, SIGKILL, SIGSTOP};
use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, isa::Op, run_seeds};
use motet_layout::{CORES_PER_ISLAND_MAX, Isa, IslandId, sync::Ordering};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, has_died_with_a_lock, stride};

/// `motet_need`, `motet_done`.
const NEED: u64 = 0x4d06;
const DONE: u64 = 0x4d07;
const ROUNDS: u64 = if cfg!(motet_model) { 4 } else { 20 };
/// Status of a process that has lost something.
const LOST: u64 = 50;
const MASK: u64 = DATA + 64;
const NAP: u64 = DATA + 80;
const AT: u64 = 0x4000_0000;

/// The first core has init, the second one is where the thread begins, the third has vector registers.
fn islands() -> Vec<IslandConfig> {
    let plain = || IslandConfig::foreign(Isa::RiscV64, 1);
    vec![plain(), plain(), IslandConfig::with_vectors(1, 16)]
}

/// Uses a vector register, and says that it needs none any more; writes to memory that is new each time.
fn goes_and_comes(program: &mut Program) {
    let [value, seen, at, count, _] = program.asm.roles.saved;
    let cores = 1 << CORES_PER_ISLAND_MAX | 1 << (2 * CORES_PER_ISLAND_MAX);
    program.store_at(MASK, cores);
    program.call(Sys::SchedSetaffinity, &[0, 8, MASK]);
    program.or_exit(100);
    program.asm.li(count, ROUNDS);
    program.asm.li(value, 1);
    let again = program.asm.here();
    program.call(Sys::Mmap, &[AT, 4096, 3, 0x32, u64::MAX, 0]);
    program.or_exit(101);
    program.asm.op_i(Op::VectorSet, value, 0, 0);
    program.asm.li(at, AT);
    program.asm.op_i(Op::St64, value, at, 8);
    program.asm.op_i(Op::VectorGet, seen, 0, 0);
    let [first, second] = [(), ()].map(|()| program.asm.label());
    program.asm.branch(Op::Beq, seen, value, first);
    program.exit(LOST);
    program.asm.bind(first);
    program.arg_string(0, "v");
    program.asm.syscall(DONE, &[]);
    program.or_exit(102);
    program.asm.op_i(Op::Ld64, seen, at, 8);
    program.asm.branch(Op::Beq, seen, value, second);
    program.exit(LOST);
    program.asm.bind(second);
    // The core that waits for the thread has this space active.
    program.call(Sys::Munmap, &[AT, 4096]);
    let scratch = program.asm.roles.args[5];
    program.asm.li(scratch, 3);
    program.asm.op(Op::Mul, value, value, scratch);
    program.asm.li(scratch, u64::MAX);
    program.asm.op(Op::Add, count, count, scratch);
    program.asm.li(scratch, 0);
    program.asm.branch(Op::Bne, count, scratch, again);
    program.exit(0);
}

/// `init`, whose child goes and comes; it is stopped and goes on. Ends with 0 unless the child has lost something.
fn scenario() -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, status, wanted, _, _] = program.asm.roles.saved;
        program.store_at(NAP, 0);
        program.store_at(NAP + 8, 30_000);
        let child = program.fork(pid);
        for signal in [SIGSTOP, SIGCONT] {
            program.call(Sys::Nanosleep, &[NAP, 0]);
            program.arg_from(0, pid);
            program.arg(1, signal.into());
            program.call_as_is(Sys::Kill);
        }
        program.wait();
        program.load_u32(status, DATA + 8);
        let good = program.asm.label();
        // An island's death has ended it, or the instruction is nowhere any more.
        for ends in [0, u64::from(SIGKILL), u64::from(SIGILL)] {
            program.asm.li(wanted, ends);
            program.asm.branch(Op::Beq, status, wanted, good);
        }
        program.exit(LOST);
        program.asm.bind(good);
        program.print(1, "kept\n");
        program.exit(0);
        program.asm.bind(child);
        goes_and_comes(program);
    });
    Scenario { files: vec![("goes", program)], command: vec!["/goes"], ..Scenario::default() }
}

fn run(driver: Driver, faults: Faults) -> Result<(u64, [u64; 3]), motet_hal_hosted::Failure> {
    let mut config = Config::new(driver, islands());
    config.faults = faults;
    let (ended, switches) = boot_and_look(config, &scenario(), |pool| {
        [0, 1, 2].map(|index: usize| pool.header().islands[index].counters.context_switches.load(Ordering::Relaxed))
    })?;
    assert_eq!((ended.status, ended.output.as_str()), (0, "kept\n"), "{faults:?}: {}", ended.errors);
    Ok((ended.steps, switches))
}

#[test]
fn a_thread_goes_and_comes_in_the_states_of_idle_cores() {
    let all_have_run = |(_, switches): (u64, [u64; 3])| {
        assert!(switches[1] > ROUNDS / 2 && switches[2] > ROUNDS / 2, "each island has run it: {switches:?}");
    };
    // It may find its home awake, and stays: with late doorbells, often.
    let both_have_run = |(_, switches): (u64, [u64; 3])| {
        assert!(switches[1] > 1 && switches[2] > 1, "each island has run it: {switches:?}");
    };
    // Threads of the host may find it awake each time.
    run(Driver::Threads, Faults::default()).unwrap_or_else(|failure| panic!("{failure}"));
    let seeds = env("MOTET_SEEDS", 20);
    run_seeds(0..seeds, |seed| run(Driver::Seeded(seed), Faults::default()).map(all_have_run));
    run_seeds(1000..1000 + seeds, |seed| run(Driver::Seeded(seed), ROUGH).map(both_have_run));
}

/// With a point at every atomic operation (`./motet test model`), either island dies in the middle of each step of the hand-over.
#[test]
fn whichever_island_dies_the_thread_that_goes_and_comes_ends() {
    let (mut well, mut locks) = (0, 0);
    for victim in [1, 2] {
        let seed = env("MOTET_FIRST", 0);
        let (steps, _) = run(Driver::Seeded(seed), Faults::default()).unwrap();
        let (stride, offset) = stride(steps / 80, steps / 2000 + 1);
        for step in (steps / 3 + offset..steps).step_by(stride as usize) {
            let faults = Faults { death: Some((IslandId(victim), step)), survives: true, ..Faults::default() };
            match run(Driver::Seeded(seed), faults) {
                Ok(_) => well += 1,
                Err(failure) => {
                    assert!(has_died_with_a_lock(&failure), "death of {victim} at step {step}: {failure}");
                    locks += 1;
                }
            }
        }
    }
    println!("{well} ended well, {locks} with a lock held");
    assert!(well > 5 * locks, "{well} ended well, {locks} with a lock held");
}

/// The first core of each of these islands.
fn set_affinity(program: &mut Program, islands: &[usize]) {
    program.store_at(MASK, islands.iter().map(|island| 1 << (island * CORES_PER_ISLAND_MAX)).sum());
    program.call(Sys::SchedSetaffinity, &[0, 8, MASK]);
    program.or_exit(100);
}

fn hint(program: &mut Program, number: u64, extension: &str) {
    program.arg_string(0, extension);
    program.asm.syscall(number, &[]);
    program.or_exit(102);
}

/// Exits with [`LOST`] unless the first vector register has this value.
fn expect_vector(program: &mut Program, value: u64) {
    let [wanted, seen, ..] = program.asm.roles.saved;
    let same = program.asm.label();
    program.asm.op_i(Op::VectorGet, seen, 0, 0);
    program.asm.li(wanted, value);
    program.asm.branch(Op::Beq, seen, wanted, same);
    program.exit(LOST);
    program.asm.bind(same);
}

fn set_vector(program: &mut Program, value: u64) {
    let [register, ..] = program.asm.roles.saved;
    program.asm.li(register, value);
    program.asm.op_i(Op::VectorSet, register, 0, 0);
}

/// A program on one island without vectors and two with some, of several seeds: its output.
fn run_alone(tids: u32, write: impl FnOnce(&mut Program), check: impl Fn(&str)) {
    let program = Program::build(Isa::RiscV64, write);
    let scenario = Scenario { files: vec![("alone", program)], command: vec!["/alone"], tids, ..Scenario::default() };
    run_seeds(0..3, |seed| {
        let with_vectors = || IslandConfig::with_vectors(1, 16);
        let islands = vec![IslandConfig::foreign(Isa::RiscV64, 1), with_vectors(), with_vectors()];
        let (ended, ()) = boot_and_look(Config::new(Driver::Seeded(seed), islands), &scenario, |_| ())?;
        assert_eq!(ended.status, 0, "seed {seed}: {}", ended.errors);
        check(&ended.output);
        Ok(())
    });
}

#[test]
fn values_in_vector_registers_are_dropped_only_when_these_are_named() {
    let write = |program: &mut Program| {
        hint(program, NEED, "v");
        hint(program, NEED, "zvl128b");
        set_vector(program, 7);
        hint(program, DONE, "zvl128b");
        expect_vector(program, 7);
        hint(program, DONE, "v");
        expect_vector(program, 0);
        program.exit(0);
    };
    run_alone(0, write, |_| ());
}

/// Two cores hold the same values. Dropped on one of them, they are not found on the other.
#[test]
fn dropped_values_do_not_come_back_where_they_were_before() {
    let write = |program: &mut Program| {
        set_affinity(program, &[0, 1]);
        set_vector(program, 7);
        set_affinity(program, &[0, 2]);
        expect_vector(program, 7);
        hint(program, DONE, "v");
        set_affinity(program, &[0, 1]);
        expect_vector(program, 0);
        program.exit(0);
    };
    run_alone(0, write, |_| ());
}

/// A core holds the registers of a thread that has gone on and ended elsewhere. Another one gets its record and its id, and comes to that core.
#[test]
fn registers_that_a_core_holds_are_no_later_threads() {
    const CHILDREN: u64 = 12;
    let write = |program: &mut Program| {
        let [pid, value, seen, status, _] = program.asm.roles.saved;
        set_affinity(program, &[0]);
        for child in 1..=CHILDREN {
            program.fork_with(pid, |program| {
                // Every other one ends at once: then the first one's id is next.
                if child % 2 != 0 {
                    program.asm.li(value, child);
                    program.asm.op_i(Op::ExtSet, value, 0, 0);
                    for island in [1, 2] {
                        set_affinity(program, &[island]);
                        let same = program.asm.label();
                        program.asm.op_i(Op::ExtGet, seen, 0, 0);
                        program.asm.branch(Op::Beq, seen, value, same);
                        program.exit(LOST);
                        program.asm.bind(same);
                    }
                }
                program.exit(0);
            });
            program.wait();
            program.load_u32(status, DATA + 8);
            program.asm.li(value, 0);
            let good = program.asm.label();
            program.asm.branch(Op::Beq, status, value, good);
            program.exit(LOST);
            program.asm.bind(good);
        }
        program.exit(0);
    };
    run_alone(4, write, |_| ());
}

/// A thread goes and comes so soon that the core with vectors waits for it with its timer set. Most of a slice goes by there each time.
#[test]
fn a_slice_does_not_end_with_an_earlier_one() {
    const STAYS_NS: u64 = 7_000_000;
    const VISITS: u64 = 6;
    const TEXT: u64 = DATA + 0x1000;
    let write = |program: &mut Program| {
        let [first, second, third, length, _] = program.asm.roles.saved;
        set_affinity(program, &[0, 1]);
        for visit in 0..VISITS {
            set_vector(program, visit);
            program.repeat_for(STAYS_NS, [first, second, third], DATA + 144, |_| ());
            expect_vector(program, visit);
            hint(program, DONE, "v");
        }
        program.arg(0, u64::MAX - 99); // AT_FDCWD
        program.arg_string(1, "/proc/self/migrations");
        program.arg(2, 0);
        program.call_as_is(Sys::Openat);
        program.or_exit(103);
        program.result_to(first);
        program.arg_from(0, first);
        for (index, value) in [(1, TEXT), (2, 0x1000), (3, 0)] {
            program.arg(index, value);
        }
        program.call_as_is(Sys::Pread64);
        program.or_exit(104);
        program.result_to(length);
        program.arg(0, 1);
        program.arg(1, TEXT);
        program.arg_from(2, length);
        program.call_as_is(Sys::Write);
        program.exit(0);
    };
    run_alone(0, write, |output| {
        let count = |key: &str| output.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        assert_eq!(count("to_extension"), Some(VISITS), "{output}");
        // Once before there is an area for them. When a slice ends, they are closed, and opened again for their next use.
        assert_eq!(count("opened"), Some(1), "{output}");
    });
}

/// The core with vectors waits for the thread with its space active, from which the thread removes memory elsewhere.
#[test]
fn shoot_downs_do_not_lengthen_the_way_of_a_thread() {
    let all = std::sync::Mutex::new([0, 0]);
    run_seeds(0..10, |seed| {
        let look = |pool: motet_layout::Pool| {
            let counters = &pool.header().islands[2].counters;
            [&counters.context_switches, &counters.heartbeat].map(|count| count.load(Ordering::Relaxed))
        };
        let (ended, counts) = boot_and_look(Config::new(Driver::Seeded(seed), islands()), &scenario(), look)?;
        assert_eq!((ended.status, ended.output.as_str()), (0, "kept\n"), "{}", ended.errors);
        all.lock().expect("no panic").iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        Ok(())
    });
    // Once for its doorbell. The general way looks again what is due: that is 2.2 times each. Where each access of the pool is a step, shoot-downs come in between
    // nearly always, on either way.
    let [switches, looks] = all.into_inner().expect("no panic");
    assert!(cfg!(motet_model) || looks * 10 < switches * 18, "{looks} looks for {switches} arrivals");
}

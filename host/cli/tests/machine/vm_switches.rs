//! Switches from guest to guest on one core: who is more urgent takes it at once, nobody is forgotten, and machines end at any moment.

use std::{fs, path::Path, time::Duration};

use crate::{
    bad_input,
    process::{self, Motet},
    trial::{Trial, of_long, trial},
    vm::{COUNTED, guest},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("vm::a_timer_takes_the_core_from_other_guests_at_once_and_gives_it_back", at_once),
        trial("vm::a_guest_that_sets_its_timer_for_ever_delays_no_real_time_guest", alarms),
        trial("vm::guests_of_one_core_end_and_stop_at_any_moment", ends),
        trial("vm::guests_that_take_turns_end_and_stop_at_any_moment_by_another_island", ends_elsewhere),
        trial("vm::a_real_time_guest_above_programs_and_system_calls_leaves_their_registers", above_programs),
        trial("vm::a_real_time_guest_above_system_calls_prints", prints_above_calls),
        trial("vm::equal_guests_take_turns_beside_programs", rounds),
        trial("vm::equal_guests_that_take_turns_change_and_end_at_any_moment_by_another_island", || rounds_end(1)),
        trial("vm::equal_guests_of_two_cores_change_and_end_at_any_moment_by_another_island", || rounds_end(2)),
    ]
}

/// A machine of one core, whose clocks are simulated or not.
fn machine(options: &[&str], command: &str) -> Motet {
    machine_of(&process::root().join("machines/ker-one.toml"), options, command)
}

/// The same of a machine file.
fn machine_of(file: &Path, options: &[&str], command: &str) -> Motet {
    let guest = guest();
    Motet::run(["--quiet".as_ref(), "--machine".as_ref(), file.as_os_str(), "--in".as_ref(), guest.as_os_str()])
        .arguments(options)
        .arguments(["--", command])
        .limit(Duration::from_secs(2400))
}

/// What the guest `times` has waited each time for a millisecond, in ticks of 100 ns.
fn waits(output: &str) -> Vec<u32> {
    output.lines().filter_map(|line| line.split_once(' ')?.1.trim().parse().ok()).collect()
}

/// Whether a guest has waited so many times for its timer, a millisecond each, and has run within 20 us of that: within 60 the first time, when nothing of its
/// way is in a cache (48 to 52 us, as the kernel's code lies).
fn are_short(waits: &[u32], count: usize) -> bool {
    waits.len() == count
        && waits.iter().all(|ticks| (10_000..10_600).contains(ticks))
        && waits[1..].iter().all(|ticks| *ticks < 10_200)
}

/// Two guests that compute, and one that waits for its timer five times: it runs at once. Before and after, the others go on, each for a part.
fn at_once() -> Result<(), String> {
    let command = "time() { awk -v id=$1 '$1 == id { print $7 }' /proc/vms; }; \
        share() { a=$(time 1) b=$(time 2); sleep 0.05; a=$(($(time 1) - a)) b=$(($(time 2) - b)); \
            [ $a -ge 15 ] && [ $b -ge 15 ] && echo both || echo $a $b; }; \
        echo -1 >/proc/sys/kernel/sched_rt_runtime_us; \
        vm run --append spin /in/guest & vm run --append spin /in/guest & sleep 0.05; share; \
        vm run --real-time 50 --append times /in/guest; share; vm kill 1; vm kill 2; wait";
    let ended = machine(&["--timed", "--deterministic", "--quantum", "2"], command).wait();
    let output = ended.expect_code(0)?.output.clone();
    let is_at_once = are_short(&waits(&output), 5);
    let goes_on = output.lines().filter(|line| line.trim() == "both").count() == 2;
    if is_at_once && goes_on { Ok(()) } else { Err(output) }
}

/// A real-time guest waits for its timer beside one that sets its own again and again: each interrupt comes at once, whatever the other's timer is set to when
/// it is due.
fn alarms() -> Result<(), String> {
    const WAITS: usize = 200;
    let command = format!(
        "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; vm run --append alarms /in/guest & sleep 0.02; \
         vm run --real-time 50 --append 'times {WAITS}' /in/guest; vm kill 1; wait"
    );
    let ended = machine(&["--timed", "--deterministic", "--quantum", "2"], &command).wait();
    let output = ended.expect_code(0)?.output.clone();
    if are_short(&waits(&output), WAITS) { Ok(()) } else { Err(output) }
}

/// Real-time guests that wait for their timers, beside ones that compute, are stopped, go on and are killed at random moments. Then there is none left, and
/// another one runs.
fn ends() -> Result<(), String> {
    let seed = bad_input::seed();
    let (first, rounds) = (seed % 30_000, of_long(8, 25));
    let command = format!(
        "vm run --append spin /in/guest & spin=$!; vm run --append spin /in/guest & other=$!; \
         n=0; r={first}; while [ $n -lt {rounds} ]; do r=$(((r * 1103 + 12345) % 30000)); \
         vm run --real-time $((50 + n % 3)) --append 'ticks 100000' /in/guest >/dev/null & one=$!; \
         vm run --real-time 51 --append 'ticks 100000' /in/guest >/dev/null & two=$!; \
         usleep $((20000 + r)); kill -STOP $one; usleep $((r / 3)); kill -CONT $one; usleep $((r / 2)); kill -KILL $one; \
         usleep $((r / 4)); kill -KILL $two; wait $one $two; n=$((n + 1)); done 2>/dev/null; \
         kill -KILL $spin $other; wait $spin $other; vm list | wc -l; vm run --append hello /in/guest"
    );
    let ended = machine(&[], &command).wait();
    let context = |error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE);
    ended.expect_code(0).map_err(context)?.expect_output("1\nhello from a guest\n").map(drop).map_err(context)
}

/// One RISC-V core has a guest that computes, and a real-time one that waits for its timer again and again, and computes nothing: the two take turns. A shell of another
/// island stops them, lets them go on, and kills them at random moments, the lower or the upper one first; and one that waits for no timer any more. Before that,
/// two have taken turns often, as the core has counted.
fn ends_elsewhere() -> Result<(), String> {
    let seed = bad_input::seed();
    let (first, rounds) = (seed % 30_000, of_long(6, 16));
    let command = format!(
        "{COUNTED}vm run --append spin /in/guest & lower=$!; vm run --real-time 50 --append 'rest 1000000' /in/guest & upper=$!; \
         n=0; while [ $n -lt 3000 ] && [ $(counted TURN) -lt 100 ]; do usleep 10000; n=$((n + 1)); done; \
         [ $(counted TURN) -ge 100 ] && echo turns || cat /proc/vms; kill -KILL $lower $upper; wait $lower $upper; \
         n=0; r={first}; while [ $n -lt {rounds} ]; do r=$(((r * 1103 + 12345) % 30000)); \
         vm run --append spin /in/guest & lower=$!; vm run --real-time 50 --append \"rest $((n % 4 * 1000 + 10))\" /in/guest & upper=$!; \
         usleep $((100000 + r)); kill -STOP $upper; usleep $((r / 5)); kill -CONT $upper; usleep $((r / 3)); \
         kill -STOP $lower; usleep $((r / 7)); kill -CONT $lower; usleep $((r / 4)); \
         [ $((n % 3)) = 0 ] && a=$lower b=$upper || a=$upper b=$lower; \
         kill -KILL $a; wait $a; [ $? = 137 ] || echo $a; usleep $((r / 6)); kill -KILL $b; wait $b; [ $? = 137 ] || echo $b; \
         n=$((n + 1)); done 2>/dev/null; vm list | wc -l; vm run --append hello /in/guest"
    );
    run_from_another_island(seed, 1, &command, "turns\n1\nhello from a guest\n")
}

/// Runs a command on an x86-64 core, beside so many RISC-V cores, which have the guests; what it is to print.
fn run_from_another_island(seed: u64, cores: usize, command: &str, output: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("machine.toml");
    let island = |name, isa, cores| format!("[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = {cores}\n");
    let text = format!("[pool]\nsize = \"1GiB\"\n{}{}", island("x86", "x86_64", 1), island("riscv", "riscv64", cores));
    fs::write(&file, text).map_err(|error| error.to_string())?;
    let motet =
        Motet::run(["--quiet".as_ref(), "--machine".as_ref(), file.as_os_str(), "--in".as_ref(), guest().as_os_str()]);
    let ended = motet.arguments(["--", command]).limit(Duration::from_secs(2400)).wait();
    let context = |error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE);
    ended.expect_code(0).map_err(context)?.expect_output(output).map(drop).map_err(context)
}

/// Programs compute in floating-point registers, fork, execute and copy, and a real-time guest, which adds up in such registers, runs above them at each of its
/// ticks, as the core has counted: no other guest is there. All results are right.
fn above_programs() -> Result<(), String> {
    let command = format!(
        "{COUNTED}echo -1 >/proc/sys/kernel/sched_rt_runtime_us; \
         sums() {{ awk 'BEGIN {{ for (n = 1; n < 20000; n++) {{ x += 1 / n; y += x * x / n }} printf \"%.12f %.12f\", x, y }}'; }}; \
         want=$(sums); vm run --real-time 50 --append 'adds 3000' /in/guest & guest=$!; \
         n=0; while [ $n -lt 3000 ] && [ $(counted TURN) -lt 100 ]; do usleep 10000; n=$((n + 1)); done; \
         [ $(counted TURN) -ge 100 ] && echo above || cat /proc/vms; \
         n=0; while [ $n -lt 20 ]; do [ \"$(sums)\" = \"$want\" ] || echo wrong; \
         dd if=/dev/zero of=/tmp/copy bs=256k count=4 2>/dev/null; n=$((n + 1)); done; wait $guest"
    );
    let ended = machine(&[], &command).wait();
    ended.expect_code(0)?.expect_output("above\nfloating point lives: yes\n").map(drop)
}

/// A real-time guest prints at each of its ticks, which ends its stay above the system calls of a loop of programs: it goes on as soon as the call is over, and no
/// byte is lost or printed twice.
fn prints_above_calls() -> Result<(), String> {
    const TICKS: usize = 200;
    let command = format!(
        "echo -1 >/proc/sys/kernel/sched_rt_runtime_us; (while :; do /bin/true; done) & busy=$!; \
         (while :; do dd if=/dev/zero of=/tmp/copy bs=256k count=4 2>/dev/null; done) & copies=$!; \
         vm run --real-time 50 --append 'ticks {TICKS}' /in/guest; kill $busy $copies"
    );
    let ended = machine(&[], &command).wait();
    let lines: String = (0..TICKS).map(|tick| format!("tick {tick}\n")).collect();
    ended.expect_code(0)?.expect_output(&lines).map(drop)
}

/// A core of few instructions a second: what matters is how long slices are, and simulating it costs as much less.
const SLOW: &str = "[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 1\nguests = true\n\
    [[model.core]]\nfrequency_mhz = 100\ncpi = 1.0\nmemory_cycles = 0\n";

/// Three guests that compute get equal parts of a core, also beside a program that computes. Who sleeps has its turn after theirs.
fn rounds() -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    fs::write(file.path(), SLOW).map_err(|error| error.to_string())?;
    let command = "times() { awk '$1 <= 3 { printf \"%d \", $7 }' /proc/vms; }; \
        parts() { set -- $(times) && sleep 0.4 && set -- $* $(times) && echo $(($4 - $1)) $(($5 - $2)) $(($6 - $3)); }; \
        for n in 1 2 3; do vm run --append spin /in/guest & done; sleep 0.2; parts; \
        (while :; do :; done) & busy=$!; parts; kill $busy; \
        n=0; while [ $n -lt 10 ]; do usleep 1000; n=$((n + 1)); done; parts; vm kill 1; vm kill 2; vm kill 3; wait";
    let ended = machine_of(file.path(), &["--timed", "--deterministic", "--quantum", "2"], command).wait();
    let output = ended.expect_code(0)?.output.clone();
    let are_equal = |line: &str| {
        let parts: Vec<u32> = line.split(' ').filter_map(|part| part.trim().parse().ok()).collect();
        let (least, most) = (parts.iter().min(), parts.iter().max());
        parts.len() == 3 && least >= Some(&80) && least.zip(most).is_some_and(|(least, most)| most - least <= 40)
    };
    let are_all = output.lines().count() == 3 && output.lines().all(are_equal);
    if are_all { Ok(()) } else { Err(output) }
}

/// RISC-V cores, one or two, have three guests that compute. A shell of another island stops them, lets them go on, makes them nicer, real-time and ordinary threads,
/// and kills them, at random moments. Of two cores, one has a turn to give as long as the other one is busy, and a guest to give when that is idle.
fn rounds_end(cores: usize) -> Result<(), String> {
    let seed = bad_input::seed();
    let (first, rounds) = (seed % 30_000, of_long(5, 12));
    let command = format!(
        "n=0; r={first}; while [ $n -lt {rounds} ]; do r=$(((r * 1103 + 12345) % 30000)); \
         vm run --append spin /in/guest & a=$!; vm run --append spin /in/guest & b=$!; vm run --append spin /in/guest & c=$!; \
         usleep $((150000 + r)); kill -STOP $a; usleep $((r * 2)); kill -CONT $a; usleep $r; renice 5 $b >/dev/null; usleep $((r * 2)); \
         for t in /proc/$c/task/*; do chrt -r -p 10 ${{t##*/}}; done; usleep $r; for t in /proc/$c/task/*; do chrt -o -p 0 ${{t##*/}}; done; \
         usleep $((r * 2)); kill -STOP $b $c; usleep $((r / 3)); kill -CONT $c; \
         for p in $b $a $c; do usleep $((r / 2)); kill -KILL $p; wait $p; [ $? = 137 ] || echo $p; done; \
         n=$((n + 1)); done 2>/dev/null; vm list | wc -l; vm run --append hello /in/guest"
    );
    run_from_another_island(seed, cores, &command, "1\nhello from a guest\n")
}

//! Cores that are taken out at run time, and come back (`docs/protocols/hotplug.md`).

use std::{fs, time::Duration};

use crate::{
    crossing::{Programs, source},
    extensions::Machine,
    process::{Ended, Motet, root},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 9] = [
        ("hotplug::cores_leave_and_come_back_as_on_linux", leave_and_come_back),
        ("hotplug::what_cannot_be_done_is_refused_as_on_linux", refused),
        ("hotplug::threads_go_to_cores_that_are_left", displaced),
        ("hotplug::a_mask_of_which_no_core_is_left_is_widened", widened),
        ("hotplug::an_instruction_whose_cores_are_all_out_is_named", nowhere),
        ("hotplug::storms_of_forks_and_pipes_do_not_notice", storm),
        ("hotplug::a_thousand_threads_want_one_core_with_vectors_that_comes_and_goes", crowd),
        ("hotplug::threads_leave_hidden_harts_that_are_taken_out", hidden),
        ("hotplug::simulated_time_goes_on_without_cores_that_are_out", simulated),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

const CPU: &str = "cd /sys/devices/system/cpu";
/// Several cores of each instruction set: 0 and 1, 16 and 17, 32 to 34.
const SEVEN_CORES: &str = "[[island]]\nname = \"x86\"\nisa = \"x86_64\"\ncores = 2\n\
    [[island]]\nname = \"arm\"\nisa = \"aarch64\"\ncores = 2\n\
    [[island]]\nname = \"riscv\"\nisa = \"riscv64\"\ncores = 3\n";
/// An island of whose cores the last two have vector registers.
const MIXED: &str = "[[island]]\nname = \"mixed\"\nisa = \"riscv64\"\ncores = 4\ncpu = \"rv64,v=true,vlen=256\"\n\
    extensions = [\"-v\"]\n[[island.core]]\ncores = [2, 3]\nextensions = [\"v\"]\n";

/// On the default machine, of cores 0, 16, 32 and 33.
fn run(command: &str) -> Ended {
    Motet::run(["--", command]).wait()
}

fn leave_and_come_back() -> Result<(), String> {
    let show = "echo $(cat online) / $(cat offline) / $(cat cpu33/online) / $(nproc) / $(grep -c ^processor /proc/cpuinfo) / \
        $(grep -c '^cpu[0-9]' /proc/stat)";
    // What a core is, and which others there are near it.
    let what = "for core in 16 32; do cd cpu$core; echo $(cat isa vector_bytes topology/physical_package_id topology/core_id \
        topology/core_siblings topology/package_cpus_list topology/thread_siblings topology/core_cpus_list) $(grep -c zba extensions); cd ..; done";
    let command = format!(
        "{CPU}; cat present possible kernel_max; {what}; echo cpu*; {show}; echo 0 >cpu33/online; {show}; cat cpu32/topology/core_siblings_list; \
         echo 0 >cpu33/online; \
         for i in 1 2 3 4 5; do on riscv64 cut -d ' ' -f 39 /proc/self/stat; done; echo 1 >cpu33/online; {show}"
    );
    let all = "0,16,32-33 / / 1 / 4 / 4 / 4\n";
    let wanted = format!(
        "0,16,32-33\n0,16,32-33\n127\naarch64 0 1 0 0,00010000 16 0,00010000 16 0\n\
         riscv64 0 2 0 3,00000000 32-33 1,00000000 32 1\ncpu0 cpu16 cpu32 cpu33\n{all}0,16,32 / 33 / 0 / 3 / 3 / 3\n32\n\
         32\n32\n32\n32\n32\n{all}"
    );
    run(&command).expect_code(0)?.expect_output(&wanted).map(drop)
}

fn refused() -> Result<(), String> {
    // The last core of an island, other values, a core that there is not, and an ordinary user.
    let command = format!(
        "{CPU}; echo 0 >cpu16/online; echo $?; echo 2 >cpu33/online; echo $?; echo >cpu33/online; echo $?; \
         echo 0 >cpu34/online; echo $?; echo 'u:x:1000:1000::/:/bin/sh' >>/etc/passwd; su u -c 'echo 0 >/sys/devices/system/cpu/cpu33/online'; echo $?; \
         echo 0 >cpu33/online; echo 0 >cpu32/online; echo $?; cat online"
    );
    let ended = run(&command);
    ended.expect_code(0)?.expect_output("1\n1\n1\n1\n1\n1\n0,16,32\n")?;
    let whys = ["Device or resource busy", "Invalid argument", "nonexistent directory", "Permission denied"];
    ended.expect_errors(&whys).map(drop)
}

/// A shell on the core that it takes out goes on on another one.
fn displaced() -> Result<(), String> {
    let command = format!(
        "{CPU}; on riscv64 taskset 200000000 sh -c 'taskset -p 300000000 $$ >/dev/null; \
            (i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done) & \
            echo 0 >cpu33/online; cut -d \" \" -f 39 /proc/$$/stat; wait'; cat online"
    );
    run(&command).expect_code(0)?.expect_output("32\n0,16,32\n").map(drop)
}

/// One that sleeps, and one that computes, may run on the core alone that is taken out.
fn widened() -> Result<(), String> {
    let command = format!(
        "{CPU}; on riscv64 taskset 200000000 sleep 1000 & sleeps=$!; \
         on riscv64 taskset 200000000 sh -c 'touch /out/begun; while [ ! -e /out/removed ]; do :; done; \
            cut -d \" \" -f 39 /proc/$$/stat; grep -c hot_removal.[1-9] /proc/$$/migrations' & \
         until [ -e /out/begun ] && taskset -p $sleeps | grep -q ' 20*$'; do usleep 1000; done; \
         echo 0 >cpu33/online; touch /out/removed; wait $!; taskset -p $sleeps | grep -c ': 1000100010*$'; kill $sleeps; \
         on riscv64 taskset 200000000 true; echo $?"
    );
    let ended = run(&command);
    ended.expect_code(0)?.expect_output("32\n1\n1\n1\n")?;
    ended.expect_errors(&["may run on all cores now: cpu33, the last one of its affinity mask, is taken out"]).map(drop)
}

fn nowhere() -> Result<(), String> {
    let command = format!(
        "{CPU}; echo 0 >cpu2/online; echo 0 >cpu3/online; /in/extension once; echo $?; \
         echo 1 >cpu2/online; /in/extension once; echo $?"
    );
    let ended = Machine::new(MIXED)?.run(&command);
    ended.expect_code(0)?.expect_output("132\ndone\n0\n")?;
    ended.expect_errors(&["needs the riscv64 extension v, and all cores with it are taken out"]).map(drop)
}

/// Takes cores out and has them back until `/out/over` is there.
fn remove_again_and_again(cores: &str) -> String {
    format!(
        "{CPU}; (while [ ! -e /out/over ]; do for core in {cores}; do echo 0 >cpu$core/online || echo stays $core; \
         usleep 1000; echo 1 >cpu$core/online || echo gone $core; done; done) &"
    )
}

fn storm() -> Result<(), String> {
    const ROUNDS: usize = 30;
    let command = format!(
        "{} i=0; while [ $i -lt {ROUNDS} ]; do \
            (on riscv64 sh -c 'seq 1 200 | on x86_64 sort -r | on aarch64 sort -n | on riscv64 tail -1') & \
            (seq 1 300 | on riscv64 wc -l) & (true | true | on aarch64 true) & \
            i=$((i+1)); [ $((i % 6)) = 0 ] && sleep 0.1; done; \
         sleep 1; touch /out/over; wait; cat online",
        remove_again_and_again("1 17 33 34 0 16")
    );
    let machine = Machine::new(SEVEN_CORES)?;
    let ended = machine.run(&command);
    ended.expect_code(0)?;
    let count = |line: &str| ended.output.lines().filter(|found| *found == line).count();
    let (sorted, counted) = (count("200"), count("300"));
    let is_right = (sorted, counted) == (ROUNDS, ROUNDS) && ended.output.lines().count() == 2 * ROUNDS + 1;
    if is_right && ended.output.ends_with("0-1,16-17,32-34\n") { Ok(()) } else { Err(ended.describe()) }
}

fn crowd() -> Result<(), String> {
    let command =
        format!("{} /in/extension crowd 1000; touch /out/over; wait; cat online", remove_again_and_again("2 3 1"));
    let ended = Machine::new(MIXED)?.run(&command);
    ended.expect_code(0)?.expect_output("right 1000 of 1000\n0-3\n").map(drop)
}

/// Uses vectors for ever, without a system call.
const SPINS: &str = r#"
int main(void) {
    for (;;) {
#if defined(__riscv)
        __asm__ volatile(".option push\n.option arch, +v\nvsetivli zero, 2, e64, m1, ta, ma\nvmv.v.i v8, 1\n.option pop" ::: "memory");
#endif
    }
}
"#;

/// Two cores, and two harts that the firmware hides.
fn hidden() -> Result<(), String> {
    let programs = Programs::new()?;
    let [spins, machine] = ["spins.c", "machine.toml"].map(|name| programs.path.join(name));
    fs::write(&spins, SPINS).map_err(|error| error.to_string())?;
    for (name, source) in [("spins", spins), ("extension", source("extension"))] {
        let path = programs.path.join(name).display().to_string();
        let include = format!("-I{}", root().join("tests/guest/cc").display());
        programs.compile(&source, "fat", &["--isa", "riscv64", "-O1", &include, "--emit-isa", "riscv64", &path])?;
    }
    let text = "migration = \"firmware\"\n[pool]\nsize = \"256MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 2\n\
        cpu = \"rv64,v=true\"\nfirmware = \"motet\"\nhidden_harts = 2\n";
    fs::write(&machine, text).map_err(|error| error.to_string())?;
    let command = "cd /sys/devices/system/cpu/hidden; echo $(ls) / $(cat online) / $(cat present); \
        /in/spins & spins=$!; while ! grep -q 'to_hidden.[1-9]' /proc/$spins/migrations && kill -0 $spins; do usleep 1000; done; \
        for hart in 0 1; do echo 0 >hart$hart/online; cat online hart$hart/online; echo 1 >hart$hart/online; done; \
        rounds=0; until grep -q 'hot_removal.[1-9]' /proc/$spins/migrations || [ $((rounds += 1)) -gt 3000 ]; do \
            for hart in 0 1; do echo 0 >hart$hart/online; echo 1 >hart$hart/online; usleep 1000; done; done; \
        grep -c 'hot_removal.[1-9]' /proc/$spins/migrations; kill $spins; \
        (while [ ! -e /out/over ]; do for hart in 0 1; do echo 0 >hart$hart/online; usleep 500; \
            echo 1 >hart$hart/online; done; done) & \
        /in/extension crowd 40; touch /out/over; wait; cat online; \
        echo 0 >hart0/online; echo 0 >hart1/online; echo $?; cat online offline; /in/extension crowd 4";
    let [spins, extension] = ["spins", "extension"].map(|name| programs.path.join(name));
    let motet = Motet::run(["--machine".as_ref(), machine.as_os_str(), "--in".as_ref(), spins.as_os_str()]);
    let ended = motet.argument("--in").argument(&extension).arguments(["--", command]).wait();
    let wanted =
        "hart0 hart1 offline online present / 0-1 / 0-1\n1\n0\n0\n0\n1\nright 40 of 40\n0-1\n1\n1\n0\nright 4 of 4\n";
    ended.expect_code(0)?.expect_output(wanted)?.expect_errors(&["Device or resource busy"]).map(drop)
}

/// Nothing happens for a while with the core out: time goes on to the end of the sleep.
fn simulated() -> Result<(), String> {
    let command = format!(
        "{CPU}; echo 0 >cpu33/online; seq 1 1000 | on riscv64 sort -r | on riscv64 tail -1; cat online; \
         sleep 0.05; echo 1 >cpu33/online; on riscv64 sh -c 'seq 1 300 | sort -n | tail -1'; cat online"
    );
    for options in [&["--timed"][..], &["--timed", "--deterministic"]] {
        let motet = Motet::run(options).arguments(["--", &command]).limit(Duration::from_secs(900));
        motet.wait().expect_code(0)?.expect_output("1\n0,16,32\n300\n0,16,32-33\n")?;
    }
    Ok(())
}

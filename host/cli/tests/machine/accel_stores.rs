//! Stores to registers of the FPGA that are not connected (`docs/protocols/fpga.md`): they change nothing of the program, and permit nothing that its
//! mappings do not; and kernels serve them while the program's or the guest's registers stay in the core.

use motet_layout::Isa;

use crate::{
    accel_guests::guest,
    crossing::compiled,
    process::Motet,
    restart::Machine,
    trial::{Trial, trial},
    vm::COUNTED,
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("accel_stores::a_program_keeps_all_registers_and_gets_its_signals", || kept(&[], "20", 20)),
        ("accel_stores::the_same_in_simulated_time", || kept(&["--timed", "--deterministic"], "20 exact", 1)),
        ("accel_stores::a_guest_that_takes_offers_keeps_its_registers_in_the_core", || guests("qam16 qam16", "")),
        ("accel_stores::a_guest_that_makes_requests_keeps_its_registers_in_the_core", || {
            guests("qam16", "--accel fft1024")
        }),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

/// A region of which each of two accelerators is made within 1.4 ms.
const ONE_REGION: &str = "[fpga]\nexpire_us = 1\nport_kib_ns = 12000\n[[fpga.region]]\nbitstream = 117450\n\
    [[fpga.accelerator]]\nname = \"qam16\"\nframe_ns = 47000\nregions = [1]\n\
    [[fpga.accelerator]]\nname = \"fft1024\"\nframe_ns = 33600\nregions = [1]\n";

fn island(name: &str, isa: Isa) -> String {
    format!("[[island]]\nname = \"{name}\"\nisa = \"{}\"\ncores = 1\n", isa.name())
}

/// Of the stores of a round, at least one takes an offer and two are requests. Each is one that the kernel serves quickly, unless an interrupt comes, or the host is
/// late to decide a request: the program runs at most so many times, until there were enough.
fn kept(arguments: &[&str], words: &str, times: u32) -> Result<(), String> {
    let programs = compiled("stores", &["-O2", "--isa", "aarch64"])?;
    let machine = Machine::new(&format!("{}{ONE_REGION}", island("one", Isa::AArch64)))?;
    let command = format!(
        "served() {{ awk '$1 == \"register_stores\" {{ print $2 }}' /proc/motet; }}; n=0; \
         until /in/stores {words}; [ $(served) -ge 40 ] || [ $((n += 1)) -ge {times} ]; do :; done; served"
    );
    let ended = Motet::run(["--quiet", "--in"])
        .argument(programs.path.join("stores"))
        .argument("--machine")
        .argument(machine.0.path().join("machine.toml"))
        .arguments(arguments)
        .arguments(["--", &command])
        .wait();
    let mut lines = ended.expect_code(0)?.output.lines().rev();
    let served = lines.next().and_then(|count| count.parse::<u32>().ok());
    if served >= Some(40) && lines.all(|line| line == "right") { Ok(()) } else { Err(ended.describe()) }
}

/// A shell of another island waits until guests, each with one of these accelerators and with others, have stored so often that way, and ends them.
fn guests(each: &str, others: &str) -> Result<(), String> {
    let image = guest(Isa::RiscV64)?;
    let islands = island("one", Isa::X86_64) + &island("two", Isa::RiscV64);
    let machine = Machine::new(&format!("{islands}{ONE_REGION}"))?;
    let command = format!(
        "{COUNTED}for one in {each}; do \
         vm run --accel $one {others} --append 'part=allocations rounds=100000' /in/guest-accelerated & guests=\"$guests $!\"; done; \
         n=0; while [ $n -lt 3000 ] && [ $(counted STORE) -lt 20 ]; do usleep 10000; n=$((n + 1)); done; \
         [ $(counted STORE) -ge 20 ] && echo served || cat /proc/vms; kill $guests"
    );
    let ended = Motet::run(["--quiet", "--in"])
        .argument(&image)
        .argument("--machine")
        .argument(machine.0.path().join("machine.toml"))
        .arguments(["--", &command])
        .wait();
    ended.expect_code(0)?.expect_output("served\n").map(drop)
}

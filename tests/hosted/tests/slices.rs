//! Programs that share cores: which follows which, and by which way.

use motet_hal_hosted::{Config, Driver, Faults, IslandConfig, run_seeds};
use motet_layout::{Isa, Pool};
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look};

const SEEDS: u64 = 2;
/// A `timespec` for naps, and one for the time.
const NAP: u64 = DATA + 128;
const CLOCK: u64 = DATA + 144;
const ALL_NS: u64 = 100_000_000;
const NAP_NS: u64 = 1_000_000;

/// Two children for each core compute for a while. Or one for each, and one that naps again and again.
fn sharers(cores: usize, naps: bool) -> Scenario {
    let program = Program::build(Isa::RiscV64, |program| {
        let [pid, end, now, scratch, _] = program.asm.roles.saved;
        let computes = program.asm.label();
        let computing = if naps { cores } else { 2 * cores };
        for _ in 0..computing {
            program.fork_to(pid, computes);
        }
        if naps {
            program.fork_with(pid, |program| {
                program.repeat_for(ALL_NS, [end, now, scratch], CLOCK, |program| {
                    program.store_at(NAP + 8, NAP_NS);
                    program.call(Sys::Nanosleep, &[NAP, 0]);
                });
                program.exit(0);
            });
        }
        for _ in 0..computing + usize::from(naps) {
            program.wait();
        }
        program.exit(0);
        program.asm.bind(computes);
        program.repeat_for(ALL_NS, [end, now, scratch], CLOCK, |_| ());
        program.exit(0);
    });
    Scenario { files: vec![("share", program)], command: vec!["/share"], ..Scenario::default() }
}

/// How often the first two cores went from thread to thread by the short way.
fn short_switches(pool: Pool) -> [u64; 2] {
    [0, 1].map(|core: usize| pool.header().cores[core].short_switches.get())
}

/// At the ends of slices, and when a nap is over, a core goes on with another thread by the short way: mostly, as now and then a doorbell or another
/// cause comes with the timer. So it is where the island has several cores.
#[test]
fn cores_go_from_program_to_program_by_the_short_way() {
    for cores in [1, 2] {
        for (naps, least) in [(false, 3), (true, 15)] {
            let scenario = sharers(cores, naps);
            run_seeds(0..2 * SEEDS, |seed| {
                let islands = vec![IslandConfig::foreign(Isa::RiscV64, cores)];
                let mut config = Config::new(Driver::Seeded(seed), islands);
                // Long enough for slices to end.
                (config.faults, config.quantum) = (if seed % 2 == 0 { Faults::default() } else { ROUGH }, 1024);
                let (ended, short) = boot_and_look(config, &scenario, short_switches)?;
                assert_eq!(ended.status, 0, "{}", ended.errors);
                let all: u64 = short.iter().sum();
                assert!(all >= least * if naps { 1 } else { cores as u64 }, "{cores} cores, naps: {naps}: {short:?}");
                Ok(())
            });
        }
    }
}

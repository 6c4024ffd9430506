//! Kernels that share nothing but windows (`docs/protocols/messages.md`), under seeds.

use motet_hal_hosted::{Driver, Faults, WindowConfig, run_seeds};
use motet_layout::{Isa, Peers, sync::Ordering};
use motet_protocol::peer::MessageKind;
use motet_tests_hosted::kernels::{SMALL, boot_kernels, machine};
use motet_tests_hosted::program::Program;
use motet_tests_hosted::{ROUGH, Scenario};

/// A kernel that runs one program for its instruction set.
fn running(isa: Isa, write: impl FnOnce(&mut Program)) -> Scenario {
    Scenario { files: vec![("first", Program::build(isa, write))], command: vec!["/first"], ..Scenario::default() }
}

/// Messages of a kind that a kernel has sent, and taken.
fn counts(peers: &Peers, kind: MessageKind) -> [u64; 2] {
    [&peers.sent, &peers.taken].map(|counts| counts[kind as usize].load(Ordering::Relaxed))
}

/// Kernels that boot, while the first one runs a program.
fn boots(
    driver: Driver,
    faults: Faults,
    kernels: usize,
    windows: WindowConfig,
) -> Result<u64, motet_hal_hosted::Failure> {
    let mut scenarios = vec![Scenario::default(); kernels];
    scenarios[0] = running(Isa::X86_64, |program| {
        program.print(1, "hello\n");
        program.exit(7);
    });
    let config = motet_hal_hosted::Config { faults, ..machine(driver, kernels, windows) };
    let others = kernels as u64 - 1;
    let (ended, ()) = boot_kernels(config, &scenarios, |pools| {
        for (kernel, pool) in pools.iter().enumerate() {
            let peers = &pool.header().peers;
            let all_others = (1 << kernels) - 1 & !(1 << kernel);
            assert_eq!(peers.known.load(Ordering::Relaxed), all_others, "known to kernel {kernel}");
            assert_eq!(counts(peers, MessageKind::NodeInfo), [others; 2], "messages of kernel {kernel}");
            assert!(peers.refused.iter().all(|refused| refused.load(Ordering::Relaxed) == 0));
        }
    })?;
    for (kernel, ended_one) in ended.kernels.iter().enumerate() {
        let wanted = if kernel == 0 { (Some(7), "hello\n") } else { (None, "") };
        assert_eq!((ended_one.status, ended_one.output.as_str()), wanted, "kernel {kernel}: {}", ended_one.errors);
    }
    Ok(ended.trace)
}

#[test]
fn two_and_three_kernels_boot_and_know_each_other() {
    for (kernels, coalesces) in [(2, false), (3, true)] {
        let windows = WindowConfig { coalesces, ..SMALL };
        boots(Driver::Threads, Faults::default(), kernels, windows).unwrap_or_else(|failure| panic!("{failure}"));
        run_seeds(0..5, |seed| boots(Driver::Seeded(seed), Faults::default(), kernels, windows).map(drop));
        run_seeds(1000..1005, |seed| boots(Driver::Seeded(seed), ROUGH, kernels, windows).map(drop));
    }
}

#[test]
fn a_seed_repeats_what_several_kernels_do() {
    let trace = |seed| boots(Driver::Seeded(seed), ROUGH, 3, SMALL).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8));
}

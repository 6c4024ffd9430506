//! Kernels that share nothing but windows (`docs/protocols/messages.md`), under seeds.

use motet_hal_hosted::isa::Op;
use motet_hal_hosted::{Config, Defect, Driver, Failure, Faults, WindowConfig, run_seeds};
use motet_layout::{Isa, IslandId, Peers, sync::Ordering};
use motet_protocol::peer::MessageKind;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::kernels::{KernelsEnded, SMALL, boot_kernels, machine};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, is_long};

const ISAS: [Isa; 3] = [Isa::X86_64, Isa::AArch64, Isa::RiscV64];
const EIO: u64 = 5u64.wrapping_neg();
const EINVAL: u64 = 22u64.wrapping_neg();
/// The status of a program that was not told soon that a kernel takes nothing.
const LATE: u64 = 60;
/// The status of a program to which a write has returned what it should not.
const WRONG: u64 = 61;

/// So many messages; fewer where every atomic operation is a point.
const fn messages(count: u64) -> u64 {
    if cfg!(motet_model) { count / 4 } else { count }
}

/// A kernel that runs one program for its instruction set.
fn running(isa: Isa, write: impl FnOnce(&mut Program)) -> Scenario {
    Scenario { files: vec![("first", Program::build(isa, write))], command: vec!["/first"], ..Scenario::default() }
}

/// Messages of a kind that a kernel has sent, and taken.
fn counts(peers: &Peers, kind: MessageKind) -> [u64; 2] {
    [&peers.sent, &peers.taken].map(|counts| counts[kind as usize].load(Ordering::Relaxed))
}

/// Kernels that boot, while the first one runs a program.
fn boots(driver: Driver, faults: Faults, kernels: usize, windows: WindowConfig) -> Result<u64, Failure> {
    let mut scenarios = vec![Scenario::default(); kernels];
    scenarios[0] = running(Isa::X86_64, |program| {
        program.print(1, "hello\n");
        program.exit(7);
    });
    let config = Config { faults, ..machine(driver, kernels, windows) };
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

/// Opens `/dev/probe`.
fn open(program: &mut Program, fd: u8) {
    program.arg(0, 100u64.wrapping_neg()); // AT_FDCWD
    program.arg_string(1, "/dev/probe");
    program.arg(2, 1); // O_WRONLY
    program.call_as_is(Sys::Openat);
    program.or_exit(100);
    program.result_to(fd);
}

/// Sends the number in a register to a kernel as a probe. Uses the last saved register.
fn probe(program: &mut Program, fd: u8, node: u64, number: u8) {
    program.store_at(DATA + 32, node);
    let [.., at] = program.asm.roles.saved;
    program.asm.li(at, DATA + 40);
    program.asm.op_i(Op::St64, number, at, 0);
    program.arg_from(0, fd);
    program.arg(1, DATA + 32);
    program.arg(2, 16);
    program.call_as_is(Sys::Write);
}

/// Sleeps so long that all messages that were sent are taken.
fn linger(program: &mut Program) {
    program.store_at(DATA + 48, 0);
    program.store_at(DATA + 56, 20_000_000);
    program.call(Sys::Nanosleep, &[DATA + 48, 0]);
}

/// A kernel whose program sends `count` numbers to each of some others, in turn. One of these may fail ([`may_fail`]), then it goes on without it.
fn sender(isa: Isa, nodes: &[u64], count: u64, may_fail: Option<u64>) -> Scenario {
    running(isa, |program| {
        let [fd, number, began, now, scratch] = program.asm.roles.saved;
        open(program, fd);
        program.now_ns(began, scratch, DATA + 64);
        program.asm.li(number, 0);
        let (fails, ends) = (program.asm.label(), program.asm.label());
        let others = nodes.iter().copied().filter(|&node| Some(node) != may_fail);
        // Who may fail comes first: when it does, no other one was told this number.
        let first = may_fail.filter(|node| nodes.contains(node));
        for has_failed in [false, true] {
            if has_failed {
                program.asm.bind(fails);
                judge_failure(program, [began, now, scratch]);
            }
            let again = program.asm.here();
            if let (Some(node), false) = (first, has_failed) {
                probe(program, fd, node, number);
                program.asm.li(scratch, 16);
                program.asm.branch(Op::Bne, program.asm.roles.result, scratch, fails);
            }
            for node in others.clone() {
                probe(program, fd, node, number);
                program.or_exit_unless(16, 50 + node);
            }
            program.asm.op_i(Op::Addi, number, number, 1);
            program.asm.li(scratch, count);
            program.asm.branch(Op::Bltu, number, scratch, again);
            program.asm.jump(ends);
        }
        program.asm.bind(ends);
        linger(program);
        program.exit(0);
    })
}

/// What a failed write has returned, and when.
fn judge_failure(program: &mut Program, [began, now, scratch]: [u8; 3]) {
    let (is_right, result) = (program.asm.label(), program.asm.roles.result);
    program.asm.li(scratch, EIO);
    program.asm.branch(Op::Beq, result, scratch, is_right);
    program.exit(WRONG);
    program.asm.bind(is_right);
    program.now_ns(now, scratch, DATA + 64);
    program.asm.li(scratch, 2_000_000_000);
    program.asm.op(Op::Add, began, began, scratch);
    let is_soon = program.asm.label();
    program.asm.branch(Op::Bltu, now, began, is_soon);
    program.exit(LATE);
    program.asm.bind(is_soon);
    program.print(1, "lost\n");
}

/// Runs kernels that all send to each other; one of them may fail.
fn exchange<T>(
    config: Config,
    count: u64,
    may_fail: Option<u64>,
    look: impl FnOnce(&[&Peers]) -> T,
) -> Result<(KernelsEnded, T), Failure> {
    let kernels = config.islands.len() as u64;
    let others = |kernel: u64| (0..kernels).filter(|&node| node != kernel).collect::<Vec<_>>();
    let scenarios: Vec<Scenario> =
        (0..kernels).map(|kernel| sender(ISAS[kernel as usize], &others(kernel), count, may_fail)).collect();
    boot_kernels(config, &scenarios, |pools| {
        look(&pools.iter().map(|pool| &pool.header().peers).collect::<Vec<_>>()) //
    })
}

/// All that was sent has come, in its order.
fn all_came(peers: &[&Peers], count: u64) {
    for (kernel, own) in peers.iter().enumerate() {
        let of = |words: &[motet_layout::sync::AtomicU64; 4]| -> Vec<u64> {
            words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
        };
        let wanted = |node| if node != kernel && node < peers.len() { count } else { 0 };
        assert_eq!(of(&own.probes), (0..4).map(wanted).collect::<Vec<_>>(), "probes that came to kernel {kernel}");
        assert_eq!(of(&own.refused), [0; 4], "refused by kernel {kernel}");
        assert_eq!(counts(own, MessageKind::Probe), [count * (peers.len() as u64 - 1); 2], "of kernel {kernel}");
    }
}

fn sends_in_order(
    driver: Driver,
    faults: Faults,
    kernels: usize,
    windows: WindowConfig,
    count: u64,
) -> Result<(), Failure> {
    let config = Config { faults, ..machine(driver, kernels, windows) };
    let (ended, rings) = exchange(config, count, None, |peers| {
        all_came(peers, count);
        peers.iter().map(|own| own.doorbells.load(Ordering::Relaxed)).sum::<u64>()
    })?;
    for (kernel, one) in ended.kernels.iter().enumerate() {
        assert_eq!(one.status, Some(0), "kernel {kernel}: {}", one.errors);
    }
    println!("{} steps, {rings} doorbells", ended.steps);
    Ok(())
}

#[test]
fn messages_come_in_order_through_the_smallest_rings() {
    for coalesces in [false, true] {
        let windows = WindowConfig { coalesces, ..SMALL };
        let seed = u64::from(coalesces);
        run_seeds(seed..seed + 1, |seed| {
            sends_in_order(Driver::Seeded(seed), Faults::default(), 2, windows, messages(10_000))
        });
        run_seeds(1000..1003, |seed| sends_in_order(Driver::Seeded(seed), ROUGH, 3, windows, messages(300)));
        sends_in_order(Driver::Threads, Faults::default(), 3, windows, 300)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A planted fault: nothing else would have told a kernel that messages have come.
#[test]
fn doorbells_that_reach_no_other_kernel_are_noticed() {
    // None is full: a kernel whose ring is rings itself, and looks at all.
    let windows = WindowConfig { slots: 16, ..SMALL };
    let config = Config { defect: Some(Defect::ForeignRing), ..machine(Driver::Seeded(1), 2, windows) };
    let came = |peers: &[&Peers]| peers.iter().map(|own| counts(own, MessageKind::Probe)[1]).sum::<u64>();
    let (_, came) = exchange(config, 10, None, came).unwrap_or_else(|failure| panic!("{failure}"));
    assert_ne!(came, 20);
}

/// A kernel dies somewhere; the others learn within two seconds that it takes nothing, and all that they send to each other comes.
#[test]
fn a_kernel_that_dies_does_not_keep_the_others() {
    const COUNT: u64 = messages(100);
    let deaths = if is_long() { 8 } else { 2 };
    let mut lost = 0;
    run_seeds(0..1, |seed| {
        let windows = WindowConfig { coalesces: seed % 2 == 1, ..SMALL };
        let config = |faults| Config { faults, ..machine(Driver::Seeded(seed), 3, windows) };
        for (dead, others) in [(1, [0, 2]), (0, [1, 2])] {
            let (whole, ()) = exchange(config(ROUGH), COUNT, Some(dead), |peers| all_came(peers, COUNT))?;
            for step in (1..=deaths).map(|part| whole.steps * part / (deaths + 1)) {
                let faults = Faults { death: Some((IslandId(dead as u8), step)), survives: true, ..ROUGH };
                let what = format!("seed {seed}, death of kernel {dead} at step {step}");
                let (ended, ()) =
                    exchange(config(faults), COUNT, Some(dead), |peers| go_on(peers, others, COUNT, &what))?;
                lost += have_ended_well(&ended, others, &what);
            }
        }
        Ok(())
    });
    assert!(lost > 0, "nobody has learnt of a death");
}

/// All that two kernels sent to each other has come, in its order.
fn go_on(peers: &[&Peers], [one, other]: [usize; 2], count: u64, what: &str) {
    for (kernel, node) in [(one, other), (other, one)] {
        let own = peers[kernel];
        let seen = [&own.probes, &own.refused].map(|words| words[node].load(Ordering::Relaxed));
        assert_eq!(seen, [count, 0], "{what}: from {node} to {kernel}");
    }
}

/// These kernels' programs have; how many of them have lost another one.
fn have_ended_well(ended: &KernelsEnded, kernels: [usize; 2], what: &str) -> usize {
    let of = |kernel: usize| {
        let one = &ended.kernels[kernel];
        assert_eq!(one.status, Some(0), "{what}, kernel {kernel}: {}", one.errors);
        one.output.matches("lost").count()
    };
    kernels.map(of).iter().sum()
}

/// Kernel 1 writes nonsense into its windows; kernels 0 and 2 go on, and all that they send to each other comes.
#[test]
fn a_kernel_that_writes_nonsense_harms_nobody() {
    const COUNT: u64 = messages(300);
    let (mut runs, mut refused, mut lost, mut broken) = (0, 0, 0, 0);
    run_seeds(0..6, |seed| {
        runs += 1;
        let what = format!("seed {seed}");
        let faults = Faults { nonsense: Some(IslandId(1)), ..ROUGH };
        let windows = WindowConfig { coalesces: seed % 2 == 1, by_reference: seed % 3 == 1, ..SMALL };
        let config = Config { faults, ..machine(Driver::Seeded(seed), 3, windows) };
        let (ended, ()) = exchange(config, COUNT, Some(1), |peers| {
            go_on(peers, [0, 2], COUNT, &what);
            for own in [peers[0], peers[2]] {
                refused += own.refused[1].load(Ordering::Relaxed);
                broken += own.broken.load(Ordering::Relaxed).count_ones();
            }
        })?;
        lost += have_ended_well(&ended, [0, 2], &what);
        Ok(())
    });
    println!("{refused} refused, {broken} not listened to any more, {lost} sends failed");
    assert!(runs < 6 || refused > 0 && broken > 0 && lost > 0);
}

/// Numbers that are not the next one are refused, and who sends too many of them is not listened to any more.
#[test]
fn messages_out_of_order_are_refused() {
    let first = running(Isa::X86_64, |program| {
        let [fd, number, ..] = program.asm.roles.saved;
        open(program, fd);
        for (node, wanted) in [(0, EIO), (2, EIO), (1 << 32 | 1, EIO)] {
            program.asm.li(number, 0);
            probe(program, fd, node, number);
            program.or_exit_unless(wanted, WRONG);
        }
        program.call(Sys::Write, &[3, DATA, 8]);
        program.or_exit_unless(EINVAL, WRONG);
        // Sixteen of them are wrong; nobody takes the last one.
        for sent in [0, 5, 1, 1, 2].into_iter().chain([9; 14]).chain([3]) {
            program.asm.li(number, sent);
            probe(program, fd, 1, number);
            program.or_exit_unless(16, 62);
        }
        linger(program);
        program.exit(0);
    });
    run_seeds(0..3, |seed| {
        let config = Config { faults: ROUGH, ..machine(Driver::Seeded(seed), 2, SMALL) };
        let (ended, ()) = boot_kernels(config, &[first.clone(), Scenario::default()], |pools| {
            let peers = &pools[1].header().peers;
            let word = |word: &motet_layout::sync::AtomicU64| word.load(Ordering::Relaxed);
            assert_eq!((word(&peers.probes[0]), word(&peers.refused[0])), (3, 16));
            assert_eq!((counts(peers, MessageKind::Probe), peers.broken.load(Ordering::Relaxed)), ([0, 3], 1));
        })?;
        assert_eq!(ended.kernels[0].status, Some(0), "{}", ended.kernels[0].errors);
        assert!(ended.kernels[1].errors.contains("kernel 0 has sent what is no message: Order(5)"));
        Ok(())
    });
}

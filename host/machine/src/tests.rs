//! Tests: errors for which machine files are refused, and that the shipped files are accepted.

use super::*;

const GOOD: &str = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";

fn message(text: &str) -> String {
    let error = MachineSpec::parse(text).expect_err("must be refused");
    assert_eq!(error.kind, ErrorKind::Config);
    error.message
}

#[test]
fn what_is_no_text_file_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::fs::write(at("latin"), b"# Stra\xdfe\n").unwrap();
    std::fs::write(at("empty"), "").unwrap();
    File::create(at("large")).unwrap().set_len(4 << 30).unwrap();
    let cases = [
        (folder.path().to_owned(), 66, "is a folder"),
        (at("pipe"), 66, "is a pipe, socket or device"),
        ("/dev/urandom".into(), 66, "is a pipe, socket or device"),
        (at("large"), 78, "larger than 1 MiB"),
        (at("latin"), 78, "byte 6 is not UTF-8"),
        (at("empty"), 78, "empty:1:1: "),
    ];
    for (path, status, message) in cases {
        let error = MachineSpec::load(&path).unwrap_err();
        let named = error.message.contains(&path.display().to_string());
        assert!(named && error.exit_status() == status && error.message.contains(message), "{error}");
    }
}

#[test]
fn accepts_the_shortest_machine() {
    let machine = MachineSpec::parse(GOOD).unwrap();
    assert_eq!(machine.pool, PoolSpec { size: 64 << 20, block: BLOCK_SIZE_DEFAULT });
    assert_eq!(machine.islands[0].private, 64 << 20);
    assert_eq!(machine.core_count(), 1);
}

#[test]
fn unknown_key_is_named_with_a_position() {
    let text = GOOD.replace("cores = 1", "cores = 1\ncolour = 3");
    let message = message(&text);
    assert!(message.starts_with("7:1: ") && message.contains("colour"), "{message}");
}

#[test]
fn semantic_errors_name_key_and_position() {
    for (from, to, want) in [
        ("64MiB", "16MiB", "2:8: size: pool too small: 16MiB, the minimum is 32MiB"),
        ("64MiB", "65MiB", "2:8: size: must be a multiple of 4MiB"),
        ("64MiB", "64 megs", "2:8: pool.size: \"64 megs\" is not a memory size"),
        ("cores = 1", "cores = 17", "6:9: cores: 17, an island has 1 to 16"),
        ("cores = 1", "cores = -1", "6:9: cores: -1"),
        (
            "isa = \"x86_64\"",
            "isa = \"aarch64\"\ncpu = \"cortex-a15\"",
            "6:7: cpu: cortex-a15 has 32 bits, and does not execute AArch64's instructions",
        ),
        ("[pool]", "crossing = \"flock\"\n[pool]", "1:12: crossing: unknown way \"flock\"; known: direct, flick"),
        (
            "cores = 1\n",
            "cores = 1\n[[service]]\n[[service]]\n",
            "8:1: service: a machine has at most one service core",
        ),
        ("cores = 1\n", "cores = 1\n[[service]]\nports = 0\n", "8:9: service.ports: 0; it must be 1 to 32"),
        (
            "cores = 1\n",
            "cores = 1\n[[service]]\nmutexes = 1025\n",
            "8:11: service.mutexes: 1025; it must be 1 to 1024",
        ),
        (
            "cores = 1\n",
            "cores = 1\n[[hardware_thread]]\nname = \"s\"\ndoes = \"sort\"\n",
            "7:1: hardware_thread: a device asks a service core, and the machine has none; add [[service]]",
        ),
        (
            "cores = 1\n",
            "cores = 1\n[[service]]\n[[hardware_thread]]\nname = \"s\"\ndoes = \"sing\"\n",
            "10:8: hardware_thread.does: unknown function \"sing\"; known: sort, filter",
        ),
        (
            "cores = 1\n",
            "cores = 1\n[[service]]\n[[hardware_thread]]\nname = \"s s\"\ndoes = \"sort\"\n",
            "9:8: hardware_thread.name: \"s s\"; a name has 1 to 31 letters",
        ),
        (
            "cores = 1\n",
            "cores = 1\n[[service]]\n[[hardware_thread]]\nname = \"s\"\ndoes = \"sort\"\nelement_ns = -1\n",
            "11:14: hardware_thread.element_ns: -1; it must be 0 to 1000000",
        ),
        (
            "cores = 1\n",
            &*format!("cores = 1\n[[service]]\n{}", "[[hardware_thread]]\nname = \"s\"\ndoes = \"sort\"\n".repeat(2)),
            "12:8: hardware_thread.name: two devices are called \"s\"",
        ),
        (
            "cores = 1\n",
            &*format!("cores = 1\n[[service]]\n{}", "[[hardware_thread]]\nname = \"s\"\ndoes = \"sort\"\n".repeat(17)),
            "56:1: hardware_thread: 17 devices, a machine has at most 16",
        ),
        ("[pool]", "policy = \"best\"\n[pool]", "1:10: policy: unknown policy \"best\"; known: first-touch, adaptive"),
        ("[pool]", "calls = \"bus\"\n[pool]", "1:9: calls: unknown way \"bus\"; known: fastest, stores, dma"),
        (
            "[pool]",
            "calls = \"dma\"\n[pool]",
            "1:9: calls: no [[model.access]] has data = \"uncached\", or no island has a data cache",
        ),
        (
            "[pool]",
            "crossing = \"flick\"\ncalls = \"dma\"\n[pool]",
            "2:9: calls: with crossing = \"flick\", all calls go",
        ),
        ("cores = 1", "cores = 1\npoll_us = 1001", "7:11: poll_us: 1001, an idle core polls for 0 to 1000 us"),
        ("x86_64", "mips", "5:7: isa: unknown instruction set \"mips\"; known: x86_64, aarch64, riscv64"),
        ("\"a\"", "\"a b\"", "4:8: name: "),
        ("cores = 1", "cores = 1\nprivate = \"2GiB\"", "7:11: private: 2GiB for x86_64; must be"),
        ("cores = 1", "cores = 1\ncpu = \"max file=/x\"", "7:7: cpu"),
        ("cores = 1", "cores = 1\nnetwork = \"user\"", "7:11: island.network: "),
        ("cores = 1", "cores = 1\nfirmware = \"motet\"", "7:12: firmware: an island of x86_64 has none to choose"),
        (
            "x86_64\"",
            "riscv64\"\nfirmware = \"uboot\"",
            "6:12: firmware: unknown firmware \"uboot\"; known: opensbi, motet",
        ),
        ("x86_64\"", "riscv64\"\nhidden_harts = 1", "6:16: hidden_harts: only firmware = \"motet\" has some"),
        (
            "x86_64\"",
            "riscv64\"\nfirmware = \"motet\"\nhidden_harts = 17",
            "7:16: hidden_harts: 17, an island has 0 to 16",
        ),
        (
            "x86_64\"",
            "riscv64\"\nfirmware = \"motet\"\nhidden_harts = 1",
            "migration: an island has hidden_harts; that needs migration = \"firmware\"",
        ),
        ("[pool]", "migration = \"firmware\"\n[pool]", "1:13: migration: by firmware, some island needs hidden_harts"),
        ("[pool]", "migration = \"magic\"\n[pool]", "1:13: migration: unknown way \"magic\"; known: fused, firmware"),
        ("x86_64\"", "riscv64\"\nfirmware = 3", "6:12: island.firmware: "),
        (
            "cores = 1",
            "cores = 1\nguests = true",
            "7:10: guests: an island of x86_64 has none; aarch64 and riscv64 can",
        ),
        ("x86_64\"", "aarch64\"\nguests = 1", "6:10: island.guests: "),
        (
            "x86_64\"",
            "riscv64\"\nfirmware = \"motet\"\nhidden_harts = 1\nguests = true",
            "8:10: guests: an island with hidden_harts has none",
        ),
        ("[pool]\nsize = \"64MiB\"\n", "", "missing field `pool`"),
    ] {
        let message = message(&GOOD.replace(from, to));
        assert!(message.contains(want), "{want:?} not in {message:?}");
    }
}

#[test]
fn names_are_unique_and_islands_at_most_eight() {
    let island = "[[island]]\nname = \"a\"\nisa = \"aarch64\"\ncores = 1\n";
    assert!(message(&format!("{GOOD}{island}")).contains("8:8: name: two islands are called \"a\""));
    let many: String = (0..8).map(|i| island.replace("\"a\"", &format!("\"b{i}\""))).collect();
    assert!(message(&format!("{GOOD}{many}")).contains("island: 9 islands, a machine has 1 to 8"));
}

#[test]
fn model_errors_name_key_and_position() {
    let cache = |ways: u32| format!("{{ size = \"32KiB\", ways = {ways}, cycles = 4 }}");
    let core = format!("[[model.core]]\nfrequency_mhz = 2000\nl1d = {}\nmemory_cycles = 300\n", cache(8));
    let ranges = "[[model.range]]\nname = \"x\"\nend = \"8MiB\"\nnear = [\"a\"]\n[[model.range]]\nname = \"y\"\n";
    let link = "[[model.access]]\nisland = \"a\"\nrange = \"y\"\n";
    for (text, want) in [
        (core.replace("2000", "0"), "8:17: model.core.frequency_mhz: 0"),
        (core.replace(&cache(8), &cache(3)), "9:16: model.core.l1d.size: 32KiB in 3 ways"),
        (core.replace("300", "3"), "10:17: model.core.memory_cycles: 3 cycles are less than the 4 of l1d"),
        (
            core.replace("2000", "-1"),
            "8:17: model.core.frequency_mhz: invalid value: integer `-1`, expected a whole number, not negative",
        ),
        (core.replace("2000", "\"fast\""), "8:17: model.core.frequency_mhz: invalid type: string \"fast\""),
        (core.replace("ways = 8", "ways = 1.5"), "9:32: model.core.l1d.ways: invalid type: floating point `1.5`"),
        (
            core.replace(&cache(8), "4"),
            "9:7: model.core.l1d: invalid type: integer `4`, expected { size, ways, cycles }",
        ),
        (format!("{core}memory_cycles = 5"), "11:1: duplicate key `memory_cycles`"),
        (
            "[[model.link.pair]]\nislands = [\"a\", \"a\", \"a\"]".into(),
            "8:11: model.link.pair.islands: 3 islands; a pair is two",
        ),
        (core.replace("memory_cycles = 300", ""), "7:1: missing field `memory_cycles`"),
        (core.replace("memory_cycles", "memory_ns"), "10:1: unknown field `memory_ns`"),
        (format!("{core}island = \"z\""), "11:10: model.core.island: there is no island \"z\"; the islands are a"),
        (format!("{core}{ranges}"), "7:1: model.core.remote_cycles: is missing: \"y\" is not near to \"a\""),
        (format!("{core}{ranges}end = \"9MiB\""), "17:7: model.range.end: the last range ends at 9MiB"),
        (format!("{core}{ranges}start = \"9MiB\""), "17:9: model.range.start: 9MiB leaves a hole"),
        ("[model.dma]\nkib_ns = 18446744073709551615".into(), "8:10: "),
        ("[model.dma]\nkib_ns = 0".into(), "8:10: model.dma.kib_ns: 0; 1024 bytes take 1 to 1000000 nanoseconds"),
        ("[model]\ncolour = 1".into(), "8:1: unknown field `colour`"),
        (
            format!("{core}trap_entry_cycles = 1000001"),
            "11:21: model.core.trap_entry_cycles: 1000001; at most 1000000 cycles",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}bandwidth_mb_s = 0"),
            "21:18: model.access.bandwidth_mb_s: 0; a link carries 1 to 1000000 megabytes per second",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}packet_bytes = 24"),
            "21:16: model.access.packet_bytes: says how a link is used",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}bandwidth_mb_s = 9\npacket_bytes = -1"),
            "22:16: model.access.packet_bytes: invalid value: integer `-1`",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}combine = true\nbandwidth_mb_s = 9"),
            "21:11: model.access.combine: is for stores past the caches",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{}bandwidth_mb_s = 9", link.replace("\"y\"", "\"x\"")),
            "21:18: model.access.bandwidth_mb_s: is of a link, and \"x\" is near to \"a\"",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}fetch_ns = 149"),
            "21:12: model.access.fetch_ns: 149000 ps are less than the 150000 ps of near memory",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{link}fetch_ns = -1"),
            "21:12: model.access.fetch_ns: invalid value: integer `-1`",
        ),
        (
            format!("{core}remote_cycles = 300\n{ranges}{}fetch_ns = 200", link.replace("\"y\"", "\"records\"")),
            "21:12: model.access.fetch_ns: is of instructions, and there are none in records",
        ),
        (format!("{core}wake_cycles = 1000001"), "11:15: model.core.wake_cycles: 1000001; at most"),
        (format!("{core}syscall_exit_cycles = 1000001"), "11:23: model.core.syscall_exit_cycles: 1000001; at most"),
        (format!("{core}trap_exit_cycles = -1"), "11:20: model.core.trap_exit_cycles: invalid value: integer `-1`"),
        (
            format!("{core}end_of_interrupt_cycles = \"some\""),
            "11:27: model.core.end_of_interrupt_cycles: invalid type: string \"some\"",
        ),
    ] {
        let message = message(&format!("{GOOD}{text}"));
        assert!(message.starts_with(want), "{want:?} does not begin {message:?}");
    }
}

#[test]
fn tlbs_that_cannot_be_are_refused_with_key_and_position() {
    let core = |keys: &str| format!("{GOOD}[[model.core]]\nfrequency_mhz = 2000\nmemory_cycles = 300\n{keys}");
    let both = |dtlb: &str| format!("itlb = {{ entries = 8, ways = 2 }}\ndtlb = {{ {dtlb} }}");
    assert!(MachineSpec::parse(&core(&both("entries = 12, ways = 3, pages = [\"4KiB\", \"2MiB\"]"))).is_ok());
    for (keys, want) in [
        (both("entries = 8, ways = 3"), "11:30: model.core.dtlb.ways: 3; the 8 entries cannot be divided so"),
        (both("entries = 8, ways = 0"), "11:30: model.core.dtlb.ways: 0; the 8 entries cannot be divided so"),
        (both("entries = 0, ways = 1"), "11:20: model.core.dtlb.entries: 0; a TLB has 1 to 65536 entries"),
        (both("entries = 65537, ways = 1"), "11:20: model.core.dtlb.entries: 65537; a TLB has 1 to"),
        (
            both("entries = 12, ways = 2"),
            "11:20: model.core.dtlb.entries: 12 in 2 ways are 6 sets; their number must be",
        ),
        (
            both("entries = 8, ways = 2, pages = [\"4KiB\", \"64KiB\"]"),
            "11:41: model.core.dtlb.pages: 64KiB; pages have 4KiB, 2MiB or 1GiB",
        ),
        (
            both("entries = 8, ways = 2, pages = [\"4KiB\", \"4KiB\"]"),
            "11:41: model.core.dtlb.pages: a size is there twice",
        ),
        (both("entries = 8, ways = 2, pages = [\"2MiB\"]"), "11:41: model.core.dtlb.pages: 4KiB is missing"),
        ("itlb = 4".into(), "10:8: model.core.itlb: invalid type: integer `4`, expected { entries, ways }"),
        (
            both("entries = -8, ways = 1"),
            "11:20: model.core.dtlb.entries: invalid value: integer `-8`, expected a whole",
        ),
        (both("entries = 8"), "11:8: missing field `ways`"),
        ("itlb = { entries = 8, ways = 2 }".into(), "10:8: model.core.itlb: with it goes a dtlb"),
        ("dtlb = { entries = 8, ways = 2 }".into(), "10:8: model.core.dtlb: with it goes an itlb"),
        (
            "l2_tlb = { entries = 8, ways = 2, cycles = 7 }".into(),
            "10:10: model.core.l2_tlb: without itlb and dtlb there can be no second level",
        ),
        (
            format!("{}\nl2_tlb = {{ entries = 8, ways = 2, cycles = 1000001 }}", both("entries = 8, ways = 2")),
            "12:44: model.core.l2_tlb.cycles: 1000001; at most 1000000 cycles",
        ),
        ("walk_cache_entries = 4".into(), "10:22: model.core.walk_cache_entries: without itlb and dtlb no page tables"),
        (
            format!("{}\nwalk_cache_entries = 0", both("entries = 8, ways = 2")),
            "12:22: model.core.walk_cache_entries: 0; a walker remembers 1 to 1024 tables",
        ),
    ] {
        let message = message(&core(&keys));
        assert!(message.starts_with(want), "{want:?} does not begin {message:?}");
    }
}

#[test]
fn only_x86_64_says_what_instructions_for_system_calls_take() {
    let core = "[[model.core]]\nisland = \"a\"\nfrequency_mhz = 1000\nmemory_cycles = 1\nsyscall_entry_cycles = 80\n";
    let timing = |text: &str| MachineSpec::parse(text).unwrap().model_config().unwrap().islands[0].timing.traps;
    let traps = timing(&format!("{GOOD}{core}"));
    assert_eq!((traps.entry_ps, traps.syscall_entry_ps, traps.syscall_exit_ps), (715_000, 80_000, 71_000));
    let other = GOOD.replace("x86_64", "riscv64");
    let wanted = "11:24: model.core.syscall_entry_cycles: system calls of \"a\" are traps like others";
    let message = message(&format!("{other}{core}"));
    assert!(message.starts_with(wanted), "{message}");
    let traps = timing(&format!("{other}{}", core.replace("syscall", "trap")));
    assert_eq!((traps.entry_ps, traps.syscall_entry_ps, traps.wake_ps), (80_000, 80_000, 2_000_000));
}

fn shipped() -> Vec<(std::path::PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut machines: Vec<_> = paths.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    machines.sort();
    machines
}

#[test]
fn shipped_machines_parse() {
    let machines = shipped();
    for (path, _) in &machines {
        MachineSpec::load(path).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(machines.len() >= 13);
}

/// Changes a machine file somewhere: `what` chooses how, `at` where.
fn mutate(text: &str, what: u8, at: usize) -> String {
    const WORDS: [&str; 16] = [
        "0",
        "1",
        "3",
        "-1",
        "63",
        "4294967296",
        "9223372036854775807",
        "18446744073709551615",
        "99999999999999999999999",
        "nan",
        "1e308",
        "\"\"",
        "\"16383GiB\"",
        "\"1\"",
        "[]",
        "true",
    ];
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = at % lines.len();
    let other = at / lines.len() % lines.len();
    match what {
        0 => drop(lines.remove(line)),
        1 => lines.insert(other, lines[line].clone()),
        2 => lines.swap(line, other),
        3 => {
            let position = at % text.len();
            let mut bytes = text.as_bytes().to_vec();
            bytes[position] = (at / text.len()) as u8;
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        _ => {
            // Another value behind one of the file's equals signs.
            let values: Vec<usize> = text.match_indices("= ").map(|(position, _)| position + 2).collect();
            let from = values[at % values.len()];
            let len = text[from..].find([',', '}', '\n']).unwrap_or(text.len() - from);
            let word = WORDS[at / values.len() % WORDS.len()];
            return format!("{}{word}{}", &text[..from], &text[from + len..]);
        }
    }
    lines.join("\n")
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 4000, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn changed_machines_are_accepted_or_refused_with_a_position(
        which in 0usize..1000,
        changes in proptest::collection::vec((0u8..8, 0usize..1 << 24), 1..4),
    ) {
        let machines = shipped();
        let (_, text) = &machines[which % machines.len()];
        let text = changes.iter().fold(text.clone(), |text, &(what, at)| {
            if text.contains("= ") { mutate(&text, what, at) } else { text }
        });
        match MachineSpec::parse(&text) {
            Ok(machine) => {
                let config = machine.model_config().unwrap();
                assert!(config.ranges.last().unwrap().end == machine.pool.size);
            }
            Err(error) => {
                let mut parts = error.message.splitn(3, ':');
                let [line, column] = [(); 2].map(|()| parts.next().and_then(|part| part.parse::<usize>().ok()));
                assert!(error.kind == ErrorKind::Config && line >= Some(1) && column >= Some(1), "{error}");
            }
        }
    }
}

#[test]
fn queues_are_fair_unless_the_file_says_otherwise() {
    let with = |queue: &str| {
        MachineSpec::parse(&format!(
            "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 1\n{queue}"
        ))
    };
    let queue = |text: &str| with(text).unwrap().islands[0].queue;
    assert_eq!(
        [queue(""), queue("queue = \"fair\""), queue("queue = \"fifo\"")],
        [Queue::Fair, Queue::Fair, Queue::Fifo]
    );
    let error = with("queue = \"lifo\"").unwrap_err().to_string();
    assert!(error.contains("7:9: queue: unknown order \"lifo\"; known: fair, fifo"), "{error}");
}

#[test]
fn extensions_are_taken_away_from_islands_and_given_back_to_cores() {
    let island = "name = \"a\"\nisa = \"riscv64\"\ncores = 3\nextensions = [\"-v\", \"-zba\"]\n";
    let core = "[[island.core]]\ncores = [2, 0]\nextensions = [\"v\"]\n";
    let text = format!("[pool]\nsize = \"64MiB\"\n[[island]]\n{island}{core}");
    let machine = MachineSpec::parse(&text).unwrap();
    let shown: Vec<String> = machine.islands[0].extensions.iter().map(|set| format!(" {} ", set.withheld)).collect();
    assert!(shown.iter().all(|set| set.contains(" zba ")), "{shown:?}");
    assert_eq!(shown.iter().map(|set| set.contains(" v ")).collect::<Vec<_>>(), [false, true, false]);
    let of_good = &MachineSpec::parse(GOOD).unwrap().islands[0].extensions;
    assert!(of_good.iter().all(|set| set.claimed.is_empty() && set.withheld.is_empty()));
    for (from, to, want) in [
        ("\"-zba\"", "\"-sve\"", "7:21: extensions: `sve` is no extension of riscv64 that Motet knows; it knows "),
        ("[\"v\"]", "[\"w\"]", "10:15: extensions: `w` is no extension of riscv64"),
        ("[2, 0]", "[2, 3]", "9:13: core: cores: 3, the island has cores 0 to 2"),
        ("[2, 0]", "[-1]", "9:10: core: cores: -1, the island has cores 0 to 2"),
        ("[2, 0]", "[2, 2]", "9:13: core: cores: 2 is described twice"),
        ("[2, 0]", "[]", "9:9: core: cores: names no core"),
        ("cores = [2, 0]\n", "", "missing field `cores`"),
    ] {
        let message = message(&text.replacen(from, to, 1));
        assert!(message.contains(want), "{from} -> {to}: {message}");
    }
}

#[test]
fn extensions_of_vendors_are_there_where_the_file_says_so() {
    let island = "name = \"a\"\nisa = \"riscv64\"\ncores = 3\nextensions = [\"custom-1\", \"-zba\"]\n";
    let cores = "[[island.core]]\ncores = [1]\nextensions = [\"custom-0\", \"v\"]\n\
        [[island.core]]\ncores = [2]\nextensions = [\"-custom-1\"]\n";
    let machine = MachineSpec::parse(&format!("[pool]\nsize = \"64MiB\"\n[[island]]\n{island}{cores}")).unwrap();
    let claimed: Vec<String> = machine.islands[0].extensions.iter().map(|set| set.claimed.to_string()).collect();
    assert_eq!(claimed, ["custom-1", "custom-0 custom-1", ""]);
    assert!(machine.islands[0].extensions.iter().all(|set| set.withheld.to_string() == "zba"));
}

/// An FPGA of one region, with a table changed.
fn fpga(from: &str, to: &str) -> String {
    let table = "[fpga]\n[[fpga.region]]\nbitstream = 4096\n[[fpga.accelerator]]\nname = \"fir\"\nframe_ns = 5\nregions = [1]\n";
    let changed = table.replace(from, to);
    assert!(from == to || changed != table, "{from}");
    format!("{GOOD}{changed}")
}

#[test]
fn an_fpga_has_regions_and_accelerators_that_fit() {
    let spec = MachineSpec::parse(&fpga("", "")).unwrap().fpga.unwrap();
    assert_eq!((spec.regions, spec.interfaces, spec.data), (vec![4096], 16, 256 << 10));
    let cases = [
        ("[[fpga.region]]\nbitstream = 4096\n", "", "7:1: fpga.region: 0 of them; an FPGA has 1 to 8"),
        (
            "[fpga]\n",
            "[fpga]\npolicy = \"x\"\n",
            "8:10: fpga.policy: unknown policy \"x\"; known: smallest-first, fewest-reconfigurations, deadline",
        ),
        ("[fpga]\n", "[fpga]\nexpire_us = -1\n", "8:13: fpga.expire_us: -1; it must be 0 to 1000000"),
        (
            "[fpga]\n",
            "[fpga]\nmanager = { search_ns = 1, stop_ns = -1 }\n",
            "8:38: fpga.manager.stop_ns: -1; it must be 0 to 1000000",
        ),
        ("[fpga]\n", "[fpga]\ninterfaces = 65\n", "8:14: fpga.interfaces: 65; it must be 1 to 64"),
        ("[fpga]\n", "[fpga]\ndata = 100\n", "8:8: fpga.data: 100 bytes; it must be a multiple of 4096, up to 16MiB"),
        (
            "[fpga]\n",
            "[fpga]\ndata = \"16MiB\"\ninterfaces = 64\n",
            "8:8: fpga.data: for 64 interfaces 1GiB; that must be a half of the pool (64MiB) at most",
        ),
        ("bitstream = 4096", "bitstream = 0", "9:13: fpga.region.bitstream: 0 bytes; it must be 1 byte to 16MiB"),
        (
            "\"fir\"",
            "\"dct\"",
            "11:8: fpga.accelerator.name: unknown accelerator \"dct\"; known: qam16, qam64, fft512, fft1024, aes128, sha256, fir",
        ),
        ("frame_ns = 5", "frame_ns = 0", "12:12: fpga.accelerator.frame_ns: 0; it must be 1 to 1000000000"),
        ("regions = [1]", "regions = [2]", "13:11: fpga.accelerator.regions: 2; regions are 1 to 1, each at most once"),
        (
            "regions = [1]",
            "regions = [1, 1]",
            "13:11: fpga.accelerator.regions: 1; regions are 1 to 1, each at most once",
        ),
        (
            "regions = [1]",
            "regions = [1]\nunsigned = [2]",
            "14:12: fpga.accelerator.unsigned: 2; it does not fit into that region",
        ),
        (
            "regions = [1]",
            "regions = [1]\nmisplaced = [0]",
            "14:13: fpga.accelerator.misplaced: 0; it does not fit into that region",
        ),
        ("regions = [1]", "regions = []", "13:11: fpga.accelerator.regions: it fits into none"),
    ];
    for (from, to, expected) in cases {
        assert_eq!(message(&fpga(from, to)), expected);
    }
    let twice = fpga("", "") + "[[fpga.accelerator]]\nname = \"fir\"\nframe_ns = 5\nregions = [1]\n";
    assert_eq!(message(&twice), "15:8: fpga.accelerator.name: two are called \"fir\"");
}

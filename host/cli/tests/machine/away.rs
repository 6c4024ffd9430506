//! Threads whose functions other kernels run (`docs/protocols/away.md`): memory that they keep alike by messages, system calls that are made at home.

use std::{ffi::OsStr, path::Path};

use crate::{
    crossing::{Programs, compiled},
    hthreads::source,
    process::{Ended, Motet, root},
    restart::Machine,
    trial::{Trial, of_long, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 10] = [
        ("away::kernels_without_shared_memory_have_one_memory", one_memory),
        ("away::a_fault_in_another_kernel_ends_the_process", fault),
        ("away::handlers_run_wherever_their_pages_are", || signals("handled")),
        ("away::handlers_wait_until_their_thread_is_home", || signals("held")),
        ("away::what_ends_or_is_cut_brings_pages_home", || signals("ends")),
        ("away::two_threads_go_to_two_kernels_again_and_again", again),
        ("away::many_processes_have_functions_run_by_one_kernel", many),
        ("away::pages_that_come_ahead_need_fewer_messages", ahead),
        ("away::pages_are_read_where_another_kernel_has_them", in_place),
        ("away::benchmarks_need_the_messages_that_their_arrays_need", counts),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

fn on(machine: &Path, programs: &Programs, command: &str) -> Ended {
    let options = [OsStr::new("--machine"), machine.as_os_str(), OsStr::new("--in"), programs.path.as_os_str()];
    Motet::run(options).arguments(["--", command]).wait()
}

/// The shipped machine, and the same kernels with rings of two messages, which are always full.
fn one_memory() -> Result<(), String> {
    let programs = compiled("away", &["-O1", "-lm"])?;
    let command = "for turn in 1 2 3; do /in/programs/away || exit; done; grep -E '^(messages_refused|task_exit_remote)' /proc/motet | tr -s ' '";
    let wanted = format!("{}messages_refused 0\ntask_exit_remote 0\n", "from afar\none memory\n".repeat(3));
    on(&root().join("machines/multikernel.toml"), &programs, command).expect_code(0)?.expect_output(&wanted)?;
    let island = |isa: &str| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 2\n");
    let messages = "[messages]\nslots = 2\nslot = \"8KiB\"\ncoalesce = true\n";
    let islands = ["x86_64", "aarch64", "riscv64"].map(island).concat();
    let small = Machine::with("os = \"multikernel\"\n", &format!("{messages}{islands}"))?;
    on(&small.0.path().join("machine.toml"), &programs, command).expect_code(0)?.expect_output(&wanted).map(drop)
}

fn fault() -> Result<(), String> {
    let programs = compiled("away", &["-O1", "-lm"])?;
    let command = "/in/programs/away fault; echo $?; /in/programs/away; grep task_exit_remote /proc/motet | tr -s ' '";
    let ended = on(&root().join("machines/multikernel.toml"), &programs, command);
    ended.expect_code(0)?.expect_output("139\nfrom afar\none memory\ntask_exit_remote 1\n")?;
    ended.expect_errors(&["signal 11 has ended it", "fault_away was called by main"]).map(drop)
}

/// A program that says its name if all is right.
fn signals(program: &str) -> Result<(), String> {
    let programs = compiled(program, &["-O1"])?;
    let ended = on(&root().join("machines/multikernel.toml"), &programs, &format!("/in/programs/{program}"));
    ended.expect_code(0)?.expect_output(&format!("{program}\n")).map(drop)
}

fn again() -> Result<(), String> {
    let programs = compiled("again", &["-O1"])?;
    let command = "/in/programs/again; cat /proc/motet";
    let ended = on(&root().join("machines/multikernel.toml"), &programs, command);
    ended.expect_code(0)?;
    let count = |kind: &str| {
        let line = ended.output.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse::<u64>().ok()).ok_or(format!("no {kind} in\n{}", ended.output))
    };
    if !ended.output.starts_with("400\n") || count("messages_refused")? != 0 || count("task_migrate")? != 402 {
        return Err(ended.output);
    }
    // Each call is one message and its answer, of the kind that Popcorn's kernels have for it. Home has told of changes itself, too.
    let (futexes, ranges) = (count("futex_request")?, count("vma_op_response")?);
    if futexes < 200 || futexes != count("futex_response")? || ranges != 2 || count("vma_op_request")? <= ranges {
        return Err(format!("{futexes} of futexes, {ranges} of ranges:\n{}", ended.output));
    }
    Ok(())
}

/// Two kernels that get pages so.
fn pair(messages: &str) -> Result<Machine, String> {
    let island = |isa: &str| format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 1\n");
    let islands = ["x86_64", "aarch64"].map(island).concat();
    Machine::with("os = \"multikernel\"\n", &format!("[messages]\nslots = 16\n{messages}{islands}"))
}

/// Requests for pages of a program that goes over an array in order, of one that does so in random order, and messages with pages of both.
fn requests(messages: &str) -> Result<[u64; 3], String> {
    let programs = compiled("ahead", &["-O1"])?;
    let machine = pair(messages)?;
    let show = "grep -wE '^(remote_page_request|remote_page_response|message_bytes_taken|messages_refused)' /proc/motet | tr -s ' '; ";
    let command = format!("{show}/in/programs/ahead; {show}/in/programs/ahead random; {show}");
    let ended = on(&machine.0.path().join("machine.toml"), &programs, &command);
    ended.expect_code(0)?;
    let of = |kind: &str| -> Vec<u64> {
        let words = ended.output.lines().filter_map(|line| line.strip_prefix(kind));
        words.filter_map(|word| word.trim().parse().ok()).collect()
    };
    let is_right = ended.output.lines().filter(|&line| line == "20").count() == 2 && of("messages_refused") == [0; 3];
    match of("remote_page_request")[..] {
        [before, ordered, random] if is_right => {
            Ok([ordered - before, random - ordered, of("remote_page_response")[2]])
        }
        _ => Err(ended.output),
    }
}

/// Values are right, whatever comes ahead; it saves messages where pages are used in order, and costs none elsewhere.
fn ahead() -> Result<(), String> {
    let (plain, ahead) = (requests("")?, requests("prefetch = 14\n")?);
    println!("{plain:?} {ahead:?}");
    let [ordered, random, _] = ahead;
    // Of the array: in each of four rounds a read and a write away, and a read at home.
    if plain[..2].iter().all(|&plain| plain >= 3 * 4 * 240 - 240) && ordered * 8 < plain[0] && random * 2 < plain[1] {
        return Ok(());
    }
    Err(format!("requests in order and at random: {plain:?}, with pages that come ahead {ahead:?}"))
}

/// No page goes by message, and values are right; all the same, the requests are those of kernels that do not see each other's memory.
fn in_place() -> Result<(), String> {
    let (plain, one, several) =
        (requests("")?, requests("by-reference = true\n")?, requests("by-reference = true\nprefetch = 14\n")?);
    println!("{plain:?} {one:?} {several:?}");
    let is_like = |count: u64, other: u64| count.abs_diff(other) < 100;
    if is_like(one[0], plain[0])
        && is_like(one[1], plain[1])
        && (plain[2] > 0, one[2], several[2]) == (true, 0, 0)
        && several[0] * 8 < one[0]
    {
        return Ok(());
    }
    Err(format!(
        "requests in order and at random, and messages with pages: {plain:?}, in place {one:?}, several {several:?}"
    ))
}

/// Processes that compute at the same time, each with its thread at another kernel half of the time. 125 of them, and BT, made Popcorn's kernels hang or crash.
fn many() -> Result<(), String> {
    let programs = Programs::new()?;
    for name in ["cg", "bt"] {
        programs.compile(&source(&format!("user/npb/{name}.c")), name, &["-std=c11", "-O2"])?;
    }
    let count = of_long(8, 125);
    let command = format!(
        "/in/programs/bt alternating riscv64 | tail -n 1 | sed 's/.* //'
        n=0; while [ $n -lt {count} ]; do n=$((n + 1)); /in/programs/cg alternating aarch64 > /tmp/$n & done; wait
        cat /tmp/* | grep -c ' verified$'; grep messages_refused /proc/motet | tr -s ' '"
    );
    let ended = on(&root().join("machines/multikernel.toml"), &programs, &command);
    ended.expect_code(0)?.expect_output(&format!("verified\n{count}\nmessages_refused 0\n")).map(drop)
}

/// A benchmark of class S, and what its arrays need (`docs/npb.md`): crossings, changes of ranges, requests, pages that are invalidated. When it ends, nobody is told of what it has
/// mapped piece by piece.
const COUNTED: [(&str, &str, [u64; 4]); 5] = [
    ("is", "alternating", [5, 0, 763, 73]),
    ("is", "round-trips", [10, 0, 220, 67]),
    ("cg", "alternating", [8, 0, 491, 29]),
    ("mg", "round-trips", [1, 0, 336, 1]),
    ("ft", "round-trips", [1, 0, 2620, 1]),
];
/// What the rest of a program needs, at most: stacks, the C library's variables, constants.
const REST_MAX: u64 = 40;

/// The lines of `/proc/motet` that are compared, a letter for each.
const KINDS: [&str; 4] = ["task_migrate_back", "vma_op_request", "remote_page_request", "page_invalidate_request"];

fn counts() -> Result<(), String> {
    let programs = Programs::new()?;
    for name in ["is", "cg", "mg", "ft"] {
        programs.compile(&source(&format!("user/npb/{name}.c")), name, &["-std=c11", "-O2"])?;
    }
    let show = format!("grep -wE '^({})' /proc/motet; ", KINDS.join("|"));
    let run = |&(name, schedule, _): &(&str, &str, _)| format!("{show}/in/programs/{name} {schedule} | tail -n 1; ");
    let commands = COUNTED.iter().map(run).collect::<String>() + &show;
    let ended = on(&root().join("machines/multikernel.toml"), &programs, &commands);
    ended.expect_code(0)?;
    let number = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    let lines: Vec<&str> = ended.output.lines().collect();
    let shown: Vec<u64> = lines.iter().filter(|line| !line.contains("class")).filter_map(|line| number(line)).collect();
    if shown.len() != KINDS.len() * (COUNTED.len() + 1)
        || lines.iter().filter(|line| line.ends_with(" verified")).count() != COUNTED.len()
    {
        return Err(format!("not what was wanted:\n{}", ended.output));
    }
    for (index, (name, schedule, wanted)) in COUNTED.iter().enumerate() {
        let at = |run: usize, kind: usize| shown[KINDS.len() * run + kind];
        for (kind, &wanted) in wanted.iter().enumerate() {
            let sent = at(index + 1, kind) - at(index, kind);
            // Crossings are as many as are wanted, and nothing else crosses.
            let rest = if KINDS[kind] == "task_migrate_back" { 0 } else { REST_MAX };
            if !(wanted..=wanted + rest).contains(&sent) {
                return Err(format!(
                    "{name} {schedule}: {sent} times {}, not {wanted} and {rest} at most",
                    KINDS[kind]
                ));
            }
        }
    }
    Ok(())
}

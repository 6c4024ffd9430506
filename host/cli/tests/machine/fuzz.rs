//! Random system calls on every island, and programs for several instruction sets that are damaged at random: the kernels
//! refuse or obey, and stay.

use std::{fs, path::PathBuf, time::Duration};

use crate::{
    bad_input::{self, of_its_day},
    crossing::Programs,
    process::{self, ISAS, Motet},
    trial::{Trial, of_long, trial},
};

/// Where what is slow is asked for; otherwise half as many.
const CHILDREN: u32 = 60;
const CALLS: u32 = 300;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let fuzz = |isa: &'static str| trial(&format!("fuzz::random_system_calls_on_{isa}"), move || random_calls(isa));
    let mut trials: Vec<Trial> = ISAS.into_iter().map(fuzz).collect();
    let of_user = |isa: &'static str| {
        let name = format!("fuzz::random_system_calls_of_a_user_on_{isa}");
        of_its_day(trial(&name, move || random_calls_of_user(isa)), isa)
    };
    trials.extend(ISAS.into_iter().map(of_user));
    trials.push(trial("fuzz::damaged_programs_for_several_instruction_sets", damaged_programs));
    trials
}

/// Damaged programs, a third each in the headers, the note and both.
const DAMAGED: usize = 600;

/// The program headers and the note, with its pins, are at the beginning of the file.
fn damaged_programs() -> Result<(), String> {
    let programs = Programs::new()?;
    programs.compile(&process::root().join("tests/guest/cc/islands.c"), "program", &["-O1"])?;
    let program = fs::read(programs.path.join("program")).map_err(|error| error.to_string())?;
    let note = note_of(&program).ok_or("the program has no note")?;
    let headers = 4..bad_input::headers_len(&program);
    let heads = programs.path.join("heads");
    fs::create_dir(&heads).map_err(|error| error.to_string())?;
    let mut random = fastrand::Rng::with_seed(bad_input::seed());
    for number in 0..DAMAGED {
        let mut head = program[..note.end + 8].to_vec();
        for _ in 0..random.usize(1..=3) {
            let both = if random.bool() { headers.clone() } else { note.clone() };
            bad_input::mutate(&mut random, &mut head, [headers.clone(), note.clone(), both][number % 3].clone());
        }
        fs::write(heads.join(number.to_string()), head).map_err(|error| error.to_string())?;
    }
    let command = format!(
        "cd /tmp; number=0; while [ $number -lt {DAMAGED} ]; do cp /in/programs/program program; \
        dd if=/in/programs/heads/$number of=program conv=notrunc 2>/dev/null; echo \"program $number\" >&2; \
        timeout -s KILL 3 ./program >out 2>&1 </dev/null; echo \"$number $?\"; number=$((number + 1)); done; \
        /in/programs/program | head -n 4"
    );
    let ended = Motet::run(["--verbose".as_ref(), "--in".as_ref(), programs.path.as_os_str()])
        .arguments(["--", &command])
        .limit(Duration::from_secs(1200))
        .wait();
    let context = |error| format!("{}={}: {error}", bad_input::SEED_VARIABLE, bad_input::seed());
    ended.expect_code(0).map_err(context)?;
    let count = |end: &str| ended.output.lines().filter(|line| line.ends_with(end)).count();
    // Some damage does no harm; 137 is what would not end.
    let (fine, endless) = (count(" 0"), count(" 137"));
    let refused = ended.errors.matches("an executable for several instruction sets is refused: ").count();
    let lines = ended.output.lines().count();
    let well = ended.output.ends_with("main 0\narm 1\nriscv 2\nx86 0\n");
    if well && lines == DAMAGED + 4 && fine > 0 && refused > DAMAGED / 10 && endless < DAMAGED / 10 {
        return Ok(());
    }
    Err(context(format!("{fine} fine, {refused} refused, {endless} endless, {lines} lines\n{}", ended.describe())))
}

/// Where the first note of an ELF file is.
fn note_of(program: &[u8]) -> Option<std::ops::Range<usize>> {
    const PT_NOTE: u32 = 4;
    let headers = program.get(64..bad_input::headers_len(program))?.chunks_exact(56);
    let header = headers.into_iter().find(|header| header[..4] == PT_NOTE.to_le_bytes())?;
    let word = |at: usize| Some(u64::from_le_bytes(header.get(at..at + 8)?.try_into().ok()?) as usize);
    let (offset, len) = (word(8)?, word(32)?);
    program.get(offset..offset.checked_add(len)? + 8).map(|_| offset..offset + len)
}

/// What is the superuser's, as text: names, owners, modes, times and contents of files, and of a process how it is scheduled
/// and limited.
const OF_ROOT: &str = "(find / -path /proc -prune -o -path /tmp -prune -o -path /dev/shm -prune -o -exec ls -ldni {} + ; \
    find /bin /etc /in /root -type f -exec md5sum {} + ; cat /proc/$victim/limits; cut -d ' ' -f 19 /proc/$victim/stat; \
    taskset -p $victim)";

/// Random calls of an unprivileged user change nothing of the superuser's: neither files nor processes nor their memory.
fn random_calls_of_user(isa: &str) -> Result<(), String> {
    let copy = Copy::new(isa)?;
    let (seed, children) = (bad_input::seed(), of_long(CHILDREN / 2, CHILDREN));
    let command = format!(
        "mkdir -p /root /tmp/work; chown 1000:1000 /tmp/work; mkfifo /root/end; \
        (memory=$(head -c 60000 /dev/urandom | base64); echo \"$memory\" | md5sum >/root/memory; read line </root/end; \
        echo \"$memory\" | md5sum | cmp - /root/memory && echo memory) & victim=$!; \
        until test -s /root/memory; do sleep 0.1; done; {OF_ROOT} >/tmp/before; \
        cd /tmp/work; on {isa} /in/fuzz {seed} {children} {CALLS} 1000 >&2 || echo failed; cd /; \
        {OF_ROOT} >/tmp/after; wc -l </tmp/after >&2; diff /tmp/before /tmp/after && echo unchanged; \
        echo >/root/end; wait $victim; echo alive"
    );
    let ended = Motet::run(["--verbose".as_ref(), "--in".as_ref(), copy.path.as_os_str()])
        .arguments(["--", &command])
        .limit(Duration::from_secs(600))
        .wait();
    let fine = ended.expect_code(0).and_then(|ended| ended.expect_output("unchanged\nmemory\nalive\n")).map(drop);
    fine.map_err(|error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE))
}

/// The program that makes random calls, in a folder of its own.
struct Copy {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Copy {
    fn new(isa: &str) -> Result<Self, String> {
        let program = process::target().join(bad_input::target_of(isa)).join("release/fuzz");
        if !program.is_file() {
            return Err(format!("{} is not built", program.display()));
        }
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join("fuzz");
        fs::copy(&program, &path).map_err(|error| error.to_string())?;
        Ok(Self { _folder: folder, path })
    }
}

fn random_calls(isa: &str) -> Result<(), String> {
    let copy = Copy::new(isa)?;
    let (seed, children) = (bad_input::seed(), of_long(CHILDREN / 2, CHILDREN));
    let command = format!(
        "mkdir /tmp/work; cd /tmp/work; on {isa} /in/fuzz {seed} {children} {CALLS} >&2 || echo failed; cd /; \
        for isa in x86_64 aarch64 riscv64; do on $isa sh -c 'echo \"$(echo alive)\" | cat'; done"
    );
    let ended = Motet::run(["--verbose".as_ref(), "--in".as_ref(), copy.path.as_os_str()])
        .arguments(["--", &command])
        .limit(Duration::from_secs(600))
        .wait();
    let fine = ended.expect_code(0).and_then(|ended| ended.expect_output("alive\nalive\nalive\n")).map(drop);
    fine.map_err(|error| format!("{}={seed}: {error}", bad_input::SEED_VARIABLE))
}

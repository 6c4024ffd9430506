//! musl's own tests (libc-test): with its functions pinned at random they do on a machine what they do there unpinned.
//!
//! The tests of a set are one program that takes a test's name, so a few links serve them all. `tests/guest/libc-test` has
//! what fails and why, and how often the tests call functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    libraries::{Pins, cc, fetched, list, refused, run, text},
    process::{self, ISAS},
    scripts::{self, Script},
    trial::{Trial, of_long, trial},
};
use fastrand::Rng;

/// Programs of a set with different pins, where what is slow is asked for; otherwise one.
const IMAGES: usize = 3;
/// Most calls of pinned functions by a test, and by all tests of a program; a test that makes more is left out of it.
const TEST_CALLS_MAX: u64 = 10_000;
const IMAGE_CALLS_MAX: u64 = 60_000;
/// Tests of one script.
const TESTS_IN_SCRIPT: usize = 30;
/// As libc-test's own settings are, without warnings.
const OPTIONS: [&str; 6] = ["-O1", "-w", "-std=c99", "-D_POSIX_C_SOURCE=200809L", "-fno-builtin", "-frounding-math"];

/// Sources that are not tests, or of shared libraries, of which there are none; the last one wants a host that is not busy. In it
/// (`signals.c` takes its place) a thread may have raised all its signals before the first of those comes whose handler forks: all
/// children then wait in a loop for ever, as on Linux, and a core is theirs.
const LEFT_OUT: [&str; 9] = [
    "functional/dlopen",
    "functional/dlopen_dso",
    "functional/tls_align_dlopen",
    "functional/tls_align_dso",
    "functional/tls_init_dlopen",
    "functional/tls_init_dso",
    "regression/tls_get_new-dtv",
    "regression/tls_get_new-dtv_dso",
    "regression/raise-race",
];
/// Tests that give another thread so long to do something, and what they have instead here. On a busy host the other thread may not
/// have run in 100 ms. A function that never does what it should is found all the same, later. (`pthread_mutex` waits for its first
/// deadline in any case.)
const DEADLINES: [(&str, &str, &str); 8] = [
    ("functional/pthread_cancel", "sleep(3)", "sleep(60)"),
    ("functional/pthread_mutex", "ts.tv_nsec += 100*1000*1000;", "ts.tv_sec += 20;"),
    ("functional/pthread_mutex_pi", "ts.tv_nsec += 100*1000*1000;", "ts.tv_sec += 20;"),
    ("functional/sem_init", "ts.tv_sec += 1;", "ts.tv_sec += 60;"),
    ("regression/pthread-robust-detach", "ts.tv_nsec += 100*1000*1000;", "ts.tv_sec += 60;"),
    ("regression/pthread_cond-smasher", "ts->tv_nsec += 500*1000*1000;", "ts->tv_sec += 60;"),
    ("regression/pthread_cond_wait-cancel_ignored", "(ts.tv_nsec+=30000000) >= 1000000000", "(ts.tv_sec += 60, 0)"),
    ("regression/pthread_once-deadlock", "ts.tv_nsec += 100*1000*1000;", "ts.tv_sec += 60;"),
];
/// Tests that need a program of their own: one has an allocator, one ends without the `return` that only `main` may lack.
const ALONE: [&str; 2] = ["regression/flockfile-list", "regression/sem_close-unmap"];
/// Tests that fill the whole address space, so that there is no room for the stack of another instruction set.
const FULL: [&str; 4] =
    ["regression/malloc-brk-fail", "regression/malloc-oom", "regression/pthread_create-oom", "regression/setenv-oom"];
/// What tests are linked with.
const SUPPORT: [&str; 10] = [
    "common/fdfill",
    "common/memfill",
    "common/mtest",
    "common/path",
    "common/print",
    "common/rand",
    "common/setrlim",
    "common/utf8",
    "common/vmfill",
    "functional/tls_align_dso",
];
/// Before the name of a test in what scripts print.
const MARK: &str = "\u{1}test ";
/// Functions that stay where they are called: they are about registers of the core, run before there is a thread, or take
/// numbers of system calls, which every instruction set has its own of.
const NEVER: [&str; 33] = [
    "__clone",
    "__copy_tls",
    "__cp_begin",
    "__fesetround",
    "__init_libc",
    "__init_tls",
    "__jump_here",
    "__libc_start_main",
    "__restore",
    "__restore_rt",
    "__set_thread_area",
    "__setjmp",
    "__setxid",
    "__sigsetjmp",
    "__sigsetjmp_tail",
    "__syscall_cp",
    "__syscall_cp_asm",
    "__syscall_cp_c",
    "__unmapself",
    "_setjmp",
    "_start",
    "_start_c",
    "feclearexcept",
    "fegetenv",
    "fegetround",
    "feraiseexcept",
    "fesetenv",
    "fetestexcept",
    "main",
    "setjmp",
    "sigsetjmp",
    "syscall",
    "vfork",
];
/// A `fenv.h` of processors without floating-point environment: with it tests compare values only.
const NO_ENVIRONMENT: &str = "#define FE_ALL_EXCEPT 0\n\
    int feclearexcept(int), feraiseexcept(int), fetestexcept(int), fesetround(int);\n";

/// Tests that are one program.
struct Set {
    name: &'static str,
    /// As they are named below `src`, without `.c`.
    tests: Vec<String>,
    /// Whether the tests look at rounding and exceptions, which calls across instruction sets do not carry: then only
    /// whole tests are pinned.
    environment: bool,
    /// Pinned functions of the library, at most.
    pins: usize,
}

/// What a test did: its exit status, then what it printed.
type Outcomes = BTreeMap<String, String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("libc_test::musl_passes_its_tests_with_random_pins", || check(functions)),
        trial("libc_test::musl_calculates_the_same_with_random_pins", || check(mathematics)),
    ]
}

fn functions(sources: &Path) -> Result<Vec<Set>, String> {
    let mut tests = names(sources, "functional")?;
    tests.extend(names(sources, "regression")?);
    let (alone, together) = tests.into_iter().partition(|name| ALONE.contains(&name.as_str()));
    let set = |name, tests, pins| Set { name, tests, environment: false, pins };
    let mut sets = vec![set("functions", together, 80)];
    for (test, name) in alone.into_iter().zip(["allocator", "semaphore"]) {
        sets.push(set(name, vec![test], 20));
    }
    Ok(sets)
}

/// All tests, where what is slow is asked for; otherwise an eighth, as it takes long to compile them.
fn mathematics(sources: &Path) -> Result<Vec<Set>, String> {
    const PARTS: usize = 8;
    let tests = names(sources, "math")?;
    let today = seed() as usize % PARTS;
    let tests: Vec<String> = tests.into_iter().skip(of_long(today, 0)).step_by(of_long(PARTS, 1)).collect();
    let values = tests.iter().filter(|name| *name != "math/fenv").cloned().collect();
    Ok(vec![
        Set { name: "environment", tests, environment: true, pins: 0 },
        Set { name: "values", tests: values, environment: false, pins: 60 },
    ])
}

/// The tests in a folder.
fn names(sources: &Path, folder: &str) -> Result<Vec<String>, String> {
    let path = sources.join(folder);
    let entries = fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let name = |path: PathBuf| Some(format!("{folder}/{}", path.file_stem()?.to_str()?));
    let mut names: Vec<String> = files.filter_map(name).filter(|name| !LEFT_OUT.contains(&name.as_str())).collect();
    names.sort();
    Ok(names)
}

fn check(sets: impl Fn(&Path) -> Result<Vec<Set>, String>) -> Result<(), String> {
    let (folder, mut random) = (tempfile::tempdir().map_err(text)?, Rng::with_seed(seed()));
    let sources = fetched("libc-test")?.join("src");
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).map_err(text)?;
    let (calls, mut images) = (counts()?, Vec::new());
    for set in sets(&sources)? {
        let build = Build { set, sources: &sources, folder: folder.path(), programs: &programs, calls: &calls };
        images.extend(build.images(&mut random)?);
    }
    let outcomes = on_machine(&images, folder.path())?;
    let mut problems = known_failures(&outcomes)?;
    for image in &images {
        let (got, wanted) = (&outcomes[&image.name], &outcomes[image.set]);
        let differs = |test: &&String| !is_same(got.get(*test), wanted.get(*test));
        let mut different: Vec<String> = Vec::new();
        for test in image.tests.iter().filter(differs) {
            different.push(format!("{test}: {:?}, unpinned: {:?}", got.get(test), wanted.get(test)));
        }
        if !different.is_empty() {
            problems.push(format!("{}:\n{}\n{}", image.name, different.join("\n"), list(&image.pins)));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!("{SEED_VARIABLE}={} repeats it:\n{}", seed(), problems.join("\n")))
}

/// Whether a test does the same with pins as without.
fn is_same(got: Option<&String>, wanted: Option<&String>) -> bool {
    got.is_some() && got == wanted
}

/// Where tests without pins do something else than `failing.txt` says: a set's name, a test's, and why it fails.
fn known_failures(outcomes: &BTreeMap<String, Outcomes>) -> Result<Vec<String>, String> {
    let mut known = BTreeSet::new();
    for (number, line) in lines("failing.txt")? {
        let mut words = line.split_whitespace();
        let (Some(set), Some(test), Some(_why)) = (words.next(), words.next(), words.next()) else {
            return Err(format!("failing.txt:{number}: a set, a test and a reason are needed"));
        };
        known.insert((set.to_owned(), test.to_owned()));
    }
    let mut problems = Vec::new();
    // Those of programs with pins have other names.
    for (set, tests) in outcomes.iter().filter(|(set, _)| !set.contains('-')) {
        for (test, outcome) in tests {
            let is_known = known.contains(&(set.clone(), test.clone()));
            match (outcome.starts_with("0\n"), is_known) {
                (true, true) => problems.push(format!("{set} {test} passes: take it out of failing.txt")),
                (false, false) => problems.push(format!("{set} {test} fails without pins: {outcome}")),
                (true, false) | (false, true) => {}
            }
        }
    }
    Ok(problems)
}

/// How often each test calls functions, if it does so often: a test's name, a function's, and how often.
fn counts() -> Result<BTreeMap<String, BTreeMap<String, u64>>, String> {
    let mut calls: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (number, line) in lines("calls.txt")? {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = || format!("calls.txt:{number}: a test, a function and a number are needed");
        let &[test, function, count] = words.as_slice() else { return Err(wrong()) };
        let count = count.parse().map_err(|_| wrong())?;
        calls.entry(test.to_owned()).or_default().insert(function.to_owned(), count);
    }
    Ok(calls)
}

/// The lines of a file of `tests/guest/libc-test` that are not comments, with their numbers.
fn lines(name: &str) -> Result<Vec<(usize, String)>, String> {
    let path = process::root().join("tests/guest/libc-test").join(name);
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.to_owned()));
    Ok(numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect())
}

/// A program, and the tests that are run with it.
struct Image {
    name: String,
    set: &'static str,
    tests: Vec<String>,
    pins: Pins,
}

/// A set while it is built.
struct Build<'a> {
    set: Set,
    sources: &'a Path,
    folder: &'a Path,
    programs: &'a Path,
    calls: &'a BTreeMap<String, BTreeMap<String, u64>>,
}

impl Build<'_> {
    /// The program without pins, and those with random ones.
    fn images(&self, random: &mut Rng) -> Result<Vec<Image>, String> {
        let objects = self.compile()?;
        let set = self.set.name;
        let plain = Image { name: set.to_owned(), set, tests: self.set.tests.clone(), pins: Pins::new() };
        self.link(&plain, &objects)?;
        let functions = if self.set.pins == 0 { Vec::new() } else { self.pinnable(&objects)? };
        let mut images = vec![plain];
        for index in 0..of_long(1, IMAGES) {
            let image = self.random_image(random, index, &functions);
            self.link(&image, &objects)?;
            images.push(image);
        }
        Ok(images)
    }

    /// Compiles the tests. If they are several, the `main` of each gets a name of its own.
    fn compile(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.folder.join(self.set.name);
        fs::create_dir_all(&folder).map_err(text)?;
        if !self.set.environment && self.set.name == "values" {
            fs::write(folder.join("fenv.h"), NO_ENVIRONMENT).map_err(text)?;
        }
        let support = SUPPORT.iter().map(|name| (*name).to_owned());
        let names: Vec<String> = self.set.tests.iter().cloned().chain(support).collect();
        let object = |name: &str| folder.join(symbol(name)).with_extension("o");
        parallel(&names, |name| {
            let mut arguments: Vec<OsString> = OPTIONS.iter().map(OsString::from).collect();
            if self.set.tests.len() > 1 && self.set.tests.iter().any(|test| test == name) {
                arguments.push(format!("-Dmain={}", symbol(name)).into());
            }
            arguments.extend(["-I".into(), folder.clone().into(), "-I".into(), self.sources.join("common").into()]);
            arguments.extend(["-c".into(), self.source(name, &folder)?.into(), "-o".into(), object(name).into()]);
            cc(&arguments)
        })?;
        let mut objects: Vec<PathBuf> = names.iter().map(|name| object(name)).collect();
        if self.set.tests.len() > 1 {
            objects.push(folder.join("main.c"));
            fs::write(folder.join("main.c"), self.main()).map_err(text)?;
        }
        Ok(objects)
    }

    /// A test's source; where its deadline is too short, a copy in `folder` with a longer one.
    fn source(&self, name: &str, folder: &Path) -> Result<PathBuf, String> {
        let path = self.sources.join(format!("{name}.c"));
        let Some((_, short, long)) = DEADLINES.iter().find(|(test, ..)| *test == name) else { return Ok(path) };
        let source = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if !source.contains(short) {
            return Err(format!("{}: there is no {short:?} to be replaced", path.display()));
        }
        let copy = folder.join(symbol(name)).with_extension("c");
        fs::write(&copy, source.replace(short, long)).map_err(text)?;
        Ok(copy)
    }

    /// The `main` of several tests: runs the one that its argument names.
    fn main(&self) -> String {
        let mut text = String::from("#include <string.h>\n");
        for test in &self.set.tests {
            let _ = writeln!(text, "int {}(int, char **);", symbol(test));
        }
        text.push_str("static const struct { const char *name; int (*run)(int, char **); } tests[] = {\n");
        for test in &self.set.tests {
            let _ = writeln!(text, "    {{ {test:?}, {} }},", symbol(test));
        }
        text.push_str(
            "};\n\nint main(int argc, char **argv) {\n    \
             for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)\n        \
             if (!strcmp(argv[1], tests[i].name))\n            return tests[i].run(argc - 1, argv + 1);\n    \
             return 64;\n}\n",
        );
        text
    }

    fn link(&self, image: &Image, objects: &[PathBuf]) -> Result<(), String> {
        let path = self.folder.join("pins.toml");
        fs::write(&path, list(&image.pins)).map_err(text)?;
        let mut arguments: Vec<OsString> = objects.iter().map(OsString::from).collect();
        arguments.extend(["-w".into(), "-lm".into(), "-lpthread".into(), "--pins".into(), path.into()]);
        arguments.extend(["-o".into(), self.programs.join(&image.name).into()]);
        cc(&arguments)
    }

    /// The functions of the library that can be pinned, by one name each.
    fn pinnable(&self, objects: &[PathBuf]) -> Result<Vec<String>, String> {
        let symbols = run(Command::new("nm").args(["-g", "--defined-only"]).arg(self.programs.join(self.set.name)))?;
        let (mut by_address, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for line in symbols.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let &[address, "T" | "W", name] = words.as_slice()
                && !NEVER.contains(&name)
                && !self.set.tests.iter().any(|test| symbol(test) == name)
            {
                by_address.insert(address, name);
                addresses.insert(name, address);
            }
        }
        let mut pins: Pins = by_address.values().map(|name| ((*name).to_owned(), ISAS[2])).collect();
        loop {
            let image = Image { name: "refused".into(), set: self.set.name, tests: Vec::new(), pins: pins.clone() };
            let Err(error) = self.link(&image, objects) else { break };
            let before = pins.len();
            for line in error.lines() {
                // By any of its names.
                let address = refused(line).and_then(|function| addresses.get(function));
                if let Some(name) = address.and_then(|address| by_address.get(address)) {
                    pins.remove(*name);
                }
            }
            if pins.len() == before {
                return Err(error);
            }
        }
        Ok(pins.into_keys().collect())
    }

    /// Random pins of functions, and of tests; those tests that would make too many calls are left out.
    fn random_image(&self, random: &mut Rng, index: usize, functions: &[String]) -> Image {
        let mut functions: Vec<&String> = functions.iter().collect();
        random.shuffle(&mut functions);
        let has_room = |test: &&String| !FULL.contains(&test.as_str());
        let mut load: BTreeMap<&String, u64> = self.set.tests.iter().filter(has_room).map(|test| (test, 0)).collect();
        let mut pins = Pins::new();
        for function in functions {
            let mut with = load.clone();
            for (test, calls) in &mut with {
                *calls += self.calls.get(*test).and_then(|calls| calls.get(function)).unwrap_or(&0);
            }
            let total: u64 = with.values().filter(|calls| **calls <= TEST_CALLS_MAX).sum();
            if pins.len() < self.set.pins && total <= IMAGE_CALLS_MAX {
                load = with;
                pins.insert(function.clone(), ISAS[random.usize(..ISAS.len())]);
            }
        }
        load.retain(|_, calls| *calls <= TEST_CALLS_MAX);
        let tests: Vec<String> = load.into_keys().cloned().collect();
        for test in &tests {
            // A test alone is `main`.
            if tests.len() > 1 && (self.set.environment || random.bool()) {
                pins.insert(symbol(test), ISAS[random.usize(..ISAS.len())]);
            }
        }
        Image { name: format!("{}-{index}", self.set.name), set: self.set.name, tests, pins }
    }
}

/// A test's `main`, and its object.
fn symbol(test: &str) -> String {
    format!("test_{}", test.replace(['/', '-'], "_"))
}

/// Does `work` for all items, on all processors.
///
/// # Errors
/// One of those that it returned.
pub fn parallel<T: Sync>(items: &[T], work: impl Fn(&T) -> Result<(), String> + Sync) -> Result<(), String> {
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = work(item) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
                        break;
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What the tests of all programs do, by program.
fn on_machine(images: &[Image], folder: &Path) -> Result<BTreeMap<String, Outcomes>, String> {
    let mut scripts_of = Vec::new();
    for image in images {
        for (index, tests) in image.tests.chunks(TESTS_IN_SCRIPT).enumerate() {
            let name = format!("{}.{index}", image.name);
            let path = folder.join(format!("{name}.sh"));
            let script = format!(
                "for test in {}; do\n    echo \"{MARK}$test\"\n    \
                 timeout -s KILL 300 /in/programs/{} $test < /dev/null > output 2>&1\n    echo $?\n    cat output\ndone\n",
                tests.join(" "),
                image.name
            );
            fs::write(&path, script).map_err(text)?;
            scripts_of.push((image.name.clone(), Script::new(&name, path)));
        }
    }
    let all: Vec<Script> = scripts_of.iter().map(|(_, script)| script.clone()).collect();
    let programs = folder.join("programs");
    let results = scripts::on_machine(&all, &["--in", programs.to_str().ok_or("the folders' names must be UTF-8")?]);
    let mut outcomes: BTreeMap<String, Outcomes> = BTreeMap::new();
    for (image, script) in scripts_of {
        let did = results.get(&script.name).ok_or("no result")?.as_ref().map_err(String::clone)?;
        let tests = outcomes.entry(image).or_default();
        for part in did.output.split(MARK).skip(1) {
            let (test, outcome) = part.split_once('\n').unwrap_or((part, ""));
            tests.insert(test.to_owned(), outcome.to_owned());
        }
    }
    Ok(outcomes)
}

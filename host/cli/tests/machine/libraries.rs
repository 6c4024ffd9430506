//! Real libraries whose functions are pinned at random: on a machine their own tests do what they do unpinned on the host.
//!
//! zlib, Lua and SQLite come from Debian's source packages (`scripts/setup.sh --libraries`). The host's profiler says how
//! often each function is called, so that the number of calls across instruction sets has a limit.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    bad_input::{SEED_VARIABLE, of_the_day, seed},
    host_busybox,
    process::{self, ISAS, Motet},
    scripts::{self, Did, Script},
    trial::{Trial, of_long, trial},
};
use fastrand::Rng;

/// Programs with different pins, where what is slow is asked for; otherwise one, and one library a day.
const IMAGES: u64 = 4;
/// Pinned functions in each, and most calls of them all, of which about two thirds cross.
const PINS: usize = 40;
const CALLS_MAX: u64 = 12_000;

struct Library {
    name: &'static str,
    /// Of the compiler; `%` is the folder of the sources.
    options: &'static [&'static str],
    /// Optimisations, of which one is taken at random.
    levels: &'static [&'static str],
    /// Folders with the library's sources, and their files that are not part of it.
    folder: &'static str,
    without: &'static [&'static str],
    /// Programs that test it: name and source.
    programs: &'static [(&'static str, &'static str)],
    /// How they are run: `test PROGRAM ARGUMENT...`; `$FILES` is the folder `files`.
    script: &'static str,
    files: &'static str,
}

const ZLIB: Library = Library {
    name: "zlib",
    options: &["-DHAVE_UNISTD_H", "-DHAVE_STDARG_H", "-I%"],
    levels: &["-O1", "-O2", "-O3", "-Os"],
    folder: "",
    without: &[],
    programs: &[("example", "test/example.c"), ("minigzip", "test/minigzip.c"), ("infcover", "test/infcover.c")],
    // As `make test` and `make cover` do.
    script: "test example example.gz; echo; test infcover 2>&1; \
        for level in 1 6 9; do test minigzip -$level < \"$TEXT\" > text.gz; wc -c < text.gz; md5sum < text.gz; \
        test minigzip -d < text.gz | cmp - \"$TEXT\" && echo same; done",
    files: "test",
};

const LUA: Library = Library {
    name: "lua",
    options: &["-DLUA_USE_POSIX", "-I%/src"],
    levels: &["-O1", "-O2", "-O3", "-Os"],
    folder: "src",
    without: &["lua.c", "luac.c", "print.c"],
    programs: &[("lua", "src/lua.c")],
    // readonly.lua ends by an error, with a message that begins with the program's name.
    script: "cp \"$FILES\"/*.lua .; for name in bisect cf factorial fibfor hello sieve sort trace-calls trace-globals; \
        do echo \"-- $name\"; test lua $name.lua; done; for name in xd globals; do test lua $name.lua < hello.lua; done; \
        printf 'a\\t1\\na\\t2\\nb\\t3\\n' | test lua table.lua; test lua fib.lua | cut -f 1-3,5; \
        test lua luac.lua life.lua; wc -c < luac.out; test lua echo.lua a b c; \
        test lua readonly.lua 2>&1 | sed 's/^[^ ]*: //'; PATH=/bin USER=nobody test lua env.lua",
    files: "test",
};

const SQLITE: Library = Library {
    name: "sqlite",
    options: &["-DSQLITE_PRIVATE=", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I%"],
    // One file of eight megabytes: more takes a minute.
    levels: &["-O0"],
    folder: "",
    without: &["speedtest1.c"],
    programs: &[("speedtest1", "speedtest1.c")],
    // Its output without the times that the statements take.
    script: "for set in main cte fp orm; do for place in --memdb test.db; do rm -f test.db; \
        test speedtest1 --size 1 --verify --testset $set $place | sed 's/ *[0-9.]*s$//'; done; done",
    files: "",
};

const LIBRARIES: [&Library; 3] = [&ZLIB, &LUA, &SQLITE];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let of = |library: &'static Library| {
        let test =
            trial(&format!("libraries::{}_passes_its_tests_with_random_pins", library.name), move || check(library));
        if is_of_today(library.name) { test } else { test.long() }
    };
    LIBRARIES.map(of).into()
}

/// What takes long to compile, of which one is tested each day where what is slow is not asked for.
pub fn is_of_today(name: &str) -> bool {
    of_the_day(&["zlib", "lua", "sqlite", "go"]) == name
}

fn check(library: &'static Library) -> Result<(), String> {
    let (folder, mut random) = (tempfile::tempdir().map_err(text)?, Rng::with_seed(seed()));
    let build = Build::new(library, folder.path())?;
    let calls = build.calls()?;
    let level = library.levels[random.usize(..library.levels.len())];
    let pins: Vec<Pins> = (0..of_long(1, IMAGES)).map(|_| random_pins(&mut random, &calls)).collect();
    // None of the functions is inlined, so one compilation serves all images.
    let everything: Pins = pins.iter().flat_map(|pins| pins.clone()).collect();
    let objects = build.compile(level, &everything)?;
    build.link("plain", &objects, Pins::new())?;
    let wanted = build.on_host("plain")?;
    if wanted.status != 0 || wanted.output.is_empty() {
        return Err(format!("the tests of {} fail on the host: {wanted:?}", library.name));
    }
    let mut images = BTreeMap::new();
    for (index, pins) in pins.into_iter().enumerate() {
        let name = format!("{}-{index}", library.name);
        images.insert(name.clone(), build.link(&name, &objects, pins)?);
    }
    let results = build.on_machine(images.keys())?;
    for (name, pins) in &images {
        let got = results.get(name).ok_or("no result")?.as_ref().map_err(String::clone);
        got.and_then(|got| scripts::compare(&wanted, got))
            .map_err(|error| format!("{SEED_VARIABLE}={} repeats it, {level}:\n{error}\n{}", seed(), list(pins)))?;
    }
    Ok(())
}

/// Functions, each with the instruction set that it is pinned to.
pub type Pins = BTreeMap<String, &'static str>;

/// Functions that are called, and not too often.
fn random_pins(random: &mut Rng, calls: &BTreeMap<String, u64>) -> Pins {
    let mut functions: Vec<(&String, u64)> = calls.iter().map(|(name, calls)| (name, *calls)).collect();
    random.shuffle(&mut functions);
    let (mut pins, mut left) = (Pins::new(), CALLS_MAX);
    for (name, calls) in functions {
        if calls <= left && pins.len() < PINS {
            left -= calls;
            pins.insert(name.clone(), ISAS[random.usize(..ISAS.len())]);
        }
    }
    pins
}

/// As a list for the linker.
pub fn list(pins: &Pins) -> String {
    let mut text = String::from("[pins]\n");
    for isa in ISAS {
        let names: Vec<String> =
            pins.iter().filter(|(_, of)| **of == isa).map(|(name, _)| format!("{name:?}")).collect();
        let _ = writeln!(text, "{isa} = [{}]", names.join(", "));
    }
    text
}

/// A library's sources, and a folder for what is made of them.
struct Build {
    library: &'static Library,
    sources: PathBuf,
    folder: PathBuf,
    programs: PathBuf,
}

impl Build {
    /// Fetches the sources if they are not there.
    fn new(library: &'static Library, folder: &Path) -> Result<Self, String> {
        let programs = folder.join("programs");
        fs::create_dir(&programs).map_err(text)?;
        Ok(Self { library, sources: fetched(library.name)?, folder: folder.to_owned(), programs })
    }

    /// The library's sources.
    fn files(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.sources.join(self.library.folder);
        let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let is_wanted = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            path.extension().is_some_and(|extension| extension == "c")
                && !self.library.without.iter().any(|other| name == *other)
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_wanted).collect();
        files.sort();
        Ok(files)
    }

    fn options(&self) -> Vec<OsString> {
        let sources = self.sources.display().to_string();
        let options = self.library.options.iter().map(|option| option.replace('%', &sources).into());
        // Old C: the warnings are known.
        [OsString::from("-w")].into_iter().chain(options).collect()
    }

    /// How often the tests call each function that another file can name, on the host without optimisation.
    fn calls(&self) -> Result<BTreeMap<String, u64>, String> {
        for (program, main) in self.library.programs {
            let mut compiler = Command::new("cc");
            compiler
                .args(["-O0", "-pg", "-no-pie"])
                .args(self.options())
                .args(self.files()?)
                .arg(self.sources.join(main));
            run(compiler.arg("-o").arg(self.programs.join(format!("profile-{program}"))).args(["-lm", "-lpthread"]))?;
        }
        self.on_host("profile")?;
        let mut calls = BTreeMap::new();
        for (program, _) in self.library.programs {
            let path = self.programs.join(format!("profile-{program}"));
            let symbols = run(Command::new("nm").args(["-g", "--defined-only"]).arg(&path))?;
            let entries = fs::read_dir(&self.programs).map_err(text)?.flatten().map(|entry| entry.path());
            let start = format!("calls-{program}.");
            let counts =
                entries.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)));
            let profile = run(Command::new("gprof").args(["-b", "-p"]).arg(&path).args(counts))?;
            let functions: Vec<&str> = symbols.lines().filter_map(|line| line.split(" T ").nth(1)).collect();
            for line in profile.lines() {
                // Three times, calls, two times per call, name.
                let words: Vec<&str> = line.split_whitespace().collect();
                let &[_, _, _, count, _, _, name] = words.as_slice() else { continue };
                if let Ok(count) = count.parse::<u64>()
                    && functions.contains(&name)
                    && name != "main"
                {
                    *calls.entry(name.to_owned()).or_default() += count;
                }
            }
        }
        if calls.len() < PINS {
            return Err(format!("the profiler has counted calls of {} functions only", calls.len()));
        }
        Ok(calls)
    }

    /// Compiles the library, then the programs, so that these functions can be pinned.
    fn compile(&self, level: &str, pins: &Pins) -> Result<Vec<PathBuf>, String> {
        let path = self.folder.join("all.toml");
        fs::write(&path, list(pins)).map_err(text)?;
        let mut objects = Vec::new();
        let mains = self.library.programs.iter().map(|(_, main)| self.sources.join(main));
        for source in self.files()?.into_iter().chain(mains) {
            let object = self.folder.join(source.file_name().unwrap_or_default()).with_extension("o");
            let mut arguments = self.options();
            arguments.extend([level.into(), "--pins".into(), path.clone().into(), "-c".into(), source.into()]);
            arguments.extend(["-o".into(), object.clone().into()]);
            cc(&arguments)?;
            objects.push(object);
        }
        Ok(objects)
    }

    /// Links the programs, without pins that the linker refuses; gives the others.
    fn link(&self, image: &str, objects: &[PathBuf], mut pins: Pins) -> Result<Pins, String> {
        let list_path = self.folder.join("pins.toml");
        let (library, mains) = objects.split_at(objects.len() - self.library.programs.len());
        let all = pins.len();
        // Each program has only some of the functions; none has one that cannot be pinned.
        for ((program, _), main) in self.library.programs.iter().zip(mains) {
            let mut own = pins.clone();
            loop {
                fs::write(&list_path, list(&own)).map_err(text)?;
                let mut arguments: Vec<OsString> = library.iter().map(OsString::from).collect();
                arguments.extend([
                    main.into(),
                    "-lm".into(),
                    "-lpthread".into(),
                    "--pins".into(),
                    list_path.clone().into(),
                ]);
                arguments.extend(["-o".into(), self.programs.join(format!("{image}-{program}")).into()]);
                let Err(error) = cc(&arguments) else { break };
                let Some(function) = refused(&error) else { return Err(error) };
                if own.remove(function).is_none() {
                    return Err(error);
                }
                if error.contains("cannot be pinned") {
                    pins.remove(function);
                }
            }
        }
        if pins.len() < all / 2 { Err(format!("of {all} pins only {} are possible", pins.len())) } else { Ok(pins) }
    }

    /// The script for programs in a folder.
    fn script(&self, image: &str, programs: &str, files: &str) -> Result<Script, String> {
        let path = self.folder.join(format!("{image}.sh"));
        let script = format!(
            "FILES={files}\ntest() {{\n    program=$1; shift\n    \
            GMON_OUT_PREFIX={programs}/calls-$program {programs}/{image}-$program \"$@\"\n}}\n{}\n",
            self.library.script
        );
        fs::write(&path, script).map_err(text)?;
        Ok(Script::new(image, path))
    }

    fn on_host(&self, image: &str) -> Result<Did, String> {
        let files = self.sources.join(self.library.files).display().to_string();
        self.script(image, &self.programs.display().to_string(), &files)?.on_host(&host_busybox())
    }

    fn on_machine<'a>(&self, images: impl Iterator<Item = &'a String>) -> Result<scripts::Results, String> {
        let files = self.sources.join(self.library.files);
        let scripts: Result<Vec<Script>, String> =
            images.map(|image| self.script(image, "/in/programs", &format!("/in/{}", self.library.files))).collect();
        let name = |path: &Path| path.to_str().map(str::to_owned).ok_or("the folders' names must be UTF-8");
        let (programs, files) = (name(&self.programs)?, name(&files)?);
        Ok(scripts::on_machine(&scripts?, &["--in", &programs, "--in", &files]))
    }
}

/// The folder with a library's sources, fetched if they are not there.
///
/// # Errors
/// They cannot be fetched.
pub fn fetched(library: &str) -> Result<PathBuf, String> {
    let all = process::target().join("libraries");
    if !all.join(library).is_dir() {
        let mut setup = Command::new(process::root().join("scripts/setup.sh"));
        let setup = setup.arg("--libraries").arg(&all).env("CARGO_TARGET_DIR", process::target());
        run(setup)
            .map_err(|error| format!("the libraries' sources cannot be fetched, so nothing is tested: {error}"))?;
    }
    Ok(all.join(library))
}

/// The function that an error of the linker is about, if it is one about a pin.
pub fn refused(error: &str) -> Option<&str> {
    let before = match error.split_once(" cannot be pinned") {
        Some((before, _)) => before.rsplit(' ').next()?,
        None => error.split_once("pin of ")?.1.split(':').next()?,
    };
    Some(before)
}

/// Calls `motet cc`.
///
/// # Errors
/// What the compiler says.
pub fn cc(arguments: &[OsString]) -> Result<(), String> {
    compile("cc", arguments)
}

/// Calls one of Motet's compilers, `cc` or `c++`.
///
/// # Errors
/// What the compiler says.
pub fn compile(compiler: &str, arguments: &[OsString]) -> Result<(), String> {
    run(Motet::default().argument(compiler).arguments(arguments).to_command().stdin(Stdio::null())).map(drop)
}

/// What a command prints.
///
/// # Errors
/// It fails.
pub fn run(command: &mut Command) -> Result<String, String> {
    let ended = command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if !ended.status.success() {
        return Err(format!("{}: {}", command.get_program().display(), String::from_utf8_lossy(&ended.stderr)));
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// An error's text.
pub fn text(error: std::io::Error) -> String {
    error.to_string()
}

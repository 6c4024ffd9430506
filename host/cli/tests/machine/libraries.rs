//! Packages as people have them, built by their own build systems with functions pinned at random: on a machine their own
//! tests do what they do unpinned on the host.
//!
//! `tests/packages/NAME.sh` is a recipe: how to build a package, and what tests it. The sources come from Debian
//! (`scripts/setup.sh --libraries`). The host's profiler says how often each function is called, so that the number of calls
//! across instruction sets has a limit. All is compiled once; for each set of pins only what the build has linked is linked again.

mod package;
mod work;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write,
    fs,
    iter::Peekable,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::{
    bad_input::{of_the_day, seed},
    process::{self, ISAS, Motet},
    scripts,
    trial::{Trial, of_long, trial},
};
use fastrand::Rng;
use package::{Image, Package, Profile};
use work::Work;

/// Sets of pins for each package, where what is slow is asked for; otherwise one, and one package a day.
const SETS: usize = 20;
/// Pinned functions in each set, and most calls of them all, of which about two thirds cross.
const PINS: usize = 40;
const CALLS_MAX: u64 = 12_000;
/// What one machine has of programs and files, in bytes, and sets: what is lost if a run is interrupted.
const BOOT_BYTES_MAX: u64 = 300 << 20;
const BOOT_SETS_MAX: usize = 5;

/// Packages that are built in less than a minute; Go's test of random pins is one of these, too.
const QUICK: [&str; 8] = ["zlib", "lua", "sqlite", "go", "bzip2", "libyaml", "mujs", "xxhash"];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let of = |name: String| {
        let test = format!("libraries::{name}_passes_its_tests_with_random_pins");
        let is_of_today = is_of_today(&name);
        let test = trial(&test, move || check(&name));
        if is_of_today { test } else { test.long() }
    };
    package::names().into_iter().map(of).collect()
}

/// Whether it is what is tested today of what takes long to compile, where what is slow is not asked for.
pub fn is_of_today(name: &str) -> bool {
    of_the_day(&QUICK) == name
}

fn check(name: &str) -> Result<(), String> {
    let (work, mut random) = (Work::of(name)?, Rng::with_seed(seed()));
    let calls = work.calls(|| Profile::new(name, work.folder())?.calls())?;
    // Before the sets, so that the first is the same however many there are.
    let mut of_level = random.fork();
    let sets: Vec<Set> = (0..of_long(1, SETS)).map(|number| Set::new(number, &mut random, &calls)).collect();
    // No function of any set is inlined, so one compilation serves all sets.
    let everything: Pins = sets.iter().flat_map(|set| set.pins.clone()).collect();
    let package = Package::build(name, work.folder(), &everything, &mut of_level)?;
    let mut left = sets.into_iter().filter(|set| !work.has_passed(set.number)).peekable();
    let mut errors = Vec::new();
    while left.peek().is_some() {
        let (images, failed) = some_images(&package, &mut left);
        let mut note = |ended: Vec<Ended>| {
            for (set, pins, error) in ended {
                work.note(set, pins, package.options(), error.is_none())?;
                errors.extend(error.map(|error| format!("set {set}: {} repeats it:\n{error}", work.command())));
            }
            Ok::<_, String>(())
        };
        // Those that could not be linked first, in case the machine never ends.
        note(failed)?;
        note(compare(&images)?)?;
    }
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    work.end();
    Ok(())
}

/// Functions that are pinned together, and what decides by chance which programs are linked with them.
struct Set {
    number: usize,
    pins: Pins,
    random: Rng,
}

impl Set {
    fn new(number: usize, random: &mut Rng, calls: &BTreeMap<String, u64>) -> Self {
        Self { number, pins: random_pins(random, calls), random: random.fork() }
    }
}

/// How a set has ended: its number, how many pins were possible, and what was wrong.
type Ended = (usize, usize, Option<String>);

/// Links images of the next sets, as many as a machine can have; and the sets of which there is none.
fn some_images(package: &Package, sets: &mut Peekable<impl Iterator<Item = Set>>) -> (Vec<Image>, Vec<Ended>) {
    let (mut images, mut failed): (Vec<Image>, Vec<Ended>) = (Vec::new(), Vec::new());
    while images.len() < BOOT_SETS_MAX && images.iter().map(|image| image.bytes).sum::<u64>() <= BOOT_BYTES_MAX {
        let Some(mut set) = sets.next() else { break };
        match package.link(set.number, &set.pins, &mut set.random) {
            Ok(image) if image.pins.len() < set.pins.len() / 2 => {
                let (all, possible) = (set.pins.len(), image.pins.len());
                failed.push((set.number, possible, Some(format!("of {all} pins only {possible} are possible"))));
            }
            Ok(image) => images.push(image),
            Err(error) => failed.push((set.number, 0, Some(error))),
        }
    }
    (images, failed)
}

/// Compares what the tests do on a machine with what they do on the host.
fn compare(images: &[Image]) -> Result<Vec<Ended>, String> {
    let results = if images.is_empty() { scripts::Results::new() } else { Image::all_on_machine(images)? };
    let mut ended = Vec::new();
    for image in images {
        let wanted = image.on_host().and_then(|wanted| match wanted.status == 0 && !wanted.output.is_empty() {
            true => Ok(wanted),
            false => Err(format!("the tests fail on the host: {wanted:?}")),
        });
        let same = wanted.and_then(|wanted| {
            let got = results.get(&image.name).ok_or("no result")?.as_ref().map_err(String::clone)?;
            scripts::compare(&wanted, got)
        });
        let error = same.err().map(|error| format!("{error}\n{}", list(&image.pins)));
        if error.is_none() {
            fs::remove_dir_all(&image.folder).map_err(text)?;
        }
        ended.push((image.set, image.pins.len(), error));
    }
    Ok(ended)
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

/// As a list for the linker, a function a line.
pub fn list(pins: &Pins) -> String {
    let mut text = String::from("[pins]\n");
    for isa in ISAS {
        let _ = writeln!(text, "{isa} = [");
        for (name, _) in pins.iter().filter(|(_, of)| **of == isa) {
            let _ = writeln!(text, "    {name:?},");
        }
        text.push_str("]\n");
    }
    text
}

/// The folder with a library's sources, fetched if they are not there.
///
/// # Errors
/// They cannot be fetched.
pub fn fetched(library: &str) -> Result<PathBuf, String> {
    let all = process::target().join("sources");
    if !all.join(library).is_dir() {
        let mut setup = Command::new(process::root().join("scripts/setup.sh"));
        let setup = setup.arg("--libraries").arg(&all).arg(library).env("CARGO_TARGET_DIR", process::target());
        run(setup).map_err(|error| format!("{library} cannot be fetched, so nothing is tested: {error}"))?;
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

//! A package: its recipe, what is built of it, and images, each with programs that are linked with other pins.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use fastrand::Rng;

use super::{Pins, fetched, list, run, text};
use crate::{
    host_busybox, process,
    scripts::{self, Did, Script},
};

/// Programs that are linked for one set of pins at most; the tests of others are left out.
const PROGRAMS_MAX: usize = 12;
/// At the same time.
const LINKERS: usize = 2;
/// Where nothing else is said. What is profiled has one of its own.
const LEVELS: &str = "-O1 -O2 -O3 -Os";
/// Functions that a package's tests call at least, or the profile is not what it should be: a set has up to twice as many.
const CALLED_MIN: usize = 20;
/// Lines of a build's output that an error shows.
const LOG_LINES: usize = 30;

/// The C compiler that is profiled with: functions are not inlined, so that all their calls are counted.
const PROFILED: &str = "-pg -no-pie -O1 -fno-inline -fvisibility=default -w";
/// Names the file with a program's profile after the program, since several programs have the same folder. glibc reads the
/// variable when the program ends.
const NAMES_PROFILE: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void name_profile(void) {
    char name[4096];
    ssize_t len = readlink("/proc/self/exe", name, sizeof name - 8);
    if (len > 0) {
        strcpy(name + len, ".calls");
        setenv("GMON_OUT_PREFIX", name, 1);
    }
}
"#;

/// All packages with a recipe.
pub fn names() -> Vec<String> {
    let recipes = fs::read_dir(folder_of_recipes()).expect("tests/packages").flatten().map(|entry| entry.path());
    let mut names: Vec<String> = recipes
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn folder_of_recipes() -> PathBuf {
    process::root().join("tests/packages")
}

/// A package's sources and what its build system makes of them.
struct Tree {
    recipe: PathBuf,
    folder: PathBuf,
    /// What has been linked: a program's path, a tab, and the command.
    links: PathBuf,
}

impl Tree {
    /// Copies the sources to a folder and builds them there, with variables for `tests/packages/cc`.
    fn build(name: &str, folder: PathBuf, variables: &[(&str, String)]) -> Result<Self, String> {
        let recipe = folder_of_recipes().join(name).with_extension("sh");
        let (bin, built) = (folder.with_extension("bin"), folder.with_extension("built"));
        let tree = Self { links: folder.with_extension("links"), recipe, folder };
        let made_from = tree.made_from(variables)?;
        if fs::read_to_string(&built).is_ok_and(|before| before == made_from) {
            return Ok(tree);
        }
        // What an interrupted build has left.
        for path in [&bin, &tree.folder] {
            let _ = fs::remove_dir_all(path);
        }
        for path in [&built, &tree.links] {
            let _ = fs::remove_file(path);
        }
        fs::create_dir(&bin).map_err(text)?;
        for compiler in ["cc", "c++"] {
            std::os::unix::fs::symlink(folder_of_recipes().join("cc"), bin.join(compiler)).map_err(text)?;
        }
        run(Command::new("cp").arg("-a").arg(fetched(name)?).arg(&tree.folder))?;
        for other in tree.variable("needs")?.split_whitespace() {
            fetched(other)?;
        }
        let mut shell = tree.shell("set -e\nbuild");
        shell.env("LIBRARIES", process::target().join("sources"));
        shell.env("CC", bin.join("cc")).env("CXX", bin.join("c++")).env("LINKS", &tree.links);
        shell.envs(variables.iter().map(|(name, value)| (*name, value)));
        let ended = shell.output().map_err(text)?;
        if ended.status.success() {
            fs::write(&built, made_from).map_err(text)?;
            return Ok(tree);
        }
        let log = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        let from = log.lines().count().saturating_sub(LOG_LINES);
        let end: Vec<&str> = log.lines().skip(from).collect();
        Err(format!("{name} cannot be built; {}\n{}", ended.status, end.join("\n")))
    }

    /// All that decides what is built: the recipe, the options, the compiler and the pins.
    fn made_from(&self, variables: &[(&str, String)]) -> Result<String, String> {
        let motet =
            fs::metadata(process::program()).and_then(|file| Ok((file.len(), file.modified()?))).map_err(text)?;
        let recipe = fs::read_to_string(&self.recipe).map_err(text)?;
        let pins = variables.iter().find(|(name, _)| *name == "PINS");
        let pins = pins.map(|(_, path)| fs::read_to_string(Path::new(path).with_extension("wanted")).map_err(text));
        Ok(format!("{recipe}\n{variables:?}\n{motet:?}\n{}", pins.transpose()?.unwrap_or_default()))
    }

    /// Bash, in the folder, with the recipe's functions and variables.
    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(format!(". \"$0\"\n{command}")).arg(&self.recipe).current_dir(&self.folder);
        shell.stdin(Stdio::null());
        shell
    }

    /// A variable of the recipe.
    fn variable(&self, name: &str) -> Result<String, String> {
        run(&mut self.shell(&format!("echo ${{{name}-}}"))).map(|value| value.trim().to_owned())
    }

    /// Programs, each with the command that has linked it. Those of a configuration's tests are gone.
    fn programs(&self) -> Result<BTreeMap<PathBuf, String>, String> {
        let links = fs::read_to_string(&self.links).map_err(text)?;
        let links = links.lines().filter_map(|line| line.split_once('\t'));
        let links = links.map(|(program, command)| (PathBuf::from(program), command.to_owned()));
        let is_cmakes = |path: &Path| path.components().any(|name| name.as_os_str() == "CMakeFiles");
        let is_made = |path: &Path| path.is_file() && path.starts_with(&self.folder) && !is_cmakes(path);
        Ok(links.filter(|(program, _)| is_made(program)).collect())
    }

    /// Copies what the tests need to a new folder, without these programs.
    fn copy(&self, to: &Path, without: &[&PathBuf]) -> Result<(), String> {
        let _ = fs::remove_dir_all(to);
        fs::create_dir(to).map_err(text)?;
        let copy = "tar -c --exclude='*.o' --exclude='*.a' --exclude='*.d' --exclude=CMakeFiles --exclude='*.calls.*' -- \
            ${files:-.} | tar -x -C \"$TO\"";
        run(self.shell(&format!("set -e -o pipefail\n{copy}")).env("TO", to))?;
        for program in without {
            let inside = program.strip_prefix(&self.folder).map_err(|error| error.to_string())?;
            // It may be where the tests need nothing.
            let _ = fs::remove_file(to.join(inside));
        }
        Ok(())
    }

    /// A script that runs the package's tests in a copy of a folder.
    fn script(&self, name: &str, folder: &str, to: &Path) -> Result<Script, String> {
        let recipe = fs::read_to_string(&self.recipe).map_err(text)?;
        fs::write(to, format!("{recipe}\ncp -R '{folder}' tree && cd tree && check\n")).map_err(text)?;
        Ok(Script::new(name, to.to_owned()))
    }
}

/// A package built by the host's compiler, for its profiler.
pub struct Profile {
    tree: Tree,
}

impl Profile {
    /// Builds it below a folder.
    ///
    /// # Errors
    /// What the build says.
    pub fn new(name: &str, folder: &Path) -> Result<Self, String> {
        let (source, object) = (folder.join("profile-name.c"), folder.join("profile-name.o"));
        fs::write(&source, NAMES_PROFILE).map_err(text)?;
        run(Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object))?;
        let variables = [
            ("REAL_CC", "cc".to_owned()),
            ("REAL_CXX", "c++".to_owned()),
            ("ADDED", PROFILED.to_owned()),
            ("LINKED", object.display().to_string()),
            ("AR", "ar".to_owned()),
            ("RANLIB", "ranlib".to_owned()),
        ];
        Ok(Self { tree: Tree::build(name, folder.join("profile"), &variables)? })
    }

    /// How often the tests call each function, by the names that a list of pins has.
    ///
    /// # Errors
    /// The tests fail, or call almost nothing.
    pub fn calls(&self) -> Result<BTreeMap<String, u64>, String> {
        let programs = self.tree.programs()?;
        run(Command::new("find").arg(&self.tree.folder).args(["-name", "*.calls.*", "-delete"]))?;
        // In place, since the profiles lie beside the programs: an interrupted run must not find this folder again.
        let _ = fs::remove_file(self.tree.folder.with_extension("built"));
        let checked = run(&mut self.tree.shell("check"));
        checked.map_err(|error| format!("the tests fail when they are profiled: {error}"))?;
        let (names, mut calls) = (self.names()?, BTreeMap::new());
        for program in programs.keys() {
            count(program, &names, &mut calls)?;
        }
        if calls.len() < CALLED_MIN {
            return Err(format!("the profiler has counted calls of {} functions of {programs:?}", calls.len()));
        }
        Ok(calls)
    }

    /// The functions of all object files, by the names of their symbols. One that only its file can name is `FILE:FUNCTION`; it is left
    /// out if several files have one of that name.
    fn names(&self) -> Result<BTreeMap<String, String>, String> {
        let symbols = "find . -name '*.o' -print0 | xargs -0 nm --print-file-name --defined-only";
        let symbols = run(&mut self.tree.shell(symbols))?;
        let sources = run(&mut self.tree.shell("find . -name '*.c' -o -name '*.cc' -o -name '*.cpp' | sed 's|.*/||'"))?;
        let sources: BTreeSet<&str> = sources.lines().collect();
        let mut names: BTreeMap<String, Option<String>> = BTreeMap::new();
        for line in symbols.lines() {
            let Some((object, symbol)) = line.split_once(".o:") else { continue };
            let (Some(kind), Some(function)) = (symbol.split(' ').nth(1), symbol.split(' ').nth(2)) else { continue };
            let file = Path::new(object).file_name().unwrap_or_default().to_string_lossy();
            match kind {
                "T" | "W" => drop(names.insert(function.to_owned(), Some(function.to_owned()))),
                "t" => {
                    // CMake's objects have their sources' whole names, automake's may begin with the program's.
                    let own = file.rsplit_once('-').map_or(&*file, |(_, own)| own);
                    let sought = [file.clone().into_owned(), format!("{file}.c"), format!("{own}.c")];
                    let Some(source) = sought.iter().find(|name| sources.contains(name.as_str())) else { continue };
                    let name = format!("{source}:{function}");
                    let known = names.entry(function.to_owned()).or_insert_with(|| Some(name.clone()));
                    if known.as_ref().is_some_and(|known| known.contains(':') && *known != name) {
                        *known = None;
                    }
                }
                _ => (),
            }
        }
        Ok(names.into_iter().filter_map(|(function, name)| Some((function, name?))).collect())
    }
}

/// Adds the calls that the profiles beside a program have.
fn count(program: &Path, names: &BTreeMap<String, String>, calls: &mut BTreeMap<String, u64>) -> Result<(), String> {
    let start = format!("{}.calls.", program.file_name().unwrap_or_default().to_string_lossy());
    let beside = fs::read_dir(program.parent().ok_or("a program has a folder")?).map_err(text)?;
    let beside = beside.flatten().map(|entry| entry.path());
    let is_count = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start));
    for count in beside.filter(is_count) {
        let profile = run(Command::new("gprof").args(["-b", "-p", "--no-demangle"]).arg(program).arg(count))?;
        for line in profile.lines() {
            // Three times, calls, two times per call, name.
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[_, _, _, count, _, _, function] = words.as_slice() else { continue };
            if let (Ok(count), Some(name)) = (count.parse::<u64>(), names.get(function))
                && function != "main"
            {
                *calls.entry(name.clone()).or_default() += count;
            }
        }
    }
    Ok(())
}

/// A package built by `motet cc`.
pub struct Package {
    tree: Tree,
    folder: PathBuf,
    variables: [(&'static str, String); 3],
}

impl Package {
    /// Builds it below a folder so that these functions can be pinned, at a level of optimisation that chance decides.
    ///
    /// # Errors
    /// What the build says.
    pub fn build(name: &str, folder: &Path, pins: &Pins, random: &mut Rng) -> Result<Self, String> {
        let list_path = folder.join("all.toml");
        for path in [list_path.clone(), list_path.with_extension("wanted")] {
            fs::write(path, list(pins)).map_err(text)?;
        }
        let recipe = folder_of_recipes().join(name).with_extension("sh");
        let levels = Tree { recipe, folder: folder.to_owned(), links: PathBuf::new() }.variable("levels")?;
        let levels: Vec<&str> = if levels.is_empty() { LEVELS } else { &levels }.split(' ').collect();
        let added = format!("-w -g0 {}", levels[random.usize(..levels.len())]);
        let bin = run(Command::new(process::program()).args(["cc", "--print-bin-dir"]))?;
        let tool = |name: &str| format!("{}/{name}", bin.trim());
        let variables = [("REAL_CC", tool("motet-cc")), ("REAL_CXX", tool("motet-c++")), ("ADDED", added)];
        let mut all = variables.to_vec();
        all.extend([
            ("AR", tool("motet-ar")),
            ("RANLIB", tool("motet-ranlib")),
            ("PINS", list_path.display().to_string()),
        ]);
        Ok(Self { tree: Tree::build(name, folder.join("package"), &all)?, folder: folder.to_owned(), variables })
    }

    /// Links its programs, or some of them if there are many, with other pins.
    ///
    /// # Errors
    /// What the linker says.
    pub fn link(&self, set: usize, pins: &Pins, random: &mut Rng) -> Result<Image, String> {
        let name = &format!("set{set}");
        let list_path = self.folder.join(name).with_extension("toml");
        fs::write(&list_path, list(pins)).map_err(text)?;
        let programs = self.tree.programs()?;
        let mut order: Vec<&PathBuf> = programs.keys().collect();
        random.shuffle(&mut order);
        let (linked, left) = order.split_at(order.len().min(PROGRAMS_MAX));
        let commands = Mutex::new(linked.iter().map(|program| &programs[*program]));
        let link = || {
            loop {
                let Some(command) = commands.lock().expect("no linker has panicked").next() else { return Ok(()) };
                let mut shell = Command::new("bash");
                shell.args(["-c", command]).env("PINS", &list_path);
                run(shell.envs(self.variables.iter().map(|(name, value)| (*name, value))))?;
            }
        };
        thread::scope(|scope| {
            let linkers: Vec<_> = (0..LINKERS).map(|_| scope.spawn(link)).collect();
            linkers.into_iter().try_for_each(|linker| linker.join().expect("no linker has panicked"))
        })
        .map_err(|error: String| format!("{error}\n{}", list(pins)))?;
        let folder = self.folder.join(name);
        self.tree.copy(&folder, left)?;
        let possible = fs::read_to_string(&list_path).map_err(text)?;
        let is_possible = |function: &String| possible.contains(&format!("{function:?},"));
        let pins = pins.iter().filter(|(function, _)| is_possible(function));
        let pins = pins.map(|(function, isa)| (function.clone(), *isa)).collect();
        Image::new(set, name, &self.tree, folder, pins)
    }

    /// Options that all of it is compiled with.
    pub fn options(&self) -> &str {
        let (_, added) = &self.variables[2];
        added
    }
}

/// What a package's tests need, with programs linked with some pins.
pub struct Image {
    /// The number of its set of pins.
    pub set: usize,
    pub name: String,
    /// Those that are possible.
    pub pins: Pins,
    /// Its size.
    pub bytes: u64,
    /// Where it is.
    pub folder: PathBuf,
    on_host: Script,
    on_machine: Script,
}

impl Image {
    fn new(set: usize, name: &str, tree: &Tree, folder: PathBuf, pins: Pins) -> Result<Self, String> {
        let script = |from: &str, extension: &str| tree.script(name, from, &folder.with_extension(extension));
        let on_host = script(&folder.display().to_string(), "host.sh")?;
        let on_machine = script(&format!("/in/{name}"), "machine.sh")?;
        let bytes = run(Command::new("du").arg("-sb").arg(&folder))?;
        let bytes = bytes.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).ok_or("du says no size")?;
        Ok(Self { set, name: name.to_owned(), pins, bytes, folder, on_host, on_machine })
    }

    /// What its tests do on the host, where all functions run on its instruction set.
    ///
    /// # Errors
    /// The host cannot run them.
    pub fn on_host(&self) -> Result<Did, String> {
        self.on_host.on_host(&host_busybox())
    }

    /// What the tests of several images do on one machine.
    ///
    /// # Errors
    /// A folder's name is not UTF-8.
    pub fn all_on_machine(images: &[Self]) -> Result<scripts::Results, String> {
        let scripts: Vec<Script> = images.iter().map(|image| image.on_machine.clone()).collect();
        let folders: Option<Vec<&str>> = images.iter().map(|image| image.folder.to_str()).collect();
        let folders = folders.ok_or("the folders' names must be UTF-8")?;
        let options: Vec<&str> = folders.into_iter().flat_map(|folder| ["--in", folder]).collect();
        Ok(scripts::on_machine(&scripts, &options))
    }
}

//! `motet cc`: compiles for every ISA, then links.

mod asked;
mod saved;

use std::{
    ffi::OsString,
    fs::File,
    io::{IsTerminal, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

use crate::{
    arguments::{Arguments, Item, Mode, Source, parse},
    error::{Error, ErrorKind, Result, create_folder, read, write},
    fat_object::{self, Notes},
    headers,
    hthreads::{self, Hthreads},
    isa::{self, ISAS, PerIsa, TARGETS, names},
    libc::{COMMON_FLAGS, Libc, TYPED},
    libcxx::Libcxx,
    link::{self, Alone, Input, Options, Pin},
    linker_arguments::{self, parse_linker},
    mentions, pins, sequential,
    tools::Tools,
};

/// What `motet cc --help` says.
const HELP: &str = "\
Compiles and links C for every instruction set at once: the program runs in the machine and on plain Linux.

usage: motet cc [OPTION...] FILE...          (motet c++: C++; motet ld: links objects)

It takes what any C compiler takes, and works as CC in Makefiles, configure and CMake. Its own options:

  --pins FILE           pins functions to instruction sets (TOML; without it, MOTET_ON in the source does)
  --isa ISA             the primary instruction set: whose Linux the file runs on, and what -S and -E show
  --emit-isa ISA FILE   writes an ordinary program for one instruction set as well, with the same addresses
  --print-bin-dir, --print-cmake-toolchain, --print-meson-cross
                        where the commands are that have one word (motet-cc, motet-c++, motet-ar, motet-ranlib, motet-ld), and
                        the files that tell CMake and Meson of them

Examples:
  motet cc -O2 -g a.c b.c -lm -o app
  motet cc --pins pins.toml -O2 a.c -o app
  make CC='motet cc'
  PATH=$PATH:$(motet cc --print-bin-dir) ./configure CC=motet-cc CXX=motet-c++ AR=motet-ar RANLIB=motet-ranlib
  cmake -S . -B build -DCMAKE_TOOLCHAIN_FILE=\"$(motet cc --print-cmake-toolchain)\"
  meson setup build --cross-file \"$(motet cc --print-meson-cross)\"

docs/toolchain.md has the limits. What the compiler itself takes: https://releases.llvm.org/19.1.0/tools/clang/docs/
";

/// Intermediate code as the source has it.
pub const UNOPTIMISED: [&str; 4] = ["-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"];
/// Of debugging information only types are wanted: no time is spent on where variables are (LLVM's pass "Live DEBUG_VALUE analysis").
const NO_LOCATIONS: [&str; 4] =
    ["-mllvm", "-livedebugvalues-input-bb-limit=0", "-mllvm", "-livedebugvalues-input-dbg-value-limit=0"];
/// Libraries that are part of the C library.
const PARTS_OF_LIBC: &[&str] =
    &["c", "m", "pthread", "rt", "dl", "crypt", "util", "xnet", "resolv", "gcc", "gcc_s", "gcc_eh", "atomic"];
/// Libraries that are part of the C++ library.
const PARTS_OF_LIBCXX: &[&str] = &["stdc++", "c++", "c++abi", "unwind", "supc++"];

/// Runs `motet cc ARGUMENTS` (`motet c++` if `cxx`) with the toolchain's files in `folder`; gives the exit status.
///
/// # Errors
/// The arguments are wrong, the tools are missing, or the program cannot be linked.
pub fn cc(folder: &Path, cxx: bool, arguments: &[OsString]) -> Result<u8> {
    run(folder, cxx, parse(arguments)?)
}

/// Runs `motet ld ARGUMENTS`: links what `motet cc -c` has made, with options of linkers.
///
/// # Errors
/// As [`cc`].
pub fn ld(folder: &Path, arguments: &[OsString]) -> Result<u8> {
    let arguments = parse_linker(arguments)?;
    if arguments.mode == Mode::Help {
        return motet_error::print(linker_arguments::HELP).map(|()| 0);
    }
    run(folder, false, arguments)
}

/// Runs the archiver's `program` (`ar`, `ranlib`) out of the compiler's package; gives the exit status.
///
/// # Errors
/// The tools are missing.
pub fn archiver(folder: &Path, program: &str, arguments: &[OsString]) -> Result<u8> {
    let tools = Tools::find(folder)?;
    let status = tools.command(program).args(arguments).status();
    status.map(exit_status).map_err(|error| Error::read(&tools.program, error))
}

fn run(folder: &Path, cxx: bool, arguments: Arguments) -> Result<u8> {
    if arguments.mode == Mode::Help {
        motet_error::print(HELP)?;
        return Ok(0);
    }
    let mut pins = Vec::new();
    for path in &arguments.pins {
        pins.extend(pins::load(path)?);
    }
    let tools = Tools::find(folder)?;
    let libc = Libc::find(&tools)?;
    let needs_libcxx = cxx || arguments.items.iter().any(needs_libcxx);
    let libcxx = needs_libcxx.then(|| Libcxx::find(&tools, &libc)).transpose()?;
    let headers = own_headers(folder)?;
    let temporary = tempfile::Builder::new().prefix("motet-cc-").tempdir();
    let temporary = temporary.map_err(|error| Error::write(&std::env::temp_dir(), error))?;
    let driver = Driver { tools, libc, cxx, libcxx, headers, arguments, pins, temporary };
    match driver.arguments.mode {
        Mode::Help | Mode::Query => driver.query(),
        Mode::Linker => driver.run_itself(driver.tools.command("ld.lld").arg("--version")),
        Mode::Text => driver.text(),
        Mode::Compile => driver.compile(),
        Mode::Link if driver.arguments.items.is_empty() => driver.query(),
        Mode::Link => driver.link(),
    }
}

fn needs_libcxx(item: &Item) -> bool {
    match item {
        Item::Source(source) => source.is_cpp(),
        Item::Library(name, _) => PARTS_OF_LIBCXX.contains(&name.as_str()),
        Item::Object(_) => false,
    }
}

/// The folder with the headers that programs include as `motet.h`, `motet_dma.h` and `hthread.h`; written when there are none, or other versions.
fn own_headers(folder: &Path) -> Result<PathBuf> {
    const HEADERS: [(&str, &str); 3] = [
        hthreads::HEADER,
        ("motet.h", include_str!("../../../user/include/motet.h")),
        ("motet_dma.h", include_str!("../../../user/include/motet_dma.h")),
    ];
    let headers = folder.join("include");
    for (name, text) in HEADERS {
        let path = headers.join(name);
        // Who may read the folder may read what is in it.
        let rights = |path: &Path| std::fs::metadata(path).ok().map(|there| there.permissions().mode() & 0o666);
        let is_readable = || rights(&path).is_some_and(|own| Some(own) == rights(&headers));
        if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) || is_own(&path) && !is_readable() {
            create_folder(&headers)?;
            // By way of another name, since several compilers may run at once.
            let mut new = tempfile::NamedTempFile::new_in(&headers).map_err(|error| Error::write(&headers, error))?;
            new.write_all(text.as_bytes()).map_err(|error| Error::write(&path, error))?;
            if let Some(mode) = rights(&headers) {
                let permissions = std::fs::Permissions::from_mode(mode);
                new.as_file().set_permissions(permissions).map_err(|error| Error::write(&path, error))?;
            }
            new.persist(&path).map_err(|error| Error::write(&path, error))?;
        }
    }
    Ok(headers)
}

/// Whether a file is this user's, who can then mend its rights.
fn is_own(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| there.uid() == rustix::process::geteuid().as_raw())
}

/// A call of `motet cc`.
pub struct Driver {
    /// The compiler's package.
    pub tools: Tools,
    /// The C library.
    pub libc: Libc,
    /// `motet c++`.
    pub cxx: bool,
    /// If it is needed.
    pub libcxx: Option<Libcxx>,
    /// The folder of `motet.h`.
    pub headers: PathBuf,
    /// What the user wants.
    pub arguments: Arguments,
    /// Of `--pins`.
    pub pins: Vec<Pin>,
    /// For files between the compiler and the linker.
    pub temporary: TempDir,
}

impl Driver {
    fn query(&self) -> Result<u8> {
        let mut command = self.compiler(self.arguments.primary, self.cxx);
        if self.arguments.compiler.iter().any(|word| word == "--version") {
            motet_error::print(&format!("motet cc: one program for {}\n", names()))?;
        }
        if self.arguments.verbose {
            command.arg("-v");
        }
        self.run_itself(&mut command)
    }

    /// Runs a program whose input and output are the user's.
    pub fn run_itself(&self, command: &mut Command) -> Result<u8> {
        let status = command.status().map_err(|error| Error::read(&self.tools.program, error))?;
        Ok(exit_status(status))
    }

    fn compile(&self) -> Result<u8> {
        let sources = self.sources();
        if sources.len() > 1 && self.arguments.output.is_some() {
            return Err(Error::usage("motet cc: -o with -c needs exactly one source"));
        }
        for source in &sources {
            let object = || match source.is_header() {
                true => [source.path.as_os_str(), ".gch".as_ref()].into_iter().collect::<OsString>().into(),
                false => PathBuf::from(source.path.with_extension("o").file_name().unwrap_or_default()),
            };
            let output = self.arguments.output.clone().unwrap_or_else(object);
            let status = self.compile_one(source, &output, &output)?;
            if status != 0 {
                return Ok(status);
            }
        }
        Ok(0)
    }

    fn link(&self) -> Result<u8> {
        if self.arguments.says_linker {
            self.run_itself(self.tools.command("ld.lld").arg("--version"))?;
        }
        let mut inputs = Vec::new();
        if !self.arguments.no_start_files {
            inputs.push(Input::of_runtime(self.libc.start_object()));
        }
        for (index, item) in self.arguments.items.iter().enumerate() {
            match item {
                Item::Source(source) => {
                    let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    let path = self.temporary.path().join(format!("{index}-{stem}.o"));
                    let status = self.compile_one(source, &path, &self.goal(source))?;
                    if status != 0 {
                        return Ok(status);
                    }
                    inputs.push(Input::new(path, Some(source.path.display().to_string()), false));
                }
                Item::Object(input) => inputs.push(input.clone()),
                Item::Library(name, whole) => {
                    inputs.extend(self.library(name)?.into_iter().map(|path| Input::new(path, None, *whole)))
                }
            }
        }
        if !self.arguments.no_libraries {
            inputs.extend(self.libcxx.iter().map(|libcxx| Input::of_runtime(libcxx.archive())));
            inputs.push(Input::of_runtime(self.libc.archive()));
        }
        let options = Options {
            inputs,
            output: self.program(),
            entry: self.arguments.entry.clone().unwrap_or_else(|| "_start".into()),
            needed: self.arguments.needed.clone(),
            pins: self.pins.clone(),
            primary: self.arguments.primary,
            single: self.arguments.single.clone(),
            strip: self.arguments.strip,
            wishes: self.arguments.wishes.clone(),
        };
        link::link(&self.tools, &options)?;
        Ok(0)
    }

    /// The archives of `-lNAME`; none if the C library has it.
    fn library(&self, name: &str) -> Result<Vec<PathBuf>> {
        let file = name.strip_prefix(':').map_or_else(|| format!("lib{name}.a"), str::to_owned);
        let found = self.arguments.library_folders.iter().map(|folder| folder.join(&file)).find(|path| path.is_file());
        if found.is_none() && [hthreads::NAME, hthreads::ADAPTOR].contains(&name) {
            let hthreads = Hthreads::find(&self.tools, &self.libc)?;
            let adaptor = (name == hthreads::ADAPTOR).then(|| hthreads.adaptor());
            return Ok(adaptor.into_iter().chain([hthreads.archive()]).collect());
        }
        if found.is_some() || PARTS_OF_LIBC.contains(&name) || PARTS_OF_LIBCXX.contains(&name) {
            return Ok(found.into_iter().collect());
        }
        let folders: Vec<String> =
            self.arguments.library_folders.iter().map(|folder| folder.display().to_string()).collect();
        let places = if folders.is_empty() {
            "no -L names a folder".to_owned()
        } else {
            format!("not in {}", folders.join(", "))
        };
        let message = format!("motet cc: -l{name}: there is no {file} ({places})");
        Err(Error::new(ErrorKind::NoInput, message))
    }

    pub fn sources(&self) -> Vec<Source> {
        let source = |item: &Item| match item {
            Item::Source(source) => Some(source.clone()),
            Item::Object(_) | Item::Library(..) => None,
        };
        self.arguments.items.iter().filter_map(source).collect()
    }

    /// The file that a source becomes part of, as far as its dependency file goes: the program; of several sources, each
    /// has one of its own.
    fn goal(&self, source: &Source) -> PathBuf {
        let program = self.program();
        if self.sources().len() == 1 {
            return program;
        }
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = source.path.file_stem().unwrap_or_default().to_string_lossy();
        program.with_file_name(format!("{name}-{stem}.o"))
    }

    /// The file that linking makes.
    fn program(&self) -> PathBuf {
        self.arguments.output.clone().unwrap_or_else(|| "a.out".into())
    }

    /// Compiles a source for every ISA at once. What the compiler says is shown once. `goal` is what the user makes of it.
    fn compile_one(&self, source: &Source, output: &Path, goal: &Path) -> Result<u8> {
        let input = self.standard_input(source)?;
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // A folder each: with `-save-temps=obj` clang puts other files beside its object.
        let saved = self.saved_folder()?;
        let objects: PerIsa<PathBuf> = std::array::from_fn(|isa| {
            let folder = if isa == self.arguments.primary { saved.as_path() } else { self.temporary.path() };
            folder.join(format!("{name}.{}", ISAS[isa].name()))
        });
        let codes: PerIsa<PathBuf> =
            std::array::from_fn(|isa| objects[isa].with_extension(format!("{}.listed.ll", ISAS[isa].name())));
        let headers_of: PerIsa<PathBuf> =
            std::array::from_fn(|isa| objects[isa].with_extension(format!("{}.d", ISAS[isa].name())));
        let listed = self.listed(source);
        let is_listed = !listed.is_empty();
        let run = |isa: usize| {
            let mut command = self.compiler(isa, self.cxx || source.is_cpp());
            if isa == self.arguments.primary {
                command.args(self.arguments.verbose.then_some("-v")).args(&self.arguments.saves);
            }
            self.add_dependencies(&mut command, isa, goal, &headers_of[isa]);
            if source.is_header() {
                command.arg("-fsyntax-only");
            } else if is_listed {
                command.args(UNOPTIMISED).arg("-o").arg(&codes[isa]);
            } else {
                command.arg("-c").arg("-o").arg(&objects[isa]);
            }
            add_source(&mut command, source);
            command.stdin(stdin(input.as_deref())?);
            let output = command.output().map_err(|error| Error::read(&self.tools.program, error))?;
            if output.status.success() && is_listed {
                drop(self.compile_listed(isa, source, &codes[isa], &objects[isa], &[])?);
            } else if output.status.success() && !source.is_assembly() && !source.is_header() {
                let compiler = || {
                    let mut command = self.compiler(isa, self.cxx || source.is_cpp());
                    command.stdin(stdin(input.as_deref())?);
                    Ok(command)
                };
                sequential::fence_stores(isa, &objects[isa], &compiler, &|command| add_source(command, source))?;
            }
            Ok(output)
        };
        let results = isa::at_once(run)?;
        let status = self.show(source, &results);
        self.put_saved(&saved, goal)?;
        if status != 0 {
            return Ok(status);
        }
        if self.wants_dependencies() {
            // Assembly without a preprocessor has none.
            let texts = headers_of.each_ref().map(|file| std::fs::read(file).unwrap_or_default());
            self.write_dependencies(goal, &texts)?;
        }
        if source.is_header() {
            let words = self.arguments.compiler.windows(2).filter(|words| words[0] == "-include");
            let included = words.map(|words| Path::new(&words[1]));
            return headers::mark(output, &included.chain([source.path.as_path()]).collect::<Vec<_>>()).map(|()| 0);
        }
        let other = (self.arguments.primary + 1) % ISAS.len();
        let mut mentions = self.mentions(source, input.as_deref(), &headers_of[other])?;
        if is_listed {
            mentions.extend(self.listed_mentions(&codes[0], &listed)?);
        }
        mentions::check(mentions.iter().map(|mention| (0, mention)))?;
        let differing = self.differing_types(source, input.as_deref(), &headers_of)?;
        let name = source.path.display().to_string();
        let mut notes = Notes { mentions, differing, ..Notes::default() };
        let mut contents = contents_of(&objects)?;
        let mut file = fat_object::join(&name, &contents, &notes)?;
        let mut alone = Alone::new(&name, &file);
        if source.is_assembly() {
            notes.lone = alone.lacking;
        } else if !alone.lacking.is_empty() {
            notes.lone = self.compile_kept(source, input.as_deref(), &alone.lacking, &objects)?;
            notes.typed = !self.arguments.has_full_debug();
            contents = contents_of(&objects)?;
            file = fat_object::join(&name, &contents, &notes)?;
            alone = Alone::new(&name, &file);
        }
        for object in &objects {
            let _ = std::fs::remove_file(object);
        }
        notes.constants = self.never_written(source, input.as_deref(), alone.differing_statics)?;
        if !notes.lone.is_empty() || !notes.constants.is_empty() {
            file = fat_object::join(&name, &contents, &notes)?;
        }
        write(output, &file)?;
        Ok(0)
    }

    /// A copy of standard input, which can be read only once, if that is the source.
    pub fn standard_input(&self, source: &Source) -> Result<Option<PathBuf>> {
        if source.path.as_os_str() != "-" {
            return Ok(None);
        }
        let path = self.temporary.path().join("stdin");
        let mut file = File::create(&path).map_err(|error| Error::write(&path, error))?;
        std::io::copy(&mut std::io::stdin(), &mut file).map_err(|error| Error::write(&path, error))?;
        Ok(Some(path))
    }

    /// Each ISA's dependencies go into `file`. Clang would name the object, which is not the one that the user knows.
    fn add_dependencies(&self, command: &mut Command, isa: usize, goal: &Path, file: &Path) {
        let words = &self.arguments.dependencies;
        if !self.wants_dependencies() || isa != self.arguments.primary {
            // All headers: also for ourselves, to know whether there is `motet.h`.
            command.arg("-MD").arg("-MF").arg(file);
            return;
        }
        command.args(words).arg("-MF").arg(file);
        if !words.iter().any(|word| word.as_bytes().starts_with(b"-MT") || word.as_bytes().starts_with(b"-MQ")) {
            command.arg("-MQ").arg(goal);
        }
    }

    /// Shows the diagnostics of the primary ISA; of the others only what is not in them. Gives the exit status.
    pub fn show(&self, source: &Source, results: &[Output]) -> u8 {
        let mut error = std::io::stderr();
        let shown = &results[self.arguments.primary];
        let _ = error.write_all(&shown.stderr);
        let known = diagnostics(&shown.stderr);
        let mut status = exit_status(shown.status);
        for (isa, result) in results.iter().enumerate().filter(|(isa, _)| *isa != self.arguments.primary) {
            let own: Vec<u8> = diagnostics(&result.stderr)
                .into_iter()
                .filter(|text| !known.contains(text))
                .flatten()
                .copied()
                .collect();
            if !own.is_empty() {
                let path = source.path.display();
                let _ = writeln!(error, "motet: {path}, compiled for {}:", ISAS[isa].name());
                let _ = error.write_all(&own);
            }
            if status == 0 {
                status = exit_status(result.status);
            }
        }
        status
    }

    /// Clang for an ISA and C or C++, with everything but the input and the output.
    pub fn compiler(&self, isa: usize, is_cpp: bool) -> Command {
        let target = &TARGETS[isa];
        let mut command = self.tools.command("clang");
        command.args(self.cxx.then_some("--driver-mode=g++"));
        command.arg(format!("--target={}", target.triple)).arg("-Qunused-arguments");
        // Of a header beside which lies what stands for it precompiled.
        command.arg("-Wno-ignored-gch");
        command.args(target.flags).args(&self.arguments.compiler);
        if isa == self.arguments.primary {
            command.args(&self.arguments.processor);
        }
        command.args(COMMON_FLAGS);
        if self.arguments.unsigned_char {
            command.arg("-funsigned-char");
        }
        for pin in self.pins.iter().filter(|pin| pin.is_plain()) {
            // A copy inside its caller would run where that does.
            command.arg("-mllvm").arg(format!("-force-attribute={}:noinline", pin.function));
        }
        if isa == TYPED && self.arguments.mode != Mode::Text && !self.arguments.has_full_debug() {
            command.arg("-g").args(NO_LOCATIONS);
        }
        if isa == TYPED {
            // Classes that functions take by value are defined there, not only declared.
            command.arg("-fstandalone-debug");
        }
        if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
            command.arg("-fcolor-diagnostics");
        }
        if !self.arguments.no_includes {
            command.arg("-nostdinc");
            command.args(self.libcxx.iter().filter(|_| is_cpp).flat_map(Libcxx::flags));
            for folder in self.libc.include_folders(isa) {
                command.arg("-isystem").arg(folder);
            }
            command.arg("-isystem").arg(&self.headers);
        }
        command
    }
}

/// Each ISA's object file.
fn contents_of(objects: &PerIsa<PathBuf>) -> Result<PerIsa<Vec<u8>>> {
    let mut contents = PerIsa::<Vec<u8>>::default();
    for (contents, path) in contents.iter_mut().zip(objects) {
        *contents = read(path)?;
    }
    Ok(contents)
}

/// What a compiler reads as its standard input.
pub fn stdin(copy: Option<&Path>) -> Result<Stdio> {
    Ok(match copy {
        Some(path) => File::open(path).map_err(|error| Error::read(path, error))?.into(),
        None => Stdio::null(),
    })
}

/// The file and its language.
pub fn add_source(command: &mut Command, source: &Source) {
    // Of a source before, too: clang warns of a `-x none` that nothing follows.
    let language = source.language.as_deref().unwrap_or("none".as_ref());
    command.arg("-x").arg(language).arg(&source.path);
}

/// What a compiler says, in parts: a warning or an error each, with the notes and lines of source that belong to it. Without
/// their number at the end.
fn diagnostics(text: &[u8]) -> Vec<&[u8]> {
    let has = |line: &[u8], words: &[u8]| line.windows(words.len()).any(|part| part == words);
    let is_count = |line: &[u8]| line.first().is_some_and(u8::is_ascii_digit) && line.ends_with(b" generated.\n");
    let mut starts = vec![0];
    let (mut at, mut in_header) = (0, false);
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let is_include = line.starts_with(b"In file included from ");
        let begins = is_include || is_count(line) || has(line, b"error: ") || has(line, b"warning: ");
        if begins && !in_header {
            starts.push(at);
        }
        in_header = is_include;
        at += line.len();
    }
    starts.push(at);
    let parts = starts.windows(2).map(|ends| &text[ends[0]..ends[1]]);
    parts.filter(|part| !part.is_empty() && !is_count(part)).collect()
}

fn exit_status(status: std::process::ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_compiler_says_is_divided_by_warnings_and_errors() {
        let text = "a.c:1:2: warning: one\n    1 | code\n      | ^\na.h:9:1: note: there\n\
            In file included from a.c:2:\nIn file included from b.h:1:\nc.h:3:4: error: two\n1 warning and 1 error generated.\n";
        let parts = diagnostics(text.as_bytes());
        let parts: Vec<&str> = parts.into_iter().map(|part| std::str::from_utf8(part).unwrap()).collect();
        let [one, two] = parts[..] else { panic!("{parts:?}") };
        assert!(one.starts_with("a.c:1:2") && one.ends_with("there\n"), "{one}");
        assert!(two.starts_with("In file included from a.c") && two.ends_with("two\n"), "{two}");
        assert!(diagnostics(b"").is_empty());
    }
}

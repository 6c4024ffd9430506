//! The command line of a C compiler: which arguments are for the compiler, which for the linker, which for `motet`.

mod linking;

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use crate::{
    error::{Error, Result, read},
    headers,
    isa::{index_by_name, names},
    library::is_assembly,
    link::{Input, Wishes},
    options::*,
};

/// What comes out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// An executable.
    #[default]
    Link,
    /// Object files (`-c`).
    Compile,
    /// Text for people and other tools (`-E`, `-S`, `-M`, `-fsyntax-only`): of one ISA.
    Text,
    /// Answers (`--version`, `-print-search-dirs`): of the compiler alone.
    Query,
    /// What the linker is (`-Wl,--version`): build systems ask it.
    Linker,
    /// `--help`.
    Help,
}

/// Something to compile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// A file, or `-`.
    pub path: PathBuf,
    /// Of `-x`.
    pub language: Option<OsString>,
}

impl Source {
    /// Whether it is C++.
    pub fn is_cpp(&self) -> bool {
        let extension = self.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match &self.language {
            Some(language) => language.as_bytes().starts_with(b"c++"),
            None => CPP_EXTENSIONS.contains(&extension),
        }
    }

    /// Whether it is a header, to be precompiled.
    pub fn is_header(&self) -> bool {
        let extension = self.path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match &self.language {
            Some(language) => language.as_bytes().ends_with(b"-header"),
            None => HEADER_EXTENSIONS.contains(&extension),
        }
    }

    /// Whether it is assembly.
    pub fn is_assembly(&self) -> bool {
        match &self.language {
            Some(language) => language.as_bytes().starts_with(b"assembler"),
            None => is_assembly(&self.path),
        }
    }
}

/// Of files that are C++ whatever the driver is called.
const CPP_EXTENSIONS: &[&str] = &["C", "cc", "cpp", "cxx", "c++", "CPP", "ii", "hpp", "hh"];
/// Of other sources.
const EXTENSIONS: &[&str] = &["c", "i", "s", "S", "sx", "h"];

const HEADER_EXTENSIONS: &[&str] = &["h", "hpp", "hh"];

/// In the order of the command line.
#[derive(Clone, Debug)]
pub enum Item {
    /// To be compiled.
    Source(Source),
    /// To be linked.
    Object(Input),
    /// `-lNAME`.
    Library(String, bool),
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct Arguments {
    /// What comes out.
    pub mode: Mode,
    /// `-o`.
    pub output: Option<PathBuf>,
    /// What goes in.
    pub items: Vec<Item>,
    /// For every compilation.
    pub compiler: Vec<OsString>,
    /// About dependency files, but not where they go.
    pub dependencies: Vec<OsString>,
    /// `-MF`.
    pub dependency_file: Option<PathBuf>,
    /// For compilations for the primary ISA only: its own processor's features.
    pub processor: Vec<OsString>,
    /// `-save-temps`: for one compilation of each source, the first for the primary ISA, since others would write the same files.
    pub saves: Option<OsString>,
    /// `-L`.
    pub library_folders: Vec<PathBuf>,
    /// `-e`.
    pub entry: Option<String>,
    /// `-u`.
    pub needed: Vec<String>,
    /// `-s`.
    pub strip: bool,
    /// `-nostartfiles`, `-nostdlib`.
    pub no_start_files: bool,
    /// `-nodefaultlibs`, `-nostdlib`.
    pub no_libraries: bool,
    /// `-nostdinc`.
    pub no_includes: bool,
    /// `-funsigned-char`.
    pub unsigned_char: bool,
    /// `-v`.
    pub verbose: bool,
    /// Other options of linkers.
    pub wishes: Wishes,
    /// `-Wl,-v`: says what the linker is, and links if there is something to link.
    pub says_linker: bool,
    /// `--pins FILE`.
    pub pins: Vec<PathBuf>,
    /// `--isa NAME`: of the text, and of the file as other systems see it.
    pub primary: usize,
    /// `--emit-isa NAME FILE`.
    pub single: Vec<(usize, PathBuf)>,
}

impl Arguments {
    /// Whether the user wants the debugger's sections with types in them.
    pub fn has_full_debug(&self) -> bool {
        let last = self.compiler.iter().rev().find(|word| word.as_bytes().starts_with(b"-g"));
        last.is_some_and(|word| {
            ["-g", "-g2", "-g3"].iter().any(|full| word == full) || word.as_bytes().starts_with(b"-ggdb")
        })
    }
}

struct Parser {
    words: VecDeque<OsString>,
    parsed: Arguments,
    language: Option<OsString>,
    whole_archives: bool,
    /// Of `--push-state`.
    pushed: Vec<bool>,
}

/// Parses the arguments of `motet cc`.
///
/// # Errors
/// One is wrong, or asks for what cannot be had.
pub fn parse(arguments: &[OsString]) -> Result<Arguments> {
    let mut words = VecDeque::new();
    for argument in arguments {
        expand(argument, 0, &mut words)?;
    }
    let mut parser =
        Parser { words, parsed: Arguments::default(), language: None, whole_archives: false, pushed: Vec::new() };
    while let Some(word) = parser.words.pop_front() {
        parser.word(word)?;
    }
    let mut parsed = parser.parsed;
    let is_header = |item: &Item| matches!(item, Item::Source(source) if source.is_header());
    if parsed.mode == Mode::Link && parsed.items.iter().any(is_header) {
        parsed.mode = Mode::Compile;
    }
    if parsed.says_linker && parsed.items.is_empty() {
        parsed.mode = parsed.mode.max_with(Mode::Linker);
    }
    check_sanitizers(&parsed.compiler)?;
    let has_answer = matches!(parsed.mode, Mode::Query | Mode::Linker | Mode::Help);
    if parsed.items.is_empty() && !has_answer && !parsed.verbose {
        return Err(Error::usage("motet cc: no input files"));
    }
    Ok(parsed)
}

/// Adds an argument, or the words in the file that `@FILE` names, and in those that these name.
fn expand(argument: &OsStr, depth: usize, words: &mut VecDeque<OsString>) -> Result<()> {
    const DEPTH_MAX: usize = 20;
    let Some(file) = argument.as_bytes().strip_prefix(b"@") else {
        words.push_back(argument.to_owned());
        return Ok(());
    };
    if depth == DEPTH_MAX {
        let message = "files that name each other by @FILE again and again";
        return Err(Error::usage(format!("motet cc: {}: {message}", argument.to_string_lossy())));
    }
    let file = PathBuf::from(OsString::from_vec(file.to_vec()));
    response_file(&file)?.iter().try_for_each(|word| expand(word, depth + 1, words))
}

/// Sanitizers that call a runtime library cannot be had; those that trap can.
fn check_sanitizers(compiler: &[OsString]) -> Result<()> {
    let with = |prefix: &str| compiler.iter().filter_map(|word| word.to_str()).find(|text| text.starts_with(prefix));
    match with("-fsanitize=") {
        Some(option) if with("-fsanitize-trap").is_none() => Err(Error::usage(format!(
            "motet cc: {option}: its runtime library is not there for all instruction sets; \
             -fsanitize=undefined -fsanitize-trap=all needs none"
        ))),
        _ => Ok(()),
    }
}

impl Parser {
    fn word(&mut self, word: OsString) -> Result<()> {
        let Some(text) = word.to_str().map(str::to_owned) else {
            self.input(word);
            return Ok(());
        };
        if text == "-" || !text.starts_with('-') {
            self.input(word);
            return Ok(());
        }
        if self.precompiled(&text)?
            || self.motet(&text)?
            || self.output(&text)?
            || self.linker(&text)?
            || self.target(&text)?
        {
            return Ok(());
        }
        if WITH_ARGUMENT.contains(&text.as_str()) {
            let argument = self.argument(&text)?;
            self.parsed.compiler.extend([word, argument]);
            return Ok(());
        }
        if !IGNORED.contains(&text.as_str()) && !IGNORED_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            self.parsed.no_includes |= text == "-nostdinc";
            self.parsed.compiler.push(word);
        }
        Ok(())
    }

    /// Precompiled headers, also as the driver tells the compiler of them (`-Xclang`).
    fn precompiled(&mut self, text: &str) -> Result<bool> {
        match text {
            "-include-pch" => {
                let file = PathBuf::from(self.argument(text)?);
                let headers = headers::of(&file)?.into_iter();
                self.parsed.compiler.extend(headers.flat_map(|header| ["-include".into(), header]));
            }
            "-Xclang" => {
                let word = self.argument(text)?;
                if word == "-include-pch" || word == "-include" {
                    if self.words.front().is_some_and(|word| word == "-Xclang") {
                        self.words.pop_front();
                    }
                    self.words.push_front(word);
                } else if word != "-emit-pch" {
                    self.parsed.compiler.extend([text.into(), word]);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn motet(&mut self, text: &str) -> Result<bool> {
        if let Some((option @ ("--pins" | "--isa"), argument)) = text.split_once('=') {
            self.words.push_front(argument.into());
            return self.motet(option);
        }
        match text {
            "--pins" => {
                let path = self.argument(text)?.into();
                self.parsed.pins.push(path);
            }
            "--isa" => self.parsed.primary = self.isa(text)?,
            "--emit-isa" => {
                let isa = self.isa(text)?;
                let path = self.argument(text)?.into();
                self.parsed.single.push((isa, path));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What comes out, and where.
    fn output(&mut self, text: &str) -> Result<bool> {
        let parsed = &mut self.parsed;
        match text {
            "-c" => parsed.mode = parsed.mode.max_with(Mode::Compile),
            "-E" | "-S" | "-M" | "-MM" | "-fsyntax-only" | "-###" => {
                parsed.mode = parsed.mode.max_with(Mode::Text);
                parsed.compiler.push(text.into());
            }
            "-emit-llvm" => {
                return Err(Error::usage(
                    "motet cc: -emit-llvm: an object file holds machine code of every instruction set",
                ));
            }
            "--version" | "-dumpmachine" | "-dumpversion" => {
                parsed.mode = parsed.mode.max_with(Mode::Query);
                parsed.compiler.push(text.into());
            }
            "--help" => parsed.mode = Mode::Help,
            "-v" | "--verbose" => parsed.verbose = true,
            "-MD" | "-MMD" | "-MP" | "-MG" | "-MV" => parsed.dependencies.push(text.into()),
            "-MF" => self.parsed.dependency_file = Some(self.argument(text)?.into()),
            "-MT" | "-MQ" => {
                let argument = self.argument(text)?;
                self.parsed.dependencies.extend([text.into(), argument]);
            }
            "-o" => self.parsed.output = Some(self.argument(text)?.into()),
            "-x" => {
                let language = self.argument(text)?;
                self.language = (language != "none").then_some(language);
            }
            _ if text.starts_with("-print-") || text.starts_with("--print-") => {
                parsed.mode = parsed.mode.max_with(Mode::Query);
                parsed.compiler.push(text.into());
            }
            _ if text.starts_with("-MF") => parsed.dependency_file = Some(text[3..].into()),
            _ if text.starts_with("-MT") || text.starts_with("-MQ") => parsed.dependencies.push(text.into()),
            _ if text.starts_with("-Wp,") => self.preprocessor_words(&text[4..]),
            _ if text.starts_with("-o") && !text.starts_with("-object") => parsed.output = Some(text[2..].into()),
            _ if text.starts_with("-x") => self.language = (&text[2..] != "none").then(|| text[2..].into()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `-Wp,WORD,...`: as words of their own, but the file of `-MD` may follow it.
    fn preprocessor_words(&mut self, list: &str) {
        let mut words: Vec<OsString> = Vec::new();
        let mut rest = list.split(',').peekable();
        while let Some(word) = rest.next() {
            words.push(word.into());
            let is_list = ["-MD", "-MMD"].contains(&word);
            if let Some(file) = rest.next_if(|next| is_list && !next.starts_with('-')) {
                words.extend(["-MF".into(), file.into()]);
            }
        }
        words.into_iter().rev().for_each(|word| self.words.push_front(word));
    }

    /// Which processor.
    fn target(&mut self, text: &str) -> Result<bool> {
        if text == "-target" || text.starts_with("--target=") || text == "-m32" || text == "-mx32" {
            return Err(Error::usage(format!("motet cc: {text}: programs are always built for {}", names())));
        }
        if text.starts_with("-mlong-double-") {
            return Err(Error::usage(format!(
                "motet cc: {text}: long double has 64 bits, because it must be the same everywhere"
            )));
        }
        if text == "-fshort-wchar" {
            return Err(Error::usage(format!("motet cc: {text}: wchar_t must be the same everywhere")));
        }
        if NEED_RUNTIME
            .iter()
            .any(|option| text == *option || text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
        {
            return Err(Error::usage(format!(
                "motet cc: {text}: its runtime library is not there for all instruction sets"
            )));
        }
        if text.starts_with("-save-temps") || text.starts_with("--save-temps") {
            self.parsed.saves = Some(text.into());
            return Ok(true);
        }
        if let "-funsigned-char" | "-fno-signed-char" | "-fsigned-char" | "-fno-unsigned-char" = text {
            self.parsed.unsigned_char = matches!(text, "-funsigned-char" | "-fno-signed-char");
            return Ok(true);
        }
        let of_processor = text.starts_with("-m") && text != "-mllvm" && !text.starts_with("-mno-omit")
            || text.starts_with("-fcf-protection");
        if of_processor {
            self.parsed.processor.push(text.into());
        }
        Ok(of_processor)
    }

    fn input(&mut self, word: OsString) {
        let path = PathBuf::from(word);
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let is_source = path.as_os_str() == "-"
            || self.language.is_some()
            || EXTENSIONS.contains(&extension)
            || CPP_EXTENSIONS.contains(&extension);
        self.parsed.items.push(if is_source {
            Item::Source(Source { path, language: self.language.clone() })
        } else {
            Item::Object(Input::new(path, None, self.whole_archives))
        });
    }

    fn argument(&mut self, option: &str) -> Result<OsString> {
        self.words.pop_front().ok_or_else(|| Error::usage(format!("motet cc: {option} needs an argument")))
    }

    fn text_argument(&mut self, option: &str) -> Result<String> {
        let argument = self.argument(option)?;
        argument.into_string().map_err(|_| Error::usage(format!("motet cc: the argument of {option} is not text")))
    }

    fn isa(&mut self, option: &str) -> Result<usize> {
        let name = self.text_argument(option)?;
        index_by_name(&name).ok_or_else(|| {
            Error::usage(format!("motet cc: {option} {name}: no such instruction set; there are: {}", names()))
        })
    }
}

impl Mode {
    /// Of `-c -E`, `-E` decides.
    fn max_with(self, other: Self) -> Self {
        let rank = |mode| match mode {
            Self::Link => 0,
            Self::Compile => 1,
            Self::Text => 2,
            Self::Query => 3,
            Self::Linker => 4,
            Self::Help => 5,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// The words in a file, with quotes and backslashes as in a shell.
fn response_file(path: &std::path::Path) -> Result<Vec<OsString>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let text = read(path)?;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, Some(end)) if byte == end => quote = None,
            (b' ' | b'\t' | b'\r' | b'\n', None) => words.extend(word.take().map(OsString::from_vec)),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments> {
        parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_comes_out_is_decided_by_the_furthest_option() {
        assert_eq!(parsed("a.c").unwrap().mode, Mode::Link);
        assert_eq!(parsed("-c a.c").unwrap().mode, Mode::Compile);
        assert_eq!(parsed("-E -c a.c").unwrap().mode, Mode::Text);
        assert_eq!(parsed("--version").unwrap().mode, Mode::Query);
        assert_eq!(parsed("-### -c a.c").unwrap().mode, Mode::Text);
        assert_eq!(parsed("-Wl,--version").unwrap().mode, Mode::Linker);
        assert_eq!(parsed("-Wl,-v").unwrap().mode, Mode::Linker);
        assert_eq!(parsed("-Wl,-v a.o").unwrap().mode, Mode::Link);
        assert_eq!(parsed("--help --version").unwrap().mode, Mode::Help);
    }

    #[test]
    fn words_for_the_linker_can_be_given_apart() {
        let arguments = parsed("a.o -Wl,-z -Wl,relro,-e -Wl,begin -Wl,-z,now b.o").unwrap();
        assert_eq!((arguments.items.len(), arguments.entry.as_deref()), (2, Some("begin")));
    }

    #[test]
    fn libraries_and_objects_keep_their_order() {
        let arguments = parsed("a.c b.o -lm -L lib -Ldir c.a -o app").unwrap();
        let kinds: String = arguments
            .items
            .iter()
            .map(|item| match item {
                Item::Source(_) => 's',
                Item::Object(_) => 'o',
                Item::Library(..) => 'l',
            })
            .collect();
        assert_eq!(kinds, "solo");
        assert_eq!(arguments.library_folders, [PathBuf::from("lib"), PathBuf::from("dir")]);
        assert_eq!(arguments.output, Some(PathBuf::from("app")));
    }

    #[test]
    fn a_header_alone_is_precompiled() {
        for line in ["a.h", "-x c-header a.c", "-x c++-header -c a.hxx", "a.hpp -o a.hpp.gch"] {
            assert_eq!(parsed(line).unwrap().mode, Mode::Compile, "{line}");
        }
        let words = parsed("-Xclang -emit-pch -Xclang -include -Xclang a.h -x c-header a.c").unwrap().compiler;
        assert_eq!(words, ["-include", "a.h"]);
    }

    #[test]
    fn dependency_files_are_written_once() {
        let arguments = parsed("-MD -MF a.d -c a.c").unwrap();
        assert_eq!((arguments.dependencies, arguments.dependency_file), (vec!["-MD".into()], Some("a.d".into())));
        let arguments = parsed("-Wp,-MMD,b.d -Wp,-DX=1,-UY,-MT,t -c a.c").unwrap();
        assert_eq!(
            (arguments.dependencies, arguments.dependency_file),
            (vec!["-MMD".into(), "-MT".into(), "t".into()], Some("b.d".into()))
        );
        assert_eq!(arguments.compiler, ["-DX=1", "-UY"]);
        let arguments = parsed("-MD -MF a.d -c a.c").unwrap();
        assert!(arguments.compiler.is_empty());
    }

    #[test]
    fn own_options_take_arguments_either_way() {
        for line in [
            "--pins a.toml --isa aarch64 a.c",
            "--pins=a.toml --isa=aarch64 a.c",
            "-Wl,--pins=a.toml --isa=aarch64 a.c",
        ] {
            let arguments = parsed(line).unwrap();
            assert_eq!(
                (arguments.pins, arguments.primary),
                (vec!["a.toml".into()], index_by_name("aarch64").unwrap()),
                "{line}"
            );
            assert!(arguments.compiler.is_empty(), "{line}");
        }
    }

    #[test]
    fn processor_features_are_for_the_primary_isa() {
        let arguments = parsed("-march=x86-64-v3 -O2 -c a.c").unwrap();
        assert_eq!((arguments.processor, arguments.compiler), (vec!["-march=x86-64-v3".into()], vec!["-O2".into()]));
    }

    #[test]
    fn files_of_the_compiler_are_kept_by_one_compilation() {
        let arguments = parsed("-save-temps=obj a.c").unwrap();
        assert_eq!((arguments.saves, arguments.processor), (Some("-save-temps=obj".into()), Vec::new()));
        assert!(arguments.compiler.is_empty());
    }

    #[test]
    fn the_last_word_on_characters_counts() {
        assert!(parsed("-fsigned-char -funsigned-char a.c").unwrap().unsigned_char);
        assert!(!parsed("-funsigned-char -fsigned-char a.c").unwrap().unsigned_char);
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_the_reason() {
        for (line, word) in [
            ("-shared a.c", "static ones"),
            ("-Wl,-shared a.o", "static ones"),
            ("-r a.o", "archive"),
            ("-Wl,-r a.o", "-r: object files"),
            ("-Wl,--defsym,a=b-1 a.o", "--defsym=a=b-1: expected"),
            ("-Wl,-z,stack-size=big a.o", "a number of bytes"),
            ("-Wl,--wrap a.o", "--wrap needs an argument"),
            ("-m32 a.c", "x86_64"),
            ("-Wl,-T,x a.c", "-T"),
            ("-Ttext=0x1 a.c", "MOTET_DATA_ON"),
            ("-Wl,-Ttext=0x1 a.o", "MOTET_DATA_ON"),
            ("-Wl,--oformat=binary a.o", "--emit-isa"),
            ("-Wl,-b,binary a.o", ".incbin"),
            ("-Wl,--unknown a.o", "does not know"),
            ("-Wl,-R,a.o a.o", "--defsym"),
            ("-Wl,--unresolved-symbols=ignore-all a.o", "weak"),
            ("-o", "needs an argument"),
            ("-pg a.c", "runtime"),
            ("-ftest-coverage a.c", "runtime"),
            ("-fopenmp=libomp a.c", "runtime"),
            ("-fsanitize=address a.c", "runtime"),
        ] {
            assert!(parsed(line).unwrap_err().message.contains(word), "{line}");
        }
        assert!(parsed("-fsanitize=undefined -fsanitize-trap=all a.c").is_ok());
        assert!(parsed("-Wl,--gc-sections,-z,now -fPIC a.c").unwrap().compiler.is_empty());
        let items = parsed("-Wl,-R,/,-R/,--stats,--unresolved-symbols=report-all a.o").unwrap().items;
        assert_eq!(items.len(), 1);
    }
}

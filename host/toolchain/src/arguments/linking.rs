//! What a compiler's command line has for the linker.

use std::path::Path;

use super::{Item, Mode, Parser};
use crate::{
    error::{Error, Result},
    linker_arguments,
    options::{
        LAYOUT, LINKER_IGNORED, LINKER_IGNORED_PREFIXES, LINKER_REFUSED, LINKER_WITH_ARGUMENT,
        LINKER_WITH_ARGUMENT_IGNORED,
    },
};

impl Parser {
    /// Options of the compiler that are about linking. False: it is another one.
    pub(super) fn linker(&mut self, text: &str) -> Result<bool> {
        match text {
            "-shared" | "--shared" | "-dynamiclib" | "-r" => return Err(refused(text)),
            "-static-pie" => {
                return Err(Error::usage("motet cc: -static-pie: a program has fixed addresses; use -static"));
            }
            _ if text.starts_with("-T") => return Err(Error::usage(format!("motet cc: {text}: {LAYOUT}"))),
            "-s" => self.parsed.strip = true,
            "-nostartfiles" => self.parsed.no_start_files = true,
            "-nodefaultlibs" | "-nolibc" => self.parsed.no_libraries = true,
            "-nostdlib" => (self.parsed.no_start_files, self.parsed.no_libraries) = (true, true),
            "-e" | "--entry" => self.parsed.entry = Some(self.text_argument(text)?),
            "-u" => {
                let symbol = self.text_argument(text)?;
                self.parsed.needed.push(symbol);
            }
            "-z" => {
                let keyword = self.text_argument(text)?;
                linker_arguments::note_keyword(&mut self.parsed.wishes, &keyword)?;
            }
            "-Xlinker" => {
                let mut words = vec![self.text_argument(text)?];
                while self.words.front().is_some_and(|word| word == "-Xlinker") {
                    self.words.pop_front();
                    words.push(self.text_argument(text)?);
                }
                self.linker_words(words)?;
            }
            "-L" => {
                let folder = self.argument(text)?.into();
                self.parsed.library_folders.push(folder);
            }
            "-l" => {
                let name = self.text_argument(text)?;
                self.parsed.items.push(Item::Library(name, self.whole_archives));
            }
            _ => return self.joined_linker_word(text),
        }
        Ok(true)
    }

    fn joined_linker_word(&mut self, text: &str) -> Result<bool> {
        if let Some(words) = text.strip_prefix("-Wl,") {
            // libtool gives an option and its argument apart: `-Wl,-z -Wl,relro`.
            let mut words: Vec<String> = words.split(',').map(str::to_owned).collect();
            let next = |this: &Self| Some(this.words.front()?.to_str()?.strip_prefix("-Wl,")?.to_owned());
            while let Some(more) = next(self) {
                self.words.pop_front();
                words.extend(more.split(',').map(str::to_owned));
            }
            self.linker_words(words)?;
        } else if let Some(folder) = text.strip_prefix("-L") {
            self.parsed.library_folders.push(folder.into());
        } else if let Some(name) = text.strip_prefix("-l") {
            self.parsed.items.push(Item::Library(name.to_owned(), self.whole_archives));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn linker_words(&mut self, words: Vec<String>) -> Result<()> {
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "" => {}
                "--version" => self.parsed.mode = self.parsed.mode.max_with(Mode::Linker),
                "-v" | "-V" => self.parsed.says_linker = true,
                "-s" | "--strip-all" => self.parsed.strip = true,
                "--whole-archive" => self.whole_archives = true,
                "--no-whole-archive" => self.whole_archives = false,
                "--push-state" => self.pushed.push(self.whole_archives),
                "--pop-state" => self.whole_archives = self.pushed.pop().unwrap_or_default(),
                "--cref" => self.parsed.wishes.cross_references = true,
                "-t" | "--trace" => self.parsed.wishes.trace = true,
                "--print-gc-sections" => self.parsed.wishes.shows_left_out = true,
                "--allow-multiple-definition" => self.parsed.wishes.allows_several = true,
                "-shared" | "--shared" | "-Bshareable" | "-r" | "--relocatable" => return Err(refused(&word)),
                "-z" => {
                    let keyword = words.next().unwrap_or_default();
                    linker_arguments::note_keyword(&mut self.parsed.wishes, &keyword)?;
                }
                "-M" | "--print-map" => self.parsed.wishes.map = Some("-".into()),
                option if LINKER_WITH_ARGUMENT.contains(&option) => {
                    let missing = || Error::usage(format!("motet cc: -Wl,{option} needs an argument"));
                    linker_arguments::note(&mut self.parsed.wishes, option, &words.next().ok_or_else(missing)?)?;
                }
                "-u" | "--undefined" => self.parsed.needed.extend(words.next()),
                "-e" | "--entry" => self.parsed.entry = words.next(),
                ignored if LINKER_WITH_ARGUMENT_IGNORED.contains(&ignored) => {
                    words.next();
                }
                ignored if LINKER_IGNORED.contains(&ignored) => {}
                // Of a folder it is -rpath.
                "-R" if words.as_slice().first().is_some_and(|path| Path::new(path).is_dir()) => drop(words.next()),
                other => self.linker_value(other)?,
            }
        }
        Ok(())
    }

    fn linker_value(&mut self, word: &str) -> Result<()> {
        if word.strip_prefix("-R").is_some_and(|path| Path::new(path).is_dir()) {
            return Ok(());
        }
        let option = word.split_once('=').map_or(word, |(option, _)| option);
        let refused = LINKER_REFUSED.iter().find(|(options, _)| options.contains(&option)).map(|(_, instead)| *instead);
        if let Some(instead) = refused.or_else(|| word.starts_with("-T").then_some(LAYOUT)) {
            return Err(Error::usage(format!("motet cc: -Wl,{word}: {instead}")));
        }
        let divided = word.split_once('=').filter(|(option, _)| LINKER_WITH_ARGUMENT.contains(option));
        if let Some((option, argument)) = divided {
            linker_arguments::note(&mut self.parsed.wishes, option, argument)?;
        } else if let Some(keyword) = word.strip_prefix("-z") {
            linker_arguments::note_keyword(&mut self.parsed.wishes, keyword)?;
        } else if let Some(path) = word.strip_prefix("--pins=") {
            self.parsed.pins.push(path.into());
        } else if let Some(symbol) = word.strip_prefix("--undefined=").or_else(|| word.strip_prefix("-u")) {
            self.parsed.needed.push(symbol.to_owned());
        } else if let Some(symbol) = word.strip_prefix("-y") {
            self.parsed.wishes.traced.push(symbol.to_owned());
        } else if let Some(symbol) = word.strip_prefix("--entry=") {
            self.parsed.entry = Some(symbol.to_owned());
        } else if !word.starts_with('-') {
            self.input(word.into());
        } else if !LINKER_IGNORED_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
            let message = "Motet's linker does not know this option; `motet ld --help` has those that it knows";
            return Err(Error::usage(format!("motet cc: -Wl,{word}: {message}")));
        }
        Ok(())
    }
}

/// What is said of outputs that there are not.
fn refused(option: &str) -> Error {
    if ["-r", "--relocatable"].contains(&option) {
        return Error::usage(format!(
            "motet cc: {option}: object files cannot be linked partly; make an archive (ar rcs) instead"
        ));
    }
    let message = "there are no shared libraries, because each function has one address on all instruction \
         sets, which only whole programs can have. Make static ones: `ar rcs`, `./configure --disable-shared`, \
         `cmake -DBUILD_SHARED_LIBS=OFF`, `meson setup -Ddefault_library=static`; or let CMake's and Meson's files do it \
         (`motet cc --print-cmake-toolchain`, `--print-meson-cross`)";
    Error::usage(format!("motet cc: {option}: {message}"))
}

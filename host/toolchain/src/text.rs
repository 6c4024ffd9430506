//! What `motet cc` prints for people and other tools: preprocessed text, dependencies, assembly.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{
    arguments::Source,
    dependencies::{self, Extra},
    driver::{Driver, add_source, stdin},
    error::{Error, Result, read, write_or_print},
    isa::{ISAS, PerIsa},
    preprocessed,
};

impl Driver {
    /// `-E`, `-M`, `-S` and their like; gives the exit status.
    ///
    /// # Errors
    /// A file cannot be read or written, or the compiler cannot be called.
    pub fn text(&self) -> Result<u8> {
        let has = |words: &[&str]| self.arguments.compiler.iter().any(|word| words.iter().any(|other| word == other));
        if has(&["-M", "-MM"]) || has(&["-E"]) && !has(&["-dM", "-###"]) {
            return self.text_of_all(has(&["-E"]));
        }
        let mut command = self.compiler(self.arguments.primary, self.is_cpp());
        command
            .args(&self.arguments.saves)
            .args(self.arguments.verbose.then_some("-v"))
            .args(&self.arguments.dependencies);
        if let Some(file) = &self.arguments.dependency_file {
            command.arg("-MF").arg(file);
        }
        if let Some(output) = &self.arguments.output {
            command.arg("-o").arg(output);
        }
        self.sources().iter().for_each(|source| add_source(&mut command, source));
        self.run_itself(&mut command)
    }

    fn is_cpp(&self) -> bool {
        self.cxx || self.sources().iter().any(Source::is_cpp)
    }

    /// What is asked of the preprocessor: its text (if `is_code`), which differs whenever that of any ISA does, or what it depends on.
    fn text_of_all(&self, is_code: bool) -> Result<u8> {
        let sources = self.sources();
        let Some(source) = sources.first() else { return Err(Error::usage("motet cc: no source files")) };
        let input = self.standard_input(source)?;
        let files: PerIsa<PathBuf> =
            std::array::from_fn(|isa| self.temporary.path().join(format!("{}.d", ISAS[isa].name())));
        let mut results = Vec::new();
        for (isa, file) in files.iter().enumerate() {
            let mut command = self.compiler(isa, self.is_cpp());
            command.args((self.arguments.verbose && isa == self.arguments.primary).then_some("-v"));
            command.args(&self.arguments.dependencies);
            if is_code && self.wants_dependencies() {
                command.arg("-MF").arg(file);
            }
            sources.iter().for_each(|source| add_source(&mut command, source));
            let output = command.stdin(stdin(input.as_deref())?).output();
            results.push(output.map_err(|error| Error::read(&self.tools.program, error))?);
        }
        let status = self.show(source, &results);
        if status != 0 {
            return Ok(status);
        }
        let texts: Vec<Vec<u8>> = results.into_iter().map(|result| result.stdout).collect();
        if is_code && self.wants_dependencies() {
            let goal = PathBuf::from(source.path.file_name().unwrap_or_default());
            let texts = files.iter().map(|file| read(file)).collect::<Result<Vec<_>>>()?;
            self.write_dependencies(&goal, &texts)?;
        }
        let whole = if is_code { self.marked(texts)? } else { self.merged_dependencies(&texts) };
        let whole_file = self.arguments.dependency_file.as_deref().filter(|_| !is_code);
        write_or_print(self.arguments.output.as_deref().or(whole_file), &whole)?;
        Ok(0)
    }

    /// The primary ISA's preprocessed text, with marks for the others' and for lists of pins.
    fn marked(&self, mut texts: Vec<Vec<u8>>) -> Result<Vec<u8>> {
        let mut text = std::mem::take(&mut texts[self.arguments.primary]);
        let others = texts.iter().zip(&ISAS).enumerate().filter(|(isa, _)| *isa != self.arguments.primary);
        let mut marks: Vec<u8> =
            others.flat_map(|(_, (other, isa))| preprocessed::marks(&text, other, isa.name())).collect();
        for path in &self.arguments.pins {
            marks.extend(format!("# 1 \"{}\"\n", path.display()).into_bytes());
            marks.extend(preprocessed::mark("pins", &read(path)?));
        }
        if !marks.is_empty() && text.last().is_some_and(|&last| last != b'\n') {
            text.push(b'\n');
        }
        text.extend(marks);
        Ok(text)
    }

    /// `-MD`, `-MMD`.
    pub fn wants_dependencies(&self) -> bool {
        self.arguments.dependencies.iter().any(|word| word == "-MD" || word == "-MMD")
    }

    /// One compiler's rules for each ISA become one text: with `-MMD` or `-MM`, without headers of the system.
    fn merged_dependencies(&self, texts: &[Vec<u8>]) -> Vec<u8> {
        let words = self.arguments.dependencies.iter().chain(&self.arguments.compiler);
        let is_short = words.into_iter().any(|word| word == "-MMD" || word == "-MM");
        let is_left_out = |file: &[u8]| is_short && self.is_of_system(file);
        let mut others = texts.to_vec();
        let first = others.remove(self.arguments.primary);
        let pins: Vec<&Path> = self.arguments.pins.iter().map(PathBuf::as_path).collect();
        let has_rules = self.arguments.dependencies.iter().any(|word| word == "-MP");
        dependencies::merge(&first, &others, &Extra { own: &pins, has_rules }, &is_left_out)
    }

    /// Whether a header, as a dependency file names it, is below a folder for headers of the system.
    fn is_of_system(&self, file: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(file));
        let own = path.starts_with(&self.tools.folder) || path.starts_with(&self.headers);
        let words =
            self.arguments.compiler.windows(2).filter(|words| words[0] == "-isystem" || words[0] == "-idirafter");
        own || words.into_iter().any(|words| path.starts_with(&words[1]))
    }

    pub fn write_dependencies(&self, goal: &Path, texts: &[Vec<u8>]) -> Result<()> {
        let file = self.arguments.dependency_file.clone().unwrap_or_else(|| goal.with_extension("d"));
        write_or_print(Some(&file), &self.merged_dependencies(texts))
    }
}

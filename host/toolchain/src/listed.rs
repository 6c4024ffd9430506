//! Functions that a list of pins names by their file or by a pattern, in a source's intermediate code.
//!
//! A compiler may change what a file's own function takes and gives, since it knows all calls, and does so differently for each ISA. So such a
//! function is marked as used elsewhere before the code is optimised.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    arguments::Source,
    driver::{Driver, UNOPTIMISED, add_source, stdin},
    error::{Result, read, write},
    isa::{self, ISAS, PerIsa},
    link::Pin,
    mentions::{Mention, symbol},
    sequential,
};

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// As the code has it, perhaps in quotation marks.
    written: String,
    /// The symbol.
    pub name: String,
    /// The file's own (`static`).
    pub is_local: bool,
}

/// The functions in intermediate code that one of `pins` names, each with the pin.
pub fn find<'a>(code: &str, pins: &[&'a Pin]) -> Vec<(Definition, &'a Pin)> {
    let definitions = code.lines().filter_map(|line| line.strip_prefix("define ")).filter_map(definition);
    let named = definitions.filter_map(|definition| {
        let pin = pins.iter().find(|pin| pin.names(&definition.name, definition.is_local))?;
        Some((definition, *pin))
    });
    named.collect()
}

fn definition(line: &str) -> Option<Definition> {
    let (before, after) = line.split_once('@')?;
    let end = match after.strip_prefix('"') {
        Some(quoted) => quoted.find('"')? + 2,
        None => after.find('(')?,
    };
    let is_local = before.split(' ').any(|word| ["internal", "private"].contains(&word));
    Some(Definition { written: format!("@{}", &after[..end]), name: symbol(after), is_local })
}

/// The code with these functions marked as used (LLVM Language Reference, `llvm.used`).
pub fn keep(code: &str, functions: &[Definition]) -> String {
    const START: &str = "@llvm.used = appending global [";
    let added: Vec<String> = functions.iter().map(|function| format!("ptr {}", function.written)).collect();
    let known = code.lines().find_map(|line| {
        let (count, rest) = line.strip_prefix(START)?.split_once(" x ptr] [")?;
        Some((line, count.parse::<usize>().ok()?, rest))
    });
    let list = |count: usize, rest: &str| format!("{START}{count} x ptr] [{}{rest}", added.join(", "));
    match known {
        _ if functions.is_empty() => code.to_owned(),
        Some((line, count, rest)) => code.replace(line, &list(count + added.len(), &format!(", {rest}"))),
        None => format!("{code}\n{}\n", list(added.len(), "], section \"llvm.metadata\"")),
    }
}

impl Driver {
    /// The pins for a source that name functions by their file or by a pattern.
    pub fn listed(&self, source: &Source) -> Vec<&Pin> {
        let name = source.path.file_name().unwrap_or_default().to_string_lossy();
        let pins = self.pins.iter().filter(|pin| !pin.is_plain() && pin.is_for(&name));
        if source.is_assembly() || source.is_header() { Vec::new() } else { pins.collect() }
    }

    /// Compiles intermediate code whose functions in a list are called as they are declared, and are not copied for a caller. Functions
    /// in `kept` are there, too, even if all callers have copies: those that the code has, which are the result.
    pub fn compile_listed(
        &self,
        isa: usize,
        source: &Source,
        code: &Path,
        object: &Path,
        kept: &[String],
    ) -> Result<Vec<String>> {
        let text = String::from_utf8_lossy(&read(code)?).into_owned();
        let functions: Vec<_> = find(&text, &self.listed(source)).into_iter().map(|(found, _)| found).collect();
        let is_kept = |definition: &Definition| kept.contains(&definition.name) && !functions.contains(definition);
        let definitions = text.lines().filter_map(|line| line.strip_prefix("define ")).filter_map(definition);
        let all: Vec<Definition> = functions.iter().cloned().chain(definitions.filter(is_kept)).collect();
        let found = all.iter().filter(|definition| kept.contains(&definition.name));
        let found = found.map(|definition| definition.name.clone()).collect();
        write(code, keep(&text, &all).as_bytes())?;
        let compiler = || {
            let mut command = self.compiler(isa, self.cxx || source.is_cpp());
            for function in &functions {
                command.arg("-mllvm").arg(format!("-force-attribute={}:noinline", function.name));
            }
            Ok(command)
        };
        let add_code = |command: &mut Command| {
            command.args(["-x", "ir"]).arg(code);
        };
        let mut command = compiler()?;
        command.args(["-w", "-c", "-o"]).arg(object);
        add_code(&mut command);
        sequential::succeeds(&mut command, "compiling pinned functions", isa)?;
        sequential::fence_stores(isa, object, &compiler, &add_code)?;
        Ok(found)
    }

    /// Compiles a source once more, for every ISA: functions of which some ISA keeps the address are on all that have them in their source.
    /// The result is those that others do not have there.
    pub fn compile_kept(
        &self,
        source: &Source,
        input: Option<&Path>,
        kept: &[String],
        objects: &PerIsa<PathBuf>,
    ) -> Result<Vec<String>> {
        let found = isa::at_once(|isa| {
            let code = objects[isa].with_extension(format!("{}.kept.ll", ISAS[isa].name()));
            let mut command = self.compiler(isa, self.cxx || source.is_cpp());
            command.args(UNOPTIMISED).args(["-w", "-g", "-o"]).arg(&code);
            add_source(&mut command, source);
            command.stdin(stdin(input)?);
            sequential::succeeds(&mut command, "compiling functions whose addresses are kept", isa)?;
            self.compile_listed(isa, source, &code, &objects[isa], kept)
        })?;
        let having = |function: &String| found.iter().filter(|names| names.contains(function)).count();
        Ok(kept.iter().filter(|function| (1..ISAS.len()).contains(&having(function))).cloned().collect())
    }

    /// For the linker: static functions in a list, which are prepared to be pinned.
    pub fn listed_mentions(&self, code: &Path, pins: &[&Pin]) -> Result<Vec<Mention>> {
        let text = String::from_utf8_lossy(&read(code)?).into_owned();
        let local = find(&text, pins).into_iter().filter(|(function, _)| function.is_local);
        let mention = |(function, pin): (Definition, &Pin)| Mention {
            function: function.name,
            isa: ISAS[pin.isa].name().into(),
            place: pin.origin.clone(),
            is_local: true,
        };
        Ok(local.map(mention).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_functions_are_found_and_kept() {
        let pin = |file: Option<&str>, function: &str| Pin {
            function: function.into(),
            file: file.map(str::to_owned),
            isa: 1,
            strict: false,
            origin: "p".into(),
        };
        let code = "define internal fastcc i32 @one(i32 %0) #0 {\n}\ndefine dso_local i32 @two() {\n}\ndefine internal void @\"h i\"() {\n}\n";
        let (in_file, global) = (pin(Some("a.c"), "*"), pin(None, "*"));
        let names = |pin| find(code, &[pin]).into_iter().map(|(found, _)| found.name).collect::<Vec<_>>();
        assert_eq!(names(&in_file), ["one", "two", "h i"]);
        assert_eq!(names(&global), ["two"]);
        let all: Vec<Definition> = find(code, &[&in_file]).into_iter().map(|(found, _)| found).collect();
        let kept = keep(code, &all[1..]);
        let line = "@llvm.used = appending global [2 x ptr] [ptr @two, ptr @\"h i\"], section \"llvm.metadata\"";
        assert!(kept.contains(line), "{kept}");
        assert!(keep(&kept, &all[..1]).contains("[3 x ptr] [ptr @one, ptr @two, ptr @\"h i\"], section"));
    }
}

//! Random C programs whose functions are pinned at random: on a machine they do what they do unpinned on the host.
//!
//! Each function folds its arguments, the results of its calls and variables that live across them into one number,
//! which it prints. Integers wrap as unsigned ones do and fractions stay small, so that C defines every result.

use std::fmt::Write;

use fastrand::Rng;

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    crossing::Programs,
    process::{self, ISAS},
    scripts,
    trial::of_long,
};

/// With optimisations by their seeds, several in one executable.
const PROGRAMS: u64 = 25;
/// In `./motet test long`.
const PROGRAMS_LONG: u64 = 240;
/// Between their seeds, so that those of two days are others.
pub const APART: u64 = 1_000_003;
const PROGRAMS_IN_FILE: usize = 16;
/// Lines of a failure: the first difference tells.
const DIFFERENCES: usize = 30;
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
/// Most integer words and floating-point values of a call, and words among which a structure of two must be.
const WORDS_MAX: usize = 16;
const FLOATS_MAX: usize = 8;
const REGISTER_WORDS: usize = 6;

/// Programs in one file: their seeds and optimisation.
struct File {
    name: String,
    level: &'static str,
    seeds: Vec<u64>,
}

/// Compares them all, in one boot.
///
/// # Errors
/// A program does something else; the text has its seed, and the program.
pub fn check() -> Result<(), String> {
    let programs = Programs::new()?;
    let include = format!("-I{}", process::root().join("tests/guest/cc").display());
    let files = files();
    for File { name, level, seeds } in &files {
        let source = programs.path.join(format!("{name}.c"));
        std::fs::write(&source, text(seeds)).map_err(|error| error.to_string())?;
        programs.compile(&source, name, &[level, &include])?;
        programs.compile(&source, &format!("{name}-plain"), &["-O0", "-DPLAIN", &include])?;
    }
    let results = programs.on_machine(files.iter().map(|file| file.name.clone()))?;
    for File { name, level, seeds } in &files {
        let wanted = programs.on_host(&format!("{name}-plain"))?;
        let got = results.get(name).ok_or("no result")?.as_ref().map_err(String::clone);
        let same = got.clone().and_then(|got| scripts::compare(&wanted, got));
        same.map_err(|error| {
            let seed = got.map_or(seeds[0], |got| failed(&wanted.output, &got.output).unwrap_or(seeds[0]));
            let first: Vec<&str> = error.lines().take(DIFFERENCES).collect();
            format!("{SEED_VARIABLE}={seed} repeats it, {level}:\n{}\n{}", first.join("\n"), text(&[seed]))
        })?;
    }
    Ok(())
}

/// All programs, each with the optimisation that belongs to its seed.
fn files() -> Vec<File> {
    let seeds: Vec<u64> =
        (0..of_long(PROGRAMS, PROGRAMS_LONG)).map(|index| seed().wrapping_add(APART * index)).collect();
    let mut files = Vec::new();
    for (index, level) in LEVELS.into_iter().enumerate() {
        let with_level: Vec<u64> =
            seeds.iter().copied().filter(|seed| seed % LEVELS.len() as u64 == index as u64).collect();
        for seeds in with_level.chunks(PROGRAMS_IN_FILE) {
            files.push(File { name: format!("random-{}", files.len()), level, seeds: seeds.to_vec() });
        }
    }
    files
}

/// The seed of the program in which two outputs differ first.
fn failed(wanted: &str, got: &str) -> Option<u64> {
    let same = wanted.lines().zip(got.lines()).take_while(|(wanted, got)| wanted == got).count();
    let seeds = wanted.lines().take(same + 1).filter_map(|line| line.strip_prefix("seed "));
    seeds.last()?.parse().ok()
}

/// A type of arguments, results and variables.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// In C.
    name: &'static str,
    /// The function of `random.h` that folds it in ends so; nothing for a pointer to a function.
    mix: &'static str,
    /// Registers of a call.
    words: usize,
    floats: usize,
}

const fn kind(name: &'static str, mix: &'static str, words: usize, floats: usize) -> Kind {
    Kind { name, mix, words, floats }
}

const INT: Kind = kind("int", "i32", 1, 0);
const LONG: Kind = kind("long", "i64", 1, 0);
const CALLBACK: Kind = kind("callback *", "", 1, 0);
/// All that can be results; [`CALLBACK`] is the last.
const KINDS: [Kind; 19] = [
    INT,
    LONG,
    kind("signed char", "i8", 1, 0),
    kind("unsigned char", "u8", 1, 0),
    kind("short", "i16", 1, 0),
    kind("unsigned short", "u16", 1, 0),
    kind("unsigned", "u32", 1, 0),
    kind("unsigned long", "u64", 1, 0),
    kind("bool", "bool", 1, 0),
    kind("enum choice", "choice", 1, 0),
    kind("const char *", "pointer", 1, 0),
    kind("float", "float", 0, 1),
    kind("double", "double", 0, 1),
    kind("struct pair", "pair", 2, 0),
    kind("struct bytes", "bytes", 1, 0),
    kind("struct small", "small", 1, 0),
    kind("struct word", "word_struct", 1, 0),
    kind("struct reals", "reals", 0, 2),
    kind("struct single", "single", 0, 1),
];

struct Function {
    name: String,
    isa: Option<&'static str>,
    result: Option<Kind>,
    parameters: Vec<Kind>,
}

impl Function {
    fn random(random: &mut Rng, name: String) -> Self {
        let result = random.choice(KINDS).filter(|_| random.u8(..8) != 0);
        let (mut parameters, mut words, mut floats) = (Vec::new(), 0, 0);
        for _ in 0..[3, 6, 12, 20][random.usize(..4)] {
            let kind = if random.u8(..10) == 0 { CALLBACK } else { KINDS[random.usize(..KINDS.len())] };
            let divided = kind.words == 2 && words + 2 > REGISTER_WORDS;
            if divided || words + kind.words > WORDS_MAX || floats + kind.floats > FLOATS_MAX {
                continue;
            }
            (words, floats) = (words + kind.words, floats + kind.floats);
            parameters.push(kind);
        }
        Self { name, isa: random_isa(random), result, parameters }
    }

    fn callback(random: &mut Rng, name: String) -> Self {
        Self { name, isa: random_isa(random), result: Some(LONG), parameters: vec![INT, LONG] }
    }

    fn head(&self) -> String {
        let parameters: Vec<String> =
            self.parameters.iter().enumerate().map(|(index, kind)| format!("{} p{index}", kind.name)).collect();
        let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
        format!("{} {}({list})", self.result.map_or("void", |kind| kind.name), self.name)
    }
}

fn random_isa(random: &mut Rng) -> Option<&'static str> {
    random.choice(ISAS).filter(|_| random.u8(..5) != 0)
}

/// The text of a file with programs.
fn text(seeds: &[u64]) -> String {
    let mut text = String::from("#include \"random.h\"\n");
    for seed in seeds {
        text.push_str(&program(*seed));
    }
    text.push_str("\nint main(void) {\n");
    for seed in seeds {
        // Shown even if what follows crashes.
        let _ =
            write!(text, "    hash = 1;\n    printf(\"seed {seed}\\n\");\n    fflush(stdout);\n    main_{seed}();\n");
        text.push_str("    printf(\"%016lx\\n\", hash);\n");
    }
    text.push_str("    return 0;\n}\n");
    text
}

/// The functions of a program, whose names end in its seed; the first one that runs is `main_SEED`.
fn program(seed: u64) -> String {
    let mut random = Rng::with_seed(seed);
    let callbacks: Vec<Function> =
        (0..3).map(|index| Function::callback(&mut random, format!("c{index}_{seed}"))).collect();
    let functions: Vec<Function> =
        (0..random.usize(4..12)).map(|index| Function::random(&mut random, format!("f{index}_{seed}"))).collect();
    let mut text = String::from("\n");
    for function in callbacks.iter().chain(&functions) {
        let pin = function.isa.map_or(String::new(), |isa| format!("ON(\"{isa}\") "));
        let _ = writeln!(text, "{pin}{};", function.head());
    }
    for function in &functions {
        let pointer = function.head().replacen(&function.name, &format!("(*volatile pointer_{})", function.name), 1);
        let _ = writeln!(text, "static {pointer} = {};", function.name);
    }
    for function in callbacks.iter().chain(&functions) {
        text.push_str(&Body::new(&mut random, &callbacks, &functions).function(function));
    }
    let mut main = Body::new(&mut random, &callbacks, &functions);
    for function in &functions {
        main.text.push_str("    fuel = 40;\n");
        main.call(function);
    }
    let _ = write!(text, "\nstatic void main_{seed}(void) {{\n{}}}\n", main.text);
    text
}

/// The inside of a function, while it is made.
struct Body<'a> {
    random: &'a mut Rng,
    callbacks: &'a [Function],
    functions: &'a [Function],
    variables: Vec<(String, Kind)>,
    text: String,
}

impl<'a> Body<'a> {
    fn new(random: &'a mut Rng, callbacks: &'a [Function], functions: &'a [Function]) -> Self {
        Self { random, callbacks, functions, variables: Vec::new(), text: String::new() }
    }

    fn function(mut self, function: &Function) -> String {
        for (index, kind) in function.parameters.iter().enumerate() {
            self.variables.push((format!("p{index}"), *kind));
            self.mix(&format!("p{index}"), *kind);
        }
        let early = self.result(function);
        let _ = writeln!(self.text, "    if (!enter(\"{}\"))\n        return{early};", function.name);
        for _ in 0..self.random.usize(1..5) {
            self.declare();
        }
        for _ in 0..self.random.usize(1..4) {
            let functions = self.functions;
            let callee = &functions[self.random.usize(..functions.len())];
            self.call(callee);
        }
        for (name, kind) in self.variables.clone() {
            self.mix(&name, kind);
        }
        let result = self.result(function);
        format!("\n{} {{\n{}    return{result};\n}}\n", function.head(), self.text)
    }

    fn result(&mut self, function: &Function) -> String {
        function.result.map_or(String::new(), |kind| format!(" {}", self.value(kind)))
    }

    fn mix(&mut self, value: &str, kind: Kind) {
        let line = match kind.mix {
            "" => format!("mix_i64(fuel > 0 ? {value}({}, {}) : 0);", self.value(INT), self.value(LONG)),
            mix => format!("mix_{mix}({value});"),
        };
        let _ = writeln!(self.text, "    {line}");
    }

    fn declare(&mut self) {
        let kind = KINDS[self.random.usize(..KINDS.len())];
        let (name, value) = (format!("v{}", self.variables.len()), self.value(kind));
        let _ = writeln!(self.text, "    {} {name} = {value};", kind.name);
        self.variables.push((name, kind));
    }

    fn call(&mut self, function: &Function) {
        let arguments: Vec<String> = function.parameters.iter().map(|kind| self.value(*kind)).collect();
        let through = if self.random.bool() { "pointer_" } else { "" };
        let call = format!("{through}{}({})", function.name, arguments.join(", "));
        match function.result {
            Some(kind) => {
                let name = format!("v{}", self.variables.len());
                let _ = writeln!(self.text, "    {} {name} = {call};", kind.name);
                self.mix(&name, kind);
                self.variables.push((name, kind));
            }
            None => {
                let _ = writeln!(self.text, "    {call};");
            }
        }
    }

    /// An unsigned number of 64 bits.
    fn word(&mut self) -> String {
        let integers = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "bool", "choice"];
        let known: Vec<String> = self
            .variables
            .iter()
            .filter(|(_, kind)| integers.contains(&kind.mix))
            .map(|(name, _)| name.clone())
            .collect();
        let literal = format!("{:#x}u", self.random.u64(..) >> self.random.u32(..64));
        match self.random.choice(known) {
            Some(name) if self.random.u8(..4) != 0 => {
                let operator = ["+", "-", "*", "^", "|"][self.random.usize(..5)];
                format!("((unsigned long){name} {operator} {literal})")
            }
            Some(_) | None => format!("(hash + {literal})"),
        }
    }

    /// An expression of a type.
    fn value(&mut self, kind: Kind) -> String {
        let same: Vec<String> =
            self.variables.iter().filter(|(_, other)| *other == kind).map(|(name, _)| name.clone()).collect();
        if let Some(name) = self.random.choice(same).filter(|_| self.random.bool()) {
            return name;
        }
        let (one, two) = (self.word(), self.word());
        match kind.mix {
            "" => self.callbacks[self.random.usize(..self.callbacks.len())].name.clone(),
            "bool" => format!("(bool)({one} & 1)"),
            "choice" => format!("(enum choice)((int)({one} % 100) - 3)"),
            "pointer" => format!("buffer + {one} % sizeof buffer"),
            "float" => format!("(float)(short){one} * 0.25f"),
            "double" => format!("(double)(int){one} / 3"),
            "pair" => format!("(struct pair){{(long){one}, (int){two}}}"),
            "bytes" => format!("(struct bytes){{{{(unsigned char){one}, 1, 2, 3, (unsigned char){two}}}}}"),
            "small" => format!("(struct small){{(short){one}, (unsigned char){two}}}"),
            "word_struct" => format!("(struct word){{(unsigned){one}}}"),
            "reals" => format!("(struct reals){{(double)(int){one} / 7, (double)(long){two} * 0.5}}"),
            "single" => format!("(struct single){{(float)(int){one} * 0.125f}}"),
            _ => format!("({}){one}", kind.name),
        }
    }
}

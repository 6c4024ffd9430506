//! Random C programs whose functions are pinned at random: on a machine they do what they do unpinned on the host.
//!
//! Each function folds its arguments, the results of its calls and variables that live across them into one number,
//! which it prints. Integers wrap as unsigned ones do and fractions stay small, so that C defines every result.

use std::fmt::Write;

use fastrand::Rng;

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    crossing::Programs,
    process, scripts,
};

const PROGRAMS: u64 = 24;
/// Lines of a failure: the first difference tells.
const DIFFERENCES: usize = 30;
const ISAS: [&str; 3] = ["x86_64", "aarch64", "riscv64"];
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
/// Most integer words and floating-point values of a call, and words among which a structure of two must be.
const WORDS_MAX: usize = 16;
const FLOATS_MAX: usize = 8;
const REGISTER_WORDS: usize = 6;

/// Compares them all, in one boot.
///
/// # Errors
/// A program does something else; the text has its seed, and the program.
pub fn check() -> Result<(), String> {
    let programs = Programs::new()?;
    let include = format!("-I{}", process::root().join("tests/guest/cc").display());
    let seeds: Vec<u64> = (0..PROGRAMS).map(|index| seed().wrapping_add(index)).collect();
    let name = |seed: u64| format!("random-{seed}");
    let plain = |seed: u64| format!("plain-{seed}");
    for seed in &seeds {
        let source = programs.path.join(format!("{}.c", name(*seed)));
        std::fs::write(&source, program(*seed)).map_err(|error| error.to_string())?;
        let level = LEVELS[*seed as usize % LEVELS.len()];
        programs.compile(&source, &name(*seed), &[level, &include])?;
        programs.compile(&source, &plain(*seed), &["-O0", "-DPLAIN", &include])?;
    }
    let results = programs.on_machine(seeds.iter().map(|seed| name(*seed)))?;
    for seed in seeds {
        let wanted = programs.on_host(&plain(seed))?;
        let got = results.get(&name(seed)).ok_or("no result")?.as_ref().map_err(String::clone);
        let same = got.and_then(|got| scripts::compare(&wanted, got));
        same.map_err(|error| {
            let first: Vec<&str> = error.lines().take(DIFFERENCES).collect();
            format!("{SEED_VARIABLE}={seed} repeats it:\n{}\n{}", first.join("\n"), program(seed))
        })?;
    }
    Ok(())
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
    fn random(random: &mut Rng, index: usize) -> Self {
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
        Self { name: format!("f{index}"), isa: random_isa(random), result, parameters }
    }

    fn callback(random: &mut Rng, index: usize) -> Self {
        let parameters = vec![INT, LONG];
        Self { name: format!("c{index}"), isa: random_isa(random), result: Some(LONG), parameters }
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

/// The text of a program.
fn program(seed: u64) -> String {
    let mut random = Rng::with_seed(seed);
    let callbacks: Vec<Function> = (0..3).map(|index| Function::callback(&mut random, index)).collect();
    let functions: Vec<Function> = (0..random.usize(4..12)).map(|index| Function::random(&mut random, index)).collect();
    let mut text = String::from("#include \"random.h\"\n\n");
    for function in callbacks.iter().chain(&functions) {
        let pin = function.isa.map_or(String::new(), |isa| format!("ON(\"{isa}\") "));
        let _ = writeln!(text, "{pin}{};", function.head());
    }
    for function in &functions {
        let pointer = function.head().replacen(&function.name, &format!("(*volatile pointer_{})", function.name), 1);
        let _ = writeln!(text, "static {pointer} = {};", function.name);
    }
    for function in callbacks.iter().chain(&functions) {
        let body = Body { random: &mut random, functions: &functions, variables: Vec::new(), text: String::new() };
        text.push_str(&body.function(function));
    }
    let mut main = Body { random: &mut random, functions: &functions, variables: Vec::new(), text: String::new() };
    for function in &functions {
        main.text.push_str("    fuel = 40;\n");
        main.call(function);
    }
    let _ =
        write!(text, "\nint main(void) {{\n{}    printf(\"%016lx\\n\", hash);\n    return hash % 64;\n}}\n", main.text);
    text
}

/// The inside of a function, while it is made.
struct Body<'a> {
    random: &'a mut Rng,
    functions: &'a [Function],
    variables: Vec<(String, Kind)>,
    text: String,
}

impl Body<'_> {
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
            "" => format!("c{}", self.random.usize(..3)),
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

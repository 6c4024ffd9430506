//! Random programs of vector instructions, that start on a core without vectors: they compute what they compute on a core with vectors, where
//! they are pinned from their beginning. System calls, pages that are touched first by a vector (so that its instruction goes on in the middle),
//! naps, slices without vectors and signals whose handler overwrites all registers come between.

use std::fmt::Write;

use fastrand::Rng;

use crate::{
    bad_input::{SEED_VARIABLE, seed},
    extensions::{Machine, TWO_ISLANDS},
    process::root,
    random_programs::APART,
};

const PROGRAMS: u64 = 60;
const INSTRUCTIONS: usize = 120;
/// Whose first core is the second island's, which has vectors: for `taskset`.
const WITH_VECTORS: &str = "10000";
/// Register groups: of four registers, so that every group of at most four is aligned; the first one has the mask.
const GROUPS: std::ops::Range<u32> = 1..8;
/// Bytes that programs load and store.
const MEMORY_LEN: u32 = 64 << 12;

const PLAIN: [&str; 13] =
    ["vadd", "vsub", "vand", "vor", "vxor", "vsll", "vsrl", "vsra", "vminu", "vmax", "vmul", "vsaddu", "vssubu"];
const FLOATING: [&str; 6] = ["vfadd", "vfsub", "vfmul", "vfmin", "vfmax", "vfsgnj"];
const COMPARING: [&str; 4] = ["vmseq", "vmsltu", "vmsne", "vmsle"];
const REDUCING: [&str; 4] = ["vredsum", "vredxor", "vredmaxu", "vredand"];

/// Compares them all, in one boot.
///
/// # Errors
/// A program computes something else; the text has its seed.
pub fn check() -> Result<(), String> {
    let seeds: Vec<u64> = (0..PROGRAMS).map(|index| seed().wrapping_add(APART * index)).collect();
    let machine = Machine::made("random_vectors", &text(&seeds)?, TWO_ISLANDS)?;
    // Two at a time want the core with vectors; between them somebody else has it.
    let command = format!(
        "cd /tmp; taskset {WITH_VECTORS} /in/random_vectors && echo free; (while :; do :; done) & /in/random_vectors > other 2> /dev/null & \
         /in/random_vectors && wait %2 && cat other"
    );
    let ended = machine.run(&command);
    ended.expect_code(0)?.expect_errors(&["moves 0", "moves 1"])?;
    let (pinned, free) = ended.output.split_once("free\n").ok_or_else(|| ended.describe())?;
    let differs = pinned.lines().cycle().zip(free.lines()).find(|(pinned, free)| pinned != free);
    match differs {
        Some((pinned, free)) => {
            Err(format!("{SEED_VARIABLE}={} repeats it: {free}, pinned {pinned}", first_word(free)))
        }
        None if pinned.lines().count() == seeds.len() && free.lines().count() == 2 * seeds.len() => Ok(()),
        None => Err(ended.describe()),
    }
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

/// The source of all programs: the frame of `tests/guest/cc/random_vectors.c`, with a function for each seed.
fn text(seeds: &[u64]) -> Result<String, String> {
    let path = root().join("tests/guest/cc/random_vectors.c");
    let mut text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    for seed in seeds {
        let code = Program::new(*seed).code.replace('\n', "\\n");
        let _ = write!(text, "\nPROGRAM({seed}, \"{code}\")");
    }
    text += "\nint main(void) {\n    begin();\n";
    for seed in seeds {
        let _ = writeln!(text, "    RUN({seed});");
    }
    Ok(text + "    fprintf(stderr, \"moves %d\\n\", moves(\"to_extension\") > 0);\n    return 0;\n}\n")
}

/// Element width and group size at a point of a program.
#[derive(Clone, Copy)]
struct Kind {
    bits: u32,
    registers: u32,
}

struct Program {
    rng: Rng,
    code: String,
    kind: Kind,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut program = Self { rng: Rng::with_seed(seed), code: String::new(), kind: Kind { bits: 8, registers: 1 } };
        program.set_kind();
        for _ in 0..INSTRUCTIONS {
            match program.rng.u32(0..100) {
                0..15 => program.set_kind(),
                15..35 => program.move_memory(),
                35..47 => program.come_between(),
                _ => program.compute(),
            }
        }
        program
    }

    fn line(&mut self, text: &str) {
        self.code += text;
        self.code.push('\n');
    }

    fn pick(&mut self, names: &[&'static str]) -> &'static str {
        names[self.rng.usize(0..names.len())]
    }

    /// Tails and masked elements stay: what others have been is not left to the hardware.
    fn set_kind(&mut self) {
        self.kind = Kind { bits: 8 << self.rng.u32(0..4), registers: 1 << self.rng.u32(0..3) };
        let Kind { bits, registers } = self.kind;
        let len = self.rng.u32(0..80);
        self.line(&format!("li t0, {len}\nvsetvli t0, t0, e{bits}, m{registers}, tu, mu"));
    }

    fn group(&mut self) -> u32 {
        4 * self.rng.u32(GROUPS)
    }

    /// Three groups that do not overlap.
    fn groups(&mut self) -> [u32; 3] {
        let mut all: Vec<u32> = GROUPS.collect();
        self.rng.shuffle(&mut all);
        [4 * all[0], 4 * all[1], 4 * all[2]]
    }

    fn masked(&mut self) -> &'static str {
        if self.rng.u32(0..4) == 0 { ", v0.t" } else { "" }
    }

    fn compute(&mut self) {
        let [to, from, other] = self.groups();
        let mask = self.masked();
        let scalar = self.rng.i32(..);
        let text = match self.rng.u32(0..9) {
            0 | 1 => format!("{}.vv v{to}, v{from}, v{other}{mask}", self.pick(&PLAIN)),
            2 => format!("li t0, {scalar}\n{}.vx v{to}, v{from}, t0{mask}", self.pick(&PLAIN)),
            3 if self.kind.bits >= 32 => format!("{}.vv v{to}, v{from}, v{other}{mask}", self.pick(&FLOATING)),
            3 => format!("vmv.v.i v{to}, {}", self.rng.i32(-16..16)),
            4 => format!("{}.vv v0, v{from}, v{other}", self.pick(&COMPARING)),
            5 => format!("{}.vs v{to}, v{from}, v{other}", self.pick(&REDUCING)),
            6 => format!("li t0, {}\nvslideup.vx v{to}, v{from}, t0{mask}", self.rng.u32(0..20)),
            7 => format!("vrgather.vv v{to}, v{from}, v{other}{mask}"),
            _ => format!("vmv.x.s t0, v{from}\nvmv.s.x v{to}, t0\nvid.v v{other}"),
        };
        self.line(&text);
    }

    fn move_memory(&mut self) {
        let (group, bits, mask) = (self.group(), self.kind.bits, self.masked());
        let bytes = bits / 8;
        let at = self.rng.u32(0..(MEMORY_LEN - 4096) / bytes) * bytes;
        let stride = self.rng.u32(0..8) * bytes;
        self.line(&format!("li t0, {at}\nadd t0, t0, %[memory]\nli t1, {stride}"));
        let text = match self.rng.u32(0..4) {
            0 => format!("vle{bits}.v v{group}, (t0){mask}"),
            1 => format!("vse{bits}.v v{group}, (t0){mask}"),
            2 => format!("vlse{bits}.v v{group}, (t0), t1{mask}"),
            _ => format!("vsse{bits}.v v{group}, (t0), t1{mask}"),
        };
        self.line(&text);
    }

    /// What stops the thread, or takes it elsewhere.
    fn come_between(&mut self) {
        let text = match self.rng.u32(0..40) {
            0..14 => "li a7, 172\necall",                           // getpid
            14..28 => "li a7, 124\necall",                          // sched_yield
            28..39 => "mv a0, %[nap]\nli a1, 0\nli a7, 101\necall", // nanosleep
            _ => "li t0, 40000000\n1:\naddi t0, t0, -1\nbnez t0, 1b",
        };
        self.line(text);
    }
}

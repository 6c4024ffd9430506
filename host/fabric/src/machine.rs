//! Machine descriptions: one TOML file says what islands a machine has.
//!
//! A file that is accepted can be booted: everything QEMU, the pool layout or a kernel would refuse later is refused
//! here, with the key's name and its place in the file.

use std::{fmt, ops::Range, path::Path};

use motet_coherence::{Config, ModelTable, Piece, Shape, Target};
use motet_layout::{CORES_PER_ISLAND_MAX, ISLANDS_MAX, Isa};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use crate::{
    error::{Context, Error, ErrorKind, Result},
    pool::local_ranges,
};

/// Smallest pool: kernels' shared objects, the root file system and a few programs.
pub const POOL_SIZE_MIN: u64 = motet_protocol::memory::POOL_LEN_MIN;
/// Largest pool: every island can address this much physical memory, and a frame number has 32 bits.
pub const POOL_SIZE_MAX: u64 = 256 << 30;
/// Default size of a block, the unit in which islands take memory from the pool.
pub const BLOCK_SIZE_DEFAULT: u64 = motet_protocol::memory::BLOCK_FRAMES_DEFAULT as u64 * motet_layout::PAGE_SIZE;

/// A machine: what `machines/*.toml` describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The shared memory.
    pub pool: PoolSpec,
    /// The islands, in the order of their ids.
    pub islands: Vec<IslandSpec>,
    /// `[model]`: caches and latencies of timed runs.
    pub model: ModelTable,
    /// The description as it was written.
    pub text: String,
}

/// The shared memory of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Bytes in the pool, a multiple of `block`.
    pub size: u64,
    /// Bytes in a block, a power of two.
    pub block: u64,
}

/// One island of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IslandSpec {
    /// Its name in messages; unique in the machine.
    pub name: String,
    /// Its instruction set.
    pub isa: Isa,
    /// Cores that run threads.
    pub cores: usize,
    /// QEMU's `-cpu`, when not the default of the ISA.
    pub cpu: Option<String>,
    /// Bytes of private memory. Host memory is used only for what the kernel touches.
    pub private: u64,
    /// ISA extensions that the file claims for its cores; empty: what the cores themselves report.
    pub extensions: Vec<String>,
}

impl Machine {
    /// Reads a machine description.
    ///
    /// # Errors
    /// A file that cannot be read, or that is not a machine: with line, column and key.
    pub fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).context(ErrorKind::NoInput, || format!("machine file {}", path.display()))?;
        Self::parse(&text).map_err(|error| Error::new(error.kind, format!("{}:{}", path.display(), error.message)))
    }

    /// Parses a machine description; messages begin with `LINE:COLUMN: `.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn parse(text: &str) -> Result<Self> {
        let file: MachineFile = toml::from_str(text).map_err(|error| {
            let message = error.message().trim_end().replace('\n', "; ");
            fault(text, error.span().unwrap_or(0..0), &message)
        })?;
        file.check(text)
    }

    /// Everything that the cache and coherence model of a timed run needs to know.
    ///
    /// # Errors
    /// A `[model]` that does not fit the machine.
    pub fn model_config(&self) -> Result<Config> {
        let islands = self.islands.iter().map(|island| {
            let base = match island.isa {
                Isa::X86_64 => 0,
                Isa::AArch64 => 1 << 30,
                Isa::RiscV64 | Isa::Hosted => 2 << 30,
            };
            let pool = local_ranges(island.isa, island.private, self.pool.size).into_iter();
            let mut memory = vec![Piece { local: base, size: island.private, target: Target::Private(0) }];
            memory.extend(pool.map(|(offset, local, size)| Piece { local, size, target: Target::Pool(offset) }));
            motet_coherence::Island { name: island.name.clone(), cores: island.cores, memory }
        });
        let shape = Shape { pool: self.pool.size, islands: islands.collect() };
        self.model.resolve(&shape).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
    }

    /// Cores of the whole machine.
    pub fn core_count(&self) -> usize {
        self.islands.iter().map(|island| island.cores).sum()
    }
}

/// The private memory an ISA's island has by default, in bytes, and the least it can have.
///
/// AArch64: QEMU puts the device tree 128 MiB above the start of RAM, and it must not lie in the pool.
pub const fn private_size(isa: Isa) -> (u64, u64) {
    match isa {
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => (64 << 20, 32 << 20),
        Isa::AArch64 => (256 << 20, 160 << 20),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    pool: Spanned<PoolTable>,
    island: Spanned<Vec<IslandTable>>,
    #[serde(default)]
    model: ModelTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    size: Spanned<Bytes>,
    block: Option<Spanned<Bytes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IslandTable {
    name: Spanned<String>,
    isa: Spanned<String>,
    cores: Spanned<i64>,
    cpu: Option<Spanned<String>>,
    private: Option<Spanned<Bytes>>,
    #[serde(default)]
    extensions: Vec<Spanned<String>>,
}

impl MachineFile {
    fn check(self, text: &str) -> Result<Machine> {
        let pool = self.pool.into_inner().check(text)?;
        let span = self.island.span();
        let tables = self.island.into_inner();
        if tables.is_empty() || tables.len() > ISLANDS_MAX {
            return Err(fault(
                text,
                span,
                &format!("island: {} islands, a machine has 1 to {ISLANDS_MAX}", tables.len()),
            ));
        }
        let mut islands: Vec<IslandSpec> = Vec::new();
        for table in tables {
            let name = table.name.span();
            let island = table.check(text)?;
            if islands.iter().any(|other| other.name == island.name) {
                return Err(fault(text, name, &format!("name: two islands are called \"{}\"", island.name)));
            }
            islands.push(island);
        }
        let machine = Machine { pool, islands, model: self.model, text: text.into() };
        machine.model_config()?;
        Ok(machine)
    }
}

impl PoolTable {
    fn check(self, text: &str) -> Result<PoolSpec> {
        let size = self.size.get_ref().0;
        let (block, block_span) = match &self.block {
            Some(block) => (block.get_ref().0, block.span()),
            None => (BLOCK_SIZE_DEFAULT, self.size.span()),
        };
        if !(256 << 10..=4 << 20).contains(&block) || !block.is_power_of_two() {
            return Err(fault(text, block_span, "block: must be a power of two from 256KiB to 4MiB"));
        }
        if size < POOL_SIZE_MIN {
            let message = format!("size: pool too small: {}, the minimum is {}", Bytes(size), Bytes(POOL_SIZE_MIN));
            return Err(fault(text, self.size.span(), &message));
        }
        if size > POOL_SIZE_MAX {
            let message = format!("size: pool too large: {}, the maximum is {}", Bytes(size), Bytes(POOL_SIZE_MAX));
            return Err(fault(text, self.size.span(), &message));
        }
        // 2 MiB: QEMU places the RISC-V device tree after the pool at this alignment.
        let unit = block.max(2 << 20);
        if size % unit != 0 {
            return Err(fault(text, self.size.span(), &format!("size: must be a multiple of {}", Bytes(unit))));
        }
        Ok(PoolSpec { size, block })
    }
}

impl IslandTable {
    fn check(self, text: &str) -> Result<IslandSpec> {
        let name = self.name.get_ref();
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 31 || !name.chars().all(valid) {
            let message = "name: 1 to 31 letters, digits, '-' or '_'";
            return Err(fault(text, self.name.span(), message));
        }
        let isa = match Isa::from_name(self.isa.get_ref()) {
            Some(isa @ (Isa::X86_64 | Isa::AArch64 | Isa::RiscV64)) => isa,
            Some(Isa::Hosted) | None => {
                let message =
                    format!("isa: unknown instruction set \"{}\"; known: x86_64, aarch64, riscv64", self.isa.get_ref());
                return Err(fault(text, self.isa.span(), &message));
            }
        };
        let cores = usize::try_from(*self.cores.get_ref()).unwrap_or(0);
        if !(1..=CORES_PER_ISLAND_MAX).contains(&cores) {
            let message = format!("cores: {}, an island has 1 to {CORES_PER_ISLAND_MAX}", self.cores.get_ref());
            return Err(fault(text, self.cores.span(), &message));
        }
        for word in self.cpu.iter().chain(&self.extensions) {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-_.+=,".contains(c);
            if word.get_ref().is_empty() || !word.get_ref().chars().all(valid) {
                return Err(fault(text, word.span(), "cpu, extensions: letters, digits and -_.+=, only"));
            }
        }
        let private = private_memory(text, isa, self.private)?;
        let extensions: Vec<String> = self.extensions.into_iter().map(Spanned::into_inner).collect();
        let name = self.name.into_inner();
        Ok(IslandSpec { name, isa, cores, cpu: self.cpu.map(Spanned::into_inner), private, extensions })
    }
}

fn private_memory(text: &str, isa: Isa, given: Option<Spanned<Bytes>>) -> Result<u64> {
    let (default, least) = private_size(isa);
    let Some(given) = given else { return Ok(default) };
    let size = given.get_ref().0;
    if size < least || size > 1 << 30 || size % (2 << 20) != 0 {
        let message = format!(
            "private: {} for {}; must be a multiple of 2MiB from {} to 1GiB",
            Bytes(size),
            isa.name(),
            Bytes(least)
        );
        return Err(fault(text, given.span(), &message));
    }
    Ok(size)
}

/// An error at a place of the file.
fn fault(text: &str, span: Range<usize>, message: &str) -> Error {
    let before = &text[..span.start.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    Error::new(ErrorKind::Config, format!("{line}:{column}: {message}"))
}

/// A number of bytes, written `64MiB`, `1GiB`, `512KiB` or as a plain number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl std::str::FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let bad = || format!("\"{text}\" is not a memory size; write it like \"64MiB\" or \"1GiB\"");
        let unit = UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
        let (digits, shift) = unit.unwrap_or((text, 0));
        let number: u64 = digits.trim_end().parse().map_err(|_| bad())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, shift)| self.0 != 0 && self.0 % (1 << shift) == 0) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a memory size like \"64MiB\" or \"1GiB\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> std::result::Result<Bytes, E> {
                u64::try_from(number).map(Bytes).map_err(|_| E::custom("a memory size cannot be negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";

    fn message(text: &str) -> String {
        let error = Machine::parse(text).expect_err("must be refused");
        assert_eq!(error.kind, ErrorKind::Config);
        error.message
    }

    #[test]
    fn accepts_the_shortest_machine() {
        let machine = Machine::parse(GOOD).unwrap();
        assert_eq!(machine.pool, PoolSpec { size: 64 << 20, block: BLOCK_SIZE_DEFAULT });
        assert_eq!(machine.islands[0].private, 64 << 20);
        assert_eq!(machine.core_count(), 1);
    }

    #[test]
    fn unknown_key_is_named_with_its_place() {
        let text = GOOD.replace("cores = 1", "cores = 1\ncolour = 3");
        let message = message(&text);
        assert!(message.starts_with("7:1: ") && message.contains("colour"), "{message}");
    }

    #[test]
    fn semantic_errors_name_key_and_place() {
        for (from, to, want) in [
            ("64MiB", "16MiB", "2:8: size: pool too small: 16MiB, the minimum is 32MiB"),
            ("64MiB", "65MiB", "2:8: size: must be a multiple of 4MiB"),
            ("64MiB", "64 megs", "2:8: \"64 megs\" is not a memory size"),
            ("cores = 1", "cores = 17", "6:9: cores: 17, an island has 1 to 16"),
            ("cores = 1", "cores = -1", "6:9: cores: -1"),
            ("x86_64", "mips", "5:7: isa: unknown instruction set \"mips\"; known: x86_64, aarch64, riscv64"),
            ("\"a\"", "\"a b\"", "4:8: name: "),
            ("cores = 1", "cores = 1\nprivate = \"2GiB\"", "7:11: private: 2GiB for x86_64; must be"),
            ("cores = 1", "cores = 1\ncpu = \"max file=/x\"", "7:7: cpu"),
            ("[pool]\nsize = \"64MiB\"\n", "", "missing field `pool`"),
        ] {
            let message = message(&GOOD.replace(from, to));
            assert!(message.contains(want), "{want:?} not in {message:?}");
        }
    }

    #[test]
    fn names_are_unique_and_islands_at_most_eight() {
        let island = "[[island]]\nname = \"a\"\nisa = \"aarch64\"\ncores = 1\n";
        assert!(message(&format!("{GOOD}{island}")).contains("8:8: name: two islands are called \"a\""));
        let many: String = (0..8).map(|i| island.replace("\"a\"", &format!("\"b{i}\""))).collect();
        assert!(message(&format!("{GOOD}{many}")).contains("island: 9 islands, a machine has 1 to 8"));
    }

    #[test]
    fn shipped_machines_parse() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            Machine::load(&path).unwrap_or_else(|error| panic!("{error}"));
            count += 1;
        }
        assert!(count >= 4);
    }

    #[test]
    fn sizes_print_as_they_are_written() {
        for text in ["64MiB", "1GiB", "3KiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        assert!("99999999999GiB".parse::<Bytes>().is_err());
    }
}

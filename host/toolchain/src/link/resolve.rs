//! Which object files are in the program, and who defines each symbol.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use object::read::archive::{ArchiveFile, ArchiveOffset};

use super::{
    DefinedSymbol, Wishes,
    module::{Module, Place},
};
use crate::{
    error::{Error, Result, read},
    isa::PerIsa,
};

/// Something to link, in the order of the command line.
#[derive(Clone, Debug)]
pub struct Input {
    /// An object file or an archive.
    pub path: PathBuf,
    /// For messages, if the file is one that nobody knows: its source.
    pub name: Option<String>,
    /// Take every member of the archive, not just those that are needed.
    pub whole: bool,
    /// The toolchain has brought it, not the user.
    pub is_runtime: bool,
}

impl Input {
    /// A file of the user's.
    pub fn new(path: PathBuf, name: Option<String>, whole: bool) -> Self {
        Self { path, name, whole, is_runtime: false }
    }

    /// What the toolchain adds to programs.
    pub fn of_runtime(path: PathBuf) -> Self {
        Self { path, name: None, whole: false, is_runtime: true }
    }
}

/// The parts of a program.
#[derive(Default)]
pub struct Program {
    /// Object files and the archive members that were needed.
    pub modules: Vec<Module>,
    /// Definitions by name.
    pub definitions: HashMap<String, Definition>,
    /// Those of the command line by name, which take precedence.
    pub symbols: HashMap<String, DefinedSymbol>,
}

/// Who defines a symbol.
#[derive(Clone, Copy, Debug)]
pub enum Definition {
    /// A module, perhaps only for some ISAs.
    Module {
        /// Its index, for each ISA: the same, unless no module has the function for all.
        modules: PerIsa<Option<usize>>,
        /// Another definition may replace it.
        weak: bool,
    },
    /// All that have a variable without initial value of this name (`-fcommon`).
    Common {
        /// In bytes.
        size: u64,
        /// In bytes.
        align: u64,
    },
}

/// Loads `inputs` and what they need out of the archives among them.
///
/// # Errors
/// A file is missing or malformed, or two files define the same symbol.
pub fn load(inputs: &[Input], wanted: &[String], wishes: &Wishes) -> Result<Program> {
    let bases = wishes.symbols.iter().filter_map(|symbol| symbol.base.clone());
    let mut loader = Loader {
        wanted: wanted.iter().cloned().chain(bases).collect(),
        wraps: wishes.wraps.clone(),
        allows_several: wishes.allows_several,
        program: Program { symbols: by_name(&wishes.symbols), ..Program::default() },
        ..Loader::default()
    };
    let mut archives = Vec::new();
    for input in inputs {
        let file = read(&input.path)?;
        if file.starts_with(b"!<arch>\n") || file.starts_with(b"!<thin>\n") {
            archives.push(Archive::parse(input, file)?);
        } else {
            let name = input.name.clone().unwrap_or_else(|| input.path.display().to_string());
            let mut module = Module::parse(name, &file)?;
            module.is_runtime = input.is_runtime;
            loader.add(module)?;
        }
    }
    for archive in &archives {
        if archive.whole {
            archive.offsets()?.into_iter().try_for_each(|offset| loader.add_member(archive, offset))?;
        }
    }
    loader.add_needed(&archives)?;
    let is_known = |name: &String| loader.program.definitions.contains_key(name);
    match wishes.symbols.iter().find(|symbol| symbol.base.as_ref().is_some_and(|base| !is_known(base))) {
        Some(DefinedSymbol { name, base, .. }) => {
            let base = base.as_deref().unwrap_or_default();
            Err(Error::data(format!("--defsym {name}={base}: the program has no symbol {base}")))
        }
        None => Ok(loader.program),
    }
}

fn by_name(symbols: &[DefinedSymbol]) -> HashMap<String, DefinedSymbol> {
    symbols.iter().map(|symbol| (symbol.name.clone(), symbol.clone())).collect()
}

/// A program of one file, whose symbols need not all be defined.
///
/// # Errors
/// It defines a symbol twice.
pub fn alone(module: Module) -> Result<Program> {
    let mut loader = Loader::default();
    loader.add(module)?;
    Ok(loader.program)
}

#[derive(Default)]
struct Loader {
    program: Program,
    /// Names that something refers to and that must be defined.
    wanted: HashSet<String>,
    /// Symbols that others take the place of ([`Wishes::wraps`]).
    wraps: Vec<String>,
    /// Of several definitions the first counts.
    allows_several: bool,
    /// Members that are loaded already.
    loaded: HashSet<(PathBuf, u64)>,
}

impl Loader {
    /// Archives are searched until nothing more is found, so their order only decides between two definitions.
    fn add_needed(&mut self, archives: &[Archive]) -> Result<()> {
        loop {
            let is_known =
                |name: &String| self.program.definitions.contains_key(name) || self.program.symbols.contains_key(name);
            let mut missing: Vec<String> = self.wanted.iter().filter(|name| !is_known(name)).cloned().collect();
            missing.sort_unstable();
            let mut found = false;
            for name in missing {
                let member = archives.iter().find_map(|archive| Some((archive, *archive.symbols.get(&name)?)));
                if let Some((archive, offset)) = member
                    && !self.program.definitions.contains_key(&name)
                    && !self.loaded.contains(&(archive.path.clone(), offset))
                {
                    self.add_member(archive, offset)?;
                    found = true;
                }
            }
            if !found {
                return Ok(());
            }
        }
    }

    fn add_member(&mut self, archive: &Archive, offset: u64) -> Result<()> {
        if !self.loaded.insert((archive.path.clone(), offset)) {
            return Ok(());
        }
        let (name, data) = archive.member(offset)?;
        // The tables that archivers for other systems leave in an archive.
        if data.is_empty() || name.starts_with("__.SYMDEF") {
            return Ok(());
        }
        let mut module = Module::parse(format!("{}({name})", archive.path.display()), &data)?;
        module.is_runtime = archive.is_runtime;
        self.add(module)
    }

    fn add(&mut self, mut module: Module) -> Result<()> {
        if !self.wraps.is_empty() {
            self.wrap(&mut module);
        }
        let number = self.program.modules.len();
        let mut names: HashSet<&str> = HashSet::new();
        for image in &module.images {
            names.extend(image.defined.keys().map(String::as_str));
            let undefined = image.symbols.iter().filter(|symbol| symbol.place == Place::Undefined && !symbol.weak);
            self.wanted.extend(undefined.map(|symbol| symbol.name.clone()));
        }
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        for name in names {
            self.define(name, number, &module)?;
        }
        self.program.modules.push(module);
        Ok(())
    }

    /// Redirects what a module refers to and does not define itself.
    fn wrap(&self, module: &mut Module) {
        let symbols = module.images.iter_mut().flat_map(|image| &mut image.symbols);
        for symbol in symbols.filter(|symbol| symbol.place == Place::Undefined) {
            if self.wraps.contains(&symbol.name) {
                symbol.name = format!("__wrap_{}", symbol.name);
            } else if let Some(real) = symbol.name.strip_prefix("__real_")
                && self.wraps.iter().any(|name| name == real)
            {
                symbol.name = real.to_owned();
            }
        }
    }

    fn define(&mut self, name: &str, number: usize, module: &Module) -> Result<()> {
        let new = definition(name, number, module);
        let merged = match (self.program.definitions.get(name).copied(), new) {
            (None, new) => new,
            (
                Some(Definition::Module { modules: weak, weak: true }),
                Definition::Module { modules: strong, weak: false },
            )
            | (
                Some(Definition::Module { modules: strong, weak: false }),
                Definition::Module { modules: weak, weak: true },
            ) => Definition::Module { modules: std::array::from_fn(|isa| strong[isa].or(weak[isa])), weak: false },
            (Some(Definition::Common { size, align }), Definition::Common { size: other, align: other_align }) => {
                Definition::Common { size: size.max(other), align: align.max(other_align) }
            }
            (Some(Definition::Common { .. }), Definition::Module { weak: false, .. }) => new,
            (Some(Definition::Module { weak: true, .. }), Definition::Common { .. }) => new,
            (
                Some(Definition::Module { modules: old, weak: true }),
                Definition::Module { modules: new, weak: true },
            ) => Definition::Module { modules: either(old, new), weak: true },
            (Some(Definition::Module { modules, weak: false }), Definition::Module { weak: false, .. })
                if !self.allows_several =>
            {
                let first = modules.into_iter().flatten().next();
                let first = first.map_or("", |first| &self.program.modules[first].name);
                return Err(Error::data(format!(
                    "duplicate symbol: {name} is defined in {first} and in {}",
                    module.name
                )));
            }
            (
                Some(Definition::Module { modules: old, weak: false }),
                Definition::Module { modules: new, weak: false },
            ) => Definition::Module { modules: std::array::from_fn(|isa| old[isa].or(new[isa])), weak: false },
            (Some(old), _) => old,
        };
        self.program.definitions.insert(name.to_owned(), merged);
        Ok(())
    }
}

fn definition(name: &str, number: usize, module: &Module) -> Definition {
    let symbols = module.images.iter().filter_map(|image| Some(&image.symbols[*image.defined.get(name)?]));
    let mut weak = true;
    let mut common: Option<(u64, u64)> = None;
    for symbol in symbols {
        weak &= symbol.weak;
        if symbol.place == Place::Common {
            let (size, align) = common.unwrap_or((0, 1));
            common = Some((size.max(symbol.size), align.max(symbol.value)));
        }
    }
    match common {
        Some((size, align)) => Definition::Common { size, align },
        None => {
            let modules = module.images.each_ref().map(|image| image.defined.contains_key(name).then_some(number));
            Definition::Module { modules, weak }
        }
    }
}

/// Of two definitions of an inline function, one that is there for all ISAs: a compiler leaves it out where all calls are
/// inlined. If none is, each ISA has its own.
fn either(old: PerIsa<Option<usize>>, new: PerIsa<Option<usize>>) -> PerIsa<Option<usize>> {
    if old.contains(&None) && !new.contains(&None) {
        return new;
    }
    std::array::from_fn(|isa| old[isa].or(new[isa]))
}

/// What stands before the contents of an archive's member.
const MEMBER_HEADER_BYTES: u64 = 60;

struct Archive {
    path: PathBuf,
    file: Vec<u8>,
    whole: bool,
    is_runtime: bool,
    /// Members by the names that they define.
    symbols: HashMap<String, u64>,
}

impl Archive {
    fn parse(input: &Input, file: Vec<u8>) -> Result<Self> {
        let malformed = |error| malformed(&input.path, error);
        let archive = ArchiveFile::parse(file.as_slice()).map_err(malformed)?;
        let mut symbols = HashMap::new();
        let mut empty = true;
        for symbol in archive.symbols().map_err(malformed)?.into_iter().flatten() {
            let symbol = symbol.map_err(malformed)?;
            empty = false;
            symbols.entry(String::from_utf8_lossy(symbol.name()).into_owned()).or_insert(symbol.offset().0);
        }
        let mut parsed =
            Self { path: input.path.clone(), file, whole: input.whole, is_runtime: input.is_runtime, symbols };
        if empty {
            parsed.index_members()?;
        }
        Ok(parsed)
    }

    /// Finds what the members define when the archive has no table of symbols.
    fn index_members(&mut self) -> Result<()> {
        for offset in self.offsets()? {
            let (name, data) = self.member(offset)?;
            let module = Module::parse(format!("{}({name})", self.path.display()), &data)?;
            let names: PerIsa<Vec<String>> = module.images.map(|image| image.defined.into_keys().collect());
            for name in names.into_iter().flatten() {
                self.symbols.entry(name).or_insert(offset);
            }
        }
        Ok(())
    }

    fn offsets(&self) -> Result<Vec<u64>> {
        let malformed = |error| malformed(&self.path, error);
        let archive = ArchiveFile::parse(self.file.as_slice()).map_err(malformed)?;
        if archive.is_thin() {
            return Ok(thin_offsets(&self.file));
        }
        let mut offsets = Vec::new();
        for member in archive.members() {
            let (start, _) = member.map_err(malformed)?.file_range();
            offsets.push(start.saturating_sub(MEMBER_HEADER_BYTES));
        }
        Ok(offsets)
    }

    fn member(&self, offset: u64) -> Result<(String, Vec<u8>)> {
        let malformed = |error| malformed(&self.path, error);
        let archive = ArchiveFile::parse(self.file.as_slice()).map_err(malformed)?;
        let member = archive.member(ArchiveOffset(offset)).map_err(malformed)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let data = if member.is_thin() {
            // The archive has only the path, seen from its own folder.
            read(&self.path.with_file_name(&name))?
        } else {
            member.data(self.file.as_slice()).map_err(malformed)?.to_vec()
        };
        Ok((name, data))
    }
}

/// Where the headers of a thin archive's members are. Only its tables have contents behind their headers.
fn thin_offsets(file: &[u8]) -> Vec<u64> {
    const MAGIC_BYTES: u64 = 8;
    let text = |bytes: Option<&[u8]>| bytes.map(String::from_utf8_lossy).map(|text| text.trim_end().to_owned());
    let mut offsets = Vec::new();
    let mut at = MAGIC_BYTES;
    while let Some(header) = usize::try_from(at).ok().and_then(|at| file.get(at..)?.get(..MEMBER_HEADER_BYTES as usize))
    {
        let is_table = text(header.get(..16)).is_some_and(|name| ["/", "//", "/SYM64/"].contains(&name.as_str()));
        let size = text(header.get(48..58)).and_then(|size| size.parse::<u32>().ok()).unwrap_or_default();
        if !is_table {
            offsets.push(at);
        }
        at += MEMBER_HEADER_BYTES + if is_table { u64::from(size).next_multiple_of(2) } else { 0 };
    }
    offsets
}

fn malformed(path: &Path, error: object::Error) -> Error {
    Error::data(format!("{}: malformed archive: {error}", path.display()))
}

//! The linker: gives every function and datum one address on all ISAs.
//!
//! Object files are read ([`module`]), symbols found and archive members pulled in ([`resolve`]), equal constants merged
//! ([`pool`]). What is reachable on any ISA ([`live`]) and the same on all ([`same`]) is laid out once ([`plan`]), with each ISA's tables for unwinding the stack ([`frames`], [`unwind`]); then each ISA's sections are copied to
//! their places in one relocatable object ([`combine`]), whose relocations lld applies ([`lld`]). The results go into
//! one file ([`image`]).

mod combine;
mod frames;
mod image;
mod live;
mod lld;
mod map;
mod module;
mod pinning;
mod plan;
mod pool;
mod prototype;
mod reached;
mod resolve;
mod same;
mod shapes;
mod signature;
mod targets;
mod unwind;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use motet_error::output::Output;

use self::{
    image::{Image, Memory},
    lld::Linked,
    module::{Module, Place},
    targets::{Linkage, Segment, Target},
};
pub use self::{
    pinning::Pin,
    resolve::Input,
    shapes::{Member, Shape, Shapes, differing},
};
use crate::{
    error::{Error, Result},
    isa::PerIsa,
    tools::Tools,
};

/// What options of linkers ask for.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// `--wrap NAME`: who refers to NAME gets `__wrap_NAME`, and who refers to `__real_NAME` gets NAME.
    pub wraps: Vec<String>,
    /// `--defsym`.
    pub symbols: Vec<DefinedSymbol>,
    /// `-Map FILE`.
    pub map: Option<PathBuf>,
    /// `-z stack-size=BYTES`: of new threads, if it is more than the C library's own choice.
    pub stack_bytes: u64,
    /// `--cref`: who defines and wants each symbol, in the map, or on standard output if there is none.
    pub cross_references: bool,
    /// `-t`: names what is linked.
    pub trace: bool,
    /// `-y SYMBOL`: names who defines and wants it.
    pub traced: Vec<String>,
    /// `--print-gc-sections`: names what nothing reaches, so that it is left out.
    pub shows_left_out: bool,
    /// `--require-defined SYMBOL`.
    pub required: Vec<String>,
    /// `--allow-multiple-definition`, `-z muldefs`: of several definitions the first counts.
    pub allows_several: bool,
    /// `-z one-stack`: a thread's calls to other ISAs go on below the caller's frames, instead of on a stack for each ISA.
    pub one_stack: bool,
}

/// `--defsym NAME=BASE+VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedSymbol {
    /// What is defined.
    pub name: String,
    /// Another symbol, or none for a number.
    pub base: Option<String>,
    /// The number, or what is added to the other symbol.
    pub value: u64,
}

/// What to link, and how.
#[derive(Debug, Default)]
pub struct Options {
    /// Object files and archives.
    pub inputs: Vec<Input>,
    /// The executable.
    pub output: PathBuf,
    /// Where it starts.
    pub entry: String,
    /// Symbols that are needed though nothing refers to them.
    pub needed: Vec<String>,
    /// Functions to pin, besides those that the source marks.
    pub pins: Vec<Pin>,
    /// The ISA of the file as other systems see it.
    pub primary: usize,
    /// Ordinary executables to write for single ISAs.
    pub single: Vec<(usize, PathBuf)>,
    /// Leave out symbols and the debugger's sections.
    pub strip: bool,
    /// The rest.
    pub wishes: Wishes,
}

/// The types, functions and variables in the object files of a source, which have the debugger's sections.
///
/// # Errors
/// One is malformed.
pub fn shapes(name: &str, objects: &PerIsa<Vec<u8>>) -> Result<PerIsa<Shapes>> {
    let mut all = PerIsa::<Shapes>::default();
    for (isa, object) in objects.iter().enumerate() {
        let image = module::parse_image(name, object, isa)?;
        if let Some(debug) = prototype::Debug::of(&image, isa) {
            let malformed = |error| Error::data(format!("{name}: malformed debugger's section: {error}"));
            all[isa] = debug.shapes().map_err(malformed)?;
        }
    }
    Ok(all)
}

/// What one object file shows of differences between ISAs.
#[derive(Default)]
pub struct Alone {
    /// Functions whose addresses are kept on one ISA, and that another does not have.
    pub lacking: Vec<String>,
    /// Variables that no other file sees and that differ.
    pub differing_statics: Vec<String>,
}

impl Alone {
    /// Looks at an object file without others. Nothing is found if it cannot be linked: then the linker says why.
    pub fn new(name: &str, file: &[u8]) -> Self {
        let module = Module::parse(name.to_owned(), file);
        let linkage = module.and_then(|module| Linkage::new(resolve::alone(module)?));
        linkage.map_or_else(|_| Self::default(), |linkage| Self::of(&linkage))
    }

    fn of(linkage: &Linkage) -> Self {
        let seen: HashSet<(usize, Place)> = linkage.program.modules[0].global_places().collect();
        let is_own = |unit: &&targets::Unit| {
            let mut sections = unit.sections.iter().enumerate();
            unit.segment == Segment::Data
                && !sections.any(|(isa, index)| index.is_some_and(|index| seen.contains(&(isa, Place::Section(index)))))
        };
        let own = linkage.units.list.iter().filter(is_own).filter(|unit| same::differs(linkage, unit));
        let kept = live::kept(linkage, |_| true).into_keys();
        let lacking = kept.filter(|id| linkage.units.get(*id).sections.contains(&None));
        Self {
            lacking: lacking.map(|id| pinning::function_name(linkage, id)).collect(),
            differing_statics: own.map(|unit| unit.title().to_owned()).collect(),
        }
    }
}

/// Links a program.
///
/// # Errors
/// See [`resolve::load`], [`plan::plan`], [`lld::link`] and [`Memory::merge`].
pub fn link(tools: &Tools, options: &Options) -> Result<()> {
    let mut wanted = options.needed.clone();
    wanted.push(options.entry.clone());
    wanted.extend_from_slice(&options.wishes.required);
    let program = resolve::load(&options.inputs, &wanted, &options.wishes)?;
    // Before anything can be found wrong: who asks wants to know why it is.
    crate::error::write_or_print(None, map::trace(&program, &options.wishes).as_bytes())?;
    map::check_required(&program, &options.wishes.required)?;
    let linkage = Linkage::new(program)?;
    let plan = plan::plan(linkage, &wanted, &options.pins, image::header_bytes)?;
    for warning in &plan.warnings {
        eprintln!("motet cc: {warning}");
    }
    let folder = tempfile::Builder::new()
        .prefix("motet-ld-")
        .tempdir()
        .map_err(|error| Error::write(&std::env::temp_dir(), error))?;
    let mut linked: Vec<Linked> = Vec::new();
    for isa in 0..crate::isa::ISAS.len() {
        let object = combine::combine(&plan, isa, !options.strip)?;
        linked.push(lld::link(tools, &plan, isa, &object, folder.path())?);
    }
    let linked: PerIsa<Linked> = linked.try_into().unwrap_or_else(|_| unreachable!("one for each ISA"));
    let memory = Memory::merge(&plan, &linked)?;
    map::write(&plan, &options.wishes)?;
    let single = options.single.iter().map(|(isa, path)| (*isa, path, false));
    for (primary, path, fat) in single.chain([(options.primary, &options.output, true)]) {
        let entry = entry(&plan, &options.entry, primary)?;
        let image = Image {
            plan: &plan,
            memory: &memory,
            linked: &linked,
            primary,
            fat,
            entry,
            strip: options.strip,
            stack_bytes: options.wishes.stack_bytes,
            one_stack: options.wishes.one_stack,
        };
        write_executable(path, &image::write(&image))?;
    }
    Ok(())
}

fn entry(plan: &plan::Plan, name: &str, isa: usize) -> Result<u64> {
    let target = plan.linkage.by_name(name, isa).filter(|target| matches!(target, Target::Unit(..)));
    let target = target.ok_or_else(|| Error::data(format!("undefined symbol: {name} (where the program starts)")))?;
    Ok(plan.address(&target, isa))
}

/// Replaces the file, which may be running.
fn write_executable(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = Output::replace(path).and_then(|output| {
        output.write(|out| out.write_all(bytes))?;
        output.make_executable()
    });
    written.map_err(|error| Error::write(path, error))
}

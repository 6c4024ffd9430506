//! lld applies the relocations of a combined object.

use std::{fmt::Write, path::Path};

use object::{Object, ObjectSection};

use super::{plan::Plan, targets::Segment};
use crate::{
    error::{Error, ErrorKind, Result, read, write},
    isa::ISAS,
    tools::Tools,
};

/// The contents of the program for one ISA.
pub struct Linked {
    /// Of `.rodata`, `.text` and `.data`, in this order: address and contents.
    pub segments: [(u64, Vec<u8>); 3],
    /// The debugger's sections: name and contents.
    pub debug: Vec<(String, Vec<u8>)>,
}

/// Links the combined object of ISA number `isa` in `folder`.
///
/// # Errors
/// lld finds a relocation that does not fit.
pub fn link(tools: &Tools, plan: &Plan, isa: usize, object: &[u8], folder: &Path) -> Result<Linked> {
    let name = ISAS[isa].name();
    let [object_path, script_path, output] =
        ["o", "ld", "elf"].map(|extension| folder.join(format!("{name}.{extension}")));
    write(&object_path, object)?;
    write(&script_path, script(plan).as_bytes())?;
    let mut command = tools.command("ld.lld");
    command.args([
        "-static",
        "--no-relax",
        "--build-id=none",
        "-z",
        "norelro",
        "-z",
        "max-page-size=4096",
        "--no-gc-sections",
    ]);
    command.arg("--entry=0").arg("-T").arg(&script_path).arg("-o").arg(&output).arg(&object_path);
    let result = command.output().map_err(|error| Error::read(&tools.program, error))?;
    if !result.status.success() {
        let text = String::from_utf8_lossy(&result.stderr);
        return Err(Error::data(format!("linking for {name} failed:\n{}", text.trim_end())));
    }
    let file = read(&output)?;
    let linked = parse(&file)
        .map_err(|error| Error::new(ErrorKind::Software, format!("{name}: lld's result is malformed: {error}")))?;
    check_sizes(plan, name, &linked)?;
    Ok(linked)
}

/// lld must have put everything where the plan says.
fn check_sizes(plan: &Plan, name: &str, linked: &Linked) -> Result<()> {
    for (segment, (start, bytes)) in Segment::ALL.iter().zip(&linked.segments) {
        let (planned, end) = plan.ranges[segment];
        if bytes.len() as u64 != end - planned || (*start != planned && !bytes.is_empty()) {
            let found = format!("{} bytes at {start:#x}", bytes.len());
            let message = format!(
                "{name}: lld put {} elsewhere than planned: {found}, not {} bytes at {planned:#x}",
                segment.name(),
                end - planned
            );
            return Err(Error::new(ErrorKind::Software, message));
        }
    }
    Ok(())
}

fn script(plan: &Plan) -> String {
    let mut script = String::from("SECTIONS {\n");
    for segment in Segment::ALL {
        let (name, start) = (segment.name(), plan.ranges[&segment].0);
        let _ = writeln!(script, "  {name} {start:#x} : {{ *({name}) }}");
    }
    script.push_str("  /DISCARD/ : { *(.comment) *(.note.*) *(.riscv.attributes) }\n}\n");
    script
}

fn parse(file: &[u8]) -> object::Result<Linked> {
    let file = object::File::parse(file)?;
    let mut linked = Linked { segments: Default::default(), debug: Vec::new() };
    for section in file.sections() {
        let name = section.name()?;
        if let Some(index) = Segment::ALL[..3].iter().position(|segment| segment.name() == name) {
            linked.segments[index] = (section.address(), section.data()?.to_vec());
        } else if name.starts_with(".debug_") {
            linked.debug.push((name.to_owned(), section.data()?.to_vec()));
        }
    }
    Ok(linked)
}

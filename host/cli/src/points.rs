//! `--points FILE` and `--passages FILE`: when cores come by instructions.

use std::{
    io::{self, Write},
    path::Path,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::timed::{Passage, Point};
use motet_machine::MachineSpec;

/// Reads lines `ISLAND ADDRESS [REGISTER]`.
///
/// # Errors
/// The file cannot be read, or a line is something else.
pub fn read(file: &Path, machine: &MachineSpec) -> Result<Vec<Point>> {
    let wrong = |message: String| Error::new(ErrorKind::Usage, format!("--points: {}: {message}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    text.lines()
        .map(|line| point(line, machine).ok_or_else(|| wrong(format!("`{line}`: not ISLAND 0xADDRESS [REGISTER]"))))
        .collect()
}

fn point(line: &str, machine: &MachineSpec) -> Option<Point> {
    Point::read(line, |name| machine.islands.iter().position(|island| island.name == name))
}

/// Writes a line for each passage.
///
/// # Errors
/// `out`'s.
pub fn write(passages: &[Passage], out: &mut dyn Write) -> io::Result<()> {
    passages
        .iter()
        .try_for_each(|Passage { point, core, at_ps, value }| writeln!(out, "{point} {core} {at_ps} {value:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_read_and_wrong_ones_are_named() {
        let machine = MachineSpec::parse(include_str!("../../../machines/ker-one.toml")).unwrap();
        let with = |register| Some(Point { island: 0, address: 0x8020_0000, register });
        assert_eq!(point("riscv 0x80200000", &machine), with(None));
        assert_eq!(point("riscv 0x80200000 hgatp", &machine), with(Some("hgatp".into())));
        for wrong in ["", "arm 0x0", "riscv 80200000", "riscv 0xx", "riscv 0x1 a b"] {
            assert_eq!(point(wrong, &machine), None, "{wrong}");
        }
    }
}

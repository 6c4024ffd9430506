//! `--points FILE` and `--passages FILE`: when cores come by instructions.

use std::{
    io::{self, Write},
    path::Path,
};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::timed::{POINTS_MAX, Passage, Point};
use motet_machine::MachineSpec;

/// Reads lines `ISLAND ADDRESS [REGISTER]`.
///
/// # Errors
/// The file cannot be read, a line is something else, or there are too many.
pub fn read(file: &Path, machine: &MachineSpec) -> Result<Vec<Point>> {
    let wrong = |message: String| Error::new(ErrorKind::Usage, format!("--points: {}: {message}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let count = text.lines().count();
    if count > POINTS_MAX {
        return Err(wrong(format!("it has {count} points; a run watches at most {POINTS_MAX}")));
    }
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
    fn too_many_points_are_refused() {
        let machine = MachineSpec::parse(include_str!("../../../machines/ker-one.toml")).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = |count: usize| (0..count).map(|at| format!("riscv {at:#x}\n")).collect::<String>();
        std::fs::write(&file, lines(POINTS_MAX)).unwrap();
        assert_eq!(read(file.path(), &machine).unwrap().len(), POINTS_MAX);
        std::fs::write(&file, lines(POINTS_MAX + 1)).unwrap();
        let error = read(file.path(), &machine).unwrap_err();
        assert!(error.message.contains("65537 points") && error.message.contains("at most 65536"), "{error}");
        assert_eq!(error.exit_status(), 64);
    }

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

//! QEMU's contrib plugin `cache`: how it is loaded, and what it reports.

use std::path::Path;

use motet_error::{Error, ErrorKind, Result};

use super::{Geometry, tools::Tools};

/// What it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Data accesses; one that crosses a line is one.
    pub data: u64,
    /// Of them, misses.
    pub data_misses: u64,
    /// Instructions; each is an access to L1I.
    pub instructions: u64,
    /// Of them, misses.
    pub instruction_misses: u64,
    /// What L2 was asked for: the misses of both.
    pub l2: u64,
    /// Of them, misses.
    pub l2_misses: u64,
}

impl Counts {
    /// What was counted in addition to `other`.
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            data: self.data.saturating_sub(other.data),
            data_misses: self.data_misses.saturating_sub(other.data_misses),
            instructions: self.instructions.saturating_sub(other.instructions),
            instruction_misses: self.instruction_misses.saturating_sub(other.instruction_misses),
            l2: self.l2.saturating_sub(other.l2),
            l2_misses: self.l2_misses.saturating_sub(other.l2_misses),
        }
    }
}

/// Arguments of QEMU that load it; it reports to `log` when QEMU ends.
pub fn arguments(tools: &Tools, geometry: &Geometry, log: &Path) -> Vec<String> {
    let Geometry { l1d, l1i, l2 } = geometry;
    let l2 = match l2 {
        Some(l2) => format!("l2cachesize={},l2assoc={}", l2.size, l2.ways),
        None => "l2=off".into(),
    };
    let plugin = format!(
        "{},limit=1,dcachesize={},dassoc={},icachesize={},iassoc={},{l2}",
        tools.contrib.display(),
        l1d.size,
        l1d.ways,
        l1i.size,
        l1i.ways
    );
    ["-plugin", &plugin, "-d", "plugin", "-D", &log.display().to_string()].map(str::to_owned).to_vec()
}

/// Reads its report, of the first core.
///
/// # Errors
/// QEMU did not end in order, or the report looks otherwise.
pub fn read(log: &Path) -> Result<Counts> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    parse(&text).ok_or_else(|| {
        Error::new(ErrorKind::Software, format!("{}: no report of QEMU's contrib plugin cache", log.display()))
    })
}

fn parse(text: &str) -> Option<Counts> {
    let line = text.lines().skip_while(|line| !line.starts_with("core #")).nth(1)?;
    // The core's number; then two counts and a percentage for each cache.
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [0, data, data_misses, instructions, instruction_misses, rest @ ..] = &numbers[..] else { return None };
    let &[l2, l2_misses] = rest.first_chunk().unwrap_or(&[0, 0]);
    Some(Counts {
        data: *data,
        data_misses: *data_misses,
        instructions: *instructions,
        instruction_misses: *instruction_misses,
        l2,
        l2_misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
core #, data accesses, data misses, dmiss rate, insn accesses, insn misses, imiss rate, l2 accesses, l2 misses, l2 miss rate
0       6608122        1294249        19.5857%  10404910       3538            0.0340%  1297787      1293327        99.6563%
1       0              0               0.0000%  0              0               0.0000%

address, data misses, instruction
";

    #[test]
    fn reports_are_read_with_and_without_l2() {
        let counts = parse(REPORT).unwrap();
        assert_eq!((counts.data_misses, counts.instructions, counts.l2_misses), (1_294_249, 10_404_910, 1_293_327));
        let without = REPORT.replace("  1297787      1293327        99.6563%", "");
        assert_eq!(parse(&without).unwrap(), Counts { l2: 0, l2_misses: 0, ..counts });
        assert_eq!(parse(""), None);
        assert_eq!(counts.beyond(&Counts { data: 8122, ..Counts::default() }).data, 6_600_000);
    }
}

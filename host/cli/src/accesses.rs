//! `--accesses FILE`: accesses of all cores in one order, for other simulators ([`motet_coherence::interleaved`]).

use std::io::{self, Write};

use motet_coherence::interleaved::Step;

const HEADER: &str = "# Accesses of all cores in the order in which they were made: number of the core; f: fetch of a line, l: load, s: store,
# a: atomic; address, as docs/simulator.md says.
";

/// Writes a line for each.
///
/// # Errors
/// `out`'s.
pub fn write(steps: &[Step], out: &mut dyn Write) -> io::Result<()> {
    out.write_all(HEADER.as_bytes())?;
    steps.iter().try_for_each(|step| writeln!(out, "{step}"))
}

/// What a user should know of them. `skipped`, `room`: what was asked for.
pub fn warning(steps: &[Step], skipped: u64, room: u64) -> Option<String> {
    if steps.is_empty() && skipped == 0 {
        let how = "mark one in the program (motet_roi_begin), or put `motet roi NAME` before its command";
        Some(format!("--accesses: there are none, because no region of interest began; {how}"))
    } else if steps.is_empty() {
        Some(format!("--accesses: there are no more than the {skipped} that --accesses-skip leaves out"))
    } else if steps.len() as u64 == room {
        Some(format!("--accesses: these are {room}; there may have been more, for which --accesses-max makes room"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_coherence::{Kind, interleaved};

    const STEP: Step = Step { core: 1, kind: Kind::Store, address: 0x48 };

    #[test]
    fn what_is_written_can_be_replayed() {
        let mut text = Vec::new();
        write(&[STEP; 2], &mut text).unwrap();
        assert_eq!(interleaved::read(&text[..]).unwrap(), [STEP; 2]);
    }

    #[test]
    fn only_what_is_missing_is_told() {
        let told = |count, skipped| warning(&vec![STEP; count], skipped, 3).unwrap_or_default();
        assert!(told(0, 0).contains("no region of interest began"));
        assert!(told(0, 9).contains("no more than the 9"));
        assert!(told(3, 9).contains("--accesses-max"));
        assert_eq!(told(2, 9), "");
    }
}

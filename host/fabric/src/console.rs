//! An island's diagnostic console (its serial port) and QEMU's own messages: one pipe, kept as its last lines.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use motet_error::{Context, Result};

/// Lines kept for error messages.
const LINES_KEPT: usize = 24;
/// Longest line, in bytes; the rest begins a new one.
const LINE_LENGTH_MAX: usize = 1000;
/// QEMU warnings about what Motet does on purpose.
const EXPECTED_WARNINGS: [&str; 1] = ["There is possibly poor performance as the ram size"];

/// The console of one island.
#[derive(Debug)]
pub struct Console {
    pipe: OwnedFd,
    open: bool,
    lines: Lines,
}

impl Console {
    /// A console that reads `pipe`.
    ///
    /// # Errors
    /// The pipe is not usable.
    pub fn new(pipe: OwnedFd) -> Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true).host("a pipe")?;
        Ok(Self { pipe, open: true, lines: Lines::default() })
    }

    /// The pipe, while something can still come out of it.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.open.then(|| self.pipe.as_fd())
    }

    /// Reads what has arrived, and returns the lines that are now complete.
    pub fn read(&mut self) -> Vec<String> {
        let mut bytes = [0u8; 16 << 10];
        let mut finished = Vec::new();
        while self.open {
            match rustix::io::read(&self.pipe, &mut bytes) {
                Ok(0) => {
                    self.open = false;
                    finished.extend(self.lines.finish());
                }
                Ok(n) => finished.extend(self.lines.feed(&bytes[..n])),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        finished
    }

    /// The last lines, the unfinished one included.
    pub fn last_lines(&self) -> Vec<String> {
        self.lines.last()
    }
}

/// Cuts bytes into lines that are safe to print, and remembers the last ones.
#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    partial: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut finished = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || self.partial.len() >= LINE_LENGTH_MAX {
                finished.extend(self.finish());
            }
            if byte != b'\n' {
                self.partial.push(byte);
            }
        }
        finished
    }

    fn finish(&mut self) -> Option<String> {
        let line = printable(&std::mem::take(&mut self.partial));
        if line.is_empty() || EXPECTED_WARNINGS.iter().any(|warning| line.contains(warning)) {
            return None;
        }
        if self.kept.len() == LINES_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(line.clone());
        Some(line)
    }

    fn last(&self) -> Vec<String> {
        let partial = printable(&self.partial);
        self.kept.iter().cloned().chain((!partial.is_empty()).then_some(partial)).collect()
    }
}

/// The text without control characters: a broken island must not reprogram the terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end().chars().filter(|&c| c == '\t' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_cleaned_and_the_last_kept() {
        let mut lines = Lines::default();
        assert!(lines.feed(b"moth").is_empty());
        assert_eq!(lines.feed(b"er\x1b[2J\r\n\r\nx"), ["mother[2J"]);
        assert_eq!(lines.last(), ["mother[2J", "x"]);
        for i in 0..100 {
            lines.feed(format!("\nline {i}").as_bytes());
        }
        assert_eq!(lines.last().len(), LINES_KEPT + 1);
        assert_eq!(lines.last().last().unwrap(), "line 99");
        assert_eq!(lines.feed(&[b'y'; 2500]).len(), 2);
    }
}

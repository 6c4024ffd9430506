//! Lines that the kernel says to people: whole, so that those of several cores do not mix, and not more than people read, whatever programs do.

use core::fmt::{self, Write as _};

use motet_hal::{Machine, Text};
use motet_layout::sync::Ordering;

use super::Cpu;

/// Longest line, in bytes; what is longer is cut off.
const LINE_MAX: usize = 1024;
/// Lines that may come at once.
const AT_ONCE: u64 = 256;
/// On average, one line comes in so many nanoseconds (32 in a second).
const EACH_NS: u64 = 1_000_000_000 / 32;

impl<M: Machine> Cpu<M> {
    /// Has `output` say a line, as a whole and with its end, unless too many were said. A line that says how many were left out comes before it.
    #[cold]
    pub fn say(&self, line: fmt::Arguments<'_>, output: impl Fn(&[u8])) {
        let header = self.pool.header();
        let now_ns = self.now_ns();
        let one_more = |until_ns: u64| {
            let next_ns = until_ns.max(now_ns) + EACH_NS;
            (next_ns - now_ns <= AT_ONCE * EACH_NS).then_some(next_ns)
        };
        if header.lines_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            header.lines_left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let whole = |line: fmt::Arguments<'_>| {
            let mut text = Text::<LINE_MAX>::new();
            // What does not fit is cut off.
            let _ = write!(text, "motet: {line}");
            let (mut bytes, len) = ([b'\n'; LINE_MAX + 1], text.bytes().len());
            bytes[..len].copy_from_slice(text.bytes());
            output(&bytes[..=len]);
        };
        match header.lines_left_out.swap(0, Ordering::Relaxed) {
            0 => {}
            count => whole(format_args!("{count} lines were left out: too many came at once")),
        }
        whole(line);
    }
}

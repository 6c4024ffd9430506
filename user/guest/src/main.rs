//! Tests the parts of a virtual machine that the machine's command line names. If a test fails, it shuts the machine down as failed. It runs on QEMU's
//! `virt` board with OpenSBI, too.
#![no_std]
#![no_main]

mod bare;
mod random;
mod tree;
mod tries;

use core::fmt::{self, Write as _};

use bare::Console;

/// The first core begins here.
fn main(tree: usize) -> Result<(), fmt::Error> {
    let tree = bare::bytes_at_tree(tree);
    let command = tree::command_line(tree).unwrap_or("");
    let mut words = command.split_whitespace();
    match words.next() {
        None | Some("hello") => writeln!(Console, "hello from a guest"),
        Some("all") => tries::all(),
        Some("fail") => Err(fmt::Error),
        Some("spin") => loop {
            core::hint::spin_loop();
        },
        Some("ticks") => tries::ticks(words.next().and_then(|count| count.parse().ok()).unwrap_or(10)),
        Some("rest") => tries::rest(words.next().and_then(|count| count.parse().ok()).unwrap_or(10)),
        Some("adds") => tries::adds(words.next().and_then(|count| count.parse().ok()).unwrap_or(10)),
        Some("times") => tries::times(words.next().and_then(|count| count.parse().ok()).unwrap_or(5)),
        Some("alarms") => tries::alarms(),
        Some("touch") => tries::touch(words.next().and_then(|mib| mib.parse().ok()).unwrap_or(16)),
        Some("random") => random::run(words.next().and_then(|seed| seed.parse().ok()).unwrap_or(1)),
        Some("echo") => tries::echo(),
        Some(other) => {
            writeln!(Console, "there is no try {other}")?;
            Err(fmt::Error)
        }
    }
}

//! `vm`: runs virtual machines, lists and ends them.
#![no_std]
#![no_main]

extern crate alloc;

mod accelerators;
mod input;
mod interrupts;
mod list;
mod monitor;
mod serial;
mod share;

use core::{
    ffi::CStr,
    fmt::{self, Write as _},
};

use motet_calls::system::{self, Arguments, STDERR, STDOUT};
use motet_vm::options::Options;

motet_calls::program!(main);

const USAGE: &str = "\
usage: vm run [--memory MIB] [--cpus N] [--nice N] [--real-time N] [--no-reboot] IMAGE [--initrd FILE]
              [--append TEXT] [--share NAME[:KIB]]... [--accel NAME[:US]]...
       vm list
       vm kill ID
       vm --help

Virtual machines on this machine's RISC-V or AArch64 cores: those that the image is for.

  run   runs IMAGE, an ELF file or a Linux kernel, until it shuts its machine down; standard input and output are its
        console. Exit status: 0, or 1 if the guest says that it has failed, or cannot be run. A guest that resets its machine
        begins again
  list  shows the virtual machines that run now, and their images
  kill  ends one

  --memory MIB   its memory (64)
  --cpus N       its cores (1)
  --nice N       nice value of its cores, -20 (the most urgent) to 19
  --real-time N  real-time priority of its cores, 1 to 99 (the most urgent): they come before all that has none (SCHED_RR)
  --no-reboot    the machine ends when the guest resets it, as after a panic; exit status 2
  --accel NAME   an accelerator of the FPGA for it: qam16, fft512 ...; there can be several. NAME:US: where the policy of the FPGA is deadline, it is
                 to be ready so many microseconds after a request
  --initrd FILE  a ram disk for it to begin with
  --append TEXT  its kernel's command line, in UTF-8
  --share NAME   memory that it shares with the machines and programs that name the same (/dev/shm/vm.NAME), with doorbells; 4 KiB
                 unless it is there or NAME:KIB says otherwise; up to four times
";
/// Exit status of wrong use, as of sysexits.h.
const WRONG_USE: u8 = 64;
/// Exit status if a machine cannot be run, or has failed.
pub const FAILED: u8 = 1;
/// Exit status if the guest has reset a machine that was not to begin again.
pub const HAS_RESET: u8 = 2;

fn main(arguments: Arguments) -> u8 {
    match arguments.get(1) {
        Some(b"run") => match Options::parse((2..).map_while(|index| arguments.get(index))) {
            Ok(options) => monitor::run(&arguments, &options),
            Err(wrong) => refuse(format_args!("{wrong} (vm --help)")),
        },
        Some(b"list") if arguments.get(2).is_none() => list::show(),
        Some(b"kill") if arguments.get(3).is_none() => match arguments.get(2).and_then(number) {
            Some(id) => list::kill(id),
            None => refuse(format_args!("kill needs the number that vm list shows")),
        },
        Some(b"--help" | b"-h") => {
            let _ = system::write(STDOUT, USAGE.as_bytes());
            0
        }
        _ => {
            let _ = system::write(STDERR, USAGE.as_bytes());
            WRONG_USE
        }
    }
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

fn refuse(why: fmt::Arguments<'_>) -> u8 {
    say(why);
    WRONG_USE
}

/// Writes a line to standard error.
pub fn say(line: fmt::Arguments<'_>) {
    struct Errors;
    impl fmt::Write for Errors {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            system::write(STDERR, text.as_bytes()).map(drop).map_err(|_| fmt::Error)
        }
    }
    let mut text = alloc::string::String::new();
    let _ = writeln!(text, "vm: {line}");
    let _ = Errors.write_str(&text);
}

/// A path for the kernel.
pub fn with_path<R>(path: &[u8], with: impl FnOnce(&CStr) -> R) -> R {
    let mut bytes = alloc::vec::Vec::from(path);
    bytes.push(0);
    with(CStr::from_bytes_until_nul(&bytes).unwrap_or_default())
}

//! `motet` in the guest: what programs in the machine ask of the simulator.
//!
//! `motet roi NAME COMMAND [ARGUMENT...]` makes a command a region of interest. It runs on any Linux, too.
#![no_std]
#![no_main]

use core::{
    ffi::CStr,
    fmt::{self, Write as _},
};

use motet_calls::{
    cores::{self, Search},
    roi,
    system::{self, Arguments, Failure, STDERR, STDOUT},
};

motet_calls::program!(main);

const USAGE: &[u8] = b"\
usage: motet roi NAME COMMAND [ARGUMENT...]
       motet crossings BUSY MISSING COMMAND [ARGUMENT...]
       motet with EXTENSION[,EXTENSION...] COMMAND [ARGUMENT...]
       motet --help | motet roi --help | motet crossings --help | motet with --help

Talks to the simulator and the machine that it runs in.

  roi        runs a command as a region of interest
  crossings  runs a command whose calls wait for busy islands, or not
  with       runs a command on cores that have some extensions
";
const WITH_USAGE: &[u8] = b"\
usage: motet with EXTENSION[,EXTENSION...] COMMAND [ARGUMENT...]

Runs COMMAND, and what it starts, on those cores of this program's instruction set alone that have all of these extensions,
as 'on ISA,EXTENSION... COMMAND' does. /proc/cpuinfo shows which core has which. Other instruction sets' cores are not concerned.

The exit status is that of COMMAND; 127 when there is no such program, 126 when it cannot be run, 125 when no core has the extensions.

  motet with avx2 /in/program
  on riscv64 motet with v,zba /in/program        the same as: on riscv64,v,zba /in/program
";
const CROSSINGS_USAGE: &[u8] = b"\
usage: motet crossings BUSY MISSING COMMAND [ARGUMENT...]

Runs COMMAND. When it, or what it starts, calls a function of another instruction set,

  BUSY     says what becomes of the call if all of that one's cores are busy: it waits for one (wait, as without this),
           runs on the caller's core and is counted in /proc/PID/crossings (local), or ends the process (end)
  MISSING  says the same for an instruction set of which no island is there: local (as without this) or end

Functions marked MOTET_ONLY never run locally.

  motet crossings local end /in/program
";
const ROI_USAGE: &[u8] = b"\
usage: motet roi NAME COMMAND [ARGUMENT...]

Runs COMMAND; the report of a timed run (motet run --timed) then has a region NAME: what every core of the machine did
from the beginning of COMMAND to its end. NAME has at most 63 bytes. In a run without --timed, only runs COMMAND.

The exit status is that of COMMAND; 128 + N when signal N ended it, 127 when there is no such program, 126 when it
cannot be run.

  motet roi sort sort /in/words
  on riscv64 motet roi pipeline sh -c 'cat /in/words | on aarch64 sort | uniq -c'
";

/// Policies of `crossings`, by their codes less 1.
const POLICIES: [&[u8]; 3] = [b"wait", b"local", b"end"];
/// Exit status of wrong use, as of sysexits.h.
const WRONG_USE: u8 = 64;
const CANNOT_START: u8 = 125;
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
const OS_ERROR: u8 = 71;
const SIGNALS_OF_KEYS: [usize; 2] = [2, 3];
const ENOENT: Failure = -2;
const EACCES: Failure = -13;
const ENOTDIR: Failure = -20;
/// Longest path of a program, with its end.
const PATH_SIZE: usize = 4096;
/// Bytes read at once.
const PIECE_SIZE: usize = 4096;

fn main(arguments: Arguments) -> u8 {
    match (arguments.get(1), arguments.get(2), arguments.get(3)) {
        (Some(b"--help" | b"-h"), None, _) => say(STDOUT, &[USAGE]),
        (Some(b"roi"), Some(b"--help" | b"-h"), None) => say(STDOUT, &[ROI_USAGE]),
        (Some(b"roi"), Some(name), Some(_)) if name.len() <= motet_calls::marks::ROI_NAME_MAX => {
            return region(name, arguments);
        }
        (Some(b"roi"), Some(name), Some(_)) => {
            return refuse(&[b"motet roi: the name is longer than 63 bytes: ", name, b"\n"]);
        }
        (Some(b"roi"), _, _) => return refuse(&[ROI_USAGE]),
        (Some(b"crossings"), Some(b"--help" | b"-h"), None) => say(STDOUT, &[CROSSINGS_USAGE]),
        (Some(b"crossings"), Some(busy), Some(missing)) if arguments.get(4).is_some() => {
            return with_policies(busy, missing, arguments);
        }
        (Some(b"crossings"), _, _) => return refuse(&[CROSSINGS_USAGE]),
        (Some(b"with"), Some(b"--help" | b"-h"), None) => say(STDOUT, &[WITH_USAGE]),
        (Some(b"with"), Some(list), Some(_)) => return with_extensions(list, arguments),
        (Some(b"with"), _, _) => return refuse(&[WITH_USAGE]),
        (Some(other), _, _) => {
            return refuse(&[b"motet: there is no command '", other, b"' in the machine (motet --help)\n"]);
        }
        (None, _, _) => return refuse(&[USAGE]),
    }
    0
}

/// Runs the command from argument 3 on as region `name`.
fn region(name: &[u8], arguments: Arguments) -> u8 {
    // Keys that end the command must not end this program before the region's end.
    SIGNALS_OF_KEYS.iter().for_each(|&signal| system::ignore(signal, true));
    roi::begin(name);
    let child = system::fork();
    if child == Ok(0) {
        SIGNALS_OF_KEYS.iter().for_each(|&signal| system::ignore(signal, false));
        system::exit(execute(arguments, 3));
    }
    let status = child.and_then(system::wait_status);
    roi::end(name);
    match status {
        Ok(status) if status & 0x7f == 0 => (status >> 8) as u8,
        Ok(status) => 128 + (status & 0x7f) as u8,
        Err(_) => {
            say(STDERR, &[b"motet roi: no process for the command\n"]);
            OS_ERROR
        }
    }
}

/// Becomes the command from argument 4 on, with policies for calls across instruction sets.
fn with_policies(busy: &[u8], missing: &[u8], arguments: Arguments) -> u8 {
    let code = |word: &[u8]| POLICIES.iter().position(|policy| *policy == word).map(|index| index + 1);
    let (Some(busy), Some(missing @ 2..)) = (code(busy), code(missing)) else { return refuse(&[CROSSINGS_USAGE]) };
    if system::crossings(busy, missing).is_err() {
        return refuse(&[b"motet crossings: this system has no calls across instruction sets\n"]);
    }
    execute(arguments, 4)
}

/// Becomes the command from argument 3 on, on cores that have all the extensions in `list`.
fn with_extensions(list: &[u8], arguments: Arguments) -> u8 {
    let cannot = |why: fmt::Arguments<'_>| {
        let _ = writeln!(Errors, "motet with: {why}");
        CANNOT_START
    };
    let list = core::str::from_utf8(list).unwrap_or("\u{fffd}");
    let wanted = match cores::named(system::ISA, list) {
        Ok(wanted) => wanted,
        Err(error) => return cannot(format_args!("{error}")),
    };
    let mut search = Search::new(wanted);
    let (Ok(()), Ok(affinity)) = (read_cpuinfo(&mut search), system::affinity()) else {
        return cannot(format_args!("this system does not say what its cores have (/proc/cpuinfo)"));
    };
    let isa = system::ISA.name();
    match search.within(affinity) {
        Some(cores) if system::set_affinity(cores).is_ok() => execute(arguments, 3),
        Some(_) => cannot(format_args!("the kernel does not let this process choose its cores")),
        None if search.has_found() => {
            cannot(format_args!("no {isa} core in this process's affinity has all of: {wanted} (see /proc/cpuinfo)"))
        }
        None => cannot(format_args!("no {isa} core of the machine has all of: {wanted} (see /proc/cpuinfo)")),
    }
}

fn read_cpuinfo(search: &mut Search) -> Result<(), Failure> {
    let file = system::open_to_read(c"/proc/cpuinfo")?;
    let mut piece = [0; PIECE_SIZE];
    loop {
        match system::read(file, &mut piece)? {
            0 => break,
            len => search.read(&piece[..len]),
        }
    }
    system::close(file);
    Ok(())
}

/// Standard error.
struct Errors;

impl fmt::Write for Errors {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        system::write(STDERR, text.as_bytes()).map(drop).map_err(|_| fmt::Error)
    }
}

/// Becomes the command from argument `first` on, which is looked for on PATH unless it has a slash; the exit status if that
/// fails.
fn execute(arguments: Arguments, first: usize) -> u8 {
    let command = arguments.get(first).unwrap_or_default();
    let path = if command.contains(&b'/') { b"" } else { arguments.variable(b"PATH").unwrap_or(b"/bin") };
    let mut worst = ENOENT;
    for folder in path.split(|&byte| byte == b':') {
        let mut buffer = [0; PATH_SIZE];
        let failure = match joined(folder, command, &mut buffer) {
            Some(program) => arguments.execute(program, first),
            None => ENOENT,
        };
        if ![ENOENT, ENOTDIR].contains(&failure) {
            worst = failure;
        }
        if ![ENOENT, ENOTDIR, EACCES].contains(&failure) {
            break;
        }
    }
    let (status, why): (u8, &[u8]) = match worst {
        ENOENT => (NOT_FOUND, b": not found\n"),
        EACCES => (CANNOT_RUN, b": permission denied\n"),
        _ => (CANNOT_RUN, b": cannot be run\n"),
    };
    say(STDERR, &[b"motet: ", command, why]);
    status
}

/// `FOLDER/COMMAND`, or `COMMAND` without a folder; `None` when it is too long.
fn joined<'a>(folder: &[u8], command: &[u8], buffer: &'a mut [u8; PATH_SIZE]) -> Option<&'a CStr> {
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    let mut len = 0;
    for part in [folder, slash, command] {
        buffer.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    CStr::from_bytes_until_nul(buffer).ok()
}

fn refuse(parts: &[&[u8]]) -> u8 {
    say(STDERR, parts);
    WRONG_USE
}

fn say(to: i32, parts: &[&[u8]]) {
    for part in parts {
        let _ = system::write(to, part);
    }
}

//! `vm list` shows the virtual machines, `vm kill` ends one.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{ffi::CStr, fmt::Write as _};

use motet_calls::system::{self, Failure, STDOUT};
use motet_vm::options::Options;

use crate::{FAILED, say, with_path};

fn read(path: &CStr) -> Result<Vec<u8>, Failure> {
    let file = system::open_to_read(path)?;
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match system::read(file, &mut piece)? {
            0 => break,
            len => text.extend_from_slice(&piece[..len]),
        }
    }
    system::close(file);
    Ok(text)
}

/// `vm list`: what the kernel shows, and the image of each machine, which its process was told.
pub fn show() -> u8 {
    match read(c"/proc/vms") {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let mut listed = String::new();
            for line in text.lines() {
                let process = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
                let image =
                    process.map_or_else(|| "IMAGE".into(), |process| image_of(process).unwrap_or_else(|| "?".into()));
                let _ = writeln!(listed, "{line}  {image}");
            }
            let _ = system::write(STDOUT, listed.as_bytes());
            0
        }
        Err(_) => {
            say(format_args!("this system has no virtual machines (/proc/vms)"));
            FAILED
        }
    }
}

/// The image of the machine that a process has made; `None`: the process has gone.
fn image_of(process: u64) -> Option<String> {
    let path = format!("/proc/{process}/cmdline");
    let told = with_path(path.as_bytes(), read).ok()?;
    let words = told.strip_suffix(&[0])?.split(|&byte| byte == 0).skip(2);
    Some(Options::parse(words).ok()?.image.escape_ascii().to_string())
}

/// `vm kill`: kills the process that has made the machine.
pub fn kill(id: u64) -> u8 {
    let text = read(c"/proc/vms").unwrap_or_default();
    let text = core::str::from_utf8(&text).unwrap_or_default();
    let numbers = |line: &str| {
        let mut words = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        Some((words.next()??, words.next()??))
    };
    match text.lines().filter_map(numbers).find(|(number, _)| *number == id) {
        Some((_, process)) => match system::kill_process(process as usize) {
            Ok(_) => 0,
            Err(_) => {
                say(format_args!("machine {id} is another user's (process {process})"));
                FAILED
            }
        },
        None => {
            say(format_args!("there is no machine {id} (vm list)"));
            FAILED
        }
    }
}

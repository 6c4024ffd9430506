//! `vm list` shows the virtual machines, `vm kill` ends one.

use alloc::vec::Vec;

use motet_calls::system::{self, Failure, STDOUT};

use crate::{FAILED, say};

fn read() -> Result<Vec<u8>, Failure> {
    let file = system::open_to_read(c"/proc/vms")?;
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

/// `vm list`.
pub fn show() -> u8 {
    match read() {
        Ok(text) => {
            let _ = system::write(STDOUT, &text);
            0
        }
        Err(_) => {
            say(format_args!("this system has no virtual machines (/proc/vms)"));
            FAILED
        }
    }
}

/// `vm kill`: kills the process that has made the machine.
pub fn kill(id: u64) -> u8 {
    let text = read().unwrap_or_default();
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

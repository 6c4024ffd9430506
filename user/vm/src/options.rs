//! The options of `vm run`.

use core::fmt;

use crate::{Shares, board};

/// Memory unless said otherwise.
const MEMORY_MIB: u64 = 64;
/// The latest deadline: an hour.
const DEADLINE_US_MAX: i64 = 3_600_000_000;
/// Most memory.
const MEMORY_MIB_MAX: u64 = 1 << 20;

/// How to run a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    /// File with the image.
    pub image: &'a [u8],
    /// Its memory.
    pub memory_mib: u64,
    /// Its cores.
    pub cpus: u64,
    /// Nice value of its threads.
    pub nice: Option<i32>,
    /// Their real-time priority (SCHED_RR).
    pub realtime: Option<u32>,
    /// The machine ends when the guest resets it.
    pub no_reboot: bool,
    /// File with the initial ram disk.
    pub initrd: Option<&'a [u8]>,
    /// The kernel's command line.
    pub append: &'a str,
    /// Areas that it shares with others.
    pub shares: [Option<Share<'a>>; Shares::MAX],
    /// The accelerators that it has, by their number on the board, with the deadline of their requests in microseconds; 0: none.
    pub accelerators: [Option<u64>; board::ACCELERATORS.len()],
}

/// An area of memory that machines share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its size, if it was given.
    pub kib: Option<u64>,
}

impl<'a> Share<'a> {
    /// `NAME` or `NAME:KIB`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (name, kib) = match text.split_once(':') {
            Some((name, kib)) => {
                (name, Some(kib.parse().ok().filter(|kib| (4..=Shares::MEMORY_BYTES >> 10).contains(kib))?))
            }
            None => (text, None),
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = !name.is_empty() && name.len() <= 64 && name.bytes().all(is_plain);
        is_name.then_some(Self { name, kib })
    }
}

/// What is wrong with arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong<'a> {
    /// There is no image, or more than one.
    Image,
    /// There is no such option.
    Unknown(&'a [u8]),
    /// The option has no value, or one that it does not take.
    Value(&'a [u8]),
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image => write!(to, "one image is to be named"),
            Self::Unknown(option) => write!(to, "there is no option {}", option.escape_ascii()),
            Self::Value(option) => write!(to, "{} needs a value that it takes", option.escape_ascii()),
        }
    }
}

fn number(text: &[u8]) -> Option<i64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// `NAME` or `NAME:US`: the number of an accelerator, and its deadline.
fn accelerator(text: &[u8]) -> Option<(usize, u64)> {
    let mut parts = text.splitn(2, |byte| *byte == b':');
    let name = parts.next()?;
    let deadline_us = parts.next().map_or(Some(0), |us| number(us).filter(|us| (1..=DEADLINE_US_MAX).contains(us)))?;
    Some((board::ACCELERATORS.iter().position(|known| known.as_bytes() == name)?, deadline_us as u64))
}

impl<'a> Options<'a> {
    /// Parses arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(mut arguments: impl Iterator<Item = &'a [u8]>) -> Result<Self, Wrong<'a>> {
        let mut options = Self {
            image: b"",
            memory_mib: MEMORY_MIB,
            cpus: 1,
            nice: None,
            realtime: None,
            no_reboot: false,
            initrd: None,
            append: "",
            shares: [None; Shares::MAX],
            accelerators: [None; _],
        };
        while let Some(argument) = arguments.next() {
            if !argument.starts_with(b"-") {
                if !options.image.is_empty() {
                    return Err(Wrong::Image);
                }
                options.image = argument;
                continue;
            }
            if argument == b"--no-reboot" {
                options.no_reboot = true;
                continue;
            }
            let value = arguments.next().ok_or(Wrong::Value(argument));
            let limited = |from: i64, to: u64| {
                let value = number(value?).filter(|&value| value >= from && value <= to as i64);
                value.ok_or(Wrong::Value(argument))
            };
            match argument {
                b"--memory" => options.memory_mib = limited(1, MEMORY_MIB_MAX)? as u64,
                b"--cpus" => options.cpus = limited(1, motet_abi::vm::VCPUS_MAX)? as u64,
                b"--real-time" => options.realtime = Some(limited(1, 99)? as u32),
                b"--nice" => options.nice = Some(limited(-20, 19)? as i32),
                b"--initrd" => options.initrd = Some(value?),
                b"--share" => {
                    let free = options.shares.iter_mut().find(|share| share.is_none()).ok_or(Wrong::Value(argument))?;
                    *free = Some(Share::parse(value?).ok_or(Wrong::Value(argument))?);
                }
                b"--append" => {
                    options.append = core::str::from_utf8(value?).map_err(|_| Wrong::Value(argument))?;
                }
                b"--accel" => {
                    let (index, deadline_us) = accelerator(value?).ok_or(Wrong::Value(argument))?;
                    options.accelerators[index] = Some(deadline_us);
                }
                _ => return Err(Wrong::Unknown(argument)),
            }
        }
        if options.image.is_empty() { Err(Wrong::Image) } else { Ok(options) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(words: &[&'a str]) -> Result<Options<'a>, Wrong<'a>> {
        Options::parse(words.iter().map(|word| word.as_bytes()))
    }

    #[test]
    fn areas_have_names_and_maybe_sizes() {
        let options = parse(&["image", "--share", "a-b.c", "--share", "d:64"]).unwrap();
        let [first, second, none, _] = options.shares;
        assert_eq!((first, none), (Some(Share { name: "a-b.c", kib: None }), None));
        assert_eq!(second, Some(Share { name: "d", kib: Some(64) }));
        for wrong in ["", "a/b", "a:", "a:3", "a:16385", "a:b", "..:x"] {
            assert_eq!(parse(&["image", "--share", wrong]), Err(Wrong::Value(b"--share")), "{wrong}");
        }
        let many = ["image", "--share", "a", "--share", "b", "--share", "c", "--share", "d", "--share", "e"];
        assert_eq!(parse(&many), Err(Wrong::Value(b"--share")));
    }

    #[test]
    fn real_time_priorities_are_limited() {
        assert_eq!(parse(&["image", "--real-time", "99"]).unwrap().realtime, Some(99));
        for wrong in ["0", "100", "x"] {
            assert_eq!(parse(&["image", "--real-time", wrong]), Err(Wrong::Value(b"--real-time")));
        }
    }

    #[test]
    fn options_are_in_any_order() {
        let options = parse(&["--cpus", "2", "image", "--nice", "-20", "--append", "a b", "--memory", "256"]).unwrap();
        assert_eq!((options.image, options.append), (&b"image"[..], "a b"));
        assert_eq!((options.cpus, options.memory_mib, options.nice, options.initrd), (2, 256, Some(-20), None));
        assert!(!options.no_reboot && parse(&["--no-reboot", "image"]).unwrap().no_reboot);
    }

    #[test]
    fn accelerators_are_the_boards() {
        let options = parse(&["--accel", "qam64:70", "image", "--accel", "fir"]).unwrap();
        assert_eq!(options.accelerators, [None, Some(70), None, None, None, None, Some(0)]);
        for wrong in ["qam", "fir:", "fir:0", "fir:x", "fir:1:1", "fir:3600000001"] {
            assert_eq!(parse(&["--accel", wrong, "image"]), Err(Wrong::Value(b"--accel")), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(parse(&[]), Err(Wrong::Image));
        assert_eq!(parse(&["a", "b"]), Err(Wrong::Image));
        assert_eq!(parse(&["a", "--x", "b"]), Err(Wrong::Unknown(b"--x")));
        for wrong in [["--cpus", "0"], ["--cpus", "17"], ["--nice", "20"], ["--memory", "x"], ["--memory", "-1"]] {
            assert_eq!(parse(&wrong), Err(Wrong::Value(wrong[0].as_bytes())));
        }
        assert_eq!(parse(&["a", "--initrd"]), Err(Wrong::Value(b"--initrd")));
        let no_text = [&b"a"[..], b"--append", b"rounds=2 \xff"];
        assert_eq!(Options::parse(no_text.into_iter()), Err(Wrong::Value(b"--append")));
    }
}

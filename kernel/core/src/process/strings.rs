//! Argument and environment strings of a program about to start, and where they come from.

use motet_abi::{Errno, time::RLIMIT_STACK};
use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, PoolAddr, ProcessRecord};

use crate::{
    call::{Call, PATH_MAX, Stop, cost},
    cpu::Cpu,
    tree::limit_of,
};

/// Most bytes of argument and environment strings with their pointers: a quarter of the stack's limit, within Linux's bounds.
pub fn arguments_max(process: &ProcessRecord) -> u64 {
    (limit_of(process, RLIMIT_STACK) / 4).clamp(128 << 10, 6 << 20)
}

/// The name by which a program is executed, as it is told (`AT_EXECFN`, and the argument of a script's interpreter): the path that was given, behind
/// `/dev/fd/N` if it begins at a descriptor (`execveat`).
pub struct ToldName<'a> {
    descriptor: [u8; 24],
    descriptor_len: usize,
    path: &'a [u8],
}

impl<'a> ToldName<'a> {
    /// See the type.
    pub fn of(dirfd: i32, path: &'a [u8]) -> Self {
        let mut descriptor = [0; 24];
        let begins_there = path.is_empty() || path[0] != b'/' && dirfd >= 0;
        let mut len = 0;
        let mut put = |bytes: &[u8]| {
            descriptor[len..len + bytes.len()].copy_from_slice(bytes);
            len += bytes.len();
        };
        if begins_there {
            put(b"/dev/fd/");
            let number = dirfd.max(0).unsigned_abs();
            let digits = number.checked_ilog10().unwrap_or(0);
            (0..=digits).rev().for_each(|digit| put(&[b'0' + (number / 10_u32.pow(digit) % 10) as u8]));
            put(if path.is_empty() { b"" } else { b"/" });
        }
        Self { descriptor, descriptor_len: len, path }
    }

    /// Its pieces.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.descriptor[..self.descriptor_len], self.path]
    }

    /// Its bytes, with the zero at its end.
    pub fn len(&self) -> u64 {
        (self.descriptor_len + self.path.len() + 1) as u64
    }
}

/// Where argument and environment strings come from.
pub trait StringSource<M: Machine> {
    /// Number of argument strings and of environment strings.
    fn counts(&self) -> (u64, u64);
    /// Calls `piece` with the bytes of string `index` (arguments, then environment), without its zero.
    fn read(&self, call: &Call<M>, index: u64, piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Stop>;
}

/// Strings of `execve`: in the caller's memory, with what interpreter scripts put in front.
pub struct Strings<'a> {
    arguments_at: u64,
    arguments: u64,
    environment_at: u64,
    environment: u64,
    prefix: &'a Prefix,
}

impl<'a> Strings<'a> {
    /// See the type.
    pub fn new<M: Machine>(
        call: &Call<M>,
        arguments_at: u64,
        environment_at: u64,
        prefix: &'a Prefix,
    ) -> Result<Self, Stop> {
        let arguments = count_vector(call, arguments_at)?;
        let environment = count_vector(call, environment_at)?;
        Ok(Self { arguments_at, arguments, environment_at, environment, prefix })
    }
}

fn count_vector<M: Machine>(call: &Call<M>, at: u64) -> Result<u64, Stop> {
    let mut count = 0;
    while at != 0 && call.read_user_u64(at.wrapping_add(8 * count))? != 0 {
        count += 1;
        call.serve_due(cost::OBJECT);
        if count * 9 > arguments_max(call.process) {
            return Err(Errno::E2BIG.into());
        }
    }
    Ok(count)
}

impl<M: Machine> StringSource<M> for Strings<'_> {
    fn counts(&self) -> (u64, u64) {
        let arguments = match self.prefix.count {
            // A program always finds at least one, if only an empty one (as of Linux 5.18).
            0 => self.arguments.max(1),
            prefix => prefix as u64 + self.arguments.saturating_sub(1),
        };
        (arguments, self.environment)
    }

    fn read(&self, call: &Call<M>, index: u64, piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Stop> {
        let (arguments, _) = <Self as StringSource<M>>::counts(self);
        let prefix = self.prefix.count as u64;
        let pointer_at = if index >= arguments {
            self.environment_at + 8 * (index - arguments)
        } else if index < prefix {
            return Ok(piece(self.prefix.string(index as usize))?);
        } else if self.arguments == 0 {
            return Ok(());
        } else {
            // What scripts put in front stands for the program's own name.
            self.arguments_at + 8 * (index - prefix.saturating_sub(1))
        };
        read_pieces(call, call.read_user_u64(pointer_at)?, piece)
    }
}

/// The strings of the machine's first program: in the pool, put there by the host.
pub struct Command<'a, M: Machine> {
    pub cpu: &'a Cpu<M>,
    pub at: u64,
    pub args: u32,
    pub env: u32,
}

impl<M: Machine> Command<'_, M> {
    /// Copies string `index`; returns its length.
    pub fn string(&self, index: u64, into: &mut [u8]) -> Option<usize> {
        let mut at = self.at;
        let mut byte = [0];
        for _ in 0..index {
            loop {
                self.cpu.pool.read(PoolAddr(at), &mut byte);
                at += 1;
                if byte[0] == 0 {
                    break;
                }
            }
        }
        for (len, slot) in into.iter_mut().enumerate() {
            self.cpu.pool.read(PoolAddr(at + len as u64), &mut byte);
            if byte[0] == 0 {
                return Some(len);
            }
            *slot = byte[0];
        }
        None
    }
}

impl<M: Machine> StringSource<M> for Command<'_, M> {
    fn counts(&self) -> (u64, u64) {
        (u64::from(self.args), u64::from(self.env))
    }

    fn read(&self, _call: &Call<M>, index: u64, piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>) -> Result<(), Stop> {
        let mut bytes = [0; PATH_MAX];
        let len = self.string(index, &mut bytes).ok_or(Errno::E2BIG)?;
        Ok(piece(&bytes[..len])?)
    }
}

/// Strings that interpreter scripts put in front of the arguments, in order.
pub struct Prefix {
    pub bytes: [u8; 1024],
    pub len: usize,
    pub count: usize,
}

impl Prefix {
    /// See the type.
    pub fn new() -> Self {
        Self { bytes: [0; 1024], len: 0, count: 0 }
    }

    pub fn string(&self, index: usize) -> &[u8] {
        self.bytes[..self.len].split(|&byte| byte == 0).nth(index).unwrap_or(&[])
    }

    /// The program that runs: the last script's interpreter, or `path` if that is none.
    pub fn program<'a>(&'a self, path: &'a [u8]) -> &'a [u8] {
        if self.count == 0 { path } else { self.string(0) }
    }

    /// Puts a string in front, which is given in parts.
    pub fn prepend(&mut self, parts: &[&[u8]]) -> Result<(), Errno> {
        let text_len: usize = parts.iter().map(|part| part.len()).sum();
        if self.len + text_len + 1 > self.bytes.len() {
            return Err(Errno::E2BIG);
        }
        self.bytes.copy_within(..self.len, text_len + 1);
        let mut at = 0;
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.bytes[text_len] = 0;
        self.len += text_len + 1;
        self.count += 1;
        Ok(())
    }
}

/// Copies a zero-terminated user string in pieces.
fn read_pieces<M: Machine>(
    call: &Call<M>,
    mut at: u64,
    piece: &mut dyn FnMut(&[u8]) -> Result<(), Errno>,
) -> Result<(), Stop> {
    let mut bytes = [0; 256];
    loop {
        let here = (PAGE_SIZE - at % PAGE_SIZE).min(bytes.len() as u64) as usize;
        call.read_user(at, &mut bytes[..here])?;
        // Both programs' pages are looked up.
        call.serve_due(2 * cost::PAGE);
        match bytes[..here].iter().position(|&byte| byte == 0) {
            Some(0) => return Ok(()),
            Some(end) => return Ok(piece(&bytes[..end])?),
            None => piece(&bytes[..here])?,
        }
        at += here as u64;
    }
}

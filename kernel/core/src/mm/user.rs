//! User memory as a system call accesses it: copied through the pool's mapping, page by page.

use core::sync::atomic::Ordering;

use motet_abi::{Errno, registers};
use motet_hal::{Access, Machine};
use motet_layout::{PAGE_SIZE, PoolAddr, ProcessRecord, ThreadRecord};

use super::{resolve, space_of};
use crate::{
    call::{Call, Stop},
    cpu::Cpu,
    due,
};

/// Strings are copied in aligned pieces of this many bytes (a divisor of the page size), as most are short.
const STRING_PIECE: u64 = 64;
/// What such a piece costs.
const STRING_COST: u64 = 500;

impl<M: Machine> Call<'_, M> {
    /// Copies from user memory.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be read; [`Stop::Page`].
    pub fn read_user(&self, address: u64, into: &mut [u8]) -> Result<(), Stop> {
        let mut done = 0;
        self.user_runs(address, into.len() as u64, Access::Read, |run, len| {
            self.cpu.pool.read(run, &mut into[done..done + len]);
            done += len;
            Ok(())
        })
    }

    /// Copies to user memory.
    ///
    /// # Errors
    /// `EFAULT` when a byte cannot be written (earlier ones may have been); [`Stop::Page`].
    pub fn write_user(&self, address: u64, from: &[u8]) -> Result<(), Stop> {
        let mut done = 0;
        self.user_runs(address, from.len() as u64, Access::Write, |run, len| {
            self.cpu.pool.write(run, &from[done..done + len]);
            done += len;
            Ok(())
        })
    }

    /// Reads a little-endian 64-bit word of user memory.
    ///
    /// # Errors
    /// `EFAULT`; [`Stop::Page`].
    pub fn read_user_u64(&self, address: u64) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        self.read_user(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a little-endian 32-bit word of user memory.
    ///
    /// # Errors
    /// `EFAULT`; [`Stop::Page`].
    pub fn read_user_u32(&self, address: u64) -> Result<u32, Stop> {
        let mut bytes = [0; 4];
        self.read_user(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Calls `each` with the pieces of pool memory behind a range of user memory, page by page, faulting pages in.
    ///
    /// # Errors
    /// `EFAULT` at the first page that the process may not access that way; [`Stop::Page`]; what `each` fails with.
    #[inline]
    pub fn user_runs(
        &self,
        address: u64,
        len: u64,
        access: Access,
        mut each: impl FnMut(PoolAddr, usize) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let space = space_of(self.cpu, self.process);
        let end = address.checked_add(len).ok_or(Errno::EFAULT)?;
        let mut at = address;
        while at < end {
            let run = resolve(self.cpu, space, at, access)?;
            let here = (PAGE_SIZE - at % PAGE_SIZE).min(end - at);
            self.cpu.mm.with_pinned(|| each(run, here as usize))?;
            at += here;
        }
        Ok(())
    }

    /// Waits until the pages of a range that the call is going to write have come: before it does what it cannot do twice. What is wrong with
    /// the range it finds out when it writes.
    ///
    /// # Errors
    /// [`Stop::Page`].
    #[inline(always)]
    pub fn await_pages(&self, address: u64, len: u64) -> Result<(), Stop> {
        if has_late_pages(self.cpu, self.process) { self.await_late_pages(address, len) } else { Ok(()) }
    }

    #[cold]
    fn await_late_pages(&self, address: u64, len: u64) -> Result<(), Stop> {
        match self.user_runs(address, len, Access::Write, |_, _| Ok(())) {
            Err(Stop::Page) => Err(Stop::Page),
            _ => Ok(()),
        }
    }

    /// Checks that a structure of `size` bytes, of which `known` are known, has nothing but zeros behind those: whoever knows
    /// more must not be told that it was done.
    ///
    /// # Errors
    /// `E2BIG` when it has, or is longer than a page; `EFAULT`; [`Stop::Page`].
    pub fn check_zeros(&self, address: u64, known: u64, size: u64) -> Result<(), Stop> {
        if size > PAGE_SIZE {
            return Err(Errno::E2BIG.into());
        }
        let mut all_zero = true;
        self.user_runs(address.wrapping_add(known), size.saturating_sub(known), Access::Read, |run, len| {
            for at in 0..len as u64 {
                let mut byte = [0];
                self.cpu.pool.read(run.add(at), &mut byte);
                all_zero &= byte == [0];
            }
            Ok(())
        })?;
        if all_zero { Ok(()) } else { Err(Errno::E2BIG.into()) }
    }

    /// Copies a zero-terminated string; returns its length without the zero.
    ///
    /// # Errors
    /// `EFAULT`; `ENAMETOOLONG` when it does not fit; [`Stop::Page`].
    pub fn read_string(&self, address: u64, into: &mut [u8]) -> Result<usize, Stop> {
        let mut len = 0;
        loop {
            let at = address.checked_add(len as u64).ok_or(Errno::EFAULT)?;
            let here = (STRING_PIECE - at % STRING_PIECE).min((into.len() - len) as u64) as usize;
            if here == 0 {
                return Err(Errno::ENAMETOOLONG.into());
            }
            let piece = &mut into[len..len + here];
            self.read_user(at, piece)?;
            if let Some(zero) = piece.iter().position(|&byte| byte == 0) {
                return Ok(len + zero);
            }
            len += here;
            due::spend_locked(self.cpu, STRING_COST);
        }
    }
}

/// Whether pages of a process's memory may come later.
#[inline(always)]
pub fn has_late_pages<M: Machine>(cpu: &Cpu<M>, process: &ProcessRecord) -> bool {
    space_of(cpu, process).has_late.load(Ordering::Relaxed) != 0
}

/// The code of the instruction that a thread has stopped at, as much of it as `code` has room for and there is memory behind; `word` is all
/// of it if it is not 0 ([`Trap::IllegalInstruction`](motet_hal::Trap)). `None`: there is no instruction.
pub fn instruction_at<'a, M: Machine>(
    cpu: &Cpu<M>,
    thread: &'static ThreadRecord,
    process: &'static ProcessRecord,
    word: u32,
    code: &'a mut [u8],
) -> Option<&'a [u8]> {
    if word != 0 {
        let known = code.first_chunk_mut()?;
        *known = word.to_le_bytes();
        return Some(known);
    }
    let call = Call { cpu, thread, process, args: [0; 6], isa: M::ISA };
    let at = registers::pc(&thread.frame);
    // There may be no page behind the instruction.
    let len = (2..=code.len()).rev().find(|&len| call.read_user(at, &mut code[..len]).is_ok())?;
    Some(&code[..len])
}

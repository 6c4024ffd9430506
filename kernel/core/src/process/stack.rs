//! The initial stack of a program, and the page of the kernel's own instructions.

use motet_abi::{Errno, elf as abi, sigframe, stubs, time::RLIMIT_STACK};
use motet_hal::{Access, Machine};
use motet_layout::{Isa, PAGE_SIZE, ProcessRecord, SpaceRecord, VMA_EXECUTE, VMA_READ, VMA_STACK, VMA_WRITE};

use super::{
    load::Loaded,
    strings::{StringSource, ToldName, arguments_max},
};
use crate::{
    ability,
    call::{Call, Stop, cost},
    due,
    mm::{self, Policy},
    permission::Identity,
    random,
    tree::limit_of,
};

/// Words that are written to the stack at once.
const WORDS_AT_ONCE: usize = 20;
/// The most that is mapped of the stack at the start.
const STACK_LEN: u64 = 128 << 10;
/// What a stack is, wherever it is. It grows downwards.
const STACK: mm::VmaSpec = mm::VmaSpec {
    start: 0,
    end: 0,
    flags: VMA_READ | VMA_WRITE | VMA_STACK,
    inode: None,
    offset: 0,
    file_len: 0,
    policy: Policy::DEFAULT,
    view: mm::View { store: [0; 4], pin: None, local_calls: 0 },
};

/// The stack's VMA at the start, of a program that a process executes; it ends at `top`.
pub fn spec(process: &ProcessRecord, top: u64) -> mm::VmaSpec {
    let limit = limit_of(process, RLIMIT_STACK) & !(PAGE_SIZE - 1);
    mm::VmaSpec { start: top - STACK_LEN.min(limit.max(PAGE_SIZE)), end: top, ..STACK }
}

/// A program loaded into a new space.
pub struct Image {
    pub space: &'static SpaceRecord,
    pub entry: u64,
    pub stack: u64,
    pub arguments: [u64; 2],
    pub environment: [u64; 2],
    pub identity: Identity,
}

/// Writes the initial stack: from the top down strings, random bytes, auxiliary vector, environment, arguments, count.
pub struct StackBuilder<'a, 'b, M: Machine> {
    pub call: &'a Call<'b, M>,
    pub space: &'static SpaceRecord,
    pub isa: Isa,
    /// What the program will act by.
    pub identity: Identity,
    /// By which name the program was executed.
    pub name: ToldName<'a>,
    /// Where the stack ends.
    pub top: u64,
}

impl<M: Machine> StackBuilder<'_, '_, M> {
    /// Writes it all; the entry point of the result is 0.
    ///
    /// # Errors
    /// `E2BIG`, `EFAULT`, `ENOMEM`; [`Stop::Page`].
    pub fn build(
        &self,
        strings: &dyn StringSource<M>,
        program: &Loaded,
        interpreter: Option<&Loaded>,
    ) -> Result<Image, Stop> {
        let (arguments, environment) = strings.counts();
        let count = arguments + environment;
        let most = arguments_max(self.call.process);
        let mut strings_len = 0;
        for index in 0..count {
            strings.read(self.call, index, &mut |piece| {
                strings_len += piece.len() as u64;
                if strings_len > most { Err(Errno::E2BIG) } else { Ok(()) }
            })?;
            strings_len += 1;
            if strings_len + 8 * count > most {
                return Err(Errno::E2BIG.into());
            }
        }
        let name_at = self.top - 16 - self.name.len();
        self.name
            .parts()
            .into_iter()
            .try_fold(name_at, |at, part| self.write(at, part).map(|()| at + part.len() as u64))?;
        let strings_at = name_at - strings_len;
        let extra_at = (strings_at - 64) & !15;
        let auxiliary = self.auxiliary(extra_at, name_at, program, interpreter)?;
        let vector_len = 8 * (1 + count + 2) + 16 * auxiliary.len() as u64;
        let stack = (extra_at - vector_len) & !15;
        self.write_words(stack, &[arguments])?;
        let mut pointer_at = stack + 8;
        let mut at = strings_at;
        let mut environment_at = strings_at;
        for index in 0..count {
            if index == arguments {
                self.write_words(pointer_at, &[0])?;
                pointer_at += 8;
                environment_at = at;
            }
            self.write_words(pointer_at, &[at])?;
            pointer_at += 8;
            at = self.write_string(strings, index, at, strings_at + strings_len)?;
        }
        if environment == 0 {
            self.write_words(pointer_at, &[0])?;
            pointer_at += 8;
            environment_at = at;
        }
        self.write_words(pointer_at, &[0])?;
        pointer_at += 8;
        self.write_words(pointer_at, auxiliary.as_flattened())?;
        Ok(Image {
            space: self.space,
            entry: 0,
            stack,
            arguments: [strings_at, environment_at],
            environment: [environment_at, at],
            identity: self.identity,
        })
    }

    /// Maps the page of [`stubs`], for ISAs that need it for the ends of signal handlers, and for programs of several.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn map_stubs(&self, all_isas: bool, policy: Policy) -> Result<(), Errno> {
        if !all_isas && sigframe::trampoline(self.isa).is_none() {
            return Ok(());
        }
        let (start, end) = (stubs::PAGE, stubs::PAGE + PAGE_SIZE);
        mm::insert(
            self.call.cpu,
            self.space,
            &mm::VmaSpec { start, end, flags: VMA_READ | VMA_WRITE, policy, ..STACK },
        )?;
        for isa in Isa::ALL.into_iter().filter(|&isa| all_isas || isa == self.isa) {
            if let Some(code) = sigframe::return_code(isa) {
                self.write(stubs::signal_return(isa), code)?;
            }
            let gate = M::gate(isa);
            self.write(gate.start(), gate.code)?;
            if let Some(handler) = M::migration_handler(isa).filter(|_| all_isas && self.call.cpu.crossing.migrates()) {
                self.write(handler.start(), handler.code)?;
            }
        }
        mm::protect(self.call.cpu, self.space, start, end, VMA_READ | VMA_EXECUTE)
    }

    /// The auxiliary vector; writes the platform name and random bytes it points to at `extra_at`.
    fn auxiliary(
        &self,
        extra_at: u64,
        path_at: u64,
        program: &Loaded,
        interpreter: Option<&Loaded>,
    ) -> Result<[[u64; 2]; 20], Errno> {
        let Identity { users, groups, .. } = self.identity;
        let mut random = [0; 16];
        random::fill(self.call.cpu, &mut random);
        self.write(extra_at, &random)?;
        let platform_at = match abi::platform(self.isa) {
            Some(platform) => {
                self.write(extra_at + 16, platform.as_bytes())?;
                extra_at + 16
            }
            None => 0,
        };
        let [hwcap, hwcap2] = ability::hwcap(self.call.cpu, self.call.thread, self.isa);
        let longest = ability::longest_vectors(self.call.cpu, self.isa);
        Ok([
            [abi::AT_PHDR, program.headers_at],
            [abi::AT_PHENT, 56],
            [abi::AT_PHNUM, program.header_count],
            [abi::AT_PAGESZ, PAGE_SIZE],
            [abi::AT_BASE, interpreter.map_or(0, |interpreter| interpreter.bias)],
            [abi::AT_FLAGS, 0],
            [abi::AT_ENTRY, program.entry],
            [abi::AT_UID, u64::from(users.real.0)],
            [abi::AT_EUID, u64::from(users.effective.0)],
            [abi::AT_GID, u64::from(groups.real.0)],
            [abi::AT_EGID, u64::from(groups.effective.0)],
            [abi::AT_SECURE, u64::from(self.identity.is_secure())],
            [abi::AT_CLKTCK, crate::time::TICKS_PER_SECOND],
            [abi::AT_HWCAP, hwcap],
            [abi::AT_HWCAP2, hwcap2],
            [abi::AT_RANDOM, extra_at],
            [abi::AT_EXECFN, path_at],
            [abi::AT_MINSIGSTKSZ, sigframe::min_stack_size(self.isa, longest)],
            [abi::AT_PLATFORM, platform_at],
            [abi::AT_NULL, 0],
        ])
    }

    fn write_string(&self, strings: &dyn StringSource<M>, index: u64, mut at: u64, end: u64) -> Result<u64, Stop> {
        strings.read(self.call, index, &mut |piece| {
            // Another thread may have made the string longer since it was measured.
            if at + piece.len() as u64 >= end {
                return Err(Errno::E2BIG);
            }
            self.write(at, piece)?;
            at += piece.len() as u64;
            Ok(())
        })?;
        self.write(at, &[0])?;
        Ok(at + 1)
    }

    fn write_words(&self, at: u64, words: &[u64]) -> Result<(), Errno> {
        let mut bytes = [0; 8 * WORDS_AT_ONCE];
        for (index, words) in words.chunks(WORDS_AT_ONCE).enumerate() {
            for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            self.write(at + 8 * (index * WORDS_AT_ONCE) as u64, &bytes[..8 * words.len()])?;
        }
        Ok(())
    }

    /// Writes to the new space, which is not active and known to nobody else. `E2BIG`: the stack cannot grow so far.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let cpu = self.call.cpu;
        let mut done = 0;
        while done < bytes.len() {
            let address = at + done as u64;
            let here = ((PAGE_SIZE - address % PAGE_SIZE) as usize).min(bytes.len() - done);
            let full = |errno| if errno == Errno::EFAULT { Errno::E2BIG } else { errno };
            let run =
                mm::resolve(cpu, self.space, address, Access::Write).map_err(|stop| full(stop.unless_waiting()))?;
            cpu.pool.write(run, &bytes[done..done + here]);
            due::spend_locked(cpu, cost::PAGE);
            done += here;
        }
        Ok(())
    }
}

//! Reports of the calls that a thread is in: `/proc/<pid>/crossings`, and messages when a call goes wrong.

use core::fmt::{self, Write};

use motet_layout::sync::Ordering;

use motet_abi::{registers, stubs};
use motet_hal::Machine;
use motet_layout::{CoreId, CrossingRecord, FatProgram, InodeRecord, Isa, ProcessRecord, SpaceRecord, ThreadRecord};
use motet_protocol::{Context, fs};

use super::{
    chain,
    migrated::Migrated,
    symbols::{self, NAME_MAX},
};
use crate::{console, cpu::Cpu, mm};

/// Calls of a chain that are shown.
const CHAIN_MAX: usize = 32;

/// Prints where a thread is, and the calls across instruction sets that it is in.
pub fn backtrace<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, process: &'static ProcessRecord) {
    let away = Migrated::of(cpu, thread, process);
    let frame = away.as_ref().map_or(&thread.frame, |away| away.frame);
    let program = cpu.object::<FatProgram>(mm::space_of(cpu, process).fat.get());
    let inode = program.and_then(|program| cpu.object::<InodeRecord>(program.inode.get()));
    let core = CoreId::from_raw(thread.core.load(Ordering::Relaxed));
    let address = away.as_ref().map_or(registers::pc(frame), |away| away.at);
    let at = CodeAddress { cpu, inode, address, isa: Some(registers::frame_isa(frame)), core, is_end: false };
    console::kernel_message(cpu, format_args!("  at {at}"));
    if let Some(Migrated { called: Some((function, address)), .. }) = away {
        let callee = CodeAddress { cpu, inode, address: function, isa: None, core: None, is_end: false };
        let isa = Some(registers::frame_isa(&thread.frame));
        let caller = CodeAddress { cpu, inode, address, isa, core: None, is_end: false };
        console::kernel_message(cpu, format_args!("  {callee} was called by {caller}"));
    }
    let mut calls = chain(cpu, thread).take(CHAIN_MAX).map(Shown::of).peekable();
    while let Some(call) = calls.next() {
        let (callee, caller) = call.places(cpu, inode, calls.peek());
        console::kernel_message(cpu, format_args!("  {callee} was called by {caller}"));
    }
}

/// What is shown of a call.
#[derive(Clone, Copy, Default)]
struct Shown {
    function: u64,
    return_pc: u64,
    caller_isa: u32,
    caller_core: u32,
}

impl Shown {
    fn of(record: &CrossingRecord) -> Self {
        Self {
            function: record.function.get(),
            return_pc: record.return_pc.get(),
            caller_isa: record.caller_isa.get(),
            caller_core: record.caller_core.get(),
        }
    }

    /// The function that is called, and where from. A function that jumped to it as its last act will not be returned to, so
    /// the return address is the gate; it is the one that `outer` has called.
    fn places<'a, M: Machine>(
        &self,
        cpu: &'a Cpu<M>,
        inode: Option<&'static InodeRecord>,
        outer: Option<&Self>,
    ) -> (CodeAddress<'a, M>, CodeAddress<'a, M>) {
        let (isa, core) = (Isa::from_raw(self.caller_isa), CoreId::from_raw(self.caller_core));
        let ended = outer.filter(|_| isa.is_some_and(|isa| self.return_pc == stubs::gate(isa)));
        let address = ended.map_or(self.return_pc, |outer| outer.function);
        let callee = CodeAddress { cpu, inode, address: self.function, isa: None, core: None, is_end: false };
        (callee, CodeAddress { cpu, inode, address, isa, core, is_end: ended.is_some() })
    }
}

/// An address in a program, for people.
struct CodeAddress<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    inode: Option<&'static InodeRecord>,
    address: u64,
    isa: Option<Isa>,
    core: Option<CoreId>,
    /// It is the end of the function.
    is_end: bool,
}

impl<M: Machine> fmt::Display for CodeAddress<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_end {
            f.write_str("the end of ")?;
        }
        let mut buffer = [0; NAME_MAX];
        let symbol = self.inode.and_then(|inode| symbols::find(self.cpu, inode, self.address, &mut buffer));
        match symbol {
            Some((name, 0)) => f.write_str(name)?,
            Some((name, offset)) => write!(f, "{name}+{offset:#x}")?,
            None => write!(f, "{:#x}", self.address)?,
        }
        if let Some(isa) = self.isa {
            write!(f, " ({}", isa.name())?;
            if let Some(core) = self.core {
                write!(f, ", island {}, core {}", core.island().index(), core.index() % 16)?;
            }
            f.write_char(')')?;
        }
        Ok(())
    }
}

/// What `/proc/<pid>/crossings` shows, copied while the process cannot go away.
pub struct Snapshot<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    /// `None`: the program has one ISA.
    file: Option<fs::Held<'a, Cpu<M>>>,
    calls: [u64; 64],
    local_pages: u64,
    local_calls: u64,
    chain: [Shown; CHAIN_MAX],
    len: usize,
}

impl<'a, M: Machine> Snapshot<'a, M> {
    /// Copies a thread's. The tree lock is held.
    pub fn of(cpu: &'a Cpu<M>, thread: &'static ThreadRecord, process: &ProcessRecord) -> Self {
        let mut snapshot = Self {
            cpu,
            file: None,
            calls: [0; 64],
            local_pages: 0,
            local_calls: 0,
            chain: [Shown::default(); CHAIN_MAX],
            len: 0,
        };
        let space = cpu.object::<SpaceRecord>(process.space.load(Ordering::Relaxed));
        let Some(program) = space.and_then(|space| cpu.object::<FatProgram>(space.fat.get())) else { return snapshot };
        snapshot.file = cpu.object::<InodeRecord>(program.inode.get()).map(|inode| fs::Held::new(cpu, inode));
        snapshot.calls = core::array::from_fn(|pair| program.calls[pair].load(Ordering::Relaxed));
        snapshot.local_pages = program.local_pages.load(Ordering::Relaxed);
        snapshot.local_calls = program.local_calls.load(Ordering::Relaxed);
        for record in chain(cpu, thread).take(CHAIN_MAX) {
            snapshot.chain[snapshot.len] = Shown::of(record);
            snapshot.len += 1;
        }
        snapshot
    }

    /// Writes the file's text.
    ///
    /// # Errors
    /// What `out` fails with.
    pub fn write(&self, out: &mut dyn Write) -> fmt::Result {
        let Some(file) = &self.file else { return out.write_str("the program has text for one instruction set\n") };
        let (cpu, inode) = (self.cpu, Some(file.inode()));
        out.write_str("from to calls\n")?;
        for (pair, calls) in self.calls.iter().enumerate().filter(|&(_, &calls)| calls != 0) {
            writeln!(out, "{} {} {calls}", pair / 8, pair % 8)?;
        }
        writeln!(out, "pages_run_locally {}", self.local_pages)?;
        writeln!(out, "calls_run_locally {}", self.local_calls)?;
        let chain = &self.chain[..self.len];
        for (index, call) in chain.iter().enumerate() {
            let (callee, caller) = call.places(cpu, inode, chain.get(index + 1));
            writeln!(out, "in {callee} called by {caller}")?;
        }
        Ok(())
    }
}

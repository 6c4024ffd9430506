//! Threads whose functions run on other cores by Flick's protocol (`crossing::migration`): on which core each one is.

use motet_abi::{convention, own, registers};
use motet_hal::Machine;
use motet_layout::{
    Cell64, CoreId, DESCRIPTOR_WORDS, Frame, MigrationContext, PAGE_SIZE, PoolAddr, ProcessRecord, ThreadRecord,
    UserFrame, sync::Ordering,
};
use motet_protocol::{Context, memory::release_frame, message::ADDRESS_BITS};

use crate::{cpu::Cpu, mm};

/// The core and the context that a word of [`ThreadRecord::contexts`] names.
pub fn context_in(word: u64) -> Option<(CoreId, u64)> {
    let core = CoreId::from_raw((word & 0xff) as u32)?;
    (word >= PAGE_SIZE).then_some((core, word & !(PAGE_SIZE - 1)))
}

/// Where a thread is that is not at home, for people.
pub struct Migrated {
    /// Its registers there, as they were when it last needed the kernel.
    pub frame: &'static UserFrame,
    /// The instruction, or the function whose handler has not called it yet.
    pub at: u64,
    /// The function that home has called last, and where from; `None`: home has returned since.
    pub called: Option<(u64, u64)>,
}

impl Migrated {
    /// `None`: the thread is at home.
    pub fn of<M: Machine>(
        cpu: &Cpu<M>,
        thread: &'static ThreadRecord,
        process: &'static ProcessRecord,
    ) -> Option<Self> {
        let core = thread.core.load(Ordering::Relaxed);
        let mut contexts = thread.contexts.iter().filter_map(|slot| context_in(slot.get()));
        let (_, context) = contexts.find(|(there, _)| u32::from(there.0) == core)?;
        let frame = &cpu.pool.get::<MigrationContext>(PoolAddr(context))?.frame;
        let (pc, home) = (registers::pc(frame), registers::frame_isa(&thread.frame));
        let is_handler = M::migration_handler(registers::frame_isa(frame)).is_some_and(|handler| handler.contains(pc));
        let function = thread.migrates_to.get();
        let read = |address| mm::read_word(cpu, mm::space_of(cpu, process), address).ok();
        let is_call = registers::syscall_number_of(home, &thread.frame) == own::MIGRATE;
        let from = if is_call { convention::return_point(home, &thread.frame, read) } else { None };
        Some(Self { frame, at: if is_handler { function } else { pc }, called: from.map(|(pc, _)| (function, pc)) })
    }
}

/// Frees the contexts of a thread that ends, or executes another program.
pub fn forget<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord) {
    for slot in &thread.contexts {
        forget_context(cpu, thread, slot);
    }
}

/// Frees a context that is not to be resumed.
pub fn forget_context<M: Machine>(cpu: &Cpu<M>, thread: &'static ThreadRecord, slot: &Cell64) {
    let address = PoolAddr(slot.get() & !(PAGE_SIZE - 1));
    slot.set(0);
    let own = cpu.pool.get::<MigrationContext>(address).filter(|context| context.thread.get() == cpu.raw(thread));
    if let Some(context) = own {
        context.thread.set(0);
        release_frame(cpu, Frame((address.0 / PAGE_SIZE) as u32));
    }
}

/// The thread whose descriptor these words are (`crossing::migration`); `None`: there is none.
pub fn thread_in(words: &[Cell64; DESCRIPTOR_WORDS]) -> Option<PoolAddr> {
    let thread = words[0].get() & (1 << ADDRESS_BITS) - 1;
    (thread != 0).then_some(PoolAddr(thread))
}

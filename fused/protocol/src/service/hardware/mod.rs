//! Devices that compute, as threads: their steps, and when each is due.
//!
//! A device has a window of registers, as any thread has. It stores its requests there, and [`Device::serve`] serves it like other threads. So for a
//! thread that joins it, or waits for its mutex, a device is a thread like others.
//!
//! The executor of the core's operations also makes the devices' steps, one after the other ([`Device::run_hardware`]). It is a thread of the host, or
//! on timed machines the simulator, when a step is due ([`next`]).
//!
//! ```text
//!   fresh -> starting -> (fetches its argument) -> locking -> working -> signalling -> unlocking -> ... -> done
//!                                                    ^                                    | next block
//!                                                    +------------------------------------+
//! ```
//!
//! Protocol page: `docs/protocols/hardware-threads.md`.

mod functions;
mod memory;

use motet_layout::{
    HARDWARE_BUSY, HARDWARE_DONE, HARDWARE_FREE, HARDWARE_TAKEN, HardwareTable, Pool, PoolAddr, SERVICE_USED,
    ServiceCore, ServiceHardware, handshake::then_look, sync::Ordering,
};

use self::memory::Memory;
use super::{Answer, Code, Device, Operation, Request, ThreadIndex, book};

/// Why a device ends its thread. A thread that joins it gets a negated error number, between 0xffff_f000 and 0xffff_ffff.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// The device may not use the memory.
    Fault,
    /// The device's argument is not valid.
    Invalid,
    /// The service core has refused a request of the device.
    Refused(u16),
}

impl Ends {
    const EFAULT: u32 = 14;

    /// The value that the thread ends with.
    pub fn value(self) -> u32 {
        let errno = match self {
            Self::Fault => Self::EFAULT,
            // EPERM would be `KILLED`.
            Self::Invalid | Self::Refused(0 | 1) => Code::Invalid as u32,
            Self::Refused(code) => u32::from(code),
        };
        0u32.wrapping_sub(errno)
    }
}

/// A device's next step, encoded in [`ServiceHardware::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
enum Step {
    /// Asks to start.
    Fresh = 0,
    /// Waits for the answer to its start; then fetches its argument.
    Starting = 1,
    /// Asks for its mutex.
    Begins = 2,
    /// Waits for its mutex.
    Locking = 3,
    /// Computes.
    Working = 4,
    /// Waits for the answer to its signal.
    Signalling = 5,
    /// Waits for the answer to its unlock.
    Unlocking = 6,
}

impl Step {
    fn of(device: &ServiceHardware) -> Option<Self> {
        let steps = [
            Self::Fresh,
            Self::Starting,
            Self::Begins,
            Self::Locking,
            Self::Working,
            Self::Signalling,
            Self::Unlocking,
        ];
        steps.get(device.step.get() as usize).copied()
    }

    fn awaits(self) -> bool {
        matches!(self, Self::Starting | Self::Locking | Self::Signalling | Self::Unlocking)
    }
}

/// Claims a free device with the function `does`. The caller then makes it a thread ([`begin`]).
///
/// # Errors
/// `true`: all such devices are busy. `false`: the machine has none.
pub fn claim(core: &ServiceCore, does: u32) -> Result<&ServiceHardware, bool> {
    let mut of_kind = core.hardware.iter().filter(|device| does != 0 && device.does.get() == does).peekable();
    let exists = of_kind.peek().is_some();
    let take = |device: &&ServiceHardware| {
        device.state.compare_exchange(HARDWARE_FREE, HARDWARE_TAKEN, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    of_kind.find(take).ok_or(exists)
}

/// Frees a claimed device.
pub fn give_back(device: &ServiceHardware) {
    device.table.set(0);
    device.state.store(HARDWARE_FREE, Ordering::Release);
}

/// Makes a claimed device, whose words the caller has written, a thread. The caller must ring the service core afterwards.
pub fn begin(core: &ServiceCore, device: &ServiceHardware) {
    device.step.set(Step::Fresh as u32);
    device.sequence.set(0);
    device.due_ps.set(0);
    device.stop.store(0, Ordering::Relaxed);
    core.hardware_busy.fetch_add(1, Ordering::SeqCst);
    device.state.store(HARDWARE_BUSY, Ordering::Release);
}

/// Ends a thread that is a device. `false`: no device is that thread. The caller must ring the service core afterwards.
pub fn stop(core: &ServiceCore, owner: u32, thread: ThreadIndex) -> bool {
    let is_it = |device: &&ServiceHardware| {
        device.state.load(Ordering::SeqCst) == HARDWARE_BUSY
            && device.owner.get() == owner
            && device.thread.get() == thread.raw()
    };
    let found = core.hardware.iter().find(is_it);
    found.inspect(|device| device.stop.store(1, Ordering::Release)).is_some()
}

/// Frees the devices whose threads have ended. `free` must release the memory of each.
pub fn take_done(core: &ServiceCore, mut free: impl FnMut(&ServiceHardware)) {
    if core.hardware_done.load(Ordering::SeqCst) == 0 {
        return;
    }
    core.hardware_done.store(0, Ordering::Release);
    then_look();
    for device in &core.hardware {
        let take = || device.state.compare_exchange(HARDWARE_DONE, HARDWARE_TAKEN, Ordering::SeqCst, Ordering::Relaxed);
        if device.state.load(Ordering::SeqCst) == HARDWARE_DONE && take().is_ok() {
            free(device);
            give_back(device);
        }
    }
}

/// The tables (pool addresses) of devices that are threads.
pub fn tables(core: &ServiceCore) -> impl Iterator<Item = u64> {
    let busy = core.hardware.iter().filter(|device| device.state.load(Ordering::SeqCst) == HARDWARE_BUSY);
    busy.map(|device| device.table.get())
}

/// Whether any device is a thread.
#[inline(always)]
pub fn is_any_busy(core: &ServiceCore) -> bool {
    core.hardware_busy.load(Ordering::SeqCst) != 0
}

/// The device whose step is due next, and its time, if that is `until_ps` or earlier. `now_ps` is the time of events that have none because a kernel
/// has just reported them.
pub fn next(core: &ServiceCore, now_ps: u64, until_ps: u64) -> Option<(usize, u64)> {
    if !is_any_busy(core) {
        return None;
    }
    let due =
        core.hardware.iter().enumerate().filter_map(|(index, device)| Some((due_ps(core, device, now_ps)?, index)));
    due.min().filter(|&(at_ps, _)| at_ps <= until_ps).map(|(at_ps, index)| (index, at_ps))
}

/// When a device's next step is due. `None`: not before it gets an answer.
fn due_ps(core: &ServiceCore, device: &ServiceHardware, now_ps: u64) -> Option<u64> {
    if device.state.load(Ordering::SeqCst) != HARDWARE_BUSY {
        return None;
    }
    if is_to_stop(core, device) {
        return Some(now_ps);
    }
    match Step::of(device) {
        Some(Step::Fresh) if device.due_ps.get() == 0 => {
            device.due_ps.set(now_ps.saturating_add(device.start_ps.get()).max(1));
            Some(device.due_ps.get())
        }
        Some(step) if step.awaits() => {
            let thread = ThreadIndex::from_raw(device.thread.get())?;
            answer_of(core, device, thread)?;
            Some(super::answered_ps(core, thread).saturating_add(device.memory_ps.get()))
        }
        _ => Some(device.due_ps.get()),
    }
}

/// Whether a kernel has told a device to stop, or its process has gone.
fn is_to_stop(core: &ServiceCore, device: &ServiceHardware) -> bool {
    device.stop.load(Ordering::SeqCst) != 0 || its_thread(core, device).is_none()
}

/// The window of a device. `None`: its process no longer has that window.
fn its_thread(core: &ServiceCore, device: &ServiceHardware) -> Option<ThreadIndex> {
    let thread = ThreadIndex::from_raw(device.thread.get())?;
    let client = &core.control[thread.client()];
    let is_there = client.state.load(Ordering::SeqCst) == SERVICE_USED
        && client.owner.get() == device.owner.get()
        && client.windows.load(Ordering::SeqCst) >> thread.window() & 1 != 0;
    is_there.then_some(thread)
}

/// The answer to a device's last request, if it has come.
fn answer_of(core: &ServiceCore, device: &ServiceHardware, thread: ThreadIndex) -> Option<Code> {
    let window = &core.pages[thread.client()].windows[thread.window()];
    let answer = Answer(window.answer.load(Ordering::SeqCst));
    let is_it = answer.is_done() && u32::from(answer.sequence()) == device.sequence.get();
    is_it.then(|| Code::from_raw(answer.code()).unwrap_or(Code::Invalid))
}

impl Device<'_> {
    /// Makes a device's next step, with at most `pieces` pieces of its computation. `false`: it is no thread, or it waits for an answer.
    pub fn run_hardware(&mut self, pool: Pool, index: usize, pieces: u64) -> bool {
        let Some(device) = self.core.hardware.get(index) else { return false };
        if device.state.load(Ordering::SeqCst) != HARDWARE_BUSY {
            return false;
        }
        let (step, thread) = (Step::of(device), its_thread(self.core, device));
        let (Some(step), Some(thread), 0) = (step, thread, device.stop.load(Ordering::SeqCst)) else {
            self.is_done(device);
            if let Some(thread) = thread {
                self.died(thread);
            }
            return true;
        };
        let mut answer = Code::Ok;
        if step.awaits() {
            let Some(code) = answer_of(self.core, device, thread) else { return false };
            answer = code;
        }
        if let Err(ends) = self.make_step(pool, device, thread, step, answer, pieces) {
            self.end_hardware(device, thread, ends.value());
        }
        true
    }

    fn make_step(
        &mut self,
        pool: Pool,
        device: &ServiceHardware,
        thread: ThreadIndex,
        step: Step,
        answer: Code,
        pieces: u64,
    ) -> Result<(), Ends> {
        if answer != Code::Ok {
            return Err(Ends::Refused(answer as u16));
        }
        let table = pool.get::<HardwareTable>(PoolAddr(device.table.get())).ok_or(Ends::Fault)?;
        let memory = Memory::new(pool, table);
        match step {
            Step::Fresh => self.ask_for(device, thread, Operation::Start, 0, Step::Starting),
            Step::Starting => {
                functions::fetch(device, memory)?;
                self.goes_on(device, Step::Begins, device.memory_ps.get().saturating_mul(ARGUMENT_WORDS));
            }
            Step::Begins => match device.mutex.get().checked_sub(1) {
                Some(mutex) => self.ask_for(device, thread, Operation::Lock, mutex as u16, Step::Locking),
                None => self.begin_work(device),
            },
            Step::Locking => self.begin_work(device),
            Step::Working => return self.work(device, memory, thread, pieces),
            Step::Signalling => self.unlock_after(device, thread),
            Step::Unlocking => self.end_block(device, thread),
        }
        Ok(())
    }

    fn begin_work(&self, device: &ServiceHardware) {
        device.progress.set(0);
        self.goes_on(device, Step::Working, functions::duration_ps(device));
    }

    /// Computes at most `pieces` pieces of a block. At the end of the block, counts it and wakes the threads that wait.
    fn work(&mut self, device: &ServiceHardware, memory: Memory, thread: ThreadIndex, pieces: u64) -> Result<(), Ends> {
        let (first, length) = (device.progress.get(), functions::length(device));
        let end = length.min(first.saturating_add(pieces));
        for number in first..end {
            functions::step(device, memory, number)?;
        }
        device.progress.set(end);
        if end < length {
            return Ok(());
        }
        let counter = device.counter.get();
        if counter != 0 {
            let count = u64::from_le_bytes(memory.load(counter)?);
            memory.store(counter, count.wrapping_add(1).to_le_bytes())?;
        }
        match device.condition.get().checked_sub(1) {
            Some(condition) => self.ask_for(device, thread, Operation::Broadcast, condition as u16, Step::Signalling),
            None => self.unlock_after(device, thread),
        }
        Ok(())
    }

    fn unlock_after(&mut self, device: &ServiceHardware, thread: ThreadIndex) {
        match device.mutex.get().checked_sub(1) {
            Some(mutex) => self.ask_for(device, thread, Operation::Unlock, mutex as u16, Step::Unlocking),
            None => self.end_block(device, thread),
        }
    }

    fn end_block(&mut self, device: &ServiceHardware, thread: ThreadIndex) {
        let done = device.block.get().saturating_add(1);
        device.block.set(done);
        if done < device.blocks.get() {
            self.goes_on(device, Step::Begins, 0);
        } else {
            self.end_hardware(device, thread, done);
        }
    }

    /// Sets a device's next step, due after a time.
    fn goes_on(&self, device: &ServiceHardware, step: Step, after_ps: u64) {
        device.step.set(step as u32);
        device.due_ps.set(self.now_ps.saturating_add(after_ps));
    }

    fn ask_for(
        &mut self,
        device: &ServiceHardware,
        thread: ThreadIndex,
        operation: Operation,
        object: u16,
        then: Step,
    ) {
        let sequence = 1 + device.sequence.get() % 2;
        device.sequence.set(sequence);
        device.step.set(then as u32);
        self.ask(thread, Request::new(sequence as u8, operation, object, 0), device.memory_ps.get());
    }

    /// Stores a request, and executes it.
    fn ask(&mut self, thread: ThreadIndex, request: Request, way_ps: u64) {
        self.window(thread).request.store(request.0, Ordering::Release);
        if self.now_ps != 0 {
            self.now_ps = book(self.core, self.now_ps.saturating_add(way_ps));
        }
        self.serve(thread);
    }

    /// Ends a device's thread with a value. From here on a kernel may claim the device for another thread.
    fn end_hardware(&mut self, device: &ServiceHardware, thread: ThreadIndex, value: u32) {
        let (sequence, way_ps) = (1 + device.sequence.get() % 2, device.memory_ps.get());
        self.is_done(device);
        self.ask(thread, Request::new(sequence as u8, Operation::Exit, 0, value), way_ps);
        self.died(thread);
    }

    /// Reports to a kernel that a device uses no memory any more.
    fn is_done(&mut self, device: &ServiceHardware) {
        device.threads.set(device.threads.get().wrapping_add(1));
        self.ring(device.core.get());
        self.core.hardware_busy.fetch_sub(1, Ordering::SeqCst);
        device.state.store(HARDWARE_DONE, Ordering::Release);
        self.core.hardware_done.store(1, Ordering::Release);
        // The kernel that is interrupted looks at this word first.
        self.core.answered.store(1, Ordering::Release);
    }
}

/// Words of an argument.
const ARGUMENT_WORDS: u64 = 11;

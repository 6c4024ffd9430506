//! A core of a virtual machine runs: the system call `RUN` of its thread.
//!
//! The call returns when something needs the monitor. It pauses whenever the real core is interrupted, and waits when the guest waits. Each time
//! it is dispatched again, it finds all that it needs in the pool.

use motet_layout::sync::Ordering;

use motet_abi::{
    Errno,
    vm::{Exit, reason},
};
use motet_hal::{Access, GuestAccess, GuestException, GuestTrap, Interrupts, Machine, SystemRegister, Trap, Widen};
use motet_layout::{
    Cell32, FileRecord, Isa, PoolAddr, ThreadRecord, VCPU_START, VCPU_STARTED, VcpuRecord, VmRecord, marks,
};
use motet_protocol::{
    Context, count,
    fpga::InterfaceId,
    hand::{self, Holder},
    schedule,
    trace::Kind,
    wait,
};

use super::{
    accelerators, memory, psci, reset,
    running::{AWAITS_CALL, AWAITS_LOAD, AWAITS_STORE, Counted, Next, Running, low},
    sbi,
    tables::{self, Found},
    vcpu,
};
use crate::{
    ability,
    call::{Call, Stop, SysResult},
    cpu::Cpu,
    handover, trace,
};

/// `ioctl(RUN)`: the calling thread runs a core of the machine.
///
/// # Errors
/// `EINVAL`: there is no such core; `EBUSY`: another thread is in this call for the core; `ENODEV`: this core runs no guests; `EINTR`: a signal has a handler; `ENOMEM`; `EFAULT`.
pub fn run<M: Machine>(call: &Call<M>, vm: &'static VmRecord, exit_address: u64) -> SysResult {
    let index = call.read_user_u64(exit_address)?;
    let vcpu = vcpu(call.cpu, vm, index).ok_or(Errno::EINVAL)?;
    // What the guest has done when it exits is not done again.
    call.await_pages(exit_address, 8 * motet_abi::vm::EXIT_WORDS as u64)?;
    let own = call.thread.tid.get();
    if let Err(other) = vcpu.caller.compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
        && other != own
    {
        return Err(Errno::EBUSY.into());
    }
    let result = dispatch(call, vm, vcpu, exit_address, None);
    if let Err(Stop::Again | Stop::Block) = result {
        // The next dispatch knows it; and until the call ends the machine stays, whoever closes its file.
        let (cpu, kept) = (call.cpu, &call.thread.guest_file);
        let file = cpu.pool.at::<FileRecord>(PoolAddr(vm.file.get()));
        hand::take(cpu, file);
        hand::give(cpu, file, Holder::word(cpu, kept), || kept.set(cpu.raw(file)));
        // From now on they are taken to be stored, and it may have waited to be started, before its guest got the core's.
        handover::save_ext(cpu, call.thread);
        call.thread.guest.set(cpu.raw(vcpu));
    } else if call.thread.guest_file.get() == 0 {
        vcpu.caller.store(0, Ordering::Release);
    }
    result
}

/// Whether a thread can go on with its guest at once, as nothing else is to be done for it.
#[inline(always)]
pub fn may_go_on(thread: &ThreadRecord) -> bool {
    thread.guest.get() != 0
        && thread.attention.load(Ordering::Relaxed) == 0
        && thread.stage.get().is_user_or_call()
        && thread.needs.get() == 0
        && thread.moves.uses_vectors.get() == 0
}

/// As [`run`], for a thread that is in the middle of that call ([`ThreadRecord::guest`]): the shortest way back to its guest. `first`: what that has stopped at,
/// and what is served first. Unless the call waits or pauses, the caller drops what the thread keeps ([`let_go`]).
///
/// # Errors
/// As [`run`].
pub fn go_on<M: Machine>(call: &Call<M>, first: Option<Trap>) -> SysResult {
    let vcpu = call.cpu.pool.at::<VcpuRecord>(PoolAddr(call.thread.guest.get()));
    let vm = call.cpu.pool.at::<VmRecord>(PoolAddr(vcpu.vm.get()));
    let [_, _, exit_address, ..] = call.args;
    dispatch(call, vm, vcpu, exit_address, first)
}

/// Takes the machine's file that a thread has kept during its call, if it has, into this core's hand: the call has ended, in whatever way.
pub fn let_go<M: Machine>(cpu: &Cpu<M>, thread: &ThreadRecord) -> Option<&'static FileRecord> {
    let kept = &thread.guest_file;
    let file = cpu.object::<FileRecord>(kept.get())?;
    if let Some(vcpu) = cpu.object::<VcpuRecord>(thread.guest.get()) {
        vcpu.caller.store(0, Ordering::Release);
    }
    thread.guest.set(0);
    hand::fetch(cpu, file, Holder::word(cpu, kept), || kept.set(0));
    Some(file)
}

#[inline(always)]
fn dispatch<M: Machine>(
    call: &Call<M>,
    vm: &'static VmRecord,
    vcpu: &'static VcpuRecord,
    exit_address: u64,
    first: Option<Trap>,
) -> SysResult {
    let cpu = call.cpu;
    let _dispatch = Dispatch::take(vcpu, call.thread).ok_or(Errno::EBUSY)?;
    if first.is_none() && call.is_interrupted() {
        return Err(Errno::EINTR.into());
    }
    call.thread.deadline_ns.set(0);
    if vcpu.state.load(Ordering::SeqCst) != VCPU_STARTED {
        let begun = || Ok(has_begun::<M>(vcpu).then_some(()));
        call.wait_for(&vcpu.waiters, begun)?;
    }
    let format = cpu.machine.guest_format().ok_or(Errno::ENODEV)?;
    let table = (tables::root(cpu, vm, format)?, format);
    let running = Running::new(cpu, vm, vcpu, call.thread, table, cpu.now_ns());
    if vcpu.awaits.get() != 0 {
        let mut words = [0; motet_abi::vm::EXIT_WORDS];
        for (at, word) in (exit_address..).step_by(8).zip(&mut words) {
            *word = call.read_user_u64(at)?;
        }
        running.take_answer(Exit::from_words(words));
    }
    let exit = running.until_exit(first)?;
    count(&vm.exits[Counted::Monitor as usize]);
    let exit = Exit { vcpu: u64::from(vcpu.index.get()), pc: vcpu.frame.pc.get(), ..exit };
    for (at, word) in (exit_address..).step_by(8).zip(exit.to_words()) {
        call.write_user(at, &word.to_le_bytes())?;
    }
    Ok(0)
}

/// A dispatch of the call that uses a core. There is one at a time.
pub(super) struct Dispatch(&'static VcpuRecord);

impl Dispatch {
    pub(super) fn take(vcpu: &'static VcpuRecord, thread: &ThreadRecord) -> Option<Self> {
        let taken = vcpu.runner.compare_exchange(0, thread.tid.get(), Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then_some(Self(vcpu))
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        self.0.runner.store(0, Ordering::Release);
    }
}

/// Whether a core has begun; it does if it is told to.
fn has_begun<M: Machine>(vcpu: &'static VcpuRecord) -> bool {
    if vcpu.state.load(Ordering::SeqCst) == VCPU_START {
        reset::<M>(vcpu);
        vcpu.state.store(VCPU_STARTED, Ordering::Release);
    }
    vcpu.state.load(Ordering::SeqCst) == VCPU_STARTED
}

/// The thread's floating-point registers make room for the guest's, as long as this lives.
struct Floats<'a, M: Machine> {
    cpu: &'a Cpu<M>,
    thread: &'static ThreadRecord,
    vcpu: &'static VcpuRecord,
    /// They are loaded when the guest uses them.
    are_lent: bool,
}

impl<'a, M: Machine> Floats<'a, M> {
    fn give(cpu: &'a Cpu<M>, thread: &'static ThreadRecord, vcpu: &'static VcpuRecord) -> Self {
        handover::save_ext(cpu, thread);
        let are_lent = cpu.machine.lend_ext(&vcpu.frame, &vcpu.system);
        if !are_lent {
            ability::before_load(cpu);
            cpu.machine.load_ext(&vcpu.frame);
        }
        Self { cpu, thread, vcpu, are_lent }
    }
}

impl<M: Machine> Drop for Floats<'_, M> {
    fn drop(&mut self) {
        if self.are_lent {
            return self.cpu.machine.take_back_ext(&self.vcpu.frame, &self.thread.frame);
        }
        self.cpu.machine.save_ext(&self.vcpu.frame);
        ability::before_load(self.cpu);
        handover::reload_ext(self.cpu, self.thread);
    }
}

impl<M: Machine> Running<'_, M> {
    /// Runs the guest until the monitor is needed, or the call pauses or waits.
    fn until_exit(&self, mut first: Option<Trap>) -> Result<Exit, Stop> {
        let mut registers = None;
        let result = self.with_floats(|| {
            loop {
                let trap = first.take().unwrap_or_else(|| self.run_guest());
                match self.serve_trap(trap) {
                    Ok(Next::Run) => {}
                    Ok(Next::Wait) => break Err(Stop::Block),
                    Ok(Next::Connect(id)) => {
                        registers = Some(id);
                        break Err(Stop::Block);
                    }
                    Ok(Next::Stopped | Next::Pause) => break Err(Stop::Again),
                    Ok(Next::Exit(exit)) => break Ok(exit),
                    Err(stop) => break Err(stop),
                }
            }
        });
        if matches!(result, Err(Stop::Block)) {
            return Err(self.wait(registers));
        }
        result
    }

    /// Does something in which the guest runs: with its floating-point registers, and counted.
    #[inline(always)]
    pub(super) fn with_floats<R>(&self, act: impl FnOnce() -> R) -> R {
        trace::guest(self.cpu, Kind::Guest, self.thread, self.vm, self.vcpu);
        let floats = Floats::give(self.cpu, self.thread, self.vcpu);
        let result = act();
        self.vm.ran_ns.fetch_add(self.cpu.now_ns().saturating_sub(self.begun_ns.get()), Ordering::Relaxed);
        drop(floats);
        trace::guest(self.cpu, Kind::GuestStop, self.thread, self.vm, self.vcpu);
        result
    }

    /// Runs the guest until it stops. There is one copy of it, so that its code is in the caches whatever the guest was stopped for last.
    #[inline(never)]
    pub(super) fn run_guest(&self) -> Trap {
        let (cpu, vcpu) = (self.cpu, self.vcpu);
        let is_timer_due = self.set_timer();
        self.enter();
        match M::ISA {
            Isa::AArch64 => self.load_interrupts(),
            Isa::RiscV64 => {
                sbi::show_time(self);
                self.take_interrupts(is_timer_due);
            }
            Isa::X86_64 | Isa::Hosted => self.take_interrupts(is_timer_due),
        }
        if vcpu.fence.swap(0, Ordering::SeqCst) != 0 {
            cpu.machine.flush_guests();
        }
        if cpu.stacked.is_nested() {
            // The call below has references, and maybe locks.
            cpu.relax();
        } else {
            cpu.pass();
        }
        cpu.due.renew_budget();
        self.is_timer_alone.set(None);
        M::mark::<{ marks::GUEST_RUNS }>();
        let trap = cpu.machine.run_guest_with(&vcpu.frame, &vcpu.system, self.table.0, self);
        M::mark::<{ marks::GUEST_LEFT }>();
        vcpu.in_guest.store(0, Ordering::Release);
        if M::ISA == Isa::AArch64 {
            self.store_interrupts();
        }
        trap
    }

    /// Whether the real core was interrupted for the guest only, which goes on: no more urgent thread is ready.
    #[inline(always)]
    pub(super) fn is_for_guest(&self, interrupts: Interrupts) -> bool {
        let is_own = || !self.cpu.is_timed() && interrupts == Interrupts::TIMER && self.is_own_timers();
        self.thread.attention.load(Ordering::Relaxed) == 0 && (interrupts == Interrupts::EMPTY || is_own())
    }

    /// Does what the guest has stopped for.
    #[inline(always)]
    fn serve_trap(&self, trap: Trap) -> Result<Next, Stop> {
        match trap {
            Trap::Interrupt(interrupts) => {
                self.count(Counted::Interrupt);
                if self.is_for_guest(interrupts) {
                    return Ok(Next::Run);
                }
                self.cpu.due.defer(interrupts);
                Err(Stop::Again)
            }
            Trap::Guest(trap) => match self.serve(trap) {
                // What it has done may have made a more urgent thread ready; or interrupts came while it was served quickly.
                Next::Run if self.thread.attention.load(Ordering::Relaxed) != 0 || self.cpu.due.has_deferred() => {
                    Err(Stop::Again)
                }
                next @ (Next::Run | Next::Wait | Next::Connect(_) | Next::Pause | Next::Stopped | Next::Exit(_)) => {
                    Ok(next)
                }
            },
            Trap::Syscall
            | Trap::PageFault { .. }
            | Trap::IllegalInstruction { .. }
            | Trap::Breakpoint
            | Trap::Arithmetic
            | Trap::Misaligned { .. }
            | Trap::BadAddress { .. } => unreachable!("a guest stopped as a program: {trap:?}"),
        }
    }

    fn serve(&self, trap: GuestTrap) -> Next {
        match trap {
            GuestTrap::Hypercall { .. } => {
                self.count(Counted::Call);
                match M::ISA {
                    Isa::RiscV64 => sbi::call(self),
                    Isa::AArch64 => psci::call(self),
                    Isa::X86_64 | Isa::Hosted => self.refuse(0),
                }
            }
            GuestTrap::Fault { access, address } => self.serve_fault(access, address.get()),
            GuestTrap::SystemRegister(register) => {
                if self.serve_clock(register) {
                    return Next::Run;
                }
                self.count(Counted::Register);
                if !(M::ISA == Isa::AArch64 && self.send_interrupt(register)) {
                    return self.refuse(0);
                }
                self.skip(4);
                Next::Run
            }
            GuestTrap::WaitForInterrupt => {
                self.count(Counted::Wait);
                Next::Wait
            }
            GuestTrap::IllegalInstruction { word } => self.refuse(word.get()),
            GuestTrap::BadAddress { address } => self.fail(reason::FAULT, address.get()),
        }
    }

    /// Serves an access to a register of the time or the guest's timer, which concerns nobody else. `false`: it is another register.
    #[inline(always)]
    pub(super) fn serve_clock(&self, access: SystemRegister) -> bool {
        let is_served = match M::ISA {
            Isa::RiscV64 => sbi::register(self, access),
            Isa::AArch64 => self.access_time(access),
            Isa::X86_64 | Isa::Hosted => false,
        };
        if is_served {
            self.count(Counted::Register);
            self.skip(4);
        }
        is_served
    }

    /// The guest learns that it does not have the instruction.
    fn refuse(&self, word: u32) -> Next {
        self.count(Counted::Refused);
        self.raise_exception(GuestException::IllegalInstruction { word });
        Next::Run
    }

    fn fail(&self, reason: u64, address: u64) -> Next {
        Next::Exit(Exit { reason, address, ..Exit::default() })
    }

    fn serve_fault(&self, access: GuestAccess, address: u64) -> Next {
        match memory::serve_fault(self.cpu, self.vm, self.table, address, access.kind) {
            Found::Memory => {
                self.count(Counted::Memory);
                Next::Run
            }
            Found::Exhausted => self.fail(reason::NO_MEMORY, address),
            Found::Nothing => self.ask_device(access, address),
            Found::Unconnected(id) => {
                self.count(Counted::Device);
                self.ask_for_registers(access.kind, address, id)
            }
            Found::Refused => self.refuse_access(access.kind),
        }
    }

    /// The guest has accessed what may be a device of the monitor's.
    fn ask_device(&self, access: GuestAccess, address: u64) -> Next {
        self.count(Counted::Device);
        let vcpu = self.vcpu;
        let Some(register) = access.register.filter(|_| access.kind != Access::Execute) else {
            return self.refuse_access(access.kind);
        };
        if M::ISA == Isa::AArch64 && self.access_controller(access, register, address) {
            self.skip(u64::from(access.instruction_bytes));
            return Next::Run;
        }
        let bytes = u64::from(access.size_bytes);
        vcpu.asked.set(packed(access, register));
        if access.kind == Access::Read {
            vcpu.awaits.set(AWAITS_LOAD);
            return Next::Exit(Exit { reason: reason::LOAD, address, bytes, ..Exit::default() });
        }
        vcpu.awaits.set(AWAITS_STORE);
        let value = low(motet_hal::register(&vcpu.frame, register), bytes);
        Next::Exit(Exit { reason: reason::STORE, address, bytes, value, ..Exit::default() })
    }

    /// The monitor has answered what the core has stopped for.
    fn take_answer(&self, answer: Exit) {
        let (access, register) = unpacked(self.vcpu.asked.get());
        let awaits = take(&self.vcpu.awaits);
        match awaits {
            AWAITS_LOAD if answer.reason == reason::NOTHING => drop(self.refuse_access(Access::Read)),
            AWAITS_STORE if answer.reason == reason::NOTHING => drop(self.refuse_access(Access::Write)),
            AWAITS_LOAD => {
                motet_hal::set_register(&self.vcpu.frame, register, access.widened(answer.value));
                self.skip(u64::from(access.instruction_bytes));
            }
            AWAITS_STORE => self.skip(u64::from(access.instruction_bytes)),
            kind => match M::ISA {
                Isa::RiscV64 => sbi::take_answer(self, kind.saturating_sub(AWAITS_CALL), answer.value),
                Isa::X86_64 | Isa::AArch64 | Isa::Hosted => {}
            },
        }
    }

    /// The thread waits, unless something has come for the guest; also for registers that it is to store to, which is a request.
    pub(super) fn wait(&self, registers: Option<InterfaceId>) -> Stop {
        let (cpu, vcpu, thread) = (self.cpu, self.vcpu, self.thread);
        wait::prepare(thread);
        wait::enqueue(cpu, thread, &vcpu.waiters, 0, u32::MAX);
        let has_come = registers.is_some_and(|id| accelerators::ask(cpu, thread, id));
        match self.next_interrupt() {
            Err(deadline_ns) if !has_come => {
                self.wait_until(deadline_ns);
                Stop::Block
            }
            Ok(()) | Err(_) => {
                wait::finish(cpu, thread);
                thread.deadline_ns.set(0);
                Stop::Again
            }
        }
    }

    /// As [`wait`](Self::wait), of a thread that has been taken out of that wait, and is still in its queue, whose lock this core may hold. `false`: the thread does
    /// not wait.
    pub(super) fn wait_again(&self) -> bool {
        if !wait::prepare_again(self.cpu, self.thread, &self.vcpu.waiters) {
            return false;
        }
        let waits = self.next_interrupt();
        waits.inspect_err(|&deadline_ns| self.wait_until(deadline_ns)).is_err()
    }

    /// The thread's wait will end at `deadline_ns`, by the machine's time: 0, at no time of its own.
    #[inline(always)]
    fn wait_until(&self, deadline_ns: u64) {
        self.thread.deadline_ns.set(deadline_ns);
        if deadline_ns != 0 && schedule::of(self.thread).is_realtime() {
            self.cpu.due.expect_urgent(deadline_ns);
        }
    }
}

fn take(word: &Cell32) -> u32 {
    let value = word.get();
    word.set(0);
    value
}

/// A load or store that the monitor is to answer, as a word: the register, how the value is widened, bytes of the value and of the instruction.
fn packed(access: GuestAccess, register: u8) -> u64 {
    u64::from_le_bytes([register, access.widen as u8, access.size_bytes, access.instruction_bytes, 0, 0, 0, 0])
}

/// What [`packed`] has made a word.
fn unpacked(asked: u64) -> (GuestAccess, u8) {
    let [register, widen, size_bytes, instruction_bytes, ..] = asked.to_le_bytes();
    let widen = [Widen::Zero, Widen::Sign32, Widen::Sign64].get(usize::from(widen)).copied().unwrap_or(Widen::Zero);
    let access = GuestAccess { size_bytes, widen, instruction_bytes, ..GuestAccess::unknown(Access::Read) };
    (access, register)
}

//! What a core of a virtual machine runs by: its records, its timer, and the interrupts that it takes.

use core::cell::Cell;

use motet_abi::vm::Exit;
use motet_hal::{Access, GuestException, GuestInterrupts, Machine, Stage2};
use motet_layout::{Frame, Isa, ThreadRecord, VcpuRecord, VmRecord, handshake::then_look, sync::Ordering};
use motet_protocol::{count, fpga::InterfaceId};

use crate::{
    alarm,
    cpu::{Causes, Cpu},
};

/// So much later comes the end of a slice where the guest's tick is due at the same time: that, and what it releases, need not wait for the pause.
const PAUSE_LATE_NS: u64 = 50_000;

/// Kinds of what stops a guest, as they are counted ([`VmRecord::exits`]): the frequent ones in one cache line.
#[derive(Clone, Copy)]
pub enum Counted {
    Interrupt,
    Call,
    Memory,
    Device,
    Register,
    Wait,
    /// A wait after which the guest or the system call of the same core below it went on at once (`life::stacked`, `life::nested`).
    Turn,
    /// A store to registers of the FPGA that was served while the guest's registers stayed in the core.
    Store,
    Monitor,
    Refused,
}

/// What follows when a guest has stopped.
pub enum Next {
    /// It goes on.
    Run,
    /// It waits for an interrupt.
    Wait,
    /// Its store waits until registers are connected, or for an interrupt.
    Connect(InterfaceId),
    /// Something else is to be done first.
    Pause,
    /// It has stopped until it is started.
    Stopped,
    /// The monitor is told why.
    Exit(Exit),
}

/// What a core runs by.
pub struct Running<'a, M: Machine> {
    pub cpu: &'a Cpu<M>,
    pub vm: &'static VmRecord,
    pub vcpu: &'static VcpuRecord,
    pub thread: &'static ThreadRecord,
    pub table: (Frame, Stage2),
    /// When this dispatch of the call began, or the guest was the next one last.
    pub(super) begun_ns: Cell<u64>,
    /// Whether the interrupt that has stopped the guest was the timer's alone, if that is known.
    pub(super) is_timer_alone: Cell<Option<bool>>,
}

/// Words of [`VcpuRecord::awaits`].
pub const AWAITS_LOAD: u32 = 1;
pub const AWAITS_STORE: u32 = 2;
/// The monitor's answer is a hypercall's result: the kind of call is its ISA's.
pub const AWAITS_CALL: u32 = 16;

impl<'a, M: Machine> Running<'a, M> {
    #[inline(always)]
    pub(super) fn new(
        cpu: &'a Cpu<M>,
        vm: &'static VmRecord,
        vcpu: &'static VcpuRecord,
        thread: &'static ThreadRecord,
        table: (Frame, Stage2),
        begun_ns: u64,
    ) -> Self {
        Self { cpu, vm, vcpu, thread, table, begun_ns: Cell::new(begun_ns), is_timer_alone: Cell::new(None) }
    }

    /// From now on, whoever raises an interrupt of the guest's rings this core, until [`VcpuRecord::in_guest`] is 0.
    #[inline(always)]
    pub fn enter(&self) {
        self.vcpu.in_guest.store(u32::from(self.cpu.id.0) + 1, Ordering::Release);
        then_look(); // at what others have changed
    }

    pub fn raise_exception(&self, exception: GuestException) {
        self.cpu.machine.raise_in_guest(&self.vcpu.frame, &self.vcpu.system, exception);
    }

    /// The guest learns that nothing is at an address.
    pub fn refuse_access(&self, kind: Access) -> Next {
        self.count(Counted::Refused);
        self.raise_exception(GuestException::Access(kind));
        Next::Run
    }

    /// Moves the guest's program counter behind an instruction of so many bytes.
    pub fn skip(&self, bytes: u64) {
        self.vcpu.frame.pc.set(self.vcpu.frame.pc.get().wrapping_add(bytes));
    }

    /// The guest takes over the interrupts that others have raised, and its timer's if that is due.
    #[inline(always)]
    pub(super) fn take_interrupts(&self, is_timer_due: bool) {
        let (machine, vcpu) = (self.cpu.machine, self.vcpu);
        let before = machine.guest_interrupts(&vcpu.system);
        let raised = GuestInterrupts(vcpu.raised.swap(0, Ordering::SeqCst));
        let lines = GuestInterrupts(vcpu.lines.load(Ordering::SeqCst));
        let timer = if is_timer_due { GuestInterrupts::TIMER } else { GuestInterrupts::EMPTY };
        let levels = GuestInterrupts::EXTERNAL.union(GuestInterrupts::TIMER);
        let now = before.without(levels).union(raised).union(lines).union(timer);
        if now != before {
            machine.set_guest_interrupts(&vcpu.system, now);
        }
    }

    #[inline(always)]
    pub fn is_timer_due(&self) -> bool {
        self.is_timer_due_at(self.cpu.now_ns())
    }

    #[inline(always)]
    fn is_timer_due_at(&self, now_ns: u64) -> bool {
        let deadline_ns = self.vcpu.timer_ns.get();
        deadline_ns != 0 && deadline_ns <= now_ns
    }

    /// Programs the real core's timer to interrupt when the guest's timer is due, unless it is: whether it is.
    #[inline(always)]
    pub fn set_timer(&self) -> bool {
        let (now_ns, deadline_ns) = (self.cpu.now_ns(), self.vcpu.timer_ns.get());
        let is_due = self.is_timer_due_at(now_ns);
        if deadline_ns != 0 && !is_due {
            // Not later than what the core's alarm is set for, be that due already: a guest that sets its timer again and again would put it off.
            alarm::set_timer_at(self.cpu, deadline_ns.min(self.cpu.alarm.at_ns()), || now_ns);
        }
        is_due
    }

    /// Whether the real core's timer has interrupted only for the guest's timer: then the thread's slice goes on. (Otherwise a guest that is
    /// interrupted often would have shorter slices than others.)
    #[inline(always)]
    pub fn is_own_timers(&self) -> bool {
        let (cpu, now_ns) = (self.cpu, self.cpu.now_ns());
        let next_ns = alarm::next_deadline_ns(cpu);
        if !self.is_timer_due_at(now_ns) || now_ns >= next_ns {
            return false;
        }
        let charged_ns = self.thread.charged_at_ns.get();
        // Where nobody else is ready, the call pauses once in a while nevertheless, and others than threads have their turn.
        let others_wait = cpu.is_due(Causes::OTHERS);
        let since_ns = if others_wait { charged_ns } else { charged_ns.max(self.begun_ns.get()) };
        let slice_end_ns = since_ns.wrapping_add(alarm::SLICE_NS);
        let pause_ns = slice_end_ns.wrapping_add(PAUSE_LATE_NS);
        let is_own = now_ns < pause_ns;
        if is_own {
            let pause_ns = if now_ns < slice_end_ns { slice_end_ns } else { pause_ns };
            cpu.alarm.clear();
            alarm::set_timer_at(cpu, next_ns.min(pause_ns), || now_ns);
        }
        is_own
    }

    /// Whether a guest that waits has an interrupt to take; if not, when its timer fires, by the machine's time: 0, it does not.
    #[inline(always)]
    pub fn next_interrupt(&self) -> Result<(), u64> {
        match M::ISA {
            Isa::AArch64 => self.look_for_interrupts(),
            Isa::RiscV64 | Isa::X86_64 | Isa::Hosted => {
                self.take_interrupts(self.is_timer_due());
                let is_interrupted = self.cpu.machine.is_guest_interrupted(&self.vcpu.system);
                if is_interrupted { Ok(()) } else { Err(self.vcpu.timer_ns.get()) }
            }
        }
    }

    pub fn count(&self, kind: Counted) {
        count(&self.vm.exits[kind as usize]);
    }
}

/// The lowest bytes of a value.
pub fn low(value: u64, bytes: u64) -> u64 {
    if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
}

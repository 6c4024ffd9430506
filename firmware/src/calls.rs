//! Calls of the Supervisor Binary Interface (SBI specification 2.0). RustSBI decodes the registers and answers
//! which extensions there are; arguments are checked here, before anything is done.

use core::ops::RangeInclusive;

use rustsbi::{Console, EnvInfo, Fence as Rfence, HartMask, Hsm, Ipi, Physical, Reset, RustSBI, SbiRet, Timer, spec};

use crate::{
    board::{Board, Range},
    hart::{HartId, HartSet},
    mail::{Fence, Mail},
    state::{HartStates, Launch, StartError},
};

/// Bytes that one call writes to the console at most; the caller learns how many. It is the console of a board whose
/// port takes a byte at a time, and meanwhile other harts may wait for this one.
const CONSOLE_BYTES_MAX: usize = 256;

/// How the machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It is switched off.
    Off,
    /// It is switched off, and something had failed.
    Failed,
    /// It starts again.
    Restart,
}

/// What calls need of the hart that makes them, and of its board.
pub trait Machine {
    /// Makes `hart` look at its mail and its state.
    fn ring(&self, hart: HartId);
    /// Does what others ask this hart for.
    fn serve(&self);
    /// Fences on this hart.
    fn fence(&self, fence: Fence);
    /// Interrupts the supervisor at this time, and not before.
    fn set_timer(&self, ticks: u64);
    /// Ends the machine; returns where that cannot be done.
    fn end(&self, how: End);
    /// Writes bytes of open memory to the console.
    fn write_console(&self, from: Range);
    /// Writes a byte to the console.
    fn write_console_byte(&self, byte: u8);
    /// Fills open memory with what has come at the console; how many bytes have.
    fn read_console(&self, to: Range) -> usize;
    /// `mvendorid`, `marchid` and `mimpid`.
    fn ids(&self) -> [usize; 3];
}

/// What all harts share.
#[derive(Debug)]
pub struct Shared {
    /// Their states.
    pub states: HartStates,
    /// Their mail.
    pub mail: Mail,
}

impl Shared {
    /// All harts stopped, without mail.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self { states: HartStates::new(), mail: Mail::new() }
    }
}

/// The calls of one hart.
#[derive(Debug)]
pub struct Caller<'a, M> {
    /// The hart.
    pub own: HartId,
    /// Its hardware.
    pub machine: &'a M,
    /// The board.
    pub board: &'a Board,
    /// What harts share.
    pub shared: &'a Shared,
}

#[derive(RustSBI)]
struct Extensions<'a, M: Machine> {
    #[rustsbi(console, fence, hsm, ipi, reset, timer, info)]
    caller: &'a Caller<'a, M>,
}

impl<M: Machine> Caller<'_, M> {
    /// Does a call. What becomes of the hart then is [in its state](HartStates::next).
    pub fn call(&self, extension: usize, function: usize, arguments: [usize; 6]) -> SbiRet {
        Extensions { caller: self }.handle_ecall(extension, function, arguments)
    }

    /// The range of an address and a length, if all of it is memory that the supervisor may use.
    fn open_range(&self, len: usize, low: usize, high: usize) -> Option<Range> {
        let range = Range { start: low as u64, len: len as u64 };
        (high == 0 && self.board.is_open(range)).then_some(range)
    }

    fn launch(&self, address: usize, argument: usize) -> Option<Launch> {
        // An instruction at least.
        self.open_range(4, address, 0)?;
        (address % 2 == 0).then_some(Launch { address: address as u64, argument: argument as u64 })
    }

    /// Has harts do a fence, and waits until they have.
    fn remote_fence(&self, harts: HartMask, fence: Result<Fence, SbiRet>) -> SbiRet {
        let Some(selected) = self.board.harts.select(harts) else { return SbiRet::invalid_param() };
        let fence = match fence {
            Ok(fence) => fence,
            Err(refused) => return refused,
        };
        let Self { own, machine, shared, .. } = *self;
        let running = selected.without(own).iter().filter(|hart| shared.states.is_running(*hart));
        let others = running.fold(HartSet::default(), HartSet::with);
        shared.mail.post_fence(own, others, fence);
        others.iter().for_each(|hart| machine.ring(hart));
        if selected.contains(own) {
            machine.fence(fence);
        }
        for hart in others.iter() {
            while !shared.mail.is_served(own, hart) && !shared.states.is_halted(hart) {
                machine.serve();
            }
        }
        SbiRet::success(0)
    }
}

/// A fence for a range, as callers describe it.
fn fence_of(start: usize, len: usize, asid: Option<usize>) -> Result<Fence, SbiRet> {
    let asid = match asid.map(u16::try_from) {
        None => None,
        Some(Ok(asid)) => Some(asid),
        Some(Err(_)) => return Err(SbiRet::invalid_param()),
    };
    if len == usize::MAX || start == 0 && len == 0 {
        return Ok(Fence::Addresses { start: 0, len: usize::MAX, asid });
    }
    // Up to the last address, which has no next one.
    match len.checked_sub(1).map_or(Some(start), |last| start.checked_add(last)) {
        Some(_) => Ok(Fence::Addresses { start, len, asid }),
        None => Err(SbiRet::invalid_address()),
    }
}

impl<M: Machine> Timer for Caller<'_, M> {
    fn set_timer(&self, stime_value: u64) {
        self.machine.set_timer(stime_value);
    }
}

impl<M: Machine> Ipi for Caller<'_, M> {
    fn send_ipi(&self, hart_mask: HartMask) -> SbiRet {
        let Some(harts) = self.board.harts.select(hart_mask) else { return SbiRet::invalid_param() };
        for hart in harts.iter() {
            self.shared.mail.post_interrupt(hart);
            self.machine.ring(hart);
        }
        SbiRet::success(0)
    }
}

impl<M: Machine> Rfence for Caller<'_, M> {
    fn remote_fence_i(&self, hart_mask: HartMask) -> SbiRet {
        self.remote_fence(hart_mask, Ok(Fence::Instructions))
    }

    fn remote_sfence_vma(&self, hart_mask: HartMask, start_addr: usize, size: usize) -> SbiRet {
        self.remote_fence(hart_mask, fence_of(start_addr, size, None))
    }

    fn remote_sfence_vma_asid(&self, hart_mask: HartMask, start_addr: usize, size: usize, asid: usize) -> SbiRet {
        self.remote_fence(hart_mask, fence_of(start_addr, size, Some(asid)))
    }
}

impl<M: Machine> Hsm for Caller<'_, M> {
    fn hart_start(&self, hartid: usize, start_addr: usize, opaque: usize) -> SbiRet {
        let Some(hart) = HartId::new(hartid).filter(|hart| self.board.harts.contains(*hart)) else {
            return SbiRet::invalid_param();
        };
        let Some(launch) = self.launch(start_addr, opaque) else { return SbiRet::invalid_address() };
        match self.shared.states.start(hart, launch) {
            Ok(()) => {
                self.machine.ring(hart);
                SbiRet::success(0)
            }
            Err(StartError::Started) => SbiRet::already_available(),
            Err(StartError::Halted) => SbiRet::failed(),
        }
    }

    fn hart_stop(&self) -> SbiRet {
        self.shared.states.request_stop(self.own);
        SbiRet::success(0)
    }

    fn hart_get_status(&self, hartid: usize) -> SbiRet {
        match HartId::new(hartid).filter(|hart| self.board.harts.contains(*hart)) {
            Some(hart) => SbiRet::success(self.shared.states.status(hart)),
            None => SbiRet::invalid_param(),
        }
    }

    fn hart_suspend(&self, suspend_type: u32, resume_addr: usize, opaque: usize) -> SbiRet {
        match suspend_type {
            spec::hsm::suspend_type::RETENTIVE => self.shared.states.request_sleep(self.own),
            spec::hsm::suspend_type::NON_RETENTIVE => match self.launch(resume_addr, opaque) {
                Some(launch) => self.shared.states.request_sleep_and_launch(self.own, launch),
                None => return SbiRet::invalid_address(),
            },
            _ => return SbiRet::invalid_param(),
        }
        SbiRet::success(0)
    }
}

impl<M: Machine> Reset for Caller<'_, M> {
    fn system_reset(&self, reset_type: u32, reset_reason: u32) -> SbiRet {
        const REASONS: RangeInclusive<u32> =
            spec::srst::RESET_REASON_NO_REASON..=spec::srst::RESET_REASON_SYSTEM_FAILURE;
        if !REASONS.contains(&reset_reason) {
            return SbiRet::invalid_param();
        }
        let how = match (reset_type, reset_reason) {
            (spec::srst::RESET_TYPE_SHUTDOWN, spec::srst::RESET_REASON_NO_REASON) => End::Off,
            (spec::srst::RESET_TYPE_SHUTDOWN, _) => End::Failed,
            (spec::srst::RESET_TYPE_COLD_REBOOT | spec::srst::RESET_TYPE_WARM_REBOOT, _) => End::Restart,
            _ => return SbiRet::invalid_param(),
        };
        self.machine.end(how);
        SbiRet::failed()
    }
}

impl<M: Machine> Console for Caller<'_, M> {
    fn write(&self, bytes: Physical<&[u8]>) -> SbiRet {
        match self.open_range(bytes.num_bytes(), bytes.phys_addr_lo(), bytes.phys_addr_hi()) {
            Some(range) => {
                let len = range.len.min(CONSOLE_BYTES_MAX as u64);
                self.machine.write_console(Range { len, ..range });
                SbiRet::success(len as usize)
            }
            None => SbiRet::invalid_param(),
        }
    }

    fn read(&self, bytes: Physical<&mut [u8]>) -> SbiRet {
        match self.open_range(bytes.num_bytes(), bytes.phys_addr_lo(), bytes.phys_addr_hi()) {
            Some(range) => {
                let len = range.len.min(CONSOLE_BYTES_MAX as u64);
                SbiRet::success(self.machine.read_console(Range { len, ..range }))
            }
            None => SbiRet::invalid_param(),
        }
    }

    fn write_byte(&self, byte: u8) -> SbiRet {
        self.machine.write_console_byte(byte);
        SbiRet::success(0)
    }
}

impl<M: Machine> EnvInfo for Caller<'_, M> {
    fn mvendorid(&self) -> usize {
        self.machine.ids()[0]
    }

    fn marchid(&self) -> usize {
        self.machine.ids()[1]
    }

    fn mimpid(&self) -> usize {
        self.machine.ids()[2]
    }
}

#[cfg(test)]
mod tests;

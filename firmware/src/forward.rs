//! Forwarding a trap to the supervisor or guest that it is for: what hardware does for traps that are delegated (RISC-V privileged specification,
//! "Supervisor Trap Vector" and "Trap Entry" of the hypervisor extension), done by the firmware for those it took itself.

use core::mem::size_of;

const SIE: u64 = 1 << 1;
const SPIE: u64 = 1 << 5;
const SPP: u64 = 1 << 8;
const MPP: u64 = 3 << 11;
const MPP_SUPERVISOR: u64 = 1 << 11;
/// A landing pad is expected (Zicfilp), as the supervisor's status has it and as the machine's has it.
const SPELP: u64 = 1 << 23;
const MPELP: u64 = 1 << 41;
/// The trap's address is a guest's; the trap came from a guest.
const GVA: u64 = 1 << 38;
const MPV: u64 = 1 << 39;
const HSTATUS_GVA: u64 = 1 << 6;
const HSTATUS_SPV: u64 = 1 << 7;
const HSTATUS_SPVP: u64 = 1 << 8;

/// The register that an instruction reads `time` to, if it does that and nothing else: programs whose kernel hides the counter
/// get it all the same, as OpenSBI has it. Not guests: their time is another.
pub fn time_read_to(status: u64, cause: u64, instruction: u64) -> Option<usize> {
    /// `csrrs rd, time, x0`.
    const READ_TIME: u64 = 0xc010_2073;
    const DESTINATION: u64 = 0x1f << 7;
    const ILLEGAL: u64 = 2;
    let reads = cause == ILLEGAL && status & MPV == 0 && instruction & !DESTINATION == READ_TIME;
    reads.then_some((instruction >> 7 & 0x1f) as usize)
}

/// Registers of the hypervisor extension, on harts that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hypervisor {
    /// `hstatus`.
    pub hstatus: u64,
    /// `hedeleg`: exceptions that guests take themselves.
    pub hedeleg: u64,
    /// `vsstatus`: what a guest sees as its `sstatus`.
    pub vsstatus: u64,
}

/// Who takes the trap, and what its status registers become. Cause, program counter and value go to its own registers, and
/// it starts at its own trap vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forwarded {
    /// The supervisor: `mstatus`, and `hstatus` on harts that have it.
    Supervisor {
        /// `mstatus`.
        status: u64,
        /// `hstatus`.
        hstatus: Option<u64>,
    },
    /// The guest's supervisor.
    Guest {
        /// `mstatus`.
        status: u64,
        /// `vsstatus`.
        vsstatus: u64,
    },
}

/// Passes on exception `cause`, which the firmware took with this `mstatus`, from a mode below its own.
pub fn forward(status: u64, cause: u64, hypervisor: Option<Hypervisor>) -> Forwarded {
    let from_guest = status & MPV != 0;
    let was_supervisor = status & MPP == MPP_SUPERVISOR;
    let delegated =
        |hypervisor: &Hypervisor| cause < 8 * size_of::<u64>() as u64 && hypervisor.hedeleg >> cause & 1 != 0;
    let entered = |view: u64| {
        let interrupts = if view & SIE != 0 { SPIE } else { 0 };
        let before = if was_supervisor { SPP } else { 0 };
        let landing = if status & MPELP != 0 { SPELP } else { 0 };
        view & !(SIE | SPIE | SPP | SPELP) | interrupts | before | landing
    };
    let to_supervisor = |status: u64| status & !(MPP | MPELP) | MPP_SUPERVISOR;
    if let Some(hypervisor) = hypervisor.filter(|hypervisor| from_guest && delegated(hypervisor)) {
        return Forwarded::Guest { status: to_supervisor(status), vsstatus: entered(hypervisor.vsstatus) };
    }
    let hstatus = hypervisor.map(|Hypervisor { hstatus, .. }| {
        let mut after = hstatus & !(HSTATUS_GVA | HSTATUS_SPV);
        if status & GVA != 0 {
            after |= HSTATUS_GVA;
        }
        if from_guest {
            after = after & !HSTATUS_SPVP | HSTATUS_SPV | if was_supervisor { HSTATUS_SPVP } else { 0 };
        }
        after
    });
    Forwarded::Supervisor { status: to_supervisor(entered(status)) & !(MPV | GVA), hstatus }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ILLEGAL: u64 = 2;
    const FLOAT_ON: u64 = 3 << 13;

    fn status_after(status: u64) -> u64 {
        match forward(status, ILLEGAL, None) {
            Forwarded::Supervisor { status, hstatus: None } => status,
            other @ (Forwarded::Supervisor { .. } | Forwarded::Guest { .. }) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_supervisor_learns_where_the_trap_came_from() {
        assert_eq!(status_after(FLOAT_ON), FLOAT_ON | MPP_SUPERVISOR);
        assert_eq!(status_after(MPP_SUPERVISOR | SPIE), MPP_SUPERVISOR | SPP);
        assert_eq!(status_after(SPP), MPP_SUPERVISOR, "an old mode does not stay");
    }

    #[test]
    fn reads_of_the_time_are_told_from_other_instructions() {
        assert_eq!(time_read_to(0, ILLEGAL, 0xc010_2573), Some(10));
        assert_eq!(time_read_to(0, ILLEGAL, 0xc010_2073), Some(0));
        for (status, cause, instruction) in [
            (MPV, ILLEGAL, 0xc010_2573),
            (0, 12, 0xc010_2573),
            (0, ILLEGAL, 0xc000_2573),
            (0, ILLEGAL, 0xc010_a573),
            (0, ILLEGAL, 0),
        ] {
            assert_eq!(time_read_to(status, cause, instruction), None);
        }
    }

    #[test]
    fn its_interrupts_are_masked_and_what_they_were_is_kept() {
        assert_eq!(status_after(SIE), MPP_SUPERVISOR | SPIE);
        assert_eq!(status_after(SPIE), MPP_SUPERVISOR);
    }

    #[test]
    fn an_expected_landing_pad_is_the_supervisors_to_restore() {
        assert_eq!(status_after(MPELP), MPP_SUPERVISOR | SPELP);
    }

    #[test]
    fn a_guests_trap_goes_to_the_hypervisor_unless_that_delegated_it() {
        let hypervisor = Hypervisor { hstatus: HSTATUS_GVA, hedeleg: 0, vsstatus: SIE };
        let status = MPV | MPP_SUPERVISOR;
        let taken = forward(status, ILLEGAL, Some(hypervisor));
        let hstatus = Some(HSTATUS_SPV | HSTATUS_SPVP);
        assert_eq!(taken, Forwarded::Supervisor { status: MPP_SUPERVISOR | SPP, hstatus });
        let delegating = Hypervisor { hedeleg: 1 << ILLEGAL, ..hypervisor };
        let taken = forward(status, ILLEGAL, Some(delegating));
        assert_eq!(taken, Forwarded::Guest { status, vsstatus: SPIE | SPP });
        let own = forward(MPP_SUPERVISOR, ILLEGAL, Some(delegating));
        assert_eq!(own, Forwarded::Supervisor { status: MPP_SUPERVISOR | SPP, hstatus: Some(0) }, "no guest's");
    }

    #[test]
    fn the_hypervisor_learns_of_guest_addresses() {
        let hypervisor = Hypervisor { hstatus: HSTATUS_SPVP, hedeleg: 0, vsstatus: 0 };
        let taken = forward(MPV | GVA, ILLEGAL, Some(hypervisor));
        let hstatus = Some(HSTATUS_SPV | HSTATUS_GVA);
        assert_eq!(taken, Forwarded::Supervisor { status: MPP_SUPERVISOR, hstatus });
    }
}

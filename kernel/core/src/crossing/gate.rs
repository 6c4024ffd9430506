//! The gate ([`motet_abi::gate`]): where a function returns to that another ISA has called.
//!
//! Its page is one of the program's, and mapped as such, so a core's first fetch from it faults. Then, and in programs that do not have the
//! page (they have one ISA, or have unmapped it), the kernel does what its instructions do. So no return depends on the page.

use motet_abi::{registers, stubs};
use motet_hal::{Access, Machine, Trap};
use motet_layout::{Isa, SpaceRecord, UserFrame};

use crate::{call::Call, cpu::Cpu, mm};

/// The return address of functions of an ISA.
#[inline(always)]
pub const fn address(isa: Isa) -> u64 {
    stubs::gate(isa)
}

/// Whether `frame`, which has just made a system call, has passed the gate.
#[inline(always)]
pub fn is_passed<M: Machine>(frame: &UserFrame) -> bool {
    M::gate(M::ISA).is_passed(frame)
}

/// Whether `frame` has fetched the gate's first instruction, and faulted with `address`.
#[inline(always)]
pub fn is_missed<M: Machine>(frame: &UserFrame, address: u64) -> bool {
    address == self::address(M::ISA) && registers::pc(frame) == address
}

/// Lets `frame`, which has missed the gate, pass it. The next one finds its page, if there is one.
#[cold]
#[inline(never)]
pub fn pass<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, frame: &UserFrame) {
    // Without the page, it faults again the next time.
    let _is_there = mm::serve_fault(cpu, space, address(M::ISA), Access::Execute);
    M::gate(M::ISA).pass(frame);
}

/// The trap at which a called function has stopped. If it has missed the gate, the kernel first lets it pass.
#[inline(always)]
pub fn passed<M: Machine>(cpu: &Cpu<M>, space: &'static SpaceRecord, frame: &UserFrame, trap: Trap) -> Trap {
    let Trap::PageFault { address, access: Access::Execute } = trap else { return trap };
    if !is_missed::<M>(frame, address) {
        return trap;
    }
    pass(cpu, space, frame);
    Trap::Syscall
}

/// Whether a system call is the gate's.
pub fn is_return<M: Machine>(call: &Call<M>) -> bool {
    is_passed::<M>(&call.thread.frame)
}

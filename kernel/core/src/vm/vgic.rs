//! Interrupts of AArch64 guests: the connection of their interrupt controller ([`motet_protocol::gic`]) to the code that runs them.
//!
//! Before a core of the guest runs, the kernel fills the list registers; when it has stopped, the kernel takes them back. An interrupt that becomes pending
//! meanwhile stops the core, or wakes its thread ([`disturb`]). The guest's timer is a line of the controller, which is read each time.

use motet_hal::{Access, GuestAccess, Machine, SystemRegister};
use motet_layout::{GUEST_GIC_CORES, VmRecord};
use motet_protocol::{
    gic::{self, Cores, DISTRIBUTOR_LEN, FIRST_SHARED, INTERRUPTS, REDISTRIBUTOR_LEN},
    lock::lock,
};

use super::{
    disturb,
    running::{Running, low},
    vcpu,
};
use crate::cpu::Cpu;

/// Where guests find it: as on QEMU's `virt` board.
const DISTRIBUTOR: u64 = 0x0800_0000;
/// The first core's redistributor; the others' follow.
const REDISTRIBUTORS: u64 = 0x080a_0000;
/// Most cores that it has.
pub const CORES_MAX: usize = GUEST_GIC_CORES;
/// The interrupt of the virtual timer.
const TIMER: u32 = 27;
/// ICC_SGI1R_EL1, as instructions encode it.
const SOFTWARE_INTERRUPT: u16 = 3 << 14 | 12 << 7 | 11 << 3 | 5;

/// Gives the machine its cores, of which it had none before.
pub fn set_cores<M: Machine>(cpu: &Cpu<M>, vm: &VmRecord, cores: usize) {
    let _guard = lock(cpu, &vm.gic_lock);
    if cores == 1 {
        gic::reset(&vm.gic, 1);
    } else {
        vm.gic.cores.set(cores as u32);
    }
}

/// Raises or lowers the line of a device's interrupt, which the cores share. `false`: there is none of the id.
pub fn set_line<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, id: u32, asks: bool) -> bool {
    if !(FIRST_SHARED..INTERRUPTS).contains(&id) {
        return false;
    }
    let cores = {
        let _guard = lock(cpu, &vm.gic_lock);
        gic::set_line(&vm.gic, 0, id, asks)
    };
    tell(cpu, vm, cores);
    true
}

/// Cores for which something has become due take it, wherever they are.
fn tell<M: Machine>(cpu: &Cpu<M>, vm: &'static VmRecord, Cores(mut cores): Cores) {
    while cores != 0 {
        if let Some(vcpu) = vcpu(cpu, vm, cores.trailing_zeros().into()) {
            disturb(cpu, vcpu);
        }
        cores &= cores - 1;
    }
}

impl<M: Machine> Running<'_, M> {
    fn own_number(&self) -> usize {
        self.vcpu.index.get() as usize
    }

    /// Other cores take what has become due for them; this one looks itself before it runs.
    fn tell_others(&self, Cores(cores): Cores) {
        tell(self.cpu, self.vm, Cores(cores & !(1 << self.own_number())));
    }

    /// Fills the list registers, before the guest runs.
    pub fn load_interrupts(&self) {
        let (machine, system) = (self.cpu.machine, &self.vcpu.system);
        if self.cpu.is_timed() {
            let _guard = lock(self.cpu, &self.vm.gic_lock);
            let _ = gic::set_line(&self.vm.gic, self.own_number(), TIMER, self.is_timer_due());
            return gic::load(&self.vm.gic, self.own_number(), system);
        }
        // Not the time itself: QEMU's timers do not fire where a guest's counter is ahead of the core's (target/arm/helper.c, gt_recalc_timer).
        machine.set_guest_clock(system, self.cpu.clock.offset_ns().wrapping_sub(self.vm.started_ns.get()));
        let has_fired = machine.has_guest_timer_fired(system);
        let _guard = lock(self.cpu, &self.vm.gic_lock);
        let _ = gic::set_line(&self.vm.gic, self.own_number(), TIMER, has_fired);
        gic::load(&self.vm.gic, self.own_number(), system);
    }

    /// Takes the list registers back, when the guest has stopped.
    pub fn store_interrupts(&self) {
        let cores = {
            let _guard = lock(self.cpu, &self.vm.gic_lock);
            gic::store(&self.vm.gic, self.own_number(), &self.vcpu.system)
        };
        self.tell_others(cores);
    }

    /// Whether a guest that waits has an interrupt to take. If not, the error is the machine's time at which its timer fires, or 0: never.
    pub fn look_for_interrupts(&self) -> Result<(), u64> {
        let (machine, system) = (self.cpu.machine, &self.vcpu.system);
        let has_fired = if self.cpu.is_timed() { self.is_timer_due() } else { machine.has_guest_timer_fired(system) };
        let is_due = {
            let _guard = lock(self.cpu, &self.vm.gic_lock);
            let _ = gic::set_line(&self.vm.gic, self.own_number(), TIMER, has_fired);
            gic::is_due(&self.vm.gic, self.own_number(), system)
        };
        match machine.guest_timer_ns(system) {
            _ if is_due => Ok(()),
            // Nobody listens to it.
            _ if has_fired => Err(0),
            _ if self.cpu.is_timed() => Err(self.vcpu.timer_ns.get()),
            u64::MAX => Err(0),
            deadline_ns => Err(self.cpu.clock.own_ns(deadline_ns).max(1)),
        }
    }

    /// Serves the guest's write of the register that sends interrupts to other cores. `false`: it is another register.
    pub fn send_interrupt(&self, access: SystemRegister) -> bool {
        if access.number != SOFTWARE_INTERRUPT || !access.is_write {
            return false;
        }
        let value = motet_hal::register(&self.vcpu.frame, access.register);
        let cores = {
            let _guard = lock(self.cpu, &self.vm.gic_lock);
            gic::software_interrupt(&self.vm.gic, self.own_number(), value)
        };
        self.tell_others(cores);
        true
    }

    /// Serves the guest's access to a register of the controller. `false`: the address is another device's.
    pub fn access_controller(&self, access: GuestAccess, register: u8, address: u64) -> bool {
        let Some(place) =
            Register::of(address, self.vm.vcpu_count.load(motet_layout::sync::Ordering::Relaxed) as usize)
        else {
            return false;
        };
        let size_bytes = access.size_bytes;
        if access.kind == Access::Write {
            let value = low(motet_hal::register(&self.vcpu.frame, register), size_bytes.into());
            let cores = {
                let _guard = lock(self.cpu, &self.vm.gic_lock);
                match place {
                    Register::Distributor(offset) => gic::distributor_write(&self.vm.gic, offset, size_bytes, value),
                    Register::Redistributor(core, offset) => {
                        gic::redistributor_write(&self.vm.gic, core, offset, size_bytes, value)
                    }
                }
            };
            self.tell_others(cores);
        } else {
            let value = {
                let _guard = lock(self.cpu, &self.vm.gic_lock);
                match place {
                    Register::Distributor(offset) => gic::distributor_read(&self.vm.gic, offset, size_bytes),
                    Register::Redistributor(core, offset) => {
                        gic::redistributor_read(&self.vm.gic, core, offset, size_bytes)
                    }
                }
            };
            motet_hal::set_register(&self.vcpu.frame, register, access.widened(value));
        }
        true
    }
}

/// A register of the controller.
enum Register {
    /// At this offset.
    Distributor(u64),
    /// Of this core's.
    Redistributor(usize, u64),
}

impl Register {
    /// What is at an address, in a machine with so many cores.
    fn of(address: u64, cores: usize) -> Option<Self> {
        if let Some(offset) = address.checked_sub(REDISTRIBUTORS) {
            let core = (offset / REDISTRIBUTOR_LEN) as usize;
            return (core < cores).then_some(Self::Redistributor(core, offset % REDISTRIBUTOR_LEN));
        }
        address.checked_sub(DISTRIBUTOR).filter(|offset| *offset < DISTRIBUTOR_LEN).map(Self::Distributor)
    }
}

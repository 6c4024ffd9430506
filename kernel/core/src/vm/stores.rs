//! Stores of guests to registers of the FPGA. The guest has the page read-only. A region that is offered is taken; otherwise the store is a request, and the
//! core looks until it is decided.
//!
//! They are served while the guest's registers stay in the core ([`quick`](super::quick)), as those of programs are (`life/stores.rs`). Whatever else is due goes
//! the way of all faults, which does the same from its beginning ([`accelerators`]).

use motet_hal::{Access, Machine};
use motet_layout::{Fpga, InodeRecord, PAGE_SIZE, PoolAddr, sync::Ordering};
use motet_protocol::{
    fpga::{self, InterfaceId},
    lock::try_lock,
};

use super::{
    accelerators, memory,
    running::{Counted, Next, Running},
    tables::{self, Found},
};
use crate::{
    cpu::Causes,
    registers::{
        fpga as interfaces,
        look::{Looked, look, take_signals},
    },
};

impl<M: Machine> Running<'_, M> {
    /// Serves a store to a guest's physical address, if that can be done here: then `true`, and it is executed again.
    #[inline(never)]
    pub fn serve_store_quickly(&self, address: u64) -> bool {
        let Some(device) = fpga::of(self.cpu.pool) else { return false };
        if self.thread.attention.load(Ordering::Relaxed) != 0 {
            return false;
        }
        self.cpu.fpga.begin_request();
        match self.allow_store(device, address) {
            Some(Found::Memory) => {
                self.count(Counted::Store);
                true
            }
            Some(Found::Unconnected(id)) => self.look_quickly(device, address, id),
            Some(Found::Nothing | Found::Exhausted | Found::Refused) | None => false,
        }
    }

    /// Makes the page writable if it is one of registers, which are connected or can be at once. `None`: it is another one, or somebody changes the
    /// memory of the machine.
    fn allow_store(&self, device: &Fpga, address: u64) -> Option<Found> {
        let (cpu, page) = (self.cpu, address & !(PAGE_SIZE - 1));
        let _guard = try_lock(cpu, &self.vm.space.lock)?;
        let region = tables::region_at(self.vm, page).filter(|region| region.start.get() == page)?;
        let inode = cpu.pool.at::<InodeRecord>(PoolAddr(region.inode.get()));
        let id = InterfaceId::from_link(inode.fpga.get())?;
        if device.interfaces[id.index()].refused.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let table = tables::table(cpu, self.table);
        let drops = || cpu.machine.widen_guest_page(&self.vcpu.system, page);
        accelerators::serve_store(cpu, &table, page, id, drops)
    }

    /// The store is a request: looks until it can be executed, unless the guest has an interrupt to take.
    fn look_quickly(&self, device: &Fpga, address: u64, id: InterfaceId) -> bool {
        let (cpu, thread) = (self.cpu, self.thread);
        let Err(timer_ns) = self.next_interrupt() else { return false };
        if !interfaces::ask_and_look(cpu, device, thread, id) {
            return false;
        }
        let looked = look(cpu, thread, id, if timer_ns == 0 { u64::MAX } else { timer_ns });
        let has_signals = take_signals(cpu, &device.interfaces[id.index()]);
        match looked {
            Looked::Decided if has_signals => false,
            Looked::Decided => {
                let is_served = self.allow_store(device, address) == Some(Found::Memory);
                if is_served {
                    self.count(Counted::Store);
                }
                // A thread that was told may be more urgent.
                is_served && thread.attention.load(Ordering::Relaxed) == 0 && !cpu.is_due(Causes::INTERRUPTS)
            }
            Looked::Due => false,
            Looked::Long => {
                cpu.fpga.has_looked_long();
                false
            }
        }
    }

    /// The guest's store to registers that are not connected is a request. If nothing else is ready on this core, the core looks for
    /// the decision, as it does for a program.
    #[inline(never)]
    pub fn ask_for_registers(&self, access: Access, address: u64, id: InterfaceId) -> Next {
        let (cpu, looked) = (self.cpu, self.look(id));
        let has_signals = fpga::of(cpu.pool).is_some_and(|fpga| take_signals(cpu, &fpga.interfaces[id.index()]));
        match looked {
            // Should they have been taken away meanwhile, the store is a request once more.
            Looked::Decided => match memory::serve_fault(cpu, self.vm, self.table, address, access) {
                Found::Refused => self.refuse_access(access),
                Found::Memory | Found::Nothing | Found::Exhausted | Found::Unconnected(_) if has_signals => Next::Pause,
                Found::Memory | Found::Nothing | Found::Exhausted | Found::Unconnected(_) => Next::Run,
            },
            Looked::Due => Next::Pause,
            Looked::Long => Next::Connect(id),
        }
    }

    /// To other cores, this one executes its guest meanwhile, so the guest's interrupts end the look.
    fn look(&self, id: InterfaceId) -> Looked {
        let (cpu, thread) = (self.cpu, self.thread);
        let Some(fpga) = fpga::of(cpu.pool) else { return Looked::Long };
        self.enter();
        let looked = match self.next_interrupt() {
            Err(timer_ns) if interfaces::ask_and_look(cpu, fpga, thread, id) => {
                look(cpu, thread, id, if timer_ns == 0 { u64::MAX } else { timer_ns })
            }
            Ok(()) | Err(_) => Looked::Long,
        };
        self.vcpu.in_guest.store(0, Ordering::Release);
        looked
    }
}

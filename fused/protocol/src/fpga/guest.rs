//! Transfers of virtual machines: to and from all of the machine's memory, checked page by page, as an IOMMU does (`docs/protocols/fpga.md`).
//!
//! The FPGA looks pages up in the machine's second-stage tables, those of whichever island has the page. It reads them without a lock: no leaf is
//! removed from them as long as the machine lives, and the end of the machine waits for the transfer that is under way ([`end`]). If no table has a page, the FPGA
//! asks the kernels for it ([`take_wanted`]), and computes the frame again when they have answered.

use core::ops::Range;

use motet_layout::{
    Fpga, FpgaInterface, IslandId, PAGE_SIZE, Pool, PoolAddr, VmRecord,
    handshake::then_look,
    sync::Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use motet_paging::{PhysMap, Stage2, Table};

use super::{Fault, InterfaceId, clients};
use crate::Context;

/// Of [`FpgaInterface::wants`]: kernels are asked for the page.
const ASKED: u64 = 1;
/// It is no memory that transfers may use.
const OUTSIDE: u64 = 2;
/// There is no memory left for it.
const EXHAUSTED: u64 = 4;

/// A transfer of an interface's virtual machine. The machine is not taken apart before this is dropped.
pub struct Transfer<'a> {
    pool: Pool,
    fpga: &'a Fpga,
    interface: &'a FpgaInterface,
    vm: &'static VmRecord,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        self.fpga.transfer.store(0, Release);
    }
}

/// Begins a transfer; whoever is the FPGA does one at a time. `None`: no virtual machine has the interface, or it is about to end.
pub fn begin(pool: Pool, fpga: &Fpga, id: InterfaceId) -> Option<Transfer<'_>> {
    let interface = &fpga.interfaces[id.index()];
    let guest = interface.guest.load(Acquire);
    let vm = pool.get::<VmRecord>(PoolAddr(guest)).filter(|_| guest != 0)?;
    fpga.transfer.store(guest, Release);
    then_look();
    let transfer = Transfer { pool, fpga, interface, vm };
    (interface.guest.load(SeqCst) == guest).then_some(transfer)
}

/// Waits for a transfer of a virtual machine which no interface names any more: then nobody looks at its tables but who has it.
pub fn end(context: &impl Context, fpga: &Fpga, vm: PoolAddr) {
    then_look();
    while fpga.transfer.load(SeqCst) == vm.0 {
        context.relax();
    }
}

impl Transfer<'_> {
    /// Where the bytes of a range of the guest's physical addresses are: pieces within pages, in their order, after all have been found.
    ///
    /// # Errors
    /// [`Fault::Address`]: one of them is no memory; [`Fault::Page`]: one of them is not there yet, and kernels are asked for
    /// it; [`Fault::Memory`]: there is no memory for it.
    pub fn pieces(
        &self,
        address: u64,
        len: u64,
        stores: bool,
        mut each: impl FnMut(PoolAddr, Range<usize>),
    ) -> Result<(), Fault> {
        let end = address.checked_add(len).ok_or(Fault::Address)?;
        let pages = || (address & !(PAGE_SIZE - 1)..end).step_by(PAGE_SIZE as usize);
        for page in pages() {
            self.find(page, stores)?;
        }
        for page in pages() {
            let (from, to) = (page.max(address), (page + PAGE_SIZE).min(end));
            let at = self.find(page, stores)?.add(from - page);
            each(at, (from - address) as usize..(to - address) as usize);
        }
        Ok(())
    }

    fn find(&self, page: u64, stores: bool) -> Result<PoolAddr, Fault> {
        let islands = (0..self.vm.space.roots.len() as u32).filter_map(IslandId::from_raw);
        let mut tables = islands.filter_map(|island| table_of(self.pool, self.vm, island));
        let Some((table, at)) = tables.find_map(|table| Some((table, table.readable(page)?))) else {
            return Err(self.want(page));
        };
        // Registers are no memory, whether they are connected or not. All other pages may be written.
        let is_memory =
            clients::of_registers(self.fpga, at.frame()).is_none() && (!stores || table.writable(page).is_some());
        if is_memory { Ok(at) } else { Err(Fault::Address) }
    }

    /// Asks for a page, or says what was answered.
    fn want(&self, page: u64) -> Fault {
        let wants = &self.interface.wants;
        let known = wants.load(SeqCst);
        if known == page | OUTSIDE || known == page | EXHAUSTED {
            wants.store(0, Release);
            return if known == page | OUTSIDE { Fault::Address } else { Fault::Memory };
        }
        wants.store(page | ASKED, Release);
        Fault::Page
    }
}

/// A machine's table of an island, if that has run it.
pub fn table_of(pool: Pool, vm: &VmRecord, island: IslandId) -> Option<Table<'static, Stage2>> {
    let root = motet_layout::Frame(vm.space.roots[island.index()].load(Acquire));
    let code = usize::from(vm.formats[island.index()].load(Relaxed));
    let format = *Stage2::ALL.get(code.checked_sub(1)?).filter(|_| !root.is_none())?;
    let map = PhysMap::new(&pool.header().islands[island.index()].ranges, pool.len());
    Some(Table { pool, root, format, map })
}

/// Whether a page is asked of kernels, which have not answered.
pub fn is_asked(interface: &FpgaInterface) -> bool {
    interface.wants.load(SeqCst) & ASKED != 0
}

/// How a page that was asked for was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A table has it now.
    Found,
    /// It is no memory that transfers may use.
    Outside,
    /// There is no memory left for it.
    Exhausted,
}

/// Kernels: answers what was asked for. `fetch` gets the interface and the page's address. One caller at a time.
pub fn take_wanted(interface: &'static FpgaInterface, fetch: impl Fn(&'static FpgaInterface, u64) -> Answer) {
    let asked = interface.wants.load(SeqCst);
    if asked & ASKED == 0 {
        return;
    }
    let page = asked & !(PAGE_SIZE - 1);
    let answer = match fetch(interface, page) {
        Answer::Found => 0,
        Answer::Outside => page | OUTSIDE,
        Answer::Exhausted => page | EXHAUSTED,
    };
    // Unless the client has gone meanwhile.
    let _ = interface.wants.compare_exchange(asked, answer, SeqCst, SeqCst);
}

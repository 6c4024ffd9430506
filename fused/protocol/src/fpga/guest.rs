//! Transfers to and from the memory of virtual machines, checked page by page, as by an IOMMU (`docs/protocols/fpga.md`).
//!
//! - The FPGA looks pages up in the virtual machine's second-stage tables. It uses the table of any island that has the page.
//! - It reads the tables without a lock. No leaf is removed while the virtual machine lives, and the end of the virtual machine waits for the
//!   transfer that is under way ([`end`]).
//! - If no table has a page, the FPGA asks the kernels for it ([`take_wanted`]). When they have answered, it computes the frame again.

use core::ops::Range;

use motet_layout::{
    Fpga, FpgaInterface, IslandId, PAGE_SIZE, Pool, PoolAddr, VmRecord,
    handshake::then_look,
    sync::Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use motet_paging::{PhysMap, Stage2, Table};

use super::{Fault, InterfaceId, frames};
use crate::Context;

/// A bit of [`FpgaInterface::wants`]: the FPGA asks kernels for the page.
const ASKED: u64 = 1;
/// The page is no memory that transfers may use.
const OUTSIDE: u64 = 2;
/// There is no memory left for the page.
const EXHAUSTED: u64 = 4;

/// A transfer to or from an interface's virtual machine. The virtual machine is not freed before this is dropped.
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

/// Begins a transfer. The FPGA's executor makes one at a time. `None`: no virtual machine has the interface, or the virtual machine is about to end.
pub fn begin(pool: Pool, fpga: &Fpga, id: InterfaceId) -> Option<Transfer<'_>> {
    let interface = &fpga.interfaces[id.index()];
    let guest = interface.guest.load(Acquire);
    let vm = pool.get::<VmRecord>(PoolAddr(guest)).filter(|_| guest != 0)?;
    fpga.transfer.store(guest, Release);
    then_look();
    let transfer = Transfer { pool, fpga, interface, vm };
    (interface.guest.load(SeqCst) == guest).then_some(transfer)
}

/// Waits for the end of a transfer of a virtual machine that no interface names any more. Afterwards the FPGA does not read its tables.
pub fn end(context: &impl Context, fpga: &Fpga, vm: PoolAddr) {
    then_look();
    while fpga.transfer.load(SeqCst) == vm.0 {
        context.relax();
    }
}

impl Transfer<'_> {
    /// Calls `each` for each page of a range of guest-physical addresses, in order, with the place in the pool and the part of the range. All pages
    /// are found before the first call.
    ///
    /// # Errors
    /// [`Fault::Address`]: a page is no memory. [`Fault::Page`]: a page is not there yet, and kernels are asked for it. [`Fault::Memory`]: there is
    /// no memory for a page.
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
        // Registers do not count as memory, whether they are connected or not. All other pages may be written.
        let is_memory =
            frames::of_registers(self.fpga, at.frame()).is_none() && (!stores || table.writable(page).is_some());
        if is_memory { Ok(at) } else { Err(Fault::Address) }
    }

    /// Asks kernels for a page, or returns their answer.
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

/// A virtual machine's table for an island. `None`: the island has not run the virtual machine.
pub fn table_of(pool: Pool, vm: &VmRecord, island: IslandId) -> Option<Table<'static, Stage2>> {
    let root = motet_layout::Frame(vm.space.roots[island.index()].load(Acquire));
    let code = usize::from(vm.formats[island.index()].load(Relaxed));
    let format = *Stage2::ALL.get(code.checked_sub(1)?).filter(|_| !root.is_none())?;
    let map = PhysMap::new(&pool.header().islands[island.index()].ranges, pool.len());
    Some(Table { pool, root, format, map })
}

/// Whether kernels have been asked for a page and have not answered yet.
pub fn is_asked(interface: &FpgaInterface) -> bool {
    interface.wants.load(SeqCst) & ASKED != 0
}

/// The answer to a page that the FPGA has asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A table has the page now.
    Found,
    /// The page is no memory that transfers may use.
    Outside,
    /// There is no memory left for the page.
    Exhausted,
}

/// Called by kernels: answers the FPGA's question for a page. `fetch` gets the interface and the page's address. One caller at a time.
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
    // This fails if the client has gone meanwhile.
    let _ = interface.wants.compare_exchange(asked, answer, SeqCst, SeqCst);
}

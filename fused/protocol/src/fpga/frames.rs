//! Frames of interfaces: one with the registers, and those of the data section.

use motet_layout::{Fpga, Frame, PAGE_SHIFT, PAGE_SIZE, PoolAddr};

use super::{InterfaceId, section};

/// The frame of an interface's registers.
pub fn registers_frame(fpga: &Fpga, interface: InterfaceId) -> Frame {
    frame(PoolAddr(fpga.registers.get()).add(interface.index() as u64 * PAGE_SIZE))
}

/// The interface whose registers are in a frame. `None`: the frame has no registers.
#[inline]
pub fn of_registers(fpga: &Fpga, frame: Frame) -> Option<InterfaceId> {
    let index = frame.addr().0.checked_sub(fpga.registers.get())? / PAGE_SIZE;
    InterfaceId::new(index as usize).filter(|_| index < fpga.interface_count.get().into())
}

/// The frame of a page of an interface's data section. `None`: the section is shorter.
pub fn data_frame(fpga: &Fpga, interface: InterfaceId, page: u64) -> Option<Frame> {
    let section = section(fpga, interface);
    let address = section.first().checked_add(page.checked_mul(PAGE_SIZE)?)?;
    section.transfer(address, PAGE_SIZE).ok().map(frame)
}

fn frame(at: PoolAddr) -> Frame {
    Frame((at.0 >> PAGE_SHIFT) as u32)
}

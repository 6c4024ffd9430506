//! Accelerators whose clients have their memory in a pool.

use motet_layout::{Fpga, Frame, Pool, sync::Ordering};
use motet_protocol::{
    fpga::{self, Fault, InterfaceId, Job, Logic, Section, State, Step, frames, guest},
    memory::frame_record,
};

use crate::{Kind, Memory};

/// The accelerators, and clients' memory in the pool.
#[derive(Clone, Copy)]
pub struct PoolLogic {
    /// The pool.
    pub pool: Pool,
    /// The FPGA in it.
    pub fpga: &'static Fpga,
}

impl PoolLogic {
    fn kind(&self, job: &Job) -> Result<Kind, Fault> {
        Kind::from_raw(self.fpga.accelerators[job.accelerator.index()].kind.get()).ok_or(Fault::Bitstream)
    }

    fn memory_frames(&self, id: InterfaceId) -> impl Iterator<Item = Frame> {
        let pages = (0..).map_while(move |page| frames::data_frame(self.fpga, id, page));
        std::iter::once(frames::registers_frame(self.fpga, id)).chain(pages)
    }
}

impl Logic for PoolLogic {
    fn begin(&self, job: &Job, _: &mut State) -> Result<(), Fault> {
        self.kind(job)?.begin(job)
    }

    fn frame(&self, job: &Job, state: &mut State) -> Result<Step, Fault> {
        let section = fpga::section(self.fpga, job.interface);
        let memory = ClientMemory { pool: self.pool, fpga: self.fpga, interface: job.interface, section };
        self.kind(job)?.frame(job, state, &memory)
    }

    fn is_unmapped(&self, id: InterfaceId) -> bool {
        // References of page tables go when nobody translates to the page any more.
        self.memory_frames(id).all(|frame| frame_record(self.pool, frame).refs.load(Ordering::SeqCst) == 1)
    }

    fn forget(&self, id: InterfaceId) {
        for frame in self.memory_frames(id) {
            self.pool.zero_frame(frame);
        }
    }
}

/// A client's data section, and the memory of its virtual machine, if it is one's.
struct ClientMemory {
    pool: Pool,
    fpga: &'static Fpga,
    interface: InterfaceId,
    section: Section,
}

impl ClientMemory {
    fn guests(&self) -> Result<guest::Transfer<'_>, Fault> {
        guest::begin(self.pool, self.fpga, self.interface).ok_or(Fault::Address)
    }
}

impl Memory for ClientMemory {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        if let Ok(at) = self.section.transfer(at, into.len() as u64) {
            self.pool.read(at, into);
            return Ok(());
        }
        self.guests()?.pieces(at, into.len() as u64, false, |at, piece| self.pool.read(at, &mut into[piece]))
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Fault> {
        if let Ok(at) = self.section.transfer(at, from.len() as u64) {
            self.pool.write(at, from);
            return Ok(());
        }
        self.guests()?.pieces(at, from.len() as u64, true, |at, piece| self.pool.write(at, &from[piece]))
    }
}

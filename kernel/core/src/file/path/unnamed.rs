//! Open files without a name, as nodes: pipes, sockets, counters, whatever only descriptors name.

use core::fmt;

use motet_abi::{
    Errno,
    file::{Device, Stat, Statfs, Timespec},
};
use motet_hal::Machine;
use motet_layout::{FileRecord, PAGE_SIZE};

use super::file_system::FileSystem;
use crate::{
    call::{Call, Stop},
    file::descriptor::description::OpenFile,
    permission::FileRights,
};

/// Device number of files that have no other.
const DEVICE: Device = Device { major: 0, minor: 4 };
/// They are in no tree.
const NOWHERE: u32 = u32::MAX;

/// An open file without a name.
impl<'c, M: Machine> FileSystem<'c, M> for OpenFile<'c, M> {
    fn mode(&self) -> u32 {
        self.facts().mode
    }

    fn mount(&self) -> u32 {
        NOWHERE
    }

    /// Whoever has it open may use it.
    fn check(&self, _call: &Call<M>, _rights: &FileRights, _mask: u32) -> Result<(), Errno> {
        Ok(())
    }

    fn write_name(&self, into: &mut impl fmt::Write) -> Option<fmt::Result> {
        Some(OpenFile::write_name(self, into))
    }

    fn stat(&self, _call: &Call<M>) -> Result<Stat, Stop> {
        let record = self.record();
        let made = Timespec::from_ns(record.made_ns.get());
        Ok(Stat {
            uid: record.uid.get(),
            gid: record.gid.get(),
            accessed: made,
            modified: made,
            changed: made,
            device: DEVICE,
            inode: self.number(),
            mode: self.facts().mode,
            links: 1,
            special: self.device(),
            block_size: PAGE_SIZE as u32,
            ..Stat::default()
        })
    }

    fn statfs(&self, _call: &Call<M>, into: &mut Statfs) -> Result<(), Stop> {
        into.f_type = self.facts().file_system;
        Ok(())
    }

    fn describe(self, _call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Stop> {
        Ok(self.reopen(flags)?)
    }
}

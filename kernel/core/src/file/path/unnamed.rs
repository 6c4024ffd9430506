//! Open files without a name, as nodes: pipes, sockets, counters, whatever only descriptors name.

use core::fmt;

use motet_abi::{
    Errno,
    file::{Device, S_ISGID, S_ISUID, Stat, Statfs, Timespec},
};
use motet_hal::Machine;
use motet_layout::{FileRecord, PAGE_SIZE};

use super::file_system::FileSystem;
use crate::{
    call::{Call, Stop},
    file::descriptor::description::OpenFile,
    permission::{FileRights, GroupId},
};

/// Device number of files that have no other.
const DEVICE: Device = Device { major: 0, minor: 4 };
/// They are in no tree.
const NOWHERE: u32 = u32::MAX;

/// An open file without a name.
impl<'c, M: Machine> FileSystem<'c, M> for OpenFile<'c, M> {
    fn mode(&self) -> u32 {
        mode_and_owner(self).0
    }

    fn mount(&self) -> u32 {
        NOWHERE
    }

    /// Whoever has it open may use it, unless its permissions can be changed.
    fn check(&self, _call: &Call<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
        check_mode(self, rights, mask)
    }

    fn set_mode(&self, call: &Call<M>, mode: u32) -> Result<(), Stop> {
        let attributes = self.attributes().ok_or(Errno::EOPNOTSUPP)?;
        let (rights, (_, [uid, gid])) = (FileRights::of(call.process), mode_and_owner(self));
        if !rights.owns_as(uid) {
            return Err(Errno::EPERM.into());
        }
        attributes.set(rights.without_foreign_group(mode, GroupId(gid)), [uid, gid]);
        Ok(())
    }

    fn set_owner(&self, call: &Call<M>, uid: u32, gid: u32) -> Result<(), Stop> {
        let attributes = self.attributes().ok_or(Errno::EOPNOTSUPP)?;
        let (mode, before) = mode_and_owner(self);
        if !FileRights::of(call.process).gives(before, [uid, gid]) {
            return Err(Errno::EPERM.into());
        }
        let chosen = |before, id| if id == FileRights::UNCHANGED { before } else { id };
        attributes.set(mode & !(S_ISUID | S_ISGID), [chosen(before[0], uid), chosen(before[1], gid)]);
        Ok(())
    }

    fn write_name(&self, into: &mut impl fmt::Write) -> Option<fmt::Result> {
        Some(OpenFile::write_name(self, into))
    }

    fn stat(&self, _call: &Call<M>) -> Result<Stat, Stop> {
        let record = self.record();
        let made = Timespec::from_ns(record.made_ns.get());
        let (mode, [uid, gid]) = mode_and_owner(self);
        Ok(Stat {
            uid,
            gid,
            accessed: made,
            modified: made,
            changed: made,
            device: DEVICE,
            inode: self.number(),
            mode,
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

#[cold]
#[inline(never)]
fn check_mode<M: Machine>(file: &OpenFile<M>, rights: &FileRights, mask: u32) -> Result<(), Errno> {
    let (mode, [uid, gid]) = mode_and_owner(file);
    if file.attributes().is_none() { Ok(()) } else { rights.check_mode(mode, uid, gid, mask) }
}

/// Mode, user and group of an open file without a name. Not inlined, as looks at paths ask all file systems.
#[cold]
#[inline(never)]
fn mode_and_owner<M: Machine>(file: &OpenFile<M>) -> (u32, [u32; 2]) {
    let record = file.record();
    match file.attributes() {
        Some(attributes) => attributes.get(record, file.facts()),
        None => (file.facts().mode, [record.uid.get(), record.gid.get()]),
    }
}

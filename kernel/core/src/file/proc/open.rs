//! Open files of procfs.

use core::fmt::{self, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{FILE_PROC, FileRecord, sync::Ordering};

use super::{
    super::descriptor::position::{own_position, seek_endless},
    ProcNode,
};
use crate::{
    call::{Call, SysResult},
    cpu::Cpu,
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Facts, Kind, Transfer},
    },
};

/// Opens a file of procfs.
///
/// # Errors
/// `ENFILE`.
pub fn open<M: Machine>(cpu: &Cpu<M>, node: ProcNode, flags: u32) -> Result<&'static FileRecord, Errno> {
    // Who has opened it is nowhere to be seen.
    description::create_prepared(cpu, &Parts { kind: FILE_PROC, flags, inode: None, object: node.raw() }, |_| {})
}

/// A file of procfs.
impl Kind for ProcNode {
    const CODES: &'static [u32] = &[FILE_PROC];
    const FACTS: Facts = Facts { has_offsets: true, ..Facts::ANONYMOUS };

    fn of<M: Machine>(_cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        Some(Self::from_raw(file.object.get()))
    }

    fn write_name(self, number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "file:[{number}]")
    }

    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        // Not locked: making the text may take long. Of two readers at once, both may get the same part.
        let (_, position) = own_position(call, file, how.at());
        let read = super::read(call, self, file, position, into)?;
        if how.at().is_none() {
            file.offset.store(position + read, Ordering::Relaxed);
        }
        Ok(read)
    }

    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        _how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        super::write(call, self, from)
    }

    fn seek<M: Machine>(self, call: &Call<M>, file: &FileRecord, to: (i64, u32)) -> SysResult {
        seek_endless(call, file, to)
    }
}

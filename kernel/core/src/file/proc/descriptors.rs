//! Descriptors of processes: `/proc/PID/fd` and `fdinfo`.

use core::fmt::{self, Write};

use motet_abi::file::{O_CLOEXEC, O_LARGEFILE, open_flags_for};
use motet_hal::Machine;
use motet_layout::{FilesRecord, sync::Ordering};
use motet_protocol::{Context, hand};

use super::{
    super::{descriptor::table, path::node::Node},
    Entry as E, ProcNode, Text, with_thread,
};
use crate::{call::Call, cpu::Cpu};

/// What is in a directory that has an entry for each descriptor.
pub fn in_directory(dir: ProcNode) -> E {
    if dir.entry == E::ProcessFd { E::ProcessFdLink } else { E::ProcessFdinfoOf }
}

/// What is known of a descriptor: position, flags, mount and inode of its open file, and what its kind says.
pub fn show<M: Machine>(call: &Call<M>, node: ProcNode, out: &mut Text<M>) -> fmt::Result {
    let Some(files) = FilesOf::new(call.cpu, node.id) else { return Ok(()) };
    let Ok(file) = table::get_from(call.cpu, files.files, node.fd as i32) else { return Ok(()) };
    let closes = table::is_closed_on_exec(call.cpu, files.files, node.fd as i32);
    let flags = open_flags_for(call.isa, file.flags() | O_LARGEFILE | if closes { O_CLOEXEC } else { 0 });
    let number = file.inode().map_or_else(|| file.number(), |inode| inode.number.get());
    // As `mountinfo` numbers them; 0: it is on none.
    let mount = Node::opened_from(call.cpu, &file).map_or(0, |node| node.mount() + 1);
    let position = file.offset.load(Ordering::Relaxed);
    write!(out, "pos:\t{position}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{number}\n")?;
    file.write_info(out)
}

/// The descriptor table of any process, kept for the time of this value.
pub struct FilesOf<'c, M: Machine> {
    cpu: &'c Cpu<M>,
    pub files: &'static FilesRecord,
}

impl<'c, M: Machine> FilesOf<'c, M> {
    pub fn new(cpu: &'c Cpu<M>, id: u32) -> Option<Self> {
        with_thread(cpu, id, |_, process| {
            // A process that ends gives its table up under the tree lock.
            let files = cpu.object::<FilesRecord>(process.files.load(Ordering::Relaxed))?;
            hand::take(cpu, files);
            Some(Self { cpu, files })
        })?
    }
}

impl<M: Machine> Drop for FilesOf<'_, M> {
    fn drop(&mut self) {
        table::release(self.cpu, self.files);
    }
}

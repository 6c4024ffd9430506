//! What is mounted: `/proc/filesystems`, `mounts` and `mountinfo` of processes.

use core::fmt::{Result as FmtResult, Write};

use motet_hal::Machine;

use super::{
    super::path::{
        absolute::path_below,
        file_system::Root,
        mount,
        node::{self, Node},
    },
    text::Text,
    with_thread,
};
use crate::call::{Call, PATH_MAX};

/// What separates words, or is written in its place.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\\'];

/// All file systems, of which none has a medium.
pub fn file_systems<M: Machine>(out: &mut Text<M>) -> FmtResult {
    Node::<M>::roots().try_for_each(|root| writeln!(out, "nodev\t{}", root.name))
}

/// `mounts`: source, place, kind and options, and two numbers for programs that do not run here.
pub fn mounts<M: Machine>(call: &Call<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    each_seen(call, id, |root, place| {
        write!(out, "{} ", root.name)?;
        write_place(place, out)?;
        writeln!(out, " {} rw 0 0", root.name)
    })
}

/// `mountinfo`: numbers of the mount and the one it is on, device, root in it, place; then kind, source and options.
pub fn mountinfo<M: Machine>(call: &Call<M>, id: u32, out: &mut Text<M>) -> FmtResult {
    each_seen(call, id, |root, place| {
        let below = mount::covered(call.cpu, root.mount).map_or(root.mount, |covered| covered.mount());
        let (major, minor) = (root.device.major, root.device.minor);
        write!(out, "{} {} {major}:{minor} / ", root.mount + 1, below + 1)?;
        write_place(place, out)?;
        writeln!(out, " rw - {0} {0} rw", root.name)
    })
}

/// Calls `each` with what is mounted where a process reaches it, and with the path by which it does.
fn each_seen<M: Machine>(call: &Call<M>, id: u32, mut each: impl FnMut(&Root, &[u8]) -> FmtResult) -> FmtResult {
    let cpu = call.cpu;
    let Some(top) = with_thread(cpu, id, |_, process| node::load(cpu, &process.root)) else { return Ok(()) };
    let mut bytes = [0; PATH_MAX];
    for root in mount::all(cpu) {
        let mounted = Node::covering(cpu, root.mount).unwrap_or_else(|| Node::file_system_root(cpu));
        if let Ok(Some(place)) = path_below(call, &mounted, &top, &mut bytes) {
            each(root, place)?;
        }
    }
    Ok(())
}

/// A path in which blanks are as Linux writes them.
fn write_place<M: Machine>(place: &[u8], out: &mut Text<M>) -> FmtResult {
    for chunk in place.utf8_chunks() {
        for piece in chunk.valid().split_inclusive(BLANKS) {
            match piece.chars().last().filter(|last| BLANKS.contains(last)) {
                Some(blank) => write!(out, "{}\\{:03o}", &piece[..piece.len() - 1], u32::from(blank))?,
                None => out.write_str(piece)?,
            }
        }
        // Linux writes them as they are, but this is a text.
        chunk.invalid().iter().try_for_each(|byte| write!(out, "\\{byte:03o}"))?;
    }
    Ok(())
}

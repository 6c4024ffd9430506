//! What is mounted: `/proc/filesystems`, `mounts` and `mountinfo` of processes.

use core::fmt::{Result as FmtResult, Write};

use motet_hal::Machine;

use super::{
    super::{mount, node::Node, path_text::whole_path_of},
    text::Text,
};
use crate::call::{Call, PATH_MAX};

/// What separates words, or is written in its place.
const BLANKS: [char; 4] = [' ', '\t', '\n', '\\'];

/// All file systems, of which none has a medium.
pub fn file_systems<M: Machine>(out: &mut Text<M>) -> FmtResult {
    Node::<M>::roots().try_for_each(|root| writeln!(out, "nodev\t{}", root.name))
}

/// `mounts`: source, place, kind and options, and two numbers for programs that do not run here.
pub fn mounts<M: Machine>(call: &Call<M>, out: &mut Text<M>) -> FmtResult {
    mount::all(call.cpu).try_for_each(|(root, covered)| {
        write!(out, "{} ", root.name)?;
        write_place(call, covered.as_ref(), out)?;
        writeln!(out, " {} rw 0 0", root.name)
    })
}

/// `mountinfo`: numbers of the mount and the one it is on, device, root in it, place; then kind, source and options.
pub fn mountinfo<M: Machine>(call: &Call<M>, out: &mut Text<M>) -> FmtResult {
    mount::all(call.cpu).try_for_each(|(root, covered)| {
        let below = covered.as_ref().map_or(root.mount, Node::mount);
        let (major, minor) = (root.device.major, root.device.minor);
        write!(out, "{} {} {major}:{minor} / ", root.mount + 1, below + 1)?;
        write_place(call, covered.as_ref(), out)?;
        writeln!(out, " rw - {0} {0} rw", root.name)
    })
}

/// Where a mount is; blanks as Linux writes them.
fn write_place<'c, M: Machine>(call: &Call<'c, M>, covered: Option<&Node<'c, M>>, out: &mut Text<M>) -> FmtResult {
    let mut bytes = [0; PATH_MAX];
    let place = covered.map_or(Ok(&b"/"[..]), |covered| whole_path_of(call, covered, &mut bytes));
    for chunk in place.unwrap_or(b"?").utf8_chunks() {
        for piece in chunk.valid().split_inclusive(BLANKS) {
            match piece.chars().last().filter(|last| BLANKS.contains(last)) {
                Some(blank) => write!(out, "{}\\{:03o}", &piece[..piece.len() - 1], u32::from(blank))?,
                None => out.write_str(piece)?,
            }
        }
    }
    Ok(())
}

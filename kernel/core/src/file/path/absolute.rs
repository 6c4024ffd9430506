//! Absolute paths of nodes.

use motet_abi::Errno;
use motet_hal::Machine;

use super::{
    mount,
    node::{self, Node},
    text::PathText,
};
use crate::call::{Call, PATH_MAX};

/// What stands before a path to which the caller's root does not lead (getcwd(2)), so that it is not taken for one that does.
const UNREACHABLE: &[u8] = b"(unreachable)";

/// The absolute path of a file. (Of several names of a file that is no directory, one; others are not known.)
///
/// # Errors
/// `ENAMETOOLONG`; `ENOENT` when it, or a directory above, was removed.
pub fn path_of<'b, 'c, M: Machine>(
    call: &Call<'c, M>,
    node: &Node<'c, M>,
    into: &'b mut [u8; PATH_MAX],
) -> Result<&'b [u8], Errno> {
    seen_by_caller(call, node, PathText::new(into, false))
}

/// As [`path_of`], for those who only want to be told: of what was removed the path that it had, with ` (deleted)` behind it.
///
/// # Errors
/// `ENAMETOOLONG`; `ENOENT` when the path is not known.
pub fn path_or_last<'b, 'c, M: Machine>(
    call: &Call<'c, M>,
    node: &Node<'c, M>,
    into: &'b mut [u8; PATH_MAX],
) -> Result<&'b [u8], Errno> {
    seen_by_caller(call, node, PathText::new(into, true))
}

/// As [`path_of`], from a root that may be another than the caller's; `None`: it does not lead there.
///
/// # Errors
/// As [`path_of`].
pub fn path_below<'b, 'c, M: Machine>(
    call: &Call<'c, M>,
    node: &Node<'c, M>,
    root: &Node<'c, M>,
    into: &'b mut [u8; PATH_MAX],
) -> Result<Option<&'b [u8]>, Errno> {
    let mut text = PathText::new(into, false);
    let is_below = add(&mut text, call, node, root)?;
    Ok(is_below.then(|| text.finish()))
}

fn seen_by_caller<'b, 'c, M: Machine>(
    call: &Call<'c, M>,
    node: &Node<'c, M>,
    mut text: PathText<'b>,
) -> Result<&'b [u8], Errno> {
    let root = node::of_process(call, |process| &process.root);
    if !add(&mut text, call, node, &root)? {
        text.prepend(UNREACHABLE)?;
    }
    Ok(text.finish())
}

/// Adds to a text what leads from `root` to a node. `false`: the way up does not come by `root`, and ends above all.
fn add<'c, M: Machine>(
    text: &mut PathText,
    call: &Call<'c, M>,
    node: &Node<'c, M>,
    root: &Node<'c, M>,
) -> Result<bool, Errno> {
    let mut at = node.clone();
    let mut is_reached = at.prepend_path(call, root, text)?;
    while !is_reached && let Some(covered) = mount::cross_up(call.cpu, &at) {
        at = covered;
        is_reached = at.prepend_path(call, root, text)?;
    }
    if text.is_empty() {
        text.prepend(b"/")?;
    }
    Ok(is_reached)
}

//! The device tree as it is passed on: without what is the firmware's.

use dtoolkit::{
    Node, Property,
    fdt_mut::{FdtMut, SliceBuffer},
};

use crate::{FIRMWARE, board};

/// Bytes that changes may add to a device tree.
pub const GROWTH: usize = 1024;

/// Takes the firmware's memory out of the tree's, and marks interrupt controllers of machine level as disabled. The tree may
/// grow to the end of the slice.
///
/// # Errors
/// What is wrong with the tree.
pub fn hide_firmware(tree: &mut [u8]) -> Result<(), &'static str> {
    let mut tree = FdtMut::from_slice(tree).map_err(|_| "the device tree is not valid")?;
    shorten_memory(&mut tree)?;
    while disable_one(&mut tree)? {}
    Ok(())
}

/// The range that begins with the firmware begins behind it.
fn shorten_memory(tree: &mut FdtMut<SliceBuffer<'_>>) -> Result<(), &'static str> {
    let mut root = tree.root_mut();
    let mut nodes = root.children_mut();
    while let Some(mut node) = nodes.next() {
        if node.name_without_address() != "memory" {
            continue;
        }
        let reg = node.as_read_only().property("reg").and_then(|reg| reg.value_as::<&[u8]>().ok());
        let Some([start, len]) = reg.and_then(|reg| <&[u8; 16]>::try_from(reg).ok()).map(two_numbers) else { continue };
        if start == FIRMWARE.start && len > FIRMWARE.len {
            let shorter = [FIRMWARE.end(), len - FIRMWARE.len].map(u64::to_be_bytes);
            let mut reg = node.property_mut("reg").expect("it was read");
            return reg.set_value(shorter.as_flattened()).map_err(|_| "the device tree cannot be changed");
        }
    }
    Err("no memory begins where the firmware is")
}

fn two_numbers(bytes: &[u8; 16]) -> [u64; 2] {
    let number = |at: usize| u64::from_be_bytes(core::array::from_fn(|index| bytes[at + index]));
    [number(0), number(8)]
}

/// Marks one interrupt controller, and tells whether it did. A change moves what follows, so each begins anew.
fn disable_one(tree: &mut FdtMut<SliceBuffer<'_>>) -> Result<bool, &'static str> {
    let mut root = tree.root_mut();
    let Some(mut soc) = root.child_mut("soc") else { return Ok(false) };
    let mut nodes = soc.children_mut();
    while let Some(mut node) = nodes.next() {
        let own = board::is_root_aplic(node.as_read_only()) || board::is_machine_imsic(node.as_read_only());
        if own && node.as_read_only().property("status").is_none() {
            node.add_property("status", "disabled").map_err(|_| "no room behind the device tree")?;
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, Range};
    use dtoolkit::fdt::Fdt;

    const SOCKETS: &[u8] = include_bytes!("../testdata/virt-aia-sockets.dtb");

    fn hidden(tree: &[u8], growth: usize) -> Result<Vec<u8>, &'static str> {
        let mut tree = tree.to_vec();
        let fdt = Fdt::new(&tree).unwrap();
        let len = fdt.data().len();
        tree.resize(len, 0);
        tree.resize(len + growth, 0xff);
        hide_firmware(&mut tree)?;
        let [_, _, _, _, length @ .., _, _, _, _] = *tree.first_chunk::<12>().unwrap();
        tree.truncate(u32::from_be_bytes(length) as usize);
        Ok(tree)
    }

    #[test]
    fn the_firmwares_memory_is_not_the_supervisors() {
        let tree = hidden(SOCKETS, GROWTH).unwrap();
        let fdt = Fdt::new(&tree).unwrap();
        let memory: Vec<_> = fdt.root().children().filter(|node| node.name_without_address() == "memory").collect();
        assert_eq!(memory.len(), 2);
        let board = Board::parse(fdt).unwrap();
        assert_eq!(board.memory_end(FIRMWARE.end() - 1), None);
        assert!(board.is_open(Range { start: FIRMWARE.end(), len: 0x7e0_0000 }));
    }

    #[test]
    fn controllers_of_machine_level_are_disabled_and_others_are_not() {
        let tree = hidden(SOCKETS, GROWTH).unwrap();
        let fdt = Fdt::new(&tree).unwrap();
        let soc = fdt.root().child("soc").unwrap();
        let disabled: Vec<_> = soc
            .children()
            .filter(|node| {
                let status = node.property("status");
                status.is_some_and(|status| status.value_as::<&str>() == Ok("disabled"))
            })
            .map(|node| node.name().to_owned())
            .collect();
        let wanted = ["c000000", "c008000", "24000000"].map(|address| format!("interrupt-controller@{address}"));
        assert_eq!(disabled, wanted);
    }

    #[test]
    fn a_tree_that_cannot_grow_is_refused() {
        assert_eq!(hidden(SOCKETS, 4), Err("no room behind the device tree"));
        assert!(hide_firmware(&mut [0; 64]).is_err());
    }
}

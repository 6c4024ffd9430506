//! The device tree as the firmware passes it on: without the parts that belong to the firmware.

use dtoolkit::{
    Node, Property,
    fdt::FdtNode,
    fdt_mut::{FdtMut, FdtNodeMut, SliceBuffer},
    standard::NodeStandard,
};

use crate::{
    FIRMWARE, board,
    hart::{HartId, HartSet},
    vector,
};

/// Bytes that changes may add to a device tree.
pub const GROWTH: usize = 1024;

const NO_ROOM: &str = "no room behind the device tree";
/// Longest list of a hart's extensions.
const EXTENSIONS_LEN_MAX: usize = 4096;

/// Takes the firmware's memory out of the tree's, and marks interrupt controllers of machine level as disabled. Where harts are
/// hidden, these are disabled, too, the others have no vector registers, and the machine ends by calls of the firmware only, so
/// that it can say what became of threads. The tree may grow to the end of the slice.
///
/// # Errors
/// What is wrong with the tree.
pub fn hide_firmware(tree: &mut [u8], hidden: HartSet) -> Result<(), &'static str> {
    let mut tree = FdtMut::from_slice(tree).map_err(|_| "the device tree is not valid")?;
    shorten_memory(&mut tree)?;
    while disable_one(&mut tree)? {}
    if hidden != HartSet::default() {
        while change_one_hart(&mut tree, hidden)? {}
        while disable_one_end(&mut tree)? {}
    }
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
    let Some(soc) = root.child_mut("soc") else { return Ok(false) };
    disable_first(soc, |node| board::is_root_aplic(node) || board::is_machine_imsic(node))
}

/// Marks one device that ends the machine, as above.
fn disable_one_end(tree: &mut FdtMut<SliceBuffer<'_>>) -> Result<bool, &'static str> {
    disable_first(tree.root_mut(), |node| node.is_compatible("syscon-poweroff") || node.is_compatible("syscon-reboot"))
}

/// Marks the first child that is such a node, and not marked yet.
fn disable_first(
    mut parent: FdtNodeMut<'_, SliceBuffer<'_>>,
    is_such: impl Fn(FdtNode<'_>) -> bool,
) -> Result<bool, &'static str> {
    let mut nodes = parent.children_mut();
    while let Some(mut node) = nodes.next() {
        if is_such(node.as_read_only()) && node.as_read_only().property("status").is_none() {
            node.add_property("status", "disabled").map_err(|_| NO_ROOM)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Disables a hidden hart, or takes vectors out of one of another hart's two lists; whether there was one.
fn change_one_hart(tree: &mut FdtMut<SliceBuffer<'_>>, hidden: HartSet) -> Result<bool, &'static str> {
    let mut root = tree.root_mut();
    let Some(mut cpus) = root.child_mut("cpus") else { return Ok(false) };
    let mut nodes = cpus.children_mut();
    while let Some(mut node) = nodes.next() {
        if node.name_without_address() != "cpu" {
            continue;
        }
        if board::hart_id(node.as_read_only()).is_some_and(|hart: HartId| hidden.contains(hart)) {
            let status = node.as_read_only().property("status").and_then(|status| status.value_as::<&str>().ok());
            if status == Some("disabled") {
                continue;
            }
            match node.property_mut("status") {
                Some(mut status) => status.set_value("disabled").map_err(|_| NO_ROOM)?,
                None => node.add_property("status", "disabled").map(|_| ()).map_err(|_| NO_ROOM)?,
            }
            return Ok(true);
        }
        for (name, strip) in [("riscv,isa-extensions", strip_list as Strip), ("riscv,isa", strip_string)] {
            let Some(mut property) = node.property_mut(name) else { continue };
            let mut kept = [0; EXTENSIONS_LEN_MAX];
            let old = property.as_read_only().value_as::<&[u8]>().unwrap_or(&[]);
            if old.len() > kept.len() {
                return Err("a hart has more extensions than the firmware can read");
            }
            let (old_len, len) = (old.len(), strip(old, &mut kept));
            if len != old_len {
                property.set_value(&kept[..len]).map_err(|_| NO_ROOM)?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Writes what remains of a list, and answers its length.
type Strip = fn(&[u8], &mut [u8]) -> usize;

/// Extensions of vectors go out of a list of strings.
fn strip_list(old: &[u8], kept: &mut [u8]) -> usize {
    let names = old.split_inclusive(|byte| *byte == 0);
    let others = names.filter(|name| !vector::needs_vectors(name.strip_suffix(&[0]).unwrap_or(name)));
    append(kept, others)
}

/// Extensions of vectors go out of a string such as `rv64imafdcv_zicsr_zve64d`.
fn strip_string(old: &[u8], kept: &mut [u8]) -> usize {
    let text = old.strip_suffix(&[0]).unwrap_or(old);
    let base = text.split(|byte| *byte == b'_').next().unwrap_or(&[]);
    // "rv64" has this letter, too.
    let letters = base.chunks(1).enumerate().filter(|(index, letter)| *index < 4 || **letter != [b'v']);
    let (_, long) = text.split_at(base.len());
    let long = long.split(|byte| *byte == b'_').skip(1).filter(|name| !vector::needs_vectors(name));
    let long = long.flat_map(|name| [&b"_"[..], name]);
    let end = &old[text.len()..];
    append(kept, letters.map(|(_, letter)| letter).chain(long).chain([end]))
}

/// What is appended is never longer than the room: it is a part of something that fits.
fn append<'a>(kept: &mut [u8], parts: impl Iterator<Item = &'a [u8]>) -> usize {
    parts.fold(0, |len, part| {
        kept[len..len + part.len()].copy_from_slice(part);
        len + part.len()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::{Board, Range};
    use dtoolkit::fdt::Fdt;

    const SOCKETS: &[u8] = include_bytes!("../testdata/virt-aia-sockets.dtb");

    const VECTORS: &[u8] = include_bytes!("../testdata/virt-vectors.dtb");

    fn hidden(tree: &[u8], growth: usize) -> Result<Vec<u8>, &'static str> {
        hidden_with(tree, growth, HartSet::default())
    }

    fn hidden_with(tree: &[u8], growth: usize, harts: HartSet) -> Result<Vec<u8>, &'static str> {
        let mut tree = tree.to_vec();
        let fdt = Fdt::new(&tree).unwrap();
        let len = fdt.data().len();
        tree.resize(len, 0);
        tree.resize(len + growth, 0xff);
        hide_firmware(&mut tree, harts)?;
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
    fn hidden_harts_are_disabled_and_the_others_have_no_vectors() {
        let tree = hidden_with(VECTORS, GROWTH, HartSet(0b100)).unwrap();
        let board = Board::parse(Fdt::new(&tree).unwrap()).unwrap();
        assert_eq!(board.harts, HartSet(0b011));
        let fdt = Fdt::new(&tree).unwrap();
        let before = Fdt::new(VECTORS).unwrap();
        let lists = |fdt: &Fdt<'_>, name: &str| {
            let cpus = fdt.root().child("cpus").unwrap();
            let text = |name: &str, property: &str| {
                let value = cpus.child(name).unwrap().property(property).unwrap();
                String::from_utf8(value.value_as::<&[u8]>().unwrap().to_vec()).unwrap()
            };
            ["riscv,isa-extensions", "riscv,isa"].map(|property| text(name, property))
        };
        for name in ["cpu@0", "cpu@1"] {
            let [list, string] = lists(&fdt, name);
            let [old_list, old_string] = lists(&before, name);
            assert!(old_list.contains("\0v\0") && old_string.contains("_zve64d_"));
            let kept: Vec<_> = old_list.split('\0').filter(|name| *name != "v" && !name.starts_with("zv")).collect();
            assert_eq!(list.split('\0').collect::<Vec<_>>(), kept);
            assert!(
                string.starts_with("rv64imafdch_zic") && !string.contains("_zv") && string.ends_with("\0"),
                "{string}"
            );
            assert_eq!(string.split('_').count(), kept.iter().filter(|name| name.len() > 1).count() + 1);
        }
    }

    #[test]
    fn without_hidden_harts_all_keep_their_vectors() {
        let tree = hidden(VECTORS, GROWTH).unwrap();
        assert!(Board::parse(Fdt::new(&tree).unwrap()).unwrap().hart(HartId::new(0).unwrap()).unwrap().has_vectors);
    }

    #[test]
    fn a_tree_that_cannot_grow_is_refused() {
        assert_eq!(hidden(SOCKETS, 4), Err("no room behind the device tree"));
        assert!(hide_firmware(&mut [0; 64], HartSet::default()).is_err());
    }
}

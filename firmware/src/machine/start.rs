//! Starting: the hart that boots reads the device tree, sets the board up, and is the first to enter S-mode; the others wait
//! until somebody starts them.

use core::{ptr::with_exposed_provenance_mut, slice};

use dtoolkit::fdt::Fdt;
use motet_firmware::{
    FIRMWARE,
    board::{Board, Range},
    dynamic,
    hart::HartId,
    option,
    state::Launch,
    tree,
};

use super::{BOARD, Hardware, SHARED, csr, devices, hart, trap::refuse, travel};

/// Largest device tree.
const TREE_LEN_MAX: u64 = 1 << 20;

/// The hart that boots, with what QEMU's reset code passes in `a1` and `a2`.
#[unsafe(no_mangle)]
extern "C" fn motet_firmware_boot(_hart: usize, tree: u64, next: u64) {
    let result = next_stage(next).and_then(|address| {
        let board = read_board(tree)?;
        devices::set_serial(board.serial);
        // An instruction at least.
        if !board.is_open(Range { start: address, len: 4 }) {
            return Err("the next stage does not lie in memory behind the firmware");
        }
        board.aplics().for_each(devices::delegate);
        let _ = BOARD.0.set(board);
        Ok(address)
    });
    let address = result.unwrap_or_else(|reason| refuse(reason));
    let hardware = Hardware::own();
    if hardware.board.hart(hardware.own).is_none() {
        refuse("the device tree does not have the hart that boots");
    }
    hart::set_up(&hardware);
    travel::set_up(hardware.board);
    let Board { harts, hidden, .. } = hardware.board;
    // A hidden hart that came first lets another one boot.
    let boots = if hidden.contains(hardware.own) { harts.iter().next() } else { Some(hardware.own) };
    let boots = boots.unwrap_or_else(|| refuse("no hart is left for the next stage"));
    let harts = harts.iter().count();
    let id = boots.index();
    match hidden.iter().count() {
        0 => devices::say(format_args!("{harts} harts, hart {id} boots, next stage at {address:#x}")),
        hidden => {
            devices::say(format_args!("{harts} harts and {hidden} hidden, hart {id} boots, next stage at {address:#x}"))
        }
    }
    SHARED.states.start(boots, Launch { address, argument: tree }).expect("all harts are stopped at first");
}

/// Every other hart.
#[unsafe(no_mangle)]
extern "C" fn motet_firmware_join() {
    let own = HartId::new(csr::read!("mhartid") as usize);
    // Those that the device tree does not have are not to be used.
    if own.is_none_or(|own| super::board().is_none_or(|board| board.hart(own).is_none())) {
        hart::park();
    }
    let hardware = Hardware::own();
    hart::set_up(&hardware);
}

fn next_stage(address: u64) -> Result<u64, &'static str> {
    const NONE: &str = "no description of the next stage: start QEMU with -kernel";
    if address == 0 || address % 8 != 0 {
        return Err(NONE);
    }
    let words = with_exposed_provenance_mut::<[u64; dynamic::WORDS]>(address as usize);
    // SAFETY: QEMU's reset code passes such a structure in ROM; the entry has read its first word already.
    dynamic::next_stage(unsafe { words.read_volatile() })
}

/// Reads the device tree, and takes out of it what is the firmware's.
fn read_board(address: u64) -> Result<Board, &'static str> {
    const INVALID: &str = "no valid device tree was passed";
    if address == 0 || address % 8 != 0 {
        return Err(INVALID);
    }
    let bytes = with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: QEMU passes a device tree; its magic and length are checked before the rest is read. It is in memory that is
    // nobody else's yet.
    let original = unsafe {
        let [magic @ .., l0, l1, l2, l3] = bytes.cast::<[u8; 8]>().read();
        let len = u32::from_be_bytes([l0, l1, l2, l3]);
        if magic != [0xd0, 0x0d, 0xfe, 0xed] || u64::from(len) > TREE_LEN_MAX {
            return Err(INVALID);
        }
        slice::from_raw_parts(bytes, len as usize)
    };
    let mut board = Board::parse(Fdt::new(original).map_err(|_| INVALID)?)?;
    if let Some(device) = board.configuration {
        board.hide(option::hidden_harts(&mut devices::Configuration(device))?)?;
    }
    let len = original.len() as u64;
    let room = board.memory_end(address).map_or(len, |end| (end - address).min(len + tree::GROWTH as u64));
    if room < len || FIRMWARE.overlaps(Range { start: address, len: room }) {
        return Err("the device tree lies in the firmware's memory, or leaves it");
    }
    // SAFETY: as above; `original` is not used any more, and what follows it to the end of memory is free.
    tree::hide_firmware(unsafe { slice::from_raw_parts_mut(bytes, room as usize) }, board.hidden)?;
    Ok(board)
}

//! What the device tree says.

use core::slice;

use dtoolkit::{
    Node, Property,
    fdt::{Fdt, FdtNode},
};

use crate::{Masked, accelerator::Accelerator, cores, fail, isa, masked};

/// Largest device tree.
const LEN_MAX: usize = 1 << 20;
/// Most accelerators that are looked for.
const ACCELERATORS_MAX: usize = 8;
const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];

/// How the guest was started.
#[derive(Clone, Copy, Debug)]
pub struct Boot {
    /// RISC-V: the hart's id. AArch64: 0.
    pub hart: usize,
    /// `/chosen/bootargs`, or nothing.
    pub arguments: &'static str,
    cores: [u64; cores::MAX],
    core_count: usize,
    accelerators: [Option<Accelerator>; ACCELERATORS_MAX],
}

impl Boot {
    /// Ids of the cores besides the one that boots.
    #[must_use]
    pub fn other_cores(&self) -> &[u64] {
        &self.cores[..self.core_count]
    }

    /// The accelerators that there are.
    pub fn accelerators(&self) -> impl Iterator<Item = Accelerator> {
        self.accelerators.iter().flatten().copied()
    }

    /// What an argument `name=value` says.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<&'static str> {
        let mut words = self.arguments.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(this, _)| *this == name).map(|(_, value)| value)
    }

    /// The number that an argument `name=value` has, or `default` without it; ends the guest if it is none.
    #[must_use]
    pub fn number(&self, name: &str, default: u64) -> u64 {
        let number = |value: &str| value.parse().unwrap_or_else(|_| fail(format_args!("bad argument: {name}={value}")));
        self.argument(name).map_or(default, number)
    }
}

static FREQUENCY: Masked<u64> = Masked::new(0);

pub fn frequency() -> u64 {
    masked(|mask| FREQUENCY.with(mask, |frequency| *frequency))
}

/// Reads the device tree at an address; AArch64's boot protocol has none for ELF files, whose tree is where memory begins.
pub fn read(hart: usize, address: usize) -> Result<Boot, &'static str> {
    let address = if address == 0 { isa::RAM } else { address };
    let start = core::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: there is memory, and the boot protocol has a device tree there or (so it is looked at) nothing.
    let header = unsafe { slice::from_raw_parts(start, 8) };
    let len = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
    if header[..4] != MAGIC || len > LEN_MAX {
        return Err("there is no device tree");
    }
    // SAFETY: the tree is as long as it says, and nobody writes there.
    let tree = Fdt::new(unsafe { slice::from_raw_parts(start, len) }).map_err(|_| "the device tree is malformed")?;
    let number = |path, name| {
        let property = tree.find_node(path)?.property(name)?;
        property.value_as::<u32>().ok()
    };
    let frequency = isa::frequency().or_else(|| number("/cpus", "timebase-frequency").map(u64::from));
    let frequency = frequency.filter(|it| *it != 0).ok_or("the device tree does not say how fast the clock is")?;
    masked(|mask| FREQUENCY.with(mask, |it| *it = frequency));
    let arguments = tree.find_node("/chosen").and_then(|chosen| chosen.property("bootargs"));
    let arguments = arguments.and_then(|property| property.value_as::<&'static str>().ok()).unwrap_or("");
    let accelerators = [None; ACCELERATORS_MAX];
    let mut boot = Boot { hart, arguments, cores: [0; cores::MAX], core_count: 0, accelerators };
    let nodes = tree.find_node("/soc").into_iter().flat_map(|node| node.children());
    nodes.filter_map(accelerator).zip(&mut boot.accelerators).for_each(|(one, slot)| *slot = Some(one));
    let own = isa::own_core(hart);
    for node in tree.find_node("/cpus").into_iter().flat_map(|node| node.children()) {
        let text = |name| node.property(name).and_then(|property| property.value_as::<&'static str>().ok());
        let id = node.reg().ok().flatten().and_then(|mut reg| reg.next()).and_then(|reg| reg.address::<u64>().ok());
        let is_other = text("device_type") == Some("cpu") && text("status").is_none_or(|status| status == "okay");
        if let Some(id) = id.filter(|id| is_other && *id != own)
            && boot.core_count + 1 < cores::MAX
        {
            boot.cores[boot.core_count] = id;
            boot.core_count += 1;
        }
    }
    Ok(boot)
}

/// The accelerator that a node describes: its registers, and its data section.
fn accelerator(node: FdtNode<'static>) -> Option<Accelerator> {
    let text = |name| node.property(name).and_then(|property| property.value_as::<&'static str>().ok());
    if text("compatible") != Some("motet,accelerator") {
        return None;
    }
    let mut ranges = node.reg().ok().flatten()?;
    let mut range = || -> Option<(usize, usize)> {
        let range = ranges.next()?;
        Some((range.address::<u64>().ok()? as usize, range.size::<u64>().ok()? as usize))
    };
    let ((registers, _), (data, data_len)) = (range()?, range()?);
    let interrupt = node.property("interrupts").and_then(|property| isa::interrupt_number(property.value()));
    Some(Accelerator { function: text("motet,function")?, registers, data, data_len, interrupt })
}

//! The interrupt controller of a guest on AArch64: a GICv3 with one security state, ids 0 to 95, without messages (Arm IHI 0069).
//!
//! A core of the guest acknowledges and ends interrupts by itself, in the list registers of the core that runs it. Before it runs, [`load`] puts its
//! interrupts there; afterwards, [`store`] takes them back. All else is here: the lines of devices ([`set_line`]), the registers of the distributor and
//! the redistributors, which the guest's operating system writes, and interrupts from core to core. A function that makes an interrupt
//! pending returns the cores that have one now ([`Cores`]): such a core has to stop and be loaded again if it runs, and to wake if it
//! waits.
//!
//! Level-triggered interrupts make the guest stop when it ends them, because their device may still raise the line. So do all interrupts, if there are more than
//! list registers.

mod registers;

pub use registers::{distributor_read, distributor_write, redistributor_read, redistributor_write};

use motet_layout::{
    Cell32, GUEST_GIC_BANK, GUEST_GIC_BANKS, GUEST_GIC_CORES, GuestGic, GuestGicBank, GuestSystem,
    aarch64_guest::{INTERRUPT_CONTROL, LIST, LIST_LEN},
};

/// Interrupt ids that there are.
pub const INTERRUPTS: u32 = ((GUEST_GIC_BANKS + 1) * GUEST_GIC_BANK) as u32;
/// The first id of interrupts that the cores share.
pub const FIRST_SHARED: u32 = GUEST_GIC_BANK as u32;
/// Bytes of registers: of the distributor, and of each core's redistributor.
pub const DISTRIBUTOR_LEN: u64 = 0x1_0000;
/// See [`DISTRIBUTOR_LEN`].
pub const REDISTRIBUTOR_LEN: u64 = 0x2_0000;

/// A list register (`ICH_LR<n>_EL2`).
const LIST_PENDING: u64 = 1 << 62;
const LIST_ACTIVE: u64 = 1 << 63;
const LIST_GROUP_1: u64 = 1 << 60;
const LIST_PRIORITY: u32 = 48;
const LIST_TELL_END: u64 = 1 << 41;
/// ICH_VMCR_EL2: group 1 is enabled at the core, group 0 is; the priority mask.
const CORE_GROUP_1: u64 = 2;
const CORE_GROUP_0: u64 = 1;
const CORE_PRIORITY: u32 = 24;

/// Cores of the guest, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Cores(pub u32);

/// Resets the controller, for a guest with `cores` cores: all interrupts are off, of group 0 and not pending.
///
/// # Panics
/// More than [`GUEST_GIC_CORES`].
pub fn reset(gic: &GuestGic, cores: usize) {
    assert!((1..=GUEST_GIC_CORES).contains(&cores), "{cores} cores");
    gic.cores.set(cores as u32);
    gic.groups.set(0);
    gic.awake.set(0);
    for bank in gic.private.iter().chain(&gic.shared) {
        let words = [&bank.group, &bank.enabled, &bank.latched, &bank.line, &bank.active, &bank.edge, &bank.listed];
        words.into_iter().chain(&bank.priority).for_each(|word| word.set(0));
    }
    // SGIs are edges.
    gic.private.iter().for_each(|bank| bank.edge.set(0xffff));
    gic.routes.iter().for_each(|route| route.set(0));
}

/// Raises or lowers a device's line for interrupt `id` (of core `core`, if it is a core's own). An edge-triggered interrupt is pending from the
/// moment that the line is raised. Unknown ids are ignored.
pub fn set_line(gic: &GuestGic, core: usize, id: u32, asks: bool) -> Cores {
    change(gic, || {
        let Some((bank, bit)) = find(gic, core, id) else { return };
        let rises = asks && bank.line.get() & bit == 0;
        set(&bank.line, bit, asks);
        if rises && bank.edge.get() & bit != 0 {
            set(&bank.latched, bit, true);
        }
    })
}

/// Sends interrupts to other cores, as a core's write of ICC_SGI1R_EL1 says.
pub fn software_interrupt(gic: &GuestGic, from: usize, value: u64) -> Cores {
    let (list, id, to_others) = (value & 0xffff, value >> 24 & 0xf, value >> 40 & 1 != 0);
    // Affinities above the lowest are 0, and so is the range of a core among the first 16.
    let is_here = value >> 16 & 0xff == 0 && value >> 32 & 0xff == 0 && value >> 44 == 0;
    change(gic, || {
        for core in 0..cores(gic) {
            let is_target = if to_others { core != from } else { is_here && list >> core & 1 != 0 };
            if is_target {
                set(&gic.private[core].latched, 1 << id, true);
            }
        }
    })
}

/// Whether a core that waits has an interrupt to take: one that is pending, and that neither the controller nor the core's own interface,
/// as it is in `system`, masks.
pub fn is_due(gic: &GuestGic, core: usize, system: &GuestSystem) -> bool {
    let control = system.words[INTERRUPT_CONTROL].get();
    all(|index| candidates(gic, core, index)).any(|id| {
        let Some((bank, bit)) = find(gic, core, id) else { return false };
        let group = if bank.group.get() & bit == 0 { CORE_GROUP_0 } else { CORE_GROUP_1 };
        control & group != 0 && u64::from(priority(bank, id)) < control >> CORE_PRIORITY
    })
}

/// Puts a core's interrupts into the list registers of `system`: those that are active, then those that are pending, the most urgent
/// first. Of equals, the lowest id.
pub fn load(gic: &GuestGic, core: usize, system: &GuestSystem) {
    let mut chosen = [None; LIST_LEN];
    let mut count = 0;
    let actives = all(|index| actives(gic, core, index)).map(|id| (false, id));
    for (is_new, id) in actives.chain(all(|index| candidates(gic, core, index)).map(|id| (true, id))) {
        let Some((bank, _)) = find(gic, core, id) else { continue };
        count += 1;
        let mut next = Some((is_new, priority(bank, id), id));
        for place in &mut chosen {
            if next.is_some() && (place.is_none() || next < *place) {
                core::mem::swap(place, &mut next);
            }
        }
    }
    for (word, place) in system.words[LIST..].iter().zip(chosen) {
        word.set(place.map_or(0, |(_, _, id)| listed(gic, core, id, count > LIST_LEN)));
    }
}

/// Takes the interrupts in the list registers back.
pub fn store(gic: &GuestGic, core: usize, system: &GuestSystem) -> Cores {
    change(gic, || {
        for word in &system.words[LIST..LIST + LIST_LEN] {
            let value = word.get();
            word.set(0);
            let Some((bank, bit)) = find(gic, core, value as u32) else { continue };
            // One that is empty looks like one with interrupt 0, which is not in a list then.
            if bank.listed.get() & bit == 0 {
                continue;
            }
            let is_pending = value & LIST_PENDING != 0;
            set(&bank.listed, bit, false);
            set(&bank.active, bit, value & LIST_ACTIVE != 0);
            own(gic, core, value as u32);
            match (bank.edge.get() & bit != 0, is_pending) {
                // It was taken out of the latch; another one may be there meanwhile.
                (true, true) => set(&bank.latched, bit, true),
                (true, false) | (false, true) => {}
                (false, false) => set(&bank.latched, bit, false),
            }
        }
    })
}

/// What a list register says of an interrupt, which is there from now on.
fn listed(gic: &GuestGic, core: usize, id: u32, tell_end: bool) -> u64 {
    let Some((bank, bit)) = find(gic, core, id) else { return 0 };
    let (is_edge, is_active) = (bank.edge.get() & bit != 0, bank.active.get() & bit != 0);
    let mut value = u64::from(id) | u64::from(priority(bank, id)) << LIST_PRIORITY;
    if bank.group.get() & bit != 0 {
        value |= LIST_GROUP_1;
    }
    if !is_edge || tell_end {
        value |= LIST_TELL_END;
    }
    if is_active {
        value |= LIST_ACTIVE;
    }
    // A level that is active is looked at again when it has ended.
    if pending(bank) & bit != 0 && bank.enabled.get() & bit != 0 && (is_edge || !is_active) {
        value |= LIST_PENDING;
        if is_edge {
            set(&bank.latched, bit, false);
        }
    }
    set(&bank.listed, bit, true);
    value
}

/// The interrupts of a bank that are to be signalled to a core. Those in a list register have been.
fn candidates(gic: &GuestGic, core: usize, index: usize) -> u32 {
    let Some(bank) = bank(gic, core, index) else { return 0 };
    let (groups, group_1) = (gic.groups.get(), bank.group.get());
    let open = if groups & 1 == 0 { 0 } else { !group_1 } | if groups & 2 == 0 { 0 } else { group_1 };
    let due = pending(bank) & bank.enabled.get() & open & !(bank.active.get() | bank.listed.get());
    among(due, index, |id| is_mine(gic, core, id))
}

/// The interrupts of a bank that are active on a core.
fn actives(gic: &GuestGic, core: usize, index: usize) -> u32 {
    bank(gic, core, index).map_or(0, |bank| among(bank.active.get(), index, |id| owner(gic, core, id) == core))
}

/// Those among `bits` of a bank that `is_it` is true of.
fn among(bits: u32, index: usize, is_it: impl Fn(u32) -> bool) -> u32 {
    ids(bits, index).filter(|id| is_it(*id)).fold(0, |bits, id| bits | 1 << (id % FIRST_SHARED))
}

/// The ids of `bits` in a bank.
fn ids(mut bits: u32, index: usize) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(index as u32 * FIRST_SHARED + bit)
    })
}

/// The ids of what each bank has.
fn all(bits: impl Fn(usize) -> u32) -> impl Iterator<Item = u32> {
    (0..=GUEST_GIC_BANKS).flat_map(move |index| ids(bits(index), index))
}

fn pending(bank: &GuestGicBank) -> u32 {
    bank.latched.get() | bank.line.get() & !bank.edge.get()
}

/// Whether a core is the one that gets an interrupt: of a shared one its route says which, and the first one if that may be any.
fn is_mine(gic: &GuestGic, core: usize, id: u32) -> bool {
    const ANY: u64 = 1 << 31;
    let Some(route) = id.checked_sub(FIRST_SHARED).and_then(|index| gic.routes.get(index as usize)) else {
        return true;
    };
    let route = route.get();
    if route & ANY != 0 { core == 0 } else { route == core as u64 }
}

/// The core on which an interrupt is active, if it is: whoever has taken it, wherever its route leads now.
fn owner(gic: &GuestGic, core: usize, id: u32) -> usize {
    let Some(index) = id.checked_sub(FIRST_SHARED) else { return core };
    gic.owners.get(index as usize / 4).map_or(core, |word| word.get().to_le_bytes()[index as usize % 4].into())
}

fn own(gic: &GuestGic, core: usize, id: u32) {
    let Some(index) = id.checked_sub(FIRST_SHARED) else { return };
    let Some(word) = gic.owners.get(index as usize / 4) else { return };
    let mut bytes = word.get().to_le_bytes();
    bytes[index as usize % 4] = core as u8;
    word.set(u32::from_le_bytes(bytes));
}

/// Runs `action`; the cores for which something has become due by it.
fn change(gic: &GuestGic, action: impl FnOnce()) -> Cores {
    let all = || -> [Due; GUEST_GIC_CORES] { core::array::from_fn(|core| due(gic, core)) };
    let before = all();
    action();
    let after = all();
    let has_more = |core: &usize| after[*core].iter().zip(before[*core]).any(|(after, before)| after & !before != 0);
    Cores((0..cores(gic)).filter(has_more).fold(0, |cores, core| cores | 1 << core))
}

/// The candidates of a core, by bank. (That it has some does not mean that more make no difference: its own interface may hold those back.)
type Due = [u32; GUEST_GIC_BANKS + 1];

fn due(gic: &GuestGic, core: usize) -> Due {
    if core >= cores(gic) {
        [0; GUEST_GIC_BANKS + 1]
    } else {
        core::array::from_fn(|index| candidates(gic, core, index))
    }
}

/// Cores that the guest has; a claim that what made it exceeds is not believed.
fn cores(gic: &GuestGic) -> usize {
    (gic.cores.get() as usize).min(GUEST_GIC_CORES)
}

/// A bank as a core sees it: the first one is its own.
fn bank(gic: &GuestGic, core: usize, index: usize) -> Option<&GuestGicBank> {
    if index == 0 { gic.private.get(core) } else { gic.shared.get(index - 1) }
}

/// Where an interrupt is, as a core sees it; `None`: there is none of the id.
fn find(gic: &GuestGic, core: usize, id: u32) -> Option<(&GuestGicBank, u32)> {
    bank(gic, core, id as usize / GUEST_GIC_BANK).map(|bank| (bank, 1 << (id % FIRST_SHARED)))
}

fn priority(bank: &GuestGicBank, id: u32) -> u8 {
    let index = id as usize % GUEST_GIC_BANK;
    bank.priority[index / 4].get().to_le_bytes()[index % 4]
}

fn set(word: &Cell32, bits: u32, to: bool) {
    word.set(if to { word.get() | bits } else { word.get() & !bits });
}

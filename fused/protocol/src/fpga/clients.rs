//! The kernels' side of the FPGA: giving interfaces to clients, reporting traps and ends, and taking registers away from clients.

use motet_layout::{
    FPGA_FREE, FPGA_INTERFACES, FPGA_LEFT, FPGA_TAKEN, FPGA_USED, Fpga, FpgaInterface, Frame, PAGE_SHIFT, PAGE_SIZE,
    PoolAddr,
    handshake::then_look,
    in_order,
    sync::Ordering::{Acquire, Release, SeqCst},
};

use super::{AcceleratorId, InterfaceId, Offer, REVOKE, guest};

/// Who gets an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// A number of it, not 0.
    pub owner: u32,
    /// The user whose it is.
    pub user: u32,
    /// For which accelerator.
    pub accelerator: AcceleratorId,
    /// The core that is rung about it.
    pub core: u8,
    /// How urgent it is; 0 is the most urgent.
    pub priority: u32,
    /// Its open file's inode.
    pub inode: PoolAddr,
}

/// An interface for a client. `None`: all are in use, or half of them are the same user's, who is not the superuser.
pub fn open(fpga: &Fpga, client: &Client) -> Option<InterfaceId> {
    let count = (fpga.interface_count.get() as usize).min(FPGA_INTERFACES);
    let is_users = |one: &&FpgaInterface| one.state.load(SeqCst) != FPGA_FREE && one.user.get() == client.user;
    if client.user != 0 && fpga.interfaces[..count].iter().filter(is_users).count() >= count.div_ceil(2) {
        return None;
    }
    let claim = |one: &FpgaInterface| one.state.compare_exchange(FPGA_FREE, FPGA_TAKEN, SeqCst, SeqCst).is_ok();
    let index = fpga.interfaces[..count].iter().position(claim)?;
    let interface = &fpga.interfaces[index];
    interface.owner.set(client.owner);
    interface.user.set(client.user);
    interface.accelerator.set(client.accelerator.index() as u32);
    interface.core.set(client.core.into());
    interface.priority.store(client.priority, Release);
    interface.inode.set(client.inode.0);
    interface.told.store(0, Release);
    interface.telling.store(0, Release);
    interface.hears.store(u32::MAX, Release);
    interface.is_said.store(0, Release);
    interface.state.store(FPGA_USED, Release);
    InterfaceId::new(index)
}

/// A client has gone: it does not ask for anything any more. The FPGA is to be told to look.
pub fn leave(fpga: &Fpga, interface: InterfaceId) {
    fpga.interfaces[interface.index()].state.store(FPGA_LEFT, Release);
    fpga.attention.store(1, Release);
}

/// The FPGA is to look at all interfaces, when it is told to.
pub fn look(fpga: &Fpga) {
    fpga.attention.store(1, Release);
}

/// Whether a client's registers may be mapped writably now, because they are connected, or because a region that was offered is taken for them: the
/// FPGA sees that at the next store to them. Whoever maps them holds a lock from before it asks until that is done; [`take_answered`] takes it, too.
#[inline]
pub fn may_write(fpga: &Fpga, id: InterfaceId) -> bool {
    let interface = &fpga.interfaces[id.index()];
    // First that it may be mapped, then whether it may: so either this sees that it is not connected, or the FPGA that it is mapped.
    let was_writable = interface.writable.swap(1, SeqCst);
    if interface.connected.load(SeqCst) != 0 {
        return true;
    }
    // A kernel that is about to take it away does so after it is mapped; one that has done so, and has not said it yet, must not be met.
    if interface.revoke.load(SeqCst) == 0 && take(fpga, id, interface) {
        return true;
    }
    if was_writable == 0 {
        interface.writable.store(0, Release);
    }
    false
}

/// Whether kernels have taken regions that the FPGA does not know of.
pub fn has_takings(fpga: &Fpga) -> bool {
    let is_taken = |word: u32| Offer::from_word(word).is_some_and(|offer| offer.taken_by.is_some());
    let count = (fpga.accelerator_count.get() as usize).min(fpga.accelerators.len());
    fpga.accelerators[..count].iter().any(|accelerator| is_taken(accelerator.offer.load(SeqCst)))
}

/// Takes the region that is offered for an interface's accelerator, if one is.
#[inline]
fn take(fpga: &Fpga, id: InterfaceId, interface: &FpgaInterface) -> bool {
    let Some(accelerator) = fpga.accelerators.get(interface.accelerator.get() as usize) else { return false };
    let word = accelerator.offer.load(SeqCst);
    let Some(offer) = Offer::from_word(word).filter(|offer| offer.taken_by.is_none()) else { return false };
    let taken = Offer { taken_by: Some(id), ..offer };
    accelerator.offer.compare_exchange(word, taken.word(), SeqCst, SeqCst).is_ok()
}

/// A store to an interface's registers has trapped, of a thread with a priority: a request. The FPGA is to be told to look.
pub fn ask(fpga: &Fpga, interface: &FpgaInterface, priority: u32) {
    if interface.is_said.load(SeqCst) == 0 {
        interface.priority.store(priority, Release);
    }
    interface.asked.store(1, Release);
    fpga.attention.store(1, Release);
}

/// As [`ask`], by a core that looks itself whether the registers are connected, or the request has been refused: nobody is rung for that. When
/// it does not look any more it says so ([`look_no_longer`]), and wakes who waits for the same.
pub fn ask_and_look(fpga: &Fpga, interface: &FpgaInterface, priority: u32) {
    interface.looks.store(1, Release);
    ask(fpga, interface, priority);
}

/// Whether a core that looks has seen what it looks for.
#[inline]
pub fn is_decided(interface: &FpgaInterface) -> bool {
    interface.connected.load(SeqCst) != 0 || interface.refused.load(SeqCst) != 0
}

/// Who has asked looks no longer. Whoever else waits for these registers entered the queue before the FPGA saw that somebody looks, or is rung: so they
/// are woken after this.
pub fn look_no_longer(interface: &FpgaInterface) {
    interface.looks.store(0, Release);
    then_look();
}

/// A core has died that may have looked, or have taken signals which it told nobody. `wake`s all who wait: they look again.
pub fn forget_lookers(fpga: &'static Fpga, mut wake: impl FnMut(&'static FpgaInterface)) {
    for interface in &fpga.interfaces {
        interface.looks.store(0, Release);
        then_look(); // at who has entered the queue
        wake(interface);
    }
}

/// A core has died, maybe with answers that it had taken: kernels look at all interfaces.
pub fn answer_again(fpga: &Fpga) {
    fpga.answers.fetch_or(u64::MAX, SeqCst);
}

/// Whether the FPGA has something to tell.
pub fn is_answered(fpga: &Fpga) -> bool {
    fpga.answered.load(SeqCst) != 0
}

/// Whether all that the FPGA has to tell is about clients that are less urgent than `priority`.
pub fn is_answered_less_urgently_than(fpga: &Fpga, priority: u32) -> bool {
    fpga.answered.load(SeqCst).checked_sub(1).is_some_and(|most_urgent| priority < most_urgent)
}

/// Takes what the FPGA wants of kernels, and tells clients. `protect` makes registers read-only wherever they are mapped, under the lock of who maps
/// them; `fetch` finds a page of a virtual machine that a transfer needs; `tell` gets a client's signals, perhaps twice if a core dies that was telling them.
/// The FPGA is to be told to look if it returns `true`. One caller at a time.
pub fn take_answered(
    fpga: &'static Fpga,
    mut protect: impl FnMut(InterfaceId, &'static FpgaInterface),
    fetch: impl Fn(&'static FpgaInterface, u64) -> guest::Answer,
    mut tell: impl FnMut(InterfaceId, u32),
) -> bool {
    fpga.answered.store(0, Release);
    then_look();
    let mut has_revoked = false;
    let mut answers = fpga.answers.swap(0, SeqCst);
    while answers != 0 {
        let Some(id) = InterfaceId::new(answers.trailing_zeros() as usize) else { break };
        answers &= answers - 1;
        let interface = &fpga.interfaces[id.index()];
        if interface.revoke.load(SeqCst) == REVOKE {
            protect(id, interface);
            revoked(interface);
            has_revoked = true;
        }
        guest::take_wanted(interface, &fetch);
        let signals = take_signals(interface);
        if signals != 0 {
            tell(id, signals);
            interface.telling.store(0, Release);
        }
    }
    if has_revoked {
        fpga.attention.store(1, Release);
    }
    has_revoked
}

/// Takes an interface's signals, and those that a core had taken which has died since. They are written down before they are taken, until the client is
/// told: so it may be told twice, but no signal is lost.
fn take_signals(interface: &FpgaInterface) -> u32 {
    let left = interface.telling.load(Acquire);
    loop {
        let signals = interface.signals.load(SeqCst);
        if signals == 0 {
            return left;
        }
        interface.telling.store(left | signals, Release);
        in_order();
        if interface.signals.compare_exchange(signals, 0, SeqCst, SeqCst).is_ok() {
            return left | signals;
        }
    }
}

/// No mapping is writable any more.
pub fn revoked(interface: &FpgaInterface) {
    interface.writable.store(0, Release);
    interface.revoke.store(0, Release);
}

/// The frame of an interface's registers.
pub fn registers_frame(fpga: &Fpga, interface: InterfaceId) -> Frame {
    frame(PoolAddr(fpga.registers.get()).add(interface.index() as u64 * PAGE_SIZE))
}

/// The interface whose registers a frame has; `None`: it has other things.
#[inline]
pub fn of_registers(fpga: &Fpga, frame: Frame) -> Option<InterfaceId> {
    let index = frame.addr().0.checked_sub(fpga.registers.get())? / PAGE_SIZE;
    InterfaceId::new(index as usize).filter(|_| index < fpga.interface_count.get().into())
}

/// The frame of a page of an interface's data section; `None`: it is not that long.
pub fn data_frame(fpga: &Fpga, interface: InterfaceId, page: u64) -> Option<Frame> {
    let section = super::section(fpga, interface);
    let address = section.first().checked_add(page.checked_mul(PAGE_SIZE)?)?;
    section.transfer(address, PAGE_SIZE).ok().map(frame)
}

fn frame(at: PoolAddr) -> Frame {
    Frame((at.0 >> PAGE_SHIFT) as u32)
}

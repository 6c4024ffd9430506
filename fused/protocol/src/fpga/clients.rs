//! The kernels' side of the FPGA: kernels give interfaces to clients, report to the FPGA that stores have trapped or clients have gone, and take
//! registers away from clients.

use motet_layout::{
    FPGA_FREE, FPGA_INTERFACES, FPGA_LEFT, FPGA_TAKEN, FPGA_USED, Fpga, FpgaInterface, PoolAddr,
    handshake::then_look,
    in_order,
    sync::Ordering::{Acquire, Release, SeqCst},
};

use super::{AcceleratorId, InterfaceId, Offer, REVOKE, guest};

/// The client that an interface is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Client {
    /// A number that identifies the client, not 0.
    pub owner: u32,
    /// The client's user.
    pub user: u32,
    /// The accelerator.
    pub accelerator: AcceleratorId,
    /// The core that is interrupted for this client.
    pub core: u8,
    /// The client's priority; 0 is the most urgent.
    pub priority: u32,
    /// Its open file's inode.
    pub inode: PoolAddr,
}

/// Opens an interface for a client. `None`: all are in use, or the user, who is not the superuser, has half of them.
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

/// Reports that a client has gone. The caller must ring the FPGA afterwards.
pub fn leave(fpga: &Fpga, interface: InterfaceId) {
    fpga.interfaces[interface.index()].state.store(FPGA_LEFT, Release);
    fpga.attention.store(1, Release);
}

/// Whether the FPGA is about to free an interface whose client has gone.
pub fn is_one_leaving(fpga: &Fpga) -> bool {
    fpga.interfaces.iter().any(|one| one.state.load(SeqCst) == FPGA_LEFT)
}

/// Has the FPGA look at all interfaces. The caller must ring it afterwards.
pub fn look(fpga: &Fpga) {
    fpga.attention.store(1, Release);
}

/// Whether a client's registers may be mapped writably now: they are connected, or this call has taken a region that was offered. The FPGA
/// notices a taken region at the next store to the registers.
///
/// The caller maps the registers under a lock, and calls this under the same lock. `protect` of [`take_answered`] takes that lock, too.
#[inline]
pub fn may_write(fpga: &Fpga, id: InterfaceId) -> bool {
    let interface = &fpga.interfaces[id.index()];
    // The kernel stores `writable`, then loads `connected`. The FPGA clears `connected`, then loads `writable`. So either this kernel sees
    // that the registers are not connected, or the FPGA sees that they are mapped.
    let was_writable = interface.writable.swap(1, SeqCst);
    if interface.connected.load(SeqCst) != 0 {
        return true;
    }
    // `revoke` is set while a kernel takes the mapping away. That kernel may have done so and not reported it yet: its report would then
    // clear `writable` of the new mapping. So no offer is taken meanwhile.
    if interface.revoke.load(SeqCst) == 0 && take(fpga, id, interface) {
        return true;
    }
    if was_writable == 0 {
        interface.writable.store(0, Release);
    }
    false
}

/// Whether kernels have taken regions that the FPGA has not noticed yet.
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

/// Makes a request: a store to an interface's registers has trapped. `priority` is that of the thread. The caller must ring the FPGA afterwards.
pub fn ask(fpga: &Fpga, interface: &FpgaInterface, priority: u32) {
    if interface.is_said.load(SeqCst) == 0 {
        interface.priority.store(priority, Release);
    }
    interface.asked.store(1, Release);
    fpga.attention.store(1, Release);
}

/// As [`ask`], by a core that then polls until the registers are connected or the request has been refused. The FPGA interrupts nobody for that.
/// When the core stops polling, it calls [`look_no_longer`], and wakes the threads that wait for the same registers.
pub fn ask_and_look(fpga: &Fpga, interface: &FpgaInterface, priority: u32) {
    interface.looks.store(1, Release);
    ask(fpga, interface, priority);
}

/// Takes the refusal of a request, if there is one: `true` for one caller, who must report an error to its thread and ring the FPGA.
///
/// The FPGA leaves requests alone from a refusal until somebody has taken it. One store that traps may be a request several times, and the last of them must not
/// become another request, whose outcome would hide why the first one was refused. So a request that the FPGA has not seen is forgotten. As it may be another
/// thread's, `wake` must wake all threads that wait for the registers: who still wants them asks again.
pub fn take_refusal(fpga: &Fpga, interface: &FpgaInterface, wake: impl FnOnce()) -> bool {
    if interface.refused.load(SeqCst) == 0 {
        return false;
    }
    let has_asked = interface.asked.swap(0, SeqCst) != 0;
    let is_first = interface.refused.swap(0, SeqCst) != 0;
    fpga.attention.store(1, Release);
    if has_asked {
        wake();
    }
    is_first
}

/// Whether a core that polls may stop: the registers are connected, or the request has been refused.
#[inline]
pub fn is_decided(interface: &FpgaInterface) -> bool {
    interface.connected.load(SeqCst) != 0 || interface.refused.load(SeqCst) != 0
}

/// The core that has asked polls no longer. The caller must then wake all threads that wait for these registers: while the FPGA saw a core that
/// polls, it rang nobody for the threads that were in the queue.
pub fn look_no_longer(interface: &FpgaInterface) {
    interface.looks.store(0, Release);
    then_look();
}

/// Does the same for a core that has died. The core may also have taken signals without delivering them. `wake` must wake all waiting threads of
/// an interface; they look again.
pub fn forget_lookers(fpga: &'static Fpga, mut wake: impl FnMut(&'static FpgaInterface)) {
    for interface in &fpga.interfaces {
        interface.looks.store(0, Release);
        then_look(); // at the threads that have entered the queue
        wake(interface);
    }
}

/// Has kernels look at all interfaces again, after the death of a core that may have taken answers.
pub fn answer_again(fpga: &Fpga) {
    fpga.answers.fetch_or(u64::MAX, SeqCst);
}

/// Whether the FPGA has work for kernels.
pub fn is_answered(fpga: &Fpga) -> bool {
    fpga.answered.load(SeqCst) != 0
}

/// Whether all of that work is for clients that are less urgent than `priority`.
pub fn is_answered_less_urgently_than(fpga: &Fpga, priority: u32) -> bool {
    fpga.answered.load(SeqCst).checked_sub(1).is_some_and(|most_urgent| priority < most_urgent)
}

/// Does the work that the FPGA has for kernels. One caller at a time. If the result is `true`, the caller must ring the FPGA afterwards.
///
/// - `protect` makes registers read-only wherever they are mapped, under the lock of those who map them ([`may_write`]).
/// - `fetch` finds a page of a virtual machine that a transfer needs.
/// - `tell` delivers signals to a client, perhaps twice if a core dies while it does.
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

/// Reports that no mapping of an interface's registers is writable any more.
pub fn revoked(interface: &FpgaInterface) {
    interface.writable.store(0, Release);
    interface.revoke.store(0, Release);
}

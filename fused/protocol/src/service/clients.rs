//! The kernels' side of the service core: kernels give pages of registers to processes and windows to threads, and report their ends.

use motet_layout::{
    CORES_PER_ISLAND_MAX, CoreId, Frame, ISLAND_JOINED, IslandRecord, PAGE_SHIFT, Pool, PoolAddr, PoolHeader,
    SERVICE_CLIENTS, SERVICE_FREE, SERVICE_LEFT, SERVICE_TAKEN, SERVICE_USED, SERVICE_WINDOWS, ServiceClient,
    ServiceCore, ServiceWindow,
    handshake::then_look,
    sync::{AtomicU64, Ordering},
};

use super::ThreadIndex;
use crate::{Context, cores};

/// The owner of pages of registers: a process, by its open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// A number of the open file, not 0.
    pub number: u32,
    /// The user who opened it.
    pub user: u32,
}

/// How many pages of registers the processes of one user can have: half of all. The superuser has no limit.
const OF_USER_MAX: usize = SERVICE_CLIENTS / 2;

/// A page of registers that an owner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The page's number in the service core.
    pub number: usize,
    /// Whether the owner got it just now. Then the caller must ring the service core.
    pub is_new: bool,
}

/// Why a thread does not get a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No thread was created with that number.
    NoWindow,
    /// The window is another kernel thread's.
    HasThread,
}

/// An owner's page of registers for the core `of`. If the owner has none, the core `by` gives it one. `None`: no page is left. One caller at a time
/// for each owner.
pub fn page(core: &ServiceCore, owner: Owner, of: CoreId, by: CoreId) -> Option<Page> {
    let is_it = |client: &ServiceClient| is_of(client, owner.number) && client.core.get() == u32::from(of.0);
    if let Some(known) = core.control.iter().position(is_it) {
        return Some(Page { number: known, is_new: false });
    }
    let is_users = |client: &&ServiceClient| {
        client.state.load(Ordering::Relaxed) != SERVICE_FREE && client.user.get() == owner.user
    };
    if owner.user != 0 && core.control.iter().filter(is_users).count() >= OF_USER_MAX {
        return None;
    }
    let limit = (core.clients.get() as usize).min(SERVICE_CLIENTS);
    let claim = |client: &ServiceClient| {
        client.state.compare_exchange(SERVICE_FREE, taken_by(by), Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    let number = core.control[..limit].iter().position(claim)?;
    let client = &core.control[number];
    client.owner.set(owner.number);
    client.user.set(owner.user);
    client.core.set(u32::from(of.0));
    client.state.store(SERVICE_USED, Ordering::Release);
    Some(Page { number, is_new: true })
}

/// [`ServiceClient::state`] while the core `by` fills in the owner.
pub fn taken_by(by: CoreId) -> u32 {
    SERVICE_TAKEN | u32::from(by.0) << 8
}

/// Frees pages that dead cores were about to give to an owner. Called when every live core has passed.
pub fn settle_pages(context: &impl Context, core: &ServiceCore) {
    for client in &core.control {
        let state = client.state.load(Ordering::SeqCst);
        let taker = if state as u8 == SERVICE_TAKEN as u8 { CoreId::from_raw(state >> 8) } else { None };
        if taker.is_some_and(|taker| cores::is_dead(context, taker)) {
            client.state.store(SERVICE_FREE, Ordering::Release);
        }
    }
}

fn is_of(client: &ServiceClient, owner: u32) -> bool {
    client.state.load(Ordering::SeqCst) == SERVICE_USED && client.owner.get() == owner
}

/// Gives a thread a window in a page of registers. `None`: all windows are in use. One caller at a time for each owner.
pub fn window(core: &ServiceCore, page: usize) -> Option<ThreadIndex> {
    let client = core.control.get(page)?;
    let used = client.windows.load(Ordering::SeqCst) | client.bound.load(Ordering::SeqCst);
    let thread = ThreadIndex::new(page, used.trailing_ones() as usize)?;
    // Another thread of the process may have stored a request there.
    let window = &core.pages[page].windows[thread.window()];
    window.request.store(0, Ordering::Release);
    window.parked.store(0, Ordering::Release);
    client.windows.fetch_or(1 << thread.window(), Ordering::SeqCst);
    // This comes last, because the core may just have answered such a request.
    window.answer.store(0, Ordering::Release);
    Some(thread)
}

/// Binds a kernel thread to the window with a number in an owner's process. One caller at a time for each owner.
///
/// # Errors
/// As [`Refused`] says.
pub fn bind(core: &ServiceCore, owner: u32, number: u32) -> Result<ThreadIndex, Refused> {
    let thread = named(core, owner, number).ok_or(Refused::NoWindow)?;
    let (client, bit) = (&core.control[thread.client()], 1 << thread.window());
    if client.bound.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
        return Err(Refused::HasThread);
    }
    // The core may have freed the window meanwhile, before it saw that the window is bound. No other thread can have got it since.
    if client.windows.load(Ordering::SeqCst) & bit == 0 {
        client.bound.fetch_and(!bit, Ordering::SeqCst);
        return Err(Refused::NoWindow);
    }
    Ok(thread)
}

/// The window with a number in an owner's process.
pub fn named(core: &ServiceCore, owner: u32, number: u32) -> Option<ThreadIndex> {
    let (of, window) = (number / SERVICE_WINDOWS as u32, number as usize % SERVICE_WINDOWS);
    let is_it = |client: &ServiceClient| is_of(client, owner) && client.core.get() == of;
    let page = core.control.iter().position(is_it)?;
    let is_used = core.control[page].windows.load(Ordering::SeqCst) >> window & 1 != 0;
    ThreadIndex::new(page, window).filter(|_| is_used)
}

/// The number that a thread has in its process.
pub fn number(core: &ServiceCore, thread: ThreadIndex) -> u32 {
    core.control[thread.client()].core.get() * SERVICE_WINDOWS as u32 + thread.window() as u32
}

/// Reports that a thread of an owner has ended, which had a window. `true`: the caller must ring the service core.
pub fn ended(core: &ServiceCore, owner: u32, thread: ThreadIndex) -> bool {
    let client = &core.control[thread.client()];
    if !is_of(client, owner) {
        return false; // the process has gone before it
    }
    client.died.fetch_or(1 << thread.window(), Ordering::SeqCst);
    core.attention.store(1, Ordering::Release);
    true
}

/// Reports that an owner has gone: no thread uses its registers any more. `true`: the caller must ring the service core.
pub fn leave(core: &ServiceCore, owner: u32) -> bool {
    let mut has_left = false;
    for client in core.control.iter().filter(|client| is_of(client, owner)) {
        client.state.store(SERVICE_LEFT, Ordering::Release);
        has_left = true;
    }
    if has_left {
        core.attention.store(1, Ordering::Release);
    }
    has_left
}

/// A notification of the core about a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notification {
    /// The thread slept, and has an answer now.
    Answered,
    /// The thread has lost its turn ([`is_stopped`]), or has one again.
    Turn,
}

/// Takes the core's notifications; `hear` gets each one. `false`: there is nothing to do for threads, nor for devices.
pub fn take_notifications(core: &'static ServiceCore, mut hear: impl FnMut(ThreadIndex, Notification)) -> bool {
    if core.answered.load(Ordering::SeqCst) == 0 {
        return false;
    }
    core.answered.store(0, Ordering::Release);
    then_look();
    for (first, pages) in core.heard_of.iter().enumerate().filter(|(_, pages)| pages.load(Ordering::SeqCst) != 0) {
        for page in bits(pages.swap(0, Ordering::SeqCst)) {
            take_notifications_of(core, first * u64::BITS as usize + page, &mut hear);
        }
    }
    true
}

fn take_notifications_of(core: &'static ServiceCore, page: usize, hear: &mut impl FnMut(ThreadIndex, Notification)) {
    let client = &core.control[page];
    for (word, notification) in [(&client.told, Notification::Turn), (&client.answered, Notification::Answered)] {
        if word.load(Ordering::SeqCst) != 0 {
            let windows = bits(word.swap(0, Ordering::SeqCst).into());
            windows.filter_map(|window| ThreadIndex::new(page, window)).for_each(|thread| hear(thread, notification));
        }
    }
}

/// The numbers of the bits that are set.
fn bits(word: u64) -> impl Iterator<Item = usize> {
    let next = |&word: &u64| Some(word & word.wrapping_sub(1)).filter(|&rest| rest != 0);
    core::iter::successors(Some(word).filter(|&word| word != 0), next).map(|rest| rest.trailing_zeros() as usize)
}

/// Whether an owner's thread must not run until it has a turn again.
pub fn is_stopped(core: &ServiceCore, owner: u32, thread: ThreadIndex) -> bool {
    has_lost_turn(core, thread) && is_of(&core.control[thread.client()], owner)
}

/// The same for a thread of any owner.
pub fn has_lost_turn(core: &ServiceCore, thread: ThreadIndex) -> bool {
    core.control[thread.client()].stopped.load(Ordering::SeqCst) >> thread.window() & 1 != 0
}

/// Reports that a thread is about to sleep in a system call, for something that the core does not know. Other threads may have its turn. `true`:
/// some thread wants one, and the caller must ring the service core.
pub fn sleeps(core: &ServiceCore, thread: ThreadIndex) -> bool {
    let (client, bit) = (&core.control[thread.client()], 1 << thread.window());
    if client.asleep.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
        return false;
    }
    then_look();
    core.crowded.load(Ordering::SeqCst) != 0 && has_changed(core, thread)
}

/// Reports that the call is over. The thread continues if it still has its turn ([`is_stopped`]). `true`: it has lost its turn, and the caller must
/// ring the service core to get one.
pub fn wakes(core: &ServiceCore, thread: ThreadIndex) -> bool {
    let (client, bit) = (&core.control[thread.client()], 1 << thread.window());
    if client.asleep.load(Ordering::Relaxed) & bit == 0 {
        return false;
    }
    client.asleep.fetch_and(!bit, Ordering::SeqCst);
    then_look();
    has_lost_turn(core, thread) && has_changed(core, thread)
}

fn has_changed(core: &ServiceCore, thread: ThreadIndex) -> bool {
    core.control[thread.client()].changed.fetch_or(1 << thread.window(), Ordering::SeqCst);
    core.attention.store(1, Ordering::Release);
    true
}

/// The registers of a thread.
pub fn registers(core: &'static ServiceCore, thread: ThreadIndex) -> &'static ServiceWindow {
    &core.pages[thread.client()].windows[thread.window()]
}

/// The kernel thread that is bound to a window (`ThreadRecord`, pool address); 0: none.
pub fn kernel_thread(core: &ServiceCore, thread: ThreadIndex) -> &AtomicU64 {
    &core.kernel_threads[usize::from(thread.0)]
}

/// The frame of a page of registers.
pub fn frame(pool: Pool, core: &'static ServiceCore, page: usize) -> Frame {
    Frame((pool.addr_of(&core.pages[page % SERVICE_CLIENTS]).0 >> PAGE_SHIFT) as u32)
}

/// The address of the word that a thread sleeps for: the upper half of its answer.
pub fn futex(pool: Pool, window: &'static ServiceWindow) -> PoolAddr {
    pool.addr_of(window).add(12)
}

/// The address under which a thread waits for its turn: a place in its window without a register. A woken thread checks again.
pub fn turn(pool: Pool, window: &'static ServiceWindow) -> PoolAddr {
    pool.addr_of(window).add(20)
}

/// The core that is interrupted for `core`: `core` itself, or the first core if its island has died. The first core takes over that island's work.
pub fn alive(header: &PoolHeader, core: CoreId) -> CoreId {
    let (island, number) = (core.island().index(), core.index() % CORES_PER_ISLAND_MAX);
    let is_there = |record: &IslandRecord| {
        number < record.core_count.get() as usize && record.state.load(Ordering::SeqCst) == ISLAND_JOINED
    };
    if header.islands.get(island).is_some_and(is_there) { core } else { CoreId(0) }
}

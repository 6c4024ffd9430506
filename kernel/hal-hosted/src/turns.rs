//! Cores of the deterministic driver are coroutines on one thread of the host. One that lets another go on costs some tens of instructions so; a thread
//! would cost a wake-up by the host's kernel, and every atomic operation may be such a point.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ptr::null;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, Yielder};

use crate::baton::Baton;
use crate::kernels::core_of;
use crate::machine::{become_core, leave_core};
use crate::world::{Quiet, World};

/// Room for a kernel that is built without optimisation.
const STACK_BYTES: usize = 1 << 20;

thread_local! {
    /// By which the core that runs gives the thread back; null: none runs.
    static WAY_BACK: Cell<*const Yielder<(), ()>> = const { Cell::new(null()) };
    /// Which of its core's lives runs.
    static LIFE: Cell<u32> = const { Cell::new(0) };
    /// Stacks of cores that have ended, whose pages are there already.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Which of its core's lives runs: the cores of an island that was started again have further ones.
pub fn life() -> u32 {
    LIFE.get()
}

/// Runs cores in turn, as the baton says, until the run has ended, and lets each of them see that.
pub fn take(world: &'static World, baton: &Baton) {
    let mut cores = BTreeMap::new();
    while let Some(holder) = baton.holder().filter(|_| !world.has_ended()) {
        let coroutine = cores.entry(holder).or_insert_with(|| begin(world, holder));
        if coroutine.resume(()).as_return().is_some() {
            cores.remove(&holder).into_iter().for_each(keep_stack);
        }
        WAY_BACK.set(null());
    }
    for mut coroutine in cores.into_values() {
        while coroutine.resume(()).as_return().is_none() {}
        WAY_BACK.set(null());
        keep_stack(coroutine);
    }
}

/// A life of a core, which has not begun yet.
fn begin(world: &'static World, (core, life): (usize, u32)) -> Coroutine<(), (), ()> {
    let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_else(|| {
        DefaultStack::new(STACK_BYTES).expect("the host has memory for a core's stack") //
    });
    Coroutine::with_stack(stack, move |yielder, ()| {
        WAY_BACK.set(yielder);
        LIFE.set(life);
        world.live(core_of(core));
        leave_core();
    })
}

fn keep_stack(coroutine: Coroutine<(), (), ()>) {
    STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
}

/// Gives the thread back, and returns when this core has the next turn, or the run has ended.
///
/// # Panics
/// No core runs here.
pub fn give_back() {
    let way_back = WAY_BACK.get();
    assert!(!way_back.is_null(), "only a core gives its turn away");
    let (life, core, is_quiet) = (LIFE.get(), leave_core(), Quiet::set(false));
    // SAFETY: the coroutine that runs on this thread has set it to its own yielder, when it began or came back below; that lives as long as the coroutine's
    // body, in which this is.
    let yielder = unsafe { &*way_back };
    yielder.suspend(());
    // Others have run on this thread meanwhile.
    WAY_BACK.set(way_back);
    LIFE.set(life);
    core.into_iter().for_each(|(core, world)| become_core(core, world));
    Quiet::set(is_quiet);
}

//! What kernels do for the service core: pages of registers, windows, and threads that end.

#[allow(dead_code)]
mod files_support;
#[allow(dead_code)]
mod service_support;

use motet_layout::sync::Ordering::SeqCst;
use motet_layout::{CoreId, ISLAND_DEAD, ISLAND_JOINED, IslandId, SERVICE_FREE, SERVICE_USED};
use motet_protocol::Context;
use motet_protocol::service::clients::{self, Owner, Page, Refused};
use motet_protocol::service::{Code, Operation, Operation::*, ThreadIndex};
use service_support::spec::Id;
use service_support::{Machine, PAGES, actor};

const PROCESS: Owner = Owner { number: 7, user: 0 };
const STRANGER: Owner = Owner { number: 8, user: 0 };

fn core(island: u32, index: usize) -> CoreId {
    CoreId::new(IslandId::from_raw(island).unwrap(), index)
}

/// A process with a page of registers for core 0.
fn with_page() -> (Machine, usize) {
    let machine = Machine::new();
    let page = clients::page(machine.core, PROCESS, core(0, 0), core(0, 0)).unwrap();
    (machine, page.number)
}

/// The next window of a page.
fn given(machine: &Machine, page: usize) -> Id {
    id(clients::window(machine.core, page).unwrap())
}

fn id(thread: ThreadIndex) -> Id {
    (thread.client(), thread.window())
}

fn bind(machine: &Machine, number: usize) -> Result<Id, Refused> {
    clients::bind(machine.core, PROCESS.number, number as u32).map(id)
}

fn code(machine: &mut Machine, by: Id, operation: Operation, object: usize) -> Option<Code> {
    Code::from_raw(machine.ask(by, operation, object as u16, 0).code())
}

/// The kernel thread that has a window ends.
fn ends(machine: &mut Machine, (page, window): Id) {
    assert!(clients::ended(machine.core, PROCESS.number, ThreadIndex::new(page, window).unwrap()));
    machine.control();
}

#[test]
fn a_page_is_new_once() {
    let (machine, number) = with_page();
    let again = clients::page(machine.core, PROCESS, core(0, 0), core(1, 0));
    assert_eq!(again, Some(Page { number, is_new: false }));
    assert!(clients::page(machine.core, PROCESS, core(0, 1), core(0, 0)).unwrap().is_new);
    assert!(clients::page(machine.core, STRANGER, core(0, 0), core(0, 0)).unwrap().is_new);
}

#[test]
fn who_gets_a_window_does_not_find_what_another_thread_stored_there() {
    let (mut machine, page) = with_page();
    let first = given(&machine, page);
    assert_eq!(code(&mut machine, first, MutexCreate, 0), Some(Code::Ok));
    let next = (page, 1);
    let window = machine.window(next);
    window.request.store(machine.request(next, Lock, 0, 0).0, SeqCst);
    window.answer.store(1, SeqCst);
    window.parked.store(1, SeqCst);
    assert_eq!(given(&machine, page), next);
    assert_eq!([window.request.load(SeqCst), window.answer.load(SeqCst)], [0, 0]);
    assert_eq!(window.parked.load(SeqCst), 0);
    assert!(!machine.serve(next), "it has asked for nothing");
    assert_eq!(code(&mut machine, first, TryLock, 0), Some(Code::Ok), "nobody has the mutex");
}

#[test]
fn a_window_is_not_given_again_while_its_deleted_thread_lives() {
    let (mut machine, page) = with_page();
    let (first, deleted) = (given(&machine, page), given(&machine, page));
    assert_eq!(code(&mut machine, first, Create, deleted.1), Some(Code::Ok));
    assert_eq!(bind(&machine, deleted.1), Ok(deleted));
    assert_eq!(code(&mut machine, first, Delete, deleted.1), Some(Code::Ok));
    let other = given(&machine, page);
    assert_ne!(other, deleted);
    assert_eq!(code(&mut machine, other, Own, 0), Some(Code::Ok));
    ends(&mut machine, deleted);
    // Its end was not that of whoever has a window now.
    assert_eq!(given(&machine, page), deleted);
    assert_eq!(bind(&machine, deleted.1), Ok(deleted));
    machine.control();
    assert_eq!(code(&mut machine, deleted, Own, 0), Some(Code::Ok));
}

#[test]
fn a_deleted_thread_that_nobody_became_leaves_its_window_at_once() {
    let (mut machine, page) = with_page();
    let (first, deleted) = (given(&machine, page), given(&machine, page));
    assert_eq!(code(&mut machine, first, Create, deleted.1), Some(Code::Ok));
    assert_eq!(code(&mut machine, first, Delete, deleted.1), Some(Code::Ok));
    assert_eq!(bind(&machine, deleted.1), Err(Refused::NoWindow));
    assert_eq!(given(&machine, page), deleted);
}

#[test]
fn a_window_has_one_thread() {
    let (machine, page) = with_page();
    let first = given(&machine, page);
    assert_eq!(bind(&machine, first.1), Ok(first));
    assert_eq!(bind(&machine, first.1), Err(Refused::HasThread));
    assert_eq!(bind(&machine, first.1 + 1), Err(Refused::NoWindow));
    assert_eq!(clients::bind(machine.core, STRANGER.number, 0), Err(Refused::NoWindow));
}

#[test]
fn a_page_that_an_island_was_giving_when_it_died_is_free() {
    let machine = Machine::new();
    let (actor, dead) = (actor().on_core(0), core(1, 3));
    let pages = &machine.core.control[..PAGES];
    let islands = &actor.pool().header().islands;
    islands[0].state.store(ISLAND_JOINED, SeqCst);
    pages[0].state.store(clients::taken_by(core(0, 2)), SeqCst);
    pages[1].state.store(clients::taken_by(dead), SeqCst);
    pages[2].state.store(SERVICE_USED, SeqCst);
    islands[1].state.store(ISLAND_DEAD, SeqCst);
    clients::settle_pages(&actor, machine.core);
    islands[1].state.store(ISLAND_JOINED, SeqCst);
    let states = [0, 1, 2].map(|page| pages[page].state.load(SeqCst));
    assert_eq!(states, [clients::taken_by(core(0, 2)), SERVICE_FREE, SERVICE_USED]);
}

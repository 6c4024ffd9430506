//! Timed machines: when an operation is executed. The core executes as many operations at once as it has ports; others wait.

use motet_layout::ServiceCore;

/// Books an operation that is requested at `asked_ps`. Returns when it is over.
///
/// The requesting core may be simulated a little ahead of others, or behind. So the times of the last operations are remembered. An operation whose
/// request is earlier than those of operations already executed is booked at the time at which it would have been executed.
pub fn book(core: &ServiceCore, asked_ps: u64) -> u64 {
    let (operation_ps, ports) = (core.operation_ps.get(), core.ports.get().max(1) as usize);
    let mut begins_ps = asked_ps;
    // 0 means that the slot has no operation.
    let remembered = || core.began_ps.iter().filter_map(|began| began.get().checked_sub(1));
    // Each round moves the beginning to the end of an operation.
    for _ in 0..core.began_ps.len() {
        let under_way = remembered().filter(|&began_ps| began_ps.abs_diff(begins_ps) < operation_ps);
        let (count, first_ps) = under_way.fold((0, u64::MAX), |(count, first), began| (count + 1, first.min(began)));
        if count < ports {
            break;
        }
        begins_ps = first_ps.saturating_add(operation_ps);
    }
    let slot = core.next_slot.get() as usize % core.began_ps.len();
    core.began_ps[slot].set(begins_ps.saturating_add(1));
    core.next_slot.set((slot as u32 + 1) % core.began_ps.len() as u32);
    core.queued_ps.set(core.queued_ps.get().wrapping_add(begins_ps - asked_ps));
    begins_ps.saturating_add(operation_ps)
}

//! Where memory lies (NUMA placement), with islands as nodes: `set_mempolicy`, `get_mempolicy`, `mbind`, `move_pages` and `migrate_pages`.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{Cell64, PAGE_SIZE, SpaceRecord, USER_END};
use motet_protocol::{Context, lock::lock, memory::island_near, residency::Home};

use super::{
    pieces,
    policy::{Nodes, Policy, element, nodes_of, write_nodes},
    range::page_range,
    relocate::relocate,
    space_of, view, vma,
};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    permission::{Capability, has},
    tree::{self, lock_tree},
};

// linux/mempolicy.h
const MPOL_MF_STRICT: u32 = 1;
const MPOL_MF_MOVE: u32 = 2;
const MPOL_MF_MOVE_ALL: u32 = 4;
const MPOL_F_NODE: u64 = 1;
const MPOL_F_ADDR: u64 = 2;
const MPOL_F_MEMS_ALLOWED: u64 = 4;

/// `set_mempolicy(mode, nodes, max_node)`: where the thread's new memory is to be, as far as no `mbind` says otherwise. Its children inherit that, and programs
/// that it executes.
///
/// # Errors
/// `EINVAL`, `EFAULT`.
pub fn set_mempolicy<M: Machine>(call: &Call<M>) -> SysResult {
    let [mode, nodes, max_node, ..] = call.args;
    let policy = Policy::new(mode & u64::from(u32::MAX), nodes_of(call, nodes, max_node)?)?;
    call.thread.memory_policy.set(policy.0);
    Ok(0)
}

/// `get_mempolicy(mode, nodes, max_node, address, flags)`: the thread's policy, or with `MPOL_F_ADDR` that of the range at an address; with `MPOL_F_NODE` besides,
/// the island near to which the page there lies; with `MPOL_F_MEMS_ALLOWED` all islands.
///
/// # Errors
/// `EINVAL`; `EFAULT`: nothing is mapped there, or the results have no room.
pub fn get_mempolicy<M: Machine>(call: &Call<M>) -> SysResult {
    let [mode_at, nodes_at, max_node, address, flags, _] = call.args;
    let islands = call.cpu.pool.header().island_count.get();
    if nodes_at != 0 && max_node < u64::from(islands) {
        return Err(Errno::EINVAL.into());
    }
    let (mode, nodes) = match flags {
        MPOL_F_MEMS_ALLOWED => (Policy::DEFAULT.mode(), Nodes((1 << islands) - 1)),
        0 if address == 0 => {
            let policy = Policy::of_thread(call.thread);
            (policy.mode(), policy.nodes())
        }
        MPOL_F_ADDR => {
            let policy = policy_at(call, address)?;
            (policy.mode(), policy.nodes())
        }
        flags if flags == MPOL_F_ADDR | MPOL_F_NODE => {
            // As on Linux, the page is there afterwards.
            call.read_user(address, &mut [0])?;
            let space = space_of(call.cpu, call.process);
            (node_at(call.cpu, space, address)? as u32, policy_at(call, address)?.nodes())
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    if mode_at != 0 {
        call.write_user(mode_at, &mode.to_le_bytes())?;
    }
    if nodes_at != 0 {
        write_nodes(call, nodes_at, max_node, nodes)?;
    }
    Ok(0)
}

/// What holds for new pages at an address.
fn policy_at<M: Machine>(call: &Call<M>, address: u64) -> Result<Policy, Errno> {
    let space = space_of(call.cpu, call.process);
    let _guard = lock(call.cpu, &space.lock);
    let vma = vma::find(call.cpu, space, address).ok_or(Errno::EFAULT)?;
    Ok(Policy(vma.policy.get()).or(Policy::of_thread(call.thread)))
}

/// `mbind(address, length, mode, nodes, max_node, flags)`: frames that the range gets from now on are near to the first of
/// the nodes, as far as there is memory (`MPOL_BIND` too). With `MPOL_MF_MOVE` so are pages that are there, if this space has them alone. Pages of files are near to
/// whoever touches them first, but for private ones that may be written.
///
/// # Errors
/// `EINVAL`; `EFAULT`: part of the range is not mapped; `EPERM`: `MPOL_MF_MOVE_ALL` without `CAP_SYS_NICE`; `EIO` with `MPOL_MF_STRICT`: pages lie elsewhere, and
/// were not to be moved, or could not be.
pub fn mbind<M: Machine>(call: &Call<M>) -> SysResult {
    let [address, len, mode, nodes, max_node, flags] = call.args;
    let flags = check_flags(call, flags, MPOL_MF_STRICT)?;
    let (start, end) = page_range(address, len, Errno::EINVAL)?;
    let policy = Policy::new(mode, nodes_of(call, nodes, max_node)?)?;
    let space = space_of(call.cpu, call.process);
    if !pieces::is_at_pages(call) {
        pieces::of_vmas(call, space, start, end, |start, end| place_vmas(call.cpu, space, (start, end), policy))?;
    }
    let is_strict = flags & MPOL_MF_STRICT != 0 && policy != Policy::DEFAULT;
    let moves = flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0;
    if !moves && !is_strict {
        return Ok(0);
    }
    let wanted = policy.or(Policy::of_thread(call.thread)).island().unwrap_or(call.cpu.memory_index());
    let left = bring(call, space, (start, end), moves, |island| (island != wanted).then_some(wanted))?;
    if left != 0 && is_strict { Err(Errno::EIO.into()) } else { Ok(0) }
}

fn place_vmas<M: Machine>(
    cpu: &Cpu<M>,
    space: &SpaceRecord,
    (start, end): (u64, u64),
    policy: Policy,
) -> Result<(), Errno> {
    let mut covered = start;
    vma::for_each_within(cpu, space, start, end, |vma| {
        if vma.start.get() > covered {
            return Err(Errno::EFAULT);
        }
        covered = vma.end.get();
        vma.policy.set(policy.0);
        Ok(())
    })?;
    if covered < end { Err(Errno::EFAULT) } else { Ok(()) }
}

/// Brings the pages of a range to where `target` wants those that lie near an island (indices; `None`: they may stay), if they are to be moved. Returns how many lie elsewhere in the end.
/// The thread's first scratch word counts them.
///
/// # Errors
/// [`Stop::Again`].
fn bring<M: Machine>(
    call: &Call<M>,
    space: &SpaceRecord,
    (start, end): (u64, u64),
    moves: bool,
    target: impl Fn(usize) -> Option<usize>,
) -> Result<u64, Stop> {
    let [left, ..] = &call.thread.scratch;
    pieces::of_copies(call, space, start, end, |at, stop| {
        let home = Home::of(call.cpu, space);
        let mut pages = [0; pieces::COPIED_PAGES];
        let mut count = 0;
        home.visit(at..stop, |page, leaf| {
            let is_elsewhere = target(island_near(call.cpu.pool, leaf.frame.named())).is_some();
            if let Some(place) = pages.get_mut(count).filter(|_| is_elsewhere) {
                *place = page;
                count += 1;
            }
        });
        for &page in &pages[..count] {
            let to = home.leaf(page).and_then(|leaf| target(island_near(call.cpu.pool, leaf.frame.named())));
            let is_there = to.is_none_or(|to| moves && relocate(call.cpu, space, page, to).is_ok());
            add(left, u64::from(!is_there));
        }
    })?;
    Ok(left.get())
}

fn add(count: &Cell64, more: u64) {
    count.set(count.get() + more);
}

/// `move_pages(pid, count, pages, nodes, status, flags)` of the calling process's pages. With `nodes`, each page that this space has alone is moved near to the
/// island that is named for it. `status` gets the island near to which each page lies, or a negative error: `ENOENT` for those that it has not touched, `EFAULT` for those that it
/// has not mapped; of pages that are to be moved, those of [`relocate`].
///
/// # Errors
/// `EPERM`: another process's, or `MPOL_MF_MOVE_ALL` without `CAP_SYS_NICE`; `ENODEV`: there is no such island; `ENOMEM`: there is no memory near it, and the
/// pages behind were not moved; `EFAULT`; `EINVAL`.
pub fn move_pages<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, count, pages, nodes, status, flags] = call.args;
    check_flags(call, flags & u64::from(u32::MAX), 0)?;
    check_own(call, pid)?;
    let space = space_of(call.cpu, call.process);
    for index in call.thread.progress.get()..count {
        let address = call.read_user_u64(element(pages, index, 8)?)?;
        let found = match nodes {
            0 => node_at(call.cpu, space, address),
            _ => {
                let node = call.read_user_u32(element(nodes, index, 4)?)?;
                if node >= call.cpu.pool.header().island_count.get() {
                    return Err(Errno::ENODEV.into());
                }
                move_to(call, space, address, node)
            }
        };
        let node = found.map_or_else(|errno| errno.result() as i32, |node| node as i32);
        call.write_user(element(status, index, 4)?, &node.to_le_bytes())?;
        if call.pauses(2 * cost::PAGE) {
            call.thread.progress.set(index + 1);
            return Err(Stop::Again);
        }
        if nodes != 0 && found == Err(Errno::ENOMEM) {
            return Err(Errno::ENOMEM.into());
        }
    }
    Ok(0)
}

/// `migrate_pages(pid, max_node, old, new)`: moves the calling process's pages that lie near islands of `old` to those of `new`, from the first to the first, and so on. Returns how
/// many were not moved.
///
/// # Errors
/// `EPERM`: another process's; `ESRCH`; `EINVAL`; `EFAULT`.
pub fn migrate_pages<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, max_node, old, new, ..] = call.args;
    let [old, new] = [nodes_of(call, old, max_node)?, nodes_of(call, new, max_node)?];
    check_own(call, pid)?;
    if new.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let space = space_of(call.cpu, call.process);
    bring(call, space, (0, USER_END), true, |island| old.successor(new, island))
}

/// The island (an index) near to which the page at an address lies.
///
/// # Errors
/// `EFAULT`: nothing is mapped there; `ENOENT`: the page has not been touched.
pub fn node_at<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Result<usize, Errno> {
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address).ok_or(Errno::EFAULT)?;
    let at = view::store_address(vma, M::ISA, address).unwrap_or(address);
    let leaf = Home::of(cpu, space).leaf(at & !(PAGE_SIZE - 1)).ok_or(Errno::ENOENT)?;
    Ok(island_near(cpu.pool, leaf.frame.named()))
}

/// Moves the page at an address near an island. Returns the island.
fn move_to<M: Machine>(call: &Call<M>, space: &SpaceRecord, address: u64, node: u32) -> Result<usize, Errno> {
    let island = node as usize;
    let _guard = lock(call.cpu, &space.lock);
    relocate(call.cpu, space, address & !(PAGE_SIZE - 1), island).map(|_| island)
}

/// Fails unless the flags are those that move pages, or of `more`, and the process may use them.
fn check_flags<M: Machine>(call: &Call<M>, flags: u64, more: u32) -> Result<u32, Errno> {
    let known = MPOL_MF_MOVE | MPOL_MF_MOVE_ALL | more;
    let flags = u32::try_from(flags).ok().filter(|flags| flags & !known == 0).ok_or(Errno::EINVAL)?;
    let may = flags & MPOL_MF_MOVE_ALL == 0 || has(call.process, Capability::Schedule);
    if may { Ok(flags) } else { Err(Errno::EPERM) }
}

/// Fails with `EPERM` for another process's id, and with `ESRCH` for nobody's.
fn check_own<M: Machine>(call: &Call<M>, pid: u64) -> Result<(), Errno> {
    let pid = pid as u32;
    if pid == 0 || pid == call.process.pid.get() {
        return Ok(());
    }
    let _tree = lock_tree(call.cpu);
    Err(tree::lookup(call.cpu, pid).map_or(Errno::ESRCH, |_| Errno::EPERM))
}

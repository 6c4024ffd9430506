//! Where memory lies (NUMA placement): `mbind` and `move_pages`, with islands as nodes.

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{PAGE_SIZE, SpaceRecord};
use motet_protocol::{lock::lock, memory::island_near, residency::Home};

use super::{pieces, range::page_range, space_of, view, vma};
use crate::{
    call::{Call, Stop, SysResult, cost},
    cpu::Cpu,
    tree::{self, lock_tree},
};

// linux/mempolicy.h
const MPOL_MF_MOVE: u32 = 2;
const MPOL_MF_MOVE_ALL: u32 = 4;
const MPOL_DEFAULT: u64 = 0;
const MPOL_PREFERRED: u64 = 1;
const MPOL_BIND: u64 = 2;
const MPOL_LOCAL: u64 = 4;
const MPOL_PREFERRED_MANY: u64 = 5;
const MPOL_F_STATIC_NODES: u64 = 1 << 15;
/// Longest node mask, in bits.
const MASK_BITS_MAX: u64 = PAGE_SIZE * 8;

/// `mbind(address, length, mode, nodes, max_node, flags)`: frames that the range gets from now on are near to the first of
/// the nodes, as far as there is memory (`MPOL_BIND` too). Pages that are there already stay where they are, so there are
/// no flags. Pages of files are near to whoever touches them first, but for private ones that may be written.
pub fn mbind<M: Machine>(call: &Call<M>) -> SysResult {
    let [address, len, mode, nodes, max_node, flags] = call.args;
    let (start, end) = page_range(address, len, Errno::EINVAL)?;
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    let first = first_node(call, nodes, max_node)?;
    let node = match (mode & !MPOL_F_STATIC_NODES, first) {
        (MPOL_DEFAULT | MPOL_LOCAL | MPOL_PREFERRED, None) => 0,
        (MPOL_PREFERRED | MPOL_BIND | MPOL_PREFERRED_MANY, Some(node)) => node + 1,
        _ => return Err(Errno::EINVAL.into()),
    };
    let space = space_of(call.cpu, call.process);
    pieces::of_vmas(call, space, start, end, |start, end| {
        let mut covered = start;
        vma::for_each_within(call.cpu, space, start, end, |vma| {
            if vma.start.get() > covered {
                return Err(Errno::EFAULT);
            }
            covered = vma.end.get();
            vma.node.set(node);
            Ok(())
        })?;
        if covered < end { Err(Errno::EFAULT) } else { Ok(()) }
    })?;
    Ok(0)
}

/// `move_pages(pid, count, pages, nodes, status, flags)` without `nodes`: the island near to which each page of the calling
/// process lies, `-ENOENT` for those that it has not touched, `-EFAULT` for those that it has not mapped.
///
/// # Errors
/// `EPERM`: another process's; `ENOSYS`: pages are to be moved; `EFAULT`.
pub fn move_pages<M: Machine>(call: &Call<M>) -> SysResult {
    let [pid, count, pages, nodes, status, flags] = call.args;
    if pid != 0 && pid != u64::from(call.process.pid.get()) {
        let _tree = lock_tree(call.cpu);
        let other = u32::try_from(pid).ok().and_then(|pid| tree::lookup(call.cpu, pid));
        return Err(other.map_or(Errno::ESRCH, |_| Errno::EPERM).into());
    }
    if flags as u32 & !(MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if nodes != 0 {
        return Err(Errno::ENOSYS.into());
    }
    let space = space_of(call.cpu, call.process);
    for index in call.thread.progress.get()..count {
        let [from, to] = [(pages, 8), (status, 4)].map(|(at, size)| at.checked_add(index.checked_mul(size)?));
        let address = call.read_user_u64(from.ok_or(Errno::EFAULT)?)?;
        let node = node_at(call.cpu, space, address).map_or_else(|errno| errno.result() as i32, |node| node as i32);
        call.write_user(to.ok_or(Errno::EFAULT)?, &node.to_le_bytes())?;
        if call.pauses(2 * cost::PAGE) {
            call.thread.progress.set(index + 1);
            return Err(Stop::Again);
        }
    }
    Ok(0)
}

fn node_at<M: Machine>(cpu: &Cpu<M>, space: &SpaceRecord, address: u64) -> Result<usize, Errno> {
    let _guard = lock(cpu, &space.lock);
    let vma = vma::find(cpu, space, address).ok_or(Errno::EFAULT)?;
    let at = view::store_address(vma, M::ISA, address).unwrap_or(address);
    let leaf = Home::of(cpu, space).leaf(at & !(PAGE_SIZE - 1)).ok_or(Errno::ENOENT)?;
    Ok(island_near(cpu.pool, leaf.frame.named()))
}

/// The lowest node of a mask in user memory. As in Linux, `max_node` is one more than the bits that count.
fn first_node<M: Machine>(call: &Call<M>, mask: u64, max_node: u64) -> Result<Option<u32>, Stop> {
    let bits = max_node.saturating_sub(1);
    if bits > MASK_BITS_MAX {
        return Err(Errno::EINVAL.into());
    }
    if mask == 0 || bits == 0 {
        return Ok(None);
    }
    let islands = call.cpu.pool.header().island_count.get();
    let mut first = None;
    for word in 0..bits.div_ceil(64) {
        let address = mask.checked_add(word * 8).ok_or(Errno::EFAULT)?;
        let counting = (bits - word * 64).min(64);
        let set = call.read_user_u64(address)? & (u64::MAX >> (64 - counting));
        // Nodes that do not exist are an error wherever they stand.
        if set != 0 && (word > 0 || set >> islands != 0) {
            return Err(Errno::EINVAL.into());
        }
        first = first.or((set != 0).then(|| set.trailing_zeros()));
    }
    Ok(first)
}

//! Vector registers of threads between trips: which belong to which thread, although the supervisor knows nothing of them and switches threads.
//!
//! A thread is recognised by the root of its page tables, by `sscratch`, where supervisors keep a pointer to the running thread
//! (Linux its `task_struct`), and by its `tp`. All of these values can recur after a process has ended. So an entry counts only as
//! long as a mark in the page tables is there: a bit, free for software, of an entry of the root that points to a further
//! table. A new root has no mark. Whoever sets a mark drops all entries that depend on it. So no thread gets the registers of a thread of another
//! address space.

/// Page-table entries (RISC-V privileged specification, "Sv39").
const VALID: u64 = 1;
const LEAF: u64 = 7 << 1;
/// The lower of the two bits for software. Linux uses it in leaves only.
pub const MARK: u64 = 1 << 8;
const ROOT: u64 = (1 << 44) - 1;
const MODE_SHIFT: u32 = 60;

/// What a `satp` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Translation {
    /// Address of the root's page.
    pub root: u64,
    /// Lowest bit of what selects an entry of the root.
    shift: u32,
}

impl Translation {
    /// Of a `satp`; `None` if it does not translate.
    pub const fn new(satp: u64) -> Option<Self> {
        let shift = match satp >> MODE_SHIFT {
            8 => 30,
            9 => 39,
            10 => 48,
            _ => return None,
        };
        Some(Self { root: (satp & ROOT) << 12, shift })
    }

    /// Address of the root's entry for a virtual address of a program, which are in the lower half.
    const fn entry_of(self, address: u64) -> Option<u64> {
        let index = address >> self.shift;
        if index < 256 { Some(self.root + 8 * index) } else { None }
    }
}

/// Who a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Address of the root of its page tables.
    pub root: u64,
    /// `sscratch`.
    pub scratch: u64,
    /// `tp`.
    pub pointer: u64,
}

/// Memory of the supervisor's.
pub trait Memory {
    /// Loads a word.
    fn load(&self, address: u64) -> u64;
    /// Replaces a word that is `seen` by another; whether it was.
    fn replace(&self, address: u64, seen: u64, new: u64) -> bool;
}

/// Why a thread's registers cannot be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Its page tables have no place for a mark.
    NoMark,
    /// All entries belong to threads that are away.
    Full,
}

/// An entry that the caller has until it releases it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its number.
    pub index: usize,
    /// It was another thread's, or nobody's: the registers have to be reset.
    pub is_new: bool,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    /// Address of the marked entry of the root, and all of its value.
    mark_at: u64,
    mark: u64,
    used: u64,
    is_away: bool,
    /// The thread went home for a system call, which need not keep vector registers (Linux, Documentation/arch/riscv/vector.rst).
    left_by_call: bool,
}

const NOBODY: Key = Key { root: u64::MAX, scratch: 0, pointer: 0 };

/// Entries for at most `N` threads. Registers are the caller's, by the entry's number.
#[derive(Debug)]
pub struct Vault<const N: usize> {
    entries: [Entry; N],
    /// Those from here on have never been used.
    len: usize,
    uses: u64,
}

impl<const N: usize> Vault<N> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        let entry = Entry { key: NOBODY, mark_at: 0, mark: 0, used: 0, is_away: false, left_by_call: false };
        Self { entries: [entry; N], len: 0, uses: 0 }
    }

    /// The entry of a thread with this program counter and stack pointer, of the first `limit`.
    ///
    /// # Errors
    /// There is none for it.
    pub fn claim(
        &mut self,
        key: Key,
        translation: Translation,
        [counter, stack]: [u64; 2],
        limit: usize,
        memory: &impl Memory,
    ) -> Result<Claim, Refused> {
        if let Some(index) = self.entries[..self.len].iter().position(|entry| entry.key == key) {
            let entry = &mut self.entries[index];
            // One that is away cannot ask, unless the supervisor has two of the same names. They do not share.
            if !entry.is_away && memory.load(entry.mark_at) == entry.mark {
                self.hold(index);
                return Ok(Claim { index, is_new: false });
            }
            entry.key = NOBODY;
        }
        let (mark_at, mark) = [counter, stack]
            .iter()
            .find_map(|at| self.mark(translation.entry_of(*at)?, memory))
            .ok_or(Refused::NoMark)?;
        let index = self.free(limit.min(N), memory).ok_or(Refused::Full)?;
        let entry = &mut self.entries[index];
        *entry = Entry { key, mark_at, mark, ..*entry };
        self.len = self.len.max(index + 1);
        self.hold(index);
        Ok(Claim { index, is_new: true })
    }

    /// The thread is home again, for a system call or for something else.
    pub fn release(&mut self, index: usize, left_by_call: bool) {
        let entry = &mut self.entries[index];
        entry.is_away = false;
        entry.left_by_call = left_by_call;
    }

    fn hold(&mut self, index: usize) {
        self.uses += 1;
        let entry = &mut self.entries[index];
        entry.used = self.uses;
        entry.is_away = true;
    }

    /// Marks this entry of a root, if it points to a table; with the value that it then has.
    fn mark(&mut self, at: u64, memory: &impl Memory) -> Option<(u64, u64)> {
        loop {
            let seen = memory.load(at);
            if seen & (VALID | LEAF) != VALID {
                return None;
            }
            if seen & MARK != 0 {
                return Some((at, seen));
            }
            if memory.replace(at, seen, seen | MARK) {
                let stale = self.entries[..self.len].iter_mut().filter(|entry| entry.mark_at == at);
                stale.for_each(|entry| entry.key = NOBODY);
                return Some((at, seen | MARK));
            }
        }
    }

    /// An entry for another thread: nobody's; else one whose mark is gone; else the one that was used longest ago of those
    /// whose threads went home for a system call; else of all.
    fn free(&self, limit: usize, memory: &impl Memory) -> Option<usize> {
        let used = || self.entries[..self.len].iter().enumerate().filter(|(_, entry)| !entry.is_away);
        let first = used().find(|(_, entry)| entry.key == NOBODY).map(|(index, _)| index);
        let unused = || (self.len < limit).then_some(self.len);
        let dead = || used().find(|(_, entry)| memory.load(entry.mark_at) != entry.mark).map(|(index, _)| index);
        let oldest = || used().min_by_key(|(_, entry)| (!entry.left_by_call, entry.used)).map(|(index, _)| index);
        first.or_else(unused).or_else(dead).or_else(oldest)
    }
}

#[cfg(test)]
mod tests;

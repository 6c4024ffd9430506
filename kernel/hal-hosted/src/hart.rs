//! One core's user mode: translation with caches that are really stale until flushed, and the interpreter.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use motet_hal::{Access, Trap};
use motet_layout::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use motet_layout::{
    Frame, Isa, PAGE_SHIFT, PAGE_SIZE, Pool, PoolAddr, PoolRange, SpaceRecord, UserFrame, VECTORS_RISCV64,
    Vectors as Area,
};
use motet_paging::{Attr, Entry, Format, LEVELS, PhysMap};

use crate::isa::{
    EXT_REGISTERS, INSTRUCTION_SIZE, Instruction, Op, REGISTERS_MAX, VECTOR_REGISTERS, registers, system_call_size,
    thread_pointer,
};
use crate::machine::Island;

/// A frame's instructions as this island last fetched them.
pub type CodePage = Arc<[u64; 512]>;

/// User registers while they are "in the core": general ones, thread pointer, program counter.
pub struct Registers {
    pub general: [u64; REGISTERS_MAX],
    pub thread_pointer: u64,
    pub pc: u64,
}

impl Registers {
    pub fn load(isa: Isa, frame: &UserFrame) -> Self {
        let count = registers(isa);
        Self {
            general: std::array::from_fn(|index| if index < count { frame.regs[index].get() } else { 0 }),
            thread_pointer: frame.regs[thread_pointer(isa)].get(),
            pc: frame.pc.get(),
        }
    }

    pub fn store(&self, isa: Isa, frame: &UserFrame) {
        for (cell, value) in frame.regs.iter().zip(self.general).take(registers(isa)) {
            cell.set(value);
        }
        frame.regs[thread_pointer(isa)].set(self.thread_pointer);
        frame.pc.set(self.pc);
    }
}

#[derive(Clone, Copy)]
struct Translation {
    frame: Frame,
    attr: Attr,
}

/// What only the core itself touches.
pub struct Hart {
    root: Frame,
    /// Translations by virtual page number. Absent pages are not cached (no ISA of ours does).
    pages: HashMap<u64, Translation>,
    /// Tables of pages by virtual address / 2 MiB: the paging-structure cache.
    tables: HashMap<u64, PoolAddr>,
    /// The page instructions come from, and the epoch of the instruction cache when they were looked up.
    fetch: Option<((u64, u64), CodePage)>,
    pub ext: [u64; EXT_REGISTERS],
    pub vectors: Vectors,
}

/// A core's vector registers.
#[derive(Clone, Copy, Default)]
pub struct Vectors {
    /// Their length, 0: there are none.
    pub bytes: u32,
    /// User code may use them.
    pub are_open: bool,
    /// It has written them since they were opened or stored.
    pub are_modified: bool,
    values: [u64; VECTOR_REGISTERS],
}

/// The area of a frame's thread, if it is one for registers of so many bytes.
pub fn area_of(pool: Pool, frame: &UserFrame, bytes: u32) -> Option<Area<'static>> {
    let fits = |area: &Area<'_>| area.format() == VECTORS_RISCV64 && area.register_bytes() == bytes as usize;
    Area::of(pool, frame).filter(fits)
}

impl Vectors {
    fn area(self, pool: Pool, frame: &UserFrame) -> Option<Area<'static>> {
        area_of(pool, frame, self.bytes)
    }

    fn is_in(self, frame: &UserFrame) -> bool {
        frame.ext_valid.get() != 0 && frame.vector_bytes.get() == self.bytes
    }

    /// A register's value is in each of its words. Whether any were stored.
    fn store(&mut self, pool: Pool, frame: &UserFrame) -> bool {
        // What is open has been loaded from this frame, or has its initial values.
        if !self.are_open || !self.are_modified && !self.is_in(frame) {
            return false;
        }
        // A frame without an area is not that of the thread that they are open for, which has ended.
        let Some(area) = self.area(pool, frame) else { return false };
        for (number, value) in self.values.into_iter().enumerate() {
            area.register(number).iter().for_each(|word| word.set(value));
        }
        frame.vector_bytes.set(self.bytes);
        self.are_modified = false;
        true
    }

    /// Drops the frame's values, and closes them.
    pub fn discard(&mut self, frame: &UserFrame) {
        if self.bytes != 0 {
            frame.vector_bytes.set(0);
            self.are_open = false;
        }
    }

    /// Closes them if the frame has no values of this length (any more).
    pub fn keep(&mut self, frame: &UserFrame) {
        self.are_open &= self.is_in(frame);
    }

    /// Opens them, with what the frame's area holds of registers of this length.
    pub fn open(&mut self, pool: Pool, frame: &UserFrame) {
        let area = self.area(pool, frame).filter(|_| self.is_in(frame));
        self.values = std::array::from_fn(|number| area.map_or(0, |area| area.register(number)[0].get()));
        (self.are_open, self.are_modified) = (true, false);
    }
}

impl Hart {
    pub fn new(vector_bytes: u32) -> Self {
        Self {
            root: Frame::NONE,
            pages: HashMap::new(),
            tables: HashMap::new(),
            fetch: None,
            ext: [0; EXT_REGISTERS],
            vectors: Vectors { bytes: vector_bytes, ..Vectors::default() },
        }
    }

    /// Translates by `root` from now on; what is cached stays until it is flushed.
    pub fn activate(&mut self, root: Frame) {
        self.root = root;
        self.fetch = None;
    }

    pub fn flush_page(&mut self, address: u64) {
        self.pages.remove(&(address >> PAGE_SHIFT));
        self.tables.remove(&(address >> (PAGE_SHIFT + 9)));
        self.fetch = None;
    }

    pub fn flush_all(&mut self) {
        self.pages.clear();
        self.tables.clear();
        self.fetch = None;
    }

    /// Whether the frame, or its area, is not what it was.
    pub fn save_ext(&mut self, pool: Pool, frame: &UserFrame) -> bool {
        let is_new =
            frame.ext_valid.get() == 0 || frame.ext.iter().zip(self.ext).any(|(cell, value)| cell.get() != value);
        for (cell, value) in frame.ext.iter().zip(self.ext) {
            cell.set(value);
        }
        if frame.ext_valid.get() == 0 {
            frame.vector_bytes.set(0);
        }
        frame.ext_valid.set(1);
        self.vectors.store(pool, frame) || is_new
    }

    pub fn load_ext(&mut self, frame: &UserFrame) {
        let valid = frame.ext_valid.get() != 0;
        self.ext = std::array::from_fn(|index| if valid { frame.ext[index].get() } else { 0 });
        self.vectors.are_open = false;
    }

    /// Executes up to `budget` instructions.
    pub fn run(&mut self, machine: &Island, regs: &mut Registers, budget: u64) -> Option<Trap> {
        for _ in 0..budget {
            if let Err(trap) = self.step(machine, regs) {
                return Some(trap);
            }
        }
        None
    }

    fn step(&mut self, machine: &Island, regs: &mut Registers) -> Result<(), Trap> {
        // A kernel that restarts a system call goes back by the size of the real ISA's instruction.
        if regs.pc % INSTRUCTION_SIZE == INSTRUCTION_SIZE - system_call_size(machine.isa) {
            regs.pc &= !(INSTRUCTION_SIZE - 1);
        }
        let pc = regs.pc;
        let word = self.fetch(machine, pc)?;
        let Instruction { op, a, b, c, imm } = Instruction::decode(word).ok_or(Trap::IllegalInstruction { word: 0 })?;
        let (a, left, right) = (a as usize, regs.general[b as usize], regs.general[c as usize]);
        let wide = i64::from(imm) as u64;
        let mut next = pc.wrapping_add(INSTRUCTION_SIZE);
        let jump = |taken: bool| if taken { pc.wrapping_add(wide) } else { next };
        let first = regs.general[a];
        let result = match op {
            Op::Li => wide,
            Op::Lih => first & 0xffff_ffff | wide << 32,
            Op::Add => left.wrapping_add(right),
            Op::Sub => left.wrapping_sub(right),
            Op::And => left & right,
            Op::Or => left | right,
            Op::Xor => left ^ right,
            Op::Shl => left.wrapping_shl(right as u32),
            Op::Shr => left.wrapping_shr(right as u32),
            Op::Sar => (left as i64).wrapping_shr(right as u32) as u64,
            Op::Mul => left.wrapping_mul(right),
            Op::Divu => left.checked_div(right).ok_or(Trap::Arithmetic)?,
            Op::Remu => left.checked_rem(right).ok_or(Trap::Arithmetic)?,
            Op::Addi => left.wrapping_add(wide),
            Op::Andi => left & wide,
            Op::Lea => pc.wrapping_add(wide),
            Op::Ld8 => self.load(machine, left.wrapping_add(wide), 1)?,
            Op::Ld16 => self.load(machine, left.wrapping_add(wide), 2)?,
            Op::Ld32 => self.load(machine, left.wrapping_add(wide), 4)?,
            Op::Ld64 => self.load(machine, left.wrapping_add(wide), 8)?,
            Op::St8 | Op::St16 | Op::St32 | Op::St64 => {
                let size = 1 << (op as u8 - Op::St8 as u8);
                self.store(machine, left.wrapping_add(wide), size, first)?;
                first
            }
            Op::Beq | Op::Bne | Op::Bltu | Op::Bgeu | Op::Blt | Op::Bge => {
                next = jump(compare(op, first, left));
                first
            }
            Op::Jal => std::mem::replace(&mut next, pc.wrapping_add(wide)),
            Op::Jalr => std::mem::replace(&mut next, left.wrapping_add(wide)),
            Op::Cas | Op::AmoAdd | Op::AmoSwap => self.atomic(machine, op, right, wide, first, left)?,
            Op::Fence => {
                std::sync::atomic::fence(Ordering::SeqCst);
                first
            }
            Op::Syscall => {
                regs.pc = next;
                return Err(Trap::Syscall);
            }
            Op::Break => {
                if machine.isa == Isa::X86_64 {
                    regs.pc = next;
                }
                return Err(Trap::Breakpoint);
            }
            Op::Pause => {
                std::hint::spin_loop();
                first
            }
            Op::GetTp => regs.thread_pointer,
            Op::SetTp => {
                regs.thread_pointer = first;
                first
            }
            Op::Time => machine.now_ns(),
            Op::ExtAdd => {
                let ext = &mut self.ext[imm as usize % EXT_REGISTERS];
                *ext = ext.wrapping_add(first);
                first
            }
            Op::ExtSet => {
                self.ext[imm as usize % EXT_REGISTERS] = first;
                first
            }
            Op::ExtGet => self.ext[imm as usize % EXT_REGISTERS],
            Op::VectorSet => {
                *self.vector(imm, word)? = first;
                self.vectors.are_modified = true;
                first
            }
            Op::VectorGet => *self.vector(imm, word)?,
        };
        regs.general[a] = result;
        regs.pc = next;
        Ok(())
    }

    fn vector(&mut self, imm: i32, instruction: u64) -> Result<&mut u64, Trap> {
        if !self.vectors.are_open {
            // As RISC-V cores do, which these encodings are made for.
            return Err(Trap::IllegalInstruction { word: instruction as u32 });
        }
        Ok(&mut self.vectors.values[imm as usize % VECTOR_REGISTERS])
    }

    fn fetch(&mut self, machine: &Island, pc: u64) -> Result<u64, Trap> {
        if pc % INSTRUCTION_SIZE != 0 {
            return Err(Trap::Misaligned { address: pc });
        }
        let word = (pc % PAGE_SIZE / 8) as usize;
        let key = (pc >> PAGE_SHIFT, machine.instruction_epoch());
        if let Some((fetched, code)) = &self.fetch
            && *fetched == key
            && !machine.checks_stale()
        {
            return Ok(code[word]);
        }
        let frame = self.translate(machine, pc, Access::Execute)?.frame();
        let code = machine.instructions(frame);
        let fetched = code[word];
        if machine.checks_stale() {
            let present = machine.pool_words(frame)[word].load(Ordering::Relaxed);
            assert!(
                present == fetched,
                "stale instruction executed at {pc:#x} (frame {:#x}): {fetched:#x}, memory has {present:#x}",
                frame.0
            );
        }
        self.fetch = Some((key, code));
        Ok(fetched)
    }

    fn load(&mut self, machine: &Island, address: u64, size: u64) -> Result<u64, Trap> {
        let addr = self.aligned(machine, address, size, Access::Read)?;
        let pool = machine.pool_map();
        Ok(match size {
            1 => u64::from(pool.at::<AtomicU8>(addr).load(Ordering::Acquire)),
            2 => u64::from(pool.at::<AtomicU16>(addr).load(Ordering::Acquire)),
            4 => u64::from(pool.at::<AtomicU32>(addr).load(Ordering::Acquire)),
            _ => pool.at::<AtomicU64>(addr).load(Ordering::Acquire),
        })
    }

    fn store(&mut self, machine: &Island, address: u64, size: u64, value: u64) -> Result<(), Trap> {
        let addr = self.aligned(machine, address, size, Access::Write)?;
        let pool = machine.pool_map();
        match size {
            1 => pool.at::<AtomicU8>(addr).store(value as u8, Ordering::Release),
            2 => pool.at::<AtomicU16>(addr).store(value as u16, Ordering::Release),
            4 => pool.at::<AtomicU32>(addr).store(value as u32, Ordering::Release),
            _ => pool.at::<AtomicU64>(addr).store(value, Ordering::Release),
        }
        Ok(())
    }

    /// `expected` and `value` as in the instruction's a and b; returns the old value.
    fn atomic(
        &mut self,
        machine: &Island,
        op: Op,
        address: u64,
        size: u64,
        expected: u64,
        value: u64,
    ) -> Result<u64, Trap> {
        macro_rules! perform {
            ($word:ty, $value:ty, $addr:expr) => {{
                let word = machine.pool_map().at::<$word>($addr);
                let value = value as $value;
                u64::from(if op == Op::AmoAdd {
                    word.fetch_add(value, Ordering::SeqCst)
                } else if op == Op::AmoSwap {
                    word.swap(value, Ordering::SeqCst)
                } else {
                    match word.compare_exchange(expected as $value, value, Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(old) | Err(old) => old,
                    }
                })
            }};
        }
        if !matches!(size, 1 | 2 | 4 | 8) {
            return Err(Trap::IllegalInstruction { word: 0 });
        }
        let addr = self.aligned(machine, address, size, Access::Write)?;
        Ok(match size {
            1 => perform!(AtomicU8, u8, addr),
            2 => perform!(AtomicU16, u16, addr),
            4 => perform!(AtomicU32, u32, addr),
            _ => perform!(AtomicU64, u64, addr),
        })
    }

    fn aligned(&mut self, machine: &Island, address: u64, size: u64, access: Access) -> Result<PoolAddr, Trap> {
        if address % size != 0 {
            return Err(Trap::Misaligned { address });
        }
        self.translate(machine, address, access)
    }

    fn translate(&mut self, machine: &Island, address: u64, access: Access) -> Result<PoolAddr, Trap> {
        if address >> 47 != 0 {
            return Err(Trap::BadAddress { address });
        }
        let fault = Trap::PageFault { address, access };
        let page = address >> PAGE_SHIFT;
        let mut found = self.pages.get(&page).copied();
        // x86-64 walks again before it faults on a cached permission; the others may fault on it.
        if machine.format() == Format::X86_64 && found.is_some_and(|found| !allows(found.attr, access)) {
            found = None;
        }
        let translation = match found {
            Some(found) => {
                self.check_not_stale(machine, address, found);
                found
            }
            None => {
                let walked = self.walk(machine, address).ok_or(fault)?;
                self.pages.insert(page, walked);
                walked
            }
        };
        if !allows(translation.attr, access) {
            return Err(fault);
        }
        Ok(translation.frame.addr().add(address % PAGE_SIZE))
    }

    /// Walks as hardware does, from the cached table of pages if there is one.
    fn walk(&mut self, machine: &Island, address: u64) -> Option<Translation> {
        let region = address >> (PAGE_SHIFT + 9);
        let table = match self.tables.get(&region) {
            Some(&table) => {
                self.check_table_not_stale(machine, address, table);
                table
            }
            None => {
                let table = find_table(machine, self.root, address)?;
                self.tables.insert(region, table);
                table
            }
        };
        read_leaf(machine, table, address)
    }

    /// While nobody changes a space (its lock is free), a core that has it active must hold no translation that the
    /// table does not grant: whoever took the right away shot it down before unlocking.
    fn check_not_stale(&self, machine: &Island, address: u64, cached: Translation) {
        let Some(space) = self.unchanging_space(machine) else { return };
        let now = find_table(machine, self.root, address).and_then(|table| read_leaf(machine, table, address));
        let granted = now.is_some_and(|now| now.frame == cached.frame && now.attr.contains(access_bits(cached.attr)));
        assert!(
            granted || !unlocked(space),
            "stale translation of {address:#x} used after its shoot-down: cached {:#x} {:?}, table has {:?}",
            cached.frame.0,
            cached.attr,
            now.map(|now| (now.frame, now.attr))
        );
    }

    /// The same for cached tables: one that is out of the tree may be used for anything.
    fn check_table_not_stale(&self, machine: &Island, address: u64, cached: PoolAddr) {
        let Some(space) = self.unchanging_space(machine) else { return };
        let now = find_table(machine, self.root, address);
        assert!(
            now == Some(cached) || !unlocked(space),
            "stale table for {address:#x} used after its shoot-down: cached {cached:?}, the tree has {now:?}"
        );
    }

    /// The active space, if it is to be checked and nobody changes it now.
    fn unchanging_space(&self, machine: &Island) -> Option<&'static SpaceRecord> {
        let space = machine.active_space().filter(|_| machine.checks_stale())?;
        let is_this = space.roots[machine.own_index()].load(Ordering::Relaxed) == self.root.0;
        (is_this && unlocked(space)).then_some(space)
    }
}

fn unlocked(space: &SpaceRecord) -> bool {
    space.lock.word().load(Ordering::SeqCst) == 0
}

fn access_bits(attr: Attr) -> Attr {
    attr.without(Attr::COW | Attr::SHARED)
}

fn allows(attr: Attr, access: Access) -> bool {
    attr.contains(match access {
        Access::Read => Attr::READ,
        Access::Write => Attr::WRITE,
        Access::Execute => Attr::EXECUTE,
    })
}

fn compare(op: Op, a: u64, b: u64) -> bool {
    let unsigned_less = a < b;
    let signed_less = (a as i64) < b as i64;
    (op == Op::Beq && a == b)
        || (op == Op::Bne && a != b)
        || (op == Op::Bltu && unsigned_less)
        || (op == Op::Bgeu && !unsigned_less)
        || (op == Op::Blt && signed_less)
        || (op == Op::Bge && !signed_less)
}

const fn index(address: u64, level: u8) -> usize {
    (address >> (PAGE_SHIFT + 9 * level as u32)) as usize % 512
}

/// The table of pages for `address`: three levels of table entries, in the island's local physical addresses.
fn find_table(machine: &Island, root: Frame, address: u64) -> Option<PoolAddr> {
    let pool = machine.pool_map();
    if root.is_none() {
        return None;
    }
    let map: PhysMap<'_> = PhysMap::new(ranges(machine), pool.len());
    let mut table = root.addr();
    for level in (1..LEVELS).rev() {
        let pte = pool.page_words(table)?[index(address, level)].load(Ordering::Acquire);
        table = match machine.format().decode(pte, level) {
            Entry::Table(phys) => map.to_pool(phys)?,
            Entry::Empty | Entry::Leaf { .. } => return None,
            Entry::Corrupt => panic!("page-table walk of {address:#x} met {pte:#x} at level {level}"),
        };
    }
    Some(table)
}

fn read_leaf(machine: &Island, table: PoolAddr, address: u64) -> Option<Translation> {
    let pool = machine.pool_map();
    let pte = pool.page_words(table)?[index(address, 0)].load(Ordering::Acquire);
    match machine.format().decode(pte, 0) {
        Entry::Leaf { phys, attr } if machine.format().is_present(pte) => {
            let frame = PhysMap::new(ranges(machine), pool.len()).to_pool(phys)?.frame();
            Some(Translation { frame, attr })
        }
        Entry::Leaf { .. } | Entry::Empty | Entry::Table(_) => None,
        Entry::Corrupt => panic!("page-table walk of {address:#x} met {pte:#x} at level 0"),
    }
}

fn ranges(machine: &Island) -> &'static [PoolRange] {
    &machine.pool_map().header().islands[machine.own_index()].ranges
}

/// A copy of a frame's words, as fetches will see them until the next synchronisation.
pub fn snapshot(words: &[AtomicU64; 512]) -> CodePage {
    Arc::new(std::array::from_fn(|index| words[index].load(Ordering::Acquire)))
}

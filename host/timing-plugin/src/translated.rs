//! What translated code is made to do.
//!
//! A block that accesses no memory and whose lines were fetched last in their sets of L1I makes no call: it compares and
//! adds words of its virtual CPU.

use std::mem::offset_of;

use motet_coherence::{Class, LINE_SIZE, Policy, config};
use motet_layout::{Isa, PAGE_SIZE, marks};
use motet_plugin_api::{Block, Condition, Direction, Instruction};

use crate::{
    ONE_LINE, PLUGIN, Plugin, RECENT_LINES, RECENT_PAGES, VcpuTime, announced_with_guest,
    atomics::{Accesses, accesses},
    boundary, caches, classes, firmware, mark_executed, noted, operands,
    recent::SLOTS,
    region_begins, region_ends, translations, traps,
};

/// Kernels' code lies from here on: the half of the address space that user programs cannot have.
const KERNEL_START: u64 = 0xffff_8000_0000_0000;

/// What is known of an island's costs without asking the model.
#[derive(Debug)]
pub struct Costs {
    /// Of one instruction of each class, in femtoseconds.
    instruction_fs: [u64; config::CLASSES],
    /// Whether all classes cost the same.
    uniform: bool,
    /// An instruction fetch that hits L1I, in picoseconds.
    pub fetch_hit_ps: u64,
    /// Local addresses of the memory that L1I caches: start and size.
    fetched_by_cache: Vec<(u64, u64)>,
    /// Number of the last slot in [`VcpuTime::recent_lines`] that is used. Lines of one set of L1I share a slot.
    recent_last: u64,
    /// Of loads and stores.
    pub data: DataCosts,
}

/// What is known of loads and stores without asking the model.
#[derive(Clone, Copy, Debug)]
pub struct DataCosts {
    /// One that hits L1D, in picoseconds.
    pub hit_ps: u64,
    /// Number of the last slot in [`VcpuTime::recent_data`] that is used.
    last: u64,
    /// Whether an access's position in its page tells its set of L1D, or at least some of its bits.
    pub remembers: bool,
    /// Whether it tells all of them.
    pub slots_are_sets: bool,
    /// Whether cores have TLBs.
    pub translates: bool,
}

impl Costs {
    /// Of an island.
    pub fn new(island: &config::IslandConfig) -> Self {
        let timing = &island.timing;
        let cached = island.segments.iter().filter(|segment| segment.fetch != Policy::Uncached && island.l1i.real);
        Self {
            instruction_fs: timing.instruction_fs,
            uniform: timing.instruction_fs.iter().all(|&fs| fs == timing.instruction_fs[0]),
            fetch_hit_ps: timing.l1i_ps,
            fetched_by_cache: cached.map(|segment| (segment.local, segment.size)).collect(),
            recent_last: island.l1i.sets.min(RECENT_LINES) as u64 - 1,
            data: DataCosts {
                hit_ps: timing.l1d_ps,
                last: island.l1d.sets.min(SLOTS) as u64 - 1,
                remembers: island.segments.iter().all(|segment| segment.data_delta % PAGE_SIZE == 0),
                slots_are_sets: island.l1d.sets <= SLOTS,
                translates: island.tlbs.is_some(),
            },
        }
    }

    fn instruction_fs(&self, isa: Isa, code: &[u8]) -> u64 {
        let class = if self.uniform { Class::Integer } else { classes::class(isa, code) };
        self.instruction_fs[class as usize]
    }

    /// Whether L1I can hold the line at a local address.
    fn is_cached(&self, line: u64) -> bool {
        self.fetched_by_cache.iter().any(|&(start, size)| line.wrapping_sub(start) < size)
    }

    /// A line's slot in [`VcpuTime::recent_lines`].
    #[inline(always)]
    pub fn recent(&self, line: u64) -> usize {
        (line / LINE_SIZE & self.recent_last) as usize
    }
}

impl DataCosts {
    /// An address's slot in [`VcpuTime::recent_data`].
    #[inline(always)]
    pub fn slot(&self, address: u64) -> usize {
        (address / LINE_SIZE & self.last) as usize
    }
}

/// What an instruction finds counted already of the rest of its block, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// How many instructions.
    pub instructions: u64,
    /// Their time, without memory.
    pub time_ps: u64,
}

impl Ahead {
    /// Blocks have at most some hundred instructions (`TCG_MAX_INSNS`: 512).
    const COUNT_BITS: u32 = 16;

    fn pack(self) -> usize {
        (self.time_ps << Self::COUNT_BITS | self.instructions) as usize
    }

    /// From the data of a call.
    pub fn unpack(data: usize) -> Self {
        let data = data as u64;
        Self { instructions: data & ((1 << Self::COUNT_BITS) - 1), time_ps: data >> Self::COUNT_BITS }
    }
}

/// A mark of a region in a block: the instruction, and what comes before it.
struct RegionMark<'a> {
    instruction: Instruction<'a>,
    mark: u8,
    count: u64,
    time_fs: u64,
}

/// QEMU is translating a block.
pub fn translated(block: &Block<'_>) {
    let Some(plugin) = PLUGIN.get() else { return };
    let (mut count, mut time_fs, mut lines, mut region_marks) = (0, 0, Vec::new(), Vec::new());
    let mut passed = Vec::new();
    let mut pages = Vec::new();
    for instruction in block.instructions() {
        let mut buffer = [0; 16];
        let code = instruction.bytes(&mut buffer);
        let before = (count, time_fs);
        count += 1;
        time_fs += plugin.costs.instruction_fs(plugin.isa, code);
        let local = plugin.local(&instruction);
        if let Some(local) = local {
            add_lines(&mut lines, local, code.len() as u64, plugin.is_pool(local));
        }
        // Firmware runs without translation, at addresses that programs use for other things.
        let remembers = instruction.address() >= KERNEL_START || local.is_some_and(|local| plugin.is_pool(local));
        let page = instruction.address() & !(PAGE_SIZE - 1);
        if remembers && pages.last() != Some(&page) {
            pages.push(page);
        }
        let accesses = accesses(plugin.isa, code);
        report_accesses(plugin, &instruction, accesses, remembers);
        noted::report_accesses(plugin, &instruction, accesses);
        let mark = marks::decode(plugin.isa, code);
        if instruction.address() >= KERNEL_START {
            report_kernel(plugin, &instruction, code, mark);
        } else if local.is_some_and(|local| plugin.firmware.contains(&local)) {
            firmware::report(plugin, &instruction, code, mark);
        } else if plugin.has_guests {
            traps::report(plugin, &instruction, code);
        }
        if let Some(mark @ (marks::ROI_BEGIN | marks::ROI_END)) = mark {
            region_marks.push(RegionMark { instruction, mark, count: before.0, time_fs: before.1 });
        } else if let Some(number) = plugin.points.as_ref().and_then(|points| points.at(instruction.address())) {
            passed.push((instruction, number, before.1));
        }
    }
    for (instruction, number, before_fs) in passed {
        let points = plugin.points.iter();
        points.for_each(|points| points.report(&instruction, number, (time_fs - before_fs + 500) / 1000));
    }
    for mark in region_marks {
        mark.report(count, time_fs);
    }
    let limit_ps = plugin.timing.step_max_ps();
    let time = plugin.times.word(offset_of!(VcpuTime, since_ps));
    block.call_if(time, Condition::AtLeast, limit_ps, boundary, 0);
    let hits = lines.iter().filter(|&&line| plugin.costs.is_cached(line)).count() as u64;
    block.add(time, (time_fs + 500) / 1000 + hits * plugin.costs.fetch_hit_ps);
    block.add(plugin.times.word(offset_of!(VcpuTime, counts)), count + hits * ONE_LINE);
    if plugin.costs.data.translates {
        pages.iter().for_each(|&page| report_page(plugin, block, page));
    }
    for &line in &lines {
        report_fetch(plugin, block, line);
    }
    noted::report_fetches(plugin, block, &lines);
}

/// Adds the lines of an instruction's bytes. Kernels lie in one piece; where a program's instruction goes on that crosses
/// pages, `scattered` in memory, is not known.
fn add_lines(lines: &mut Vec<u64>, local: u64, len: u64, scattered: bool) {
    let last = local + len.max(1) - 1;
    for byte in [local, if scattered { last.min(local | 0xfff) } else { last }] {
        let line = byte / LINE_SIZE * LINE_SIZE;
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
}

/// Lets translated code call for a line unless it was the last one of its set: see [`caches::fetched`].
fn report_fetch(plugin: &Plugin, block: &Block<'_>, line: u64) {
    if plugin.costs.is_cached(line) {
        let word = offset_of!(VcpuTime, recent_lines) + plugin.costs.recent(line) * size_of::<u64>();
        block.call_if(plugin.times.word(word), Condition::NotEqual, line + 1, caches::fetched, line as usize);
    } else {
        let always = plugin.times.word(offset_of!(VcpuTime, counts));
        block.call_if(always, Condition::AtLeast, 0, caches::fetched_uncached, line as usize);
    }
}

/// Lets translated code call for a page of code unless it was entered last among those of its slot.
fn report_page(plugin: &Plugin, block: &Block<'_>, page: u64) {
    let word = offset_of!(VcpuTime, recent_pages) + page_slot(page) * size_of::<u64>();
    block.call_if(plugin.times.word(word), Condition::NotEqual, page + 1, caches::page_entered, page as usize);
}

/// The slot of a page in [`VcpuTime::recent_pages`].
pub fn page_slot(page: u64) -> usize {
    (page / PAGE_SIZE) as usize % RECENT_PAGES
}

fn report_accesses(plugin: &Plugin, instruction: &Instruction<'_>, accesses: Accesses, remembers: bool) {
    let call_on_store = || match plugin.has_one_core {
        true => instruction.call_on_access(Direction::Store, caches::stored::<true>),
        false => instruction.call_on_access(Direction::Store, caches::stored::<false>),
    };
    match (accesses, remembers) {
        (Accesses::AsReported, true) => {
            match plugin.has_one_core {
                true => instruction.call_on_access(Direction::Load, caches::loaded::<true>),
                false => instruction.call_on_access(Direction::Load, caches::loaded::<false>),
            }
            call_on_store();
        }
        (Accesses::Atomic, true) => instruction.call_on_access(Direction::Store, caches::updated),
        (Accesses::StoreConditional, true) => call_on_store(),
        (_, false) => {
            instruction.call_on_access(Direction::Load, caches::loaded_untranslated);
            instruction.call_on_access(Direction::Store, caches::stored_untranslated);
        }
    }
}

/// What only kernels do. A user program that executes one of their marks changes nothing.
fn report_kernel(plugin: &Plugin, instruction: &Instruction<'_>, code: &[u8], mark: Option<u8>) {
    if let Some(mark) = mark.filter(|&mark| {
        let known =
            [marks::CLOCK, marks::RING, marks::WROTE, marks::WOKE, marks::FLUSH, marks::TRANSFER, marks::ENGINE];
        known.contains(&mark) || mark >= marks::CORE
    }) {
        if mark >= marks::CORE && plugin.costs.data.translates {
            instruction.call_with_guest(announced_with_guest, mark.into());
        } else {
            instruction.call(mark_executed, mark.into());
        }
    }
    traps::report(plugin, instruction, code);
    report_tables(plugin, instruction, code);
}

/// Lets translated code tell the model when the core switches page tables, or drops translations.
pub fn report_tables(plugin: &Plugin, instruction: &Instruction<'_>, code: &[u8]) {
    if translations::are_dropped_by(plugin.isa, code) {
        if plugin.costs.data.translates {
            instruction.call_with_guest(caches::tables_changed, operands::site(instruction.address(), code));
        } else {
            instruction.call(caches::translations_dropped, 0);
        }
    } else if plugin.has_guests && plugin.costs.data.translates && translations::chooses_guest(plugin.isa, code) {
        instruction.call_with_guest(caches::guest_chosen, operands::site(instruction.address(), code));
    }
}

impl RegionMark<'_> {
    /// Lets translated code call for it. `count`, `time_fs`: of the whole block.
    fn report(self, count: u64, time_fs: u64) {
        let ahead = Ahead { instructions: count - self.count, time_ps: (time_fs - self.time_fs + 500) / 1000 };
        if self.mark == marks::ROI_BEGIN {
            self.instruction.call_with_guest(region_begins, ahead.pack());
        } else {
            self.instruction.call_with_guest(region_ends, ahead.pack());
        }
    }
}

impl Plugin {
    fn is_pool(&self, local: u64) -> bool {
        self.pool.contains(&local)
    }

    /// The island's physical address of an instruction.
    fn local(&self, instruction: &Instruction<'_>) -> Option<u64> {
        let host = instruction.host_address()?;
        self.host_map.lock().unwrap_or_else(std::sync::PoisonError::into_inner).local(host)
    }
}

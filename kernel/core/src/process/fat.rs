//! Loading executables that hold the text of several ISAs (`motet_abi::fat`).
//!
//! As with all executables, the file is an allegation.

use core::ops::Range;

use elf::{
    abi::{PF_W, PF_X, PT_LOAD, PT_NOTE},
    segment::ProgramHeader,
};
use motet_abi::{
    Errno,
    fat::{self, BadNote, Header, ISAS, NOTE_NAME, NOTE_TYPE, Near, PT_TEXT, Pin},
};
use motet_hal::Machine;
use motet_layout::{FatProgram, InodeRecord, Isa, PAGE_SIZE, SpaceRecord, VMA_EXECUTE, VMA_READ, VMA_STORE, VMA_VIEW};
use motet_protocol::{Context, fs, slab};

use super::{executable::Executable, refusal::FatRefusal};
use crate::{
    cpu::Cpu,
    mm::{self, Policy, View, VmaSpec},
};

/// Where stores lie: out of every program's way, [`STORE_SPAN`] for each ISA.
const STORES: u64 = 0x7d00_0000_0000;
const STORE_SPAN: u64 = 1 << 36;
/// Notes that are looked through for ours.
const NOTES_MAX: usize = 64;

/// The text of a file for several ISAs.
pub struct Fat {
    header: Header,
    /// Where the pins are in the file.
    pins_at: u64,
    /// The primary ISA's text, in whole pages.
    start: u64,
    end: u64,
    /// By ISA code - 1: offset of the text in the file, and bytes there.
    texts: [Option<(u64, u64)>; ISAS],
}

/// [`VmaSpec::policy`](crate::mm::VmaSpec::policy) of a segment of a program for several ISAs: where the file says that its
/// pages should lie, if the machine has such an island.
///
/// # Errors
/// The file says what cannot be.
pub fn policy_of_segment<M: Machine>(cpu: &Cpu<M>, segment: &ProgramHeader) -> Result<Policy, FatRefusal> {
    let island = match Near::of_flags(segment.p_flags)? {
        None => None,
        Some(Near::Isa(isa)) => cpu.islands_of(isa).next(),
        Some(Near::Island(island)) => {
            Some(island).filter(|island| island.index() < cpu.pool.header().island_count.get() as usize)
        }
    };
    Ok(island.map_or(Policy::DEFAULT, Policy::near))
}

impl Fat {
    /// Looks for texts of several ISAs in a file: `None` when it is an ordinary executable.
    ///
    /// # Errors
    /// The parts do not fit together.
    pub fn find<M: Machine>(
        cpu: &Cpu<M>,
        executable: &Executable<'_>,
        inode: &'static InodeRecord,
    ) -> Result<Option<Self>, FatRefusal> {
        let note = executable.segments().filter(|segment| segment.p_type == PT_NOTE);
        let note = note.filter_map(|segment| find_note(cpu, inode, &segment)).next();
        let has_texts = executable.is_fat();
        match note {
            None if !has_texts => Ok(None),
            Some(at) if has_texts && executable.is_fixed() => Self::read(cpu, executable, inode, at).map(Some),
            None | Some(_) => Err(FatRefusal::Incomplete),
        }
    }

    fn read<M: Machine>(
        cpu: &Cpu<M>,
        executable: &Executable<'_>,
        inode: &'static InodeRecord,
        (note_at, note_len): (u64, u64),
    ) -> Result<Self, FatRefusal> {
        let mut bytes = [0; Header::SIZE];
        if fs::read_bytes(cpu, inode, note_at, &mut bytes) < bytes.len() {
            return Err(BadNote::Truncated.into());
        }
        let header = Header::parse(&bytes)?;
        let needed = Header::SIZE as u64 + u64::from(header.pins) * Pin::SIZE as u64 + u64::from(header.names_len);
        if note_len < needed {
            return Err(BadNote::Truncated.into());
        }
        if header.primary != executable.header_isa {
            return Err(FatRefusal::Primary(header.primary));
        }
        let mut code = executable.segments().filter(|segment| segment.p_type == PT_LOAD && segment.p_flags & PF_X != 0);
        let text = code.next().filter(|text| text.p_flags & PF_W == 0).ok_or(FatRefusal::Text)?;
        if code.next().is_some() || text.p_memsz == 0 || text.p_memsz > STORE_SPAN / 2 {
            return Err(FatRefusal::Text);
        }
        let start = text.p_vaddr & !(PAGE_SIZE - 1);
        let lead = text.p_vaddr - start;
        let end = text.p_vaddr.checked_add(text.p_memsz).and_then(|end| end.checked_next_multiple_of(PAGE_SIZE));
        let end = end.ok_or(FatRefusal::Text)?;
        let mut texts = [None; ISAS];
        texts[header.primary as usize - 1] =
            Some((text.p_offset.checked_sub(lead).ok_or(FatRefusal::Text)?, text.p_filesz + lead));
        let mut fat = Self { header, pins_at: note_at + Header::SIZE as u64, start, end, texts };
        let file_len = inode.size.load(motet_layout::sync::Ordering::Relaxed);
        for other in executable.segments().filter(|segment| segment.p_type == PT_TEXT) {
            fat.add_text(&other, file_len)?;
        }
        fat.check_pins(cpu, inode)?;
        Ok(fat)
    }

    fn add_text(&mut self, segment: &ProgramHeader, file_len: u64) -> Result<(), FatRefusal> {
        let code = segment.p_flags >> 20 & 0xff;
        let isa = fat::isa_of_flags(segment.p_flags).ok_or(BadNote::Isa(code))?;
        let in_file = segment.p_offset.checked_add(segment.p_filesz).is_some_and(|end| end <= file_len);
        let whole = segment.p_filesz == segment.p_memsz && segment.p_offset % PAGE_SIZE == 0;
        let place = &mut self.texts[isa as usize - 1];
        if place.is_some()
            || !in_file
            || !whole
            || segment.p_vaddr != self.start
            || segment.p_memsz != self.end - self.start
        {
            return Err(FatRefusal::Misplaced(isa));
        }
        *place = Some((segment.p_offset, segment.p_filesz));
        Ok(())
    }

    /// Pins are in order, in the text, and do not share pages with pins of other ISAs or of another strictness.
    fn check_pins<M: Machine>(&self, cpu: &Cpu<M>, inode: &'static InodeRecord) -> Result<(), FatRefusal> {
        let mut before: Option<Pin> = None;
        for index in 0..self.header.pins {
            let pin = read_pin(cpu, inode, self.pins_at, index)?;
            let end_before = before.map_or(self.start, |before| before.address + before.size);
            if pin.address < end_before || pin.address + pin.size > self.end {
                return Err(BadNote::PinPlace(pin.address).into());
            }
            let page = pin.address & !(PAGE_SIZE - 1);
            let differs = |before: Pin| (before.isa, before.strict) != (pin.isa, pin.strict);
            if before.is_some_and(|before| differs(before) && before.address + before.size > page) {
                return Err(BadNote::SharedPage(page).into());
            }
            before = Some(pin);
        }
        Ok(())
    }

    /// Whether a segment is the one that views stand for.
    pub fn is_text(&self, segment: &ProgramHeader) -> bool {
        segment.p_flags & PF_X != 0
    }

    /// Maps the stores and the views, and tells the space what it runs.
    ///
    /// # Errors
    /// `ENOMEM`; `ENOEXEC` when the file has changed meanwhile.
    pub fn map<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        space: &'static SpaceRecord,
        inode: &'static InodeRecord,
    ) -> Result<(), Errno> {
        let program = slab::alloc::<FatProgram>(cpu).ok_or(Errno::ENOMEM)?;
        space.fat.set(cpu.raw(program));
        program.inode.set(cpu.raw(inode));
        program.pins_at.set(self.pins_at);
        program.pins.set(self.header.pins);
        program.names_len.set(self.header.names_len);
        // Over links, each core needs its stack near.
        program.one_stack.set(u32::from(self.header.one_stack && !cpu.crossing.reach().is_noncoherent()));
        let has = |isa: usize| u32::from(self.texts[isa].is_some()) << (isa + 1);
        program.texts.set((0..ISAS).map(has).sum());
        for (slot, &bias) in program.thread_pointer_bias.iter().zip(&self.header.thread_pointer_bias) {
            slot.set(bias);
        }
        let mut at = self.start;
        let mut strict_before = false;
        for index in 0..self.header.pins {
            let pin = read_pin(cpu, inode, self.pins_at, index).map_err(|_| Errno::ENOEXEC)?;
            let (first, last) = (pin.address & !(PAGE_SIZE - 1), (pin.address + pin.size).next_multiple_of(PAGE_SIZE));
            self.view(cpu, space, inode, at..first, None, true)?;
            at = at.max(first);
            // A view runs locally as a whole, which strict functions must not.
            self.view(cpu, space, inode, at..last, Some(pin.isa), pin.strict == strict_before)?;
            at = at.max(last);
            strict_before = pin.strict;
        }
        self.view(cpu, space, inode, at..self.end, None, true)?;
        self.stores(cpu, space, inode)
    }

    /// A view of a range, or the view below it made longer if it `joins` that; nothing for a range that is empty.
    fn view<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        space: &'static SpaceRecord,
        inode: &'static InodeRecord,
        Range { start, end }: Range<u64>,
        pin: Option<Isa>,
        joins: bool,
    ) -> Result<(), Errno> {
        if end <= start || joins && mm::extend_view(cpu, space, start, end, pin) {
            return Ok(());
        }
        let store = core::array::from_fn(|isa| match self.texts[isa] {
            Some(_) => STORES + STORE_SPAN * isa as u64 + (start - self.start),
            None => 0,
        });
        let flags = VMA_READ | VMA_EXECUTE | VMA_VIEW;
        let view = View { store, pin, local_calls: 0 };
        mm::insert(
            cpu,
            space,
            &VmaSpec { start, end, flags, inode: Some(inode), offset: 0, file_len: 0, policy: Policy::DEFAULT, view },
        )
    }

    fn stores<M: Machine>(
        &self,
        cpu: &Cpu<M>,
        space: &'static SpaceRecord,
        inode: &'static InodeRecord,
    ) -> Result<(), Errno> {
        for (isa, text) in self.texts.iter().enumerate() {
            let Some((offset, file_len)) = *text else { continue };
            let start = STORES + STORE_SPAN * isa as u64;
            let spec = VmaSpec {
                start,
                end: start + (self.end - self.start),
                flags: VMA_READ | VMA_EXECUTE | VMA_STORE,
                inode: Some(inode),
                offset,
                file_len,
                policy: Policy::DEFAULT,
                view: View::default(),
            };
            mm::insert(cpu, space, &spec)?;
        }
        Ok(())
    }
}

/// Where our note's descriptor is in a file, and its length.
fn find_note<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, segment: &ProgramHeader) -> Option<(u64, u64)> {
    let end = segment.p_offset.checked_add(segment.p_filesz)?;
    // Notes are aligned to 4 bytes, or to 8 if their header says so.
    let align = if segment.p_align == 8 { 8 } else { 4 };
    let mut at = segment.p_offset;
    for _ in 0..NOTES_MAX {
        let mut bytes = [0; 12 + NOTE_NAME.len()];
        if at.checked_add(12)? > end || fs::read_bytes(cpu, inode, at, &mut bytes) < 12 {
            return None;
        }
        let [name_len, len, kind] =
            [0, 4, 8].map(|at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let descriptor = at.checked_add((12 + u64::from(name_len)).next_multiple_of(align))?;
        let next = descriptor.checked_add(u64::from(len).next_multiple_of(align))?;
        if kind == NOTE_TYPE && name_len as usize == NOTE_NAME.len() && bytes[12..] == NOTE_NAME[..] {
            return (descriptor + u64::from(len) <= end).then_some((descriptor, len.into()));
        }
        at = next;
    }
    None
}

fn read_pin<M: Machine>(cpu: &Cpu<M>, inode: &'static InodeRecord, pins_at: u64, index: u32) -> Result<Pin, BadNote> {
    let mut bytes = [0; Pin::SIZE];
    if fs::read_bytes(cpu, inode, pins_at + u64::from(index) * Pin::SIZE as u64, &mut bytes) < bytes.len() {
        return Err(BadNote::Truncated);
    }
    Pin::parse(&bytes)
}

/// The pin of the function that begins at `address`.
pub fn pin_of<M: Machine>(cpu: &Cpu<M>, program: &FatProgram, address: u64) -> Option<Pin> {
    let inode = cpu.object::<InodeRecord>(program.inode.get())?;
    let (mut low, mut high) = (0, program.pins.get());
    while low < high {
        let middle = low + (high - low) / 2;
        let pin = read_pin(cpu, inode, program.pins_at.get(), middle).ok()?;
        match pin.address.cmp(&address) {
            core::cmp::Ordering::Equal => return Some(pin),
            core::cmp::Ordering::Less => low = middle + 1,
            core::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

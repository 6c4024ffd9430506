//! What devices compute. They compute in pieces, so that the executor can do something else in between.

use motet_layout::{HARDWARE_FILTERS, HARDWARE_SORTS, HARDWARE_TAPS, ServiceHardware};

use super::{Ends, memory::Memory};

/// Most elements of a block, and most blocks. The number of bytes of all does not overflow.
const COUNT_MAX: u32 = 1 << 24;
/// [`ServiceHardware::kind`] of a sorter: unsigned, 32 bits.
const U32: u32 = 0;
/// [`ServiceHardware::kind`] of a sorter: signed, 64 bits.
const I64: u32 = 1;

/// Reads the argument into the device's registers (`hthread_work_t` of the library; `docs/protocols/hardware-threads.md`).
///
/// # Errors
/// The device may not read the argument, or the argument is not valid.
pub fn fetch(device: &ServiceHardware, memory: Memory) -> Result<(), Ends> {
    let at = device.argument.get();
    let word = |offset: u64| memory.load(at.wrapping_add(offset)).map(u64::from_le_bytes);
    let half = |offset: u64| memory.load(at.wrapping_add(offset)).map(u32::from_le_bytes);
    device.data.set(word(0)?);
    device.out.set(word(8)?);
    device.counter.set(word(16)?);
    device.count.set(half(24)?);
    device.blocks.set(half(28)?.max(1));
    device.kind.set(half(32)?);
    device.mutex.set(half(36)?);
    device.condition.set(half(40)?);
    device.taps.set(half(44)?);
    device.shift.set(half(48)?);
    for (number, coefficient) in device.coefficients.iter().enumerate() {
        coefficient.set(half(56 + 4 * number as u64)?);
    }
    device.block.set(0);
    device.progress.set(0);
    check(device)
}

fn check(device: &ServiceHardware) -> Result<(), Ends> {
    let has_form = device.count.get() <= COUNT_MAX
        && device.blocks.get() <= COUNT_MAX
        && device.mutex.get() <= u32::from(u16::MAX)
        && device.condition.get() <= u32::from(u16::MAX);
    let is_known = match device.does.get() {
        HARDWARE_SORTS => device.kind.get() <= I64,
        HARDWARE_FILTERS => {
            device.kind.get() == 0
                && (1..=HARDWARE_TAPS as u32).contains(&device.taps.get())
                && device.shift.get() < u64::BITS
        }
        _ => false,
    };
    if has_form && is_known { Ok(()) } else { Err(Ends::Invalid) }
}

/// How many pieces the computation of a block has.
pub fn length(device: &ServiceHardware) -> u64 {
    let count = u64::from(device.count.get());
    match device.does.get() {
        // First the heap is built, then its elements are taken out.
        HARDWARE_SORTS => count / 2 + count.saturating_sub(1),
        _ => count,
    }
}

/// Timed machines: how long a block takes, in picoseconds.
pub fn duration_ps(device: &ServiceHardware) -> u64 {
    let count = u64::from(device.count.get());
    let passes = match device.does.get() {
        HARDWARE_SORTS => u64::from(count.next_power_of_two().trailing_zeros()),
        _ => u64::from(device.taps.get()),
    };
    let element_ps = device.element_ps.get().saturating_mul(passes);
    count.saturating_mul(element_ps.saturating_add(device.memory_ps.get().saturating_mul(2)))
}

/// Computes a piece of a block.
///
/// # Errors
/// The device may not read or write an element.
pub fn step(device: &ServiceHardware, memory: Memory, number: u64) -> Result<(), Ends> {
    match (device.does.get(), device.kind.get()) {
        (HARDWARE_SORTS, U32) => {
            Sorter::<4>::of(device, memory, |bytes| i64::from(u32::from_le_bytes(bytes))).step(number)
        }
        (HARDWARE_SORTS, I64) => Sorter::<8>::of(device, memory, i64::from_le_bytes).step(number),
        (HARDWARE_FILTERS, _) => filter(device, memory, number),
        _ => Err(Ends::Invalid),
    }
}

/// Sorts a block in place, by heapsort.
struct Sorter<'a, const N: usize> {
    memory: Memory<'a>,
    start: u64,
    count: u64,
    value: fn([u8; N]) -> i64,
}

impl<'a, const N: usize> Sorter<'a, N> {
    fn of(device: &ServiceHardware, memory: Memory<'a>, value: fn([u8; N]) -> i64) -> Self {
        let count = u64::from(device.count.get());
        let before = u64::from(device.block.get()) * count * N as u64;
        Self { memory, start: device.data.get().wrapping_add(before), count, value }
    }

    fn step(&self, number: u64) -> Result<(), Ends> {
        let half = self.count / 2;
        if number < half {
            return self.sift(half - 1 - number, self.count);
        }
        let last = (self.count - 1).saturating_sub(number - half);
        let (first_bytes, last_bytes) = (self.load(0)?, self.load(last)?);
        self.store(0, last_bytes)?;
        self.store(last, first_bytes)?;
        self.sift(0, last)
    }

    /// Moves an element of the heap, which has `end` elements, down until no child is larger.
    fn sift(&self, mut at: u64, end: u64) -> Result<(), Ends> {
        let sinking = self.load(at)?;
        loop {
            let left = 2 * at + 1;
            if left >= end {
                break;
            }
            let mut larger = (left, self.load(left)?);
            if left + 1 < end {
                let right = self.load(left + 1)?;
                if (self.value)(right) > (self.value)(larger.1) {
                    larger = (left + 1, right);
                }
            }
            if (self.value)(larger.1) <= (self.value)(sinking) {
                break;
            }
            self.store(at, larger.1)?;
            at = larger.0;
        }
        self.store(at, sinking)
    }

    fn load(&self, index: u64) -> Result<[u8; N], Ends> {
        self.memory.load(self.start.wrapping_add(index * N as u64))
    }

    fn store(&self, index: u64, bytes: [u8; N]) -> Result<(), Ends> {
        self.memory.store(self.start.wrapping_add(index * N as u64), bytes)
    }
}

/// Computes one output of the filter: the sum of products of coefficients with an element and those before it, in all blocks.
fn filter(device: &ServiceHardware, memory: Memory, number: u64) -> Result<(), Ends> {
    let index = u64::from(device.block.get()) * u64::from(device.count.get()) + number;
    let mut sum = 0i64;
    for (before, coefficient) in
        (0..=index).zip(&device.coefficients[..device.taps.get() as usize % (HARDWARE_TAPS + 1)])
    {
        let element = i32::from_le_bytes(memory.load(device.data.get().wrapping_add(4 * (index - before)))?);
        sum = sum.wrapping_add(i64::from(coefficient.get() as i32) * i64::from(element));
    }
    let out = (sum >> (device.shift.get() % u64::BITS)) as i32;
    memory.store(device.out.get().wrapping_add(4 * index), out.to_le_bytes())
}

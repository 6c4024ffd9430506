//! Accelerators of the FPGA, where the machine has any: Ker-ONE's standard interface (its Table 1), a page of registers and a data section.
//!
//! A driver need not know that others use the accelerator, too ("native programming model", section 4.5): a store waits until there is a region,
//! and what is stopped goes on by itself. One that wants to know looks at [`Accelerator::status`].

use core::ptr;

use crate::isa;

/// Where registers are, in the page.
mod register {
    pub const STATUS: usize = 0;
    pub const START: usize = 4;
    pub const OVER: usize = 8;
    pub const COMMAND: usize = 12;
    pub const DATA_ADDR: usize = 16;
    pub const DATA_SIZE: usize = 20;
    pub const RESULT: usize = 24;
    pub const INTERRUPT_CONTROL: usize = 32;
    pub const CUSTOM: usize = 40;
}

/// Status: a region is connected, and nothing has begun in it.
pub const READY: u32 = 2;
/// Status: a more urgent client has the region; it goes on later.
pub const PREEMPTED: u32 = 4;
/// Status: it is over.
pub const DONE: u32 = 5;
/// Status: it is over, and the second byte says what was wrong.
pub const FAILED: u32 = 6;

/// Where memory begins.
pub const MEMORY: usize = isa::RAM;
/// Memory of the machine that nothing else uses: behind images, and before the device tree.
pub const SPARE: usize = isa::RAM + (32 << 20);
/// Bytes of it.
pub const SPARE_LEN: usize = 16 << 20;

/// Bytes of the page of registers.
pub const REGISTERS_LEN: usize = 4096;

/// An accelerator, for what its name says.
#[derive(Clone, Copy, Debug)]
pub struct Accelerator {
    pub(crate) function: &'static str,
    pub(crate) registers: usize,
    pub(crate) data: usize,
    pub(crate) data_len: usize,
    pub(crate) interrupt: Option<u32>,
}

/// What it is to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Job {
    /// Means what the accelerator says.
    pub command: u32,
    /// Physical address of the data: anywhere in memory, of which the accelerator's data section is a part.
    pub data: u32,
    /// How many bytes.
    pub len: u32,
    /// Physical address of results.
    pub results: u32,
    /// Whether it interrupts when it is over.
    pub interrupts: bool,
}

impl Accelerator {
    /// What it computes.
    #[must_use]
    pub fn function(&self) -> &'static str {
        self.function
    }

    /// Its number at the interrupt controller: one for each job that is over and was begun so.
    #[must_use]
    pub fn interrupt(&self) -> Option<u32> {
        self.interrupt
    }

    /// Physical address of its data section.
    #[must_use]
    pub fn data(&self) -> u32 {
        // Whatever the virtual one is: that of a [moved](Self::moved) one has the same lower bits.
        self.data as u32
    }

    /// Bytes of it.
    #[must_use]
    pub fn data_len(&self) -> usize {
        self.data_len
    }

    /// The same one, used at virtual addresses that are so much higher.
    #[must_use]
    pub fn moved(self, offset: usize) -> Self {
        Self { registers: self.registers + offset, data: self.data + offset, ..self }
    }

    /// Says what it is to do, and nothing else. Comes back when the accelerator is there.
    pub fn choose(&self, command: u32) {
        self.store(register::COMMAND, command);
    }

    /// Begins a job. Comes back when the accelerator is there.
    pub fn begin(&self, job: &Job) {
        self.choose(job.command);
        self.store(register::DATA_ADDR, job.data);
        self.store(register::DATA_SIZE, job.len);
        self.store(register::CUSTOM, job.results);
        self.store(register::INTERRUPT_CONTROL, u32::from(job.interrupts));
        self.store(register::START, 1);
    }

    /// Whether what was begun last is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.load(register::START) == 0 && self.load(register::OVER) != 0
    }

    /// What it does; [`PREEMPTED`], [`DONE`], [`FAILED`] ... in the lowest byte.
    #[must_use]
    pub fn status(&self) -> u32 {
        self.load(register::STATUS)
    }

    /// The result of what is over.
    #[must_use]
    pub fn result(&self) -> u64 {
        u64::from(self.load(register::RESULT)) | u64::from(self.load(register::RESULT + 4)) << 32
    }

    /// Stores a word anywhere in the page of registers.
    ///
    /// # Panics
    /// There is none, or it is not aligned.
    pub fn store(&self, at: usize, value: u32) {
        // SAFETY: the device tree says that registers are there; they are no memory that Rust uses.
        unsafe { motet_guest_store(ptr::with_exposed_provenance_mut(self.address(at)), value) }
    }

    /// Loads a word from the page of registers.
    ///
    /// # Panics
    /// There is none, or it is not aligned.
    #[must_use]
    pub fn load(&self, at: usize) -> u32 {
        // SAFETY: as in `store`.
        unsafe { ptr::with_exposed_provenance::<u32>(self.address(at)).read_volatile() }
    }

    fn address(&self, at: usize) -> usize {
        assert!(at < REGISTERS_LEN && at.is_multiple_of(4), "register {at:#x}");
        self.registers + at
    }

    /// Writes a byte of [spare memory](SPARE).
    ///
    /// # Panics
    /// There is none.
    pub fn write_spare(at: usize, byte: u8) {
        assert!(at < SPARE_LEN, "byte {at:#x} of spare memory");
        // SAFETY: memory that Rust does not use.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(SPARE + at).write_volatile(byte) }
    }

    /// Reads a byte of it.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn read_spare(at: usize) -> u8 {
        assert!(at < SPARE_LEN, "byte {at:#x} of spare memory");
        // SAFETY: as in `write_spare`.
        unsafe { ptr::with_exposed_provenance::<u8>(SPARE + at).read_volatile() }
    }

    /// Writes a byte of the data section.
    ///
    /// # Panics
    /// There is none.
    pub fn write(&self, at: usize, byte: u8) {
        assert!(at < self.data_len, "byte {at:#x} of a data section");
        // SAFETY: the device tree says that this memory is the data section's, which is none that Rust uses.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(self.data + at).write_volatile(byte) }
    }

    /// Reads a byte of it.
    ///
    /// # Panics
    /// There is none.
    #[must_use]
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.data_len, "byte {at:#x} of a data section");
        // SAFETY: as in `write`.
        unsafe { ptr::with_exposed_provenance::<u8>(self.data + at).read_volatile() }
    }
}

/// A store to registers, by itself: so a bench can see when it begins, and when it has been executed.
///
/// # Safety
/// There are registers.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe extern "C" fn motet_guest_store(register: *mut u32, value: u32) {
    // SAFETY: as the caller says.
    unsafe { register.write_volatile(value) }
}

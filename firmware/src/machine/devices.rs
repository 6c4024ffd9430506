//! Devices' registers: the serial port, the harts' CLINT, the device that ends the machine, interrupt controllers.

use core::{
    arch::asm,
    fmt,
    ptr::with_exposed_provenance_mut,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use motet_firmware::{
    board::{Aplic, MessageFiles},
    calls::End,
    option,
};

/// The serial port: QEMU's `virt` has it here; what the device tree says replaces it.
static SERIAL: AtomicU64 = AtomicU64::new(0x1000_0000);
static CONSOLE_HELD: AtomicBool = AtomicBool::new(false);

/// The serial port lies at this address.
pub fn set_serial(address: u64) {
    SERIAL.store(address, Relaxed);
}

/// QEMU's configuration device, at this address: data at 0, the item at 8, of high byte first.
#[derive(Debug)]
pub struct Configuration(pub u64);

impl option::Configuration for Configuration {
    fn select(&mut self, item: u16) {
        // SAFETY: a register of a device that the device tree names.
        unsafe { with_exposed_provenance_mut::<u16>(self.0 as usize + 8).write_volatile(item.to_be()) }
    }

    fn next(&mut self) -> u8 {
        load_byte(self.0)
    }
}

/// Keeps other harts' bytes apart from the holder's.
#[must_use]
#[derive(Debug)]
pub struct ConsoleHeld(());

impl Drop for ConsoleHeld {
    fn drop(&mut self) {
        CONSOLE_HELD.store(false, Release);
    }
}

/// Waits for the console. Its holders wait for nothing but the port; one that has died holds it no longer than this wait.
pub fn hold_console() -> ConsoleHeld {
    const TRIES: u32 = 10_000_000;
    for _ in 0..TRIES {
        if CONSOLE_HELD.compare_exchange_weak(false, true, Acquire, Relaxed).is_ok() {
            break;
        }
        core::hint::spin_loop();
    }
    ConsoleHeld(())
}

/// Writes a byte to the serial port (16550: transmitter 0, line status 5, whose bit 5 says that the transmitter is empty).
pub fn write_byte(byte: u8) {
    const EMPTY: u8 = 1 << 5;
    let serial = SERIAL.load(Relaxed);
    while load_byte(serial + 5) & EMPTY == 0 {
        core::hint::spin_loop();
    }
    store_byte(serial, byte);
}

/// The next byte that has come at the serial port (16550: receiver 0, bit 0 of the line status).
pub fn read_byte() -> Option<u8> {
    const READY: u8 = 1;
    let serial = SERIAL.load(Relaxed);
    (load_byte(serial + 5) & READY != 0).then(|| load_byte(serial))
}

/// The firmware's own words.
#[derive(Debug)]
pub struct Words;

impl fmt::Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                write_byte(b'\r');
            }
            write_byte(byte);
        }
        Ok(())
    }
}

/// Prints a line.
pub fn say(line: fmt::Arguments<'_>) {
    let _held = hold_console();
    let _ = fmt::Write::write_fmt(&mut Words, format_args!("motet firmware: {line}\n"));
}

/// Loads a byte of a device or of the supervisor's memory.
pub fn load_byte(address: u64) -> u8 {
    // SAFETY: devices that the device tree names, or memory outside of the firmware's, which Rust knows nothing of.
    unsafe { with_exposed_provenance_mut::<u8>(address as usize).read_volatile() }
}

/// Stores a byte to a device or to the supervisor's memory.
pub fn store_byte(address: u64, byte: u8) {
    // SAFETY: as above.
    unsafe { with_exposed_provenance_mut::<u8>(address as usize).write_volatile(byte) }
}

/// Raises or withdraws a hart's software interrupt. What was stored before is seen by the hart that it interrupts, and the
/// hart that withdraws it sees what was stored before it was raised.
pub fn set_software_interrupt(address: u64, raised: bool) {
    order();
    store_word(address, u32::from(raised));
    order();
}

/// Has a hart interrupted at this time.
pub fn set_comparator(address: u64, ticks: u64) {
    // SAFETY: a comparator of a CLINT that the device tree names.
    unsafe { with_exposed_provenance_mut::<u64>(address as usize).write_volatile(ticks) }
}

/// Ends the machine ("sifive,test1": QEMU, include/hw/misc/sifive_test.h). A test finds it by its name, and breaks it.
#[unsafe(export_name = "motet_firmware_end")]
#[inline(never)]
pub extern "Rust" fn end(test: u64, how: End) {
    store_word(
        test,
        match how {
            End::Off => 0x5555,
            End::Failed => 1 << 16 | 0x3333,
            End::Restart => 0x7777,
        },
    );
}

/// Gives all interrupts of a controller to its first child, which is the supervisor's, and says where messages go: only the
/// root can (RISC-V AIA specification, "Advanced Platform-Level Interrupt Controller").
pub fn delegate(aplic: &Aplic) {
    const DOMAIN_CONFIGURATION: u64 = 0;
    const SOURCE_CONFIGURATION: u64 = 4;
    const DELEGATED_TO_CHILD_0: u32 = 1 << 10;
    const MACHINE_MESSAGES: u64 = 0x1bc0;
    const SUPERVISOR_MESSAGES: u64 = 0x1bc8;
    store_word(aplic.start + DOMAIN_CONFIGURATION, 0);
    for source in 0..u64::from(aplic.sources.min(1023)) {
        store_word(aplic.start + SOURCE_CONFIGURATION + 4 * source, DELEGATED_TO_CHILD_0);
    }
    if let Some(files) = &aplic.files {
        // A machine-level file fills a page; the supervisor's has those of its guests behind it.
        messages(aplic.start + MACHINE_MESSAGES, files.machine, 0, files);
        messages(aplic.start + SUPERVISOR_MESSAGES, files.supervisor, files.guest_bits, files);
    }
}

/// `mmsiaddrcfg` and `mmsiaddrcfgh`, or the supervisor's.
fn messages(register: u64, base: u64, hart_shift: u32, files: &MessageFiles) {
    let page = base >> 12;
    let group_shift = files.group_shift.saturating_sub(24);
    let high = hart_shift << 20 | group_shift << 24 | files.group_bits << 16 | files.hart_bits << 12;
    store_word(register, page as u32);
    store_word(register + 4, (page >> 32) as u32 & 0xfff | high);
}

fn store_word(address: u64, word: u32) {
    // SAFETY: a register of a device that the device tree names.
    unsafe { with_exposed_provenance_mut::<u32>(address as usize).write_volatile(word) }
}

fn order() {
    // SAFETY: a fence.
    unsafe { asm!("fence iorw, iorw", options(nostack)) };
}

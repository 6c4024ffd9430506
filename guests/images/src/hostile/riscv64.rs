//! RISC-V (the instruction set manual's volumes I and II, SBI 2.0).

use fastrand::Rng;

use super::Target;

pub const TARGET: Target = Target {
    ram: 0x8000_0000,
    // The test device, the firmware configuration.
    deadly_devices: [0x10_0000..0x10_1000, 0x1010_0000..0x1010_1000],
    // `l[bhwd]`, `l[bhw]u`, `s[bhwd]`
    accesses: &[
        0x0005_0583,
        0x0005_1583,
        0x0005_2583,
        0x0005_3583,
        0x0005_4583,
        0x0005_5583,
        0x0005_6583,
        0x00b5_0023,
        0x00b5_1023,
        0x00b5_2023,
        0x00b5_3023,
    ],
    // `ecall`
    call: 0x0000_0073,
    choose_call,
    register_access,
    is_deadly,
};

const BASE: u64 = 0x10;
const HART_STATES: u64 = 0x48_534D;
const HART_STATUS: u64 = 2;
/// Timer, IPI, fences, harts' states, base; of SBI 0.1: timer, clearing an IPI, fences.
const EXTENSIONS: [u64; 8] = [0x5449_4D45, 0x73_5049, 0x5246_4E43, HART_STATES, BASE, 0, 3, 5];
/// Reset, suspension, console and counters, which write to memory; of SBI 0.1: putchar, getchar, which may wait, and shutdown.
const OTHERS: [u64; 7] = [0x5352_5354, 0x5355_5350, 0x4442_434E, 0x50_4D55, 1, 2, 8];

fn choose_call(random: &mut Rng, arguments: &mut [u64; 8]) {
    if random.u8(..8) != 0 {
        arguments[7] = EXTENSIONS[random.usize(..EXTENSIONS.len())];
    }
    if random.u8(..8) != 0 {
        arguments[6] = random.u64(..8);
    }
    // Starting a hart has it run anything; stopping this one, or suspending it, ends the guest.
    if arguments[7] == HART_STATES {
        arguments[6] = HART_STATUS;
    }
    if OTHERS.contains(&arguments[7]) {
        arguments[7] = BASE;
    }
}

/// `csrrw a0, CSR, a0`, `csrrs`, `csrrc`; of supervisors mostly, or of hypervisors, which guests must not reach.
fn register_access(random: &mut Rng) -> u32 {
    const RANGES: [u32; 6] = [0x100, 0x140, 0x200, 0x600, 0xc00, 0xe00];
    let register = match random.u8(..4) {
        0 => random.u32(..4096),
        _ => RANGES[random.usize(..RANGES.len())] + random.u32(..64),
    };
    let function = random.u32(1..4);
    register << 20 | 10 << 15 | function << 12 | 10 << 7 | 0x73
}

/// `satp`, `stvec`; and `hie`, where there is one: interrupts of a guest would end each attempt.
fn is_deadly(instruction: u32) -> bool {
    [0x180, 0x105, 0x604].contains(&(instruction >> 20))
}

//! AArch64 (Arm's Architecture Reference Manual, PSCI 1.0).

use fastrand::Rng;

use super::Target;

pub const TARGET: Target = Target {
    ram: 0x4000_0000,
    // The firmware configuration, and the pins of the power button.
    deadly_devices: [0x0902_0000..0x0902_1000, 0x0903_0000..0x0903_1000],
    // `ldrb`, `ldrh`, `ldr w`, `ldr x`, `ldrsb`, `ldrsw`, `ldp`, `strb`, `strh`, `str w`, `str x`, `stp`; `ldr x` and `str x` with write-back
    accesses: &[
        0x3940_0001,
        0x7940_0001,
        0xb940_0001,
        0xf940_0001,
        0x3980_0001,
        0xb980_0001,
        0xa940_0801,
        0x3900_0001,
        0x7900_0001,
        0xb900_0001,
        0xf900_0001,
        0xa900_0801,
        0xf840_8401,
        0xf800_8401,
    ],
    // `hvc #0`
    call: 0xd400_0002,
    choose_call,
    register_access,
    is_deadly,
};

/// Version, state of a core (both widths), kind of migration, features.
const FUNCTIONS: [u64; 5] = [0x8400_0000, 0x8400_0004, 0xc400_0004, 0x8400_0006, 0x8400_000a];
/// PSCI's calls, of which most end or suspend something, or have a core run anything.
const PSCI: u64 = 0x20;

fn choose_call(random: &mut Rng, arguments: &mut [u64; 8]) {
    let is_psci = arguments[0] & 0xffff < PSCI && arguments[0] >> 24 & 0x3f == 4;
    if is_psci || random.u8(..4) != 0 {
        arguments[0] = FUNCTIONS[random.usize(..FUNCTIONS.len())];
    }
}

/// `msr` and `mrs` of system registers with x0, of EL1 and EL0 mostly, or of EL2, which guests must not reach; and system instructions.
fn register_access(random: &mut Rng) -> u32 {
    let any = random.u32(..1 << 22) & !0x1f;
    let op1 = [0, 3, 4][random.usize(..3)];
    match random.u8(..4) {
        0 => 0xd500_0000 | any,
        _ => {
            0xd518_0000
                | any & 1 << 21
                | op1 << 16
                | random.u32(..16) << 12
                | random.u32(..16) << 8
                | random.u32(..8) << 5
        }
    }
}

/// Control of the processor and of translation; the entry for exceptions; which stack it uses; what the entry and the board keep in a
/// register; instructions that wait.
fn is_deadly(instruction: u32) -> bool {
    let op0 = instruction >> 19 & 3;
    let [op1, n, m] = [instruction >> 16 & 7, instruction >> 12 & 15, instruction >> 8 & 15];
    let is_control = op1 == 0 && ([1, 2].contains(&n) || n == 12 && m == 0);
    op0 == 0 || op0 == 3 && (is_control || [4, 13].contains(&n))
}

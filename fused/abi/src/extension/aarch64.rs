//! AArch64 (Arm Architecture Reference Manual, DDI 0487): all instructions have four bytes.

use motet_layout::Isa;

use super::{Needed, aarch64_table::WORDS, lookup::look_up};

pub(super) fn needed(bytes: &[u8]) -> Needed {
    match bytes.first_chunk() {
        Some(&word) => look_up(WORDS, Isa::AArch64, u32::from_le_bytes(word), 4).needed(),
        None => Needed::Short,
    }
}

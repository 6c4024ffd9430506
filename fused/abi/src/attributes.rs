//! What a RISC-V program says in `.riscv.attributes` of the vector registers that it is made for.
//!
//! The section has the extensions that its objects were compiled for as one text (RISC-V ELF psABI, "Attributes", `Tag_RISCV_arch`). Of them, only lengths
//! of registers matter to who runs the program: cores without any other extension say so by an exception, but on shorter registers the
//! same instructions compute something else.

use motet_layout::Isa;

/// Whose programs have such a section.
pub const ISA: Isa = Isa::RiscV64;
/// Type of the program header that names the section.
pub const PT_RISCV_ATTRIBUTES: u32 = 0x7000_0003;
/// So much of a section is looked at: texts have some hundred bytes.
pub const LEN_MAX: u64 = 4096;
/// No word of the text that matters is longer.
pub const WORD_MAX: usize = 16;
/// Every core that has vector registers has so many bytes in each.
pub const VECTOR_BYTES_MIN: u32 = 16;

const PREFIX: &[u8] = b"_zvl";
const BITS_MAX: u32 = 65536;

/// The longest vector registers that are asked for in a part of the section (`_zvl256b1p0`), in bytes; 0: none are.
pub fn vector_bytes(part: &[u8]) -> u32 {
    let starts = part.windows(PREFIX.len()).enumerate().filter(|(_, word)| *word == PREFIX);
    starts.filter_map(|(at, _)| bits(&part[at + PREFIX.len()..])).max().unwrap_or(0) / 8
}

/// The number before a `b`.
fn bits(text: &[u8]) -> Option<u32> {
    let len = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let is_length = text[len] == b'b';
    let bits: u32 = core::str::from_utf8(&text[..len]).ok().filter(|_| is_length)?.parse().ok()?;
    (bits.is_power_of_two() && bits <= BITS_MAX).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_registers_count_that_are_asked_for() {
        let arch = b"rv64i2p1_v1p0_zvbb1p0_zvl128b1p0_zvl256b1p0_zvl32b1p0";
        assert_eq!(vector_bytes(arch), 32);
        assert_eq!(vector_bytes(b"rv64i2p1_m2p0"), 0);
        // Cut off, of no length, and longer than any.
        for damaged in
            [&b"_zvl"[..], b"_zvl512", b"_zvlb", b"_zvl300b", b"_zvl4294967296b", b"_zvl131072b", b"_zvl\xff\xffb"]
        {
            assert_eq!(vector_bytes(damaged), 0, "{damaged:?}");
        }
        assert!(b"_zvl65536b".len() <= WORD_MAX);
    }
}

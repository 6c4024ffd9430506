//! What programs see of a core without a trap, beyond its extensions, and what all cores of an instruction set have in common of it.
//!
//! A program may read such a word once, and then go to a core that has another one. So where islands of one instruction set differ, all of
//! them show the same: see [`common`].

use motet_layout::{Isa, VISIBLE_WORDS, visible_words as words};

/// What an island's cores show, by [`words`].
pub type Visible = [u64; VISIBLE_WORDS];

/// What cores of an instruction set that show `one` and `other` are to show: for words that can be shown so. What can not be is an error,
/// a text that says how to make the cores alike.
///
/// # Errors
/// They differ in something that cannot be hidden from programs.
pub fn common(isa: Isa, one: Visible, other: Visible) -> Result<Visible, &'static str> {
    match isa {
        Isa::AArch64 => {
            let mut both = one;
            both[words::CACHE_TYPE] = cache_type(one[words::CACHE_TYPE], other[words::CACHE_TYPE]);
            for word in [words::ZEROED_BLOCK, words::FREQUENCY] {
                both[word] = one[word].min(other[word]);
            }
            Ok(both)
        }
        Isa::X86_64 if one != other => {
            Err("its cores and others of x86_64 differ in what the bytes of lzcnt or tzcnt \
             do: end the cpu of all islands of x86_64 with \",-abm,-bmi1,-bmi2\"")
        }
        // Where there is no such instruction, it is illegal, which is noticed.
        Isa::RiscV64 if one != other && one[words::ZEROED_BLOCK] * other[words::ZEROED_BLOCK] != 0 => {
            Err("its cores and others of riscv64 differ in how much cbo.zero zeroes: give the \
             cpu of all islands of riscv64 the same zicboz and cboz_blocksize")
        }
        Isa::RiscV64 if one[words::ZEROED_BLOCK] == 0 => Ok(other),
        Isa::X86_64 | Isa::RiscV64 | Isa::Hosted => Ok(one),
    }
}

/// CTR_EL0 that is safe on two cores (ARM DDI 0487, D24 "CTR_EL0"; Linux takes the same value of each field, `ftr_ctr`).
fn cache_type(one: u64, other: u64) -> u64 {
    let field = |of: u64, shift: u32, mask: u64| of >> shift & mask;
    // Lines that are cleaned one by one: the smaller. Coherence that is relied on: of both.
    let least = |shift, mask| field(one, shift, mask).min(field(other, shift, mask)) << shift;
    // Granules that are kept apart: the larger, and 0 says that it is not known.
    let most = |shift| {
        let (one, other) = (field(one, shift, 0xf), field(other, shift, 0xf));
        if one == 0 || other == 0 { 0 } else { one.max(other) << shift }
    };
    let lines = least(0, 0xf) | least(16, 0xf) | least(32, 0x3f);
    let coherence = least(28, 1) | least(29, 1);
    // Which policy the first level has: physical (3) may be taken for virtual (2).
    lines | coherence | most(20) | most(24) | least(14, 3) | 1 << 31
}

/// Which words differ between what a core has and what it is to show, a bit each.
pub fn differing(of: Visible, shown: Visible) -> u32 {
    (0..VISIBLE_WORDS).fold(0, |bits, word| bits | u32::from(of[word] != shown[word]) << word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_caches_are_as_short_as_those_of_any_core() {
        // cortex-a76 and a64fx: 64 and 256 bytes.
        let (short, long) = (0x8444_c004, 0x8666_8006);
        for (one, other) in [(short, long), (long, short)] {
            assert_eq!(cache_type(one, other), 0x8664_8004);
        }
        assert_eq!(cache_type(short, short), short);
        // What need not be done on one core has to be on another; a granule that is not known.
        assert_eq!(cache_type(0xb444_c004, 0x9404_c004), 0x9404_c004);
    }

    #[test]
    fn what_cannot_be_shown_alike_is_refused() {
        assert!(common(Isa::X86_64, [3, 0, 0], [0; 3]).unwrap_err().contains("-abm,-bmi1,-bmi2"));
        assert!(common(Isa::RiscV64, [0, 64, 0], [0, 128, 0]).unwrap_err().contains("cboz_blocksize"));
        assert_eq!(common(Isa::RiscV64, [0; 3], [0, 64, 0]), Ok([0, 64, 0]));
        assert_eq!(common(Isa::X86_64, [3, 0, 0], [3, 0, 0]), Ok([3, 0, 0]));
        assert_eq!(
            common(Isa::AArch64, [0x8444_c004, 4, 62_500_000], [0x8444_c004, 6, 1_000_000_000]),
            Ok([0x8444_c004, 4, 62_500_000])
        );
        assert_eq!(differing([1, 2, 3], [1, 0, 0]), 0b110);
    }
}

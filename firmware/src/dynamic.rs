//! What QEMU's reset code says about the next stage: the structure that OpenSBI calls `fw_dynamic_info`
//! (OpenSBI, docs/firmware/fw_dynamic.md), in `a2`.

/// Words in the structure.
pub const WORDS: usize = 6;
/// Its first word: "OSBI".
pub const MAGIC: u64 = 0x4942_534f;
/// Index of the word that names the hart that boots.
pub const BOOT_HART: usize = 5;
const SUPERVISOR: u64 = 1;

/// Address at which the next stage starts, in S-mode.
///
/// # Errors
/// What the firmware cannot do.
pub fn next_stage(words: [u64; WORDS]) -> Result<u64, &'static str> {
    let [magic, version, address, mode, ..] = words;
    if magic != MAGIC || !(1..=2).contains(&version) {
        return Err("no description of the next stage: start QEMU with -kernel");
    }
    if mode != SUPERVISOR {
        return Err("the next stage is not for S-mode");
    }
    if address == 0 {
        return Err("no next stage: start QEMU with -kernel");
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_stage_is_where_the_description_says() {
        assert_eq!(next_stage([MAGIC, 2, 0x8020_0000, 1, 0, 0]), Ok(0x8020_0000));
    }

    #[test]
    fn other_descriptions_are_refused() {
        for words in [
            [0, 2, 0x8020_0000, 1, 0, 0],
            [MAGIC, 3, 0x8020_0000, 1, 0, 0],
            [MAGIC, 2, 0x8020_0000, 3, 0, 0],
            [MAGIC, 2, 0, 1, 0, 0],
        ] {
            assert!(next_stage(words).is_err(), "{words:x?}");
        }
    }
}

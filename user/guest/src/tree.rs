//! The command line in a device tree ("Devicetree Specification", chapter 5).

const BEGIN: u32 = 1;
const END: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;

/// `/chosen/bootargs`, if the tree has it.
pub fn command_line(tree: &[u8]) -> Option<&str> {
    let word = |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?));
    let (mut at, strings) = (word(8)? as usize, word(12)? as usize);
    loop {
        let token = word(at)?;
        at += 4;
        match token {
            BEGIN => at = (at + tree.get(at..)?.iter().position(|&byte| byte == 0)? + 1).next_multiple_of(4),
            END | NOP => {}
            PROPERTY => {
                let (len, name) = (word(at)? as usize, strings + word(at + 4)? as usize);
                let value = tree.get(at + 8..at + 8 + len)?;
                if tree.get(name..)?.starts_with(b"bootargs\0") {
                    return core::str::from_utf8(value.split_last()?.1).ok();
                }
                at = (at + 8 + len).next_multiple_of(4);
            }
            _ => return None,
        }
    }
}

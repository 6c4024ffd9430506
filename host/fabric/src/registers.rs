//! Where virtual CPUs are, from what QEMU's monitor prints about their registers.

/// Finds `RIP=`, `PC=` and `pc` in the register dumps of the three ISAs.
pub fn program_counters(registers: &str) -> Vec<String> {
    let mut words = registers.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
    let mut counters = Vec::new();
    while let Some(word) = words.next() {
        if matches!(word, "RIP" | "PC" | "pc") {
            counters.extend(words.next().map(|value| format!("0x{}", value.trim_start_matches("0x"))));
        }
    }
    counters
}

/// A program counter, and whose it is: kernels use the upper half of the addresses.
pub fn described(counter: &str) -> String {
    let address = u64::from_str_radix(counter.trim_start_matches("0x"), 16).unwrap_or(0);
    format!("{counter}, in {}", if address >> 63 == 1 { "the kernel" } else { "user mode" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_counters_of_each_isa_are_found() {
        assert_eq!(program_counters("RSP=1 \nRIP=ffffffff80001000 RFL=00000246"), ["0xffffffff80001000"]);
        assert_eq!(
            program_counters("CPU#0\n PC=0000000040000000 X00=0\nCPU#1\n PC=10 X00=2"),
            ["0x0000000040000000", "0x10"]
        );
        assert_eq!(
            program_counters("CPU#0\n V      =   0\n pc       0000000080000000\n mhartid 0"),
            ["0x0000000080000000"]
        );
    }

    #[test]
    fn program_counters_are_told_to_be_of_kernel_or_user() {
        assert_eq!(described("0xffffffff80001000"), "0xffffffff80001000, in the kernel");
        assert_eq!(described("0x0000000000401000"), "0x0000000000401000, in user mode");
    }
}

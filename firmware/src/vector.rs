//! Instructions of the vector extensions, told from others (RISC-V unprivileged specification, "V" and "Vector Cryptography").

const OP_V: u64 = 0x57;
/// Vector cryptography.
const OP_VE: u64 = 0x77;
const LOAD: u64 = 0x07;
const STORE: u64 = 0x27;
const SYSTEM: u64 = 0x73;

/// Whether an instruction that application harts do not have is for harts with vector registers.
pub const fn is_vector(instruction: u64) -> bool {
    let function = instruction >> 12 & 7;
    match instruction & 0x7f {
        OP_V | OP_VE => true,
        // Widths 1 to 4 are scalar floating-point numbers.
        LOAD | STORE => matches!(function, 0 | 5..=7),
        SYSTEM => function & 3 != 0 && is_vector_register(instruction >> 20 & 0xfff),
        _ => false,
    }
}

/// `vstart`, `vxsat`, `vxrm`, `vcsr`, `vl`, `vtype`, `vlenb`.
const fn is_vector_register(number: u64) -> bool {
    matches!(number, 0x008..=0x00a | 0x00f | 0xc20..=0xc22)
}

/// Whether an extension, as device trees name them, needs vector registers.
pub fn needs_vectors(extension: &[u8]) -> bool {
    matches!(extension, [b'v'] | [b'z', b'v', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_instructions_are_known() {
        for (instruction, name) in [
            (0x0d00_7057, "vsetvli x0, x0, e32, m1"),
            (0x0205_6087, "vle32.v v1, (a0)"),
            (0x0205_60a7, "vse32.v v1, (a0)"),
            (0x0221_01d7, "vadd.vv v3, v2, v4"),
            (0x2285_0007, "vl2re8.v v0, (a0)"),
            (0xc220_2573, "csrr a0, vlenb"),
            (0x0085_1073, "csrw vstart, a0"),
            (0x00f0_5073, "csrwi vcsr, 0"),
            (0xa280_2177, "vaesdm.vs"),
        ] {
            assert!(is_vector(instruction), "{name}");
        }
    }

    #[test]
    fn others_are_not() {
        for (instruction, name) in [
            (0, "a word of zeros"),
            (0x0005_3007, "fld ft0, 0(a0)"),
            (0x0005_2027, "fsw ft0, 0(a0)"),
            (0x0005_1007, "flh"),
            (0xc010_2573, "rdtime a0"),
            (0x0010_1073, "csrw fflags, x0"),
            (0x0000_0073, "ecall"),
            (0x0080_0073, "a call with vstart's number"),
            (0x00b5_0533, "add"),
        ] {
            assert!(!is_vector(instruction), "{name}");
        }
    }

    #[test]
    fn extensions_with_vectors_are_known() {
        assert!([&b"v"[..], b"zve64d", b"zvl128b", b"zvfh"].into_iter().all(needs_vectors));
        assert!([&b"zba"[..], b"svadu", b"", b"i", b"h"].into_iter().all(|name| !needs_vectors(name)));
    }
}

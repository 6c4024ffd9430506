//! Which addresses there are.

use motet_layout::{KERNEL_VA, USER_END, is_canonical};

#[test]
fn canonical_are_the_addresses_of_both_halves() {
    for address in [0, USER_END, 0x7fff_ffff_ffff, 0xffff_8000_0000_0000, KERNEL_VA, u64::MAX] {
        assert!(is_canonical(address), "{address:#x}");
    }
    for address in [0x8000_0000_0000, 0x1234_5678_0000_0000, 1 << 63, 0xffff_7fff_ffff_ffff, 0xfffe_ffff_ffff_ffff] {
        assert!(!is_canonical(address), "{address:#x}");
    }
}

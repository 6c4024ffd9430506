//! Kernel images: an ELF file as the flat image that QEMU's AArch64 loader wants.
//!
//! QEMU passes a device tree to a raw image with the Linux header (magic at byte 56), not to an ELF file.

use object::{
    Endianness, ReadRef,
    elf::{EM_AARCH64, FileHeader64, PT_LOAD},
    read::elf::{FileHeader, ProgramHeader},
};

/// Largest image: QEMU puts the device tree 128 MiB above the start of RAM.
const IMAGE_SIZE_MAX: u64 = 64 << 20;
/// Where a Linux image header has its magic, and the magic.
const HEADER_MAGIC: (usize, &[u8; 4]) = (56, b"ARM\x64");

/// Lays out the loadable segments of an AArch64 ELF file by physical address, zero-filled between them.
///
/// # Errors
/// What is wrong with the file.
pub fn flatten_aarch64<'data>(elf: impl ReadRef<'data>) -> Result<Vec<u8>, String> {
    let broken = |error: object::read::Error| format!("not an ELF file: {error}");
    let header = FileHeader64::<Endianness>::parse(elf).map_err(broken)?;
    let endian = header.endian().map_err(broken)?;
    if header.e_machine(endian) != EM_AARCH64 {
        return Err("not an AArch64 file".into());
    }
    let segments = header.program_headers(endian, elf).map_err(broken)?;
    let loads: Vec<_> = segments.iter().filter(|s| s.p_type(endian) == PT_LOAD && s.p_filesz(endian) != 0).collect();
    let base = loads.iter().map(|s| s.p_paddr(endian)).min().ok_or("has no loadable segment")?;
    let mut image = Vec::new();
    for segment in loads {
        let data = segment.data(endian, elf).map_err(|()| "a segment lies outside of the file".to_owned())?;
        let at = segment.p_paddr(endian) - base;
        let end = at.checked_add(data.len() as u64).filter(|&end| end <= IMAGE_SIZE_MAX);
        let Some(end) = end else { return Err("is larger than 64 MiB".into()) };
        if image.len() < end as usize {
            image.resize(end as usize, 0);
        }
        image[at as usize..end as usize].copy_from_slice(data);
    }
    let (offset, magic) = HEADER_MAGIC;
    if image.get(offset..offset + 4) != Some(magic) {
        return Err("does not begin with a Linux image header (its magic is missing)".into());
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header per (physical address, data).
    fn elf(machine: u16, segments: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend(2u16.to_le_bytes());
        file.extend(machine.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        for word in [0u64, 64, 0] {
            file.extend(word.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for half in [64u16, 56, segments.len() as u16, 0, 0, 0] {
            file.extend(half.to_le_bytes());
        }
        let mut offset = 64 + 56 * segments.len() as u64;
        for (paddr, data) in segments {
            file.extend(PT_LOAD.0.to_le_bytes());
            file.extend(5u32.to_le_bytes());
            for word in [offset, 0xffff_ffff_8000_0000, *paddr, data.len() as u64, data.len() as u64 + 99, 4096] {
                file.extend(word.to_le_bytes());
            }
            offset += data.len() as u64;
        }
        segments.iter().for_each(|(_, data)| file.extend(data));
        file
    }

    fn with_magic() -> Vec<u8> {
        let mut first = vec![1; 64];
        first[56..60].copy_from_slice(b"ARM\x64");
        first
    }

    #[test]
    fn segments_lie_at_their_physical_addresses() {
        let file = elf(EM_AARCH64.0, &[(0x4020_0100, vec![7; 3]), (0x4020_0000, with_magic())]);
        let image = flatten_aarch64(file.as_slice()).unwrap();
        assert_eq!(image.len(), 0x103);
        assert_eq!((image[0], image[64], image[0xff], image[0x100]), (1, 0, 0, 7));
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        let far = elf(EM_AARCH64.0, &[(0, with_magic()), (1 << 40, vec![1])]);
        for (file, want) in [
            (b"hello".to_vec(), "not an ELF file"),
            (elf(62, &[(0, with_magic())]), "not an AArch64 file"),
            (elf(EM_AARCH64.0, &[]), "no loadable segment"),
            (elf(EM_AARCH64.0, &[(0, vec![0; 64])]), "Linux image header"),
            (far, "larger than 64 MiB"),
        ] {
            let message = flatten_aarch64(file.as_slice()).unwrap_err();
            assert!(message.contains(want), "{message}");
        }
        let mut cut = elf(EM_AARCH64.0, &[(0, with_magic())]);
        cut.truncate(130);
        assert!(flatten_aarch64(cut.as_slice()).unwrap_err().contains("outside of the file"));
    }
}

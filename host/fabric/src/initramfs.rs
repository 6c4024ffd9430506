//! File systems for Linux kernels that are compared with Motet, or test what it has: the "new" cpio format (Linux,
//! Documentation/driver-api/early-userspace/buffer-format.rst).

const DIRECTORY: u32 = 0o40755;
const DEVICE: u32 = 0o20666;
const PROGRAM: u32 = 0o100_755;

/// Name, mode, device number and contents of a file.
type Entry<'a> = (&'a str, u32, (u32, u32), &'a [u8]);

/// An initramfs of directories beside `dev`, the devices that programs need, and programs.
pub fn archive(directories: &[&str], programs: &[(&str, &[u8])]) -> Vec<u8> {
    let directories = ["dev"].iter().chain(directories).map(|name| -> Entry<'_> { (name, DIRECTORY, (0, 0), &[]) });
    let devices: [Entry<'_>; 2] = [("dev/console", DEVICE, (5, 1), &[]), ("dev/null", DEVICE, (1, 3), &[])];
    let programs = programs.iter().map(|(name, contents)| (*name, PROGRAM, (0, 0), *contents));
    let end: Entry<'_> = ("TRAILER!!!", 0, (0, 0), &[]);
    let entries = directories.chain(devices).chain(programs).chain([end]);
    let mut bytes = Vec::new();
    for (inode, (name, mode, (major, minor), contents)) in (1_u32..).zip(entries) {
        bytes.extend_from_slice(b"070701");
        let (size, name_size) = (contents.len() as u32, name.len() as u32 + 1);
        // Inode, mode, user, group, links, time, size, device, device number, length of the name, checksum.
        for field in [inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name_size, 0] {
            bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        for part in [&[name.as_bytes(), &[0]].concat(), contents] {
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_aligned_entries_and_an_end() {
        let bytes = archive(&[], &[("init", b"program")]);
        assert_eq!(bytes.len() % 4, 0);
        let magics = bytes.windows(6).enumerate().filter(|(_, window)| *window == b"070701");
        assert!(magics.clone().count() == 5 && magics.into_iter().all(|(at, _)| at % 4 == 0));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("init\0") && text.contains("program") && text.contains("TRAILER!!!\0"));
    }
}

//! Options for the firmware on QEMU's command line, in a file of QEMU's configuration device
//! (QEMU, docs/specs/fw_cfg.rst): `-fw_cfg name=opt/org.motet/hidden-harts,string=2`.

/// The file with the number of harts that are to be hidden.
pub const HIDDEN_HARTS: &[u8] = b"opt/org.motet/hidden-harts";

const SIGNATURE: u16 = 0;
const DIRECTORY: u16 = 0x19;
const FILES_MAX: u32 = 1024;
const NAME_LEN: usize = 56;

/// The device.
pub trait Configuration {
    /// Begins to read this item.
    fn select(&mut self, item: u16);
    /// The item's next byte; 0 behind its end.
    fn next(&mut self) -> u8;
}

/// How many harts are to be hidden.
///
/// # Errors
/// The file has no number.
pub fn hidden_harts(device: &mut impl Configuration) -> Result<usize, &'static str> {
    const WRONG: &str = "opt/org.motet/hidden-harts must be a number of harts, in decimal";
    let Some((item, len)) = find(device, HIDDEN_HARTS) else { return Ok(0) };
    if !(1..=2).contains(&len) {
        return Err(WRONG);
    }
    device.select(item);
    let digits = (0..len).map(|_| char::from(device.next()).to_digit(10));
    let number = digits.reduce(|number, digit| Some(10 * number? + digit?)).flatten();
    number.map(|number| number as usize).ok_or(WRONG)
}

/// A file's item and length.
fn find(device: &mut impl Configuration, name: &[u8]) -> Option<(u16, u32)> {
    device.select(SIGNATURE);
    if read::<4>(device) != *b"QEMU" {
        return None;
    }
    device.select(DIRECTORY);
    let files = u32::from_be_bytes(read(device)).min(FILES_MAX);
    (0..files).find_map(|_| {
        let len = u32::from_be_bytes(read(device));
        let item = u16::from_be_bytes(read(device));
        let _reserved: [u8; 2] = read(device);
        let found: [u8; NAME_LEN] = read(device);
        (found.split(|byte| *byte == 0).next() == Some(name)).then_some((item, len))
    })
}

fn read<const N: usize>(device: &mut impl Configuration) -> [u8; N] {
    core::array::from_fn(|_| device.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Items {
        items: Vec<(u16, Vec<u8>)>,
        at: (u16, usize),
    }

    impl Configuration for Items {
        fn select(&mut self, item: u16) {
            self.at = (item, 0);
        }
        fn next(&mut self) -> u8 {
            let (item, at) = self.at;
            self.at.1 += 1;
            let found = self.items.iter().find(|(name, _)| *name == item);
            found.and_then(|(_, bytes)| bytes.get(at)).copied().unwrap_or(0)
        }
    }

    fn asked(name: &[u8], text: &[u8]) -> Result<usize, &'static str> {
        let mut directory = vec![0, 0, 0, 2];
        for (name, item, len) in [(&b"etc/other"[..], 0x20, 3), (name, 0x21, text.len())] {
            directory.extend((len as u32).to_be_bytes());
            directory.extend([0, item, 0, 0]);
            let end = directory.len() + NAME_LEN;
            directory.extend(name);
            directory.resize(end, 0);
        }
        let items =
            vec![(SIGNATURE, b"QEMU".to_vec()), (DIRECTORY, directory), (0x20, b"abc".to_vec()), (0x21, text.to_vec())];
        hidden_harts(&mut Items { items, at: (0, 0) })
    }

    #[test]
    fn the_number_is_what_the_file_says() {
        assert_eq!((asked(HIDDEN_HARTS, b"2"), asked(HIDDEN_HARTS, b"63")), (Ok(2), Ok(63)));
        assert_eq!(asked(b"opt/org.motet/hidden-hart", b"2"), Ok(0));
        for wrong in [&b""[..], b"two", b"-1", b"100", b"1 ", b"2\n"] {
            assert!(asked(HIDDEN_HARTS, wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_device_is_survived(directory in proptest::collection::vec(any::<u8>(), 0..300), text in any::<Vec<u8>>()) {
            let items = vec![(SIGNATURE, b"QEMU".to_vec()), (DIRECTORY, directory), (0x21, text)];
            let _ = hidden_harts(&mut Items { items, at: (0, 0) });
        }
    }
}

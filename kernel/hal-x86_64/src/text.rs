//! A short text without an allocator.

use core::fmt;

/// Up to `N` bytes of UTF-8; what does not fit is dropped.
#[derive(Clone, Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.len + c.len_utf8() > N {
                return Err(fmt::Error);
            }
            self.len += c.encode_utf8(&mut self.bytes[self.len..]).len();
        }
        Ok(())
    }
}

//! A short text without an allocator.

use core::fmt::{self, Write as _};

/// Up to `N` bytes of UTF-8; what does not fit is cut off.
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

    /// What these say.
    pub fn of(what: fmt::Arguments<'_>) -> Self {
        let mut text = Self::new();
        // Fails when something was cut off.
        let _ = text.write_fmt(what);
        text
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or("")
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = text.len().min(N - self.len);
        let fits = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        self.bytes[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off_between_characters() {
        let text = Text::<8>::of(format_args!("core {}: öö", 1));
        assert_eq!((text.as_str(), text.bytes().len()), ("core 1: ", 8));
        let mut text = Text::<4>::of(format_args!("abc"));
        assert!(text.write_str("öd").is_err() && text.as_str() == "abc");
        assert_eq!(Text::<4>::of(format_args!("aö{}", "öb")).as_str(), "aö");
    }
}

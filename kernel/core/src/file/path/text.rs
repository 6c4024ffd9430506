//! Text of paths, as it is made: from its end on.

use motet_abi::Errno;

use crate::call::PATH_MAX;

/// A path that grows at its front.
pub struct PathText<'b> {
    bytes: &'b mut [u8; PATH_MAX],
    start: usize,
    /// Of what was removed it has the names that were, and says so.
    pub also_removed: bool,
}

impl<'b> PathText<'b> {
    /// An empty one.
    pub(super) fn new(bytes: &'b mut [u8; PATH_MAX], also_removed: bool) -> Self {
        Self { start: bytes.len(), bytes, also_removed }
    }

    /// Puts something in front.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub fn prepend(&mut self, text: &[u8]) -> Result<(), Errno> {
        let at = self.start.checked_sub(text.len()).ok_or(Errno::ENAMETOOLONG)?;
        self.bytes[at..self.start].copy_from_slice(text);
        self.start = at;
        Ok(())
    }

    /// Puts a slash and a name in front.
    ///
    /// # Errors
    /// `ENAMETOOLONG`.
    pub fn prepend_name(&mut self, name: &[u8]) -> Result<(), Errno> {
        self.prepend(name)?;
        self.prepend(b"/")
    }

    /// Whether nothing has been put in front yet.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The text.
    pub(super) fn finish(self) -> &'b [u8] {
        &self.bytes[self.start..]
    }
}

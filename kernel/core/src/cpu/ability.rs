//! What a core keeps in mind of what cores can do (`ability`).

use core::cell::Cell;

use motet_abi::extension::{ExtensionSet, Requirement};

/// The cores of this core's instruction set, which of them have what it was asked for last, and what it decoded last: programs come to the
/// same instructions again and again.
pub struct AbilityCore {
    decoded: Cell<Option<(u32, Requirement)>>,
    peers: [u64; 2],
    /// What a core has never changes once threads run, so this stays true.
    able: Cell<Option<(ExtensionSet, u32, [u64; 2])>>,
}

impl AbilityCore {
    /// Of a core whose instruction set these cores have.
    pub fn new(peers: [u64; 2]) -> Self {
        Self { decoded: Cell::new(None), peers, able: Cell::new(None) }
    }

    /// What could run the instruction `word` (one of two bytes with zeros behind them), if this core decoded that last.
    #[inline(always)]
    pub fn decoded(&self, word: u32) -> Option<Requirement> {
        self.decoded.get().filter(|&(of, _)| of == word).map(|(_, required)| required)
    }

    /// This core has decoded the instruction.
    pub fn put_decoded(&self, word: u32, required: Requirement) {
        self.decoded.set(Some((word, required)));
    }

    /// Cores of this instruction set.
    #[inline(always)]
    pub fn peers(&self) -> [u64; 2] {
        self.peers
    }

    /// Which of all cores are able to run what needs this, with values in vector registers of so many bytes, if this core was asked that last.
    #[inline(always)]
    pub fn able(&self, needs: ExtensionSet, live_bytes: u32) -> Option<[u64; 2]> {
        self.able.get().filter(|&(of, of_bytes, _)| of == needs && of_bytes == live_bytes).map(|(_, _, mask)| mask)
    }

    /// This core has found out which are.
    pub fn put_able(&self, needs: ExtensionSet, live_bytes: u32, mask: [u64; 2]) {
        self.able.set(Some((needs, live_bytes, mask)));
    }
}

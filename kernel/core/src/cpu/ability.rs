//! What a core keeps in mind of what cores can do (`ability`).

use core::cell::Cell;

use motet_abi::extension::ExtensionSet;

/// The cores of this core's instruction set, and which of them have what it was asked for last.
pub struct AbilityCore {
    peers: [u64; 2],
    /// What a core has never changes once threads run, so this stays true.
    able: Cell<Option<(ExtensionSet, u32, [u64; 2])>>,
}

impl AbilityCore {
    /// Of a core whose instruction set these cores have.
    pub fn new(peers: [u64; 2]) -> Self {
        Self { peers, able: Cell::new(None) }
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

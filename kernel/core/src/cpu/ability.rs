//! What a core keeps in mind of what cores can do (`ability`).

use core::cell::Cell;

use motet_abi::extension::{ExtensionSet, Requirement};
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId, IslandId};

/// The cores of this core's instruction set, which of them have what it was asked for last, and what it decoded last: programs come to the
/// same instructions again and again.
pub struct AbilityCore {
    decoded: Cell<Option<(u32, Requirement)>>,
    peers: [u64; 2],
    neighbours: [u64; 2],
    /// What a core has never changes once threads run, so this stays true.
    able: Cell<Option<(ExtensionSet, u32, [u64; 2])>>,
    way: Cell<Option<Way>>,
    /// A name in a word, with the mask of its bytes and the zero behind it.
    named: Cell<Option<(u64, u64, ExtensionSet)>>,
    /// Two sets, and what is left of the first without the second.
    without: Cell<Option<[ExtensionSet; 3]>>,
}

/// Where a thread has gone that needed nothing, and came to an instruction that this core lacks.
#[derive(Clone, Copy)]
pub struct Way {
    /// The instruction, not 0.
    pub word: u32,
    /// Bytes in the thread's vector registers, if the instruction uses some; 0: it uses none.
    pub live_bytes: u32,
    /// What it needs since.
    pub needs: ExtensionSet,
    /// The cores that have it, or are of other instruction sets.
    pub able: [u64; 2],
}

impl AbilityCore {
    /// Of a core of this island, whose instruction set these cores have.
    pub fn new(peers: [u64; 2], island: IslandId) -> Self {
        let first = CoreId::new(island, 0).index();
        let mut neighbours = [0; 2];
        neighbours[first / 64] = ((1 << CORES_PER_ISLAND_MAX) - 1) << (first % 64);
        Self {
            decoded: Cell::new(None),
            peers,
            neighbours,
            able: Cell::new(None),
            way: Cell::new(None),
            named: Cell::new(None),
            without: Cell::new(None),
        }
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

    /// The way of the thread that has gone last, if it went for this instruction.
    #[inline(always)]
    pub fn way(&self, word: u32) -> Option<Way> {
        self.way.get().filter(|way| way.word == word)
    }

    /// A thread goes.
    pub fn put_way(&self, way: Way) {
        self.way.set(Some(way));
    }

    /// What the name in the first bytes of this word means, if this core has read that last.
    #[inline(always)]
    pub fn named(&self, word: u64) -> Option<ExtensionSet> {
        self.named.get().filter(|&(mask, name, _)| word & mask == name).map(|(_, _, set)| set)
    }

    /// The bytes of `word` in `mask` are a name and a zero, and mean this.
    pub fn put_named(&self, mask: u64, word: u64, set: ExtensionSet) {
        self.named.set(Some((mask, word & mask, set)));
    }

    /// What is left of a set without another one: mostly the same as last time.
    #[inline(always)]
    pub fn without(&self, of: ExtensionSet, those: ExtensionSet) -> ExtensionSet {
        match self.without.get() {
            Some([known, other, left]) if known == of && other == those => left,
            _ => self.find_without(of, those),
        }
    }

    #[cold]
    fn find_without(&self, of: ExtensionSet, those: ExtensionSet) -> ExtensionSet {
        let left = of.without(those);
        self.without.set(Some([of, those, left]));
        left
    }

    /// Cores of this instruction set.
    #[inline(always)]
    pub fn peers(&self) -> [u64; 2] {
        self.peers
    }

    /// The places of this island's cores.
    #[inline(always)]
    pub fn neighbours(&self) -> [u64; 2] {
        self.neighbours
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

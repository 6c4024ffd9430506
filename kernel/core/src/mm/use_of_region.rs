//! What is known of a region's users.

use motet_layout::IslandId;

/// Times in a row that an island is found to use a region, and no other one in between, before the region follows it; by how often it has followed. A program that goes back and forth gains
/// nothing by pages that do so, too, however long it stays: soon they lie still.
const WANTED: [u32; 4] = [2, 8, 32, 127];
/// Pages of a region that may be without rights at a time, to learn who uses them.
const ASKED_MAX: u32 = 8;
/// Pages of a region.
pub const SLOTS: u64 = motet_paging::ENTRIES as u64;

/// As it is remembered: a word, at first 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use(pub u32);

/// A field of the word: its first bit, and its bits.
type Field = (u32, u32);
/// The island that was found last, maybe not often enough, and the one that the region follows: an index + 1.
const CANDIDATE: Field = (0, 4);
const FOLLOWER: Field = (4, 4);
const FOUND: Field = (8, 7);
const MOVES: Field = (15, 2);
/// Whether the candidate has written to it, and the follower.
const CANDIDATE_WRITES: Field = (17, 1);
const FOLLOWER_WRITES: Field = (18, 1);
const ASKED: Field = (19, 4);
const SLOT: Field = (23, 9);

impl Use {
    /// The island that its pages follow.
    pub fn follower(self) -> Option<IslandId> {
        IslandId::from_raw(self.get(FOLLOWER).checked_sub(1)?)
    }

    /// Whether the follower writes to it.
    pub fn is_written(self) -> bool {
        self.get(FOLLOWER_WRITES) != 0
    }

    /// Whether another page may lose its rights.
    pub fn may_ask(self) -> bool {
        self.get(ASKED) < ASKED_MAX
    }

    /// So many have none.
    pub fn asked(&mut self, pages: u32) {
        self.set(ASKED, pages);
    }

    /// The page in this slot has lost its rights; the one behind it is the next.
    pub fn ask(&mut self, slot: u64) {
        self.set(ASKED, self.get(ASKED) + 1);
        self.set(SLOT, ((slot + 1) % SLOTS) as u32);
    }

    /// From where on to look for the next such page.
    pub fn slot(self) -> u64 {
        self.get(SLOT).into()
    }

    /// A page has got its rights back.
    pub fn answered(&mut self) {
        self.set(ASKED, self.get(ASKED).saturating_sub(1));
    }

    /// An island has used a page that had lost its rights. Whether the region follows this island from now on, and has not before.
    pub fn found(&mut self, island: IslandId, is_written: bool) -> bool {
        let island = u32::from(island.0) + 1;
        if self.get(CANDIDATE) != island {
            self.set(CANDIDATE, island);
            self.set(FOUND, 0);
            self.set(CANDIDATE_WRITES, 0);
        }
        self.set(FOUND, self.get(FOUND) + 1);
        self.set(CANDIDATE_WRITES, self.get(CANDIDATE_WRITES) | u32::from(is_written));
        let begins = self.get(FOLLOWER) != island && self.get(FOUND) >= WANTED[self.get(MOVES) as usize];
        if begins {
            self.set(FOLLOWER, island);
            self.set(FOLLOWER_WRITES, self.get(CANDIDATE_WRITES));
            self.set(MOVES, self.get(MOVES) + 1);
            self.set(ASKED, 0);
        }
        begins
    }

    /// An island writes to a page of the region.
    pub fn written_by(&mut self, island: IslandId) {
        let island = u32::from(island.0) + 1;
        for (who, writes) in [(CANDIDATE, CANDIDATE_WRITES), (FOLLOWER, FOLLOWER_WRITES)] {
            if self.get(who) == island {
                self.set(writes, 1);
            }
        }
    }

    fn get(self, (first, bits): Field) -> u32 {
        self.0 >> first & ((1 << bits) - 1)
    }

    /// As much of it as fits.
    fn set(&mut self, (first, bits): Field, value: u32) {
        let most = (1 << bits) - 1;
        self.0 = self.0 & !(most << first) | value.min(most) << first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IslandId = IslandId(0);
    const AWAY: IslandId = IslandId(7);

    /// How often an island must be found until the region follows it, if it does at all.
    fn times(known: &mut Use, island: IslandId) -> Option<u32> {
        (1..200).find(|_| known.found(island, false))
    }

    #[test]
    fn a_region_follows_who_is_found_often_and_each_time_later() {
        let mut known = Use(0);
        assert_eq!(known.follower(), None);
        assert_eq!(times(&mut known, AWAY), Some(2));
        assert_eq!(known.follower(), Some(AWAY));
        assert_eq!(times(&mut known, AWAY), None, "it follows already");
        assert_eq!([HOME, AWAY, HOME].map(|island| times(&mut known, island)), [Some(8), Some(32), Some(127)]);
        let later = (0..20).map(|turn| times(&mut known, if turn % 2 == 0 { AWAY } else { HOME })).last();
        assert_eq!(later.flatten(), Some(127), "and never so late that it cannot be counted");
    }

    #[test]
    fn who_is_found_in_turns_is_not_followed() {
        let mut known = Use(0);
        assert!((0..100).all(|turn| !known.found(if turn % 2 == 0 { AWAY } else { HOME }, true)));
        // Nor is who stays for some time, when the region has followed others before.
        times(&mut known, AWAY);
        times(&mut known, HOME);
        assert!((0..1000).all(|turn| !known.found(if turn / 31 % 2 == 0 { AWAY } else { HOME }, true)));
    }

    #[test]
    fn what_the_follower_writes_is_known() {
        let mut known = Use(0);
        known.found(HOME, true);
        times(&mut known, AWAY);
        assert!(!known.is_written(), "the home has written");
        known.written_by(HOME);
        assert!(!known.is_written());
        known.written_by(AWAY);
        assert!(known.is_written());
        let mut known = Use(0);
        assert!(!known.found(AWAY, false));
        assert!(known.found(AWAY, true) && known.is_written(), "the candidate has");
    }

    #[test]
    fn pages_without_rights_are_few_and_all_come_in_turn() {
        let mut known = Use(0);
        for slot in 0..ASKED_MAX.into() {
            assert!(known.may_ask() && known.slot() == slot);
            known.ask(slot);
        }
        assert!(!known.may_ask());
        known.answered();
        assert!(known.may_ask());
        known.ask(SLOTS - 1);
        assert_eq!(known.slot(), 0);
        known.asked(500);
        assert!(!known.may_ask());
        known.asked(2);
        assert!(known.may_ask());
    }
}

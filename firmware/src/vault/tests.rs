use std::{cell::RefCell, collections::BTreeMap};

use super::*;

const SV39: u64 = 8 << MODE_SHIFT;
const TABLE: u64 = 0x2000_0000 | VALID;

/// Roots of page tables, by address. Those that are not there are zero.
#[derive(Default)]
struct Words(RefCell<BTreeMap<u64, u64>>);

impl Words {
    fn set(&self, address: u64, value: u64) {
        self.0.borrow_mut().insert(address, value);
    }

    /// A process with this root begins: all is zero but an entry that points to a table.
    fn begin(&self, root: u64) {
        self.end(root);
        self.set(root, TABLE);
    }

    fn end(&self, root: u64) {
        (0..512).for_each(|index| self.set(root + 8 * index, 0));
    }
}

impl Memory for Words {
    fn load(&self, address: u64) -> u64 {
        *self.0.borrow().get(&address).unwrap_or(&0)
    }
    fn replace(&self, address: u64, seen: u64, new: u64) -> bool {
        let is_seen = self.load(address) == seen;
        if is_seen {
            self.set(address, new);
        }
        is_seen
    }
}

const ROOTS: [u64; 2] = [0x8100_0000, 0x8100_1000];

fn claim<const N: usize>(vault: &mut Vault<N>, memory: &Words, root: u64, thread: u64) -> Result<Claim, Refused> {
    let translation = Translation::new(SV39 | root >> 12).unwrap();
    let key = Key { root, scratch: thread, pointer: 0 };
    vault.claim(key, translation, [0x1_0000, 0x2_0000], N, memory)
}

#[test]
fn a_thread_finds_what_it_left() {
    let (mut vault, memory) = (Vault::<4>::new(), Words::default());
    memory.begin(ROOTS[0]);
    let first = claim(&mut vault, &memory, ROOTS[0], 1).unwrap();
    assert!(first.is_new);
    assert_eq!(memory.load(ROOTS[0]), TABLE | MARK);
    let other = claim(&mut vault, &memory, ROOTS[0], 2).unwrap();
    assert!(other.is_new && other.index != first.index);
    vault.release(first.index, false);
    assert_eq!(claim(&mut vault, &memory, ROOTS[0], 1), Ok(Claim { is_new: false, ..first }));
}

#[test]
fn a_process_with_the_same_names_does_not_find_it() {
    for ends in [true, false] {
        let (mut vault, memory) = (Vault::<4>::new(), Words::default());
        memory.begin(ROOTS[0]);
        let first = claim(&mut vault, &memory, ROOTS[0], 1).unwrap();
        vault.release(first.index, false);
        if ends {
            memory.end(ROOTS[0]);
        }
        memory.begin(ROOTS[0]);
        // Another thread of the new process comes first, and marks the root: old entries do not count again.
        let other = claim(&mut vault, &memory, ROOTS[0], 2).unwrap();
        vault.release(other.index, false);
        assert!(claim(&mut vault, &memory, ROOTS[0], 1).unwrap().is_new);
    }
}

#[test]
fn two_threads_of_the_same_names_do_not_share() {
    let (mut vault, memory) = (Vault::<4>::new(), Words::default());
    memory.begin(ROOTS[0]);
    let first = claim(&mut vault, &memory, ROOTS[0], 1).unwrap();
    let second = claim(&mut vault, &memory, ROOTS[0], 1).unwrap();
    assert!(second.is_new && second.index != first.index);
}

#[test]
fn what_has_no_place_for_a_mark_is_refused() {
    let (mut vault, memory) = (Vault::<4>::new(), Words::default());
    for value in [0, TABLE & !VALID, TABLE | LEAF, TABLE | 1 << 1] {
        memory.set(ROOTS[0], value);
        assert_eq!(claim(&mut vault, &memory, ROOTS[0], 1), Err(Refused::NoMark));
        assert_eq!(memory.load(ROOTS[0]), value);
    }
    let translation = Translation::new(SV39 | ROOTS[0] >> 12).unwrap();
    let key = Key { root: ROOTS[0], scratch: 0, pointer: 0 };
    // The upper half, and addresses that have no translation.
    memory.begin(ROOTS[0]);
    let refused = vault.claim(key, translation, [u64::MAX, 1 << 38], 4, &memory);
    assert_eq!(refused, Err(Refused::NoMark));
    // The stack's entry serves as well.
    assert!(vault.claim(key, translation, [u64::MAX, 4096], 4, &memory).is_ok());
    assert_eq!(Translation::new(0), None);
    assert_eq!(Translation::new(7 << MODE_SHIFT), None);
}

#[test]
fn a_full_vault_lets_go_of_the_dead_first_then_of_those_in_calls() {
    let (mut vault, memory) = (Vault::<3>::new(), Words::default());
    ROOTS.iter().for_each(|root| memory.begin(*root));
    let [first, second, third] =
        [(0, 1), (0, 2), (1, 3)].map(|(root, thread)| claim(&mut vault, &memory, ROOTS[root], thread).unwrap().index);
    assert_eq!(claim(&mut vault, &memory, ROOTS[0], 4), Err(Refused::Full));
    vault.release(first, false);
    vault.release(second, true);
    vault.release(third, false);
    memory.end(ROOTS[1]);
    assert_eq!(claim(&mut vault, &memory, ROOTS[0], 4).unwrap().index, third);
    vault.release(third, false);
    assert_eq!(claim(&mut vault, &memory, ROOTS[0], 5).unwrap().index, second);
    assert_eq!(claim(&mut vault, &memory, ROOTS[0], 6).unwrap().index, first);
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Uses { root: usize, thread: u64 },
        Begins { root: usize },
        Unmaps { root: usize },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let root = 0..ROOTS.len();
        let step = prop_oneof![
            6 => (root.clone(), 0..4_u64).prop_map(|(root, thread)| Step::Uses { root, thread }),
            1 => root.clone().prop_map(|root| Step::Begins { root }),
            1 => root.prop_map(|root| Step::Unmaps { root }),
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        /// Registers are what the same thread of the same process left there, or new.
        #[test]
        fn nobody_finds_what_another_left(steps in steps()) {
            let (mut vault, memory) = (Vault::<3>::new(), Words::default());
            let mut registers = [None; 3];
            let mut lives = [0; ROOTS.len()];
            ROOTS.iter().for_each(|root| memory.begin(*root));
            for step in steps {
                match step {
                    Step::Begins { root } => {
                        lives[root] += 1;
                        memory.begin(ROOTS[root]);
                    }
                    Step::Unmaps { root } => memory.begin(ROOTS[root]),
                    Step::Uses { root, thread } => {
                        let Claim { index, is_new } = claim(&mut vault, &memory, ROOTS[root], thread).unwrap();
                        let own = Some((root, lives[root], thread));
                        prop_assert!(is_new || registers[index] == own);
                        registers[index] = own;
                        vault.release(index, thread % 2 == 0);
                    }
                }
            }
        }

        /// Whatever page tables hold, nothing is touched but the mark.
        #[test]
        fn any_words_are_survived(satp in any::<u64>(), root in proptest::collection::vec(any::<u64>(), 512), at in any::<[u64; 2]>()) {
            let Some(translation) = Translation::new(satp) else { return Ok(()) };
            let (mut vault, memory) = (Vault::<2>::new(), Words::default());
            for (index, word) in (0..).zip(&root) {
                memory.set(translation.root + 8 * index, *word);
            }
            let key = Key { root: translation.root, scratch: 1, pointer: 2 };
            let _ = vault.claim(key, translation, at, 2, &memory);
            for (index, word) in (0..).zip(&root) {
                let now = memory.load(translation.root + 8 * index);
                prop_assert!(now == *word || now == *word | MARK);
            }
            prop_assert_eq!(memory.0.borrow().len(), 512, "only the root");
        }
    }
}

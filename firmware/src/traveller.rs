//! A thread on its way: what both ends need of it, and how a supervisor describes it in its memory.
//!
//! A context is an array of words; `docs/firmware.md` has the table. It says where the thread's registers are. The firmware reads it
//! once, and looks whether all of that is the supervisor's, so nothing that the supervisor does to it later changes what a hidden hart touches.

pub use motet_abi::hidden::{CALLED_HOME, CONTEXT_WORDS, LOST, REMOVED};
use motet_abi::hidden::{CAUSE, COUNTER, FLOATS, FORMAT, REGISTERS, STAMP, VALUE, VECTOR_CONTROL, VECTOR_LEN, VECTORS};

use crate::board::{Board, Range};

/// Words before a thread's vector registers in the firmware's memory: `vstart`, `vtype`, `vl`, `vcsr`.
pub const VECTOR_CONTROL_WORDS: usize = 4;
/// `vtype` that no instruction may use.
const ILLEGAL_TYPE: u64 = 1 << 63;
/// Groups of eight vector registers.
const GROUPS: usize = 4;

/// The floating-point unit's state, as `mstatus` has it: its registers are as they were loaded.
pub const FLOATS_CLEAN: u64 = 2 << 13;

/// What the supervisor lets programs use: `senvcfg`, `scounteren`, `sstateen0`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Permissions {
    /// `senvcfg`.
    pub environment: u64,
    /// `scounteren`.
    pub counters: u64,
    /// `sstateen0`.
    pub state_enable: u64,
}

/// Where a thread's registers are: addresses in memory that is open to the supervisor, or in the firmware's own.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Places {
    /// Of `x1` to `x31`.
    pub registers: u64,
    /// Of `f0` to `f31` and `fcsr`.
    pub floats: u64,
    /// Of `vstart`, `vtype`, `vl`, `vcsr`.
    pub control: u64,
    /// Of `v0`, `v8`, `v16`, `v24`, each with those behind it.
    pub vectors: [u64; GROUPS],
    /// Of the stamp of the vector registers; 0: there is none.
    pub stamp: u64,
}

impl Places {
    /// Nowhere.
    const NONE: Self = Self { registers: 0, floats: 0, control: 0, vectors: [0; GROUPS], stamp: 0 };

    /// Says where vector registers of `vector_len` bytes and their control words are that lie at `address`, one behind another.
    pub fn set_vectors(&mut self, address: u64, vector_len: usize) {
        let bytes = 8 * vector_len as u64;
        let first = address + 8 * VECTOR_CONTROL_WORDS as u64;
        self.control = address;
        self.vectors = [first, first + bytes, first + 2 * bytes, first + 3 * bytes];
    }

    /// Whether all is memory that the supervisor may use, and aligned.
    fn are_open(&self, vector_len: usize, board: &Board) -> bool {
        const WORD: u64 = 8;
        let Self { registers, floats, control, vectors: [first, second, third, fourth], stamp } = *self;
        let all = registers | floats | control | first | second | third | fourth;
        if !all.is_multiple_of(WORD) || !stamp.is_multiple_of(4) {
            return false;
        }
        // Mostly all lie near each other.
        let near = board.open_around(registers);
        let is_open = |start, len| {
            let range = Range { start, len };
            near.covers(range) || board.is_open(range)
        };
        let group = WORD * vector_len as u64;
        is_open(registers, 31 * WORD)
            && is_open(floats, 33 * WORD)
            && is_open(control, VECTOR_CONTROL_WORDS as u64 * WORD)
            && is_open(first, group)
            && is_open(second, group)
            && is_open(third, group)
            && is_open(fourth, group)
            && (stamp == 0 || is_open(stamp, 4))
    }
}

/// A thread on its way.
#[derive(Clone, Debug)]
pub struct Traveller {
    /// Where it goes on.
    pub counter: u64,
    /// Where its registers are.
    pub places: Places,
    /// The state of the floating-point unit, as `mstatus` has it.
    pub float_state: u64,
    /// Its page tables.
    pub satp: u64,
    /// What it may use.
    pub permissions: Permissions,
    /// Why it came home.
    pub cause: u64,
    /// `mtval` then.
    pub value: u64,
    /// Where its supervisor has its context.
    pub context: u64,
}

impl Traveller {
    /// Nobody.
    #[expect(clippy::new_without_default, reason = "needed in a constant")]
    pub const fn new() -> Self {
        Self {
            counter: 0,
            places: Places::NONE,
            float_state: 0,
            satp: 0,
            permissions: Permissions { environment: 0, counters: 0, state_enable: 0 },
            cause: 0,
            value: 0,
            context: 0,
        }
    }
}

/// Words of a thread's vector state in the firmware's memory.
pub const fn vector_words(vector_len: usize) -> usize {
    VECTOR_CONTROL_WORDS + 4 * vector_len
}

/// A vector state as threads find it at first.
pub fn reset_vectors(state: &mut [u64]) {
    const TYPE: usize = 1;
    state.fill(0);
    state[TYPE] = ILLEGAL_TYPE;
}

/// Why a context is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is none, for these harts.
    NoContext,
    /// Registers are where the supervisor may not, or are not aligned.
    NotOpen,
}

/// Reads a context by its words, each once, for harts with vector registers of this length.
///
/// # Errors
/// It is refused; the traveller is not to be used.
pub fn read(
    traveller: &mut Traveller,
    vector_len: usize,
    board: &Board,
    word: impl Fn(usize) -> u64,
) -> Result<(), Refused> {
    if word(0) != FORMAT || word(VECTOR_LEN) != vector_len as u64 {
        return Err(Refused::NoContext);
    }
    let places = Places {
        registers: word(REGISTERS),
        floats: word(FLOATS),
        control: word(VECTOR_CONTROL),
        vectors: [word(VECTORS), word(VECTORS + 1), word(VECTORS + 2), word(VECTORS + 3)],
        stamp: word(STAMP),
    };
    if !places.are_open(vector_len, board) {
        return Err(Refused::NotOpen);
    }
    traveller.places = places;
    traveller.counter = word(COUNTER);
    traveller.float_state = FLOATS_CLEAN;
    Ok(())
}

/// Writes what has become of a thread into its context. Its registers are where they were.
pub fn write(traveller: &Traveller, mut store: impl FnMut(usize, u64)) {
    store(COUNTER, traveller.counter);
    store(CAUSE, traveller.cause);
    store(VALUE, traveller.value);
}

#[cfg(test)]
mod tests {
    use dtoolkit::fdt::Fdt;
    use proptest::prelude::*;

    use super::*;
    use crate::FIRMWARE;

    const LEN: usize = 16;
    const OPEN: u64 = 0x8030_0000;
    /// Where the board's memory ends.
    const END: u64 = 0x8800_0000;

    fn board() -> Board {
        Board::parse(Fdt::new(include_bytes!("../testdata/virt-vectors.dtb")).unwrap()).unwrap()
    }

    /// A context whose addresses tell what they are of.
    fn context() -> [u64; CONTEXT_WORDS] {
        let mut words: [u64; CONTEXT_WORDS] = core::array::from_fn(|index| OPEN + 0x1000 * index as u64);
        (words[0], words[VECTOR_LEN], words[COUNTER]) = (FORMAT, LEN as u64, 0x1234);
        words
    }

    fn read_from(words: &[u64]) -> Result<Traveller, Refused> {
        let mut traveller = Traveller::new();
        read(&mut traveller, LEN, &board(), |index| words[index]).map(|()| traveller)
    }

    #[test]
    fn what_is_read_is_what_the_context_says() {
        let mut words = context();
        let mut traveller = read_from(&words).unwrap();
        let at = |index: usize| OPEN + 0x1000 * index as u64;
        let wanted = Places {
            registers: at(REGISTERS),
            floats: at(FLOATS),
            control: at(VECTOR_CONTROL),
            vectors: [at(8), at(9), at(10), at(11)],
            stamp: at(STAMP),
        };
        assert_eq!((traveller.counter, traveller.places), (0x1234, wanted));
        (traveller.counter, traveller.cause, traveller.value) = (1, 2, 3);
        let mut after = words;
        write(&traveller, |index, word| after[index] = word);
        (words[COUNTER], words[CAUSE], words[VALUE]) = (1, 2, 3);
        assert_eq!(after, words);
    }

    #[test]
    fn vectors_of_the_firmware_lie_behind_their_control_words() {
        let mut places = Places::NONE;
        places.set_vectors(0x1000, LEN);
        assert_eq!((places.control, places.vectors), (0x1000, [0x1020, 0x10a0, 0x1120, 0x11a0]));
        let mut state = vec![7; vector_words(LEN)];
        reset_vectors(&mut state);
        assert_eq!(state.iter().position(|word| *word == ILLEGAL_TYPE), Some(1));
    }

    #[test]
    fn other_contexts_are_refused() {
        for (index, word) in [(0, 0), (0, FORMAT - 1), (VECTOR_LEN, 0), (VECTOR_LEN, 32), (VECTOR_LEN, 1 << 63)] {
            let mut words = context();
            words[index] = word;
            assert_eq!(read_from(&words).unwrap_err(), Refused::NoContext, "{index} {word:x}");
        }
    }

    #[test]
    fn registers_elsewhere_are_refused() {
        for (index, bytes) in [
            (REGISTERS, 248),
            (FLOATS, 264),
            (VECTOR_CONTROL, 32),
            (8, 128),
            (9, 128),
            (10, 128),
            (11, 128),
            (STAMP, 4),
        ] {
            let refused = [
                FIRMWARE.start,
                FIRMWARE.end() - 8,
                OPEN + 1,
                OPEN + 2,
                8,
                0x1000_0000,
                END - bytes + 8,
                END,
                u64::MAX - 7,
            ];
            // Words are aligned to their size, of which only the stamp's is four bytes.
            let half_aligned = (index != STAMP).then_some(OPEN + 4);
            for word in refused.into_iter().chain(half_aligned) {
                let mut words = context();
                words[index] = word;
                assert_eq!(read_from(&words).unwrap_err(), Refused::NotOpen, "{index} {word:x}");
            }
            for word in [FIRMWARE.end(), END - bytes] {
                let mut words = context();
                words[index] = word;
                assert!(read_from(&words).is_ok(), "{index} {word:x}");
            }
        }
    }

    fn address() -> impl Strategy<Value = u64> {
        let edge = prop_oneof![Just(OPEN), Just(FIRMWARE.start), Just(FIRMWARE.end()), Just(END), Just(0_u64)];
        prop_oneof![
            edge.prop_flat_map(|at| (-300..300_i64).prop_map(move |words| at.wrapping_add_signed(8 * words))),
            any::<u64>()
        ]
    }

    proptest! {
        /// Whatever memory holds, and however it changes meanwhile: only words of a context are read, each once, and what is taken lies
        /// in open memory, all of it.
        #[test]
        fn any_words_are_survived(
            changes in proptest::collection::vec((COUNTER..CONTEXT_WORDS, address()), 0..4),
            len in (4..8_u32).prop_map(|power| 1 << power),
        ) {
            // Of a context that is none in many words, the first one would be all that is found.
            let mut addresses = context();
            changes.iter().for_each(|(index, address)| addresses[*index] = *address);
            let (board, len): (_, usize) = (board(), len);
            let asked = core::cell::RefCell::new([0; CONTEXT_WORDS]);
            let word = |index: usize| {
                asked.borrow_mut()[index] += 1;
                match index {
                    0 => FORMAT,
                    VECTOR_LEN => len as u64,
                    _ => addresses[index],
                }
            };
            let mut traveller = Traveller::new();
            let taken = read(&mut traveller, len, &board, word);
            prop_assert!(asked.borrow().iter().all(|times| *times <= 1));
            let Places { registers, floats, control, vectors, stamp } = traveller.places;
            let stamp = (stamp, if stamp == 0 { 0 } else { 4 }, 4);
            let registers = [(registers, 248, 8), (floats, 264, 8), (control, 32, 8), stamp];
            let all = registers.into_iter().chain(vectors.map(|at| (at, 8 * len as u64, 8)));
            for (start, len, align) in all.filter(|(_, len, _)| taken.is_ok() && *len != 0) {
                let range = Range { start, len };
                prop_assert!(board.is_open(range) && start % align == 0, "{:x?}", range);
            }
        }
    }
}

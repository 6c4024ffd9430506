//! A thread on its way: what both ends need of it, and how a supervisor describes it in its memory.
//!
//! A context is an array of words; `docs/firmware.md` has the table. The firmware takes a copy, so nothing that the supervisor does
//! to its own changes what a hidden hart runs.

pub use motet_abi::hidden::{CALLED_HOME, LOST, context_words};
use motet_abi::hidden::{
    CAUSE, COUNTER, FLOATS, FORMAT, HEADER_WORDS, REGISTERS, SIZE, VALUE, VECTOR_CONTROL, VECTOR_LEN,
};

/// Words before a thread's vector registers in the firmware's memory: `vstart`, `vl`, `vtype`, `vcsr`, as in a context.
pub const VECTOR_CONTROL_WORDS: usize = 4;
/// `vtype` that no instruction may use.
const ILLEGAL_TYPE: u64 = 1 << 63;

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

/// A thread on its way.
#[derive(Clone, Debug)]
pub struct Traveller {
    /// `x1` to `x31`.
    pub registers: [u64; 31],
    /// Where it goes on.
    pub counter: u64,
    /// `f0` to `f31` and `fcsr`.
    pub floats: [u64; 33],
    /// The state of the floating-point unit, as `mstatus` has it.
    pub float_state: u64,
    /// Its page tables.
    pub satp: u64,
    /// What it may use.
    pub permissions: Permissions,
    /// Where its vector registers are.
    pub entry: usize,
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
            registers: [0; 31],
            counter: 0,
            floats: [0; 33],
            float_state: 0,
            satp: 0,
            permissions: Permissions { environment: 0, counters: 0, state_enable: 0 },
            entry: 0,
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
    const TYPE: usize = 2;
    state.fill(0);
    state[TYPE] = ILLEGAL_TYPE;
}

/// Reads a context by its words, each once. Whether it is one, for harts with vector registers of this length; if not, the traveller
/// is not to be used.
pub fn read(traveller: &mut Traveller, vectors: &mut [u64], vector_len: usize, word: impl Fn(usize) -> u64) -> bool {
    let has_vectors = match word(VECTOR_LEN) {
        0 => false,
        len if len == vector_len as u64 => true,
        _ => return false,
    };
    if word(0) != FORMAT || word(SIZE) != 8 * context_words(vector_len) as u64 {
        return false;
    }
    traveller.counter = word(COUNTER);
    read_words(&mut traveller.registers, REGISTERS, &word);
    read_words(&mut traveller.floats, FLOATS, &word);
    traveller.float_state = FLOATS_CLEAN;
    if !has_vectors {
        reset_vectors(vectors);
    } else {
        let (control, registers) = vectors.split_at_mut(VECTOR_CONTROL_WORDS);
        read_words(control, VECTOR_CONTROL, &word);
        read_words(registers, HEADER_WORDS, &word);
    }
    true
}

/// Reads words of a context, eight in a round, as these are most of a trip.
#[inline(always)]
fn read_words(to: &mut [u64], first: usize, word: &impl Fn(usize) -> u64) {
    let (eights, rest) = to.as_chunks_mut::<8>();
    let behind = first + 8 * eights.len();
    for (eight, at) in eights.iter_mut().zip((first..).step_by(8)) {
        eight.iter_mut().enumerate().for_each(|(offset, place)| *place = word(at + offset));
    }
    rest.iter_mut().zip(behind..).for_each(|(place, index)| *place = word(index));
}

/// Writes them, likewise.
#[inline(always)]
fn write_words(from: &[u64], first: usize, store: &mut impl FnMut(usize, u64)) {
    let (eights, rest) = from.as_chunks::<8>();
    for (eight, at) in eights.iter().zip((first..).step_by(8)) {
        eight.iter().enumerate().for_each(|(offset, word)| store(at + offset, *word));
    }
    rest.iter().zip(first + 8 * eights.len()..).for_each(|(word, index)| store(index, *word));
}

/// Writes what has become of a thread into its context.
pub fn write(traveller: &Traveller, vectors: &[u64], vector_len: usize, mut store: impl FnMut(usize, u64)) {
    store(COUNTER, traveller.counter);
    write_words(&traveller.registers, REGISTERS, &mut store);
    write_words(&traveller.floats, FLOATS, &mut store);
    store(VECTOR_LEN, vector_len as u64);
    let (control, registers) = vectors.split_at(VECTOR_CONTROL_WORDS);
    write_words(control, VECTOR_CONTROL, &mut store);
    write_words(registers, HEADER_WORDS, &mut store);
    store(CAUSE, traveller.cause);
    store(VALUE, traveller.value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 16;

    /// A context whose words tell where they are.
    fn context() -> Vec<u64> {
        let mut words: Vec<_> = (1000..).take(context_words(LEN)).collect();
        words[0] = FORMAT;
        words[SIZE] = 8 * context_words(LEN) as u64;
        words[VECTOR_LEN] = LEN as u64;
        words
    }

    fn read_from(words: &[u64]) -> Option<(Traveller, Vec<u64>)> {
        let (mut traveller, mut vectors) = (Traveller::new(), vec![7; vector_words(LEN)]);
        read(&mut traveller, &mut vectors, LEN, |index| words[index]).then_some((traveller, vectors))
    }

    #[test]
    fn what_is_read_is_written_again() {
        let words = context();
        let (traveller, vectors) = read_from(&words).unwrap();
        assert_eq!((traveller.counter, traveller.registers[0], traveller.floats[32]), (1002, 1003, 1066));
        let mut written = words.clone();
        written[COUNTER..].fill(0);
        write(&traveller, &vectors, LEN, |index, word| written[index] = word);
        let mut wanted = words;
        wanted[CAUSE..HEADER_WORDS].fill(0);
        assert_eq!(written, wanted);
    }

    #[test]
    fn a_thread_without_vectors_has_new_ones() {
        let mut words = context();
        words[VECTOR_LEN] = 0;
        let (_, vectors) = read_from(&words).unwrap();
        assert_eq!(vectors.iter().filter(|word| **word != 0).collect::<Vec<_>>(), [&ILLEGAL_TYPE]);
    }

    #[test]
    fn other_contexts_are_refused() {
        for (index, word) in
            [(0, 0), (0, FORMAT + 1), (SIZE, 0), (SIZE, u64::MAX), (VECTOR_LEN, 32), (VECTOR_LEN, 1 << 63)]
        {
            let mut words = context();
            words[index] = word;
            assert!(read_from(&words).is_none(), "{index} {word:x}");
        }
    }

    proptest! {
        /// Whatever memory holds, and however it changes meanwhile, only words of a context are read.
        #[test]
        fn any_words_are_survived(words in proptest::collection::vec(any::<u64>(), 1..64), len in 1..17_usize, right in any::<bool>()) {
            let asked = core::cell::Cell::new(0);
            let word = |index: usize| {
                assert!(index < context_words(len * 8));
                asked.set(asked.get() + 1);
                match (right, index) {
                    (true, 0) => FORMAT,
                    (true, SIZE) => 8 * context_words(len * 8) as u64,
                    (true, VECTOR_LEN) => len as u64 * 8,
                    _ => words[asked.get() % words.len()],
                }
            };
            let (mut traveller, mut vectors) = (Traveller::new(), vec![0; vector_words(len * 8)]);
            let taken = read(&mut traveller, &mut vectors, len * 8, word);
            prop_assert!(taken || !right);
        }
    }
}

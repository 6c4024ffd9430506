//! Values that one core writes while another reads them: the reader finds those of one moment.

use motet_layout::sync::{AtomicU32, Ordering};
use motet_layout::{Pool, PoolAddr, VectorArea};
use motet_protocol::stamp;

use crate::harness::{explore, fresh_pool, must_be_caught, quietly, together};

const WRITES: u64 = 3;
const READS: usize = 4;

type Write = fn(&AtomicU32, &mut dyn FnMut());
type Read = fn(&AtomicU32, &mut dyn FnMut() -> [u64; 2]) -> Option<[u64; 2]>;

fn words(pool: Pool, at: PoolAddr) -> (&'static AtomicU32, &'static VectorArea) {
    let at = at.0.next_multiple_of(4096);
    (pool.at(PoolAddr(at)), pool.at(PoolAddr(at + 4096)))
}

fn model(write: Write, read: Read) -> impl Fn() + Clone + Send + Sync + 'static {
    move || {
        let (pool, at) = fresh_pool(2);
        let (word, area) = words(pool, at);
        quietly(|| {
            word.store(0, Ordering::Relaxed);
            area.words[..2].iter().for_each(|word| word.set(0));
        });
        let writer = move || {
            for value in 1..=WRITES {
                write(word, &mut || area.words[..2].iter().for_each(|word| word.set(value)));
            }
        };
        let reader = move || {
            for _ in 0..READS {
                if let Some([first, second]) = read(word, &mut || [area.words[0].get(), area.words[1].get()]) {
                    assert_eq!(first, second, "values of two moments");
                }
                shuttle::thread::yield_now();
            }
        };
        together(vec![Box::new(writer), Box::new(reader)]);
        let last = quietly(|| stamp::read(word, || area.words[1].get()));
        assert_eq!(last, Some(WRITES), "what nobody writes can be read");
    }
}

#[test]
fn readers_find_values_of_one_moment() {
    explore(1500, model(|word, write| stamp::write(word, write), |word, read| stamp::read(word, read)));
}

#[test]
fn a_stamp_that_is_set_after_writing_is_caught() {
    must_be_caught(
        1500,
        model(
            |word, write| {
                write();
                word.store(word.load(Ordering::Relaxed) + 2, Ordering::Release);
            },
            |word, read| stamp::read(word, read),
        ),
    );
}

#[test]
fn looking_at_the_stamp_only_before_reading_is_caught() {
    must_be_caught(
        1500,
        model(|word, write| stamp::write(word, write), |word, read| (word.load(Ordering::Acquire) & 1 == 0).then(read)),
    );
}

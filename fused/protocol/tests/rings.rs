//! Rings of messages between real threads: the processor's own reordering, which the model does not have.

use motet_layout::{Pool, PoolAddr, Windows, sync::AtomicU64};
use motet_protocol::ring::{Ring, Unsent, ring_len};

const SLOT_LEN: u32 = 64;

fn pool_of(len: u64) -> Pool {
    let words: &'static mut [u64] = vec![0u64; len as usize / 8 + 512].leak();
    let base = words.as_mut_ptr().cast::<u8>();
    // SAFETY: page-aligned, `len` bytes with room to spare, leaked, used in no other way.
    unsafe { Pool::new(base.wrapping_add(base.align_offset(4096)), len) }
}

/// A ring of so many slots, as its two kernels see it.
fn ring(slots: u32) -> [Ring; 2] {
    const AT: PoolAddr = PoolAddr(1 << 20);
    let pool = pool_of(AT.0 + ring_len(slots, SLOT_LEN));
    let next = || Box::leak(Box::new(AtomicU64::new(0)));
    [next(), next()].map(|next| Ring::new(Windows::within(pool, AT.0), AT, (slots, SLOT_LEN), next).unwrap())
}

/// Two threads send as one kernel's cores, one receives; each message is its sender and number, many times over.
#[test]
fn messages_come_whole_and_in_order_however_the_processor_reorders() {
    // With two slots, each message needs a turn of both threads.
    for (slots, messages) in [(2, 100), (64, 20_000)] {
        let [out, into] = ring(slots);
        let senders = [0, 1u64].map(|sender| {
            std::thread::spawn(move || {
                for number in 0..messages {
                    let words = [sender << 32 | number; 8].map(u64::to_le_bytes);
                    while let Err(why) = out.send(|slot| slot.write(0, words.as_flattened())) {
                        assert_eq!(why, Unsent::Full);
                        std::thread::yield_now();
                    }
                }
            })
        });
        let mut next = [0, 0];
        while next != [messages; 2] {
            let mut bytes = [0; 64];
            if into.take(|slot| slot.read(0, &mut bytes)).is_none() {
                std::thread::yield_now();
                continue;
            }
            let (words, _) = bytes.as_chunks::<8>();
            let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
            assert!(words.iter().all(|&word| word == words[0]), "a message is torn: {words:x?}");
            let sender = (words[0] >> 32) as usize;
            assert_eq!(words[0] & 0xffff_ffff, next[sender], "of sender {sender}");
            next[sender] += 1;
        }
        for sender in senders {
            sender.join().unwrap();
        }
        assert!(!into.has_message());
    }
}

#[test]
fn a_ring_that_nobody_empties_is_full() {
    let [out, into] = ring(4);
    assert_eq!([(); 6].map(|()| out.send(|_| ()).is_ok()), [true, true, true, true, false, false]);
    assert!(into.take(|_| ()).is_some());
    assert_eq!([(); 2].map(|()| out.send(|_| ())), [Ok(()), Err(Unsent::Full)]);
}

/// Windows reach neither the kernel's own memory nor what is behind them, of which bytes can be copied.
#[test]
fn what_is_behind_windows_can_be_copied_and_nothing_else() {
    let pool = pool_of(1 << 20);
    let (start, end) = (256 << 10, 512 << 10);
    let windows = Windows::between(pool, start, end);
    let panics = |act: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
    for at in [start - 8, end - 4, end, 1 << 20] {
        assert!(panics(&|| windows.write(PoolAddr(at), &[1; 8])), "{at:#x}");
        assert!(panics(&|| windows.read(PoolAddr(at), &mut [0; 8])), "{at:#x}");
        assert!(panics(&|| windows.copy_from(PoolAddr(at), pool, PoolAddr(0), 8)), "{at:#x}");
        assert!(windows.ring(PoolAddr(at & !63)).is_none() || at == end - 4, "{at:#x}");
    }
    windows.write(PoolAddr(start), &[1; 8]);
    windows.write(PoolAddr(end - 8), &[2; 8]);
    let copies = |at: u64| windows.copy_of_other(PoolAddr(at), pool, PoolAddr(4096), 4096);
    assert_eq!([end - 4096, end - 8, (1 << 20) - 4088, u64::MAX - 8].map(copies), [false; 4]);
    assert_eq!([end, (1 << 20) - 4096].map(copies), [true; 2]);
}

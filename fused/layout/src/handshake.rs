//! "Store, then look": how two sides meet without a lock.
//!
//! One side stores a word and then loads the word of the other side: "I am about to sleep; is there work?". The other side does the
//! same the other way round: "there is work; does it sleep?". At least one of them must see the other's store. This is the litmus test *store
//! buffering* (SB), and every processor that Motet runs on fails it with plain stores and loads: a store waits in the core's
//! buffer while the loads after it are done (x86-64: Intel SDM 3A, 9.2.3.4; AArch64: Arm ARM, B2.3; RISC-V: Unprivileged ISA, RVWMO).
//!
//! So [`then_look`] stands between the store and the load, on *both* sides. Motet has no other way to do this:
//!
//! ```
//! # use motet_layout::{handshake::then_look, sync::{AtomicU32, Ordering}};
//! # let (own, others) = (AtomicU32::new(0), AtomicU32::new(0));
//! own.store(1, Ordering::Release); // what both sides may read
//! then_look();
//! let seen = others.load(Ordering::Acquire);
//! # assert_eq!(seen, 0);
//! ```
//!
//! It is a full fence: `mfence`, `dmb ish`, `fence rw, rw`. Neither the store nor the look needs an ordering of its own for it.
//!
//! A store and a load that are both [`SeqCst`](crate::sync::Ordering::SeqCst) are not enough, although the language says so: on AArch64 they are `stlr` and
//! `ldar`, and QEMU puts a fence before the one and behind the other, but nothing between the two
//! that makes an x86-64 host keep their order. A test of user programs (`litmus::` of the machine's tests) fails with them. So no code that kernels run has a `SeqCst` store:
//! a test looks for them (`tests/hosted/tests/orders.rs`), and names what is excepted.
//!
//! A read-modify-write that changes the word (`swap`, `fetch_or`, a compare-and-swap that succeeds), if it is `SeqCst` and the look is, too, needs no
//! fence: the architectures order it, and for QEMU it is one of the host's locked instructions. One that *fails* is only a load.

use crate::sync::{Ordering, fence};

/// Orders the caller's earlier stores before its later loads. If both sides call it between their store and their load, at least one of them sees the
/// other's store.
#[inline(always)]
pub fn then_look() {
    fence(Ordering::SeqCst);
}

//! When transfers of an island's engine end.

use motet_layout::{CoreId, DMA_BAD_ADDRESS, DMA_OK, IslandId, Pool, PoolAddr};
use motet_protocol::{
    Context,
    engine::{self, Transfer},
};

use crate::world::{Side, World};

const US: u64 = 1_000_000;
/// Addresses within the header, of what nobody uses here.
const FROM: u64 = 3000;
const TO: u64 = 4000;

struct Kernel(Pool);

impl Context for Kernel {
    fn core(&self) -> CoreId {
        CoreId::new(IslandId(1), 0)
    }
    fn pool(&self) -> Pool {
        self.0
    }
    fn relax(&self) {}
    fn ring(&self, _target: CoreId) {}
}

fn submit(kernel: &Kernel, source: u64, bytes: u64) {
    let (source, destination) = (PoolAddr(source), PoolAddr(TO));
    let transfer = Transfer { source, destination, bytes, flags: 0, core: kernel.core(), id: bytes };
    assert!(engine::submit(kernel, &kernel.0.header().dma[1], &transfer, || {}));
}

fn take(kernel: &Kernel) -> Option<(u64, u32, u64)> {
    let completion = engine::take(kernel, &kernel.0.header().dma[1])?;
    Some((completion.done, completion.error, completion.arrives_ns))
}

#[test]
fn transfers_follow_each_other_and_take_what_they_take() {
    let world = World::started(&[1, 1], Side::InTurns);
    let kernel = Kernel(world.pool());
    let mut moved = Vec::new();
    let mut serve = |now_ps| {
        let note = |_from, to: PoolAddr, bytes| moved.push((to.0, bytes));
        world.timing.serve_engine(kernel.0, 16, now_ps, |bytes| 3 * US + bytes * 1000, note);
    };
    kernel.0.write(PoolAddr(FROM), b"motet");
    submit(&kernel, FROM, 5);
    submit(&kernel, FROM, 4);
    submit(&kernel, u64::MAX, 4);
    serve(10 * US);
    // Copied before the core's next instruction; over when the engine would be through.
    let mut copied = [0; 5];
    kernel.0.read(PoolAddr(TO), &mut copied);
    assert_eq!(&copied, b"motet");
    assert_eq!(take(&kernel), Some((5, DMA_OK, 13_005)));
    assert_eq!(take(&kernel), Some((4, DMA_OK, 16_009)));
    assert_eq!(take(&kernel), Some((0, DMA_BAD_ADDRESS, 19_009)), "it has to be looked at");
    assert_eq!(take(&kernel), None);
    // It is busy still, and later it is not.
    submit(&kernel, FROM, 1);
    serve(18 * US);
    submit(&kernel, FROM, 1);
    serve(40 * US);
    assert_eq!([take(&kernel), take(&kernel)].map(|taken| taken.unwrap().2), [22_010, 43_001]);
    assert_eq!(moved, [(TO, 5), (TO, 4), (TO, 1), (TO, 1)]);
}

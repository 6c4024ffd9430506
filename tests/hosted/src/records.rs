//! What an island that is started again must not take from its earlier life: the records of its cores. Before it starts, all words that its new
//! life has to reset are made to say something; when it has joined, none may.

use motet_layout::sync::{AtomicU32, AtomicU64, Ordering};
use motet_layout::{
    CORE_OFFLINE, CORES_PER_ISLAND_MAX, Cell32, Cell64, CoreId, CoreRecord, ISLAND_GONE, IslandId, Pool, ReadyGroup,
};

/// What a word says after [`soil`]. No address, and no core's life begins with it.
const SOIL: u32 = 1;

/// A word of a record.
enum Word {
    Shared32(&'static AtomicU32),
    Shared64(&'static AtomicU64),
    Own32(&'static Cell32),
    Own64(&'static Cell64),
}

impl Word {
    fn get(&self) -> u64 {
        match self {
            Self::Shared32(word) => word.load(Ordering::Relaxed).into(),
            Self::Shared64(word) => word.load(Ordering::Relaxed),
            Self::Own32(word) => word.get().into(),
            Self::Own64(word) => word.get(),
        }
    }

    fn soil(&self) {
        match self {
            Self::Shared32(word) => word.store(SOIL, Ordering::Relaxed),
            Self::Shared64(word) => word.store(SOIL.into(), Ordering::Relaxed),
            Self::Own32(word) => word.set(SOIL),
            Self::Own64(word) => word.set(SOIL.into()),
        }
    }
}

/// The words that are 0 when a core of a new life begins.
fn words(core: &'static CoreRecord) -> Vec<(&'static str, Word)> {
    let mut words = vec![
        ("call", Word::Shared32(&core.call)),
        ("answer", Word::Shared32(&core.answer)),
        ("inbox", Word::Shared64(&core.inbox)),
        ("inbox_count", Word::Shared32(&core.inbox_count)),
        ("current_thread", Word::Shared64(&core.current_thread)),
        ("stacked", Word::Shared64(&core.stacked)),
        ("active_space", Word::Shared64(&core.active_space)),
        ("space_changed", Word::Shared32(&core.space_changed)),
        ("away", Word::Shared32(&core.away)),
        ("pending", Word::Shared32(&core.pending)),
        ("ready_count", Word::Shared32(&core.ready_count)),
        ("ready_mask", Word::Own32(&core.ready_mask)),
        ("ready_running", Word::Own32(&core.ready_running)),
        ("realtime_since_ns", Word::Own64(&core.realtime_since_ns)),
        ("realtime_before_ns", Word::Own64(&core.realtime_before_ns)),
        ("hand_place", Word::Shared64(&core.hand_place)),
    ];
    words.extend(core.hand.iter().map(|note| ("hand", Word::Shared64(note))));
    words.extend(core.locks_held.iter().map(|counts| ("locks_held", Word::Shared64(counts))));
    words.extend(core.ready_groups.iter().chain([&core.ready_realtime]).flat_map(of_group));
    words
}

fn of_group(group: &'static ReadyGroup) -> [(&'static str, Word); 5] {
    [
        ("a group's user", Word::Own32(&group.user)),
        ("a group's rank_max", Word::Own32(&group.rank_max)),
        ("a group's first", Word::Own64(&group.first)),
        ("a group's last", Word::Own64(&group.last)),
        ("a group's served_ns", Word::Own64(&group.served_ns)),
    ]
}

fn cores_of(pool: Pool, island: IslandId) -> impl Iterator<Item = (CoreId, &'static CoreRecord)> {
    let count = pool.header().islands[island.index()].core_count.get() as usize;
    let ids = (0..count.min(CORES_PER_ISLAND_MAX)).map(move |index| CoreId::new(island, index));
    ids.map(move |id| (id, &pool.header().cores[id.index()]))
}

/// Makes the records of an island's cores say something, which is about to be started again. What is wrong already.
pub fn soil(pool: Pool, island: IslandId) -> Vec<String> {
    let state = pool.header().islands[island.index()].state.load(Ordering::Relaxed);
    let mut found = not_offline(pool, island);
    if state != ISLAND_GONE {
        found.push(format!("an island is started again in state {state}"));
    }
    for (_, core) in cores_of(pool, island) {
        words(core).iter().for_each(|(_, word)| word.soil());
        core.alarm_ns.store(SOIL.into(), Ordering::Relaxed);
    }
    found
}

/// What the records of an island's cores say of an earlier life, when it has just joined again.
pub fn left(pool: Pool, island: IslandId) -> Vec<String> {
    let mut found = not_offline(pool, island);
    for (id, core) in cores_of(pool, island) {
        let says = words(core).into_iter().map(|(name, word)| (name, word.get(), 0));
        let all = says.chain([("alarm_ns", core.alarm_ns.load(Ordering::Relaxed), u64::MAX)]);
        let wrong = all.filter(|(_, value, should)| value != should);
        found.extend(wrong.map(|(name, value, _)| format!("core {} has joined again with {name} {value:#x}", id.0)));
    }
    found
}

/// Nobody gives a core anything that is offline.
fn not_offline(pool: Pool, island: IslandId) -> Vec<String> {
    let state = |core: &CoreRecord| core.state.load(Ordering::Relaxed);
    let wrong = cores_of(pool, island).filter(|(_, core)| state(core) != CORE_OFFLINE);
    wrong
        .map(|(id, core)| format!("core {}, of an island that has not begun, is in state {}", id.0, state(core)))
        .collect()
}

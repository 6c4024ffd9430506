//! A network device of an island, and the machine at the other end of its wire. The wire loses, doubles, changes, delays and so reorders frames, by the run's seed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use motet_hal::{Network, network::FRAME_BYTES_MAX};

use crate::machine::lock;

/// The machine at the other end.
pub trait Remote: Send {
    /// A frame has come for it.
    fn receive(&mut self, now_ns: u64, frame: &[u8]);

    /// Does what it does at that time; `send` takes frames. Returns when it wants to be asked again, if nothing comes before.
    fn poll(&mut self, now_ns: u64, send: &mut dyn FnMut(&[u8])) -> Option<u64>;
}

/// Makes the machine at the other end.
#[derive(Clone)]
pub struct Maker(pub Arc<dyn Fn() -> Box<dyn Remote> + Send + Sync>);

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a machine")
    }
}

/// A network device.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// Who is at the other end.
    pub remote: Maker,
    /// Bytes of [`Network::memory`].
    pub memory_bytes: usize,
    /// Of a thousand frames, so many are lost,
    pub lost: u64,
    /// so many come twice,
    pub doubled: u64,
    /// and so many come with a bit changed, which is none of Ethernet's or ARP's: these rely on Ethernet's check sequence.
    pub changed: u64,
    /// Of a thousand tries to send, the device has no room for so many.
    pub refused: u64,
    /// Longest time that a frame takes.
    pub delay_ns_max: u64,
}

impl NetworkConfig {
    /// A wire that only takes its time.
    pub fn new(remote: Maker) -> Self {
        Self { remote, memory_bytes: 1 << 20, lost: 0, doubled: 0, changed: 0, refused: 0, delay_ns_max: 100_000 }
    }

    /// One that does all that wires do.
    pub fn rough(remote: Maker) -> Self {
        Self { lost: 50, doubled: 20, changed: 20, refused: 20, delay_ns_max: 2_000_000, ..Self::new(remote) }
    }
}

/// Bytes of Ethernet's header, and the end of that if a packet of version 4 follows.
const HEADER_BYTES: usize = 14;
const IPV4: [u8; 2] = [8, 0];

/// A frame under way, and when it arrives.
type Frame = (u64, Vec<u8>);

struct State {
    config: NetworkConfig,
    remote: Box<dyn Remote>,
    random: u64,
    to_remote: Vec<Frame>,
    to_island: Vec<Frame>,
    arrived: VecDeque<Vec<u8>>,
    remote_at_ns: u64,
    room_at_ns: u64,
    is_taken: bool,
}

/// A device and its wire.
pub(crate) struct Link {
    state: Mutex<State>,
    next_ns: AtomicU64,
}

impl Link {
    /// One of a run under a seed.
    pub fn new(config: &NetworkConfig, seed: u64) -> Self {
        let state = State {
            config: config.clone(),
            remote: (config.remote.0)(),
            random: seed ^ 0x6e65_7477_6f72_6b00,
            to_remote: Vec::new(),
            to_island: Vec::new(),
            arrived: VecDeque::new(),
            remote_at_ns: 0,
            room_at_ns: u64::MAX,
            is_taken: false,
        };
        Self { state: Mutex::new(state), next_ns: AtomicU64::new(0) }
    }

    /// The island starts again, and its device with it.
    pub fn restart(&self) {
        let mut state = lock(&self.state);
        state.is_taken = false;
        state.arrived.clear();
    }

    /// The island takes the device, once.
    pub fn take(&self) -> Option<Network> {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.is_taken, true) {
            return None;
        }
        let memory = Box::leak(vec![0; state.config.memory_bytes].into_boxed_slice());
        Some(Network { address: [2, 0, 0, 0, 0, 1], memory })
    }

    /// The island sends a frame. `false`: the device has no room.
    pub fn send(&self, now_ns: u64, frame: &[u8]) -> bool {
        assert!(frame.len() <= FRAME_BYTES_MAX, "a kernel sends a frame of {} bytes", frame.len());
        let state = &mut *lock(&self.state);
        if state.is_one_of(state.config.refused) {
            state.room_at_ns = now_ns + 1 + state.below(50_000);
        } else {
            let frames = state.carry(now_ns, frame);
            state.to_remote.extend(frames);
        }
        self.next_ns.store(state.next_ns(), Ordering::Relaxed);
        state.room_at_ns == u64::MAX
    }

    /// The island takes a frame that has arrived.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<usize> {
        let frame = lock(&self.state).arrived.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    /// When something moves next.
    pub fn next_ns(&self) -> u64 {
        self.next_ns.load(Ordering::Relaxed)
    }

    /// Moves what arrives by now. Whether the island is interrupted.
    pub fn advance(&self, now_ns: u64) -> bool {
        if self.next_ns() > now_ns {
            return false;
        }
        let state = &mut *lock(&self.state);
        for frame in due(&mut state.to_remote, now_ns) {
            state.remote.receive(now_ns, &frame);
            state.remote_at_ns = now_ns;
        }
        if state.remote_at_ns <= now_ns {
            let mut sent = Vec::new();
            let next = state.remote.poll(now_ns, &mut |frame| sent.push(frame.to_vec()));
            state.remote_at_ns = next.map_or(u64::MAX, |next| next.max(now_ns + 1000));
            for frame in sent {
                let frames = state.carry(now_ns, &frame);
                state.to_island.extend(frames);
            }
        }
        let arrived = due(&mut state.to_island, now_ns);
        let has_room = state.room_at_ns <= now_ns;
        if has_room {
            state.room_at_ns = u64::MAX;
        }
        let is_told = has_room || !arrived.is_empty();
        state.arrived.extend(arrived);
        self.next_ns.store(state.next_ns(), Ordering::Relaxed);
        is_told && state.is_taken
    }
}

/// Takes the frames that arrive by now, in the order in which they do.
fn due(frames: &mut Vec<Frame>, now_ns: u64) -> Vec<Vec<u8>> {
    frames.sort_by_key(|(at, _)| *at);
    let count = frames.partition_point(|(at, _)| *at <= now_ns);
    frames.drain(..count).map(|(_, frame)| frame).collect()
}

impl State {
    /// What becomes of a frame on the wire.
    fn carry(&mut self, now_ns: u64, frame: &[u8]) -> Vec<Frame> {
        let count = u64::from(!self.is_one_of(self.config.lost)) + u64::from(self.is_one_of(self.config.doubled));
        let mut carried = Vec::new();
        for _ in 0..count {
            let mut frame = frame.to_vec();
            let is_checked = frame.len() > HEADER_BYTES && frame[12..HEADER_BYTES] == IPV4;
            if is_checked && self.is_one_of(self.config.changed) {
                let at = HEADER_BYTES + self.below((frame.len() - HEADER_BYTES) as u64) as usize;
                let bit = self.below(8);
                frame[at] ^= 1 << bit;
            }
            carried.push((now_ns + 1 + self.below(self.config.delay_ns_max), frame));
        }
        carried
    }

    fn next_ns(&self) -> u64 {
        let frames = self.to_remote.iter().chain(&self.to_island).map(|(at, _)| *at);
        frames.chain([self.remote_at_ns, self.room_at_ns]).min().unwrap_or(u64::MAX)
    }

    fn is_one_of(&mut self, thousandths: u64) -> bool {
        thousandths != 0 && self.below(1000) < thousandths
    }

    /// Splitmix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound.max(1)
    }
}

//! Areas of memory that machines and programs share, and their doorbells (Ker-ONE, section 3.2.2): `vm run --share NAME`.
//!
//! An area is a folder, `/dev/shm/vm.NAME`. It has the file `memory`, and for each peer a pipe `bell.N`; peers are numbered from 0 on. A peer keeps its
//! pipe locked (flock(2)) as long as it lives. To ring a peer, peer N writes the byte N into the peer's pipe; when it begins, it writes N + 128 to all. So
//! programs can be peers with ordinary system calls, and file permissions decide who may.

use core::sync::atomic::{
    AtomicI32, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use alloc::{format, string::String};

use motet_calls::system::{self, Failure, machine};
use motet_vm::Shares;

use crate::{interrupts, monitor::SHARED, with_path};

/// Peers of an area.
const PEERS: usize = 16;
/// Size of a new area in bytes, unless another one is given.
const BYTES: u64 = 4096;

/// Registers.
const ID: u64 = 0;
const RUNG: u64 = 4;
const RING: u64 = 8;
const BEGUN: u64 = 12;
/// Set in the byte by which a peer says that it begins.
const BEGINS: u8 = 128;

const EEXIST: Failure = -17;
const EAGAIN: Failure = -11;

/// A machine's part in an area.
struct Share {
    number: AtomicU32,
    /// Peers that have rung since the guest looked, a bit each.
    rung: AtomicU32,
    /// Peers that have begun since then.
    begun: AtomicU32,
    /// Peers' pipes, opened when a peer is rung first.
    bells: [AtomicI32; PEERS],
}

impl Share {
    /// Bytes that peers have sent.
    fn hear(&self, bytes: impl Iterator<Item = u8>) {
        for byte in bytes.filter(|byte| usize::from(byte & !BEGINS) < PEERS) {
            let peer = 1 << (byte & !BEGINS);
            // First that it has begun: who looks for who has rung finds that, too.
            self.begun.fetch_or(if byte & BEGINS == 0 { 0 } else { peer }, SeqCst);
            self.rung.fetch_or(peer, SeqCst);
        }
    }
}

static SHARES: [Share; Shares::MAX] = [const {
    Share {
        number: AtomicU32::new(0),
        rung: AtomicU32::new(0),
        begun: AtomicU32::new(0),
        bells: [const { AtomicI32::new(-1) }; PEERS],
    }
}; Shares::MAX];

/// Joins an area, as the machine's area number `index`: maps it for the guest. [`start`] follows when the machine is there.
///
/// # Errors
/// The step that has failed.
pub fn join(machine_file: i32, index: usize, name: &str, kib: Option<u64>) -> Result<u64, String> {
    let refuse = |what: &'static str| move |failure: Failure| format!("--share {name}: {what} (error {})", -failure);
    let folder = format!("/dev/shm/vm.{name}");
    match with_path(folder.as_bytes(), machine::make_folder) {
        Ok(()) | Err(EEXIST) => {}
        Err(failure) => return Err(refuse("the area cannot be made")(failure)),
    }
    let memory = with_path(format!("{folder}/memory").as_bytes(), machine::open_or_make);
    let memory = memory.map_err(refuse("its memory cannot be opened"))?;
    let size = machine::size(memory).map_err(refuse("its memory cannot be measured"))?;
    let bytes = match (size, kib) {
        (0, kib) => kib.map_or(BYTES, |kib| kib << 10),
        (size, None) => size,
        (size, Some(kib)) if size == kib << 10 => size,
        (size, Some(_)) => return Err(format!("--share {name}: it is there and has {} KiB", size >> 10)),
    };
    if bytes > Shares::MEMORY_BYTES || bytes % BYTES != 0 {
        return Err(format!("--share {name}: an area has 4 to {} KiB, in pages", Shares::MEMORY_BYTES >> 10));
    }
    if size == 0 {
        machine::set_size(memory, bytes).map_err(refuse("there is no memory for it"))?;
    }
    let mut words = [SHARED.memory_of(index), bytes, memory as u64, 0];
    machine::control(machine_file, motet_abi::vm::MEMORY, &mut words)
        .map_err(refuse("it cannot be memory of a guest"))?;
    let share = &SHARES[index];
    let number = claim(share, &folder).map_err(refuse("no pipe can be made"))?;
    let number = number.ok_or_else(|| format!("--share {name}: it has {PEERS} peers already"))?;
    share.number.store(number as u32, Relaxed);
    for (peer, bell) in (0..PEERS).zip(&share.bells).filter(|(peer, _)| *peer != number) {
        // Those that come later use the same pipe.
        let opened = with_path(bell_path(&folder, peer).as_bytes(), machine::make_and_open_pipe);
        let opened = opened.map_err(refuse("no pipe can be made"))?;
        bell.store(opened, Relaxed);
        // If the pipe is full, nobody has looked for long.
        let _ = system::write(opened, &[number as u8 | BEGINS]);
    }
    Ok(bytes)
}

/// Starts a thread for each area that waits for rings. The machine and its interrupt controller are there.
///
/// # Errors
/// The kernel's.
pub fn start(areas: usize) -> Result<(), Failure> {
    (0..areas).try_for_each(|index| machine::spawn(watch, index).map(drop))
}

fn bell_path(folder: &str, peer: usize) -> String {
    format!("{folder}/bell.{peer}")
}

/// Claims the lowest free peer number, by locking its pipe.
fn claim(share: &Share, folder: &str) -> Result<Option<usize>, Failure> {
    for (peer, bell) in share.bells.iter().enumerate() {
        let pipe = with_path(bell_path(folder, peer).as_bytes(), machine::make_and_open_pipe)?;
        match machine::lock_file(pipe) {
            Ok(()) => {
                // Rings for the last peer with this number; who has begun is of interest to this one, too.
                let mut peers = [0; 64];
                while let Ok(read @ 1..) = system::read(pipe, &mut peers) {
                    share.hear(peers[..read].iter().copied().filter(|byte| byte & BEGINS != 0));
                }
                bell.store(pipe, Relaxed);
                return Ok(Some(peer));
            }
            Err(EAGAIN) => system::close(pipe),
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// The thread that waits for rings of an area.
extern "C" fn watch(index: usize) -> ! {
    let share = &SHARES[index];
    let own = share.bells[share.number.load(Relaxed) as usize].load(Relaxed);
    let mut peers = [0; 64];
    // What was heard when this machine joined.
    changed(index);
    loop {
        machine::wait_until_readable([own]);
        let read = system::read(own, &mut peers).unwrap_or(0);
        share.hear(peers[..read].iter().copied());
        changed(index);
    }
}

fn changed(index: usize) {
    interrupts::set_line(SHARED.interrupt + index, || SHARES[index].rung.load(SeqCst) != 0);
}

/// Loads a register.
pub fn load(index: usize, register: u64) -> u32 {
    let share = &SHARES[index];
    match register {
        ID => share.number.load(Relaxed),
        RUNG => {
            let rung = share.rung.swap(0, SeqCst);
            changed(index);
            rung
        }
        BEGUN => share.begun.swap(0, SeqCst),
        _ => 0,
    }
}

/// Stores to a register.
pub fn store(index: usize, register: u64, value: u32) {
    let share = &SHARES[index];
    let bell = share.bells.get(value as usize).map(|bell| bell.load(Relaxed));
    if let (RING, Some(bell)) = (register, bell) {
        // If the pipe is full, the peer has been rung already and has not looked yet.
        let _ = system::write(bell, &[share.number.load(Relaxed) as u8]);
    }
}

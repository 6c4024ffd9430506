//! The hardware's side of the firmware. One of the homes of unsafe code: registers, devices, memory that others own.

pub mod csr;
pub mod devices;
pub mod entry;
pub mod hart;
pub mod registers;
pub mod start;
pub mod trap;
pub mod travel;

use core::{
    cell::OnceCell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use motet_firmware::{
    board::{Board, Range},
    calls::{End, Machine, Shared},
    hart::{HARTS_MAX, HartId},
    mail::Fence,
};

/// What harts share.
pub static SHARED: Shared = Shared::new();
static BOARD: BoardCell = BoardCell(OnceCell::new());
/// Harts whose supervisor has a timer of its own, by id.
static OWN_TIMER: [AtomicU64; HARTS_MAX] = [const { AtomicU64::new(0) }; HARTS_MAX];

struct BoardCell(OnceCell<Board>);

// SAFETY: the hart that boots sets it before it lets the others on (`entry`); after that everybody only reads it.
unsafe impl Sync for BoardCell {}

/// The board, once the hart that boots has read its description.
pub fn board() -> Option<&'static Board> {
    BOARD.0.get()
}

/// The hart that runs this, and its board.
#[derive(Debug)]
pub struct Hardware {
    /// The hart.
    pub own: HartId,
    /// The board.
    pub board: &'static Board,
}

impl Hardware {
    /// The hardware of this hart. Nothing of what needs it runs before the board is known.
    pub fn own() -> Self {
        let own = HartId::new(csr::read!("mhartid") as usize).expect("others do not get past the entry");
        Self { own, board: board().expect("read before anything else") }
    }

    /// Withdraws what has rung this hart: what is posted from now on rings again.
    pub fn take_ring(&self) {
        if let Some(described) = self.board.hart(self.own) {
            devices::set_software_interrupt(described.software_interrupt, false);
        }
    }
}

impl Machine for Hardware {
    fn ring(&self, hart: HartId) {
        if let Some(described) = self.board.hart(hart) {
            hart::mark_ring(hart);
            devices::set_software_interrupt(described.software_interrupt, true);
        }
    }

    fn serve(&self) {
        self.take_ring();
        if SHARED.mail.take_interrupt(self.own) {
            hart::interrupt_supervisor(hart::SUPERVISOR_SOFTWARE);
        }
        SHARED.mail.serve(self.own, hart::fence);
    }

    fn fence(&self, fence: Fence) {
        hart::fence(fence);
    }

    fn set_timer(&self, ticks: u64) {
        if OWN_TIMER[self.own.index()].load(Relaxed) != 0 {
            hart::set_own_timer(ticks);
        } else if let Some(described) = self.board.hart(self.own) {
            devices::set_comparator(described.timer, ticks);
            hart::expect_timer();
        }
    }

    fn end(&self, how: End) {
        if let Some(test) = self.board.test {
            travel::report();
            devices::end(test, how);
            // It takes a moment.
            hart::park();
        }
    }

    fn write_console(&self, from: Range) {
        let _held = devices::hold_console();
        for address in from.start..from.start + from.len {
            devices::write_byte(devices::load_byte(address));
        }
    }

    fn write_console_byte(&self, byte: u8) {
        let _held = devices::hold_console();
        devices::write_byte(byte);
    }

    fn read_console(&self, to: Range) -> usize {
        let _held = devices::hold_console();
        let bytes = (to.start..to.start + to.len).zip(core::iter::from_fn(devices::read_byte));
        bytes.map(|(address, byte)| devices::store_byte(address, byte)).count()
    }

    fn ids(&self) -> [usize; 3] {
        [csr::read!("mvendorid"), csr::read!("marchid"), csr::read!("mimpid")].map(|id| id as usize)
    }
}

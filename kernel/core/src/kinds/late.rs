//! `/dev/late`: memory whose pages arrive late (`docs/protocols/late-pages.md`). Nothing but tests has a use for it: it shows that faults and copies
//! may wait.
//!
//! An open file of it has [`LATE_PAGES`] pages, none of which is there. Who touches one that is mapped waits. A write brings a page: its number (8
//! bytes), then its bytes. A read returns the number of a page that is wanted (8 bytes), each once, and waits for one.

use core::fmt::{self, Write};

use motet_abi::Errno;
use motet_hal::Machine;
use motet_layout::{
    FILE_LATE, FileRecord, InodeRecord, LATE_ARRIVES, LATE_ENDED, LATE_PAGES, PAGE_SIZE, handshake::then_look, ones,
    sync::Ordering,
};
use motet_protocol::{Context, fs, lock::lock, memory::release_frame, wait};

use crate::{
    call::{Call, Stop, SysResult},
    cpu::{AwaitedPage, Cpu},
    cursor::Cursor,
    description::{
        self, Parts,
        kind::{Kind, Transfer, check_writable},
    },
    futex, mm,
};

/// Bytes of a page's number.
const NUMBER: u64 = 8;

/// Opens the device: pages of its own.
///
/// # Errors
/// `ENOSPC`, `ENFILE`.
pub fn open<M: Machine>(call: &Call<M>, flags: u32) -> Result<&'static FileRecord, Errno> {
    let attributes = fs::Attributes {
        mode: fs::TYPE_REGULAR | 0o600,
        uid: call.process.credentials.users[1].get(),
        now_ns: call.cpu.realtime_ns(),
        ..fs::Attributes::default()
    };
    let pages = fs::Held::adopt(call.cpu, fs::new_inode(call.cpu, attributes)?);
    pages.is_device.set(1);
    pages.late.store(LATE_ARRIVES, Ordering::Relaxed);
    pages.size.store(LATE_PAGES * PAGE_SIZE, Ordering::Relaxed);
    let object = call.cpu.raw(pages.inode());
    let record = description::create(call.cpu, &Parts { kind: FILE_LATE, flags, inode: None, object })?;
    // The description has taken over the reference.
    pages.release();
    Ok(record)
}

/// Pages that arrive late.
#[derive(Clone, Copy)]
pub struct Late(&'static InodeRecord);

impl Kind for Late {
    const CODES: &'static [u32] = &[FILE_LATE];

    fn of<M: Machine>(cpu: &Cpu<M>, file: &FileRecord) -> Option<Self> {
        cpu.object(file.object.get()).map(Self)
    }

    fn write_name(self, _number: u64, into: &mut impl Write) -> fmt::Result {
        write!(into, "/dev/late")
    }

    /// Takes the number of a page that somebody waits for.
    ///
    /// # Errors
    /// `EINVAL`: there is no room for it; `EAGAIN`.
    #[inline(never)]
    fn read<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        how: Transfer,
        into: &mut Cursor<M>,
    ) -> SysResult {
        let Self(pages) = self;
        if into.remaining() < NUMBER {
            return Err(Errno::EINVAL.into());
        }
        // Faults now, not after a number was taken.
        into.probe()?;
        into.await_pages(NUMBER as usize)?;
        let index = match take_wanted(call.cpu, pages) {
            Some(index) => index,
            None if how.nonblocking() => return Err(Errno::EAGAIN.into()),
            None => {
                wait::prepare(call.thread);
                futex::enqueue_shared(call.cpu, call.thread, AwaitedPage::wish(call.cpu.pool.addr_of(pages)));
                let index = take_wanted(call.cpu, pages).ok_or(Stop::Block)?;
                wait::finish(call.cpu, call.thread);
                index
            }
        };
        into.write(&index.to_le_bytes())?;
        Ok(NUMBER)
    }

    /// Brings a page.
    ///
    /// # Errors
    /// `EINVAL`: it is not one number and one page of bytes; `ENXIO`: there is no such page; `EEXIST`: it has arrived; `ENOSPC`.
    #[inline(never)]
    fn write<M: Machine>(
        self,
        call: &Call<M>,
        _file: &'static FileRecord,
        _how: Transfer,
        from: &mut Cursor<M>,
    ) -> SysResult {
        let Self(pages) = self;
        if from.remaining() != NUMBER + PAGE_SIZE {
            return Err(Errno::EINVAL.into());
        }
        let (mut number, mut bytes) = ([0; NUMBER as usize], [0; PAGE_SIZE as usize]);
        from.read(&mut number)?;
        from.read(&mut bytes)?;
        let index = u64::from_le_bytes(number);
        let frame = fs::page_or_allocate(call.cpu, pages, index)?;
        let guard = lock(call.cpu, &pages.lock);
        let is_new = pages.late_arrived.load(Ordering::Relaxed) >> index & 1 == 0;
        if is_new {
            call.cpu.pool.write(frame.addr(), &bytes);
            pages.late_arrived.fetch_or(1 << index, Ordering::Release);
        }
        drop(guard);
        release_frame(call.cpu, frame);
        if !is_new {
            return Err(Errno::EEXIST.into());
        }
        futex::wake_shared(call.cpu, AwaitedPage::arrival(call.cpu.pool.addr_of(pages), index));
        Ok(NUMBER + PAGE_SIZE)
    }

    fn map<'c, M: Machine>(
        self,
        call: &Call<'c, M>,
        file: &FileRecord,
        _writable_shared: bool,
    ) -> Result<Option<mm::Mappable<'c, M>>, Errno> {
        mm::space_of(call.cpu, call.process).has_late.store(1, Ordering::Relaxed);
        let may_write = check_writable(file).is_ok();
        Ok(Some(mm::Mappable { inode: fs::Held::new(call.cpu, self.0), may_write }))
    }

    /// Nobody can bring pages any more: who waits for one goes on, and finds that there is none.
    fn end<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        let Self(pages) = self;
        pages.late.store(LATE_ENDED, Ordering::Release);
        then_look(); // at who has wanted one before
        for index in ones(pages.late_wanted.load(Ordering::Acquire)) {
            futex::wake_shared(cpu, AwaitedPage::arrival(cpu.pool.addr_of(pages), index as u64));
        }
    }

    fn close<M: Machine>(self, cpu: &Cpu<M>, _file: &'static FileRecord) {
        fs::put(cpu, self.0);
    }
}

fn wanted(pages: &InodeRecord) -> u64 {
    pages.late_wanted.load(Ordering::Acquire) & !pages.late_arrived.load(Ordering::Acquire) & !pages.late_told.get()
}

fn take_wanted<M: Machine>(cpu: &Cpu<M>, pages: &InodeRecord) -> Option<u64> {
    let _guard = lock(cpu, &pages.lock);
    let first = ones(wanted(pages)).next()?;
    pages.late_told.set(pages.late_told.get() | 1 << first);
    Some(first as u64)
}

//! Numbers of the values of threads' extended registers, by which a core knows whether its registers still have the newest.

use motet_layout::ThreadRecord;

/// The thread's extended registers, in its frame or its area, were changed: no core holds them but one that loads or stores them from now on. Their number.
#[inline(always)]
pub fn change_ext(thread: &ThreadRecord) -> u64 {
    let version = thread.ext_version.get() + 1;
    thread.ext_version.set(version);
    version
}

/// A thread is made. The numbers of its registers begin at the time: they grow slower than that, so those of an earlier thread, which had the same record and
/// the same id, are below.
pub fn begin_ext(thread: &ThreadRecord, now_ns: u64) {
    thread.ext_version.set(now_ns);
}

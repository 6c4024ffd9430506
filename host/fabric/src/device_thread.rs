//! A thread of the host that is a device of a machine that is not timed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use motet_error::{Context as _, Result};
use motet_layout::{CORES_PER_ISLAND_MAX, CoreId};
use motet_protocol::{Context as _, service::clients::alive};

use crate::{Doorbells, HostPool};

/// The thread. Dropping it stops it.
pub struct DeviceThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DeviceThread {
    /// Starts it. `run` ends soon after its word is true; it may park while there is nothing to do.
    ///
    /// # Errors
    /// The host refuses a thread.
    pub fn start(name: &str, run: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&stopped)).host("a thread")?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// It is to look whether there is something to do.
    pub fn look(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for DeviceThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It writes no more, so the pool may be looked at.
            let _ = thread.join();
        }
    }
}

/// What rings a core, or who looks after its island if that has died.
pub fn ring(pool: &HostPool, bells: &Arc<Doorbells>) -> impl Fn(CoreId) + Send + 'static {
    let (pool, bells) = (pool.pool(), bells.clone());
    move |core| {
        let core = alive(pool.header(), core);
        bells.ring(core.island().index(), core.index() % CORES_PER_ISLAND_MAX);
    }
}

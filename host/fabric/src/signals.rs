//! Signals, for an event loop.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use motet_error::{Context, Result};

/// Signals that end a run, and changes of the terminal's size, as a descriptor and flags.
pub(crate) struct Signals {
    socket: std::os::unix::net::UnixStream,
    ending: Arc<AtomicUsize>,
    window: Arc<AtomicBool>,
}

impl Signals {
    /// Begins to take signals.
    pub(crate) fn new() -> Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
        let (socket, sender) = std::os::unix::net::UnixStream::pair().host("a socket")?;
        socket.set_nonblocking(true).host("a socket")?;
        let (ending, window) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_usize(signal, ending.clone(), signal as usize).host("a signal handler")?;
        }
        signal_hook::flag::register(SIGWINCH, window.clone()).host("a signal handler")?;
        // After the flags: handlers run in the order of registration, and the byte says "look at the flags".
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH] {
            let sender = sender.try_clone().host("a socket")?;
            signal_hook::low_level::pipe::register(signal, sender).host("a signal handler")?;
        }
        Ok(Self { socket, ending, window })
    }

    /// What to poll: it is readable when there is something to take.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The signal that ends the run, if one came.
    pub(crate) fn take(&self) -> Option<i32> {
        while rustix::io::read(&self.socket, &mut [0u8; 64]).is_ok_and(|n| n > 0) {}
        i32::try_from(self.ending.swap(0, Ordering::Relaxed)).ok().filter(|&signal| signal != 0)
    }

    /// Whether the terminal's size changed since the last call.
    pub(crate) fn window_changed(&self) -> bool {
        self.window.swap(false, Ordering::Relaxed)
    }
}

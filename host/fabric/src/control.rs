//! What other processes of the host ask of a running machine (`motet vm list`, `motet vm kill`, `motet restart`): a socket of the abstract namespace, so that there
//! is nothing on disk. A connection is one line, and text that answers it. Only the user who runs the machine, and the superuser, are answered.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    os::{
        fd::{AsFd, BorrowedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use motet_error::{Context as _, Error, ErrorKind, Result};
use motet_layout::{VmRecord, sync::Ordering};
use motet_protocol::{Context as _, lock::lock};

use crate::HostPool;

/// Sockets are called so, and the process id of who runs the machine follows.
const NAME: &str = "motet-";
/// Who asks and then says nothing is left after so long.
const PATIENCE: Duration = Duration::from_millis(500);
/// First line of an answer.
const DONE: &str = "done";
const REFUSED: &str = "refused";

/// The machine's end.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
}

impl Control {
    /// Listens. `None`: the host refuses that, and nobody can ask.
    pub fn listen() -> Option<Self> {
        let listener = UnixListener::bind_addr(&address(std::process::id()).ok()?).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Self { listener })
    }

    /// Readable when somebody asks.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers who asks, but for those who want an island to be started again: the caller does that, and answers. `ring`: the machine's first core
    /// looks what the host has stored.
    pub fn answer(&self, pool: &HostPool, ring: impl Fn()) -> Vec<Asked> {
        let mut asked = Vec::new();
        while let Ok((mut stream, _)) = self.listener.accept() {
            // Who has gone needs no answer.
            if let Ok(Some(island)) = answer_one(&mut stream, pool, &ring) {
                asked.push(Asked { stream, island });
            }
        }
        asked
    }
}

/// Somebody wants an island to be started again, and waits.
#[derive(Debug)]
pub struct Asked {
    stream: UnixStream,
    island: String,
}

impl Asked {
    /// The island's name.
    pub fn island(&self) -> &str {
        &self.island
    }

    /// It has been done.
    pub fn done(mut self, text: &str) {
        // Who has gone needs no answer.
        let _ = write!(self.stream, "{DONE}\n{text}");
    }

    /// It cannot be, or has failed.
    pub fn refuse(mut self, why: &str) {
        let _ = write!(self.stream, "{REFUSED}\n{why}");
    }
}

/// The island that is to be started again, if that is what is asked.
fn answer_one(stream: &mut UnixStream, pool: &HostPool, ring: impl Fn()) -> std::io::Result<Option<String>> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asker = rustix::net::sockopt::socket_peercred(&*stream)?.uid;
    let mut line = String::new();
    if !asker.is_root() && asker != rustix::process::geteuid() {
        return writeln!(stream, "{REFUSED}\nanother user runs this machine").map(|()| None);
    }
    BufReader::new(&*stream).read_line(&mut line)?;
    let answer = match line.trim_end().split_once(' ') {
        None if line.trim_end() == "list" => format!("{DONE}\n{}", list(pool)),
        Some(("kill", id)) => match id.parse().ok().filter(|&id| kill(pool, id)) {
            Some(_) => {
                ring();
                format!("{DONE}\n")
            }
            None => format!("{REFUSED}\nthere is no virtual machine {id}"),
        },
        Some(("restart", island)) => return Ok(Some(island.to_owned())),
        _ => format!("{REFUSED}\nit does not know what this is: {line}"),
    };
    stream.write_all(answer.as_bytes()).map(|()| None)
}

fn each(pool: &HostPool, mut act: impl FnMut(&'static VmRecord)) {
    let header = pool.header();
    let _guard = lock(pool, &header.vms_lock);
    let mut at = pool.object::<VmRecord>(header.vms.get());
    while let Some(vm) = at {
        act(vm);
        at = pool.object(vm.next.get());
    }
}

/// A line for each: number, process, user, cores, KiB of memory, milliseconds that its cores have run.
fn list(pool: &HostPool) -> String {
    let mut lines = Vec::new();
    each(pool, |vm| {
        let regions = &vm.regions[..(vm.region_count.get() as usize).min(vm.regions.len())];
        let bytes: u64 = regions.iter().map(|region| region.end.get().saturating_sub(region.start.get())).sum();
        let (cores, ran_ns) = (vm.vcpu_count.load(Ordering::Relaxed), vm.ran_ns.load(Ordering::Relaxed));
        let [id, pid, user] = [vm.id.get(), vm.pid.get(), vm.user.get()];
        lines.push((id, format!("{id} {pid} {user} {cores} {} {}", bytes >> 10, ran_ns / 1_000_000)));
    });
    lines.sort_unstable();
    lines.iter().fold(String::new(), |mut text, (_, line)| {
        let _ = writeln!(text, "{line}");
        text
    })
}

/// Whether there is one of that number, which is to end.
fn kill(pool: &HostPool, id: u32) -> bool {
    let mut is_there = false;
    each(pool, |vm| {
        if vm.id.get() == id {
            vm.is_to_end.store(1, Ordering::Release);
            is_there = true;
        }
    });
    if is_there {
        pool.header().vms_asked.store(1, Ordering::Release);
    }
    is_there
}

fn address(process: u32) -> std::io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{process}"))
}

/// Processes of this host that run machines.
///
/// # Errors
/// The host does not tell.
pub fn running() -> Result<Vec<u32>> {
    let text = std::fs::read_to_string("/proc/net/unix").host("the list of sockets")?;
    let names = text.lines().filter_map(|line| line.rsplit_once('@')?.1.strip_prefix(NAME));
    let mut running: Vec<u32> = names.filter_map(|process| process.parse().ok()).collect();
    running.sort_unstable();
    running.dedup();
    Ok(running)
}

/// Asks the machine that a process runs; the text of its answer.
///
/// # Errors
/// It has gone, or refuses.
pub fn ask(process: u32, request: &str) -> Result<String> {
    let gone = |_| Error::new(ErrorKind::Unavailable, format!("the machine of process {process} does not answer"));
    let mut stream = address(process).and_then(|address| UnixStream::connect_addr(&address)).map_err(gone)?;
    // Who refuses may have answered and gone without having read what is asked: neither end of the connection is then an error.
    let _ = writeln!(stream, "{request}");
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_once('\n') {
        Some((DONE, text)) => Ok(text.to_owned()),
        Some((REFUSED, why)) => {
            Err(Error::new(ErrorKind::Usage, format!("the machine of process {process}: {}", why.trim_end())))
        }
        _ => Err(gone(std::io::Error::other("no answer"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_is_found_and_answers() {
        // Another test of this process may listen.
        let Some(control) = Control::listen() else { return };
        let own = std::process::id();
        assert!(running().unwrap().contains(&own));
        let asks = std::thread::spawn(move || ask(own, "list"));
        let mut stream = loop {
            if let Ok((stream, _)) = control.listener.accept() {
                break stream;
            }
        };
        stream.write_all(b"refused\nnot now\n").unwrap();
        drop(stream);
        assert!(asks.join().unwrap().unwrap_err().message.ends_with(": not now"));
    }
}

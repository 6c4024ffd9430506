//! Requests of other processes of the host to a running machine (`motet vm list`, `motet vm kill`, `motet vm console`, `motet restart`, `motet state`, `motet top`): a socket of
//! the abstract namespace, so that there is nothing on disk. A connection is one line, and text that answers it, or a console. Only the user who
//! runs the machine, and the superuser, are answered.

use std::{
    fmt::Write as _,
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    time::Duration,
};

use motet_error::{Context as _, Error, ErrorKind, Result};
use motet_layout::{VmRecord, sync::Ordering};
use motet_protocol::{Context, lock::lock};

use rustix::{
    event::PollFd,
    fs::{Mode, OFlags},
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};

use crate::{HostPool, state, vm_console::Session};

/// Sockets are called so, and the process id of who runs the machine follows.
const NAME: &str = "motet-";
/// Who asks and then says nothing is left after so long.
const PATIENCE: Duration = Duration::from_millis(500);
/// Whoever is asked answers within so long ...
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// ... or, if an island is to boot first, within this. The machine's own limit (`--boot-timeout`) is shorter.
const RESTARTED_WITHIN: Duration = Duration::from_secs(3600);
/// The longest line of a question, or first one of an answer.
const LINE_MAX: usize = 100;
/// First line of an answer.
const DONE: &str = "done";
const REFUSED: &str = "refused";

/// The machine's end.
pub struct Control {
    listener: UnixListener,
    consoles: Vec<Session>,
    /// What who watches the machine is told of it.
    about: String,
}

/// What a machine knows beside its pool.
pub trait Counts {
    /// What a simulator has counted so far, as [`read_counts`](crate::timed::read_counts) reads it; nothing if it simulates no time.
    fn counts(&self) -> String;
}

impl Control {
    /// Listens. `None`: the host refuses that, and nobody can ask. `about`: what [`watched`](crate::watched) tells of the machine.
    pub fn listen(about: String) -> Option<Self> {
        let listener = UnixListener::bind_addr(&address(std::process::id()).ok()?).ok()?;
        listener.set_nonblocking(true).ok()?;
        Some(Self { listener, consoles: Vec::new(), about })
    }

    /// Readable when somebody asks.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// What to poll for consoles before a sleep; `None`: there is something to do. `asks`: kernels are asked to ring when there is.
    pub fn consoles(&self, asks: bool) -> Option<Vec<PollFd<'_>>> {
        self.consoles.iter().map(|console| console.awaits(asks)).collect()
    }

    /// Moves what consoles have shown and what was typed. `ring`: the machine's first core looks what the host has stored.
    pub fn serve_consoles(&mut self, pool: &HostPool, ring: impl Fn()) {
        let ring = ring_for_vms(pool, ring);
        self.consoles.retain_mut(|console| {
            let goes_on = console.turn(pool, &ring);
            if !goes_on {
                console.leave(&ring);
            }
            goes_on
        });
    }

    /// Answers who asks, but for those who want an island to be started again: the caller does that, and answers. `ring`: as before.
    pub fn answer(&mut self, pool: &HostPool, counts: &dyn Counts, ring: impl Fn()) -> Vec<Asked> {
        let ring = ring_for_vms(pool, ring);
        let mut asked = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            match answer_one(stream, pool, (&self.about, counts), &ring) {
                Ok(Answered::Console(console)) => self.consoles.push(console),
                Ok(Answered::Later(later)) => asked.push(later),
                // Who has gone needs no answer.
                Ok(Answered::Done) | Err(_) => {}
            }
        }
        asked
    }
}

/// What has become of who asks.
enum Answered {
    /// It has been answered.
    Done,
    /// It has a console from now on.
    Console(Session),
    /// It waits.
    Later(Asked),
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

/// Rings for virtual machines: the kernel looks at these only if the host says so.
fn ring_for_vms(pool: &HostPool, ring: impl Fn()) -> impl Fn() {
    move || {
        pool.header().vms_asked.store(1, Ordering::Release);
        ring();
    }
}

fn answer_one(
    mut stream: UnixStream,
    pool: &HostPool,
    (about, counts): (&str, &dyn Counts),
    ring: impl Fn(),
) -> std::io::Result<Answered> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asker = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if !asker.is_root() && asker != rustix::process::geteuid() {
        writeln!(stream, "{REFUSED}\nanother user runs this machine")?;
        return Ok(Answered::Done);
    }
    let line = read_line(&mut stream)?;
    let answer = match line.split_once(' ') {
        None if line == "list" => format!("{DONE}\n{}", list(pool)),
        None if line == "counts" => format!("{DONE}\n{}", counts.counts()),
        None if line == "watch" => return show_memory(stream, pool, about).map(|()| Answered::Done),
        None if line == "state" => format!("{DONE}\n{}", state::describe(Context::pool(pool))),
        Some(("kill", id)) => match id.parse().ok().filter(|&id| kill(pool, id)) {
            Some(_) => {
                ring();
                format!("{DONE}\n")
            }
            None => format!("{REFUSED}\n{}", there_is_none(id)),
        },
        Some(("console", id)) => match attach(pool, id) {
            Ok(vm) => return begin_console(stream, pool, vm, ring).map(Answered::Console),
            Err(why) => format!("{REFUSED}\n{why}"),
        },
        Some(("restart", island)) => return Ok(Answered::Later(Asked { stream, island: island.to_owned() })),
        _ => format!("{REFUSED}\nit does not know what this is: {line}"),
    };
    stream.write_all(answer.as_bytes())?;
    Ok(Answered::Done)
}

/// Answers with the pool's memory, to be read only: what is beside it behind the first line.
fn show_memory(mut stream: UnixStream, pool: &HostPool, about: &str) -> std::io::Result<()> {
    let own = format!("/proc/self/fd/{}", pool.memory().as_raw_fd());
    let memory = rustix::fs::open(own, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // By itself: who asks reads the line alone, and would lose what comes with it.
    writeln!(stream, "{DONE}")?;
    let fds = [memory.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = rustix::net::sendmsg(&stream, &[IoSlice::new(about.as_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    stream.write_all(&about.as_bytes()[sent..])
}

fn there_is_none(id: &str) -> String {
    format!("there is no virtual machine {id}")
}

/// The virtual machine of that number, whose console nobody else uses from now on.
fn attach(pool: &HostPool, id: &str) -> std::result::Result<&'static VmRecord, String> {
    let mut found = Err(there_is_none(id));
    each(pool, |vm| {
        if id.parse() == Ok(vm.id.get()) {
            let is_taken = vm.is_attached.swap(1, Ordering::AcqRel) != 0;
            found =
                if is_taken { Err(format!("somebody else uses the console of virtual machine {id}")) } else { Ok(vm) };
        }
    });
    found
}

fn begin_console(
    mut stream: UnixStream,
    pool: &HostPool,
    vm: &'static VmRecord,
    ring: impl Fn(),
) -> std::io::Result<Session> {
    let begun = writeln!(stream, "{DONE}").and_then(|()| Session::new(pool, stream, vm));
    begun.inspect_err(|_| {
        vm.is_attached.store(0, Ordering::Release);
        ring();
    })
}

/// A line, without its end, of a stream that goes on behind it.
fn read_line(stream: &mut UnixStream) -> std::io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < LINE_MAX && stream.read(&mut byte)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn each(pool: &HostPool, mut act: impl FnMut(&'static VmRecord)) {
    let header = pool.header();
    let _guard = lock(pool, &header.vms_lock);
    let mut at = pool.object::<VmRecord>(header.vms.get());
    while let Some(vm) = at {
        at = pool.object(vm.next.get());
        // The console of one that has ended may be in use.
        if vm.has_ended.load(Ordering::Relaxed) == 0 {
            act(vm);
        }
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

/// Whether a process runs a machine.
pub fn is_running(process: u32) -> bool {
    running().is_ok_and(|running| running.contains(&process))
}

/// The running machine that somebody names; without a name, the only one. `hint`: what to do if there is none.
///
/// # Errors
/// There is none, or there are several; or the host does not tell.
pub fn choose(named: Option<u32>, hint: &str) -> Result<u32> {
    choose_of(&running()?, named, hint)
}

fn choose_of(running: &[u32], named: Option<u32>, hint: &str) -> Result<u32> {
    let wrong = |kind, message: String| Err(Error::new(kind, message));
    match (named, running) {
        (Some(named), _) if running.contains(&named) => Ok(named),
        (Some(named), _) => {
            wrong(ErrorKind::Usage, format!("process {named} runs no machine; {}", those_that_do(running)))
        }
        (None, []) => wrong(ErrorKind::Unavailable, format!("no machine runs on this host: {hint}")),
        (None, [only]) => Ok(*only),
        (None, _) => {
            wrong(ErrorKind::Usage, format!("several machines run: say which by --run; {}", those_that_do(running)))
        }
    }
}

fn those_that_do(running: &[u32]) -> String {
    if running.is_empty() {
        return "no process of this host does".into();
    }
    let processes: Vec<String> = running.iter().map(u32::to_string).collect();
    format!("these do: {}", processes.join(", "))
}

/// Asks the machine that a process runs; the text of its answer.
///
/// # Errors
/// It has gone, or refuses.
pub fn ask(process: u32, request: &str) -> Result<String> {
    let mut answer = Vec::new();
    let _ = begin(process, request)?.read_to_end(&mut answer);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The same of an answer that its memory comes with.
///
/// # Errors
/// It has gone, or refuses.
pub(crate) fn ask_for_memory(process: u32, request: &str) -> Result<(String, Option<OwnedFd>)> {
    let mut stream = begin(process, request)?;
    let mut bytes = vec![0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut bytes)];
    let len = rustix::net::recvmsg(&stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC).host("a socket")?.bytes;
    bytes.truncate(len);
    let memory = control
        .drain()
        .find_map(|message| if let RecvAncillaryMessage::ScmRights(mut fds) = message { fds.next() } else { None });
    let _ = stream.read_to_end(&mut bytes);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), memory))
}

/// Asks the machine that a process runs; what its answer follows on.
///
/// # Errors
/// It has gone, or refuses.
pub(crate) fn begin(process: u32, request: &str) -> Result<UnixStream> {
    let gone = |_| Error::new(ErrorKind::Unavailable, format!("the machine of process {process} does not answer"));
    let mut stream = address(process).and_then(|address| UnixStream::connect_addr(&address)).map_err(gone)?;
    // A machine that has been stopped by a signal does not answer.
    let at_most = if request.starts_with("restart ") { RESTARTED_WITHIN } else { ANSWERED_WITHIN };
    stream.set_read_timeout(Some(at_most)).host("a socket")?;
    stream.set_write_timeout(Some(at_most)).host("a socket")?;
    // Who refuses may have answered and gone without having read what is asked: neither end of the connection is then an error.
    let _ = writeln!(stream, "{request}");
    match read_line(&mut stream).unwrap_or_default().as_str() {
        DONE => Ok(stream),
        REFUSED => {
            let mut why = Vec::new();
            let _ = stream.read_to_end(&mut why);
            let why = String::from_utf8_lossy(&why);
            Err(Error::new(ErrorKind::Usage, format!("the machine of process {process}: {}", why.trim_end())))
        }
        _ => Err(gone(std::io::Error::other("no answer"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_machine_is_meant_and_of_several_the_one_that_is_named() {
        let message = |running: &[u32], named| choose_of(running, named, "start one").unwrap_err().message;
        assert_eq!(choose_of(&[7], None, "").unwrap(), 7);
        assert_eq!(choose_of(&[7, 9], Some(9), "").unwrap(), 9);
        assert!(message(&[7, 9], None).ends_with("say which by --run; these do: 7, 9"));
        assert!(message(&[7], Some(8)).contains("process 8 runs no machine; these do: 7"));
        assert_eq!(message(&[], None), "no machine runs on this host: start one");
        assert!(message(&[], Some(8)).ends_with("no process of this host does"));
    }

    #[test]
    fn who_listens_is_found_and_answers() {
        // Another test of this process may listen.
        let Some(control) = Control::listen(String::new()) else { return };
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

//! The life of a machine: create the pool, start every island, pump the console, watch, stop.
//!
//! One thread polls everything (doorbell of the host, consoles, ends of processes, terminal, signals); a second one only
//! keeps the clock in the pool's header until every island has set its own by it. [`health`] watches over the islands.

mod health;
mod launch;
mod restart;

use std::{
    os::fd::{BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use motet_error::{Context, Error, ErrorKind, Result};
use motet_layout::Isa;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::{
    control::Control,
    device_thread::DeviceThread,
    engine::Engines,
    fpga,
    ivshmem::Doorbells,
    network::Network,
    pool::{Command, HostPool},
    qemu::Qemu,
    service,
    signals::Signals,
    streams::{Input, Output, Reading},
    terminal::{self, RawMode},
    timed::{self, ClockReading, Clocks, Measured, Watch},
    trace::{Recorder, Recording},
    watched,
};
use launch::{Images, Launcher};
use motet_machine::MachineSpec;
use restart::Restart;

/// How often the clock in the header is brought up to date while islands boot.
const TICK: Duration = Duration::from_micros(50);
/// Longest sleep of the event loop while islands boot: they ring only once they have joined.
const LOOK_WHILE_BOOTING: Duration = Duration::from_millis(5);
/// Longest sleep of the event loop later.
const LOOK: Duration = Duration::from_secs(1);
/// ... in timed runs, whose progress is shown, ...
const LOOK_WHILE_TIMED: Duration = Duration::from_millis(200);
/// ... in traced ones, whose rings are not to get full, ...
const LOOK_WHILE_TRACED: Duration = Duration::from_millis(5);
/// ... and in deterministic ones, in which nobody says that there is output.
const LOOK_UNASKED: Duration = Duration::from_millis(2);
/// An island that shows no sign of life is looked at (and rung, if it is not timed) this many times within
/// [`Options::hang_timeout`] before it is said to hang.
const PINGS_MAX: u32 = 6;
/// How long islands may take to end by themselves.
const QUIT_WITHIN: Duration = Duration::from_secs(2);

/// What the kernels do (`mode=` on their command lines).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Join, and run the command.
    Run,
    /// Run the conformance suite of the HALs. Islands do not join then; they report on their consoles.
    Conformance,
    /// A kernel reads behind its map of the pool, which must fault. Islands do not join then.
    StrayBehind,
    /// The first kernel reads the second one's memory, where it maps private memory, which must fault. Islands do not join then.
    StrayAbove,
    /// The last kernel reads the memory of the one before it, likewise.
    StrayBelow,
    /// The last kernel reads the first one's memory, where it maps devices, which must fault. Islands do not join then.
    StrayDevice,
}

impl Mode {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Conformance => "conformance",
            Self::StrayBehind => "stray-behind",
            Self::StrayAbove => "stray-above",
            Self::StrayBelow => "stray-below",
            Self::StrayDevice => "stray-device",
        }
    }
}

/// What to run, and how.
#[derive(Debug)]
pub struct Options {
    /// The machine.
    pub machine: MachineSpec,
    /// The folder that holds `TARGET/kernel/motet-kernel`.
    pub kernels: PathBuf,
    /// What the kernels do.
    pub mode: Mode,
    /// What runs in the machine.
    pub command: Command,
    /// How long the islands may take to join; in conformance mode, how long all their consoles may be silent.
    pub boot_timeout: Duration,
    /// How long a core may show no progress before the run ends.
    pub hang_timeout: Duration,
    /// Kernels log more to their diagnostic consoles.
    pub verbose: bool,
    /// How the machine's time is simulated; `None`: it runs on the host's time.
    pub timed: Option<timed::Options>,
    /// The machine goes on when an island other than the first dies; not in timed runs.
    pub survive: bool,
    /// The network to the outside; not in timed runs.
    pub network: Network,
    /// Further arguments for islands' QEMUs, by island id; islands behind the end get none.
    pub qemu_arguments: Vec<Vec<String>>,
}

/// What happened; for progress display.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An island's QEMU has been started.
    Started {
        /// The island.
        island: usize,
    },
    /// A line on an island's diagnostic console.
    Line {
        /// The island.
        island: usize,
        /// The line, without control characters.
        line: &'a str,
    },
    /// An island has joined.
    Joined {
        /// The island.
        island: usize,
        /// Time since its QEMU was started.
        after: Duration,
    },
    /// An island has died, and the machine goes on without it.
    Lost {
        /// The island.
        island: usize,
        /// What has happened to it, to follow its name.
        what: &'a str,
    },
    /// An island that had died is started again.
    Restarting {
        /// The island.
        island: usize,
    },
    /// An island that had died has joined again.
    Rejoined {
        /// The island.
        island: usize,
        /// Time since its QEMU was started.
        after: Duration,
    },
    /// All islands have joined; the console belongs to the machine from now on.
    Running,
    /// The command has ended, and one of its outputs had been closed by its reader before.
    ReaderGone {
        /// Which one, for messages.
        output: &'a str,
        /// The command has written what its reader has not got. Otherwise it was told when it wrote (EPIPE), if it did.
        lost: bool,
    },
}

/// What the caller adds to a run.
pub trait Hooks {
    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// The pool's header is complete and no island has started: build the root file system.
    ///
    /// # Errors
    /// Ends the run.
    fn prepare(&mut self, pool: &HostPool) -> Result<()>;

    /// How far a timed machine is, some times a second while it runs. It is fine to write to standard error now.
    fn reading(&mut self, _reading: &ClockReading) {}

    /// The machine's own output follows: what is to be removed from the terminal goes now.
    fn output_follows(&mut self) {}

    /// A traced machine has stopped, however the run ended.
    fn traced(&mut self, _recording: Recording) {}

    /// A timed machine has stopped, however the run ended.
    fn measured(&mut self, _measured: Measured) {}

    /// The command has ended, and every island with it: fetch results.
    ///
    /// # Errors
    /// Reported instead of the command's exit status.
    fn collect(&mut self, pool: &HostPool) -> Result<()>;
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The command ended with this status.
    Exited(u8),
    /// A signal (or the escape, as SIGINT) ended the run.
    Interrupted(i32),
}

/// Runs a machine until its command ends. Call it from the program's main thread: the islands die with the thread.
///
/// # Errors
/// An island failed, died or hung (with its last console lines), or the host refused something.
pub fn run(options: &Options, hooks: &mut dyn Hooks) -> Result<Outcome> {
    raise_descriptor_limit();
    let machine = &options.machine;
    check_kernels(options)?;
    let cores: Vec<usize> = machine.islands.iter().map(|island| island.cores).collect();
    let images = Images::load(options)?;
    options.network.check_ports()?;
    let mut bells = Doorbells::create(&cores)?;
    let pool = HostPool::create(machine, &options.command, bells.host_peer(), options.verbose)?;
    let sockets: Vec<_> = (0..cores.len()).filter_map(|island| bells.take_socket(island)).collect();
    let bells = Arc::new(bells);
    let clocks = options.timed.as_ref().map(|timed| Clocks::create(timed, machine, &pool)).transpose()?;
    let plugin = clocks.as_ref().map(|clocks| clocks.plugin(&pool, &bells, &cores));
    for kernel in pool.kernels() {
        hooks.prepare(kernel)?;
    }
    let signals = Signals::new()?;
    let boot_clock = BootClock::start(&pool)?;
    // On timed machines the plugin is the engines.
    let engines = if clocks.is_none() { Some(Engines::start(&pool, &bells)?) } else { None };
    let service = if clocks.is_none() { service::start(&pool, &bells)? } else { None };
    let fpga = if clocks.is_none() { fpga::start(&pool, &bells)? } else { None };
    let launcher = Launcher::new(options, images, &pool, &bells, plugin);
    let mut islands = Vec::new();
    for (index, doorbell) in sockets.into_iter().enumerate() {
        islands.push(launcher.start(index, doorbell)?);
        hooks.event(Event::Started { island: index });
    }
    let mut run = Run {
        options,
        pool: &pool,
        bells: &bells,
        launcher,
        clocks: clocks.as_ref().map(|clocks| (clocks, Watch::default())),
        islands,
        signals,
        boot_clock: Some(boot_clock),
        rejoin_clock: None,
        recorder: Recorder::new(&pool, machine),
        engines,
        service,
        fpga,
        control: if options.mode == Mode::Run {
            Control::listen(watched::about(&pool, machine, clocks.is_some()))
        } else {
            None
        },
        hooks,
    };
    let outcome = run.watch();
    if let (Some(clocks), Ok(Outcome::Exited(_))) = (&clocks, &outcome) {
        clocks.wait_for_end();
    }
    run.stop(outcome.is_ok());
    let recording = run.recorder.take().map(Recorder::finish);
    if let Some(clocks) = &clocks {
        let command = options.command.args.last().map_or("", String::as_str);
        hooks.measured(clocks.measured(machine, &pool, command, recording.as_ref()));
    }
    if let Some(recording) = recording {
        let fpga = fpga::stats(&pool, machine, 0).map_or_else(Vec::new, |fpga| fpga.changes);
        hooks.traced(Recording { fpga, ..recording });
    }
    if matches!(outcome, Ok(Outcome::Exited(_))) {
        hooks.collect(&pool)?;
    }
    outcome
}

/// The path of an ISA's kernel below the folder of build results.
pub fn kernel_path(isa: Isa) -> PathBuf {
    [target_of(isa), "kernel", "motet-kernel"].iter().collect()
}

/// The path of Motet's own firmware below the folder of build results.
pub fn firmware_path() -> PathBuf {
    [target_of(Isa::RiscV64), "kernel", "motet-firmware"].iter().collect()
}

/// The path of a guest that `motet guests` builds, by its name in `docs/guests.md`, below the folder of build results.
pub fn guest_path(isa: Isa, name: &str) -> PathBuf {
    [target_of(isa), "kernel", &format!("guest-{name}")].iter().collect()
}

/// The Rust target that kernels of an ISA are built for.
pub const fn target_of(isa: Isa) -> &'static str {
    match isa {
        Isa::X86_64 => "x86_64-unknown-none",
        Isa::AArch64 => "aarch64-unknown-none-softfloat",
        Isa::RiscV64 => "riscv64imac-unknown-none-elf",
        Isa::Hosted => "hosted",
    }
}

struct Island {
    qemu: Qemu,
    started: Instant,
    joined: bool,
    /// It has died, and the machine goes on.
    lost: bool,
    /// Somebody wants it to be started again, or it has been and has not joined yet.
    restart: Option<Restart>,
    /// Our end of its doorbell device's socket, if it has been started again.
    server: Option<OwnedFd>,
    heartbeat: u64,
    pings: u32,
    /// When its console had its last line.
    said: Instant,
}

struct Run<'a> {
    options: &'a Options,
    pool: &'a HostPool,
    bells: &'a Doorbells,
    launcher: Launcher<'a>,
    /// A timed machine's clocks, and what watches them.
    clocks: Option<(&'a Clocks, Watch)>,
    islands: Vec<Island>,
    signals: Signals,
    /// There while islands boot.
    boot_clock: Option<BootClock>,
    /// There while an island joins again.
    rejoin_clock: Option<BootClock>,
    recorder: Option<Recorder>,
    engines: Option<Engines>,
    service: Option<DeviceThread>,
    fpga: Option<DeviceThread>,
    /// Who asks what of the machine.
    control: Option<Control>,
    hooks: &'a mut dyn Hooks,
}

/// What became ready while the event loop slept.
#[derive(Default)]
struct Ready {
    input: bool,
    control: bool,
    writable: [bool; 2],
    closed: [bool; 2],
}

impl<'a> Run<'a> {
    /// The event loop: until the command ends or something is wrong.
    fn watch(&mut self) -> Result<Outcome> {
        let terminal = self.options.command.terminal;
        let bells = self.bells;
        // Island 0 owns the machine's end of the streams.
        let ring = || bells.ring(0, 0);
        let (mut input, mut outputs) = self.streams();
        if !terminal {
            input.read_first(ring);
        }
        let mut raw_mode = None;
        let mut last_ping = Instant::now();
        let mut last_reading = Instant::now();
        loop {
            let ready = self.sleep(&input, &outputs)?;
            self.look_at_devices();
            if let Some(signal) = self.signals.take() {
                return Ok(Outcome::Interrupted(signal));
            }
            self.read_consoles()?;
            self.check_islands()?;
            if self.boot_clock.is_some() && self.all_joined() {
                self.boot_clock = None;
                raw_mode = if terminal { RawMode::enter() } else { None };
                self.hooks.event(Event::Running);
            }
            self.answer_control(&ready, ring);
            self.go_on_restarting()?;
            if ready.input && input.read_chunk(ring) == Reading::Escape {
                return Ok(Outcome::Interrupted(signal_hook::consts::SIGINT));
            }
            self.pump(&mut outputs, &ready, ring)?;
            if let Some(recorder) = &mut self.recorder {
                recorder.drain();
            }
            self.show_clocks(&outputs, &mut last_reading);
            if !outputs.iter().any(Output::has_bytes) {
                if let Some(exit) = self.exit_code() {
                    drop(raw_mode);
                    self.say_last(&outputs, ring);
                    return Ok(Outcome::Exited(exit));
                }
                self.check_time()?;
            }
            if self.boot_clock.is_none() && last_ping.elapsed() >= self.options.hang_timeout / PINGS_MAX {
                last_ping = Instant::now();
                if self.clocks.is_some() { self.watch_clocks()? } else { self.watch_heartbeats()? }
            }
            if self.signals.window_changed() {
                let (rows, columns) = terminal::size();
                let size = u32::from(rows) << 16 | u32::from(columns);
                self.pool.header().terminal_size.store(size, Ordering::Release);
                ring();
            }
        }
    }

    /// The command's streams: its input, its output and its errors.
    fn streams(&self) -> (Input<'a>, [Output<'a>; 2]) {
        let (pool, header) = (self.pool, self.pool.header());
        let (stdin, stdout, stderr) = (rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr());
        let input = Input::new(pool, &header.console_in, stdin, self.options.command.terminal);
        let mut outputs = [
            Output::new(pool, &header.console_out, stdout, "standard output"),
            Output::new(pool, &header.console_err, stderr, "standard error"),
        ];
        if self.is_deterministic() {
            outputs.iter_mut().for_each(Output::never_ask);
        }
        (input, outputs)
    }

    /// Wakes the threads that are devices, if they are asked for something.
    fn look_at_devices(&self) {
        if let Some(engines) = &self.engines {
            engines.look();
        }
        for device in [&self.service, &self.fpga].into_iter().flatten() {
            device.look();
        }
    }

    /// Answers who asks something of the machine, and passes on what its virtual machines say.
    fn answer_control(&mut self, ready: &Ready, ring: impl Fn() + Copy) {
        let Some(control) = &mut self.control else { return };
        let clocks = self.clocks.as_ref().map(|(clocks, _)| *clocks);
        let asked = if ready.control { control.answer(self.pool, &clocks, ring) } else { Vec::new() };
        control.serve_consoles(self.pool, ring);
        asked.into_iter().for_each(|asked| self.ask_restart(asked));
    }

    /// Writes what the machine has put out.
    fn pump(&mut self, outputs: &mut [Output<'_>; 2], ready: &Ready, ring: impl Fn() + Copy) -> Result<()> {
        for (index, output) in outputs.iter_mut().enumerate() {
            if ready.closed[index] {
                output.close(ring);
            }
            if output.has_bytes() && (ready.writable[index] || output.target().is_none()) {
                self.hooks.output_follows();
                output.write_chunk(ring)?;
            }
        }
        Ok(())
    }

    /// Shows how far a timed machine is, now and then, where no line of its output is cut by that.
    fn show_clocks(&mut self, outputs: &[Output<'_>; 2], last: &mut Instant) {
        let Some((clocks, _)) = &self.clocks else { return };
        let stdout = rustix::stdio::stdout();
        if self.boot_clock.is_none()
            && last.elapsed() >= LOOK_WHILE_TIMED
            && outputs[1].is_at_line_start()
            && (outputs[0].is_at_line_start() || !rustix::termios::isatty(stdout))
        {
            *last = Instant::now();
            self.hooks.reading(&clocks.reading(&self.options.machine));
        }
    }

    /// What the command has ended with, if it has.
    fn exit_code(&self) -> Option<u8> {
        let exit = self.pool.header().exit.load(Ordering::Acquire);
        // Where others run no command, who simulates their time has told them at the right moment.
        let others = self.pool.kernels().skip(1).filter(|_| exit != 0 && self.clocks.is_none());
        others.for_each(|kernel| kernel.header().exit.store(exit, Ordering::Release));
        exit.checked_sub(1).map(|code| code as u8)
    }

    /// The command has ended: passes on what islands and virtual machines have said last, and says whose reader went early.
    fn say_last(&mut self, outputs: &[Output<'_>; 2], ring: impl Fn() + Copy) {
        self.drain_consoles();
        if let Some(control) = &mut self.control {
            control.serve_consoles(self.pool, ring);
        }
        for output in outputs.iter().filter(|output| output.target().is_none()) {
            self.hooks.event(Event::ReaderGone { output: output.name(), lost: output.has_lost() });
        }
    }

    /// Whether the same run is to be the same again.
    fn is_deterministic(&self) -> bool {
        self.options.timed.as_ref().is_some_and(|timed| timed.deterministic)
    }

    /// Sleeps until something is to be done.
    fn sleep(&self, input: &Input<'_>, outputs: &[Output<'_>; 2]) -> Result<Ready> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.bells.host_bell(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.readable(), PollFlags::IN),
        ];
        for island in self.islands.iter().filter(|island| !island.lost) {
            fds.push(PollFd::from_borrowed_fd(island.qemu.ended(), PollFlags::IN));
            fds.extend(island.qemu.console.pipe().map(|pipe| PollFd::from_borrowed_fd(pipe, PollFlags::IN)));
        }
        // Nobody reads what is typed while islands boot, except the machine, later.
        let source = if self.boot_clock.is_none() { input.source() } else { None };
        let input_at = source.map(|fd| push(&mut fds, fd, PollFlags::IN));
        // Machines answer once they run.
        let control = self.control.as_ref().filter(|_| self.boot_clock.is_none());
        let control_at = control.map(|control| push(&mut fds, control.readable(), PollFlags::IN));
        let consoles = control.map(|control| control.consoles(!self.is_deterministic()));
        let is_due = consoles.as_ref().is_some_and(Option::is_none);
        fds.extend(consoles.flatten().into_iter().flatten());
        let outputs_at = [0, 1].map(|index: usize| {
            let events = if outputs[index].has_bytes() { PollFlags::OUT } else { PollFlags::empty() };
            outputs[index].target().map(|fd| push(&mut fds, fd, events))
        });
        let look = match () {
            () if is_due => Duration::ZERO,
            () if self.boot_clock.is_some() || self.is_restarting() => LOOK_WHILE_BOOTING,
            () if self.is_deterministic() => LOOK_UNASKED,
            () if self.recorder.is_some() => LOOK_WHILE_TRACED,
            () if self.clocks.is_some() => LOOK_WHILE_TIMED,
            () => LOOK,
        };
        let at_most = look.min(self.options.hang_timeout / PINGS_MAX);
        let timeout = Timespec::try_from(at_most).ok();
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).host("to wait for events"),
        }
        self.bells.take_host_rings();
        let got = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
        let broken = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        Ok(Ready {
            input: !got(input_at).is_empty(),
            control: !got(control_at).is_empty(),
            writable: outputs_at.map(|at| got(at).contains(PollFlags::OUT)),
            closed: outputs_at.map(|at| got(at).intersects(broken)),
        })
    }

    fn read_consoles(&mut self) -> Result<()> {
        let mut refused = None;
        let count = self.islands.len();
        for (index, island) in self.islands.iter_mut().enumerate() {
            for line in island.qemu.console.read() {
                island.said = Instant::now();
                self.hooks.event(Event::Line { island: index, line: &line });
                if let Some((_, reason)) = line.split_once("motet: refused: ") {
                    // A kernel of its own speaks of its own island alone.
                    let count = if self.options.machine.multikernel.is_some() { 0 } else { count };
                    let (index, reason) = refusing(index, reason, count);
                    let what = format!("refuses to join: {reason}");
                    if island.restart.is_some() {
                        refused = Some((index, what));
                        break;
                    }
                    return Err(self.failure(index, &what));
                }
            }
        }
        if let Some((index, what)) = refused {
            self.lose_again(index, &what);
        }
        Ok(())
    }

    /// Reads what QEMU has passed on so far, so that the last lines of the consoles are complete.
    fn drain_consoles(&mut self) {
        for (index, island) in self.islands.iter_mut().enumerate() {
            for line in island.qemu.console.read() {
                self.hooks.event(Event::Line { island: index, line: &line });
            }
        }
    }

    fn all_joined(&self) -> bool {
        self.islands.iter().all(|island| island.joined)
    }

    /// Stops every island: in order when the run went well, at once otherwise.
    fn stop(&mut self, in_order: bool) {
        (self.boot_clock, self.rejoin_clock) = (None, None);
        self.end_restarts();
        if in_order {
            for island in &mut self.islands {
                island.qemu.qmp.quit();
            }
            let deadline = Instant::now() + QUIT_WITHIN;
            for island in &mut self.islands {
                island.qemu.wait(deadline.saturating_duration_since(Instant::now()));
            }
        }
        for island in &mut self.islands {
            island.qemu.kill();
        }
        (self.engines, self.service, self.fpga) = (None, None, None);
        self.drain_consoles();
    }
}

/// Refuses what is asked for that one kernel does for all islands, where each has its own, and the other way round.
fn check_kernels(options: &Options) -> Result<()> {
    let strays = matches!(options.mode, Mode::StrayBehind | Mode::StrayAbove | Mode::StrayBelow | Mode::StrayDevice);
    let has_many = options.machine.multikernel.is_some();
    let what = match () {
        () if strays && !has_many => {
            "only a kernel that shares no memory can go astray (os = \"multikernel\" in the machine's file)"
        }
        () if !has_many => return Ok(()),
        () if options.mode == Mode::Conformance => {
            "the machine's islands have a kernel each: the suite tests kernels that share a pool; test them one by one"
        }
        () if options.survive => {
            "the machine's islands have a kernel each: none goes on without the others; run it without --survive"
        }
        () => return Ok(()),
    };
    Err(Error::new(ErrorKind::Usage, what))
}

/// Which island refuses, and why: the first one speaks for others, too.
fn refusing(says: usize, reason: &str, islands: usize) -> (usize, &str) {
    let other = reason.strip_prefix("island ").and_then(|rest| rest.split_once(": "));
    match other.map(|(number, reason)| (number.parse(), reason)) {
        Some((Ok(index), reason)) if index < islands => (index, reason),
        _ => (says, reason),
    }
}

fn push<'a>(fds: &mut Vec<PollFd<'a>>, fd: BorrowedFd<'a>, events: PollFlags) -> usize {
    fds.push(PollFd::from_borrowed_fd(fd, events));
    fds.len() - 1
}

/// Large machines pass more descriptors around than the usual soft limit of 1024.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// The thread that keeps the clock in the header while islands boot. Dropping it stops it.
struct BootClock {
    stop: Arc<AtomicBool>,
}

impl BootClock {
    fn start(pool: &HostPool) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, tick) = (stop.clone(), pool.ticker());
        let keep_time = move || {
            while !stopped.load(Ordering::Relaxed) {
                tick();
                std::thread::sleep(TICK);
            }
        };
        std::thread::Builder::new().name("clock".into()).spawn(keep_time).host("a thread")?;
        Ok(Self { stop })
    }
}

impl Drop for BootClock {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

//! `motet run`.

use std::{path::Path, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_fabric::{
    Command, HostPool, Results,
    network::Network,
    place::Place,
    rootfs::Tree,
    run::{Event, Hooks, Mode, Options, Outcome},
    terminal,
    timed::{self, AccessRange, ClockReading, Measured},
    trace::Recording,
};
use motet_layout::Isa;
use motet_machine::MachineSpec;
use motet_protocol::trace::Scope;

use crate::{
    accesses,
    arguments::{MachineOptions, Net, NetworkOptions, RunOptions},
    debugger::Debugger,
    live::Live,
    output::OutputFile,
    points,
    progress::{self, Progress},
    report::Folder,
    stats, trace,
};

/// Boots a machine and runs a command in it.
///
/// # Errors
/// See [`motet_fabric::run::run`].
pub fn run(options: &RunOptions) -> Result<u8> {
    if options.deterministic && options.quantum.most_us > options.quantum.least_us {
        let message =
            "--deterministic needs --quantum auto or a fixed one, such as 10: cores take turns of that length";
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let place = Place::find()?;
    let mut settings = settings(&place, &options.machine, Mode::Run, guest_command(&options.command, options.quiet))?;
    settings.timed = options.timed.then(|| timed::Options {
        plugin: place.built.join(timed::plugin_path()),
        quantum_ps: (options.quantum.least_us * 1e6) as u64,
        quantum_max_ps: (options.quantum.most_us * 1e6) as u64,
        quantum_least_ps: (options.quantum.shortest_us * 1e6) as u64,
        deterministic: options.deterministic,
        accesses: options
            .accesses
            .as_ref()
            .map(|_| AccessRange { skip: options.accesses_skip, count: options.accesses_max as usize }),
        points: Vec::new(),
    });
    if let (Some(timed), Some(file)) = (&mut settings.timed, &options.points) {
        timed.points = points::read(file, &settings.machine)?;
    }
    settings.survive = options.survive;
    settings.network = network(&settings.machine, &options.network, options.timed)?;
    let debugger = options.gdb.then(|| Debugger::prepare(&mut settings)).transpose()?;
    let mut tree = guest_files(&place.built, &settings.machine, options)?;
    tree.add_network(&settings.network);
    tree.warnings().iter().for_each(|warning| progress::print(&format!("motet: {warning}")));
    let results = options.output.as_deref().map(Results::prepare).transpose()?;
    let report = options.report.as_deref().map(Folder::prepare).transpose()?;
    let stats = options.stats.as_deref().map(|path| OutputFile::create("--stats", path)).transpose()?;
    let trace = options.trace.as_deref().map(|path| OutputFile::create("--trace", path)).transpose()?;
    settings.command.trace = match (&trace, &report) {
        (Some(_), _) => Scope::All,
        (None, Some(_)) => Scope::Guests,
        (None, None) => Scope::Nothing,
    };
    let accesses = options.accesses.as_deref().map(|path| OutputFile::create("--accesses", path)).transpose()?;
    let passages = options.passages.as_deref().map(|path| OutputFile::create("--passages", path)).transpose()?;
    if let Some(debugger) = &debugger {
        debugger.explain(&settings.machine, &place.built);
    }
    let progress = (!options.quiet).then(|| Progress::new(&settings.machine, options.machine.verbose));
    // An interactive shell and a line that is drawn again and again do not go together.
    let shell = options.command.is_empty() && settings.command.terminal;
    let live = (options.timed && !options.quiet && !shell).then(|| Live::new(&settings.machine));
    let command = if options.command.is_empty() { "a shell".into() } else { options.command.join(" ") };
    let mut hooks =
        RunHooks { progress, live, command, tree, results, measured: None, recording: None, gone: Vec::new() };
    let outcome = motet_fabric::run::run(&settings, &mut hooks);
    hooks.finish_display();
    if let Some(measured) = &mut hooks.measured {
        measured.stats.warnings.extend(partial(&outcome));
    }
    // What was measured until a failure may explain it.
    let written = hooks.write(
        options.quiet,
        stats.as_ref(),
        report.as_ref(),
        trace.as_ref().map(|file| (file, &settings.machine)),
    );
    let accesses_written = hooks.write_accesses(accesses.as_ref(), options);
    let passages_written = passages.map_or(Ok(()), |file| hooks.write_passages(&file));
    let outcome = outcome?;
    written.and(accesses_written).and(passages_written)?;
    Ok(match outcome {
        Outcome::Exited(status) => hooks.status(status),
        Outcome::Interrupted(signal) => 128 + signal as u8,
    })
}

/// Says so if the command had not ended when the run did.
fn partial(outcome: &Result<Outcome>) -> Option<String> {
    match outcome {
        Ok(Outcome::Exited(_)) => None,
        Ok(Outcome::Interrupted(signal)) => Some(format!(
            "the run was interrupted (signal {signal}) before its command had ended; all figures end there"
        )),
        Err(_) => Some("the run failed before its command had ended; all figures end there".into()),
    }
}

/// The machine and how it is to run.
///
/// # Errors
/// A machine file that is missing or wrong.
pub fn settings(place: &Place, options: &MachineOptions, mode: Mode, command: Command) -> Result<Options> {
    let machine = MachineSpec::load(&place.machine(options.machine.as_deref()))?;
    let qemu_arguments = qemu_arguments(&machine, &options.qemu_arguments)?;
    Ok(Options {
        machine,
        qemu_arguments,
        timed: None,
        survive: false,
        network: Network::default(),
        kernels: place.built.clone(),
        mode,
        command,
        boot_timeout: Duration::from_secs_f64(options.boot_timeout),
        hang_timeout: Duration::from_secs_f64(options.hang_timeout),
        verbose: options.verbose,
    })
}

/// The network that the machine's description and the options want.
///
/// # Errors
/// The options contradict each other, or the machine is timed.
pub fn network(machine: &MachineSpec, options: &NetworkOptions, timed: bool) -> Result<Network> {
    let wrong = |message: &str| Err(Error::new(ErrorKind::Usage, message));
    let (is_described, is_published) =
        (machine.islands.iter().any(|island| island.network), !options.published.is_empty());
    match options.net {
        Some(Net::None) if is_published => return wrong("--publish needs a network: --net user, not --net none"),
        Some(Net::None) => return Ok(Network::default()),
        None if !is_described && !is_published => return Ok(Network::default()),
        Some(Net::User) | None => {}
    }
    if timed {
        let message = "a timed machine has no network: what comes from outside comes by the time of this computer, not by the machine's";
        let hint =
            if options.net.is_none() && !is_published { "; --net none leaves out the machine file's" } else { "" };
        return wrong(&format!("{message}{hint}"));
    }
    Network::new(machine, options.published.clone())
}

/// Sorts what was given by name by island.
fn qemu_arguments(machine: &MachineSpec, given: &[(String, Vec<String>)]) -> Result<Vec<Vec<String>>> {
    let mut sorted = vec![Vec::new(); machine.islands.len()];
    for (name, arguments) in given {
        let Some(index) = machine.islands.iter().position(|island| island.name == *name) else {
            return Err(Error::new(ErrorKind::Usage, format!("--qemu: the machine has no island \"{name}\"")));
        };
        sorted[index].extend_from_slice(arguments);
    }
    Ok(sorted)
}

struct RunHooks {
    progress: Option<Progress>,
    live: Option<Live>,
    command: String,
    tree: Tree,
    results: Option<Results>,
    measured: Option<Measured>,
    recording: Option<Recording>,
    /// Outputs of the command that nobody reads any more, as sentences, and whether some of it was lost.
    gone: Vec<(String, bool)>,
}

impl RunHooks {
    /// Removes what changes from the terminal.
    fn finish_display(&mut self) {
        (self.progress, self.live) = (None, None);
    }

    /// The run's exit status. A command whose output nobody reads says nothing, so this does.
    fn status(&self, of_command: u8) -> u8 {
        self.gone.iter().for_each(|(what, _)| progress::print(&format!("motet: {what}")));
        let has_lost = self.gone.iter().any(|(_, lost)| *lost);
        if of_command == 0 && has_lost { ErrorKind::Io as u8 } else { of_command }
    }

    /// Writes what was measured to where the user wants it.
    fn write(
        &self,
        quiet: bool,
        stats_file: Option<&OutputFile>,
        report: Option<&Folder>,
        trace: Option<(&OutputFile, &MachineSpec)>,
    ) -> Result<()> {
        if let Some(Measured { stats, .. }) = &self.measured {
            if !quiet {
                stats::print(stats);
            }
            stats_file.map_or(Ok(()), |file| file.write(|out| out.write_all(stats::text(stats).as_bytes())))?;
            report.map_or(Ok(()), |folder| folder.write(stats))?;
        }
        let (Some((file, machine)), Some(recording)) = (trace, &self.recording) else { return Ok(()) };
        if recording.lost != 0 {
            progress::print(&format!("motet: the trace is not complete: {} events found no room", recording.lost));
        }
        file.write(|out| trace::write(machine, recording, out))
    }

    fn write_accesses(&self, file: Option<&OutputFile>, options: &RunOptions) -> Result<()> {
        let steps = self.measured.as_ref().and_then(|measured| measured.accesses.as_ref());
        let (Some(file), Some(steps)) = (file, steps) else { return Ok(()) };
        let warning = accesses::warning(steps, options.accesses_skip, options.accesses_max);
        warning.iter().filter(|_| !options.quiet).for_each(|warning| progress::print(&format!("motet: {warning}")));
        file.write(|out| accesses::write(steps, out))
    }

    fn write_passages(&self, file: &OutputFile) -> Result<()> {
        let Some(Measured { passages, passages_lost, .. }) = &self.measured else { return Ok(()) };
        if *passages_lost != 0 {
            progress::print(&format!("motet: --passages: {passages_lost} found no room"));
        }
        file.write(|out| points::write(passages, out))
    }
}

impl Hooks for RunHooks {
    fn event(&mut self, event: Event<'_>) {
        // Lines of the islands' consoles, for instance.
        self.output_follows();
        if let Event::ReaderGone { output, lost } = event {
            self.gone.push((format!("{output}: nobody reads it any more"), lost));
        }
        if let Some(progress) = &mut self.progress {
            progress.event(event);
        }
    }

    fn prepare(&mut self, pool: &HostPool) -> Result<()> {
        self.tree.build(pool)
    }

    fn reading(&mut self, reading: &ClockReading) {
        if let Some(live) = &mut self.live {
            live.show(reading);
        }
    }

    fn output_follows(&mut self) {
        if let Some(live) = &mut self.live {
            live.clear();
        }
    }

    fn traced(&mut self, recording: Recording) {
        self.recording = Some(recording);
    }

    fn measured(&mut self, mut measured: Measured) {
        // As it was typed; the fabric knows only what the machine's shell is given.
        measured.stats.command.clone_from(&self.command);
        self.measured = Some(measured);
    }

    fn collect(&mut self, pool: &HostPool) -> Result<()> {
        let skipped = self.results.as_ref().map_or(Ok(Vec::new()), |results| results.collect(pool))?;
        for path in skipped {
            progress::print(&format!("motet: not copied, neither file, folder nor link: {}", path.display()));
        }
        Ok(())
    }
}

/// The machine's root file system.
fn guest_files(built: &Path, machine: &MachineSpec, options: &RunOptions) -> Result<Tree> {
    let mut isas: Vec<Isa> = Vec::new();
    for island in &machine.islands {
        if !isas.contains(&island.isa) {
            isas.push(island.isa);
        }
    }
    let userland = built.join("userland");
    let mut tree = Tree::system(&userland, &isas, &applets(&userland), built)?;
    tree.add_accelerators(machine);
    for root in &options.roots {
        tree.add_root(root)?;
    }
    for input in &options.inputs {
        tree.add_input(input)?;
    }
    Ok(tree)
}

/// The names that busybox answers to. The builds for all instruction sets are of one version, so whichever this host
/// can run is asked.
fn applets(userland: &Path) -> Vec<String> {
    for isa in [Isa::X86_64, Isa::AArch64, Isa::RiscV64] {
        let busybox = userland.join(isa.name()).join("busybox");
        if let Ok(output) = std::process::Command::new(busybox).arg("--list").output()
            && output.status.success()
        {
            return String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        }
    }
    // The shell finds busybox's other applets by itself.
    vec!["sh".into()]
}

/// What the machine's first process runs. A shell on a terminal says what to try, unless the user wants quiet.
fn guest_command(words: &[String], quiet: bool) -> Command {
    let args = if words.is_empty() {
        vec!["/bin/sh".into(), "-l".into()]
    } else {
        vec!["/bin/sh".into(), "-c".into(), format!(". /etc/motet\n{}", words.join(" "))]
    };
    let terminal = terminal::is_interactive();
    let term = std::env::var("TERM").ok().filter(|term| terminal && !term.is_empty());
    let mut env = vec![
        "PATH=/bin".into(),
        "HOME=/root".into(),
        "USER=root".into(),
        "SHELL=/bin/sh".into(),
        format!("TERM={}", term.as_deref().unwrap_or("dumb")),
    ];
    if terminal && words.is_empty() && !quiet {
        env.push("MOTET_HELLO=1".into());
    }
    if terminal && std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        env.push("NO_COLOR=1".into());
    }
    let terminal_size = if terminal { terminal::size() } else { (0, 0) };
    Command { args, env, terminal, terminal_size, trace: Scope::Nothing }
}

//! What `motet run` promises its caller: streams, exit status, files in and out, terminals, signals, and that nothing
//! stays behind.

use std::{
    fs,
    io::Read as _,
    path::Path,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Signal, kill_process};

use crate::{
    process::{self, Collected, Motet, expect_gone, pid, started},
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 18] = [
        ("run::streams_and_status_are_the_command_s", streams_and_status),
        ("run::the_command_reads_standard_input", standard_input),
        ("run::a_command_that_reads_nothing_leaves_the_input", unread_input),
        ("run::a_reader_that_leaves_ends_the_command", closed_output),
        ("run::lost_output_is_told_and_no_success", lost_output),
        ("run::results_that_cannot_be_written_are_no_success", unwritable_results),
        ("run::a_command_killed_by_a_signal_has_status_128_and_more", killed_command),
        ("run::files_go_in_and_come_out", files_in_and_out),
        ("run::files_come_back_as_they_were", attributes_in_and_out),
        ("run::a_folder_is_laid_over_the_root", laid_over_the_root),
        ("run::a_shell_on_a_terminal", shell_on_a_terminal),
        ("run::interrupt_leaves_nothing_behind", || ends_by(Signal::INT)),
        ("run::quit_leaves_nothing_behind", || ends_by(Signal::QUIT)),
        ("run::terminate_leaves_nothing_behind", || ends_by(Signal::TERM)),
        ("run::kill_leaves_nothing_behind", || ends_by(Signal::KILL)),
        ("run::a_killed_island_is_named", killed_island),
        ("run::every_machine_boots", every_machine),
        ("run::boots_again_and_again", again),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

fn streams_and_status() -> Result<(), String> {
    let ended = Motet::command("echo to output; on riscv64 sh -c 'echo to errors >&2; exit 37'").wait();
    ended.expect_code(37)?.expect_output("to output\n")?.expect_errors(&["to errors\n"]).map(drop)
}

fn standard_input() -> Result<(), String> {
    let lines: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let motet = Motet::command("read first; echo \"$first\"; on aarch64 wc -l; on riscv64 cat").input(lines);
    motet.wait().expect_code(0)?.expect_output("line 0\n19999\n").map(drop)
}

fn unread_input() -> Result<(), String> {
    let input = vec![b'x'; 4 << 20];
    Motet::command("on aarch64 head -c 3").input(input).wait().expect_code(0)?.expect_output("xxx").map(drop)
}

fn closed_output() -> Result<(), String> {
    let motet = Motet::command("on riscv64 yes; echo \"ended by $?\" >&2; exit 3");
    let mut command = motet.to_command();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut first = [0; 2];
    std::io::Read::read_exact(&mut child.stdout.take().expect("piped"), &mut first).map_err(|e| e.to_string())?;
    let deadline = Instant::now() + process::LIMIT;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return if status.code() == Some(3) { Ok(()) } else { Err(format!("the run ended: {status}")) };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("the run goes on although nobody reads its output".into())
}

/// Runs `./motet` (the front door, as descriptors that are closed are its affair) with redirections of a shell.
fn redirected(arguments: &str, redirection: &str) -> Result<std::process::Output, String> {
    let motet = process::root().join("motet");
    let line = format!("\"{}\" {arguments} {redirection}", motet.display());
    let output = std::process::Command::new("bash").args(["-c", &line]).stdin(Stdio::null()).output();
    output.map_err(|error| format!("bash: {error}"))
}

/// Output that does not arrive: a status that is not 0, and a sentence as long as there is a place for it.
fn lost_output() -> Result<(), String> {
    let both = "run --quiet -- 'on riscv64 echo to output; echo to errors >&2'";
    // sysexits.h: EX_IOERR
    let cases = [
        (both, ">&-", 74, "standard output is closed"),
        (both, ">/dev/full", 74, "standard output: No space left on device"),
        (both, "2>&-", 74, ""),
        (both, "2>/dev/full", 74, ""),
        (
            "run --quiet -- 'sleep 1; echo much'",
            "> >(exec true)",
            128 + 13,
            "standard output: nobody reads it any more",
        ),
        ("run --help", ">/dev/full", 74, "standard output: No space left on device"),
        ("run --help", ">&-", 74, "standard output is closed"),
    ];
    for (arguments, redirection, status, message) in cases {
        let output = redirected(arguments, redirection)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(status) || !said.contains(message) {
            return Err(format!("motet {arguments} {redirection}: {}\n{said}", output.status));
        }
    }
    // Nothing is lost where nothing is written.
    for redirection in ["2>&-", ">/dev/full", "<&-", "<&- 2>&-"] {
        let output = redirected("run --quiet -- true", redirection)?;
        if !output.status.success() {
            return Err(format!("{redirection}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

fn unwritable_results() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("file");
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let below = file.join("below");
    let [file, below] = [&file, &below].map(|path| path.display().to_string());
    // Known before the run, and at its end.
    for (option, path, status) in [
        ("--trace", below.as_str(), 73),
        ("--stats", below.as_str(), 73),
        ("--report", file.as_str(), 73),
        ("--out", file.as_str(), 73),
    ] {
        let timed = ["--stats", "--report"].contains(&option).then_some("--timed");
        let ended = Motet::run(timed).arguments([option, path, "--", "echo ran"]).wait();
        ended.expect_code(status)?.expect_errors(&[option, path])?.expect_output("")?;
    }
    let ended = Motet::run(["--timed", "--stats", "/dev/full", "--trace", "/dev/full", "--", "echo ran"]).wait();
    ended.expect_code(74)?.expect_errors(&["--stats /dev/full: No space left"])?.expect_output("ran\n").map(drop)
}

fn killed_command() -> Result<(), String> {
    let ended = Motet::command("on aarch64 sh -c 'kill -KILL $$'; status=$?; kill -KILL $$; exit $status").wait();
    ended.expect_code(128 + 9).map(drop)
}

fn files_in_and_out() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let given = folder.path().join("given");
    let inner = given.join("inner");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(&inner)?;
        fs::write(given.join("text"), "some text\n")?;
        fs::write(inner.join("bytes"), (0..=255).cycle().take(1 << 20).collect::<Vec<u8>>())?;
        std::os::unix::fs::symlink("inner/bytes", given.join("link"))?;
        fs::write(folder.path().join("single"), "one file\n")
    };
    write().map_err(|error| error.to_string())?;
    let results = folder.path().join("results");
    let command = "cat /in/single /in/given/text; on aarch64 cp -a /in/given /out/copied; \
        on riscv64 sh -c 'rev /in/single > /out/reversed; chmod 750 /out/reversed'; mkdir -p /out/a/b; exit 5";
    let ended =
        Motet::run(["--in".as_ref(), given.as_os_str(), "--in".as_ref(), folder.path().join("single").as_ref()])
            .arguments(["--out".as_ref(), results.as_os_str()])
            .arguments(["--", command])
            .wait();
    // Results are fetched whatever the command's status is.
    ended.expect_code(5)?.expect_output("one file\nsome text\n")?;
    let same = |a: &Path, b: &Path| match (fs::read(a), fs::read(b)) {
        (Ok(a), Ok(b)) if a == b => Ok(()),
        (a, b) => Err(format!("{:?} is not as it was: {:?}", b.map(|b| b.len()), a.map(|a| a.len()))),
    };
    same(&given.join("text"), &results.join("copied/text"))?;
    same(&inner.join("bytes"), &results.join("copied/inner/bytes"))?;
    same(&inner.join("bytes"), &results.join("copied/link"))?;
    let link = fs::read_link(results.join("copied/link")).map_err(|error| format!("copied/link: {error}"))?;
    let reversed = fs::read_to_string(results.join("reversed")).map_err(|error| format!("reversed: {error}"))?;
    if link != Path::new("inner/bytes") || reversed != "elif eno\n" || !results.join("a/b").is_dir() {
        return Err(format!("link {}, reversed {reversed:?}", link.display()));
    }
    Ok(())
}

/// Owners, modes, times, names of one file, and named pipes: in, as the guest's `stat` shows them, and out again.
fn attributes_in_and_out() -> Result<(), String> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let given = folder.path().join("given");
    let is_root = rustix::process::geteuid().is_root();
    let (user, group) =
        if is_root { (1000, 1001) } else { (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()) };
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(given.join("inner"))?;
        fs::write(given.join("program"), "#!/bin/sh\nid -u\n")?;
        fs::hard_link(given.join("program"), given.join("inner/same"))?;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            given.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )?;
        for (name, mode) in [("program", 0o6755), ("inner", 0o1777)] {
            if is_root {
                chown(given.join(name), Some(user), Some(group))?;
            }
            fs::set_permissions(given.join(name), fs::Permissions::from_mode(mode))?;
            let file = fs::File::open(given.join(name))?;
            file.set_modified(std::time::UNIX_EPOCH + Duration::new(1_111_111_111, 222_222_222))?;
        }
        Ok(())
    };
    make().map_err(|error| error.to_string())?;
    let results = folder.path().join("results");
    let command = "cd /in/given; on aarch64 stat -c '%n %a %u %g %h %Y' program inner; \
        [ program -ef inner/same ] && echo same; on riscv64 test -p pipe && echo pipe; on riscv64 cp -a . /out/copy; \
        cp -a inner /out/";
    let ended = Motet::run(["--in".as_ref(), given.as_os_str(), "--out".as_ref(), results.as_os_str()])
        .arguments(["--", command])
        .wait();
    let wanted =
        format!("program 6755 {user} {group} 2 1111111111\ninner 1777 {user} {group} 2 1111111111\nsame\npipe\n");
    ended.expect_code(0)?.expect_output(&wanted)?;
    for (name, mode, links) in [("copy/program", 0o6755, Some(2)), ("copy/inner", 0o1777, None)] {
        let metadata = fs::metadata(results.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let time = (metadata.mtime(), metadata.mtime_nsec());
        // busybox's cp keeps whole seconds, or all of the time: the one on the host is the guest's.
        let same = metadata.mode() & 0o7777 == mode && (metadata.uid(), metadata.gid()) == (user, group);
        if !same || time.0 != 1_111_111_111 || links.is_some_and(|links| links != metadata.nlink()) {
            return Err(format!("{name} is not as it was: {metadata:?}"));
        }
    }
    Ok(())
}

fn laid_over_the_root() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let make = || -> std::io::Result<()> {
        let own = "#!/bin/sh\ncat $(dirname $(realpath $0))/../libexec/part\n";
        let files = [
            ("usr/bin/greet", "#!/bin/sh\ncat /lib/greeting\n"),
            ("usr/lib/greeting", "hello\n"),
            // As GCC finds its parts; and there is an applet of that name.
            ("usr/bin/tac", own),
            ("usr/libexec/part", "part\n"),
        ];
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(&path, text)?;
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        }
        std::os::unix::fs::symlink("usr/bin", folder.path().join("bin"))
    };
    make().map_err(|error| error.to_string())?;
    let command =
        "greet; on riscv64 greet; tac; /usr/sbin/tac; id -u nobody; . /etc/os-release; echo $ID; wc -l < /etc/motd";
    let motet = Motet::run(["--root".as_ref(), folder.path().as_os_str(), "--".as_ref(), command.as_ref()]);
    motet.wait().expect_code(0)?.expect_output("hello\nhello\npart\npart\n65534\nmotet\n3\n").map(drop)
}

fn shell_on_a_terminal() -> Result<(), String> {
    let terminal = Terminal::open()?;
    let mut shell = terminal.start(&Motet::run(["--boot-timeout", "120"]))?;
    let prompt = "motet:";
    shell.expect(prompt)?;
    shell.type_line("stty size")?;
    shell.expect("33 77\n")?;
    shell.type_line("on riscv64 uname -m | on aarch64 sed 's/^/it is /'")?;
    shell.expect("it is riscv64\n")?;
    shell.type_line("on aarch64 sh -c 'echo be\"\"gun; exec sleep 1000'")?;
    shell.expect("begun\n")?;
    shell.type_bytes(b"\x03")?;
    shell.type_line("echo status=$?")?;
    shell.expect("status=130\n")?;
    // The end of the input, and a line that is corrected before it is sent.
    shell.type_line("on riscv64 sh -c 'echo be\"\"gun >&2; exec cat' > /tmp/typed")?;
    shell.expect("begun\n")?;
    shell.type_bytes(b"wrongg\x7f\n\x04")?;
    shell.type_line("rev /tmp/typed")?;
    shell.expect("gnorw\n")?;
    pasted(&mut shell)?;
    slowly(&mut shell)?;
    // A program in the foreground is told that the terminal has another size.
    shell.type_line("sh -c 'trap \"stty size; exit\" WINCH; echo ar\"\"med; while :; do sleep 0.1; done'")?;
    shell.expect("armed\n")?;
    shell.resize(40, 120)?;
    shell.expect("40 120\n")?;
    shell.type_line("tty; exit 9")?;
    shell.finish(9)
}

/// What is typed faster than it is read arrives whole, in lines and raw; a line that is too long is cut as on Linux.
fn pasted(shell: &mut Session) -> Result<(), String> {
    let numbers = |last: u32| (1..=last).map(|number| format!("{number}\r")).collect::<String>();
    shell.type_line("echo re''ady; cat > /tmp/lines; seq 20000 | cmp - /tmp/lines && echo li''nes")?;
    shell.expect("ready\n")?;
    shell.type_bytes(numbers(20_000).as_bytes())?;
    shell.type_bytes(b"\x04")?;
    shell.expect("lines\n")?;
    let raw = "stty -icanon -echo; echo re''ady; head -c 13893 > /tmp/raw; stty icanon echo";
    shell.type_line(&format!("{raw}; seq 3000 | cmp - /tmp/raw && echo ra''w"))?;
    shell.expect("ready\n")?;
    shell.type_bytes(numbers(3000).as_bytes())?;
    shell.expect("raw\n")?;
    shell.type_line("echo re''ady; cat > /tmp/long; wc -c < /tmp/long")?;
    shell.expect("ready\n")?;
    shell.type_bytes(&[b'a'; 5000])?;
    shell.type_bytes(b"\rb\r\x04")?;
    shell.expect("\n4098\n")
}

/// A read waits for the next byte for as long as is said, and output for whoever has stopped it.
fn slowly(shell: &mut Session) -> Result<(), String> {
    let slow =
        "stty -icanon -echo min 9 time 100; echo re''ady; dd bs=99 count=1 2> /dev/null | wc -c; stty icanon echo";
    shell.type_line(slow)?;
    shell.expect("ready\n")?;
    for byte in [b"a", b"b", b"c"] {
        shell.type_bytes(byte)?;
        std::thread::sleep(Duration::from_millis(300));
    }
    shell.expect("3\n")?;
    shell.type_line("stty -echo; echo re''ady; read line; stty -ixon; echo go''es; stty ixon echo")?;
    shell.expect("ready\n")?;
    // The terminal has stopped when the line comes.
    shell.type_bytes(b"\x13line\r")?;
    shell.expect("goes\n")?;
    shell.type_line(
        "stty -echo; echo re''ady; read line; date +%s > /tmp/be''fore; echo sto''pped; expr $(date +%s) - $(cat /tmp/before) \\> 2; stty echo",
    )?;
    shell.expect("ready\n")?;
    shell.type_bytes(b"\x13line\r")?;
    std::thread::sleep(Duration::from_secs(9));
    shell.type_bytes(b"\x11")?;
    shell.expect("stopped\n1\n")
}

fn ends_by(signal: Signal) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let motet = Motet::command("echo started; on riscv64 sleep 1000").folder(folder.path());
    let mut running = motet.variable("TMPDIR", folder.path()).start();
    let islands = started(&mut running)?;
    let began = Instant::now();
    kill_process(pid(running.id())?, signal).map_err(|error| error.to_string())?;
    let ended = running.wait();
    if signal != Signal::KILL {
        ended.expect_code(128 + signal.as_raw())?;
    }
    expect_gone(&islands)?;
    if began.elapsed() > Duration::from_secs(30) {
        return Err(format!("that took {:?}\n{}", began.elapsed(), ended.describe()));
    }
    let left: Vec<_> = fs::read_dir(folder.path()).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) }
}

fn killed_island() -> Result<(), String> {
    for (name, program) in [("x86", "x86_64"), ("arm", "aarch64"), ("riscv", "riscv64")] {
        let mut running = Motet::command("echo started; on riscv64 sleep 1000").start();
        let islands = started(&mut running)?;
        let victim = islands.iter().find(|&&id| process::command_line(id).contains(&format!("qemu-system-{program}")));
        let victim = *victim.ok_or_else(|| format!("no QEMU for {program}"))?;
        kill_process(pid(victim)?, Signal::KILL).map_err(|error| error.to_string())?;
        let ended = running.wait();
        ended.expect_code(70)?.expect_errors(&[&format!("island {name}"), "SIGKILL"])?;
        expect_gone(&islands)?;
    }
    Ok(())
}

fn every_machine() -> Result<(), String> {
    let mut machines: Vec<_> = fs::read_dir(process::root().join("machines"))
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    machines.sort();
    for machine in machines {
        let text = fs::read_to_string(&machine).map_err(|error| error.to_string())?;
        // The first island's kernel runs the programs of its own island alone.
        let (all, known) = match text.contains("os = \"multikernel\"") {
            false => ("*", &["aarch64", "riscv64", "x86_64"][..]),
            true => ("$(uname -m)", &["x86_64"][..]),
        };
        let command = format!("cd /isa; for isa in {all}; do on $isa uname -m | on $isa cat; done");
        let ended = Motet::run(["--machine".as_ref(), machine.as_os_str()]).arguments(["--", &command]).wait();
        let isas = known.iter().filter(|isa| text.contains(&format!("\"{isa}\"")));
        let wanted: String = isas.map(|isa| format!("{isa}\n")).collect();
        ended
            .expect_code(0)
            .and_then(|ended| ended.expect_output(&wanted))
            .map_err(|error| format!("{}: {error}", machine.display()))?;
    }
    Ok(())
}

fn again() -> Result<(), String> {
    for number in 0..5 {
        let command = format!("on aarch64 echo {number} | on riscv64 cat");
        let ended = Motet::command(&command).wait();
        ended.expect_code(0)?.expect_output(&format!("{number}\n"))?;
    }
    Ok(())
}

/// A pseudo-terminal.
pub struct Terminal {
    controller: fs::File,
    user: fs::File,
}

/// `motet` on it.
pub struct Session {
    child: std::process::Child,
    keys: fs::File,
    screen: Collected,
    /// What has been looked at.
    seen: usize,
}

impl Terminal {
    /// A new one.
    pub fn open() -> Result<Self, String> {
        use rustix::{pty, termios};
        let open = || -> rustix::io::Result<Self> {
            // A program that had its own controller would not be hung up.
            let flags = pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY | pty::OpenptFlags::CLOEXEC;
            let controller = pty::openpt(flags)?;
            pty::grantpt(&controller)?;
            pty::unlockpt(&controller)?;
            let name = pty::ptsname(&controller, Vec::new())?;
            let path = Path::new(name.to_str().map_err(|_| rustix::io::Errno::INVAL)?).to_owned();
            let user = fs::File::options().read(true).write(true).open(path).map_err(|_| rustix::io::Errno::IO)?;
            let size = termios::Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
            termios::tcsetwinsize(&user, size)?;
            Ok(Self { controller: controller.into(), user })
        };
        open().map_err(|error| format!("no pseudo-terminal: {error}"))
    }

    /// Its settings, to be compared.
    pub fn settings(&self) -> Result<String, String> {
        settings(&self.controller)
    }

    /// Starts `motet` on it.
    pub fn start(self, motet: &Motet) -> Result<Session, String> {
        let end = || self.user.try_clone().map_err(|error| error.to_string());
        let mut command = motet.to_command();
        command.stdin(end()?).stdout(end()?).stderr(end()?).env("TERM", "vt100");
        let child = command.spawn().map_err(|error| error.to_string())?;
        let screen = Collected::new(self.controller.try_clone().map_err(|error| error.to_string())?);
        Ok(Session { child, keys: self.controller, screen, seen: 0 })
    }
}

/// Starts `motet` on a terminal of its own, waits until `wanted` is on the screen, and hangs up; the status with which it ends.
pub fn hung_up(motet: &Motet, wanted: &str) -> Result<ExitStatus, String> {
    let Terminal { mut controller, user } = Terminal::open()?;
    let end = || user.try_clone().map_err(|error| error.to_string());
    let mut command = motet.to_command();
    command.stdin(end()?).stdout(end()?).stderr(end()?).env("TERM", "vt100");
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    drop((command, user));
    let mut screen = Vec::new();
    while !String::from_utf8_lossy(&screen).contains(wanted) {
        let mut bytes = [0; 1024];
        let len = controller.read(&mut bytes).map_err(|error| {
            let _ = child.kill();
            format!("{error}: {}", String::from_utf8_lossy(&screen))
        })?;
        screen.extend_from_slice(&bytes[..len]);
    }
    drop(controller);
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    Err("it goes on though its terminal has hung up".into())
}

fn settings(terminal: &fs::File) -> Result<String, String> {
    rustix::termios::tcgetattr(terminal).map(|settings| format!("{settings:?}")).map_err(|error| error.to_string())
}

impl Session {
    /// As [`Terminal::settings`].
    pub fn settings(&self) -> Result<String, String> {
        settings(&self.keys)
    }

    /// Waits for its end, and for the last that is to be on the screen then.
    pub fn await_end(&mut self, last: &str) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let has_ended = !matches!(self.child.try_wait(), Ok(None));
            if has_ended && self.screen.so_far().contains(last) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("ended: {has_ended}, no {last:?}: {:?}", self.screen.so_far()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types bytes.
    pub fn type_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        std::io::Write::write_all(&mut self.keys, bytes).map_err(|error| error.to_string())
    }

    /// The user makes the terminal larger or smaller.
    pub fn resize(&self, rows: u16, columns: u16) -> Result<(), String> {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let told = || -> rustix::io::Result<()> {
            rustix::termios::tcsetwinsize(&self.keys, size)?;
            // The host's kernel tells only whom the terminal controls.
            rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), Signal::WINCH)
        };
        told().map_err(|error| error.to_string())
    }

    /// Types a line.
    pub fn type_line(&mut self, line: &str) -> Result<(), String> {
        self.type_bytes(line.as_bytes())?;
        self.type_bytes(b"\r")
    }

    /// Waits until this is on the screen, behind what was waited for before.
    pub fn expect(&mut self, text: &str) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            // How many carriage returns stand before a newline is the terminal's affair.
            let screen = self.screen.so_far().replace('\r', "");
            if let Some(at) = screen.get(self.seen..).and_then(|new| new.find(text)) {
                self.seen += at + text.len();
                return Ok(());
            }
            if Instant::now() > deadline || !matches!(self.child.try_wait(), Ok(None)) {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(format!("no {text:?} on the terminal:\n{screen:?}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// It ends with this status.
    pub fn finish(self, wanted: i32) -> Result<(), String> {
        self.finish_screen(wanted).map(drop)
    }

    /// The same; all that was on the screen.
    pub fn finish_screen(mut self, wanted: i32) -> Result<String, String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let status = self.child.wait().map_err(|error| error.to_string())?;
        let (fine, screen) = (status.code() == Some(wanted), self.screen.so_far());
        if fine { Ok(screen) } else { Err(format!("{status}, not {wanted}:\n{screen:?}")) }
    }
}

//! Programs of a distribution, as it packages them, that use the network: of every instruction set, and across.
//!
//! `tests/shown/packages` lists Debian's packages, which `scripts/setup.sh --shown` fetches; `tests/shown` has what each test runs.

use std::{fs, path::PathBuf, process::Command, sync::OnceLock, thread, time::Duration};

use crate::{
    libraries::run,
    outside::{fetch, free_port},
    process::{self, Ended, Motet},
    trial::{Trial, trial},
};

/// How long a test may take; where nothing else runs, none takes half a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("shown::redis_serves_clients_of_other_instruction_sets", || prints("redis.sh", REDIS)),
        trial("shown::socat_and_iperf3_talk_across_instruction_sets", || prints("streams.sh", STREAMS)),
        trial("shown::python_serves_asks_and_starts_processes", python),
        trial("shown::the_host_logs_in_by_ssh_and_copies_files", ssh),
        trial("shown::nginx_has_workers_on_two_islands", nginx),
        trial("shown::git_pushes_and_clones_by_http_and_ssh", || prints("git.sh", GIT)),
        trial("shown::tmux_has_a_shell_of_each_instruction_set", || prints("shells.sh", SHELLS)),
    ]
}

/// A machine with the programs; `files` of `tests/shown` are in `/in`.
fn machine(files: &[&str], options: &[&str]) -> Result<Motet, String> {
    static ROOT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let root = ROOT.get_or_init(fetched).clone()?;
    let mut motet = Motet::run(["--root"]).argument(root).limit(LIMIT);
    for file in files {
        motet = motet.argument("--in").argument(process::root().join("tests/shown").join(file));
    }
    Ok(motet.arguments(options))
}

/// The folder that is laid over a machine's root.
fn fetched() -> Result<PathBuf, String> {
    let folder = process::target().join("shown");
    let mut setup = Command::new(process::root().join("scripts/setup.sh"));
    setup.arg("--shown").arg(&folder).env("CARGO_TARGET_DIR", process::target());
    let ended = setup.output().map_err(text)?;
    if !ended.status.success() {
        let errors = String::from_utf8_lossy(&ended.stderr);
        return Err(format!("Debian's programs cannot be fetched, so nothing is tested: {errors}"));
    }
    Ok(folder.join("root"))
}

/// Runs a script of `tests/shown`, which prints that.
fn prints(script: &str, wanted: &str) -> Result<(), String> {
    let command = format!("sh /in/{script}");
    let ended = machine(&[script], &["--net", "user", "--", &command])?.wait();
    ended.expect_code(0)?.expect_output(wanted).map(drop)
}

fn python() -> Result<(), String> {
    let command = "/programs/amd64/python3.13 /in/python.py";
    let ended = machine(&["python.py"], &["--net", "user", "--", command])?.wait();
    ended.expect_code(0)?.expect_output(PYTHON).map(drop)
}

/// Starts a machine whose script says when it is ready, has `ask` ask it, and waits for its end.
fn served(motet: &Motet, ask: impl FnOnce() -> Result<(), String>) -> Result<Ended, String> {
    let mut running = motet.start();
    if !running.until(|running| running.output.so_far().contains("ready\n")) {
        return Err(running.wait().describe());
    }
    let asked = ask();
    if asked.is_err() {
        running.kill();
    }
    let ended = running.wait();
    asked.map_err(|error| format!("{error}\n{}", ended.describe()))?;
    Ok(ended)
}

/// Requests of the host at once.
const AT_ONCE: usize = 100;

fn nginx() -> Result<(), String> {
    let port = free_port()?;
    let (publish, machine_file) = (format!("{port}:80"), process::root().join("tests/shown/nginx.toml"));
    let options = ["--machine", &machine_file.display().to_string(), "--publish", &publish, "--", "sh /in/nginx.sh"];
    served(&machine(&["nginx.sh"], &options)?, || {
        let asked: Vec<_> = (0..AT_ONCE).map(|_| thread::spawn(move || fetch(port, "/version"))).collect();
        let answers: Vec<_> = asked.into_iter().map(|asked| asked.join().map_err(|_| "it panicked")).collect();
        let wrong: Vec<_> = answers.iter().filter(|answer| **answer != Ok(Ok(b"first\n".to_vec()))).collect();
        fetch(port, "/done")?;
        if wrong.is_empty() { Ok(()) } else { Err(format!("{} of {AT_ONCE} are wrong: {wrong:?}", wrong.len())) }
    })?
    .expect_code(0)?
    .expect_output(NGINX)
    .map(drop)
}

const NGINX: &str = "first
workers on cores 16 32 33
1 1050000
0 14
001000
001001
fetched by wget
HTTP/1.1 404 Not Found
ready
second
workers on cores 16 32 33
curl: 7
ended
";

const GIT: &str = "pushed over http
cloned over http
equal
cloned over ssh
pushed over ssh
second
first
pulled
186c7923c719e69bbec511e069e160f230b00e13
186c7923c719e69bbec511e069e160f230b00e13
186c7923c719e69bbec511e069e160f230b00e13
packed
count: 0
packs: 1
";

const REDIS: &str = "PONG
aarch64
\"test\"
\"SET\"
\"GET\"
\"LPUSH\"
42
Background saving started
rdb_last_bgsave_status:ok
connected_clients:1
blocked_clients:0
1
";

const STREAMS: &str = "CLIENT 1
CLIENT 2
CLIENT 3
margatad a
RELAYED
typed
1
3
1
";

const PYTHON: &str = "CPython (3, 13) x86_64
web 108889 True
asyncio 190
child hello aarch64
forkserver 40425
queue True None 0
dual ::ffff:127.0.0.1 1 30
passed by another descriptor
sendfile 108889
names motet ['127.0.0.1'] ['lo', 'eth0']
";

const SHELLS: &str = "pane 42 x86_64
pane Version AJM 93u+m 1
pane 42 aarch64 %2
80x10
80x10
80x10
pane 5 80
y 1
refused
";

fn ssh() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let (key, file, back) = (folder.path().join("key"), folder.path().join("file"), folder.path().join("back"));
    run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    let numbers: String = (1..=40_000).map(|number| format!("{number}\n")).collect();
    fs::write(&file, &numbers).map_err(text)?;
    let port = free_port()?;
    let (public, publish) = (key.with_extension("pub").display().to_string(), format!("{port}:22"));
    let options = ["--in", &public, "--publish", &publish, "--", "sh /in/sshd.sh"];
    // One connection for all.
    let (control, identity) = (folder.path().join("control"), key.display().to_string());
    let control = format!("ControlPath={}", control.display());
    let call = |program: &str| {
        let mut command = Command::new(program);
        for option in ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"] {
            command.args(["-o", option]);
        }
        command.args(["-F", "none", "-i", &identity, "-o", &format!("Port={port}")]);
        command.args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", &control]);
        command
    };
    let shell = |options: &[&str], line: &str| run(call("ssh").args(options).args(["root@127.0.0.1", line]));
    let expect = |got: String, wanted: &str| {
        if got == wanted { Ok(()) } else { Err(format!("{got:?}, not {wanted:?}")) }
    };
    served(&machine(&["sshd.sh"], &options)?, || {
        expect(
            shell(&[], "grep -q riscv64 /proc/$PPID/maps && id -u; echo $SSH_CONNECTION | cut -d ' ' -f 3,4")?,
            "0\n10.0.2.15 22\n",
        )?;
        expect(shell(&["-tt"], "test -t 0 && tty")?.trim_end().into(), "/dev/pts/0")?;
        run(call("scp").arg("-q").arg(&file).arg("root@127.0.0.1:/tmp/there"))?;
        run(call("scp").arg("-q").arg("root@127.0.0.1:/tmp/there").arg(&back))?;
        expect(fs::read_to_string(&back).map_err(text)?, &numbers)?;
        let status = call("ssh").args(["root@127.0.0.1", "exit 7"]).status().map_err(text)?;
        expect(format!("{:?}", status.code()), "Some(7)")?;
        // The machine may end before this does.
        let _ = shell(&[], "touch /tmp/done");
        Ok(())
    })?
    .expect_code(0)?
    .expect_output("ready\nended\n")
    .map(drop)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

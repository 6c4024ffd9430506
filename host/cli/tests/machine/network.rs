//! The network to the outside: devices of every instruction set, and what options and machine files say of it.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use crate::{
    process::Motet,
    trial::{Trial, trial},
};

/// The suite's own waits are long, for busy hosts.
const LIMIT: Duration = Duration::from_secs(900);

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("network::devices_of_every_isa_conform", conforms),
        trial("network::a_machine_without_one_has_no_device", without),
        trial("network::the_root_says_where_names_are_looked_up", files),
        trial("network::what_is_no_port_is_refused", ports),
        trial("network::a_port_in_use_is_named", port_in_use),
        trial("network::timed_machines_have_none", timed),
    ]
}

/// A machine of an island of each instruction set, all with a network or none.
fn machine(network: bool) -> Result<(tempfile::TempDir, PathBuf), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().join("machine.toml");
    let islands = ["x86_64", "aarch64", "riscv64"].map(|isa| {
        let rest = if network { "network = true\n" } else { "" };
        format!("[[island]]\nname = \"{isa}\"\nisa = \"{isa}\"\ncores = 2\n{rest}")
    });
    let text = format!("[pool]\nsize = \"256MiB\"\n{}", islands.concat());
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok((folder, path))
}

const CASES: [&str; 4] =
    ["network_is_taken_once", "network_answers", "network_interrupts_user_mode", "network_has_room_again"];

fn conforms() -> Result<(), String> {
    let (_folder, path) = machine(true)?;
    let ended = Motet::default()
        .arguments(["conformance".as_ref(), "--machine".as_ref(), path.as_os_str()])
        .limit(LIMIT)
        .wait();
    let lines = ["x86_64", "aarch64", "riscv64"]
        .iter()
        .flat_map(|isa| CASES.map(|case| format!("[{isa}] conformance: {case} ok")));
    let lines: Vec<String> = lines.collect();
    ended.expect_code(0)?.expect_errors(&lines.iter().map(String::as_str).collect::<Vec<_>>()).map(drop)
}

/// `--net none` takes the devices away that the machine file has.
fn without() -> Result<(), String> {
    let (_folder, path) = machine(true)?;
    let arguments = ["conformance".as_ref(), "--net".as_ref(), "none".as_ref(), "--machine".as_ref(), path.as_os_str()];
    let ended = Motet::default().arguments(arguments).limit(LIMIT).wait();
    ended.expect_code(0)?;
    if ended.errors.contains("network") { Err(ended.describe()) } else { Ok(()) }
}

fn files() -> Result<(), String> {
    let show = "cat /etc/resolv.conf /etc/hosts 2>/dev/null; echo .";
    let run = |options: &[&str]| Motet::run(options).arguments(["--", show]).wait();
    let both = "nameserver 10.0.2.3\n127.0.0.1 localhost\n10.0.2.15 motet\n.\n";
    run(&["--net", "user"]).expect_code(0)?.expect_output(both)?;
    run(&[]).expect_code(0)?.expect_output(".\n")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let etc = folder.path().join("etc");
    fs::create_dir(&etc)
        .and_then(|()| fs::write(etc.join("resolv.conf"), "own\n"))
        .map_err(|error| error.to_string())?;
    let root = folder.path().display().to_string();
    let own = "own\n127.0.0.1 localhost\n10.0.2.15 motet\n.\n";
    run(&["--publish", &format!("{}:80", port(&listen()?)?), "--root", &root])
        .expect_code(0)?
        .expect_output(own)
        .map(drop)
}

fn ports() -> Result<(), String> {
    let run = |options: &[&str]| Motet::run(options).arguments(["--", "true"]).wait();
    for (ports, why) in [
        ("0:80", "there is no port 0; ports are 1 to 65535"),
        ("8080:65536", "there is no port 65536; ports are 1 to 65535"),
        ("80", "HOST_PORT:GUEST_PORT"),
        ("8080:80/sctp", "unknown protocol \"sctp\"; known: tcp, udp"),
    ] {
        run(&["--publish", ports]).expect_code(64)?.expect_errors(&["--publish", why])?;
    }
    let twice = run(&["--publish", "8080:80", "--publish", "8080:81"]);
    twice.expect_code(64)?.expect_errors(&["port 8080/tcp of the host is there twice"])?;
    let without = run(&["--net", "none", "--publish", "8080:80"]);
    without.expect_code(64)?.expect_errors(&["--publish needs a network"])?;
    run(&["--net", "tap"]).expect_code(64)?.expect_errors(&["tap", "none, user"]).map(drop)
}

fn port_in_use() -> Result<(), String> {
    let taken = listen()?;
    let port = port(&taken)?;
    let publish = format!("{port}:80");
    let ended = Motet::run(["--publish", &publish, "--", "true"]).wait();
    let why = format!("--publish {publish}/tcp: port {port} of this host: another program uses it");
    ended.expect_code(69)?.expect_errors(&[&why])?;
    // Somebody takes it at the last moment.
    let rule = format!("x86=-netdev user,id=other,hostfwd=tcp:127.0.0.1:{port}-:80");
    let ended = Motet::run(["--qemu", &rule, "--", "true"]).wait();
    let why = "--publish: a port of this host cannot be had any more: ";
    ended.expect_code(69)?.expect_errors(&[why, &format!("127.0.0.1:{port}-:80")]).map(drop)
}

/// A listener on a port of this host that was free.
fn listen() -> Result<TcpListener, String> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())
}

fn port(listener: &TcpListener) -> Result<u16, String> {
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}

fn timed() -> Result<(), String> {
    let (_folder, path) = machine(true)?;
    let path = path.display().to_string();
    let run = |options: &[&str]| {
        Motet::run(["--timed", "--machine", &path].iter().chain(options)).argument("--").argument("true").wait()
    };
    let none = "a timed machine has no network";
    run(&["--net", "user"]).expect_code(64)?.expect_errors(&[none])?;
    run(&["--publish", "8080:80"]).expect_code(64)?.expect_errors(&[none])?;
    run(&[]).expect_code(64)?.expect_errors(&[none, "--net none"])?;
    run(&["--net", "none"]).expect_code(0).map(drop)
}

//! Programs of every instruction set and the outside: they fetch from a server of this host, and serve ports that are published there.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::{
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// How long the machine's server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);
/// More than a connection's buffers and windows.
const FILE_BYTES: usize = 700_000;

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("outside::programs_of_every_isa_fetch_a_file", fetches),
        trial("outside::programs_of_every_isa_serve_a_published_port", serves),
        trial("outside::many_connect_at_once", many),
        trial("outside::nobody_at_the_other_end_is_an_error", refused),
    ]
}

/// Bytes in which what is lost, doubled or exchanged shows.
fn file() -> Vec<u8> {
    (0..FILE_BYTES / 8).flat_map(|number| format!("{number:07}\n").into_bytes()).collect()
}

fn fetches() -> Result<(), String> {
    let port = serve_files(file())?;
    let command =
        format!("for isa in {}; do on $isa wget -q -O - http://10.0.2.2:{port}/file | md5sum; done", ISAS.join(" "));
    let ended = Motet::run(["--net", "user", "--", &command]).wait();
    let line = sum(&file())?;
    ended.expect_code(0)?.expect_output(&line.repeat(ISAS.len())).map(drop)
}

fn serves() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let path = folder.path().join("file");
    fs::write(&path, file()).map_err(text)?;
    let path = path.display().to_string();
    for isa in ISAS {
        let port = free_port()?;
        let publish = format!("{port}:80");
        let command = format!("on {isa} httpd -f -p 80 -h /in");
        let mut running = Motet::run(["--publish", &publish, "--in", &path, "--", &command]).start();
        let start = Instant::now();
        // QEMU takes connections before the machine listens, and ends them then.
        let answer = loop {
            match fetch(port, "/file") {
                Ok(body) => break Ok(body),
                Err(error) if start.elapsed() > PATIENCE || !running.goes_on() => break Err(error),
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        };
        // Another connection, while the server runs on.
        let again = fetch(port, "/file");
        running.kill();
        let ended = running.wait();
        if answer.as_ref() != Ok(&file()) || again.as_ref() != Ok(&file()) {
            let why = answer.and(again).map_or_else(|error| error, |body| format!("{} bytes that differ", body.len()));
            return Err(format!("{isa}: {why}\n{}", ended.describe()));
        }
    }
    Ok(())
}

/// Connections that are made at once.
const MANY: usize = 200;

/// All are answered, though nobody tries twice: without room for them, most would be dropped before QEMU has taken them.
fn many() -> Result<(), String> {
    let port = free_port()?;
    let publish = format!("{port}:80");
    let command = "echo hello >/tmp/hello; nc -ll -p 80 -e cat /tmp/hello";
    let mut running = Motet::run(["--publish", &publish, "--", command]).start();
    let start = Instant::now();
    while ask(port).is_err() && start.elapsed() < PATIENCE && running.goes_on() {
        thread::sleep(Duration::from_millis(100));
    }
    let clients: Vec<_> = (0..MANY).map(|_| thread::spawn(move || ask(port))).collect();
    let answers: Vec<_> = clients.into_iter().map(|client| client.join().map_err(|_| "it panicked")).collect();
    running.kill();
    let ended = running.wait();
    let wrong: Vec<_> = answers.iter().filter(|answer| **answer != Ok(Ok("hello\n".into()))).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("{} are wrong: {wrong:?}\n{}", wrong.len(), ended.describe())) }
}

/// What a server says of itself.
fn ask(port: u16) -> Result<String, String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let mut said = String::new();
    stream.read_to_string(&mut said).map_err(text)?;
    if said.is_empty() { Err("nothing".into()) } else { Ok(said) }
}

fn refused() -> Result<(), String> {
    let port = free_port()?;
    let command = format!("wget -q -O - http://10.0.2.2:{port}/ && echo fetched; echo $?");
    let ended = Motet::run(["--net", "user", "--", &command]).wait();
    ended.expect_code(0)?.expect_output("1\n")?.expect_errors(&["refused"]).map(drop)
}

/// A server of this host that gives the same file to everybody who asks, by HTTP 1.0, until the test ends; its port.
fn serve_files(body: Vec<u8>) -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    let port = listener.local_addr().map_err(text)?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who goes away meanwhile fails by itself.
            let _ = answer(&stream, &body);
        }
    });
    Ok(port)
}

fn answer(mut stream: &TcpStream, body: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)
}

/// What a server in the machine, whose port is published, has at a path.
pub fn fetch(port: u16, path: &str) -> Result<Vec<u8>, String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").map_err(text)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(text)?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("no answer")?;
    if !answer.starts_with(b"HTTP/1.0 200") && !answer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&answer[..head]).into_owned());
    }
    Ok(answer.split_off(head + 4))
}

/// A port of this host that was free.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(text)?;
    listener.local_addr().map(|address| address.port()).map_err(text)
}

/// What `md5sum` says of the bytes.
fn sum(bytes: &[u8]) -> Result<String, String> {
    let mut child = std::process::Command::new("md5sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(text)?;
    child.stdin.take().ok_or("no input")?.write_all(bytes).map_err(text)?;
    let output = child.wait_with_output().map_err(text)?;
    String::from_utf8(output.stdout).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

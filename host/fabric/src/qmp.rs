//! QMP, QEMU's control protocol: JSON lines over a socket. Only what Motet asks.

use std::{
    io::{BufRead, BufReader, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    time::Duration,
};

use serde_json::{Value, json};

use motet_error::{Context, Result};

/// How long a QEMU that is alive may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Our end of one QEMU's control socket.
#[derive(Debug)]
pub struct Qmp {
    stream: BufReader<UnixStream>,
    ready: bool,
}

impl Qmp {
    /// A socket pair: our end, and the one for QEMU.
    ///
    /// # Errors
    /// The host refuses sockets.
    pub fn pair() -> Result<(Self, OwnedFd)> {
        let (ours, qemus) = UnixStream::pair().host("a socket")?;
        ours.set_read_timeout(Some(ANSWER_WITHIN)).host("a socket")?;
        ours.set_write_timeout(Some(ANSWER_WITHIN)).host("a socket")?;
        Ok((Self { stream: BufReader::new(ours), ready: false }, qemus.into()))
    }

    /// The socket, readable when QEMU says something.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }

    /// Runs a command of the human monitor; `None` when QEMU does not answer.
    pub fn monitor(&mut self, command: &str) -> Option<String> {
        let answer = self.execute("human-monitor-command", json!({ "command-line": command }))?;
        answer.as_str().map(str::to_owned)
    }

    /// Whether a model of `-cpu` has each of these features, without changes; `None` when QEMU does not answer, or knows no such model.
    pub fn features_of(&mut self, model: &str, features: &[&str]) -> Option<Vec<bool>> {
        let arguments = json!({ "type": "full", "model": { "name": model } });
        let answer = self.execute("query-cpu-model-expansion", arguments)?;
        let properties = answer.get("model")?.get("props")?;
        features.iter().map(|feature| properties.get(feature)?.as_bool()).collect()
    }

    /// Asks QEMU to end. It does so after the answer; plugins get their chance to write what they collected.
    pub fn quit(&mut self) -> bool {
        self.execute("quit", json!({})).is_some()
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Option<Value> {
        if !self.ready {
            let greeting = self.receive()?;
            greeting.get("QMP")?;
            self.ready = true;
            self.execute("qmp_capabilities", json!({}))?;
        }
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).ok()?;
        loop {
            let mut message = self.receive()?;
            if let Some(answer) = message.get_mut("return") {
                return Some(answer.take());
            }
            if message.get("error").is_some() {
                return None;
            }
        }
    }

    fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(n) if n > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiates_once_and_skips_events() {
        let (mut ours, theirs) = Qmp::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut stream = BufReader::new(UnixStream::from(theirs));
            let mut commands = Vec::new();
            stream.get_mut().write_all(b"{\"QMP\": {\"version\": {}}}\r\n").unwrap();
            for answer in ["{\"return\": {}}", "{\"event\": \"STOP\"}\r\n{\"return\": \"PC=1\"}", "{\"return\": {}}"] {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                commands.push(serde_json::from_str::<Value>(&line).unwrap()["execute"].as_str().unwrap().to_owned());
                stream.get_mut().write_all(format!("{answer}\r\n").as_bytes()).unwrap();
            }
            commands
        });
        assert_eq!(ours.monitor("info registers").as_deref(), Some("PC=1"));
        assert!(ours.quit());
        assert_eq!(qemu.join().unwrap(), ["qmp_capabilities", "human-monitor-command", "quit"]);
        assert!(!ours.quit(), "a closed socket is no answer");
    }
}

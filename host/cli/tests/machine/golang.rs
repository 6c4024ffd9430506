//! Programs of the Go runtime, which no C library stands between and the kernel: one for each instruction set.

use std::{path::Path, process::Command};

use crate::{
    libraries::is_of_today,
    process::{self, Motet},
    trial::{Trial, trial},
};

/// Instruction sets as Go names them.
const ARCHITECTURES: [&str; 3] = ["amd64", "arm64", "riscv64"];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let test = trial("golang::programs_of_all_instruction_sets_work_together", together);
    vec![
        if is_of_today("go") { test } else { test.long() },
        // Go compiles its servers for a minute.
        trial("golang::an_http_server_and_clients_of_other_instruction_sets_work_together", http).long(),
    ]
}

fn together() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = folder.path().join("go");
    for architecture in ARCHITECTURES {
        compile("main.go", architecture, &programs.join(architecture))?;
    }
    let mut command = String::from("/in/go/amd64 numbers 300 | /in/go/arm64 square | /in/go/riscv64 sum");
    let mut wanted = String::from("9045050\n");
    for (index, architecture) in ARCHITECTURES.into_iter().enumerate() {
        let next = ARCHITECTURES[(index + 1) % ARCHITECTURES.len()];
        command.push_str(&format!("; /in/go/{architecture} all /in/go/{next}"));
        wanted.push_str(&format!(
            "counted 5000\n\
             recovered: runtime error: invalid memory address or nil pointer dereference\n\
             ticks true late true\n\
             child \"1\\n4\\n9\\n\" <nil>\n\
             child exit status 3\n\
             answers [0 1 4 9 16]\n\
             {architecture} has done all\n"
        ));
    }
    let ended = Motet::run(["--in".as_ref(), programs.as_os_str()]).arguments(["--", &command]).wait();
    ended.expect_code(0)?.expect_output(&wanted).map(drop)
}

/// A server of AArch64 and clients of the others: 100 requests at once, twice, and some that are cancelled.
fn http() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let programs = folder.path().join("go");
    for architecture in ARCHITECTURES {
        compile("http/main.go", architecture, &programs.join(architecture))?;
    }
    let ask = ["amd64", "riscv64"].map(|architecture| {
        format!(
            "/in/go/arm64 serve :8000 >/tmp/served & /in/go/{architecture} ask 127.0.0.1:8000; wait; cat /tmp/served"
        )
    });
    let wanted = "answers 100\n\
                  answers 100\n\
                  lines 5\n\
                  given up 10\n\
                  timeout true\n\
                  seen true\n\
                  end true <nil>\n\
                  served: true <nil>\n";
    let command = ask.join("; ");
    let ended = Motet::run(["--in".as_ref(), programs.as_os_str()]).arguments(["--", &command]).wait();
    ended.expect_code(0)?.expect_output(&wanted.repeat(ask.len())).map(drop)
}

/// Compiles a program of `tests/guest/go`, with nothing but Go's own library.
fn compile(source: &str, architecture: &str, to: &Path) -> Result<(), String> {
    let source = process::root().join("tests/guest/go").join(source);
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(to).arg(source);
    go.env("GOOS", "linux").env("GOARCH", architecture).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    go.env("GOTOOLCHAIN", "local").env("GOCACHE", process::target().join("tmp/go-cache"));
    let ended = go.output().map_err(|error| format!("go, which ./motet test installs: {error}"))?;
    if ended.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&ended.stderr).into_owned()) }
}

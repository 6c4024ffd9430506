//! `motet package`: the archive, and what is unpacked of it, which runs where neither the source nor Rust is.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, OnceLock},
};

use crate::{
    process::{Collected, Ended, Motet, children_of, root, target},
    trial::{Trial, trial},
};

type Test = fn(&Unpacked) -> Result<(), String>;
type Shared = Arc<OnceLock<Result<Unpacked, String>>>;

/// All of them. One archive is for all.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test, bool); 6] = [
        ("package::the_same_commit_makes_the_same_bytes", same_bytes, false),
        ("package::it_has_what_users_run_and_read", contents, false),
        ("package::nothing_in_it_names_folders_of_this_computer", unnamed, false),
        ("package::an_installation_runs_where_the_source_is_not", runs, true),
        ("package::an_installation_shows_machines_and_computes_bounds", shows, true),
        ("package::what_an_installation_cannot_do_says_what_to_do", refuses, true),
    ];
    let shared = Shared::default();
    let trials = tests.into_iter().map(|(name, test, hides)| {
        let shared = shared.clone();
        let trial = trial(name, move || test(shared.get_or_init(Unpacked::new).as_ref().map_err(String::clone)?));
        let trial = trial.sharing("package");
        if hides { trial.for_the_superuser().left_out(cannot_hide()) } else { trial }
    });
    trials.collect()
}

/// Why the source cannot be hidden from a program, if it cannot.
fn cannot_hide() -> Option<String> {
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    let works = tried.is_ok_and(|output| output.status.success());
    (!works).then(|| "mounts of one's own are not allowed here (a container needs CAP_SYS_ADMIN)".into())
}

/// An archive, and what it has.
struct Unpacked {
    folder: tempfile::TempDir,
}

impl Unpacked {
    fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let unpacked = Self { folder };
        package(&unpacked.archive())?;
        fs::create_dir(unpacked.tree()).map_err(|error| error.to_string())?;
        said(Command::new("tar").arg("-xzf").arg(unpacked.archive()).arg("-C").arg(unpacked.tree()))?;
        fs::create_dir(unpacked.tree().join("home")).map_err(|error| error.to_string())?;
        Ok(unpacked)
    }

    fn archive(&self) -> PathBuf {
        self.folder.path().join("motet.tar.gz")
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    /// The installed program, below `/mnt`, in an environment that has nothing but `path` and a home; what stands for cargo's is there. Neither the
    /// source nor what is built, nor Rust of a user, can be seen.
    fn motet_in(&self, path: &str, arguments: &[&str]) -> Command {
        let hidden = [root(), target()].map(|folder| folder.display().to_string());
        let home = std::env::var("HOME").unwrap_or_default();
        let rust = [".cargo", ".rustup"].map(|name| format!("{home}/{name}"));
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", HIDE, "sh"]).arg(self.tree());
        command.arg(hidden.iter().chain(&rust).map(String::as_str).collect::<Vec<_>>().join("\n"));
        command.args(["env", "-i", "HOME=/mnt/home", "CARGO_TARGET_DIR=/nowhere"]).arg(format!("PATH={path}"));
        command
            .args(["/usr/bin/timeout", "--foreground", "300", "/mnt/usr/bin/motet"])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    fn motet(&self, arguments: &[&str]) -> Result<Ended, String> {
        ended(&mut self.motet_in("/usr/bin:/bin", arguments))
    }
}

/// Shows the tree at /mnt and nothing where the folders were, and runs the rest.
const HIDE: &str = "\
set -e
mount --bind \"$1\" /mnt
echo \"$2\" | while read -r folder; do [ ! -d \"$folder\" ] || mount -t tmpfs tmpfs \"$folder\"; done
shift 2
cd /mnt/home
exec \"$@\"";

fn package(output: &Path) -> Result<(), String> {
    let packed = Motet::default().arguments(["package", "--output"]).argument(output).wait();
    packed.expect_code(0)?.expect_output(&format!("{}\n", output.display())).map(drop)
}

fn said(command: &mut Command) -> Result<String, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if status.success() {
        Ok(text(&stdout))
    } else {
        Err(format!("{command:?}: {status}\n{}{}", text(&stdout), text(&stderr)))
    }
}

fn ended(command: &mut Command) -> Result<Ended, String> {
    let started = std::time::Instant::now();
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended {
        output: text(&stdout),
        errors: text(&stderr),
        bytes: stdout,
        status: Some(status),
        took: started.elapsed(),
        state: String::new(),
    })
}

fn same_bytes(unpacked: &Unpacked) -> Result<(), String> {
    let again = unpacked.folder.path().join("again.tar.gz");
    package(&again)?;
    let read = |path: &Path| fs::read(path).map_err(|error| error.to_string());
    if read(&unpacked.archive())? == read(&again)? { Ok(()) } else { Err("a second archive has other bytes".into()) }
}

/// Some of each kind.
const FILES: [&str; 16] = [
    "usr/lib/motet/release/motet",
    "usr/lib/motet/release/motet-top",
    "usr/lib/motet/release/motet-sweep",
    "usr/lib/motet/release/libmotet_timing_plugin.so",
    "usr/lib/motet/riscv64imac-unknown-none-elf/kernel/motet-firmware",
    "usr/lib/motet/userland/aarch64/busybox.copyright",
    "usr/lib/motet/versions",
    "usr/share/motet/machines/default.toml",
    "usr/share/motet/examples/lab/check",
    "usr/share/doc/motet/LICENSE-MIT",
    "usr/share/doc/motet/THIRD-PARTY",
    "usr/share/doc/motet/docs/releases/0.1.0.md",
    "usr/share/man/man1/motet-run.1",
    "usr/share/bash-completion/completions/motet",
    "usr/share/zsh/vendor-completions/_motet",
    "usr/share/fish/vendor_completions.d/motet.fish",
];

fn contents(unpacked: &Unpacked) -> Result<(), String> {
    let tree = unpacked.tree();
    if let Some(missing) = FILES.iter().find(|path| !tree.join(path).is_file()) {
        return Err(format!("there is no {missing}"));
    }
    let listing = said(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(unpacked.archive()))?;
    let modes = ["drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"];
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !modes.contains(&words[0]) || words[1] != "0/0" || words[5].split('/').next() != Some("usr") {
            return Err(format!("an odd entry: {line}"));
        }
    }
    let program = fs::metadata(tree.join(FILES[0])).map_err(|error| error.to_string())?;
    if program.permissions().mode() & 0o777 != 0o755 {
        return Err("the program cannot be run by all".into());
    }
    said(Command::new("bash").arg("-n").arg(tree.join(FILES[13])))?;
    let page = fs::read_to_string(tree.join(FILES[12])).map_err(|error| error.to_string())?;
    if page.contains("./motet") || !page.contains("motet run \\-\\-") {
        return Err(format!("the manual does not call `motet` as users do:\n{page}"));
    }
    if let Ok(manual) = Command::new("man").args(["--warnings", "-E", "UTF-8", "-l"]).arg(tree.join(FILES[12])).output()
        && !(manual.status.success() && manual.stderr.is_empty())
    {
        return Err(format!("man does not like its page: {}", String::from_utf8_lossy(&manual.stderr)));
    }
    let licenses = fs::read_to_string(tree.join(FILES[10])).map_err(|error| error.to_string())?;
    match ["\nclap ", "\nsmoltcp ", "\nratatui ", "\nrustsbi ", "\nvm-fdt ", "Permission is hereby granted", "busybox"]
        .iter()
        .find(|part| !licenses.contains(**part))
    {
        None => Ok(()),
        Some(part) => Err(format!("THIRD-PARTY has no {part:?}")),
    }
}

fn unnamed(unpacked: &Unpacked) -> Result<(), String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let (root, target) = (root().display().to_string(), target().display().to_string());
    let naming = |texts: &[&str]| -> Result<String, String> {
        let mut grep = Command::new("grep");
        for text in texts {
            grep.args(["-e", text]);
        }
        let found = grep.args(["-rlF"]).arg(unpacked.tree().join("usr")).output().map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&found.stdout).into_owned())
    };
    // Places in source are still told.
    if !naming(&["cargo/registry/src"])?.contains("/release/motet\n") {
        return Err("no program tells places in its source: what is looked for?".into());
    }
    let found = naming(&[&root, &target, &format!("{home}/.cargo"), &format!("{home}/.rustup")])?;
    if found.is_empty() { Ok(()) } else { Err(format!("these name folders of this computer:\n{found}")) }
}

fn runs(unpacked: &Unpacked) -> Result<(), String> {
    let everywhere = "uname -m; on aarch64 uname -m | on riscv64 cat; on riscv64 uname -m; cat /etc/extra; exit 7";
    let extra = unpacked.tree().join("home/root/etc");
    fs::create_dir_all(&extra)
        .and_then(|()| fs::write(extra.join("extra"), "laid over\n"))
        .map_err(|error| error.to_string())?;
    let ran = unpacked.motet(&["run", "--root", "root", "--", everywhere])?;
    ran.expect_code(7)?.expect_output("x86_64\naarch64\nriscv64\nlaid over\n")?;
    // A machine that Motet comes with, from another folder; the plugin; Motet's own firmware.
    let timed = ["run", "--quiet", "--timed", "--machine", "machines/two-riscv.toml", "--", "uname -m"];
    unpacked.motet(&timed)?.expect_code(0)?.expect_output("riscv64\n")?;
    unpacked
        .motet(&["run", "--quiet", "--machine", "machines/ftm-firmware.toml", "--", "echo up"])?
        .expect_output("up\n")
        .map(drop)
}

fn shows(unpacked: &Unpacked) -> Result<(), String> {
    let mut running = unpacked.motet_in("/usr/bin:/bin", &["run", "--", "echo started; cat /dev/zero >/dev/null"]);
    let mut running =
        running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
    let output = Collected::new(running.stdout.take().expect("piped"));
    while !output.so_far().contains("started") && !output.has_ended() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Other tests' machines run beside it.
    let run = children_of(running.id()).first().map_or_else(String::new, u32::to_string);
    let state = unpacked.motet(&["state", "--run", &run]);
    let top = unpacked.motet(&["top", "--run", &run, "--batch", "--interval", "0.2"]);
    // `timeout` hands it on, and the machine ends.
    if let Ok(id) = crate::process::pid(running.id()) {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    let _ = running.wait();
    let (state, top) = (state?, top?);
    state.expect_code(0)?;
    top.expect_code(0)?;
    if !state.output.contains("island 2: ") || !top.output.contains("riscv") {
        return Err(format!("{}\n{}", state.describe(), top.describe()));
    }
    let bounds = unpacked.motet(&["wcet", "--machine", "machines/embedded.toml"])?;
    let told = bounds.expect_code(0)?.output.lines().count();
    if told < 3 { Err(bounds.describe()) } else { Ok(()) }
}

fn refuses(unpacked: &Unpacked) -> Result<(), String> {
    let version = unpacked.motet(&["--version"])?;
    let commit = said(Command::new("git").arg("-C").arg(root()).args(["rev-parse", "HEAD"]))?;
    if !version.expect_code(0)?.output.starts_with(&format!("motet 0.1.0 (commit {}", commit.trim())) {
        return Err(version.describe());
    }
    for words in [&["build"][..], &["test"], &["bench", "boot"], &["guests"], &["docs"], &["package"]] {
        let refused = unpacked.motet(words)?;
        refused.expect_code(69)?.expect_errors(&[
            "works on Motet's source",
            commit.trim(),
            &format!("`./motet {}`", words[0]),
        ])?;
    }
    let help = unpacked.motet(&["--help"])?;
    if help.expect_code(0)?.output.contains("./motet") || !help.output.contains("  motet run -- ") {
        return Err(help.describe());
    }
    let compilers = unpacked.motet(&["cc", "--print-bin-dir"])?;
    compilers.expect_code(0)?.expect_output("/mnt/usr/share/motet/host/toolchain/bin\n")?;
    let mut without = unpacked.motet_in("/nowhere", &["run", "--", "true"]);
    // What starts it is found here.
    ended(&mut without)?.expect_code(69)?.expect_errors(&["qemu-system-", "10.0 or later", "apt install"]).map(drop)
}

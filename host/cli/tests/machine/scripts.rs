//! The scripts of `tests/guest`: many in one boot, each compared with the same script on the host or with a file.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use similar::TextDiff;

use crate::process::{self, Motet, Running};

/// A script that shows nothing for so long hangs; the driver kills it before.
const SILENCE_MAX: Duration = Duration::from_secs(700);
/// A boot may take this long for all of its scripts.
const BOOT_LIMIT: Duration = Duration::from_secs(3000);
/// What scripts that share a boot have left behind, as if it were one more script: it should print nothing.
pub const NOTHING_LEFT: &str = "nothing_left";
/// Stands in front of what the driver says about a script.
const MARK: &str = "\u{1}motet-test ";

/// One script.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its file's name without `.sh`.
    pub name: String,
    path: PathBuf,
}

/// What a script did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Did {
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
    /// Exit status.
    pub status: i32,
}

/// What became of every script of a group of boots; the text says why one has no result.
pub type Results = BTreeMap<String, Result<Did, String>>;

/// The scripts of a folder below `tests/guest`, by name.
pub fn in_folder(folder: &str) -> Vec<Script> {
    let folder = process::root().join("tests/guest").join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.flatten().map(|entry| entry.path());
    let scripts = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sh"));
    let mut scripts: Vec<Script> = scripts
        .map(|path| Script { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), path })
        .collect();
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    scripts
}

/// The text that scripts work on, `$TEXT`.
pub fn text() -> PathBuf {
    process::root().join("LICENSE-APACHE")
}

impl Script {
    /// The script in a file.
    pub fn new(name: &str, path: PathBuf) -> Self {
        Self { name: name.to_owned(), path }
    }

    /// What it does on the host, where `on ISA COMMAND` is COMMAND.
    ///
    /// # Errors
    /// The host cannot run it.
    pub fn on_host(&self, busybox: &Path) -> Result<Did, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let bin = folder.path().join("bin");
        let work = folder.path().join(&self.name);
        let prepare = || -> std::io::Result<()> {
            fs::create_dir(&bin)?;
            fs::create_dir(&work)?;
            fs::copy(&self.path, work.join("script.sh"))?;
            let applets = Command::new(busybox).arg("--list").output()?.stdout;
            for applet in String::from_utf8_lossy(&applets).lines() {
                std::os::unix::fs::symlink(busybox, bin.join(applet))?;
            }
            let on = bin.join("on");
            fs::write(&on, format!("#!{} sh\nshift\nexec \"$@\"\n", bin.join("busybox").display()))?;
            fs::set_permissions(&on, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        };
        prepare().map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let mut shell = Command::new("timeout");
        shell.arg("600").arg(bin.join("sh")).arg("./script.sh").current_dir(&work);
        shell.env_clear().env("PATH", &bin).env("TEXT", text()).env("HOME", "/root").env("USER", "root");
        shell.env("SHELL", "/bin/sh").env("TERM", "dumb").stdin(Stdio::null());
        let ended = shell.output().map_err(|error| format!("{}: {error}", busybox.display()))?;
        Ok(Did {
            output: String::from_utf8_lossy(&ended.stdout).into_owned(),
            errors: String::from_utf8_lossy(&ended.stderr).into_owned(),
            status: ended.status.code().unwrap_or(-1),
        })
    }

    /// What its `.out` file beside it says that it does: that output, no errors, status 0.
    ///
    /// # Errors
    /// There is no such file.
    pub fn as_written(&self) -> Result<Did, String> {
        let path = self.path.with_extension("out");
        let output = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Did { output, errors: String::new(), status: 0 })
    }
}

/// Checks that scripts that shared a boot have left nothing behind: no process, no file, no frame.
///
/// # Errors
/// What is left of which.
pub fn nothing_is_left(results: &Results) -> Result<(), String> {
    let behind = results.get(NOTHING_LEFT).ok_or("the machine did not survive its scripts")?;
    match &behind.as_ref().map_err(String::clone)?.output {
        left if left.is_empty() => Ok(()),
        left => Err(left.clone()),
    }
}

/// Compares what a script did with what it should do.
///
/// # Errors
/// The differences.
pub fn compare(wanted: &Did, got: &Did) -> Result<(), String> {
    if wanted == got {
        return Ok(());
    }
    let mut differences = String::new();
    for (what, wanted, got) in [("output", &wanted.output, &got.output), ("errors", &wanted.errors, &got.errors)] {
        if wanted != got {
            let lines = TextDiff::from_lines(wanted.as_str(), got.as_str());
            differences.push_str(&format!("{}", lines.unified_diff().header(&format!("{what} wanted"), what)));
        }
    }
    if wanted.status != got.status {
        differences.push_str(&format!("exit status {}, not {}\n", got.status, wanted.status));
    }
    Err(differences)
}

/// Runs all scripts on a machine, in one boot if none of them stops the machine; the others get another boot.
pub fn on_machine(scripts: &[Script], machine: &[&str]) -> Results {
    let mut results = Results::new();
    let mut left = scripts;
    while !left.is_empty() {
        let (mut done, why) = one_boot(left, machine);
        let behind = done.remove(NOTHING_LEFT);
        let count = done.len();
        results.append(&mut done);
        // If several boots were needed, the last one counts.
        results.extend(behind.map(|behind| (NOTHING_LEFT.to_owned(), behind)));
        left = &left[count..];
        if let Some((stopped, rest)) = left.split_first() {
            results.insert(stopped.name.clone(), Err(format!("the machine did not survive the script\n{why}")));
            left = rest;
        }
    }
    results
}

/// The results of the first scripts, up to one that stops the machine, and how the boot ended.
fn one_boot(scripts: &[Script], machine: &[&str]) -> (Results, String) {
    let folder = tempfile::tempdir().expect("a folder for the scripts");
    let guest = folder.path().join("guest");
    fs::create_dir(&guest).expect("a folder");
    for script in scripts {
        fs::copy(&script.path, guest.join(format!("{}.sh", script.name))).expect("a copy of a script");
    }
    let names: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
    fs::write(guest.join("driver"), DRIVER).expect("the driver");
    let command = format!("sh /in/guest/driver {}", names.join(" "));
    let motet = Motet::run(["--in".as_ref(), guest.as_os_str(), "--in".as_ref(), text().as_os_str()])
        .arguments(machine)
        .arguments(["--", &command])
        .limit(BOOT_LIMIT);
    let mut running = motet.start();
    watch(&mut running);
    let ended = running.wait();
    let results = parse(&ended.bytes);
    (results, ended.describe())
}

/// Waits until the machine ends, or has shown nothing for too long.
fn watch(running: &mut Running) {
    let mut shown = (0, Instant::now());
    while running.goes_on() {
        let len = running.output.len();
        if len != shown.0 {
            shown = (len, Instant::now());
        }
        if shown.1.elapsed() > SILENCE_MAX {
            running.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs each script in a folder of its own. Results go to standard output at once, so that those of the first scripts
/// are there when a later one stops the machine. After each, processes, files and memory (free frames, and those kept for the kernel's
/// objects) must soon be what they were before the first one; what is not is the output of [`NOTHING_LEFT`].
const DRIVER: &str = r#"
export TEXT=/in/LICENSE-APACHE
mkdir /tmp/results
count() {
    set -- /proc/[0-9]*
    processes=$# memory=0
    while read -r what kib _; do
        case $what in MemFree: | Slab:) memory=$((memory + kib)) ;; esac
    done </proc/meminfo
}
list() { find / \( -path /proc -o -path /sys -o -path /tmp/results \) -prune -o -print | sort; }
left() {
    [ "$(list | md5sum)" = "$files" ] || { echo "$1: files"; list; }
    looks=0
    while count; [ $processes -gt $processes_before ] || [ $memory -lt $memory_before ]; do
        looks=$((looks + 1))
        [ $looks -lt 1000 ] || { echo "$1: $processes processes ($processes_before), $memory KiB ($memory_before)"; ps; break; }
        usleep 10000
    done
}
files=$(list | md5sum)
count
# The shell's own memory may grow.
processes_before=$processes memory_before=$((memory - 64))
: >/tmp/results/left
for name in "$@"; do
    mkdir "/tmp/$name"
    cd "/tmp/$name"
    cp "/in/guest/$name.sh" script.sh
    timeout -s KILL 600 sh ./script.sh > /tmp/results/out 2> /tmp/results/err < /dev/null
    status=$?
    cd /
    rm -rf "/tmp/$name"
    printf '\001motet-test %s %d %d %d\n' "$name" $status $(wc -c < /tmp/results/out) $(wc -c < /tmp/results/err)
    cat /tmp/results/out /tmp/results/err
    rm /tmp/results/out /tmp/results/err
    left "$name" >>/tmp/results/left
done
printf '\001motet-test nothing_left 0 %d 0\n' $(wc -c < /tmp/results/left)
cat /tmp/results/left
"#;

/// Takes apart what the driver prints.
fn parse(mut bytes: &[u8]) -> Results {
    let mut results = Results::new();
    while let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK.as_bytes()) {
        bytes = &bytes[at + MARK.len()..];
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { break };
        let line = String::from_utf8_lossy(&bytes[..end]).into_owned();
        bytes = &bytes[end + 1..];
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (Some(status), Some(output), Some(errors)) = (number(), number(), number()) else { break };
        if bytes.len() < output + errors {
            break;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (output, errors) = (text(&bytes[..output]), text(&bytes[output..output + errors]));
        results.insert(name.to_owned(), Ok(Did { output, errors, status: status as i32 }));
    }
    results
}

//! Motet's own firmware below RISC-V kernels: a program that makes every call, Motet, and Debian's Linux run on it, and a
//! fault of the firmware itself is reported.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use motet_fabric::{initramfs, qemu};
use motet_layout::Isa;

use crate::{
    process::{self, Collected, Motet},
    trial::{Trial, trial},
};

/// A machine that takes longer hangs: seconds where nothing else runs.
const LIMIT: Duration = Duration::from_secs(1500);

/// Boards that differ in what the firmware has to do: interrupt controllers, sockets, and what harts have.
const BOARDS: [(&str, &[&str]); 5] = [
    ("messages", &["-machine", "virt,aia=aplic-imsic"]),
    ("wires", &["-machine", "virt"]),
    ("the_firmwares_timer", &["-machine", "virt", "-cpu", "rv64,sstc=off,h=off"]),
    ("every_extension", &["-machine", "virt,aia=aplic-imsic", "-cpu", "max"]),
    (
        "two_sockets",
        &[
            "-machine",
            "virt,aia=aplic-imsic",
            "-object",
            "memory-backend-ram,id=a,size=128M",
            "-object",
            "memory-backend-ram,id=b,size=128M",
            "-numa",
            "node,nodeid=0,memdev=a,cpus=0-1",
            "-numa",
            "node,nodeid=1,memdev=b,cpus=2-3",
        ],
    ),
];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("firmware::motet_runs_on_it", motet),
        trial("firmware::debians_linux_runs_a_program_on_it", linux),
        trial("firmware::a_fault_is_reported_and_stops_its_hart", || fault(&[0; 4], "mcause 0x2 ")),
        // lui t0, 2; sub sp, sp, t0; sd ra, 0(sp): more than there is. What it touches is closed even to the firmware.
        trial("firmware::a_stack_that_is_full_is_a_fault", || fault(&OVERFLOW, "mcause 0x7 ")),
    ];
    trials.extend(
        BOARDS.map(|(name, board)| trial(&format!("firmware::every_call_is_answered_on_{name}"), || calls(board))),
    );
    trials
}

const OVERFLOW: [u8; 12] = [0xb7, 0x22, 0, 0, 0x33, 0x01, 0x51, 0x40, 0x23, 0x30, 0x11, 0];

pub fn firmware() -> PathBuf {
    process::target().join(motet_fabric::run::firmware_path())
}

fn check() -> PathBuf {
    process::target().join("riscv64imac-unknown-none-elf/kernel/motet-firmware-check")
}

fn motet() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    for cores in [1, 3] {
        let island = |name: &str| {
            format!("[[island]]\nname = \"{name}\"\nisa = \"riscv64\"\ncores = {cores}\nfirmware = \"motet\"\n")
        };
        let path = folder.path().join("machine.toml");
        let text = format!("[pool]\nsize = \"64MiB\"\n{}{}", island("a"), island("b"));
        fs::write(&path, text).map_err(|error| error.to_string())?;
        let command = "for n in 1 2 3 4 5 6; do (uname -m | cat) & done; wait; grep -c ^processor /proc/cpuinfo";
        let ended = Motet::run(["-v", "--machine"]).argument(&path).arguments(["--", command]).wait();
        let wanted = format!("{}{}\n", "riscv64\n".repeat(6), 2 * cores);
        let harts = format!("motet firmware: {} harts, hart 0 boots", cores + 1);
        // RustSBI's number.
        ended.expect_code(0)?.expect_output(&wanted)?.expect_errors(&[&harts, "firmware 4 version"])?;
    }
    Ok(())
}

fn calls(board: &[&str]) -> Result<(), String> {
    let mut board = Board::start(&firmware(), &check(), board)?;
    let text = board.until(LIMIT, |_| false);
    let status = board.child.try_wait().map_err(|error| error.to_string())?;
    let ended = status.is_some_and(|status| status.success());
    if ended && text.contains("check: all of 4 harts ok") { Ok(()) } else { Err(format!("{status:?}\n{text}")) }
}

/// A firmware that does something wrong when the machine is to end: it says so, and QEMU goes on with the other harts.
fn fault(instructions: &[u8], cause: &str) -> Result<(), String> {
    let broken = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    fs::write(broken.path(), patched(&firmware(), instructions)?).map_err(|error| error.to_string())?;
    let mut board = Board::start(broken.path(), &check(), BOARDS[1].1)?;
    let is_whole = |text: &str| text.contains("  t6 ");
    let text = board.until(LIMIT, is_whole);
    let wanted =
        ["check: all of 4 harts ok", "hart 0: a trap in the firmware: ", cause, "; the hart stops", " ra 0000"];
    match wanted.iter().find(|part| !text.contains(**part)) {
        None if text.matches("a trap in the firmware").count() == 1 => Ok(()),
        None => Err(format!("more than one fault\n{text}")),
        Some(part) => Err(format!("{part:?} is not in\n{text}")),
    }
}

/// A firmware with other instructions at the beginning of the function that ends the machine.
fn patched(image: &Path, instructions: &[u8]) -> Result<Vec<u8>, String> {
    const START: u64 = 0x8000_0000;
    const FUNCTION: &str = " motet_firmware_end";
    let mut bytes = fs::read(image).map_err(|error| format!("{}: {error}", image.display()))?;
    let symbols =
        Command::new("nm").arg(image).output().map_err(|error| format!("nm, which ./motet test installs: {error}"))?;
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let line = symbols.lines().find(|line| line.ends_with(FUNCTION)).ok_or("the firmware has no such function")?;
    let address = line.split(' ').next().and_then(|number| u64::from_str_radix(number, 16).ok()).ok_or("no address")?;
    // The first segment begins at the second page of the file.
    let at = (address - START) as usize + 4096;
    bytes[at..at + instructions.len()].copy_from_slice(instructions);
    Ok(bytes)
}

/// Debian's kernel starts four harts, takes interrupts of the serial port and runs a program, which ends the machine.
fn linux() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let initramfs = folder.path().join("initramfs");
    let busybox = fs::read(process::target().join("userland/riscv64/busybox")).map_err(|error| error.to_string())?;
    fs::write(&initramfs, archive(&[("init", INIT.as_bytes()), ("bin/busybox", &busybox)]))
        .map_err(|error| error.to_string())?;
    let kernel = linux_kernel(Isa::RiscV64)?;
    for board in [BOARDS[0].1, BOARDS[2].1] {
        let initramfs = initramfs.to_str().ok_or("the folder's name must be UTF-8")?;
        let linux = ["-initrd", initramfs, "-append", "console=ttyS0 quiet panic=-1", "-no-reboot"];
        let mut board = Board::start(&firmware(), &kernel, &[board, &linux].concat())?;
        let text = board.until(LIMIT, |_| false);
        let status = board.child.try_wait().map_err(|error| error.to_string())?;
        if !text.contains("program: 4 harts") || !status.is_some_and(|status| status.success()) {
            return Err(format!("{status:?}\n{text}"));
        }
    }
    Ok(())
}

/// Debian's kernel, where `motet bench boot` has it, too; fetched if it is not there.
pub fn linux_kernel(isa: Isa) -> Result<PathBuf, String> {
    // Once: tests that run beside this one want it, too.
    const FETCH: &str = "set -e; mkdir -p \"$2\"; exec 9>\"$2/lock\"; flock 9; [ ! -e \"$2/package\" ] || exit 0; \
        work=$(mktemp -d); trap 'rm -rf \"$work\"' EXIT; \
        \"$1\" --fetch \"$work\" \"linux-image-$3:$3\"; deb=$(echo \"$work\"/*.deb); \
        dpkg-deb --fsys-tarfile \"$deb\" | tar -x -O --wildcards './boot/vmlinu*' > \"$2/vmlinuz\"; \
        dpkg-deb --show --showformat '${Package} ${Version}' \"$deb\" > \"$2/package\"";
    let debian = if isa == Isa::AArch64 { "arm64" } else { isa.name() };
    let folder = process::target().join("linux").join(isa.name());
    let kernel = folder.join("vmlinuz");
    // Written last.
    if !folder.join("package").is_file() {
        let mut fetch = Command::new("bash");
        fetch.args(["-c", FETCH, "bash"]).arg(process::root().join("scripts/setup.sh")).arg(&folder).arg(debian);
        let ended = fetch.env("CARGO_TARGET_DIR", process::target()).output().map_err(|error| error.to_string())?;
        if !ended.status.success() {
            let errors = String::from_utf8_lossy(&ended.stderr);
            return Err(format!("Debian's kernel cannot be fetched, so nothing is tested: {errors}"));
        }
    }
    Ok(kernel)
}

/// What starts the other programs of the initramfs.
const INIT: &str = "#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\n\
    for n in 1 2 3 4 5 6 7 8; do (/bin/busybox sha256sum /bin/busybox > /dev/null) & done; wait\n\
    echo \"program: $(/bin/busybox grep -c ^processor /proc/cpuinfo) harts\"\n/bin/busybox poweroff -f\n";

/// An initramfs of programs.
pub fn archive(programs: &[(&str, &[u8])]) -> Vec<u8> {
    initramfs::archive(&["proc", "bin"], programs)
}

/// A QEMU of four harts, which goes away with this value.
pub struct Board {
    child: Child,
    output: Collected,
}

impl Board {
    pub fn start(firmware: &Path, kernel: &Path, further: &[&str]) -> Result<Self, String> {
        let mut command = Command::new(qemu::locate(Isa::RiscV64).map_err(|error| error.message)?);
        command.args([
            "-smp",
            "4",
            "-m",
            "256M",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-serial",
            "stdio",
        ]);
        command.arg("-bios").arg(firmware).arg("-kernel").arg(kernel).args(further);
        Self::spawn(command)
    }

    /// Any QEMU whose serial port is its standard output.
    pub fn spawn(mut command: Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let output = Collected::new(child.stdout.take().expect("piped"));
        Ok(Self { child, output })
    }

    /// What it has printed when `done` says so, when it ends, or after this time.
    pub fn until(&mut self, at_most: Duration, done: impl Fn(&str) -> bool) -> String {
        let started = Instant::now();
        while started.elapsed() < at_most && !done(&self.output.so_far()) && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        // The rest of what it has printed may be under way.
        std::thread::sleep(Duration::from_millis(100));
        while matches!(self.child.try_wait(), Ok(Some(_))) && !self.output.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.output.so_far()
    }
}

impl Board {
    /// Its exit status, if it has ended by itself.
    pub fn status(&mut self) -> Result<Option<i32>, String> {
        Ok(self.child.try_wait().map_err(|error| error.to_string())?.and_then(|status| status.code()))
    }

    /// What it prints until it ends, which it has to do within the limit, and well.
    pub fn ended(&mut self) -> Result<String, String> {
        let text = self.until(LIMIT, |_| false);
        let status = self.child.try_wait().map_err(|error| error.to_string())?;
        if status.is_some_and(|status| status.success()) { Ok(text) } else { Err(format!("{status:?}\n{text}")) }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The guest's root file system: described here, built in the pool before boot.
//!
//! ```text
//! /isa/ISA/bin   programs of that instruction set (busybox and a name for each of its applets, and `motet`)
//! /bin           the same of island 0's instruction set; `on ISA[,EXTENSION...] COMMAND` runs COMMAND with another one's
//! /usr/bin, /usr/sbin, /sbin -> /bin (with `--root` of a distribution, the programs are in /usr/bin, and /bin leads there)
//! /etc /root /tmp /dev /proc /in /out
//! ```

mod input;
mod overlay;
mod placement;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use motet_layout::{InodeRecord, Isa, MOUNT_PROC, MOUNT_SYS, PoolAddr, sync::Ordering};
use motet_protocol::{Context as _, fs as pool_fs};

use crate::{HostPool, network::Network, run::target_of};
use motet_error::{Context, Error, ErrorKind, Result};
use motet_machine::MachineSpec;
use placement::Placement;

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A directory.
    Directory,
    /// A regular file with these contents.
    Bytes(Vec<u8>),
    /// A regular file with the contents of a file on the host.
    HostFile(PathBuf),
    /// Another name of the file at this guest path.
    HardLink(String),
    /// A symbolic link to this target.
    Symlink(Vec<u8>),
    /// A character device with this major and minor number.
    Device(u32, u32),
    /// A named pipe.
    Fifo,
    /// Where the kernels show a file system of theirs: `MOUNT_*`.
    Mount(u32),
}

/// One path of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    entry: Entry,
    /// Permission bits, with those for set-uid, set-gid and sticky.
    mode: u32,
    /// User and group.
    owner: [u32; 2],
    /// Time of the last change, in nanoseconds since 1970; `None`: now.
    modified_ns: Option<u64>,
    /// Device and inode number of a file that has several names on the host: they are names of one file in the machine, too.
    identity: Option<(u64, u64)>,
}

impl Node {
    /// An entry of the system's.
    fn new(entry: Entry, mode: u32) -> Self {
        Self { entry, mode, owner: [0; 2], modified_ns: None, identity: None }
    }
}

/// A description of the guest's root file system.
///
/// Keys are paths without a leading slash, as bytes; a directory sorts before what is in it.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<Vec<u8>, Node>,
    warnings: Vec<String>,
}

/// Host files are copied in pieces of this many bytes: whole pages.
const PIECE: usize = 64 << 10;

const SYSTEM_FOLDERS: [(&str, u32); 14] = [
    ("bin", 0o755),
    ("dev", 0o755),
    ("dev/host", 0o755),
    ("dev/mqueue", 0o1777),
    ("dev/pts", 0o755),
    ("dev/shm", 0o1777),
    ("etc", 0o755),
    ("in", 0o755),
    ("isa", 0o755),
    ("out", 0o755),
    ("root", 0o700),
    ("tmp", 0o1777),
    ("usr", 0o755),
    ("var", 0o755),
];

const SYSTEM_LINKS: [(&str, &str); 8] = [
    ("sbin", "bin"),
    ("usr/bin", "/bin"),
    ("usr/sbin", "/bin"),
    ("var/tmp", "/tmp"),
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// Linux device numbers (Documentation/admin-guide/devices.txt).
const DEVICES: [(&str, u32, u32, u32); 17] = [
    ("dev/null", 1, 3, 0o666),
    ("dev/zero", 1, 5, 0o666),
    ("dev/full", 1, 7, 0o666),
    ("dev/random", 1, 8, 0o666),
    ("dev/urandom", 1, 9, 0o666),
    ("dev/tty", 5, 0, 0o666),
    ("dev/console", 5, 1, 0o600),
    ("dev/ptmx", 5, 2, 0o666),
    ("dev/pts/ptmx", 5, 2, 0o666),
    ("dev/kmsg", 1, 11, 0o600),
    ("dev/dma", 240, 3, 0o666),
    ("dev/service", 240, 4, 0o666),
    ("dev/vm", 240, 5, 0o666),
    ("dev/late", 240, 6, 0o666),
    ("dev/host/stdin", 240, 0, 0o400),
    ("dev/host/stdout", 240, 1, 0o600),
    ("dev/host/stderr", 240, 2, 0o600),
];

/// Major number of accelerators.
const ACCELERATORS: u32 = 241;

const TEXT_FILES: [(&str, &str, u32); 7] = [
    ("etc/passwd", PASSWD, 0o644),
    ("etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n", 0o644),
    ("etc/hostname", "motet\n", 0o644),
    ("etc/os-release", OS_RELEASE, 0o644),
    ("etc/profile", PROFILE, 0o644),
    ("etc/motet", SHELL_SETTINGS, 0o644),
    ("bin/on", ON_SCRIPT, 0o755),
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

/// Read by the shell that users meet, and by those of who logs in. `MOTET_HELLO` is set for the first one alone.
const PROFILE: &str = "\
PS1='motet:\\w\\$ '
if [ \"$TERM\" != dumb ] && [ -z \"$NO_COLOR\" ]; then
    PS1='\\[\\e[1;34m\\]motet:\\w\\[\\e[0m\\]\\$ '
    alias ls='ls --color=auto'
fi
. /etc/motet
if [ -n \"$MOTET_HELLO\" ]; then
    unset MOTET_HELLO
    cat /etc/motd
fi
";

/// Three lines that say what to try, of which the first suits the machine's instruction sets.
fn motd(isas: &[Isa]) -> String {
    let first = match isas {
        [_, second, third, ..] => format!(
            "Several instruction sets, one system: uname -m | on {} rev | on {} sed 's/^/turned: /'",
            second.name(),
            third.name()
        ),
        [_, second] => format!("Two instruction sets, one system: uname -m | on {} rev", second.name()),
        [] | [_] => "One system; machines/default.toml has three instruction sets.".into(),
    };
    format!(
        "{first}\n\
         on ISA COMMAND runs a command there, ls /isa names them, cat /proc/motet-ps says what runs where.\n\
         exit leaves the machine, Ctrl-] three times ends it; ./motet top in another terminal watches it.\n"
    )
}

/// os-release(5).
const OS_RELEASE: &str = concat!(
    "NAME=Motet\nID=motet\nVERSION_ID=",
    env!("CARGO_PKG_VERSION"),
    "\nPRETTY_NAME=\"Motet ",
    env!("CARGO_PKG_VERSION"),
    "\"\n"
);

/// Read by the first shell. A busybox shell prefers its own applets to what is on `PATH`; functions come before both.
const SHELL_SETTINGS: &str = "ps() { /bin/ps \"$@\"; }\n";

/// Programs are looked up by path: a busybox shell prefers its own applets to what is on `PATH`. Scripts are of no instruction set: one that `PATH` names before the
/// system's programs is run, by the interpreter of the instruction set.
const ON_SCRIPT: &str = "\
#!/bin/sh
usage() {
    echo \"usage: on ISA[,EXTENSION...] COMMAND [ARGUMENT...]\"
}
if [ \"$1\" = --help ]; then
    usage
    echo \"
Runs COMMAND with the programs of another instruction set. Programs for several start there.
With extensions, COMMAND and what it starts run on those cores of that instruction set alone that
have all of them. /proc/cpuinfo shows which core has which.

  on riscv64 uname -m
  on riscv64,v /in/program
  on x86_64,avx2,fma sh -c 'nproc; /in/program'\"
    exit 0
fi
if [ $# -lt 2 ]; then
    usage >&2
    exit 125
fi
isa=${1%%,*}
extensions=${1#\"$isa\"}
shift
if [ ! -d \"/isa/$isa/bin\" ]; then
    echo \"on: no programs for '$isa'; there are: $(cd /isa && echo *)\" >&2
    exit 125
fi
{ echo \"$isa\" > /proc/self/start_isa; } 2>/dev/null
script=
case $1 in
*/*) script=$1 ;;
*)
    set -f
    IFS=:
    for folder in $PATH; do
        case $folder in /bin | /isa/*) break ;; esac
        if [ -f \"${folder:-.}/$1\" ] && [ -x \"${folder:-.}/$1\" ]; then
            script=${folder:-.}/$1
            break
        fi
    done
    unset IFS
    set +f
    ;;
esac
PATH=/isa/$isa/bin:$PATH
export PATH
if [ -f \"$script\" ] && [ -x \"$script\" ] && [ \"$(head -c 2 \"$script\" 2>/dev/null)\" = '#!' ]; then
    read -r interpreter argument < \"$script\"
    interpreter=${interpreter#'#!'}
    if [ -z \"$interpreter\" ]; then
        interpreter=${argument%% *}
        argument=${argument#\"$interpreter\"}
        argument=${argument# }
    fi
    program=/isa/$isa/bin/${interpreter##*/}
    [ -x \"$program\" ] || program=$interpreter
    shift
    set -- \"$program\" ${argument:+\"$argument\"} \"$script\" \"$@\"
elif [ -x \"/isa/$isa/bin/$1\" ]; then
    program=/isa/$isa/bin/$1
    shift
    set -- \"$program\" \"$@\"
fi
[ -z \"$extensions\" ] || set -- \"/isa/$isa/bin/motet\" with \"${extensions#,}\" \"$@\"
exec \"$@\"
";

/// Motet's own programs for the guest, of one instruction set.
pub fn guest_programs(isa: Isa) -> &'static [&'static str] {
    match isa {
        Isa::AArch64 | Isa::RiscV64 => &["motet", "vm"],
        Isa::X86_64 | Isa::Hosted => &["motet"],
    }
}

/// `vm`, where the first instruction set has no guests: the program of this one, which goes on to where the image belongs.
fn vm_script(isa: Isa) -> String {
    format!("#!/bin/sh\nexec on {} vm \"$@\"\n", isa.name())
}

/// The path of one of them, below the folder of build results.
pub fn guest_program_path(isa: Isa, name: &str) -> PathBuf {
    [target_of(isa), "release", name].iter().collect()
}

impl Tree {
    /// The system's own part of the tree, for a machine with these instruction sets (the first one is island 0's).
    /// `userland` holds `ISA/PROGRAM` files; `applets` are the names that busybox answers to; `built` is the folder of
    /// build results, which has Motet's own program for the guest.
    ///
    /// # Errors
    /// Programs for one of the instruction sets are missing.
    pub fn system(userland: &Path, isas: &[Isa], applets: &[String], built: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for (path, mode) in SYSTEM_FOLDERS {
            tree.set(path, Entry::Directory, mode);
        }
        tree.set("proc", Entry::Mount(MOUNT_PROC), 0o555);
        tree.set("sys", Entry::Mount(MOUNT_SYS), 0o555);
        for (path, target) in SYSTEM_LINKS {
            tree.set(path, Entry::Symlink(target.into()), 0o777);
        }
        for (path, major, minor, mode) in DEVICES {
            tree.set(path, Entry::Device(major, minor), mode);
        }
        for isa in isas {
            tree.add_programs(userland, *isa, applets)?;
            tree.add_own_programs(built, *isa)?;
        }
        if let Some(first) = isas.first() {
            tree.link_first_programs(*first);
        }
        if !tree.nodes.contains_key("bin/vm".as_bytes())
            && let Some(isa) = [Isa::RiscV64, Isa::AArch64].into_iter().find(|isa| isas.contains(isa))
        {
            tree.set("bin/vm", Entry::Bytes(vm_script(isa).into()), 0o755);
        }
        for (path, text, mode) in TEXT_FILES {
            tree.set(path, Entry::Bytes(text.into()), mode);
        }
        tree.set("etc/motd", Entry::Bytes(motd(isas).into()), 0o644);
        Ok(tree)
    }

    /// Adds the accelerators of the machine's FPGA.
    pub fn add_accelerators(&mut self, machine: &MachineSpec) {
        let Some(fpga) = &machine.fpga else { return };
        self.set("dev/accel", Entry::Directory, 0o755);
        for (minor, accelerator) in (0..).zip(&fpga.accelerators) {
            self.set(&format!("dev/accel/{}", accelerator.kind.name()), Entry::Device(ACCELERATORS, minor), 0o666);
        }
    }

    /// A tree of these paths only.
    #[cfg(test)]
    pub(crate) fn of(entries: &[(&str, Entry, u32)]) -> Self {
        let mut tree = Self::default();
        entries.iter().for_each(|(path, entry, mode)| tree.set(path, entry.clone(), *mode));
        tree
    }

    /// What of the host's files the machine cannot have: sentences for the user.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Builds the tree in the pool.
    ///
    /// # Errors
    /// A host file cannot be read, or the pool is too small.
    pub fn build(&self, pool: &HostPool) -> Result<()> {
        let now_ns = nanoseconds(SystemTime::now());
        let full = |path: &[u8]| {
            let path = String::from_utf8_lossy(path).into_owned();
            move |error| {
                let message = format!("no room for /{path} in the pool ({error:?}): a larger [pool] size is needed");
                Error::new(ErrorKind::Config, message)
            }
        };
        let root = pool_fs::make_root(pool, now_ns).map_err(full(b""))?;
        let is_link = |node: &Node| matches!(node.entry, Entry::HardLink(_));
        let files = self.nodes.iter().filter(|(_, node)| !is_link(node));
        let (mut identified, mut dated) = (HashMap::new(), Vec::new());
        // Links come last: what they name may sort behind them.
        for (path, node) in files.chain(self.nodes.iter().filter(|(_, node)| is_link(node))) {
            let (parent, name) = split(path);
            let parent = find(pool, root, parent).ok_or_else(|| internal(path))?;
            if let Some(&known) = node.identity.and_then(|identity| identified.get(&identity)) {
                pool_fs::link(pool, parent.inode(), name, known, now_ns).map_err(full(path))?;
                continue;
            }
            let Some(inode) = build_node(pool, root, (&parent, name), node, now_ns, &full(path))? else { continue };
            identified.extend(node.identity.map(|identity| (identity, inode)));
            dated.extend(node.modified_ns.map(|time| (inode, time)));
        }
        // In the end, because a file that is made in a folder changes the folder's time.
        dated.iter().for_each(|(inode, time)| inode.modified_ns.set(*time));
        Ok(())
    }

    /// Adds files about the machine's network, where there are none of that name.
    pub fn add_network(&mut self, network: &Network) {
        for (path, text) in network.files() {
            if !self.nodes.contains_key(path.as_bytes()) {
                self.set(path, Entry::Bytes(text.into_bytes()), 0o644);
            }
        }
    }

    fn set(&mut self, path: &str, entry: Entry, mode: u32) {
        self.nodes.insert(path.as_bytes().to_vec(), Node::new(entry, mode));
    }

    fn add_programs(&mut self, userland: &Path, isa: Isa, applets: &[String]) -> Result<()> {
        let folder = userland.join(isa.name());
        let missing =
            || format!("the programs for {} are not there (./motet sets them up): {}", isa.name(), folder.display());
        let bin = format!("isa/{}/bin", isa.name());
        self.set(&format!("isa/{}", isa.name()), Entry::Directory, 0o755);
        self.set(&bin, Entry::Directory, 0o755);
        for entry in fs::read_dir(&folder).context(ErrorKind::Unavailable, missing)? {
            let entry = entry.context(ErrorKind::Unavailable, missing)?;
            if let (true, Some(name)) = (entry.path().is_file(), entry.file_name().to_str()) {
                self.set(&format!("{bin}/{name}"), Entry::HostFile(entry.path()), 0o755);
            }
        }
        let busybox = format!("{bin}/busybox");
        if !self.nodes.contains_key(busybox.as_bytes()) {
            return Err(Error::new(ErrorKind::Unavailable, format!("{}: no busybox", missing())));
        }
        // Hard links: they cost a directory entry each, and no look-up of a target.
        for applet in applets {
            let path = format!("{bin}/{applet}");
            self.nodes.entry(path.into_bytes()).or_insert(Node::new(Entry::HardLink(busybox.clone()), 0));
        }
        Ok(())
    }

    /// Adds `motet` (`user/calls`) and `vm` (`user/vm`), which have no other names.
    fn add_own_programs(&mut self, built: &Path, isa: Isa) -> Result<()> {
        for name in guest_programs(isa) {
            let path = built.join(guest_program_path(isa, name));
            if !path.is_file() {
                let message =
                    format!("the {} program is not there (run `motet build`): {}", isa.name(), path.display());
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            self.set(&format!("isa/{}/bin/{name}", isa.name()), Entry::HostFile(path), 0o755);
        }
        Ok(())
    }

    fn link_first_programs(&mut self, isa: Isa) {
        let bin = format!("isa/{}/bin/", isa.name());
        let mut links = Vec::new();
        for (path, node) in &self.nodes {
            let Some(name) = std::str::from_utf8(path).ok().and_then(|path| path.strip_prefix(&bin)) else { continue };
            let file = if let Entry::HardLink(file) = &node.entry { file.clone() } else { format!("{bin}{name}") };
            links.push((format!("bin/{name}"), file));
        }
        for (path, file) in links {
            self.set(&path, Entry::HardLink(file), 0);
        }
        // The machine's own process list shows islands and cores; with options, busybox's.
        let ps = format!("#!/bin/sh\n[ $# -eq 0 ] && exec cat /proc/motet-ps\nexec /{bin}ps \"$@\"\n");
        self.set("bin/ps", Entry::Bytes(ps.into_bytes()), 0o755);
    }
}

/// A directory in the pool, kept alive while it is used.
type Folder<'a> = pool_fs::Held<'a, HostPool>;

/// Makes one entry; returns its inode unless it is a link to another one.
fn build_node(
    pool: &HostPool,
    root: &'static InodeRecord,
    (parent, name): (&Folder<'_>, &[u8]),
    node: &Node,
    now_ns: u64,
    full: &dyn Fn(motet_abi::Errno) -> Error,
) -> Result<Option<&'static InodeRecord>> {
    let [uid, gid] = node.owner;
    let attributes = |mode, rdev| pool_fs::Attributes { mode, uid, gid, rdev, now_ns };
    let parent = parent.inode();
    let held = match &node.entry {
        Entry::Directory | Entry::Mount(_) => {
            let inode = pool_fs::mkdir(pool, parent, name, attributes(node.mode, 0)).map_err(full)?;
            if let Entry::Mount(what) = node.entry {
                pool_fs::mount(pool, inode.inode(), what);
            }
            inode
        }
        Entry::Bytes(bytes) => {
            let file = pool_fs::create(pool, parent, name, attributes(node.mode, 0)).map_err(full)?;
            Placement::of(bytes).write(pool, file.inode(), 0, bytes).map_err(full)?;
            file
        }
        Entry::HostFile(path) => {
            let file = pool_fs::create(pool, parent, name, attributes(node.mode, 0)).map_err(full)?;
            copy(pool, file.inode(), path, full)?;
            file
        }
        Entry::Symlink(target) => pool_fs::symlink(pool, parent, name, target, attributes(0, 0)).map_err(full)?,
        Entry::Device(major, minor) => {
            let mode = pool_fs::TYPE_CHARACTER | node.mode;
            pool_fs::create(pool, parent, name, attributes(mode, major << 8 | minor)).map_err(full)?
        }
        Entry::Fifo => {
            pool_fs::create(pool, parent, name, attributes(pool_fs::TYPE_PIPE | node.mode, 0)).map_err(full)?
        }
        Entry::HardLink(target) => {
            let target = find(pool, root, target.as_bytes()).ok_or_else(|| internal(name))?;
            pool_fs::link(pool, parent, name, target.inode(), now_ns).map_err(full)?;
            return Ok(None);
        }
    };
    Ok(Some(held.inode()))
}

/// Copies a file of the host, a piece at a time. What is zero becomes a hole.
fn copy(
    pool: &HostPool,
    inode: &'static InodeRecord,
    path: &Path,
    full: &dyn Fn(motet_abi::Errno) -> Error,
) -> Result<()> {
    let what = || path.display().to_string();
    let mut file = fs::File::open(path).context(ErrorKind::NoInput, what)?;
    let mut piece = vec![0; PIECE];
    let (mut size, mut placement) = (0, None);
    loop {
        let len = read_piece(&mut file, &mut piece).context(ErrorKind::NoInput, what)?;
        let placement = placement.get_or_insert_with(|| Placement::of(&piece[..len]));
        if piece[..len].iter().any(|&byte| byte != 0) {
            placement.write(pool, inode, size, &piece[..len]).map_err(full)?;
        }
        size += len as u64;
        if len < PIECE {
            break;
        }
    }
    if size > inode.size.load(Ordering::Relaxed) {
        pool_fs::truncate(pool, inode, size).map_err(full)?;
    }
    Ok(())
}

/// Reads until the piece is full or the file ends.
fn read_piece(file: &mut fs::File, piece: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < piece.len() {
        match file.read(&mut piece[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// The inode at a path below `root`, without following links.
pub(crate) fn find<'a>(pool: &'a HostPool, root: &'static InodeRecord, path: &[u8]) -> Option<Folder<'a>> {
    let mut at = Folder::new(pool, root);
    for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
        at = pool_fs::lookup(pool, at.inode(), name).ok()?;
    }
    Some(at)
}

/// The root directory of a pool in which a tree has been built.
pub(crate) fn root_of(pool: &HostPool) -> Option<&'static InodeRecord> {
    pool.pool().get(PoolAddr(pool.header().root_inode.get()))
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

fn internal(path: &[u8]) -> Error {
    Error::new(
        ErrorKind::Software,
        format!("the root file system is inconsistent at {}", String::from_utf8_lossy(path)),
    )
}

/// A time as files have it: an `i64` of nanoseconds since 1970, or before.
fn nanoseconds(time: SystemTime) -> u64 {
    let ns = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    };
    ns.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use motet_machine::MachineSpec;

    pub fn pool(size: &str) -> HostPool {
        let text = format!("[pool]\nsize = \"{size}\"\n[[island]]\nname = \"a\"\nisa = \"riscv64\"\ncores = 1\n");
        HostPool::create(&MachineSpec::parse(&text).unwrap(), &Command::default(), 1, false).unwrap()
    }

    fn userland() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for isa in ["riscv64", "x86_64"] {
            fs::create_dir(folder.path().join(isa)).unwrap();
            fs::write(folder.path().join(isa).join("busybox"), format!("program of {isa}")).unwrap();
            let isa = Isa::from_name(isa).unwrap();
            for name in guest_programs(isa) {
                let own = folder.path().join(guest_program_path(isa, name));
                fs::create_dir_all(own.parent().unwrap()).unwrap();
                fs::write(own, format!("{name} of {}", isa.name())).unwrap();
            }
        }
        folder
    }

    pub fn contents(pool: &HostPool, path: &str) -> String {
        let inode = find(pool, root_of(pool).unwrap(), path.as_bytes()).unwrap_or_else(|| panic!("no {path}"));
        let mut bytes = vec![0; inode.size.load(Ordering::Relaxed) as usize];
        assert_eq!(pool_fs::read_bytes(pool, inode.inode(), 0, &mut bytes), bytes.len());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn programs_lie_with_the_island_that_runs_them() {
        let pool = pool("64MiB");
        let shares = [Some(Isa::RiscV64), Some(Isa::X86_64), None].map(|isa| pool.near(isa).memory_index());
        assert_eq!(shares, [0, pool.memory_index(), pool.memory_index()]);
    }

    #[test]
    fn programs_of_each_instruction_set_have_their_place() {
        let userland = userland();
        let applets = ["ls".to_owned(), "ps".to_owned(), "[".to_owned()];
        let tree = Tree::system(userland.path(), &[Isa::RiscV64, Isa::X86_64], &applets, userland.path()).unwrap();
        let pool = pool("32MiB");
        tree.build(&pool).unwrap();
        assert_eq!(contents(&pool, "isa/x86_64/bin/["), "program of x86_64");
        assert_eq!(contents(&pool, "bin/ls"), "program of riscv64");
        assert_eq!(contents(&pool, "isa/x86_64/bin/motet"), "motet of x86_64");
        assert_eq!(contents(&pool, "bin/motet"), "motet of riscv64");
        assert!(contents(&pool, "bin/ps").contains("exec /isa/riscv64/bin/ps"));
        assert!(contents(&pool, "bin/on").starts_with("#!/bin/sh"));
        let root = root_of(&pool).unwrap();
        assert_eq!(find(&pool, root, b"proc").unwrap().mount.get(), MOUNT_PROC);
        assert_eq!(find(&pool, root, b"dev/urandom").unwrap().rdev.get(), 1 << 8 | 9);
        for path in [&b"tmp"[..], b"dev/shm"] {
            assert_eq!(find(&pool, root, path).unwrap().mode.get() & 0o7777, 0o1777);
        }
        assert_eq!(find(&pool, root, b"isa/riscv64/bin/busybox").unwrap().links.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn missing_programs_are_named() {
        let userland = userland();
        let error = Tree::system(userland.path(), &[Isa::AArch64], &[], userland.path()).unwrap_err();
        assert!(error.exit_status() == 69 && error.message.contains("aarch64"), "{error}");
        let error = Tree::system(userland.path(), &[Isa::RiscV64], &[], Path::new("/nonexistent")).unwrap_err();
        assert!(error.exit_status() == 69 && error.message.contains("motet build"), "{error}");
    }

    #[test]
    fn what_does_not_fit_into_the_pool_is_named() {
        let big = Entry::Bytes(vec![1; 40 << 20]);
        let error = Tree::of(&[("big", big, 0o644)]).build(&pool("32MiB")).unwrap_err();
        assert!(error.exit_status() == 78 && error.message.contains("no room for /big"), "{error}");
    }
}

//! Files and folders of the host in the guest's tree, as `cp -a` would copy them: with owners, permissions, times and the names that
//! are of one file.

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use motet_error::{Context, Error, ErrorKind, Result};

use super::{DEVICES, Entry, Node, Tree, nanoseconds};

/// Major numbers from this on are for local use (Documentation/admin-guide/devices.txt): the host's are not ours.
const LOCAL_MAJOR: u32 = 240;

impl Tree {
    /// Adds a file or folder of the host as `/in/NAME`.
    ///
    /// # Errors
    /// It, or something in it, cannot be read; the machine can have no such file; its name is taken.
    pub fn add_input(&mut self, path: &Path) -> Result<()> {
        let what = || format!("--in {}", path.display());
        // The name of `.` or `..` is that of the folder it means.
        let name = match path.file_name() {
            Some(name) => name.to_owned(),
            None => {
                let full = fs::canonicalize(path).context(ErrorKind::NoInput, what)?;
                full.file_name().map(ToOwned::to_owned).unwrap_or_default()
            }
        };
        if name.is_empty() {
            return Err(Error::new(ErrorKind::Usage, format!("{}: has no name", what())));
        }
        let key = [b"in/", name.as_bytes()].concat();
        if self.nodes.contains_key(&key) {
            let message = format!("{}: another --in is called {} too", what(), name.to_string_lossy());
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let metadata = fs::metadata(path).context(ErrorKind::NoInput, what)?;
        if let Some(obstacle) = obstacle(&metadata) {
            return Err(Error::new(ErrorKind::NoInput, format!("{}: {obstacle}", what())));
        }
        self.add_host("--in", key, path, &metadata)
    }

    /// Adds a file or folder of the host, which `option` has given. What the machine cannot have is left out, with a warning.
    pub(super) fn add_host(&mut self, option: &str, key: Vec<u8>, path: &Path, metadata: &fs::Metadata) -> Result<()> {
        let what = || format!("{option} {}", path.display());
        if let Some(obstacle) = obstacle(metadata) {
            self.warnings.push(format!("{}: {obstacle}; it is left out", what()));
            return Ok(());
        }
        let kind = metadata.file_type();
        let entry = if kind.is_dir() {
            Entry::Directory
        } else if kind.is_file() {
            // Find out now, not after the machine has been started.
            fs::File::open(path).context(ErrorKind::NoInput, what)?;
            Entry::HostFile(path.to_owned())
        } else if kind.is_symlink() {
            Entry::Symlink(fs::read_link(path).context(ErrorKind::NoInput, what)?.as_os_str().as_bytes().to_vec())
        } else if kind.is_fifo() {
            Entry::Fifo
        } else {
            let (major, minor) = device(metadata);
            Entry::Device(major, minor)
        };
        let node = Node {
            entry,
            mode: metadata.mode() & 0o7777,
            owner: [metadata.uid(), metadata.gid()],
            modified_ns: metadata.modified().ok().map(nanoseconds),
            identity: (!kind.is_dir() && metadata.nlink() > 1).then(|| (metadata.dev(), metadata.ino())),
        };
        self.nodes.insert(key.clone(), node);
        if kind.is_dir() {
            for child in fs::read_dir(path).context(ErrorKind::NoInput, what)? {
                let child = child.context(ErrorKind::NoInput, what)?;
                let metadata =
                    child.metadata().context(ErrorKind::NoInput, || format!("{option} {}", child.path().display()))?;
                let key = [&key, b"/".as_slice(), child.file_name().as_bytes()].concat();
                self.add_host(option, key, &child.path(), &metadata)?;
            }
        }
        Ok(())
    }
}

/// Why the machine can have no such file.
fn obstacle(metadata: &fs::Metadata) -> Option<String> {
    let kind = metadata.file_type();
    let (major, minor) = device(metadata);
    let is_ours = |&(_, major_of, minor_of, _): &(_, u32, u32, _)| (major, minor) == (major_of, minor_of);
    if kind.is_socket() {
        Some("is a socket, which means nothing without the program that listens at it".into())
    } else if kind.is_block_device() {
        Some(format!("is a block device ({major}:{minor}), and the machine has none"))
    } else if kind.is_char_device() && !(major < LOCAL_MAJOR && DEVICES.iter().any(is_ours)) {
        Some(format!("is a character device ({major}:{minor}) that the machine does not have"))
    } else {
        None
    }
}

fn device(metadata: &fs::Metadata) -> (u32, u32) {
    (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use motet_layout::{InodeRecord, sync::Ordering};
    use motet_protocol::fs as pool_fs;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::{
        HostPool,
        rootfs::{
            find, root_of,
            tests::{contents, pool},
        },
    };

    /// The inode that a file of the host has become.
    fn inode(pool: &HostPool, path: &str) -> &'static InodeRecord {
        find(pool, root_of(pool).unwrap(), path.as_bytes()).unwrap_or_else(|| panic!("no {path}")).inode()
    }

    fn with_inputs(inputs: &[&Path]) -> (Tree, HostPool) {
        let mut tree = Tree::of(&[("in", Entry::Directory, 0o755)]);
        inputs.iter().for_each(|input| tree.add_input(input).unwrap());
        let pool = pool("32MiB");
        tree.build(&pool).unwrap();
        (tree, pool)
    }

    #[test]
    fn inputs_keep_what_cp_a_keeps() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let at = |name: &str| data.join(name);
        fs::create_dir_all(at("inner")).unwrap();
        fs::write(at("a"), "alto").unwrap();
        fs::hard_link(at("a"), at("inner/same")).unwrap();
        symlink("a", at("link")).unwrap();
        mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let modes = [("a", 0o6751), ("inner", 0o1770), ("fifo", 0o620)];
        for (name, mode) in modes {
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let owner = if rustix::process::geteuid().is_root() {
            [1234, 2345]
        } else {
            [rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()]
        };
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(at("link"), Some(owner[0]), Some(owner[1])).unwrap();
            std::os::unix::fs::chown(at("inner"), Some(owner[0]), Some(owner[1])).unwrap();
        }
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
        fs::File::open(at("inner")).unwrap().set_modified(long_ago).unwrap();

        let (tree, pool) = with_inputs(&[&data, &at("a")]);
        assert_eq!(contents(&pool, "in/data/inner/same"), "alto");
        assert_eq!(contents(&pool, "in/data/link"), "a");
        let (first, same) = (inode(&pool, "in/data/a"), inode(&pool, "in/data/inner/same"));
        assert!(std::ptr::eq(first, same), "one file has two names");
        assert!(std::ptr::eq(first, inode(&pool, "in/a")), "and a third one");
        assert_eq!(first.links.load(Ordering::Relaxed), 3);
        for (name, mode) in modes {
            assert_eq!(inode(&pool, &format!("in/data/{name}")).mode.get() & 0o7777, mode, "{name}");
        }
        assert_eq!(pool_fs::file_type(inode(&pool, "in/data/fifo")), pool_fs::TYPE_PIPE);
        for name in ["inner", "link"] {
            let inode = inode(&pool, &format!("in/data/{name}"));
            assert_eq!([inode.uid.get(), inode.gid.get()], owner, "{name}");
        }
        // Also of a folder, in which files are made.
        assert_eq!(inode(&pool, "in/data/inner").modified_ns.get(), 1_000_000_000_123_456_789);
        let modified = fs::metadata(at("a")).unwrap().modified().unwrap();
        assert_eq!(first.modified_ns.get(), nanoseconds(modified));
        let [warning] = tree.warnings() else { panic!("{:?}", tree.warnings()) };
        assert!(warning.contains("data/socket: is a socket"), "{warning}");
    }

    #[test]
    fn names_of_one_file_are_told_apart_from_what_has_taken_their_place() {
        let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(lower.path().join("first"), "lower").unwrap();
        fs::hard_link(lower.path().join("first"), lower.path().join("second")).unwrap();
        fs::write(upper.path().join("first"), "upper").unwrap();
        let mut tree = Tree::of(&[]);
        tree.add_root(lower.path()).unwrap();
        tree.add_root(upper.path()).unwrap();
        let pool = pool("32MiB");
        tree.build(&pool).unwrap();
        assert_eq!([contents(&pool, "first"), contents(&pool, "second")], ["upper", "lower"]);
    }

    #[test]
    fn holes_take_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = fs::File::create(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"end", 90 << 20).unwrap();
        file.set_len(100 << 20).unwrap();
        let (_, pool) = with_inputs(&[&path]);
        let inode = inode(&pool, "in/sparse");
        assert_eq!(inode.size.load(Ordering::Relaxed), 100 << 20);
        let mut bytes = [1; 5];
        assert_eq!(pool_fs::read_bytes(&pool, inode, (90 << 20) - 1, &mut bytes), 5);
        assert_eq!(&bytes, b"\0end\0");
    }

    #[test]
    fn devices_are_those_that_the_machine_has() {
        let (_, pool) = with_inputs(&[Path::new("/dev/null")]);
        let null = inode(&pool, "in/null");
        assert_eq!((pool_fs::file_type(null), null.rdev.get()), (pool_fs::TYPE_CHARACTER, 1 << 8 | 3));
        // The host's pseudo-terminals are none of the machine's. There is one as long as its master is open.
        let _master = fs::File::open("/dev/ptmx").unwrap();
        let is_number = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
        let mut terminals = fs::read_dir("/dev/pts").unwrap().map(|entry| entry.unwrap());
        let terminal = terminals.find(|entry| is_number(&entry.file_name())).unwrap().path();
        let error = Tree::default().add_input(&terminal).unwrap_err();
        let why = "is a character device (136:";
        assert!(error.exit_status() == 66 && error.message.contains(why), "{error}");
    }

    #[test]
    fn wrong_inputs_are_refused_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "").unwrap();
        let mut tree = Tree::default();
        assert_eq!(tree.add_input(&folder.path().join("b")).unwrap_err().exit_status(), 66);
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(tree.add_input(&socket).unwrap_err().exit_status(), 66);
        tree.add_input(&file).unwrap();
        let error = tree.add_input(&file).unwrap_err();
        assert!(error.exit_status() == 64 && error.message.contains("another --in is called a too"), "{error}");
    }
}

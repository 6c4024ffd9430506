//! Copies the guest's `/out` to a folder of the host, after every island has stopped.
//!
//! What the machine left in the pool is an allegation: names are checked, links are never followed on the host, and a
//! file takes its place only when it is complete and on disk.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use motet_layout::{InodeRecord, NAME_MAX, PAGE_SIZE, sync::Ordering};
use motet_protocol::{Context as _, fs as pool_fs};
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid},
    process::{getegid, geteuid},
};

use crate::{
    HostPool,
    rootfs::{find, root_of},
};
use motet_error::{Context, Error, ErrorKind, Result};

/// Deepest folder that is copied.
const DEPTH_MAX: usize = 100;

/// The folder that results go to.
#[derive(Debug)]
pub struct Results {
    folder: OwnedFd,
    path: PathBuf,
}

impl Results {
    /// Makes the folder if needed and makes sure that files can be made in it, before the machine runs.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn prepare(path: &Path) -> Result<Self> {
        let what = || format!("--out {}", path.display());
        std::fs::create_dir_all(path).context(ErrorKind::CantCreate, what)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty()).context(ErrorKind::CantCreate, what)?;
        rustix::fs::accessat(&folder, ".", rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            .context(ErrorKind::CantCreate, what)?;
        Ok(Self { folder, path: path.to_owned() })
    }

    /// Copies `/out` with modes, times and the names that are of one file; with owners, too, when this process is root's. Files that are
    /// neither regular, nor folders, nor symbolic links are left out; returns their paths.
    ///
    /// # Errors
    /// The host's file system refuses something; names the file.
    pub fn collect(&self, pool: &HostPool) -> Result<Vec<PathBuf>> {
        let out = root_of(pool).and_then(|root| {
            forget_holder(root);
            find(pool, root, b"out")
        });
        let mut copy = Copy { pool, several: HashMap::new(), skipped: Vec::new() };
        if let Some(out) = out {
            forget_holder(&out);
            let folder = self.folder.try_clone().host("a descriptor")?;
            copy.folder(out.inode(), &Rc::new(folder), &self.path, 0)?;
        }
        Ok(copy.skipped)
    }
}

/// Frees a lock that an island held when it was stopped: nobody else is left.
fn forget_holder(inode: &InodeRecord) {
    inode.lock.word().store(0, Ordering::Relaxed);
}

/// Copying in progress.
struct Copy<'a> {
    pool: &'a HostPool,
    /// Where a file that has several names has its first one, by the address of its record.
    several: HashMap<usize, (Rc<OwnedFd>, OsString)>,
    skipped: Vec<PathBuf>,
}

impl Copy<'_> {
    fn folder(&mut self, from: &'static InodeRecord, into: &Rc<OwnedFd>, path: &Path, depth: usize) -> Result<()> {
        for (name, inode) in entries(self.pool, from, path)? {
            forget_holder(inode);
            let path = path.join(&name);
            let write = |error: rustix::io::Errno| {
                Error::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display()))
            };
            match pool_fs::file_type(inode) {
                pool_fs::TYPE_DIRECTORY if depth < DEPTH_MAX => {
                    let child = Rc::new(make_folder(into, &name).map_err(write)?);
                    self.folder(inode, &child, &path, depth + 1)?;
                    keep_attributes(child.as_fd(), inode).map_err(write)?;
                }
                pool_fs::TYPE_REGULAR | pool_fs::TYPE_SYMLINK | pool_fs::TYPE_PIPE => {
                    self.file(inode, into, name, &path)?;
                }
                _ => self.skipped.push(path),
            }
        }
        rustix::fs::fsync(into).context(ErrorKind::Io, || format!("cannot write {}", path.display()))
    }

    /// Another name of a file that is there already, or the file.
    fn file(&mut self, inode: &'static InodeRecord, into: &Rc<OwnedFd>, name: OsString, path: &Path) -> Result<()> {
        let record = std::ptr::from_ref(inode).addr();
        let kind = match pool_fs::file_type(inode) {
            pool_fs::TYPE_SYMLINK => FileType::Symlink,
            pool_fs::TYPE_PIPE => FileType::Fifo,
            _ => FileType::RegularFile,
        };
        if let Some((folder, first)) = self.several.get(&record) {
            let linked = put(into, &name, kind, |temporary| {
                rustix::fs::linkat(folder, first, into, temporary, AtFlags::empty())
            });
            // Not every file system has them. Then it is copied as often as it has names.
            if linked.is_ok() {
                return Ok(());
            }
        }
        let copied = match pool_fs::file_type(inode) {
            pool_fs::TYPE_SYMLINK => copy_link(self.pool, inode, into, &name),
            pool_fs::TYPE_PIPE => copy_fifo(inode, into, &name),
            _ => copy_file(self.pool, inode, into, &name),
        };
        copied.context(ErrorKind::Io, || format!("cannot write {}", path.display()))?;
        if inode.links.load(Ordering::Relaxed) > 1 {
            self.several.insert(record, (into.clone(), name));
        }
        Ok(())
    }
}

/// Makes something under a temporary name, and gives it its name when it is complete. A device, pipe or socket of the host is not
/// replaced, except a pipe by a pipe.
fn put(
    into: &OwnedFd,
    name: &OsStr,
    kind: FileType,
    make: impl FnOnce(&str) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    let there = rustix::fs::statat(into, name, AtFlags::SYMLINK_NOFOLLOW);
    let there = there.map(|there| FileType::from_raw_mode(there.st_mode));
    if there.is_ok_and(|there| there != kind && is_special(there)) {
        return Err(rustix::io::Errno::EXIST);
    }
    let temporary = temporary_name(name);
    let _ = rustix::fs::unlinkat(into, &temporary, AtFlags::empty());
    let made = make(&temporary).and_then(|()| rustix::fs::renameat(into, &temporary, into, name));
    // Also of two names of one file, which renaming leaves alone (rename(2)).
    let _ = rustix::fs::unlinkat(into, &temporary, AtFlags::empty());
    made
}

fn is_special(kind: FileType) -> bool {
    !matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink)
}

/// Gives a file or folder of the host the owner (root can), mode and times of one in the machine.
fn keep_attributes(file: BorrowedFd<'_>, inode: &InodeRecord) -> rustix::io::Result<()> {
    if let Some((user, group)) = owner_to_give(inode) {
        rustix::fs::fchown(file, user, group)?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode_to_give(inode)))?;
    rustix::fs::futimens(file, &times(inode))
}

/// The owner that a file gets; only root gives files away.
fn owner_to_give(inode: &InodeRecord) -> Option<(Option<Uid>, Option<Gid>)> {
    // Of all bits set, the system understands "no change".
    let id = |raw: u32| (raw != u32::MAX).then_some(raw);
    geteuid().is_root().then(|| (id(inode.uid.get()).map(Uid::from_raw), id(inode.gid.get()).map(Gid::from_raw)))
}

/// The mode that a file gets: as with `cp -p`, a file that could not keep its owner does not give its new one's rights to whoever runs it.
fn mode_to_give(inode: &InodeRecord) -> u32 {
    let is_owner = geteuid().as_raw() == inode.uid.get() && getegid().as_raw() == inode.gid.get();
    let mask = if geteuid().is_root() || is_owner { 0o7777 } else { 0o1777 };
    inode.mode.get() & mask
}

fn times(inode: &InodeRecord) -> Timestamps {
    let time = |ns: u64| {
        let ns = ns.cast_signed();
        Timespec { tv_sec: ns.div_euclid(1_000_000_000), tv_nsec: ns.rem_euclid(1_000_000_000) as _ }
    };
    Timestamps { last_access: time(inode.accessed_ns.get()), last_modification: time(inode.modified_ns.get()) }
}

/// The entries of a directory, whose names are safe to use on the host.
fn entries(pool: &HostPool, from: &'static InodeRecord, path: &Path) -> Result<Vec<(OsString, &'static InodeRecord)>> {
    let mut entries = Vec::new();
    let mut bad = None;
    pool_fs::readdir(pool, from, 0, |entry, inode| {
        let mut buffer = [0; NAME_MAX];
        let name = pool_fs::entry_name(pool, entry, &mut buffer);
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
            bad = Some(String::from_utf8_lossy(name).into_owned());
        } else {
            entries.push((OsStr::from_bytes(name).to_owned(), inode));
        }
        true
    });
    match bad {
        Some(name) => {
            let message = format!("cannot write {}: the name {name:?} is not possible here", path.display());
            Err(Error::new(ErrorKind::Io, message))
        }
        None => Ok(entries),
    }
}

fn make_folder(into: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match rustix::fs::mkdirat(into, name, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(into, name, flags, Mode::empty())
}

/// Copies one file: into a temporary one, to disk, then to its name.
fn copy_file(pool: &HostPool, inode: &'static InodeRecord, into: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    put(into, name, FileType::RegularFile, |temporary| {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(into, temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let system = |error: std::io::Error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        write_contents(pool, inode, &file).map_err(system)?;
        keep_attributes(file.as_fd(), inode)?;
        file.sync_all().map_err(system)
    })
}

/// A named pipe, without what was in it.
fn copy_fifo(inode: &InodeRecord, into: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    put(into, name, FileType::Fifo, |temporary| {
        rustix::fs::mknodat(into, temporary, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        if let Some((user, group)) = owner_to_give(inode) {
            rustix::fs::chownat(into, temporary, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        rustix::fs::chmodat(into, temporary, Mode::from_raw_mode(mode_to_give(inode)), AtFlags::empty())?;
        rustix::fs::utimensat(into, temporary, &times(inode), AtFlags::SYMLINK_NOFOLLOW)
    })
}

fn copy_link(pool: &HostPool, inode: &'static InodeRecord, into: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let mut target = vec![0; (inode.size.load(Ordering::Relaxed)).min(PAGE_SIZE) as usize];
    let len = pool_fs::read_bytes(pool, inode, 0, &mut target);
    put(into, name, FileType::Symlink, |temporary| {
        rustix::fs::symlinkat(&target[..len], into, temporary)?;
        if let Some((user, group)) = owner_to_give(inode) {
            rustix::fs::chownat(into, temporary, user, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        rustix::fs::utimensat(into, temporary, &times(inode), AtFlags::SYMLINK_NOFOLLOW)
    })
}

/// Writes the pages that the file has; what it has not stays a hole.
fn write_contents(pool: &HostPool, inode: &'static InodeRecord, file: &File) -> std::io::Result<()> {
    let size = inode.size.load(Ordering::Relaxed).min(pool_fs::FILE_SIZE_MAX);
    file.set_len(size)?;
    let mut page = [0u8; PAGE_SIZE as usize];
    let mut at = 0;
    while at < size {
        let len = (size - at).min(PAGE_SIZE) as usize;
        if let Some(frame) = pool_fs::page(pool, inode, at / PAGE_SIZE) {
            pool.pool().read(frame.addr(), &mut page[..len]);
            file.write_all_at(&page[..len], at)?;
        }
        at += PAGE_SIZE;
    }
    Ok(())
}

fn temporary_name(name: &OsStr) -> String {
    // Short enough for every file system, and never a name that a result has by accident.
    let cut: String = name.to_string_lossy().chars().take(40).collect();
    format!(".{cut}.motet-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Command,
        rootfs::{Entry, Tree},
    };
    use motet_machine::MachineSpec;
    use std::{
        fs,
        os::unix::fs::{FileTypeExt, MetadataExt},
    };

    fn pool(tree: &Tree) -> HostPool {
        let text = "[pool]\nsize = \"32MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        let pool = HostPool::create(&MachineSpec::parse(text).unwrap(), &Command::default(), 1, false).unwrap();
        tree.build(&pool).unwrap();
        pool
    }

    #[test]
    fn files_folders_and_links_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let big: Vec<u8> = (0..3_000_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let pool = pool(&Tree::of(&[
            ("out", Entry::Directory, 0o755),
            ("out/big", Entry::Bytes(big.clone()), 0o640),
            ("out/deep", Entry::Directory, 0o750),
            ("out/deep/empty", Entry::Bytes(Vec::new()), 0o755),
            ("out/link", Entry::Symlink(b"/etc/passwd".to_vec()), 0o777),
            ("out/null", Entry::Device(1, 3), 0o666),
            ("out/pipe", Entry::Fifo, 0o620),
        ]));
        let out = folder.path().join("new/results");
        let results = Results::prepare(&out).unwrap();
        assert_eq!(results.collect(&pool).unwrap(), [out.join("null")]);
        assert_eq!(fs::read(out.join("big")).unwrap(), big);
        assert_eq!(fs::metadata(out.join("big")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::metadata(out.join("deep")).unwrap().mode() & 0o777, 0o750);
        assert_eq!(fs::read(out.join("deep/empty")).unwrap(), b"");
        assert_eq!(fs::read_link(out.join("link")).unwrap(), Path::new("/etc/passwd"));
        let pipe = fs::symlink_metadata(out.join("pipe")).unwrap();
        assert_eq!((pipe.file_type().is_fifo(), pipe.mode() & 0o777), (true, 0o620));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 4, "nothing temporary is left");
    }

    #[test]
    fn owners_modes_times_and_names_of_one_file_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&Tree::of(&[
            ("out", Entry::Directory, 0o755),
            ("out/deep", Entry::Directory, 0o1770),
            ("out/deep/same", Entry::HardLink("out/file".into()), 0),
            ("out/file", Entry::Bytes(b"x".into()), 0o6755),
            ("out/link", Entry::Symlink(b"file".to_vec()), 0o777),
        ]));
        let root = root_of(&pool).unwrap();
        let is_root = geteuid().is_root();
        for path in ["out/deep", "out/file", "out/link"] {
            let inode = find(&pool, root, path.as_bytes()).unwrap();
            inode.modified_ns.set(1_000_000_000_123_456_789);
            inode.uid.set(1234);
            inode.gid.set(2345);
        }
        // Twice: the second time, everything is there.
        for _ in 0..2 {
            Results::prepare(folder.path()).unwrap().collect(&pool).unwrap();
            let at = |path: &str| fs::symlink_metadata(folder.path().join(path)).unwrap();
            for path in ["deep", "file", "link"] {
                let metadata = at(path);
                assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_000_000_000, 123_456_789), "{path}");
                if is_root {
                    assert_eq!((metadata.uid(), metadata.gid()), (1234, 2345), "{path}");
                }
            }
            // Set-uid of another user's file would become set-uid of ours.
            let file_mode = if is_root { 0o6755 } else { 0o755 };
            assert_eq!((at("file").mode() & 0o7777, at("deep").mode() & 0o7777), (file_mode, 0o1770));
            assert_eq!((at("file").ino(), at("file").nlink()), (at("deep/same").ino(), 2));
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing temporary is left");
            assert_eq!(fs::read_dir(folder.path().join("deep")).unwrap().count(), 1);
        }
    }

    #[test]
    fn links_on_the_host_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (out, outside) = (folder.path().join("out"), folder.path().join("outside"));
        fs::create_dir_all(&out).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("file"), "untouched").unwrap();
        std::os::unix::fs::symlink(outside.join("file"), out.join("file")).unwrap();
        let file = [("out", Entry::Directory, 0o755), ("out/file", Entry::Bytes(b"new".into()), 0o644)];
        Results::prepare(&out).unwrap().collect(&pool(&Tree::of(&file))).unwrap();
        assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "new");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "untouched");
        std::os::unix::fs::symlink(&outside, out.join("deep")).unwrap();
        let deep = [
            ("out", Entry::Directory, 0o755),
            ("out/deep", Entry::Directory, 0o755),
            ("out/deep/file", Entry::Bytes(b"new".into()), 0o644),
        ];
        let error = Results::prepare(&out).unwrap().collect(&pool(&Tree::of(&deep))).unwrap_err();
        assert!(error.message.contains("out/deep") && error.exit_status() == 74, "{error}");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "untouched");
    }

    #[test]
    fn a_pipe_on_the_host_is_not_replaced_by_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let file = [("out", Entry::Directory, 0o755), ("out/file", Entry::Bytes(b"new".into()), 0o644)];
        let error = Results::prepare(folder.path()).unwrap().collect(&pool(&Tree::of(&file))).unwrap_err();
        assert!(error.message.contains("file: File exists") && error.exit_status() == 74, "{error}");
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_lock_that_a_dead_island_held_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&Tree::of(&[("out", Entry::Directory, 0o755), ("out/a", Entry::Bytes(b"x".into()), 0o644)]));
        let root = root_of(&pool).unwrap();
        let held = ["", "out", "out/a"].map(|path| find(&pool, root, path.as_bytes()).unwrap());
        held.iter().for_each(|inode| inode.lock.word().store(3, Ordering::Relaxed));
        Results::prepare(folder.path()).unwrap().collect(&pool).unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"x");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told_before_the_run() {
        let error = Results::prepare(Path::new("/proc/motet-results")).unwrap_err();
        assert!(error.exit_status() == 73 && error.message.contains("--out /proc/motet-results"), "{error}");
    }
}

//! Copies the guest's `/out` to a folder of the host, after every island has stopped.
//!
//! What the machine left in the pool is an allegation: names are checked, links are never followed on the host, and a
//! file takes its place only when it is complete and on disk.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
};

use motet_layout::{InodeRecord, NAME_MAX, PAGE_SIZE, sync::Ordering};
use motet_protocol::{Context as _, fs as pool_fs};
use rustix::fs::{AtFlags, Mode, OFlags};

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

    /// Copies `/out`. Files that are neither regular, nor folders, nor symbolic links are left out; returns their paths.
    ///
    /// # Errors
    /// The host's file system refuses something; names the file.
    pub fn collect(&self, pool: &HostPool) -> Result<Vec<PathBuf>> {
        let out = root_of(pool).and_then(|root| {
            forget_holder(root);
            find(pool, root, b"out")
        });
        if let Some(out) = &out {
            forget_holder(out);
        }
        let mut skipped = Vec::new();
        if let Some(out) = out {
            copy_folder(pool, out.inode(), &self.folder, &self.path, 0, &mut skipped)?;
        }
        Ok(skipped)
    }
}

/// Frees a lock that an island held when it was stopped: nobody else is left.
fn forget_holder(inode: &InodeRecord) {
    inode.lock.store(0, Ordering::Relaxed);
}

fn copy_folder(
    pool: &HostPool,
    from: &'static InodeRecord,
    into: &OwnedFd,
    path: &Path,
    depth: usize,
    skipped: &mut Vec<PathBuf>,
) -> Result<()> {
    for (name, inode) in entries(pool, from, path)? {
        forget_holder(inode);
        let path = path.join(&name);
        let write =
            |error: rustix::io::Errno| Error::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display()));
        let mode = Mode::from_raw_mode(inode.mode.get() & 0o777);
        match pool_fs::file_type(inode) {
            pool_fs::TYPE_DIRECTORY if depth < DEPTH_MAX => {
                let child = make_folder(into, &name).map_err(write)?;
                copy_folder(pool, inode, &child, &path, depth + 1, skipped)?;
                rustix::fs::fchmod(&child, mode).map_err(write)?;
            }
            pool_fs::TYPE_REGULAR => copy_file(pool, inode, into, &name, mode, &path)?,
            pool_fs::TYPE_SYMLINK => {
                let mut target = vec![0; (inode.size.load(Ordering::Relaxed)).min(PAGE_SIZE) as usize];
                let len = pool_fs::read_bytes(pool, inode, 0, &mut target);
                let temporary = temporary_name(&name);
                let _ = rustix::fs::unlinkat(into, &temporary, AtFlags::empty());
                rustix::fs::symlinkat(&target[..len], into, &temporary).map_err(write)?;
                rustix::fs::renameat(into, &temporary, into, &name).map_err(write)?;
            }
            _ => skipped.push(path),
        }
    }
    rustix::fs::fsync(into).context(ErrorKind::Io, || format!("cannot write {}", path.display()))
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
fn copy_file(
    pool: &HostPool,
    inode: &'static InodeRecord,
    into: &OwnedFd,
    name: &OsStr,
    mode: Mode,
    path: &Path,
) -> Result<()> {
    let what = || format!("cannot write {}", path.display());
    let temporary = temporary_name(name);
    let _ = rustix::fs::unlinkat(into, &temporary, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        rustix::fs::openat(into, &temporary, flags, Mode::RUSR | Mode::WUSR).context(ErrorKind::CantCreate, what)?;
    let file = File::from(file);
    let copied = (|| {
        write_contents(pool, inode, &file)?;
        rustix::fs::fchmod(file.as_fd(), mode)?;
        file.sync_all()?;
        Ok::<(), std::io::Error>(rustix::fs::renameat(into, &temporary, into, name)?)
    })();
    if copied.is_err() {
        let _ = rustix::fs::unlinkat(into, &temporary, AtFlags::empty());
    }
    copied.context(ErrorKind::Io, what)
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
        Command, Machine,
        rootfs::{Entry, Tree},
    };
    use std::{fs, os::unix::fs::MetadataExt};

    fn pool(tree: &Tree) -> HostPool {
        let text = "[pool]\nsize = \"32MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\n";
        let pool = HostPool::create(&Machine::parse(text).unwrap(), &Command::default(), 1, false).unwrap();
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
        ]));
        let out = folder.path().join("new/results");
        let results = Results::prepare(&out).unwrap();
        assert_eq!(results.collect(&pool).unwrap(), [out.join("null")]);
        assert_eq!(fs::read(out.join("big")).unwrap(), big);
        assert_eq!(fs::metadata(out.join("big")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::metadata(out.join("deep")).unwrap().mode() & 0o777, 0o750);
        assert_eq!(fs::read(out.join("deep/empty")).unwrap(), b"");
        assert_eq!(fs::read_link(out.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3, "nothing temporary is left");
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
    fn a_lock_that_a_dead_island_held_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(&Tree::of(&[("out", Entry::Directory, 0o755), ("out/a", Entry::Bytes(b"x".into()), 0o644)]));
        let root = root_of(&pool).unwrap();
        let held = ["", "out", "out/a"].map(|path| find(&pool, root, path.as_bytes()).unwrap());
        held.iter().for_each(|inode| inode.lock.store(3, Ordering::Relaxed));
        Results::prepare(folder.path()).unwrap().collect(&pool).unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"x");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told_before_the_run() {
        let error = Results::prepare(Path::new("/proc/motet-results")).unwrap_err();
        assert!(error.exit_status() == 73 && error.message.contains("--out /proc/motet-results"), "{error}");
    }
}

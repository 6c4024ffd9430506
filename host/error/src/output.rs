//! The files that users name for results.
//!
//! The name may be a device's, a pipe's or a link to one (`/dev/null`, `/dev/stdout`): that is written through, and stays what it is. Only regular
//! files are ever replaced or removed, so that root loses no device. A result that does not fit is removed: there is the whole of it or nothing.

use std::{
    fs::{self, File, Metadata},
    io::{self, BufWriter, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A file that gets a result.
#[derive(Debug)]
pub struct Output {
    file: File,
    path: PathBuf,
}

impl Output {
    /// Opens it before there is a result, so that a wrong path is known at once. What a regular file had is gone then.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, path: path.into() })
    }

    /// As [`Output::create`], but a regular file that is there is replaced: who runs it or knows it by another name keeps it.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn replace(path: &Path) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(there) if there.is_file() => fs::remove_file(path)?,
            // A link to a program that runs. Its name is the program's, so what it leads to is replaced.
            Ok(there) if there.is_symlink() && is_busy(path) => return Self::replace(&fs::canonicalize(path)?),
            Ok(_) | Err(_) => {}
        }
        Self::create(path)
    }

    /// Writes what `contents` writes.
    ///
    /// # Errors
    /// It does not take all of that. If it is a regular file, it is gone.
    pub fn write(&self, contents: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut out = BufWriter::new(&self.file);
        let written = contents(&mut out).and_then(|()| out.flush());
        if written.is_err() {
            // What is left in the buffer is not tried again.
            drop(out.into_parts());
            self.remove();
        }
        written
    }

    /// Lets whoever may read a regular file run it, too.
    ///
    /// # Errors
    /// The file system's.
    pub fn make_executable(&self) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let there = self.file.metadata()?;
        if !there.is_file() {
            return Ok(());
        }
        let mut permissions = there.permissions();
        permissions.set_mode(permissions.mode() | (permissions.mode() & 0o444) >> 2);
        self.file.set_permissions(permissions)
    }

    /// Takes back what has been written of a result. Behind a link, the file is emptied; what is not regular is left alone.
    fn remove(&self) {
        let Ok(own) = self.file.metadata() else { return };
        let is_own = |there: Metadata| there.is_file() && (there.dev(), there.ino()) == (own.dev(), own.ino());
        if !own.is_file() {
            return;
        }
        let _ = self.file.set_len(0);
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a result of these bytes, in the file's place if it is there.
///
/// # Errors
/// As those of [`Output::create`] and [`Output::write`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Output::create(path)?.write(|out| out.write_all(bytes))
}

/// Whether a file is a program that runs.
fn is_busy(path: &Path) -> bool {
    let is_file = fs::metadata(path).is_ok_and(|there| there.is_file());
    is_file
        && File::options().write(true).open(path).is_err_and(|error| error.kind() == io::ErrorKind::ExecutableFileBusy)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileTypeExt, process::Command, thread};

    use super::*;

    /// A folder that is removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("motet-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn pipes_and_links_to_them_are_written_through_and_stay() {
        let folder = Folder::new("pipes");
        let (pipe, link) = (folder.0.join("pipe"), folder.0.join("link"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        std::os::unix::fs::symlink("pipe", &link).unwrap();
        for path in [&pipe, &link] {
            let reader = thread::spawn({
                let pipe = pipe.clone();
                move || fs::read(pipe).unwrap()
            });
            let output = Output::replace(path).unwrap();
            output.write(|out| out.write_all(b"prelude")).unwrap();
            output.make_executable().unwrap();
            drop(output);
            assert_eq!(reader.join().unwrap(), b"prelude");
            let there = fs::symlink_metadata(&pipe).unwrap();
            assert!(there.file_type().is_fifo() && there.mode() & 0o111 == 0);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
    }

    #[test]
    fn a_file_is_replaced_and_its_other_name_keeps_what_it_had() {
        let folder = Folder::new("names");
        let (path, other) = (folder.0.join("file"), folder.0.join("other"));
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, &other).unwrap();
        Output::replace(&path).unwrap().write(|out| out.write_all(b"new")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"old".to_vec()));
        write(&other, b"newer").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"newer");
    }

    #[test]
    fn what_does_not_fit_leaves_nothing_and_a_device_stays() {
        let folder = Folder::new("full");
        let (path, link, full) = (folder.0.join("file"), folder.0.join("link"), folder.0.join("full"));
        let is_full = |out: &mut dyn Write| {
            out.write_all(&[0; 100_000])?;
            Err(io::ErrorKind::StorageFull.into())
        };
        assert!(Output::create(&path).unwrap().write(is_full).is_err());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert!(Output::create(&link).unwrap().write(is_full).is_err());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && fs::read(&path).unwrap().is_empty());
        std::os::unix::fs::symlink("/dev/full", &full).unwrap();
        assert_eq!(write(&full, b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(fs::symlink_metadata(&full).unwrap().is_symlink());
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }
}

//! A folder as a tar with gzip, which depends on nothing but names, contents and which files are programs.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder, write::GzEncoder};
use motet_error::{Error, Result};
use tar::{Builder, EntryType, Header};

/// Writes it: entries by name, of root, last changed at `date` (seconds since 1970).
///
/// # Errors
/// The folder cannot be read, or the file not be written; what is there of it is removed.
pub fn write(folder: &Path, date: u64, output: &Path) -> Result<()> {
    let written = File::create(output).and_then(|file| pack(folder, date, file));
    written.map_err(|error| {
        let _ = fs::remove_file(output);
        Error::write(output, error)
    })
}

fn pack(folder: &Path, date: u64, file: File) -> io::Result<()> {
    // Neither a name nor a date in gzip's header.
    let packed = GzBuilder::new().write(BufWriter::new(file), Compression::best());
    let mut archive = Builder::new(packed);
    for path in entries(folder)? {
        add(&mut archive, folder, &path, date)?;
    }
    archive.into_inner()?.finish()?.flush()
}

/// What is in a folder and in those below it, by name, without the folder itself.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(folder.join(&path))? {
            let entry = entry?;
            let path = path.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                left.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn add(archive: &mut Builder<GzEncoder<BufWriter<File>>>, folder: &Path, path: &Path, date: u64) -> io::Result<()> {
    let file = folder.join(path);
    let metadata = fs::symlink_metadata(&file)?;
    let mut header = Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_username("root")?;
    header.set_groupname("root")?;
    header.set_mtime(date);
    header.set_size(0);
    header.set_mode(0o755);
    if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        return archive.append_data(&mut header, path, io::empty());
    }
    if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        return archive.append_link(&mut header, path, fs::read_link(&file)?);
    }
    header.set_entry_type(EntryType::Regular);
    header.set_mode(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
    header.set_size(metadata.len());
    archive.append_data(&mut header, path, File::open(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    #[test]
    fn the_same_contents_are_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let archive = |name: &str, order: [&str; 3]| {
            let (tree, output) = (folder.path().join(name), folder.path().join(format!("{name}.tar.gz")));
            order.iter().for_each(|name| tools::write(&tree.join(name), *name).unwrap());
            tools::link("b", &tree.join("usr/link")).unwrap();
            write(&tree, 1_000_000_000, &output).unwrap();
            fs::read(output).unwrap()
        };
        let one = archive("one", ["usr/a", "usr/b", "usr/c/d"]);
        assert_eq!(one, archive("two", ["usr/c/d", "usr/b", "usr/a"]));
        assert_ne!(one, archive("three", ["usr/c/d", "usr/b", "usr/e"]));
    }

    #[test]
    fn an_archive_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.tar.gz");
        assert!(write(&folder.path().join("none"), 0, &output).is_err());
        assert!(!output.exists());
    }
}

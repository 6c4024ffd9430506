//! Files between a source and its object (`-save-temps`), which the first compilation for the primary ISA writes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Driver;
use crate::error::{Error, Result, create_folder, read, write};

/// Of the files that clang saves.
const EXTENSIONS: [&str; 6] = ["i", "ii", "mi", "mii", "bc", "s"];

impl Driver {
    /// The folder for the primary ISA's object.
    pub(super) fn saved_folder(&self) -> Result<PathBuf> {
        let folder = self.temporary.path().join("saved");
        create_folder(&folder)?;
        Ok(folder)
    }

    /// Moves what clang has saved beside its object to where the user's output is (`-save-temps=obj`), unless a source is there: assembly and
    /// preprocessed sources may have such names.
    pub(super) fn put_saved(&self, folder: &Path, goal: &Path) -> Result<()> {
        if self.arguments.saves.as_ref().is_none_or(|option| !option.as_encoded_bytes().ends_with(b"=obj")) {
            return Ok(());
        }
        let entries = fs::read_dir(folder).map_err(|error| Error::read(folder, error))?;
        let sources = self.sources();
        for path in entries.flatten().map(|entry| entry.path()) {
            let is_saved = path.extension().and_then(|extension| extension.to_str());
            if let (true, Some(name)) = (is_saved.is_some_and(|one| EXTENSIONS.contains(&one)), path.file_name()) {
                let target = goal.with_file_name(name);
                if !sources.iter().any(|source| is_same_file(&source.path, &target)) {
                    write(&target, &read(&path)?)?;
                }
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

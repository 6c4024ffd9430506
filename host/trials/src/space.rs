//! Room on disk. A whole run writes gigabytes; on a full disk everything that follows fails, and says little of why.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

const GIB: u64 = 1 << 30;
/// What a first run of everything writes, with a new system beside it that is being set up, and what a later one does.
const FIRST_RUN: u64 = 12 * GIB;
const LATER_RUN: u64 = 3 * GIB;
/// With less nothing can be compiled. What tests leave for a while needs little, and often has a small disk of its own.
const LEAST_BUILT: u64 = GIB / 4;
const LEAST_LEFT: u64 = GIB / 64;

/// Where a run writes, and how much it needs there: what is built, and what tests leave for a while.
fn places(target: &Path) -> [(PathBuf, u64); 2] {
    [(target.to_owned(), LEAST_BUILT), (std::env::temp_dir(), LEAST_LEFT)]
}

/// Bytes that are left on the disk of a folder, or of the nearest one above it that is there.
fn left(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let disk = statvfs(there).ok()?;
    Some(disk.f_bavail * disk.f_frsize)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

/// What to say before a run of everything, if the disk may become full.
pub fn warning(target: &Path, is_first: bool) -> Option<String> {
    too_little(target, left(target)?, if is_first { FIRST_RUN } else { LATER_RUN })
}

fn too_little(target: &Path, left: u64, needed: u64) -> Option<String> {
    (left < needed).then(|| {
        format!(
            "the disk of {} has {} left, and a run may write {}: make room, or name a folder on another disk in CARGO_TARGET_DIR",
            target.display(),
            gib(left),
            gib(needed)
        )
    })
}

/// Whether the run cannot go on for want of space; if so, where.
pub fn exhausted(target: &Path) -> Option<String> {
    let (full, _) = places(target).into_iter().find(|(place, least)| left(place).is_some_and(|left| left < *least))?;
    Some(format!(
        "the disk of {} is full, so nothing that has failed tells of Motet: make room, or name a folder on another disk in CARGO_TARGET_DIR (TMPDIR for what tests leave for a while)",
        full.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told_with_what_to_do() {
        let target = Path::new("/somewhere/target");
        assert_eq!(too_little(target, FIRST_RUN, FIRST_RUN), None);
        let told = too_little(target, 9 * GIB + GIB / 5, FIRST_RUN).unwrap();
        assert!(told.contains("/somewhere/target has 9.2 GiB left, and a run may write 12.0 GiB"), "{told}");
        assert!(told.contains("CARGO_TARGET_DIR"));
    }

    #[test]
    fn the_disk_of_a_folder_that_is_still_to_come_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let of_it = left(&folder.path().join("not/yet")).unwrap();
        assert!(of_it > 0 && exhausted(folder.path()).is_none(), "{of_it}");
        // A kernel's own tables have no room at all.
        assert!(exhausted(Path::new("/proc/self")).unwrap().contains("/proc/self is full"));
    }
}

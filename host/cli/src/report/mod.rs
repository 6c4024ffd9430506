//! `--report DIR`: what a timed run measured as a page for a browser: one file, without scripts and without the network.

mod chart;
mod fpga;
mod kernels;
mod page;
mod plots;
mod series;

use std::{
    fs,
    path::{Path, PathBuf},
};

use motet_error::{Error, ErrorKind, Result, output};
use motet_fabric::stats::Stats;

use crate::stats;

/// The folder that a report will be in.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder, if it is not there, and sees whether files can be made in it, before a long run.
    ///
    /// # Errors
    /// It is a file, or cannot be written.
    pub fn prepare(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            let message = format!("--report {}: there is a file of that name; name a folder", path.display());
            return Err(Error::new(ErrorKind::CantCreate, message));
        }
        fs::create_dir_all(path).map_err(|error| failed(path, &error))?;
        let folder = Self { path: path.into() };
        for file in [folder.page(), folder.stats()] {
            fs::OpenOptions::new().append(true).create(true).open(&file).map_err(|error| failed(&file, &error))?;
        }
        Ok(folder)
    }

    /// Writes `index.html` and `stats.json`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&self, measured: &Stats) -> Result<()> {
        let write =
            |path: &Path, text: String| output::write(path, text.as_bytes()).map_err(|error| failed(path, &error));
        write(&self.stats(), stats::text(measured))?;
        write(&self.page(), page::page(measured))
    }

    fn page(&self) -> PathBuf {
        self.path.join("index.html")
    }

    fn stats(&self) -> PathBuf {
        self.path.join("stats.json")
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::CantCreate, format!("--report: {}: {error}", path.display()))
}

#[cfg(test)]
pub mod sample;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_folder_is_made_and_filled() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/b");
        let folder = Folder::prepare(&path).unwrap();
        folder.write(&sample::stats(2, 2)).unwrap();
        let read: Stats = serde_json::from_slice(&fs::read(path.join("stats.json")).unwrap()).unwrap();
        assert_eq!(read, sample::stats(2, 2));
        assert!(fs::read_to_string(path.join("index.html")).unwrap().ends_with("</html>\n"));
        Folder::prepare(&path).unwrap();
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("file");
        fs::write(&path, "x").unwrap();
        for (path, what) in [(path.clone(), "name a folder"), (path.join("below"), "Not a directory")] {
            let error = Folder::prepare(&path).unwrap_err();
            assert_eq!(error.exit_status(), 73);
            assert!(error.message.contains(what) && error.message.contains("file"), "{error}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"x");
    }

    /// The paths of all fields, as docs/stats.md writes them.
    fn paths(path: &str, value: &Value, found: &mut BTreeSet<String>) {
        // These are described where they are first, or in one line.
        let whole = [
            "regions[].cores[]",
            "samples.cores[]",
            "samples.columns[]",
            "stale_read_addresses[]",
            "fpga.regions[].state_ps",
            "fpga.changes[]",
            "kernels[].messages",
            "guests.runs[]",
        ]
        .contains(&path);
        match (value.as_object(), value.as_array()) {
            (Some(fields), _) if !whole => {
                for (name, value) in fields {
                    paths(&format!("{path}{}{name}", if path.is_empty() { "" } else { "." }), value, found);
                }
            }
            (_, Some(elements)) if !whole => {
                elements.iter().for_each(|element| paths(&format!("{path}[]"), element, found));
            }
            _ => drop(found.insert(path.to_owned())),
        }
    }

    #[test]
    fn the_page_describes_every_field_and_counter_and_no_other() {
        let page = include_str!("../../../../docs/stats.md");
        let mut described = BTreeSet::new();
        let mut prefix = "";
        for line in page.lines() {
            match line {
                "## Counters" => prefix = "cores[].memory.",
                "## Derived figures" => break,
                line => described.extend(
                    line.strip_prefix("| `")
                        .and_then(|rest| rest.split_once('`'))
                        .map(|(name, _)| format!("{prefix}{name}")),
                ),
            }
        }
        let mut fields = BTreeSet::new();
        paths("", &serde_json::to_value(sample::stats(2, 1)).unwrap(), &mut fields);
        // Headings of what follows them.
        for heading in ["cores[]", "cores[].memory", "regions[]"] {
            assert!(described.remove(heading), "{heading}");
        }
        assert_eq!(described, fields);
    }
}

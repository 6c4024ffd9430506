//! Where a package is built, and which of its sets of pins have passed.
//!
//! A single test has a folder that goes with it. `./motet test packages` (`MOTET_PACKAGES` names its folder) keeps what is built and writes a
//! line for each set that has ended, so that a run that is interrupted goes on where it was.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{run, text};
use crate::{
    bad_input::{SEED_VARIABLE, seed},
    process,
};

const VARIABLE: &str = "MOTET_PACKAGES";
/// Says what is tested: a digest of `motet` and the recipe. What has passed with another is tried again.
const TESTED: &str = "MOTET_PACKAGES_TESTED";

/// A package's folder, and the lines about its sets.
pub struct Work {
    name: String,
    folder: PathBuf,
    /// Whose lines are `name seed set pins options result commit tested`, with tabs between.
    results: Option<PathBuf>,
    _temporary: Option<TempDir>,
}

impl Work {
    /// Makes the folder of a package, or finds the one that an earlier run has left.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of(name: &str) -> Result<Self, String> {
        let Some(all) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            let temporary = tempfile::tempdir().map_err(text)?;
            let folder = temporary.path().to_owned();
            return Ok(Self { name: name.to_owned(), folder, results: None, _temporary: Some(temporary) });
        };
        let folder = all.join(format!("{name}-{}", seed()));
        fs::create_dir_all(&folder).map_err(text)?;
        Ok(Self { name: name.to_owned(), folder, results: Some(all.join("results.tsv")), _temporary: None })
    }

    /// Where everything is built.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a set has passed in an earlier run with this seed, of the same.
    pub fn has_passed(&self, set: usize) -> bool {
        let lines = self.results.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let own = [self.name.clone(), seed().to_string(), set.to_string()];
        let tested = tested();
        lines.lines().any(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            own.iter().eq(words.iter().take(own.len()))
                && words.get(5) == Some(&"pass")
                && words.get(7).is_some_and(|of| !of.is_empty() && *of == tested)
        })
    }

    /// Notes how a set has ended.
    ///
    /// # Errors
    /// The line cannot be written.
    pub fn note(&self, set: usize, pins: usize, options: &str, passed: bool) -> Result<(), String> {
        let Some(path) = &self.results else { return Ok(()) };
        let (name, seed, result) = (&self.name, seed(), if passed { "pass" } else { "fail" });
        let describe = ["describe", "--always", "--dirty"];
        let commit = run(Command::new("git").arg("-C").arg(process::root()).args(describe));
        let commit = commit.unwrap_or_else(|_| "unknown".into());
        let line = format!("{name}\t{seed}\t{set}\t{pins}\t{options}\t{result}\t{}\t{}\n", commit.trim(), tested());
        File::options()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .map_err(text)
    }

    /// What repeats the test.
    pub fn command(&self) -> String {
        match &self.results {
            Some(_) => format!("./motet test packages --seed {} {}", seed(), self.name),
            None => format!("{SEED_VARIABLE}={}", seed()),
        }
    }

    /// How often functions are called: what an earlier run has counted with the same recipe, or `count` counts.
    ///
    /// # Errors
    /// Those of `count`; it cannot be kept.
    pub fn calls(
        &self,
        count: impl FnOnce() -> Result<BTreeMap<String, u64>, String>,
    ) -> Result<BTreeMap<String, u64>, String> {
        let recipe = process::root().join("tests/packages").join(&self.name).with_extension("sh");
        let recipe = fs::read_to_string(recipe).map_err(text)?;
        let kept = self.folder.join("calls.json");
        let before = fs::read(&kept).ok().and_then(|bytes| serde_json::from_slice::<(String, _)>(&bytes).ok());
        if let Some((_, calls)) = before.filter(|(of, _)| *of == recipe) {
            return Ok(calls);
        }
        let calls = count()?;
        let bytes = serde_json::to_vec(&(recipe, &calls)).map_err(|error| error.to_string())?;
        fs::write(&kept, bytes).map_err(text)?;
        Ok(calls)
    }

    /// All sets have passed: what was built is no longer needed.
    pub fn end(self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn tested() -> String {
    std::env::var(TESTED).unwrap_or_default()
}

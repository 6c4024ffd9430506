//! Figures with provenance: what `docs/figures/*.json` hold, one file for each experiment, and the documents that quote them.
//!
//! `motet bench all` writes the files and the page docs/figures.md; a test fails when a document quotes a figure that is not the
//! recorded one, or a page is not that of the files.

mod age;
mod page;
mod quotes;

use std::path::{Path, PathBuf};

use motet_error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::project::file_error;

pub use self::{
    age::old_figures,
    quotes::{differences, requote},
};

/// What one experiment measured, in one run or in several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The runs that figures come from.
    pub runs: Vec<Run>,
    /// Each metric once, in the order in which the experiment reports it.
    pub figures: Vec<Figure>,
}

/// Where figures come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The command that measures them.
    pub command: String,
    /// The commit of the source, as git names it.
    pub commit: String,
    /// The source had changes that are not in the commit; documents do not count.
    pub changed: bool,
    /// The computer.
    pub host: String,
    /// QEMU's version, all of it.
    pub qemu: String,
}

/// A [`crate::report::Measurement`], as it is read back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name.
    pub metric: String,
    /// What was measured.
    pub value: f64,
    /// The unit of `value`, `reference` and `target`.
    pub unit: String,
    /// What it was measured on.
    pub machine: String,
    /// What it is compared with.
    pub reference: Option<f64>,
    /// What it is to reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// Where value and reference come from.
    pub source: String,
    /// Which of the runs it comes from.
    #[serde(default)]
    pub run: usize,
}

impl Recorded {
    /// Reads a file; one that is not there has no figures.
    ///
    /// # Errors
    /// It cannot be read, or is not such a file.
    pub fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(file_error(path)(error)),
        };
        let bad = |why: String| Error::new(ErrorKind::Data, format!("{}: {why}", path.display()));
        let recorded: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        match recorded.figures.iter().find(|figure| figure.run >= recorded.runs.len()) {
            Some(figure) => Err(bad(format!("{} comes from run {}, which is not there", figure.metric, figure.run))),
            None => Ok(recorded),
        }
    }

    /// Writes the file as a whole.
    ///
    /// # Errors
    /// The host refuses.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("numbers and strings") + "\n";
        write_whole(path, &text)
    }

    /// Takes what a run measured: in place of what was known of the same metrics or, if the experiment ran as a whole, of all.
    pub fn take(&mut self, run: Run, measured: Vec<Figure>, whole: bool) {
        if whole {
            self.figures.clear();
        }
        let number = self.runs.len();
        self.runs.push(run);
        for figure in measured {
            let figure = Figure { run: number, ..figure };
            match self.figures.iter_mut().find(|known| known.metric == figure.metric) {
                Some(known) => *known = figure,
                None => self.figures.push(figure),
            }
        }
        self.drop_unused_runs();
    }

    fn drop_unused_runs(&mut self) {
        let is_used = |number: &usize| self.figures.iter().any(|figure| figure.run == *number);
        let used: Vec<usize> = (0..self.runs.len()).filter(is_used).collect();
        self.runs = used.iter().map(|&number| self.runs[number].clone()).collect();
        for figure in &mut self.figures {
            figure.run = used.iter().position(|&number| number == figure.run).expect("it is used by this figure");
        }
    }
}

/// All figures of a folder, by experiment in the order of their names.
///
/// # Errors
/// A file cannot be read, or two experiments have the same metric.
pub fn load_all(folder: &Path) -> Result<Vec<(String, Recorded)>> {
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(file_error(folder)(error)),
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let all: Vec<_> = paths.iter().map(|path| Ok((name(path), Recorded::load(path)?))).collect::<Result<_>>()?;
    let mut metrics: Vec<&str> = all.iter().flat_map(|(_, each)| &each.figures).map(|figure| &*figure.metric).collect();
    metrics.sort_unstable();
    match metrics.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::new(ErrorKind::Data, format!("{}: {} is there twice", folder.display(), pair[0]))),
        None => Ok(all),
    }
}

/// Writes the page of all figures.
///
/// # Errors
/// The host refuses.
pub fn write_page(path: &Path, all: &[(String, Recorded)]) -> Result<()> {
    write_whole(path, &page::render(all))
}

/// Whoever reads the file finds the old one or the new one.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text).map_err(file_error(&new))?;
    std::fs::rename(&new, path).map_err(file_error(path))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn run(commit: &str) -> Run {
        let text = |text: &str| text.to_owned();
        let (command, host, qemu) = (text("./motet bench x"), text("host 2 x CPU"), text("10.0.2"));
        Run { command, commit: text(commit), changed: false, host, qemu }
    }

    pub fn figure(metric: &str, value: f64) -> Figure {
        let text = |text: &str| text.to_owned();
        let (unit, machine, source) = (text("us"), text("a machine"), text("a source"));
        Figure { metric: text(metric), value, unit, machine, reference: Some(18.3), target: Some(12.0), source, run: 0 }
    }

    pub fn project() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn a_run_replaces_what_it_measured_and_runs_without_figures_go() {
        let mut recorded = Recorded::default();
        recorded.take(run("1"), vec![figure("a", 1.0), figure("b", 2.0)], true);
        recorded.take(run("2"), vec![figure("b", 3.0), figure("c", 4.0)], false);
        let values = |recorded: &Recorded| -> Vec<(String, f64, String)> {
            let commit = |figure: &Figure| recorded.runs[figure.run].commit.clone();
            recorded.figures.iter().map(|figure| (figure.metric.clone(), figure.value, commit(figure))).collect()
        };
        let entry = |metric: &str, value: f64, commit: &str| (metric.to_owned(), value, commit.to_owned());
        assert_eq!(values(&recorded), [entry("a", 1.0, "1"), entry("b", 3.0, "2"), entry("c", 4.0, "2")]);
        recorded.take(run("3"), vec![figure("a", 5.0)], false);
        assert_eq!((recorded.runs.len(), recorded.runs[0].commit.as_str()), (2, "2"));
        assert_eq!(values(&recorded), [entry("a", 5.0, "3"), entry("b", 3.0, "2"), entry("c", 4.0, "2")]);
        recorded.take(run("4"), vec![figure("c", 6.0)], true);
        assert_eq!((recorded.runs.len(), values(&recorded)), (1, vec![entry("c", 6.0, "4")]));
    }

    #[test]
    fn files_are_read_as_they_were_written_and_bad_ones_are_told() {
        let folder = std::env::temp_dir().join(format!("motet-figures-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.json");
        assert_eq!(Recorded::load(&path).unwrap(), Recorded::default());
        let mut recorded = Recorded::default();
        recorded.take(run("1"), vec![figure("a", 1.25)], true);
        recorded.save(&path).unwrap();
        assert_eq!(load_all(&folder).unwrap(), [("x".to_owned(), recorded.clone())]);
        recorded.save(&folder.join("y.json")).unwrap();
        assert!(load_all(&folder).unwrap_err().message.contains("a is there twice"));
        recorded.runs.clear();
        recorded.save(&path).unwrap();
        assert!(Recorded::load(&path).unwrap_err().message.contains("run 0, which is not there"));
        std::fs::write(&path, "[]").unwrap();
        assert!(Recorded::load(&path).unwrap_err().message.contains("x.json"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn documents_quote_what_was_measured() {
        let all = load_all(&project().join("docs/figures")).unwrap();
        let differences = differences(&project(), &all).unwrap();
        assert!(differences.is_empty(), "\n{}", differences.join("\n"));
    }

    #[test]
    fn the_page_shows_the_recorded_figures() {
        let all = load_all(&project().join("docs/figures")).unwrap();
        let path = project().join("docs/figures.md");
        if std::env::var_os("MOTET_BLESS").is_some() {
            write_page(&path, &all).unwrap();
        }
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(
            page == page::render(&all),
            "docs/figures.md is another one's: MOTET_BLESS=1 cargo test -p motet-bench"
        );
    }
}

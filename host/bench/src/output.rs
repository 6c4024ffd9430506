//! Where an experiment leaves what it measured, beside the table that it prints.

use std::path::{Path, PathBuf};

use clap::Args;
use motet_error::Result;

use crate::page;

/// Options of the experiments that draw a page.
#[derive(Args, Clone, Debug, Default)]
pub struct Output {
    /// Write the measurements to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Output {
    /// Makes the page's folder, before anything is measured.
    ///
    /// # Errors
    /// The host refuses.
    pub fn prepare(&self) -> Result<()> {
        self.report.as_deref().map_or(Ok(()), page::prepare)
    }

    /// Writes the page, if one is wanted; its body is HTML that is well-formed XML, too.
    ///
    /// # Errors
    /// The host refuses.
    pub fn page(&self, title: &str, body: impl FnOnce() -> String) -> Result<()> {
        self.report.as_deref().map_or(Ok(()), |folder| page::write(folder, title, &body()))
    }

    /// The file for the measurements.
    pub fn json(&self) -> Option<&Path> {
        self.json.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_drawn_only_where_one_is_wanted() {
        let nothing = Output::default();
        nothing.prepare().unwrap();
        nothing.page("t", || unreachable!("nobody wants it")).unwrap();
        let folder = std::env::temp_dir().join(format!("motet-output-{}", std::process::id()));
        let output = Output { report: Some(folder.clone()), ..nothing };
        output.prepare().unwrap();
        output.page("t", || "<p>body</p>".into()).unwrap();
        let text = std::fs::read_to_string(folder.join("index.html")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(text.contains("<p>body</p>"), "{text}");
    }
}

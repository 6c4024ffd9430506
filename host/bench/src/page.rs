//! What the pages of experiments have in common: their folder, and tables.

use std::{fmt::Write, path::Path};

use motet_error::{Error, ErrorKind, Result, output};
use motet_page::format::escape;

use crate::report::{Measurement, number};

/// Makes the folder and its `index.html`, before anything is measured.
///
/// # Errors
/// The host refuses.
pub fn prepare(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(refused(folder))?;
    std::fs::OpenOptions::new().append(true).create(true).open(folder.join("index.html")).map_err(refused(folder))?;
    Ok(())
}

/// Writes `index.html`; `body` is HTML that is well-formed XML, too.
///
/// # Errors
/// The host refuses.
pub fn write(folder: &Path, title: &str, body: &str) -> Result<()> {
    output::write(&folder.join("index.html"), motet_page::page(title, body).as_bytes()).map_err(refused(folder))
}

fn refused(folder: &Path) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::new(ErrorKind::CantCreate, format!("--report {}: {error}", folder.display()))
}

/// A table.
pub fn table<const N: usize>(heads: &[&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<Vec<String>> = rows.map(Vec::from).collect();
    rows_of(&heads.map(str::to_owned), &rows)
}

/// A table that has as many columns as there are heads.
pub fn rows_of(heads: &[String], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, row: &[String]| {
        row.iter().fold(String::new(), |mut text, cell| {
            let _ = write!(text, "<{tag}>{}</{tag}>", escape(cell));
            text
        })
    };
    let head = cells("th", heads);
    let body = rows.iter().fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "<tr>{}</tr>", cells("td", row));
        text
    });
    format!("<div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n")
}

/// A table of all measurements, with its heading.
pub fn all_figures(measurements: &[Measurement]) -> String {
    let rows = measurements.iter().map(|row| {
        let reference = row.reference.map_or("–".into(), number);
        [row.metric.clone(), number(row.value), row.unit.into(), reference, row.machine.clone()]
    });
    "<h2>All figures</h2>\n".to_owned() + &table(&["metric", "value", "unit", "reference", "machine"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_way_of_the_folder_is_named() {
        let file = std::env::temp_dir().join(format!("motet-bench-page-{}", std::process::id()));
        std::fs::write(&file, "x").unwrap();
        let error = prepare(&file).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert!(error.message.contains("--report"), "{error}");
    }
}

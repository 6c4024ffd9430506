//! Views as text, for scripts: tables, or a line of JSON.

use crate::{
    tables::{self, Sort, Table},
    view::View,
};

/// No column is left out.
const WIDTH: usize = 1000;

/// All tables.
pub fn text(view: &View) -> String {
    let mut text = tables::title(view) + "\n";
    let tables = [Some(tables::counts(view)), Some(tables::memory(view)), Some(tables::cores(view))];
    let further = [tables::caches(view), tables::messages(view), Some(tables::processes(view, Sort::Cpu))];
    for table in tables.into_iter().chain(further).flatten() {
        text += &lines(&table);
    }
    text
}

fn lines(table: &Table) -> String {
    table.lines(WIDTH).iter().fold("\n".to_owned(), |text, line| text + line + "\n")
}

/// A line of JSON.
pub fn json(view: &View) -> String {
    serde_json::to_string(view).expect("numbers and strings") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;

    #[test]
    fn everything_is_printed() {
        let text = text(&view());
        let heads: Vec<&str> = text.split("\n\n").map(|part| part.split_whitespace().next().unwrap()).collect();
        assert_eq!(heads, ["motet", "ISLAND", "ISLAND", "CORE", "PID"], "{text}");
        assert!(text.contains("\nriscv.0 runs  100%     0  12  14 sort\n"), "{text}");
    }

    #[test]
    fn json_has_the_same() {
        let value: serde_json::Value = serde_json::from_str(&json(&view())).unwrap();
        assert_eq!(value["islands"][1]["cores"][0]["runs"]["name"], "sort");
        assert_eq!(value["islands"][0]["counts"]["arrivals"], 1200);
        assert_eq!(value["processes"][1]["cpu"], 1.0);
        assert_eq!(json(&view()).lines().count(), 1);
    }
}

//! What kernels of a machine in which each island has its own have exchanged: a table, for the terminal and for the page.

use motet_fabric::stats::{KernelStats, MessageStats};

/// A line of it: what is counted, and for each kernel what it has sent and what it has taken; `None`: there is no such thing.
pub struct Row {
    /// What is counted.
    pub name: String,
    /// By kernel.
    pub counts: Vec<[Option<u64>; 2]>,
}

/// The kinds of messages that there were, and what they took.
pub fn rows(kernels: &[KernelStats]) -> Vec<Row> {
    let Some(first) = kernels.first() else { return Vec::new() };
    let row = |name: &str, of: &dyn Fn(&KernelStats) -> [Option<u64>; 2]| Row {
        name: name.into(),
        counts: kernels.iter().map(of).collect(),
    };
    let of_kind = |kernel: &KernelStats, kind: &str| {
        let MessageStats { sent, taken } = kernel.messages.get(kind).copied().unwrap_or_default();
        [Some(sent), Some(taken)]
    };
    let was_there = |kind: &&String| kernels.iter().any(|kernel| of_kind(kernel, kind) != [Some(0); 2]);
    let kinds = first.messages.keys().filter(was_there).map(|kind| row(kind, &|kernel| of_kind(kernel, kind)));
    let totals = [
        row("bytes", &|kernel| [Some(kernel.bytes_sent), Some(kernel.bytes_taken)]),
        row("doorbells", &|kernel| [Some(kernel.doorbells), None]),
        row("refused", &|kernel| [None, Some(kernel.refused)]),
    ];
    kinds.chain(totals).collect()
}

/// For the terminal.
pub fn lines(kernels: &[KernelStats]) -> Vec<String> {
    let rows = rows(kernels);
    if rows.is_empty() {
        return Vec::new();
    }
    let names = kernels.iter().flat_map(|kernel| ["sent", "taken"].map(|what| format!("{} {what}", kernel.island)));
    let names: Vec<String> = names.collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(12);
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>width$}")).collect();
        format!("motet: {name:<20}{cells}").trim_end().to_owned()
    };
    let cell = |count: &Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let of_row = |row: &Row| line(&row.name, &row.counts.iter().flatten().map(cell).collect::<Vec<_>>());
    std::iter::once(line("messages", &names)).chain(rows.iter().map(of_row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(island: &str, sent: u64, taken: u64) -> KernelStats {
        let kinds = [("page_request", MessageStats { sent, taken }), ("unused", MessageStats::default())];
        KernelStats {
            island: island.into(),
            messages: kinds.map(|(kind, messages)| (kind.into(), messages)).into(),
            bytes_sent: 100 * sent,
            bytes_taken: 100 * taken,
            doorbells: sent,
            refused: 0,
        }
    }

    #[test]
    fn each_kind_that_there_was_has_a_line_and_each_kernel_two_columns() {
        let lines = lines(&[kernel("x86", 7, 5), kernel("arm", 5, 7)]);
        let wanted = [
            "motet: messages                 x86 sent    x86 taken     arm sent    arm taken",
            "motet: page_request                    7            5            5            7",
            "motet: bytes                         700          500          500          700",
            "motet: doorbells                       7                         5",
            "motet: refused                                      0                         0",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_machine_with_one_kernel_has_no_table() {
        assert!(lines(&[]).is_empty());
    }
}

//! The tables of a view, as rows of words.

use std::fmt::Write as _;

use crate::view::{CoreView, IslandView, ProcessView, View};

/// A table. Columns are as wide as what is in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns' names, and whether words begin at the left.
    head: Vec<(&'static str, bool)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[(&'static str, bool)]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Its lines, the head first. What does not fit in `width` is left out: columns from the right, and the end of the last one.
    pub fn lines(&self, width: usize) -> Vec<String> {
        let of = |column: usize| self.rows.iter().map(move |row| row[column].chars().count());
        let widths: Vec<usize> =
            self.head.iter().enumerate().map(|(column, (name, _))| of(column).fold(name.len(), usize::max)).collect();
        // The last column of words may be cut, one of numbers is there or not.
        let ends = widths.iter().scan(0, |end, width| {
            *end += width + 1;
            Some(*end - 1)
        });
        let is_open = |column: usize| column + 1 == self.head.len() && self.head[column].1;
        let fitting = ends.enumerate().take_while(|(column, end)| is_open(*column) || *end <= width).count();
        let head = self.head.iter().map(|(name, _)| (*name).to_owned()).collect();
        std::iter::once(&head).chain(&self.rows).map(|row| self.line(&row[..fitting], &widths, width)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize], width: usize) -> String {
        let mut line = String::new();
        for (column, word) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { " " };
            let _ = match self.head[column].1 {
                true => write!(line, "{gap}{word:<0$}", widths[column]),
                false => write!(line, "{gap}{word:>0$}", widths[column]),
            };
        }
        line.trim_end().chars().take(width).collect()
    }
}

const LEFT: bool = true;
const RIGHT: bool = false;

/// What islands count, the most telling first: the name in the table, and of the count.
const COUNTS: [(&str, &str); 11] = [
    ("CALLS", "syscalls"),
    ("FAULTS", "page_faults"),
    ("SWITCH", "context_switches"),
    ("RINGS", "doorbells_rung"),
    ("COME", "arrivals"),
    ("WAKES", "foreign_wakeups"),
    ("EDITS", "remote_pte_edits"),
    ("SHOOT", "shootdowns"),
    ("FOREIGN", "shootdowns_foreign"),
    ("TAKEN", "doorbells_taken"),
    ("ICACHE", "icache_syncs"),
];

/// What follows its users.
const FOLLOWED: [(&str, &str); 3] =
    [("MOVED", "pages_moved"), ("COPIED", "pages_replicated"), ("REGIONS", "regions_followed")];

/// The island's instruction set, state, and what it has counted.
pub fn counts(view: &View) -> Table {
    let mut table = Table::new(&[("ISLAND", LEFT), ("ISA", LEFT), ("STATE", LEFT), ("BUSY", RIGHT)]);
    table.head.extend(COUNTS.map(|(name, _)| (name, RIGHT)));
    for island in &view.islands {
        let mut row = vec![island.name.clone(), island.isa.into(), island.state.into(), percent(island.busy)];
        row.extend(COUNTS.map(|(_, count)| short(count_of(island, count))));
        table.rows.push(row);
    }
    table
}

/// The islands' memory.
pub fn memory(view: &View) -> Table {
    let mut table = Table::new(&[
        ("ISLAND", LEFT),
        ("NEAR USED", RIGHT),
        ("OF MIB", RIGHT),
        ("NEUTRAL", RIGHT),
        ("OF", RIGHT),
        ("FAR", RIGHT),
        ("OF", RIGHT),
    ]);
    table.head.extend(FOLLOWED.map(|(name, _)| (name, RIGHT)));
    for island in &view.islands {
        let mut row = vec![island.name.clone()];
        row.extend(island.memory.iter().flat_map(|&[all, free]| [mib(all.saturating_sub(free)), mib(all)]));
        row.extend(FOLLOWED.map(|(_, count)| short(count_of(island, count))));
        table.rows.push(row);
    }
    table
}

fn count_of(island: &IslandView, name: &str) -> u64 {
    island.counts.get(name).copied().unwrap_or(0)
}

/// What cores do.
pub fn cores(view: &View) -> Table {
    let head = [
        ("CORE", LEFT),
        ("STATE", LEFT),
        ("BUSY", RIGHT),
        ("READY", RIGHT),
        ("PID", RIGHT),
        ("TID", RIGHT),
        ("RUNS", LEFT),
    ];
    let mut table = Table::new(&head);
    for core in all_cores(view) {
        let [pid, tid, name] = match &core.runs {
            Some(runs) => [runs.pid.to_string(), runs.tid.to_string(), runs.name.clone()],
            None => ["-", "-", "-"].map(String::from),
        };
        table.rows.push(vec![
            core.name.clone(),
            core.state.into(),
            percent(core.busy),
            core.ready.to_string(),
            pid,
            tid,
            name,
        ]);
    }
    table
}

/// What the simulator has counted. `None`: there is none.
pub fn caches(view: &View) -> Option<Table> {
    let names = ["STALL", "INSTR", "L1I MISS", "L1D MISS", "L2 MISS", "L3 MISS", "NEAR", "FAR"];
    let mut table = Table::new(&[("CORE", LEFT)]);
    table.head.extend(names.map(|name| (name, RIGHT)));
    for core in all_cores(view) {
        let Some(caches) = &core.caches else { continue };
        let counts = [
            caches.instructions,
            caches.l1i_misses,
            caches.l1d_misses,
            caches.l2_misses,
            caches.l3_misses,
            caches.near_reads,
            caches.far_reads,
        ];
        let mut row = vec![core.name.clone(), percent(caches.stall)];
        row.extend(counts.map(short));
        table.rows.push(row);
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Messages between kernels. `None`: there is one kernel.
pub fn messages(view: &View) -> Option<Table> {
    let mut table = Table::new(&[("SENT", RIGHT), ("MESSAGE", LEFT)]);
    let some = view.messages.iter().filter(|&(_, &count)| count != 0);
    table.rows = some.map(|(name, count)| vec![short(*count), (*name).to_owned()]).collect();
    (!view.messages.is_empty()).then_some(table)
}

/// By what processes are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// Processor time in the interval.
    #[default]
    Cpu,
    Memory,
    /// Processor time in all.
    Time,
    Pid,
    Name,
}

impl Sort {
    /// That of a key.
    pub fn of_key(key: char) -> Option<Self> {
        match key {
            'c' => Some(Self::Cpu),
            'm' => Some(Self::Memory),
            't' => Some(Self::Time),
            'p' => Some(Self::Pid),
            'n' => Some(Self::Name),
            _ => None,
        }
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "memory",
            Self::Time => "time",
            Self::Pid => "PID",
            Self::Name => "name",
        }
    }
}

/// The processes. Those that are alike stay in the order of their numbers.
pub fn processes(view: &View, sort: Sort) -> Table {
    let head = [
        ("PID", RIGHT),
        ("USER", LEFT),
        ("S", LEFT),
        ("ISA", LEFT),
        ("ISLANDS", LEFT),
        ("THR", RIGHT),
        ("OUT", RIGHT),
        ("CPU", RIGHT),
        ("TIME", RIGHT),
        ("MIB", RIGHT),
        ("NAME", LEFT),
    ];
    let mut sorted: Vec<&ProcessView> = view.processes.iter().collect();
    match sort {
        Sort::Cpu => sorted.sort_by(|a, b| b.cpu.total_cmp(&a.cpu)),
        Sort::Memory => sorted.sort_by_key(|process| std::cmp::Reverse(process.resident)),
        Sort::Time => sorted.sort_by(|a, b| b.time_seconds.total_cmp(&a.time_seconds)),
        Sort::Pid => sorted.sort_by_key(|process| process.pid),
        Sort::Name => sorted.sort_by(|a, b| a.name.cmp(&b.name)),
    }
    let row = |process: &ProcessView| {
        let user = if process.user == 0 { "root".into() } else { process.user.to_string() };
        vec![
            process.pid.to_string(),
            user,
            process.state.into(),
            process.isa.into(),
            process.islands.join(","),
            process.threads.to_string(),
            process.called.to_string(),
            percent(process.cpu),
            format!("{}:{:05.2}", process.time_seconds as u64 / 60, process.time_seconds % 60.0),
            mib(process.resident),
            process.name.clone(),
        ]
    };
    Table { head: head.to_vec(), rows: sorted.into_iter().map(row).collect() }
}

/// The line above all tables.
pub fn title(view: &View) -> String {
    let time = view
        .simulated
        .map_or(String::new(), |[time, passed]| format!(", {time:.6} s simulated, {passed:.6} s of it now"));
    let [all, free] = view.memory;
    format!(
        "motet top: machine of process {}, {:.1} s{time}; {} cores, {} processes, {} new; memory {} of {} MiB",
        view.process,
        view.seconds,
        all_cores(view).count(),
        view.processes.len(),
        view.forks,
        mib(all.saturating_sub(free)),
        mib(all),
    )
}

/// The cores of all islands.
pub fn all_cores(view: &View) -> impl Iterator<Item = &CoreView> {
    view.islands.iter().flat_map(|island| &island.cores)
}

fn mib(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        1..0xa0_0000 => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
        0xa0_0000.. => (bytes >> 20).to_string(),
    }
}

/// A share, as a percentage.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A count in at most five characters.
fn short(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..1_000_000 => format!("{}k", count / 1000),
        1_000_000..100_000_000 => format!("{:.1}M", count as f64 / 1e6),
        100_000_000..1_000_000_000 => format!("{}M", count / 1_000_000),
        1_000_000_000..100_000_000_000 => format!("{:.1}G", count as f64 / 1e9),
        100_000_000_000..1_000_000_000_000 => format!("{}G", count / 1_000_000_000),
        _ => format!("{:.0e}", count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;

    #[test]
    fn counts_are_short() {
        let counts =
            [0, 99_999, 123_456, 1_250_000, 99_900_000, 123_456_789, 98_765_432_109, 123_456_789_012, u64::MAX];
        let shown = ["0", "99999", "123k", "1.2M", "99.9M", "123M", "98.8G", "123G", "2e19"];
        assert_eq!(counts.map(short), shown);
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let table = counts(&view());
        let [wide, narrow] = [200, 80].map(|width| table.lines(width));
        assert!(wide[0].ends_with("SHOOT FOREIGN TAKEN ICACHE"), "{}", wide[0]);
        assert!(narrow[0].contains(" EDITS") && narrow.iter().all(|line| line.len() <= 80), "{narrow:?}");
        assert_eq!(
            narrow[2].split_whitespace().take(6).collect::<Vec<_>>(),
            ["riscv", "riscv64", "runs", "100%", "200", "400"]
        );
        let cut = processes(&view(), Sort::Cpu).lines(60);
        assert!(cut[1].starts_with(" 12 1000 R riscv64 riscv"), "{cut:?}");
    }

    #[test]
    fn processes_are_sorted() {
        let first = |sort| processes(&view(), sort).rows[0][0].clone();
        let firsts = ["c", "m", "t", "p", "n"].map(|key| first(Sort::of_key(key.chars().next().unwrap()).unwrap()));
        assert_eq!(firsts, ["12", "12", "12", "1", "1"]);
        assert_eq!(Sort::of_key('x'), None);
    }

    #[test]
    fn sizes_and_times_are_told() {
        let table = processes(&view(), Sort::Pid);
        assert_eq!(table.rows[1][7..10], ["100%", "0:12.00", "12"].map(String::from));
        assert_eq!(memory(&view()).rows[0][1..7], ["3.0", "4.0", "0", "0", "0", "2.0"].map(String::from));
        assert!(title(&view()).ends_with("3 cores, 2 processes, 6 new; memory 256 of 1024 MiB"), "{}", title(&view()));
    }
}

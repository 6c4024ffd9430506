// Reads what is recorded beside this file. Included by the machine test that compares, and by the test that generates
// `docs/syscalls.md`.

/// What comes of each case: lines `case TAB result`, between comments (`# `).
pub fn results(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !line.starts_with("# ")).filter_map(|line| line.split_once('\t'))
}

/// Cases in which the machine differs for one reason.
pub struct Group<'a> {
    /// A few words, and the reason.
    pub title: &'a str,
    pub reason: &'a str,
    /// What comes of each on the machine.
    pub results: Vec<(&'a str, &'a str)>,
}

/// The groups of `differences.txt`: a line `# title: reason`, and results.
pub fn groups(text: &str) -> Vec<Group<'_>> {
    let mut groups = Vec::new();
    for part in text.split("\n\n") {
        let Some((title, reason)) =
            part.trim_start().strip_prefix("# ").and_then(|part| part.lines().next()?.split_once(": "))
        else {
            continue;
        };
        groups.push(Group { title, reason, results: results(part).collect() });
    }
    groups
}

/// The system call that a case is about.
pub fn call_of(case: &str) -> &str {
    case.split(['(', ':']).next().unwrap_or(case)
}

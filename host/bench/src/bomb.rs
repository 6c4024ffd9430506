//! How long the superuser's shell takes to answer while another user has as many processes as there may be, all of which
//! compute and fork.

use std::time::Duration;

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::{
    motet::{self, Described},
    project::{ISAS, Project, file_error},
};

/// The program that forks.
const SOURCE: &str = "tests/guest/cc/bomb.c";
/// Processes that there are on each island when the shell is first asked.
const PROCESSES: usize = 150;
/// How often the shell of each island is asked.
const QUESTIONS: usize = 10;
const RUN_AT_MOST: Duration = Duration::from_secs(300);

/// The longest that the shell took for a command of three processes, in seconds, on a machine with one core on each of
/// these islands, and on each of which a user of its own forks.
///
/// # Errors
/// The program is not built, or the machine fails.
pub fn longest_answer_s(project: &Project, islands: &[Isa]) -> Result<(Described, f64)> {
    let folder = project.scratch(&format!("bomb-{}", islands.len()))?;
    let cores: Vec<(Isa, usize)> = islands.iter().map(|&isa| (isa, 1)).collect();
    let machine = motet::describe(&folder, &cores)?;
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).map_err(file_error(&programs))?;
    let mut script = String::new();
    for (user, &isa) in (1000..).zip(islands) {
        motet::compile(project, isa, ["-O2".into(), project.root.join(SOURCE)], &programs.join(isa.name()))?;
        script += &format!("/in/programs/{} {user} &\n", isa.name());
    }
    script += &format!("until set -- /proc/[0-9]*; [ $# -gt {} ]; do sleep 0.1; done\n", islands.len() * PROCESSES);
    for isa in islands.iter().map(|isa| isa.name()) {
        let ask = format!("on {isa} sh -c 'seq 100 | tail -n 1' > /dev/null");
        let question = format!("read a rest < /proc/uptime; {ask}; read b rest < /proc/uptime; echo $a $b");
        script += &format!("i=0; while [ $i -lt {QUESTIONS} ]; do {question}; i=$((i + 1)); done\n");
    }
    let options = ["--in".to_owned(), programs.display().to_string()];
    let output = motet::run(project, &machine, &options, &script, RUN_AT_MOST)?;
    let answers: Vec<f64> = output.lines().filter_map(seconds).collect();
    if answers.len() != islands.len() * QUESTIONS {
        return Err(Error::new(ErrorKind::Software, format!("the shell did not answer each time: {output}")));
    }
    Ok((machine, answers.into_iter().fold(0.0, f64::max)))
}

/// The machine with all islands, and the one with one core.
pub fn machines() -> [(&'static str, Vec<Isa>); 2] {
    [("one_core", vec![Isa::X86_64]), ("three_islands", ISAS.to_vec())]
}

/// From `BEFORE AFTER`, of `/proc/uptime`.
fn seconds(line: &str) -> Option<f64> {
    let (before, after) = line.split_once(' ')?;
    Some(after.parse::<f64>().ok()? - before.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_pass_between_two_readings() {
        assert_eq!(seconds("1.50 2.25"), Some(0.75));
        assert_eq!(seconds("1.50"), None);
        assert_eq!(seconds("a b"), None);
    }
}

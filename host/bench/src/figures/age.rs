//! How old recorded figures are: a figure of an old kernel, or of sources that nobody can look at, is no evidence.

use std::{path::Path, process::Command, time::Duration};

use motet_error::Result;

use super::{Recorded, Run};
use crate::process;

/// After so many commits of the kernel a figure is measured again.
pub const KERNEL_COMMITS_MAX: u32 = 120;
/// Where the kernel is, and all that it consists of.
const KERNEL: [&str; 2] = ["kernel", "fused"];

/// What git knows of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// So many commits of the kernel came after it.
    Behind(u32),
    /// It is not in the history.
    Missing,
}

/// What is wrong with where the recorded figures come from, a line each: runs of commits that are not in the history, or far behind; of sources with changes; of
/// shortened experiments. Empty where git has no whole history to look at.
///
/// # Errors
/// Git fails.
pub fn old_figures(root: &Path, all: &[(String, Recorded)]) -> Result<Vec<String>> {
    if !has_history(root) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for (experiment, recorded) in all {
        for (number, run) in recorded.runs.iter().enumerate() {
            let figures = recorded.figures.iter().filter(|figure| figure.run == number).count();
            if let Some(why) = fault(run, look(root, &run.commit)?) {
                found.push(format!("{experiment}: {figures} figures of `{}` {why}: measure them again", run.command));
            }
        }
    }
    Ok(found)
}

/// Why the figures of a run are no evidence; `None`: they are.
fn fault(run: &Run, known: Known) -> Option<String> {
    let commit = run.commit.get(..12).unwrap_or(&run.commit);
    if run.changed {
        return Some("are of sources that are in no commit".to_owned());
    }
    if run.command.split(' ').any(|word| word == "--quick") {
        return Some("are of a shortened experiment (--quick)".to_owned());
    }
    match known {
        Known::Missing => Some(format!("are of {commit}, which is not in the history")),
        Known::Behind(commits) if commits > KERNEL_COMMITS_MAX => {
            Some(format!("are of {commit}, {commits} commits of the kernel ago (at most {KERNEL_COMMITS_MAX})"))
        }
        Known::Behind(_) => None,
    }
}

/// Whether the folder is a clone with all commits, and not an archive or the newest commits alone.
fn has_history(root: &Path) -> bool {
    matches!(git(root, &["rev-parse", "--is-shallow-repository"]), Ok(Some(told)) if told.trim() == "false")
}

fn look(root: &Path, commit: &str) -> Result<Known> {
    let range = format!("{commit}..HEAD");
    if git(root, &["merge-base", "--is-ancestor", commit, "HEAD"])?.is_none() {
        return Ok(Known::Missing);
    }
    let mut arguments = vec!["rev-list", "--count", &range, "--"];
    arguments.extend(KERNEL);
    let told = git(root, &arguments)?;
    Ok(told.and_then(|told| told.trim().parse().ok()).map_or(Known::Missing, Known::Behind))
}

/// What git says; `None` if it does not succeed.
fn git(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let mut command = Command::new("git");
    let output = process::run(command.arg("-C").arg(root).args(arguments), Duration::from_secs(60))?;
    Ok(output.success.then_some(output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{
        load_all,
        tests::{project, run},
    };

    /// Experiments that are to be measured again. Whoever does that takes them off this list: it only gets shorter.
    const KNOWN: [&str; 3] = ["compile: ", "sim-accuracy: ", "sim-speed: "];

    #[test]
    fn recorded_figures_are_of_commits_that_are_there_and_not_old() {
        let all = load_all(&project().join("docs/figures")).unwrap();
        let old = old_figures(&project(), &all).unwrap();
        let unknown: Vec<_> = old.iter().filter(|line| !KNOWN.iter().any(|known| line.starts_with(known))).collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
        let needless: Vec<_> = KNOWN.iter().filter(|known| !old.iter().any(|line| line.starts_with(**known))).collect();
        assert!(needless.is_empty() || !has_history(&project()), "take them off the list: {needless:?}");
    }

    #[test]
    fn what_makes_figures_no_evidence_is_said() {
        let fault_of = |change: fn(&mut Run), known| {
            let mut run = run("0123456789abcdef");
            change(&mut run);
            fault(&run, known).unwrap_or_default()
        };
        let is_new = Known::Behind(KERNEL_COMMITS_MAX);
        assert_eq!(fault_of(|_| (), is_new), "");
        assert!(fault_of(|_| (), Known::Behind(KERNEL_COMMITS_MAX + 1)).contains("0123456789ab, 121 commits"));
        assert!(fault_of(|_| (), Known::Missing).contains("not in the history"));
        assert!(fault_of(|run| run.changed = true, is_new).contains("in no commit"));
        assert!(fault_of(|run| run.command.push_str(" --quick"), is_new).contains("--quick"));
        assert_eq!(fault_of(|run| run.command.push_str(" --quickly"), is_new), "");
    }

    /// In a history of two commits of the kernel, and a document.
    #[test]
    fn commits_of_the_kernel_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let git = |arguments: &[&str]| {
            let author = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
            git(root, &[&author[..], arguments].concat()).unwrap().unwrap().trim().to_owned()
        };
        let commit = |file: &str| {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), file).unwrap();
            git(&["add", "."]);
            git(&["commit", "-qm", file]);
            git(&["rev-parse", "HEAD"])
        };
        assert!(!has_history(root));
        git(&["init", "-q"]);
        let first = commit("kernel/a");
        commit("docs/b");
        commit("fused/c");
        assert!(has_history(root));
        assert_eq!(look(root, &first).unwrap(), Known::Behind(1));
        assert_eq!(look(root, "0123456789012345678901234567890123456789").unwrap(), Known::Missing);
        let recorded = Recorded { runs: vec![Run { changed: true, ..run(&first) }], figures: Vec::new() };
        let old = old_figures(root, &[("x".to_owned(), recorded)]).unwrap();
        assert_eq!(old, ["x: 0 figures of `./motet bench x` are of sources that are in no commit: measure them again"]);
    }
}

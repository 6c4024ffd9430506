//! `motet --help`: each command once, in groups, with the first of its examples.
//!
//! The front door, which has to say the same before anything is built, prints copies of these texts (scripts/help); a test compares them.

use clap::{Command, CommandFactory};

use motet_error::Result;
use motet_fabric::place::{Place, VERSION};

use crate::arguments::Arguments;

/// The groups of commands, each by its words.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Run a machine", &["run", "top", "restart", "state"]),
    ("Virtual machines", &["vm run", "vm list", "vm kill", "vm console", "guests"]),
    ("Programs for every instruction set", &["cc", "c++", "ld", "ar", "ranlib", "objdump", "addr2line"]),
    ("Tests", &["test", "conformance"]),
    ("Figures", &["bench all", "bench quotes", "sweep", "sweep diff"]),
    (
        "Parts of the figures",
        &[
            "bench boot",
            "bench compile",
            "bench flick",
            "bench ftm",
            "bench hthreads",
            "bench ker-one",
            "bench os",
            "bench quantum",
            "bench sensitivity",
            "bench sim-accuracy",
            "bench sim-speed",
            "bench stramash",
            "wcet",
        ],
    ),
    ("This computer", &["doctor", "build", "package", "docs", "completions", "man"]),
];

const TEMPLATE: &str = "\
{about}

{usage-heading} ./motet COMMAND ...{after-help}

Options:
{options}
";

/// What is said below the listing of a source tree, and of an installation.
const FIRST_CALL: &str =
    "The first call installs what is missing and builds (a few minutes); later calls start at once.\n";
const PLACES: &str = "Files that are named, such as docs/setup.md, are in /usr/share/doc/motet and /usr/share/motet.\n";

/// The command line, whose help has the groups.
pub fn command() -> Command {
    let of_installation = Place::is_of_installation();
    let command = Arguments::command();
    let listing = listing(&command, if of_installation { PLACES } else { FIRST_CALL });
    let command = command.after_help(listing).help_template(TEMPLATE);
    if of_installation { from_path(command.help_template(TEMPLATE.replace("./motet", "motet"))) } else { command }
}

/// The same for who calls `motet` by `PATH`.
fn from_path(command: Command) -> Command {
    let said = command.get_after_help().map(|help| help.to_string().replace("./motet", "motet"));
    let command = match said {
        Some(said) => command.after_help(said),
        None => command,
    };
    command.mut_subcommands(from_path)
}

/// Prints what `motet --version` says: the version and the commit.
///
/// # Errors
/// It does not arrive.
pub fn print_version() -> Result<()> {
    let commit = Place::find().map_or_else(|_| "unknown".into(), |place| place.commit());
    motet_error::print(&format!("motet {VERSION} (commit {commit})\n"))
}

/// All commands that somebody can give, by their words: those that need no further word.
#[cfg(test)]
pub fn paths(command: &Command) -> Vec<Vec<String>> {
    let visible = command.get_subcommands().filter(|each| !each.is_hide_set());
    visible
        .flat_map(|each| {
            let below = paths(each).into_iter().map(|path| [vec![each.get_name().to_owned()], path].concat());
            let itself = (!each.is_subcommand_required_set()).then(|| vec![each.get_name().to_owned()]);
            itself.into_iter().chain(below).collect::<Vec<_>>()
        })
        .collect()
}

/// The command with these words.
fn find<'a>(command: &'a Command, path: &str) -> &'a Command {
    let found = path.split(' ').try_fold(command, |command, word| command.find_subcommand(word));
    found.unwrap_or_else(|| panic!("a group has `{path}`, which is no command"))
}

/// Prints what `--help` says of a command that hands `--help` on.
///
/// # Errors
/// It does not arrive.
pub fn explain(path: &str) -> Result<()> {
    let command = command();
    let mut found = find(&command, path).clone().bin_name(format!("motet {path}"));
    motet_error::print(&format!("{}\n", found.render_help()))
}

fn listing(command: &Command, last: &str) -> String {
    let mut text = String::new();
    for (heading, paths) in GROUPS {
        text += &format!("{heading}:\n");
        for path in paths {
            let found = find(command, path);
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {path:<19} {about}\n{:22}  {}\n", "", first_example(found));
        }
        text.push('\n');
    }
    text += last;
    text += "`./motet COMMAND --help` explains a command, with more examples. See README.md and docs/setup.md.";
    text
}

/// The command that stands first in the examples; what is said of it behind it is left out.
fn first_example(command: &Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let line = help.lines().skip_while(|line| !line.starts_with("Examples")).nth(1).unwrap_or_default().trim();
    line.split("   ").next().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, path::PathBuf};

    fn project(path: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
    }

    fn all_paths() -> Vec<String> {
        paths(&command()).iter().map(|path| path.join(" ")).collect()
    }

    /// What `--help` prints behind these words, with lines of any length.
    fn help_of(words: &[&str]) -> String {
        let arguments = ["motet"].iter().chain(words).chain(&["--help"]);
        let error = command().term_width(0).try_get_matches_from(arguments).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::DisplayHelp, "{words:?}: {error}");
        assert_eq!(error.exit_code(), 0);
        assert!(!error.use_stderr());
        error.to_string()
    }

    #[test]
    fn each_command_is_in_one_group() {
        let mut grouped: Vec<String> =
            GROUPS.iter().flat_map(|(_, paths)| paths.iter().map(|path| (*path).to_owned())).collect();
        let mut all = all_paths();
        grouped.sort();
        all.sort();
        assert_eq!(grouped, all);
    }

    #[test]
    fn each_command_is_explained_with_examples() {
        for path in all_paths() {
            let words: Vec<&str> = path.split(' ').collect();
            let found = find(&command(), &path).clone();
            // Tools and experiments explain themselves; this is what their pages have.
            let text = if found.is_disable_help_flag_set() {
                found.clone().render_help().to_string()
            } else {
                help_of(&words)
            };
            assert!(text.contains("Examples"), "{path}");
            assert!(first_example(&found).contains(&format!("./motet {path}")), "{path}: {}", first_example(&found));
            assert!(found.get_about().is_some(), "{path}");
        }
        for group in ["vm", "bench"] {
            assert!(help_of(&[group]).contains("Examples"), "{group}");
        }
    }

    #[test]
    fn experiments_are_those_of_motet_bench() {
        let names = |command: &Command| -> BTreeSet<(String, String)> {
            let about = |each: &Command| each.get_about().map(ToString::to_string).unwrap_or_default();
            command.get_subcommands().map(|each| (each.get_name().to_owned(), about(each))).collect()
        };
        assert_eq!(names(find(&command(), "bench")), names(&motet_bench::command()));
        for experiment in motet_bench::command().get_subcommands() {
            let help = experiment.clone().render_help().to_string();
            assert!(help.contains("Examples"), "bench {}", experiment.get_name());
        }
    }

    #[test]
    fn what_the_front_door_does_is_told() {
        let script = std::fs::read_to_string(project("motet")).unwrap();
        let found = labels(&script, "main() {");
        assert!(found.len() >= 10, "{found:?}");
        let known = all_paths();
        for label in found.iter().filter(|label| !label.starts_with('-') && *label != "help" && *label != "bench") {
            assert!(known.contains(label), "./motet {label} is not in the help");
        }
        let script = std::fs::read_to_string(project("scripts/test.sh")).unwrap();
        let help = help_of(&["test"]);
        for label in labels(&script, "run_checks() {") {
            assert!(help.contains(&format!("\n  {label} ")), "./motet test {label} is not in the help");
        }
    }

    /// The labels of the first `case` of a function that stand for words, without `*` and ''.
    fn labels(script: &str, function: &str) -> Vec<String> {
        let body = script.lines().skip_while(|line| *line != function).take_while(|line| *line != "}");
        let patterns = body.filter_map(|line| {
            let line = line.strip_prefix("        ").filter(|line| !line.starts_with(' '))?;
            Some(line.split_once(')')?.0)
        });
        patterns
            .flat_map(|pattern| pattern.split(" | "))
            .filter(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '+'))
            .map(str::to_owned)
            .collect()
    }

    /// `MOTET_BLESS=1` writes them.
    #[test]
    fn the_front_door_says_the_same_before_anything_is_built() {
        for (name, words) in [("motet", &[][..]), ("test", &["test"]), ("bench", &["bench"])] {
            let path = project(&format!("scripts/help/{name}.txt"));
            let help = help_of(words);
            if std::env::var_os("MOTET_BLESS").is_some() {
                std::fs::write(&path, &help).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == help, "{}: is not what --help prints; MOTET_BLESS=1 writes it", path.display());
        }
    }

    #[test]
    fn a_word_that_is_nearly_a_command_is_asked_about() {
        for (wrong, right) in [("rum", "run"), ("objdmp", "objdump"), ("stat", "state"), ("doktor", "doctor")] {
            let error = command().try_get_matches_from(["motet", wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("'{right}'")), "{error}");
        }
        let error = command().try_get_matches_from(["motet", "bench", "flik"]).unwrap_err().to_string();
        assert!(error.contains("'flick'"), "{error}");
    }
}

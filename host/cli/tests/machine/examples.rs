//! Tutorials and the lab (`docs/tutorials`, `examples`): a page's commands are taken out of it and run, and print what the page shows; an exercise is
//! told from its solution.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    process::{self, Collected, root, target},
    trial::{Trial, trial},
};

/// A command that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(600);
/// What stands for anything in a page's output: within a line, or for lines.
const ANYTHING: &str = "…";
/// Exercises that are tested each time. In the others programs wait for seconds, or race.
const QUICK: [u32; 6] = [1, 3, 4, 6, 7, 8];

/// All of them.
pub fn trials() -> Vec<Trial> {
    let pages = ["chip", "pin", "vectors", "realtime", "study"];
    let pages = pages.into_iter().map(|page| {
        trial(&format!("examples::the_page_of_{page}_shows_what_its_commands_print"), move || follow(page))
    });
    let exercises = (1..=8).map(|number| {
        let name = format!("examples::exercise_{number}_of_the_lab_is_told_from_its_solution");
        let exercise = trial(&name, move || check(number));
        if QUICK.contains(&number) { exercise } else { exercise.long() }
    });
    pages.chain(exercises).collect()
}

/// A folder that looks like the project's, with examples of its own, which commands may write to.
fn folder() -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let link = |from: &Path, name: &str| symlink(from, folder.path().join(name)).map_err(|error| error.to_string());
    // The front door builds what is older than its source, which is not a test's to do.
    link(&process::program(), "motet")?;
    link(&target(), "target")?;
    for name in ["machines", "scripts", "user"] {
        link(&root().join(name), name)?;
    }
    let copied = Command::new("cp").arg("-a").arg(root().join("examples")).arg(folder.path()).status();
    match copied {
        Ok(status) if status.success() => Ok(folder),
        other => Err(format!("the examples are not copied: {other:?}")),
    }
}

/// How a command ended.
struct Ran {
    code: i32,
    output: String,
    errors: String,
}

fn run(folder: &Path, command: &str) -> Result<Ran, String> {
    let mut shell = Command::new("bash");
    shell.args(["-c", command]).current_dir(folder).env("MOTET_ROOT", root()).env("CARGO_TARGET_DIR", target());
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| error.to_string())?;
    let output = Collected::new(child.stdout.take().expect("piped"));
    let errors = Collected::new(child.stderr.take().expect("piped"));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("$ {command}\nhas not ended in {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ran { code: status.code().unwrap_or(-1), output: text(output.finish()), errors: text(errors.finish()) })
}

/// A command of a page, and the lines that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    output: Vec<String>,
}

/// What blocks of the page that are marked as ```` ```console ```` have: commands behind `$ `, which go on where a line ends with a backslash, and output.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut is_inside, mut goes_on) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && goes_on {
            let step = steps.last_mut().expect("one goes on");
            step.command += "\n";
            step.command += line;
            goes_on = line.ends_with('\\');
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| is_inside) {
            steps.push(Step { command: command.to_owned(), output: Vec::new() });
            goes_on = line.ends_with('\\');
        } else if let Some(step) = steps.last_mut().filter(|_| is_inside) {
            step.output.push(line.to_owned());
        }
    }
    steps
}

/// Whether lines are as shown. How many spaces are between words makes no difference.
fn fits(shown: &[String], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        [any, rest @ ..] if any == ANYTHING => (0..=printed.len()).any(|left_out| fits(rest, &printed[left_out..])),
        [first, rest @ ..] => {
            printed.split_first().is_some_and(|(line, more)| line_fits(first, line) && fits(rest, more))
        }
    }
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, printed) = (words(shown), words(printed));
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Runs a page's commands, one after the other.
fn follow(page: &str) -> Result<(), String> {
    let path = root().join(format!("docs/tutorials/{page}.md"));
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let steps = steps(&text);
    if steps.is_empty() {
        return Err(format!("{} has no commands", path.display()));
    }
    let folder = folder()?;
    for step in steps {
        let ran = run(folder.path(), &step.command)?;
        let printed: Vec<&str> = ran.output.lines().collect();
        if ran.code != 0 || !fits(&step.output, &printed) {
            return Err(format!(
                "{page}.md: $ {}\nended with {} and printed\n{}--- the page shows\n{}\n--- errors\n{}",
                step.command,
                ran.code,
                ran.output,
                step.output.join("\n"),
                ran.errors
            ));
        }
    }
    Ok(())
}

/// What a student is given is not solved, and its solution is.
fn check(number: u32) -> Result<(), String> {
    let folder = folder()?;
    for (option, code, said) in [("", 1, "exercise is not solved yet"), ("--solution", 0, "is solved")] {
        let ran = run(folder.path(), &format!("examples/lab/check {number} {option}"))?;
        if ran.code != code || !ran.output.contains(said) {
            return Err(format!("check {number} {option}: status {}\n{}{}", ran.code, ran.output, ran.errors));
        }
    }
    Ok(())
}

//! `motet completions` and `motet man`: made from the command line as clap knows it.

use motet_error::{Context, Error, ErrorKind, Result};

use crate::{
    arguments::{CompletionsOptions, ManOptions},
    help,
};

/// Prints the script that completes `motet` in a shell.
///
/// # Errors
/// It does not arrive.
pub fn completions(options: &CompletionsOptions) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut help::command(), "motet", &mut script);
    motet_error::print(&String::from_utf8_lossy(&script)).map(|()| 0)
}

/// Writes a manual page for each command to a folder.
///
/// # Errors
/// A file cannot be written.
pub fn man(options: &ManOptions) -> Result<u8> {
    let folder = &options.output;
    std::fs::create_dir_all(folder).map_err(|error| Error::write(folder, error))?;
    let written = clap_mangen::generate_to(help::command(), folder);
    written.context(ErrorKind::CantCreate, || folder.display().to_string()).map(|()| 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    #[test]
    fn shells_complete_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut help::command(), "motet", &mut script);
            let script = String::from_utf8(script).unwrap();
            for path in help::paths(&help::command()) {
                assert!(path.iter().all(|word| script.contains(word.as_str())), "{shell}: {path:?}");
            }
            assert!(script.contains("deterministic"), "{shell}: options");
        }
    }

    /// As far as the shells are here that read them.
    #[test]
    fn shells_read_the_scripts() {
        let folder = tempfile::tempdir().unwrap();
        for (shell, check) in [(Shell::Bash, "-n"), (Shell::Zsh, "-n"), (Shell::Fish, "--no-execute")] {
            let path = folder.path().join(shell.to_string());
            let mut file = std::fs::File::create(&path).unwrap();
            clap_complete::generate(shell, &mut help::command(), "motet", &mut file);
            match std::process::Command::new(shell.to_string()).arg(check).arg(&path).status() {
                Ok(status) => assert!(status.success(), "{shell}"),
                Err(error) => assert!(shell != Shell::Bash, "{error}"),
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("man1");
        man(&ManOptions { output: output.clone() }).unwrap();
        for path in help::paths(&help::command()) {
            let page = std::fs::read_to_string(output.join(format!("motet-{}.1", path.join("-")))).unwrap();
            assert!(page.contains("Examples"), "{path:?}");
        }
        assert!(output.join("motet.1").is_file());
    }
}

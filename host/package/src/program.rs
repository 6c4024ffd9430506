//! The program `motet-package`, which `motet package` runs in its place.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Parser;
use motet_error::{Error, ErrorKind, Result};
use motet_fabric::place::{Place, VERSION};

use crate::{archive, contents, facts::Facts, licenses, options::PackageOptions, tools};

#[derive(Parser, Debug)]
#[command(name = "motet package", bin_name = "./motet package", about = "Make a tar of Motet for other computers")]
struct Arguments {
    #[command(flatten)]
    options: PackageOptions,
}

/// What completes the command line in a shell, and where its shells look for that.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/motet"),
    ("zsh", "usr/share/zsh/vendor-completions/_motet"),
    ("fish", "usr/share/fish/vendor_completions.d/motet.fish"),
];

/// Does what the command line says; gives the exit status.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(ErrorKind::Usage as u8) } else { ExitCode::SUCCESS };
        }
    };
    motet_error::end("motet", package(&arguments.options).map(|()| 0))
}

/// Makes the archive, and prints its path.
fn package(options: &PackageOptions) -> Result<()> {
    let place = Place::find()?;
    place.needs_source("package")?;
    let facts = Facts::gather(&place)?;
    let output = output(options.output.as_deref());
    let tree = tempfile::tempdir_in(&place.built).map_err(|error| Error::write(&place.built, error))?;
    contents::gather(&place, tree.path(), &facts)?;
    tools::write(&tree.path().join("usr/share/doc/motet/THIRD-PARTY"), &licenses::third_party(&place)?)?;
    describe(tree.path())?;
    archive::write(tree.path(), facts.date, &output)?;
    motet_error::print(&format!("{}\n", output.display()))
}

fn output(wanted: Option<&Path>) -> PathBuf {
    let name = format!("motet-{VERSION}-linux-{}.tar.gz", std::env::consts::ARCH);
    match wanted {
        None => name.into(),
        Some(folder) if folder.is_dir() => folder.join(name),
        Some(file) => file.to_owned(),
    }
}

/// Has the installed program write its manual pages and completions, in which it is called as it is from there.
fn describe(tree: &Path) -> Result<()> {
    let motet = || Command::new(tree.join("usr/bin/motet"));
    tools::output(motet().args(["man", "--output"]).arg(tree.join("usr/share/man/man1")))?;
    for (shell, path) in COMPLETIONS {
        tools::write(&tree.join(path), &tools::output(motet().args(["completions", shell]))?)?;
    }
    Ok(())
}

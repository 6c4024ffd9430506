//! The command line of `motet package`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  ./motet package                           motet-VERSION-linux-x86_64.tar.gz in this folder
  ./motet package --output /tmp             the same in /tmp
  ./motet package --output motet.tar.gz     as this file

As root, `tar -xzf FILE -C /` installs it; anybody can unpack it into a folder and call FOLDER/usr/bin/motet there. It needs QEMU 10.0 or later, neither
Rust nor the source. The same commit, built once, makes the same bytes each time. docs/setup.md says what is in it.";

/// `motet package`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PackageOptions {
    /// The file, or a folder that exists, for a file named by version and computer [default: this folder]
    #[arg(long, value_name = "FILE|DIR")]
    pub output: Option<PathBuf>,
}

//! `motet top`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    motet_top::main()
}

//! `motet package`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    motet_package::main()
}

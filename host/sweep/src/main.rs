//! `motet sweep`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    motet_sweep::main()
}

//! `motet bench`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    motet_bench::main()
}

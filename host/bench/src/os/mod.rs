//! `motet bench os`: what lmbench's operations cost on Motet and on Debian's Linux, on the same QEMU and CPU, in instructions of kernel and program.
//!
//! One program executes them on both (`user/os`). docs/os.md says what each is, and what cannot be compared.

mod operations;
mod page;
mod results;
mod runs;

use clap::Args;
use motet_error::Result;

use self::{results::Results, runs::Runs};
use crate::{output::Output, report::Collected};

const EXAMPLES: &str = "\
Examples:
  ./motet bench os                        all three instruction sets: half an hour
  ./motet bench os --isa riscv64 --usual --quick
                                          one of them, with few executions
  ./motet bench os --report DIR           then open DIR/index.html
  ./motet bench os --isa x86_64 --profile where Motet's instructions are

What Linux took is kept (target/linux) until its package, QEMU or the program
changes; --remeasure measures it again. docs/os.md says what each figure means.";

/// Options of `motet bench os`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    output: Output,
    /// Few executions
    #[arg(long)]
    quick: bool,
    /// Linux with its usual settings alone
    #[arg(long)]
    usual: bool,
    /// Only this instruction set (may be repeated)
    #[arg(long, value_name = "ISA", value_parser = ["x86_64", "aarch64", "riscv64"])]
    isa: Vec<String>,
    /// Measure Linux again, too
    #[arg(long)]
    remeasure: bool,
    /// Print the functions of Motet's kernel that the instructions are in, and measure nothing else
    #[arg(long)]
    profile: bool,
}

/// Runs the experiment. An instruction set that fails does not keep the others from being reported.
///
/// # Errors
/// An instruction set failed, or a file cannot be written.
pub fn run(options: &Options) -> Result<()> {
    options.output.prepare()?;
    let runs = Runs::new(options.quick, options.usual, options.remeasure)?;
    let is_wanted = |name: &str| options.isa.is_empty() || options.isa.iter().any(|isa| isa == name);
    let isas = crate::project::ISAS.into_iter().filter(|isa| is_wanted(isa.name()));
    if options.profile {
        return isas.into_iter().try_for_each(|isa| runs.profile(isa));
    }
    let mut collected = Collected::default();
    let mut results = Results::default();
    for isa in isas {
        collected.add(runs.measure(isa).map(|column| {
            let measured = column.measurements();
            results.columns.push(column);
            measured
        }));
    }
    collected.add(Ok(results.summary()));
    options.output.page("Motet beside Linux", || page::body(&results, &collected.measurements))?;
    let outcome = collected.finish(options.output.json());
    motet_error::print(&results.tables())?;
    outcome
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn instruction_sets_are_checked() {
        let parse = |words: &str| Line::try_parse_from(["os"].into_iter().chain(words.split_whitespace()));
        let options = parse("--isa riscv64 --isa x86_64 --quick").unwrap().options;
        assert!(options.quick && options.isa == ["riscv64", "x86_64"]);
        assert!(parse("--isa mips").unwrap_err().to_string().contains("[possible values: x86_64, aarch64, riscv64]"));
    }
}

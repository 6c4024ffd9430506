//! Where the instructions of system calls are: the kernel's functions, by how many of their instructions one execution of
//! each measured operation takes.

use std::collections::BTreeMap;

use motet_calls::{OPERATIONS, Operation};
use motet_error::Result;
use motet_layout::Isa;

use crate::{
    motet,
    project::{Project, file_error},
    symbols::Symbols,
};

/// What takes less of an operation than this, in instructions, is told in one line.
const SMALL: f64 = 10.0;

/// Prints every operation's functions, the largest first.
///
/// # Errors
/// The programs are not built, or the machine fails.
pub fn print(project: &Project, isa: Isa) -> Result<()> {
    eprintln!("motet: counting instructions of functions on {}", isa.name());
    let folder = project.scratch(&format!("profile-{}", isa.name()))?;
    let (_, counts) = motet::calls_under_plugin(project, isa, &[isa], &folder, "profile")?;
    let text = std::fs::read_to_string(&counts).map_err(file_error(&counts))?;
    print_operations(isa, &text, &Symbols::of_kernel(project, isa)?, &OPERATIONS);
    Ok(())
}

/// Prints the functions of these operations, by what the plugin wrote.
pub fn print_operations(isa: Isa, text: &str, symbols: &Symbols, operations: &[Operation]) {
    let mut functions: Vec<BTreeMap<String, u64>> = vec![BTreeMap::new(); operations.len()];
    for (mark, count, address) in text.lines().filter_map(parse) {
        if let Some(of_operation) = functions.get_mut(mark / 2) {
            *of_operation.entry(symbols.function_at(address)).or_default() += count;
        }
    }
    for (operation, functions) in operations.iter().zip(&functions) {
        print_operation(isa, operation, functions);
    }
}

fn print_operation(isa: Isa, operation: &Operation, functions: &BTreeMap<String, u64>) {
    let executions = f64::from(operation.iterations) * f64::from(operation.batches);
    let mut functions: Vec<(&str, f64)> =
        functions.iter().map(|(name, &count)| (name.as_str(), count as f64 / executions)).collect();
    functions.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let whole: f64 = functions.iter().map(|(_, count)| count).sum();
    println!("{} on {}: {whole:.0} instructions, ticks of the timer included", operation.name, isa.name());
    let (large, small): (Vec<_>, Vec<_>) = functions.into_iter().partition(|(_, count)| *count >= SMALL);
    for (name, count) in large {
        println!("{count:10.1}  {name}");
    }
    println!("{:10.1}  {} smaller ones", small.iter().map(|(_, count)| count).sum::<f64>(), small.len());
}

/// A line of the plugin: `MARK COUNT ADDRESS`.
fn parse(line: &str) -> Option<(usize, u64, u64)> {
    let mut words = line.split_whitespace();
    let (mark, count, address) = (words.next()?, words.next()?, words.next()?);
    Some((mark.parse().ok()?, count.parse().ok()?, u64::from_str_radix(address, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_plugin_are_understood() {
        assert_eq!(parse("3 12 ffffffff80200000"), Some((3, 12, 0xffff_ffff_8020_0000)));
        assert_eq!(parse("3 12"), None);
        assert_eq!(parse("x 1 1"), None);
    }
}

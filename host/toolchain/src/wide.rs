//! Atomic operations of 16 bytes.
//!
//! AArch64 has instructions for them, RISC-V has none, and x86-64 not on every processor: there the compiler calls functions of the C library, which lock
//! (`libc/src/atomic.c`). A lock keeps out nobody who does without, so AArch64's code calls these functions, too. Its operations are replaced in
//! clang's intermediate code (LLVM Language Reference, "Atomic Memory Ordering Constraints").

/// What compares and exchanges as the instruction does, by way of the C library's function.
const COMPARE_EXCHANGE: &str = "
define internal { i128, i1 } @motet.compare_exchange_16(ptr %object, i128 %expected, i128 %value) {
  %place = alloca i128, align 16
  store i128 %expected, ptr %place, align 16
  %is_same = call zeroext i1 @__atomic_compare_exchange_16(ptr %object, ptr %place, i128 %value, i32 5, i32 5)
  %old = load i128, ptr %place, align 16
  %half = insertvalue { i128, i1 } poison, i128 %old, 0
  %whole = insertvalue { i128, i1 } %half, i1 %is_same, 1
  ret { i128, i1 } %whole
}
";

/// Functions of the library, as they are declared.
const FUNCTIONS: [(&str, &str); 10] = [
    ("__atomic_load_16", "declare i128 @__atomic_load_16(ptr, i32)"),
    ("__atomic_store_16", "declare void @__atomic_store_16(ptr, i128, i32)"),
    ("__atomic_exchange_16", "declare i128 @__atomic_exchange_16(ptr, i128, i32)"),
    ("__atomic_compare_exchange_16", "declare zeroext i1 @__atomic_compare_exchange_16(ptr, ptr, i128, i32, i32)"),
    ("__atomic_fetch_add_16", "declare i128 @__atomic_fetch_add_16(ptr, i128, i32)"),
    ("__atomic_fetch_sub_16", "declare i128 @__atomic_fetch_sub_16(ptr, i128, i32)"),
    ("__atomic_fetch_and_16", "declare i128 @__atomic_fetch_and_16(ptr, i128, i32)"),
    ("__atomic_fetch_or_16", "declare i128 @__atomic_fetch_or_16(ptr, i128, i32)"),
    ("__atomic_fetch_xor_16", "declare i128 @__atomic_fetch_xor_16(ptr, i128, i32)"),
    ("__atomic_fetch_nand_16", "declare i128 @__atomic_fetch_nand_16(ptr, i128, i32)"),
];

/// Intermediate code that calls functions for these operations; `None` if it has none.
///
/// # Errors
/// An operation that has no function: the line.
pub fn called(code: &str) -> Result<Option<String>, String> {
    let mut called = String::with_capacity(code.len());
    let mut is_changed = false;
    for line in code.split_inclusive('\n') {
        match call(line.trim_end())? {
            Some(call) => {
                is_changed = true;
                called.push_str(&call);
                called.push('\n');
            }
            None => called.push_str(line),
        }
    }
    if !is_changed {
        return Ok(None);
    }
    if called.contains("@motet.compare_exchange_16(") {
        called.push_str(COMPARE_EXCHANGE);
    }
    for (name, declaration) in FUNCTIONS {
        let is_declared = called.lines().any(|line| {
            (line.starts_with("declare ") || line.starts_with("define ")) && line.contains(&format!("@{name}("))
        });
        if !is_declared && called.contains(&format!("@{name}(")) {
            called.push_str(declaration);
            called.push('\n');
        }
    }
    Ok(Some(called))
}

/// The call that stands for a line, if it is such an operation.
fn call(line: &str) -> Result<Option<String>, String> {
    const ORDERS: [&str; 6] = [" unordered", " monotonic", " acquire", " release", " acq_rel", " seq_cst"];
    let text = line.trim_start();
    let (result, operation) = match text.split_once(" = ") {
        Some((name, rest)) if name.starts_with('%') => (format!("{name} = "), rest),
        _ => (String::new(), text),
    };
    let is_one =
        ["load atomic ", "store atomic ", "atomicrmw ", "cmpxchg "].iter().any(|start| operation.starts_with(start));
    let Some((operands, after)) = operation.split_once(", align ").filter(|_| is_one && operation.contains("i128"))
    else {
        return Ok(None);
    };
    let mut operands = operands;
    while let Some(rest) = ORDERS.iter().find_map(|order| operands.strip_suffix(order)) {
        operands = rest;
    }
    let operands = operands.split(" syncscope(").next().unwrap_or_default();
    let words: Vec<&str> = operands.split(' ').collect();
    let debug = after.find(", !").map_or("", |at| &after[at..]);
    let function = (|| {
        let place = operands.find("ptr ")?;
        Some(match words[0] {
            "load" => format!("call i128 @__atomic_load_16({}, i32 5)", operands.split_once("i128, ")?.1),
            "store" => {
                let (value, object) = operands.split_once("i128 ")?.1.split_once(", ptr ")?;
                format!("call void @__atomic_store_16(ptr {object}, i128 {value}, i32 5)")
            }
            "cmpxchg" => format!("call {{ i128, i1 }} @motet.compare_exchange_16({})", &operands[place..]),
            _ => {
                let name = words.iter().find(|word| !["atomicrmw", "volatile"].contains(word))?;
                let name = if *name == "xchg" { "exchange".to_owned() } else { format!("fetch_{name}") };
                let name = format!("__atomic_{name}_16");
                FUNCTIONS.iter().find(|(known, _)| *known == name)?;
                format!("call i128 @{name}({}, i32 5)", &operands[place..])
            }
        })
    })();
    match function {
        Some(function) => Ok(Some(format!("  {result}{function}{debug}"))),
        None => Err(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_sixteen_bytes_become_calls() {
        let calls = |line: &str| call(line).unwrap().unwrap();
        assert_eq!(
            calls("  %3 = load atomic i128, ptr %0 seq_cst, align 16, !dbg !7"),
            "  %3 = call i128 @__atomic_load_16(ptr %0, i32 5), !dbg !7"
        );
        assert_eq!(
            calls("  store atomic volatile i128 %1, ptr getelementptr (i8, ptr @x, i64 16) release, align 16"),
            "  call void @__atomic_store_16(ptr getelementptr (i8, ptr @x, i64 16), i128 %1, i32 5)"
        );
        assert_eq!(
            calls("  %5 = atomicrmw xchg ptr @x, i128 7 syncscope(\"singlethread\") acq_rel, align 16"),
            "  %5 = call i128 @__atomic_exchange_16(ptr @x, i128 7, i32 5)"
        );
        assert_eq!(
            calls("  %7 = cmpxchg weak ptr @x, i128 %a, i128 %b seq_cst monotonic, align 16"),
            "  %7 = call { i128, i1 } @motet.compare_exchange_16(ptr @x, i128 %a, i128 %b)"
        );
        for other in ["  %1 = load atomic i64, ptr @x seq_cst, align 8", "  %1 = load i128, ptr @x, align 16", "x:"] {
            assert_eq!(call(other), Ok(None), "{other}");
        }
        assert!(call("  %5 = atomicrmw umax ptr @x, i128 7 seq_cst, align 16").is_err());
        assert_eq!(called("x:\n"), Ok(None));
        let code = called("  %7 = cmpxchg ptr @x, i128 %a, i128 %b seq_cst seq_cst, align 16\n").unwrap().unwrap();
        assert_eq!(code.matches("declare ").count(), 1);
    }
}

//! Sequentially consistent stores on AArch64 have a fence behind them, and no others do.

use object::{Object, ObjectSection, ObjectSymbol};

use crate::folder::Folder;

const C: &str = r#"
#include <stdatomic.h>
_Atomic int x;
atomic_uchar small;
_Atomic double number;
long plain;
__attribute__((noinline)) void sequential(int value) {
    x = value;
    atomic_store(&small, 3);
    number = 0.5;
    __atomic_store_n(&plain, 4, __ATOMIC_SEQ_CST);
}
__attribute__((noinline)) void releasing(int value) {
    atomic_store_explicit(&x, value, memory_order_release);
    atomic_store_explicit(&small, 3, memory_order_release);
}
int main(void) { sequential(1); releasing(2); return 0; }
"#;

const CXX: &str = r#"
#include <atomic>
std::atomic<int> x, y;
std::atomic<bool> is_set;
std::atomic<int *> pointer;
extern "C" __attribute__((noinline)) void sequential(int value) {
    x = value;
    y.store(value);
    is_set = true;
    pointer = nullptr;
}
extern "C" __attribute__((noinline)) void releasing(int value) {
    x.store(value, std::memory_order_release);
    y.store(value, std::memory_order_release);
}
int main() { sequential(1); releasing(2); }
"#;

/// Store-releases and full fences of a function of an AArch64 executable.
fn counts(program: &[u8], function: &str) -> (usize, usize) {
    let file = object::File::parse(program).unwrap();
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(function)).expect(function);
    let text = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    let code = text.data_range(symbol.address(), symbol.size()).unwrap().expect("the function's code");
    let words: Vec<u32> = code.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let count = |is_one: fn(u32) -> bool| words.iter().filter(|&&word| is_one(word)).count();
    (count(|word| word & 0x3fff_fc00 == 0x089f_fc00), count(|word| word == 0xd503_3bbf)) // stlr, dmb ish
}

/// Compiles a program of either language at some levels, and counts in its functions.
fn expect_fences(name: &str, source: &str, levels: &[&str]) {
    let folder = Folder::new();
    folder.write(name, source);
    for level in levels {
        assert_eq!(folder.cc(&format!("{level} %{name} -o %a --emit-isa aarch64 %a.arm")).unwrap(), 0);
        let program = std::fs::read(folder.path("a.arm")).unwrap();
        assert_eq!(counts(&program, "sequential"), (4, 4), "{level}");
        assert_eq!(counts(&program, "releasing"), (2, 0), "{level}");
        assert_eq!(folder.run("a"), "");
    }
}

#[test]
fn stores_of_c_have_the_fences_that_they_need() {
    expect_fences("a.c", C, &["-O0", "-O2", "-O2 -g"]);
}

#[test]
fn stores_of_cpp_have_the_fences_that_they_need() {
    // Without optimisation they are in functions of the library.
    expect_fences("a.cc", CXX, &["-O1", "-O2 -g"]);
}

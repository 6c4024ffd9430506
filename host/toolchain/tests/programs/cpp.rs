//! `motet c++`: the library, exceptions, and functions that only some instruction sets have out of line.

use std::process::{Command, Output};

use object::{Object, ObjectSection};

use crate::folder::Folder;

const STREAMS: &str = r#"
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>
struct Object { const char *name; ~Object() { std::cout << name << " ends\n"; } };
static Object fixed{"static"};
static thread_local Object own{"of a thread"};
static int parse(const std::string &text) {
    std::istringstream in(text);
    int left, right;
    if (!(in >> left >> right))
        throw std::invalid_argument(text);
    return left * right;
}
int main(int, char **words) {
    std::ofstream(std::string(words[0]) + ".txt") << "6 7\nsix\n";
    std::ifstream file(std::string(words[0]) + ".txt");
    for (std::string line; std::getline(file, line);)
        try {
            std::cout << parse(line) << '\n';
        } catch (const std::exception &error) {
            std::cout << "not " << error.what() << '\n';
        }
    std::thread([] { own.name = "of another"; }).join();
    own.name = "of main";
    std::ostringstream out;
    out << 0.1 << ' ' << std::hex << 255;
    std::cout << out.str() << '\n';
}
"#;

const STREAMS_OUTPUT: &str = "42\nnot six\nof another ends\n0.1 ff\nof main ends\nstatic ends\n";

#[test]
fn streams_files_threads_and_exceptions_work() {
    let folder = Folder::new();
    folder.write("a.cc", STREAMS);
    for options in ["-O0 -Wall", "-O2 -s -std=c++20"] {
        assert_eq!(folder.cxx(&format!("{options} %a.cc -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), STREAMS_OUTPUT);
    }
    // A C compiler knows C++ by the file's name, and links it with the library's.
    assert_eq!(folder.cc("-O1 -c %a.cc -o %a.o").unwrap(), 0);
    assert_eq!(folder.cc("%a.o -lstdc++ -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), STREAMS_OUTPUT);
}

#[test]
fn static_objects_begin_in_order_and_end_in_reverse() {
    let folder = Folder::new();
    let header = "#include <cstdio>\nstruct Object {\n    const char *name;\n\
        Object(const char *name) : name(name) { printf(\"%s \", name); }\n    ~Object() { printf(\"-%s \", name); }\n};\n";
    let file = |first: &str, priority: u32, rest: &str| {
        format!(
            "{header}static Object plain(\"{first}\"), two[2] = {{{{\"{first}1\"}}, {{\"{first}2\"}}}};\n\
            static Object early __attribute__((init_priority({priority})))(\"early{priority}\");\n{rest}"
        )
    };
    folder.write("a.cc", &file("a", 300, ""));
    folder.write(
        "b.cc",
        &file("b", 200, "Object &local() { static Object l(\"local\"); return l; }\nint main() { local(); }\n"),
    );
    let begin = "early200 early300 a a1 a2 b b1 b2 local ";
    let end = "-local -b2 -b1 -b -a2 -a1 -a -early300 -early200 ";
    for options in ["-O0", "-O2"] {
        assert_eq!(folder.cxx(&format!("{options} %a.cc %b.cc -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), format!("{begin}{end}"));
    }
}

/// Ends with an exception that nobody catches.
fn fails(folder: &Folder, name: &str) -> Output {
    let output = Command::new(folder.path(name)).output().unwrap();
    assert!(!output.status.success());
    output
}

#[test]
fn an_exception_that_nobody_catches_ends_the_process_with_its_message() {
    let folder = Folder::new();
    folder.write("a.cc", "#include <stdexcept>\nint main() { throw std::range_error(\"out of here\"); }\n");
    assert_eq!(folder.cxx("%a.cc -o %a").unwrap(), 0);
    let errors = String::from_utf8(fails(&folder, "a").stderr).unwrap();
    assert_eq!(errors, "libc++abi: terminating due to uncaught exception of type std::range_error: out of here\n");
}

#[test]
fn each_isa_has_tables_of_its_own_for_unwinding_and_c_programs_have_none() {
    let folder = Folder::new();
    folder.write(
        "a.cc",
        "int main(int n, char **) { try { if (n) throw n; } catch (int m) { return m - 1; } return 2; }\n",
    );
    assert_eq!(folder.cxx("-O1 %a.cc -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    let sections = |name: &str| {
        let bytes = std::fs::read(folder.path(name)).unwrap();
        let file = object::File::parse(bytes.as_slice()).unwrap();
        let of_unwinding = |section: object::Section<'_, '_>| {
            let name = section.name().unwrap().to_owned();
            name.contains("eh_frame").then_some((name, section.size() > 0))
        };
        file.sections().filter_map(of_unwinding).collect::<Vec<_>>()
    };
    let both = [".eh_frame_hdr", ".eh_frame"];
    let of = |isa: &str| both.map(|name| (format!("{isa}{name}"), true));
    let wanted = [of(""), of(".motet.aarch64"), of(".motet.riscv64")].concat();
    assert_eq!(sections("a"), wanted);
    folder.write("b.c", "int main(void) { return 0; }\n");
    assert_eq!(folder.cc("-O1 %b.c -o %b").unwrap(), 0);
    assert_eq!(sections("b"), []);
}

#[test]
fn exceptions_pass_through_functions_of_c_that_want_them_to() {
    let folder = Folder::new();
    let c = "void between(void (*f)(void)) { f(); f(); }\n";
    folder.write("b.c", c);
    let cpp = "#include <cstdio>\n#include <cstdlib>\nextern \"C\" void between(void (*)());\n\
        int main() {\n    try { between([] { throw 1; }); } catch (int) { printf(\"caught\"); }\n\
        int pair[] = {2, 1};\n\
        try { qsort(pair, 2, 4, [](const void *, const void *) -> int { throw 2L; }); } catch (long) { printf(\" twice\"); }\n}\n";
    folder.write("a.cc", cpp);
    assert_eq!(folder.cxx("-O1 -c %a.cc -o %a.o").unwrap(), 0);
    assert_eq!(folder.cc("-O1 -fexceptions -c %b.c -o %b.o").unwrap(), 0);
    assert_eq!(folder.cxx("%a.o %b.o -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "caught twice");
    assert_eq!(folder.cc("-O1 -c %b.c -o %b.o").unwrap(), 0);
    assert_eq!(folder.cxx("%a.o %b.o -o %a").unwrap(), 0);
    fails(&folder, "a");
}

/// As inline functions do, when one compiler inlines every call in a file and another does not.
#[test]
fn a_function_comes_from_a_file_that_has_it_for_all_isas_or_from_several_files() {
    let folder = Folder::new();
    let function = |value: u32| format!("__attribute__((weak)) int f(void) {{ return {value}; }}\n");
    let only = |condition: &str, value: u32| format!("#if {condition}\n{}#endif\n", function(value));
    let main = "#include <stdio.h>\nint f(void);\nint main(void) { printf(\"%d\", f()); }\n";
    folder.write("main.c", main);
    folder.write("x86.c", &only("defined __x86_64__", 1));
    folder.write("others.c", &only("!defined __x86_64__", 2));
    folder.write("all.c", &function(3));
    let link = |names: &str| {
        let names: Vec<String> = names.split(' ').map(|name| format!("%{name}.c")).collect();
        folder.cc(&format!("-O1 %main.c {} -o %a", names.join(" "))).map(|_| folder.run("a"))
    };
    assert_eq!(link("x86 all").unwrap(), "3");
    assert_eq!(link("all x86").unwrap(), "3");
    assert_eq!(link("x86 others").unwrap(), "1");
    let error = link("x86").unwrap_err();
    assert!(error.message.contains("undefined symbol for aarch64: f"), "{}", error.message);
    // A pointer to it must mean the same everywhere.
    folder.write(
        "main.c",
        "#include <stdio.h>\nint f(void);\nint (*p)(void) = f;\nint main(void) { printf(\"%d\", p()); }\n",
    );
    assert_eq!(link("x86 all").unwrap(), "3");
    let error = link("x86 others").unwrap_err();
    assert!(error.message.contains(" f"), "{}", error.message);
}

#[test]
fn pinned_functions_take_and_give_small_classes_by_value() {
    let folder = Folder::new();
    // Clang would leave the class out of the debugger's sections of a file that constructs none.
    let source = "struct Base { virtual void f(); };\nclass Small { Base *base; int kind; public: Small(Base *, int); int k() { return kind; } };\n\
        __attribute__((noinline, used, section(\".text.motet.on.riscv64.1\"))) Small same(Small small, char more) {\n    return more ? small : small;\n}\n";
    folder.write("a.cc", source);
    folder.write("b.cc", "int main() {}\n");
    assert_eq!(folder.cxx("-O1 %a.cc %b.cc -o %a").unwrap(), 0);
    let table = motet_toolchain::objdump(&folder.path("a")).unwrap();
    assert!(table.contains("_Z4same5Smallc (64, 64, i8) -> (64, 64) on riscv64"), "{table}");
}

#[test]
fn what_is_aligned_to_cache_lines_is_the_same_on_all() {
    let folder = Folder::new();
    let source = "#include <cstdio>\n#include <new>\n\
        struct alignas(std::hardware_destructive_interference_size) Line { char c; };\nLine lines[2];\n\
        int main() { printf(\"%zu\", sizeof lines / std::hardware_constructive_interference_size); }\n";
    folder.write("a.cc", source);
    assert_eq!(folder.cxx("-std=c++17 -Werror -O1 %a.cc -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "2");
}

#[test]
fn contradicting_pins_of_a_function_are_told_with_both_places() {
    let folder = Folder::new();
    let source = "#include <motet.h>\nstruct S { MOTET_ON(\"riscv64\") int f(int); };\n\
        MOTET_ON(\"aarch64\") int S::f(int x) { return x; }\nint main() { return S().f(0); }\n";
    folder.write("a.cc", source);
    // When compiling already, before there is a file.
    let error = folder.cxx("-O1 -c %a.cc -o %a.o").unwrap_err();
    assert!(!folder.path("a.o").exists());
    let places = ["_ZN1S1fEi is pinned to riscv64 at ", "a.cc:2 and to aarch64 at ", "a.cc:3; choose one"];
    assert!(places.iter().all(|part| error.message.contains(part)), "{}", error.message);
}

/// Clang puts variables of a file that are used together side by side for AArch64, if it may.
#[test]
fn guards_of_static_variables_stay_apart() {
    let folder = Folder::new();
    folder.write(
        "a.cc",
        r#"
#include <cstdio>
struct Part { Part() { std::puts("made"); } ~Part(); int number = 1; void *next = nullptr; };
Part::~Part() { std::puts("gone"); }
struct Whole { static Whole &get(); static Whole &other(); virtual ~Whole() {} Part part; };
Whole &Whole::get() { static Whole whole; return whole; }
Whole &Whole::other() { static Whole whole; static Part part; part.next = &whole; return whole; }
int main() { return Whole::get().part.number + Whole::other().part.number - 2; }
"#,
    );
    assert_eq!(folder.cxx("-O3 %a.cc -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "made\nmade\nmade\ngone\ngone\ngone\n");
}

//! What people ask the linker about a program, and what it refuses.

use std::process::Command;

use crate::folder::{Folder, toolchain_folder};

/// The words of a call that a test makes of itself: what `motet cc` prints goes to the standard output of its process, which another process can read.
const WORDS: &str = "MOTET_TEST_WORDS";

/// Whether this process is one that a test has started for [`printed`]: then it has compiled.
fn has_compiled() -> bool {
    let Ok(words) = std::env::var(WORDS) else { return false };
    let words: Vec<std::ffi::OsString> = words.split(' ').map(Into::into).collect();
    if let Err(error) = motet_toolchain::cc(&toolchain_folder(), false, &words) {
        println!("error: {error}");
    }
    true
}

/// What `motet cc` prints when it is called in a folder.
fn printed(folder: &Folder, line: &str) -> String {
    let test = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture"]).env(WORDS, line).env_remove("RUST_TEST_THREADS");
    let output = command.current_dir(folder.whole()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_linker_says_who_defines_and_wants_a_symbol() {
    if has_compiled() {
        return;
    }
    let folder = Folder::new();
    folder.write("a.c", "int get(void), both;\nint main(void) { return get() + both; }\n");
    folder.write(
        "b.c",
        "extern int both;\nstatic int one(void) { return 1; }\nint nobody(void) { return 7; }\nint get(void) { return both - one() + 1; }\n\
         #ifdef __riscv\nint only_here = 5;\n#endif\n",
    );
    for name in ["a", "b"] {
        assert_eq!(folder.cc(&format!("-O1 -c %{name}.c -o %{name}.o")).unwrap(), 0);
    }
    let table = printed(&folder, "a.o b.o -o a -Wl,--cref");
    let (_, rows) = table.split_once("\nCross Reference Table\n\nSymbol").unwrap();
    let at = |name: &str| rows.lines().position(|row| row.split(' ').next() == Some(name)).unwrap();
    let lines: Vec<&str> = rows.lines().collect();
    // Who defines it comes first.
    assert_eq!(lines[at("get")], format!("{:50}b.o", "get"));
    assert_eq!(lines[at("get") + 1], format!("{:50}a.o", ""));
    assert_eq!(lines[at("both")], format!("{:50}a.o", "both"));
    assert_eq!(lines[at("only_here")], format!("{:50}b.o (riscv64)", "only_here"));
    assert!(lines[at("main")].ends_with("a.o") && lines[at("main") + 1].ends_with("crt1.o"), "{table}");
    // With a map it is in that.
    assert!(!printed(&folder, "a.o b.o -o a -Wl,--cref,-Map=map").contains("Cross"));
    let map = std::fs::read_to_string(folder.path("map")).unwrap();
    assert!(map.starts_with("One address") && map.contains("\nCross Reference Table\n"), "{map}");

    let traced = printed(&folder, "a.o b.o -o a -Wl,-t,-y,get,--trace-symbol=only_here,-yboth");
    let traced: Vec<&str> = traced.lines().filter(|line| !line.contains(".a(") && line.contains(".o")).collect();
    assert!(traced[0].ends_with("crt1.o"), "{traced:?}");
    let wanted = [
        "a.o",
        "a.o: reference to get",
        "a.o: definition of both",
        "b.o",
        "b.o: definition of get",
        "b.o: definition of only_here (riscv64)",
        "b.o: reference to both",
    ];
    assert_eq!(traced[1..], wanted);

    let gone = printed(&folder, "a.o b.o -o a -Wl,--print-gc-sections");
    assert!(gone.contains("removing unused section '.text.nobody' in file 'b.o'\n"), "{gone}");
    assert!(!gone.contains(".text.get"), "{gone}");
    // What is wrong comes behind what was asked for.
    let error = printed(&folder, "a.o -o b -Wl,-y,get");
    assert!(error.contains("a.o: reference to get\n") && error.contains("error: undefined symbol: get"), "{error}");
}

#[test]
fn symbols_can_be_required_or_defined_several_times() {
    if has_compiled() {
        return;
    }
    let folder = Folder::new();
    folder.write("a.c", "int get(void);\nint main(void) { return get(); }\n");
    folder.write("zero.c", "int get(void) { return 0; }\n");
    folder.write("one.c", "int get(void) { return 1; }\n");
    for name in ["a", "zero", "one"] {
        assert_eq!(folder.cc(&format!("-c %{name}.c -o %{name}.o")).unwrap(), 0);
    }
    let error = folder.cc("%a.o %zero.o %one.o -o %a").unwrap_err();
    assert!(error.message.contains("duplicate symbol: get is defined in"), "{error}");
    for option in ["-Wl,--allow-multiple-definition", "-Wl,-z,muldefs"] {
        assert_eq!(folder.cc(&format!("%a.o %zero.o %one.o {option} -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), "");
    }
    assert_eq!(folder.cc("%a.o %zero.o -Wl,--require-defined=get -o %a").unwrap(), 0);
    // Of several definitions each instruction set has the first that is there for it.
    folder.write("part.c", "#ifdef __riscv\nint get(void) { return 0; }\n#else\nint other;\n#endif\n");
    assert_eq!(folder.cc("-c %part.c -o %part.o").unwrap(), 0);
    assert_eq!(folder.cc("%a.o %part.o %zero.o -Wl,-z,muldefs -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    let error = folder.cc("%a.o %zero.o -Wl,--require-defined,set -o %b").unwrap_err();
    assert!(error.message.contains("undefined symbol: set\n  wanted by --require-defined"), "{error}");
    // What is taken whole is so until the state before comes back.
    folder.write("empty.c", "int main(void) { return 0; }\n");
    assert_eq!(folder.cc("-c %empty.c -o %empty.o").unwrap(), 0);
    let words = ["rcs".into(), folder.path("l.a").into_os_string(), folder.path("one.o").into_os_string()];
    assert_eq!(motet_toolchain::archiver(&toolchain_folder(), "ar", &words).unwrap(), 0);
    for (state, is_whole) in
        [("--push-state,--whole-archive,--pop-state", false), ("--whole-archive,--push-state", true)]
    {
        let traced = printed(&folder, &format!("empty.o -Wl,-y,get,{state} l.a -o e"));
        assert_eq!(traced.contains("l.a(one.o): definition of get\n"), is_whole, "{state}: {traced}");
    }
    // What is required comes out of an archive, too.
    let traced = printed(&folder, "empty.o -Wl,-y,get,--require-defined=get l.a -o e");
    assert!(traced.contains("l.a(one.o): definition of get\n") && !traced.contains("error"), "{traced}");
}

#[test]
fn files_between_source_and_object_are_written_once() {
    if has_compiled() {
        return;
    }
    let folder = Folder::new();
    // The address of a function that is inlined everywhere on some ISA is kept on another: the source is compiled once more.
    folder.write(
        "a.c",
        "static int twice(int x) { return 2 * x; }\n#ifdef __riscv\nint (*volatile kept)(int) = twice;\n#else\nint (*volatile kept)(int);\n#endif\n\
         static const int own[] = {\n#ifdef __riscv\n1\n#else\n2\n#endif\n};\nint main(int n, char **w) { return twice(n) - 2 + own[n - 1]; }\n",
    );
    folder.write("pins.toml", "[pins]\nriscv64 = [\"a.c:twice\"]\n");
    std::fs::create_dir(folder.path("out")).unwrap();
    for (options, output, wanted) in [
        ("-save-temps -c", "out/a.o", &["a.bc", "a.i", "a.s"][..]),
        ("-save-temps=cwd -c", "out/a.o", &["a.bc", "a.i", "a.s"]),
        ("-save-temps=obj -c", "out/a.o", &["out/a.bc", "out/a.i", "out/a.s"]),
        ("-save-temps=obj", "out/a", &["out/a.bc", "out/a.i", "out/a.s"]),
        // Code that is prepared to be pinned is compiled out of intermediate code.
        ("--pins pins.toml -save-temps=obj", "out/a", &["out/a.i", "out/a.tmp.bc"]),
        ("--pins pins.toml -save-temps", "out/a", &["a.i", "a.tmp.bc"]),
    ] {
        let before = files(&folder);
        let said = printed(&folder, &format!("-O2 {options} a.c -o {output}"));
        assert!(!said.contains("error"), "{said}");
        let mut new: Vec<String> = files(&folder).into_iter().filter(|name| !before.contains(name)).collect();
        new.retain(|name| name != output);
        assert_eq!(new, wanted, "{options}");
        let text = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
        assert!(wanted.get(2).is_none_or(|name| text(name).contains("main:")), "{options}");
        new.iter().for_each(|name| std::fs::remove_file(folder.path(name)).unwrap());
        std::fs::remove_file(folder.path(output)).unwrap();
    }
}

#[test]
fn files_between_source_and_object_do_not_replace_a_source() {
    let folder = Folder::new();
    let assembly = "#define NAME begin\n.globl NAME\nNAME: .long 0\n";
    let code = "#define VALUE 1\nint value = VALUE;\n";
    folder.write("start.s", assembly);
    folder.write("a.i", code);
    assert_eq!(folder.cc("-save-temps=obj -x assembler-with-cpp -c %start.s -o %start.o").unwrap(), 0);
    assert_eq!(folder.cc("-save-temps=obj -x c -c %a.i -o %a.o").unwrap(), 0);
    let text = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!([text("start.s"), text("a.i")], [assembly, code]);
    assert!(text("a.s").contains("value:"));
}

/// The files of a folder and of those in it, in order.
fn files(folder: &Folder) -> Vec<String> {
    let found = Command::new("find").args([".", "-type", "f", "-printf", "%P\n"]).current_dir(folder.whole()).output();
    let mut names: Vec<String> = String::from_utf8(found.unwrap().stdout).unwrap().lines().map(Into::into).collect();
    names.sort();
    names
}

//! Lists of pins, and pins that are refused.

use motet_abi::fat::Signature;
use motet_layout::Isa;

use crate::folder::{Folder, pins};

#[test]
fn one_list_of_pins_serves_several_programs() {
    let folder = Folder::new();
    folder.write("a.c", "int f(void) { return 0; }\nint main(void) { return f(); }\n");
    folder.write("b.c", "int g(void) { return 0; }\nint main(void) { return g(); }\n");
    folder
        .write("pins.toml", "[pins]\nriscv64 = ['f', 'g', 'a.c:h']\naarch64 = { functions = ['i*'], strict = true }\n");
    for (name, function) in [("a", "f"), ("b", "g")] {
        assert_eq!(folder.cc(&format!("-O2 --pins %pins.toml %{name}.c -o %{name}")).unwrap(), 0);
        let pins = pins(&std::fs::read(folder.path(name)).unwrap());
        assert_eq!(pins.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [function]);
    }
    for (text, message) in [
        ("[pins]\nriscv64 = ['f', 3]\n", "expected a list of functions"),
        ("[pins]\nriscv64 = ['src/a.c:f']\n", "\"src/a.c:f\": name the file without its folders"),
        ("[pins]\nsparc = ['f']\n", "no such instruction set"),
        ("[pins]\nriscv64 = ['f'\n", "pins.toml: TOML parse error at line 2"),
        ("[pins]\nriscv64 = ['f']\naarch64 = ['f*']\n", "f is pinned to "),
    ] {
        folder.write("pins.toml", text);
        let error = folder.cc("-O2 --pins %pins.toml %a.c -o %wrong").unwrap_err();
        assert!(error.message.contains("pins.toml: ") && error.message.contains(message), "{error}");
        assert!(!folder.path("wrong").exists());
    }
}

#[test]
fn patterns_are_for_what_the_user_has_written() {
    let folder = Folder::new();
    folder.write(
        "a.c",
        "#include <string.h>\n__attribute__((noinline)) int memory(int x) { return x; }\n\
         int main(int n, char **words) { char copy[100]; memmove(copy, words[0] + n - 1, n); memset(copy, n, 50 * n); return memory(copy[9] - 1); }\n",
    );
    for (list, wanted) in [("'mem*', 'a.c:mem*'", &["memory"][..]), ("'mem*', 'memset'", &["memory", "memset"])] {
        folder.write("pins.toml", &format!("[pins]\nriscv64 = [{list}]\n"));
        assert_eq!(folder.cc("-O1 -fno-builtin --pins %pins.toml %a.c -o %a").unwrap(), 0);
        let pins = pins(&std::fs::read(folder.path("a")).unwrap());
        let mut names: Vec<&str> = pins.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, wanted);
    }
}

#[test]
fn functions_that_return_twice_are_not_pinned() {
    let folder = Folder::new();
    folder.write(
        "a.c",
        "#include <setjmp.h>\n#include <unistd.h>\njmp_buf place;\nsigjmp_buf other;\n\
         int main(void) { if (vfork() == 0) _exit(0); if (sigsetjmp(other, 1)) return 1; return setjmp(place); }\n",
    );
    for function in ["setjmp", "_setjmp", "sigsetjmp", "vfork"] {
        folder.write("pins.toml", &format!("[pins]\nriscv64 = ['{function}']\n"));
        let error = folder.cc("-O1 --pins %pins.toml %a.c -o %a").unwrap_err();
        assert!(error.message.contains("cannot be pinned, because it returns twice"), "{error}");
    }
}

#[test]
fn static_functions_are_pinned_by_their_file_and_patterns() {
    let folder = Folder::new();
    // Called with constants, and with a result that nobody needs: the optimiser would change what it takes and gives, or copy it.
    let own =
        "#include <stdio.h>\nstatic double step(double x, int unused, long n) { printf(\"%g \", x * n); return x; }\n";
    folder.write("a.c", &format!("{own}void other(void);\nint main(void) {{ step(2, 1, 3); other(); return 0; }}\n"));
    folder.write("b.c", &format!("{own}int sum(int x) {{ return x; }}\nint summit(int x) {{ return x; }}\nvoid other(void) {{ step(5, 2, 7); sum(1); summit(2); }}\n"));
    folder.write("pins.toml", "[pins]\nriscv64 = ['b.c:st*p']\naarch64 = ['sum*']\n");
    for level in ["-O0", "-O2", "-O2 -g", "-O3"] {
        assert_eq!(folder.cc(&format!("{level} --pins %pins.toml %a.c %b.c -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), "6 35 ");
        let pins = pins(&std::fs::read(folder.path("a")).unwrap());
        let mut names: Vec<&str> = pins.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["step", "sum", "summit"], "{level}");
        let step = pins.iter().find(|(name, _)| name == "step").unwrap().1;
        assert_eq!((step.isa, step.signature), (Isa::RiscV64, Signature { words: 0x16, floats: 1, result: 0x100 }));
    }
    // An object in which the optimiser was free.
    folder.write(
        "c.c",
        "static int own(void) { return 0; }\nint (*volatile kept)(void) = own;\nint main(void) { return kept(); }\n",
    );
    folder.write("own.toml", "[pins]\nriscv64 = ['c.c:own']\n");
    assert_eq!(folder.cc("-O1 -c %c.c -o %c.o").unwrap(), 0);
    let error = folder.cc("--pins %own.toml %c.o -o %c").unwrap_err();
    assert!(error.message.contains("c.o was compiled without this list: give --pins when compiling, too"), "{error}");
}

#[test]
fn constructors_cannot_be_pinned() {
    let folder = Folder::new();
    for (source, place) in [
        (
            "#include <motet.h>\nint y;\n__attribute__((constructor)) MOTET_ON(\"riscv64\") static void early(void) { y = 1; }\nint main(void) { return y; }\n",
            "a.c:3: early is",
        ),
        (
            "#include <motet.h>\nint y;\n\n__attribute__((destructor)) MOTET_ON(\"riscv64\") void late(void) { y = 1; }\nint main(void) { return y; }\n",
            "a.c:4: late is",
        ),
        (
            "volatile int y;\n__attribute__((constructor)) void listed(void) { y = 1; }\nint main(void) { return y; }\n",
            "a.c: listed is",
        ),
    ] {
        folder.write("a.c", source);
        folder
            .write("pins.toml", if source.contains("listed") { "[pins]\nriscv64 = ['listed']\n" } else { "[pins]\n" });
        let error = folder.cc("-O1 --pins %pins.toml %a.c -o %a").unwrap_err();
        assert!(error.message.contains(place) && error.message.contains("a constructor or destructor"), "{error}");
    }
    let class = "#include <motet.h>\nstruct A { int x; MOTET_ON(\"riscv64\") A(int); };\nA::A(int y) : x(y) {}\nint main() { A a(0); return a.x; }\n";
    folder.write("a.cc", class);
    let error = folder.cxx("-O1 %a.cc -o %a").unwrap_err();
    assert!(error.message.contains("a.cc:2: _ZN1AC"), "{error}");
}

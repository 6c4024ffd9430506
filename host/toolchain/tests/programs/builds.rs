//! What build systems, caches and the linker's options ask of `motet cc`.

use std::{os::unix::fs::PermissionsExt, path::Path};

use object::{Object, ObjectSection, ObjectSymbol};

use crate::folder::Folder;

/// What stands in C for one thing on RISC-V and another elsewhere.
fn chosen(riscv: &str, others: &str) -> String {
    format!("\n#ifdef __riscv\n{riscv}\n#else\n{others}\n#endif\n")
}

#[test]
fn what_nobody_writes_may_differ_between_isas() {
    let folder = Folder::new();
    // As CMake asks for the size of a type, without optimisation; and for the name of an architecture.
    let text = chosen("static char text[] = {'r', 0};", "static char text[] = {'n', 'o', 'n', 'e', 0};");
    let name = chosen("static const char *name = \"riscv\";", "static const char *name = \"other\";");
    let main = "#include <stdio.h>\nint main(int count, char **words) { printf(\"%c %s\", text[count - 1], name); CHANGE; return 0; }\n";
    folder.write("a.c", &(text + &name + main));
    for level in ["-O0", "-O0 -g", "-O2"] {
        assert_eq!(folder.cc(&format!("{level} -DCHANGE= %a.c -o %a")).unwrap(), 0, "{level}");
        assert_eq!(folder.run("a"), "n other", "{level}");
        let file = std::fs::read(folder.path("a")).unwrap();
        for word in ["none\0", "other\0", "riscv\0"].iter().filter(|_| level != "-O2") {
            assert!(file.windows(word.len()).any(|part| part == word.as_bytes()), "{level}: {word}");
        }
        for (change, variable) in [("text[0]++", "text"), ("name++", "name")] {
            let error = folder.cc(&format!("{level} -DCHANGE={change} %a.c -o %changed")).unwrap_err();
            assert!(error.message.contains(&format!("{variable} differs between x86_64 and riscv64")), "{error}");
        }
    }
}

#[test]
fn constants_that_other_files_see_may_differ_while_no_data_keep_their_addresses() {
    let folder = Folder::new();
    let version = chosen("const char version[] = \"riscv\";", "const char version[] = \"another\";");
    folder.write("version.c", &version);
    let head = "#include <stdio.h>\nextern const char version[];\n";
    folder.write("a.c", &format!("{head}int main(void) {{ puts(version); return 0; }}\n"));
    assert_eq!(folder.cc("%a.c %version.c -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "another\n");
    // A constant that only its own file sees follows.
    folder.write("b.c", &format!("{head}static const char *const own[] = {{ version }};\nint main(int n, char **w) {{ puts(own[n - 1]); return 0; }}\n"));
    assert_eq!(folder.cc("%b.c %version.c -o %b").unwrap(), 0);
    assert_eq!(folder.run("b"), "another\n");
    for keeper in
        ["const char *kept = version", "const char *const kept = version", "static const char *volatile kept = version"]
    {
        folder.write(
            "c.c",
            &format!("{head}{keeper};\nint main(int n, char **w) {{ puts((&kept)[n - 1]); return 0; }}\n"),
        );
        let error = folder.cc("-O0 %c.c %version.c -o %c").unwrap_err();
        assert!(error.message.contains("c.c: kept keeps the address of version, which differs"), "{keeper}: {error}");
    }
    // With pointers in it, it is refused.
    let table =
        chosen("extern int x; const void *const table[] = {0};", "extern int x; const void *const table[] = {&x};");
    folder.write("d.c", &format!("{table}int x;\nint main(int n, char **w) {{ return table[n - 1] == &x; }}\n"));
    let error = folder.cc("-O0 %d.c -o %d").unwrap_err();
    assert!(error.message.contains("table differs between x86_64 and riscv64"), "{error}");
}

#[test]
fn precompiled_headers_stand_for_the_headers() {
    let folder = Folder::new();
    folder.write("h.h", "#ifdef __riscv\nenum { VALUE = 1 };\n#else\nenum { VALUE = 2 };\n#endif\n");
    folder.write("a.c", "int main(void) { return VALUE == 0; }\n");
    // GCC's way, clang's, and CMake's.
    assert_eq!(folder.cc("-x c-header %h.h").unwrap(), 0);
    assert_eq!(folder.cc("-Werror -Winvalid-pch -include %h.h %a.c -o %a").unwrap(), 0);
    assert_eq!(folder.cc("-x c-header -c %h.h -o %h.pch -MD -MF %h.d").unwrap(), 0);
    assert!(std::fs::read_to_string(folder.path("h.d")).unwrap().contains("h.pch:"));
    assert_eq!(folder.cc("-include-pch %h.pch %a.c -o %a").unwrap(), 0);
    folder.write("i.c", "");
    assert_eq!(folder.cc("-Xclang -emit-pch -Xclang -include -Xclang %h.h -x c-header -c %i.c -o %i.pch").unwrap(), 0);
    assert_eq!(folder.cc("-Xclang -include-pch -Xclang %i.pch %a.c -o %a").unwrap(), 0);
    folder.run("a");
    let error = folder.cc("-include-pch %a %a.c -o %b").unwrap_err();
    assert!(error.message.contains("a: another compiler has made this precompiled header"), "{error}");
    folder.write("wrong.h", "int x = ;\n");
    assert_eq!(folder.cc("%wrong.h").unwrap(), 1);
    assert!(!folder.path("wrong.h.gch").exists());
}

#[test]
fn what_caches_of_compilers_look_at_is_of_all_isas() {
    let folder = Folder::new();
    let source = |value: u8| {
        chosen(&format!("#include \"own.h\"\nint x = {value};"), "int x = 1;") + "int main(void) { return x - 1; }\n"
    };
    let preprocessed = |options: &str| {
        assert_eq!(folder.cc(&format!("-E {options} %a.c -o %a.i")).unwrap(), 0);
        std::fs::read_to_string(folder.path("a.i")).unwrap()
    };
    folder.write("own.h", "/* nothing */\n");
    folder.write("pins.toml", "[pins]\n");
    let mut seen = Vec::new();
    for options in ["", "-P", "--pins %pins.toml"] {
        for value in [1, 2] {
            folder.write("a.c", &source(value));
            seen.push(preprocessed(options));
            // It still compiles.
            assert_eq!(folder.cc("-Wall -Werror -c -x cpp-output %a.i -o %a.o").unwrap(), 0);
        }
    }
    folder.write("pins.toml", "[pins]\nriscv64 = ['main']\n");
    seen.push(preprocessed("--pins %pins.toml"));
    let header = format!("# 1 \"{}\"", folder.path("own.h").display());
    assert!(seen[0].lines().any(|line| line == header), "{}", seen[0]);
    let texts = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), texts);
    // What is the same for all has no marks.
    folder.write("a.c", "int main(void) { return 0; }\n");
    assert!(!preprocessed("").contains("motet"));
}

#[test]
fn dependency_files_name_the_headers_of_all_isas() {
    let folder = Folder::new();
    folder.write("own.h", "#include <stddef.h>\n");
    folder.write("pins.toml", "[pins]\n");
    folder.write("a.c", &(chosen("#include \"own.h\"", "") + "int main(void) { return 0; }\n"));
    let file = folder.path("my.d");
    for options in [
        "-c -MD -MF %my.d -o %a.o",
        "-c -MMD -MF%my.d -o %a.o",
        "-M -o %my.d",
        "-MM -MF %my.d",
        "-E -MD -MF %my.d -o %a.i",
    ] {
        let _ = std::fs::remove_file(&file);
        let words = options.replace("-MF%my.d", &format!("-MF{}", file.display()));
        assert_eq!(folder.cc(&format!("{words} --pins %pins.toml -MP %a.c")).unwrap(), 0, "{options}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.contains("own.h \\\n") && text.contains("own.h:\n") && text.contains("pins.toml"),
            "{options}: {text}"
        );
        assert_eq!(text.contains("stddef.h"), !options.contains("-MM"), "{options}: {text}");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(folder.cc(&format!("-Wp,-MMD,{} -c %a.c -o %a.o", file.display())).unwrap(), 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("a.o: "));
    // Words in files that files name.
    folder.write("inner", "-DX=1 -c");
    folder.write("outer", &format!("@{} -Werror", folder.path("inner").display()));
    folder.write("loop", &format!("@{}", folder.path("loop").display()));
    folder.write("a.c", "int x = X;\n");
    assert_eq!(folder.cc(&format!("@{} %a.c -o %a.o", folder.path("outer").display())).unwrap(), 0);
    let error = folder.cc(&format!("@{}", folder.path("loop").display())).unwrap_err();
    assert!(error.message.contains("loop: files that name each other"), "{error}");
}

#[test]
fn options_of_linkers_do_what_they_say() {
    let folder = Folder::new();
    folder.write("lib.c", "int get(void) { return 5; }\nint table[2] = {1, 2};\n");
    let source = "#include <stdio.h>\n#include <pthread.h>\nint get(void), alias(void), __real_get(void);\nextern int second;\nextern char limit[];\n\
        int __wrap_get(void) { return 10 * __real_get(); }\n\
        int main(void) { pthread_attr_t a; size_t bytes; pthread_attr_init(&a); pthread_attr_getstacksize(&a, &bytes);\n\
        printf(\"%d %d %d %ld %zu\\n\", get(), alias(), second, (long)limit, bytes); return 0; }\n";
    folder.write("a.c", source);
    folder.write("versions", "V1 { global: main; local: *; };\n");
    assert_eq!(folder.cc("-c %lib.c -o %lib.o").unwrap(), 0);
    let wishes = "-Wl,--wrap=get -Wl,--defsym,alias=get -Wl,--defsym=second=table+4 -Wl,--defsym=limit=0x123 -Wl,-z,stack-size=1048576";
    let files =
        format!("-Wl,--version-script={},-Map={}", folder.path("versions").display(), folder.path("map").display());
    for level in ["-O0", "-O2"] {
        assert_eq!(folder.cc(&format!("{level} %a.c %lib.o {wishes} {files} -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), "50 5 2 291 1048576\n");
    }
    let map = std::fs::read_to_string(folder.path("map")).unwrap();
    let file = std::fs::read(folder.path("a")).unwrap();
    let address = object::File::parse(file.as_slice()).unwrap().symbol_by_name("get").unwrap().address();
    let line = map.lines().find(|line| line.contains(" get ")).unwrap();
    assert!(line.starts_with(&format!("{address:#012x} ")) && line.ends_with("lib.o"), "{line}");
    assert!(map.lines().any(|line| line.contains(" main ") && line.ends_with("a.c")), "{map}");
    let error = folder.cc("%a.c %lib.o -Wl,--wrap=get -Wl,--defsym=alias=nothing -o %b").unwrap_err();
    assert!(error.message.contains("--defsym alias=nothing: the program has no symbol nothing"), "{error}");
    let error = folder.cc("%a.c -Wl,--version-script=missing -o %b").unwrap_err();
    assert!(error.message.contains("missing: No such file"), "{error}");
}

const ATOMICS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
typedef struct { long a, b, c; } large;
typedef struct { long a, b; } pair;
typedef struct { char a[3]; } odd;
static _Atomic large l;
static _Atomic pair p;
static _Atomic odd o;
static _Atomic __int128 i;
static unsigned __int128 j = 7;
enum { ROUNDS = 5000 };

static void *work(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        large l0 = l, l1;
        do {
            l1 = (large){ l0.a + 1, l0.b + 2, l0.c + 3 };
        } while (!atomic_compare_exchange_weak(&l, &l0, l1));
        pair p0 = p, p1;
        do {
            p1 = (pair){ p0.a + 1, p0.b - 1 };
        } while (!atomic_compare_exchange_strong(&p, &p0, p1));
        i += 3;
        i--;
        __atomic_fetch_xor(&j, (unsigned __int128)1 << 100, __ATOMIC_RELAXED);
        __atomic_fetch_or(&j, 8, __ATOMIC_RELEASE);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        pthread_create(&threads[t], 0, work, 0);
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], 0);
    /* Not by exchanges that compare: these compare the byte behind it, too, which is whatever it is. */
    for (int round = 0; round < 3 * ROUNDS; round++) {
        odd o0 = o;
        o0.a[2]++;
        o = o0;
    }
    large l2 = l;
    pair p2 = atomic_exchange(&p, (pair){ 1 });
    odd o2 = o;
    atomic_store(&i, i + 1);
    printf("%ld %ld %ld %ld %ld %d %ld %ld %d\n", l2.a, l2.b, l2.c, p2.a, p2.b, (unsigned char)o2.a[2], (long)i,
           (long)__atomic_load_n(&j, __ATOMIC_SEQ_CST), __atomic_load_n(&j, __ATOMIC_ACQUIRE) >> 100 == 0);
    return 0;
}
"#;

#[test]
fn atomic_operations_of_any_size_are_done_in_one_way_on_all_isas() {
    let folder = Folder::new();
    folder.write("a.c", ATOMICS);
    for level in ["-O0", "-O2"] {
        assert_eq!(folder.cc(&format!("-w {level} %a.c -o %a --emit-isa aarch64 %arm")).unwrap(), 0);
        assert_eq!(folder.run("a"), "15000 30000 45000 15000 -15000 152 30001 15 1\n");
        // `ldxp`, `stxp` and their like would not be kept out by the others' lock.
        let file = std::fs::read(folder.path("arm")).unwrap();
        let file = object::File::parse(file.as_slice()).unwrap();
        let text = file.section_by_name(".text").unwrap().data().unwrap();
        let words = text.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word));
        assert_eq!(words.filter(|word| word & 0xffa0_0000 == 0xc820_0000).count(), 0, "{level}");
    }
    folder.write("b.c", "__int128 x;\nint main(void) { return (int)__atomic_fetch_max(&x, 5, 5); }\n");
    let refused = folder.cc("-w %b.c -o %b");
    assert!(
        refused.is_err_and(|error| error.message.contains("atomic operation of 16 bytes")
            || error.message.contains("undefined symbol"))
    );
}

#[test]
fn files_for_cmake_and_meson_name_commands_that_are_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in ["motet.cmake", "motet.ini"] {
        let text = std::fs::read_to_string(folder.join("share").join(file)).unwrap();
        let named: Vec<&str> =
            text.split("/motet-").skip(1).map(|rest| rest.split(['"', '\'']).next().unwrap()).collect();
        assert!(named.len() >= 4, "{file}: {named:?}");
        for name in named.into_iter().filter(|name| !name.ends_with(".cmake")) {
            let command = std::fs::metadata(folder.join("bin").join(format!("motet-{name}"))).unwrap();
            assert_eq!(command.permissions().mode() & 0o111, 0o111, "{name}");
        }
    }
}

/// `docs/toolchain.md` says in a table what differs from clang.
#[test]
fn options_and_types_are_as_the_table_of_differences_says() {
    let document = include_str!("../../../../docs/toolchain.md");
    let (_, after) = document.split_once("## What differs from clang").unwrap();
    let rows =
        after.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
    let folder = Folder::new();
    folder.write(
        "a.c",
        "int add(int a, int b) { return a + b; }\nint main(int argc, char **argv) { return add(argc, -1); }\n",
    );
    let object = |options: &str| {
        assert_eq!(folder.cc(&format!("-O1 {options} -c %a.c -o %a.o")).unwrap(), 0, "{options}");
        std::fs::read(folder.path("a.o")).unwrap()
    };
    let (plain, mut checked) = (object("-O1"), 0);
    for row in rows {
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [what, here] = columns[..] else { panic!("{row}") };
        for what in what.split('`').skip(1).step_by(2) {
            checked += 1;
            if here.starts_with("refused: ") {
                let error = folder.cc(&format!("{what} %a.c -o %a")).unwrap_err();
                let option = what.trim_start_matches("-Wl,").split(' ').next().unwrap();
                assert!(error.message.starts_with("motet cc: ") && error.message.contains(option), "{what}: {error}");
                assert_eq!(error.exit_status(), 64, "{what}");
            } else if here.starts_with("without effect") {
                assert!(object(what) == plain, "{what} has an effect");
                assert_eq!(folder.cc(&format!("{what} %a.c -o %a")).unwrap(), 0, "{what}");
            } else if here.starts_with("for the primary ISA only") {
                let isas = |file: &[u8]| {
                    let file = object::File::parse(file).unwrap();
                    let section = |isa| file.section_by_name(isa).unwrap().data().unwrap().to_vec();
                    [".motet.aarch64", ".motet.riscv64"].map(section)
                };
                assert!(isas(&object(what)) == isas(&plain), "{what} is for others, too");
            } else {
                assert!(here.starts_with("true on all ISAs"), "{here}");
                let source = format!("#include <stddef.h>\n_Static_assert({what}, \"\");\n");
                folder.write("b.c", &source);
                assert_eq!(folder.cc("-c %b.c -o %b.o").unwrap(), 0, "{what}");
            }
        }
    }
    assert!(checked > 35, "{checked}");
}

//! `motet cc` on small programs: what it makes runs on this computer, and is the same for all ISAs.

use std::{
    ffi::OsString,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
    process::Command,
};

use motet_abi::fat::{Near, Signature};
use motet_layout::{Isa, IslandId};
use motet_toolchain::ErrorKind;
use object::{Object, ObjectSection, ObjectSymbol};

use crate::folder::{Folder, pins, toolchain_folder};

const ISAS: [&str; 3] = ["x86_64", "aarch64", "riscv64"];

const PROGRAM: &str = r#"
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

static __thread char name[40] = "none";
static const char *const words[] = { "one", "two", "three" };
static int compare(const void *a, const void *b) { return strcmp(*(const char **)a, *(const char **)b); }
static void *thread(void *number) { snprintf(name, sizeof name, "t%ld", (long)number); return strdup(name); }
static jmp_buf back;

int main(int argc, char **argv)
{
    const char *sorted[] = { words[2], words[0], words[1] };
    qsort(sorted, 3, sizeof *sorted, compare);
    printf("%s %s %s\n", sorted[0], sorted[1], sorted[2]);
    pthread_t started;
    void *result;
    pthread_create(&started, 0, thread, (void *)7);
    pthread_join(started, &result);
    printf("%s %s\n", (char *)result, name);
    int jumped = setjmp(back);
    if (!jumped)
        longjmp(back, 3);
    printf("%d %.6f %Lg %d\n", jumped, sin(argc), 0.5L, (char)-1 < 0);
    return 0;
}
"#;

#[test]
fn a_program_runs_unmodified_on_its_primary_isa() {
    let folder = Folder::new();
    folder.write("a.c", PROGRAM);
    assert_eq!(folder.cc("-O1 -Wall %a.c -o %a -lm -lpthread").unwrap(), 0);
    assert_eq!(folder.run("a"), "one three two\nt7 none\n3 0.841471 0.5 1\n");
}

#[test]
fn pipes_and_devices_are_written_through_and_stay() {
    let folder = Folder::new();
    folder.write("a.c", "int main(void) { return 0; }\n");
    for call in ["-c %a.c -o %pipe", "%a.c -o %pipe", "%a.c -o %a --emit-isa riscv64 %pipe"] {
        let pipe = folder.path("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        assert_eq!(folder.cc(call).unwrap(), 0, "{call}");
        assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo(), "{call}");
        assert!(reader.join().unwrap().starts_with(b"\x7fELF"), "{call}");
        std::fs::remove_file(&pipe).unwrap();
    }
    std::os::unix::fs::symlink("/dev/full", folder.path("full")).unwrap();
    for call in ["-c %a.c -o %full", "%a.c -o %full", "%a.c -o %a --emit-isa riscv64 %full"] {
        let error = folder.cc(call).unwrap_err();
        assert!(error.message.contains("/full: No space left"), "{call}: {error}");
        assert_eq!(error.exit_status(), 73);
        assert!(std::fs::symlink_metadata(folder.path("full")).unwrap().is_symlink(), "{call}");
    }
}

#[test]
fn headers_can_be_read_by_whoever_may_read_the_folder() {
    let folder = Folder::new();
    folder.write("a.c", "#include <motet.h>\nint main(void) { return 0; }\n");
    let include = toolchain_folder().join("include");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o666;
    assert_eq!(folder.cc("-c %a.c -o %a.o").unwrap(), 0);
    // As earlier versions have left it.
    std::fs::set_permissions(include.join("motet.h"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(folder.cc("-c %a.c -o %a.o").unwrap(), 0);
    for header in ["motet.h", "motet_dma.h", "hthread.h"] {
        assert_eq!(mode(&include.join(header)), mode(&include), "{header}");
    }
}

#[test]
fn floating_point_environments_and_stacks_of_signals_can_be_data() {
    let folder = Folder::new();
    let source = "#include <fenv.h>\n#include <signal.h>\n#include <stdio.h>\n#pragma STDC FENV_ACCESS ON\n\
        static struct { int mode; double sum; } table[] = {\n\
        { FE_TONEAREST }, { FE_DOWNWARD }, { FE_UPWARD }, { FE_TOWARDZERO } };\n\
        char stack[SIGSTKSZ];\nfenv_t saved;\nvolatile double one = 1, small = -0x1p-60;\n\
        int main(void) {\n    fegetenv(&saved);\n    for (int i = 0; i < 4; i++) {\n\
            if (fesetround(table[i].mode)) return 1;\n        table[i].sum = one + small;\n\
            if (fegetround() != table[i].mode || fetestexcept(FE_ALL_EXCEPT) != FE_INEXACT) return 2;\n\
            feraiseexcept(FE_INVALID | FE_OVERFLOW);\n        feclearexcept(FE_INEXACT | FE_OVERFLOW);\n\
            if (fetestexcept(FE_ALL_EXCEPT) != FE_INVALID) return 3;\n        fesetenv(&saved);\n    }\n\
            if (fetestexcept(FE_ALL_EXCEPT) || fegetround() != FE_TONEAREST || fesetround(1) == 0) return 4;\n\
            for (int i = 0; i < 4; i++) putchar(table[i].sum == 1 ? '1' : '<');\n    return 0;\n}\n";
    folder.write("a.c", source);
    assert_eq!(folder.cc("-O2 -frounding-math %a.c -o %a -lm").unwrap(), 0);
    assert_eq!(folder.run("a"), "1<1<");
}

#[test]
fn every_function_and_datum_has_one_address_and_data_is_the_same() {
    let folder = Folder::new();
    folder.write("a.c", PROGRAM);
    let single = ISAS.map(|isa| format!("--emit-isa {isa} %{isa}")).join(" ");
    assert_eq!(folder.cc(&format!("-O2 %a.c -o %a {single}")).unwrap(), 0);
    let files = ISAS.map(|isa| std::fs::read(folder.path(isa)).unwrap());
    let [first, others @ ..] = files.each_ref().map(|file| object::File::parse(file.as_slice()).unwrap());
    let mut compared = 0;
    for other in others {
        for symbol in first.symbols().filter(|symbol| symbol.is_global()) {
            if let Some(same) = other.symbol_by_name(symbol.name().unwrap()) {
                assert_eq!(symbol.address(), same.address(), "{:?}", symbol.name());
                compared += 1;
            }
        }
        for section in [".rodata", ".data"] {
            let data = |file: &object::File<'_>| file.section_by_name(section).unwrap().data().unwrap().to_vec();
            assert!(data(&first) == data(&other), "{section}");
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn objects_go_into_archives_made_by_ar() {
    let folder = Folder::new();
    folder.write("a.c", "int twice(int x) { return 2 * x; }");
    folder.write(
        "b.c",
        "#include <stdio.h>\nint twice(int);\nint main(void) { printf(\"%d\\n\", twice(21)); return 0; }",
    );
    assert_eq!(folder.cc("-c %a.c -o %a.o -MD -MF %a.d").unwrap(), 0);
    // The second is a thin one, which has the path only.
    for (archive, options) in [("liba.a", "rcs"), ("libthin.a", "rcsT")] {
        let ar = Command::new("ar").arg(options).arg(folder.path(archive)).arg(folder.path("a.o")).status();
        assert!(ar.unwrap().success());
    }
    for library in ["-la", "-lthin", "-Wl,--whole-archive -lthin -Wl,--no-whole-archive"] {
        assert_eq!(folder.cc(&format!("%b.c -L{} {library} -o %b", folder.whole().display())).unwrap(), 0);
        assert_eq!(folder.run("b"), "42\n");
    }
    assert!(std::fs::read_to_string(folder.path("a.d")).unwrap().contains("a.o:"));
}

#[test]
fn pinned_functions_have_pages_of_their_own() {
    let folder = Folder::new();
    let header = include_str!("../../../../user/include/motet.h");
    folder.write("motet.h", header);
    folder.write(
        "a.c",
        "#include \"motet.h\"\nMOTET_ON(\"riscv64\") int one(void) { return 1; }\nint two(void) { return 2; }\n\
         int main(void) { return one() + two() - 3; }",
    );
    folder.write("pins.toml", "[pins]\naarch64 = ['two']\n");
    assert_eq!(folder.cc("-O0 %a.c --pins %pins.toml -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    let file = std::fs::read(folder.path("a")).unwrap();
    let file = object::File::parse(file.as_slice()).unwrap();
    let page = |name| file.symbol_by_name(name).unwrap().address() / 4096;
    assert_ne!(page("one"), page("two"));
    assert_ne!(page("main"), page("one"));
    assert_ne!(page("main"), page("two"));
}

#[test]
fn pins_say_what_functions_take_and_give() {
    let folder = Folder::new();
    folder.write(
        "a.c",
        r#"
#include "motet.h"
typedef unsigned short id;
enum sign { MINUS = -1, PLUS = 1 };
struct pair { long x; int y; };
struct reals { double x[2]; };
MOTET_ON("riscv64") int narrow(char a, const id b, enum sign c, _Bool d, void *e) { return a + b + c + d + (e != 0); }
MOTET_ONLY("aarch64") float mixed(double a, long b, float c) { return a + b + c; }
MOTET_ON("aarch64") struct pair pair(struct pair p) { return p; }
MOTET_ON("aarch64") static struct reals reals(struct reals p, float c) { p.x[0] += c; return p; }
MOTET_ON("riscv64") void nothing() {}
MOTET_ON("riscv64") int (*callback(int (*f)(int)))(int) { return f; }
int later(unsigned char x, unsigned y) { return x + y; }
void bare(void);
__asm__(".section .text.bare,\"ax\",%progbits\n.global bare\n.type bare,%function\nbare: ret\n.size bare, . - bare\n.text\n");
int main(void) { bare(); reals((struct reals){{1, 2}}, 3); return later(0, 0); }
"#,
    );
    folder.write(
        "pins.toml",
        "[pins]
riscv64 = { functions = ['later'], strict = true }
aarch64 = ['bare']
",
    );
    for flags in ["-O0", "-O2", "-O2 -g", "-O1 -g0"] {
        assert_eq!(folder.cc(&format!("{flags} %a.c --pins %pins.toml -o %a")).unwrap(), 0);
        let file = std::fs::read(folder.path("a")).unwrap();
        let pins = pins(&file);
        let of = |name: &str| pins.iter().find(|(found, _)| found == name).unwrap().1;
        let signature = |words, floats, result| Signature { words, floats, result };
        assert_eq!(of("narrow").signature, signature(0x13652, 0, 6));
        assert_eq!(of("mixed").signature, signature(1, 0b1001, 0x200));
        assert_eq!(of("pair").signature, signature(0x11, 0, 0x11));
        assert_eq!(of("reals").signature, signature(0, 0b10_0101, 0x500));
        assert_eq!(of("nothing").signature, signature(0, 0, 0));
        assert_eq!(of("callback").signature, signature(1, 0, 1));
        assert_eq!(of("later").signature, signature(0x73, 0, 6));
        assert_eq!(of("bare").signature, Signature::UNKNOWN);
        let strict: Vec<&str> = pins.iter().filter(|(_, pin)| pin.strict).map(|(name, _)| name.as_str()).collect();
        assert_eq!(strict, ["mixed", "later"]);
        let file = object::File::parse(file.as_slice()).unwrap();
        assert_eq!(file.section_by_name(".debug_info").is_some(), flags.ends_with("-g"), "{flags}");
    }
}

#[test]
fn functions_that_calls_cannot_reach_from_other_isas_are_refused() {
    const PIN: &str = "MOTET_ON(\"riscv64\")";
    let cases = [
        ("PINNED int f(const char *s, ...) { return *s; }", "a variable number"),
        (
            "struct s { long a[3]; };\nPINNED long f(struct s s) { return s.a[1]; }",
            "argument 1 is a structure of 24 bytes",
        ),
        ("struct s { float a, b; };\nPINNED struct s f(struct s s) { return s; }", "a structure of several floats"),
        (
            "struct s { double a; long b; };\nPINNED long f(int i, struct s s) { return s.b + i; }",
            "argument 2 is a structure of",
        ),
        ("PINNED __int128 f(void) { return 1; }", "its result is __int128"),
        ("PINNED _Complex double f(void) { return 1; }", "its result is "),
        (
            "typedef int v __attribute__((vector_size(16)));\nPINNED int f(v x) { return x[0]; }",
            "argument 1 is a vector",
        ),
        (
            "struct s { long a, b; } __attribute__((aligned(16)));\nPINNED long f(struct s s) { return s.a; }",
            "more than 8 bytes",
        ),
        ("PINNED int f(x) float x; { return x; }", "no prototype"),
        ("PINNED int f(int n, va_list a) { return n + va_arg(a, int); }", "argument 2 is a va_list"),
        ("PINNED int f(va_list *a) { return va_arg(*a, int); }", "argument 1 is a va_list"),
    ];
    for (function, message) in cases {
        let folder = Folder::new();
        let source = format!(
            "#include <stdarg.h>\n#include \"motet.h\"\n{}\nint main(void) {{ return 0; }}\n",
            function.replace("PINNED", PIN)
        );
        folder.write("a.c", &source);
        let error = folder.cc("-w -std=c17 %a.c -o %a").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        for part in [message, "a.c:", ": f cannot be pinned"] {
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}

#[test]
fn programs_can_be_looked_into() {
    let folder = Folder::new();
    folder.write(
        "a.c",
        "#include \"motet.h\"\n#define HERE MOTET_ONLY(\"riscv64\")\nHERE int one(short x); HERE int one(short x)\n{\n\
         \x20   return x + 1;\n}\n\
         int main(void) { return one(1); }\n",
    );
    assert_eq!(folder.cc("-Werror -O1 -g %a.c -o %a").unwrap(), 0);
    let table = motet_toolchain::objdump(&folder.path("a")).unwrap();
    let row = table.lines().find(|line| line.ends_with("one (i16) -> (i32) only riscv64")).unwrap();
    let numbers: Vec<u64> = row.split_whitespace().skip(1).take(4).map(|word| word.parse().unwrap()).collect();
    let [size, code @ ..] = numbers.as_slice() else { panic!("{row}") };
    assert!(code.iter().max() == Some(size) && !code.contains(&0), "{row}");
    assert!(table.lines().any(|line| line.starts_with("x86_64") && line.ends_with("primary")), "{table}");

    let address = row.split_whitespace().next().unwrap().to_owned();
    let lines = motet_toolchain::addr2line(&folder.path("a"), &[address, "0x10".into()]).unwrap();
    assert_eq!(lines.matches("a.c:5").count(), 3, "{lines}");
    assert!(lines.contains(": one (i16) -> (i32) only riscv64, +0x0"), "{lines}");
    assert!(lines.contains("0x10: not in a function"), "{lines}");
    let own = std::env::current_exe().unwrap();
    assert_eq!(motet_toolchain::objdump(&own).unwrap_err().kind, ErrorKind::Data);
    let wrong = motet_toolchain::addr2line(&folder.path("a"), &["main".into()]).unwrap_err();
    assert_eq!(wrong.kind, ErrorKind::Usage);
}

#[test]
fn the_linker_takes_objects_and_options_of_linkers() {
    let folder = Folder::new();
    folder.write("a.c", "int two(void) { return 2; }\nint main(void) { return two() - 2; }\n");
    folder.write("pins.toml", "[pins]\nriscv64 = ['two']\n");
    assert_eq!(folder.cc("-O2 -c --pins %pins.toml %a.c -o %a.o").unwrap(), 0);
    let ld = |line: &str| {
        let words = line.split(' ').map(|word| match word.strip_prefix('%') {
            Some(name) => folder.path(name).into_os_string(),
            None => OsString::from(word),
        });
        motet_toolchain::ld(&toolchain_folder(), &words.collect::<Vec<_>>())
    };
    assert_eq!(ld("--gc-sections -z relro --pins %pins.toml %a.o -lm -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    assert_eq!(pins(&std::fs::read(folder.path("a")).unwrap())[0].0, "two");
    let error = ld("%a.c -o %a").unwrap_err();
    assert!(error.kind == ErrorKind::Usage && error.message.contains("is a source"), "{}", error.message);
    let error = ld("--odd %a.o -o %a").unwrap_err();
    assert!(error.message.starts_with("motet ld: --odd: "), "{}", error.message);
}

#[test]
fn functions_in_a_list_of_pins_are_not_inlined() {
    let folder = Folder::new();
    folder
        .write("a.c", "int two(int x) { return 2 * x; }\nint main(int argc, char **argv) { return two(argc) - 2; }\n");
    folder.write("pins.toml", "[pins]\nriscv64 = ['two']\n");
    let calls = |options: &str| {
        assert_eq!(folder.cc(&format!("-O2 -c {options} %a.c -o %a.o")).unwrap(), 0);
        let file = std::fs::read(folder.path("a.o")).unwrap();
        let file = object::File::parse(file.as_slice()).unwrap();
        let main = file.section_by_name(".text.main").unwrap();
        main.relocations().count()
    };
    assert_eq!(calls("-DNONE"), 0);
    assert_eq!(calls("--pins %pins.toml"), 1);
}

const HEAPS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "motet.h"

MOTET_DATA_ON("riscv64") static long placed[2000] = { 7 };
MOTET_DATA_ON("1") const char also[] = "constant";
MOTET_DATA_ON("riscv64") int zero;

enum { BLOCKS = 500 };
static unsigned char *blocks[2 * BLOCKS];
static size_t sizes[2 * BLOCKS];
static pthread_mutex_t locks[2 * BLOCKS];

static void *allocate(unsigned how, size_t size)
{
    if (how % 3 == 0)
        return motet_malloc_on(how % 8, size);
    return how % 3 == 1 ? malloc(size) : aligned_alloc(64, size);
}

static void *work(void *number)
{
    unsigned seed = (unsigned)(long)number * 7919 + 1, wrong = 0;
    for (int round = 0; round < 20000; round++) {
        seed = seed * 1664525 + 1013904223;
        int at = (seed >> 8) % (2 * BLOCKS);
        size_t size = 1 + (seed >> 16) % ((seed & 0x700) ? 600 : 200000);
        pthread_mutex_lock(&locks[at]);
        unsigned char **block = &blocks[at];
        if (*block) {
            wrong += (*block)[0] != (unsigned char)at || (*block)[sizes[at] - 1] != (unsigned char)at;
            if (seed & 1) {
                free(*block);
                *block = 0;
            } else {
                *block = realloc(*block, size);
            }
        } else {
            *block = allocate(seed >> 3, size);
        }
        if (*block) {
            (*block)[0] = (*block)[size - 1] = at;
            sizes[at] = size;
        }
        pthread_mutex_unlock(&locks[at]);
    }
    return (void *)(long)wrong;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 2 * BLOCKS; i++)
        pthread_mutex_init(&locks[i], 0);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    int failed = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(malloc(100) && motet_malloc_on(1, 100) && realloc(malloc(10), 100000) ? 0 : 1);
        int status;
        waitpid(child, &status, 0);
        failed += status != 0;
    }
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        failed += wrong != 0;
    }
    printf("%d %ld %s %d %d\n", failed, placed[0], also, zero, motet_malloc_on(8, 1) == 0);
    return 0;
}
"#;

#[test]
fn heaps_and_data_near_islands_are_ordinary_memory_on_linux() {
    let folder = Folder::new();
    folder.write("heaps.c", HEAPS);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../user/include");
    assert_eq!(folder.cc(&format!("-O2 -I{} %heaps.c -o %heaps", include.display())).unwrap(), 0);
    assert_eq!(folder.run("heaps"), "0 7 constant 0 1\n");
    let file = std::fs::read(folder.path("heaps")).unwrap();
    let file = object::read::elf::ElfFile64::<object::LittleEndian>::parse(file.as_slice()).unwrap();
    let near = file.elf_program_headers().iter().filter_map(|segment| {
        let is_load = segment.p_type.get(object::LittleEndian) == object::elf::PT_LOAD;
        let near = Near::of_flags(segment.p_flags.get(object::LittleEndian).0).unwrap();
        near.filter(|_| is_load).map(|near| (near, segment.p_vaddr.get(object::LittleEndian)))
    });
    let near: Vec<_> = near.collect();
    let [(Near::Isa(Isa::RiscV64), riscv), (Near::Island(IslandId(1)), one)] = near[..] else { panic!("{near:?}") };
    let address = |name: &str| file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address();
    assert_eq!((riscv % 4096, one % 4096, address("also")), (0, 0, one));
    assert!(address("placed") >= riscv && address("zero") >= riscv && address("zero") < one);
    assert!(address("blocks") > one + 4095, "what is not placed is in other pages");
}

#[test]
fn contradicting_pins_are_told_with_both_places() {
    let head = "#include <motet.h>\n";
    let folder = Folder::new();
    let refused = |arguments: &str, function: &str, first: &str, second: &str| {
        let error = folder.cc(&format!("-O1 {arguments} -o %program")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.starts_with(&format!("{function} is pinned to riscv64 at ")), "{}", error.message);
        for part in [format!("{first} and to aarch64 at "), format!("{second}; choose one")] {
            assert!(error.message.contains(&part), "{}", error.message);
        }
        assert!(!folder.path("program").exists());
    };
    // In one file; the compiler keeps the first.
    let both = "MOTET_ON(\"riscv64\") int f(int);\n\nMOTET_ONLY(\"aarch64\") int f(int x) { return x; }\n";
    let main = "int main(void) { return f(0); }\n";
    folder.write("one.c", &format!("{head}{both}{main}"));
    refused("%one.c", "f", "one.c:2", "one.c:4");
    // In two: where it is called, and where it is defined.
    folder.write("caller.c", &format!("{head}MOTET_ON(\"riscv64\") int f(int);\n{main}"));
    folder.write("callee.c", &format!("{head}MOTET_ON(\"aarch64\") int f(int x) {{ return x; }}\n"));
    refused("%caller.c %callee.c", "f", "caller.c:2", "callee.c:2");
    assert_eq!(folder.cc("-O1 -c %caller.c -o %caller.o").unwrap(), 0);
    assert_eq!(folder.cc("-O1 -c %callee.c -o %callee.o").unwrap(), 0);
    refused("%caller.o %callee.o", "f", "caller.c:2", "callee.c:2");
    // The same one again and again is fine, and so are functions of one name in several files.
    folder.write(
        "again.c",
        &format!(
            "{head}MOTET_ON(\"riscv64\") int f(int x) {{ return x; }}\n{}",
            "\
        MOTET_ON(\"riscv64\") static int own(void) { return 0; } int (*volatile keep)(void) = own;\n"
        ),
    );
    folder.write(
        "static.c",
        &format!(
            "{head}{}",
            "MOTET_ON(\"aarch64\") static int own(void) { return 0; }\n\
        int (*volatile kept)(void) = own;\n"
        ),
    );
    assert_eq!(folder.cc("-O1 %caller.c %again.c %static.c -o %program").unwrap(), 0);
}

#[test]
fn wrong_programs_are_refused_with_the_reason() {
    let cases = [
        ("int f(void); int main(void) { return f(); }", "undefined symbol: f"),
        (
            "#ifdef __riscv\nint x = 1;\n#else\nint x = 2;\n#endif\nint main(void) { return x; }",
            "x differs between x86_64 and riscv64: at byte 0",
        ),
        (
            "__asm__(\".text\\nfirst: ret\\nsecond: ret\\n.section .init_array,\\\"aw\\\"\\n.quad second\"); int main(void) { return 0; }",
            ".init_array differs between x86_64 and aarch64",
        ),
        (
            "__attribute__((section(\".text.motet.on.sparc.1\"))) int main(void) { return 0; }",
            "MOTET_ON(\"sparc\"): no such instruction set; there are: x86_64, aarch64, riscv64",
        ),
        (
            "__attribute__((used, section(\".data.motet.on.8.1\"))) int x = 1; int main(void) { return x; }",
            "MOTET_DATA_ON(\"8\"): neither an instruction set (x86_64, aarch64, riscv64) nor an island (0 to 7)",
        ),
        (
            "#include <motet.h>\nMOTET_ON(\"riscv64\") int x = 1; int main(void) { return x; }",
            "x is a variable: MOTET_ON",
        ),
        (
            "#include <motet.h>\nMOTET_DATA_ON(\"riscv64\") int f(int x) { return x; }\n\
             int (*volatile p)(int) = f; int main(void) { return p(1); }",
            "f is a function: MOTET_DATA_ON is for variables",
        ),
        (
            "static void *chosen(void) { return 0; } int f(void) __attribute__((ifunc(\"chosen\")));\n\
             int main(void) { return f(); }",
            "f is an ifunc",
        ),
    ];
    for (source, message) in cases {
        let folder = Folder::new();
        folder.write("a.c", source);
        let error = folder.cc("-O1 %a.c -o %a").unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains(message), "{}", error.message);
        assert!(!folder.path("a").exists());
    }
}

#[test]
fn tables_of_labels_need_not_be_constants() {
    let folder = Folder::new();
    let source = "#include <motet.h>\n#include <stdio.h>\nMOTET_ON(\"riscv64\") int run(const char *at) {\n\
        static void *table[8] = { &&more, &&twice, [7] = &&end };\n    int sum = 1;\n    goto *table[*at++ - '0'];\n\
        more: sum++; goto *table[*at++ - '0'];\n    twice: sum *= 2; goto *table[*at++ - '0'];\n    end: return sum;\n}\n\
        int main(void) { printf(\"%d\", run(\"0110017\")); }\n";
    folder.write("a.c", source);
    for level in ["-O0", "-O2"] {
        assert_eq!(folder.cc(&format!("{level} %a.c -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), "20");
    }
}

/// x86-64 keeps the address of a function that the others inline, and each has one that the others' source is without; a variable with a
/// function's address may be missing, too.
#[test]
fn functions_whose_address_only_some_isas_keep_can_be_linked() {
    let folder = Folder::new();
    folder.write(
        "a.c",
        r#"
#include <stdio.h>
#if defined __x86_64__
#define OWN own_sse
#elif defined __aarch64__
#define OWN own_neon
#else
#define OWN own_plain
#endif
static int OWN(int x) { return 2 * x; }
static __attribute__((cold)) int thrice(int x) { return 3 * x; }
static __attribute__((noinline)) int call(int (*f)(int), int x) { return f(x) + 1; }
int seen(int x);
#ifndef __riscv
int only_some(int x) { return x + 5; }
__attribute__((weak)) int weak_some(int x) { return x; }
#endif
int main(int argc, char **argv)
{
    int result = call(OWN, argc);
#ifdef __x86_64__
    int (*volatile kept)(int) = thrice;
    result += kept(argc);
#else
    result += thrice(argc);
#endif
    printf("%d\n", result + seen(argc));
    return 0;
}
"#,
    );
    folder.write(
        "b.c",
        r#"
#ifndef __riscv
int only_some(int x), weak_some(int x);
static int (*volatile some)(int) = 0;
int seen(int x) { some = weak_some; int y = some(x); some = only_some; return some(y); }
#else
static int (*volatile some)(int) = 0;
int seen(int x) { some = 0; return x + 5; }
#endif
"#,
    );
    for level in ["-O0", "-O2", "-O3"] {
        assert_eq!(folder.cc(&format!("{level} -Wall %a.c %b.c -o %a")).unwrap(), 0, "{level}");
        assert_eq!(folder.run("a"), "12\n", "{level}");
        // An object file says so, too, and a source that is read but once.
        assert_eq!(folder.cc(&format!("{level} -c %a.c -o %a.o")).unwrap(), 0);
        assert_eq!(folder.cc("%a.o %b.c -o %a").unwrap(), 0, "{level}");
    }
}

#[test]
fn a_weak_function_serves_where_there_is_no_strong_one() {
    let folder = Folder::new();
    folder.write("a.c", "#ifdef __x86_64__\nint f(void) { return 1; }\n#endif\n");
    folder.write("b.c", "__attribute__((weak)) int f(void) { return 2; }\nint g(void) { return f(); }\n");
    folder.write("c.c", "int f(void), g(void);\nint main(void) { return 10 * f() + g(); }\n");
    for order in ["%a.c %b.c %c.c", "%b.c %a.c %c.c"] {
        assert_eq!(folder.cc(&format!("{order} -o %a --emit-isa riscv64 %r")).unwrap(), 0, "{order}");
        let status = Command::new(folder.path("a")).status().unwrap();
        assert_eq!(status.code(), Some(11), "{order}");
    }
    // Nobody may keep its address, which would be another on each.
    folder.write("d.c", "int f(void);\nint (*volatile kept)(void);\nint main(void) { kept = f; return kept(); }\n");
    let error = folder.cc("%a.c %b.c %d.c -o %a").unwrap_err();
    assert!(error.message.contains("keeps the address of f"), "{error}");
}

#[test]
fn pinned_functions_are_not_copied_for_a_caller() {
    let folder = Folder::new();
    let source = "#include <motet.h>\n#include <stdio.h>\nMOTET_ON(\"riscv64\") int call(int (*f)(void)) { return f(); }\n\
        static int one(void) { puts(\"one\"); return 1; }\nstatic int two(void) { puts(\"two\"); return 2; }\n\
        int main(int count, char **words) { return count > 1 ? call(one) : count > 2 ? call(two) : call(0 * count + two) - 2; }\n";
    folder.write("a.c", source);
    for level in ["-O1", "-O2", "-O3"] {
        assert_eq!(folder.cc(&format!("{level} %a.c -o %a")).unwrap(), 0);
        assert_eq!(folder.run("a"), "two\n");
    }
}

#[test]
fn dependency_files_and_characters_are_as_other_compilers_make_them() {
    let folder = Folder::new();
    folder.write("a.c", "int main(void) { return (char)-1 < 0; }\n");
    folder.write("b.c", "int unused;\n");
    assert_eq!(folder.cc("-MMD -funsigned-char -gz -gsplit-dwarf %a.c -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    let dependencies = std::fs::read_to_string(folder.path("a.d")).unwrap();
    assert!(dependencies.contains("a: ") && dependencies.contains("a.c"), "{dependencies}");
    assert_eq!(folder.cc("-MD %a.c %b.c -o %two").unwrap(), 0);
    assert!(folder.path("two-a.d").exists() && folder.path("two-b.d").exists());
}

#[test]
fn an_object_file_can_have_more_sections_than_its_header_can_count() {
    let folder = Folder::new();
    let source = "__asm__(\".macro more\\n.section .data.x\\\\@,\\\"aw\\\"\\n.byte 1\\n.endm\\n.rept 66000\\nmore\\n.endr\\n.text\");\n\
        int value = 7;\nint main(void) { return value - 7; }\n";
    folder.write("a.c", source);
    assert_eq!(folder.cc("-c %a.c -o %a.o").unwrap(), 0);
    assert_eq!(folder.cc("%a.o -o %a").unwrap(), 0);
    folder.run("a");
}

#[test]
fn what_the_compiler_refuses_gives_its_exit_status() {
    let folder = Folder::new();
    folder.write("a.c", "int main(void) { return undeclared; }");
    assert_eq!(folder.cc("-c %a.c -o %a.o").unwrap(), 1);
    assert!(!folder.path("a.o").exists());
}

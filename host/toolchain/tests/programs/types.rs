//! Types that an architecture's macros make different.

use crate::folder::Folder;

const LIMB: &str = "#if defined(__x86_64__) || defined(__aarch64__)\ntypedef unsigned long limb;\n#else\ntypedef unsigned int limb;\n#endif\n";

#[test]
fn types_that_differ_are_refused_where_pinned_functions_reach_them() {
    let folder = Folder::new();
    folder.write("limb.h", LIMB);
    for (source, messages) in [
        // Behind pointers, in a header; as an argument and as a result.
        (
            "#include \"limb.h\"\nstruct mpi { int s; limb *p; };\nPIN long low(struct mpi *m) { return m->p[1]; }\nint main(void) { return low(0); }\n",
            &[
                "low, which is pinned to riscv64, reaches a type that differs (argument 1: struct mpi, p: limb)",
                "limb.h:2) is an unsigned integer of 8 bytes on x86_64 and aarch64, and an unsigned integer of 4 bytes on riscv64 (",
                "by `#if defined(__x86_64__) || defined(__aarch64__)` (",
            ][..],
        ),
        (
            "#include \"limb.h\"\nPIN limb low(void) { return 1; }\nint main(void) { return low(); }\n",
            &["reaches a type that differs (its result: limb)"],
        ),
        // The function itself.
        (
            "#ifdef __riscv\n#define LIMB int\n#else\n#define LIMB long\n#endif\nPIN int low(LIMB x) { return x; }\nint main(void) { return low(1); }\n",
            &[
                "function low (",
                "has argument 1: a signed integer of 8 bytes on x86_64 and aarch64, and argument 1: a signed integer of 4 bytes on riscv64",
            ],
        ),
        // Members, values, lengths.
        (
            "struct s { int a;\n#ifdef __aarch64__\n char extra[8];\n#endif\n int b; };\nPIN int low(struct s **s) { return s[0]->b; }\nint main(void) { return low(0); }\n",
            &[
                "struct s (",
                "has b at 4: a signed integer of 4 bytes on x86_64 and riscv64, and extra at 4: a signed integer of 1 bytes[8] on aarch64",
                "by `#ifdef __aarch64__` (",
            ],
        ),
        (
            "enum e { A,\n#ifdef __riscv\n B,\n#endif\n C };\nPIN int low(enum e e) { return e; }\nint main(void) { return low(C); }\n",
            &["enum e (", "has C = 1 on x86_64 and aarch64, and B = 1 on riscv64"],
        ),
        // What all share.
        (
            "#include \"limb.h\"\nlimb *table;\nPIN int low(int x) { return x + (table != 0); }\nint main(void) { return low(0); }\n",
            &["the variable table, which all instruction sets share, reaches a type that differs (limb)"],
        ),
        (
            "#include \"limb.h\"\nstatic limb *table;\nPIN int low(int x) { return x + (table++ != 0); }\nint main(void) { return low(0); }\n",
            &["the variable table, which all instruction sets share"],
        ),
    ] {
        folder.write("a.c", &format!("#include <motet.h>\n#define PIN MOTET_ON(\"riscv64\")\n{source}"));
        let error = folder.cc("-O2 %a.c -o %a").unwrap_err();
        for message in messages {
            assert!(error.message.contains(message), "{message}: {error}");
        }
        assert!(error.message.contains("make a type the same for all instruction sets"), "{error}");
        assert!(!folder.path("a").exists());
        // Without pins, all of the program runs on one instruction set.
        folder.write("a.c", &format!("#define PIN\n{source}"));
        assert_eq!(folder.cc("-O2 %a.c -o %a").unwrap(), 0, "{source}");
        std::fs::remove_file(folder.path("a")).unwrap();
    }
}

#[test]
fn types_that_are_the_same_or_that_nobody_reaches_are_no_matter() {
    let folder = Folder::new();
    folder.write("limb.h", LIMB);
    for source in [
        // A type that differs, used by functions that stay where they are.
        "static limb twice(limb x) { return 2 * x; }\nPIN int low(int x) { return x; }\nint main(void) { return low(twice(0)); }\n",
        // Names that differ, of the same memory; code that differs.
        "#ifdef __riscv\ntypedef long word;\n#else\ntypedef long long word;\n#endif\nstruct list { struct list *next; word value; int (*by)(struct list *); };\n\
         PIN long low(struct list *x) {\n#ifdef __riscv\n return 0;\n#else\n return 1;\n#endif\n}\nint main(void) { struct list x = {0}; (void)low(&x); return 0; }\n",
        // A constant of which each has its own, as zlib's tables for sums.
        "#ifdef __riscv\n#define WAYS 1\n#else\n#define WAYS 2\n#endif\nstatic const int table[WAYS][2] = { { 1, 2 } };\n\
         PIN int low(int x) { return table[0][x & 1]; }\nint main(int count, char **words) { (void)words; return low(count) != 2; }\n",
        // Only declared on this side.
        "struct hidden;\nPIN int low(struct hidden *x) { return x != 0; }\nint main(void) { return low(0); }\n",
    ] {
        folder.write(
            "a.c",
            &format!("#include <motet.h>\n#include \"limb.h\"\n#define PIN MOTET_ON(\"riscv64\")\n{source}"),
        );
        assert_eq!(folder.cc("-O2 %a.c -o %a").unwrap(), 0, "{source}");
        assert_eq!(folder.run("a"), "");
    }
}

#[test]
fn types_that_differ_are_refused_where_functions_called_on_an_island_reach_them() {
    let folder = Folder::new();
    folder.write("limb.h", LIMB);
    let job = "struct job { int length; limb *limbs; };\n";
    let main = "int main(void) { struct job j = {0}; motet_call_on(2, sum, &j); return 0; }\n";
    for (source, message) in [
        // The function gets an address of nothing, and takes it for one of a structure.
        (
            format!(
                "{job}static void *sum(void *of) {{ struct job *job = of; job->length++; return job->limbs; }}\n{main}"
            ),
            "sum, which motet_call_on may call, reaches a type that differs (its variable job: struct job, limbs: limb)",
        ),
        (
            format!(
                "{job}static void *sum(void *of) {{ if (of) {{ const limb *const at = of; return (void *)(long)*at; }} return 0; }}\n{main}"
            ),
            "sum, which motet_call_on may call, reaches a type that differs (its variable at: limb)",
        ),
        (
            format!("{job}static void *sum(void *of) {{ struct job *restrict job = of; return job->limbs; }}\n{main}"),
            "sum, which motet_call_on may call, reaches a type that differs (its variable job: struct job, limbs: limb)",
        ),
        (
            format!("{job}static void *sum(void *of) {{ struct job *_Atomic job = of; return job->limbs; }}\n{main}"),
            "sum, which motet_call_on may call, reaches a type that differs (its variable job: struct job, limbs: limb)",
        ),
        // It says what it takes.
        (
            format!(
                "{job}static void *add(struct job *j) {{ return j->limbs; }}\n#define sum ((void *(*)(void *))add)\n{main}"
            ),
            "add, which motet_call_on may call, reaches a type that differs (argument 1: struct job, limbs: limb)",
        ),
        // What all share.
        (
            format!("limb *table;\n{job}static void *sum(void *of) {{ return table++ ? of : 0; }}\n{main}"),
            "the variable table, which all instruction sets share, reaches a type that differs (limb)",
        ),
    ] {
        for level in ["-O0", "-O2"] {
            folder.write("a.c", &format!("#include <motet.h>\n#include \"limb.h\"\n{source}"));
            let error = folder.cc(&format!("{level} %a.c -o %a")).unwrap_err();
            assert!(error.message.contains(message), "{level}: {message}: {error}");
            assert!(error.message.contains("make a type the same for all instruction sets"), "{error}");
            // Called here, it is on one instruction set with all that it reaches.
            folder
                .write("a.c", &format!("#include \"limb.h\"\n#define motet_call_on(island, by, of) by(of)\n{source}"));
            assert_eq!(folder.cc(&format!("{level} %a.c -o %a")).unwrap(), 0, "{source}");
            std::fs::remove_file(folder.path("a")).unwrap();
        }
    }
    // A function of the other kind, and numbers of the function's own.
    folder.write(
        "a.c",
        "#include <motet.h>\n#include <stdlib.h>\n#include \"limb.h\"\n\
         static int order(const void *a, const void *b) { const limb *x = a, *y = b; return *x < *y; }\n\
         static void *sum(void *of) { limb all = 0; for (int i = 0; i < 9; i++) all += i; return of ? (void *)(long)all : 0; }\n\
         static int length(limb *of) { return *of; }\n\
         static void *of_number(long n) { limb one = n, *at = &one; return (void *)(long)*at; }\n\
         void *volatile one = length, *volatile other = of_number;\n\
         int main(void) { limb words[] = {1, 2}; qsort(words, 2, sizeof *words, order); return !motet_call_on(2, sum, words) + ((int (*)(limb *))one)(words) - words[0]; }\n",
    );
    assert_eq!(folder.cc("-O1 %a.c -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    // A class's functions, which have no ordinary addresses.
    folder.write(
        "a.cc",
        "#include <motet.h>\n#include \"limb.h\"\nstruct list { limb last; virtual int size() { return last; } virtual void *get() { return &last; } };\n\
         static void *sum(void *of) { return of; }\n\
         int main() { list l; l.last = 0; list *volatile some = &l; return some->size() || !some->get() || !motet_call_on(2, sum, &l); }\n",
    );
    assert_eq!(folder.cxx("-O1 %a.cc -o %a").unwrap(), 0);
    assert_eq!(folder.run("a"), "");
    folder.write(
        "a.cc",
        "#include <motet.h>\n#include \"limb.h\"\nstruct list { limb last; };\n\
         static void *sum(void *of) { list &&some = static_cast<list &&>(*static_cast<list *>(of)); some.last++; return of; }\n\
         int main() { list l; return !motet_call_on(2, sum, &l); }\n",
    );
    let error = folder.cxx("-O1 %a.cc -o %a").unwrap_err();
    assert!(error.message.contains("reaches a type that differs (its variable some: struct list)"), "{error}");
}

#[test]
fn types_of_cpp_are_compared_too() {
    let folder = Folder::new();
    let class = "namespace n {\ntemplate <class T> struct box { T *one; };\nclass A { public: virtual ~A() {} box<limb> all; static int count; };\n}\n";
    folder.write("a.cc", &format!("#include <motet.h>\n{LIMB}{class}MOTET_ON(\"riscv64\") int low(n::A &a) {{ return *a.all.one; }}\nint main() {{ n::A a; return low(a); }}\n"));
    let error = folder.cxx("-O2 %a.cc -o %a").unwrap_err();
    assert!(
        error.message.contains("_Z3lowRN1n1AE, which is pinned to riscv64, reaches a type that differs ("),
        "{error}"
    );
    assert!(
        error.message.contains("class n::A (") && error.message.contains("struct n::box<unsigned int> on riscv64"),
        "{error}"
    );
    assert!(error.message.contains("perhaps by `#if defined(__x86_64__) || defined(__aarch64__)` ("), "{error}");
}

#[test]
fn a_type_of_a_function_may_lead_to_itself_in_many_ways() {
    let folder = Folder::new();
    folder.write(
        "a.cc",
        "#include <vector>\n#ifdef __x86_64__\nint here;\n#endif\n\
         int main() { struct Node { Node *up, *left, *right, *next; }; std::vector<Node> nodes; nodes.push_back({}); return nodes.size() - 1; }\n",
    );
    assert_eq!(folder.cxx("-O1 -c %a.cc -o %a.o").unwrap(), 0);
}

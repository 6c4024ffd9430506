//! Options of compilers and linkers that are not passed on as they are, or take an argument.

/// Options whose code calls a runtime library.
pub const NEED_RUNTIME: [&str; 8] = [
    "-fopenmp",
    "-pg",
    "--coverage",
    "-fprofile-arcs",
    "-ftest-coverage",
    "-fprofile-generate",
    "-fprofile-instr-generate",
    "-fsplit-stack",
];

/// Options of the compiler whose argument may follow as a word of its own.
pub const WITH_ARGUMENT: &[&str] = &[
    "-I",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-isysroot",
    "-Xpreprocessor",
    "-Xassembler",
    "-mllvm",
    "--param",
    "-ftemplate-depth",
    "-arch",
];

/// Options without effect on a static program that is linked here.
pub const IGNORED: &[&str] = &[
    "-static",
    "-fPIC",
    "-fpic",
    "-fPIE",
    "-fpie",
    "-fno-PIE",
    "-fno-pie",
    "-fno-PIC",
    "-fno-pic",
    "-pie",
    "-no-pie",
    "-rdynamic",
    "-m64",
    "-shared-libgcc",
    "-static-libgcc",
    "-femulated-tls",
    "-fno-emulated-tls",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-function-sections",
    "-fno-data-sections",
    "-fseparate-named-sections",
    "-fno-separate-named-sections",
    "-pipe",
];

/// The same, by their beginnings.
pub const IGNORED_PREFIXES: &[&str] = &[
    "-flto",
    "-fno-lto",
    "-ftls-model=",
    "-fuse-ld=",
    "-fplt",
    "-fno-plt",
    "-fno-semantic-interposition",
    // The linker reads the debugger's sections: they are whole, and in the object file.
    "-gz",
    "-gsplit-dwarf",
];

/// Options of linkers without effect here.
pub const LINKER_IGNORED: &[&str] = &[
    "--gc-sections",
    "--no-gc-sections",
    "--as-needed",
    "--no-as-needed",
    "--start-group",
    "--end-group",
    "-(",
    "-)",
    "-Bstatic",
    "-Bdynamic",
    "--no-undefined",
    "--no-undefined-version",
    "--export-dynamic",
    "-E",
    "--no-relax",
    "--relax",
    "--fatal-warnings",
    "--no-fatal-warnings",
    "--warn-common",
    "--no-allow-shlib-undefined",
    "--eh-frame-hdr",
    "--icf=none",
    "--discard-all",
    "-x",
    "--discard-locals",
    "-X",
    "-static",
    "-pie",
    "-no-pie",
    "--no-dynamic-linker",
    "--no-copy-dt-needed-entries",
    "--sort-common",
    "-S",
    "--strip-debug",
    "--allow-shlib-undefined",
    "-Bsymbolic",
    "-Bsymbolic-functions",
    "--enable-new-dtags",
    "--disable-new-dtags",
    "--icf=all",
    "--icf=safe",
    "--demangle",
    "--no-demangle",
    "--verbose",
    "-nostdlib",
    "--no-print-gc-sections",
    "--no-export-dynamic",
    "--no-keep-memory",
    "--no-eh-frame-hdr",
    "--no-ld-generated-unwind-info",
    "--stats",
    // As without it: what is not defined is refused.
    "--unresolved-symbols=report-all",
];

/// The same, by their beginnings.
pub const LINKER_IGNORED_PREFIXES: &[&str] = &[
    "-O",
    "--build-id",
    "--hash-style",
    "-rpath",
    "--rpath",
    "-soname",
    "--sort-section",
    "--dependency-file",
    "--color-diagnostics",
    "--compress-debug-sections",
    "--threads",
    // There are no symbols for other programs to have versions.
    "--dynamic-list",
    "--warn-",
    "--no-warn-",
    "--exclude-libs=",
    "--dynamic-linker=",
    "--error-limit",
    "-plugin-opt",
    "--plugin-opt",
];

/// Options of linkers that would change addresses.
pub const LINKER_WITH_ARGUMENT_IGNORED: &[&str] = &[
    "-m",
    "-rpath",
    "--rpath",
    "-rpath-link",
    "-soname",
    "-dynamic-linker",
    "--dynamic-linker",
    "--exclude-libs",
    "-plugin",
    "--plugin",
];

/// Options of linkers that have an effect, with an argument behind them or behind `=`.
pub const LINKER_WITH_ARGUMENT: &[&str] =
    &["--wrap", "--defsym", "-Map", "--Map", "--version-script", "-y", "--trace-symbol", "--require-defined"];

/// Options of linkers that cannot be had, and what to use instead.
pub const LINKER_REFUSED: &[(&[&str], &str)] = &[
    (
        &[
            "-T",
            "--script",
            "-dT",
            "--default-script",
            "-Ttext",
            "-Tdata",
            "-Tbss",
            "-Ttext-segment",
            "-Trodata-segment",
        ],
        LAYOUT,
    ),
    (&["--section-start", "--image-base", "--section-ordering-file", "--symbol-ordering-file"], LAYOUT),
    (&["--call-graph-ordering-file", "-N", "--omagic", "-n", "--nmagic", "--no-rosegment"], LAYOUT),
    (&["-R", "--just-symbols"], "--defsym=NAME=ADDRESS gives a symbol its address"),
    (
        &["--oformat"],
        "a program is an ELF file; --emit-isa ISA FILE writes an ordinary one for an instruction set, which objcopy can convert",
    ),
    (&["-b", "--format"], "contents of other files come into an object by .incbin in assembly, or by #embed in C23"),
    (&["-q", "--emit-relocs"], "a program's addresses are final; its objects and archives have the relocations"),
    (
        &["--unresolved-symbols", "--noinhibit-exec"],
        "each symbol that is used must be defined; declare what may be missing with __attribute__((weak))",
    ),
    (
        &["-init", "-fini"],
        "functions with __attribute__((constructor)) run before main, those with (destructor) after it",
    ),
    (&["--start-lib", "--end-lib"], "make an archive (ar rcs) of these objects"),
    (&["--print-memory-usage"], "`motet objdump PROGRAM` shows what takes how much, -Map what lies where"),
    (&["--retain-symbols-file"], "-s leaves out all symbols"),
    (&["--why-live"], "--cref says who wants a symbol"),
    (
        &["-F", "--filter", "-f", "--auxiliary", "--audit", "-P", "--depaudit", "-Bgroup"],
        "it is for shared libraries, of which there are none; link archives",
    ),
];

/// Said of options that choose addresses.
pub const LAYOUT: &str = "the layout is the same for all instruction sets, so it cannot be chosen; -Map says what lies where, and \
    MOTET_DATA_ON (motet.h) places a variable near an island";

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
];

/// Options of linkers that would change addresses.
pub const LINKER_WITH_ARGUMENT_IGNORED: &[&str] = &["-m", "-rpath", "--rpath", "-rpath-link", "-soname"];

/// Options of linkers that have an effect, with an argument behind them or behind `=`.
pub const LINKER_WITH_ARGUMENT: &[&str] = &["--wrap", "--defsym", "-Map", "--Map", "--version-script"];

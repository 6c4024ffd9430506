//! The C++ library of every ISA: libc++, libc++abi and libunwind of the compiler's package.

use std::{
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    error::{Error, ErrorKind, Result, create_folder, write},
    isa::{ISAS, TARGETS},
    libc::{COMMON_FLAGS, Libc, TYPED},
    library::{Library, Sources},
    sequential::{FENCE, succeeds},
    tools::{Tools, lock},
};

/// Flags of every C++ compilation. AArch64's C++ ABI has pointers to members and guards of static variables of its own; with
/// `itanium` they are the same on all.
const FLAGS: &[&str] = &[
    "-fc++-abi=itanium",
    "-nostdinc++",
    "-D_LIBCPP_ABI_VERSION=1",
    "-D_LIBCPP_ABI_NAMESPACE=__1",
    "-D_LIBCPP_HAS_MUSL_LIBC",
    "-D_LIBCPP_DISABLE_VISIBILITY_ANNOTATIONS",
    "-D_LIBCXXABI_DISABLE_VISIBILITY_ANNOTATIONS",
    "-D_LIBCPP_HAS_NO_VENDOR_AVAILABILITY_ANNOTATIONS",
    "-D_LIBCPP_PSTL_BACKEND_SERIAL",
    "-D_LIBCPP_HARDENING_MODE=_LIBCPP_HARDENING_MODE_NONE",
    "-D_LIBCPP_HAS_NO_TIME_ZONE_DATABASE",
    // The same on all, so that what is aligned to them is, too.
    "-U__GCC_DESTRUCTIVE_SIZE",
    "-U__GCC_CONSTRUCTIVE_SIZE",
    "-D__GCC_DESTRUCTIVE_SIZE=64",
    "-D__GCC_CONSTRUCTIVE_SIZE=64",
];

/// Without `__ELF__`, the operators `new` and `delete` are not put into one section together.
const LIBRARY_FLAGS: &[&str] = &[
    "-U__ELF__",
    "-std=c++23",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    "-D_LIBCPP_ENABLE_CXX17_REMOVED_UNEXPECTED_FUNCTIONS",
    // The C library's runs them before those of static objects.
    "-DHAVE___CXA_THREAD_ATEXIT_IMPL",
    // Our own (`libcxx/raise.c`).
    "-D_Unwind_RaiseException=__motet_raise",
    "-D_Unwind_Resume_or_Rethrow=__motet_raise_again",
];

/// Files of `libcxxabi/src`.
const ABI_SOURCES: &[&str] = &[
    "abort_message.cpp",
    "cxa_aux_runtime.cpp",
    "cxa_default_handlers.cpp",
    "cxa_demangle.cpp",
    "cxa_exception.cpp",
    "cxa_exception_storage.cpp",
    "cxa_guard.cpp",
    "cxa_handlers.cpp",
    "cxa_personality.cpp",
    "cxa_thread_atexit.cpp",
    "cxa_vector.cpp",
    "cxa_virtual.cpp",
    "fallback_malloc.cpp",
    "private_typeinfo.cpp",
    "stdlib_exception.cpp",
    "stdlib_new_delete.cpp",
    "stdlib_stdexcept.cpp",
    "stdlib_typeinfo.cpp",
];

/// Files of `libcxx/src`.
const SOURCES: &[&str] = &[
    "algorithm.cpp",
    "any.cpp",
    "atomic.cpp",
    "barrier.cpp",
    "bind.cpp",
    "call_once.cpp",
    "charconv.cpp",
    "chrono.cpp",
    "condition_variable.cpp",
    "condition_variable_destructor.cpp",
    "error_category.cpp",
    "exception.cpp",
    "expected.cpp",
    "filesystem/directory_entry.cpp",
    "filesystem/directory_iterator.cpp",
    "filesystem/filesystem_clock.cpp",
    "filesystem/filesystem_error.cpp",
    "filesystem/int128_builtins.cpp",
    "filesystem/operations.cpp",
    "filesystem/path.cpp",
    "fstream.cpp",
    "functional.cpp",
    "future.cpp",
    "hash.cpp",
    "ios.cpp",
    "ios.instantiations.cpp",
    "iostream.cpp",
    "locale.cpp",
    "memory.cpp",
    "memory_resource.cpp",
    "mutex.cpp",
    "mutex_destructor.cpp",
    "new.cpp",
    "new_handler.cpp",
    "new_helpers.cpp",
    "optional.cpp",
    "ostream.cpp",
    "print.cpp",
    "random.cpp",
    "random_shuffle.cpp",
    "regex.cpp",
    "ryu/d2fixed.cpp",
    "ryu/d2s.cpp",
    "ryu/f2s.cpp",
    "shared_mutex.cpp",
    "stdexcept.cpp",
    "string.cpp",
    "strstream.cpp",
    "system_error.cpp",
    "thread.cpp",
    "typeinfo.cpp",
    "valarray.cpp",
    "variant.cpp",
    "vector.cpp",
    "verbose_abort.cpp",
];

/// Headers that are read, and whose templates are instantiated, once for all sources of libc++ and libc++abi. For each source anew, that takes 50 of 86 s
/// of processor time for an ISA. Not `iostream`: its objects are defined with other types.
const PRECOMPILED: &[&str] = &[
    "algorithm",
    "atomic",
    "bit",
    "charconv",
    "chrono",
    "cerrno",
    "climits",
    "clocale",
    "cmath",
    "condition_variable",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "ctime",
    "cwchar",
    "cwctype",
    "exception",
    "filesystem",
    "format",
    "fstream",
    "functional",
    "future",
    "ios",
    "istream",
    "iterator",
    "limits",
    "list",
    "locale",
    "map",
    "memory",
    "memory_resource",
    "mutex",
    "new",
    "numeric",
    "optional",
    "ostream",
    "print",
    "random",
    "ranges",
    "regex",
    "set",
    "shared_mutex",
    "span",
    "sstream",
    "stack",
    "stdexcept",
    "streambuf",
    "string",
    "string_view",
    "system_error",
    "thread",
    "tuple",
    "type_traits",
    "typeinfo",
    "unordered_map",
    "utility",
    "variant",
    "vector",
];
const PRECOMPILED_FLAGS: &[&str] = &["-fpch-instantiate-templates"];

/// Sources that define what these headers define, or must come before them.
const ALONE: &[&str] =
    &["condition_variable_destructor.cpp", "error_category.cpp", "memory.cpp", "mutex_destructor.cpp"];

/// Of libunwind. The tables of an ISA lie between symbols that Motet's linker defines. What is named after an ISA gets one
/// name on all, because its functions are in a table of virtual ones.
const UNWIND_FLAGS: &[&str] = &[
    "-D_LIBUNWIND_IS_BAREMETAL",
    "-D_LIBUNWIND_IS_NATIVE_ONLY",
    "-D_LIBUNWIND_USE_DLADDR=0",
    "-DRegisters_x86_64=Registers_own",
    "-DRegisters_arm64=Registers_own",
    "-DRegisters_riscv=Registers_own",
    "-D__libunwind_Registers_x86_64_jumpto=__libunwind_jumpto",
    "-D__libunwind_Registers_arm64_jumpto=__libunwind_jumpto",
    "-D_ZN9libunwind15Registers_riscv6jumptoEv=_ZN9libunwind13Registers_own6jumptoEv",
];

const UNWIND_CPP_FLAGS: &[&str] = &["-nostdinc++", "-fno-exceptions", "-fno-rtti", "-funwind-tables", "-std=c++17"];

/// Files of `libunwind/src`.
const UNWIND_SOURCES: &[&str] = &[
    "gcc_personality_v0.c",
    "libunwind.cpp",
    "UnwindLevel1-gcc-ext.c",
    "UnwindLevel1.c",
    "UnwindRegistersRestore.S",
    "UnwindRegistersSave.S",
];

/// Our own file.
const OWN: (&str, &str) = ("raise.c", include_str!("../libcxx/raise.c"));

/// A built C++ library.
pub struct Libcxx {
    folder: PathBuf,
    tools: Tools,
}

impl Libcxx {
    /// The library, built first if this has not been done yet.
    ///
    /// # Errors
    /// A source does not compile, or the folder cannot be written.
    pub fn find(tools: &Tools, libc: &Libc) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        (FLAGS, LIBRARY_FLAGS, ABI_SOURCES, SOURCES, libc.archive()).hash(&mut hasher);
        (PRECOMPILED, PRECOMPILED_FLAGS, ALONE).hash(&mut hasher);
        (UNWIND_FLAGS, UNWIND_CPP_FLAGS, UNWIND_SOURCES, OWN, FENCE).hash(&mut hasher);
        let folder = tools.folder.join(format!("libcxx-{:016x}", hasher.finish()));
        let libcxx = Self { folder, tools: tools.clone() };
        if !libcxx.is_built() {
            let _lock = lock(&tools.folder.join("lock"))?;
            if !libcxx.is_built() {
                libcxx.build(libc)?;
            }
        }
        Ok(libcxx)
    }

    fn is_built(&self) -> bool {
        self.archive().exists()
    }

    /// libc++, libc++abi and libunwind.
    pub fn archive(&self) -> PathBuf {
        self.folder.join("libc++.a")
    }

    /// Flags of C++ compilations, with the folders of headers, which come before the C library's.
    pub fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
        for folder in ["libcxx/include", "libcxxabi/include", "libunwind/include"] {
            flags.extend(["-isystem".into(), self.source(folder).into()]);
        }
        flags
    }

    fn source(&self, path: &str) -> PathBuf {
        self.tools.library.join(path)
    }

    fn build(&self, libc: &Libc) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        let objects = self.folder.join("objects");
        create_folder(&objects)?;
        let mut sources = Sources::new();
        for (part, names) in PARTS {
            for name in *names {
                let path = self.source(part.folder()).join(name);
                if !path.is_file() {
                    let message = format!("the compiler's package lacks {}", path.display());
                    return Err(Error::new(ErrorKind::NoInput, message));
                }
                sources.insert(format!("{}{}", part.prefix(), name.replace('/', "_")), ISAS.map(|_| path.clone()));
            }
        }
        let (name, contents) = OWN;
        let own = self.folder.join(name);
        write(&own, contents.as_bytes())?;
        sources.insert(format!("{}{name}", Part::Unwind.prefix()), ISAS.map(|_| own.clone()));
        let compiler =
            |name: &str, isa: usize, path: &Path| Ok((self.compiler(libc, name, isa, path), path.to_owned()));
        let name = "the C++ library";
        let first = |isa| self.precompile(libc, isa);
        let library = Library { tools: &self.tools, name, objects: &objects, compiler: &compiler, first: Some(&first) };
        library.compile(&sources)?;
        library.archive(&self.archive())?;
        let _ = fs::remove_dir_all(&objects);
        Ok(())
    }

    /// Compiles the headers that most sources read.
    fn precompile(&self, libc: &Libc, isa: usize) -> Result<()> {
        let header = self.folder.join("objects").join(format!("headers.{}.hpp", ISAS[isa].name()));
        let lines: String = PRECOMPILED.iter().map(|name| format!("#include <{name}>\n")).collect();
        write(&header, lines.as_bytes())?;
        let mut command = self.library_compiler(libc, isa);
        command.args(PRECOMPILED_FLAGS).args(["-x", "c++-header"]).arg(&header).arg("-o").arg(self.precompiled(isa));
        succeeds(&mut command, "building the C++ library's headers", isa)
    }

    fn precompiled(&self, isa: usize) -> PathBuf {
        self.folder.join("objects").join(format!("headers.{}.pch", ISAS[isa].name()))
    }

    /// For a source of an object.
    fn compiler(&self, libc: &Libc, object: &str, isa: usize, path: &Path) -> Command {
        if object.starts_with(Part::Unwind.prefix()) {
            let mut command = self.base_compiler(isa);
            command.args(UNWIND_FLAGS).arg("-I").arg(self.source("libunwind/include"));
            let is_cpp = path.extension().is_some_and(|extension| extension == "cpp");
            command.args(if is_cpp { UNWIND_CPP_FLAGS } else { &["-fexceptions"] });
            add_folders(&mut command, libc, isa);
            return command;
        }
        let mut command = self.library_compiler(libc, isa);
        if !path.file_name().is_some_and(|name| ALONE.iter().any(|alone| name == *alone)) {
            command.args(PRECOMPILED_FLAGS).arg("-include-pch").arg(self.precompiled(isa));
        }
        command
    }

    /// For libc++ and libc++abi.
    fn library_compiler(&self, libc: &Libc, isa: usize) -> Command {
        let mut command = self.base_compiler(isa);
        command.args(self.flags()).args(LIBRARY_FLAGS);
        for folder in ["libcxxabi/include", "libcxxabi/src", "libcxx/src"] {
            command.arg("-I").arg(self.source(folder));
        }
        add_folders(&mut command, libc, isa);
        command
    }

    fn base_compiler(&self, isa: usize) -> Command {
        let target = &TARGETS[isa];
        let mut command = self.tools.command("clang");
        command.arg(format!("--target={}", target.triple)).args(target.flags).args(COMMON_FLAGS);
        command.args((isa == TYPED).then_some("-g")).arg("-nostdinc").args(["-O2", "-DNDEBUG", "-w"]);
        command
    }
}

/// The C library's headers.
fn add_folders(command: &mut Command, libc: &Libc, isa: usize) {
    for folder in libc.include_folders(isa) {
        command.arg("-isystem").arg(folder);
    }
}

/// The libraries in the archive.
#[derive(Clone, Copy)]
enum Part {
    Abi,
    Library,
    Unwind,
}

impl Part {
    fn folder(self) -> &'static str {
        match self {
            Self::Abi => "libcxxabi/src",
            Self::Library => "libcxx/src",
            Self::Unwind => "libunwind/src",
        }
    }

    /// Of the objects' names.
    fn prefix(self) -> &'static str {
        match self {
            Self::Abi => "abi_",
            Self::Library => "cxx_",
            Self::Unwind => "unwind_",
        }
    }
}

const PARTS: &[(Part, &[&str])] = &[(Part::Abi, ABI_SOURCES), (Part::Library, SOURCES), (Part::Unwind, UNWIND_SOURCES)];

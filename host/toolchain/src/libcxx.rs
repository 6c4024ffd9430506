//! The C++ library of every ISA: libc++ and libc++abi of the compiler's package, without exceptions, streams and locales.

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
    tools::{Tools, lock},
};

/// Flags of every C++ compilation. Nothing can unwind a stack over several ISAs. AArch64's C++ ABI has pointers to members
/// and guards of static variables of its own; with `itanium` they are the same on all.
const FLAGS: &[&str] = &[
    "-fno-exceptions",
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
    "-D_LIBCPP_HAS_NO_LOCALIZATION",
    "-D_LIBCPP_HAS_NO_FILESYSTEM",
    "-D_LIBCPP_HAS_NO_TIME_ZONE_DATABASE",
];

/// Without `__ELF__`, the operators `new` and `delete` are not put into one section together.
const LIBRARY_FLAGS: &[&str] = &[
    "-U__ELF__",
    "-DNDEBUG",
    "-std=c++23",
    "-O2",
    "-w",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    "-D_LIBCPP_ENABLE_CXX17_REMOVED_UNEXPECTED_FUNCTIONS",
];

/// Files of `libcxxabi/src`.
const ABI_SOURCES: &[&str] = &[
    "abort_message",
    "cxa_aux_runtime",
    "cxa_default_handlers",
    "cxa_exception_storage",
    "cxa_guard",
    "cxa_handlers",
    "cxa_noexception",
    "cxa_thread_atexit",
    "cxa_vector",
    "cxa_virtual",
    "fallback_malloc",
    "private_typeinfo",
    "stdlib_exception",
    "stdlib_new_delete",
    "stdlib_stdexcept",
    "stdlib_typeinfo",
];

/// Files of `libcxx/src`.
const SOURCES: &[&str] = &[
    "algorithm",
    "any",
    "atomic",
    "barrier",
    "bind",
    "call_once",
    "charconv",
    "chrono",
    "condition_variable",
    "condition_variable_destructor",
    "error_category",
    "exception",
    "functional",
    "future",
    "hash",
    "memory",
    "memory_resource",
    "mutex",
    "mutex_destructor",
    "new",
    "new_handler",
    "new_helpers",
    "optional",
    "random",
    "random_shuffle",
    "ryu/d2fixed",
    "ryu/d2s",
    "ryu/f2s",
    "shared_mutex",
    "stdexcept",
    "string",
    "system_error",
    "thread",
    "typeinfo",
    "valarray",
    "variant",
    "vector",
    "verbose_abort",
];

/// Headers of what is missing.
const MISSING: &[&str] = &[
    "codecvt",
    "filesystem",
    "fstream",
    "iomanip",
    "ios",
    "iostream",
    "istream",
    "locale",
    "ostream",
    "regex",
    "sstream",
    "streambuf",
    "strstream",
    "syncstream",
];

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
        (FLAGS, LIBRARY_FLAGS, ABI_SOURCES, SOURCES, MISSING, libc.archive()).hash(&mut hasher);
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

    /// libc++ and libc++abi.
    pub fn archive(&self) -> PathBuf {
        self.folder.join("libc++.a")
    }

    /// Flags of C++ compilations, with the folders of headers, which come before the C library's.
    pub fn flags(&self) -> Vec<OsString> {
        let mut flags: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
        for folder in [self.folder.join("include"), self.source("libcxx/include"), self.source("libcxxabi/include")] {
            flags.extend(["-isystem".into(), folder.into()]);
        }
        flags
    }

    fn source(&self, path: &str) -> PathBuf {
        self.tools.library.join(path)
    }

    fn build(&self, libc: &Libc) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        let (objects, headers) = (self.folder.join("objects"), self.folder.join("include"));
        create_folder(&objects)?;
        create_folder(&headers)?;
        for name in MISSING {
            let text = format!(
                "#error \"motet c++ has no <{name}>: its library is without streams, locales, files and regular expressions; <cstdio> and <charconv> are there\"\n"
            );
            write(&headers.join(name), text.as_bytes())?;
        }
        let mut sources = Sources::new();
        for (folder, names) in [("libcxxabi/src", ABI_SOURCES), ("libcxx/src", SOURCES)] {
            for name in names {
                let path = self.source(folder).join(name).with_extension("cpp");
                if !path.is_file() {
                    return Err(Error::new(
                        ErrorKind::NoInput,
                        format!("the compiler's package lacks {}", path.display()),
                    ));
                }
                let object = format!("{}_{}", folder.replace('/', "_"), name.replace('/', "_"));
                sources.insert(object, ISAS.map(|_| path.clone()));
            }
        }
        let compiler = |_: &str, isa: usize, path: &Path| Ok(self.compiler(libc, isa, path));
        let library = Library { tools: &self.tools, name: "the C++ library", objects: &objects, compiler: &compiler };
        library.compile(&sources)?;
        library.archive(&self.archive())?;
        let _ = fs::remove_dir_all(&objects);
        Ok(())
    }

    fn compiler(&self, libc: &Libc, isa: usize, path: &Path) -> Command {
        let target = &TARGETS[isa];
        let mut command = self.tools.command("clang");
        command.arg(format!("--target={}", target.triple)).args(target.flags).args(COMMON_FLAGS);
        command.args((isa == TYPED).then_some("-g")).arg("-nostdinc").args(self.flags()).args(LIBRARY_FLAGS);
        for folder in ["libcxxabi/include", "libcxxabi/src", "libcxx/src"] {
            command.arg("-I").arg(self.source(folder));
        }
        for folder in libc.include_folders(isa) {
            command.arg("-isystem").arg(folder);
        }
        command.arg("-c").arg(path);
        command
    }
}

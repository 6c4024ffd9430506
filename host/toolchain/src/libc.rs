//! The C library of every ISA: musl, built from the sources in the compiler's package, with a few files of our own that
//! make what programs see the same on all ISAs (`host/toolchain/libc`).

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    builtins,
    error::{Error, Result, create_folder, read, write},
    isa::{ISAS, PerIsa, TARGETS},
    library::{Library, Sources},
    tools::{Tools, lock},
};

/// Flags of every compilation, of the library and of programs: what the ABIs leave to the compiler is the same for all.
pub const COMMON_FLAGS: &[&str] = &[
    "-ffunction-sections",
    "-fdata-sections",
    // Also where the compiler has a section's name, as for constructors of static objects.
    "-fseparate-named-sections",
    "-femulated-tls",
    "-fno-pic",
    "-fno-asynchronous-unwind-tables",
    "-fno-addrsig",
    // Results are the same on all, though only some can multiply and add in one step.
    "-ffp-contract=off",
    "-U__FP_FAST_FMA",
    "-U__FP_FAST_FMAF",
    // No variable is removed, split or made smaller on one ISA only.
    "-fkeep-persistent-storage-variables",
    // A copy of a function for some of its callers would run where they do.
    "-mllvm",
    "-funcspec-max-clones=0",
    "-fsigned-char",
    "-Xclang",
    "-fwchar-type=int",
    "-Xclang",
    "-mlong-double-64",
];

const LIBRARY_FLAGS: &[&str] = &[
    "-std=c99",
    "-nostdinc",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fexcess-precision=standard",
    "-frounding-math",
    "-fno-strict-aliasing",
    "-fomit-frame-pointer",
    "-O2",
    "-w",
    "-D_XOPEN_SOURCE=700",
];

/// Names that musl's allocator gets, so that it serves several heaps (`libc/src/heaps.c`).
const HEAP_FLAGS: &[&str] = &[
    "-D__malloc_context=(*__heap)",
    "-D__malloc_atfork=__heap_atfork",
    "-D__libc_malloc_impl=__heap_malloc",
    "-D__libc_free=__heap_free",
    "-D__libc_realloc=__heap_realloc",
    "-Daligned_alloc=__heap_aligned_alloc",
    "-D__lock=__heap_no_lock",
    "-D__unlock=__heap_no_lock",
    "-D__mmap=__heap_mmap",
];
/// Objects that they are for begin so.
const HEAP_OBJECTS: &str = "malloc_mallocng_";

/// Objects with functions that call the program's, whose exceptions pass through.
const EXCEPTION_OBJECTS: &[&str] = &["stdlib_bsearch", "stdlib_qsort", "stdlib_qsort_nr"];

/// The ISA whose code always comes with the debugger's sections: pinned functions' types are read there.
pub const TYPED: usize = 0;

/// Our own files: path below `libc`, contents.
const OWN_FILES: &[(&str, &str)] = &[
    ("arch/aarch64/kstat.h", include_str!("../libc/arch/generic/kstat.h")),
    ("arch/aarch64/pthread_arch.h", include_str!("../libc/arch/aarch64/pthread_arch.h")),
    ("arch/riscv64/kstat.h", include_str!("../libc/arch/generic/kstat.h")),
    ("arch/riscv64/pthread_arch.h", include_str!("../libc/arch/riscv64/pthread_arch.h")),
    ("include/bits/fenv.h", include_str!("../libc/include/bits/fenv.h")),
    ("include/bits/float.h", include_str!("../libc/include/bits/float.h")),
    ("include/bits/setjmp.h", include_str!("../libc/include/bits/setjmp.h")),
    ("include/bits/signal.h", include_str!("../libc/include/bits/signal.h")),
    ("include/bits/stat.h", include_str!("../libc/include/bits/stat.h")),
    ("internal/syscall_arch.h", include_str!("../libc/internal/syscall_arch.h")),
    ("src/aligned_alloc.c", include_str!("../libc/src/aligned_alloc.c")),
    ("src/atomic.c", include_str!("../libc/src/atomic.c")),
    ("src/exit.c", include_str!("../libc/src/exit.c")),
    ("src/emutls.c", include_str!("../libc/src/emutls.c")),
    ("src/fenv.c", include_str!("../libc/src/fenv.c")),
    ("src/heaps.c", include_str!("../libc/src/heaps.c")),
    ("src/longjmp.c", include_str!("../libc/src/longjmp.c")),
    ("src/memcpy.c", include_str!("../libc/src/memcpy.c")),
    ("src/memmove.c", include_str!("../libc/src/memmove.c")),
    ("src/setjmp.S", include_str!("../libc/src/setjmp.S")),
    ("src/thread_atexit.c", include_str!("../libc/src/thread_atexit.c")),
];

/// A built C library.
pub struct Libc {
    folder: PathBuf,
    tools: Tools,
}

impl Libc {
    /// The library, built first if this has not been done yet.
    ///
    /// # Errors
    /// A source does not compile, or the folder cannot be written.
    pub fn find(tools: &Tools) -> Result<Self> {
        let mut hasher = DefaultHasher::new();
        (
            OWN_FILES,
            COMMON_FLAGS,
            LIBRARY_FLAGS,
            HEAP_FLAGS,
            EXCEPTION_OBJECTS,
            TYPED,
            TARGETS.each_ref().map(|target| target.flags),
        )
            .hash(&mut hasher);
        (tools.library.file_name(), builtins::SOURCES, ISAS.map(|isa| isa as u32)).hash(&mut hasher);
        let folder = tools.folder.join(format!("libc-{:016x}", hasher.finish()));
        let libc = Self { folder, tools: tools.clone() };
        if !libc.is_built() {
            let _lock = lock(&tools.folder.join("lock"))?;
            if !libc.is_built() {
                libc.build()?;
            }
        }
        Ok(libc)
    }

    fn is_built(&self) -> bool {
        self.folder.join("complete").exists()
    }

    /// The start of programs.
    pub fn start_object(&self) -> PathBuf {
        self.folder.join("crt1.o")
    }

    /// The library, and what the compiler needs for arithmetic that an ISA lacks.
    pub fn archive(&self) -> PathBuf {
        self.folder.join("libc.a")
    }

    /// Folders of headers, in order.
    pub fn include_folders(&self, isa: usize) -> Vec<PathBuf> {
        let shared = self.tools.library.join("libc/include");
        vec![
            self.folder.join("include"),
            shared.join(TARGETS[isa].triple),
            shared.join("generic-musl"),
            shared.join(TARGETS[isa].kernel_headers),
            shared.join("any-linux-any"),
            self.tools.library.join("include"),
        ]
    }

    fn build(&self) -> Result<()> {
        let _ = fs::remove_dir_all(&self.folder);
        for (name, contents) in OWN_FILES {
            let path = self.folder.join(name);
            path.parent().map_or(Ok(()), create_folder)?;
            write(&path, contents.as_bytes())?;
        }
        // x86-64's basic types for all ISAs: the others differ in wchar_t, nlink_t and blksize_t.
        let types = self.tools.library.join("libc/include/x86_64-linux-musl/bits/alltypes.h");
        write(&self.folder.join("include/bits/alltypes.h"), &read(&types)?)?;
        let objects = self.folder.join("objects");
        create_folder(&objects)?;

        let sources = self.sources()?;
        let compiler = |name: &str, isa: usize, path: &Path| {
            let mut command = self.compiler(isa);
            command.args(if name.starts_with(HEAP_OBJECTS) { HEAP_FLAGS } else { &[] });
            command.args(EXCEPTION_OBJECTS.contains(&name).then_some("-fexceptions"));
            Ok((command, one_function_per_section(path, &objects, isa)?))
        };
        let library =
            Library { tools: &self.tools, name: "the C library", objects: &objects, compiler: &compiler, first: None };
        library.compile(&sources)?;
        fs::rename(objects.join("crt_crt1.o"), self.start_object()).map_err(|error| Error::write(&objects, error))?;
        builtins::build(&self.tools, &objects)?;
        library.archive(&self.archive())?;
        let _ = fs::remove_dir_all(&objects);
        write(&self.folder.join("complete"), b"")
    }

    /// The source of each object for each ISA. An ISA's own file stands for the general one of the same name.
    fn sources(&self) -> Result<Sources> {
        let musl = self.tools.library.join("libc/musl");
        let mut sources: BTreeMap<String, PerIsa<Option<PathBuf>>> = BTreeMap::new();
        let mut folders = subfolders(&musl.join("src"))?;
        folders.push(musl.join("src/malloc/mallocng"));
        folders.retain(|folder| !folder.ends_with("ldso") && !folder.ends_with("malloc/oldmalloc"));
        for folder in folders.iter().chain([&musl.join("src/ldso")]) {
            let name = folder.strip_prefix(musl.join("src")).unwrap_or(folder).to_string_lossy().replace('/', "_");
            for path in files(folder)? {
                let slot = sources.entry(format!("{name}_{}", stem(&path))).or_default();
                slot.fill(Some(path));
            }
            for (isa, own) in ISAS.iter().enumerate() {
                for path in files(&folder.join(own.name())).unwrap_or_default() {
                    let stem = stem(&path);
                    if !is_unwanted(folder, &stem) {
                        sources.entry(format!("{name}_{stem}")).or_default()[isa] = Some(path);
                    }
                }
            }
        }
        sources.insert("crt_crt1".into(), std::array::from_fn(|_| Some(musl.join("crt/crt1.c"))));
        // Our own stand for them.
        for name in ["exit_exit", "fenv_fenv", "setjmp_longjmp", "setjmp_setjmp"] {
            sources.remove(name);
        }
        for path in files(&self.folder.join("src"))? {
            sources.insert(format!("motet_{}", stem(&path)), std::array::from_fn(|_| Some(path.clone())));
        }
        let complete = |(name, paths): (String, PerIsa<Option<PathBuf>>)| {
            let [Some(one), Some(two), Some(three)] = paths else { return None };
            Some((name, [one, two, three]))
        };
        Ok(sources.into_iter().filter_map(complete).collect())
    }

    /// The compiler for files of the library.
    pub fn compiler(&self, isa: usize) -> Command {
        let target = &TARGETS[isa];
        let name = ISAS[isa].name();
        let musl = self.tools.library.join("libc/musl");
        let mut command = self.tools.command("clang");
        command.arg(format!("--target={}", target.triple)).args(target.flags).args(COMMON_FLAGS).args(LIBRARY_FLAGS);
        command.args((isa == TYPED).then_some("-g"));
        let mut folders =
            vec![self.folder.join("internal"), self.folder.join("arch").join(name), self.folder.join("include")];
        folders.extend(
            [
                format!("arch/{name}"),
                "arch/generic".into(),
                "src/include".into(),
                "src/internal".into(),
                "src/malloc/mallocng".into(),
                "include".into(),
            ]
            .map(|folder| musl.join(folder)),
        );
        folders
            .extend([target.triple, "generic-musl"].map(|folder| self.tools.library.join("libc/include").join(folder)));
        for folder in folders {
            command.arg("-I").arg(folder);
        }
        command
    }
}

/// Assembly with several functions in one section gets one for each: they begin at other offsets for each ISA.
fn one_function_per_section(path: &Path, objects: &Path, isa: usize) -> Result<PathBuf> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extension == "c" {
        return Ok(path.to_owned());
    }
    let mut split = String::new();
    // Several names before the first instruction are names of one function.
    let mut is_new = true;
    for line in String::from_utf8_lossy(&read(path)?).lines() {
        let text = line.trim();
        if let Some(name) = text.strip_prefix(".global ").filter(|name| is_new && !name.starts_with("__cp_")) {
            split.push_str(&format!(".section .text.{name},\"ax\",%progbits\n"));
            is_new = false;
        }
        is_new |= !text.is_empty()
            && !text.starts_with(['.', '/', '#', '*'])
            && !text.ends_with(':')
            && !text.starts_with("__cp_");
        split.push_str(line);
        split.push('\n');
    }
    let path = objects.join(format!("{}-{}.{extension}", stem(path), ISAS[isa].name()));
    write(&path, split.as_bytes())?;
    Ok(path)
}

/// Files of one ISA that would make it different: x87 arithmetic in long double, and what only dynamic programs need.
fn is_unwanted(folder: &Path, stem: &str) -> bool {
    let long_double = folder.ends_with("math") && (stem == "__invtrigl" || stem.ends_with('l') && stem != "ceil");
    long_double || folder.ends_with("ldso")
}

fn subfolders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Error::read(folder, error))?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    Ok(folders)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    files_with(folder, &["c", "s", "S"])
}

fn files_with(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| Error::read(folder, error))?;
    let fits = |path: &PathBuf| {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(fits).collect();
    files.sort_unstable();
    Ok(files)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

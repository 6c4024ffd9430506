//! Compiled programs, kept in `target/tests/programs`, as many tests want the same ones. A file there is named by the hash of all that it is
//! made from, so it is never out of date.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::process::{program, root, target};

/// What nobody has used for so long is removed.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Puts the program of a source and options to `output`: the one that is kept, or else what `compile` makes there.
///
/// # Errors
/// Those of `compile`; the program cannot be kept.
pub fn put(
    source: &Path,
    options: &[&str],
    output: &Path,
    compile: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    // Of several sources, with further results, or from a test's own folder: nobody else wants it.
    let names_files = |option: &&str| option.contains('/') && !option.starts_with("-I");
    if !source.starts_with(root()) || options.iter().any(names_files) {
        return compile();
    }
    let told = |error: io::Error| format!("{}: {error}", source.display());
    let folder = target().join("tests/programs");
    let kept = folder.join(hash(source, options).map_err(told)?);
    if take(&kept, output).is_ok() {
        return Ok(());
    }
    compile()?;
    keep(&folder, &kept, output).map_err(told)
}

/// A hash of the source, of all headers that it may include, of the options and of the compiler.
fn hash(source: &Path, options: &[&str]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    // `motet` contains the compiler's driver and the libraries. Reading all of it would take longer than many compilations.
    let compiler = fs::metadata(program())?;
    (compiler.len(), compiler.modified()?, source, fs::read(source)?, options).hash(&mut hasher);
    let included = options.iter().filter_map(|option| option.strip_prefix("-I")).map(PathBuf::from);
    let around = source.ancestors().skip(1).take(2).map(Path::to_owned);
    let usual = ["user/include", "user/hthreads"].map(|folder| root().join(folder));
    for folder in around.chain(usual).chain(included) {
        let files = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
        let mut headers = files.collect::<io::Result<Vec<PathBuf>>>()?;
        headers.retain(|path| path.extension().is_some_and(|extension| extension == "h"));
        headers.sort_unstable();
        for header in headers {
            (&header, fs::read(&header)?).hash(&mut hasher);
        }
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Copies a program that is kept, and notes that it is used.
fn take(kept: &Path, output: &Path) -> io::Result<()> {
    fs::File::open(kept)?.set_modified(SystemTime::now())?;
    fs::copy(kept, output).map(drop)
}

/// Keeps a program, and removes old ones. It appears as a whole, as tests run side by side.
fn keep(folder: &Path, kept: &Path, output: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let new = tempfile::NamedTempFile::new_in(folder)?;
    fs::copy(output, new.path())?;
    new.persist(kept)?;
    for entry in fs::read_dir(folder)?.flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT)) {
            // Somebody else may have removed it.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

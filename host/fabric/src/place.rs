//! Where Motet's own files lie: in the source tree with its folder of build results, or in an installation (docs/setup.md).
//!
//! An installation below a prefix, such as `/usr`, has what is built in `lib/motet`, under the names that it has in the folder of build results, and
//! in `share/motet` what programs read of the source tree, under its names there. So all paths below the two are the same in both.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use motet_error::{Error, ErrorKind, Result};

/// What is built, below an installation's prefix.
pub const LIBRARY: &str = "lib/motet";
/// What is read of the source tree, below it.
pub const SHARE: &str = "share/motet";
/// The file that makes a folder of what is built an installation's: a line for each fact, `KEY VALUE`.
pub const VERSIONS: &str = "versions";
/// Motet's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where the source is.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The folders of Motet's own files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What has `machines` and the rest of the source tree, or the part of it that is installed.
    pub root: PathBuf,
    /// What is built.
    pub built: PathBuf,
    /// Whether there is no source tree.
    pub is_installed: bool,
}

impl Place {
    /// The installation that this program is of; otherwise the source tree: `MOTET_ROOT`, or the nearest folder above the program or the current folder
    /// that is one.
    ///
    /// # Errors
    /// There is neither.
    pub fn find() -> Result<Self> {
        let program = std::env::current_exe().ok();
        if let Some(place) = program.as_deref().and_then(Self::installation_of) {
            return Ok(place);
        }
        if let Some(root) = std::env::var_os("MOTET_ROOT") {
            let root = PathBuf::from(root);
            return if is_source(&root) {
                Ok(Self::source(root))
            } else {
                Err(missing(&format!("MOTET_ROOT={}", root.display())))
            };
        }
        let folder = std::env::current_dir().ok();
        let found = program.iter().chain(&folder).flat_map(|start| start.ancestors()).find(|path| is_source(path));
        let found = found.ok_or_else(|| missing("neither the program nor the current folder is inside it"))?;
        Ok(Self::source(found.to_owned()))
    }

    fn source(root: PathBuf) -> Self {
        let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Self { root, built, is_installed: false }
    }

    /// The installation that has a program in `lib/motet/release`.
    fn installation_of(program: &Path) -> Option<Self> {
        let built = program.parent()?.parent()?;
        let prefix = built.ancestors().nth(LIBRARY.split('/').count())?;
        let is_one = built.ends_with(LIBRARY) && built.join(VERSIONS).is_file();
        is_one.then(|| Self { root: prefix.join(SHARE), built: built.to_owned(), is_installed: true })
    }

    /// Whether this program is of an installation.
    pub fn is_of_installation() -> bool {
        std::env::current_exe().is_ok_and(|program| Self::installation_of(&program).is_some())
    }

    /// A machine's description: a file as it is named, or else one that Motet comes with; without a name, the default one.
    pub fn machine(&self, named: Option<&Path>) -> PathBuf {
        let Some(named) = named else { return self.root.join("machines/default.toml") };
        let shipped = self.root.join(named);
        if !named.exists() && shipped.is_file() { shipped } else { named.to_owned() }
    }

    /// Where programs may put what they fetch or build for themselves: the folder of build results, or the user's cache.
    ///
    /// # Errors
    /// An installation's user has no home.
    pub fn cache(&self) -> Result<PathBuf> {
        if !self.is_installed {
            return Ok(self.built.clone());
        }
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        let cache = cache.ok_or_else(|| {
            let message = "there is no folder for what is fetched and built: set HOME or XDG_CACHE_HOME";
            Error::new(ErrorKind::Unavailable, message)
        })?;
        Ok(cache.join("motet").join(VERSION))
    }

    /// Refuses a command that works on the source tree where there is none.
    ///
    /// # Errors
    /// This is an installation.
    pub fn needs_source(&self, command: &str) -> Result<()> {
        if !self.is_installed {
            return Ok(());
        }
        let message = format!(
            "`motet {command}` works on Motet's source, which an installation has not got: get commit {} of {REPOSITORY} and run `./motet {command}` there",
            self.commit()
        );
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    /// The commit; `-changed` behind it if files differ from it; `unknown` outside a clone.
    pub fn commit(&self) -> String {
        let unknown = || "unknown".to_owned();
        if self.is_installed {
            let facts = std::fs::read_to_string(self.built.join(VERSIONS)).unwrap_or_default();
            return fact(&facts, "commit").map_or_else(unknown, str::to_owned);
        }
        let git = |arguments: &[&str]| {
            let output = Command::new("git").arg("-C").arg(&self.root).args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
        git(&["rev-parse", "HEAD"]).map_or_else(unknown, |commit| commit + if changed { "-changed" } else { "" })
    }
}

/// What a file of [`VERSIONS`] says of something.
pub fn fact<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
}

fn is_source(path: &Path) -> bool {
    path.join("machines/default.toml").is_file() && path.join("Cargo.toml").is_file()
}

fn missing(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("cannot find Motet's project folder: {why}; set MOTET_ROOT"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn installation() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let (library, machines) = (folder.path().join("usr/lib/motet"), folder.path().join("usr/share/motet/machines"));
        fs::create_dir_all(library.join("release")).unwrap();
        fs::create_dir_all(&machines).unwrap();
        fs::write(library.join(VERSIONS), "motet 0.1.0\ncommit abc\n").unwrap();
        fs::write(machines.join("quad.toml"), "").unwrap();
        let place = Place::installation_of(&library.join("release/motet")).unwrap();
        (folder, place)
    }

    #[test]
    fn an_installation_is_known_by_its_file_of_versions() {
        let (folder, place) = installation();
        assert_eq!(place.root, folder.path().join("usr/share/motet"));
        assert_eq!(place.built, folder.path().join("usr/lib/motet"));
        assert_eq!(place.commit(), "abc");
        assert_eq!(Place::installation_of(&folder.path().join("usr/lib/motet/motet")), None);
        fs::remove_file(place.built.join(VERSIONS)).unwrap();
        assert_eq!(Place::installation_of(&place.built.join("release/motet")), None);
    }

    #[test]
    fn machines_that_motet_comes_with_are_found_by_name() {
        let (_folder, place) = installation();
        assert_eq!(place.machine(None), place.root.join("machines/default.toml"));
        assert_eq!(place.machine(Some("machines/quad.toml".as_ref())), place.root.join("machines/quad.toml"));
        assert_eq!(place.machine(Some("mine.toml".as_ref())), Path::new("mine.toml"));
        assert_eq!(place.machine(Some("Cargo.toml".as_ref())), Path::new("Cargo.toml"));
    }

    #[test]
    fn what_works_on_the_source_is_refused_where_there_is_none() {
        let (folder, place) = installation();
        let said = place.needs_source("test").unwrap_err();
        assert!(said.message.contains("commit abc") && said.message.contains("`./motet test`"), "{said}");
        let source = Place { is_installed: false, built: folder.path().into(), ..place };
        assert!(source.needs_source("test").is_ok());
        assert_eq!(source.cache().unwrap(), folder.path());
    }
}

//! A folder of the host laid over the guest's root: programs of a distribution find their libraries where it puts them.

use std::{collections::BTreeSet, fs, os::unix::ffi::OsStrExt, path::Path};

use motet_error::{Context, Error, ErrorKind, Result};

use super::{Entry, Node, Tree, split};

/// What the kernels, or other options, have their own of.
const OWN: [&str; 6] = ["dev", "in", "isa", "out", "proc", "sys"];
/// Folders of programs.
const BIN: &[u8] = b"bin";
const BIN_BELOW_USR: &[u8] = b"usr/bin";
/// Commands that every shell has its own of; and the shell.
const BUILTINS: [&str; 8] = ["echo", "false", "kill", "printf", "pwd", "sh", "test", "true"];
/// Folders that are links to those of the same name below `usr`, in distributions that have merged them; packages do not bring the links.
const MERGED: [&str; 4] = ["lib", "lib32", "lib64", "libx32"];

impl Tree {
    /// Lays what a folder of the host holds over the root: files take the place of the system's own, folders are merged, and where the
    /// system has a folder, a link of that name is left out. `dev`, `in`, `isa`, `out`, `proc` and `sys` are left out, too.
    ///
    /// # Errors
    /// It is no folder; what is in it cannot be read, or is neither file, folder nor link; a file has the name of a system's folder, or the
    /// other way round.
    pub fn add_root(&mut self, folder: &Path) -> Result<()> {
        if folder.join("usr/bin").is_dir() {
            self.move_programs_below_usr();
        }
        self.lay(b"", folder)?;
        self.prefer_what_is_laid_over();
        for name in MERGED {
            let below_usr = [b"usr/", name.as_bytes()].concat();
            if self.directory_at(&below_usr).is_some() && !self.nodes.contains_key(name.as_bytes()) {
                self.set(name, Entry::Symlink(below_usr), 0o777);
            }
        }
        Ok(())
    }

    /// Distributions that have merged their folders keep programs in `/usr/bin`, to which `/bin` leads. Programs look for what belongs to
    /// them beside the folder that they really are in (GCC: `../libexec`), so the system's own go there, too.
    fn move_programs_below_usr(&mut self) {
        if self.nodes.get(BIN).is_none_or(|node| node.entry != Entry::Directory) {
            return;
        }
        let programs: Vec<Vec<u8>> = self.nodes.keys().filter(|path| path.starts_with(b"bin/")).cloned().collect();
        for path in programs {
            if let Some(node) = self.nodes.remove(&path) {
                self.nodes.insert([b"usr/", &path[..]].concat(), node);
            }
        }
        self.set("usr/bin", Entry::Directory, 0o755);
        for (link, target) in [("bin", "usr/bin"), ("sbin", "usr/bin"), ("usr/sbin", "bin")] {
            self.set(link, Entry::Symlink(target.into()), 0o777);
        }
    }

    /// A busybox shell prefers its own applets to programs on `PATH`, so the first shell gets functions for those that a folder has laid
    /// others over. (Its builtins are every shell's own.)
    fn prefer_what_is_laid_over(&mut self) {
        let is_host_s = |path: &[u8]| {
            self.nodes.get(path).is_some_and(|node| matches!(node.entry, Entry::HostFile(_) | Entry::Symlink(_)))
        };
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let applets: BTreeSet<&str> = self
            .nodes
            .iter()
            .filter(|(path, node)| path.starts_with(b"isa/") && matches!(node.entry, Entry::HardLink(_)))
            .filter_map(|(path, _)| std::str::from_utf8(split(path).1).ok())
            .filter(|name| is_name(name) && !BUILTINS.contains(name))
            .collect();
        let laid_over = applets.into_iter().filter(|name| {
            [BIN, BIN_BELOW_USR].iter().any(|folder| is_host_s(&[*folder, b"/", name.as_bytes()].concat()))
        });
        let functions: String = laid_over.map(|name| format!("{name}() {{ /bin/{name} \"$@\"; }}\n")).collect();
        if let Some(Node { entry: Entry::Bytes(text), .. }) = self.nodes.get_mut(&b"etc/motet"[..]) {
            text.extend(functions.into_bytes());
        }
    }

    /// Lays a folder over the guest's folder at `key`.
    fn lay(&mut self, key: &[u8], folder: &Path) -> Result<()> {
        let what = || format!("--root {}", folder.display());
        for child in fs::read_dir(folder).context(ErrorKind::NoInput, what)? {
            let child = child.context(ErrorKind::NoInput, what)?;
            let (path, name) = (child.path(), child.file_name());
            if key.is_empty() && OWN.iter().any(|own| name == *own) {
                continue;
            }
            let at = if key.is_empty() { name.as_bytes().to_vec() } else { [key, b"/", name.as_bytes()].concat() };
            let metadata = child.metadata().context(ErrorKind::NoInput, || format!("--root {}", path.display()))?;
            let directory = self.directory_at(&at);
            let is_taken = self.nodes.contains_key(&at);
            match directory {
                Some(directory) if metadata.is_dir() => self.lay(&directory, &path)?,
                Some(_) if metadata.is_symlink() => {}
                Some(_) => return Err(mismatch(&path, &at, "a folder")),
                None if is_taken && metadata.is_dir() => return Err(mismatch(&path, &at, "no folder")),
                None => self.add_host("--root", at, &path, &metadata)?,
            }
        }
        Ok(())
    }

    /// The path of the folder at a path, which may be a link to it.
    fn directory_at(&self, key: &[u8]) -> Option<Vec<u8>> {
        let is_directory = |key: &[u8]| self.nodes.get(key).is_some_and(|node| node.entry == Entry::Directory);
        if is_directory(key) {
            return Some(key.to_vec());
        }
        let Entry::Symlink(target) = &self.nodes.get(key)?.entry else { return None };
        let target = match target.strip_prefix(b"/") {
            Some(absolute) => absolute.to_vec(),
            None => match key.iter().rposition(|&byte| byte == b'/') {
                Some(end) => [&key[..=end], target].concat(),
                None => target.clone(),
            },
        };
        is_directory(&target).then_some(target)
    }
}

fn mismatch(path: &Path, at: &[u8], what: &str) -> Error {
    let message = format!("--root {}: /{} is {what} in the machine", path.display(), String::from_utf8_lossy(at));
    Error::new(ErrorKind::NoInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        for path in ["bin", "etc", "proc", "usr"] {
            tree.set(path, Entry::Directory, 0o755);
        }
        tree.set("usr/bin", Entry::Symlink(b"/bin".to_vec()), 0o777);
        for program in ["bin/head", "bin/sort"] {
            tree.set(program, Entry::Bytes(b"its own".to_vec()), 0o755);
        }
        for applet in ["head", "run-parts", "sort", "test"] {
            tree.set(&format!("isa/riscv64/bin/{applet}"), Entry::HardLink("isa/riscv64/bin/busybox".into()), 0);
        }
        tree.set("sbin", Entry::Symlink(b"bin".to_vec()), 0o777);
        tree.set("etc/motet", Entry::Bytes(b"first\n".to_vec()), 0o644);
        tree
    }

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        folder
    }

    #[test]
    fn files_come_where_links_lead() {
        let (mut tree, folder) = (
            tree(),
            folder(&[
                "usr/bin/run-parts",
                "usr/bin/sort",
                "usr/bin/test",
                "usr/lib64/ld.so",
                "etc/motd",
                "proc/version",
            ]),
        );
        std::os::unix::fs::symlink("usr/bin", folder.path().join("bin")).unwrap();
        tree.add_root(folder.path()).unwrap();
        let entry = |path: &str| tree.nodes.get(path.as_bytes()).map(|node| node.entry.clone());
        let file = |path: &str| Some(Entry::HostFile(folder.path().join(path)));
        // Where the folder has its programs, the machine's are, too.
        assert_eq!((entry("usr/bin/sort"), entry("bin/sort")), (file("usr/bin/sort"), None));
        assert_eq!(entry("usr/bin/head"), Some(Entry::Bytes(b"its own".to_vec())));
        assert_eq!(entry("usr/bin"), Some(Entry::Directory));
        let links = ["bin", "sbin", "usr/sbin"].map(entry);
        let leads = |target: &[u8]| Some(Entry::Symlink(target.to_vec()));
        assert_eq!(links, [leads(b"usr/bin"), leads(b"usr/bin"), leads(b"bin")]);
        // The shell has no applet instead of it.
        let Some(Entry::Bytes(settings)) = entry("etc/motet") else { panic!("no settings") };
        assert_eq!(String::from_utf8(settings).unwrap(), "first\nsort() { /bin/sort \"$@\"; }\n");
        assert_eq!(entry("etc/motd"), file("etc/motd"));
        assert_eq!(entry("usr/lib64/ld.so"), file("usr/lib64/ld.so"));
        assert_eq!(entry("lib64"), Some(Entry::Symlink(b"usr/lib64".to_vec())));
        assert_eq!((entry("lib"), entry("proc/version")), (None, None));
    }

    #[test]
    fn folders_that_are_not_merged_are() {
        let (mut tree, folder) = (tree(), folder(&["bin/sort", "sbin/init", "usr/bin/gcc", "usr/sbin/useradd"]));
        tree.add_root(folder.path()).unwrap();
        for (at, from) in [("sort", "bin"), ("init", "sbin"), ("gcc", "usr/bin"), ("useradd", "usr/sbin")] {
            let node = tree.nodes.get(format!("usr/bin/{at}").as_bytes()).unwrap();
            assert_eq!(node.entry, Entry::HostFile(folder.path().join(from).join(at)));
        }
    }

    #[test]
    fn folders_and_files_do_not_take_each_others_place() {
        for (file, expected) in [("etc", "/etc is a folder"), ("bin/sort/x", "/bin/sort is no folder")] {
            let (mut tree, folder) = (tree(), folder(&[file]));
            let error = tree.add_root(folder.path()).unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
        let missing = tree().add_root(Path::new("/nowhere")).unwrap_err();
        assert!(missing.message.starts_with("--root /nowhere: "), "{}", missing.message);
    }
}

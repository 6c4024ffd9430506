//! Compiling and running small programs in a folder of their own.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use motet_abi::fat::{Header, Pin};
use motet_toolchain::cc;
use object::{Object, ObjectSection};

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Where everything is.
    pub fn whole(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, contents: &str) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// Runs `motet cc` with words in which names of files in the folder begin with `%`.
    pub fn cc(&self, line: &str) -> motet_toolchain::Result<u8> {
        self.compile(false, line)
    }

    /// The same with `motet c++`.
    pub fn cxx(&self, line: &str) -> motet_toolchain::Result<u8> {
        self.compile(true, line)
    }

    fn compile(&self, cxx: bool, line: &str) -> motet_toolchain::Result<u8> {
        let word = |word: &str| match word.strip_prefix('%') {
            Some(name) => self.path(name).into_os_string(),
            None => OsString::from(word),
        };
        let arguments: Vec<OsString> = line.split(' ').map(word).collect();
        cc(&toolchain_folder(), cxx, &arguments)
    }

    pub fn run(&self, name: &str) -> String {
        let output = Command::new(self.path(name)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The build's folder: the C library in it is built once.
pub fn toolchain_folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("toolchain")
}

/// The note's entries by name.
pub fn pins(file: &[u8]) -> Vec<(String, Pin)> {
    let file = object::File::parse(file).unwrap();
    let note = file.section_by_name(".note.motet").unwrap().data().unwrap();
    let description = &note[24..];
    let header = Header::parse(description[..Header::SIZE].try_into().unwrap()).unwrap();
    let (pins, rest) = description[Header::SIZE..].split_at(header.pins as usize * Pin::SIZE);
    let pin = |bytes: &[u8]| {
        let pin = Pin::parse(bytes.try_into().unwrap()).unwrap();
        let (start, len) = (pin.name.0 as usize, pin.name.1 as usize);
        (String::from_utf8(rest[start..start + len].to_vec()).unwrap(), pin)
    };
    pins.chunks(Pin::SIZE).map(pin).collect()
}

//! Which cores of the machine have which extensions, by `/proc/cpuinfo`.

use motet_abi::extension::{Extension, ExtensionSet, UnknownExtension};
use motet_layout::{CORES_MAX, Isa};

/// Longest line that is looked at; the names of all of an instruction set's extensions are shorter.
const LINE_MAX: usize = 1024;

/// How many numbers of cores each island has.
pub const PER_ISLAND: usize = motet_layout::CORES_PER_ISLAND_MAX;

/// A set of cores by index, as `sched_setaffinity` wants it.
pub type Cores = [u64; CORES_MAX / 64];

/// The extensions of one instruction set in a list such as `v,zba`.
///
/// # Errors
/// The name that none of them has.
pub fn named(isa: Isa, list: &str) -> Result<ExtensionSet, UnknownExtension<'_>> {
    list.split(',').try_fold(ExtensionSet::empty(isa), |set, name| {
        let extension = Extension::from_name(isa, name).ok_or(UnknownExtension { isa, name })?;
        Ok(set.with(extension))
    })
}

/// Looks for cores that have some extensions.
#[derive(Debug)]
pub struct Search {
    wanted: ExtensionSet,
    /// Cores of the instruction set.
    of_isa: Cores,
    /// Those of them that have all that is wanted.
    able: Cores,
    /// The core whose lines are being read.
    core: Option<usize>,
    is_of_isa: bool,
    line: [u8; LINE_MAX],
    len: usize,
}

impl Search {
    /// Cores that have all of `wanted`. No core is known yet.
    pub const fn new(wanted: ExtensionSet) -> Self {
        let none = [0; CORES_MAX / 64];
        Self { wanted, of_isa: none, able: none, core: None, is_of_isa: false, line: [0; LINE_MAX], len: 0 }
    }

    /// Takes the next bytes of the file.
    pub fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = self.line;
                self.take_line(core::str::from_utf8(&line[..self.len]).unwrap_or_default());
                self.len = 0;
            } else if let Some(place) = self.line.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }

    fn take_line(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(':') else { return };
        let value = value.trim();
        match key.trim() {
            "processor" => self.core = value.parse().ok().filter(|&core| core < CORES_MAX),
            "isa" => self.is_of_isa = value == self.wanted.isa().name(),
            "extensions" => {
                let Some(core) = self.core.filter(|_| self.is_of_isa) else { return };
                let has = |wanted: Extension| value.split(' ').any(|name| name == wanted.name());
                self.of_isa[core / 64] |= 1 << (core % 64);
                self.able[core / 64] |= u64::from(self.wanted.iter().all(has)) << (core % 64);
            }
            _ => {}
        }
    }

    /// Whether any core has all of them.
    pub fn has_found(&self) -> bool {
        self.able != [0; CORES_MAX / 64]
    }

    /// The cores in `affinity` that have all of the extensions, and all cores of other instruction sets, to which the extensions do not apply. `None`: no
    /// core has them.
    pub fn within(&self, affinity: Cores) -> Option<Cores> {
        let able = [0, 1].map(|word: usize| affinity[word] & self.able[word]);
        let others = [0, 1].map(|word: usize| affinity[word] & !self.of_isa[word]);
        (able != [0, 0]).then(|| [able[0] | others[0], able[1] | others[1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nisland\t\t: 0\nisa\t\t: x86_64\nflags\t\t: avx\nextensions\t: avx\n\n\
        processor\t: 16\nisa\t\t: riscv64\nflags\t\t: rv64imafdcv\nextensions\t: f d\n\n\
        processor\t: 17\nisa\t\t: riscv64\nflags\t\t: rv64imafdcv\nextensions\t: f d v zba\n\n\
        processor\t: 65\nisa\t\t: riscv64\nflags\t\t: rv64imafdcv\nextensions\t: f d zba custom-0\n\n";

    fn search(names: &str, piece: usize) -> Search {
        let mut search = Search::new(named(Isa::RiscV64, names).unwrap());
        CPUINFO.as_bytes().chunks(piece).for_each(|piece| search.read(piece));
        search
    }

    #[test]
    fn cores_are_found_that_have_all_of_them() {
        for (names, able) in [("v", [1 << 17, 0]), ("zba", [1 << 17, 2]), ("v,zba", [1 << 17, 0]), ("custom-0", [0, 2])]
        {
            for piece in [1, 7, CPUINFO.len()] {
                let mask = search(names, piece).within([u64::MAX; 2]);
                assert_eq!(mask, Some([!(3 << 16) | able[0], !2 | able[1]]), "{names}");
            }
        }
    }

    #[test]
    fn cores_that_nobody_has_or_may_use_are_not_there() {
        let nobody = search("v,custom-0", 64);
        assert!(!nobody.has_found() && nobody.within([u64::MAX; 2]).is_none());
        let elsewhere = search("v", 64);
        assert!(elsewhere.has_found() && elsewhere.within([!(1 << 17), 0]).is_none());
    }

    #[test]
    fn names_of_no_extension_are_told() {
        let error = |list: &'static str| named(Isa::RiscV64, list).unwrap_err().name;
        assert_eq!([error("v,w"), error("v,"), error("avx"), error("-v")], ["w", "", "avx", "-v"]);
    }
}

//! What programs did wrong with regions: counted, with the first example, and told once at the end of the run.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crate::{
    Name, REGIONS_MAX, Record,
    name::{NAME_MAX, NAME_WORDS},
};

const KINDS: [WarningKind; 4] =
    [WarningKind::Unreadable, WarningKind::Renamed, WarningKind::TooMany, WarningKind::NotBegun];
/// A count and a name.
const KIND_WORDS: usize = 8 + NAME_WORDS;
pub(crate) const WORDS: usize = KINDS.len() * KIND_WORDS;

/// What went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WarningKind {
    /// The name's address is not of memory that the program can read; the mark was ignored.
    Unreadable,
    /// The name was too long, empty, or not printable, and was changed.
    Renamed,
    /// There are more regions than fit; they count as one.
    TooMany,
    /// A region ended that had not begun; the mark was ignored.
    NotBegun,
}

/// What went wrong, how often, and the first example.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// What.
    pub kind: WarningKind,
    /// How often.
    pub count: u64,
    /// The region's name (unreadable: its address) the first time.
    pub example: Name,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.example.as_str();
        match self.kind {
            WarningKind::Unreadable => {
                write!(f, "a region of interest was ignored: its name, at {name}, cannot be read")?
            }
            WarningKind::Renamed => write!(
                f,
                "a region of interest is called \"{name}\": its name was empty, not printable, or longer than {NAME_MAX} bytes"
            )?,
            WarningKind::TooMany => write!(
                f,
                "there are more than {REGIONS_MAX} regions of interest: \"{name}\" and later ones count as one region"
            )?,
            WarningKind::NotBegun => write!(f, "region of interest \"{name}\" ended without having begun; ignored")?,
        }
        if self.count > 1 && self.kind != WarningKind::TooMany { write!(f, " ({} times)", self.count) } else { Ok(()) }
    }
}

impl Record<'_> {
    /// Counts something that went wrong.
    pub fn warn(&self, kind: WarningKind, example: &Name) {
        let _guard = self.lock();
        self.warn_locked(kind, example);
    }

    pub(crate) fn warn_locked(&self, kind: WarningKind, example: &Name) {
        let words = &self.warnings[kind as usize * KIND_WORDS..][..KIND_WORDS];
        if words[0].fetch_add(1, Relaxed) == 0 {
            example.store(&words[8..]);
        }
    }

    /// What went wrong.
    pub fn warnings(&self) -> Vec<Warning> {
        let warning = |(kind, words): (WarningKind, &[AtomicU64])| Warning {
            kind,
            count: words[0].load(Relaxed),
            example: Name::load(&words[8..]),
        };
        let kinds = KINDS.into_iter().zip(self.warnings.chunks_exact(KIND_WORDS));
        kinds.map(warning).filter(|warning| warning.count != 0).collect()
    }
}

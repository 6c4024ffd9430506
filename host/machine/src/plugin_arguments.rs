//! What the fabric hands over to the timing plugin of each island: the arguments of QEMU's `-plugin` option.

use std::{fmt, os::fd::RawFd};

/// Inherited descriptors, by their numbers, and what to do with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginArguments {
    /// The island's number.
    pub island: usize,
    /// The clocks (`motet_timing::ClockRegion`).
    pub clocks: RawFd,
    /// The pool.
    pub pool: RawFd,
    /// The words of the cache model.
    pub model: RawFd,
    /// The words of regions of interest and samples (`motet_record::Record`).
    pub record: RawFd,
    /// The machine's description.
    pub machine: RawFd,
    /// The doorbells of all cores of the machine: the core's number, an eventfd.
    pub bells: Vec<(usize, RawFd)>,
    /// Where accesses are kept one by one (`motet_record::Accesses`), and how many there is room for.
    pub accesses: Option<(RawFd, usize)>,
    /// Instructions whose moments are noted.
    pub points: Option<PointArguments>,
    /// The island has no kernel of Motet, but a program on the bare board.
    pub bare: bool,
}

/// Points, and where it is noted that cores come by them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointArguments {
    /// The points (`motet_record::Point`), a line each.
    pub list: RawFd,
    /// The words of passages (`motet_record::Passages`).
    pub passages: RawFd,
    /// How many passages there is room for.
    pub room: usize,
}

/// As QEMU takes them: words with commas between them.
impl fmt::Display for PluginArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { island, clocks, pool, model, record, machine, .. } = self;
        let bells: Vec<String> = self.bells.iter().map(|(core, bell)| format!("{core}:{bell}")).collect();
        write!(f, "island={island},clocks={clocks},pool={pool},model={model},record={record},machine={machine}")?;
        write!(f, ",bells={}", bells.join("/"))?;
        if let Some((accesses, room)) = self.accesses {
            write!(f, ",accesses={accesses}:{room}")?;
        }
        if let Some(PointArguments { list, passages, room }) = self.points {
            write!(f, ",points={list},passages={passages}:{room}")?;
        }
        if self.bare { f.write_str(",bare=1") } else { Ok(()) }
    }
}

impl PluginArguments {
    /// Reads the words that QEMU hands on to the plugin.
    ///
    /// # Errors
    /// Which one is missing or wrong.
    pub fn read(words: &[String]) -> Result<Self, String> {
        let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let required =
            |name: &str| value(name).ok_or_else(|| format!("{name}= is missing; only the fabric loads this plugin"));
        let descriptor = |name: &str| required(name)?.parse::<RawFd>().map_err(|error| format!("{name}: {error}"));
        let sized = |name: &str| {
            let numbers = required(name)?.split_once(':');
            let numbers = numbers.and_then(|(fd, room)| Some((fd.parse().ok()?, room.parse().ok()?)));
            numbers.ok_or_else(|| format!("{name}: not FD:COUNT"))
        };
        let points = || {
            let (passages, room) = sized("passages")?;
            Ok::<_, String>(PointArguments { list: descriptor("points")?, passages, room })
        };
        let bell = |word: &str| {
            let (core, bell) = word.split_once(':')?;
            Some((core.parse().ok()?, bell.parse().ok()?))
        };
        let bells = required("bells")?.split('/').map(bell).collect::<Option<_>>();
        Ok(Self {
            island: required("island")?.parse().map_err(|error| format!("island: {error}"))?,
            clocks: descriptor("clocks")?,
            pool: descriptor("pool")?,
            model: descriptor("model")?,
            record: descriptor("record")?,
            machine: descriptor("machine")?,
            bells: bells.ok_or("bells: not CORE:FD/CORE:FD...")?,
            accesses: value("accesses").map(|_| sized("accesses")).transpose()?,
            points: value("points").map(|_| points()).transpose()?,
            bare: value("bare").is_some(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PluginArguments, String> {
        PluginArguments::read(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_as_they_are_written() {
        let least = PluginArguments {
            island: 3,
            clocks: 4,
            pool: 5,
            model: 6,
            record: 7,
            machine: 8,
            bells: vec![(0, 9), (17, 10)],
            accesses: None,
            points: None,
            bare: false,
        };
        let points = Some(PointArguments { list: 12, passages: 13, room: 1_000_000 });
        let most = PluginArguments { accesses: Some((11, 100)), points, bare: true, ..least.clone() };
        for arguments in [least, most] {
            assert_eq!(read(&arguments.to_string()), Ok(arguments));
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let good = "island=0,clocks=4,pool=5,model=6,record=7,machine=8,bells=0:9,accesses=1:2,points=3,passages=4:5";
        assert!(read(good).is_ok());
        for name in ["island", "clocks", "pool", "model", "record", "machine", "bells", "passages"] {
            let without = good.replace(&format!("{name}="), "other=");
            assert_eq!(read(&without), Err(format!("{name}= is missing; only the fabric loads this plugin")));
        }
        for (from, to, wrong) in [
            ("clocks=4", "clocks=x", "clocks: invalid digit found in string"),
            ("island=0", "island=-1", "island: invalid digit found in string"),
            ("bells=0:9", "bells=0", "bells: not CORE:FD/CORE:FD..."),
            ("accesses=1:2", "accesses=1", "accesses: not FD:COUNT"),
            ("passages=4:5", "passages=4:", "passages: not FD:COUNT"),
        ] {
            assert_eq!(read(&good.replace(from, to)), Err(wrong.to_owned()), "{to}");
        }
    }
}

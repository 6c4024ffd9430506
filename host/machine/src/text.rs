//! `[[island]] text`: the range of the pool in which the text of an ISA's programs lies.

use std::ops::Range;

use motet_coherence::{Bytes, Config, RangeConfig};
use motet_layout::{ISLANDS_MAX, Isa};

use super::{IslandSpec, MachineSpec, fault::fault};
use motet_error::Result;

/// Where the text of an ISA's programs lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The ISA.
    pub isa: Isa,
    /// The blocks that lie in the range as a whole.
    pub blocks: Range<u32>,
    /// The first island that the range is near to; `None`: none is.
    pub island: Option<usize>,
}

impl MachineSpec {
    /// Where the text of each ISA lies of which an island says it; the first one that does counts.
    pub fn text_places(&self, config: &Config) -> Vec<TextPlace> {
        let mut places: Vec<TextPlace> = Vec::new();
        for island in &self.islands {
            let is_new = places.iter().all(|place| place.isa != island.isa);
            let range = range_of(island, config).filter(|_| is_new);
            places.extend(range.map(|range| TextPlace {
                isa: island.isa,
                blocks: self.blocks_within(range),
                island: (0..ISLANDS_MAX).find(|index| range.near >> index & 1 != 0),
            }));
        }
        places
    }

    /// That the ranges are there, hold something, and are not contradicted. `spans`: of each island's key.
    pub(super) fn check_texts(&self, config: &Config, spans: &[Range<usize>]) -> Result<()> {
        for (index, (island, span)) in self.islands.iter().zip(spans).enumerate() {
            let Some(name) = &island.text else { continue };
            let refused = |message: String| Err(fault(&self.text, span.clone(), &format!("text: {message}")));
            let Some(range) = range_of(island, config) else {
                let names: Vec<&str> = config.ranges.iter().map(|range| range.name.as_str()).collect();
                return refused(format!("there is no range \"{name}\"; the ranges are {}", names.join(", ")));
            };
            if self.blocks_within(range).is_empty() {
                return refused(format!("\"{name}\" has no whole block of {}", Bytes(self.pool.block)));
            }
            let other = |earlier: &&IslandSpec| earlier.isa == island.isa && earlier.text.is_some();
            if let Some(earlier) = self.islands[..index].iter().find(other).filter(|other| other.text != island.text) {
                let (isa, there) = (island.isa.name(), earlier.text.as_deref().unwrap_or_default());
                return refused(format!("the text of {isa} lies in \"{there}\", as \"{}\" says", earlier.name));
            }
        }
        Ok(())
    }

    fn blocks_within(&self, range: &RangeConfig) -> Range<u32> {
        let (first, end) = (range.start.div_ceil(self.pool.block), range.end / self.pool.block);
        first as u32..end.max(first) as u32
    }
}

fn range_of<'a>(island: &IslandSpec, config: &'a Config) -> Option<&'a RangeConfig> {
    config.ranges.iter().find(|range| Some(&range.name) == island.text.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two islands of one ISA and one of another, with these ends of their tables; ranges of 6, 32 and 26 MiB.
    fn machine([first, second, third]: [&str; 3]) -> Result<MachineSpec> {
        let island = |name: &str, isa: &str, text: &str| {
            format!("[[island]]\nname = \"{name}\"\nisa = \"{isa}\"\ncores = 1\n{text}\n")
        };
        let islands = island("a", "x86_64", first) + &island("b", "riscv64", second) + &island("c", "riscv64", third);
        let range = |name: &str, end: &str| format!("[[model.range]]\nname = \"{name}\"\nend = \"{end}\"\n");
        let ranges =
            range("small", "6MiB") + &range("middle", "38MiB") + "near = [\"c\", \"a\"]\n" + &range("rest", "64MiB");
        MachineSpec::parse(&format!("[pool]\nsize = \"64MiB\"\n{islands}{ranges}"))
    }

    #[test]
    fn text_lies_in_whole_blocks_of_the_range_that_the_first_island_names() {
        let places = |texts: [&str; 3]| {
            let machine = machine(texts).unwrap();
            machine.text_places(&machine.model_config().unwrap())
        };
        assert_eq!(places([""; 3]), []);
        let [x86, riscv] = [Isa::X86_64, Isa::RiscV64];
        let middle = TextPlace { isa: riscv, blocks: 2..9, island: Some(0) };
        assert_eq!(places(["", "", "text = \"middle\""]), std::slice::from_ref(&middle));
        assert_eq!(places(["", "text = \"middle\"", "text = \"middle\""]), std::slice::from_ref(&middle));
        let rest = TextPlace { isa: x86, blocks: 10..16, island: None };
        assert_eq!(places(["text = \"rest\"", "text = \"middle\"", ""]), [rest, middle]);
    }

    #[test]
    fn what_contradicts_the_ranges_or_another_island_is_refused_with_its_position() {
        for (texts, want) in [
            (
                ["", "text = \"board\"", ""],
                "12:8: text: there is no range \"board\"; the ranges are small, middle, rest",
            ),
            (["text = \"private\"", "", ""], "7:8: text: there is no range \"private\"; the ranges are"),
            (
                ["", "text = \"rest\"", "text = \"middle\""],
                "17:8: text: the text of riscv64 lies in \"rest\", as \"b\" says",
            ),
            (["text = 3", "", ""], "7:8: island.text: invalid type: integer `3`, expected a string"),
        ] {
            let error = machine(texts).unwrap_err();
            assert!(error.message.starts_with(want), "{want:?} does not begin {:?}", error.message);
        }
        let text = "[pool]\nsize = \"64MiB\"\n[[island]]\nname = \"a\"\nisa = \"x86_64\"\ncores = 1\ntext = \"x\"\n\
                    [[model.range]]\nname = \"x\"\nend = \"2MiB\"\n[[model.range]]\nname = \"y\"\n";
        let error = MachineSpec::parse(text).unwrap_err();
        assert!(error.message.starts_with("7:8: text: \"x\" has no whole block of 4MiB"), "{}", error.message);
    }
}

//! What a machine file charges for a page that goes from one kernel to another in a message, whatever the kernels do.

use motet_coherence::{Kind, Model, Picoseconds, Sharing, allocate};
use motet_error::{Error, ErrorKind, Result};
use motet_machine::{MachineSpec, local_ranges};

const PAGE: u64 = 4096;
const LINE: u64 = 64;
/// Where in a kernel's memory the page is: far from its beginning, which other pieces may be near to.
const PLACE: u64 = 256 << 20;

/// The parts of it, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Charged {
    /// The four copies of 64 lines that no cache has: home's page, into the window, out of it, the new page.
    pub copies_us: f64,
    /// Of these, fetching lines of the window from the cache of who has written them, over memory's time.
    pub snoops_us: f64,
    /// A doorbell there and one back.
    pub doorbells_us: f64,
    /// A fault and its return, and an interrupt on each side.
    pub traps_us: f64,
}

impl Charged {
    /// All of it, one after the other.
    pub fn us(&self) -> f64 {
        self.copies_us + self.doorbells_us + self.traps_us
    }
}

/// What a read miss of the second kernel costs at least, if home has the page in memory: one access to each line of each copy, at the model's latencies. More
/// accesses to a line, which its L1 serves, are the kernels' own.
///
/// # Errors
/// The machine has no two kernels.
pub fn read_miss(machine: &MachineSpec) -> Result<Charged> {
    let config = machine.model_config()?;
    let bad = |why: &str| Error::new(ErrorKind::Software, format!("{why}: what a page costs cannot be computed"));
    let Some(kernels) = machine.multikernel else { return Err(bad("the machine has one kernel")) };
    let window = kernels.kernels as u64 * kernels.kernel_len;
    let bases = [0, 1].map(|island| {
        let spec = &machine.islands[island];
        local_ranges(spec.isa, spec.private, machine.pool.size).first().map_or(0, |&(_, local, _)| local)
    });
    let region = allocate(Model::region_words(&config));
    let model = Model::create(config.clone(), &region, Sharing::OneAtATime).map_err(|_| bad("the model"))?;
    let core = |island: usize| model.core(config.islands[island].first_core).ok_or_else(|| bad("the cores"));
    let (mut home, mut away) = (core(0)?, core(1)?);
    let (mut copies, mut snoops) = (0, 0);
    for line in (0..PAGE).step_by(LINE as usize) {
        let Picoseconds(page) = home.access(Kind::Load, bases[0] + PLACE + line, 8);
        let Picoseconds(into) = home.access(Kind::Store, bases[0] + window + line, 8);
        let Picoseconds(out) = away.access(Kind::Load, bases[1] + window + line, 8);
        // A line of the window that nobody has written.
        let Picoseconds(alone) = away.access(Kind::Load, bases[1] + window + PAGE + line, 8);
        let Picoseconds(new) = away.access(Kind::Store, bases[1] + kernels.kernel_len + PLACE + line, 8);
        copies += page + into + out + new;
        snoops += out.saturating_sub(alone);
    }
    let us = |ps: u64| ps as f64 / 1e6;
    let timing = [0, 1].map(|island| config.islands[island].timing.traps);
    let interrupts: u64 = timing.iter().map(|traps| traps.entry_ps + traps.end_of_interrupt_ps).sum();
    Ok(Charged {
        copies_us: us(copies),
        snoops_us: us(snoops),
        doorbells_us: us(config.links[0][1].doorbell_ps + config.links[1][0].doorbell_ps),
        traps_us: us(timing[1].entry_ps + timing[1].exit_ps + interrupts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(model: &str) -> Charged {
        let file = format!("../../machines/multikernel-{model}.toml");
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        read_miss(&MachineSpec::load(&path).unwrap()).unwrap()
    }

    #[test]
    fn a_page_is_charged_four_copies_two_doorbells_and_traps() {
        // Of the paper's Table 2, in nanoseconds: 300 cycles at 2.1 and 2.0 GHz for near memory, 640 and 620 for far memory, 160 for a snoop.
        let near_and_far = charged("shared");
        let lines = 142.9 + 304.8 + (310.0 + 160.0) + 150.0;
        assert!((near_and_far.copies_us - 64.0 * lines / 1e3).abs() < 0.1, "{near_and_far:?}");
        assert!((near_and_far.snoops_us - 64.0 * 0.160).abs() < 0.01, "{near_and_far:?}");
        assert_eq!(near_and_far.doorbells_us, 4.0);
        let traps = (76.0 + 65.0 + 76.0 + 71.0) / 2000.0 + (715.0 + 71.0) / 2100.0;
        assert!((near_and_far.traps_us - traps).abs() < 0.001, "{near_and_far:?}");
        // One last-level cache: who takes lines out of the window finds them there.
        let one_cache = charged("fully-shared");
        assert!(one_cache.copies_us < 64.0 * 0.5 && one_cache.snoops_us == 0.0, "{one_cache:?}");
        assert!(charged("separated").us() < near_and_far.us());
    }

    #[test]
    fn one_kernel_sends_no_pages() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines/stramash-shared.toml");
        assert!(read_miss(&MachineSpec::load(&path).unwrap()).unwrap_err().message.contains("one kernel"));
    }
}

//! Which numbers of a machine file were chosen, and from where to where they are set.
//!
//! Published is what the paper says that the machine is after, or what follows from it alone; everything else below `[model]` was chosen,
//! also where somebody has measured it on another machine. The machine files say so in their comments. [`check`] refuses a file
//! with a number in neither list, and lists with a number that the file does not have.

use motet_error::{Error, ErrorKind, Result};

use super::keys::Keys;

/// A number that was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, as [`Keys`] has it.
    pub name: &'static str,
    /// What it is set to.
    pub span: Span,
}

/// From where to where a parameter is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// Half of what the file says, and twice as much.
    HalfAndDouble,
    /// Other ends: half and double of 0 are 0.
    Between(f64, f64),
}

impl Span {
    /// The lower and the upper end.
    pub fn ends(self, value: f64) -> [f64; 2] {
        match self {
            Self::HalfAndDouble => [0.5 * value, 2.0 * value],
            Self::Between(low, high) => [low, high],
        }
    }
}

/// The numbers of a machine file.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Those that were chosen.
    pub chosen: Vec<Parameter>,
    /// Those of the paper, and ends of ranges, which cost nothing.
    pub published: Vec<&'static str>,
}

const fn twice(name: &'static str) -> Parameter {
    Parameter { name, span: Span::HalfAndDouble }
}

const fn up_to(high: f64, name: &'static str) -> Parameter {
    Parameter { name, span: Span::Between(0.0, high) }
}

/// A doorbell, in nanoseconds: interrupts between cores and over PCIe are told to take from one to five microseconds.
const DOORBELL: Parameter = Parameter { name: "doorbell_ns", span: Span::Between(1000.0, 5000.0) };
/// A locked operation on a Haswell takes about so many cycles (Fog, "Instruction tables", 2022: `LOCK XADD`).
const ATOMIC_CYCLES: f64 = 20.0;
/// As long as a snoop, if it were not hidden.
const HIDDEN_NS: f64 = 150.0;
/// As long as a load from a device's register, if a store to it were not posted.
const DEVICE_STORE_NS: f64 = 500.0;
/// As long as a store over Flick's link is on its way, if it were not posted.
const FLICK_TRANSIT_NS: f64 = 412.0;

/// A load over Flick's link (section V).
const FLICK_LOAD_NS: f64 = 825.0;

const FLICK: &[Parameter] = &[
    DOORBELL,
    twice("device_ns"),
    up_to(DEVICE_STORE_NS, "device_store_ns"),
    twice("link.transit_ns"),
    twice("link.snoop_invalidate_ns"),
    twice("link.snoop_data_ns"),
    up_to(HIDDEN_NS, "link.back_invalidate_ns"),
    up_to(HIDDEN_NS, "link.write_back_ns"),
    twice("dma.setup_ns"),
    twice("core.host.cpi"),
    twice("core.host.l1i.size"),
    twice("core.host.l1i.ways"),
    // As long as a hit in L1D, if fetching ahead did not hide it.
    up_to(4.0, "core.host.l1i.cycles"),
    twice("core.host.l1d.size"),
    twice("core.host.l1d.ways"),
    twice("core.host.l1d.cycles"),
    twice("core.host.l2.size"),
    twice("core.host.l2.ways"),
    twice("core.host.l2.cycles"),
    twice("core.host.l3.size"),
    twice("core.host.l3.ways"),
    twice("core.host.l3.cycles"),
    twice("core.host.memory_cycles"),
    twice("core.host.trap_entry_cycles"),
    twice("core.host.trap_exit_cycles"),
    twice("core.host.syscall_entry_cycles"),
    twice("core.host.syscall_exit_cycles"),
    twice("core.host.end_of_interrupt_cycles"),
    twice("core.host.wake_cycles"),
    up_to(ATOMIC_CYCLES, "core.host.atomic_cycles"),
    twice("core.board.cpi"),
    twice("core.board.l1i.size"),
    twice("core.board.l1i.ways"),
    up_to(1.0, "core.board.l1i.cycles"),
    twice("core.board.l1d.size"),
    twice("core.board.l1d.ways"),
    // A half cycle cannot be written.
    Parameter { name: "core.board.l1d.cycles", span: Span::Between(0.0, 2.0) },
    twice("core.board.trap_entry_cycles"),
    twice("core.board.trap_exit_cycles"),
    twice("core.board.end_of_interrupt_cycles"),
    twice("core.board.wake_cycles"),
    up_to(ATOMIC_CYCLES, "core.board.atomic_cycles"),
    up_to(FLICK_TRANSIT_NS, "access.host.board-memory.store_ns"),
    twice("access.host.board-memory.packet_bytes"),
    twice("access.board.host-memory.memory_ns"),
    twice("access.board.host-memory.packet_bytes"),
    up_to(FLICK_TRANSIT_NS, "access.board.host-memory.store_ns"),
    twice("access.board.records.memory_ns"),
    twice("access.board.records.store_ns"),
    // The board's kernel in its own memory, or in the host's.
    Parameter { name: "access.board.private.fetch_ns", span: Span::Between(267.0, FLICK_LOAD_NS) },
];

const FLICK_PUBLISHED: &[&str] = &[
    // Table I: PCIe 3.0 x8.
    "dma.kib_ns",
    "access.host.board-memory.bandwidth_mb_s",
    "access.board.host-memory.bandwidth_mb_s",
    // Tables I and II.
    "core.host.frequency_mhz",
    "core.board.frequency_mhz",
    // Section V: 825 ns and 267 ns a load; the same memory in cycles.
    "access.host.board-memory.memory_ns",
    "access.board.board-memory.memory_ns",
    "access.board.private.memory_ns",
    "core.board.memory_cycles",
    "range.host-memory.end",
];

const STRAMASH: &[Parameter] = &[
    // The paper's 2 us (section 9.1.1) were not measured on the machines that it models.
    DOORBELL,
    twice("device_ns"),
    up_to(DEVICE_STORE_NS, "device_store_ns"),
    up_to(HIDDEN_NS, "link.back_invalidate_ns"),
    up_to(HIDDEN_NS, "link.write_back_ns"),
    twice("core.x86.cpi"),
    twice("core.x86.l1i.size"),
    twice("core.x86.l1i.ways"),
    up_to(4.0, "core.x86.l1i.cycles"),
    twice("core.x86.l1d.size"),
    twice("core.x86.l1d.ways"),
    twice("core.x86.l2.size"),
    twice("core.x86.l2.ways"),
    twice("core.x86.trap_entry_cycles"),
    twice("core.x86.trap_exit_cycles"),
    twice("core.x86.syscall_entry_cycles"),
    twice("core.x86.syscall_exit_cycles"),
    twice("core.x86.end_of_interrupt_cycles"),
    twice("core.x86.wake_cycles"),
    up_to(ATOMIC_CYCLES, "core.x86.atomic_cycles"),
    twice("core.arm.cpi"),
    twice("core.arm.l1i.size"),
    twice("core.arm.l1i.ways"),
    up_to(4.0, "core.arm.l1i.cycles"),
    twice("core.arm.l1d.size"),
    twice("core.arm.l1d.ways"),
    twice("core.arm.l2.size"),
    twice("core.arm.l2.ways"),
    twice("core.arm.trap_entry_cycles"),
    twice("core.arm.trap_exit_cycles"),
    twice("core.arm.end_of_interrupt_cycles"),
    twice("core.arm.wake_cycles"),
    up_to(ATOMIC_CYCLES, "core.arm.atomic_cycles"),
];

/// Where each island has a last level of its own, and lines are snooped over a link.
const STRAMASH_LINKED: &[Parameter] = &[
    twice("link.snoop_invalidate_ns"),
    twice("link.snoop_data_ns"),
    twice("core.x86.l3.ways"),
    twice("core.arm.l3.ways"),
];

/// Where both are under one last level.
const STRAMASH_JOINED: &[Parameter] = &[twice("l3.ways"), twice("core.x86.peer_cycles"), twice("core.arm.peer_cycles")];

/// Tables 1 and 2.
const STRAMASH_PUBLISHED: &[&str] = &[
    "core.x86.frequency_mhz",
    "core.x86.l1d.cycles",
    "core.x86.l2.cycles",
    "core.x86.memory_cycles",
    "core.arm.frequency_mhz",
    "core.arm.l1d.cycles",
    "core.arm.l2.cycles",
    "core.arm.memory_cycles",
];

/// Table 2, and section 9.2.2 for the sizes.
const STRAMASH_LINKED_PUBLISHED: &[&str] = &[
    "core.x86.l3.size",
    "core.x86.l3.cycles",
    "core.x86.remote_cycles",
    "core.arm.l3.size",
    "core.arm.l3.cycles",
    "core.arm.remote_cycles",
];

const STRAMASH_JOINED_PUBLISHED: &[&str] = &["l3.size", "core.x86.l3_cycles", "core.arm.l3_cycles"];

/// The machines whose files were sorted.
pub const MACHINES: [&str; 7] = [
    "flick",
    "stramash-separated",
    "stramash-separated-32m",
    "stramash-shared",
    "stramash-shared-32m",
    "stramash-fully-shared",
    "stramash-fully-shared-32m",
];

/// The numbers of a machine's file.
///
/// # Errors
/// Nobody has sorted them: the message lists the machines that there are.
pub fn of(machine: &str) -> Result<Parameters> {
    let lists = |chosen: &[&[Parameter]], published: &[&[&'static str]]| Parameters {
        chosen: chosen.concat(),
        published: published.concat(),
    };
    match machine.strip_suffix("-32m").filter(|rest| rest.starts_with("stramash")).unwrap_or(machine) {
        "flick" => Ok(lists(&[FLICK], &[FLICK_PUBLISHED])),
        "stramash-separated" => Ok(lists(
            &[STRAMASH, STRAMASH_LINKED],
            &[STRAMASH_PUBLISHED, STRAMASH_LINKED_PUBLISHED, &["range.of-x86.end"]],
        )),
        "stramash-shared" => Ok(lists(
            &[STRAMASH, STRAMASH_LINKED],
            &[STRAMASH_PUBLISHED, STRAMASH_LINKED_PUBLISHED, &["range.of-x86.end", "range.of-arm.end"]],
        )),
        "stramash-fully-shared" => {
            Ok(lists(&[STRAMASH, STRAMASH_JOINED], &[STRAMASH_PUBLISHED, STRAMASH_JOINED_PUBLISHED]))
        }
        _ => {
            let message = format!("no machine `{machine}`; there are: {}", MACHINES.join(", "));
            Err(Error::new(ErrorKind::Usage, message))
        }
    }
}

impl Parameters {
    /// Whether the file has just these numbers.
    ///
    /// # Errors
    /// A listed one is not there, or one that is there is not listed, or twice.
    pub fn check(&self, keys: &Keys) -> Result<()> {
        let listed: Vec<&str> =
            self.chosen.iter().map(|parameter| parameter.name).chain(self.published.iter().copied()).collect();
        for name in &listed {
            keys.get(name)?;
        }
        for (name, _) in keys.all() {
            let times = listed.iter().filter(|other| **other == name).count();
            if times != 1 {
                let message = format!(
                    "`{name}` is listed {times} times, not once, as chosen or published (host/bench/src/sensitivity/parameters.rs)"
                );
                return Err(Error::new(ErrorKind::Data, message));
            }
        }
        Ok(())
    }

    /// Those that are named, in the order of the list; all, if none is.
    ///
    /// # Errors
    /// One is not there, or was not chosen: the message lists those that were.
    pub fn named(&self, machine: &str, names: &[String]) -> Result<Vec<Parameter>> {
        if let Some(name) = names.iter().find(|name| !self.chosen.iter().any(|parameter| parameter.name == **name)) {
            let what = if self.published.contains(&name.as_str()) { "is published" } else { "is not there" };
            let chosen: Vec<&str> = self.chosen.iter().map(|parameter| parameter.name).collect();
            let message = format!("--parameter {name}: {what} in {machine}; chosen are: {}", chosen.join(", "));
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let wanted = |parameter: &&Parameter| names.is_empty() || names.iter().any(|name| name == parameter.name);
        Ok(self.chosen.iter().filter(wanted).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use motet_machine::MachineSpec;

    use super::*;

    fn keys(machine: &str) -> Keys {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../machines/{machine}.toml"));
        Keys::parse(&std::fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn every_number_of_every_machine_is_sorted() {
        for machine in MACHINES {
            of(machine).unwrap().check(&keys(machine)).unwrap_or_else(|error| panic!("{machine}: {error}"));
        }
    }

    #[test]
    fn lists_that_do_not_fit_the_file_are_refused() {
        let flick = of("flick").unwrap();
        let mut keys = keys("flick");
        let missing = Parameters { chosen: flick.chosen[1..].to_vec(), ..flick.clone() };
        assert!(missing.check(&keys).unwrap_err().message.contains("`doorbell_ns` is listed 0 times"));
        let mut twice = flick.clone();
        twice.published.push("doorbell_ns");
        assert!(twice.check(&keys).unwrap_err().message.contains("`doorbell_ns` is listed 2 times"));
        keys = Keys::parse(&keys.text().replace("store_ns = 5\n", "")).unwrap();
        assert!(flick.check(&keys).unwrap_err().message.contains("no number `access.board.records.store_ns`"));
    }

    #[test]
    fn each_end_of_each_parameter_makes_a_machine() {
        for machine in MACHINES {
            let keys = keys(machine);
            for Parameter { name, span } in of(machine).unwrap().chosen {
                let value = keys.get(name).unwrap();
                let ends = span.ends(value);
                match span {
                    Span::HalfAndDouble => assert_eq!(ends, [value / 2.0, value * 2.0], "{machine}: {name}"),
                    Span::Between(..) => {}
                }
                assert!(ends[0] <= value && value <= ends[1] && ends[0] < ends[1], "{machine}: {name}");
                for end in ends {
                    let mut changed = keys.clone();
                    assert!((changed.set(name, end).unwrap() - end).abs() <= 0.5, "{machine}: {name}");
                    let config = MachineSpec::parse(&changed.text()).and_then(|machine| machine.model_config());
                    config.unwrap_or_else(|error| panic!("{machine}: {name} = {end}: {error}"));
                }
            }
        }
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        assert!(of("flic").unwrap_err().message.contains("there are: flick, stramash-separated"));
        assert!(of("flick-32m").is_err());
        let flick = of("flick").unwrap();
        let named = |name: &str| flick.named("flick", &[name.to_owned()]);
        assert_eq!(named("doorbell_ns").unwrap(), [DOORBELL]);
        assert!(
            named("doorbell")
                .unwrap_err()
                .message
                .contains("is not there in flick; chosen are: doorbell_ns, device_ns")
        );
        assert!(named("core.host.frequency_mhz").unwrap_err().message.contains("is published"));
        assert_eq!(flick.named("flick", &[]).unwrap(), flick.chosen);
    }
}

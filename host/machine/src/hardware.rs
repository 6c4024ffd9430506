//! `[[hardware_thread]]`: devices that compute as threads of the service core (`docs/protocols/hardware-threads.md`).

use std::ops::RangeInclusive;

use motet_error::Result;
use motet_layout::{HARDWARE_FILTERS, HARDWARE_SORTS, SERVICE_HARDWARE};
use serde::Deserialize;
use toml::Spanned;

use super::fault::{self, fault};

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HardwareSpec {
    /// What it is called.
    pub name: String,
    /// What it does: `HARDWARE_*`.
    pub does: u32,
    /// Timed runs: an element, in nanoseconds: of each pass of a sorter, with each coefficient of a filter.
    pub element_ns: u64,
    /// Timed runs: a word of memory, or the way to the service core or back, in nanoseconds.
    pub memory_ns: u64,
    /// Timed runs: from its creation to its first request, in nanoseconds.
    pub start_ns: u64,
}

/// What devices can do.
const FUNCTIONS: [(&str, u32); 2] = [("sort", HARDWARE_SORTS), ("filter", HARDWARE_FILTERS)];
/// Longest time of each part.
const NS_MAX: i64 = 1_000_000;
/// A cycle of a circuit that clocks at 100 MHz.
const CYCLE_NS: i64 = 10;
/// Decoding its command, as the service core's.
const START_NS: i64 = 20;
const NAME_LEN_MAX: usize = 31;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HardwareTable {
    name: Spanned<String>,
    does: Spanned<String>,
    element_ns: Option<Spanned<i64>>,
    memory_ns: Option<Spanned<i64>>,
    start_ns: Option<Spanned<i64>>,
}

/// The devices that a file describes. `has_service`: the machine has a service core.
pub(super) fn check(text: &str, tables: Vec<Spanned<HardwareTable>>, has_service: bool) -> Result<Vec<HardwareSpec>> {
    let Some(first) = tables.first() else { return Ok(Vec::new()) };
    if !has_service {
        let message = "hardware_thread: a device asks a service core, and the machine has none; add [[service]]";
        return Err(fault(text, first.span(), message));
    }
    if let Some(last) = tables.get(SERVICE_HARDWARE) {
        let message = format!("hardware_thread: {} devices, a machine has at most {SERVICE_HARDWARE}", tables.len());
        return Err(fault(text, last.span(), &message));
    }
    let mut devices: Vec<HardwareSpec> = Vec::new();
    for table in tables {
        let (span, device) = table.into_inner().check(text)?;
        if devices.iter().any(|other| other.name == device.name) {
            let message = format!("hardware_thread.name: two devices are called \"{}\"", device.name);
            return Err(fault(text, span, &message));
        }
        devices.push(device);
    }
    Ok(devices)
}

impl HardwareTable {
    fn check(self, text: &str) -> Result<(std::ops::Range<usize>, HardwareSpec)> {
        let (span, name) = (self.name.span(), self.name.into_inner());
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) {
            let message = format!(
                "hardware_thread.name: \"{name}\"; a name has 1 to {NAME_LEN_MAX} letters of a to z, A to Z, 0 to 9 and -"
            );
            return Err(fault(text, span, &message));
        }
        let known = FUNCTIONS.iter().find(|(function, _)| function == self.does.get_ref());
        let Some(&(_, does)) = known else {
            let functions = FUNCTIONS.map(|(function, _)| function).join(", ");
            let message =
                format!("hardware_thread.does: unknown function \"{}\"; known: {functions}", self.does.get_ref());
            return Err(fault(text, self.does.span(), &message));
        };
        let number = |key: &str, value: &Option<Spanned<i64>>, default: i64, range: RangeInclusive<i64>| {
            fault::number(text, &format!("hardware_thread.{key}"), value.as_ref(), default, range)
        };
        let device = HardwareSpec {
            name,
            does,
            element_ns: number("element_ns", &self.element_ns, CYCLE_NS, 0..=NS_MAX)?,
            memory_ns: number("memory_ns", &self.memory_ns, CYCLE_NS, 0..=NS_MAX)?,
            start_ns: number("start_ns", &self.start_ns, START_NS, 0..=NS_MAX)?,
        };
        Ok((span, device))
    }
}

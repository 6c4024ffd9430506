//! `[[island]]`.

use motet_coherence::Bytes;
use motet_error::Result;
use motet_layout::{CORES_PER_ISLAND_MAX, Isa};
use serde::Deserialize;
use toml::Spanned;

use super::{
    Firmware, IslandSpec, Queue,
    extensions::{CoreTable, by_core},
    fault::fault,
    private_size,
};

/// Longest time that idle cores may poll. They take no interrupts meanwhile.
const POLL_US_MAX: i64 = 1000;

/// Models of QEMU's `virt` that know AArch32 alone: on them not even a kernel's first instructions run. QEMU refuses the others itself.
const NO_AARCH64: [&str; 2] = ["cortex-a7", "cortex-a15"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IslandTable {
    pub(super) name: Spanned<String>,
    isa: Spanned<String>,
    cores: Spanned<i64>,
    cpu: Option<Spanned<String>>,
    private: Option<Spanned<Bytes>>,
    #[serde(default)]
    extensions: Vec<Spanned<String>>,
    #[serde(default)]
    core: Vec<CoreTable>,
    poll_us: Option<Spanned<i64>>,
    pub(super) text: Option<Spanned<String>>,
    firmware: Option<Spanned<String>>,
    queue: Option<Spanned<String>>,
    hidden_harts: Option<Spanned<i64>>,
    guests: Option<Spanned<bool>>,
    #[serde(default)]
    network: bool,
}

impl IslandTable {
    pub(super) fn check(self, text: &str) -> Result<IslandSpec> {
        let name = self.name.get_ref();
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 31 || !name.chars().all(valid) {
            let message = "name: 1 to 31 letters, digits, '-' or '_'";
            return Err(fault(text, self.name.span(), message));
        }
        let isa = match Isa::from_name(self.isa.get_ref()) {
            Some(isa @ (Isa::X86_64 | Isa::AArch64 | Isa::RiscV64)) => isa,
            Some(Isa::Hosted) | None => {
                let message =
                    format!("isa: unknown instruction set \"{}\"; known: x86_64, aarch64, riscv64", self.isa.get_ref());
                return Err(fault(text, self.isa.span(), &message));
            }
        };
        let cores = usize::try_from(*self.cores.get_ref()).unwrap_or(0);
        if !(1..=CORES_PER_ISLAND_MAX).contains(&cores) {
            let message = format!("cores: {}, an island has 1 to {CORES_PER_ISLAND_MAX}", self.cores.get_ref());
            return Err(fault(text, self.cores.span(), &message));
        }
        if let Some(cpu) = &self.cpu {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-_.+=,".contains(c);
            if cpu.get_ref().is_empty() || !cpu.get_ref().chars().all(valid) {
                return Err(fault(text, cpu.span(), "cpu: letters, digits and -_.+=, only"));
            }
            let model = cpu.get_ref().split(',').next().unwrap_or_default();
            if isa == Isa::AArch64 && NO_AARCH64.contains(&model) {
                let message = format!("cpu: {model} has 32 bits, and does not execute AArch64's instructions");
                return Err(fault(text, cpu.span(), &message));
            }
        }
        let extensions = by_core(text, isa, cores, &self.extensions, &self.core)?;
        let poll_us = match &self.poll_us {
            Some(poll_us) if !(0..=POLL_US_MAX).contains(poll_us.get_ref()) => {
                let message = format!("poll_us: {}, an idle core polls for 0 to {POLL_US_MAX} us", poll_us.get_ref());
                return Err(fault(text, poll_us.span(), &message));
            }
            poll_us => poll_us.as_ref().map_or(0, |poll_us| *poll_us.get_ref() as u32),
        };
        let firmware = firmware(text, isa, self.firmware)?;
        let queue = queue(text, self.queue)?;
        let hidden_harts = hidden_harts(text, firmware, self.hidden_harts)?;
        let guests = guests(text, isa, hidden_harts, self.guests)?;
        let private = private_memory(text, isa, self.private)?;
        let (name, text) = (self.name.into_inner(), self.text.map(Spanned::into_inner));
        let cpu = self.cpu.map(Spanned::into_inner);
        Ok(IslandSpec {
            name,
            isa,
            cores,
            cpu,
            private,
            extensions,
            poll_us,
            text,
            firmware,
            hidden_harts,
            queue,
            guests,
            network: self.network,
        })
    }
}

fn firmware(text: &str, isa: Isa, given: Option<Spanned<String>>) -> Result<Firmware> {
    let Some(given) = given else { return Ok(Firmware::OpenSbi) };
    match (isa, given.get_ref().as_str()) {
        (Isa::RiscV64, "opensbi") => Ok(Firmware::OpenSbi),
        (Isa::RiscV64, "motet") => Ok(Firmware::Motet),
        (Isa::RiscV64, other) => {
            let message = format!("firmware: unknown firmware \"{other}\"; known: opensbi, motet");
            Err(fault(text, given.span(), &message))
        }
        (Isa::X86_64 | Isa::AArch64 | Isa::Hosted, _) => {
            let message = format!("firmware: an island of {} has none to choose; riscv64 has", isa.name());
            Err(fault(text, given.span(), &message))
        }
    }
}

fn queue(text: &str, given: Option<Spanned<String>>) -> Result<Queue> {
    let Some(given) = given else { return Ok(Queue::Fair) };
    match given.get_ref().as_str() {
        "fair" => Ok(Queue::Fair),
        "fifo" => Ok(Queue::Fifo),
        other => {
            let message = format!("queue: unknown order \"{other}\"; known: fair, fifo");
            Err(fault(text, given.span(), &message))
        }
    }
}

/// Most hidden harts of an island.
const HIDDEN_HARTS_MAX: i64 = 16;

fn hidden_harts(text: &str, firmware: Firmware, given: Option<Spanned<i64>>) -> Result<usize> {
    let Some(given) = given else { return Ok(0) };
    if !(0..=HIDDEN_HARTS_MAX).contains(given.get_ref()) {
        let message = format!("hidden_harts: {}, an island has 0 to {HIDDEN_HARTS_MAX}", given.get_ref());
        return Err(fault(text, given.span(), &message));
    }
    if *given.get_ref() > 0 && firmware != Firmware::Motet {
        return Err(fault(text, given.span(), "hidden_harts: only firmware = \"motet\" has some"));
    }
    Ok(*given.get_ref() as usize)
}

fn guests(text: &str, isa: Isa, hidden_harts: usize, given: Option<Spanned<bool>>) -> Result<bool> {
    let Some(given) = given.filter(|given| *given.get_ref()) else { return Ok(false) };
    let why = match isa {
        Isa::AArch64 | Isa::RiscV64 if hidden_harts == 0 => return Ok(true),
        Isa::AArch64 | Isa::RiscV64 => "guests: an island with hidden_harts has none".into(),
        Isa::X86_64 | Isa::Hosted => format!("guests: an island of {} has none; aarch64 and riscv64 can", isa.name()),
    };
    Err(fault(text, given.span(), &why))
}

fn private_memory(text: &str, isa: Isa, given: Option<Spanned<Bytes>>) -> Result<u64> {
    let (default, least) = private_size(isa);
    let Some(given) = given else { return Ok(default) };
    let size = given.get_ref().0;
    if size < least || size > 1 << 30 || size % (2 << 20) != 0 {
        let message = format!(
            "private: {} for {}; must be a multiple of 2MiB from {} to 1GiB",
            Bytes(size),
            isa.name(),
            Bytes(least)
        );
        return Err(fault(text, given.span(), &message));
    }
    Ok(size)
}

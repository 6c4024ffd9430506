//! `[fpga]`: regions that accelerators are loaded into (`docs/protocols/fpga.md`).

use motet_accelerators::Kind;
use motet_coherence::Bytes;
use motet_layout::{FPGA_ACCELERATORS, FPGA_INTERFACES, FPGA_REGIONS, PAGE_SIZE};
use motet_protocol::fpga::Policy;
use serde::Deserialize;
use toml::Spanned;

use super::fault::{fault, number};
use motet_error::Result;

/// An FPGA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FpgaSpec {
    /// How a region is chosen.
    pub policy: Policy,
    /// For how long a region is kept for a client that does not use it, in microseconds.
    pub expire_us: u64,
    /// What the configuration port takes for 1024 bytes, in nanoseconds.
    pub port_kib_ns: u64,
    /// Transfers that the port fails, at first.
    pub port_faults: u32,
    /// Interfaces: one for each client and accelerator.
    pub interfaces: u32,
    /// Bytes of the data section of each.
    pub data: u64,
    /// Bytes of each region's bitstreams.
    pub regions: Vec<u64>,
    /// Accelerators.
    pub accelerators: Vec<AcceleratorSpec>,
    /// What the manager takes.
    pub manager: ManagerSpec,
}

/// What the manager takes for each of its routines, in nanoseconds (Ker-ONE's Table 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ManagerSpec {
    /// To search for a region.
    pub search_ns: u64,
    /// To assign one that is that accelerator already.
    pub assign_ns: u64,
    /// To have one become another accelerator.
    pub reconfigure_ns: u64,
    /// To stop what a region computes.
    pub preempt_ns: u64,
    /// For the interrupt at the end of a reconfiguration.
    pub port_ns: u64,
    /// For the interrupt when a region has stopped.
    pub stop_ns: u64,
}

/// An accelerator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AcceleratorSpec {
    /// Which one.
    pub kind: Kind,
    /// What it takes for a frame, in nanoseconds.
    pub frame_ns: u64,
    /// Regions into which it fits.
    pub regions: Vec<usize>,
    /// Those of them whose bitstream has a signature that is not its own.
    pub unsigned: Vec<usize>,
    /// Those whose bitstream was made for another region.
    pub misplaced: Vec<usize>,
}

/// Longest time of a frame, and of 1024 bytes through the port.
const NS_MAX: i64 = 1_000_000_000;
/// Longest routine of the manager.
const MANAGER_NS_MAX: i64 = 1_000_000;
/// Longest reservation.
const EXPIRE_US_MAX: i64 = 1_000_000;
/// Largest bitstream, and largest data section.
const BYTES_MAX: u64 = 16 << 20;
/// Data sections take one part of the pool out of so many at most: programs and kernels need the rest.
const POOL_PART: u64 = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FpgaTable {
    policy: Option<Spanned<String>>,
    expire_us: Option<Spanned<i64>>,
    port_kib_ns: Option<Spanned<i64>>,
    port_faults: Option<Spanned<i64>>,
    interfaces: Option<Spanned<i64>>,
    data: Option<Spanned<Bytes>>,
    manager: Option<ManagerTable>,
    #[serde(default)]
    region: Vec<Spanned<RegionTable>>,
    #[serde(default)]
    accelerator: Vec<Spanned<AcceleratorTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagerTable {
    search_ns: Option<Spanned<i64>>,
    assign_ns: Option<Spanned<i64>>,
    reconfigure_ns: Option<Spanned<i64>>,
    preempt_ns: Option<Spanned<i64>>,
    port_ns: Option<Spanned<i64>>,
    stop_ns: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RegionTable {
    bitstream: Spanned<Bytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceleratorTable {
    name: Spanned<String>,
    frame_ns: Spanned<i64>,
    regions: Spanned<Vec<i64>>,
    unsigned: Option<Spanned<Vec<i64>>>,
    misplaced: Option<Spanned<Vec<i64>>>,
}

/// The FPGA that a file describes, if any, in a machine with a pool of so many bytes.
pub(super) fn check(text: &str, table: Option<Spanned<FpgaTable>>, pool: u64) -> Result<Option<FpgaSpec>> {
    let Some(table) = table else { return Ok(None) };
    let span = table.span();
    let table = table.into_inner();
    for (what, count, most) in
        [("region", table.region.len(), FPGA_REGIONS), ("accelerator", table.accelerator.len(), FPGA_ACCELERATORS)]
    {
        if count == 0 || count > most {
            return Err(fault(text, span.clone(), &format!("fpga.{what}: {count} of them; an FPGA has 1 to {most}")));
        }
    }
    let regions = table.region.iter().map(|region| region.get_ref().check(text)).collect::<Result<Vec<_>>>()?;
    let mut accelerators: Vec<AcceleratorSpec> = Vec::new();
    for accelerator in &table.accelerator {
        let name = accelerator.get_ref().name.span();
        let accelerator = accelerator.get_ref().check(text, regions.len())?;
        if accelerators.iter().any(|other| other.kind == accelerator.kind) {
            let message = format!("fpga.accelerator.name: two are called \"{}\"", accelerator.kind.name());
            return Err(fault(text, name, &message));
        }
        accelerators.push(accelerator);
    }
    let size_span = table.data.as_ref().map_or(span, Spanned::span);
    let spec = FpgaSpec {
        policy: policy(text, table.policy.as_ref())?,
        expire_us: number(text, "fpga.expire_us", table.expire_us.as_ref(), 10_000, 0..=EXPIRE_US_MAX)?,
        port_kib_ns: number(text, "fpga.port_kib_ns", table.port_kib_ns.as_ref(), 7062, 0..=NS_MAX)?,
        port_faults: number(text, "fpga.port_faults", table.port_faults.as_ref(), 0, 0..=1000)? as u32,
        interfaces: number(text, "fpga.interfaces", table.interfaces.as_ref(), 16, 1..=FPGA_INTERFACES as i64)? as u32,
        data: data(text, table.data.as_ref())?,
        regions,
        accelerators,
        manager: table.manager.map_or_else(|| Ok(ManagerSpec::default()), |manager| manager.check(text))?,
    };
    let bytes = u64::from(spec.interfaces) * spec.data;
    if bytes > pool / POOL_PART {
        let (count, bytes, pool) = (spec.interfaces, Bytes(bytes), Bytes(pool));
        let message =
            format!("fpga.data: for {count} interfaces {bytes}; that must be a half of the pool ({pool}) at most");
        return Err(fault(text, size_span, &message));
    }
    Ok(Some(spec))
}

fn policy(text: &str, name: Option<&Spanned<String>>) -> Result<Policy> {
    let Some(name) = name else { return Ok(Policy::SmallestFirst) };
    match name.get_ref().as_str() {
        "smallest-first" => Ok(Policy::SmallestFirst),
        "fewest-reconfigurations" => Ok(Policy::FewestReconfigurations),
        "deadline" => Ok(Policy::Deadline),
        other => {
            let known = "smallest-first, fewest-reconfigurations, deadline";
            Err(fault(text, name.span(), &format!("fpga.policy: unknown policy \"{other}\"; known: {known}")))
        }
    }
}

fn data(text: &str, value: Option<&Spanned<Bytes>>) -> Result<u64> {
    let Some(value) = value else { return Ok(256 << 10) };
    let bytes = value.get_ref().0;
    if bytes == 0 || bytes > BYTES_MAX || bytes % PAGE_SIZE != 0 {
        let message =
            format!("fpga.data: {}; it must be a multiple of {PAGE_SIZE}, up to {}", Bytes(bytes), Bytes(BYTES_MAX));
        return Err(fault(text, value.span(), &message));
    }
    Ok(bytes)
}

impl ManagerTable {
    fn check(&self, text: &str) -> Result<ManagerSpec> {
        let number = |key: &str, value: &Option<Spanned<i64>>| {
            number(text, &format!("fpga.manager.{key}"), value.as_ref(), 0, 0..=MANAGER_NS_MAX)
        };
        Ok(ManagerSpec {
            search_ns: number("search_ns", &self.search_ns)?,
            assign_ns: number("assign_ns", &self.assign_ns)?,
            reconfigure_ns: number("reconfigure_ns", &self.reconfigure_ns)?,
            preempt_ns: number("preempt_ns", &self.preempt_ns)?,
            port_ns: number("port_ns", &self.port_ns)?,
            stop_ns: number("stop_ns", &self.stop_ns)?,
        })
    }
}

impl RegionTable {
    fn check(&self, text: &str) -> Result<u64> {
        let bytes = self.bitstream.get_ref().0;
        if bytes == 0 || bytes > BYTES_MAX {
            let message = format!("fpga.region.bitstream: {}; it must be 1 byte to {}", Bytes(bytes), Bytes(BYTES_MAX));
            return Err(fault(text, self.bitstream.span(), &message));
        }
        Ok(bytes)
    }
}

impl AcceleratorTable {
    fn check(&self, text: &str, region_count: usize) -> Result<AcceleratorSpec> {
        let name = self.name.get_ref();
        let Some(kind) = Kind::named(name) else {
            let known = Kind::ALL.map(Kind::name).join(", ");
            let message = format!("fpga.accelerator.name: unknown accelerator \"{name}\"; known: {known}");
            return Err(fault(text, self.name.span(), &message));
        };
        let frame_ns = number(text, "fpga.accelerator.frame_ns", Some(&self.frame_ns), 0, 1..=NS_MAX)?;
        let mut regions = Vec::new();
        for &region in self.regions.get_ref() {
            match usize::try_from(region).ok().filter(|region| (1..=region_count).contains(region)) {
                Some(region) if !regions.contains(&(region - 1)) => regions.push(region - 1),
                _ => {
                    let message = format!(
                        "fpga.accelerator.regions: {region}; regions are 1 to {region_count}, each at most once"
                    );
                    return Err(fault(text, self.regions.span(), &message));
                }
            }
        }
        if regions.is_empty() {
            return Err(fault(text, self.regions.span(), "fpga.accelerator.regions: it fits into none"));
        }
        let wrong = |key: &str, list: &Option<Spanned<Vec<i64>>>| -> Result<Vec<usize>> {
            let Some(list) = list else { return Ok(Vec::new()) };
            let index = |region: i64| -> Option<usize> {
                usize::try_from(region).ok()?.checked_sub(1).filter(|index| regions.contains(index))
            };
            let of = |&region: &i64| {
                let message = format!("fpga.accelerator.{key}: {region}; it does not fit into that region");
                index(region).ok_or_else(|| fault(text, list.span(), &message))
            };
            list.get_ref().iter().map(of).collect()
        };
        let (unsigned, misplaced) = (wrong("unsigned", &self.unsigned)?, wrong("misplaced", &self.misplaced)?);
        Ok(AcceleratorSpec { kind, frame_ns, regions, unsigned, misplaced })
    }
}

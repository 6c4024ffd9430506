//! The tables of a machine file, as they are written, and what is checked of the machine as a whole.

use motet_coherence::{Bytes, ModelTable};
use motet_error::Result;
use motet_layout::ISLANDS_MAX;
use serde::Deserialize;
use toml::Spanned;

use super::{
    BLOCK_SIZE_DEFAULT, Calls, Crossing, IslandSpec, MachineSpec, POOL_SIZE_MAX, POOL_SIZE_MIN, Policy, PoolSpec,
    fault::{fault, misfit, span_of},
    fpga, hardware,
    island::IslandTable,
    multikernel, service,
};

/// The machine that a file describes.
///
/// # Errors
/// What is wrong, and where.
pub(super) fn read(text: &str) -> Result<MachineSpec> {
    let file: MachineFile = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        fault(text, span.clone(), &misfit(text, span, error.message()))
    })?;
    file.check(text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    crossing: Option<Spanned<String>>,
    calls: Option<Spanned<String>>,
    migration: Option<Spanned<String>>,
    os: Option<Spanned<String>>,
    policy: Option<Spanned<String>>,
    messages: Option<Spanned<multikernel::MessagesTable>>,
    pool: Spanned<PoolTable>,
    island: Spanned<Vec<IslandTable>>,
    #[serde(default)]
    service: Vec<Spanned<service::ServiceTable>>,
    fpga: Option<Spanned<fpga::FpgaTable>>,
    #[serde(default)]
    hardware_thread: Vec<Spanned<hardware::HardwareTable>>,
    #[serde(default)]
    model: ModelTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    size: Spanned<Bytes>,
    block: Option<Spanned<Bytes>>,
}

impl MachineFile {
    fn check(self, text: &str) -> Result<MachineSpec> {
        let crossing = match &self.crossing {
            None => Crossing::Direct,
            Some(name) => match name.get_ref().as_str() {
                "direct" => Crossing::Direct,
                "flick" => Crossing::Flick,
                other => {
                    let message = format!("crossing: unknown way \"{other}\"; known: direct, flick");
                    return Err(fault(text, name.span(), &message));
                }
            },
        };
        let calls = match self.calls.as_ref().map(|name| name.get_ref().as_str()) {
            None | Some("fastest") => Calls::Fastest,
            Some("stores") => Calls::Stores,
            Some("dma") => Calls::Dma,
            Some(other) => {
                let message = format!("calls: unknown way \"{other}\"; known: fastest, stores, dma");
                return Err(fault(text, span_of(self.calls.as_ref()), &message));
            }
        };
        let pool = self.pool.into_inner().check(text)?;
        let span = self.island.span();
        let tables = self.island.into_inner();
        if tables.is_empty() || tables.len() > ISLANDS_MAX {
            return Err(fault(
                text,
                span,
                &format!("island: {} islands, a machine has 1 to {ISLANDS_MAX}", tables.len()),
            ));
        }
        let mut islands: Vec<IslandSpec> = Vec::new();
        let mut texts = Vec::new();
        for table in tables {
            let name = table.name.span();
            texts.push(table.text.as_ref().map_or(0..0, Spanned::span));
            let island = table.check(text)?;
            if islands.iter().any(|other| other.name == island.name) {
                return Err(fault(text, name, &format!("name: two islands are called \"{}\"", island.name)));
            }
            islands.push(island);
        }
        check_migration(text, self.migration.as_ref(), &islands)?;
        let service = service::check(text, self.service)?;
        let hardware = hardware::check(text, self.hardware_thread, service.is_some())?;
        let fpga = fpga::check(text, self.fpga, pool.size)?;
        let mut machine = MachineSpec {
            pool,
            islands,
            crossing,
            calls,
            service,
            hardware,
            fpga,
            multikernel: None,
            policy: check_policy(text, self.policy.as_ref())?,
            model: self.model,
            text: text.into(),
        };
        let config = machine.model_config()?;
        machine.check_texts(&config, &texts)?;
        if calls != Calls::Fastest {
            machine.check_calls(&config).map_err(|why| fault(text, span_of(self.calls.as_ref()), &why))?;
        }
        machine.multikernel = multikernel::check(text, self.os.as_ref(), self.messages, &machine)?;
        if machine.policy == Policy::Adaptive
            && let Some(why) = machine.why_not_adaptive(&config)
        {
            return Err(fault(text, span_of(self.policy.as_ref()), why));
        }
        Ok(machine)
    }
}

fn check_policy(text: &str, name: Option<&Spanned<String>>) -> Result<Policy> {
    match name.map(|name| name.get_ref().as_str()) {
        None | Some("first-touch") => Ok(Policy::FirstTouch),
        Some("adaptive") => Ok(Policy::Adaptive),
        Some(other) => {
            let message = format!("policy: unknown policy \"{other}\"; known: first-touch, adaptive");
            Err(fault(text, span_of(name), &message))
        }
    }
}

impl PoolTable {
    fn check(self, text: &str) -> Result<PoolSpec> {
        let size = self.size.get_ref().0;
        let (block, block_span) = match &self.block {
            Some(block) => (block.get_ref().0, block.span()),
            None => (BLOCK_SIZE_DEFAULT, self.size.span()),
        };
        if !(256 << 10..=4 << 20).contains(&block) || !block.is_power_of_two() {
            return Err(fault(text, block_span, "block: must be a power of two from 256KiB to 4MiB"));
        }
        if size < POOL_SIZE_MIN {
            let message = format!("size: pool too small: {}, the minimum is {}", Bytes(size), Bytes(POOL_SIZE_MIN));
            return Err(fault(text, self.size.span(), &message));
        }
        if size > POOL_SIZE_MAX {
            let message = format!("size: pool too large: {}, the maximum is {}", Bytes(size), Bytes(POOL_SIZE_MAX));
            return Err(fault(text, self.size.span(), &message));
        }
        // 2 MiB: QEMU places the RISC-V device tree after the pool at this alignment.
        let unit = block.max(2 << 20);
        if size % unit != 0 {
            return Err(fault(text, self.size.span(), &format!("size: must be a multiple of {}", Bytes(unit))));
        }
        Ok(PoolSpec { size, block })
    }
}

/// Whether threads go to hidden harts for their vector instructions, or to other cores, as hidden harts are there for that.
fn check_migration(text: &str, given: Option<&Spanned<String>>, islands: &[IslandSpec]) -> Result<()> {
    let has_hidden = islands.iter().any(|island| island.hidden_harts > 0);
    let why = match (given.map(|name| name.get_ref().as_str()), has_hidden) {
        (None | Some("fused"), false) | (Some("firmware"), true) => return Ok(()),
        (None | Some("fused"), true) => {
            "migration: an island has hidden_harts; that needs migration = \"firmware\"".into()
        }
        (Some("firmware"), false) => {
            "migration: by firmware, some island needs hidden_harts, and firmware = \"motet\"".into()
        }
        (Some(other), _) => format!("migration: unknown way \"{other}\"; known: fused, firmware"),
    };
    Err(fault(text, span_of(given), &why))
}

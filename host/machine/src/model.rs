//! What the cache and coherence model of a timed run has to know of a machine.

use std::mem::offset_of;

use motet_coherence::{Config, Piece, Shape, Target, TrapCycles};
use motet_error::Result;
use motet_layout::{CORES_PER_ISLAND_MAX, CoreRecord, DmaEngine, Isa, IslandRecord, PoolHeader};

use super::{
    Crossing, MachineSpec,
    fault::{fault, span_of_key},
    local_ranges,
    memory::private_base,
};

impl MachineSpec {
    /// Everything that the cache and coherence model of a timed run needs to know.
    ///
    /// # Errors
    /// A `[model]` that does not fit the machine: with line, column and key.
    pub fn model_config(&self) -> Result<Config> {
        let islands = self.islands.iter().map(|island| {
            let pool = local_ranges(island.isa, island.private, self.pool.size).into_iter();
            let mut memory =
                vec![Piece { local: private_base(island.isa), size: island.private, target: Target::Private(0) }];
            memory.extend(pool.map(|(offset, local, size)| Piece { local, size, target: Target::Pool(offset) }));
            let traps = trap_cycles(island.isa);
            motet_coherence::Island { name: island.name.clone(), cores: island.harts(), memory, traps }
        });
        let shape = Shape { pool: self.pool.size, islands: islands.collect(), own: self.own_records() };
        let mut config = self.model.resolve(&shape).map_err(|error| {
            fault(&self.text, span_of_key(&self.text, &error.key).unwrap_or(0..0), &error.to_string())
        })?;
        if let Some(kernels) = &self.multikernel {
            kernels.slow_down(&mut config.links);
        }
        Ok(config)
    }

    /// Where the records of islands and their cores are in the machine's memory: pages of their own, which are near the island. First byte, end, island.
    fn own_records(&self) -> Vec<(u64, u64, usize)> {
        let cores_len = CORES_PER_ISLAND_MAX * size_of::<CoreRecord>();
        let places = (0..self.islands.len()).map(|index| (index, self.place(index)));
        let of = |at: usize, len: usize| {
            places.clone().map(move |(index, (start, number))| {
                let first = start + (at + number * len) as u64;
                (first, first + len as u64, index)
            })
        };
        let records = of(offset_of!(PoolHeader, islands), size_of::<IslandRecord>());
        let cores = of(offset_of!(PoolHeader, cores), cores_len);
        let engines = of(offset_of!(PoolHeader, dma), size_of::<DmaEngine>());
        records.chain(cores).chain(engines).collect()
    }

    /// Where the pool of an island's kernel begins in the machine's memory, and the number that the island has there.
    fn place(&self, island: usize) -> (u64, usize) {
        self.multikernel.map_or((0, island), |spec| (spec.start(island), 0))
    }

    /// Why no page can follow its users here.
    pub(super) fn why_not_adaptive(&self, config: &Config) -> Option<&'static str> {
        if self.multikernel.is_some() {
            Some("policy: kernels with memory of their own copy each page that moves; leave it out")
        } else if config.has_uncached_links() {
            Some("policy: pages do not move between islands that do not cache each other's memory; leave it out")
        } else {
            None
        }
    }

    /// That there are calls over links to choose a way for.
    pub(super) fn check_calls(&self, config: &Config) -> std::result::Result<(), String> {
        if self.crossing == Crossing::Flick {
            return Err("calls: with crossing = \"flick\", all calls go by engines; leave one of the two out".into());
        }
        match config.has_uncached_links() {
            true => Ok(()),
            false => {
                Err("calls: no [[model.access]] has data = \"uncached\", or no island has a data cache, so no call goes over a link; leave it out"
                    .into())
            }
        }
    }
}

/// What traps take on an ISA's cores, unless the file says so. Measured by others, on hardware:
///
/// - x86-64: a page fault to its handler 715 cycles and `iretq` 330, on a Haswell (Torvalds, "One of the things I end up
///   doing", Google+, April 2014). `syscall` 79 and `sysret` 71, on a Nehalem (Soares and Stumm, FlexSC, OSDI '10, section 2.1).
/// - AArch64: 76 cycles up an exception level (68 to 76 were measured) and 65 down, on an X-Gene (Lim et al., NEVE, SOSP '17,
///   section 5). The end of an interrupt by the GIC's CPU interface takes 71 there (Dall et al., ISCA '16, Table II).
/// - RISC-V: 4 cycles from an interrupt to the fetch of its handler (SiFive E31 and FE310 manuals, "Interrupt Latency").
/// - Waking: Linux's exit latencies of the lightest idle state, 2 us for x86-64 (`intel_idle`, C1 since Haswell) and 1 us for
///   the others (`cpuidle-psci`, `cpuidle-riscv-sbi`: WFI), at 2 GHz.
///
/// For what nobody has measured stands what is most like it: AArch64's end of an interrupt for x86-64's, and RISC-V's entry
/// for its exit and for its end of an interrupt, all of which empty the same pipeline.
const fn trap_cycles(isa: Isa) -> TrapCycles {
    match isa {
        Isa::X86_64 => TrapCycles { entry: 715, exit: 330, syscall: Some([79, 71]), end_of_interrupt: 71, wake: 4000 },
        Isa::AArch64 => TrapCycles { entry: 76, exit: 65, syscall: None, end_of_interrupt: 71, wake: 2000 },
        Isa::RiscV64 | Isa::Hosted => TrapCycles { entry: 4, exit: 4, syscall: None, end_of_interrupt: 4, wake: 2000 },
    }
}

//! A run that looks like a real one, for tests.

use std::collections::BTreeMap;

use motet_coherence::counter_names;
use motet_fabric::stats::{
    CoreStats, FpgaChangeStats, FpgaRegionStats, FpgaStats, GuestRunStats, GuestStats, HostStats, IslandStats,
    KernelStats, MachineStats, MessageStats, RegionStats, SCHEMA, Samples, StalePageStats, Stats,
};

const COLUMNS: [&str; 10] = [
    "time_ps",
    "idle_ps",
    "stall_ps",
    "instructions",
    "ipis_sent",
    "ipis_received",
    "near_reads",
    "far_reads",
    "snoop_data",
    "snoop_invalidates",
];

/// A run of so many islands with so many cores each.
pub fn stats(islands: usize, cores: usize) -> Stats {
    let names = ["x86", "arm", "riscv", "dsp", "near-memory", "east", "west", "accelerator"];
    let isas = ["x86_64", "aarch64", "riscv64"];
    let island = |index: usize| IslandStats {
        name: names[index].into(),
        isa: isas[index % 3].into(),
        cores,
        hidden_harts: 0,
        frequency_mhz: 2400 - 200 * index as u64,
    };
    let all = (0..islands).flat_map(|island| (0..cores).map(move |core| (island, core)));
    let rows = all.clone().map(|(island, core)| samples(island, core));
    let measured: Vec<CoreStats> = all.map(|(island, index)| core(names[island], island, index)).collect();
    let region = |name: &str, entries| RegionStats {
        name: name.into(),
        entries,
        open: u64::from(entries == 1),
        time_ps: 21_000_000_000,
        skew_ps: 8_000_000,
        cores: measured.clone(),
    };
    Stats {
        schema: SCHEMA,
        motet: "0.1.0".into(),
        command: "sort </in/words | on riscv64 uniq -c & echo \"<b>it's</b>\"".into(),
        machine: MachineStats {
            description: "[pool]\nsize = \"1GiB\" # <pool> & \"more\"\n".into(),
            islands: (0..islands).map(island).collect(),
            quantum_ps: 10_000_000,
            quantum_max_ps: 10_000_000,
            quantum_least_ps: 10_000_000,
            deterministic: false,
        },
        time_ps: 61_500_000_000,
        out_of_turn: 2,
        unsettled: 1,
        cores: measured.clone(),
        regions: vec![region("parse <input>", 12), region("sort", 1)],
        samples: Samples {
            interval_ps: 500_000_000,
            columns: COLUMNS.map(str::to_owned).into(),
            cores: rows.collect(),
        },
        warnings: vec!["region \"a<b\" was ended and had not begun".into()],
        stale_read_addresses: vec![StalePageStats {
            island: "host".into(),
            core: 0,
            address: 0x20_0000,
            range: "board-memory".into(),
            reads: 3,
        }],
        kernels: names[..islands].iter().copied().map(kernel).collect(),
        fpga: Some(fpga()),
        guests: Some(guests()),
        host: Some(HostStats { seconds: 3.25, mips: 61.2 }),
    }
}

fn kernel(name: &str) -> KernelStats {
    let kinds = [("node_info", 1), ("remote_page_request", 0)];
    KernelStats {
        island: name.into(),
        messages: kinds.map(|(kind, count)| (kind.into(), MessageStats { sent: count, taken: count })).into(),
        bytes_sent: 22,
        bytes_taken: 22,
        doorbells: 1,
        refused: 0,
    }
}

fn core(name: &str, island: usize, core: usize) -> CoreStats {
    let weight = 1 + (island * 7 + core * 3) as u64 % 11;
    let memory: BTreeMap<String, u64> = counter_names()
        .iter()
        .enumerate()
        .map(|(index, &counter)| {
            let value = match counter {
                "fetches" => 60_000_000,
                "loads" => 30_000_000,
                "stores" => 12_000_000,
                "l1i_misses" | "l1d_misses" => 400_000 * weight,
                "l2i_misses" | "l2d_misses" => 90_000 * weight,
                "l3i_misses" | "l3d_misses" => 20_000 * weight,
                counter if counter.starts_with("stall_") => 300_000_000 * (1 + (index as u64 * weight) % 7),
                _ => 1000 * weight * (1 + index as u64 % 5),
            };
            (counter.to_owned(), value)
        })
        .collect();
    let stall_ps = memory.iter().filter(|(name, _)| name.starts_with("stall_")).map(|(_, value)| value).sum();
    CoreStats {
        island: name.into(),
        core,
        hidden: 0,
        time_ps: 61_500_000_000,
        idle_ps: 2_000_000_000 * weight,
        stall_ps,
        cycles: 118_000_000,
        instructions: 8_000_000 * weight,
        ipis_sent: 120 * weight,
        ipis_received: 90 * weight,
        transfers: 0,
        memory,
    }
}

/// A core's samples: busy by turns.
fn samples(island: usize, core: usize) -> Vec<Vec<u64>> {
    let mut row = vec![0u64; COLUMNS.len()];
    let mut rows = Vec::new();
    for index in 0..123u64 {
        let phase = (index + 17 * island as u64 + 5 * core as u64) % 60;
        let busy = if phase < 40 { 1000 } else { 100 + (index * 37 + 11 * core as u64) % 150 };
        row[0] += 500_000_000;
        row[1] += 500_000 * (1000 - busy);
        row[2] += 500_000 * busy / (3 + (index / 20 + island as u64) % 4);
        row[3] += busy * (500 + (index * 13) % 200);
        row[4] += (phase % 7) * 3;
        row[5] += (phase % 5) * 2;
        row[6] += busy / 3;
        row[7] += (busy * (index % 30)) / 40;
        row[8] += busy / 7 + phase;
        row[9] += phase * 2;
        rows.push(row.clone());
    }
    rows
}

/// Two machines by turns on one core.
fn guests() -> GuestStats {
    let run = |turn: u64| GuestRunStats {
        machine: 1 + (turn % 2) as u32,
        vcpu: 0,
        island: 0,
        core: 0,
        from_ps: 1_000_000_000 * (1 + turn),
        to_ps: 1_000_000_000 * (2 + turn) - 30_000_000,
    };
    GuestStats { runs: (0..50).map(run).collect(), runs_lost: 0 }
}

/// Three regions that two processes share.
fn fpga() -> FpgaStats {
    let names = ["qam16", "qam64", "fft512"];
    let states = ["reconfig", "hold", "busy", "idle", "busy", "preempt", "switch"];
    let change = |step: u64| {
        let (region, at) = ((step % 3) as usize, (step / 3) as usize);
        let is = (at % states.len() != 0).then_some(names[(region + at / states.len()) % 3].to_owned());
        FpgaChangeStats {
            at_ps: 900_000_000 * (1 + step),
            region,
            state: states[at % states.len()].into(),
            process: is.as_ref().map(|_| 3 + (at / 3 % 2) as u32),
            accelerator: is,
        }
    };
    let state_ps =
        |region: u64| states.iter().zip(1..).map(move |(state, at)| ((*state).into(), at * (region + 1) * 900_000_000));
    FpgaStats {
        requests: 15,
        preemptions: 4,
        loads: 9,
        load_errors: 0,
        regions: (0..3)
            .map(|region| FpgaRegionStats { frames: 40 * region, loads: 3, state_ps: state_ps(region).collect() })
            .collect(),
        changes: (0..60).map(change).collect(),
        changes_lost: 0,
    }
}

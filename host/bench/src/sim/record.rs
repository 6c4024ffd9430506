//! `motet bench sim-accuracy --record`: the trace that the model's tests replay, and contrib's counts for it.

use std::{fs::File, path::Path, process::Command, time::Duration};

use flate2::{Compression, GzBuilder};
use motet_error::Result;
use motet_fabric::qemu;
use motet_layout::Isa;

use super::{
    Cache, Geometry,
    contrib::{self, Counts},
    tools::Tools,
};
use crate::{
    process,
    project::{Project, file_error, qemu_version},
};

const fn geometry(l1d: (u64, u64), l1i: (u64, u64), l2: Option<Cache>) -> Geometry {
    Geometry { l1d: Cache { size: l1d.0, ways: l1d.1 }, l1i: Cache { size: l1i.0, ways: l1i.1 }, l2 }
}

/// Contrib's own default; direct-mapped, without L2; usual L1s with an L2 that the program does not fit; tiny.
const GEOMETRIES: [Geometry; 4] = [
    geometry((16384, 8), (16384, 8), Some(Cache { size: 2 << 20, ways: 16 })),
    geometry((8192, 2), (4096, 1), None),
    geometry((32768, 8), (32768, 8), Some(Cache { size: 128 << 10, ways: 16 })),
    geometry((2048, 4), (1024, 4), Some(Cache { size: 16384, ways: 8 })),
];

/// Records both.
///
/// # Errors
/// QEMU fails, or the files cannot be written.
pub fn record(project: &Project, tools: &Tools) -> Result<()> {
    let folder = project.scratch("record")?;
    let (trace, testdata) = (folder.join("trace"), project.root.join("host/coherence/testdata"));
    let version = qemu_version(Isa::RiscV64)?;
    let mut text = format!(
        "# What the contrib cache plugin of QEMU {} counted while kernels.trace.gz was recorded\n\
         # (./motet bench sim-accuracy --record).\n\
         # Bytes and ways of L1D, L1I and L2 (0: none); data accesses and misses, instructions and instruction misses, \
         L2 accesses and misses.\n",
        version.split_whitespace().next().unwrap_or_default()
    );
    for geometry in GEOMETRIES {
        let Geometry { l1d, l1i, l2 } = geometry;
        let l2 = l2.unwrap_or(Cache { size: 0, ways: 0 });
        let counted = observe(project, tools, &geometry, &trace, &folder.join("contrib.log"))?;
        let Counts { data, data_misses, instructions, instruction_misses, l2: l2_accesses, l2_misses } = counted;
        let caches = [l1d.size, l1d.ways, l1i.size, l1i.ways, l2.size, l2.ways];
        let counts = [data, data_misses, instructions, instruction_misses, l2_accesses, l2_misses];
        let numbers: Vec<String> = caches.iter().chain(&counts).map(u64::to_string).collect();
        text += &(numbers.join(" ") + "\n");
    }
    let (counts, packed) = (testdata.join("kernels.contrib.txt"), testdata.join("kernels.trace.gz"));
    std::fs::write(&counts, text).map_err(file_error(&counts))?;
    pack(&trace, &packed)?;
    eprintln!("motet: wrote {} and {}", counts.display(), packed.display());
    Ok(())
}

/// Runs the bare program under contrib and our recorder at once.
fn observe(project: &Project, tools: &Tools, geometry: &Geometry, trace: &Path, log: &Path) -> Result<Counts> {
    let mut qemu = Command::new(qemu::locate(Isa::RiscV64)?);
    qemu.args(["-machine", "virt", "-m", "64M", "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none"]);
    // The program ends QEMU by a semihosting call.
    qemu.args(["-semihosting-config", "enable=on,target=native", "-bios"]);
    qemu.arg(project.float_program(Isa::RiscV64, "bare")?);
    qemu.args(contrib::arguments(tools, geometry, log));
    qemu.arg("-plugin").arg(format!("{},trace={}", project.counting_plugin()?.display(), trace.display()));
    process::expect(&mut qemu, Duration::from_secs(300))?;
    contrib::read(log)
}

/// Compresses; without names or times, so that the same trace gives the same file.
fn pack(trace: &Path, to: &Path) -> Result<()> {
    let mut from = File::open(trace).map_err(file_error(trace))?;
    let file = File::create(to).map_err(file_error(to))?;
    let mut packer = GzBuilder::new().write(file, Compression::best());
    std::io::copy(&mut from, &mut packer).and_then(|_| packer.finish()).map_err(file_error(to))?;
    Ok(())
}

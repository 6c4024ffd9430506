//! Programs for guests on the bare board, without a system below them, in the time of a timed machine.
//!
//! QEMU runs alone, with the timing plugin: instructions, caches and traps are charged as on the machine's island. The board's own time,
//! by which its timer goes off, is not that: it is a fixed one for each instruction (`-icount`), so both pass at once, and the caller
//! compares them.

use std::{io::Read, path::Path, process::Child, sync::atomic::Ordering::Relaxed, thread, time::Duration};

use motet_error::{Error, ErrorKind, Result};
use motet_layout::Isa;

use crate::{
    Doorbells, HostPool,
    pool::Command,
    qemu,
    timed::{Clocks, Options, Passage},
};
use motet_machine::MachineSpec;

/// How a program is run.
#[derive(Debug)]
pub struct Program<'a> {
    /// An ELF file.
    pub image: &'a Path,
    /// Its arguments.
    pub append: &'a str,
    /// An instruction takes 2 to this power nanoseconds of the board's time.
    pub shift: u32,
    /// It is killed after that.
    pub at_most: Duration,
}

/// What a program has done.
#[derive(Debug)]
pub struct Outcome {
    /// What it has printed.
    pub output: String,
    /// When it came by the points.
    pub passages: Vec<Passage>,
    /// How often that was not kept.
    pub lost: u64,
}

/// Runs a program on the board of the machine's first island, which is one of RISC-V with one core.
///
/// # Errors
/// The machine is another one, QEMU fails, or the program does not end.
pub fn run(machine: &MachineSpec, timing: &Options, program: &Program<'_>) -> Result<Outcome> {
    let Some(island) = machine.islands.first().filter(|island| (island.isa, island.cores) == (Isa::RiscV64, 1)) else {
        return Err(Error::new(ErrorKind::Config, "a bare board is an island of RISC-V with one core"));
    };
    let bells = Doorbells::create(&[1])?;
    let pool = HostPool::create(machine, &Command::default(), bells.host_peer(), false)?;
    let clocks = Clocks::create(timing, machine, &pool)?;
    // There is no kernel that would ask for one.
    pool.header().cores[0].alarm_ns.store(u64::MAX, Relaxed);
    let plugin = clocks.plugin(&pool, &bells, &[1]);
    let mut child = qemu::start_bare(island, program.image, program.append, program.shift, &plugin)?;
    let (output, errors) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let ended = wait(&mut child, program.at_most);
    let [output, errors] = [output, errors].map(|text| text.join().unwrap_or_default());
    if !ended {
        let message =
            format!("{} on the bare board has not ended as it should: {output}{errors}", program.image.display());
        return Err(Error::new(ErrorKind::Software, message));
    }
    let (passages, lost) = clocks.passages();
    Ok(Outcome { output, passages, lost })
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it has ended by itself, with status 0.
fn wait(child: &mut Child, at_most: Duration) -> bool {
    let until = std::time::Instant::now() + at_most;
    while std::time::Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(Duration::from_millis(2)),
            Err(_) => break,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    false
}

//! What pages cost that another kernel has (`user/stramash/pages.c`), as `motet bench stramash` measures it.

use motet_fabric::stats::RegionStats;

use crate::{
    crossing::Programs,
    hthreads::source,
    process::{Motet, root},
    timed::stats_of,
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("stramash::a_page_that_another_kernel_has_takes_two_messages", two_messages),
        trial("stramash::words_of_the_program_are_checked", usage),
    ]
}

const PAGES: u64 = 16;
/// Each access finds another state of its page.
const MISSES: [&str; 9] = [
    "read_miss",
    "write_upgrade",
    "home_write_miss",
    "write_miss",
    "home_read_miss",
    "home_upgrade",
    "fresh",
    "first_1",
    "mapped_64",
];

fn programs() -> Result<Programs, String> {
    let programs = Programs::new()?;
    let include = format!("-I{}", root().join("user/npb").display());
    programs.compile(&source("user/stramash/pages.c"), "pages", &["-std=c11", "-O2", &include])?;
    Ok(programs)
}

fn regions(machine: &str, programs: &Programs) -> Result<Vec<RegionStats>, String> {
    let stats = programs.path.join("stats.json");
    let file = root().join("machines").join(machine).with_extension("toml");
    let options = ["--timed", "--deterministic", "--quantum", "1", "--in"];
    let motet = Motet::run(options)
        .argument(&programs.path)
        .argument("--machine")
        .argument(&file)
        .argument("--stats")
        .argument(&stats);
    let ended = motet.arguments(["--", &format!("/in/programs/pages {PAGES} 0")]).wait();
    ended.expect_code(0)?.expect_output(&format!("pages {PAGES} line_pages {PAGES} to aarch64\n"))?;
    Ok(stats_of(&stats)?.regions)
}

/// Each message rings once. Nothing else is asked of the other kernel meanwhile, and fused kernels ring nobody.
fn two_messages() -> Result<(), String> {
    let programs = programs()?;
    for (machine, wanted) in [("multikernel-shared", 2 * PAGES), ("stramash-shared", 0)] {
        let regions = regions(machine, &programs)?;
        for name in MISSES {
            let region = regions.iter().find(|region| region.name == name && region.open == 0);
            let region = region.ok_or_else(|| format!("{machine}: no region {name}"))?;
            let rung: u64 = region.cores.iter().map(|core| core.ipis_sent).sum();
            if rung != wanted {
                return Err(format!("{machine}, {name}: {rung} doorbells for {PAGES} pages, not {wanted}"));
            }
        }
    }
    Ok(())
}

fn usage() -> Result<(), String> {
    let programs = programs()?;
    let command = "for words in '' 0 1025 '1 8196' '1 2 3'; do /in/programs/pages $words; echo $?; done";
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str(), "--".as_ref(), command.as_ref()]).wait();
    ended.expect_code(0)?.expect_output(&"2\n".repeat(5))?.expect_errors(&["usage: /in/programs/pages PAGES"]).map(drop)
}

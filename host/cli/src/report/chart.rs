//! Regions of the FPGA and virtual machines over one axis of time: who had what, and who ran meanwhile.

use std::collections::BTreeMap;

use motet_fabric::stats::{GuestRunStats, GuestStats, Stats};
use motet_page::{
    format::{count, percent},
    gantt::{self, Kind, Row, Slice},
};

use super::fpga;

/// Runs with less between them than this part of the time shown are drawn as one: nobody could see them apart.
const PARTS: u64 = 1500;

/// The chart, if there were regions or virtual machines.
pub fn section(stats: &Stats) -> String {
    let regions = stats.fpga.as_ref().filter(|fpga| !fpga.changes.is_empty());
    let title = match (regions, &stats.guests) {
        (Some(_), Some(_)) => "Regions and virtual machines over time",
        (Some(_), None) => "Regions over time",
        (None, Some(_)) => "Virtual machines over time",
        (None, None) => return String::new(),
    };
    let mut kinds = if regions.is_some() { fpga::kinds() } else { Vec::new() };
    let mut rows = regions.map_or_else(Vec::new, |fpga| fpga::rows(fpga, stats.time_ps));
    let mut lost = Vec::new();
    if let Some(changes) = regions.map(|fpga| fpga.changes_lost).filter(|lost| *lost != 0) {
        lost.push(format!("{} earlier changes of regions are not shown.", count(changes)));
    }
    if let Some(guests) = &stats.guests {
        let first = |row: &Row| row.slices.first().map(|slice| slice.from_ps);
        let begin_ps = rows.iter().filter_map(first).chain(guests.runs.first().map(|run| run.from_ps)).min();
        let least_ps = stats.time_ps.saturating_sub(begin_ps.unwrap_or(0)) / PARTS;
        rows.extend(guest_rows(stats, guests, kinds.len(), least_ps));
        kinds.push(Kind { name: "a virtual machine runs".into(), colour: "var(--i2)", is_ground: false });
        if guests.runs_lost != 0 {
            lost.push(format!("{} earlier runs of virtual machines are not shown.", count(guests.runs_lost)));
        }
    }
    let heading = if regions.is_some() { "" } else { "<h2 id=\"machines\">Virtual machines</h2>\n" };
    format!("{heading}{}", gantt::figure(title, &lost.join(" "), &kinds, &rows, stats.time_ps))
}

/// A row for each core of a virtual machine; what is less than `least_ps` apart is one slice, which says how much of it was run.
fn guest_rows(stats: &Stats, guests: &GuestStats, kind: usize, least_ps: u64) -> Vec<Row> {
    let mut by_vcpu: BTreeMap<(u32, u32), Vec<&GuestRunStats>> = BTreeMap::new();
    for run in &guests.runs {
        by_vcpu.entry((run.machine, run.vcpu)).or_default().push(run);
    }
    let row = |((machine, vcpu), runs): ((u32, u32), Vec<&GuestRunStats>)| {
        let near = |a: &&GuestRunStats, b: &&GuestRunStats| {
            (a.island, a.core) == (b.island, b.core) && b.from_ps.saturating_sub(a.to_ps) <= least_ps
        };
        let slices = runs.chunk_by(near).map(|runs| slice(stats, runs, kind, least_ps)).collect();
        Row { name: format!("VM {machine}, vCPU {vcpu}"), slices }
    };
    by_vcpu.into_iter().map(row).collect()
}

fn slice(stats: &Stats, runs: &[&GuestRunStats], kind: usize, least_ps: u64) -> Slice {
    let (first, last) = (runs[0], runs[runs.len() - 1]);
    let core = match stats.machine.islands.get(first.island) {
        Some(island) => format!("{}.{}", island.name, first.core),
        None => format!("{}.{}", first.island, first.core),
    };
    // What is there can be seen.
    let to_ps = last.to_ps.max(first.from_ps + least_ps);
    let ran_ps: u64 = runs.iter().map(|run| run.to_ps.saturating_sub(run.from_ps)).sum();
    let title = match runs.len() {
        1 => format!("runs on {core}"),
        many => format!(
            "{} runs on {core}, {} of it",
            count(many as u64),
            percent(ran_ps as f64 / (to_ps - first.from_ps).max(1) as f64)
        ),
    };
    Slice { from_ps: first.from_ps, to_ps, kind, label: core, title }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn run(vcpu: u32, core: usize, from_ps: u64, to_ps: u64) -> GuestRunStats {
        GuestRunStats { machine: 7, vcpu, island: 0, core, from_ps, to_ps }
    }

    #[test]
    fn runs_that_cannot_be_seen_apart_are_one_slice_and_others_are_their_own() {
        let runs = vec![
            run(0, 0, 100, 200),
            run(0, 0, 205, 300),
            run(0, 1, 305, 400),
            run(1, 0, 300, 301),
            run(0, 0, 500, 600),
        ];
        let rows = guest_rows(&sample::stats(1, 2), &GuestStats { runs, runs_lost: 0 }, 3, 10);
        let found: Vec<Vec<[u64; 2]>> =
            rows.iter().map(|row| row.slices.iter().map(|slice| [slice.from_ps, slice.to_ps]).collect()).collect();
        assert_eq!(found, [vec![[100, 300], [305, 400], [500, 600]], vec![[300, 310]]]);
        assert_eq!((rows[0].name.as_str(), rows[1].name.as_str()), ("VM 7, vCPU 0", "VM 7, vCPU 1"));
        assert!(rows[0].slices[0].title.starts_with("2 runs on ") && rows[0].slices[0].kind == 3, "{rows:?}");
    }

    #[test]
    fn regions_and_virtual_machines_are_in_one_drawing() {
        let mut stats = sample::stats(1, 2);
        stats.guests = Some(GuestStats { runs: vec![run(0, 0, 1_000_000_000, 9_000_000_000)], runs_lost: 3 });
        let text = section(&stats);
        assert_eq!(text.matches("<svg").count(), 1);
        for what in ["region 1", "VM 7, vCPU 0", "3 earlier runs", "Regions and virtual machines over time"] {
            assert!(text.contains(what), "{what}: {text}");
        }
        stats.fpga = None;
        assert!(section(&stats).contains("id=\"machines\""));
        stats.guests = None;
        assert_eq!(section(&stats), "");
    }
}

//! The page: the figures of a run as tables and plots.

use std::fmt::Write;

use motet_fabric::stats::{CoreStats, MachineStats, RegionStats, Stats};
use motet_page::format::{count, escape, percent, short, time};

use super::{
    chart, fpga, kernels,
    plots::{self, Bar, Category, Curve, Measure, Rates, Span},
    series::Timeline,
};
use crate::stats::{LEVELS, level_hits};

/// Where a core's time goes.
const TIME: [Category; 3] = [("instructions", "var(--busy)"), ("stalls", "var(--stall)"), ("idle", "var(--idle)")];

/// The same with traps apart, where they were counted.
const TIME_AND_TRAPS: [Category; 4] = [
    ("instructions", "var(--busy)"),
    ("stalls", "var(--stall)"),
    ("traps", "var(--coherence)"),
    ("idle", "var(--idle)"),
];

/// What a core waits for, by the names of the counters.
const STALLS: [(&str, Category); 10] = [
    ("stall_l1_ps", ("L1", "var(--l1)")),
    ("stall_l2_ps", ("L2", "var(--l2)")),
    ("stall_l3_ps", ("L3", "var(--l3)")),
    ("stall_near_ps", ("near memory", "var(--near)")),
    ("stall_far_ps", ("far memory", "var(--far)")),
    ("stall_coherence_ps", ("coherence", "var(--coherence)")),
    ("stall_uncached_ps", ("uncached", "var(--uncached)")),
    ("stall_device_ps", ("devices", "var(--device)")),
    ("stall_tlb_ps", ("second-level TLB", "var(--idle)")),
    ("stall_link_ps", ("links in use", "var(--busy)")),
];

/// What leaves a core's caches, by the names of the counters.
const TRAFFIC: [(&[&str], Category); 4] = [
    (&["near_reads"], ("reads of near memory", "var(--near)")),
    (&["far_reads"], ("reads of far memory", "var(--far)")),
    (&["snoop_data", "snoop_invalidates"], ("snoops of other islands", "var(--coherence)")),
    (&["memory_write_backs"], ("write-backs to memory", "var(--l2)")),
];

/// The colours of islands repeat after so many.
const ISLAND_COLOURS: usize = 8;

/// The whole page.
pub fn page(stats: &Stats) -> String {
    let mut body = header(stats);
    let _ = write!(body, "<h2 id=\"cores\">The whole run, by core</h2>\n{}", cores(stats, &stats.cores));
    let _ = write!(body, "<h2 id=\"time\">Over time</h2>\n{}", over_time(stats));
    let _ = write!(body, "<h2 id=\"regions\">Regions of interest</h2>\n{}", regions(stats));
    body.push_str(&kernels::section(&stats.kernels));
    body.push_str(&stats.fpga.as_ref().map_or_else(String::new, fpga::section));
    body.push_str(&chart::section(stats));
    body.push_str(&machine(stats));
    motet_page::page(&format!("Motet: {}", stats.command), &body)
}

/// What was run, and the figures that one looks for first.
fn header(stats: &Stats) -> String {
    let sum = |of: fn(&CoreStats) -> u64| stats.cores.iter().map(of).sum::<u64>();
    let (time_ps, idle_ps, stall_ps) = (sum(|core| core.time_ps), sum(|core| core.idle_ps), sum(|core| core.stall_ps));
    let (instructions, awake_ps) = (sum(|core| core.instructions), time_ps.saturating_sub(idle_ps));
    let share = |part: u64, whole: u64| percent(part as f64 / whole.max(1) as f64);
    let snoops = sum(snoops);
    let mut facts = vec![
        (time(stats.time_ps), "simulated time"),
        (short(instructions as f64), "instructions"),
        (format!("{:.2}", instructions as f64 / sum(|core| core.cycles).max(1) as f64), "instructions per cycle"),
        (share(stall_ps, awake_ps), "of the time awake in stalls"),
        (share(idle_ps, time_ps), "of all cores' time idle"),
        (short(sum(|core| core.count("far_reads")) as f64), "reads of far memory"),
        (short(snoops as f64), "snoops of other islands"),
        (short(sum(|core| core.ipis_sent) as f64), "doorbells between cores"),
    ];
    if sum(|core| core.transfers) != 0 {
        facts.push((short(sum(|core| core.transfers) as f64), "transfers of migration engines"));
    }
    if let Some(host) = &stats.host {
        facts.push((format!("{:.1}\u{202f}s", host.seconds), "host time"));
        facts.push((format!("{:.1}", host.mips), "MIPS on the host"));
    }
    let tiles: String =
        facts.iter().map(|(value, what)| format!("<div><b>{value}</b><span>{what}</span></div>\n")).collect();
    let chips = stats.machine.islands.iter().enumerate().map(|(index, island)| {
        let plural = if island.cores == 1 { "" } else { "s" };
        let hidden = match island.hidden_harts {
            0 => String::new(),
            harts => format!(" and {harts} hidden"),
        };
        let (name, isa) = (escape(&island.name), escape(&island.isa));
        let colour = island_colour(index);
        format!(
            "<li><i style=\"background:{colour}\"></i><b>{name}</b> {isa}, {} core{plural}{hidden}, {} MHz</li>\n",
            island.cores, island.frequency_mhz
        )
    });
    let order =
        if stats.machine.deterministic { "deterministic: one core at a time" } else { "cores run side by side" };
    let MachineStats { quantum_ps, quantum_max_ps, quantum_least_ps, .. } = stats.machine;
    let quantum = match [quantum_least_ps, quantum_max_ps] {
        [least, _] if least != 0 && least < quantum_ps => format!("{} to {}", time(least), time(quantum_ps)),
        [_, most] if most > quantum_ps => format!("{} to {}", time(quantum_ps), time(most)),
        _ => time(quantum_ps),
    };
    let warnings = stats.warnings.iter().cloned().chain(stats.disorders());
    let warnings: String = warnings.map(|warning| format!("<p class=\"warning\">{}</p>\n", escape(&warning))).collect();
    let links = [("cores", "By core"), ("time", "over time"), ("regions", "regions"), ("machine", "the machine")]
        .map(|(anchor, name)| format!("<a href=\"#{anchor}\">{name}</a>"));
    format!(
        "<header>\n<h1>Timed run</h1>\n<p class=\"soft\">Motet {}; {order}, {quantum} at a time. {}.</p>\n<pre>{}</pre>\n\
         <ul class=\"chips\">\n{}</ul>\n<div class=\"facts\">\n{tiles}</div>\n{warnings}</header>\n",
        escape(&stats.motet),
        links.join(", "),
        escape(&stats.command),
        chips.collect::<String>()
    )
}

/// Tables and plots by core, of the whole run or a region.
fn cores(stats: &Stats, cores: &[CoreStats]) -> String {
    if cores.is_empty() {
        return "<p class=\"note\">No core was counted.</p>\n".into();
    }
    let label = CoreStats::label;
    let bars = |parts: &dyn Fn(&CoreStats) -> Vec<u64>| -> Vec<Bar> {
        cores.iter().map(|core| Bar { label: label(core), parts: parts(core) }).collect()
    };
    let latest_ps = cores.iter().map(|core| core.time_ps).max().unwrap_or(0);
    let times = bars(&|core| {
        let traps_ps = core.count("trap_ps");
        let running_ps = core.time_ps.saturating_sub(core.idle_ps + core.stall_ps + traps_ps);
        // A clock that stands still is that of a core that sleeps.
        vec![running_ps, core.stall_ps, traps_ps, core.idle_ps + latest_ps - core.time_ps]
    });
    let stalls = bars(&|core| STALLS.iter().map(|(name, _)| core.count(name)).collect());
    let traffic =
        bars(&|core| TRAFFIC.iter().map(|(names, _)| names.iter().map(|name| core.count(name)).sum()).collect());
    let rates: Vec<Rates> = cores
        .iter()
        .map(|core| Rates {
            label: label(core),
            colour: colour_of(stats, &core.island),
            hits: level_hits(core).to_vec(),
        })
        .collect();
    let (kinds, moves) = (STALLS.map(|(_, category)| category), TRAFFIC.map(|(_, category)| category));
    let plot = |title: &str, measure: Measure, categories: &[Category], values: &[Bar]| {
        figure(title, &legend(categories), &plots::bars(title, measure, values, categories))
    };
    let plots = [
        plot("Where the time went", Measure::Time, &TIME_AND_TRAPS, &times),
        plot("What cores waited for", Measure::Time, &kinds, &stalls),
        figure("Hits by cache level", "", &plots::rate_table("Hits by cache level", &LEVELS, &rates)),
        plot("Traffic beyond the caches", Measure::Count, &moves, &traffic),
    ];
    format!("{}<div class=\"plots\">\n{}</div>\n", table(stats, cores), plots.concat())
}

fn table(stats: &Stats, cores: &[CoreStats]) -> String {
    let head = [
        "core",
        "time",
        "in stalls",
        "idle",
        "instructions",
        "IPC",
        "L1I hits",
        "L1D hits",
        "L2 hits",
        "L3 hits",
        "L3 misses",
        "far reads",
        "snoops",
        "doorbells sent",
        "doorbells taken",
    ];
    let cells = |core: &CoreStats| {
        let rates = level_hits(core).map(|[hits, accesses]| match accesses {
            0 => "\u{2013}".into(),
            _ => percent(hits as f64 / accesses as f64),
        });
        let mut cells = vec![time(core.time_ps), time(core.stall_ps), time(core.idle_ps), count(core.instructions)];
        cells.push(format!("{:.2}", core.instructions_per_cycle()));
        cells.extend(rates);
        cells.extend(
            [core.count("l3i_misses") + core.count("l3d_misses"), core.count("far_reads"), snoops(core)].map(count),
        );
        cells.extend([core.ipis_sent, core.ipis_received].map(count));
        cells.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>()
    };
    let rows = cores.iter().map(|core| {
        let (colour, name) = (colour_of(stats, &core.island), escape(&core.island));
        format!("<tr><td><i style=\"background:{colour}\"></i>{name}.{}</td>{}</tr>\n", core.core, cells(core))
    });
    let total = match cores {
        [_, _, ..] => format!("<tfoot><tr><td>all</td>{}</tr></tfoot>\n", cells(&sum(cores))),
        _ => String::new(),
    };
    let head: String = head.iter().map(|name| format!("<th>{name}</th>")).collect();
    let rows: String = rows.collect();
    format!(
        "<div class=\"scroll\">\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n{total}</table>\n</div>\n"
    )
}

/// All cores as one.
fn sum(cores: &[CoreStats]) -> CoreStats {
    let mut all = CoreStats::default();
    for core in cores {
        all.time_ps += core.time_ps;
        all.idle_ps += core.idle_ps;
        all.stall_ps += core.stall_ps;
        all.cycles += core.cycles;
        all.instructions += core.instructions;
        all.ipis_sent += core.ipis_sent;
        all.ipis_received += core.ipis_received;
        all.transfers += core.transfers;
        for (name, value) in &core.memory {
            *all.memory.entry(name.clone()).or_default() += value;
        }
    }
    all
}

/// Other islands' caches that a core's accesses asked or took a line from.
fn snoops(core: &CoreStats) -> u64 {
    core.count("snoop_data") + core.count("snoop_invalidates")
}

fn over_time(stats: &Stats) -> String {
    let Some(timeline) = Timeline::of(stats) else {
        return "<p class=\"note\">No samples were taken in this run.</p>\n".into();
    };
    let span = Span { interval_ps: timeline.interval_ps, bins: timeline.bins };
    let interval_ms = timeline.interval_ps / 1e9;
    let islands: Vec<usize> = (0..stats.machine.islands.len()).collect();
    let by_island = |value: &dyn Fn(usize) -> Vec<Option<f64>>| -> Vec<Curve> {
        islands
            .iter()
            .map(|&index| Curve {
                name: stats.machine.islands[index].name.clone(),
                colour: island_colour(index),
                dashed: index >= ISLAND_COLOURS / 2,
                values: value(index),
            })
            .collect()
    };
    let rates = |names: &'static [&'static str]| {
        by_island(&|index| timeline.island(index, names).into_iter().map(|value| Some(value / interval_ms)).collect())
    };
    let legend = island_legend(stats);
    let plot = |title: &str, unit: &str, curves: &[Curve]| {
        figure(&format!("{title}, {unit}"), &legend, &plots::curves(title, span, unit, curves))
    };
    let per_cycle = by_island(&|index| instructions_per_cycle(stats, &timeline, index));
    let millions = by_island(&|index| {
        timeline.island(index, &["instructions"]).into_iter().map(|value| Some(value / interval_ms / 1e3)).collect()
    });
    let shares: String = islands.iter().map(|&index| island_shares(stats, &timeline, span, index)).collect();
    let plots = [
        plot("Instructions", "millions per simulated second", &millions),
        plot("Instructions per cycle", "awake", &per_cycle),
        plot("Reads of far memory", "per simulated ms", &rates(&["far_reads"])),
        plot("Snoops of other islands", "per simulated ms", &rates(&["snoop_data", "snoop_invalidates"])),
        plot("Doorbells rung", "per simulated ms", &rates(&["ipis_sent"])),
    ];
    format!("<div class=\"plots\">\n{shares}</div>\n<div class=\"plots\">\n{}</div>\n", plots.concat())
}

/// Nothing where the island was (almost) asleep: of a longer sleep, samples do not say how little it was awake when.
fn instructions_per_cycle(stats: &Stats, timeline: &Timeline, island: usize) -> Vec<Option<f64>> {
    let cycles_per_ps = stats.machine.islands[island].frequency_mhz as f64 / 1e6;
    let [instructions, time_ps, idle_ps] =
        ["instructions", "time_ps", "idle_ps"].map(|name| timeline.island(island, &[name]));
    let values =
        instructions.into_iter().zip(time_ps.into_iter().zip(idle_ps)).map(|(instructions, (time_ps, idle_ps))| {
            let awake_ps = time_ps - idle_ps;
            (awake_ps > timeline.interval_ps / 20.0).then(|| instructions / (awake_ps * cycles_per_ps))
        });
    values.collect()
}

/// An island's time over the run.
fn island_shares(stats: &Stats, timeline: &Timeline, span: Span, index: usize) -> String {
    let whole_ps = timeline.interval_ps * timeline.cores_of(index).max(1) as f64;
    let [time_ps, idle_ps, stall_ps] = ["time_ps", "idle_ps", "stall_ps"].map(|name| timeline.island(index, &[name]));
    let mut shares = vec![Vec::new(); TIME.len()];
    for bin in 0..timeline.bins {
        let awake = ((time_ps[bin] - idle_ps[bin]) / whole_ps).clamp(0.0, 1.0);
        let stall = (stall_ps[bin] / whole_ps).clamp(0.0, awake);
        // A clock that stood still belongs to a core that slept.
        for (values, share) in shares.iter_mut().zip([awake - stall, stall, 1.0 - awake]) {
            values.push(share);
        }
    }
    let island = &stats.machine.islands[index];
    let title = format!("Time of {}", island.name);
    figure(&title, &legend(&TIME), &plots::shares(&title, span, &TIME, &shares))
}

fn regions(stats: &Stats) -> String {
    if stats.regions.is_empty() {
        return "<p class=\"note\">None: neither <code>motet_roi_begin</code> nor <code>motet roi</code> was used.</p>\n".into();
    }
    stats.regions.iter().enumerate().map(|(index, region)| one_region(stats, region, index)).collect()
}

fn one_region(stats: &Stats, region: &RegionStats, index: usize) -> String {
    let times = if region.entries == 1 { "once".into() } else { format!("{} times", count(region.entries)) };
    let open = if region.open == 0 { "" } else { " The command ended inside it." };
    // Of many regions only the first are shown at once.
    let shown = if index < 4 { " open=\"open\"" } else { "" };
    format!(
        "<details{shown}>\n<summary>{}</summary>\n<p class=\"note\">{} in it, entered {times}; cores\u{2019} clocks were up to \
         {} apart when it began or ended.{open}</p>\n{}</details>\n",
        escape(&region.name),
        time(region.time_ps),
        time(region.skew_ps),
        cores(stats, &region.cores)
    )
}

fn machine(stats: &Stats) -> String {
    format!(
        "<h2 id=\"machine\">The machine</h2>\n<details>\n<summary>Its description</summary>\n<pre>{}</pre>\n</details>\n\
         <p class=\"note\">All figures are in <a href=\"stats.json\">stats.json</a>; docs/stats.md explains them.</p>\n",
        escape(&stats.machine.description)
    )
}

fn figure(title: &str, legend: &str, drawing: &str) -> String {
    format!("<figure>\n<h3>{}</h3>\n{legend}{drawing}</figure>\n", escape(title))
}

fn legend(categories: &[Category]) -> String {
    let entries =
        categories.iter().map(|(name, colour)| format!("<li><i style=\"background:{colour}\"></i>{name}</li>"));
    format!("<ul class=\"legend\">{}</ul>\n", entries.collect::<String>())
}

fn island_legend(stats: &Stats) -> String {
    let entries = stats.machine.islands.iter().enumerate().map(|(index, island)| {
        let class = if index >= ISLAND_COLOURS / 2 { " class=\"dashed\"" } else { "" };
        format!("<li><i{class} style=\"background:{}\"></i>{}</li>", island_colour(index), escape(&island.name))
    });
    format!("<ul class=\"legend\">{}</ul>\n", entries.collect::<String>())
}

fn island_colour(index: usize) -> String {
    format!("var(--i{})", index % ISLAND_COLOURS)
}

fn colour_of(stats: &Stats, island: &str) -> String {
    island_colour(stats.machine.islands.iter().position(|other| other.name == island).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// The page is written so that a strict reader takes it, too.
    fn parse(page: &str) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(page, options).unwrap()
    }

    #[test]
    fn the_page_is_well_formed_and_needs_nothing_else() {
        for (islands, cores) in [(1, 1), (3, 2), (8, 4)] {
            let text = page(&sample::stats(islands, cores));
            let document = parse(&text);
            let names: Vec<&str> = document.descendants().map(|node| node.tag_name().name()).collect();
            let drawings = 3 * 4 + 5 + islands + 1; // by core of the run and two regions; over time; shares by island; the FPGA
            assert_eq!(names.iter().filter(|name| **name == "svg").count(), drawings);
            assert!(!names.iter().any(|name| ["script", "link", "img", "iframe", "b\u{fffd}"].contains(name)));
            assert!(!text.contains("http") && !text.contains("NaN") && !text.contains("url("));
        }
    }

    #[test]
    fn what_users_wrote_is_text() {
        let stats = sample::stats(2, 1);
        let text = page(&stats);
        let document = parse(&text);
        let shown: Vec<&str> =
            document.descendants().filter(|node| node.has_tag_name("pre")).filter_map(|node| node.text()).collect();
        assert_eq!(shown, [stats.command.as_str(), stats.machine.description.as_str()]);
        let summaries = document.descendants().filter(|node| node.has_tag_name("summary"));
        assert!(summaries.filter_map(|node| node.text()).any(|name| name == "parse <input>"));
    }

    #[test]
    fn messages_between_kernels_have_a_table_where_there_are_several() {
        let mut stats = sample::stats(2, 1);
        let text = page(&stats);
        let document = parse(&text);
        let heading = document.descendants().find(|node| node.attribute("id") == Some("kernels")).unwrap();
        let table = heading.next_sibling_element().unwrap();
        let cells = |tag: &str| {
            table.descendants().filter(|node| node.has_tag_name(tag)).filter_map(|node| node.text()).collect::<Vec<_>>()
        };
        assert_eq!(cells("th"), ["messages", "x86 sent", "x86 taken", "arm sent", "arm taken"]);
        assert_eq!(cells("td")[..5], ["node_info", "1", "1", "1", "1"]);
        stats.kernels.clear();
        assert!(!page(&stats).contains("kernels"));
    }

    #[test]
    fn a_run_without_samples_and_regions_has_a_page() {
        let mut stats = sample::stats(2, 2);
        (stats.samples, stats.regions, stats.host) = Default::default();
        let text = page(&stats);
        parse(&text);
        assert!(text.contains("No samples were taken") && text.contains("neither <code>motet_roi_begin</code>"));
        let nothing = page(&Stats::default());
        parse(&nothing);
        assert!(nothing.contains("No core was counted") && !nothing.contains("NaN"));
    }

    #[test]
    fn the_table_has_every_core_and_the_sum() {
        let stats = sample::stats(3, 2);
        let text = table(&stats, &stats.cores);
        let document = parse(&text);
        let rows: Vec<_> = document.descendants().filter(|node| node.has_tag_name("tr")).collect();
        assert_eq!(rows.len(), 1 + 6 + 1);
        let cells = |row: usize| rows[row].children().filter(|node| node.is_element()).count();
        assert!((1..rows.len()).all(|row| cells(row) == cells(0)));
        let instructions: u64 = stats.cores.iter().map(|core| core.instructions).sum();
        assert!(text.rsplit("<tfoot>").next().unwrap().contains(&count(instructions)));
    }

    /// Writes a page to look at: `MOTET_REPORT=DIR cargo test -p motet-cli look_at_a_report`.
    #[test]
    fn look_at_a_report() {
        if let Some(folder) = std::env::var_os("MOTET_REPORT") {
            for (islands, cores) in [(3, 2), (8, 4)] {
                let path = std::path::Path::new(&folder).join(format!("{islands}x{cores}"));
                crate::report::Folder::prepare(&path).unwrap().write(&sample::stats(islands, cores)).unwrap();
            }
        }
    }
}

//! What one page costs that another island uses (`user/stramash/pages.c`), beside what the machine file charges; and a few lines of one (Figure 12).

use motet_error::Result;
use motet_fabric::stats::{CoreStats, RegionStats};

use super::{
    charged::{self, Charged},
    paper,
    runs::{Case, Kept, Model, Runs, Size, System},
};
use crate::{project, report::Measurement};

const PAGES: u32 = 512;
/// Lines of a page that are read.
pub const LINES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// As many pages are used in these regions.
const LINE_PAGES: u32 = 256;

/// Regions, what they are called in metrics, and what they are.
const MISSES: [(&str, &str, &str); 7] = [
    ("read_miss", "miss", "a word is read of a page that home has written"),
    ("write_miss", "write_miss", "a word is written of a page that home has written"),
    ("write_upgrade", "upgrade", "a word is written of a page that was read"),
    ("fresh", "fresh", "a word is written of a page that nobody has used"),
    ("home_read_miss", "home_read_miss", "home reads a word of a page that was written away"),
    ("home_write_miss", "home_write_miss", "home writes a word of a page that was written away"),
    ("home_upgrade", "home_upgrade", "home writes a word of a page that both have read"),
];

/// Of what a miss consists, and the counters of it.
const PARTS: [(&str, &[&str]); 6] = [
    ("instructions", &[]),
    ("caches", &["stall_l1_ps", "stall_l2_ps", "stall_l3_ps", "stall_tlb_ps"]),
    ("memory", &["stall_near_ps", "stall_far_ps"]),
    ("coherence", &["stall_coherence_ps"]),
    ("devices", &["stall_device_ps", "stall_uncached_ps"]),
    ("traps", &["trap_ps"]),
];

/// Pages in a memory model, on both systems.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Which model.
    pub model: Model,
    /// What is charged for a read miss.
    pub charged: Charged,
    /// Microseconds a page by [`MISSES`], of [`System::BOTH`].
    pub misses: [Vec<f64>; 2],
    /// Microseconds a page by [`LINES`], of [`System::BOTH`]: of pages never used there, and of pages used before.
    pub first: [Vec<f64>; 2],
    /// The same of pages that were used there before.
    pub mapped: [Vec<f64>; 2],
    /// Of the multiple-kernel's read miss, in the order of [`PARTS`], both cores together; then doorbells, and what was at the same time.
    pub parts_us: Vec<(&'static str, f64)>,
    /// What it was measured on.
    pub machine: String,
}

impl Pages {
    /// A read miss over what is charged for it.
    pub fn over_charged(&self) -> f64 {
        self.misses[1][0] / self.charged.us()
    }

    /// So many times as long as on fused kernels, by [`LINES`]: of pages never used there, and of pages used before.
    pub fn line_ratios(&self) -> [Vec<f64>; 2] {
        [&self.first, &self.mapped]
            .map(|[fused, multikernel]| multikernel.iter().zip(fused).map(|(slow, fast)| slow / fast).collect())
    }
}

/// Measures these models.
///
/// # Errors
/// The program does not compile, or a machine file is missing.
pub fn measure(runs: &mut Runs, models: &[Model]) -> Result<Vec<Result<Pages>>> {
    let program = runs.compile("user/stramash/pages.c", &["-O2"], "pages")?;
    let case = |runs: &Runs, system: System, model: Model| -> Result<Case> {
        let machine = runs.machine(system, model, Size::default())?;
        Ok(Case { program: program.clone(), arguments: PAGES.to_string(), machine, weight: 3.0 })
    };
    let mut cases = Vec::new();
    for &model in models {
        cases.push((model, [case(runs, System::Fused, model)?, case(runs, System::Multikernel, model)?]));
    }
    runs.announce(cases.iter().flat_map(|(_, cases)| cases));
    Ok(cases.iter().map(|(model, cases)| of_model(runs, *model, cases)).collect())
}

fn of_model(runs: &mut Runs, model: Model, cases: &[Case; 2]) -> Result<Pages> {
    let kept = [runs.run(&cases[0])?, runs.run(&cases[1])?];
    let each = |regions: &dyn Fn(&Kept) -> Result<Vec<f64>>| -> Result<[Vec<f64>; 2]> {
        Ok([regions(&kept[0])?, regions(&kept[1])?])
    };
    let lines = |start: &str| {
        each(&|kept| LINES.iter().map(|lines| us_of(kept, &format!("{start}_{lines}"), LINE_PAGES)).collect())
    };
    let spec = &cases[1].machine.machine;
    let charged = charged::read_miss(spec)?;
    Ok(Pages {
        model,
        charged,
        misses: each(&|kept| MISSES.iter().map(|(region, ..)| us_of(kept, region, PAGES)).collect())?,
        first: lines("first")?,
        mapped: lines("mapped")?,
        parts_us: parts(kept[1].region("read_miss")?, charged.doorbells_us / 2.0),
        machine: project::describe(spec)?,
    })
}

fn us_of(kept: &Kept, region: &str, pages: u32) -> Result<f64> {
    Ok(kept.region(region)?.time_ps as f64 / 1e6 / f64::from(pages))
}

/// Microseconds a page of both cores; `doorbell_us`: what one takes.
fn parts(region: &RegionStats, doorbell_us: f64) -> Vec<(&'static str, f64)> {
    let per_page =
        |of: &dyn Fn(&CoreStats) -> u64| region.cores.iter().map(of).sum::<u64>() as f64 / 1e6 / f64::from(PAGES);
    let mut parts: Vec<(&str, f64)> = PARTS
        .iter()
        .map(|&(name, counters)| match name {
            "instructions" => {
                let of = |core: &CoreStats| {
                    core.time_ps.saturating_sub(core.idle_ps + core.stall_ps + core.count("trap_ps"))
                };
                (name, per_page(&of))
            }
            _ => (name, per_page(&|core| counters.iter().map(|counter| core.count(counter)).sum())),
        })
        .collect();
    // Per million picoseconds and page: woken cores times what waking takes.
    parts.push(("doorbells", per_page(&|core| core.ipis_received) * 1e6 * doorbell_us));
    let sum: f64 = parts.iter().map(|(_, us)| us).sum();
    parts.push(("overlap", sum - region.time_ps as f64 / 1e6 / f64::from(PAGES)));
    parts
}

/// The figures.
pub fn measurements(all: &[Pages]) -> Vec<Measurement> {
    let mut measured: Vec<Measurement> = all.iter().flat_map(of_pages).collect();
    let worst = all.iter().max_by(|a, b| a.over_charged().total_cmp(&b.over_charged()));
    measured.extend(worst.map(|pages| Measurement {
        target: Some(1.15),
        ..measurement(pages, "dsm_miss_over_charged".into(), pages.over_charged(), "ratio", "the worst memory model")
    }));
    let shared = all.iter().find(|pages| pages.model == Model::Shared);
    measured.extend(shared.into_iter().flat_map(|pages| {
        let [first, mapped] = pages.line_ratios();
        let one = |name: &str, value, reference, source| Measurement {
            reference,
            ..measurement(pages, name.into(), value, "ratio", source)
        };
        let mapped_source = "a page that the reader has in its page table, on Shared: time with messages over time on fused kernels; reference: Figure 12";
        [
            one("dsm_one_line_ratio", mapped[0], Some(paper::ONE_LINE_RATIO), mapped_source),
            one("dsm_whole_page_ratio", mapped[LINES.len() - 1], Some(paper::WHOLE_PAGE_RATIO), mapped_source),
            one("dsm_one_line_first_ratio", first[0], None, "the same of a page that the reader has never used"),
        ]
    }));
    measured
}

fn measurement(pages: &Pages, metric: String, value: f64, unit: &'static str, source: &str) -> Measurement {
    Measurement {
        metric,
        value,
        unit,
        machine: pages.machine.clone(),
        reference: None,
        target: None,
        source: source.into(),
    }
}

fn of_pages(pages: &Pages) -> Vec<Measurement> {
    let model = pages.model.metric();
    let us =
        |name: &str, value: f64, source: &str| measurement(pages, format!("{name}_us_{model}"), value, "us", source);
    let mut all = Vec::new();
    for (system, misses) in System::BOTH.into_iter().zip(&pages.misses) {
        let start = if system == System::Fused { "fused_page" } else { "dsm" };
        for ((_, name, source), &value) in MISSES.iter().zip(misses) {
            all.push(us(&format!("{start}_{name}"), value, source));
        }
    }
    let Charged { copies_us, snoops_us, doorbells_us, traps_us } = pages.charged;
    for (name, value, source) in [
        ("dsm_miss_charged", pages.charged.us(), "the sum that the machine file charges for a read miss"),
        ("dsm_miss_charged_copies", copies_us, "of it, four copies of 64 lines"),
        (
            "dsm_miss_charged_snoops",
            snoops_us,
            "of the copies, lines that come from the writer's cache, over memory's time",
        ),
        ("dsm_miss_charged_doorbells", doorbells_us, "of it, a doorbell there and one back"),
        ("dsm_miss_charged_traps", traps_us, "of it, a fault, its return, two interrupts"),
    ] {
        all.push(us(name, value, source));
    }
    for &(name, value) in &pages.parts_us {
        let source = match name {
            "overlap" => "counted twice in the others, as both cores were busy",
            _ => "of a read miss, both cores",
        };
        all.push(us(&format!("dsm_miss_{name}"), value, source));
    }
    let name = format!("dsm_miss_over_charged_{model}");
    all.push(Measurement {
        target: Some(1.15),
        ..measurement(pages, name, pages.over_charged(), "ratio", "a read miss over what the machine file charges")
    });
    for (kind, ratios) in ["first", "mapped"].into_iter().zip(pages.line_ratios()) {
        for (lines, ratio) in LINES.into_iter().zip(ratios) {
            let name = format!("dsm_{lines}_lines_{kind}_ratio_{model}");
            all.push(measurement(pages, name, ratio, "ratio", "time with messages over time on fused kernels"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(time_ps: u64, idle_ps: u64, stall_ps: u64) -> CoreStats {
        let memory = [("stall_far_ps".to_owned(), stall_ps)].into();
        CoreStats { time_ps, idle_ps, stall_ps, ipis_received: u64::from(PAGES), memory, ..CoreStats::default() }
    }

    #[test]
    fn parts_and_their_overlap_add_up_to_the_miss() {
        // 100 us a page: 40 us on one core, of which 30 wait for memory, 60 us on the other, of which 35 do, and two doorbells of 2 us.
        let each = |us: u64| us * 1_000_000 * u64::from(PAGES);
        let cores = vec![core(each(100), each(60), each(30)), core(each(100), each(40), each(35))];
        let region = RegionStats { time_ps: each(100), cores, ..RegionStats::default() };
        let parts = parts(&region, 2.0);
        let part = |name: &str| parts.iter().find(|(part, _)| *part == name).unwrap().1;
        assert_eq!((part("instructions"), part("memory"), part("doorbells")), (35.0, 65.0, 4.0));
        assert!((part("overlap") - 4.0).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn the_headline_is_the_worst_model_and_lines_are_those_of_shared() {
        let pages = |model, miss: f64, one: f64| Pages {
            model,
            charged: Charged { copies_us: 96.0, snoops_us: 1.0, doorbells_us: 3.0, traps_us: 1.0 },
            misses: [vec![1.0; 7], vec![miss; 7]],
            first: [vec![2.0; 7], vec![one; 7]],
            mapped: [vec![0.5; 7], vec![one; 7]],
            parts_us: vec![("instructions", 1.0)],
            machine: "m".into(),
        };
        let all = measurements(&[pages(Model::Separated, 150.0, 90.0), pages(Model::Shared, 110.0, 100.0)]);
        let value = |name: &str| all.iter().find(|measured| measured.metric == name).unwrap().value;
        assert_eq!(value("dsm_miss_over_charged"), 1.5);
        assert_eq!(value("dsm_miss_over_charged_shared"), 1.1);
        assert_eq!((value("dsm_one_line_ratio"), value("dsm_one_line_first_ratio")), (200.0, 50.0));
        assert_eq!((value("dsm_miss_us_shared"), value("fused_page_miss_us_shared")), (110.0, 1.0));
    }
}

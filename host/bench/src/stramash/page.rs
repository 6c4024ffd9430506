//! The figures as tables, and as a page with the paper's plots.

use std::fmt::Write;

use motet_page::{
    bars::{self, Bar},
    chart::{Curve, Scale, figure, scaled_figure},
    svg::Stroke,
};

use super::{
    access::{self, Access},
    futex::Futex,
    npb::{Benchmark, Class, Level, Pair},
    pages::{LINES, Pages},
    paper,
    runs::System,
};
use crate::{
    page::{self, rows_of},
    report::{Measurement, number},
};

/// A title, heads and rows.
type Table = (String, Vec<String>, Vec<Vec<String>>);

/// Everything that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The problem's size.
    pub class: Class,
    /// Benchmarks.
    pub pairs: Vec<Pair>,
    /// Pages.
    pub pages: Vec<Pages>,
    /// Memory of the other island.
    pub access: Vec<Access>,
    /// Wake-ups.
    pub futex: Vec<Futex>,
}

impl Results {
    /// What is printed beside the figures.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        for (title, heads, rows) in self.all_tables() {
            let _ = writeln!(text, "\n{title}");
            let width = |column: usize| rows.iter().chain([&heads]).map(|row| row[column].len()).max().unwrap_or(0);
            for row in [&heads].into_iter().chain(&rows) {
                let (first, cells) = row.split_first().expect("a head");
                let _ = write!(text, "  {first:<0$}", width(0));
                for (index, cell) in cells.iter().enumerate() {
                    let _ = write!(text, "  {cell:>0$}", width(index + 1));
                }
                text.push('\n');
            }
        }
        text
    }

    fn all_tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        if !self.pairs.is_empty() {
            tables.push(self.times());
            tables.push(self.messages());
        }
        if !self.pages.is_empty() {
            tables.push(self.misses());
        }
        if !self.access.is_empty() {
            tables.push(self.accesses());
        }
        if !self.futex.is_empty() {
            tables.push(self.wakes());
        }
        tables
    }

    fn times(&self) -> Table {
        let heads = [
            "class",
            "schedule",
            "memory",
            "fused ms",
            "Popcorn-SHM ms",
            "Popcorn-TCP ms",
            "prefetch ms",
            "by reference ms",
            "both ms",
            "adaptive ms",
            "home ms",
            "Popcorn/fused",
            "Popcorn/adaptive",
            "best rival/adaptive",
            "paper (class A)",
        ];
        let rows = self.pairs.iter().map(|pair| {
            let best = { System::RIVALS.iter() }
                .filter_map(|&rival| pair.over(System::Adaptive, rival))
                .min_by(|one, other| one.total_cmp(other));
            let ms = |system| pair.seconds(system).map_or("-".into(), |seconds| number(1e3 * seconds));
            let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
            vec![
                format!("{} {} {}", pair.benchmark.name(), self.class.letter(), pair.level.option()),
                pair.benchmark.schedule().to_owned(),
                pair.model.name().to_owned(),
                ms(System::Fused),
                ms(System::Multikernel),
                ms(System::Tcp),
                ms(System::Prefetch),
                ms(System::ByReference),
                ms(System::PrefetchByReference),
                ms(System::Adaptive),
                number(1e3 * pair.home_s),
                ratio(Some(pair.ratio())),
                ratio(pair.over(System::Adaptive, System::Multikernel)),
                ratio(best),
                ratio(pair.benchmark.published(pair.model, pair.level)),
            ]
        });
        let title = "Time of the timed part, and how many times as long a kernel for each island takes".to_owned();
        (title, heads.map(str::to_owned).to_vec(), rows.collect())
    }

    fn messages(&self) -> Table {
        let heads = [
            "Popcorn-SHM",
            "memory",
            "messages",
            "arrays need",
            "paper (class A)",
            "REQUEST",
            "RESPONSE",
            "SHORT",
            "INVALIDATE pairs",
            "MIGRATE + PAIRING + BACK",
            "others",
            "for calls",
            "MiB",
            "fused",
            "fused doorbells",
        ];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for pair in &self.pairs {
            let row = self.messages_of(pair);
            // Where models do not differ, one row is enough.
            match rows.last_mut().filter(|last| last[0] == row[0] && last[2..] == row[2..]) {
                Some(last) => last[1] = format!("{}, {}", last[1], row[1]),
                None => rows.push(row),
            }
        }
        ("Messages of the whole program".to_owned(), heads.map(str::to_owned).to_vec(), rows)
    }

    fn messages_of(&self, pair: &Pair) -> Vec<String> {
        let [fused, multikernel] = pair.both();
        let of = |kind: &str| {
            let found = multikernel.kinds.iter().find(|(name, _)| name == kind);
            found.map_or(0, |&(_, count)| count)
        };
        let pages = ["remote_page_request", "remote_page_response", "remote_page_response_short"].map(of);
        let pairs = [of("page_invalidate_request"), of("page_invalidate_response")];
        let crossings = ["task_migrate", "task_pairing", "task_migrate_back"].map(of);
        let others = multikernel.messages - [&pages[..], &pairs, &crossings].concat().iter().sum::<u64>();
        let mut row = vec![
            format!("{} {} {}", pair.benchmark.name(), self.class.letter(), pair.level.option()),
            pair.model.name().to_owned(),
            multikernel.messages.to_string(),
            pair.benchmark.counted(self.class).to_string(),
            paper::MESSAGES[pair.benchmark as usize].to_string(),
        ];
        row.extend(pages.map(|count| count.to_string()));
        row.push(pairs[0].to_string());
        row.push(crossings.map(|count| count.to_string()).join(" + "));
        row.extend([others, multikernel.calls].map(|count| count.to_string()));
        row.push(format!("{:.1}", multikernel.bytes as f64 / f64::from(1 << 20)));
        row.extend([fused.messages, fused.doorbells].map(|count| count.to_string()));
        row
    }

    fn misses(&self) -> Table {
        let heads = [
            "memory",
            "read miss us",
            "charged us",
            "ratio",
            "write miss us",
            "upgrade us",
            "fused read us",
            "1 line",
            "64 lines",
            "1 line, first use",
        ];
        let rows = self.pages.iter().map(|pages| {
            let [first, mapped] = pages.line_ratios();
            let [fused, multikernel] = &pages.misses;
            vec![
                pages.model.name().to_owned(),
                number(multikernel[0]),
                number(pages.charged.us()),
                format!("{:.2}", pages.over_charged()),
                number(multikernel[1]),
                number(multikernel[2]),
                number(fused[0]),
                number(mapped[0]),
                number(mapped[LINES.len() - 1]),
                number(first[0]),
            ]
        });
        let title = "A page of another kernel; how many times as long a kernel for each island takes for lines of a page (the paper: more than 300, about 2)";
        (title.to_owned(), heads.map(str::to_owned).to_vec(), rows.collect())
    }
}

impl Results {
    fn accesses(&self) -> Table {
        let mut heads = vec!["10 MiB, ms".to_owned()];
        for access in &self.access {
            heads.extend(access::SYSTEMS.map(|system| format!("{}, {}", short(system), access.model.name())));
        }
        let row = |(index, (_, what)): (usize, &(&str, &str))| {
            let times = self.access.iter().flat_map(|access| access.ms.iter().map(move |ms| number(ms[index])));
            [(*what).to_owned()].into_iter().chain(times).collect()
        };
        let rows = access::PASSES.iter().enumerate().map(row).collect();
        ("Memory that the other island has written (Figure 11)".to_owned(), heads, rows)
    }

    fn wakes(&self) -> Table {
        let heads =
            ["memory", "fused us", "SHM us", "SHM/fused", "fused doorbells", "SHM doorbells", "both at home us"];
        let rows = self.futex.iter().map(|futex| {
            let [fused, rival] = &futex.systems;
            let name = [futex.model.name().to_owned()];
            let values = [fused.us, rival.us, rival.us / fused.us, fused.doorbells, rival.doorbells, fused.home_us];
            name.into_iter().chain(values.map(number)).collect()
        });
        ("From one wake-up to the next (Figure 13)".to_owned(), heads.map(str::to_owned).to_vec(), rows.collect())
    }
}

/// A system's name beside bars.
const fn short(system: System) -> &'static str {
    match system {
        System::Fused => "fused",
        System::Multikernel => "SHM",
        System::Adaptive => "adaptive",
        System::Tcp => "TCP",
        System::Prefetch => "prefetch",
        System::ByReference => "in place",
        System::PrefetchByReference => "both",
    }
}

/// What the page shows.
pub fn body(results: &Results, measurements: &[Measurement]) -> String {
    let mut body = "<header>\n<h1>Motet beside Stramash</h1>\n<p class=\"soft\">A thread that goes to another instruction set and back, in simulated time: on \
                    fused kernels, and on the same kernels with memory of their own, which exchange pages in messages as Popcorn Linux does. \
                    <code>docs/benchmarks.md</code> says how each figure is measured, and what differs from the paper.</p>\n</header>\n"
        .to_owned();
    for level in Level::BOTH {
        let of_level =
            |benchmark| results.pairs.iter().filter(move |pair| pair.level == level && pair.benchmark == benchmark);
        let plots: String = Benchmark::ALL
            .into_iter()
            .map(|benchmark| bars_of(benchmark, &of_level(benchmark).collect::<Vec<_>>()))
            .collect();
        if !plots.is_empty() {
            let _ = writeln!(
                body,
                "<h2>Figure 9: class {}, {}</h2>\n<p class=\"note\">Shorter is better; 1 is the program that stays at home, in near memory. \
                 SHM and TCP are kernels that exchange messages; with <i>adaptive</i>, pages follow the island that uses them.</p>\n<div class=\"plots\">\n{plots}</div>",
                results.class.letter(),
                level.option()
            );
        }
    }
    body += &added(&results.pairs);
    body += &lines(&results.pages);
    body += &accesses(&results.access);
    body += &wakes(&results.futex);
    for (title, heads, rows) in results.all_tables() {
        let _ = writeln!(body, "<h2>{}</h2>", motet_page::format::escape(&title));
        body += &rows_of(&heads, &rows);
    }
    body + &page::all_figures(measurements)
}

/// The bars of a benchmark, over the time at home; nothing if it was not measured.
fn bars_of(benchmark: Benchmark, pairs: &[&Pair]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let looks = [
        (System::Multikernel, "SHM ", "var(--i1)"),
        (System::Fused, "", "var(--i0)"),
        (System::Adaptive, "adaptive ", "var(--i2)"),
    ];
    let bars: Vec<Bar> = looks
        .into_iter()
        .flat_map(|(system, start, colour)| {
            pairs.iter().filter_map(move |pair| {
                let (name, value) = (format!("{start}{}", pair.model.name()), pair.seconds(system)? / pair.home_s);
                Some(Bar { name, colour, value })
            })
        })
        .collect();
    bars::figure(&format!("{}, {}", benchmark.name(), benchmark.schedule()), "time over time at home", &bars)
}

/// The ratio of IS over what software could take longer for each exchange, with the paper's.
fn added(pairs: &[Pair]) -> String {
    let colours = ["var(--i0)", "var(--i1)", "var(--i2)"];
    let curves = |level: Level| {
        let of = pairs.iter().filter(move |pair| pair.benchmark == Benchmark::Is && pair.level == level);
        of.map(|pair| Curve {
            name: pair.model.name().into(),
            colour: colours[pair.model as usize],
            stroke: Stroke::Solid,
            points: (0..=20)
                .map(|step| f64::from(step * 10))
                .map(|added_us| [added_us, pair.ratio_with(added_us)])
                .collect(),
        })
        .collect::<Vec<Curve>>()
    };
    let plot = |level: Level| {
        let title = format!("IS, {}: how many times as long messages take", level.option());
        let across = "us that each request with its answer takes longer";
        match &*curves(level) {
            [] => String::new(),
            curves => figure(&title, [across, "ratio"], Some(paper::IS_OVER_POPCORN), curves),
        }
    };
    match Level::BOTH.map(plot).concat() {
        plots if plots.is_empty() => plots,
        plots => format!(
            "<h2>How long a miss would have to take</h2>\n<p class=\"note\">Computed from the runs: only the left ends are measured. The line is the paper’s \
             2.1 (class A, -O0).</p>\n<div class=\"plots\">\n{plots}</div>\n"
        ),
    }
}

/// Figure 12.
fn lines(all: &[Pages]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let colours = ["var(--i0)", "var(--i1)", "var(--i2)"];
    let of = |pages: &Pages, colour, system: System| Curve {
        name: format!("{}{}", if system == System::Fused { "fused, " } else { "messages, " }, pages.model.name()),
        colour,
        stroke: if system == System::Fused { Stroke::Solid } else { Stroke::Dashed },
        points: LINES.iter().zip(&pages.mapped[system as usize]).map(|(&lines, &us)| [f64::from(lines), us]).collect(),
    };
    let curves: Vec<Curve> = all
        .iter()
        .zip(colours)
        .flat_map(|(pages, colour)| System::BOTH.map(|system| of(pages, colour, system)))
        .collect();
    let curves = scaled_figure("Lines read of a page", ["lines of 64 bytes", "us"], Scale::Logarithmic, None, &curves);
    let charged: Vec<Bar> = all
        .iter()
        .flat_map(|pages| {
            let bar =
                |what: &str, colour, value| Bar { name: format!("{what}, {}", pages.model.name()), colour, value };
            [bar("measured", "var(--i1)", pages.misses[1][0]), bar("charged", "var(--i7)", pages.charged.us())]
        })
        .collect();
    format!(
        "<h2>Figure 12: lines of a page, and a page that is missing</h2>\n<div class=\"plots\">\n{curves}{}</div>\n",
        bars::figure("A read miss between kernels", "us", &charged)
    )
}

/// Figure 11: reads, cold and warm, both ways.
fn accesses(all: &[Access]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let colours = ["var(--i1)", "var(--i0)", "var(--i2)", "var(--i3)", "var(--i4)", "var(--i5)"];
    let plot = |(index, (_, what)): (usize, &(&str, &str))| {
        let bars: Vec<Bar> = all
            .iter()
            .flat_map(|access| {
                access::SYSTEMS.into_iter().zip(colours).zip(&access.ms).map(move |((system, colour), ms)| Bar {
                    name: format!("{}, {}", short(system), access.model.name()),
                    colour,
                    value: ms[index],
                })
            })
            .collect();
        bars::figure(what, "ms", &bars)
    };
    let reads = access::PASSES.iter().enumerate().filter(|(_, (region, _))| !region.ends_with("_write"));
    let plots: String = reads.map(plot).collect();
    format!("<h2>Figure 11: 10 MiB that the other island has written</h2>\n<div class=\"plots\">\n{plots}</div>\n")
}

/// Figure 13.
fn wakes(all: &[Futex]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let bars: Vec<Bar> = all
        .iter()
        .flat_map(|futex| {
            System::BOTH.into_iter().zip(["var(--i0)", "var(--i1)"]).zip(&futex.systems).map(
                move |((system, colour), wakes)| Bar {
                    name: format!("{}, {}", short(system), futex.model.name()),
                    colour,
                    value: wakes.us,
                },
            )
        })
        .collect();
    let plot = bars::figure("From one wake-up to the next", "us", &bars);
    format!("<h2>Figure 13: threads that wake each other across islands</h2>\n<div class=\"plots\">\n{plot}</div>\n")
}

#[cfg(test)]
mod tests {
    use super::{
        super::{charged::Charged, futex::Wakes, npb::Timed, runs::Model},
        *,
    };

    fn results() -> Results {
        let timed = |seconds| Timed {
            seconds,
            messages: 9,
            calls: 1,
            kinds: vec![("remote_page_request".into(), 5)],
            bytes: 1,
            doorbells: 2,
        };
        let pair = |benchmark, level| Pair {
            benchmark,
            level,
            model: Model::Shared,
            systems: [0.5, 1.0, 0.25, 1.5, 0.75, 0.875, 0.625].map(|seconds| Some(timed(seconds))),
            home_s: 0.4,
            machine: "m".into(),
        };
        let pages = Pages {
            model: Model::Shared,
            charged: Charged { copies_us: 9.0, snoops_us: 1.0, doorbells_us: 1.0, traps_us: 0.0 },
            misses: [vec![1.0; 7], vec![11.0; 7]],
            first: [vec![2.0; 7], vec![20.0; 7]],
            mapped: [vec![1.0; 7], vec![20.0; 7]],
            parts_us: Vec::new(),
            machine: "m".into(),
        };
        let pairs = vec![pair(Benchmark::Is, Level::O0), pair(Benchmark::Cg, Level::O2)];
        let access = Access {
            model: Model::Shared,
            ms: [9.0, 3.0, 4.0, 6.0, 7.0, 5.0].map(|ms| vec![ms; access::PASSES.len()]),
            machine: "m".into(),
        };
        let wakes = |us, doorbells| Wakes { us, home_us: 3.0, doorbells };
        let futex = Futex { model: Model::Shared, systems: [wakes(9.7, 1.0), wakes(158.0, 6.0)], machine: "m".into() };
        Results { class: Class::S, pairs, pages: vec![pages], access: vec![access], futex: vec![futex] }
    }

    #[test]
    fn the_page_is_well_formed_and_has_a_plot_for_each_benchmark_and_level() {
        let body = body(&results(), &[]);
        let text = motet_page::page("t", &body);
        roxmltree::Document::parse(text.strip_prefix("<!DOCTYPE html>\n").unwrap()).unwrap();
        assert!(body.contains("<h3>IS, alternating</h3>") && body.contains("Figure 9: class S, -O2"), "{body}");
        assert_eq!(body.matches("<figure").count(), 14);
        let nothing = Results::default();
        assert!(!super::body(&nothing, &[]).contains("<figure"));
    }

    #[test]
    fn tables_have_the_papers_figures_beside_ours() {
        let text = results().tables();
        let row = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
        // Fused kernels, and the rivals; the thread at home; how many times as long the rival takes, and the paper's.
        let times = row("IS S -O0");
        let times: Vec<&str> = times.split_whitespace().skip(5).collect();
        assert_eq!(
            times,
            "500.0 1000 1500 750.0 875.0 625.0 250.0 400.0 2.00 4.00 2.50 2.10".split(' ').collect::<Vec<_>>(),
            "{text}"
        );
        assert!(row("CG S -O2").ends_with('-'), "{text}");
        // Messages, what arrays need, the paper; requests and the rest.
        let row = text.lines().filter(|line| line.starts_with("  IS S -O0")).nth(1).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(4).collect();
        assert_eq!(cells, "9 1687 207124 5 0 0 0 0 + 0 + 0 4 1 0.0 9 2".split(' ').collect::<Vec<_>>(), "{text}");
    }

    #[test]
    fn models_that_do_not_differ_share_a_row() {
        let mut results = results();
        let other = Pair { model: Model::FullyShared, ..results.pairs[0].clone() };
        results.pairs.insert(1, other);
        let (_, _, rows) = results.messages();
        assert_eq!((rows.len(), &*rows[0][1]), (2, "Shared, Fully Shared"));
    }
}

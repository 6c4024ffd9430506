//! What was measured on the machine, as figures and as tables.

use super::{
    equations::{self, Derived},
    machine::{Column, Latency, Results, SLAVES},
    paper,
};
use crate::report::{Measurement, number};

/// Figures of one machine.
struct List {
    all: Vec<Measurement>,
    machine: String,
}

impl List {
    fn add(&mut self, metric: String, value: f64, unit: &'static str, source: &str) -> &mut Measurement {
        let (machine, source) = (self.machine.clone(), source.to_owned());
        self.all.push(Measurement { metric, value, unit, machine, reference: None, target: None, source });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }
}

/// The order of magnitude, as the paper's Table I has it.
fn magnitude(cycles: f64) -> String {
    if cycles < 1.0 { "0".into() } else { format!("{:.0}s", 10f64.powf(cycles.log10().floor())) }
}

impl Results {
    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.way.name == name)
    }

    /// How far the machine is from a model at most, in percent.
    fn apart_percent(&self, of: fn(&super::machine::Compared) -> f64) -> f64 {
        let points = self.comparisons.iter().flat_map(|comparison| &comparison.points);
        points.map(|point| 100.0 * (point.measured / of(point) - 1.0).abs()).fold(0.0, f64::max)
    }

    /// The worst number of requesters for the hybrid: the better of the other two over it, with mutexes of their own and with one.
    fn hybrid_over_best(&self) -> f64 {
        let [Some(hybrid), Some(fused), Some(hardware)] = ["hybrid", "fused", "hardware"].map(|name| self.column(name))
        else {
            return f64::NAN;
        };
        let worst = |of: fn(&Column) -> &Vec<Latency>| {
            let best = of(fused).iter().zip(of(hardware)).map(|(one, other)| one.cycles.min(other.cycles));
            best.zip(of(hybrid)).map(|(best, hybrid)| best / hybrid.cycles).fold(f64::INFINITY, f64::min)
        };
        worst(|column| &column.own).min(worst(|column| &column.same))
    }

    /// What was measured, for the table and the JSON file.
    pub fn measurements(&self) -> Vec<Measurement> {
        let mut list = List { all: Vec::new(), machine: self.machine.clone() };
        for column in &self.columns {
            add_mutexes(&mut list, column);
            add_scaling(&mut list, column);
        }
        self.add_comparisons(&mut list);
        list.all
    }

    fn add_comparisons(&self, list: &mut List) {
        let [fused, hardware] =
            ["fused", "hardware"].map(|name| self.column(name).map_or(f64::NAN, |column| column.own[0].cycles));
        list.add("fused_over_hardware".into(), fused / hardware, "ratio", "uncontended").target = Some(1.0);
        let source = "the better of futexes and service core over both together, at the number of requesters where that is least";
        list.add("hybrid_over_best".into(), self.hybrid_over_best(), "ratio", source).target = Some(0.97);
        let source = "iterations of the paper's loop per time on 1 to 16 slaves, a service core of 400 ns an operation that executes one or two at a time, beside the queueing model";
        let apart = self.apart_percent(|point| point.modelled);
        list.add("model_vs_machine_max_percent".into(), apart, "percent", source).target = Some(5.0);
        let source = "the same beside the paper's model: all that a request takes is the server's, with the measured times of single ones";
        let apart = self.apart_percent(|point| point.congregate);
        list.add("congregate_model_vs_machine_max_percent".into(), apart, "percent", source);
        for end in &self.ends {
            let Some(limit) = end.limit else { continue };
            list.add(format!("scaling_limit_{}", end.name), limit, "ratio", end.why);
        }
    }

    /// Heads of [`Results::rows`].
    pub const COLUMNS: [&str; 9] = [
        "a mutex, in cycles",
        "alone",
        "with six",
        "deviation",
        "with six",
        "one mutex, six",
        "speed-up of six",
        "rho",
        "waiting, six",
    ];

    /// The rows of the printed table.
    pub fn rows(&self) -> Vec<[String; 9]> {
        let row = |column: &Column| {
            let ends = |latencies: &[Latency], value: fn(&Latency) -> f64| {
                [latencies.first(), latencies.last()]
                    .map(|latency| latency.map_or("–".into(), |latency| number(value(latency))))
            };
            let [alone, six] = ends(&column.own, |latency| latency.cycles);
            let [deviation, deviation_six] = ends(&column.own, |latency| latency.singles.spread()[1]);
            let [_, same] = ends(&column.same, |latency| latency.cycles);
            let at_six = |[threads, ..]: &&[f64; 2]| threads == &f64::from(SLAVES);
            let speedup = column.speedup.iter().find(at_six).map_or("–".into(), |point| number(point[1]));
            let waiting = column.derived.iter().find(|derived| derived.threads == f64::from(SLAVES));
            let waiting = waiting.map_or("–".into(), |derived| number(derived.waiting));
            let title = column.way.title.to_owned();
            [title, alone, six, deviation, deviation_six, same, speedup, number(column.rho), waiting]
        };
        self.columns.iter().map(row).collect()
    }

    /// Heads of [`Results::shared`].
    pub const SHARED: [&str; 7] = ["one mutex, in cycles, requesters:", "1", "2", "3", "4", "5", "6"];

    /// What a pair takes each of so many requesters of one mutex.
    pub fn shared(&self) -> Vec<[String; 7]> {
        let row = |column: &Column| {
            let of = |threads: u32| column.same.iter().find(|latency| latency.threads == threads);
            std::array::from_fn(|index| match index {
                0 => column.way.title.to_owned(),
                threads => of(threads as u32).map_or("–".into(), |latency| number(latency.cycles)),
            })
        };
        self.columns.iter().map(row).collect()
    }

    /// Heads of [`Results::table_1`].
    pub const TABLE_1: [&str; 6] =
        ["a request and its answer", "cycles", "order", "the paper's", "who asks", "who serves"];

    /// Table I: cycles, and instructions of both.
    pub fn table_1(&self) -> Vec<[String; 6]> {
        let rows = self.columns.iter().filter_map(|column| {
            let (published, one) = (paper::request(column.way.name)?, column.own.first()?);
            let [cycles, asking, serving] =
                [one.cycles, one.instructions[0], one.instructions[1]].map(|pair| pair / 2.0);
            let title = column.way.title.to_owned();
            Some([title, number(cycles), magnitude(cycles), published.into(), number(asking), number(serving)])
        });
        rows.collect()
    }

    /// Heads of [`Results::queues`].
    pub const QUEUES: [&str; 9] =
        ["equations 3 to 7", "threads", "rho", "N", "E[Nq]", "Tq, cycles", "assumed rho", "E[Nq] so", "Tq so"];

    /// Who computes and who waits, from the runs and with what the paper assumes.
    pub fn queues(&self) -> Vec<[String; 9]> {
        let row = |column: &Column, derived: &Derived| {
            let assumed = assumed(column, derived);
            let [rho, queued, waiting] = [
                paper::rho(column.way.name),
                assumed.map(|assumed| assumed.queued),
                assumed.map(|assumed| assumed.waiting),
            ]
            .map(|value| value.map_or("–".into(), number));
            let [threads, own_rho, active, own_queued, own_waiting] =
                [derived.threads, column.rho, derived.active, derived.queued, derived.waiting].map(number);
            let title = column.way.title.to_owned();
            [title, threads, own_rho, active, own_queued, own_waiting, rho, queued, waiting]
        };
        self.columns.iter().flat_map(|column| told(column).map(|derived| row(column, derived))).collect()
    }

    /// Heads of [`Results::ends`].
    pub const ENDS: [&str; 4] = ["where it stops", "times one core", "of 4,096 cores", "why"];

    /// Where each way stops, and why.
    pub fn ends(&self) -> Vec<[String; 4]> {
        let rows = self.ends.iter().map(|end| {
            let last = end.points.last().map_or("–".into(), |point| number(point[1]));
            [end.title.clone(), end.limit.map_or("–".into(), number), last, end.why.into()]
        });
        rows.collect()
    }
}

/// Six threads, and as many as there were.
fn told(column: &Column) -> impl Iterator<Item = &Derived> {
    let last = column.derived.last().map_or(0.0, |derived| derived.threads);
    column.derived.iter().filter(move |derived| [f64::from(SLAVES), last].contains(&derived.threads))
}

/// With what the paper assumes of the ratio and of the servers of a microkernel.
fn assumed(column: &Column, derived: &Derived) -> Option<Derived> {
    let structure = paper::STRUCTURES.iter().find(|structure| structure.name == column.way.name)?;
    equations::assumed(derived.threads as u32, structure.servers, structure.rho).ok()
}

/// What a mutex takes.
fn add_mutexes(list: &mut List, column: &Column) {
    let name = column.way.name;
    let (Some(first), Some(last)) = (column.own.first(), column.own.last()) else { return };
    let published = paper::mutex(name);
    let pair =
        "one pair of lock and unlock in a loop of them, a mutex for each requester; reference: hthreads, Figure 5";
    let alone = list.add(format!("lock_unlock_{name}_cycles"), first.cycles, "cycles", pair);
    alone.reference = published.map(|[one, _]| one);
    alone.target = (name == "hardware").then_some(300.0);
    list.add(format!("lock_unlock_{name}_{SLAVES}_cycles"), last.cycles, "cycles", pair).reference =
        published.map(|[_, six]| six);
    let growth = last.cycles / first.cycles;
    let growth = list.add(format!("contended_{name}_growth"), growth, "ratio", "six requesters over one");
    growth.reference = published.map(|[one, six]| six / one);
    growth.target = (name == "hardware").then_some(1.02);
    let spread = paper::deviation(name);
    for (latency, which, reference) in [(first, "", 0), (last, "_6", 1)] {
        let source = "standard deviation of single pairs, with the clock read between them";
        let metric = format!("lock_unlock_{name}{which}_deviation_cycles");
        list.add(metric, latency.singles.spread()[1], "cycles", source).reference = spread.map(|both| both[reference]);
    }
    let single = "mean of single pairs, with the clock read between them";
    let metric = format!("lock_unlock_{name}_6_single_cycles");
    list.add(metric, last.singles.spread()[0], "cycles", single).reference = published.map(|[_, six]| six);
    for same in column.same.iter().filter(|latency| latency.threads > 1) {
        let source = "requesters of one mutex: from one unlock to its requester's next; the median of three runs where a request takes tens of cycles";
        list.add(format!("same_mutex_{name}_{}_cycles", same.threads), same.cycles, "cycles", source);
    }
    if let Some(published) = paper::request(name) {
        let source = format!("half a pair: one request and its answer; hthreads, Table I: {published}");
        list.add(format!("request_{name}_cycles"), first.cycles / 2.0, "cycles", &source);
    }
}

/// Speed-ups, and the paper's equations.
fn add_scaling(list: &mut List, column: &Column) {
    let name = column.way.name;
    for [threads, speedup] in &column.speedup {
        let source = "the paper's loop (Figure 4) on a machine with sixteen slaves, 1000 iterations of each thread (250 where a request takes thousands of cycles)";
        list.add(format!("speedup_{name}_{threads}"), *speedup, "ratio", source);
    }
    let source =
        "time in services over the time between them in that loop; reference: assumed in hthreads, section IV-A";
    list.add(format!("rho_{name}"), column.rho, "ratio", source).reference = paper::rho(name);
    for derived in told(column) {
        let (threads, assumed) = (derived.threads, assumed(column, derived));
        let source =
            "equation 5 with that loop's times; reference: with the ratio and the servers that hthreads assumes";
        list.add(format!("queued_{name}_{threads}"), derived.queued, "cores", source).reference =
            assumed.map(|assumed| assumed.queued);
        let source = "equation 4, the same";
        list.add(format!("queueing_{name}_{threads}_cycles"), derived.waiting, "cycles", source).reference =
            assumed.map(|assumed| assumed.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hthreads::{
        machine::{Compared, Comparison, WAYS},
        printed::Printed,
        scaling,
    };

    fn latency(threads: u32, cycles: f64) -> Latency {
        let output = format!("mean_ns {cycles} sd_ns 1 max_ns 9\ntimes_ns 5*2");
        Latency { threads, cycles, singles: Printed { output, mhz: 100.0 }, instructions: [cycles / 2.0, 0.0] }
    }

    fn results() -> Results {
        let columns = WAYS.map(|way| {
            let cycles = if way.name == "hybrid" { 200.0 } else { 190.0 };
            let (own, same) = (vec![latency(1, cycles), latency(6, cycles)], vec![latency(1, 90.0), latency(6, 600.0)]);
            let server = (way.servers > 0).then_some(equations::Server {
                servers: way.servers,
                queues: motet_queueing::simulate::Queues::OfEachServer,
                service: 10.0,
                bus: (way.name == "hardware").then_some(20.0),
            });
            let derived = vec![equations::derive(6.0, 600.0, 1.0)];
            Column { way, own, same, speedup: vec![[1.0, 1.0], [6.0, 5.0]], alone: 550.0, derived, rho: 1.0, server }
        });
        let points = vec![Compared { cores: 1, measured: 2.0, modelled: 2.5, congregate: 1.0 }];
        let ends = scaling::ends(&columns).unwrap();
        let comparisons = vec![Comparison { ports: 1, points }];
        Results { columns: columns.into(), comparisons, ends, machine: String::new() }
    }

    #[test]
    fn orders_of_magnitude_are_the_papers() {
        let orders = [0.2, 9.0, 87.0, 999.0, 3808.0].map(magnitude);
        assert_eq!(orders, ["0", "1s", "10s", "100s", "1000s"]);
    }

    #[test]
    fn figures_and_tables_have_all_ways() {
        let results = results();
        let all = results.measurements();
        let value = |metric: &str| all.iter().find(|one| one.metric == metric).unwrap().value;
        assert!((value("hybrid_over_best") - 0.95).abs() < 1e-12);
        assert!((value("model_vs_machine_max_percent") - 20.0).abs() < 1e-9);
        assert!((value("congregate_model_vs_machine_max_percent") - 100.0).abs() < 1e-9);
        // The core: two operations of 10 cycles of 550; the bus: two of 20; four servers.
        assert!((value("scaling_limit_hardware") - 27.5).abs() < 1e-9);
        assert!((value("scaling_limit_hardware_bus") - 13.75).abs() < 1e-9);
        assert!((value("scaling_limit_software") - 110.0).abs() < 1e-9);
        assert!(!all.iter().any(|one| one.metric == "scaling_limit_fused"));
        let names: std::collections::HashSet<_> = all.iter().map(|one| &one.metric).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!([results.rows().len(), results.table_1().len(), results.queues().len()], [5, 3, 5]);
        assert_eq!(results.ends().len(), 6);
        assert!(results.shared().iter().all(|row| row[1..3] == ["90.00", "–"] && row[6] == "600.0"));
        // Futexes: on and on. The core: where the model ends.
        let last = |name: &str| results.ends.iter().find(|end| end.name == name).unwrap().points.last().unwrap()[1];
        assert!((last("fused") - 4096.0 * 5.0 / 6.0).abs() < 1e-9);
        assert!((last("hardware") - 27.5).abs() < 0.1);
        let page = motet_page::page("t", &crate::hthreads::plots::measured(&results));
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&page, options).unwrap();
    }
}

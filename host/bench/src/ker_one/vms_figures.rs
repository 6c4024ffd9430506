//! The figures of virtual machines, for the table and for programs.

use super::{
    lines::Lines,
    moments::Spread,
    paper_vms::{
        CALL_US, CRITICAL_MAX_US, OPERATIONS_US, PREEMPTION_US, RELEASE_EXTRA_US, RESPONSE_US, SWITCH_US, TESTS,
    },
    parts::{PARTS, Parts},
    vms::{KERNELS, Kernel, Response, Results},
};
use crate::report::Measurement;

/// What is to be reached, in microseconds: calls and interrupts as the paper's at most, the others the project's own.
const SWITCH_TARGET_US: f64 = 0.5;
const RESPONSE_TARGET_US: f64 = 1.5;
/// The least ratio of a test in a virtual machine.
const RATIO_TARGET: f64 = 0.95;

impl Results {
    /// All of them.
    pub fn measurements(&self) -> Vec<Measurement> {
        let mut all = self.functions();
        all.extend(self.thread_metric());
        all.extend(self.response_times());
        all.extend(self.operations());
        all.extend(self.overlapped());
        all.extend(self.instructions());
        all
    }

    /// Where the instructions of switches go.
    fn instructions(&self) -> Vec<Measurement> {
        const WAYS: [(&str, &str); 3] = [
            (
                "preemption",
                "from the interrupt in a general guest to the first instruction of the real-time one whose timer it is",
            ),
            ("wait", "from the real-time guest's WFI to the next instruction of the general one"),
            ("slice", "from the interrupt that ends the slice of one guest of four to the next one's next instruction"),
        ];
        let one = |metric: String, value: f64, source: String| self.measured(metric, value, "instructions", &source);
        let of = |((name, what), counted): ((&str, &str), &Parts)| {
            let [switches, divided] = counted.samples;
            let all = one(format!("{name}_instructions"), counted.all, format!("{what}; median of {switches}"));
            let parts = PARTS.iter().zip(counted.parts).map(move |((part, of), value)| {
                let source = format!("of that: {of}; median of {divided}");
                self.measured(format!("{name}_{part}_instructions"), value, "instructions", &source)
            });
            std::iter::once(all).chain(parts).collect::<Vec<_>>()
        };
        WAYS.into_iter().zip(&self.instructions).flat_map(of).collect()
    }

    fn measured(&self, metric: impl Into<String>, value: f64, unit: &'static str, source: &str) -> Measurement {
        let (metric, machine, source) = (metric.into(), self.machine.clone(), source.to_owned());
        Measurement { metric, value, unit, machine, reference: None, target: None, source }
    }

    /// Mean, smallest and largest; the reference and the target are the mean's, and a target for the largest is the reference.
    fn spread(
        &self,
        name: &str,
        spread: &Spread,
        [reference, target]: [Option<f64>; 2],
        source: &str,
    ) -> [Measurement; 3] {
        let source = format!("{source}; {} samples", spread.count);
        let one = |metric: String, value| self.measured(metric, value, "us", &source);
        [
            Measurement { reference, target, ..one(format!("{name}_us"), spread.mean) },
            one(format!("{name}_min_us"), spread.min),
            Measurement { target: reference, ..one(format!("{name}_max_us"), spread.max) },
        ]
    }

    /// Figure 12.
    fn functions(&self) -> Vec<Measurement> {
        let calls =
            "from the guest's call that sets its timer until it goes on. Reference: section 5.1, less than that";
        let interrupts = "from the interrupt of the core until the handler of the guest that ran begins. Reference: section 5.1, less than that";
        let switches = "from the trap of a guest until another one runs. Reference: section 5.1";
        let (call, switch) = (Some(CALL_US), Some(SWITCH_US));
        [
            self.spread("hypercall", &self.calls, [call, call], calls),
            self.spread("virtual_interrupt", &self.interrupts, [call, call], interrupts),
            self.spread("vm_switch", &self.switches, [switch, Some(SWITCH_TARGET_US)], switches),
        ]
        .concat()
    }

    /// The same where hits of L1 cost nothing but the instruction, as on a core that overlaps them.
    fn overlapped(&self) -> Vec<Measurement> {
        let ways = [("hypercall", CALL_US), ("virtual_interrupt", CALL_US), ("vm_switch", SWITCH_US)];
        let all = ways.into_iter().zip(&self.overlapped);
        let one = |((name, published), spread): ((&str, f64), &Spread)| Measurement {
            reference: Some(published),
            ..self.measured(
                format!("{name}_overlapped_us"),
                spread.mean,
                "us",
                "the same on a machine whose hits of L1D cost no cycles beside the instruction's; mean",
            )
        };
        all.map(one).collect()
    }

    /// The least ratio of all tests and kernels.
    fn worst_ratio(&self) -> f64 {
        let ratios = self.scores.iter().flat_map(|scores| scores.ratios());
        ratios.fold(f64::NAN, f64::min)
    }

    /// Table 3, Figure 13.
    fn thread_metric(&self) -> Vec<Measurement> {
        let worst = Measurement {
            reference: TESTS.iter().map(super::paper_vms::Test::ratio).reduce(f64::min),
            target: Some(RATIO_TARGET),
            ..self.measured(
                "thread_metric_worst_ratio",
                self.worst_ratio(),
                "ratio",
                "the least of all tests and both kernels. Reference: Table 3",
            )
        };
        let mut all = vec![worst];
        for (kernel, scores) in KERNELS.iter().zip(&self.scores) {
            let ratios = scores.ratios().zip(scores.ratios_beside());
            for ((test, (ratio, beside)), native) in TESTS.iter().zip(ratios).zip(&scores.native) {
                let name = format!("{}_{}", kernel.name, test.name.replace('-', "_"));
                let source = "counts in a virtual machine over counts on the bare board, in the same simulated time. Reference: Table 3";
                all.push(Measurement {
                    reference: Some(test.ratio()),
                    target: Some(RATIO_TARGET),
                    ..self.measured(format!("thread_metric_ratio_{name}"), ratio, "ratio", source)
                });
                let source = "the same beside three general virtual machines, which compute. Reference: Table 3";
                all.push(Measurement {
                    reference: Some(test.ratio()),
                    target: Some(RATIO_TARGET),
                    ..self.measured(format!("thread_metric_beside_ratio_{name}"), beside, "ratio", source)
                });
                let source = "on the bare board. Reference: Table 3, µC/OS-II in 30 seconds";
                all.push(Measurement {
                    reference: Some(test.scores[0] / 30.0),
                    ..self.measured(format!("thread_metric_native_{name}"), *native, "1/s", source)
                });
            }
        }
        all
    }

    /// Figure 14.
    fn response_times(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        for (kernel, response) in KERNELS.iter().zip(&self.responses) {
            let name = |what: &str| format!("{}_{what}", kernel.name);
            let source = "equation 4: the longest stay in the kernel, the longest preemption, and the release's extra time. Reference: section 5.2.2";
            all.push(Measurement {
                reference: Some(RESPONSE_US),
                target: Some(RESPONSE_TARGET_US),
                ..self.measured(name("response_overhead_us"), response.overhead_us(&response.beside), "us", source)
            });
            let (reference, target) = (Some(CRITICAL_MAX_US), Some(CRITICAL_MAX_US));
            let source = "the longest time from a trap of a guest until a guest runs, which has interrupts masked. Reference: Figure 14";
            all.push(Measurement {
                reference,
                target,
                ..self.measured(name("critical_max_us"), response.beside.critical.max, "us", source)
            });
            let source = "from the interrupt in a general guest until the handler of the real-time one begins. Reference: Figure 14";
            let [mean, max] = PREEMPTION_US.map(Some);
            let [of_mean, least, of_max] =
                self.spread(&name("preemption"), &response.beside.preemption, [mean; 2], source);
            all.extend([of_mean, least, Measurement { reference: max, target: max, ..of_max }]);
            let source = "equation 3: the longest release in a virtual machine beside a general one, less the shortest on the bare board. Reference: section 5.2.2";
            all.push(Measurement {
                reference: Some(RELEASE_EXTRA_US),
                target: Some(RELEASE_EXTRA_US),
                ..self.measured(name("release_extra_us"), response.release_us(&response.beside), "us", source)
            });
            let source = "from the beginning of the tick's handler until the thread runs that has waited for it";
            let none = [None; 2];
            all.extend(self.spread(
                &name("release_native"),
                &response.release_native,
                none,
                &format!("{source}, on the bare board"),
            ));
            let call = "the call of the board's firmware that sets the timer, which is a part of that";
            all.extend(self.spread(&name("native_call"), &response.native_call, none, call));
            all.extend(self.spread(
                &name("release_vm"),
                &response.release_vm,
                none,
                &format!("{source}, in a virtual machine"),
            ));
            let source = format!("{source}, beside a general guest");
            all.extend(self.spread(&name("release_beside"), &response.beside.release, none, &source));
            let source = "from the interrupt in a general guest until the thread runs; mean";
            let whole_us = response.beside.preemption.mean + response.beside.release.mean;
            all.push(self.measured(name("response_beside_us"), whole_us, "us", source));
            all.extend(self.quiet_response_times(kernel, response));
        }
        all
    }

    /// The same beside a general guest that does not print meanwhile.
    fn quiet_response_times(&self, kernel: &Kernel, response: &Response) -> Vec<Measurement> {
        let quiet = &response.quiet;
        let name = |what: &str| format!("{}_quiet_{what}", kernel.name);
        let source = "equation 4, beside a general guest that does not print, so that its monitor does not run. Reference: section 5.2.2";
        let overhead = Measurement {
            reference: Some(RESPONSE_US),
            ..self.measured(name("response_overhead_us"), response.overhead_us(quiet), "us", source)
        };
        let source = "the longest time from a trap of a guest until a guest runs, beside such a general guest. Reference: Figure 14";
        let critical = Measurement {
            reference: Some(CRITICAL_MAX_US),
            ..self.measured(name("critical_max_us"), quiet.critical.max, "us", source)
        };
        let source = "from the interrupt in such a general guest until the handler of the real-time one begins. Reference: Figure 14";
        let [mean, max] = PREEMPTION_US.map(Some);
        let [of_mean, least, of_max] = self.spread(&name("preemption"), &quiet.preemption, [mean, None], source);
        let source = "equation 3, beside such a general guest. Reference: section 5.2.2";
        let release = Measurement {
            reference: Some(RELEASE_EXTRA_US),
            ..self.measured(name("release_extra_us"), response.release_us(quiet), "us", source)
        };
        vec![overhead, critical, of_mean, least, Measurement { reference: max, target: None, ..of_max }, release]
    }

    /// Table 4: what virtual machines have of it.
    fn operations(&self) -> Vec<Measurement> {
        let sources = [
            "from a guest's access to a device until its monitor runs. Reference: Table 4",
            "from the monitor's answer until the guest goes on. Reference: Table 4",
        ];
        let all = [&self.trap, &self.resume].into_iter().zip(OPERATIONS_US).zip(sources);
        all.flat_map(|((spread, (name, published)), source)| {
            self.spread(&format!("table4_{name}"), spread, [Some(published); 2], source)
        })
        .collect()
    }
}

/// Lines of code.
pub fn of_lines(lines: &Lines, machine: &str) -> Vec<Measurement> {
    let one = |metric: &str, value: usize, source: &str| Measurement {
        metric: metric.into(),
        value: value as f64,
        unit: "lines",
        machine: machine.into(),
        reference: None,
        target: None,
        source: source.into(),
    };
    vec![
        one(
            "hypervisor_lines",
            lines.hypervisor,
            "code that is there for virtual machines, in the kernel and in the monitor; neither blank nor comments nor tests",
        ),
        one(
            "hypervisor_kernel_lines",
            lines.kernel,
            "the kernel of a RISC-V island, all of which a guest must trust; likewise",
        ),
    ]
}

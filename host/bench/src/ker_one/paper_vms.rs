//! What the paper on Ker-ONE says of its virtual machines (section 5, and Table 4).

/// A test of Thread-Metric.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Test {
    /// Its name in docs/guests.md.
    pub name: &'static str,
    /// As the paper calls it.
    pub title: &'static str,
    /// Scores of µC/OS-II in 30 seconds, on the bare board and in a virtual machine (Table 3).
    pub scores: [f64; 2],
}

impl Test {
    /// The performance ratio (equation 2).
    pub fn ratio(&self) -> f64 {
        self.scores[1] / self.scores[0]
    }
}

/// The seven of Table 3, in its order.
pub const TESTS: [Test; 7] = [
    Test { name: "basic", title: "calibration", scores: [764_458.0, 753_879.0] },
    Test { name: "preemptive", title: "preemptive", scores: [32_113_328.0, 28_927_171.0] },
    Test { name: "message", title: "messages", scores: [18_431_136.0, 16_748_720.0] },
    Test { name: "memory", title: "memory", scores: [104_601_611.0, 85_091_278.0] },
    Test { name: "synchronization", title: "synchronization", scores: [108_589_466.0, 90_893_213.0] },
    Test { name: "interrupt", title: "interrupts", scores: [32_541_832.0, 25_768_399.0] },
    Test { name: "interrupt-preemption", title: "interrupt preempts", scores: [19_089_282.0, 16_425_610.0] },
];

/// "Handled in less than 1 µs": hypercalls and virtual interrupts; and a switch, which "could be limited to 1 µs" (section 5.1, Figure 12).
pub const CALL_US: f64 = 1.0;
pub const SWITCH_US: f64 = 1.0;

/// Section 5.2.2, Figure 14: the longest time with interrupts masked, mean and longest preemption, the release's extra time, and their sum.
pub const CRITICAL_MAX_US: f64 = 1.47;
pub const PREEMPTION_US: [f64; 2] = [0.98, 1.19];
pub const RELEASE_EXTRA_US: f64 = 0.42;
pub const RESPONSE_US: f64 = 3.08;

/// Table 4: operations and what they take. The first three are the microkernel's, the others the manager's.
pub const OPERATIONS_US: [(&str, f64); 9] = [
    ("trap", 0.76),
    ("resume", 0.64),
    ("pl_irq", 0.81),
    ("search", 0.50),
    ("solution1", 1.13),
    ("solution2", 2.77),
    ("solution3", 0.34),
    ("pcap_irq", 0.64),
    ("stop_irq", 0.28),
];

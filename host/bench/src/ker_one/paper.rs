//! What the paper on Ker-ONE says of its FPGA (sections 6.1 to 6.3).

use super::paper_vms::OPERATIONS_US;

/// A way to a region (Figure 15).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// In what the program prints.
    pub name: &'static str,
    /// Its name in tables and on the page.
    pub title: &'static str,
    /// The metric.
    pub metric: &'static str,
    /// Waits for the end of a frame.
    pub stops: bool,
    /// Waits for a reconfiguration.
    pub loads: bool,
}

/// All of them, in the paper's order.
pub const PATHS: [Path; 4] = [
    Path { name: "direct", title: "direct", metric: "allocate_direct_us", stops: false, loads: false },
    Path {
        name: "reconfigure",
        title: "with reconfiguration",
        metric: "allocate_reconfigure_overhead_us",
        stops: false,
        loads: true,
    },
    Path {
        name: "preempt",
        title: "with preemption",
        metric: "allocate_preempt_overhead_us",
        stops: true,
        loads: false,
    },
    Path { name: "both", title: "with both", metric: "allocate_both_overhead_us", stops: true, loads: true },
];

/// What an operation of Table 4 takes, in microseconds.
pub fn operation_us(wanted: &str) -> f64 {
    OPERATIONS_US.iter().find(|(name, _)| *name == wanted).map_or(0.0, |(_, us)| *us)
}

/// What the manager takes on a path (Figure 15 and Table 4), in microseconds. A direct allocation has no other solution than the first.
pub fn manager_us(path: &Path) -> f64 {
    let when = |is_on: bool, us: f64| if is_on { us } else { 0.0 };
    operation_us("search")
        + operation_us(if path.loads { "solution2" } else { "solution1" })
        + when(path.stops, operation_us("solution3") + operation_us("stop_irq"))
        + when(path.loads, operation_us("pcap_irq"))
}

/// What each takes without the waits, in microseconds (equation 6).
pub const OVERHEAD_US: [f64; 4] = [3.03, 6.76, 5.10, 9.96];

/// An accelerator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Accelerator {
    /// Its name here.
    pub name: &'static str,
    /// The longest wait when it is stopped (Table 5), in microseconds.
    pub stop_us: f64,
    /// A frame of 18,800 bits by it, and by software (Table 6).
    pub frame_us: [f64; 2],
    /// Its share of the FPGA, in percent (Table 6).
    pub share_percent: f64,
}

/// All of them.
pub const ACCELERATORS: [Accelerator; 4] = [
    Accelerator { name: "qam16", stop_us: 47.0, frame_us: [47.0, 1513.0], share_percent: 2.0 },
    Accelerator { name: "qam64", stop_us: 31.0, frame_us: [31.0, 1174.0], share_percent: 2.0 },
    Accelerator { name: "fft512", stop_us: 24.1, frame_us: [71.1, 6582.0], share_percent: 8.0 },
    Accelerator { name: "fft1024", stop_us: 33.6, frame_us: [90.6, 12784.0], share_percent: 13.0 },
];

/// Reconfigurations of the three regions, in microseconds (Table 5).
pub const LOAD_US: [f64; 3] = [231.0, 810.0, 1206.0];

/// Bytes of a bitstream of the whole FPGA, a Zynq 7020's (UG585).
pub const WHOLE_BYTES: f64 = 4_045_564.0;

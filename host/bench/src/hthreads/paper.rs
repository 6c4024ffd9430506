//! What the paper on hthreads says.

/// Numbers of cores (Table II).
pub const CORES: [u32; 8] = [4, 8, 16, 32, 64, 128, 192, 256];
/// Servers of both microkernels, which the paper does not state: with four its table comes out.
pub const SERVERS: u32 = 4;

/// How services are asked for: the paper's three structures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Structure {
    /// Its name in tables and on the page.
    pub title: &'static str,
    /// Its name in metrics.
    pub name: &'static str,
    /// Servers, each of which serves a part of the cores.
    pub servers: u32,
    /// Mean time of a service over the mean time between two.
    pub rho: f64,
    /// Cores that compute, by [`CORES`] (Table II).
    pub active: [f64; 8],
    /// Its class in the style sheet.
    pub colour: &'static str,
}

/// The rows of Table II.
pub const STRUCTURES: [Structure; 3] = [
    Structure {
        title: "microkernel in hardware",
        name: "hardware",
        servers: SERVERS,
        rho: 0.005,
        active: [4.0, 8.0, 16.0, 32.0, 64.0, 127.0, 191.0, 254.0],
        colour: "var(--i0)",
    },
    Structure {
        title: "microkernel in software",
        name: "software",
        servers: SERVERS,
        rho: 0.05,
        active: [4.0, 8.0, 15.0, 30.0, 57.0, 80.0, 80.0, 80.0],
        colour: "var(--i1)",
    },
    Structure {
        title: "remote procedure calls",
        name: "rpc",
        servers: 1,
        rho: 0.05,
        active: [4.0, 7.0, 14.0, 20.0, 20.0, 20.0, 20.0, 20.0],
        colour: "var(--i2)",
    },
];

/// Iterations of the loop that is measured, and the cycles outside and inside of the mutex (section II, Figure 4).
pub const LOOP: [u32; 3] = [1000, 250, 25];

/// Cycles of a lock and an unlock, of one requester and of six (Figure 5). Of the service core with six it says "a few" more.
pub fn mutex(way: &str) -> Option<[f64; 2]> {
    match way {
        "hardware" => Some([408.0, 408.0]),
        "rpc" => Some([8765.0, 12249.0]),
        _ => None,
    }
}

/// Their standard deviations (section II).
pub fn deviation(way: &str) -> Option<[f64; 2]> {
    (way == "rpc").then_some([443.0, 1010.0])
}

/// What it assumes for its model (section IV-A).
pub fn rho(way: &str) -> Option<f64> {
    match way {
        "hardware" => Some(0.005),
        "software" | "rpc" => Some(0.05),
        _ => None,
    }
}

/// Cycles that a request takes (Table I): from core to core, and from a core to the service core.
pub fn request(way: &str) -> Option<&'static str> {
    match way {
        "hardware" => Some("10s"),
        "software" | "rpc" => Some("1000s"),
        _ => None,
    }
}

/// Threads, and how many of them run at once, by remote procedure calls: it stops at three (Figure 6, whose other values the text does not have).
pub const RPC_SPEEDUP: [[f64; 2]; 3] = [[1.0, 1.0], [3.0, 3.0], [6.0, 3.0]];

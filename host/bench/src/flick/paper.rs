//! What Flick's authors measured (ISCA '20, section V).

/// Table III: the host calls a function of the NxP, and that returns; microseconds.
pub const HOST_NXP_HOST_US: f64 = 18.3;
/// Table III: the NxP calls a function of the host.
pub const NXP_HOST_NXP_US: f64 = 16.9;
/// Figure 5a: from so many accesses in each call on, calling the NxP is worth it.
pub const BREAK_EVEN_ACCESSES: f64 = 32.0;
/// Figure 5a: how much faster the NxP is with 1024 accesses in each call.
pub const PLATEAU_RATIO: f64 = 2.6;
/// Section V-B: a load by the host, over the link, in microseconds.
const LINK_LOAD_US: f64 = 0.825;
/// A load by the NxP with all else that a step takes, so that 1024 of them and a call give the plateau.
const NXP_STEP_US: f64 = (1024.0 * LINK_LOAD_US / PLATEAU_RATIO - HOST_NXP_HOST_US) / 1024.0;
/// Section VI: less than so many lines were changed in kernel, compiler and linker.
pub const LINES: f64 = 2000.0;

/// Figure 5, computed from the other figures, since the paper only draws it: how much faster the NxP is than the host.
pub fn chase_ratio(accesses: f64, delay_us: f64, interval_us: f64) -> f64 {
    (interval_us + accesses * LINK_LOAD_US) / (interval_us + delay_us + HOST_NXP_HOST_US + accesses * NXP_STEP_US)
}

/// A row of Table IV.
#[derive(Clone, Copy, Debug)]
pub struct Dataset {
    /// As the paper calls it.
    pub name: &'static str,
    /// Its name in metrics.
    pub key: &'static str,
    /// Vertices of SNAP's graph.
    pub vertices: u32,
    /// Edges of SNAP's graph.
    pub edges: u32,
    /// The host alone, over the link.
    pub baseline_s: f64,
    /// The NxP, with a call of the host for each vertex.
    pub flick_s: f64,
}

/// Table IV, with SNAP's exact numbers.
pub const DATASETS: [Dataset; 3] = [
    Dataset { name: "Epinions1", key: "epinions1", vertices: 75_879, edges: 508_837, baseline_s: 1.8, flick_s: 2.4 },
    Dataset { name: "Pokec", key: "pokec", vertices: 1_632_803, edges: 30_622_564, baseline_s: 107.4, flick_s: 90.3 },
    Dataset {
        name: "LiveJournal1",
        key: "livejournal1",
        vertices: 4_847_571,
        edges: 68_993_773,
        baseline_s: 240.5,
        flick_s: 220.9,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computed_curves_go_through_the_published_points() {
        assert!((chase_ratio(1024.0, 0.0, 0.0) - PLATEAU_RATIO).abs() < 0.01);
        assert!((chase_ratio(BREAK_EVEN_ACCESSES, 0.0, 0.0) - 1.0).abs() < 0.1);
        // "approximately 2x" with many accesses, every 100 us.
        assert!((chase_ratio(1024.0, 0.0, 100.0) - 2.0).abs() < 0.4);
    }
}

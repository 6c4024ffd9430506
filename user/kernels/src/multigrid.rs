//! MG: V-cycles of multigrid for a discrete Poisson equation on a periodic cube.

use crate::{Class, Memory, Outcome, agrees, random::Random};

/// Levels that a cube may have: the finest has 2⁵ points a side.
const LEVELS_MAX: usize = 5;
/// Points that are +1, and as many that are -1.
const CHARGES: usize = 10;
/// The operator, by distance: the point itself, neighbours by face, by edge, by corner.
const OPERATOR: Weights = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
/// The smoother of classes S, W and A.
const SMOOTHER: Weights = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];
/// From fine to coarse.
const RESTRICTION: Weights = [0.5, 0.25, 0.125, 0.0625];

type Weights = [f64; 4];

/// A cube of numbers with a layer of copies around it, which make it periodic.
struct Grid {
    /// Points a side, without the copies.
    side: usize,
    points: &'static mut [f64],
}

impl Grid {
    fn new(side: usize, memory: &mut impl Memory) -> Self {
        Self { side, points: memory.numbers((side + 2) * (side + 2) * (side + 2)) }
    }

    #[inline]
    fn index(&self, z: usize, y: usize, x: usize) -> usize {
        let width = self.side + 2;
        (z * width + y) * width + x
    }

    /// The weighted sum of a point and its 26 neighbours.
    #[inline]
    fn around(&self, z: usize, y: usize, x: usize, weights: &Weights) -> f64 {
        let width = self.side + 2;
        let middle = self.index(z, y, x);
        // Sums over the points of one x, by their distance from the middle of that row.
        let sums = |at: usize| {
            let (y0, y1, z0, z1) = (at - width, at + width, at - width * width, at + width * width);
            let points = &*self.points;
            let faces = points[y0] + points[y1] + points[z0] + points[z1];
            let edges = points[z0 - width] + points[z0 + width] + points[z1 - width] + points[z1 + width];
            (points[at], faces, edges)
        };
        let (before, here, after) = (sums(middle - 1), sums(middle), sums(middle + 1));
        weights[0] * here.0
            + weights[1] * (here.1 + before.0 + after.0)
            + weights[2] * (here.2 + before.1 + after.1)
            + weights[3] * (before.2 + after.2)
    }

    /// Calls `change` for every row of points that are no copies, with the place of its first.
    fn rows(side: usize) -> impl Iterator<Item = (usize, usize)> {
        (1..=side).flat_map(move |z| (1..=side).map(move |y| (z, y)))
    }

    /// Makes the copies again.
    fn wrap(&mut self) {
        let side = self.side;
        for (z, y) in Self::rows(side) {
            let row = self.index(z, y, 0);
            self.points[row] = self.points[row + side];
            self.points[row + side + 1] = self.points[row + 1];
        }
        let width = side + 2;
        for z in 1..=side {
            let [first, last] = [1, side].map(|y| self.index(z, y, 0));
            self.points.copy_within(last..last + width, first - width);
            self.points.copy_within(first..first + width, last + width);
        }
        let plane = width * width;
        self.points.copy_within(side * plane..(side + 1) * plane, 0);
        self.points.copy_within(plane..2 * plane, (side + 1) * plane);
    }

    /// The root of the mean square.
    fn norm(&self) -> f64 {
        let sum: f64 = Self::rows(self.side)
            .map(|(z, y)| {
                let row = self.index(z, y, 1);
                self.points[row..row + self.side].iter().map(|value| value * value).sum::<f64>()
            })
            .sum();
        libm::sqrt(sum / (self.side * self.side * self.side) as f64)
    }
}

/// One level: the approximate solution and what it leaves over.
struct Level {
    solution: Grid,
    residual: Grid,
}

impl Level {
    /// Improves the solution by the residual.
    fn smooth(&mut self) {
        for (z, y) in Grid::rows(self.solution.side) {
            for x in 1..=self.solution.side {
                let at = self.solution.index(z, y, x);
                self.solution.points[at] += self.residual.around(z, y, x, &SMOOTHER);
            }
        }
        self.solution.wrap();
    }

    /// Takes what the solution explains off `right`, or off the residual itself.
    fn leave(&mut self, right: Option<&Grid>) {
        for (z, y) in Grid::rows(self.solution.side) {
            for x in 1..=self.solution.side {
                let at = self.solution.index(z, y, x);
                let wanted = right.map_or(self.residual.points[at], |right| right.points[at]);
                self.residual.points[at] = wanted - self.solution.around(z, y, x, &OPERATOR);
            }
        }
        self.residual.wrap();
    }

    /// The residual of this level, coarser.
    fn restrict(&self, coarse: &mut Grid) {
        for (z, y) in Grid::rows(coarse.side) {
            for x in 1..=coarse.side {
                let at = coarse.index(z, y, x);
                coarse.points[at] = self.residual.around(2 * z, 2 * y, 2 * x, &RESTRICTION);
            }
        }
        coarse.wrap();
    }

    /// Adds a coarser level's solution, interpolated.
    fn add(&mut self, coarse: &Grid) {
        // Point 2i is coarse point i; point 2i - 1 lies between i - 1 and i.
        for (z, y) in Grid::rows(self.solution.side) {
            let ([z0, z1], [y0, y1]) = ([z / 2, z.div_ceil(2)], [y / 2, y.div_ceil(2)]);
            let rows = [(z0, y0), (z0, y1), (z1, y0), (z1, y1)].map(|(z, y)| coarse.index(z, y, 0));
            for x in 1..=self.solution.side {
                let at = self.solution.index(z, y, x);
                let sum = |x: usize| rows.iter().map(|row| coarse.points[row + x]).sum::<f64>();
                self.solution.points[at] += 0.125 * (sum(x / 2) + sum(x.div_ceil(2)));
            }
        }
        self.solution.wrap();
    }
}

/// `iterations` V-cycles; NPB's number is 4.
pub fn run(class: Class, iterations: u32, memory: &mut impl Memory) -> Outcome {
    let (levels, published) = match class {
        Class::T => (4, None),
        Class::S => (LEVELS_MAX, Some(0.530_770_700_573_4e-4)),
    };
    let mut right = Grid::new(1 << levels, memory);
    charge(&mut right);
    let mut all: [Option<Level>; LEVELS_MAX] = core::array::from_fn(|level| {
        (level < levels)
            .then(|| Level { solution: Grid::new(2 << level, memory), residual: Grid::new(2 << level, memory) })
    });
    let mut used = all.iter_mut().flatten();
    let mut cycle: [Option<&mut Level>; LEVELS_MAX] = core::array::from_fn(|_| used.next());
    let cycle = &mut cycle[..levels];
    let Some(Some(finest)) = cycle.last_mut() else { return Outcome { verified: false, value: 0.0 } };
    finest.leave(Some(&right));
    let before = finest.residual.norm();
    let mut after = before;
    for _ in 0..iterations {
        v_cycle(cycle, &right);
        if let Some(Some(finest)) = cycle.last_mut() {
            finest.leave(Some(&right));
            after = finest.residual.norm();
        }
    }
    let verified = match published {
        Some(published) if iterations == 4 => agrees(after, published, 1e-8),
        _ => after < before * 0.2,
    };
    Outcome { verified, value: after }
}

fn v_cycle(levels: &mut [Option<&mut Level>], right: &Grid) {
    for level in (1..levels.len()).rev() {
        let (coarser, finer) = levels.split_at_mut(level);
        if let (Some(Some(coarse)), Some(Some(fine))) = (coarser.last_mut(), finer.first()) {
            fine.restrict(&mut coarse.residual);
        }
    }
    let finest = levels.len() - 1;
    for level in 0..levels.len() {
        let (coarser, finer) = levels.split_at_mut(level);
        let Some(Some(here)) = finer.first_mut() else { continue };
        if level != finest {
            here.solution.points.fill(0.0);
        }
        if let Some(Some(coarse)) = coarser.last() {
            here.add(&coarse.solution);
            here.leave((level == finest).then_some(right));
        }
        here.smooth();
    }
}

/// +1 at the points where a random field is largest, and -1 where it is smallest.
fn charge(grid: &mut Grid) {
    let mut random = Random::new();
    let (mut largest, mut smallest) = ([(f64::MIN, 0); CHARGES], [(f64::MAX, 0); CHARGES]);
    for (z, y) in Grid::rows(grid.side) {
        for x in 1..=grid.side {
            let (value, at) = (random.next_number(), grid.index(z, y, x));
            // The first is the one that goes.
            if value > largest[0].0 {
                largest[0] = (value, at);
                largest.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            }
            if value < smallest[0].0 {
                smallest[0] = (value, at);
                smallest.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
            }
        }
    }
    for ((_, high), (_, low)) in largest.iter().zip(smallest) {
        grid.points[*high] = 1.0;
        grid.points[low] = -1.0;
    }
    grid.wrap();
}

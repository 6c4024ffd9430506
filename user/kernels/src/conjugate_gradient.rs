//! CG: the smallest eigenvalue of a random sparse matrix by inverse iteration, each step solved by conjugate gradients.

use crate::{Class, Memory, Outcome, agrees, random::Random};

const INNER_STEPS: usize = 25;
const CONDITION: f64 = 0.1;
const NONZEROS_MAX: usize = 8;

struct Problem {
    rows: usize,
    /// Nonzero elements of each random vector.
    nonzeros: usize,
    shift: f64,
    /// The eigenvalue estimate after 15 iterations.
    published: Option<f64>,
}

fn problem(class: Class) -> Problem {
    match class {
        Class::T => Problem { rows: 300, nonzeros: 5, shift: 10.0, published: None },
        Class::S => Problem { rows: 1400, nonzeros: 7, shift: 10.0, published: Some(8.597_177_507_864_8) },
    }
}

/// `iterations` steps of inverse iteration; NPB's number is 15.
pub fn run(class: Class, iterations: u32, memory: &mut impl Memory) -> Outcome {
    let problem = problem(class);
    let matrix = Matrix::random(&problem, memory);
    let rows = problem.rows;
    let x = memory.numbers(rows);
    let mut solver =
        Solver { z: memory.numbers(rows), p: memory.numbers(rows), q: memory.numbers(rows), r: memory.numbers(rows) };
    x.fill(1.0);
    let (mut zeta, mut residual) = (0.0, 0.0);
    for _ in 0..iterations {
        residual = solver.solve(&matrix, x);
        zeta = problem.shift + 1.0 / dot(x, solver.z);
        let scale = 1.0 / libm::sqrt(dot(solver.z, solver.z));
        for (x, z) in x.iter_mut().zip(solver.z.iter()) {
            *x = scale * z;
        }
    }
    let verified = match problem.published {
        Some(published) if iterations == 15 => agrees(zeta, published, 1e-10),
        _ => residual < 1e-6,
    };
    Outcome { verified, value: zeta }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// A sparse matrix, row by row.
struct Matrix {
    /// Where each row begins, and the end of the last.
    starts: &'static mut [u32],
    columns: &'static mut [u32],
    values: &'static mut [f64],
}

/// One of the vectors whose outer products add up to the matrix.
#[derive(Clone, Copy)]
struct Sparse {
    places: [u32; NONZEROS_MAX],
    values: [f64; NONZEROS_MAX],
    len: usize,
}

impl Sparse {
    /// Random values at different random places, and 0.5 at `own`.
    fn random(random: &mut Random, problem: &Problem, own: usize) -> Self {
        let power = problem.rows.next_power_of_two();
        let mut vector = Self { places: [0; NONZEROS_MAX], values: [0.0; NONZEROS_MAX], len: 0 };
        while vector.len < problem.nonzeros {
            let value = random.next_number();
            let place = (random.next_number() * power as f64) as u32;
            if (place as usize) < problem.rows && vector.find(place).is_none() {
                vector.push(place, value);
            }
        }
        match vector.find(own as u32) {
            Some(index) => vector.values[index] = 0.5,
            None => vector.push(own as u32, 0.5),
        }
        vector
    }

    fn find(&self, place: u32) -> Option<usize> {
        self.places[..self.len].iter().position(|other| *other == place)
    }

    fn push(&mut self, place: u32, value: f64) {
        (self.places[self.len], self.values[self.len]) = (place, value);
        self.len += 1;
    }
}

impl Matrix {
    /// The sum of outer products of random vectors, with weights from 1 down to [`CONDITION`], and a shifted diagonal.
    fn random(problem: &Problem, memory: &mut impl Memory) -> Self {
        let rows = problem.rows;
        let starts = memory.integers(rows + 1);
        // `zeta` is the first random number of NPB's program, and not used.
        let vectors = || {
            let mut random = Random::new();
            random.next_integer();
            (0..rows).map(move |own| Sparse::random(&mut random, problem, own))
        };
        for vector in vectors() {
            for place in &vector.places[..vector.len] {
                starts[*place as usize + 1] += vector.len as u32;
            }
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let room = starts[rows] as usize;
        let (columns, values) = (memory.integers(room), memory.numbers(room));
        let lens = memory.integers(rows);
        let ratio = libm::pow(CONDITION, 1.0 / rows as f64);
        let mut weight = 1.0;
        for (own, vector) in vectors().enumerate() {
            for (place, value) in vector.places.iter().zip(vector.values).take(vector.len) {
                let row = *place as usize;
                let span = starts[row] as usize..starts[row + 1] as usize;
                let mut row_of =
                    Row { columns: &mut columns[span.clone()], values: &mut values[span], len: &mut lens[row] };
                for (column, other) in vector.places.iter().zip(vector.values).take(vector.len) {
                    let diagonal = row == own && *column as usize == own;
                    let shift = if diagonal { CONDITION - problem.shift } else { 0.0 };
                    row_of.add(*column, other * (weight * value) + shift);
                }
            }
            weight *= ratio;
        }
        Self { starts, columns, values }.packed(lens)
    }

    /// Without the room that equal places left over.
    fn packed(self, lens: &[u32]) -> Self {
        let mut end = 0;
        for (row, len) in lens.iter().enumerate() {
            let from = self.starts[row] as usize;
            let span = from..from + *len as usize;
            self.columns.copy_within(span.clone(), end);
            self.values.copy_within(span, end);
            self.starts[row] = end as u32;
            end += *len as usize;
        }
        self.starts[lens.len()] = end as u32;
        self
    }

    fn multiply(&self, vector: &[f64], product: &mut [f64]) {
        for (row, product) in product.iter_mut().enumerate() {
            let span = self.starts[row] as usize..self.starts[row + 1] as usize;
            let (columns, values) = (&self.columns[span.clone()], &self.values[span]);
            *product = values.iter().zip(columns).map(|(value, column)| value * vector[*column as usize]).sum();
        }
    }
}

/// A row that is being built, sorted by column.
struct Row<'a> {
    columns: &'a mut [u32],
    values: &'a mut [f64],
    len: &'a mut u32,
}

impl Row<'_> {
    fn add(&mut self, column: u32, value: f64) {
        let len = *self.len as usize;
        let at = self.columns[..len].partition_point(|other| *other < column);
        if at == len || self.columns[at] != column {
            self.columns.copy_within(at..len, at + 1);
            self.values.copy_within(at..len, at + 1);
            (self.columns[at], self.values[at]) = (column, 0.0);
            *self.len += 1;
        }
        self.values[at] += value;
    }
}

struct Solver {
    z: &'static mut [f64],
    p: &'static mut [f64],
    q: &'static mut [f64],
    r: &'static mut [f64],
}

impl Solver {
    /// Solves `matrix · z = x` approximately; the norm of what is missing.
    fn solve(&mut self, matrix: &Matrix, x: &[f64]) -> f64 {
        self.z.fill(0.0);
        self.r.copy_from_slice(x);
        self.p.copy_from_slice(x);
        let mut rho = dot(self.r, self.r);
        for _ in 0..INNER_STEPS {
            matrix.multiply(self.p, self.q);
            let alpha = rho / dot(self.p, self.q);
            for index in 0..x.len() {
                self.z[index] += alpha * self.p[index];
                self.r[index] -= alpha * self.q[index];
            }
            let before = core::mem::replace(&mut rho, dot(self.r, self.r));
            for (p, r) in self.p.iter_mut().zip(self.r.iter()) {
                *p = r + rho / before * *p;
            }
        }
        matrix.multiply(self.z, self.r);
        libm::sqrt(x.iter().zip(self.r.iter()).map(|(x, r)| (x - r) * (x - r)).sum())
    }
}

//! Keeping a counter of unknown and changing rate in step with a slower clock that is right: what a HAL needs whose
//! fast counter is not the clock that all islands' counters keep pace with.
//!
//! Both are read together from time to time ([`Moment`]). The counter's rate is measured over [`BASELINE_NS`] at least, so that
//! the error of reading both together becomes small. The result is a [`Line`]. Lines follow one another without a step
//! back: if the counter was ahead, it stands still until the other has come up, for less than a microsecond usually.

/// Rates are measured over this time at least, once it has passed, and over twice as much at most, in nanoseconds.
pub const BASELINE_NS: u64 = 8_000_000_000;
/// If both differ by more, one of them has been set, or stood still; they go on from where they are. In nanoseconds.
pub const JUMP_NS: u64 = 1_000_000;
const FRACTION_BITS: u32 = 32;

/// A reading of both at once.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Of the counter.
    pub ticks: u64,
    /// Of the clock that is right, in nanoseconds.
    pub ns: u64,
}

/// Nanoseconds as a function of the counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The counter somewhere on the line.
    pub ticks: u64,
    /// Nanoseconds there.
    pub ns: u64,
    /// Nanoseconds per tick, 32.32.
    pub rate: u64,
    /// Never less than this.
    pub floor_ns: u64,
}

impl Line {
    /// The nanoseconds when the counter shows `ticks`, which is after the line's own. 128 bits: no overflow in the counter's
    /// life.
    #[inline(always)]
    pub fn at(&self, ticks: u64) -> u64 {
        let elapsed = u128::from(ticks.wrapping_sub(self.ticks)) * u128::from(self.rate);
        self.ns.wrapping_add((elapsed >> FRACTION_BITS) as u64).max(self.floor_ns)
    }
}

/// What is remembered from one correction to the next.
#[derive(Clone, Copy, Debug)]
pub struct Steering {
    old: Moment,
    young: Moment,
    /// What is added to the clock that is right (wrapping): jumps.
    shift_ns: u64,
}

impl Steering {
    /// Begins with two moments some time apart.
    pub fn new(start: Moment, end: Moment) -> (Self, Line) {
        let steering = Self { old: start, young: start, shift_ns: 0 };
        (steering, Line { ticks: start.ticks, ns: start.ns, rate: rate(start, end), floor_ns: start.ns })
    }

    /// The line from `now` on. Its floor is for the caller to set: what the old line gives when the new one takes its place.
    pub fn correct(&mut self, line: &Line, now: Moment) -> Line {
        let own_ns = line.at(now.ticks);
        let mut now = Moment { ticks: now.ticks, ns: now.ns.wrapping_add(self.shift_ns) };
        let error_ns = own_ns.wrapping_sub(now.ns);
        if error_ns.cast_signed().unsigned_abs() > JUMP_NS || now.ns <= self.old.ns || now.ticks <= self.old.ticks {
            self.shift_ns = self.shift_ns.wrapping_add(error_ns);
            now.ns = own_ns;
            (self.old, self.young) = (now, now);
            return Line { ticks: now.ticks, ns: own_ns, rate: line.rate, floor_ns: own_ns };
        }
        let rate = rate(self.old, now);
        if now.ns - self.young.ns >= BASELINE_NS {
            (self.old, self.young) = (self.young, now);
        }
        Line { ticks: now.ticks, ns: now.ns, rate, floor_ns: own_ns }
    }
}

fn rate(from: Moment, to: Moment) -> u64 {
    let ticks = u128::from(to.ticks.wrapping_sub(from.ticks)).max(1);
    ((u128::from(to.ns.wrapping_sub(from.ns)) << FRACTION_BITS) / ticks) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// xorshift64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }
    }

    /// Runs a counter of `rates` ticks per millisecond, first one and then the other, with readings that are wrong by up to
    /// `noise_ns` and irregular corrections; `each` gets the time, the line's and the step at each correction.
    fn run(seed: u64, rates: [u64; 2], noise_ns: u64, mut each: impl FnMut(u64, u64, u64)) {
        let mut random = Random(seed);
        let ticks_zero = u64::MAX - 5_000_000_000; // it wraps
        let mut ticks = u128::from(ticks_zero);
        let mut true_ns = 0;
        let moment = |random: &mut Random, ticks: u128, ns: u64| Moment {
            ticks: ticks as u64,
            ns: 1_000_000 + ns + random.below(noise_ns + 1),
        };
        let start = moment(&mut random, ticks, true_ns);
        (ticks, true_ns) = (ticks + 5 * u128::from(rates[0]), true_ns + 5_000_000);
        let end = moment(&mut random, ticks, true_ns);
        let (mut steering, mut line) = Steering::new(start, end);
        for step in 0..4000 {
            // Half as many at the first rate as at the second.
            let rate = rates[usize::from(step > 1300)];
            let pause_us = if random.below(50) == 0 { random.below(3_000_000) } else { 50_000 + random.below(10_000) };
            (ticks, true_ns) = (ticks + u128::from(pause_us * rate / 1000), true_ns + 1000 * pause_us);
            let now = moment(&mut random, ticks, true_ns);
            let before_ns = line.at(ticks as u64);
            line = steering.correct(&line, now);
            line.floor_ns = before_ns;
            let after_ns = line.at(ticks as u64);
            assert!(after_ns >= before_ns, "it went back");
            each(true_ns + 1_000_000, after_ns, after_ns - before_ns);
        }
    }

    #[test]
    fn a_steered_counter_keeps_pace_and_never_goes_back() {
        for (seed, rate) in [(1, 3_000_001), (7, 2_400_777), (99, 1_000_003)] {
            let mut corrections = 0;
            run(seed, [rate, rate], 800, |true_ns, ns, step_ns| {
                corrections += 1;
                // The first ones have a short time to measure the rate over.
                if corrections > 100 {
                    assert!(ns.abs_diff(true_ns) <= 2000 && step_ns <= 2000, "{ns} at {true_ns}, a step of {step_ns}");
                }
            });
        }
    }

    /// The host's time is being disciplined itself (NTP): its rate changes by 20 parts in a million.
    #[test]
    fn a_rate_that_changes_is_followed() {
        let (mut corrections, mut worst_ns) = (0, 0);
        run(5, [3_000_000, 3_000_060], 800, |true_ns, ns, _| {
            corrections += 1;
            if corrections > 100 {
                worst_ns = worst_ns.max(ns.abs_diff(true_ns));
            }
        });
        // Corrections are three seconds apart at most.
        assert!((500..65_000).contains(&worst_ns), "{worst_ns}");
    }

    #[test]
    fn a_jump_of_either_is_left_out() {
        let moment = |ticks, ns| Moment { ticks, ns };
        let (mut steering, first) = Steering::new(moment(0, 0), moment(1 << 20, 1 << 20));
        for (ticks, ns) in [(2u64 << 30, 1u64 << 30), (1 << 30, 3 << 30)] {
            let mut line = steering.correct(&first, moment(ticks, ns));
            assert_eq!((line.at(ticks), line.rate), (ticks, 1 << 32));
            // And it goes on from there.
            for second in 1..100u64 {
                let at = second << 30;
                line = steering.correct(&line, moment(ticks + at, ns + at));
                assert_eq!(line.at(ticks + at), ticks + at);
            }
            steering = Steering::new(moment(0, 0), moment(1 << 20, 1 << 20)).0;
        }
    }

    #[test]
    fn weeks_do_not_overflow() {
        let line = Line { ticks: 0, ns: 0, rate: (1 << 32) / 3, floor_ns: 0 };
        let year = 365 * 86_400 * 3_000_000_000;
        assert!(line.at(year).abs_diff(365 * 86_400 * 1_000_000_000) < 100_000_000);
    }
}

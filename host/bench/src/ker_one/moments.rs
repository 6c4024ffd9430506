//! What the moments of a run say: how long the ways through the kernel take.

/// What a core has come by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The kernel's trap handler, with `scause`.
    Trap,
    /// The instruction before its return, with `hstatus`.
    Leaves,
    /// Its return, with `hgatp`.
    Return,
    /// Marks on the way from guest to guest: the one that ran is stored, ...
    Left,
    /// ... it is decided which thread is next, ...
    Chosen,
    /// ... and all is ready for its guest but the registers.
    Ready,
    /// The handler of interrupts of the guest that is measured.
    Handler,
    /// Its thread that waits for a tick reads the time.
    Released,
    /// Its call that sets the timer, once in each tick, ...
    Tick,
    /// ... and the instruction behind it.
    TickSet,
}

/// A core came by an instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moment {
    pub what: What,
    pub at_us: f64,
    pub value: u64,
}

/// `scause`: an interrupt; a call of VS-mode.
pub const INTERRUPT: u64 = 1 << 63;
const CALL: u64 = 10;
/// The part of `hgatp` that says which machine it is; cores of one have numbers of their own in it.
pub const TABLES: u64 = (1 << 44) - 1;
/// `hstatus.SPV`: the return goes to a guest.
pub const GUEST: u64 = 1 << 7;

/// Smallest, mean and largest of some.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
    pub count: usize,
}

impl Spread {
    /// Of samples; not numbers, if there is none.
    pub fn of(samples: &[f64]) -> Self {
        let fold = |start, pick: fn(f64, f64) -> f64| samples.iter().copied().fold(start, pick);
        let count = samples.len();
        Self {
            min: fold(f64::NAN, f64::min),
            mean: samples.iter().sum::<f64>() / count as f64,
            max: fold(f64::NAN, f64::max),
            count,
        }
    }
}

/// A stay in the kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Stay {
    /// Why it began.
    cause: u64,
    from_us: f64,
    to_us: f64,
    /// The tables of the guest that ran before, and of that which runs after; `None`: a program.
    before: Option<u64>,
    after: Option<u64>,
    /// When the guest's handler began, if it did so before the next trap.
    handled_us: Option<f64>,
}

/// All stays, from traps to returns. `entry_us`: what getting into the kernel takes, before the handler's first instruction.
fn stays(moments: &[Moment], entry_us: f64) -> Vec<Stay> {
    let mut all: Vec<Stay> = Vec::new();
    let (mut trap, mut running, mut is_guest, mut is_open) = (None, None, false, false);
    for moment in moments {
        match moment.what {
            What::Trap => (trap, is_open) = (Some(moment), false),
            What::Leaves => is_guest = moment.value & GUEST != 0,
            What::Return => {
                let after = is_guest.then_some(moment.value & TABLES);
                if let Some(trap) = trap.take() {
                    let (cause, from_us, to_us) = (trap.value, trap.at_us - entry_us, moment.at_us);
                    all.push(Stay { cause, from_us, to_us, before: running, after, handled_us: None });
                    is_open = true;
                }
                running = after;
            }
            What::Handler if is_open => {
                is_open = false;
                all.iter_mut().last().into_iter().for_each(|stay| stay.handled_us = Some(moment.at_us));
            }
            What::Handler | What::Released | What::Tick | What::TickSet | What::Left | What::Chosen | What::Ready => {}
        }
    }
    all
}

/// What a kernel's part of running guests takes, in microseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ways {
    /// Hypercalls, there and back.
    pub calls: Vec<f64>,
    /// From an interrupt in a guest until that guest's handler begins.
    pub interrupts: Vec<f64>,
    /// From a trap of a guest until another one runs.
    pub switches: Vec<f64>,
    /// From an interrupt in another guest until the handler of the one that is measured begins.
    pub preemptions: Vec<f64>,
    /// All stays between guests.
    pub all: Vec<f64>,
}

impl Ways {
    /// Of a run. Guests other than the one whose handler is watched have tables of their own.
    pub fn of(moments: &[Moment], entry_us: f64) -> Self {
        let mut ways = Self::default();
        for stay in stays(moments, entry_us) {
            let took_us = stay.to_us - stay.from_us;
            let (Some(before), Some(after)) = (stay.before, stay.after) else { continue };
            ways.all.push(took_us);
            if before != after {
                ways.switches.push(took_us);
            } else if stay.cause == CALL {
                ways.calls.push(took_us);
            }
            if let Some(handled_us) = stay.handled_us.filter(|_| stay.cause & INTERRUPT != 0) {
                let way = if before == after { &mut ways.interrupts } else { &mut ways.preemptions };
                way.push(handled_us - stay.from_us);
            }
        }
        ways
    }
}

/// From the beginning of a handler until the thread runs that has waited for the tick.
pub fn releases(moments: &[Moment]) -> Vec<f64> {
    let mut handled_us = None;
    let mut all = Vec::new();
    for moment in moments {
        match moment.what {
            What::Handler => handled_us = Some(moment.at_us),
            What::Released => all.extend(handled_us.take().map(|from_us| moment.at_us - from_us)),
            What::Trap
            | What::Leaves
            | What::Return
            | What::Tick
            | What::TickSet
            | What::Left
            | What::Chosen
            | What::Ready => {}
        }
    }
    all
}

/// From traps of guests until a program runs, their monitor; and from its system call until a guest runs that has been left for it.
pub fn monitor(moments: &[Moment], entry_us: f64) -> [Vec<f64>; 2] {
    const DEVICES: [u64; 2] = [21, 23];
    const SYSTEM_CALL: u64 = 8;
    let [mut traps, mut resumes] = [Vec::new(), Vec::new()];
    for stay in stays(moments, entry_us) {
        let took_us = stay.to_us - stay.from_us;
        match (stay.before, stay.after) {
            (Some(_), None) if DEVICES.contains(&stay.cause) => traps.push(took_us),
            (None, Some(_)) if stay.cause == SYSTEM_CALL => resumes.push(took_us),
            _ => {}
        }
    }
    [traps, resumes]
}

/// Those from the handler's first runs on: until then memory is touched for the first time.
pub fn from_ticks(moments: &[Moment], ticks: usize) -> Vec<Moment> {
    let mut handlers = moments.iter().enumerate().filter(|(_, moment)| moment.what == What::Handler);
    handlers.nth(ticks).map_or(Vec::new(), |(at, _)| moments[at..].to_vec())
}

/// Those from when each of so many guests has had so many ticks.
pub fn from_ticks_of_each(moments: &[Moment], guests: usize, ticks: usize) -> Vec<Moment> {
    let mut counts: Vec<(u64, usize)> = Vec::new();
    let (mut running, mut is_guest) = (None, false);
    let start = moments.iter().position(|moment| {
        match moment.what {
            What::Leaves => is_guest = moment.value & GUEST != 0,
            What::Return => running = is_guest.then_some(moment.value & TABLES),
            What::Handler => match counts.iter_mut().find(|(guest, _)| Some(*guest) == running) {
                Some((_, count)) => *count += 1,
                None => counts.extend(running.map(|guest| (guest, 1))),
            },
            What::Trap | What::Released | What::Tick | What::TickSet | What::Left | What::Chosen | What::Ready => {}
        }
        counts.iter().filter(|(_, count)| *count >= ticks).count() >= guests
    });
    start.map_or(Vec::new(), |at| moments[at..].to_vec())
}

/// What the calls take that set the timer.
pub fn timer_calls(moments: &[Moment]) -> Vec<f64> {
    let pairs = moments.windows(2).filter(|pair| (pair[0].what, pair[1].what) == (What::Tick, What::TickSet));
    pairs.map(|pair| pair[1].at_us - pair[0].at_us).collect()
}

/// The usual time from tick to tick.
pub fn tick_us(moments: &[Moment]) -> Option<f64> {
    let ticks: Vec<f64> =
        moments.iter().filter(|moment| moment.what == What::Tick).map(|moment| moment.at_us).collect();
    let gaps: Vec<f64> = ticks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    (!gaps.is_empty()).then(|| crate::report::median(&gaps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY_US: f64 = 0.5;

    fn moments(of: &[(f64, What, u64)]) -> Vec<Moment> {
        of.iter().map(|&(at_us, what, value)| Moment { what, at_us, value }).collect()
    }

    /// A return to a guest.
    fn enter(at_us: f64, guest: u64) -> [(f64, What, u64); 2] {
        [(at_us, What::Leaves, GUEST), (at_us, What::Return, guest)]
    }

    fn near(found: &[f64], wanted: &[f64]) {
        assert!(found.len() == wanted.len(), "{found:?} {wanted:?}");
        found.iter().zip(wanted).for_each(|(found, wanted)| assert!((found - wanted).abs() < 1e-9, "{found} {wanted}"));
    }

    #[test]
    fn each_way_is_told_apart() {
        let run = [
            &enter(1.0, 7)[..],
            // A call, in which nothing else happens.
            &[(10.0, What::Trap, CALL)],
            &enter(11.0, 7),
            // A tick of its own, whose handler runs; then one that software has raised, without the kernel.
            &[(20.0, What::Trap, INTERRUPT | 9)],
            &enter(22.0, 7),
            &[(22.25, What::Handler, 0), (25.0, What::Released, 0), (26.0, What::Handler, 0)],
            // Another guest's turn, and then this one's, as its tick has come.
            &[(30.0, What::Trap, 22)],
            &enter(34.0, 8),
            &[(40.0, What::Trap, INTERRUPT | 9)],
            &enter(45.0, 7),
            &[(45.5, What::Handler, 0)],
            // A program's turn: none of these.
            &[(50.0, What::Trap, 21), (53.0, What::Leaves, 0), (53.0, What::Return, 7), (55.0, What::Trap, 8)],
            &enter(58.0, 7),
        ]
        .concat();
        let run = moments(&run);
        let ways = Ways::of(&run, ENTRY_US);
        near(&ways.calls, &[1.5]);
        near(&ways.interrupts, &[2.75]);
        near(&ways.switches, &[4.5, 5.5]);
        near(&ways.preemptions, &[6.0]);
        near(&ways.all, &[1.5, 2.5, 4.5, 5.5]);
        near(&releases(&run), &[2.75]);
        let [traps, resumes] = monitor(&run, ENTRY_US);
        near(&traps, &[3.5]);
        near(&resumes, &[3.5]);
        assert_eq!(from_ticks_of_each(&run, 1, 3).len(), from_ticks(&run, 2).len());
        assert!(from_ticks_of_each(&run, 2, 1).is_empty(), "the other guest has no handler that is watched");
        assert_eq!(from_ticks(&run, 2).len(), 7);
        assert!(from_ticks(&run, 3).is_empty());
    }

    #[test]
    fn spreads_and_ticks() {
        assert_eq!(Spread::of(&[2.0, 1.0, 6.0]), Spread { min: 1.0, mean: 3.0, max: 6.0, count: 3 });
        assert!(Spread::of(&[]).mean.is_nan());
        let ticks = [1.0, 2.0, 3.0, 9.0].map(|at_us| (at_us, What::Tick, 0));
        assert_eq!(tick_us(&moments(&ticks)), Some(1.0));
        assert_eq!(tick_us(&moments(&ticks[..1])), None);
        let calls = [(1.0, What::Tick, 0), (1.5, What::TickSet, 0), (2.0, What::Tick, 0), (2.5, What::Handler, 0)];
        near(&timer_calls(&moments(&calls)), &[0.5]);
    }
}

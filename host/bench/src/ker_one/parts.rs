//! Where the instructions of a switch from guest to guest go, by the kernel's marks on the way: moments of a run in which an instruction takes a
//! nanosecond, and nothing else is charged.

use motet_layout::marks;

use super::moments::{GUEST, INTERRUPT, Moment, TABLES, What};
use crate::report::median;

/// In `machines/ker-one.toml`: what is charged beside instructions, and what is then.
pub const COUNTING: [(&str, &str); 9] = [
    ("frequency_mhz = 667", "frequency_mhz = 1000"),
    ("cycles = 4 }", "cycles = 0 }"),
    ("cycles = 23 }", "cycles = 0 }"),
    ("trap_entry_cycles = 27", "trap_entry_cycles = 0"),
    ("trap_exit_cycles = 27", "trap_exit_cycles = 0"),
    ("end_of_interrupt_cycles = 71", "end_of_interrupt_cycles = 0"),
    ("wake_cycles = 667", "wake_cycles = 0"),
    ("cycles = 2 }", "cycles = 0 }"),
    ("memory_cycles = 96", "memory_cycles = 0"),
];

/// The kernel's marks, and what a moment at one is.
pub const MARKS: [(u8, What); 3] =
    [(marks::GUEST_LEFT, What::Left), (marks::GUEST_NEXT, What::Chosen), (marks::GUEST_RUNS, What::Ready)];

/// Where marks divide a switch.
pub const PARTS: [(&str, &str); 4] = [
    ("trap", "general and system registers of the guest that ran, and the core's acknowledgement"),
    ("choice", "what is due, and which thread is next"),
    ("books", "the thread is taken: its books, its wait, its guest's core"),
    ("entry", "system and general registers of the guest that runs"),
];

/// Instructions of a kind of switch: medians.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Parts {
    pub all: f64,
    /// In the order of [`PARTS`].
    pub parts: [f64; 4],
    /// How many switches there were, and how many of them came by all the marks.
    pub samples: [usize; 2],
}

/// Why a core goes from one guest to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The timer has interrupted the guest that ran.
    Interrupt,
    /// The guest that ran waits.
    Wait,
}

impl Why {
    fn of(cause: u64) -> Option<Self> {
        const VIRTUAL_INSTRUCTION: u64 = 22;
        match cause {
            VIRTUAL_INSTRUCTION => Some(Self::Wait),
            cause if cause & INTERRUPT != 0 => Some(Self::Interrupt),
            _ => None,
        }
    }
}

impl Parts {
    /// Of the switches of a run for a reason.
    pub fn of(moments: &[Moment], why: Why) -> Self {
        let (mut totals, mut parts) = (Vec::new(), [const { Vec::new() }; 4]);
        let (mut running, mut is_guest) = (None, false);
        // The trap, and where the marks were.
        let mut stay: Option<(Why, f64, [Option<f64>; 3])> = None;
        for moment in moments {
            let at = moment.at_us * 1e3;
            let mut mark = |index: usize| stay.iter_mut().for_each(|(_, _, marks)| marks[index] = Some(at));
            match moment.what {
                What::Trap => stay = Why::of(moment.value).map(|why| (why, at, [None; 3])),
                What::Left => mark(0),
                What::Chosen => mark(1),
                What::Ready => mark(2),
                What::Leaves => is_guest = moment.value & GUEST != 0,
                What::Return => {
                    let before = running;
                    running = is_guest.then_some(moment.value & TABLES);
                    let is_switch = before.is_some() && running.is_some() && before != running;
                    let Some((_, from, marks)) = stay.take().filter(|stay| is_switch && stay.0 == why) else {
                        continue;
                    };
                    totals.push(at - from);
                    if let [Some(left), Some(chosen), Some(ready)] = marks {
                        let borders = [from, left, chosen, ready, at];
                        parts.iter_mut().zip(borders.windows(2)).for_each(|(part, ends)| part.push(ends[1] - ends[0]));
                    }
                }
                What::Handler | What::Released | What::Tick | What::TickSet => {}
            }
        }
        let samples = [totals.len(), parts[0].len()];
        let middle = |values: &Vec<f64>| if values.is_empty() { f64::NAN } else { median(values) };
        Self { all: middle(&totals), parts: parts.each_ref().map(middle), samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: u64 = 10;

    #[test]
    fn switches_are_divided_by_marks() {
        let stay = |at: f64, cause: u64, steps: [f64; 4], guest: u64| {
            let [left, chosen, ready, back] = steps.map(|after| at + after / 1e3);
            let whats = [What::Trap, What::Left, What::Chosen, What::Ready, What::Leaves, What::Return];
            let values = [cause, 0, 0, 0, GUEST, guest];
            let moments = [at, left, chosen, ready, back, back].into_iter().zip(whats).zip(values);
            moments.map(|((at_us, what), value)| Moment { what, at_us, value }).collect::<Vec<_>>()
        };
        let mut run = [
            stay(1.0, CALL, [1.0, 2.0, 3.0, 4.0], 7),
            stay(2.0, INTERRUPT | 9, [100.0, 150.0, 350.0, 400.0], 8),
            stay(3.0, 22, [90.0, 100.0, 200.0, 210.0], 7),
            // The same guest again: no switch.
            stay(4.0, INTERRUPT | 9, [1.0, 2.0, 3.0, 4.0], 7),
        ]
        .concat();
        let near = |found: Parts, all: f64, parts: [f64; 4]| {
            let all = [all, parts[0], parts[1], parts[2], parts[3]];
            let of = [found.all, found.parts[0], found.parts[1], found.parts[2], found.parts[3]];
            of.iter().zip(all).for_each(|(found, wanted)| assert!((found - wanted).abs() < 1e-6, "{of:?} {all:?}"));
        };
        near(Parts::of(&run, Why::Interrupt), 400.0, [100.0, 50.0, 200.0, 50.0]);
        near(Parts::of(&run, Why::Wait), 210.0, [90.0, 10.0, 100.0, 10.0]);
        // One that does not come by a mark counts, but has no parts.
        run.extend(
            stay(5.0, INTERRUPT | 9, [0.0, 0.0, 0.0, 2000.0], 8)
                .into_iter()
                .filter(|moment| moment.what != What::Chosen),
        );
        run.extend(
            stay(6.0, INTERRUPT | 9, [0.0, 0.0, 0.0, 2000.0], 7)
                .into_iter()
                .filter(|moment| moment.what != What::Chosen),
        );
        let found = Parts::of(&run, Why::Interrupt);
        assert_eq!(found.samples, [3, 1]);
        near(found, 2000.0, [100.0, 50.0, 200.0, 50.0]);
    }
}

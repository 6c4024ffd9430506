//! Exchanges whose order is not that of simulated time: cores that share lines are counted, and those that hand them on are not.

use motet_coherence::{Core, Counters, Kind};

use crate::common::{self, access, run_two};

const US: u64 = 1_000_000;
/// At the same place of two pages.
const LINES: [u64; 2] = [0, 4096];

/// A core does something to a line when its clock shows `at_us`.
fn at(core: &mut Core<'_>, at_us: u64, kind: Kind, line: usize) {
    core.note_clock(at_us * US);
    access(core, kind, LINES[line]);
}

/// The same machine, whose snoops take no time to speak of.
fn quick(text: &str) -> String {
    text.replace("= 7000", "= 1").replace("= 9000", "= 1")
}

/// Exchanges in doubt, and for how long, in microseconds.
fn doubt(counters: &Counters) -> (u64, u64) {
    (counters.doubtful_exchanges, counters.doubtful_ps.div_ceil(US))
}

#[test]
fn a_line_that_two_cores_use_all_the_time_in_turns_is_in_doubt_for_all_of_it() {
    let rounds = 5;
    let turn = |core: &mut Core<'_>, round| {
        at(core, round * 10, Kind::Store, 0);
        core.note_clock((round + 1) * 10 * US);
    };
    for text in [common::TINY.to_owned(), common::one_l3(), common::no_l3(), common::only_l1()].map(|text| quick(&text))
    {
        let [a, b] = run_two(&text, |a, b| {
            for round in 0..rounds {
                turn(a, round);
                turn(b, round);
            }
        });
        let (exchanges, time_us) = doubt(&a);
        assert_eq!(exchanges, rounds - 1, "{text}");
        assert!(time_us * 100 / (exchanges * 10) > 90, "{time_us} us: {text}");
        assert_eq!(doubt(&b), (0, 0), "who comes second is never ahead: {text}");
    }
}

#[test]
fn cores_that_come_together_before_they_would_use_a_line_again_are_in_no_doubt() {
    let [a, b] = run_two(&quick(common::TINY), |a, b| {
        for round in 0..100 {
            at(a, round * 20, Kind::Store, 0);
            at(b, round * 20 + 10, Kind::Store, 0);
        }
    });
    assert_eq!([doubt(&a), doubt(&b)], [(0, 0); 2]);
}

#[test]
fn a_line_that_is_handed_on_is_in_no_doubt_however_far_its_first_owner_is() {
    let [a, b] = run_two(&quick(common::TINY), |a, b| {
        for round in 0..10 {
            at(a, round * 100, Kind::Store, 0);
            a.note_clock((round * 100 + 10) * US);
            at(b, round * 100 + 2, Kind::Load, 0);
        }
    });
    assert_eq!([doubt(&a), doubt(&b)], [(0, 0); 2]);
}

#[test]
fn a_core_that_waits_for_a_word_and_sees_it_too_late_is_in_doubt() {
    // It looks all the time until 10 us; the word was written at 3 us.
    let [late, _] = run_two(&quick(common::TINY), |a, b| {
        at(a, 0, Kind::Load, 0);
        a.note_clock(10 * US);
        at(b, 3, Kind::Store, 0);
        at(a, 10, Kind::Load, 0);
    });
    assert_eq!(doubt(&late), (1, 7));
}

#[test]
fn a_core_that_sees_a_word_too_early_is_in_doubt_if_by_more_than_a_transfer() {
    for (text, expected) in [(common::TINY.to_owned(), (0, 0)), (quick(common::TINY), (1, 6))] {
        let [early, _] = run_two(&text, |a, b| {
            at(a, 4, Kind::Load, 0);
            at(b, 10, Kind::Store, 0);
            at(a, 4, Kind::Load, 0);
        });
        assert_eq!(doubt(&early), expected);
    }
}

#[test]
fn a_line_that_is_read_and_then_written_was_taken_when_it_was_read() {
    let [late, _] = run_two(&quick(common::TINY), |a, b| {
        at(a, 0, Kind::Store, 0);
        a.note_clock(10 * US);
        at(b, 3, Kind::Load, 0);
        at(b, 9, Kind::Store, 0);
        at(a, 10, Kind::Store, 0);
    });
    assert_eq!(doubt(&late), (1, 7));
}

#[test]
fn time_in_doubt_for_several_lines_counts_once() {
    let [a, _] = run_two(&quick(common::TINY), |a, b| {
        for line in [0, 1] {
            at(a, 0, Kind::Store, line);
        }
        a.note_clock(10 * US);
        for line in [0, 1] {
            at(b, line as u64, Kind::Store, line);
        }
        for line in [0, 1] {
            at(a, 10, Kind::Store, line);
        }
    });
    assert_eq!(doubt(&a), (2, 10));
}

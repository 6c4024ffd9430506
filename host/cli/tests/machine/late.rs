//! Pages that arrive late (`/dev/late`): faults and copies of user memory wait for them, on every instruction set.

use crate::{
    crossing::compiled,
    trial::{Trial, trial},
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("late::faults_and_copies_wait_for_pages_that_arrive_late", waits)]
}

fn waits() -> Result<(), String> {
    let ended = compiled("late", &["-O1"])?.run("late", None);
    let parts = "shared\nprivate\nexecutes\ntransfers\nstructures\nfutexes\ntogether\nhandlers\nmasks\nends\nforks\n";
    ended.expect_code(0)?.expect_output(parts).map(drop)
}

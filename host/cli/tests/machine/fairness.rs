//! Users who take all they can get leave others what is theirs.

use std::time::Duration;

use crate::{
    crossing::{Programs, source},
    process::{ISAS, Motet},
    trial::{Trial, trial},
};

/// Processes that a bomb has at least, when the superuser's commands begin.
const BOMB_LEAST: usize = 100;

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![trial("fairness::a_fork_bomb_of_a_user_leaves_the_superusers_shell_answering", fork_bomb)]
}

/// Each island has a bomb of a user of its own, whose processes never wait. Were they served in turns, each of the
/// superuser's commands would wait for hundreds of time slices again and again.
fn fork_bomb() -> Result<(), String> {
    let mut command = String::new();
    let programs = Programs::new()?;
    for (index, isa) in ISAS.iter().enumerate() {
        programs.compile(&source("bomb"), &format!("bomb-{isa}"), &["-O2", &format!("--isa={isa}")])?;
        command += &format!("/in/programs/bomb-{isa} {} &\n", 1000 + index);
    }
    command += &format!("until set -- /proc/[0-9]*; [ $# -gt {} ]; do sleep 0.1; done\n", ISAS.len() * BOMB_LEAST);
    for isa in ISAS {
        command += &format!("for i in 1 2 3 4 5; do on {isa} sh -c 'seq 100 | tail -n 1'; done\n");
    }
    let ended = Motet::run(["--in".as_ref(), programs.path.as_os_str()]);
    let ended = ended.arguments(["--", &command]).limit(Duration::from_secs(600)).wait();
    ended.expect_code(0)?.expect_output(&"100\n".repeat(5 * ISAS.len())).map(drop)
}

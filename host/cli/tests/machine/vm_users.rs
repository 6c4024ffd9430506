//! Virtual machines of other users (docs/permissions.md): who they are kept from, within the machine and on the host.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::Command,
    time::Duration,
};

use crate::{
    process::{self, Motet, root},
    trial::{Trial, trial},
    vm::guest,
};

/// All of them.
pub fn trials() -> Vec<Trial> {
    vec![
        trial("vm_users::a_machine_is_not_another_users", within),
        trial("vm_users::a_run_is_not_another_users_of_the_host", on_host).for_the_superuser(),
    ]
}

fn machine(command: &str) -> Motet {
    let (machine, guest) = (root().join("machines/two-riscv.toml"), guest());
    let motet = Motet::run(["--quiet".as_ref(), "--machine".as_ref(), machine.as_os_str(), "--in".as_ref()]);
    motet.argument(guest).arguments(["--", command]).limit(Duration::from_secs(600))
}

/// What somebody tries with machine 1, which is the superuser's, and its process. Each line says what came of it.
const TRIES: &str = "try() { what=$1; shift; \"$@\" >/dev/null 2>/tmp/why; status=$?; \
     echo \"$what $status $(sed 's/.*: //; s/ (process [0-9]*)//; s/process [0-9]*//' /tmp/why | tail -n 1)\"; }; \
     try list grep -q \"^ *1 *$1 *0 \" /proc/vms; try kill vm kill 1; try signal kill -KILL $1; try stop kill -STOP $1; \
     try files ls /proc/$1/fd; try file sh -c \"exec 3<>/proc/$1/fd/3\"; try nice renice -n 5 -p $1; try cores taskset -p 1 $1; \
     try write sh -c 'echo >>/proc/vms'; try remove rm -f /proc/vms /dev/vm; rm -f /tmp/why";

/// Another user sees the machine, and that is all; his own he may end, and the superuser may end both.
fn within() -> Result<(), String> {
    let command = format!(
        "echo 'other:x:1000:1000::/tmp:/bin/sh' >>/etc/passwd; cat >/tmp/tries <<'end'\n{TRIES}\nend\n\
         there() {{ until vm list | grep -q \"^ *$1 \"; do usleep 10000; done; }}; \
         vm run --append spin /in/guest & own=$!; there 1; su other -c \"sh /tmp/tries $own\"; \
         su other -c 'vm run --append spin /in/guest & other=$!; until vm list | grep -q \"^ *2 *[0-9]* *1000 \"; do usleep 10000; done; \
         vm kill 2; wait $other; echo own $?'; \
         su other -c 'exec vm run --append spin /in/guest' & there 3; vm kill 3; wait $!; echo others $?; \
         kill -0 $own && vm kill 1; wait $own; echo all $?; vm list | wc -l"
    );
    let refused = "list 0 \nkill 1 machine 1 is another user's\nsignal 1 Operation not permitted\nstop 1 Operation not permitted\n\
        files 1 Permission denied\nfile 1 Permission denied\nnice 1 Operation not permitted\ncores 1 Operation not permitted\n\
        write 1 Permission denied\nremove 1 Permission denied\n";
    let wanted = format!("{refused}own 137\nothers 137\nall 137\n1\n");
    machine(&command).wait().expect_code(0)?.expect_output(&wanted).map(drop)
}

/// A user of the host who does not run the machine is told nothing, and changes nothing; the superuser may.
fn on_host() -> Result<(), String> {
    const OTHER: u32 = 65534;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // Where everybody may look.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let motet = folder.path().join("motet");
    fs::copy(process::program(), &motet).map_err(|error| error.to_string())?;
    let mut running = machine("vm run --append spin /in/guest; echo $?").start();
    let run = running.id().to_string();
    let own = |words: &[&str]| Motet::default().arguments(["vm"]).arguments(words).wait();
    let shows = |list: &str| list.lines().any(|line| line.split_whitespace().next() == Some(&run));
    if !running.until(|_| shows(&own(&["list"]).output)) {
        return Err(running.wait().describe());
    }
    let others = |words: &[&str]| {
        let mut command = Command::new(&motet);
        command.args(words).env("MOTET_ROOT", root()).current_dir("/").uid(OTHER).gid(OTHER);
        command.output().map_err(|error| error.to_string())
    };
    let tries: [&[&str]; 4] = [
        &["vm", "kill", "--run", &run, "1"],
        &["vm", "console", "--run", &run, "1"],
        &["restart", "--run", &run, "rv0"],
        &["state", "--run", &run],
    ];
    for words in tries {
        let tried = others(words)?;
        let is_refused = String::from_utf8_lossy(&tried.stderr).contains("another user runs this machine");
        if tried.status.success() || !tried.stdout.is_empty() || !is_refused {
            return Err(format!("{words:?}: {tried:?}"));
        }
    }
    let list = others(&["vm", "list"])?;
    if shows(&String::from_utf8_lossy(&list.stdout)) || !running.goes_on() || !shows(&own(&["list"]).output) {
        return Err(format!("{list:?}"));
    }
    own(&["kill", "--run", &run, "1"]).expect_code(0)?;
    running.wait().expect_code(0)?.expect_output("137\n").map(drop)
}

//! The shell that people meet: `motet run` without a command, on a terminal.

use crate::{
    command_line::{Session, Terminal},
    process::Motet,
    trial::{Trial, trial},
};

type Test = fn() -> Result<(), String>;

/// All of them.
pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("shell::it_says_what_to_try_and_lines_are_edited_completed_and_remembered", editing),
        ("shell::what_is_pasted_arrives_whole", pasted),
        ("shell::another_size_of_the_terminal_is_told", resized),
        ("shell::nothing_is_said_and_nothing_is_coloured_for_who_wants_that", plain),
    ];
    tests.into_iter().map(|(name, test)| trial(name, test)).collect()
}

const PROMPT: &str = "\x1b[1;34mmotet:/\x1b[0m# ";

fn shell(options: &[&str]) -> Result<Session, String> {
    Terminal::open()?.start(&Motet::run(["--boot-timeout", "120"]).arguments(options))
}

fn editing() -> Result<(), String> {
    let mut shell = shell(&[])?;
    // One line for each thing to know, before the first prompt.
    for line in [
        "uname -m | on aarch64 rev | on riscv64 sed 's/^/turned: /'\n",
        "on ISA COMMAND runs a command there, ls /isa names them, cat /proc/motet-ps says what runs where.\n",
        "exit leaves the machine, Ctrl-] three times ends it; ./motet top in another terminal watches it.\n",
        PROMPT,
    ] {
        shell.expect(line)?;
    }
    // What it says can be done.
    shell.type_line("uname -m | on aarch64 rev | on riscv64 sed 's/^/turned: /'")?;
    shell.expect("turned: 46_68x\n")?;
    shell.type_line("ls /isa | wc -l; grep -c . /proc/motet-ps > /dev/null && echo sh''ows")?;
    shell.expect("3\nshows\n")?;
    // To the beginning, to the end, one back; arrows; a word is removed.
    shell.type_bytes(b"ho $((6 * 7))x\x01ec\x05\x7f\r")?;
    shell.expect("\n42\n")?;
    shell.type_bytes(b"echo $((6 * 9)) left\x17 r\x1b[D$((1 + 1))\x1b[C\r")?;
    shell.expect("\n54 2r\n")?;
    // The line before the last.
    shell.type_bytes(b"\x1b[A\x1b[A\r")?;
    shell.expect("\n42\n")?;
    // Files and commands.
    shell.type_line("mkdir /tmp/comple''ted; touch /tmp/completed/fi''le")?;
    shell.type_bytes(b"echo $((6 * 7)) /tmp/comp\tf\t\r")?;
    shell.expect("\n42 /tmp/completed/file")?;
    shell.type_bytes(b"unam\t-m\r")?;
    shell.expect("\nx86_64\n")?;
    shell.type_line("ls -d /tmp")?;
    shell.expect("\x1b[1;34m/tmp")?;
    shell.type_line("clear; echo cle''ared")?;
    shell.expect("\x1b[H\x1b[J")?;
    shell.expect("cleared\n")?;
    shell.type_line("exit")?;
    shell.finish(0)
}

/// 100 KB, for a program that reads lines and for the shell itself.
fn pasted() -> Result<(), String> {
    let mut shell = shell(&["--quiet"])?;
    let lines = |count: u32| (0..count).map(|number| format!("{number:049}\r")).collect::<String>();
    shell.type_line("echo re''ady; cat > /tmp/cat")?;
    shell.expect("ready\n")?;
    shell.type_bytes(lines(2000).as_bytes())?;
    shell.type_bytes(b"\x04")?;
    shell.type_line(
        "awk 'BEGIN { for (i = 0; i < 2000; i++) printf \"%049d\\n\", i }' | cmp - /tmp/cat && wc -c < /tmp/cat",
    )?;
    shell.expect("\n100000\n")?;
    shell.type_line("cat > /tmp/here << END")?;
    shell.type_bytes(lines(2000).as_bytes())?;
    shell.type_line("END")?;
    shell.type_line("cmp /tmp/cat /tmp/here && echo he''re")?;
    shell.expect("\nhere\n")?;
    // As Linux does: of a line, 4095 characters and its end are kept.
    shell.type_line("echo re''ady; cat > /tmp/long; wc -c < /tmp/long; head -c 4095 /tmp/long | tr -d a | wc -c")?;
    shell.expect("ready\n")?;
    shell.type_bytes(&[b'a'; 100_000])?;
    shell.type_bytes(b"\rb\r\x04")?;
    shell.expect("\n4098\n0\n")?;
    shell.type_line("exit")?;
    shell.finish(0)
}

fn resized() -> Result<(), String> {
    let mut shell = shell(&["--quiet"])?;
    shell.type_line("stty size")?;
    shell.expect("33 77\n")?;
    shell.resize(50, 100)?;
    shell.type_line("until [ \"$(stty size)\" = '50 100' ]; do sleep 0.1; done; on riscv64 stty size")?;
    shell.expect("50 100\n")?;
    shell
        .type_line("on aarch64 sh -c 'trap \"stty size; exit\" WINCH; echo ar\"\"med; while :; do sleep 0.1; done'")?;
    shell.expect("armed\n")?;
    shell.resize(24, 80)?;
    shell.expect("24 80\n")?;
    shell.type_line("exit")?;
    shell.finish(0)
}

fn plain() -> Result<(), String> {
    let mut shell = Terminal::open()?.start(&Motet::run(["--quiet"]).variable("NO_COLOR", "1"))?;
    shell.expect("motet:/# ")?;
    shell.type_line("ls -d /tmp; echo \"hello: $MOTET_HELLO\"; sh -lc 'echo to\"\"ld'")?;
    shell.expect("\n/tmp\nhello: \ntold\n")?;
    shell.type_line("exit")?;
    let screen = shell.finish_screen(0)?;
    let said = ["Several instruction sets", "\x1b[1;34m"].into_iter().find(|text| screen.contains(text));
    said.map_or(Ok(()), |text| Err(format!("{text:?}: {screen:?}")))?;
    // A command is no shell to be greeted.
    let command = Terminal::open()?.start(&Motet::command("echo \"$MOTET_HELLO\"; sh -lc true"))?;
    let screen = command.finish_screen(0)?;
    if screen.contains("Several") { Err(screen) } else { Ok(()) }
}

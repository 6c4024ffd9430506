//! Signals that end processes.

use motet_abi::signal::SIGKILL;
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

/// `CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD`.
const THREAD: u64 = 0x0001_0f00;

/// A process with threads on all cores kills itself: whichever thread sees the signal first, none executes another
/// instruction after the call.
#[test]
fn who_kills_its_process_does_not_come_back() {
    let program = Program::build(Isa::X86_64, |program| {
        let [pid, thread, zero, own, _] = program.asm.roles.saved;
        program.asm.li(zero, 0);
        let child = program.fork(pid);
        program.wait();
        program.print(1, "ended\n");
        program.exit(0);
        program.asm.bind(child);
        let other = program.asm.label();
        for number in 0..3u64 {
            program.call(Sys::Clone, &[THREAD, DATA + 0x4000 * (number + 1), 0, 0, 0]);
            program.or_exit(100);
            program.result_to(thread);
            program.asm.branch(Op::Beq, thread, zero, other);
        }
        program.call(Sys::Getpid, &[]);
        program.result_to(own);
        program.arg_from(0, own);
        program.arg(1, SIGKILL.into());
        program.call_as_is(Sys::Kill);
        program.print(1, "came back\n");
        program.asm.bind(other);
        let again = program.asm.here();
        program.call(Sys::SchedYield, &[]);
        program.asm.jump(again);
    });
    let scenario = Scenario { files: vec![("kills", program)], command: vec!["/kills"], ..Scenario::default() };
    everywhere(150, &scenario, 0, "ended\n");
}

//! What a user may have, over all processes.

use motet_abi::{Errno, time::RLIMIT_NPROC};
use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere};

const USER: u64 = 1000;
/// Threads of the user, the first process's one among them.
const LIMIT: u64 = 4;
const ROUNDS: u64 = 5;

/// A user has as many processes as the limit says, those included that wait to be reaped, and again as many once they are.
#[test]
fn processes_are_counted_until_they_are_reaped() {
    let program = Program::build(Isa::AArch64, |program| {
        let [round, number, pid, zero, at] = program.asm.roles.saved;
        program.asm.li(at, DATA + 256);
        program.asm.li(number, LIMIT);
        program.asm.op_i(Op::St64, number, at, 0);
        program.asm.op_i(Op::St64, number, at, 8);
        program.call(Sys::Prlimit64, &[0, RLIMIT_NPROC as u64, DATA + 256, 0]);
        program.or_exit(100);
        program.call(Sys::Setresuid, &[USER, USER, USER]);
        program.or_exit(101);
        program.asm.li(zero, 0);
        program.asm.li(round, ROUNDS);
        let again = program.asm.here();
        program.asm.li(number, LIMIT - 1);
        let one_more = program.asm.here();
        let child = program.fork(pid);
        program.asm.op_i(Op::Addi, number, number, -1);
        program.asm.branch(Op::Bne, number, zero, one_more);
        program.call(Sys::Clone, &[17, 0, 0, 0, 0]);
        let refused = program.asm.label();
        program.asm.li(number, Errno::EAGAIN.result() as u64);
        let result = program.asm.roles.result;
        program.asm.branch(Op::Beq, result, number, refused);
        program.exit(102);
        program.asm.bind(refused);
        for _ in 1..LIMIT {
            program.wait();
        }
        program.asm.op_i(Op::Addi, round, round, -1);
        program.asm.branch(Op::Bne, round, zero, again);
        program.print(1, "counted\n");
        program.exit(0);
        program.asm.bind(child);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("users", program)], command: vec!["/users"], ..Scenario::default() };
    everywhere(30, &scenario, 0, "counted\n");
}

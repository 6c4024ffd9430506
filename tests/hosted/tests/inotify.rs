//! Watches of inodes across islands: who watches on one is told what programs on others do; and some of these die.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::{
    Argument::{Number as N, Text as T},
    call_with, together, watchers,
};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere, whoever_dies};

const HERE: u64 = (-100_i64).cast_unsigned();
const TOLD: u64 = DATA + 0x400;
const POLLED: u64 = DATA + 0x300;
const IN_CREATE: u64 = 0x100;
const IN_DELETE_SELF: u64 = 0x400;
const IN_IGNORED: u64 = 0x8000;
const IN_MODIFY: u64 = 2;
const EINVAL: u64 = (-22_i64).cast_unsigned();

fn or_exit_unless_word(program: &mut Program, at: u64, wanted: u64, status: u64) {
    let [got, register, ..] = program.asm.roles.saved;
    program.load_u32(got, at);
    program.asm.li(register, wanted);
    let good = program.asm.label();
    program.asm.branch(Op::Beq, got, register, good);
    program.exit(status);
    program.asm.bind(good);
}

/// The first one waits for what the others make, by reading and by polling; then for a file that one of them writes and removes.
fn waits() -> Scenario {
    together(
        |program| {
            for path in ["/w", "/w/in"] {
                call_with(program, Sys::Mkdirat, [N(HERE), T(path), N(0o700)]);
                program.or_exit(100);
            }
            call_with(program, Sys::Openat, [N(HERE), T("/file"), N(0o102), N(0o600)]);
            program.or_exit_unless(3, 101);
            program.call(Sys::InotifyInit1, &[0]);
            program.or_exit_unless(4, 102);
            call_with(program, Sys::InotifyAddWatch, [N(4), T("/w/in"), N(IN_CREATE)]);
            program.or_exit_unless(1, 103);
            program.call(Sys::InotifyInit1, &[0]);
            program.or_exit_unless(5, 104);
            call_with(program, Sys::InotifyAddWatch, [N(5), T("/file"), N(IN_MODIFY | IN_DELETE_SELF)]);
            program.or_exit_unless(1, 105);
        },
        |program, isa| match isa {
            Isa::X86_64 => {
                let [sum, byte, ..] = program.asm.roles.saved;
                program.call(Sys::Close, &[3]);
                for _ in 0..2 {
                    program.store_at(POLLED, 4 | 1 << 32);
                    program.call(Sys::Ppoll, &[POLLED, 1, 0, 0, 8]);
                    program.or_exit_unless(1, 106);
                    program.call(Sys::Read, &[4, TOLD, 32]);
                    program.or_exit_unless(32, 107);
                    or_exit_unless_word(program, TOLD + 4, IN_CREATE, 108);
                }
                // One has the name of the one, one of the other.
                program.load_u32(byte, TOLD + 16);
                let (arm, good) = (program.asm.label(), program.asm.label());
                for (name, label) in [(b'a', arm), (b'r', good)] {
                    program.asm.li(sum, name.into());
                    program.asm.branch(Op::Beq, byte, sum, label);
                }
                program.exit(109);
                program.asm.bind(arm);
                program.asm.bind(good);
                for mask in [IN_MODIFY, IN_DELETE_SELF, IN_IGNORED] {
                    program.call(Sys::Read, &[5, TOLD, 16]);
                    program.or_exit_unless(16, 110);
                    or_exit_unless_word(program, TOLD + 4, mask, 111);
                }
            }
            Isa::AArch64 => {
                program.call(Sys::Close, &[3]);
                call_with(program, Sys::Openat, [N(HERE), T("/w/in/a"), N(0o101), N(0o600)]);
                program.or_exit(112);
            }
            Isa::RiscV64 | Isa::Hosted => {
                call_with(program, Sys::Openat, [N(HERE), T("/w/in/r"), N(0o101), N(0o600)]);
                program.or_exit(113);
                program.call(Sys::Write, &[3, DATA, 8]);
                program.or_exit_unless(8, 114);
                call_with(program, Sys::Unlinkat, [N(HERE), T("/file"), N(0)]);
                program.or_exit(115);
                // It is gone when whoever has it last closes it.
                program.call(Sys::Close, &[3]);
            }
        },
        |program| {
            // It has ended with the file.
            program.call(Sys::InotifyRmWatch, &[5, 1]);
            program.or_exit_unless(EINVAL, 116);
        },
    )
}

#[test]
fn who_watches_is_told_what_programs_on_other_islands_do() {
    everywhere(20, &waits(), 0, "all\n");
}

#[test]
fn all_watch_and_change_and_read_at_once() {
    everywhere(10, &watchers(), 0, "all\n");
}

/// A user has as many open files and watches as may be, and as many events as nobody reads; others can watch, and there is memory.
fn flood() -> Scenario {
    const EMFILE: u64 = (-24_i64).cast_unsigned();
    const USER: u64 = 1000;
    const NONBLOCK: u64 = 0o4000;
    let program = Program::build(Isa::RiscV64, |program| {
        let [_, pid, got, zero, left] = program.asm.roles.saved;
        call_with(program, Sys::Mkdirat, [N(HERE), T("/w"), N(0o777)]);
        program.or_exit(99);
        program.fork_with(pid, |program| {
            program.call(Sys::Setresuid, &[USER, USER, USER]);
            program.or_exit(100);
            program.asm.li(left, 128);
            let again = program.asm.here();
            program.call(Sys::InotifyInit1, &[NONBLOCK]);
            program.or_exit(101);
            program.result_to(got);
            program.arg_from(0, got);
            program.arg_string(1, "/w");
            program.arg(2, IN_CREATE);
            program.call_as_is(Sys::InotifyAddWatch);
            program.or_exit_unless(1, 102);
            program.asm.op_i(Op::Addi, left, left, -1);
            program.asm.li(zero, 0);
            program.asm.branch(Op::Bne, left, zero, again);
            program.call(Sys::InotifyInit1, &[NONBLOCK]);
            program.or_exit_unless(EMFILE, 103);
            program.exit(0);
        });
        program.wait();
        or_exit_unless_word(program, DATA + 8, 0, 104);
        // What it had is there again.
        program.call(Sys::InotifyInit1, &[NONBLOCK]);
        program.or_exit_unless(3, 105);
        program.print(1, "room\n");
        program.exit(0);
    });
    Scenario { files: vec![("flood", program)], command: vec!["/flood"], ..Scenario::default() }
}

#[test]
fn a_user_who_watches_all_he_can_leaves_room_for_others() {
    everywhere(2, &flood(), 0, "room\n");
}

#[test]
fn watches_of_dead_islands_go_and_others_are_told_on() {
    whoever_dies(&watchers(), "all\n");
}

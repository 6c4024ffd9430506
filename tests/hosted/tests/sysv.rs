//! System V IPC across islands: programs of three instruction sets share a segment, semaphores and messages; and one of them dies.

use motet_hal_hosted::isa::Op;
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::{sharers_of_ipc, together};
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{Scenario, everywhere, whoever_dies};

const KEY: u64 = 0x5e7;
const ROUNDS: u64 = 4;
const IPC_CREAT: u64 = 0o1000;
const SEM_UNDO: u64 = 0x1000;
const SETVAL: u64 = 16;
const GETVAL: u64 = 12;
const OPERATION: u64 = DATA + 0x400;
const MESSAGE: u64 = DATA + 0x440;
const RECEIVED: u64 = DATA + 0x480;
const TOLD: u64 = DATA + 0x500;
const SEGMENT: u64 = 0x3000_0000;
/// A word of the segment that is in its second page.
const COUNT: u64 = SEGMENT + 0x1000;
const EIDRM: u64 = (-43_i64).cast_unsigned();

fn operate(program: &mut Program, number: u64, change: i16, flags: u64) {
    program.store_at(OPERATION, number | u64::from(change.cast_unsigned()) << 16 | flags << 32);
    program.call(Sys::Semop, &[0, OPERATION, 1]);
}

/// Adds 1 to the word that all share, by steps that others may come between.
fn add(program: &mut Program) {
    let [value, at, ..] = program.asm.roles.saved;
    program.asm.li(at, COUNT);
    program.asm.op_i(Op::Ld64, value, at, 0);
    program.call(Sys::SchedYield, &[]);
    program.asm.op_i(Op::Addi, value, value, 1);
    program.asm.op_i(Op::St64, value, at, 0);
}

/// Whoever has the first semaphore adds to a word in the segment; then sends a message. The last one ends while it has the semaphore.
fn shares() -> Scenario {
    together(
        |program| {
            for (call, args) in [
                (Sys::Shmget, [KEY, 0x1800, IPC_CREAT | 0o600]),
                (Sys::Semget, [KEY, 2, IPC_CREAT | 0o600]),
                (Sys::Msgget, [KEY, IPC_CREAT | 0o600, 0]),
            ] {
                program.call(call, &args);
                program.or_exit_unless(0, 100);
            }
            program.call(Sys::Semctl, &[0, 0, SETVAL, 1]);
            program.or_exit(101);
        },
        |program, isa| {
            program.call(Sys::Shmget, &[KEY, 0, 0]);
            program.or_exit_unless(0, 102);
            program.call(Sys::Shmat, &[0, SEGMENT, 0]);
            program.or_exit_unless(SEGMENT, 103);
            for _ in 0..ROUNDS {
                operate(program, 0, -1, SEM_UNDO);
                program.or_exit(104);
                add(program);
                operate(program, 0, 1, SEM_UNDO);
                program.or_exit(105);
            }
            program.store_at(MESSAGE, 1 + isa as u64);
            program.store_at(MESSAGE + 8, 40 + isa as u64);
            program.call(Sys::Msgsnd, &[0, MESSAGE, 8, 0]);
            program.or_exit(106);
            if isa != Isa::X86_64 {
                // It has the semaphore when it ends.
                operate(program, 0, -1, SEM_UNDO);
                program.or_exit(107);
            }
        },
        |program| {
            let [value, at, wanted, ..] = program.asm.roles.saved;
            for isa in [Isa::RiscV64, Isa::X86_64, Isa::AArch64] {
                program.call(Sys::Msgrcv, &[0, RECEIVED, 8, 1 + isa as u64, 0]);
                program.or_exit_unless(8, 108);
                program.load_u32(value, RECEIVED + 8);
                program.asm.li(wanted, 40 + isa as u64);
                let good = program.asm.label();
                program.asm.branch(Op::Beq, value, wanted, good);
                program.exit(109);
                program.asm.bind(good);
            }
            program.asm.li(at, COUNT);
            program.asm.op_i(Op::Ld64, value, at, 0);
            program.asm.li(wanted, 3 * ROUNDS);
            let good = program.asm.label();
            program.asm.branch(Op::Beq, value, wanted, good);
            program.exit(110);
            program.asm.bind(good);
            program.call(Sys::Semctl, &[0, 0, GETVAL]);
            program.or_exit_unless(1, 111);
            // Attached once: by this one.
            program.call(Sys::Shmctl, &[0, 2, TOLD]);
            program.or_exit(112);
            program.load_u32(value, TOLD + 88);
            program.asm.li(wanted, 1);
            let good = program.asm.label();
            program.asm.branch(Op::Beq, value, wanted, good);
            program.exit(113);
            program.asm.bind(good);
        },
    )
}

#[test]
fn programs_of_three_instruction_sets_share_memory_semaphores_and_messages() {
    everywhere(20, &shares(), 0, "all\n");
}

/// All wait for what the first one removes.
fn removed() -> Scenario {
    together(
        |program| {
            for (call, args) in [(Sys::Semget, [KEY, 2, IPC_CREAT | 0o600]), (Sys::Msgget, [KEY, IPC_CREAT | 0o600, 0])]
            {
                program.call(call, &args);
                program.or_exit_unless(0, 100);
            }
            program.call(Sys::Semctl, &[0, 0, SETVAL, 0]);
        },
        |program, isa| match isa {
            Isa::X86_64 => {
                // Both are about to wait.
                operate(program, 0, -2, 0);
                program.or_exit(101);
                program.call(Sys::SchedYield, &[]);
                program.call(Sys::Semctl, &[0, 0, 0]);
                program.or_exit(102);
                program.call(Sys::Msgctl, &[0, 0, 0]);
                program.or_exit(103);
            }
            Isa::AArch64 => {
                operate(program, 0, 1, 0);
                operate(program, 1, -1, 0);
                or_exit_unless_gone(program, 104);
            }
            Isa::RiscV64 | Isa::Hosted => {
                operate(program, 0, 1, 0);
                program.call(Sys::Msgrcv, &[0, RECEIVED, 8, 0, 0]);
                or_exit_unless_gone(program, 105);
            }
        },
        |_| {},
    )
}

/// The last call has failed with `EIDRM`, or, if what it names had gone before, with `EINVAL`.
fn or_exit_unless_gone(program: &mut Program, status: u64) {
    const EINVAL: u64 = (-22_i64).cast_unsigned();
    let [got, wanted, ..] = program.asm.roles.saved;
    let good = program.asm.label();
    program.result_to(got);
    for error in [EIDRM, EINVAL] {
        program.asm.li(wanted, error);
        program.asm.branch(Op::Beq, got, wanted, good);
    }
    program.exit(status);
    program.asm.bind(good);
}

#[test]
fn who_waits_for_what_is_removed_learns_it_on_every_island() {
    everywhere(20, &removed(), 0, "all\n");
}

/// A user who is not privileged makes as many segments and semaphores as may be; the superuser can still do all of it.
fn flood() -> Scenario {
    const ENOSPC: u64 = (-28_i64).cast_unsigned();
    const ENOMEM: u64 = (-12_i64).cast_unsigned();
    const USER: u64 = 1000;
    /// More than half of the pool, and less than all of it.
    const MUCH: u64 = 40 << 20;
    fn until_it_fails(program: &mut Program, call: Sys, args: &[u64], error: u64, status: u64) {
        let [got, zero, ..] = program.asm.roles.saved;
        let again = program.asm.here();
        program.call(call, args);
        program.result_to(got);
        program.asm.li(zero, 0);
        program.asm.branch(Op::Bge, got, zero, again);
        program.or_exit_unless(error, status);
    }
    let program = Program::build(Isa::RiscV64, |program| {
        let [_, pid, got, zero, ..] = program.asm.roles.saved;
        program.fork_with(pid, |program| {
            program.call(Sys::Setresuid, &[USER, USER, USER]);
            program.or_exit(100);
            until_it_fails(program, Sys::Shmget, &[0, 0x1000, 0o600], ENOSPC, 101);
            until_it_fails(program, Sys::Semget, &[0, 32000, 0o600], ENOMEM, 102);
            program.exit(0);
        });
        program.wait();
        program.load_u32(got, DATA + 8);
        program.asm.li(zero, 0);
        let good = program.asm.label();
        program.asm.branch(Op::Beq, got, zero, good);
        program.exit(103);
        program.asm.bind(good);
        program.call(Sys::Shmget, &[0, MUCH, 0o600]);
        program.or_exit(104);
        program.call(Sys::Shmat, &[0, SEGMENT, 0]);
        program.or_exit(105);
        program.call(Sys::Semget, &[0, 500, 0o600]);
        program.or_exit(106);
        program.call(Sys::Msgget, &[0, 0o600, 0]);
        program.or_exit(107);
        program.print(1, "room\n");
        program.exit(0);
    });
    Scenario { files: vec![("flood", program)], command: vec!["/flood"], ..Scenario::default() }
}

#[test]
fn a_user_who_takes_all_he_can_leaves_room_for_the_superuser() {
    everywhere(2, &flood(), 0, "room\n");
}

#[test]
fn what_processes_of_dead_islands_have_done_to_semaphores_is_undone() {
    whoever_dies(&sharers_of_ipc(), "all\n");
}

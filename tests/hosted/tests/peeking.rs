//! A thread looks at messages (`MSG_PEEK`) that others send and receive: what it sees is of one message, its bytes, its sender, and its open file.

use motet_hal_hosted::{Config, Driver, Faults, isa::Op};
use motet_layout::Isa;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::deaths::together;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::scenarios::{CONTROL, RECEIVED, SENT, VECTOR, close, make_pair, write_message};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, three_islands, whole};

/// The ends of a pair: senders have the first one. An open file of each process's own.
const SENDS: u64 = 3;
const RECEIVES: u64 = 4;
const FILE: u64 = 5;
const ROOM: u64 = DATA + 0x1000;
/// A message: its sender's process id. Its file is at that position.
const LEN: u64 = 4;
/// Where a control message with credentials has the process id, and the next one its file; bytes of both.
const SENDER: u64 = 16;
const FILE_RECEIVED: u64 = 32 + 16;
const BOTH_LEN: u64 = 32 + 24;
/// `MSG_PEEK | MSG_DONTWAIT`.
const LOOKS: u64 = 2 | 0x40;

/// A pair whose second end tells who has sent something.
fn make(program: &mut Program, kind: u64) {
    /// `SOL_SOCKET` and `SO_PASSCRED`.
    const TELLS: [u64; 2] = [1, 16];
    make_pair(program, kind);
    program.store_at(ROOM, 1);
    program.call(Sys::Setsockopt, &[RECEIVES, TELLS[0], TELLS[1], ROOM, 4]);
    program.or_exit(101);
}

/// Opens a file at the position of this process's id, which is what it sends.
fn prepare_to_send(program: &mut Program) {
    let [pid, at, ..] = program.asm.roles.saved;
    program.call(Sys::Getpid, &[]);
    program.result_to(pid);
    program.arg(0, (-100_i64).cast_unsigned());
    program.arg_string(1, "/first");
    program.arg(2, 0);
    program.arg(3, 0);
    program.call_as_is(Sys::Openat);
    program.or_exit_unless(FILE, 102);
    program.arg(0, FILE);
    program.arg_from(1, pid);
    program.arg(2, 0);
    program.call_as_is(Sys::Lseek);
    program.or_exit(103);
    write_message(program, SENT, FILE);
    program.store_at(SENT + VECTOR, ROOM);
    program.store_at(SENT + VECTOR + 8, LEN);
    program.asm.li(at, ROOM);
    program.asm.op_i(Op::St64, pid, at, 0);
}

/// Sends and receives messages.
fn pass(program: &mut Program) {
    for _ in 0..3 {
        for _ in 0..2 {
            program.call(Sys::Sendmsg, &[SENDS, SENT, 0]);
        }
        for _ in 0..2 {
            program.call(Sys::Read, &[RECEIVES, ROOM + 64, LEN]);
        }
    }
}

/// Looks at what comes first, if there is something.
fn look(program: &mut Program) {
    let [fd, bytes, other, ..] = program.asm.roles.saved;
    let (result, zero) = (program.asm.roles.result, program.asm.roles.args[5]);
    let nothing = program.asm.label();
    write_message(program, RECEIVED, 0);
    program.store_at(RECEIVED + VECTOR, ROOM);
    program.store_at(RECEIVED + VECTOR + 8, 64);
    program.store_at(RECEIVED + 40, 128);
    program.call(Sys::Recvmsg, &[RECEIVES, RECEIVED, LOOKS]);
    program.asm.li(zero, 0);
    program.asm.branch(Op::Blt, result, zero, nothing);
    program.or_exit_unless(LEN, 110);
    program.load_u32(bytes, ROOM);
    for (at, status) in [(RECEIVED + CONTROL + SENDER, 111), (RECEIVED + 40, 112)] {
        program.load_u32(other, at);
        if status == 112 {
            program.asm.li(bytes, BOTH_LEN);
        }
        exit_unless_same(program, bytes, other, status);
    }
    program.load_u32(fd, RECEIVED + CONTROL + FILE_RECEIVED);
    program.arg_from(0, fd);
    program.arg(1, 0);
    program.arg(2, 1); // SEEK_CUR
    program.call_as_is(Sys::Lseek);
    program.result_to(other);
    program.load_u32(bytes, ROOM);
    exit_unless_same(program, bytes, other, 113);
    close(program);
    program.asm.bind(nothing);
}

fn exit_unless_same(program: &mut Program, one: u8, other: u8, status: u64) {
    let same = program.asm.label();
    program.asm.branch(Op::Beq, one, other, same);
    program.exit(status);
    program.asm.bind(same);
}

/// AArch64 and RISC-V send and receive, x86-64 looks.
fn scenario(kind: u64) -> Scenario {
    let first: fn(&mut Program) = match kind {
        1 => |program| make(program, 1),
        2 => |program| make(program, 2),
        _ => |program| make(program, 5),
    };
    together(
        first,
        |program, isa| match isa {
            Isa::AArch64 | Isa::RiscV64 => {
                prepare_to_send(program);
                pass(program);
            }
            Isa::X86_64 | Isa::Hosted => (0..24).for_each(|_| look(program)),
        },
        |_| {},
    )
}

#[test]
fn what_is_seen_of_a_message_is_of_one() {
    let first = env("MOTET_FIRST", 0);
    for seed in first..first + env("MOTET_SEEDS", 8) {
        for kind in [1, 2, 5] {
            let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
            // So that others receive and send in between.
            config.faults = Faults { stall_every: 300, stall_ns_max: 200_000, ..ROUGH };
            config.steps_max = 3_000_000;
            let looked = boot_and_look(config, &scenario(kind), whole::broken);
            let (ended, broken) = looked.unwrap_or_else(|failure| panic!("seed {seed}, kind {kind}: {failure}"));
            assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}, kind {kind}: {ended:?}");
            assert_eq!(broken, Vec::<String>::new(), "seed {seed}, kind {kind}");
        }
    }
}

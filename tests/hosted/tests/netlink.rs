//! Messages to the kernel (`AF_NETLINK`): what is asked is answered at once, whatever it is, and ports are free when their sockets have gone.

use motet_hal_hosted::{Config, Driver, Faults};
use motet_layout::{Isa, IslandId, PacketRecord, PipeRecord, SocketRecord};
use motet_protocol::slab::SlabObject;
use motet_tests_hosted::calls::Sys;
use motet_tests_hosted::program::{DATA, Program};
use motet_tests_hosted::{ROUGH, Scenario, boot_and_look, env, everywhere, three_islands, under, whole};

const AF_NETLINK: u64 = 16;
const RAW: u64 = 3;
const DONTWAIT: u64 = 0x40;
const TRUNC: u64 = 0x20;
const PEEK: u64 = 2;
/// What is sent, what is received, and an address.
const ASKED: u64 = DATA + 0x1000;
const TOLD: u64 = DATA + 0x2000;
const ADDRESS: u64 = DATA + 0x840;
/// Room for what is received.
const ROOM: u64 = 0x1000;
/// `EAGAIN`, `ENOBUFS`, `EADDRINUSE` and `EPERM`, as a call's result.
const AGAIN: u64 = (-11_i64).cast_unsigned();
const NO_ROOM: u64 = (-105_i64).cast_unsigned();
const IN_USE: u64 = (-98_i64).cast_unsigned();
const FORBIDDEN: u64 = (-1_i64).cast_unsigned();
/// Bytes of a dump of all addresses: one of each version, and the end.
const ADDRESSES_LEN: u64 = 76 + 80 + 20;

/// Asks for all addresses: a header, and a family.
fn write_question(program: &mut Program) {
    program.store_at(ASKED, 24 | 22 << 32 | 0x301 << 48);
    program.store_at(ASKED + 8, 7);
    program.store_at(ASKED + 16, 0);
}

/// Asks by a descriptor, and exits with a status unless all is told.
fn ask(program: &mut Program, fd: u64, status: u64) {
    write_question(program);
    program.call(Sys::Sendto, &[fd, ASKED, 24, 0, 0, 0]);
    program.or_exit_unless(24, status);
    program.call(Sys::Recvfrom, &[fd, TOLD, 0, PEEK | TRUNC, 0, 0]);
    program.or_exit_unless(ADDRESSES_LEN, status + 1);
    program.call(Sys::Recvfrom, &[fd, TOLD, ROOM, DONTWAIT, 0, 0]);
    program.or_exit_unless(ADDRESSES_LEN, status + 2);
    let result = program.asm.roles.result;
    // Of the first: its length, its kind, that more follow, and which question it answers.
    for (at, wanted) in [(0, 76), (4, 20 | 2 << 16), (8, 7), (16, 0xfe80_0802)] {
        program.load_u32(result, TOLD + at);
        program.or_exit_unless(wanted, status + 3);
    }
    program.call(Sys::Recvfrom, &[fd, TOLD, ROOM, DONTWAIT, 0, 0]);
    program.or_exit_unless(AGAIN, status + 4);
}

fn socket(program: &mut Program, fd: u64, status: u64) {
    program.call(Sys::Socket, &[AF_NETLINK, RAW, 0]);
    program.or_exit_unless(fd, status);
}

#[test]
fn a_dump_is_answered_before_the_call_returns() {
    let first = Program::build(Isa::RiscV64, |program| {
        socket(program, 3, 1);
        ask(program, 3, 10);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(2, &scenario, 0, "");
}

#[test]
fn answers_that_have_no_room_are_lost_and_that_is_told_once() {
    let first = Program::build(Isa::AArch64, |program| {
        socket(program, 3, 1);
        write_question(program);
        for _ in 0..300 {
            program.call(Sys::Sendto, &[3, ASKED, 24, 0, 0, 0]);
            program.or_exit_unless(24, 2);
        }
        program.call(Sys::Recvfrom, &[3, TOLD, ROOM, DONTWAIT, 0, 0]);
        program.or_exit_unless(NO_ROOM, 3);
        // Packets of 768 bytes, up to 212,992.
        for _ in 0..278 {
            program.call(Sys::Recvfrom, &[3, TOLD, ROOM, DONTWAIT, 0, 0]);
            program.or_exit_unless(ADDRESSES_LEN, 4);
        }
        ask(program, 3, 10);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(1, &scenario, 0, "");
}

/// Users ask what they like, and change nothing; nor do they send to each other.
#[test]
fn an_ordinary_user_may_ask_and_nothing_else() {
    let first = Program::build(Isa::X86_64, |program| {
        let result = program.asm.roles.result;
        socket(program, 3, 1);
        program.store_at(ADDRESS, AF_NETLINK | 4711 << 32);
        program.store_at(ADDRESS + 8, 0);
        program.call(Sys::Bind, &[3, ADDRESS, 12]);
        program.or_exit(2);
        socket(program, 4, 3);
        // What the superuser sends comes, and what he changes is refused as such.
        program.call(Sys::Sendto, &[4, ASKED, 5, 0, ADDRESS, 12]);
        program.or_exit_unless(5, 4);
        program.call(Sys::Recvfrom, &[3, TOLD, ROOM, DONTWAIT, 0, 0]);
        program.or_exit_unless(5, 5);
        for (number, error) in (0..).zip([95_u32, 1]) {
            program.store_at(ASKED, 32 | 17 << 32 | 1 << 48);
            program.call(Sys::Sendto, &[4, ASKED, 32, 0, 0, 0]);
            program.or_exit_unless(32, 10 + number);
            program.call(Sys::Recvfrom, &[4, TOLD, ROOM, DONTWAIT, 0, 0]);
            program.or_exit_unless(52, 12 + number);
            program.load_u32(result, TOLD + 16);
            program.or_exit_unless(error.wrapping_neg().into(), 14 + number);
            program.call(Sys::Setresuid, &[1000, 1000, 1000]);
            program.or_exit(16 + number);
        }
        program.call(Sys::Sendto, &[4, ASKED, 5, 0, ADDRESS, 12]);
        program.or_exit_unless(FORBIDDEN, 20);
        program.call(Sys::Connect, &[4, ADDRESS, 12]);
        program.or_exit_unless(FORBIDDEN, 21);
        ask(program, 4, 30);
        program.exit(0);
    });
    let scenario = Scenario { files: vec![("first", first)], command: vec!["/first"], ..Scenario::default() };
    everywhere(1, &scenario, 0, "");
}

/// Bytes that differ between seeds (xorshift).
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one_of<const N: usize>(&mut self, all: [u64; N]) -> u64 {
        all[self.below(N as u64) as usize]
    }

    /// A message that may be one, of so many bytes; lengths and numbers may be anything.
    fn message(&mut self, len: usize) -> Vec<u8> {
        let noise = self.below(1 << 32);
        let kind = self.one_of([18, 18, 22, 22, 26, 26, 26, 30, 34, 16, 17, 2, noise]);
        let flags = self.one_of([1, 1, 0x301, 0x301, 0x305, 5, noise]);
        let told = self.one_of([len as u64, len as u64, len as u64 - 1, 20, 16, 15, 0, u64::MAX, noise]);
        let mut bytes = Vec::new();
        bytes.extend((told as u32).to_le_bytes());
        bytes.extend((kind as u16).to_le_bytes());
        bytes.extend((flags as u16).to_le_bytes());
        bytes.extend(7u64.to_le_bytes());
        bytes.push(self.one_of([0, 2, 10, 7, noise]) as u8);
        let header = self.one_of([7, 11, 15, 3, 12]);
        let is_zero = self.below(2) == 0;
        (0..header).for_each(|_| bytes.push(if is_zero { 0 } else { self.below(256) as u8 }));
        while bytes.len() < len {
            let value = self.one_of([4, 4, 16, 0, 3, 20]);
            let told = self.one_of([value + 4, value + 4, value + 4, 3, 0, 0xffff, noise]);
            bytes.extend((told as u16).to_le_bytes());
            bytes.extend((self.one_of([1, 2, 3, 4, 10, 15, 29, 53, 0x8001, noise]) as u16).to_le_bytes());
            (0..value.next_multiple_of(4)).for_each(|_| bytes.push(self.below(256) as u8));
        }
        bytes.truncate(len);
        bytes
    }
}

/// Whatever is sent, the kernel goes on, and answers what it is asked then.
#[test]
fn malformed_messages_are_refused_or_ignored() {
    /// Messages, of at most so many bytes each.
    const COUNT: usize = 240;
    const LEN: usize = 128;
    let first_seed = env("MOTET_FIRST", 0);
    for seed in first_seed..first_seed + env("MOTET_SEEDS", 3) {
        println!("seed {seed}");
        let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let messages: Vec<Vec<u8>> = (0..COUNT)
            .map(|_| {
                let len = LEN - noise.below(LEN as u64 - 1) as usize;
                match noise.below(3) {
                    0 => [noise.message(LEN / 2), noise.message(LEN / 2)].concat(),
                    _ => noise.message(len),
                }
            })
            .collect();
        let first = Program::build(Isa::X86_64, |program| {
            program.arg(0, (-100_i64).cast_unsigned());
            program.arg_string(1, "/noise");
            program.arg(2, 0);
            program.call_as_is(Sys::Openat);
            program.or_exit(1);
            for (number, message) in messages.iter().enumerate() {
                let len = message.len() as u64;
                if number % 16 == 0 {
                    program.call(Sys::Close, &[4]);
                    socket(program, 4, 2);
                    // Strictly, every other time.
                    program.store_at(ADDRESS, (number as u64 / 16) % 2);
                    program.call(Sys::Setsockopt, &[4, 270, 12, ADDRESS, 4]);
                    program.or_exit(3);
                }
                program.call(Sys::Read, &[3, ASKED, len]);
                program.or_exit_unless(len, 4);
                program.call(Sys::Sendto, &[4, ASKED, len, 0, 0, 0]);
                program.or_exit_unless(len, 5);
                program.call(Sys::Recvfrom, &[4, TOLD, ROOM, DONTWAIT, 0, 0]);
            }
            socket(program, 5, 6);
            ask(program, 5, 10);
            program.exit(0);
        });
        let files = vec![("first", first), ("noise", messages.concat())];
        let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
        let ended = under(Driver::Seeded(seed), ROUGH, &scenario).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(ended.status, 0, "seed {seed}: {}", ended.errors);
    }
}

/// Sockets of other islands have ports, and answers wait there, when these islands die: nothing stays.
#[test]
fn ports_of_an_island_that_dies_are_free() {
    const STEPS_MAX: u64 = 3_000_000;
    let asks = |isa| {
        Program::build(isa, |program| {
            for fd in 3..9 {
                socket(program, fd, 100);
                write_question(program);
                program.call(Sys::Sendto, &[fd, ASKED, 24, 0, 0, 0]);
                program.or_exit_unless(24, 101);
            }
            program.store_at(ADDRESS, AF_NETLINK | 4711 << 32);
            program.store_at(ADDRESS + 8, 0);
            socket(program, 9, 102);
            program.call(Sys::Bind, &[9, ADDRESS, 12]);
            program.exit(0);
        })
    };
    let first = Program::build(Isa::X86_64, |program| {
        let [_, pid, ..] = program.asm.roles.saved;
        ["/arm", "/riscv"].into_iter().for_each(|path| program.fork_with(pid, |program| program.exec(path)));
        program.wait_for_all(program.asm.roles.args[5]);
        // Twice: whoever has a port keeps it.
        program.store_at(ADDRESS, AF_NETLINK | 4711 << 32);
        program.store_at(ADDRESS + 8, 0);
        for (fd, wanted) in [(3, 0), (4, IN_USE)] {
            socket(program, fd, 1);
            program.call(Sys::Bind, &[fd, ADDRESS, 12]);
            program.or_exit_unless(wanted, 2);
            ask(program, fd, 10);
        }
        program.call(Sys::Close, &[3]);
        program.call(Sys::Close, &[4]);
        program.print(1, "all\n");
        program.exit(0);
    });
    let files = vec![("first", first), ("arm", asks(Isa::AArch64)), ("riscv", asks(Isa::RiscV64))];
    let scenario = Scenario { files, command: vec!["/first"], ..Scenario::default() };
    let run = |seed, faults| {
        let mut config = Config::new(Driver::Seeded(seed), three_islands([1, 1, 1]));
        (config.faults, config.steps_max) = (faults, STEPS_MAX);
        let looked = boot_and_look(config, &scenario, |pool| {
            let slabs = &pool.header().slabs;
            let classes = [SocketRecord::CLASS, PipeRecord::CLASS, PacketRecord::CLASS];
            (classes.map(|class| slabs[class].in_use.get()), whole::broken(pool))
        });
        let (ended, (in_use, broken)) = looked.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        assert_eq!((ended.status, ended.output.as_str()), (0, "all\n"), "seed {seed}: {ended:?}");
        assert_eq!((in_use[0], in_use[2], broken), (0, 0, vec![]), "seed {seed}");
        ended.steps
    };
    let steps = run(0, Faults::default());
    for seed in 0..env("MOTET_SEEDS", 12) {
        let island = IslandId(1 + (seed % 2) as u8);
        let death = Some((island, steps * (seed + 1) / 14));
        let _ = run(seed, Faults { death, survives: true, ..Faults::default() });
    }
}

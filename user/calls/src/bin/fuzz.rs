//! System calls with random numbers and arguments, in children that may not take long: `fuzz SEED CHILDREN CALLS [USER]`.
//!
//! Child `i` of seed `s` makes the same calls as child 0 of seed `s + i`. Calls that would harm the machine around it (ending other processes, changing
//! the clock) are left out. With a `USER` (an id) the children are that user's. Then only calls that end or delay the child itself are left out: the
//! kernel must refuse everything else that would do harm.
#![no_std]
#![no_main]

use motet_calls::system::{self, Arguments, STDERR, STDOUT};

motet_calls::program!(main);

/// A child that takes longer is taken to wait for something.
const LIMIT_NS: u64 = 200_000_000;
const LOOK_EVERY_NS: u64 = 2_000_000;
/// Above the numbers of all calls.
const NUMBERS: u64 = 480;
const BUFFER_WORDS: usize = 1024;

#[cfg(target_arch = "x86_64")]
mod number {
    /// exit, kill, pause, rt_sigsuspend, ptrace, adjtimex, settimeofday, reboot, tkill, clock_settime, exit_group, tgkill,
    /// rt_sigqueueinfo, rt_tgsigqueueinfo, clock_adjtime, pidfd_send_signal
    pub const LEFT_OUT: [u64; 16] = [60, 62, 34, 130, 101, 159, 164, 169, 200, 227, 231, 234, 129, 297, 305, 424];
    /// fork, vfork, clone, clone3: some, or there are too many processes
    pub const SELDOM: [u64; 4] = [56, 57, 58, 435];
    /// First argument: a process. setpgid, setpriority, sched_set..., prlimit64, process_vm_..., process_madvise
    pub const ON_ITSELF: [u64; 10] = [109, 141, 142, 144, 203, 302, 310, 311, 314, 440];
    /// exit, pause, rt_sigsuspend, exit_group
    pub const POINTLESS: [u64; 4] = [60, 34, 130, 231];
    /// setgroups, setresgid, setresuid
    pub const TO_BECOME: [usize; 3] = [116, 119, 117];
}

#[cfg(not(target_arch = "x86_64"))]
mod number {
    /// exit, exit_group, kill, tkill, tgkill, rt_sigsuspend, rt_sigqueueinfo, ptrace, clock_settime, reboot,
    /// settimeofday, adjtimex, rt_tgsigqueueinfo, clock_adjtime, pidfd_send_signal
    pub const LEFT_OUT: [u64; 15] = [93, 94, 129, 130, 131, 133, 138, 117, 112, 142, 170, 171, 240, 266, 424];
    /// clone, clone3: some, or there are too many processes
    pub const SELDOM: [u64; 2] = [220, 435];
    /// First argument: a process. sched_set..., setpriority, setpgid, prlimit64, process_vm_..., process_madvise
    pub const ON_ITSELF: [u64; 10] = [118, 119, 122, 140, 154, 261, 270, 271, 274, 440];
    /// exit, exit_group, rt_sigsuspend
    pub const POINTLESS: [u64; 3] = [93, 94, 133];
    /// setgroups, setresgid, setresuid
    pub const TO_BECOME: [usize; 3] = [159, 149, 147];
}

fn main(arguments: Arguments) -> u8 {
    let number = |index| arguments.get(index).map(decimal);
    let (Some(seed), Some(children), Some(calls)) = (number(1), number(2), number(3)) else {
        let _ = system::write(STDERR, b"usage: fuzz SEED CHILDREN CALLS [USER]\n");
        return 64;
    };
    let user = number(4);
    let mut killed = 0;
    for child in 0..children {
        let Some(pid) = fork(user) else {
            let _ = system::write(STDERR, b"fuzz: cannot fork\n");
            return 1;
        };
        if pid == 0 {
            if let Some(user) = user {
                become_user(user);
            }
            Child::new(seed + child, user.is_some()).run(calls);
        }
        killed += u64::from(!ends(pid));
    }
    end_children_of_children(user);
    let mut digits = [0; 20];
    let _ = system::write(STDOUT, b"fuzz: children that had to be killed: ");
    let _ = system::write(STDOUT, system::decimal(killed, &mut digits));
    let _ = system::write(STDOUT, b"\n");
    0
}

/// Becomes a user without other groups than its own; ends the process if that cannot be.
fn become_user(user: u64) {
    let [groups, group, user_ids] = number::TO_BECOME;
    let id = user as usize;
    for (number, args) in [(groups, [0; 6]), (group, [id, id, id, 0, 0, 0]), (user_ids, [id, id, id, 0, 0, 0])] {
        // SAFETY: the calls take no addresses.
        if unsafe { system::system_call(number, args) } != 0 {
            system::exit(1);
        }
    }
}

/// Ends the children's children, for which no process waits. Without a user, it ends all processes but this one and the first one. With a user, it ends
/// all processes of the user.
fn end_children_of_children(user: Option<u64>) {
    match user {
        None => system::kill(-1),
        Some(user) => match system::fork() {
            Ok(0) => {
                become_user(user);
                system::kill(-1);
                system::exit(0)
            }
            Ok(child) => _ = system::wait(child),
            Err(_) => {}
        },
    }
}

/// The children of earlier children may need some time to go.
fn fork(user: Option<u64>) -> Option<usize> {
    for _ in 0..100 {
        if let Ok(pid) = system::fork() {
            return Some(pid);
        }
        end_children_of_children(user);
        system::sleep_ns(10 * LOOK_EVERY_NS);
    }
    None
}

/// Waits for a child; false when it had to be killed.
fn ends(child: usize) -> bool {
    let deadline = system::now_ns() + LIMIT_NS;
    while system::now_ns() < deadline {
        // A child may have made itself one that cannot be waited for.
        if system::has_ended(child) != Ok(false) {
            return true;
        }
        system::sleep_ns(LOOK_EVERY_NS);
    }
    system::kill(child as isize);
    let _ = system::wait(child);
    false
}

const PATHS: [&core::ffi::CStr; 12] = [
    c"file",
    c"directory",
    c"directory/inner",
    c"link",
    c"fifo",
    c".",
    c"..",
    c"",
    c"/dev/null",
    c"/dev/zero",
    c"/proc/self/stat",
    c"/proc/self/fd/3",
];

struct Child {
    state: u64,
    /// Whether it has no privileges, so that none of its calls may do harm.
    is_unprivileged: bool,
    buffer: [u64; BUFFER_WORDS],
}

impl Child {
    fn new(seed: u64, is_unprivileged: bool) -> Self {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { state, is_unprivileged, buffer: [0; BUFFER_WORDS] }
    }

    /// xorshift64*
    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 32) % bound
    }

    fn run(&mut self, calls: u64) -> ! {
        // Random output is discarded.
        for descriptor in 0..3 {
            system::close(descriptor);
            let _ = system::open(c"/dev/null");
        }
        let _ = system::pipe();
        for _ in 0..calls {
            let number = self.below(NUMBERS);
            let is_left_out = match self.is_unprivileged {
                true => number::POINTLESS.contains(&number),
                false => number::LEFT_OUT.contains(&number),
            };
            if is_left_out || number::SELDOM.contains(&number) && self.below(4) != 0 {
                continue;
            }
            for _ in 0..8 {
                let word = self.value();
                let at = self.below(64) as usize;
                self.buffer[at] = word;
            }
            let mut args = [0; 6];
            args.fill_with(|| self.value() as usize);
            if number::ON_ITSELF.contains(&number) && !self.is_unprivileged {
                args[0] = 0;
            }
            // SAFETY: none: this process may well destroy itself.
            unsafe { system::system_call(number as usize, args) };
        }
        system::exit(0)
    }

    /// An argument, or a word of a structure.
    fn value(&mut self) -> u64 {
        let random = self.next();
        match self.below(16) {
            0 => 0,
            1 => random % 8,
            2 => random % 256,
            3 => random % 70_000,
            4 => u64::MAX - random % 256,
            5 => random,
            6 => 1 << (random % 64),
            7 => (1 << (random % 64)) - 1,
            // Kernel addresses, the end of user space, and values that are no address.
            8 => [0xffff_9000_0000_0000, 0xffff_ffff_8000_0000, 0x7fff_ffff_f000, 1 << 47][random as usize % 4],
            9 => 0x7fff_ffff_f000 - random % 9000,
            10 | 11 => PATHS[random as usize % PATHS.len()].as_ptr() as u64,
            12 => (random % BUFFER_WORDS as u64 * 8).wrapping_add(self.buffer.as_ptr() as u64),
            // Not aligned.
            13 => (random % 64).wrapping_add(self.buffer.as_ptr() as u64),
            14 => 4096 * (random % 64),
            _ => self.buffer.as_ptr() as u64,
        }
    }
}

fn decimal(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value: u64, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))))
}

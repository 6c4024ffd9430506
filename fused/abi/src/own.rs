//! System calls that Linux does not have. Their numbers are the same on every ISA, far above Linux's.

/// `call_on(island, function, argument)`: calls `void *function(void *)` on a core of an island. To the program it is a
/// call of a C function: only registers that the calling convention preserves keep their values.
pub const CALL_ON: u64 = 0x4d00;
/// `island()`: the number of the island that the thread runs on.
pub const ISLAND: u64 = 0x4d01;
/// `crossings(busy, missing)`: what becomes of the calling process's calls whose island is busy or missing:
/// [`CrossingPolicy`] codes, 0: as before. Children and programs that it executes inherit it.
pub const CROSSINGS: u64 = 0x4d02;

/// Of the migration handler ([`crate::migration`]) alone: its thread goes to the ISA of the function that it has tried to call.
pub const MIGRATE: u64 = 0x4d03;
/// Of the migration handler alone: its thread goes back to where the function was called that has returned.
pub const MIGRATE_BACK: u64 = 0x4d04;
/// Of the [gate](crate::gate) alone: the function that another ISA has called has returned.
pub const CALL_RETURN: u64 = 0x4d05;

/// `need(name)`: the calling thread is about to use an extension of its instruction set, and goes to a core that has it.
pub const NEED: u64 = 0x4d06;
/// `done(name)`: it will not use it for a while.
pub const DONE: u64 = 0x4d07;

/// `jump(isa, sp, function, first, second)`, of `longjmp`: the thread calls `function(first, second)`, which never returns, in the call that has the
/// stack pointer `sp` on an instruction set ([`motet_layout::Isa`]); calls that were made from there, across instruction sets, are over. 0: that is the
/// innermost one, and the thread goes on where it is.
pub const JUMP: u64 = 0x4d08;
/// `leave(function, argument)`, of exceptions: the call across instruction sets that the thread is in is over, and its caller calls `function(argument)` in its
/// place, to which the frames of the caller look as they did to the first function.
pub const LEAVE: u64 = 0x4d09;

/// Of no program: a thread waits for what its other half in another kernel sends.
pub const AWAIT: u64 = 0x4d0a;

/// What becomes of a call that its island cannot serve (at once).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrossingPolicy {
    /// It waits for a core. Only for busy islands, and their default.
    Wait = 1,
    /// It runs where the caller runs, and is counted. The default for missing islands.
    Local = 2,
    /// It ends the process with a message.
    End = 3,
}

impl CrossingPolicy {
    /// The policy with a code.
    pub const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Wait),
            2 => Some(Self::Local),
            3 => Some(Self::End),
            _ => None,
        }
    }
}

/// [`CrossingPolicy`]s for busy and for missing islands, as they are kept in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrossingPolicies {
    /// All of the ISA's cores have something to do.
    pub busy: CrossingPolicy,
    /// The machine has no island of the ISA that works.
    pub missing: CrossingPolicy,
}

impl CrossingPolicies {
    /// What a word in the pool says; 0: the defaults.
    pub fn from_raw(raw: u32) -> Self {
        let missing = CrossingPolicy::from_code(u64::from(raw >> 2 & 3));
        Self {
            busy: CrossingPolicy::from_code(u64::from(raw & 3)).unwrap_or(CrossingPolicy::Wait),
            missing: missing.filter(|missing| *missing != CrossingPolicy::Wait).unwrap_or(CrossingPolicy::Local),
        }
    }

    /// The word for the pool.
    pub const fn raw(self) -> u32 {
        self.busy as u32 | (self.missing as u32) << 2
    }

    /// With the changes that `crossings(busy, missing)` asks for; `None`: it asks for what cannot be.
    pub fn changed(self, busy: u64, missing: u64) -> Option<Self> {
        let code = |code, before| if code == 0 { Some(before) } else { CrossingPolicy::from_code(code) };
        let missing = code(missing, self.missing).filter(|missing| *missing != CrossingPolicy::Wait)?;
        Some(Self { busy: code(busy, self.busy)?, missing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_kept_in_a_word_whose_zero_is_the_default() {
        let default = CrossingPolicies { busy: CrossingPolicy::Wait, missing: CrossingPolicy::Local };
        assert_eq!(CrossingPolicies::from_raw(0), default);
        for busy in 1..=3 {
            for missing in 2..=3 {
                let policies = default.changed(busy, missing).unwrap();
                assert_eq!((policies.busy as u64, policies.missing as u64), (busy, missing));
                assert_eq!(CrossingPolicies::from_raw(policies.raw()), policies);
                assert_eq!(policies.changed(0, 0), Some(policies));
            }
        }
    }

    #[test]
    fn nobody_waits_for_an_island_that_is_missing() {
        let default = CrossingPolicies::from_raw(0);
        for (busy, missing) in [(0, 1), (4, 0), (0, 4), (u64::MAX, 2)] {
            assert_eq!(default.changed(busy, missing), None, "{busy} {missing}");
        }
        assert_eq!(CrossingPolicies::from_raw(1 << 2).missing, CrossingPolicy::Local);
    }
}

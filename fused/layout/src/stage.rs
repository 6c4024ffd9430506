//! How far a thread is with what it does in the kernel, when it does not run.

use crate::{Cell32, PoolSafe};

/// How far a thread is with what it does in the kernel. Its core, and whoever sets it up, know it by these functions alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage(u32);

impl Stage {
    /// In no call: it executes its program.
    pub const USER: Self = Self(0);
    /// In a system call that has waited, and is dispatched again.
    pub const CALL_WAITED: Self = Self(1);
    /// In a system call that was last in the middle of its work, and does not wait; it is dispatched again.
    pub const CALL_PAUSED: Self = Self(2);
    /// It ends, and runs no user code any more. `ThreadRecord::scratch[0]` is its status.
    pub const ENDS: Self = Self(4);
    /// It has waited at an instruction, which it executes again.
    pub const INSTRUCTION: Self = Self(8);
    /// In a system call that begins: it has not been dispatched yet, and there is no instruction that has made it.
    pub const CALL_BEGINS: Self = Self(Self::CALL_PAUSED.0 | Self::BEGINS.0);
    const TURN: Self = Self(16);
    const PAGE: Self = Self(32);
    const LOOKS: Self = Self(64);
    const BEGINS: Self = Self(128);

    /// In the middle of no call and no instruction.
    #[inline(always)]
    pub const fn is_user(self) -> bool {
        self.0 == Self::USER.0
    }

    /// In no call, or in one that begins.
    #[inline(always)]
    pub const fn begins(self) -> bool {
        self.is_user() || self.has(Self::BEGINS)
    }

    /// In a call that has waited, since it began.
    #[inline(always)]
    pub const fn has_waited(self) -> bool {
        self.has(Self::CALL_WAITED)
    }

    /// In a call that was last in the middle of its work.
    #[inline(always)]
    pub const fn is_paused(self) -> bool {
        self.has(Self::CALL_PAUSED)
    }

    /// The thread ends.
    #[inline(always)]
    pub const fn ends(self) -> bool {
        self.has(Self::ENDS)
    }

    /// It executes its program, or is in a call that was dispatched: nothing else comes first.
    #[inline(always)]
    pub const fn is_user_or_call(self) -> bool {
        self.0 & !(Self::CALL_WAITED.0 | Self::CALL_BEGINS.0 | Self::LOOKS.0) == 0
    }

    /// In a call that has waited, and was told to look once more whether what it waits for has come, before its signals.
    #[inline(always)]
    pub const fn looks_first(self) -> bool {
        self.has(Self::LOOKS)
    }

    /// The same, and whether the call [`looks_first`](Self::looks_first).
    #[inline(always)]
    pub const fn looking(self, looks: bool) -> Self {
        Self(self.0 & !Self::LOOKS.0 | if looks { Self::LOOKS.0 } else { 0 })
    }

    /// It has waited in between: at an instruction, for its turn, or for a page.
    #[inline(always)]
    pub const fn is_between(self) -> bool {
        self.0 & Self::BETWEEN != 0
    }

    /// It has waited in between for its turn or for a page in the middle of a call: whatever has ended that, it looks at its signals.
    #[inline(always)]
    pub const fn looks_again(self) -> bool {
        self.0 & (Self::TURN.0 | Self::PAGE.0) != 0
    }

    /// The same, in the middle of a call's work.
    #[inline(always)]
    pub const fn paused(self) -> Self {
        Self(self.0 & !Self::BEGINS.0 | Self::CALL_PAUSED.0)
    }

    /// The call waits. What it [looks for first](Self::looks_first) it has looked for then.
    #[inline(always)]
    pub const fn waiting(self) -> Self {
        Self(Self::CALL_WAITED.0 | self.0 & Self::LOOKS.0)
    }

    /// The same, and it waits for its turn at the service core.
    pub const fn for_turn(self) -> Self {
        Self(self.0 | Self::TURN.0)
    }

    /// The same, and it waits for a page of user memory, in the middle of a call.
    pub const fn for_page(self) -> Self {
        Self(self.0 | Self::PAGE.0)
    }

    /// What it was before it waited in between.
    pub const fn before(self) -> Self {
        Self(self.0 & !Self::BETWEEN)
    }

    const BETWEEN: u32 = Self::INSTRUCTION.0 | Self::TURN.0 | Self::PAGE.0;

    #[inline(always)]
    const fn has(self, bit: Self) -> bool {
        self.0 & bit.0 != 0
    }
}

/// A [`Stage`] in the pool, written by the core that runs the thread or sets it up.
#[derive(Debug)]
#[repr(transparent)]
pub struct StageCell(Cell32);

impl PoolSafe for StageCell {}

impl StageCell {
    /// Reads it.
    #[inline(always)]
    pub fn get(&self) -> Stage {
        Stage(self.0.get())
    }

    /// Writes it.
    #[inline(always)]
    pub fn set(&self, stage: Stage) {
        self.0.set(stage.0);
    }
}

#[cfg(test)]
mod tests {
    use super::Stage;

    #[test]
    fn what_was_in_the_middle_is_known_after_a_wait_in_between() {
        for stage in [Stage::USER, Stage::CALL_WAITED, Stage::CALL_PAUSED, Stage::CALL_WAITED.paused()] {
            for between in [stage.for_turn(), stage.for_page()] {
                assert!(between.is_between() && between.looks_again() && !between.is_user_or_call());
                assert_eq!(between.before(), stage);
                assert_eq!(between.is_paused(), stage.is_paused());
            }
            assert!(stage.looking(true).looks_first() && stage.looking(true).looking(false) == stage);
            assert!(!stage.waiting().looks_first() && stage.waiting() == Stage::CALL_WAITED);
            assert!(!stage.is_between() && stage.is_user_or_call() && !stage.ends());
        }
        // A call that has looked, and waits again, looks no more: its signals come first then.
        let looks = Stage::CALL_WAITED.looking(true);
        assert!(looks.waiting().looks_first() && looks.for_page().before().looks_first());
        // A call that begins does so until it has paused or waited, and not because a page came first.
        let begins = Stage::CALL_BEGINS;
        assert!(begins.begins() && begins.is_paused() && begins.for_page().before() == begins && !begins.is_user());
        assert!(!begins.paused().begins() && !begins.waiting().begins() && Stage::USER.begins());
        assert!(Stage::INSTRUCTION.is_between() && !Stage::INSTRUCTION.looks_again());
        assert_eq!(Stage::INSTRUCTION.before(), Stage::USER);
        assert!(Stage::ENDS.ends() && !Stage::ENDS.is_user() && !Stage::ENDS.is_user_or_call());
    }
}

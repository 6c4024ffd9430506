//! How much is done at once, and what work costs.

/// What is done between two looks at what else is due, in instructions, roughly: few enough that the core is not deaf for
/// long (at most 20,000 instructions), many enough that looking costs little.
pub const BUDGET: u64 = 5_000;

/// What work costs, in instructions, roughly.
pub mod cost {
    /// Finding and touching a page of user memory or of a file.
    pub const PAGE: u64 = 500;
    /// A frame given back.
    pub const FRAME: u64 = 200;
    /// An object looked at: a descriptor, a directory's entry, a process, a thread.
    pub const OBJECT: u64 = 300;
    /// A step of a long call. Where the timer of an urgent guest is set, this is all that is done between two looks (docs/benchmarks.md has the responses).
    pub const STEP: u64 = 500;

    /// Copying, or filling with zeros.
    pub const fn bytes(len: u64) -> u64 {
        len / 2
    }
}

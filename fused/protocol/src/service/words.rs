//! The words of the registers: requests and answers, and what their fields mean.

/// A thread's request: `sequence << 56 | operation << 48 | object << 32 | argument`.
///
/// The sequence number differs from that of the request before; the answer repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request(pub u64);

impl Request {
    /// A request.
    pub const fn new(sequence: u8, operation: Operation, object: u16, argument: u32) -> Self {
        Self((sequence as u64) << 56 | (operation as u64) << 48 | (object as u64) << 32 | argument as u64)
    }

    /// Its sequence number.
    pub const fn sequence(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// The operation. `None`: there is no such operation.
    pub fn operation(self) -> Option<Operation> {
        Operation::from_raw((self.0 >> 48) as u8)
    }

    /// The number of the operation's object.
    pub const fn object(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The operation's argument.
    pub const fn argument(self) -> u32 {
        self.0 as u32
    }
}

/// The core's answer: `sequence << 56 | state << 48 | code << 32 | value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer(pub u64);

impl Answer {
    const WAITS: u64 = 1;
    const DONE: u64 = 2;

    /// The thread must wait. This word will change again.
    pub const fn waits(sequence: u8) -> Self {
        Self((sequence as u64) << 56 | Self::WAITS << 48)
    }

    /// The request is done.
    pub const fn done(sequence: u8, code: Code, value: u32) -> Self {
        Self((sequence as u64) << 56 | Self::DONE << 48 | (code as u64) << 32 | value as u64)
    }

    /// The sequence number of the request that it answers.
    pub const fn sequence(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Whether the thread must wait.
    pub const fn is_wait(self) -> bool {
        (self.0 >> 48) as u8 as u64 == Self::WAITS
    }

    /// Whether the request is done.
    pub const fn is_done(self) -> bool {
        (self.0 >> 48) as u8 as u64 == Self::DONE
    }

    /// 0, or an error number of Linux.
    pub const fn code(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// The operation's result.
    pub const fn value(self) -> u32 {
        self.0 as u32
    }
}

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident: $raw:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr($raw)]
        pub enum $name { $($(#[$doc])* $variant = $value,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// From its number.
            pub fn from_raw(raw: $raw) -> Option<Self> {
                match raw { $($value => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// The operations. `object` and `argument` are the request's. A thread's number is that within the caller's process.
    Operation: u8 {
        /// Does nothing. It measures the cost of a request.
        Nothing = 0,
        /// The calling thread, which was created, waits for its first turn. Result: the island on which it must run.
        Start = 1,
        /// Creates the thread `object`, whose window a kernel has given: `argument` is its priority (0 to 255, 0 is the most urgent), `islands << 8`
        /// on which it may run (0: all), [`DETACHED`] and [`HARDWARE`].
        Create = 2,
        /// The calling thread ends with `argument`.
        Exit = 3,
        /// Waits for the end of the thread `object`. Result: the value that it has ended with.
        Join = 4,
        /// Lets other ready threads of the same priority run.
        Yield = 5,
        /// Gives the thread `object` the priority `argument`.
        SetPriority = 6,
        /// Detaches the thread `object`: it will not be joined.
        Detach = 7,
        /// Removes the thread `object`, which was created but not started.
        Delete = 8,
        /// Limits the threads that run at once on the island `object` to `argument`; 0: no limit.
        Slots = 9,
        /// Result: the number of the calling thread.
        Own = 10,
        /// Creates a mutex of the [`Kind`] `argument`. Result: its number.
        MutexCreate = 16,
        /// Destroys the mutex `object`.
        MutexDestroy = 17,
        /// Locks the mutex `object`.
        Lock = 18,
        /// Locks the mutex `object` if that is possible at once.
        TryLock = 19,
        /// Unlocks the mutex `object`.
        Unlock = 20,
        /// Reports that the data are repaired that the mutex `object` guards, after its owner has died.
        Consistent = 21,
        /// Creates a condition variable. Result: its number.
        ConditionCreate = 24,
        /// Destroys the condition variable `object`.
        ConditionDestroy = 25,
        /// Unlocks the mutex `argument`, waits for the condition variable `object`, and locks the mutex.
        ConditionWait = 26,
        /// Wakes the most urgent thread that waits for the condition variable `object`.
        Signal = 27,
        /// Wakes all threads that wait for it.
        Broadcast = 28,
        /// Creates a barrier for `argument` threads. Result: its number.
        BarrierCreate = 32,
        /// Destroys the barrier `object`.
        BarrierDestroy = 33,
        /// Waits at the barrier `object` until all threads have come. Result: 1 for one of them, 0 for the others.
        BarrierWait = 34,
        /// Binds the source of interrupts `object` to the calling thread.
        SourceBind = 40,
        /// Waits for an interrupt of the source `object`, which is bound to the calling thread. Result: how many there were.
        SourceWait = 41,
        /// Raises an interrupt of the source `object`, which is bound to a thread of the process.
        SourceRaise = 42,
        /// Ends the wait of an earlier request. The answer is that request's outcome.
        Withdraw = 48,
    }
}

codes! {
    /// Error codes, with Linux's numbers.
    Code: u16 {
        /// No error.
        Ok = 0,
        /// The mutex, or the source of interrupts, is another thread's.
        NotOwner = 1,
        /// There is no such thread.
        NoThread = 3,
        /// The thread waits already, because of an earlier request.
        Waits = 9,
        /// A table is full, or a recursive mutex has been locked too often.
        Full = 11,
        /// In use.
        Busy = 16,
        /// The process has no such object, or the object's state does not allow the operation.
        Invalid = 22,
        /// The thread would wait for itself.
        Deadlock = 35,
        /// There is no such operation.
        Unknown = 38,
        /// The thread's wait was ended by [`Operation::Withdraw`].
        Withdrawn = 110,
        /// The mutex is locked for the caller. Its last owner has died while it had it.
        OwnerDead = 130,
        /// An owner of the mutex has died while it had it, and the next one has not repaired the data.
        NotRecoverable = 131,
    }
}

codes! {
    /// Kinds of mutexes.
    Kind: u32 {
        /// A thread that locks it twice waits for ever.
        Fast = 0,
        /// Its owner may lock it again.
        Recursive = 1,
        /// An owner that locks it again gets an error.
        ErrorChecking = 2,
    }
}

codes! {
    /// The state of a thread.
    State: u32 {
        /// There is no thread, or it has made no request yet.
        None = 0,
        /// Created, not started.
        New = 1,
        /// Waits for its turn.
        Ready = 2,
        /// Runs.
        Running = 3,
        /// Waits for an object.
        Waiting = 4,
        /// Has ended.
        Ended = 5,
        /// Lost its turn to a more urgent thread, and waits for the next one. The kernel does not run it meanwhile.
        Stopped = 6,
    }
}

/// In the argument of [`Operation::Create`]: the thread will not be joined.
pub const DETACHED: u32 = 1 << 16;

/// In the argument of [`Operation::Create`]: the thread is a device. It has no turns, because it uses no core.
pub const HARDWARE: u32 = 1 << 17;

/// The value of a thread that was killed, for the thread that joins it.
pub const KILLED: u32 = u32::MAX;

//! The words of the registers: requests and answers, and what their fields mean.

/// What a thread asks for: `sequence << 56 | operation << 48 | object << 32 | argument`.
///
/// The sequence number differs from that of the request before; the answer repeats it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request(pub u64);

impl Request {
    /// A request.
    pub const fn new(sequence: u8, operation: Operation, object: u16, argument: u32) -> Self {
        Self((sequence as u64) << 56 | (operation as u64) << 48 | (object as u64) << 32 | argument as u64)
    }

    /// Its number.
    pub const fn sequence(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// What is asked for; `None`: there is no such operation.
    pub fn operation(self) -> Option<Operation> {
        Operation::from_raw((self.0 >> 48) as u8)
    }

    /// The number of the object that it is about.
    pub const fn object(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Whatever else the operation needs.
    pub const fn argument(self) -> u32 {
        self.0 as u32
    }
}

/// What the core answers: `sequence << 56 | state << 48 | code << 32 | value`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer(pub u64);

impl Answer {
    const WAITS: u64 = 1;
    const DONE: u64 = 2;

    /// The thread is to wait: this word changes again.
    pub const fn waits(sequence: u8) -> Self {
        Self((sequence as u64) << 56 | Self::WAITS << 48)
    }

    /// The request is done with.
    pub const fn done(sequence: u8, code: Code, value: u32) -> Self {
        Self((sequence as u64) << 56 | Self::DONE << 48 | (code as u64) << 32 | value as u64)
    }

    /// The number of the request that it answers.
    pub const fn sequence(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// Whether the thread is to wait.
    pub const fn is_wait(self) -> bool {
        (self.0 >> 48) as u8 as u64 == Self::WAITS
    }

    /// Whether the request is done with.
    pub const fn is_done(self) -> bool {
        (self.0 >> 48) as u8 as u64 == Self::DONE
    }

    /// 0, or Linux's number of an error.
    pub const fn code(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// What the operation gives.
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
    /// What can be asked for. `object` and `argument` are the request's; a number is of the caller's process.
    Operation: u8 {
        /// Nothing: what a request costs.
        Nothing = 0,
        /// The calling thread, which was created, begins when it is its turn. Gives the island on which it is to run.
        Start = 1,
        /// Creates the thread `object`, whose window a kernel has given: `argument` is its priority (0 to 255, 0 is the most urgent), `islands << 8`
        /// on which it may run (0: all), [`DETACHED`] and [`HARDWARE`].
        Create = 2,
        /// The calling thread ends with `argument`.
        Exit = 3,
        /// Waits for the end of the thread `object`, and gives what it has ended with.
        Join = 4,
        /// Lets other ready threads run that are as urgent.
        Yield = 5,
        /// Gives the thread `object` the priority `argument`.
        SetPriority = 6,
        /// Nobody will join the thread `object`.
        Detach = 7,
        /// The thread `object`, created and not started, will not be.
        Delete = 8,
        /// At most `argument` threads run at once on the island `object`; 0: as many as there are.
        Slots = 9,
        /// Gives the number of the calling thread.
        Own = 10,
        /// A new mutex of the [`Kind`] `argument`: gives its number.
        MutexCreate = 16,
        /// The mutex `object` goes.
        MutexDestroy = 17,
        /// Locks the mutex `object`.
        Lock = 18,
        /// The same, if that is possible at once.
        TryLock = 19,
        /// Unlocks the mutex `object`.
        Unlock = 20,
        /// What the mutex `object` guards, whose owner has died, is repaired.
        Consistent = 21,
        /// A new condition variable: gives its number.
        ConditionCreate = 24,
        /// The condition variable `object` goes.
        ConditionDestroy = 25,
        /// Unlocks the mutex `argument`, waits for the condition variable `object`, and locks the mutex.
        ConditionWait = 26,
        /// The most urgent thread that waits for the condition variable `object` goes on.
        Signal = 27,
        /// All threads do that wait for it.
        Broadcast = 28,
        /// A new barrier for `argument` threads: gives its number.
        BarrierCreate = 32,
        /// The barrier `object` goes.
        BarrierDestroy = 33,
        /// Waits at the barrier `object` until all have come; gives one of them 1.
        BarrierWait = 34,
        /// Binds the source of interrupts `object` to the calling thread.
        SourceBind = 40,
        /// Waits for an interrupt of the source `object`, which is bound to the calling thread: gives how many there were.
        SourceWait = 41,
        /// An interrupt of the source `object`, which is bound to a thread of the process.
        SourceRaise = 42,
        /// Does not wait any longer: what is answered is what the request has come to that waited.
        Withdraw = 48,
    }
}

codes! {
    /// What is wrong: Linux's numbers.
    Code: u16 {
        /// Nothing.
        Ok = 0,
        /// The mutex, or the source, is another thread's.
        NotOwner = 1,
        /// There is no such thread.
        NoThread = 3,
        /// The thread waits already, for what it asked before.
        Waits = 9,
        /// A table is full, or a recursive mutex has been locked too often.
        Full = 11,
        /// In use.
        Busy = 16,
        /// There is no such object in the process, or it is not fit for this.
        Invalid = 22,
        /// The thread would wait for itself.
        Deadlock = 35,
        /// There is no such operation.
        Unknown = 38,
        /// The thread waited, and does not any longer.
        Withdrawn = 110,
        /// It is locked; its last owner has died with it.
        OwnerDead = 130,
        /// Its last owner has died with it, and nobody has repaired what it guards.
        NotRecoverable = 131,
    }
}

codes! {
    /// Kinds of mutexes.
    Kind: u32 {
        /// Whoever locks it twice waits for ever.
        Fast = 0,
        /// Its owner may lock it again.
        Recursive = 1,
        /// Its owner is told so.
        ErrorChecking = 2,
    }
}

codes! {
    /// What a thread does.
    State: u32 {
        /// There is none, or it has asked for nothing yet.
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
        /// Ran until a more urgent thread got its turn, and waits for another one. Its kernel keeps it from running.
        Stopped = 6,
    }
}

/// In the argument of [`Operation::Create`]: nobody joins the thread.
pub const DETACHED: u32 = 1 << 16;

/// In the argument of [`Operation::Create`]: a device is the thread. It has no turns: it runs beside all islands.
pub const HARDWARE: u32 = 1 << 17;

/// What somebody joins that has been killed.
pub const KILLED: u32 = u32::MAX;

//! What follows the header of each kind of message. Fields lie one after another, little-endian; what is left of a message's length is zero.
//!
//! A process is named by the id that it has at the receiver, a thread likewise. Addresses are of user memory.

use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

use motet_abi::{
    convention::{Arguments, Results},
    fat::{FLOATS_MAX, Signature, WORDS_MAX},
};
use motet_layout::{Frame, PAGE_SIZE};

use super::{HEADER_LEN, MessageKind, PAGES_MAX};

/// What follows the header of a kind of message.
pub trait Body: Fields {
    /// The kind.
    const KIND: MessageKind;
    /// Whether a page follows it.
    const HAS_PAGE: bool = false;
}

/// Fields of a message: all that follow its header, or the first of them.
pub trait Fields: Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// One of zeroes.
    fn zeroed() -> Self {
        Self::new_zeroed()
    }

    /// As it stands in a message.
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    /// The same, to be read into.
    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_mut_bytes()
    }
}

impl<T: Sized + FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned> Fields for T {}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident of $kind:ident $(with $page:ident)? { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Debug)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Body for $name {
            const KIND: MessageKind = MessageKind::$kind;
            $(const HAS_PAGE: bool = { let $page = true; $page };)?
        }

        const _: () = {
            let page = if <$name as Body>::HAS_PAGE { PAGE_SIZE as usize } else { 0 };
            assert!(HEADER_LEN + size_of::<$name>() + page == MessageKind::$kind.message_len());
        };
    )*};
}

/// Bytes of a path in a message.
pub const PATH_LEN: usize = 512;
/// Bytes of the register set of Popcorn's kernels: ours say what a function is called with instead.
const REGISTERS_LEN: usize = 832;

bodies! {
    /// Who a kernel is.
    NodeInfoBody of NodeInfo {
        /// Its instruction set.
        isa: U32,
        /// Of its layouts.
        fingerprint: U64,
    }
    /// A thread calls a function here, or has returned from one that was called back.
    TaskMigrate of TaskMigrate {
        /// The process's id at home.
        home_pid: U32,
        /// The thread's.
        home_tid: U32,
        /// The half of the thread here that waits for this; 0: one is made.
        tid: U32,
        /// The program: bytes of its file, and when that was changed.
        file_len: U64,
        /// See `file_len`; nanoseconds.
        file_changed_ns: U64,
        /// Its path, ended by a zero.
        path: [u8; PATH_LEN],
        /// What it goes on with.
        step: Step,
        /// Zeroes.
        rest: [u8; MessageKind::TaskMigrate.message_len() - HEADER_LEN - 28 - PATH_LEN - size_of::<Step>()],
    }
    /// The half of a thread here is about to run.
    TaskPairing of TaskPairing {
        /// The thread at home.
        tid: U32,
        /// Its other half, and that one's process, by the sender's ids.
        own_tid: U32,
        /// See `own_tid`.
        own_pid: U32,
    }
    /// A thread comes home: a function has returned, or calls one of home's.
    TaskMigrateBack of TaskMigrateBack {
        /// The thread at home.
        tid: U32,
        /// What it goes on with.
        step: Step,
        /// Zeroes.
        rest: [u8; REGISTERS_LEN + 16 - 4 - size_of::<Step>()],
    }
    /// A process has ended at home, or one of its threads that was away.
    TaskExitOrigin of TaskExitOrigin {
        /// The process here.
        pid: U32,
        /// The half of the thread here; 0: all of the process's.
        tid: U32,
        /// Zeroes.
        rest: [u8; 4],
    }
    /// A thread has ended while it was away.
    TaskExitRemote of TaskExitRemote {
        /// The thread at home.
        tid: U32,
        /// The signal that has ended it.
        signal: U32,
        /// Zeroes.
        rest: [u8; 4],
    }
    /// Which range is an address in?
    VmaInfoRequest of VmaInfoRequest {
        /// The process at home.
        pid: U32,
        /// The address.
        address: U64,
        /// Zeroes.
        rest: [u8; 4],
    }
    /// A range, or none.
    VmaInfoResponse of VmaInfoResponse {
        /// The process here.
        pid: U32,
        /// The address that was asked for.
        address: U64,
        /// First address, and first past it; both 0: the address is in none.
        start: U64,
        /// See `start`.
        end: U64,
        /// `VMA_*`.
        flags: U32,
        /// Zeroes.
        rest: [u8; Self::REST_LEN],
    }
    /// Ranges have changed at home: what is known of them here is forgotten. Or a thread that is away makes a system call that changes ranges.
    VmaOpRequest of VmaOpRequest {
        /// The thread at home whose call it is (`call`, `args`); 0: home has changed ranges, which the other fields say.
        tid: U32,
        /// As in [`SyscallForward`].
        call: U32,
        /// As in [`SyscallForward`].
        args: [U64; 6],
        /// The process here.
        pid: U32,
        /// First address, and first past it.
        start: U64,
        /// See `start`.
        end: U64,
        /// 1: what the pages were is gone; 0: only what may be done with them has changed.
        drops: U32,
        /// The number of the change.
        change: U32,
        /// Zeroes.
        rest: [u8; Self::REST_LEN],
    }
    /// A page is wanted.
    PageRequest of PageRequest {
        /// The process here.
        pid: U32,
        /// The page's address.
        address: U64,
        /// 1: to write.
        write: U32,
        /// The last change of ranges that the sender was told of.
        change: U32,
        /// Pages behind it that are wished for, too: bit `n` is the `n`-th one.
        wishes: U32,
        /// Zeroes.
        rest: [u8; 24],
    }
    /// A page.
    PageResponse of PageResponse with page {
        /// The process here.
        pid: U32,
        /// The page's address.
        address: U64,
        /// 1: to write.
        write: U32,
        /// Zeroes.
        rest: [u8; 8],
    }
    /// What was wanted of several pages, one behind the other. Those that have come follow.
    PagesResponse of PagesResponse {
        /// The process here.
        pid: U32,
        /// The first page's address.
        address: U64,
        /// 1: to write.
        write: U32,
        /// [`SeveralResult`]s, two bits each.
        results: U32,
        /// Where those that have come are in the sender's memory (frame numbers), in their order; 0: they follow.
        frames: [U32; PAGES_MAX],
        /// Zeroes.
        rest: [u8; 8],
    }
    /// What was wanted, without the page; or nothing.
    PageResponseShort of PageResponseShort {
        /// The process here.
        pid: U32,
        /// The page's address.
        address: U64,
        /// `PAGE_*`.
        result: U32,
        /// [`PAGE_IN_PLACE`]: where it is in the sender's memory (frame number).
        frame: U32,
        /// [`PAGE_IN_PLACE`]: 1: to write.
        write: U32,
    }
    /// A copy is to be dropped.
    PageInvalidateRequest of PageInvalidateRequest {
        /// The process here.
        pid: U32,
        /// The page's address.
        address: U64,
        /// Zeroes.
        rest: [u8; 8],
    }
    /// It has been.
    PageInvalidateResponse of PageInvalidateResponse {
        /// The process here.
        pid: U32,
        /// The page's address.
        address: U64,
    }
    /// A number, to be followed by the next one.
    Probe of Probe {
        /// It.
        number: U64,
    }
    /// A system call that a thread makes away.
    SyscallForward of SyscallForward {
        /// The thread at home.
        tid: U32,
        /// The call (`motet_abi::Syscall`).
        call: U32,
        /// Its arguments.
        args: [U64; 6],
    }
    /// Its result.
    SyscallReply of SyscallReply {
        /// It.
        result: CallResult,
        /// Zeroes.
        rest: [u8; 4],
    }
    /// A call of `futex` that a thread makes away.
    FutexRequest of FutexRequest {
        /// The thread at home.
        tid: U32,
        /// Its arguments.
        args: [U64; 6],
        /// Zeroes.
        rest: [u8; 4],
    }
    /// Its result.
    FutexResponse of FutexResponse {
        /// It.
        result: CallResult,
    }
    /// The result of a system call that changes ranges.
    VmaOpResponse of VmaOpResponse {
        /// It.
        result: CallResult,
        /// Zeroes.
        rest: [u8; 28],
    }
}

/// The result of a system call that a thread has made away: each message that brings one begins with it.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct CallResult {
    /// The half of the thread here.
    pub tid: U32,
    /// As in a register.
    pub result: U64,
}

/// [`PageResponseShort::result`]: the receiver, which holds a copy, may write it.
pub const PAGE_GRANTED: u32 = 0;
/// [`PageResponseShort::result`]: not now; the receiver asks again.
pub const PAGE_RETRY: u32 = 1;
/// [`PageResponseShort::result`]: there is none.
pub const PAGE_NONE: u32 = 2;
/// [`PageResponseShort::result`]: the receiver reads the page in the sender's memory, before it takes another message.
pub const PAGE_IN_PLACE: u32 = 3;

/// What a [`PagesResponse`] says of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeveralResult {
    /// Nothing.
    Nothing,
    /// As [`PAGE_RETRY`].
    Retry,
    /// As [`PAGE_GRANTED`].
    Granted,
    /// It has come.
    Came,
}

impl PagesResponse {
    /// What it says of each page.
    pub fn results(&self) -> [SeveralResult; PAGES_MAX] {
        use SeveralResult::{Came, Granted, Nothing, Retry};
        core::array::from_fn(|number| {
            [Nothing, Retry, Granted, Came][(self.results.get() >> (2 * number) & 3) as usize] //
        })
    }

    /// Bits that say it ([`Self::results`](struct@Self)).
    pub fn bits_of(results: &[SeveralResult; PAGES_MAX]) -> u32 {
        (0..).zip(results).map(|(number, &result)| (result as u32) << (2 * number)).sum()
    }
}

impl PageResponseShort {
    /// Of a page of a process there.
    pub fn of(pid: U32, address: U64, result: u32) -> Self {
        Self { pid, address, result: result.into(), frame: 0.into(), write: 0.into() }
    }

    /// The same of one that is in this frame.
    #[must_use]
    pub fn at(self, frame: Frame, write: bool) -> Self {
        Self { frame: frame.0.into(), write: u32::from(write).into(), ..self }
    }
}

impl VmaInfoResponse {
    /// Bytes of zeroes, where Popcorn's have a file's path.
    pub const REST_LEN: usize = MessageKind::VmaInfoResponse.message_len() - HEADER_LEN - 32;
}

impl VmaOpRequest {
    /// Bytes of zeroes.
    pub const REST_LEN: usize = MessageKind::VmaOpRequest.message_len() - HEADER_LEN - 84;
}

impl TaskMigrate {
    /// A step of a thread, without saying of which.
    pub fn nowhere(step: Step) -> Self {
        let mut body = Self::new_zeroed();
        body.step = step;
        body
    }
}

impl TaskMigrateBack {
    /// A step of the thread with that id at home.
    pub fn of(tid: u32, step: Step) -> Self {
        let mut body = Self::new_zeroed();
        (body.tid, body.step) = (tid.into(), step);
        body
    }
}

/// Words of a [`Step`], without whether it is a call.
pub const STEP_WORDS: usize = 6 + WORDS_MAX + FLOATS_MAX;

/// What a thread goes on with in another kernel.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct Step {
    /// 1: a function is called; 0: one has returned.
    pub is_call: U32,
    /// The function.
    pub function: U64,
    /// What it takes and gives ([`Signature`]).
    pub words: U64,
    /// See `words`.
    pub floats: U32,
    /// See `words`.
    pub result: U32,
    /// Where its stack begins; 0: the receiver knows.
    pub stack: U64,
    /// The thread pointer, as the receiver's instruction set has it.
    pub tls: U64,
    /// How far the caller has used the stack of its own instruction set.
    pub caller_sp: U64,
    /// Arguments, or results.
    pub values: [U64; WORDS_MAX],
    /// See `values`.
    pub float_values: [U64; FLOATS_MAX],
}

impl Step {
    /// A call.
    pub fn call(
        function: u64,
        signature: &Signature,
        (stack, tls): (u64, u64),
        caller_sp: u64,
        arguments: &Arguments,
    ) -> Self {
        Self {
            is_call: 1.into(),
            function: function.into(),
            words: signature.words.into(),
            floats: signature.floats.into(),
            result: signature.result.into(),
            stack: stack.into(),
            tls: tls.into(),
            caller_sp: caller_sp.into(),
            values: arguments.words.map(U64::new),
            float_values: arguments.floats.map(U64::new),
        }
    }

    /// It as words, as it is kept until it is taken.
    pub fn to_words(&self) -> [u64; STEP_WORDS] {
        let floats_and_result = u64::from(self.floats.get()) << 32 | u64::from(self.result.get());
        let first = [
            self.function.get(),
            self.words.get(),
            floats_and_result,
            self.stack.get(),
            self.tls.get(),
            self.caller_sp.get(),
        ];
        let values = self.values.iter().chain(&self.float_values).map(|value| value.get());
        let mut words = [0; STEP_WORDS];
        words.iter_mut().zip(first.into_iter().chain(values)).for_each(|(to, word)| *to = word);
        words
    }

    /// The step that was kept as these words.
    pub fn from_words(words: &[u64; STEP_WORDS]) -> Self {
        let [function, word_kinds, floats_and_result, stack, tls, caller_sp, values @ ..] = words;
        let mut step = Self::new_zeroed();
        (step.function, step.words) = ((*function).into(), (*word_kinds).into());
        step.floats = ((floats_and_result >> 32) as u32).into();
        step.result = (*floats_and_result as u32).into();
        (step.stack, step.tls, step.caller_sp) = ((*stack).into(), (*tls).into(), (*caller_sp).into());
        let slots = step.values.iter_mut().chain(&mut step.float_values);
        slots.zip(values).for_each(|(slot, &value)| *slot = value.into());
        step
    }

    /// What a call passes.
    pub fn arguments(&self) -> Arguments {
        Arguments { words: self.values.map(U64::get), floats: self.float_values.map(U64::get) }
    }

    /// What the function takes and gives.
    pub fn signature(&self) -> Signature {
        Signature { words: self.words.get(), floats: self.floats.get(), result: self.result.get() }
    }

    /// A return.
    pub fn results(results: &Results) -> Self {
        let mut step = Self::new_zeroed();
        step.values[..2].copy_from_slice(&results.words.map(U64::new));
        step.float_values[..2].copy_from_slice(&results.floats.map(U64::new));
        step
    }
}

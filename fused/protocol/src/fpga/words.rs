//! The words of registers, regions and interfaces, encoded and decoded.

use super::{InterfaceId, RegionId};

macro_rules! raw_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $value:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u32)]
        pub enum $name { $($(#[$variant_meta])* $variant = $value),* }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// From a word of the pool. `None`: the word has no meaning.
            pub fn from_raw(raw: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| *one as u32 == raw)
            }
        }
    };
}

raw_enum! {
    /// What a region does: Ker-ONE's section 4.3.1.
    RegionState {
        /// It does nothing, and can be allocated.
        Idle = 0,
        /// It computes.
        Busy = 1,
        /// It computes up to the next consistency point. Then another client gets the region.
        Preempt = 2,
        /// It changes clients: one interface is disconnected, another one connected.
        Switch = 3,
        /// It becomes another accelerator, or waits for the configuration port.
        Reconfig = 4,
        /// It is kept for a client for a certain time.
        Hold = 5,
    }
}

impl RegionState {
    /// The state's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Preempt => "preempt",
            Self::Switch => "switch",
            Self::Reconfig => "reconfig",
            Self::Hold => "hold",
        }
    }
}

raw_enum! {
    /// The lowest byte of the status register.
    Status {
        /// The client has asked for nothing yet.
        None = 0,
        /// A request waits for a region.
        Waiting = 1,
        /// The interface is connected, and a job can begin.
        Ready = 2,
        /// It computes.
        Running = 3,
        /// The job was stopped at a consistency point. It continues by itself when there is a region.
        Preempted = 4,
        /// The job is over, and its result is in the registers.
        Done = 5,
        /// The job is over. The second byte says what was wrong ([`Fault`]).
        Failed = 6,
    }
}

raw_enum! {
    /// Why an accelerator refused, the second byte of the status register.
    Fault {
        /// The accelerator does not take data of that size.
        Size = 1,
        /// A transfer went outside of the data section.
        Address = 2,
        /// The accelerator has no such command, or a custom register has a value that means nothing.
        Command = 3,
        /// The configuration port has failed.
        Port = 4,
        /// The bitstream is for another region or another accelerator, or its signature is wrong.
        Bitstream = 5,
        /// There is no memory left for a page of the virtual machine that a transfer needs.
        Memory = 6,
        /// Such a page is not there yet; the FPGA asks kernels for it and computes the frame again. This value is never in the register.
        Page = 7,
    }
}

raw_enum! {
    /// How the monitor chooses among solutions.
    Policy {
        /// An idle region before preemption, and among several the smallest one.
        SmallestFirst = 0,
        /// The same, but regions that need no reconfiguration before others.
        FewestReconfigurations = 1,
        /// As the first policy if that region is ready by the client's deadline. Otherwise the region that is ready first, even by preemption. Among
        /// clients of the same priority, the earliest deadline comes first.
        Deadline = 2,
    }
}

/// [`motet_layout::FpgaInterface::revoke`]: the client must not be able to write to its registers any more.
pub const REVOKE: u32 = 1;
/// The same, but later: when the region's present client has begun. Until then the FPGA may cancel it.
pub const REVOKE_LATER: u32 = 2;

/// [`motet_layout::FpgaAccelerator::offer`]: a region that is idle and is that accelerator already. This is Ker-ONE's best solution, {Assign,
/// non-Reconfig}, but without the manager. When a client's store traps, the kernel gives the region to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The region.
    pub region: RegionId,
    /// The client for which a kernel has taken the region.
    pub taken_by: Option<InterfaceId>,
}

impl Offer {
    /// As a word of the pool.
    pub const fn word(self) -> u32 {
        let taken = match self.taken_by {
            Some(id) => id.link(),
            None => 0,
        };
        self.region.link() | taken << 8
    }

    /// From a word of the pool. `None`: there is no offer, or the word has no meaning.
    pub fn from_word(word: u32) -> Option<Self> {
        let region = RegionId::from_link(word & 0xff)?;
        let taken_by = InterfaceId::from_link(word >> 8);
        (taken_by.is_some() || word >> 8 == 0).then_some(Self { region, taken_by })
    }
}

impl Status {
    /// The value in the register.
    pub const fn word(self) -> u32 {
        self as u32
    }
}

impl Fault {
    /// The value in the status register.
    pub const fn word(self) -> u32 {
        Status::Failed as u32 | (self as u32) << 8
    }
}

/// To a client (`IPC_WAIT`): no region is free.
pub const SIGNAL_WAIT: u32 = 1;
/// To a client (`IPC_READY`): its interface is connected.
pub const SIGNAL_READY: u32 = 2;
/// To a client (`IPC_PREEMPT`): its job was stopped, and will continue by itself.
pub const SIGNAL_PREEMPT: u32 = 4;
/// To a client: its job is over. This is the interrupt of the interface itself.
pub const SIGNAL_OVER: u32 = 8;
/// To a client: its request or its job has failed, because no region could be made ready.
pub const SIGNAL_FAILED: u32 = 16;

/// To the manager (`IRQ_New_Solution`): the search has found a region for a request that waited.
pub const IRQ_NEW_SOLUTION: u32 = 1;
/// To the manager (`IRQ_PCAP_Over`): a reconfiguration is over.
pub const IRQ_PORT_OVER: u32 = 2;
/// To the manager (`IRQ_PRR_Stop`): a region has come to a consistency point.
pub const IRQ_STOPPED: u32 = 4;

/// A bitstream's signature: a keyed hash of its accelerator, region and size. It detects mistakes and damage. Anybody who knows the key can sign.
pub fn signature(key: u64, accelerator: u32, region: u32, bytes: u64) -> u64 {
    // The finaliser of MurmurHash3, over each word.
    [u64::from(accelerator), u64::from(region), bytes].iter().fold(key, |hash, word| {
        let mut hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    })
}

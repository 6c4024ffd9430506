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

            /// From a word of the pool; `None`: it means nothing.
            pub fn from_raw(raw: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| *one as u32 == raw)
            }
        }
    };
}

raw_enum! {
    /// What a region does: Ker-ONE's section 4.3.1.
    RegionState {
        /// Nothing: it can be allocated.
        Idle = 0,
        /// It computes.
        Busy = 1,
        /// It computes up to the next consistency point, and then another client's accelerator takes its place.
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
    /// For people.
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
        /// Nothing was asked of it.
        None = 0,
        /// A request waits for a region.
        Waiting = 1,
        /// It is connected, and can begin.
        Ready = 2,
        /// It computes.
        Running = 3,
        /// It was stopped at a consistency point, and goes on by itself when there is a region.
        Preempted = 4,
        /// It is over: the result is there.
        Done = 5,
        /// It is over: the second byte says what was wrong ([`Fault`]).
        Failed = 6,
    }
}

raw_enum! {
    /// Why an accelerator refused, the second byte of the status register.
    Fault {
        /// The size of the data is none that the accelerator takes.
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
        /// Such a page is not there yet, and kernels are asked for it: never in the register, the frame is computed again.
        Page = 7,
    }
}

raw_enum! {
    /// How the monitor chooses among solutions.
    Policy {
        /// Idle regions before preemption; the smallest one.
        SmallestFirst = 0,
        /// The same, but regions that need no reconfiguration before others.
        FewestReconfigurations = 1,
        /// As the first one if the client's deadline allows it, and otherwise what is ready first, be it by preemption. Who has an earlier
        /// deadline comes before others of the same priority.
        Deadline = 2,
    }
}

/// [`motet_layout::FpgaInterface::revoke`]: its client must not write it any more.
pub const REVOKE: u32 = 1;
/// The same later, when who has the region now has begun: until then the FPGA may forget it.
pub const REVOKE_LATER: u32 = 2;

/// [`motet_layout::FpgaAccelerator::offer`]: a region that is idle and is that accelerator already. Ker-ONE's best solution, {Assign,
/// non-Reconfig}, without its manager: the kernel in which a client's store has trapped gives it to that one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The region.
    pub region: RegionId,
    /// Who has taken it, if anybody has.
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

    /// From a word of the pool; `None`: there is none, or it means nothing.
    pub fn from_word(word: u32) -> Option<Self> {
        let region = RegionId::from_link(word & 0xff)?;
        let taken_by = InterfaceId::from_link(word >> 8);
        (taken_by.is_some() || word >> 8 == 0).then_some(Self { region, taken_by })
    }
}

impl Status {
    /// As it stands in the register.
    pub const fn word(self) -> u32 {
        self as u32
    }
}

impl Fault {
    /// As it stands in the status register.
    pub const fn word(self) -> u32 {
        Status::Failed as u32 | (self as u32) << 8
    }
}

/// To a client (`IPC_WAIT`): no region is free.
pub const SIGNAL_WAIT: u32 = 1;
/// To a client (`IPC_READY`): its interface is connected.
pub const SIGNAL_READY: u32 = 2;
/// To a client (`IPC_PREEMPT`): it was stopped, and goes on by itself.
pub const SIGNAL_PREEMPT: u32 = 4;
/// To a client: it is over. The interrupt of the interface itself.
pub const SIGNAL_OVER: u32 = 8;
/// To a client: its request, or what it has begun, has failed because its region could not be made ready.
pub const SIGNAL_FAILED: u32 = 16;

/// To the manager (`IRQ_New_Solution`): the search has found a region for a request that waited.
pub const IRQ_NEW_SOLUTION: u32 = 1;
/// To the manager (`IRQ_PCAP_Over`): a reconfiguration is over.
pub const IRQ_PORT_OVER: u32 = 2;
/// To the manager (`IRQ_PRR_Stop`): a region has come to a consistency point.
pub const IRQ_STOPPED: u32 = 4;

/// Signs a bitstream: a keyed hash of what it is for. It finds mistakes and damage; whoever knows the key can sign.
pub fn signature(key: u64, accelerator: u32, region: u32, bytes: u64) -> u64 {
    // The finaliser of MurmurHash3, over each word.
    [u64::from(accelerator), u64::from(region), bytes].iter().fold(key, |hash, word| {
        let mut hash = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    })
}

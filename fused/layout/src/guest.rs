//! Guests: what a core of a virtual machine is, beside its [`UserFrame`](crate::UserFrame).

use crate::{Cell64, pool_struct};

pool_struct! {
    /// System registers of a guest's core, while it does not run. In an order of the ISA's own, which its HAL knows; all zero: as after a
    /// reset. Written by the core that runs the guest.
    pub struct GuestSystem: size 128, align 64 {
        /// The registers.
        0 pub words: [Cell64; 16],
    }
}

//! What a core keeps in mind of the outside network (`net`): the gateway, of an island's first core that has a device.

use core::{any::Any, cell::Cell};

/// The gateway, in the device's memory. Its type is its room's.
#[derive(Default)]
pub struct NetCore {
    gateway: Cell<Option<&'static mut dyn Any>>,
}

impl NetCore {
    /// Takes the gateway for as long as somebody works with it. `None`: there is none, or it works already.
    pub fn take(&self) -> Option<&'static mut dyn Any> {
        self.gateway.take()
    }

    /// It may work again.
    pub fn put(&self, gateway: &'static mut dyn Any) {
        self.gateway.set(Some(gateway));
    }
}

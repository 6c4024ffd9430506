//! The device, as the protocols see it: one frame that has come, and room for a few to send.

use motet_hal::{Machine, network::FRAME_BYTES_MAX};
use smoltcp::{
    phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken},
    time::Instant,
};

/// The device while the gateway works with it.
pub struct Wire<'a, M: Machine> {
    /// It.
    pub machine: &'a M,
    /// The frame that has come, until it is looked at.
    pub received: Option<&'a [u8]>,
    /// Where frames are made.
    pub room: &'a mut [u8],
    /// So many may be sent still.
    pub left: &'a mut usize,
}

/// A frame that has come.
pub struct Received<'b>(&'b [u8]);

/// One that is to be sent.
pub struct Sent<'b, M: Machine> {
    machine: &'b M,
    room: &'b mut [u8],
    left: &'b mut usize,
}

impl<M: Machine> Device for Wire<'_, M> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Sent<'b, M>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sent<'_, M>)> {
        let frame = self.received.take()?;
        Some((Received(frame), Sent { machine: self.machine, room: self.room, left: self.left }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sent<'_, M>> {
        let has_room = *self.left > 0;
        has_room.then_some(Sent { machine: self.machine, room: self.room, left: self.left })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES_MAX;
        capabilities
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(self.0)
    }
}

impl<M: Machine> TxToken for Sent<'_, M> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, make: F) -> R {
        // An answer to what has come is made even if no more may be sent; it is lost then.
        let frame = &mut self.room[..len];
        let made = make(frame);
        if *self.left > 0 {
            // Without room in the device, the frame is lost, and no other one is tried until the device says that there is room.
            *self.left = if self.machine.send_frame(frame) { *self.left - 1 } else { 0 };
        }
        made
    }
}

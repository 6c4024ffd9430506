//! The network device, if there is one: questions that QEMU's user network answers.

use super::programs::Step;
use super::{Check, SHORT_NS, Suite, ensure, same};
use crate::network::FRAME_BYTES_MAX;
use crate::virtio::NETWORK_MEMORY_BYTES;
use crate::{Interrupts, Machine, Network};

/// Questions in a row, so that every buffer is used several times.
const QUESTIONS: u64 = 300;
/// Frames that are sent as fast as possible.
const BURST: u64 = 500;
/// The least that a frame has, and the bytes of an ARP packet in it.
const FRAME_BYTES_MIN: usize = 60;
const ARP: core::ops::Range<usize> = 14..42;

impl<M: Machine> Suite<M> {
    pub(super) fn network_tests(&self) {
        let Some(network) = self.machine.take_network() else { return };
        self.test("network_is_taken_once", |suite| suite.network_is_taken_once(&network));
        self.test("network_answers", |suite| suite.network_answers(&network));
        self.test("network_interrupts_user_mode", |suite| suite.network_interrupts_user_mode(&network));
        self.test("network_has_room_again", |suite| suite.network_has_room_again(&network));
    }

    fn network_is_taken_once(&self, network: &Network) -> Check {
        same("networks that are left", self.machine.take_network().is_some().into(), 0)?;
        same("bytes of memory", network.memory.len() as u64, NETWORK_MEMORY_BYTES as u64)?;
        same("bytes that are not zero", network.memory.iter().filter(|&&byte| byte != 0).count() as u64, 0)?;
        ensure(network.address[0] & 1 == 0, "first byte of the address", network.address[0].into(), 0x52)
    }

    fn network_answers(&self, network: &Network) -> Check {
        for _ in 0..QUESTIONS {
            ensure(self.machine.send_frame(&self.question(network)), "frames that are sent", 0, 1)?;
            self.await_answer(network)?;
        }
        Ok(())
    }

    fn network_interrupts_user_mode(&self, network: &Network) -> Check {
        let space = self.space(&[Step::Count])?;
        self.machine.activate_space(space.table.root);
        for _ in 0..20 {
            self.machine.set_timer(self.machine.counter_ns() + SHORT_NS);
            // What came with the answer before is over.
            self.machine.poll_interrupts();
            ensure(self.machine.send_frame(&self.question(network)), "frames that are sent", 0, 1)?;
            let interrupts = self.run_to_interrupt(&space)?;
            same("interrupt", interrupts.0.into(), Interrupts::NETWORK.0.into())?;
            self.await_answer(network)?;
        }
        Ok(())
    }

    /// When a frame finds no room, the device says when there is some.
    fn network_has_room_again(&self, network: &Network) -> Check {
        let mut sent = 0;
        while sent < BURST {
            if self.machine.send_frame(&self.question(network)) {
                sent += 1;
            } else {
                ensure(self.wait_for_kind(Interrupts::NETWORK), "interrupt of a device that has room", sent, BURST)?;
            }
            self.receive_answer(network);
        }
        // The last frame's answer may have found no room, but what is asked when all is quiet is answered.
        let quiet = self.machine.counter_ns() + SHORT_NS / 100;
        while self.machine.counter_ns() < quiet {
            self.receive_answer(network);
        }
        ensure(self.machine.send_frame(&self.question(network)), "frames that are sent", 0, 1)?;
        self.await_answer(network)
    }

    /// Waits for the device's interrupt until there is an answer. The interrupt may have come before.
    fn await_answer(&self, network: &Network) -> Check {
        let start = self.machine.counter_ns();
        loop {
            if self.receive_answer(network) {
                return Ok(());
            }
            ensure(self.machine.counter_ns() < start + SHORT_NS, "answers that came in time", 0, 1)?;
            ensure(self.wait_for_kind(Interrupts::NETWORK), "interrupt of a device with a frame", 0, 1)?;
        }
    }

    /// Takes a frame, if there is one; whether it is an answer to the question.
    fn receive_answer(&self, network: &Network) -> bool {
        let mut frame = [0; FRAME_BYTES_MAX];
        let Some(len) = self.machine.receive_frame(&mut frame) else { return false };
        let question = self.question(network);
        let (asked, answer) = (&question[ARP], &frame[ARP]);
        let is_answer = answer[..8] == [0, 1, 8, 0, 6, 4, 0, 2];
        len >= ARP.end
            && frame[..6] == network.address
            && is_answer
            && answer[14..18] == asked[24..]
            && answer[24..] == asked[14..18]
    }

    /// Who has the address of the user network's router (RFC 826)?
    fn question(&self, network: &Network) -> [u8; FRAME_BYTES_MIN] {
        let net = 2 + self.island.0;
        let mut frame = [0; FRAME_BYTES_MIN];
        frame[..6].fill(0xff);
        frame[6..12].copy_from_slice(&network.address);
        frame[12..14].copy_from_slice(&[8, 6]);
        let packet = &mut frame[ARP];
        packet[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        packet[8..14].copy_from_slice(&network.address);
        packet[14..18].copy_from_slice(&[10, 0, net, 15]);
        packet[24..28].copy_from_slice(&[10, 0, net, 2]);
        frame
    }
}

//! What devices interrupt cores with: messages, and the sources that send them.

/// A message that interrupts a core: the store (of `data` to the physical address `address`) that its interrupt controller takes for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Where it goes.
    pub address: u64,
    /// What is stored.
    pub data: u32,
}

/// A device, as far as it interrupts: some vectors, each of which sends a message.
pub trait InterruptSource {
    /// How many vectors it has.
    fn vectors(&self) -> usize;

    /// Sets the message that `vector` sends. Call before [`enable`](Self::enable).
    fn aim(&self, vector: usize, message: Message);

    /// Lets interrupts through. What would have interrupted before this moment is lost.
    fn enable(&self);

    /// Has vector k interrupt core k, for the first `cores` cores as far as there are vectors, by the messages that `message` gives, and
    /// lets interrupts through.
    fn interrupt_cores(&self, cores: usize, mut message: impl FnMut(usize) -> Message) {
        for core in 0..cores.min(self.vectors()) {
            self.aim(core, message(core));
        }
        self.enable();
    }
}

//! The interrupts that guests use: the timer's, one that software raises, and devices'.

use crate::{Boot, Mask, Masked, isa};

/// Which interrupt it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The alarm's time has come. It comes again until the alarm is set to another time.
    Timer,
    /// It was raised by [`raise`].
    Software,
    /// A device's, by its number at the interrupt controller. It comes again as long as the device's line is high.
    Device(u32),
}

/// What is called when one comes.
pub type Handler = fn(&Mask, Interrupt);

static HANDLER: Masked<Option<Handler>> = Masked::new(None);

/// From now on every interrupt calls `handler`, on the stack of what it interrupts, with interrupts masked. It may switch
/// stacks: the interrupt has ended for the interrupt controller.
pub fn start(handler: Handler) {
    crate::masked(|mask| HANDLER.with(mask, |it| *it = Some(handler)));
    isa::set_up_interrupts();
    isa::install_entry();
}

/// Makes these interrupts come, for who has an entry for them of its own.
pub fn set_up() {
    isa::set_up_interrupts();
}

/// Lets a device's interrupts come to the core that boots.
pub fn enable_device(boot: &Boot, number: u32) {
    isa::enable_device(boot.hart, number);
}

/// The same for a device that interrupts once each time, and whose line nobody lowers.
pub fn enable_edge(boot: &Boot, number: u32) {
    isa::make_edge(number);
    enable_device(boot, number);
}

/// Asks for an interrupt when the clock reads `time` or later.
pub fn set_alarm(time: u64) {
    isa::set_alarm(time);
}

/// Raises the software interrupt of this core. Usually it is taken before the next instruction, but nothing promises that.
pub fn raise() {
    isa::raise();
}

/// Takes interrupts from now on.
pub fn enable() {
    isa::enable();
}

/// Called by `isa`'s entry for interrupts.
pub(crate) fn arrived(mask: &Mask, interrupt: Interrupt) {
    match HANDLER.with(mask, |handler| *handler) {
        Some(handler) => handler(mask, interrupt),
        None => crate::fail(format_args!("{interrupt:?} without a handler")),
    }
}

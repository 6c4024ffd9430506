//! The interrupt controller of RISC-V boards (RISC-V Platform-Level Interrupt Controller Specification 1.0.0), as QEMU's `virt` board has it: two
//! contexts for each core, of which the second one is S-mode's.
//!
//! An interrupt is pending while its line is high, or has pulsed, and no core has claimed it. Several cores can access the controller without a lock: each
//! access depends on one word alone. After each change, the caller checks which cores are interrupted ([`Plic::is_interrupted`]).

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Sources, as on QEMU's board, with number 0, which is unused.
pub const SOURCES: usize = 96;
/// Words of a bit for each source.
const WORDS: usize = SOURCES / 32;
/// Contexts of the most cores.
const CONTEXTS: usize = 2 * motet_abi::vm::VCPUS_MAX as usize;
/// The most urgent priority.
const PRIORITY_MAX: u32 = 7;

const PENDING: u64 = 0x1000;
const ENABLED: u64 = 0x2000;
const ENABLED_BYTES: u64 = 0x80;
const CONTEXT: u64 = 0x20_0000;
const CONTEXT_BYTES: u64 = 0x1000;
const THRESHOLD: u64 = 0;
const CLAIM: u64 = 4;

/// The controller.
pub struct Plic {
    priorities: [AtomicU32; SOURCES],
    /// Lines that are high.
    levels: [AtomicU32; WORDS],
    /// Pulses of lines that nobody has claimed.
    pulses: [AtomicU32; WORDS],
    /// Interrupts that some context has claimed and not completed.
    claimed: [AtomicU32; WORDS],
    contexts: [Context; CONTEXTS],
}

struct Context {
    enabled: [AtomicU32; WORDS],
    threshold: AtomicU32,
}

/// The context of a core's S-mode.
pub fn context_of(core: usize) -> usize {
    2 * core + 1
}

/// The kinds of registers.
enum Register<'a> {
    Priority(&'a AtomicU32),
    Pending(usize),
    Enabled(&'a AtomicU32, u32),
    Threshold(&'a AtomicU32),
    Claim(usize),
}

impl Plic {
    /// Nothing is enabled.
    pub const fn new() -> Self {
        Self {
            priorities: [const { AtomicU32::new(0) }; SOURCES],
            levels: [const { AtomicU32::new(0) }; WORDS],
            pulses: [const { AtomicU32::new(0) }; WORDS],
            claimed: [const { AtomicU32::new(0) }; WORDS],
            contexts: [const { Context { enabled: [const { AtomicU32::new(0) }; WORDS], threshold: AtomicU32::new(0) } };
                CONTEXTS],
        }
    }

    /// Sets a device's line high or low.
    pub fn set_level(&self, source: usize, is_high: bool) {
        let (word, bit) = (&self.levels[source / 32], 1 << (source % 32));
        if is_high {
            word.fetch_or(bit, SeqCst);
        } else {
            word.fetch_and(!bit, SeqCst);
        }
    }

    /// Pulses a device's line: one interrupt, which the claim acknowledges. A further pulse before the claim is the same interrupt. A pulse between claim
    /// and completion is another one.
    pub fn pulse(&self, source: usize) {
        self.pulses[source / 32].fetch_or(1 << (source % 32), SeqCst);
    }

    /// Whether a context's interrupt line is high.
    pub fn is_interrupted(&self, context: usize) -> bool {
        let Some(of) = self.contexts.get(context) else { return false };
        let threshold = of.threshold.load(SeqCst);
        self.best(of).is_some_and(|(priority, _)| priority > threshold)
    }

    /// Loads a register. The load of a claim register claims an interrupt.
    pub fn load(&self, offset: u64) -> u32 {
        match self.register(offset) {
            Some(Register::Priority(word) | Register::Enabled(word, _) | Register::Threshold(word)) => {
                word.load(SeqCst)
            }
            Some(Register::Pending(word)) => self.pending(word),
            Some(Register::Claim(context)) => self.claim(&self.contexts[context]),
            None => 0,
        }
    }

    /// Stores to a register. The store to a claim register completes an interrupt.
    pub fn store(&self, offset: u64, value: u32) {
        match self.register(offset) {
            Some(Register::Priority(word) | Register::Threshold(word)) => {
                word.swap(value & PRIORITY_MAX, SeqCst);
            }
            Some(Register::Enabled(word, known)) => {
                word.swap(value & known, SeqCst);
            }
            Some(Register::Claim(context)) => self.complete(&self.contexts[context], value as usize),
            Some(Register::Pending(_)) | None => {}
        }
    }

    fn register(&self, offset: u64) -> Option<Register<'_>> {
        let index = |from: u64, bytes: u64| ((offset - from) / bytes) as usize;
        Some(match offset {
            // Number 0 is no source.
            0..4 => return None,
            4..PENDING => Register::Priority(self.priorities.get(index(0, 4))?),
            PENDING..ENABLED => Register::Pending(Some(index(PENDING, 4)).filter(|&word| word < WORDS)?),
            ENABLED..CONTEXT => {
                let word = index(ENABLED, 4) % (ENABLED_BYTES as usize / 4);
                let known = if word == 0 { !1 } else { !0 };
                let context = self.contexts.get(index(ENABLED, ENABLED_BYTES))?;
                Register::Enabled(context.enabled.get(word)?, known)
            }
            _ => {
                let context = index(CONTEXT, CONTEXT_BYTES);
                let of = self.contexts.get(context)?;
                match (offset - CONTEXT) % CONTEXT_BYTES {
                    THRESHOLD => Register::Threshold(&of.threshold),
                    CLAIM => Register::Claim(context),
                    _ => return None,
                }
            }
        })
    }

    fn pending(&self, word: usize) -> u32 {
        (self.levels[word].load(SeqCst) | self.pulses[word].load(SeqCst)) & !self.claimed[word].load(SeqCst)
    }

    /// The most urgent pending interrupt that a context has enabled: its priority and number. Of equals, the lowest number.
    fn best(&self, of: &Context) -> Option<(u32, usize)> {
        let mut best = None;
        for (word, enabled) in of.enabled.iter().enumerate() {
            let mut pending = self.pending(word) & enabled.load(SeqCst);
            while pending != 0 {
                let source = 32 * word + pending.trailing_zeros() as usize;
                pending &= pending - 1;
                let priority = self.priorities[source].load(SeqCst);
                if priority > best.map_or(0, |(most, _)| most) {
                    best = Some((priority, source));
                }
            }
        }
        best
    }

    /// Claims a context's most urgent interrupt, and returns its number; 0: none. The threshold does not matter here.
    fn claim(&self, of: &Context) -> u32 {
        loop {
            let Some((_, source)) = self.best(of) else { return 0 };
            let bit = 1 << (source % 32);
            if self.claimed[source / 32].fetch_or(bit, SeqCst) & bit == 0 {
                // The claiming core looks at the device after this, so all earlier pulses are handled.
                self.pulses[source / 32].fetch_and(!bit, SeqCst);
                return source as u32;
            }
        }
    }

    /// Completes an interrupt. A context that has not enabled the interrupt cannot complete it.
    fn complete(&self, of: &Context, source: usize) {
        if source < SOURCES && of.enabled[source / 32].load(SeqCst) >> (source % 32) & 1 != 0 {
            self.claimed[source / 32].fetch_and(!(1 << (source % 32)), SeqCst);
        }
    }
}

impl Default for Plic {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller with these sources of these priorities, enabled for the first core.
    fn plic(sources: &[(u64, u32)]) -> Plic {
        let plic = Plic::new();
        let mut enabled = [0; WORDS];
        for &(source, priority) in sources {
            plic.store(4 * source, priority);
            enabled[source as usize / 32] |= 1 << (source % 32);
        }
        for (word, bits) in (0..).zip(enabled) {
            plic.store(ENABLED + ENABLED_BYTES + 4 * word, bits);
        }
        plic
    }

    const CLAIM_OF_FIRST: u64 = CONTEXT + CONTEXT_BYTES + CLAIM;

    #[test]
    fn the_most_urgent_is_claimed_first_and_of_equals_the_lowest() {
        let plic = plic(&[(10, 1), (40, 3), (12, 3)]);
        for source in [10, 40, 12, 50] {
            plic.set_level(source, true);
        }
        assert!(plic.is_interrupted(context_of(0)) && !plic.is_interrupted(context_of(1)));
        assert_eq!([(); 4].map(|()| plic.load(CLAIM_OF_FIRST)), [12, 40, 10, 0]);
        assert!(!plic.is_interrupted(context_of(0)));
    }

    #[test]
    fn an_interrupt_comes_again_after_its_end_while_its_line_is_high() {
        let plic = plic(&[(10, 1)]);
        plic.set_level(10, true);
        assert_eq!(plic.load(PENDING), 1 << 10);
        assert_eq!(plic.load(CLAIM_OF_FIRST), 10);
        assert_eq!((plic.load(PENDING), plic.load(CLAIM_OF_FIRST)), (0, 0));
        // Another core has not enabled it, and does not complete it.
        plic.store(CONTEXT + 3 * CONTEXT_BYTES + CLAIM, 10);
        assert!(!plic.is_interrupted(context_of(0)));
        plic.store(CLAIM_OF_FIRST, 10);
        assert!(plic.is_interrupted(context_of(0)));
        plic.set_level(10, false);
        assert!(!plic.is_interrupted(context_of(0)));
    }

    #[test]
    fn a_pulse_is_one_interrupt() {
        let plic = plic(&[(50, 1)]);
        plic.pulse(50);
        plic.pulse(50);
        assert!(plic.is_interrupted(context_of(0)));
        assert_eq!(plic.load(PENDING + 4), 1 << 18);
        assert_eq!([(); 2].map(|()| plic.load(CLAIM_OF_FIRST)), [50, 0]);
        // Another one, before the first is completed.
        plic.pulse(50);
        assert!(!plic.is_interrupted(context_of(0)));
        plic.store(CLAIM_OF_FIRST, 50);
        assert_eq!([(); 2].map(|()| plic.load(CLAIM_OF_FIRST)), [50, 0]);
        plic.store(CLAIM_OF_FIRST, 50);
        assert!(!plic.is_interrupted(context_of(0)));
    }

    #[test]
    fn thresholds_and_priorities_of_zero_hold_back() {
        let plic = plic(&[(1, 2), (2, 0)]);
        plic.set_level(1, true);
        plic.set_level(2, true);
        plic.store(CONTEXT + CONTEXT_BYTES, 2);
        assert!(!plic.is_interrupted(context_of(0)));
        plic.store(CONTEXT + CONTEXT_BYTES, 1);
        assert!(plic.is_interrupted(context_of(0)));
        plic.store(4, 0);
        assert!(!plic.is_interrupted(context_of(0)));
    }

    #[test]
    fn registers_that_are_not_there_are_zero() {
        let plic = Plic::new();
        for offset in (0..0x60_0000).step_by(4) {
            plic.store(offset, u32::MAX);
        }
        assert_eq!(plic.load(0), 0);
        assert_eq!(plic.load(4 * SOURCES as u64), 0);
        assert_eq!(plic.load(4 * (SOURCES as u64 - 1)), PRIORITY_MAX);
        assert_eq!(plic.load(ENABLED + ENABLED_BYTES), !1);
        assert_eq!(plic.load(ENABLED + ENABLED_BYTES * CONTEXTS as u64), 0);
        assert_eq!(plic.load(CONTEXT + CONTEXT_BYTES * CONTEXTS as u64), 0);
    }
}

//! Sources of interrupts, and the threads that wait for them.

use motet_layout::ServiceSource;

use super::{Code, Device, Outcome, Reply, State, ThreadIndex, threads::Waits};

impl<'a> Device<'a> {
    fn source(&self, number: u16) -> Result<&'a ServiceSource, Code> {
        self.core.sources.get(usize::from(number)).ok_or(Code::Invalid)
    }

    pub(super) fn bind_source(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let (source, owner) = (self.source(number)?, self.owner(thread));
        if source.owner.get() != 0 && (source.owner.get() != owner || source.thread.get() != thread.link()) {
            return Err(Code::Busy);
        }
        if source.owner.get() == 0 {
            unbind(source);
        }
        source.owner.set(owner);
        source.thread.set(thread.link());
        Ok(Reply::Done(0))
    }

    pub(super) fn wait_for_source(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let source = self.source(number)?;
        if source.owner.get() != self.owner(thread) || source.thread.get() != thread.link() {
            return Err(Code::NotOwner);
        }
        let pending = source.pending.get();
        if pending == 0 {
            self.wait(thread, Waits::Source(number));
            return Ok(Reply::Waits);
        }
        source.pending.set(0);
        Ok(Reply::Done(pending))
    }

    pub(super) fn raise(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let source = self.source(number)?;
        if source.owner.get() != self.owner(thread) {
            return Err(Code::NotOwner);
        }
        let waits = ThreadIndex::from_link(source.thread.get()).filter(|bound| {
            self.state(*bound) == State::Waiting && self.waits_for(*bound) == Some(Waits::Source(number))
        });
        match waits {
            Some(bound) => self.resume(bound, Code::Ok, 1),
            None => source.pending.set(source.pending.get().saturating_add(1)),
        }
        Ok(Reply::Done(0))
    }

    /// A thread ends: frees the sources that were bound to it.
    pub(super) fn abandon_sources(&self, thread: ThreadIndex) {
        let owner = self.owner(thread);
        let bound = |source: &&ServiceSource| source.owner.get() == owner && source.thread.get() == thread.link();
        self.core.sources.iter().filter(bound).for_each(unbind);
    }
}

/// Frees a source of interrupts. Its pending interrupts are dropped: they are not the next thread's.
pub fn unbind(source: &ServiceSource) {
    source.owner.set(0);
    source.thread.set(0);
    source.pending.set(0);
}

//! Mutexes. When a thread ends, its mutexes go to other threads. Their next owners are told that the owner has died.

use motet_layout::ServiceMutex;

use super::{Code, Device, Kind, Outcome, Reply, ThreadIndex, threads::Waits};

/// How often a recursive mutex can be locked.
const DEPTH_MAX: u32 = 0xffff;
/// [`ServiceMutex::dead`]: an owner has died while it had the mutex.
const ABANDONED: u32 = 1;
/// [`ServiceMutex::dead`]: the same, and the next owner has not repaired the data.
const LOST: u32 = 2;

impl<'a> Device<'a> {
    /// A mutex of a thread's process.
    pub(super) fn mutex(&self, thread: ThreadIndex, number: u16) -> Result<&'a ServiceMutex, Code> {
        let owner = self.owner(thread);
        let mutex = self.core.mutex.get(usize::from(number)).filter(|mutex| mutex.owner.get() == owner);
        mutex.ok_or(Code::Invalid)
    }

    pub(super) fn create_mutex(&mut self, thread: ThreadIndex, kind: u32) -> Outcome {
        let kind = Kind::from_raw(kind).ok_or(Code::Invalid)?;
        let limit = (self.core.mutexes.get() as usize).min(self.core.mutex.len());
        let owners = |number: usize| (self.core.mutex[number].owner.get(), self.core.mutex[number].user.get());
        let number = self.free_entry(thread, limit, owners)?;
        let mutex = &self.core.mutex[number];
        let words = [&mutex.holder, &mutex.depth, &mutex.waiters, &mutex.dead, &mutex.next, &mutex.conditions];
        words.iter().for_each(|word| word.set(0));
        mutex.kind.set(kind as u32);
        mutex.user.set(self.user(thread));
        mutex.owner.set(self.owner(thread));
        Ok(Reply::Done(number as u32))
    }

    pub(super) fn destroy_mutex(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let mutex = self.mutex(thread, number)?;
        if mutex.holder.get() != 0 || mutex.conditions.get() != 0 || !self.queue(&mutex.waiters).is_empty() {
            return Err(Code::Busy);
        }
        mutex.owner.set(0);
        Ok(Reply::Done(0))
    }

    pub(super) fn lock(&mut self, thread: ThreadIndex, number: u16, waits: bool) -> Outcome {
        let mutex = self.mutex(thread, number)?;
        if mutex.dead.get() == LOST {
            return Err(Code::NotRecoverable);
        }
        if mutex.holder.get() == 0 {
            // The code says whether its last owner has died.
            return Ok(Reply::But(self.take(thread, mutex, number), 0));
        }
        if mutex.holder.get() == thread.link() {
            match Kind::from_raw(mutex.kind.get()) {
                Some(Kind::Recursive) if mutex.depth.get() >= DEPTH_MAX => return Err(Code::Full),
                Some(Kind::Recursive) => {
                    mutex.depth.set(mutex.depth.get() + 1);
                    return Ok(Reply::Done(0));
                }
                Some(Kind::ErrorChecking) if waits => return Err(Code::Deadlock),
                _ => {}
            }
        }
        if !waits {
            return Err(Code::Busy);
        }
        self.thread(thread).code.set(Code::Ok as u32);
        self.wait_for_mutex(thread, mutex, number);
        Ok(Reply::Waits)
    }

    fn wait_for_mutex(&mut self, thread: ThreadIndex, mutex: &'a ServiceMutex, number: u16) {
        self.wait(thread, Waits::Mutex(number));
        self.queue(&mutex.waiters).add(thread);
    }

    /// Gives a thread a free mutex. Returns the code for the thread.
    fn take(&self, thread: ThreadIndex, mutex: &ServiceMutex, number: u16) -> Code {
        mutex.holder.set(thread.link());
        mutex.depth.set(1);
        let owned = &self.thread(thread).owned;
        mutex.next.set(owned.get());
        owned.set(u32::from(number) + 1);
        if mutex.dead.get() == ABANDONED { Code::OwnerDead } else { Code::Ok }
    }

    /// A thread has waited for a condition variable, and must have its mutex again before it continues: gives it the mutex, or has it wait for that.
    pub(super) fn take_back(&mut self, thread: ThreadIndex, number: u16, code: Code) {
        let Ok(mutex) = self.mutex(thread, number) else { return self.resume(thread, Code::Invalid, 0) };
        self.thread(thread).code.set(code as u32);
        if mutex.dead.get() == LOST {
            self.resume(thread, Code::NotRecoverable, 0);
        } else if mutex.holder.get() == 0 {
            self.hand_to(thread, mutex, number);
        } else {
            // The record keeps the thread's code until it has the mutex, and that it must not continue without it.
            self.thread(thread).mutex.set(u32::from(number) + 1);
            self.wait_for_mutex(thread, mutex, number);
        }
    }

    /// Gives a free mutex to a waiting thread.
    fn hand_to(&mut self, thread: ThreadIndex, mutex: &ServiceMutex, number: u16) {
        let taken = self.take(thread, mutex, number);
        let withdrawn = self.thread(thread).code.get() == Code::Withdrawn as u32;
        self.resume(thread, if taken == Code::Ok && withdrawn { Code::Withdrawn } else { taken }, 0);
    }

    pub(super) fn unlock(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let mutex = self.mutex(thread, number)?;
        if mutex.holder.get() != thread.link() {
            return Err(Code::NotOwner);
        }
        mutex.depth.set(mutex.depth.get().saturating_sub(1));
        if mutex.depth.get() == 0 {
            self.let_go(thread, mutex, number);
        }
        Ok(Reply::Done(0))
    }

    pub(super) fn make_consistent(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let mutex = self.mutex(thread, number)?;
        if mutex.holder.get() != thread.link() || mutex.dead.get() != ABANDONED {
            return Err(Code::Invalid);
        }
        mutex.dead.set(0);
        Ok(Reply::Done(0))
    }

    /// Takes a mutex from its owner, and gives it to the most urgent waiting thread.
    pub(super) fn let_go(&mut self, thread: ThreadIndex, mutex: &'a ServiceMutex, number: u16) {
        self.disown(thread, number);
        mutex.holder.set(0);
        mutex.depth.set(0);
        if mutex.dead.get() == ABANDONED {
            mutex.dead.set(LOST);
            for waiter in self.queue(&mutex.waiters).drain() {
                self.resume(waiter, Code::NotRecoverable, 0);
            }
        } else if let Some(waiter) = self.queue(&mutex.waiters).take() {
            self.hand_to(waiter, mutex, number);
        }
    }

    /// Removes a mutex from the list of those that a thread has.
    fn disown(&self, thread: ThreadIndex, number: u16) {
        let link = u32::from(number) + 1;
        let mut at = &self.thread(thread).owned;
        // No list is longer than there are mutexes.
        for _ in 0..self.core.mutex.len() {
            let Some(mutex) = (at.get() as usize).checked_sub(1).and_then(|index| self.core.mutex.get(index)) else {
                return;
            };
            if at.get() == link {
                return at.set(mutex.next.get());
            }
            at = &mutex.next;
        }
    }

    /// A thread ends: takes all mutexes from it. The next owner of each is told that its owner has died.
    pub(super) fn abandon_mutexes(&mut self, thread: ThreadIndex) {
        for _ in 0..self.core.mutex.len() {
            let Some(number) = self.thread(thread).owned.get().checked_sub(1) else { return };
            let Ok(mutex) = self.mutex(thread, number as u16) else { return self.thread(thread).owned.set(0) };
            self.disown(thread, number as u16);
            mutex.holder.set(0);
            mutex.depth.set(0);
            if mutex.dead.get() != LOST {
                mutex.dead.set(ABANDONED);
            }
            if let Some(waiter) = self.queue(&mutex.waiters).take() {
                self.hand_to(waiter, mutex, number as u16);
            }
        }
    }
}

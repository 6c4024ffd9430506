//! Condition variables and barriers.

use motet_layout::{ServiceBarrier, ServiceCondition};

use super::{Code, Device, Outcome, Reply, ThreadIndex, threads::Waits};

/// Most threads of a barrier.
const COUNT_MAX: u32 = motet_layout::SERVICE_THREADS as u32;

impl<'a> Device<'a> {
    fn condition(&self, thread: ThreadIndex, number: u16) -> Result<&'a ServiceCondition, Code> {
        let owner = self.owner(thread);
        let condition = self.core.condition.get(usize::from(number)).filter(|one| one.owner.get() == owner);
        condition.ok_or(Code::Invalid)
    }

    pub(super) fn create_condition(&mut self, thread: ThreadIndex) -> Outcome {
        let limit = (self.core.mutexes.get() as usize).min(self.core.condition.len());
        let owners = |number: usize| (self.core.condition[number].owner.get(), self.core.condition[number].user.get());
        let number = self.free_entry(thread, limit, owners)?;
        let condition = &self.core.condition[number];
        condition.waiters.set(0);
        condition.mutex.set(0);
        condition.user.set(self.user(thread));
        condition.owner.set(self.owner(thread));
        Ok(Reply::Done(number as u32))
    }

    pub(super) fn destroy_condition(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let condition = self.condition(thread, number)?;
        if !self.queue(&condition.waiters).is_empty() {
            return Err(Code::Busy);
        }
        condition.owner.set(0);
        Ok(Reply::Done(0))
    }

    pub(super) fn wait_for_condition(&mut self, thread: ThreadIndex, number: u16, mutex_number: u32) -> Outcome {
        let condition = self.condition(thread, number)?;
        let mutex_number = u16::try_from(mutex_number).map_err(|_| Code::Invalid)?;
        let mutex = self.mutex(thread, mutex_number)?;
        if mutex.holder.get() != thread.link() {
            return Err(Code::NotOwner);
        }
        let waits_with = u32::from(mutex_number) + 1;
        // All threads that wait for it use the same mutex, and the mutex must be free while they wait.
        if mutex.depth.get() != 1 || condition.mutex.get() != 0 && condition.mutex.get() != waits_with {
            return Err(Code::Invalid);
        }
        condition.mutex.set(waits_with);
        mutex.conditions.set(mutex.conditions.get().saturating_add(1));
        self.let_go(thread, mutex, mutex_number);
        self.thread(thread).mutex.set(waits_with);
        self.thread(thread).code.set(Code::Ok as u32);
        self.wait(thread, Waits::Condition(number));
        self.queue(&condition.waiters).add(thread);
        Ok(Reply::Waits)
    }

    pub(super) fn signal(&mut self, thread: ThreadIndex, number: u16, all: bool) -> Outcome {
        let condition = self.condition(thread, number)?;
        let mut woken = 0;
        for waiter in self.queue(&condition.waiters).drain().take(if all { usize::MAX } else { 1 }) {
            woken += 1;
            let mutex = self.thread(waiter).mutex.get().saturating_sub(1);
            self.left_condition(waiter, number);
            self.take_back(waiter, mutex as u16, Code::Ok);
        }
        Ok(Reply::Done(woken))
    }

    /// A thread has been removed from the list of a condition variable.
    pub(super) fn left_condition(&self, thread: ThreadIndex, number: u16) {
        let mutex =
            self.thread(thread).mutex.get().checked_sub(1).and_then(|number| self.mutex(thread, number as u16).ok());
        if let Some(mutex) = mutex {
            mutex.conditions.set(mutex.conditions.get().saturating_sub(1));
        }
        self.thread(thread).mutex.set(0);
        let condition = self.core.condition.get(usize::from(number));
        if let Some(condition) = condition.filter(|condition| self.queue(&condition.waiters).is_empty()) {
            condition.mutex.set(0);
        }
    }

    fn barrier(&self, thread: ThreadIndex, number: u16) -> Result<&'a ServiceBarrier, Code> {
        let owner = self.owner(thread);
        let barrier = self.core.barrier.get(usize::from(number)).filter(|one| one.owner.get() == owner);
        barrier.ok_or(Code::Invalid)
    }

    pub(super) fn create_barrier(&mut self, thread: ThreadIndex, count: u32) -> Outcome {
        if count == 0 || count > COUNT_MAX {
            return Err(Code::Invalid);
        }
        let limit = (self.core.barriers.get() as usize).min(self.core.barrier.len());
        let owners = |number: usize| (self.core.barrier[number].owner.get(), self.core.barrier_users[number].get());
        let number = self.free_entry(thread, limit, owners)?;
        let barrier = &self.core.barrier[number];
        barrier.waiters.set(0);
        barrier.arrived.set(0);
        barrier.count.set(count);
        self.core.barrier_users[number].set(self.user(thread));
        barrier.owner.set(self.owner(thread));
        Ok(Reply::Done(number as u32))
    }

    pub(super) fn destroy_barrier(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let barrier = self.barrier(thread, number)?;
        if barrier.arrived.get() != 0 {
            return Err(Code::Busy);
        }
        barrier.owner.set(0);
        Ok(Reply::Done(0))
    }

    pub(super) fn wait_at_barrier(&mut self, thread: ThreadIndex, number: u16) -> Outcome {
        let barrier = self.barrier(thread, number)?;
        barrier.arrived.set(barrier.arrived.get().saturating_add(1));
        if barrier.arrived.get() < barrier.count.get() {
            self.wait(thread, Waits::Barrier(number));
            self.queue(&barrier.waiters).add(thread);
            return Ok(Reply::Waits);
        }
        barrier.arrived.set(0);
        for waiter in self.queue(&barrier.waiters).drain() {
            self.resume(waiter, Code::Ok, 0);
        }
        Ok(Reply::Done(1))
    }

    /// A thread has been removed from the list of a barrier: it no longer counts as arrived.
    pub(super) fn left_barrier(&mut self, number: u16) {
        if let Some(barrier) = self.core.barrier.get(usize::from(number)) {
            barrier.arrived.set(barrier.arrived.get().saturating_sub(1));
        }
    }
}

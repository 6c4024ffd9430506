//! Mutexes, condition variables, barriers and sources.

use std::collections::BTreeMap;

use motet_protocol::service::{Code, Kind, Operation};

use super::{DONE, Doing, Id, Mutex, Reply, Source, Spec, Wait, done};

fn lowest_free<T>(taken: &BTreeMap<usize, T>, max: usize) -> Result<usize, Code> {
    (0..max).find(|number| !taken.contains_key(number)).ok_or(Code::Full)
}

impl Spec {
    /// The holder of a mutex has it no longer.
    pub(super) fn pass_on(&mut self, number: usize) {
        let mutex = self.mutexes.get_mut(&number).unwrap();
        (mutex.holder, mutex.depth) = (None, 0);
        if let Some(next) = self.mutex_queue(number).first().copied() {
            let told = match self.at(next).doing {
                Doing::Waits(Wait::Regain(_, told)) => told,
                _ => Code::Ok,
            };
            self.gets(next, number, told);
        }
    }

    fn takes(&mut self, id: Id, number: usize) -> bool {
        let taken = self.tick();
        let mutex = self.mutexes.get_mut(&number).unwrap();
        (mutex.holder, mutex.depth, mutex.taken) = (Some(id), 1, taken);
        mutex.abandoned
    }

    fn gets(&mut self, id: Id, number: usize, told: Code) {
        let abandoned = self.takes(id, number);
        self.resume(id, (if abandoned { Code::OwnerDead } else { told }, 0));
    }

    fn unlock(&mut self, number: usize) {
        let mutex = self.mutexes.get_mut(&number).unwrap();
        mutex.lost = mutex.abandoned;
        if !mutex.lost {
            return self.pass_on(number);
        }
        (mutex.holder, mutex.depth) = (None, 0);
        for waiter in self.mutex_queue(number) {
            self.resume(waiter, (Code::NotRecoverable, 0));
        }
    }

    /// A thread waits for a condition variable no longer.
    pub(super) fn regain(&mut self, id: Id, number: usize, told: Code) {
        let mutex = &self.mutexes[&number];
        if mutex.lost {
            self.resume(id, (Code::NotRecoverable, 0));
        } else if mutex.holder.is_none() {
            self.gets(id, number, told);
        } else {
            let _ = self.waits(id, Wait::Regain(number, told));
        }
    }

    pub(super) fn with_source(&mut self, id: Id, operation: Operation, number: usize) -> Reply {
        let owner = self.owner(id);
        if number >= 64 {
            return Err(Code::Invalid);
        }
        let source = self.sources.get_mut(&number);
        match (operation, source) {
            (Operation::SourceBind, Some(source)) if source.thread != id => Err(Code::Busy),
            (Operation::SourceBind, Some(_)) => DONE,
            (Operation::SourceBind, None) => {
                self.sources.insert(number, Source { thread: id, owner, pending: 0 });
                DONE
            }
            (Operation::SourceWait, Some(source)) if source.thread == id => match std::mem::take(&mut source.pending) {
                0 => self.waits(id, Wait::Source(number)),
                pending => done(pending as usize),
            },
            (Operation::SourceRaise, Some(source)) if source.owner == owner => {
                let bound = source.thread;
                if self.threads[&bound].doing == Doing::Waits(Wait::Source(number)) {
                    self.resume(bound, (Code::Ok, 1));
                } else {
                    self.sources.get_mut(&number).unwrap().pending += 1;
                }
                DONE
            }
            _ => Err(Code::NotOwner),
        }
    }

    pub(super) fn with_object(&mut self, id: Id, operation: Operation, object: usize, argument: u32) -> Reply {
        let owner = self.owner(id);
        match operation {
            Operation::MutexCreate => {
                let kind = Kind::from_raw(argument).ok_or(Code::Invalid)?;
                let number = lowest_free(&self.mutexes, self.mutexes_max)?;
                let fresh = Mutex { owner, kind, holder: None, depth: 0, taken: 0, abandoned: false, lost: false };
                self.mutexes.insert(number, fresh);
                done(number)
            }
            Operation::ConditionCreate => {
                let number = lowest_free(&self.conditions, self.mutexes_max)?;
                self.conditions.insert(number, owner);
                done(number)
            }
            Operation::BarrierCreate if argument == 0 || argument > 4096 => Err(Code::Invalid),
            Operation::BarrierCreate => {
                let number = lowest_free(&self.barriers, self.barriers_max)?;
                self.barriers.insert(number, (owner, argument));
                done(number)
            }
            Operation::BarrierDestroy | Operation::BarrierWait => self.with_barrier(id, operation, object),
            Operation::ConditionDestroy | Operation::ConditionWait | Operation::Signal | Operation::Broadcast => {
                self.with_condition(id, operation, object, argument)
            }
            _ => self.with_mutex(id, operation, object),
        }
    }

    fn with_mutex(&mut self, id: Id, operation: Operation, number: usize) -> Reply {
        let owner = self.owner(id);
        let waited_for = !self.mutex_queue(number).is_empty()
            || self
                .threads
                .values()
                .any(|thread| matches!(thread.doing, Doing::Waits(Wait::Condition { mutex, .. }) if mutex == number));
        let mutex = self.mutexes.get_mut(&number).filter(|mutex| mutex.owner == owner).ok_or(Code::Invalid)?;
        match operation {
            Operation::MutexDestroy if mutex.holder.is_some() || waited_for => Err(Code::Busy),
            Operation::MutexDestroy => {
                self.mutexes.remove(&number);
                DONE
            }
            Operation::Unlock if mutex.holder != Some(id) => Err(Code::NotOwner),
            Operation::Unlock => {
                mutex.depth -= 1;
                if mutex.depth == 0 {
                    self.unlock(number);
                }
                DONE
            }
            Operation::Consistent if mutex.holder != Some(id) || !mutex.abandoned => Err(Code::Invalid),
            Operation::Consistent => {
                mutex.abandoned = false;
                DONE
            }
            _ if mutex.lost => Err(Code::NotRecoverable),
            _ if mutex.holder.is_none() => {
                let abandoned = self.takes(id, number);
                Ok(Some((if abandoned { Code::OwnerDead } else { Code::Ok }, 0)))
            }
            _ if mutex.holder == Some(id) && mutex.kind == Kind::Recursive => {
                if mutex.depth == 0xffff {
                    return Err(Code::Full);
                }
                mutex.depth += 1;
                DONE
            }
            Operation::TryLock => Err(Code::Busy),
            _ if mutex.holder == Some(id) && mutex.kind == Kind::ErrorChecking => Err(Code::Deadlock),
            _ => self.waits(id, Wait::Lock(number)),
        }
    }

    fn with_condition(&mut self, id: Id, operation: Operation, number: usize, argument: u32) -> Reply {
        let owner = self.owner(id);
        self.conditions.get(&number).filter(|one| **one == owner).ok_or(Code::Invalid)?;
        let waiters = self.condition_queue(number);
        let with = |id: &Id| match self.threads[id].doing {
            Doing::Waits(Wait::Condition { mutex, .. }) => mutex,
            doing => panic!("{doing:?} is no wait for a condition variable"),
        };
        let waiters: Vec<_> = waiters.iter().map(|id| (*id, with(id))).collect();
        match operation {
            Operation::ConditionDestroy if waiters.is_empty() => {
                self.conditions.remove(&number);
                DONE
            }
            Operation::ConditionDestroy => Err(Code::Busy),
            Operation::ConditionWait => {
                let at = argument as usize;
                let mutex = self.mutexes.get(&at).filter(|mutex| mutex.owner == owner).ok_or(Code::Invalid)?;
                if mutex.holder != Some(id) {
                    return Err(Code::NotOwner);
                }
                if mutex.depth != 1 || waiters.iter().any(|(_, with)| *with != at) {
                    return Err(Code::Invalid);
                }
                self.unlock(at);
                self.waits(id, Wait::Condition { condition: number, mutex: at })
            }
            _ => {
                let count = if operation == Operation::Broadcast { waiters.len() } else { waiters.len().min(1) };
                for (waiter, mutex) in &waiters[..count] {
                    self.regain(*waiter, *mutex, Code::Ok);
                }
                done(count)
            }
        }
    }

    fn with_barrier(&mut self, id: Id, operation: Operation, number: usize) -> Reply {
        let owner = self.owner(id);
        let (_, count) = self.barriers.get(&number).filter(|barrier| barrier.0 == owner).ok_or(Code::Invalid)?;
        let waiters = self.barrier_queue(number);
        if operation == Operation::BarrierDestroy {
            if !waiters.is_empty() {
                return Err(Code::Busy);
            }
            self.barriers.remove(&number);
            return DONE;
        }
        if waiters.len() + 1 < *count as usize {
            return self.waits(id, Wait::Barrier(number));
        }
        for waiter in waiters {
            self.resume(waiter, (Code::Ok, 0));
        }
        done(1)
    }
}

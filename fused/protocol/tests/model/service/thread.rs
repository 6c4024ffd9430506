//! What threads do, by program.

use std::sync::Arc;

use motet_layout::sync::Ordering::SeqCst;
use motet_protocol::service::{Answer, Code, KILLED, Operation, Operation::*, Request};
use shuttle::rand::{Rng, thread_rng};

use super::machine::Machine;
use super::{Program, THREADS};
use crate::harness::{Bell, point};

/// A thread.
pub struct Thread {
    pub machine: Arc<Machine>,
    pub at: usize,
    pub number: u8,
}

impl Thread {
    fn stores(&mut self, operation: Operation, object: u16, argument: u32) {
        self.number += 1;
        let request = Request::new(self.number, operation, object, argument);
        self.machine.window(THREADS[self.at]).request.store(request.0, SeqCst);
        // The device looks all the time; here it need not when there is nothing.
        self.machine.device.ring();
    }

    fn has(&self) -> Answer {
        Answer(self.machine.window(THREADS[self.at]).answer.load(SeqCst))
    }

    fn awaits(&self) -> Answer {
        loop {
            let answer = self.has();
            if answer.sequence() == self.number && answer.is_done() {
                return answer;
            }
            self.machine.futex(self.at, answer);
        }
    }

    fn asks(&mut self, operation: Operation, object: u16, argument: u32) -> Answer {
        self.stores(operation, object, argument);
        self.is_told()
    }

    fn is_told(&self) -> Answer {
        let answer = self.awaits();
        self.machine.told[self.at].lock().expect("no panic").push(answer);
        answer
    }

    fn enters(&self) {
        assert_eq!(self.machine.inside.fetch_add(1, SeqCst), 0, "two are in what only one may be in");
        point();
    }

    fn leaves(&self) {
        self.machine.inside.fetch_sub(1, SeqCst);
    }

    fn lock(&mut self) {
        self.asks(Lock, 0, 0);
        self.enters();
    }

    fn unlock(&mut self) {
        self.leaves();
        self.asks(Unlock, 0, 0);
    }

    pub fn runs(&mut self) {
        match (self.machine.program, self.at) {
            (Program::Mutex, _) => {
                self.lock();
                self.unlock();
                if self.asks(TryLock, 0, 0).code() == Code::Ok as u16 {
                    self.enters();
                    self.unlock();
                }
            }
            (Program::Condition, 0) => self.waits_until_ready(),
            (Program::Condition, _) => self.says_ready(),
            (Program::TimeLimit, 0) => self.waits_no_longer(),
            (Program::TimeLimit, _) => self.says_ready(),
            (Program::Death, 0) => {
                assert_eq!(self.asks(Join, 32, 0).value(), KILLED);
                assert_eq!(self.asks(Lock, 0, 0).code(), Code::OwnerDead as u16);
                self.asks(Unlock, 0, 0);
            }
            (Program::Death, _) => {
                self.asks(Start, 0, 0);
                self.asks(Lock, 0, 0);
                self.machine.dies(self.at);
            }
            (Program::Barrier, _) => {
                for _ in 0..3 {
                    self.asks(BarrierWait, 0, 0);
                }
            }
            (Program::Turns, _) => {
                self.asks(Start, 0, 0);
                self.enters();
                self.leaves();
                self.asks(Yield, 0, 0);
                self.enters();
                self.leaves();
                self.asks(Exit, 0, 1);
            }
            (Program::Stop, 0) => {
                self.asks(Start, 0, 0);
                self.machine.turn.computes.ring();
                // It asks for nothing until it is told to by memory that they share.
                while self.machine.is_ready.load(SeqCst) == 0 {
                    self.machine.turn.interrupt.sleep();
                    self.machine.attends();
                }
                self.asks(Exit, 0, 1);
            }
            (Program::Sleep, 0) => {
                self.asks(Start, 0, 0);
                self.machine.turn.computes.ring();
                self.machine.waits_in_call();
                self.asks(Exit, 0, 1);
            }
            (Program::Sleep, _) => {
                self.machine.turn.computes.sleep();
                self.asks(Start, 0, 0);
                self.machine.is_ready.store(1, SeqCst);
                self.machine.turn.interrupt.ring();
                // It asks for nothing meanwhile.
                self.machine.turn.goes_on.sleep();
                self.asks(Exit, 0, 1);
            }
            (Program::Stop, _) => {
                self.machine.turn.computes.sleep();
                self.asks(Start, 0, 0);
                // It may also have run before the other one's kernel gets to it.
                if thread_rng().r#gen() {
                    self.machine.turn.stands.sleep();
                }
                self.machine.is_ready.store(1, SeqCst);
                self.machine.turn.interrupt.ring();
                self.asks(Exit, 0, 1);
            }
        }
        self.machine.over.fetch_add(1, SeqCst);
        self.machine.device.ring();
        self.machine.cores.iter().for_each(Bell::ring);
    }

    fn waits_until_ready(&mut self) {
        self.lock();
        while self.machine.is_ready.load(SeqCst) == 0 {
            self.leaves();
            self.asks(ConditionWait, 0, 0);
            self.enters();
        }
        self.unlock();
    }

    fn says_ready(&mut self) {
        self.lock();
        self.machine.is_ready.store(1, SeqCst);
        self.asks(Signal, 0, 0);
        self.unlock();
    }

    fn waits_no_longer(&mut self) {
        self.lock();
        self.leaves();
        self.stores(ConditionWait, 0, 0);
        // The limit is up as soon as it is to wait. Nobody wakes it to tell it that.
        while self.has().sequence() != self.number {
            shuttle::thread::yield_now();
        }
        if self.has().is_wait() {
            self.stores(Withdraw, 0, 0);
        }
        self.is_told();
        self.enters();
        self.unlock();
    }
}

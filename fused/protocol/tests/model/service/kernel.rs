//! What kernels do: they wake who has an answer, and see to it that nobody computes without a turn.

use motet_layout::ServiceClient;
use motet_layout::sync::Ordering::SeqCst;
use motet_protocol::service::{Answer, ThreadIndex, clients};
use shuttle::rand::{Rng, thread_rng};

use super::THREADS;
use super::machine::Machine;
use crate::harness::point;

/// A kernel: whoever has an answer wakes.
impl Machine {
    pub fn kernel(&self, own: usize) {
        while self.over.load(SeqCst) < THREADS.len() {
            self.cores[own].sleep();
            if self.core.answered.load(SeqCst) == 0 {
                continue;
            }
            self.core.answered.store(0, SeqCst);
            let all = self.core.heard_of[0].load(SeqCst);
            let pages = if self.steps.looks_at_all { all } else { all & 1 << THREADS[own].0 };
            if self.steps.clears_pages_first {
                self.core.heard_of[0].fetch_and(!pages, SeqCst);
            }
            for at in (0..2).filter(|at| pages >> THREADS[*at].0 & 1 != 0) {
                if self.client(THREADS[at]).answered.swap(0, SeqCst) & 1 != 0 {
                    self.sleepers[at].ring();
                }
            }
            if pages >> THREADS[0].0 & 1 != 0 {
                self.hears_of_turn();
            }
            if !self.steps.clears_pages_first {
                self.core.heard_of[0].fetch_and(!pages, SeqCst);
            }
        }
    }

    /// The one thread that can lose its turn may have.
    fn hears_of_turn(&self) {
        let (client, turn) = (self.client(THREADS[0]), &self.turn);
        let seen_before = !self.steps.clears_first && self.has_lost_turn();
        if !self.steps.clears_first {
            // Much has to happen in between.
            (0..30).for_each(|_| point());
        }
        if client.told.swap(0, SeqCst) & 1 == 0 {
            return;
        }
        if if self.steps.clears_first { self.has_lost_turn() } else { seen_before } {
            turn.attention.store(1, SeqCst);
            turn.interrupt.ring();
        } else if turn.is_queued.swap(0, SeqCst) != 0 {
            turn.queue.ring();
        }
    }

    fn has_lost_turn(&self) -> bool {
        self.client(THREADS[0]).stopped.load(SeqCst) & 1 != 0
    }

    /// The thread that computes has been interrupted: it goes on when it has its turn.
    pub fn attends(&self) {
        let turn = &self.turn;
        while turn.attention.swap(0, SeqCst) != 0 && self.has_lost_turn() {
            if !self.steps.queues_first {
                // Much has to happen in between.
                (0..30).for_each(|_| point());
            }
            turn.is_queued.store(1, SeqCst);
            if self.steps.queues_first && !self.has_lost_turn() {
                turn.is_queued.store(0, SeqCst);
                return;
            }
            turn.stands.ring();
            turn.queue.sleep();
            turn.attention.store(1, SeqCst);
        }
    }

    /// A thread waits in a system call for what the core knows nothing of, and then for its turn.
    pub fn waits_in_call(&self) {
        let (thread, client) = (ThreadIndex::new(0, 0).expect("a window"), self.client(THREADS[0]));
        let tells = match self.steps.sleeps_first {
            true => clients::sleeps(self.core, thread),
            false => {
                let is_crowded = self.core.crowded.load(SeqCst) != 0;
                // Much has to happen in between.
                (0..30).for_each(|_| point());
                client.asleep.fetch_or(1, SeqCst);
                is_crowded && self.has_changed(client)
            }
        };
        if tells {
            self.device.ring();
        }
        // What it waits for may also come of something else.
        let waits_for_other = thread_rng().r#gen::<bool>();
        while waits_for_other && self.is_ready.load(SeqCst) == 0 {
            self.turn.interrupt.sleep();
        }
        let tells = match self.steps.wakes_first {
            true => clients::wakes(self.core, thread),
            false => {
                let has_lost = self.has_lost_turn();
                (0..30).for_each(|_| point());
                client.asleep.fetch_and(!1, SeqCst);
                has_lost && self.has_changed(client)
            }
        };
        if tells {
            self.device.ring();
        }
        self.turn.attention.store(1, SeqCst);
        self.attends();
        self.turn.goes_on.ring();
    }

    fn has_changed(&self, client: &ServiceClient) -> bool {
        client.changed.fetch_or(1, SeqCst);
        self.core.attention.store(1, SeqCst);
        true
    }

    /// A thread sleeps until its answer is not `seen` any more.
    pub fn futex(&self, at: usize, seen: Answer) {
        let window = self.window(THREADS[at]);
        let has_changed = || window.answer.load(SeqCst) != seen.0;
        let changed_before = has_changed();
        window.parked.store(1, SeqCst);
        if !(if self.steps.parks_first { has_changed() } else { changed_before }) {
            self.sleepers[at].sleep();
        }
        window.parked.store(0, SeqCst);
    }

    pub fn dies(&self, at: usize) {
        let client = self.client(THREADS[at]);
        if !self.steps.attention_last {
            self.core.attention.store(1, SeqCst);
            self.device.ring();
        }
        client.died.fetch_or(1, SeqCst);
        if self.steps.attention_last {
            self.core.attention.store(1, SeqCst);
        }
        self.device.ring();
    }
}

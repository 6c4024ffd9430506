//! Pages that kernels without shared memory keep alike: who has a copy, who may write, and what each message about a page does (`docs/protocols/messages.md`).
//!
//! Each page has a *home*, the kernel at which its process began. The home knows which kernels hold a copy. A kernel that lacks what a fault needs asks the home, and
//! never another kernel; the home asks a holder, or has holders drop their copies. With two kernels each miss and each upgrade is two messages.
//!
//! [`Site`] is one page at one kernel. It is a value without memory of its own: the kernel keeps it where it likes, tells it of faults and messages, and does what it says ([`Effects`]).
//! The protocol is that of Popcorn Linux (`kernel/popcorn/page_server.c` of its public sources); [`table`] has its rules for faults that come together.

pub mod table;

use motet_layout::NODES_MAX;

use table::{Action, Fault, Place};

/// What a kernel may do with its copy of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rights {
    /// It has none, or one that is not valid.
    None,
    /// Read it. Others may have copies.
    Read,
    /// Read and write it. Nobody else has a copy.
    Write,
}

/// A message about a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A remote kernel asks the home for the page, or the home a holder: to read, or to write and so to be the only one.
    Request {
        /// To write.
        write: bool,
    },
    /// As [`Request`](Self::Request), of a page that no thread waits for. Its receiver answers at once, and by [`Retry`](Self::Retry) if others would have to be asked first.
    Wish {
        /// To write.
        write: bool,
    },
    /// The page, and with it what was asked for.
    Data {
        /// To write.
        write: bool,
    },
    /// What was asked for, without the page, of which the receiver holds a copy.
    Short,
    /// Not now: ask again.
    Retry,
    /// The receiver is to drop its copy.
    Invalidate,
    /// It has.
    Invalidated,
}

/// What a kernel does for a page.
pub trait Effects {
    /// Changes what its threads may do with the page, on all of its cores, before it goes on.
    fn protect(&mut self, rights: Rights);

    /// Sends a message. Of [`Message::Data`], the page as it is now is a part. One to a kernel that has died may be lost, also before [`Site::lose`]: the page's state is then as
    /// if it had been sent.
    fn send(&mut self, to: u32, message: Message);

    /// Takes over the page that came with the message.
    fn install(&mut self);

    /// Threads that wait for the page fault again.
    fn wake(&mut self);
}

/// What becomes of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The thread may go on.
    Done,
    /// It waits until [`Effects::wake`], and faults again.
    Wait,
    /// It faults again at once.
    Again,
    /// The kernel that had the page has died.
    Lost,
}

/// What a message has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// Nothing: no kernel sends it in this state.
    Ignored,
    /// Something, but no thread of this kernel has got what it had asked for.
    Taken,
    /// A thread of this kernel had asked for the page, and may go on with it.
    Given,
}

/// Who is being served.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Handle {
    /// The kernel that has asked; this one: a thread of its own has faulted.
    node: u32,
    write: bool,
    /// A remote kernel's copy was taken away while it waits for an answer.
    invalidated: bool,
    /// Kernels that have not answered, a bit each.
    left: u8,
}

/// One page at one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Site {
    node: u32,
    home: u32,
    rights: Rights,
    /// At home: kernels with a valid copy, a bit each.
    holders: u8,
    handle: Option<Handle>,
    /// Requests of kernels that wait here until the handle is done: to read, or to write.
    waiting: [Option<bool>; NODES_MAX],
}

/// Where a word has what ([`Site::word`]).
mod word {
    pub const RIGHTS: u32 = 0;
    pub const HOLDERS: u32 = 4;
    pub const LEFT: u32 = 8;
    pub const NODE: u32 = 12;
    pub const WRITE: u32 = 14;
    pub const INVALIDATED: u32 = 15;
    pub const WAITING: u32 = 16;
    pub const SERVED: u64 = 1 << 32;
    pub const KNOWN: u64 = 1 << 33;
    /// A bit for each kernel.
    pub const ALL: u8 = (1 << motet_layout::NODES_MAX) - 1;
}

const fn bit(node: u32) -> u8 {
    1 << node
}

impl Site {
    /// A page at kernel `node`, of which only the home has a copy.
    pub const fn new(node: u32, home: u32) -> Self {
        let rights = if node == home { Rights::Write } else { Rights::None };
        Self { node, home, rights, holders: bit(home), handle: None, waiting: [None; NODES_MAX] }
    }

    /// A page as a word says ([`word`](Self::word)), at kernel `node`.
    pub fn from_word(node: u32, home: u32, word: u64) -> Self {
        if word & word::KNOWN == 0 {
            return Self::new(node, home);
        }
        let rights = [Rights::None, Rights::Read, Rights::Write][(word >> word::RIGHTS & 3).min(2) as usize];
        let handle = Handle {
            node: (word >> word::NODE & 3) as u32,
            write: word >> word::WRITE & 1 != 0,
            invalidated: word >> word::INVALIDATED & 1 != 0,
            left: (word >> word::LEFT) as u8 & word::ALL,
        };
        let waiting = core::array::from_fn(|node| match word >> (word::WAITING + 2 * node as u32) & 3 {
            0 => None,
            wish => Some(wish == 2),
        });
        let holders = (word >> word::HOLDERS) as u8 & word::ALL;
        Self { node, home, rights, holders, handle: (word & word::SERVED != 0).then_some(handle), waiting }
    }

    /// What is to be kept of the page: 0 if it is as at the beginning.
    pub fn word(&self) -> u64 {
        if *self == Self::new(self.node, self.home) {
            return 0;
        }
        let handle = self.handle.map_or(0, |handle| {
            let flags = u64::from(handle.write) << word::WRITE | u64::from(handle.invalidated) << word::INVALIDATED;
            word::SERVED | u64::from(handle.node) << word::NODE | flags | u64::from(handle.left) << word::LEFT
        });
        let wish = |wish: Option<bool>| wish.map_or(0, |write| 1 + u64::from(write));
        let waiting = (0..).zip(self.waiting).map(|(node, wants)| wish(wants) << (word::WAITING + 2 * node));
        let kept = (self.rights as u64) << word::RIGHTS | u64::from(self.holders) << word::HOLDERS;
        word::KNOWN | kept | handle | waiting.sum::<u64>()
    }

    /// Whether another kernel than this one holds a copy, or a fault is being served: who changes what the page is has to wait.
    pub fn is_elsewhere(&self) -> bool {
        self.handle.is_some() || self.holders != bit(self.home) || self.rights != Rights::Write
    }

    /// Whether this kernel has no copy, or may be about to lose it.
    pub fn is_lacking(&self) -> bool {
        self.handle.is_some() || self.rights == Rights::None
    }

    /// Whether the only kernel with a copy has died. Only the home knows.
    pub fn is_lost(&self) -> bool {
        self.is_home() && self.holders == 0
    }

    /// At home: a kernel has died. What it was asked for counts as answered, and what it alone had is lost.
    pub fn lose(&mut self, node: u32, effects: &mut impl Effects) {
        if !self.is_home() || node == self.home {
            return;
        }
        self.waiting[node as usize % NODES_MAX] = None;
        self.holders &= !bit(node);
        if let Some(handle) = &mut self.handle {
            if handle.node == node {
                // Others may have dropped their copies for it: the page comes home.
                handle.node = self.home;
            }
            handle.left &= !bit(node);
        }
        if self.holders == 0 {
            // Only a kernel that may write is the only one. Who has asked is told when it asks again.
            let asked = self.handle.take().map(|handle| handle.node).filter(|&asked| asked != self.home);
            let waiting = (0..NODES_MAX as u32).filter(|&node| self.waiting[node as usize].take().is_some());
            asked.into_iter().chain(waiting).for_each(|node| effects.send(node, Message::Retry));
            self.rights = Rights::None;
            effects.wake();
        } else if self.handle.is_some_and(|handle| handle.left == 0) {
            self.finish(effects);
        }
    }

    /// What the kernel's threads may do.
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// Whose fault is being served here, and whether that kernel has lost its copy since it asked.
    pub fn served(&self) -> Option<(Fault, bool)> {
        let handle = self.handle?;
        Some((Fault { write: handle.write, is_remote: handle.node != self.node }, handle.invalidated))
    }

    const fn is_home(&self) -> bool {
        self.node == self.home
    }

    /// A thread of this kernel needs the page.
    pub fn fault(&mut self, write: bool, effects: &mut impl Effects) -> Outcome {
        if self.allows(write) {
            return Outcome::Done;
        }
        if self.is_lost() {
            return Outcome::Lost;
        }
        if let Some(action) = self.action(Fault { write, is_remote: false }) {
            return if action.waits() { Outcome::Wait } else { Outcome::Again };
        }
        let handle = Handle { node: self.node, write, invalidated: false, left: 0 };
        if self.is_home() {
            self.serve(handle, effects);
        } else {
            effects.send(self.home, Message::Request { write });
            self.handle = Some(Handle { left: bit(self.home), ..handle });
        }
        if self.allows(write) { Outcome::Done } else { Outcome::Wait }
    }

    /// The page may be needed soon: wishes for it beside another one that kernel `from` is asked for, unless somebody else would have to be asked. Until it comes, or does not, it is as if
    /// a thread had faulted. `false`: there is nothing to wish for.
    pub fn wish(&mut self, from: u32, write: bool, effects: &mut impl Effects) -> bool {
        let is_its = if self.is_home() { self.holders == bit(from) } else { from == self.home };
        if !is_its || self.handle.is_some() || self.allows(write) {
            return false;
        }
        effects.send(from, Message::Wish { write });
        self.handle = Some(Handle { node: self.node, write, invalidated: false, left: bit(from) });
        true
    }

    /// A message has come.
    pub fn receive(&mut self, from: u32, message: Message, effects: &mut impl Effects) -> Received {
        let own = self.handle.filter(|handle| handle.node == self.node);
        if !self.take(from, message, effects) {
            return Received::Ignored;
        }
        let is_given = own.is_some_and(|own| self.allows(own.write));
        if is_given { Received::Given } else { Received::Taken }
    }

    /// `false`: the message changes nothing.
    fn take(&mut self, from: u32, message: Message, effects: &mut impl Effects) -> bool {
        match message {
            Message::Request { write } => return self.requested(from, write, effects),
            Message::Wish { write } => return self.wished(from, write, effects),
            Message::Invalidate if !self.is_home() && from == self.home => self.invalidate(effects),
            Message::Data { .. } if self.awaits(from) => self.answered(from, message, effects),
            Message::Short | Message::Retry if !self.is_home() && self.awaits(from) => {
                self.answered(from, message, effects)
            }
            Message::Invalidated if self.is_home() && self.awaits(from) => self.answered(from, message, effects),
            Message::Data { .. } | Message::Short | Message::Retry | Message::Invalidated | Message::Invalidate => {
                return false;
            }
        }
        true
    }

    /// Whether the kernel's threads may read the page, or write it.
    pub fn allows(&self, write: bool) -> bool {
        self.rights >= if write { Rights::Write } else { Rights::Read }
    }

    fn awaits(&self, from: u32) -> bool {
        self.handle.is_some_and(|handle| handle.left & bit(from) != 0)
    }

    /// What is done with a fault beside the one that is being served; `None`: there is none.
    fn action(&self, fault: Fault) -> Option<Action> {
        let (current, invalidated) = self.served()?;
        let place = if self.is_home() { Place::Home } else { Place::Remote };
        table::action(place, current, invalidated, fault)
    }

    fn requested(&mut self, from: u32, write: bool, effects: &mut impl Effects) -> bool {
        if !self.is_home() {
            return from == self.home && self.hand_out(write, effects);
        }
        if self.is_lost() {
            effects.send(from, Message::Retry);
            return true;
        }
        match self.action(Fault { write, is_remote: true }) {
            None => self.serve(Handle { node: from, write, invalidated: false, left: 0 }, effects),
            Some(action) if action.waits() => self.waiting[from as usize] = Some(write),
            Some(_) => effects.send(from, Message::Retry),
        }
        true
    }

    fn wished(&mut self, from: u32, write: bool, effects: &mut impl Effects) -> bool {
        if !self.is_home() {
            return from == self.home && self.hand_out(write, effects);
        }
        if self.handle.is_none() && self.is_at_hand(from, write) {
            self.serve(Handle { node: from, write, invalidated: false, left: 0 }, effects);
        } else {
            effects.send(from, Message::Retry);
        }
        true
    }

    /// At home: whether no other kernel has to be asked before that one gets the page.
    const fn is_at_hand(&self, node: u32, write: bool) -> bool {
        let two = bit(self.home) | bit(node);
        self.holders & two != 0 && !(write && self.holders & !two != 0)
    }

    /// At a holder: the home wants the page.
    fn hand_out(&mut self, write: bool, effects: &mut impl Effects) -> bool {
        if self.rights == Rights::None {
            return false;
        }
        self.rights = if write { Rights::None } else { Rights::Read };
        effects.protect(self.rights);
        effects.send(self.home, Message::Data { write });
        true
    }

    /// At a holder: the home wants it to hold the page no longer.
    fn invalidate(&mut self, effects: &mut impl Effects) {
        self.rights = Rights::None;
        effects.protect(Rights::None);
        if let Some(handle) = &mut self.handle {
            handle.invalidated = true;
        }
        effects.send(self.home, Message::Invalidated);
    }

    /// At home: begins to serve a fault, and ends if nobody has to be asked.
    fn serve(&mut self, mut handle: Handle, effects: &mut impl Effects) {
        let own = bit(self.home);
        let others = self.holders & !own & !bit(handle.node);
        if self.holders & own == 0 && self.holders & bit(handle.node) == 0 {
            // Nobody who is at hand has it: one holder sends it, which drops its copy if it is wanted to write.
            let source = self.holders.trailing_zeros();
            effects.send(source, Message::Request { write: handle.write });
            handle.left |= bit(source);
        }
        if handle.write {
            let dropped = others & !handle.left;
            (0..NODES_MAX as u32).filter(|&node| dropped & bit(node) != 0).for_each(|node| {
                effects.send(node, Message::Invalidate);
            });
            handle.left |= dropped;
        }
        self.handle = Some(handle);
        if handle.left == 0 {
            self.finish(effects);
        }
    }

    /// An answer has come that was awaited.
    fn answered(&mut self, from: u32, message: Message, effects: &mut impl Effects) {
        let Some(handle) = &mut self.handle else { return };
        handle.left &= !bit(from);
        let (is_done, write) = (handle.left == 0, handle.write);
        if let Message::Data { .. } = message {
            effects.install();
        }
        if self.is_home() {
            self.holders |= if let Message::Data { .. } = message { bit(self.home) } else { 0 };
            if is_done {
                self.finish(effects);
            }
            return;
        }
        // A remote kernel has asked the home alone.
        self.handle = None;
        if message != Message::Retry {
            self.rights = if write { Rights::Write } else { Rights::Read };
            effects.protect(self.rights);
        }
        effects.wake();
    }

    /// At home: all have answered. Gives the page to who wanted it, and goes on with who waits.
    fn finish(&mut self, effects: &mut impl Effects) {
        let Some(handle) = self.handle.take() else { return };
        let (own, asks) = (bit(self.home), bit(handle.node));
        let has_copy = self.holders & asks != 0;
        self.holders = if handle.write { asks } else { self.holders | asks };
        let rights = match self.holders {
            holders if holders == own => Rights::Write,
            holders if holders & own != 0 => Rights::Read,
            _ => Rights::None,
        };
        if handle.node != self.home {
            // The page goes out as it is when nobody here writes it any more.
            self.rights = rights;
            effects.protect(rights);
            effects.send(handle.node, if has_copy { Message::Short } else { Message::Data { write: handle.write } });
        } else {
            self.rights = rights;
            effects.protect(rights);
        }
        effects.wake();
        for node in 0..NODES_MAX as u32 {
            if self.handle.is_none()
                && let Some(write) = self.waiting[node as usize].take()
            {
                self.serve(Handle { node, write, invalidated: false, left: 0 }, effects);
            }
        }
    }
}

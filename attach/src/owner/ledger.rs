//! What each program has and does: for limits, and for those who ask. Its lock is held for no
//! command, so it answers even if a command hangs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::ProgramId;
use super::limits::{Limits, Most};
use crate::link::Link;
use crate::lock;
use crate::messages::{Counts, Held, Refused, Resource, Share, Whose};
use crate::socket::Peer;

/// The programs of an owner.
#[derive(Debug)]
pub(super) struct Ledger(Mutex<Entries>);

#[derive(Debug)]
struct Entries {
    limits: Limits,
    programs: BTreeMap<ProgramId, Entry>,
}

/// A program.
#[derive(Debug, Default)]
struct Entry {
    /// `None`: it is in the owner's process, and has no limits.
    who: Option<Who>,
    held: Held,
    counts: Counts,
    /// Commands under way: what, and since when. One, and one for each question.
    under_way: Vec<(u64, &'static str, Instant)>,
    last: u64,
    /// It is gone, and what it has left behind still counts for its user.
    has_left: bool,
}

#[derive(Clone, Debug)]
struct Who {
    peer: Peer,
    /// `None`: it is gone.
    link: Option<Arc<dyn Link>>,
}

impl Entry {
    /// Whether nothing of a program that is gone counts any more.
    fn is_over(&self) -> bool {
        self.has_left && self.held == Held::default()
    }
}

/// An attached program, as others see it.
#[derive(Clone, Debug)]
pub struct Attached {
    pub id: ProgramId,
    pub peer: Peer,
    pub held: Held,
    pub counts: Counts,
    /// The command that has been under way for the longest time.
    pub under_way: Option<(&'static str, Duration)>,
    /// Messages that it has not read, which wait here.
    pub unread: usize,
}

/// A command that is under way until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    ledger: &'a Ledger,
    program: ProgramId,
    number: u64,
}

impl Default for Ledger {
    fn default() -> Self {
        Self(Mutex::new(Entries {
            limits: Limits::NONE,
            programs: BTreeMap::new(),
        }))
    }
}

impl Ledger {
    pub(super) fn set_limits(&self, limits: Limits) {
        lock(&self.0).limits = limits;
    }

    pub(super) fn limits(&self) -> Limits {
        lock(&self.0).limits
    }

    pub(super) fn join(&self, program: ProgramId) {
        lock(&self.0).programs.insert(program, Entry::default());
    }

    /// It is attached over this link, and from now on has limits.
    pub(super) fn introduce(&self, program: ProgramId, peer: Peer, link: Arc<dyn Link>) {
        let link = Some(link);
        self.change(program, |entry| entry.who = Some(Who { peer, link }));
    }

    /// It is gone. What it has `left` behind that the device does not give up, and questions that
    /// are under way, count for its user until they are over.
    pub(super) fn leave(&self, program: ProgramId, left: Held) {
        self.set_held(program, left, 0);
        self.change(program, |entry| {
            entry.has_left = true;
            if let Some(who) = &mut entry.who {
                who.link = None;
            }
        });
    }

    fn change(&self, program: ProgramId, change: impl FnOnce(&mut Entry)) {
        let mut entries = lock(&self.0);
        if let Some(entry) = entries.programs.get_mut(&program) {
            change(entry);
            if entry.is_over() {
                entries.programs.remove(&program);
            }
        }
    }

    /// Whether a program may have as much more.
    pub(super) fn check(&self, program: ProgramId, more: &Held) -> Result<(), Refused> {
        lock(&self.0).check(program, more)
    }

    /// Whether a program, or its user, has more of something than there may be.
    pub(super) fn is_beyond(&self, program: ProgramId, resource: Resource) -> bool {
        let entries = lock(&self.0);
        let Some((entry, who)) = entries.limited(program) else {
            return false;
        };
        let limits = &entries.limits;
        entry.held.of(resource) > limits.program.of(resource)
            || !is_privileged(who.peer.uid)
                && entries.of_user(who.peer.uid, resource) > limits.user.of(resource)
    }

    /// What it has now, apart from what is counted here.
    pub(super) fn set_held(&self, program: ProgramId, held: Held, passed: u64) {
        self.change(program, |entry| {
            let questions = entry.held.questions;
            entry.held = Held { questions, ..held };
            entry.counts.passed = entry.counts.passed.max(passed);
        });
    }

    /// A program asks where a peer is. The answer comes later.
    pub(super) fn begin_question(&self, program: ProgramId) -> Result<(), Refused> {
        let more = Held {
            questions: 1,
            ..Held::default()
        };
        let mut entries = lock(&self.0);
        entries.check(program, &more)?;
        if let Some(entry) = entries.programs.get_mut(&program) {
            entry.held.questions += 1;
        }
        Ok(())
    }

    pub(super) fn end_question(&self, program: ProgramId) {
        self.change(program, |entry| {
            entry.held.questions = entry.held.questions.saturating_sub(1);
        });
    }

    pub(super) fn rung(&self, program: ProgramId, doorbells: u64) {
        self.change(program, |entry| entry.counts.doorbells += doorbells);
    }

    /// A command begins.
    pub(super) fn begin(&self, program: ProgramId, command: &'static str) -> UnderWay<'_> {
        let mut number = 0;
        self.change(program, |entry| {
            entry.last += 1;
            number = entry.last;
            entry.under_way.push((number, command, Instant::now()));
        });
        UnderWay {
            ledger: self,
            program,
            number,
        }
    }

    pub(super) fn refused(&self, program: ProgramId) -> Option<Peer> {
        let mut entries = lock(&self.0);
        let entry = entries.programs.get_mut(&program)?;
        entry.counts.refused += 1;
        Some(entry.who.as_ref()?.peer)
    }

    /// The attached programs.
    pub(super) fn attached(&self) -> Vec<Attached> {
        let entries = lock(&self.0);
        let attached = entries.programs.iter().filter_map(|(id, entry)| {
            let Who { peer, link } = entry.who.clone()?;
            let link = link?;
            let oldest = entry.under_way.iter().min_by_key(|(_, _, since)| *since);
            let attached = Attached {
                id: *id,
                peer,
                held: entry.held,
                counts: entry.counts,
                under_way: oldest.map(|(_, command, since)| (*command, since.elapsed())),
                unread: 0,
            };
            Some((attached, link))
        });
        let attached: Vec<_> = attached.collect();
        drop(entries);
        // A link has a lock of its own.
        let unread = |(attached, link): (Attached, Arc<dyn Link>)| Attached {
            unread: link.unread(),
            ..attached
        };
        attached.into_iter().map(unread).collect()
    }
}

impl Entries {
    fn check(&self, program: ProgramId, more: &Held) -> Result<(), Refused> {
        let Some((entry, who)) = self.limited(program) else {
            return Ok(());
        };
        check(&self.limits.program, more, Whose::Program, |resource| {
            entry.held.of(resource)
        })?;
        let uid = who.peer.uid;
        if is_privileged(uid) {
            return Ok(());
        }
        check(&self.limits.user, more, Whose::User(uid), |resource| {
            self.of_user(uid, resource)
        })
    }

    /// A program that has limits.
    fn limited(&self, program: ProgramId) -> Option<(&Entry, &Who)> {
        let entry = self.programs.get(&program)?;
        Some((entry, entry.who.as_ref()?))
    }

    /// What all programs of a user have.
    fn of_user(&self, uid: u32, resource: Resource) -> u64 {
        let is_theirs = |entry: &&Entry| entry.who.as_ref().is_some_and(|who| who.peer.uid == uid);
        let all = self.programs.values().filter(is_theirs);
        all.map(|entry| entry.held.of(resource)).sum()
    }
}

fn check(
    most: &Most,
    more: &Held,
    whose: Whose,
    has: impl Fn(Resource) -> u64,
) -> Result<(), Refused> {
    for resource in Resource::ALL {
        let wanted = match resource {
            Resource::Programs => continue,
            resource => more.of(resource),
        };
        let most = most.of(resource);
        if wanted > 0 && has(resource).saturating_add(wanted) > most {
            return Err(Refused::share(Share {
                resource,
                whose,
                most,
            }));
        }
    }
    Ok(())
}

/// Whether a user is root, or the server's own: they may stop the server, so their programs
/// together have no limits.
#[must_use]
pub fn is_privileged(uid: u32) -> bool {
    // SAFETY: it reads a number of the process, and cannot fail.
    uid == 0 || uid == unsafe { libc::geteuid() }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.ledger.change(self.program, |entry| {
            entry
                .under_way
                .retain(|(number, ..)| *number != self.number);
            entry.counts.commands += 1;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::ChannelEnd;

    const USER: u32 = 54_321;

    fn come(ledger: &Ledger, number: u64) -> ProgramId {
        let program = ProgramId(number);
        ledger.join(program);
        let peer = Peer {
            pid: 1,
            uid: USER,
            gid: USER,
        };
        let [link, _] = ChannelEnd::pair();
        ledger.introduce(program, peer, Arc::new(link));
        program
    }

    #[test]
    fn what_a_program_leaves_counts_until_it_is_over() {
        let ledger = Ledger::default();
        let mut user = Most::ANY;
        user.set(Resource::Questions, 1);
        user.set(Resource::Mrs, 1);
        ledger.set_limits(Limits {
            user,
            ..Limits::NONE
        });
        let mrs = |mrs| Held {
            mrs,
            ..Held::default()
        };
        let (first, second) = (come(&ledger, 1), come(&ledger, 2));
        ledger.begin_question(first).unwrap();
        ledger.leave(first, mrs(1));
        assert_eq!(ledger.attached().len(), 1, "it is gone");
        assert!(ledger.check(second, &mrs(1)).is_err());
        assert!(ledger.begin_question(second).is_err());
        ledger.set_held(first, Held::default(), 0);
        ledger.check(second, &mrs(1)).unwrap();
        assert!(ledger.begin_question(second).is_err());
        ledger.end_question(first);
        ledger.begin_question(second).unwrap();
        ledger.leave(second, Held::default());
        ledger.end_question(second);
        assert!(lock(&ledger.0).programs.is_empty());
    }
}

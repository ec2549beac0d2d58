//! Who comes to the owner's socket: what they say first decides what they get.
//!
//! A program is attached, unless there are as many as there may be. Who asks about the programs is
//! answered, and takes no place of a program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use e810_backends::HostDevice;
use e810_backends::host::{Host, limits, process};

use crate::link::{Ended, Link};
use crate::lock;
use crate::messages::{
    Held, Hello, PAGE, Page, Refused, Resource, Row, Share, Told, Whose, decode, encode,
};
use crate::owner::{Attached, MemoryOf, Owner, is_privileged};
use crate::session::Session;
use crate::socket::Peer;

/// How long somebody who has connected may take to say who it is, or to ask again.
const HELLO: Duration = Duration::from_secs(10);
/// How many processes of a user may be connected without being programs, beside as many as there may
/// be programs of the user: these may all come together.
const VISITORS: u64 = 128;
/// Descriptors of the server that are kept free for what comes from those who are attached, or ask:
/// a program is attached only while there are more. What a program sends is lost without one.
const SPARE: u64 = 24;
/// Answers that somebody who asks may leave unread.
const UNREAD: usize = 4;

/// The owner of a function, for those who come.
#[derive(Debug)]
pub struct Reception<D: HostDevice> {
    owner: Arc<Owner<D>>,
    platform: D,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    is_closing: bool,
    /// By user. No count is 0.
    visitors: BTreeMap<u32, u64>,
    programs: BTreeMap<u32, u64>,
}

/// The place of one who is inside, until it is dropped.
#[derive(Debug)]
struct Place<'a> {
    inside: &'a Mutex<Inside>,
    uid: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Visitor,
    Program,
}

impl Inside {
    fn counts(&mut self, kind: Kind) -> &mut BTreeMap<u32, u64> {
        match kind {
            Kind::Visitor => &mut self.visitors,
            Kind::Program => &mut self.programs,
        }
    }

    fn programs(&self) -> u64 {
        self.programs.values().sum()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = lock(self.inside);
        let counts = inside.counts(self.kind);
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
    }
}

impl<D: HostDevice> Reception<D> {
    #[must_use]
    pub fn new(owner: Arc<Owner<D>>, platform: D) -> Self {
        Self {
            owner,
            platform,
            inside: Mutex::default(),
        }
    }

    /// From now on no programs are attached.
    pub fn close(&self) {
        lock(&self.inside).is_closing = true;
    }

    /// How many programs are attached.
    #[must_use]
    pub fn programs(&self) -> u64 {
        lock(&self.inside).programs()
    }

    /// Their processes.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let all = self.owner.attached();
        all.iter().map(|program| program.peer).collect()
    }

    /// Serves one who has connected until it has gone.
    ///
    /// # Errors
    /// Why it is not served, which it was told. Nothing is wrong with one that leaves before it
    /// says anything: it looked whether somebody is there.
    pub fn receive(&self, link: Arc<dyn Link>, peer: Peer) -> Result<(), Refused> {
        let served = self.serve(&link, peer);
        if let Err(why) = &served {
            // It may be gone. Whatever its version, the first byte tells it the owner's.
            let _ = link.send(encode(&Told::Refused(why.clone())).into());
        }
        served
    }

    fn serve(&self, link: &Arc<dyn Link>, peer: Peer) -> Result<(), Refused> {
        let visitor = self.enter(peer.uid, Kind::Visitor)?;
        loop {
            let message = match link.receive(HELLO) {
                Err(Ended) => return Ok(()),
                Ok(None) => return Err(Refused::silent("the program", HELLO)),
                Ok(Some(message)) => message,
            };
            let hello = decode(&message.bytes)
                .map_err(|said| Refused::unintelligible("the program", said))?;
            match hello {
                Hello::Attach => break,
                Hello::Programs { after } => {
                    if link.unread() > UNREAD {
                        return Err(Refused::unread());
                    }
                    let page = Told::Programs(Box::new(self.page(after, peer)));
                    if link.send(encode(&page).into()).is_err() {
                        return Ok(());
                    }
                }
            }
        }
        if limits::free_files().is_some_and(|free| free < SPARE) {
            return Err(Refused::descriptors(limits::open_files()));
        }
        let _place = self.enter(peer.uid, Kind::Program)?;
        drop(visitor);
        let (owner, platform) = (self.owner.clone(), self.platform.clone());
        let session = Session::begin(owner, platform, link.clone(), MemoryOf::Nobody)?;
        session.of(peer).run();
        Ok(())
    }

    /// Takes a place, if there is one.
    fn enter(&self, uid: u32, kind: Kind) -> Result<Place<'_>, Refused> {
        let limits = self.owner.limits();
        let mut inside = lock(&self.inside);
        if kind == Kind::Program && inside.is_closing {
            return Err(Refused::closing());
        }
        let programs = match is_privileged(uid) {
            true => limits.programs,
            false => limits.user.of(Resource::Programs),
        };
        let of_user = match kind {
            Kind::Visitor => programs.saturating_add(VISITORS),
            Kind::Program => programs,
        };
        let share = |whose, most| {
            Refused::share(Share {
                resource: Resource::Programs,
                whose,
                most,
            })
        };
        if kind == Kind::Program && inside.programs() >= limits.programs {
            return Err(share(Whose::All, limits.programs));
        }
        let count = inside.counts(kind).entry(uid).or_default();
        if *count >= of_user {
            return Err(match kind {
                Kind::Program => share(Whose::User(uid), of_user),
                Kind::Visitor => Refused::crowd(of_user),
            });
        }
        *count += 1;
        Ok(Place {
            inside: &self.inside,
            uid,
            kind,
        })
    }

    /// The programs with numbers above `after` that `asker` may see: those of its own user; root
    /// and the server's user see all.
    fn page(&self, after: u64, asker: Peer) -> Page {
        let all = self.owner.attached();
        let mut total = Held::default();
        for program in &all {
            total.add(&program.held);
        }
        let is_seen = |program: &&Attached| {
            program.id.number() > after
                && (is_privileged(asker.uid) || program.peer.uid == asker.uid)
        };
        let mut seen = all.iter().filter(is_seen);
        Page {
            total,
            programs: all.len() as u64,
            is_closing: lock(&self.inside).is_closing,
            rows: seen.by_ref().take(PAGE).map(row).collect(),
            has_more: seen.next().is_some(),
        }
    }
}

/// Characters of a process's name.
const NAME: usize = 16;

fn row(program: &Attached) -> Row {
    let name = process::name(&Host::default(), &program.peer.pid.to_string());
    let under_way = program.under_way.map(|(command, passed)| {
        let ms = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
        (command.to_owned(), ms)
    });
    Row {
        id: program.id.number(),
        pid: program.peer.pid,
        name: name.unwrap_or_default().chars().take(NAME).collect(),
        uid: program.peer.uid,
        held: program.held,
        counts: program.counts,
        under_way,
        unread: program.unread as u64,
    }
}

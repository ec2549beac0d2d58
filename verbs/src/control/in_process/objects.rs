//! The objects of the control path, by their numbers, and the commands about them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ptr::NonNull;
use std::sync::Mutex;

use e810::{
    AccessFlags, Ah, Channel, Control, CqControl, CqInit, Mr, MrChange, Pd, QpControl, QpInit,
    QpResetting, ReregError, SharedBytes,
};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Access, DmaError};

use super::lock;
use crate::control::{Answer, Command, Handover, Memory, MrChanges, NewQp, Refused, Token};
use crate::rings::{PlatformCqRings, PlatformQpRings};

/// What events call completion queues and queue pairs, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    pub(super) cqs: HashMap<u32, Token>,
    pub(super) qps: HashMap<u32, Token>,
}

/// A queue pair, and its reset if one is under way.
#[derive(Debug)]
struct Qp<P: HostPlatform> {
    control: QpControl<P>,
    resetting: Option<QpResetting>,
    reopened: Option<e810::QpReopened<P>>,
}

/// The control path and what was made by it.
#[derive(Debug)]
pub(super) struct Objects<P: HostPlatform> {
    pub(super) control: Control<P>,
    channel: Channel<P>,
    pds: HashMap<u32, Pd>,
    /// By key.
    mrs: HashMap<u32, Mr<P>>,
    cqs: HashMap<u32, CqControl>,
    qps: HashMap<u32, Qp<P>>,
    ahs: HashMap<u32, Ah>,
    /// The device is a program of this machine.
    yields: bool,
    /// Commands since the device's own last were looked after.
    since_progress: u32,
}

/// Commands after which what events have left to do is done first. The device's queue has 63
/// places for commands, and those that recover a failed queue pair keep theirs until then: the
/// function's own thread may not get that far while programs give commands and commands.
const BETWEEN_PROGRESS: u32 = 8;

/// What a table has under a number.
fn find<'a, T>(
    table: &'a mut HashMap<u32, T>,
    object: &'static str,
    number: u32,
) -> Result<&'a mut T, Refused> {
    table
        .get_mut(&number)
        .ok_or(Refused::NoSuch { object, number })
}

fn take<T>(table: &mut HashMap<u32, T>, object: &'static str, number: u32) -> Result<T, Refused> {
    table
        .remove(&number)
        .ok_or(Refused::NoSuch { object, number })
}

/// The program's memory, as the driver takes it.
fn shared(memory: Memory, access: AccessFlags) -> Result<SharedBytes, Refused> {
    // Nothing is at address 0: for no bytes that is one more thing that is wrong.
    let Some(start) = NonNull::new(memory.address as *mut u8) else {
        let error = match memory.length {
            0 => e810::Error::Invalid {
                what: "a region has at least one byte",
            },
            bytes => e810::Error::Dma(DmaError::NotAccessible {
                address: 0,
                bytes,
                access: match access.contains(AccessFlags::LOCAL_WRITE) {
                    true => Access::ReadWrite,
                    false => Access::Read,
                },
            }),
        };
        return Err(error.into());
    };
    // SAFETY: a program promises by registering memory that it is its own until it deregisters
    // it, and the only references to it are the program's. Where it breaks that promise, the
    // kernel's pinning keeps the pages, and a simulated device of this process looks before it
    // touches. That regions which overlap begin and end at multiples of 8 no program promises:
    // nothing here goes through a copy of the window, but a simulated device that is trusted with
    // the program's memory (`MEMORY`), to which the word at such an edge may be torn.
    Ok(unsafe { SharedBytes::new(start, memory.length) })
}

impl<P: HostPlatform> Objects<P> {
    pub(super) fn new(control: Control<P>, channel: Channel<P>, yields: bool) -> Self {
        Self {
            control,
            channel,
            pds: HashMap::new(),
            mrs: HashMap::new(),
            cqs: HashMap::new(),
            qps: HashMap::new(),
            ahs: HashMap::new(),
            yields,
            since_progress: 0,
        }
    }

    pub(super) fn execute(
        &mut self,
        command: Command,
        tokens: &Mutex<Tokens>,
    ) -> Result<Answer, Refused> {
        self.since_progress += 1;
        if self.since_progress >= BETWEEN_PROGRESS {
            self.since_progress = 0;
            // A device that is gone fails the command, too.
            let _ = self.control.progress();
        }
        let control = &mut self.control;
        Ok(match command {
            Command::QueryDevice => Answer::Device(control.query_device()),
            Command::QueryPort(port) => Answer::Port(control.query_port(port)?),
            Command::QueryGid(index) => Answer::Gid(control.query_gid(index)),
            Command::QueryPkey { port, index } => Answer::Pkey(control.query_pkey(port, index)?),
            Command::AllocPd => {
                let pd = control.alloc_pd()?;
                let number = pd.id();
                self.pds.insert(number, pd);
                Answer::Number(number)
            }
            Command::DeallocPd(number) => {
                let pd = take(&mut self.pds, "protection domain", number)?;
                let freed = control.dealloc_pd(pd);
                kept(freed, &mut self.pds, number)?;
                Answer::Done
            }
            Command::RegMr {
                pd,
                memory,
                iova,
                access,
            } => {
                let pd = find(&mut self.pds, "protection domain", pd)?;
                let mr = control.reg_mr_iova(pd, shared(memory, access)?, iova, access)?;
                let key = mr.lkey();
                self.mrs.insert(key, mr);
                Answer::Key(key)
            }
            Command::ReregMr(key, changes) => self.rereg_mr(key, changes)?,
            Command::DeregMr(key) => {
                let mr = take(&mut self.mrs, "memory region", key)?;
                let freed = control.dereg_mr(mr);
                kept(freed, &mut self.mrs, key)?;
                Answer::Done
            }
            Command::CreateCq {
                entries,
                vector,
                token,
            } => self.create_cq(entries, vector, token, tokens)?,
            Command::ResizeCq(number, entries) => {
                let cq = find(&mut self.cqs, "completion queue", number)?;
                let resized = control.resize_cq_control(cq, entries)?;
                Answer::CqResized {
                    entries: cq.entries(),
                    handover: resized.map(|resized| Box::new(resized) as Handover),
                }
            }
            Command::DestroyCq(number) => {
                let cq = take(&mut self.cqs, "completion queue", number)?;
                let destroyed = control.destroy_cq_control(cq);
                let destroyed = kept(destroyed, &mut self.cqs, number)?;
                lock(tokens).cqs.remove(&number);
                Answer::Handover(Box::new(destroyed))
            }
            Command::CreateQp(new) => self.create_qp(new, tokens)?,
            Command::ModifyQp(number, attr) => {
                let qp = find(&mut self.qps, "queue pair", number)?;
                control.modify_qp(&mut qp.control, &attr)?;
                Answer::Done
            }
            Command::QueryQp(number, mask) => {
                let qp = find(&mut self.qps, "queue pair", number)?;
                Answer::QueriedQp(Box::new(control.query_qp(&qp.control, mask)?))
            }
            Command::BeginReset(number, attr) => {
                let qp = find(&mut self.qps, "queue pair", number)?;
                control.check_reset(&qp.control, &attr)?;
                let resetting = control.begin_reset_qp(&mut qp.control)?;
                qp.resetting = Some(resetting);
                Answer::Done
            }
            Command::Reopen(number) => {
                let qp = find(&mut self.qps, "queue pair", number)?;
                let resetting = qp.resetting.take().ok_or(OUT_OF_ORDER)?;
                let reopened = control.reopen_qp(&mut qp.control, &resetting)?;
                qp.reopened = Some(reopened.clone());
                Answer::Handover(Box::new(reopened))
            }
            Command::FinishReset(number) => {
                let qp = find(&mut self.qps, "queue pair", number)?;
                let reopened = qp.reopened.take().ok_or(OUT_OF_ORDER)?;
                control.finish_reset_qp(&mut qp.control, reopened)?;
                Answer::Done
            }
            Command::DestroyQp(number) => {
                let qp = take(&mut self.qps, "queue pair", number)?;
                let destroyed = match control.destroy_qp_control(qp.control) {
                    Ok(destroyed) => destroyed,
                    Err((control, error)) => {
                        self.qps.insert(number, Qp::new(control));
                        return Err(error.into());
                    }
                };
                lock(tokens).qps.remove(&number);
                Answer::Handover(Box::new(destroyed))
            }
            Command::CreateAh(pd, path) => {
                let pd = find(&mut self.pds, "protection domain", pd)?;
                let ah = control.create_ah(pd, &path)?;
                let number = ah.number();
                self.ahs.insert(number, ah);
                Answer::Number(number)
            }
            Command::DestroyAh(number) => {
                let ah = take(&mut self.ahs, "address handle", number)?;
                let freed = control.destroy_ah(ah);
                kept(freed, &mut self.ahs, number)?;
                Answer::Done
            }
            Command::AttachMcast(number, group) => {
                let index = self.own_gid(group)?;
                let qp = find(&mut self.qps, "queue pair", number)?;
                self.control.attach_mcast(&qp.control, index, group)?;
                Answer::Done
            }
            Command::DetachMcast(number, group) => {
                let index = self.own_gid(group)?;
                let qp = find(&mut self.qps, "queue pair", number)?;
                self.control.detach_mcast(&qp.control, index, group)?;
                Answer::Done
            }
            // It is about no object, and waits without holding these.
            Command::Resolve(..) => {
                let why = "an address is not resolved here".to_owned();
                return Err(Refused::Unexpected(why));
            }
        })
    }

    fn rereg_mr(&mut self, key: u32, changes: MrChanges) -> Result<Answer, Refused> {
        let access = changes.access.unwrap_or(AccessFlags::empty());
        let memory = changes.memory.map(|memory| shared(memory, access));
        let memory = memory.transpose()?;
        let pd = match changes.pd {
            Some(pd) => Some(&*find(&mut self.pds, "protection domain", pd)?),
            None => None,
        };
        let change = MrChange {
            pd,
            access: changes.access,
            memory,
            ..MrChange::default()
        };
        let mr = take(&mut self.mrs, "memory region", key)?;
        match self.control.rereg_mr(mr, &change) {
            Ok(mr) => {
                let key = mr.lkey();
                self.mrs.insert(key, mr);
                Ok(Answer::Key(key))
            }
            Err(ReregError {
                error,
                mr: Some(mr),
            }) => {
                self.mrs.insert(key, mr);
                Err(error.into())
            }
            Err(ReregError { error, mr: None }) => Err(Refused::MrLost(error)),
        }
    }

    fn create_cq(
        &mut self,
        entries: u32,
        vector: u16,
        token: Token,
        tokens: &Mutex<Tokens>,
    ) -> Result<Answer, Refused> {
        let cq = self.control.create_cq_with(&CqInit {
            channel: Some(&self.channel),
            user_context: token.0,
            ..CqInit::new(entries, vector)
        })?;
        let (cq, ring) = cq.into_parts();
        let (number, entries) = (cq.number(), cq.entries());
        lock(tokens).cqs.insert(number, token);
        self.cqs.insert(number, cq);
        Ok(Answer::Cq {
            number,
            entries,
            rings: Box::new(PlatformCqRings::new(ring, self.yields)),
        })
    }

    fn create_qp(&mut self, new: NewQp, tokens: &Mutex<Tokens>) -> Result<Answer, Refused> {
        let pd = find(&mut self.pds, "protection domain", new.pd)?;
        let no_cq = |number| Refused::NoSuch {
            object: "completion queue",
            number,
        };
        let send_cq = self.cqs.get(&new.send_cq).ok_or(no_cq(new.send_cq))?;
        let recv_cq = self.cqs.get(&new.recv_cq).ok_or(no_cq(new.recv_cq))?;
        let mut init = QpInit::new(new.qp_type, send_cq, recv_cq, new.caps);
        init.signal_all = new.signal_all;
        let qp = self.control.create_qp(pd, &init)?;
        let (qp, send, recv) = qp.into_parts();
        let (number, caps) = (qp.number().get(), qp.caps());
        lock(tokens).qps.insert(number, new.token);
        self.qps.insert(number, Qp::new(qp));
        let is_datagram = new.qp_type.is_datagram();
        Ok(Answer::Qp {
            number,
            caps,
            rings: Box::new(PlatformQpRings::new(send, recv, is_datagram)),
        })
    }

    /// The own address that is in a group: a verbs program names none. The first of its family.
    fn own_gid(&self, group: IpAddr) -> Result<u8, Refused> {
        let own = (0..e810::GIDS as u8).find(|index| {
            let own = self.control.query_gid(*index);
            own.is_some_and(|own| own.gid.ip().is_ipv4() == group.is_ipv4())
        });
        own.ok_or(Refused::Driver(e810::Error::Invalid {
            what: "the port has no address of the multicast group's family",
        }))
    }
}

impl<P: HostPlatform> Qp<P> {
    const fn new(control: QpControl<P>) -> Self {
        Self {
            control,
            resetting: None,
            reopened: None,
        }
    }
}

const OUT_OF_ORDER: Refused = Refused::Driver(e810::Error::Invalid {
    what: "this step of a reset comes after another one",
});

/// What freeing gave; an object that was not freed goes back to its table.
fn kept<T, O>(
    freed: Result<O, (T, e810::Error)>,
    table: &mut HashMap<u32, T>,
    number: u32,
) -> Result<O, Refused> {
    freed.map_err(|(object, error)| {
        table.insert(number, object);
        error.into()
    })
}

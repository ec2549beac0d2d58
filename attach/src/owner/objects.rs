//! The objects of the control path, by number, and the commands about them.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ptr::NonNull;
use std::sync::Mutex;

use e810::{
    AccessFlags, Ah, Channel, Control, CqControl, CqGrant, CqInit, CqKey, Mr, MrChange, MrMemory,
    Pd, QpCaps, QpControl, QpGrant, QpInit, QpResetting, QpType, ReregError, SharedBytes,
};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Access, DmaError, ProgramBytes};

use super::memory::{LentFor, Reached};
use super::{MemoryOf, ProgramId, SlotsOf};
use crate::lock;
use crate::messages::{Answer, Command, CreateCq, CreateQp, Held, Memory, Refused, ReregMr, Token};

/// What events call completion queues and queue pairs, by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) cqs: HashMap<u32, CqName>,
    pub(super) qps: HashMap<u32, QpName>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CqName {
    pub(super) program: ProgramId,
    pub(super) token: Token,
    /// If the program polls it with slots of its own.
    pub(super) elsewhere: Option<CqKey>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct QpName {
    pub(super) program: ProgramId,
    pub(super) token: Token,
}

impl Names {
    /// A program is gone.
    pub(super) fn forget(&mut self, program: ProgramId) {
        self.cqs.retain(|_, name| name.program != program);
        self.qps.retain(|_, name| name.program != program);
    }
}

/// A queue pair, and its reset if one is under way.
#[derive(Debug)]
struct Qp<P: HostPlatform> {
    control: QpControl<P>,
    resetting: Option<QpResetting>,
    reopened: Option<e810::QpReopened>,
}

/// What a program has created.
#[derive(Debug)]
pub(super) struct Objects<P: HostPlatform> {
    program: ProgramId,
    slots: SlotsOf,
    memory: MemoryOf,
    pds: HashMap<u32, Pd>,
    /// By key.
    mrs: HashMap<u32, Mr<P>>,
    cqs: HashMap<u32, CqControl>,
    qps: HashMap<u32, Qp<P>>,
    ahs: HashMap<u32, Ah>,
    /// Numbers of destroyed queue pairs that the program's own slots have not forgotten.
    retired: HashSet<u32>,
    /// The queue pairs in each multicast group. No set is empty.
    groups: HashMap<IpAddr, HashSet<u32>>,
    reached: Reached,
}

/// The entry of a table with this number.
fn find<'a, T>(
    table: &'a mut HashMap<u32, T>,
    object: &'static str,
    number: u32,
) -> Result<&'a mut T, Refused> {
    table
        .get_mut(&number)
        .ok_or_else(|| Refused::no_such(object, number))
}

fn take<T>(table: &mut HashMap<u32, T>, object: &'static str, number: u32) -> Result<T, Refused> {
    table
        .remove(&number)
        .ok_or_else(|| Refused::no_such(object, number))
}

/// The program's memory, as the driver takes it.
fn lent(of: MemoryOf, memory: Memory, access: AccessFlags) -> Result<MrMemory, Refused> {
    let Memory { address, length } = memory;
    let not_accessible = e810::Error::Dma(DmaError::NotAccessible {
        address: address as u64,
        bytes: length,
        access: match access.contains(AccessFlags::LOCAL_WRITE) {
            true => Access::ReadWrite,
            false => Access::Read,
        },
    });
    // Nothing is at address 0; a region of no bytes there gets the error about its length.
    if address == 0 && length == 0 {
        return Err(e810::Error::Invalid {
            what: "a region has at least one byte",
        }
        .into());
    }
    let own = match of {
        MemoryOf::Owner => NonNull::new(address as *mut u8),
        MemoryOf::Program(program) if address != 0 => {
            return Ok(MrMemory::Program(ProgramBytes {
                program,
                address: address as u64,
                len: length,
            }));
        }
        MemoryOf::Program(_) | MemoryOf::Nobody => None,
    };
    let start = own.ok_or(not_accessible)?;
    // SAFETY: by registering memory a program promises that it owns the memory until it deregisters
    // it, and the only references to it are the program's. If the program breaks that promise, the
    // kernel's pinning keeps the pages, and a simulated device of this process checks before it
    // accesses them. No program promises that overlapping regions begin and end at multiples of 8.
    // Nothing here goes through a copy of the window, except a simulated device that is trusted
    // with the program's memory (`MEMORY`); the word at such an edge may be torn for it.
    Ok(MrMemory::Own(unsafe { SharedBytes::new(start, length) }))
}

impl<P: HostPlatform> Objects<P> {
    pub(super) fn new(program: ProgramId, slots: SlotsOf, memory: MemoryOf) -> Self {
        Self {
            program,
            slots,
            memory,
            pds: HashMap::new(),
            mrs: HashMap::new(),
            cqs: HashMap::new(),
            qps: HashMap::new(),
            ahs: HashMap::new(),
            retired: HashSet::new(),
            groups: HashMap::new(),
            reached: Reached::default(),
        }
    }

    pub(super) const fn program(&self) -> ProgramId {
        self.program
    }

    pub(super) fn held(&self) -> Held {
        Held {
            pds: self.pds.len(),
            mrs: self.mrs.len(),
            cqs: self.cqs.len(),
            qps: self.qps.len() + self.retired.len(),
            ahs: self.ahs.len(),
            groups: self.groups.len(),
            files: self.reached.count(),
            bytes: self.reached.bytes(),
            questions: 0,
        }
    }

    /// What the program has more of after this command.
    pub(super) fn more_by(&self, command: &Command) -> Held {
        let mut more = Held::default();
        let mut after = self.reached;
        match command {
            Command::AllocPd(_) => more.pds = 1,
            Command::RegMr(new) => {
                more.mrs = 1;
                after.register(new.memory.length as u64);
            }
            Command::ReregMr(asked) => {
                if let (Some(mr), Some(memory)) = (self.mrs.get(&asked.key), asked.memory) {
                    after.deregister(mr.len() as u64);
                    after.register(memory.length as u64);
                }
            }
            Command::CreateCq(_) => more.cqs = 1,
            Command::CreateQp(_) => more.qps = 1,
            Command::CreateAh(_) => more.ahs = 1,
            Command::AttachMcast(asked) if !self.groups.contains_key(&asked.group) => {
                more.groups = 1;
            }
            _ => {}
        }
        more.bytes = self.bytes_until(&after);
        more
    }

    fn bytes_until(&self, after: &Reached) -> u64 {
        after.bytes().saturating_sub(self.reached.bytes())
    }

    /// What it has more of when it lends one more file.
    pub(super) fn more_by_file(&self, lent_for: LentFor, bytes: u64) -> Held {
        let mut after = self.reached;
        after.lend(lent_for, bytes);
        Held {
            files: after.count() - self.reached.count(),
            bytes: self.bytes_until(&after),
            ..Held::default()
        }
    }

    /// The memory that the device reaches.
    pub(super) const fn reached(&mut self) -> &mut Reached {
        &mut self.reached
    }

    fn keep_mr(&mut self, key: u32, mr: Mr<P>) {
        self.reached.register(mr.len() as u64);
        self.mrs.insert(key, mr);
    }

    fn take_mr(&mut self, key: u32) -> Result<Mr<P>, Refused> {
        let mr = take(&mut self.mrs, "memory region", key)?;
        self.reached.deregister(mr.len() as u64);
        Ok(mr)
    }

    /// A queue pair is in no group any more.
    fn forget_groups(&mut self, qp: u32) {
        self.groups.retain(|_, members| {
            members.remove(&qp);
            !members.is_empty()
        });
    }

    pub(super) fn execute(
        &mut self,
        control: &mut Control<P>,
        channel: &Channel<P>,
        command: Command,
        names: &Mutex<Names>,
    ) -> Result<Answer, Refused> {
        Ok(match command {
            Command::QueryDevice(_) => Answer::QueryDevice(control.query_device()),
            Command::QueryPort(asked) => Answer::QueryPort(control.query_port(asked.port)?),
            Command::QueryGid(asked) => Answer::QueryGid(control.query_gid(asked.index)),
            Command::QueryPkey(asked) => {
                Answer::QueryPkey(control.query_pkey(asked.port, asked.index)?)
            }
            Command::AllocPd(_) => {
                let pd = control.alloc_pd()?;
                let number = pd.id();
                self.pds.insert(number, pd);
                Answer::AllocPd(number)
            }
            Command::DeallocPd(asked) => {
                let pd = take(&mut self.pds, "protection domain", asked.number)?;
                let freed = control.dealloc_pd(pd);
                Answer::DeallocPd(kept(freed, &mut self.pds, asked.number)?)
            }
            Command::RegMr(new) => {
                let pd = find(&mut self.pds, "protection domain", new.pd)?;
                let memory = lent(self.memory, new.memory, new.access)?;
                let mr = control.reg_mr_iova(pd, memory, new.iova, new.access);
                let mr = mr.map_err(Refused::of_new)?;
                let key = mr.lkey();
                self.keep_mr(key, mr);
                Answer::RegMr(key)
            }
            Command::ReregMr(asked) => Answer::ReregMr(self.rereg_mr(control, &asked)?),
            Command::DeregMr(asked) => {
                let mr = self.take_mr(asked.key)?;
                match control.dereg_mr(mr) {
                    Ok(_) => Answer::DeregMr(()),
                    Err((mr, error)) => {
                        self.keep_mr(asked.key, mr);
                        return Err(error.into());
                    }
                }
            }
            Command::CreateCq(new) => {
                Answer::CreateCq(self.create_cq(control, channel, &new, names)?)
            }
            Command::ResizeCq(asked) => {
                let cq = find(&mut self.cqs, "completion queue", asked.number)?;
                Answer::ResizeCq(control.resize_cq_control(cq, asked.place)?)
            }
            Command::DestroyCq(asked) => {
                let number = asked.number;
                let cq = take(&mut self.cqs, "completion queue", number)?;
                let destroyed = control.destroy_cq_control(cq);
                let destroyed = kept(destroyed, &mut self.cqs, number)?;
                lock(names).cqs.remove(&number);
                Answer::DestroyCq(destroyed)
            }
            Command::CreateQp(new) => Answer::CreateQp(self.create_qp(control, &new, names)?),
            Command::MayUse(asked) => Answer::MayUse(control.may_use(asked.place)),
            Command::ModifyQp(asked) => {
                let qp = find(&mut self.qps, "queue pair", asked.number)?;
                Answer::ModifyQp(control.modify_qp(&mut qp.control, &asked.attr)?)
            }
            Command::QueryQp(asked) => {
                let qp = find(&mut self.qps, "queue pair", asked.number)?;
                Answer::QueryQp(Box::new(control.query_qp(&qp.control, asked.mask)?))
            }
            Command::BeginReset(asked) => {
                let qp = find(&mut self.qps, "queue pair", asked.number)?;
                control.check_reset(&qp.control, &asked.attr)?;
                let resetting = control.begin_reset_qp(&mut qp.control)?;
                qp.resetting = Some(resetting);
                Answer::BeginReset(())
            }
            Command::Reopen(asked) => {
                let qp = find(&mut self.qps, "queue pair", asked.number)?;
                let resetting = qp.resetting.take().ok_or(OUT_OF_ORDER)?;
                let reopened = control.reopen_qp(&mut qp.control, &resetting)?;
                qp.reopened = Some(reopened.clone());
                Answer::Reopen(reopened)
            }
            Command::FinishReset(asked) => {
                let qp = find(&mut self.qps, "queue pair", asked.number)?;
                let reopened = qp.reopened.take().ok_or(OUT_OF_ORDER)?;
                Answer::FinishReset(control.finish_reset_qp(&mut qp.control, reopened)?)
            }
            Command::DestroyQp(asked) => {
                let number = asked.number;
                let qp = take(&mut self.qps, "queue pair", number)?;
                let destroyed = match control.destroy_qp_control(qp.control) {
                    Ok(destroyed) => destroyed,
                    Err((control, error)) => {
                        self.qps.insert(number, Qp::new(control));
                        return Err(error.into());
                    }
                };
                lock(names).qps.remove(&number);
                self.forget_groups(number);
                if self.slots == SlotsOf::Program {
                    self.retired.insert(number);
                }
                Answer::DestroyQp(destroyed)
            }
            Command::Forgotten(asked) => {
                if !self.retired.remove(&asked.number) {
                    return Err(Refused::no_such("destroyed queue pair", asked.number));
                }
                forgotten(control, asked.number);
                Answer::Forgotten(())
            }
            Command::CreateAh(new) => {
                let pd = find(&mut self.pds, "protection domain", new.pd)?;
                let ah = control.create_ah(pd, &new.path)?;
                let number = ah.number();
                self.ahs.insert(number, ah);
                Answer::CreateAh(number)
            }
            Command::DestroyAh(asked) => {
                let ah = take(&mut self.ahs, "address handle", asked.number)?;
                let freed = control.destroy_ah(ah);
                Answer::DestroyAh(kept(freed, &mut self.ahs, asked.number)?)
            }
            Command::AttachMcast(asked) => {
                let index = own_gid(control, asked.group)?;
                let qp = find(&mut self.qps, "queue pair", asked.qp)?;
                control.attach_mcast(&qp.control, index, asked.group)?;
                self.groups.entry(asked.group).or_default().insert(asked.qp);
                Answer::AttachMcast(())
            }
            Command::DetachMcast(asked) => {
                // Our addresses may have changed since it was attached.
                let qp = find(&mut self.qps, "queue pair", asked.qp)?;
                control.detach_mcast_anywhere(&qp.control, asked.group)?;
                if let Some(members) = self.groups.get_mut(&asked.group) {
                    members.remove(&asked.qp);
                    if members.is_empty() {
                        self.groups.remove(&asked.group);
                    }
                }
                Answer::DetachMcast(())
            }
            // It is about no object, and waits without this lock.
            Command::Resolve(asked) => return Err(Refused::unexpected(asked)),
            // The session has these: they come with files, or want no answer.
            Command::Lend(_)
            | Command::TakeBack(_)
            | Command::LendProcess(_)
            | Command::LendDoorbells(_)
            | Command::Wake(_) => {
                return Err(Refused::unexpected("a message of attached programs"));
            }
        })
    }

    fn rereg_mr(&mut self, control: &mut Control<P>, asked: &ReregMr) -> Result<u32, Refused> {
        let access = asked.access.unwrap_or(AccessFlags::empty());
        let memory = asked.memory.map(|memory| lent(self.memory, memory, access));
        let memory = memory.transpose()?;
        let pd = match asked.pd {
            Some(pd) => Some(&*find(&mut self.pds, "protection domain", pd)?),
            None => None,
        };
        let change = MrChange {
            pd,
            access: asked.access,
            memory,
            iova: asked.iova,
            ..MrChange::default()
        };
        let mr = take(&mut self.mrs, "memory region", asked.key)?;
        self.reached.deregister(mr.len() as u64);
        match control.rereg_mr(mr, &change) {
            Ok(mr) => {
                let key = mr.lkey();
                self.keep_mr(key, mr);
                Ok(key)
            }
            Err(ReregError {
                error,
                mr: Some(mr),
            }) => {
                self.keep_mr(asked.key, mr);
                Err(error.into())
            }
            Err(ReregError { error, mr: None }) => Err(Refused::mr_lost(error)),
        }
    }

    fn create_cq(
        &mut self,
        control: &mut Control<P>,
        channel: &Channel<P>,
        new: &CreateCq,
        names: &Mutex<Names>,
    ) -> Result<CqGrant, Refused> {
        let elsewhere = self.slots == SlotsOf::Program;
        let init = CqInit {
            channel: Some(channel),
            user_context: new.token.0,
            elsewhere,
            // The place says how many entries.
            ..CqInit::new(0, new.vector)
        };
        let (cq, granted) = control.create_cq_on_memory(&init, new.place)?;
        let name = CqName {
            program: self.program,
            token: new.token,
            elsewhere: elsewhere.then_some(cq.key()),
        };
        lock(names).cqs.insert(granted.number(), name);
        self.cqs.insert(granted.number(), cq);
        Ok(granted)
    }

    fn create_qp(
        &mut self,
        control: &mut Control<P>,
        new: &CreateQp,
        names: &Mutex<Names>,
    ) -> Result<(QpGrant, QpCaps), Refused> {
        // All management datagrams of the function go to the one of this type.
        if new.qp_type == QpType::Gsi {
            return Err(Refused::management());
        }
        let pd = find(&mut self.pds, "protection domain", new.pd)?;
        let cq = |number| {
            let cq = self.cqs.get(&number);
            cq.ok_or_else(|| Refused::no_such("completion queue", number))
        };
        let mut init = QpInit::new(new.qp_type, cq(new.send_cq)?, cq(new.recv_cq)?, new.caps);
        init.signal_all = new.signal_all;
        let (qp, granted) = control.create_qp_on_memory(pd, &init, new.place)?;
        let (number, caps) = (qp.number().get(), qp.caps());
        let name = QpName {
            program: self.program,
            token: new.token,
        };
        lock(names).qps.insert(number, name);
        self.qps.insert(number, Qp::new(qp));
        Ok((granted, caps))
    }

    /// Everything, in the order in which it can be destroyed.
    pub(super) fn all(&self) -> Vec<Object> {
        let qps = self.qps.keys().map(|number| Object::Qp(*number));
        let retired = self.retired.iter().map(|number| Object::Retired(*number));
        let ahs = self.ahs.keys().map(|number| Object::Ah(*number));
        let cqs = self.cqs.keys().map(|number| Object::Cq(*number));
        let mrs = self.mrs.keys().map(|key| Object::Mr(*key));
        let pds = self.pds.keys().map(|number| Object::Pd(*number));
        let all = qps
            .chain(retired)
            .chain(ahs)
            .chain(cqs)
            .chain(mrs)
            .chain(pds);
        all.collect()
    }

    /// After some were destroyed: whether nothing is left.
    pub(super) fn is_empty(&mut self) -> bool {
        self.groups.clear();
        // The files that it lends go after the last object.
        let objects = Held {
            files: 0,
            bytes: 0,
            ..self.held()
        };
        objects == Held::default()
    }

    /// Destroys one of them. It stays if the device does not give it up.
    pub(super) fn destroy(&mut self, control: &mut Control<P>, object: Object) {
        match object {
            Object::Qp(number) => {
                let left = self.qps.len();
                destroy(&mut self.qps, number, |qp| {
                    let destroyed = control.destroy_qp_control(qp.control);
                    destroyed
                        .map(drop)
                        .map_err(|(qp, error)| (Qp::new(qp), error))
                });
                if self.qps.len() < left {
                    forgotten(control, number);
                }
            }
            Object::Retired(number) => {
                self.retired.remove(&number);
                forgotten(control, number);
            }
            Object::Ah(number) => destroy(&mut self.ahs, number, |ah| control.destroy_ah(ah)),
            Object::Cq(number) => destroy(&mut self.cqs, number, |cq| {
                control.destroy_cq_control(cq).map(drop)
            }),
            Object::Mr(key) => {
                if let Ok(mr) = self.take_mr(key)
                    && let Err((mr, _)) = control.dereg_mr(mr)
                {
                    self.keep_mr(key, mr);
                }
            }
            Object::Pd(number) => destroy(&mut self.pds, number, |pd| control.dealloc_pd(pd)),
        }
    }
}

/// An object of a program, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Object {
    Qp(u32),
    Retired(u32),
    Ah(u32),
    Cq(u32),
    Mr(u32),
    Pd(u32),
}

/// Nobody has the number of a destroyed queue pair any more.
fn forgotten<P: HostPlatform>(control: &mut Control<P>, number: u32) {
    // One with slots of the owner's own is refused: those know by themselves.
    if let Some(number) = e810::Qpn::new(number) {
        let _ = control.forgotten(number);
    }
}

/// Destroys an object of a table; it goes back if it is not destroyed.
fn destroy<T>(
    table: &mut HashMap<u32, T>,
    number: u32,
    destroy: impl FnOnce(T) -> Result<(), (T, e810::Error)>,
) {
    if let Some(object) = table.remove(&number)
        && let Err((object, _)) = destroy(object)
    {
        table.insert(number, object);
    }
}

/// Our address that is in a group, because a verbs program names none: the first of its family.
fn own_gid<P: HostPlatform>(control: &Control<P>, group: IpAddr) -> Result<u8, Refused> {
    let own = (0..e810::GIDS as u8).find(|index| {
        let own = control.query_gid(*index);
        own.is_some_and(|own| own.gid.ip().is_ipv4() == group.is_ipv4())
    });
    Ok(own.ok_or(e810::Error::Invalid {
        what: "the port has no address of the multicast group's family",
    })?)
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

const OUT_OF_ORDER: e810::Error = e810::Error::Invalid {
    what: "this step of a reset comes after another one",
};

/// The result of freeing an object; one that was not freed goes back to its table.
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

//! The objects of the control path that a program has, by number.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use e810::{Ah, Control, CqControl, Mr, Pd, QpControl, QpResetting};
use e810_backends::interrupts::HostPlatform;
use e810_node::connections::Has;

use super::memory::{LentFor, Reached};
use super::{MemoryOf, ProgramId, SlotsOf};
use crate::messages::{Command, Held, Refused};

/// A queue pair, and its reset if one is under way.
#[derive(Debug)]
pub(super) struct Qp<P: HostPlatform> {
    pub(super) control: QpControl<P>,
    pub(super) resetting: Option<QpResetting>,
    pub(super) reopened: Option<e810::QpReopened>,
}

/// What a program has created.
#[derive(Debug)]
pub(super) struct Objects<P: HostPlatform> {
    pub(super) program: ProgramId,
    pub(super) slots: SlotsOf,
    pub(super) memory: MemoryOf,
    pub(super) pds: HashMap<u32, Pd>,
    /// By key.
    pub(super) mrs: HashMap<u32, Mr<P>>,
    pub(super) cqs: HashMap<u32, CqControl>,
    pub(super) qps: HashMap<u32, Qp<P>>,
    pub(super) ahs: HashMap<u32, Ah>,
    /// Numbers of destroyed queue pairs that the program's own slots have not forgotten.
    pub(super) retired: HashSet<u32>,
    /// The queue pairs in each multicast group. No set is empty.
    pub(super) groups: HashMap<IpAddr, HashSet<u32>>,
    pub(super) reached: Reached,
    /// Connections and listeners.
    pub(super) meets: Has,
}

/// The entry of a table with this number.
pub(super) fn find<'a, T>(
    table: &'a mut HashMap<u32, T>,
    object: &'static str,
    number: u32,
) -> Result<&'a mut T, Refused> {
    table
        .get_mut(&number)
        .ok_or_else(|| Refused::no_such(object, number))
}

pub(super) fn take<T>(
    table: &mut HashMap<u32, T>,
    object: &'static str,
    number: u32,
) -> Result<T, Refused> {
    table
        .remove(&number)
        .ok_or_else(|| Refused::no_such(object, number))
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
            meets: Has::default(),
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
            connections: self.meets.connections,
            listeners: self.meets.listeners,
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

    pub(super) fn keep_mr(&mut self, key: u32, mr: Mr<P>) {
        self.reached.register(mr.len() as u64);
        self.mrs.insert(key, mr);
    }

    pub(super) fn take_mr(&mut self, key: u32) -> Result<Mr<P>, Refused> {
        let mr = take(&mut self.mrs, "memory region", key)?;
        self.reached.deregister(mr.len() as u64);
        Ok(mr)
    }

    /// A queue pair is in no group any more.
    pub(super) fn forget_groups(&mut self, qp: u32) {
        self.groups.retain(|_, members| {
            members.remove(&qp);
            !members.is_empty()
        });
    }

    /// The number of a destroyed queue pair may be given to another one; false if it is not one.
    pub(super) fn forget_number(&mut self, control: &mut Control<P>, number: u32) -> bool {
        let is_retired = self.retired.remove(&number);
        if is_retired {
            forgotten(control, number);
        }
        is_retired
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
                let _ = self.forget_number(control, number);
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
pub(super) fn forgotten<P: HostPlatform>(control: &mut Control<P>, number: u32) {
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

impl<P: HostPlatform> Qp<P> {
    pub(super) const fn new(control: QpControl<P>) -> Self {
        Self {
            control,
            resetting: None,
            reopened: None,
        }
    }
}

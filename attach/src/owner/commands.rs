//! How a program's commands are carried out on its objects.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ptr::NonNull;
use std::sync::Mutex;

use e810::{
    AccessFlags, Channel, Control, CqGrant, CqInit, MrChange, MrMemory, QpCaps, QpGrant, QpInit,
    QpType, ReregError, SharedBytes,
};
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Access, DmaError, ProgramBytes};

use super::names::{CqName, Names, QpName};
use super::objects::{Objects, Qp, find, take};
use super::{MemoryOf, SlotsOf};
use crate::lock;
use crate::messages::{Answer, Command, CreateCq, CreateQp, GidTable, Memory, Refused, ReregMr};

/// The bit of a Q_Key that is not for programs.
const PRIVILEGED: u32 = 1 << 31;
const OUT_OF_ORDER: e810::Error = e810::Error::Invalid {
    what: "this step of a reset comes after another one",
};

impl<P: HostPlatform> Objects<P> {
    /// # Errors
    /// Of the device or the driver; what the command names is not the program's.
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
            Command::QueryGids(_) => {
                Answer::QueryGids(GidTable::of(|index| control.query_gid(index)))
            }
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
                // With one a program could send management datagrams in the function's name. It is
                // refused as the kernel refuses it (cm-path 1.1).
                let qkey = asked.attr.qkey.unwrap_or_default();
                if self.slots == SlotsOf::Program && qkey & PRIVILEGED != 0 {
                    return Err(Refused::privileged_qkey(qkey));
                }
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
                if !self.forget_number(control, asked.number) {
                    return Err(Refused::no_such("destroyed queue pair", asked.number));
                }
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
            | Command::Wake(_)
            | Command::Connecting(_) => {
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

//! Queue pair 1, and datagrams through it.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use e810::{
    AccessFlags, Ah, Control, Cq, Data, Error, GSI_QKEY, MacAddr, Mr, Notify, Op, Path, Pd,
    Platform, PostError, Qp, QpCaps, QpInit, Qpn, RecvWr, SendFlags, SendWr, Sge, WcFlags,
    WcStatus,
};
use e810_cm::machine::Origin;
use e810_cm::{Mad, ip};
use e810_hal::{Ns, SharedBytes};

/// Sends under way at once.
const SENDS: usize = 64;
/// Address handles that are kept, of those of the function: programs have the others.
const HANDLES: usize = 16;
/// An address handle that was not used for as long is given back: it keeps an address of the
/// function in use.
const IDLE: Ns = Ns::from_secs(2);
/// Bytes of a receive: the GRH area and a datagram, on a multiple of a cache line.
const RECEIVE: usize = 320;
const GRH: usize = 40;
const MAD: usize = size_of::<Mad>();
/// In the `wr_id` of a send. Its low half is the slot, the rest the handle.
const IS_SEND: u64 = 1 << 63;

/// An address handle, for as long as it is of use.
#[derive(Debug)]
struct Handle {
    path: Path,
    ah: Ah,
    in_flight: u16,
    /// When it was used last.
    used: Ns,
}

/// What goes wrong with queue pair 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GsiError {
    /// As many datagrams as can be are under way, or as many ways are in use.
    #[error("all sends of queue pair 1 are under way, or all its address handles in use")]
    Busy,
    /// The device, or a path that cannot be.
    #[error(transparent)]
    Control(#[from] Error),
    /// The queue pair has failed: nothing comes any more.
    #[error("queue pair 1 has failed")]
    Failed,
    /// The queue pair, as after its failure.
    #[error("queue pair 1: {0}")]
    Post(#[from] PostError),
}

type Result<T> = core::result::Result<T, GsiError>;

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Its bytes; zeros where it is shorter.
    pub mad: Mad,
    /// Its length, without what is in front of it.
    pub len: usize,
    /// Where it came from.
    pub origin: Origin,
    /// The way back to whoever sent the frame.
    pub back: Path,
}

/// Queue pair 1 of a function.
#[derive(Debug)]
pub struct Gsi<P: Platform> {
    pd: Pd,
    mr: Mr<P>,
    memory: SharedBytes,
    cq: Cq<P>,
    qp: Qp<P>,
    receives: u16,
    free: heapless::Vec<u16, SENDS>,
    handles: heapless::Vec<Option<Handle>, HANDLES>,
    /// An event comes with the next completion.
    is_armed: bool,
    /// Datagrams whose destination is no address of ours, or that came without a header.
    strangers: u64,
}

impl<P: Platform> Gsi<P> {
    /// Bytes of memory for a number of receives.
    #[must_use]
    pub const fn bytes(receives: u16) -> usize {
        receives as usize * RECEIVE + SENDS * MAD
    }

    /// Makes queue pair 1, which takes datagrams from now on: as many at once as there is memory
    /// for ([`bytes`](Self::bytes)); those beyond are lost.
    ///
    /// # Errors
    /// The device's refusal, or a queue pair 1 that exists; everything made until then is
    /// destroyed.
    pub fn open(control: &mut Control<P>, memory: SharedBytes, vector: u16) -> Result<Self> {
        let room = memory.len().saturating_sub(SENDS * MAD) / RECEIVE;
        let receives = room.min(16_384) as u16;
        if receives == 0 {
            return Err(Error::Invalid {
                what: "no memory for receives of queue pair 1: Gsi::bytes says how much one needs",
            }
            .into());
        }
        let pd = control.alloc_pd()?;
        let mr = match control.reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE) {
            Ok(mr) => mr,
            Err(error) => {
                let _ = control.dealloc_pd(pd);
                return Err(error.into());
            }
        };
        let entries = u32::from(receives).saturating_add(SENDS as u32);
        let cq = match control.create_cq(entries, vector) {
            Ok(cq) => cq,
            Err(error) => {
                let _ = control.dereg_mr(mr);
                let _ = control.dealloc_pd(pd);
                return Err(error.into());
            }
        };
        let caps = QpCaps {
            max_send_wr: SENDS as u32,
            max_recv_wr: receives.into(),
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        };
        let qp = match control.create_qp(&pd, &QpInit::gsi(&cq, &cq, caps)) {
            Ok(qp) => qp,
            Err(error) => {
                let _ = control.destroy_cq(cq);
                let _ = control.dereg_mr(mr);
                let _ = control.dealloc_pd(pd);
                return Err(error.into());
            }
        };
        let mut free = heapless::Vec::new();
        for slot in 0..SENDS as u16 {
            let _ = free.push(slot);
        }
        let mut handles = heapless::Vec::new();
        for _ in 0..HANDLES {
            let _ = handles.push(None);
        }
        let mut gsi = Self {
            pd,
            mr,
            memory,
            cq,
            qp,
            receives,
            free,
            handles,
            is_armed: false,
            strangers: 0,
        };
        match gsi.start(control) {
            Ok(()) => Ok(gsi),
            Err(error) => {
                let _ = gsi.close(control);
                Err(error)
            }
        }
    }

    fn start(&mut self, control: &mut Control<P>) -> Result<()> {
        self.qp.start_datagrams(control, GSI_QKEY)?;
        for slot in 0..self.receives {
            self.post(slot)?;
        }
        Ok(())
    }

    /// Posts the receive of a slot.
    fn post(&mut self, slot: u16) -> Result<()> {
        let offset = u64::from(slot).wrapping_mul(RECEIVE as u64);
        let sges = [Sge {
            addr: self.mr.address().wrapping_add(offset),
            length: (GRH + MAD) as u32,
            lkey: self.mr.lkey(),
        }];
        let receive = RecvWr {
            wr_id: slot.into(),
            sges: &sges,
        };
        let posted = self.qp.post_recv(&[receive]);
        posted.map_err(|refused| refused.error.into())
    }

    /// Destroys it. Datagrams that were not received are lost.
    ///
    /// # Errors
    /// The device's refusal. What it still has is left behind.
    pub fn close(self, control: &mut Control<P>) -> Result<()> {
        let Self {
            pd,
            mr,
            mut cq,
            qp,
            mut handles,
            ..
        } = self;
        let mut first = Ok(());
        let mut note = |result: e810::Result<()>| first = first.and(result);
        note(control.destroy_qp(qp).map(drop).map_err(|(_, e)| e));
        cq.forget_gone();
        // The iterator of its values could panic.
        while let Some(place) = handles.pop() {
            if let Some(handle) = place {
                note(control.destroy_ah(handle.ah).map_err(|(_, e)| e));
            }
        }
        note(control.destroy_cq(cq).map_err(|(_, e)| e));
        note(control.dereg_mr(mr).map_err(|(_, e)| e));
        note(control.dealloc_pd(pd).map_err(|(_, e)| e));
        Ok(first?)
    }

    /// Asks for an event with the next datagram, before a program sleeps. Returns whether there is
    /// something to take now: after `true`, take it before you sleep. It costs a doorbell only
    /// where something was taken since the last time.
    #[must_use = "when there is something to take, take it before you sleep"]
    pub fn arm(&mut self) -> bool {
        if self.is_armed {
            return false;
        }
        let is_ready = self.cq.arm(Notify::Any);
        self.is_armed = !is_ready;
        is_ready
    }

    /// Datagrams dropped because they came to no address of ours.
    #[must_use]
    pub const fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Whether a datagram can be sent now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Sends a datagram to queue pair 1 at the end of a path.
    ///
    /// # Errors
    /// [`GsiError`].
    pub fn send(
        &mut self,
        control: &mut Control<P>,
        path: &Path,
        mad: &Mad,
        now: Ns,
    ) -> Result<()> {
        let slot = *self.free.last().ok_or(GsiError::Busy)?;
        let handle = self.handle(control, path, now)?;
        let Some(Some(kept)) = self.handles.get_mut(handle) else {
            return Err(GsiError::Busy);
        };
        let qpn = Qpn::new(1).ok_or(GsiError::Busy)?;
        let to = kept.ah.target(qpn, GSI_QKEY);
        let offset = usize::from(self.receives)
            .wrapping_mul(RECEIVE)
            .wrapping_add(usize::from(slot).wrapping_mul(MAD));
        let out_of_range = Error::Invalid {
            what: "the memory of queue pair 1 is smaller than it was",
        };
        self.memory.write(offset, mad).map_err(|_| out_of_range)?;
        let sges = [Sge {
            addr: self.mr.address().wrapping_add(offset as u64),
            length: MAD as u32,
            lkey: self.mr.lkey(),
        }];
        let request = SendWr {
            wr_id: IS_SEND | (handle as u64) << 16 | u64::from(slot),
            op: Op::UdSend {
                data: Data::Sges(&sges),
                imm: None,
                to,
            },
            flags: SendFlags::SIGNALED,
        };
        let posted = self.qp.post_send(&[request]);
        posted.map_err(|refused| refused.error)?;
        kept.in_flight = kept.in_flight.saturating_add(1);
        kept.used = now;
        self.free.pop();
        Ok(())
    }

    /// The address handle of a path: one that is there, or a new one in place of the one that was
    /// not used for longest.
    fn handle(&mut self, control: &mut Control<P>, path: &Path, now: Ns) -> Result<usize> {
        // A connection has a flow label of its own, which names no other way: with it each would
        // take a handle, and two commands.
        let path = Path {
            flow_label: 0,
            ..*path
        };
        let mut all = self.handles.iter();
        if let Some(index) = all.position(|kept| kept.as_ref().is_some_and(|it| it.path == path)) {
            return Ok(index);
        }
        loop {
            let Some(index) = self.handles.iter().position(Option::is_none) else {
                if self.give_handle_back(control, now)? {
                    continue;
                }
                return Err(GsiError::Busy);
            };
            let ah = match control.create_ah(&self.pd, &path) {
                Ok(ah) => ah,
                // Programs of the function may have the others.
                Err(error @ Error::Exhausted { .. }) => {
                    let is_any = self.handles.iter().any(Option::is_some);
                    if self.give_handle_back(control, now)? {
                        continue;
                    }
                    return Err(if is_any { GsiError::Busy } else { error.into() });
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(place) = self.handles.get_mut(index) {
                *place = Some(Handle {
                    path,
                    ah,
                    in_flight: 0,
                    used: Ns::ZERO,
                });
            }
            return Ok(index);
        }
    }

    /// Destroys the address handle that was not used for longest, if one is not in use. One that the
    /// device refuses to destroy counts as used now, and has its turn again.
    fn give_handle_back(&mut self, control: &mut Control<P>, now: Ns) -> Result<bool> {
        let idle = self.handles.iter_mut().filter(|place| {
            let kept = place.as_ref();
            kept.is_some_and(|kept| kept.in_flight == 0)
        });
        let oldest = idle.min_by_key(|place| place.as_ref().map(|kept| kept.used));
        let Some((place, kept)) = oldest.and_then(|place| place.take().map(|kept| (place, kept)))
        else {
            return Ok(false);
        };
        if let Err((ah, error)) = control.destroy_ah(kept.ah) {
            *place = Some(Handle {
                ah,
                used: now,
                ..kept
            });
            return Err(error.into());
        }
        Ok(true)
    }

    /// When an address handle is to be given back that was not used for a while.
    pub(crate) fn deadline(&self) -> Option<Ns> {
        let idle = self
            .handles
            .iter()
            .flatten()
            .filter(|kept| kept.in_flight == 0);
        Some(idle.map(|kept| kept.used).min()? + IDLE)
    }

    /// Gives address handles back that were not used for a while.
    pub(crate) fn tidy(&mut self, control: &mut Control<P>, now: Ns) {
        while self.deadline().is_some_and(|at| at <= now) {
            // One that is refused has its turn again.
            let _ = self.give_handle_back(control, now);
        }
    }

    /// Whether datagrams are on their way to the wire, as far as [`receive`](Self::receive) has seen.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        let mut handles = self.handles.iter().flatten();
        handles.any(|kept| kept.in_flight > 0)
    }

    /// The next datagram that has come; also takes note of sends that are done.
    ///
    /// # Errors
    /// A receive that the queue pair gives back without a datagram, or does not take again, as
    /// after a failure.
    pub fn receive(&mut self, control: &Control<P>) -> Result<Option<Received>> {
        while let Some((wc, sender)) = self.cq.poll_with_sender() {
            self.is_armed = false;
            if wc.wr_id & IS_SEND != 0 {
                let slot = wc.wr_id as u16;
                let handle = (wc.wr_id >> 16) as u16;
                if let Some(Some(kept)) = self.handles.get_mut(usize::from(handle)) {
                    kept.in_flight = kept.in_flight.saturating_sub(1);
                }
                let _ = self.free.push(slot);
                continue;
            }
            if wc.status != WcStatus::Success {
                return Err(GsiError::Failed);
            }
            let slot = wc.wr_id as u16;
            let mut bytes = [0; GRH + MAD];
            let offset = usize::from(slot).wrapping_mul(RECEIVE);
            let read = self.memory.read(offset, &mut bytes);
            self.post(slot)?;
            let (area, mad) = bytes.split_at(GRH);
            let found = sender
                .filter(|_| read.is_ok())
                .and_then(|sender| origin(control, area, wc.flags, &sender));
            let Some((origin, back)) = found else {
                self.strangers = self.strangers.wrapping_add(1);
                continue;
            };
            let Some(mad) = mad.first_chunk() else {
                continue;
            };
            return Ok(Some(Received {
                mad: *mad,
                len: (wc.byte_len as usize).saturating_sub(GRH),
                origin,
                back,
            }));
        }
        Ok(None)
    }
}

/// Where a datagram came from, and the way back.
fn origin<P: Platform>(
    control: &Control<P>,
    area: &[u8],
    flags: WcFlags,
    sender: &e810::Sender,
) -> Option<(Origin, Path)> {
    let area: &[u8; GRH] = area.first_chunk()?;
    let own = if flags.contains(WcFlags::IPV4) {
        let last: [u8; 4] = *area.last_chunk()?;
        IpAddr::V4(Ipv4Addr::from(last))
    } else {
        let last: [u8; 16] = *area.last_chunk()?;
        IpAddr::V6(Ipv6Addr::from(last))
    };
    let vlan = sender.vlan();
    let index = control.find_gid(own, vlan)?;
    let back = Path::to_sender(index, area, flags, sender)?;
    let origin = Origin {
        remote: ip::gid(back.destination),
        local: ip::gid(own),
        mac: MacAddr(sender.mac),
        vlan,
        flow_label: back.flow_label,
        traffic_class: back.traffic_class,
    };
    Some((origin, back))
}

//! The objects of one side: a device, queue pairs on one CQ, and memory.

use std::array::from_fn;

use anyhow::{Context, Result, bail, ensure};
use e810::{
    AccessFlags, Control, Cq, Data, EventSet, Mr, Op as Request, Path, Pd, Qp, QpAttr, QpCaps,
    QpInit, RecvWr, Remote, SendFlags, SendWr, Sge, Wc, WcOpcode,
};
use e810_backends::buffer::Buffer;
use e810_backends::interrupts::HostPlatform;
use e810_hal::{Ns, SharedBytes};

use super::Plan;
use crate::measure::attend::Attended;
use crate::measure::op::Op;
use crate::measure::payload::{self, Direction};
use crate::measure::pingpong::{Endpoint, succeeded};
use crate::monitor::Tap;

/// Q_Key: nothing here is a datagram.
const NO_QKEY: u32 = 0;

/// One side.
#[derive(Debug)]
pub struct End<P: HostPlatform> {
    pub(super) device: Attended<P>,
    pd: Pd,
    cq: Cq<P>,
    qps: Vec<Qp<P>>,
    /// Places in `qps` by queue pair number.
    index: Vec<(u32, usize)>,
    mr: Mr<P>,
    buffer: Buffer,
    /// Bytes of a place.
    stride: usize,
    places: usize,
    there: Vec<Endpoint>,
    scratch: [Vec<u8>; 2],
}

/// What a completion was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completed {
    /// A request, and all before it, up to number `upto`.
    Sent { qp: usize, upto: u64 },
    /// A message.
    Received { qp: usize, bytes: u32 },
}

/// Messages to post.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) qp: usize,
    pub(super) op: Op,
    /// Number of the first.
    pub(super) from: u64,
    pub(super) count: u32,
    pub(super) size: u32,
}

impl<P: HostPlatform> End<P> {
    /// Makes the objects that `plan` takes on a ready device, at which others look
    /// through `tap`.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(
        platform: P,
        mut control: Control<P>,
        events: EventSet<P>,
        plan: &Plan,
        tap: Option<Tap>,
    ) -> Result<Self> {
        let stride = plan.largest() as usize;
        let places = plan.places();
        // First what is sent, then where it arrives.
        let buffer = platform.payload(stride * places * 2)?;
        let pd = control.alloc_pd()?;
        let qps = u32::try_from(plan.qps)?;
        // Sends and receives of each, and one over, as a ring is never full.
        let mut cq = control
            .create_cq(qps * plan.depth * 2 + 1, 0)
            .context("--qps and --depth")?;
        let access =
            AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        let mr = control.reg_mr(&pd, buffer.bytes(), access)?;
        let caps = QpCaps {
            max_send_wr: plan.depth,
            max_recv_wr: plan.depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: plan.inline,
        };
        let init = QpInit {
            tuning: Some(plan.tuning),
            ..QpInit::rc(&cq, &cq, caps)
        };
        let make = |_| {
            control
                .create_qp(&pd, &init)
                .context("--qps, --depth, --inline")
        };
        let qps: Vec<Qp<P>> = (0..plan.qps).map(make).collect::<Result<_>>()?;
        let mut index: Vec<_> = (0..)
            .zip(&qps)
            .map(|(i, qp)| (qp.number().get(), i))
            .collect();
        index.sort_unstable();
        Ok(Self {
            device: Attended::new(platform, control, events, &mut cq, plan.waits, tap)?,
            pd,
            cq,
            qps,
            index,
            mr,
            buffer,
            stride,
            places,
            there: Vec::new(),
            scratch: [vec![0; stride], vec![0; stride]],
        })
    }
}

impl<P: HostPlatform> End<P> {
    /// The control path of its device.
    pub const fn control(&mut self) -> &mut Control<P> {
        &mut self.device.control
    }

    /// What the peer needs to know of each queue pair.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |qp: &Qp<P>| Endpoint {
            qpn: qp.number(),
            psn: 0x10_0000 | qp.number().get(),
            qkey: NO_QKEY,
            address: self.mr.address(),
            rkey: self.mr.rkey(),
        };
        self.qps.iter().map(endpoint).collect()
    }

    /// Connects each queue pair with the peer's of the same place.
    ///
    /// # Errors
    /// The transition that failed.
    pub fn connect(&mut self, there: Vec<Endpoint>, path: Path, mtu: e810::Mtu) -> Result<()> {
        let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
        ensure!(there.len() == self.qps.len(), "queue pairs without a peer");
        for (peer, qp) in there.iter().zip(&mut self.qps) {
            let psn = 0x10_0000 | qp.number().get();
            for attr in [
                QpAttr::to_init(access),
                QpAttr::to_rtr(path, mtu, peer.qpn, peer.psn),
                QpAttr::to_rts(psn),
            ] {
                self.device.control.modify_qp(qp, &attr)?;
            }
        }
        self.there = there;
        Ok(())
    }

    pub(super) fn outgoing(&self, place: usize, size: u32) -> Result<SharedBytes> {
        let window = self
            .buffer
            .bytes()
            .window(place * self.stride, size as usize);
        Ok(window?)
    }

    pub(super) fn incoming(&self, place: usize, size: u32) -> Result<SharedBytes> {
        self.outgoing(self.places + place, size)
    }

    /// Puts payload where it is sent from.
    pub(super) fn fill(
        &mut self,
        plan: &Plan,
        place: usize,
        size: u32,
        content: u64,
    ) -> Result<()> {
        let memory = self.outgoing(place, size)?;
        let [bytes, _] = &mut self.scratch;
        let bytes = bytes.get_mut(..size as usize).context("a larger message")?;
        payload::fill(bytes, plan.seed ^ u64::from(size), content, Direction::Ask);
        Ok(memory.write(0, bytes)?)
    }

    /// Wipes a place, so that what is found there has arrived.
    pub(super) fn wipe(&mut self, place: usize, size: u32) -> Result<()> {
        let memory = self.incoming(place, size)?;
        let [bytes, _] = &mut self.scratch;
        let bytes = bytes.get_mut(..size as usize).context("a larger message")?;
        bytes.fill(0);
        Ok(memory.write(0, bytes)?)
    }

    /// Whether what has arrived is as it was sent, but for the last byte if that
    /// counts messages.
    pub(super) fn is_right(
        &mut self,
        plan: &Plan,
        place: usize,
        size: u32,
        content: u64,
        last: Option<u8>,
    ) -> Result<bool> {
        self.device.platform.from_device();
        let memory = self.incoming(place, size)?;
        let [expected, got] = &mut self.scratch;
        let length = size as usize;
        let (expected, got) = (expected.get_mut(..length), got.get_mut(..length));
        let (Some(expected), Some(got)) = (expected, got) else {
            bail!("a larger message");
        };
        payload::fill(
            expected,
            plan.seed ^ u64::from(size),
            content,
            Direction::Ask,
        );
        if let (Some(last), Some(byte)) = (last, expected.last_mut()) {
            *byte = last;
        }
        memory.read(0, got)?;
        Ok(expected == got)
    }

    pub(super) fn post_receive(&mut self, qp: usize, place: usize, size: u32) -> Result<()> {
        let sges = [self.sge(self.incoming(place, size)?)];
        let qp = self.qps.get_mut(qp).context("no such queue pair")?;
        qp.post_recv(&[RecvWr {
            wr_id: 0,
            sges: &sges,
        }])?;
        Ok(())
    }

    fn sge(&self, memory: SharedBytes) -> Sge {
        Sge {
            addr: memory.address(),
            // A place is as long as a message, 32 bits.
            length: memory.len() as u32,
            lkey: self.mr.lkey(),
        }
    }

    /// Posts messages with one doorbell; the last one is signaled.
    pub(super) fn post(&mut self, plan: &Plan, post: Post) -> Result<()> {
        if post.count == 1 {
            return self.post_array::<1>(plan, post);
        }
        self.post_array::<{ MAX_POST_LIST as usize }>(plan, post)
    }

    fn post_array<const N: usize>(&mut self, plan: &Plan, post: Post) -> Result<()> {
        let Post {
            qp,
            op,
            from,
            count,
            size,
        } = post;
        let there = *self.there.get(qp).context("not connected")?;
        let place = |i: usize| plan.place(qp, from + i as u64);
        let is_inline = op != Op::Read && size <= plan.inline;
        let mut sges = [[Sge {
            addr: 0,
            length: 0,
            lkey: 0,
        }]; N];
        let mut inline = Vec::new();
        for (i, sge) in sges.iter_mut().enumerate().take(count as usize) {
            let memory = match op {
                Op::Read => self.incoming(place(i), size)?,
                Op::Send | Op::Write => self.outgoing(place(i), size)?,
            };
            *sge = [self.sge(memory)];
            if is_inline {
                let mut bytes = vec![0; size as usize];
                memory.read(0, &mut bytes)?;
                inline.push(bytes);
            }
        }
        let pieces: [[&[u8]; 1]; N] = from_fn(|i| [inline.get(i).map_or(&[][..], Vec::as_slice)]);
        let request = |i: usize| {
            let none: &[Sge] = &[];
            let sges = sges.get(i).map_or(none, |sge| sge.as_slice());
            let data = match (is_inline, pieces.get(i)) {
                (true, Some(pieces)) => Data::Inline(pieces),
                _ => Data::Sges(sges),
            };
            // Both sides have the same places, of the same length.
            let remote = |offset: usize| Remote {
                addr: there.address.wrapping_add((offset * self.stride) as u64),
                rkey: there.rkey,
            };
            SendWr {
                wr_id: from + i as u64 + 1,
                op: match op {
                    Op::Send => Request::Send { data, imm: None },
                    Op::Write => Request::Write {
                        data,
                        remote: remote(self.places + place(i)),
                        imm: None,
                    },
                    Op::Read => Request::Read {
                        into: sges,
                        remote: remote(place(i)),
                    },
                },
                flags: match i + 1 == count as usize {
                    true => SendFlags::SIGNALED,
                    false => SendFlags::empty(),
                },
            }
        };
        let requests: [SendWr<'_>; N] = from_fn(request);
        let requests = requests.get(..count as usize).context("a longer list")?;
        let qp = self.qps.get_mut(qp).context("no such queue pair")?;
        qp.post_send(requests)?;
        Ok(())
    }

    /// One look at the completions, and where there is none at the events and
    /// the deferred work; says how many there were.
    pub(super) fn turn(&mut self, take: &mut dyn FnMut(Completed)) -> Result<usize> {
        let mut wcs = [Wc::default(); 32];
        let polled = self.device.poll(&mut self.cq, &mut wcs)?;
        for wc in wcs.iter().take(polled) {
            succeeded(wc)?;
            let found = self
                .index
                .binary_search_by_key(&wc.qp_num, |(number, _)| *number);
            let found = found.ok().and_then(|at| self.index.get(at));
            let (_, qp) = *found.context("a completion of no queue pair")?;
            take(match wc.opcode {
                WcOpcode::Recv => Completed::Received {
                    qp,
                    bytes: wc.byte_len,
                },
                _ => Completed::Sent { qp, upto: wc.wr_id },
            });
        }
        Ok(polled)
    }

    /// Interrupts taken so far.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.device.interrupts()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Ns {
        self.device.now()
    }

    /// An empty turn, beside another end.
    pub fn relax(&self) {
        self.device.rest();
    }

    /// An empty turn of the only end.
    ///
    /// # Errors
    /// The host cannot wait.
    pub fn sleep(&mut self) -> Result<()> {
        self.device.sleep()
    }

    /// Destroys everything in order and shuts the device down.
    ///
    /// # Errors
    /// The first step that failed; what the device may still write is leaked.
    pub fn close(mut self) -> Result<()> {
        let control = &mut self.device.control;
        for qp in self.qps {
            control.destroy_qp(qp).map_err(|(_, error)| error)?;
        }
        control.destroy_cq(self.cq).map_err(|(_, error)| error)?;
        control.dereg_mr(self.mr).map_err(|(_, error)| error)?;
        control.dealloc_pd(self.pd).map_err(|(_, error)| error)?;
        self.device.shut_down()
    }
}

/// Requests of a list at most.
pub const MAX_POST_LIST: u32 = 64;

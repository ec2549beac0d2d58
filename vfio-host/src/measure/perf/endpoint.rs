//! One side of `perf`: messages posted in lists, placed in memory, and verified.

use std::array::from_fn;

use anyhow::{Context, Result, bail};
use e810::{
    AccessFlags, Control, Data, EventSet, Op as Request, QpType, RecvWr, Remote, SendFlags, SendWr,
    Sge, Wc, WcOpcode,
};
use e810_backends::interrupts::HostPlatform;
use e810_hal::SharedBytes;

use super::Plan;
use crate::measure::endpoint::{Endpoint, EndpointPlan, SizeOptions, succeeded};
use crate::measure::op::Op;
use crate::measure::payload::{self, Direction};
use crate::measure::queues::Queues;
use crate::monitor::SnapshotPublisher;

/// The Q_Key; unused, because there are no datagrams.
const NO_QKEY: u32 = 0;
/// What both sides may do to the registered memory.
pub(crate) const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ);

/// One side.
#[derive(Debug)]
pub struct PerfEndpoint<Q> {
    pub(crate) queues: Q,
    /// Places among the queue pairs by queue pair number.
    index: Vec<(u32, usize)>,
    /// Bytes of a place.
    stride: usize,
    places: usize,
    scratch: [Vec<u8>; 2],
}

/// What a completion was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Completed {
    /// A request with number `upto`, and all requests before it.
    Sent { qp: usize, upto: u64 },
    /// A message.
    Received { qp: usize, bytes: u32 },
}

/// Messages to post.
#[derive(Clone, Copy, Debug)]
pub(super) struct Post {
    pub(super) qp: usize,
    pub(super) op: Op,
    /// Number of the first message.
    pub(super) from: u64,
    pub(super) count: u32,
    pub(super) size: u32,
}

impl<P: HostPlatform> PerfEndpoint<Endpoint<P>> {
    /// Creates the objects of `plan` on a ready device, whose snapshots go to `publisher`.
    ///
    /// # Errors
    /// What the device refused, and which object.
    pub fn new(
        platform: P,
        control: Control<P>,
        events: EventSet<P>,
        plan: &Plan,
        publisher: Option<SnapshotPublisher>,
    ) -> Result<Self> {
        let objects = EndpointPlan {
            bytes: plan.bytes(),
            access: ACCESS,
            cqes: plan.cqes(),
            qps: plan.qps,
            qp_type: QpType::Rc,
            caps: plan.caps(),
            fast_register: false,
            counters: false,
            tuning: plan.tuning,
            qkey: NO_QKEY,
            wait_mode: plan.wait_mode,
            options: Some(SizeOptions {
                cq: "--qps and --depth",
                qp: "--qps, --depth, --inline",
            }),
        };
        let endpoint = Endpoint::new(platform, control, events, &objects, publisher)?;
        Ok(Self::over(endpoint, plan))
    }

    /// As [`Endpoint::close`].
    pub fn close(self) -> Result<()> {
        self.queues.close()
    }
}

impl<Q: Queues> PerfEndpoint<Q> {
    /// With queues and memory for `plan`.
    pub(crate) fn over(queues: Q, plan: &Plan) -> Self {
        let stride = plan.largest() as usize;
        let numbers = queues.numbers();
        let mut index: Vec<_> = numbers.iter().map(|number| number.get()).zip(0..).collect();
        index.sort_unstable();
        Self {
            queues,
            index,
            stride,
            places: plan.places(),
            scratch: [vec![0; stride], vec![0; stride]],
        }
    }

    pub(super) fn outgoing(&self, place: usize, size: u32) -> Result<SharedBytes> {
        self.queues.memory(place * self.stride, size as usize)
    }

    pub(super) fn incoming(&self, place: usize, size: u32) -> Result<SharedBytes> {
        self.outgoing(self.places + place, size)
    }

    /// Fills an outgoing place with payload.
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
        payload::fill(
            bytes,
            plan.seed ^ u64::from(size),
            content,
            Direction::Request,
        );
        Ok(memory.write(0, bytes)?)
    }

    /// Wipes an incoming place, so that its content has arrived.
    pub(super) fn wipe(&mut self, place: usize, size: u32) -> Result<()> {
        let memory = self.incoming(place, size)?;
        let [bytes, _] = &mut self.scratch;
        let bytes = bytes.get_mut(..size as usize).context("a larger message")?;
        bytes.fill(0);
        Ok(memory.write(0, bytes)?)
    }

    /// Whether what has arrived is what was sent, except for the last byte if that counts messages.
    pub(super) fn is_right(
        &mut self,
        plan: &Plan,
        place: usize,
        size: u32,
        content: u64,
        last: Option<u8>,
    ) -> Result<bool> {
        self.queues.sync_from_device();
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
            Direction::Request,
        );
        if let (Some(last), Some(byte)) = (last, expected.last_mut()) {
            *byte = last;
        }
        memory.read(0, got)?;
        Ok(expected == got)
    }

    pub(super) fn post_receive(&mut self, qp: usize, place: usize, size: u32) -> Result<()> {
        let sges = [self.queues.sge(self.incoming(place, size)?)];
        let receives = [RecvWr {
            wr_id: 0,
            sges: &sges,
        }];
        self.queues.post_recv(qp, &receives)
    }

    /// Posts messages with one doorbell; only the last one is signaled.
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
        let there = *self.queues.remote(qp)?;
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
            *sge = [self.queues.sge(memory)];
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
        self.queues.post_send(qp, requests)
    }

    /// Polls for completions; if there are none, handles events and deferred work. Returns the
    /// number of completions.
    pub(super) fn turn(&mut self, take: &mut dyn FnMut(Completed)) -> Result<usize> {
        let mut wcs = [Wc::default(); 32];
        let polled = self.queues.poll(&mut wcs)?;
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
}

/// Maximum requests of a list.
pub const MAX_POST_LIST: u32 = 64;

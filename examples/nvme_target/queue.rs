//! A queue's connection: a queue pair with its receives, and a thread that does what the protocol
//! says.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use e810::*;
use e810_backends::HostDevice;
use e810_connect::Told;
use e810_examples::nvme::capsule::{Command, HostMemory, Response};
use e810_examples::nvme::fabrics::{CONNECT_DATA, Reply};
use e810_node::attended::{Attended, Connection, Ended, Grant};

use crate::capsule::{Source, Step};
use crate::target::{DEPTH, INLINE, Queue, Target};

/// Bytes of a capsule, at most. On an admin queue, the bytes behind the command are for the data
/// of Connect, and for a page on its way to the host.
const ROOM: usize = size_of::<Command>() + INLINE as usize;
/// Bytes of a connection's receives.
pub(crate) const PLACE: usize = DEPTH as usize * ROOM;
/// Pause between two looks whether a connection may stay.
const TICK: Duration = Duration::from_millis(500);
/// How long the end of a connection may take.
const END: Duration = Duration::from_secs(20);

/// What a queue of `depth` entries needs.
pub(crate) fn caps(depth: u16) -> QpCaps {
    let receives = u32::from(depth);
    QpCaps { max_send_wr: 2 * receives, max_recv_wr: receives, max_inline: 16, ..QpCaps::default() }
}

/// What the queues share.
pub(crate) struct Site<'a, D: HostDevice> {
    pub(crate) function: &'a Attended<D>,
    pub(crate) pd: &'a Pd,
    /// The disk, and then the places of connections.
    pub(crate) memory: SharedBytes,
    /// Its first byte, as the device names it.
    pub(crate) base: Sge,
    pub(crate) disk: usize,
    pub(crate) target: Mutex<Target<'a>>,
    pub(crate) began: Instant,
    /// Those that no connection has.
    pub(crate) places: Mutex<Vec<usize>>,
    pub(crate) is_ending: AtomicBool,
}

impl<'a, D: HostDevice> Site<'a, D> {
    /// The target, which knows the time.
    pub(crate) fn target(&self) -> MutexGuard<'_, Target<'a>> {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.now = self.began.elapsed().as_millis() as u64;
        target
    }

    fn places(&self) -> MutexGuard<'_, Vec<usize>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sge(&self, at: usize, length: u32) -> [Sge; 1] {
        [Sge { addr: self.base.addr + at as u64, length, ..self.base }]
    }

    fn destroy(&self, qp: Option<Qp<D>>, cq: Cq<D>) -> Result<()> {
        self.function.control(|control| {
            // The completion queue is in use until the queue pair is gone.
            qp.map_or(Ok(()), |qp| control.destroy_qp(qp).map(drop)).map_err(|(_, error)| error)?;
            Ok(control.destroy_cq(cq).map_err(|(_, error)| error)?)
        })
    }
}

/// What follows a READ.
#[derive(Clone, Default)]
enum Then {
    #[default]
    Nothing,
    Respond(Response),
    Join,
}

/// A queue whose connection is served.
pub(crate) struct Served<'s, 'a, D: HostDevice> {
    site: &'s Site<'a, D>,
    queue: Queue,
    connection: Connection<D>,
    cq: Cq<D>,
    place: usize,
    receives: usize,
    /// Capsules that came while the send queue was full: which receive, and its bytes.
    waiting: VecDeque<(usize, usize)>,
    /// Commands under way. Each has two requests in the send queue at most.
    busy: usize,
    /// For each receive.
    then: Vec<Then>,
}

impl<'s, 'a, D: HostDevice> Served<'s, 'a, D> {
    /// Makes the objects. An error leaves nothing behind.
    pub(crate) fn new(site: &'s Site<'a, D>, queue: Queue) -> Result<Self> {
        let place = site.places().pop().context("all places are taken")?;
        Self::at(site, queue, place).inspect_err(|_| site.places().push(place))
    }

    fn at(site: &'s Site<'a, D>, queue: Queue, place: usize) -> Result<Self> {
        let receives = u32::from(queue.depth);
        let caps = caps(queue.depth);
        let cq = site.function.control(|control| control.create_cq(3 * receives, 0))?;
        let init = QpInit::rc(&cq, &cq, caps);
        let qp = match site.function.control(|control| control.create_qp(site.pd, &init)) {
            Ok(qp) => qp,
            Err(error) => return Err(site.destroy(None, cq).err().unwrap_or(error.into())),
        };
        // Peers neither read nor write here.
        match Connection::new(site.function, qp, 0) {
            Ok(connection) => Ok(Self {
                site,
                connection,
                cq,
                place,
                receives: receives as usize,
                waiting: VecDeque::new(),
                busy: 0,
                then: vec![Then::Nothing; receives as usize],
                queue,
            }),
            Err((qp, error)) => Err(site.destroy(Some(qp), cq).err().unwrap_or(error.into())),
        }
    }

    /// Serves the connection until it ends.
    pub(crate) fn serve(mut self, request: &Told, reply: &Reply) -> Result<()> {
        let grant =
            Grant { responder_resources: 0, private_data: &reply.bytes(), ..Grant::default() };
        let served = (0..self.receives)
            .try_for_each(|index| self.receive(index))
            .and_then(|()| Ok(self.connection.accept(request, &grant)?))
            .and_then(|()| self.run());
        self.site.target().closed(&self.queue);
        let Self { site, mut connection, cq, place, .. } = self;
        // An error says that it has ended already.
        let _ = connection.disconnect();
        let over = connection.over(END);
        let destroyed = site.destroy(Some(connection.end()), cq);
        // The device writes there no more.
        if destroyed.is_ok() {
            site.places().push(place);
        }
        served.and(over).and(destroyed)
    }

    fn run(&mut self) -> Result<()> {
        let (mut wcs, mut asked) = ([Wc::default(); 32], Instant::now());
        loop {
            let count = match self.connection.completions(&mut self.cq, &mut wcs, TICK) {
                Err(error) if error.is::<Ended>() => return Ok(()),
                found => found?,
            };
            for wc in wcs.iter().take(count) {
                match (wc.status, wc.opcode, wc.wr_id as usize) {
                    (WcStatus::WrFlushErr, ..) => return Ok(()),
                    (status, ..) if !status.is_success() => bail!("a request failed: {status}"),
                    (_, WcOpcode::Recv, index) => {
                        self.waiting.push_back((index, wc.byte_len as usize));
                    }
                    (_, WcOpcode::RdmaRead, index) => {
                        match mem::take(self.then.get_mut(index).context("no such receive")?) {
                            Then::Respond(then) => self.respond(index, &then, None)?,
                            Then::Join => {
                                self.command(index, size_of::<Command>() + CONNECT_DATA, true)?;
                            }
                            Then::Nothing => {}
                        }
                    }
                    // It takes a receive, but is no request.
                    (_, WcOpcode::RecvRdmaWithImm, _) => bail!("the host sends immediate data"),
                    _ => self.busy -= 1,
                }
            }
            while self.busy < self.receives
                && let Some((index, length)) = self.waiting.pop_front()
            {
                self.busy += 1;
                self.command(index, length, false)?;
            }
            if asked.elapsed() >= TICK {
                asked = Instant::now();
                if self.site.is_ending.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if !self.site.target().lives(&self.queue) {
                    bail!("the host is silent, or its admin queue has ended");
                }
            }
        }
    }

    /// The first byte of a receive.
    fn room(&self, index: usize) -> usize {
        self.site.disk + self.place * PLACE + index * ROOM
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let sges = self.site.sge(self.room(index), self.queue.capsule() as u32);
        Ok(self.connection.qp().post_recv(&[RecvWr { wr_id: index as u64, sges: &sges }])?)
    }

    /// Does what the protocol says to a capsule.
    fn command(&mut self, index: usize, length: usize, is_joining: bool) -> Result<()> {
        let (site, at) = (self.site, self.room(index));
        let behind = at + size_of::<Command>();
        let mut capsule = [0; ROOM];
        let capsule = capsule.get_mut(..length).context("a capsule is too long")?;
        site.memory.read(at, capsule)?;
        let mut target = site.target();
        let step = match is_joining {
            true => target.connect(&mut self.queue, capsule),
            false => target.command(&mut self.queue, capsule),
        };
        if let Step::Give { from: Source::Page, host, .. } = step {
            let page = target.page.get(..host.length as usize);
            site.memory.write(behind, page.context("more than a page")?)?;
        }
        drop(target);
        match step {
            Step::Respond(then) => self.respond(index, &then, None),
            Step::Store { data, into, then } => {
                site.memory.write(into as usize, data)?;
                self.respond(index, &then, None)
            }
            Step::Give { from, host, then } => {
                let from = match from {
                    Source::Namespace(at) => at as usize,
                    Source::Page => behind,
                };
                self.respond(index, &then, Some((from, host)))
            }
            Step::Fetch { host, into, then } => {
                self.read(index, host, into as usize, Then::Respond(then))
            }
            Step::Join { host } => self.read(index, host, behind, Then::Join),
            Step::Keep => {
                self.busy -= 1;
                self.receive(index)
            }
            Step::Close => Err(anyhow!("this is no capsule")),
        }
    }

    fn read(&mut self, index: usize, host: HostMemory, into: usize, then: Then) -> Result<()> {
        *self.then.get_mut(index).context("no such receive")? = then;
        let into = self.site.sge(into, host.length);
        let op = Op::Read { into: &into, remote: remote(host) };
        let read = SendWr { wr_id: index as u64, op, flags: SendFlags::SIGNALED };
        Ok(self.connection.qp().post_send(&[read])?)
    }

    /// Sends a response, behind bytes of the memory that it is about.
    fn respond(
        &mut self,
        index: usize,
        then: &Response,
        give: Option<(usize, HostMemory)>,
    ) -> Result<()> {
        // The host may send its next command as soon as it has the response.
        self.receive(index)?;
        let (wr_id, bytes) = (index as u64, self.queue.seal(then));
        if let Some((at, host)) = give {
            let from = self.site.sge(at, host.length);
            let op = Op::Write { data: Data::Sges(&from), remote: remote(host), imm: None };
            let write = SendWr { wr_id, op, flags: SendFlags::empty() };
            self.connection.qp().post_send(&[write])?;
        }
        let data = Data::Inline(&[&bytes]);
        let op = match then.invalidate {
            Some(rkey) => Op::SendInv { data, rkey },
            None => Op::Send { data, imm: None },
        };
        let send = SendWr { wr_id, op, flags: SendFlags::SIGNALED };
        Ok(self.connection.qp().post_send(&[send])?)
    }
}

fn remote(host: HostMemory) -> Remote {
    Remote { addr: host.address, rkey: host.key }
}

//! A host of NVMe over Fabrics: reads blocks of the disk that the peer's kernel has (nvmet), and
//! prints their sum. The protocol is that of the example `nvme_read`; here are the connections.

use core::net::SocketAddr;

use crc32fast::Hasher;
use e810::{AccessFlags, Cq, Notify, QpInit, Wc};
use e810_cm::Reason;
use e810_connect::Phase;
use e810_examples::nvme::capsule::Command;
use e810_examples::nvme::fabrics::Rejection;
use e810_examples::nvme::host::{
    Admin, Blocks, Happened, Host, Link, Memory, Queue, Responses, read,
};
use e810_hal::Ns;
use metal::{Metal, say};

use crate::end::{End, until};
use crate::report::Failure;
use crate::rping::PEER;

const PORT: u16 = 4420;
const HOST: Host<'_> = Host {
    id: *b"E810 unikernel 1",
    name: "nqn.2025-01.example:unikernel",
    subsystem: "e810",
};
const NAMESPACE: u32 = 1;
const BLOCKS: Blocks = Blocks {
    first: 1000,
    count: 8000,
};
/// Bytes that READs fill: some at a time.
const DATA: usize = 256 << 10;
/// How long the target may take, and how long to wait for one that does not listen yet.
const LIMIT: Ns = Ns::from_ms(150_000);
const AGAIN: Ns = Ns::from_ms(500);

/// Connects two queues, reads the blocks, and gives all back. How many blocks there were.
#[inline(never)] // What it has on the stack, rping has not.
pub(crate) fn read_disk<'m>(ends: &mut [End<'_, 'm>; 1]) -> Result<u64, Failure> {
    let [end] = ends;
    let node = &mut *end.node;
    // Responses of both queues; what the target may read and write: a page, and blocks.
    let own = node.metal.payload(2 * Responses::BYTES)?;
    let shared = node.metal.payload(Admin::PAGE + DATA)?;
    let rights = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
    let own_mr = node
        .control
        .reg_mr(&node.pd, own, AccessFlags::LOCAL_WRITE)?;
    let shared_mr = node.control.reg_mr(&node.pd, shared, rights)?;
    let memory = Memory::new(shared, &shared_mr);
    let cq = node.control.create_cq(2 * Responses::COMPLETIONS, 0)?;
    let mut side = Side {
        responses: [
            Responses::new(own, &own_mr, 0)?,
            Responses::new(own, &own_mr, 1)?,
        ],
        ends,
        cq,
    };

    let mut admin = Admin::new(memory.part(0, Admin::PAGE)?);
    side.connect(0, &mut admin.queue)?;
    let id = admin.connect(&mut side, &HOST)?;
    let controller = admin.identify(&mut side)?;
    let namespace = admin.namespace(&mut side, NAMESPACE)?;
    let mut queue = Queue::new(1);
    side.connect(1, &mut queue)?;
    let data = memory.part(Admin::PAGE, DATA)?;
    queue.connect(&mut side, &data, &HOST, id)?;
    let mut sum = Hasher::new();
    let mut add = |part: &[u8]| sum.update(part);
    let from = (&data, controller.most);
    read(&mut queue, &mut side, &namespace, BLOCKS, from, &mut add)?;
    let bytes = BLOCKS.count << namespace.shift;
    say!("NVMe: CRC-32 {:08x} of {bytes} bytes", sum.finalize());
    side.turn_to(0);
    admin.shut_down(&mut side)?;

    // A controller ends with its admin queue.
    side.disconnect(1)?;
    side.disconnect(0)?;
    let Side {
        ends: [end], cq, ..
    } = side;
    let control = &mut end.node.control;
    control.destroy_cq(cq).map_err(|(_, error)| error)?;
    for mr in [own_mr, shared_mr] {
        control.dereg_mr(mr).map_err(|(_, error)| error)?;
    }
    Ok(BLOCKS.count)
}

/// Both queues' connections, of which one is meant.
struct Side<'s, 'a, 'm> {
    ends: &'s mut [End<'a, 'm>; 1],
    cq: Cq<Metal<'m>>,
    responses: [Responses; 2],
}

impl Side<'_, '_, '_> {
    fn turn_to(&mut self, number: usize) {
        let [end] = &mut *self.ends;
        end.node.current = number;
    }

    /// Where the responses of the queue arrive that is meant.
    fn responses(&self) -> Result<Responses, Failure> {
        let [end] = &*self.ends;
        let responses = self.responses.get(end.node.current);
        responses.copied().ok_or(Failure::NoConnection)
    }

    /// Connects a queue; the target may not listen yet.
    fn connect(&mut self, number: usize, queue: &mut Queue) -> Result<(), Failure> {
        self.turn_to(number);
        let responses = self.responses()?;
        let [end] = &mut *self.ends;
        let machine = end.node.metal.machine();
        let give_up = machine.now() + LIMIT;
        loop {
            let [end] = &mut *self.ends;
            let init = QpInit::rc(&self.cq, &self.cq, Responses::CAPS);
            let qp = end.node.control.create_qp(&end.node.pd, &init)?;
            end.begin(qp)?;
            responses.post_all(end.node.connection()?.qp())?;
            end.ask(SocketAddr::new(PEER.into(), PORT), &queue.request())?;
            let is_there = until(self.ends, ("a target of NVMe", LIMIT), |[end]| {
                match end.phase()? {
                    Phase::Refused(Reason::INVALID_SERVICE_ID) => Ok(Some(false)),
                    Phase::Refused(reason) => {
                        Err(Failure::NvmeRefused(reason, Rejection::of(end.answer())))
                    }
                    _ => Ok(end.is(Phase::Established)?.then_some(true)),
                }
            })?;
            if is_there {
                let [end] = &*self.ends;
                return Ok(queue.accepted(end.answer())?);
            }
            if machine.now() > give_up {
                return Err(Failure::Silence("a target of NVMe"));
            }
            self.destroy()?;
            self.rest(AGAIN)?;
        }
    }

    /// Ends a queue's connection.
    fn disconnect(&mut self, number: usize) -> Result<(), Failure> {
        self.turn_to(number);
        let [end] = &mut *self.ends;
        end.disconnect()?;
        until(self.ends, ("the end of a connection", LIMIT), |[end]| {
            Ok(end.is(Phase::Over)?.then_some(()))
        })?;
        self.destroy()
    }

    /// Destroys the queue pair of a connection.
    fn destroy(&mut self) -> Result<(), Failure> {
        let [end] = &mut *self.ends;
        let qp = end.forget()?;
        let gone = end.node.control.destroy_qp(qp);
        gone.map_err(|(_, error)| error)?;
        // What it has left there.
        while self.cq.poll(&mut [Wc::default()]) > 0 {}
        Ok(())
    }

    /// Does nothing for a while.
    fn rest(&mut self, time: Ns) -> Result<(), Failure> {
        let [end] = &*self.ends;
        let machine = end.node.metal.machine();
        let then = machine.now() + time;
        until(self.ends, ("time", LIMIT), |_| {
            Ok((machine.now() > then).then_some(()))
        })
    }
}

impl Link for Side<'_, '_, '_> {
    type Error = Failure;

    fn send(&mut self, id: u16, command: &Command) -> Result<(), Failure> {
        let responses = self.responses()?;
        let [end] = &mut *self.ends;
        Ok(responses.send(end.node.connection()?.qp(), id, command)?)
    }

    fn next(&mut self) -> Result<Happened, Failure> {
        let cq = &mut self.cq;
        let wc = until(self.ends, ("the target of NVMe", LIMIT), |_| {
            let mut wc = [Wc::default()];
            // An interrupt is asked for, and then there may be one already.
            let is_there = cq.poll(&mut wc) > 0 || cq.arm(Notify::Any) && cq.poll(&mut wc) > 0;
            let [wc] = wc;
            Ok(is_there.then_some(wc))
        })?;
        let responses = self.responses()?;
        let [end] = &mut *self.ends;
        Ok(responses.happened(end.node.connection()?.qp(), &wc)?)
    }

    fn pause(&mut self, ms: u64) -> Result<(), Failure> {
        self.rest(Ns::from_ms(ms))
    }
}

//! Programs that talk to each other on one function.

use std::sync::Arc;

use e810::{Platform, QpAttr, WcOpcode, WcStatus};
use e810_attach::messages::{ControlEvent, QpEvent};
use e810_attach::owner::Owner;
use e810_backends::HostDevice;

use crate::program::{Client, Completions, Queue, Region};
use crate::{Scenario, with_function};

/// A program with one queue pair.
pub(crate) struct One<P: Platform> {
    pub(crate) client: Client<P>,
    pub(crate) region: Region,
    pub(crate) cq: Completions<P>,
    pub(crate) qp: Queue<P>,
}

impl<P: Platform + Send + Sync + 'static> One<P> {
    fn of(client: Client<P>) -> Self {
        let pd = client.pd();
        let region = client.region(pd);
        let cq = client.cq(64);
        let qp = client.qp(pd, &cq);
        Self {
            client,
            region,
            cq,
            qp,
        }
    }
}

/// Two programs that are connected to each other.
pub(crate) fn pair<D: HostDevice>(owner: &Arc<Owner<D>>, function: &D) -> [One<D>; 2] {
    let pair = [(); 2].map(|()| One::of(Client::new(owner, function)));
    connect(&pair[0], &pair[1]);
    pair
}

/// The same, of programs of other processes.
pub(crate) fn attached_pair<D: HostDevice>(
    owner: &Arc<Owner<D>>,
    function: &D,
) -> [One<e810_attach::platform::AttachedPlatform>; 2] {
    let pair = [(); 2].map(|()| One::of(Client::attached(owner, function)));
    connect(&pair[0], &pair[1]);
    pair
}

fn connect<A, B>(a: &One<A>, b: &One<B>)
where
    A: Platform + Send + Sync + 'static,
    B: Platform + Send + Sync + 'static,
{
    a.client.connect(a.qp.number, b.qp.number);
    b.client.connect(b.qp.number, a.qp.number);
}

/// Message `n` goes from one to the other, and its bytes are compared.
pub(crate) fn message<A: Platform, B: Platform>(from: &mut One<A>, to: &mut One<B>, n: u64) {
    let bytes: Vec<u8> = (0..64_u64).map(|at| (n * 7 + at) as u8).collect();
    to.region.start[1024..1088].fill(0);
    to.qp.receive(n, to.region.sge(1024, 64));
    from.region.start[..64].copy_from_slice(&bytes);
    from.qp.send(n, from.region.sge(0, 64));
    let sent = from.cq.wait(1)[0];
    assert_eq!((sent.wr_id, sent.status), (n, WcStatus::Success));
    let got = to.cq.wait(1)[0];
    assert_eq!((got.wr_id, got.opcode), (n, WcOpcode::Recv));
    assert_eq!(got.byte_len, 64);
    assert_eq!(&to.region.start[1024..1088], &bytes[..]);
}

#[derive(Clone, Copy)]
struct Talks;

impl Scenario for Talks {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let [a, b] = pair(owner, function);
        talk(a, b);
        assert_eq!(owner.programs(), []);
    }
}

#[test]
fn two_programs_talk_on_one_function() {
    with_function(Talks);
}

#[derive(Clone, Copy)]
struct TalksOverSockets;

impl Scenario for TalksOverSockets {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let attached = || One::of(Client::attached(owner, function));
        let (a, b) = (attached(), attached());
        connect(&a, &b);
        talk(a, b);
        // With one that is in the owner's process.
        let (a, b) = (attached(), One::of(Client::new(owner, function)));
        connect(&a, &b);
        talk(a, b);
        assert_eq!(owner.programs(), []);
    }
}

#[test]
fn programs_of_other_processes_talk_on_one_function() {
    with_function(TalksOverSockets);
}

fn talk<A, B>(mut a: One<A>, mut b: One<B>)
where
    A: Platform + Send + Sync + 'static,
    B: Platform + Send + Sync + 'static,
{
    for n in 0..200 {
        message(&mut a, &mut b, n);
        message(&mut b, &mut a, n);
    }
    // An event for who asked, once.
    b.cq.arm();
    b.qp.receive(1, b.region.sge(1024, 64));
    a.qp.send(1, a.region.sge(0, 64));
    b.client.hears(ControlEvent::Completion(b.cq.token));
    assert_eq!(b.cq.wait(1)[0].opcode, WcOpcode::Recv);
    a.cq.wait(1);
    // What is outstanding is flushed when its program ends it, and the waiter hears.
    b.qp.receive(2, b.region.sge(1024, 64));
    b.cq.arm();
    b.client.modify(b.qp.number, QpAttr::to_error()).unwrap();
    b.client.hears(ControlEvent::Completion(b.cq.token));
    assert_eq!(b.cq.wait(1)[0].status, WcStatus::WrFlushErr);
    // The device stops the other, and its program hears why.
    a.qp.send(3, a.region.sge(0, 64));
    a.client.hears(ControlEvent::Qp(a.qp.token, QpEvent::Fatal));
    assert_eq!(a.cq.wait(1)[0].status, WcStatus::RetryExcErr);
    end(a);
    end(b);
}

fn end<P: Platform + Send + Sync + 'static>(one: One<P>) {
    let One { client, cq, qp, .. } = one;
    client.destroy_qp(qp);
    client.destroy_cq(cq);
    client.die();
}

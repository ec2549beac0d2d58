//! Completions that software makes are events of a channel like those of the device: one for each
//! request.

use std::time::Duration;

use crate::harness::connection::INCOMING;
use crate::harness::objects::{RC, flag, state};
use crate::harness::{ALONE, Channel, Connection, Cq, Ctx, Mr, PATIENCE, Qp, readable};

/// A time in which nothing happens.
const QUIET: Duration = Duration::from_millis(60);
/// What the device has to flush is flushed by then, and software completes the rest (20 ms).
const FLUSHED: Duration = Duration::from_millis(200);
/// `IBV_WC_WR_FLUSH_ERR`.
const FLUSH_ERR: i32 = 5;

/// A queue pair that has its completion queue, which tells a channel, for itself.
struct Alone {
    ctx: Ctx,
    channel: Channel,
    cq: Cq,
    mr: Mr,
    qp: Qp,
    connection: Connection,
}

impl Alone {
    fn new() -> Self {
        let ctx = Ctx::open(ALONE);
        let channel = ctx.channel();
        let connection = Connection::new(ctx, None);
        let cq = ctx.cq(64, 9, Some(channel));
        let qp = connection.pd.qp(RC, cq, cq);
        Self {
            ctx,
            channel,
            cq,
            mr: connection.mr,
            qp,
            connection,
        }
    }

    /// In ERR for long.
    fn in_error() -> Self {
        let alone = Self::new();
        let peer = alone.connection.b.number();
        alone.qp.connect(peer, alone.ctx.gid(1), 1);
        assert_eq!(alone.qp.go_to(state::ERR), 0);
        std::thread::sleep(FLUSHED);
        assert_eq!(alone.cq.poll(1).len(), 0);
        alone
    }

    /// A request, then `work`: one event, behind which all of these are.
    fn raises_an_event(&self, what: &str, work: impl FnOnce(), wr_ids: &[u64]) {
        assert_eq!(self.cq.arm(false), 0);
        assert_eq!(self.cq.poll(1).len(), 0);
        work();
        assert!(readable(self.channel.fd(), PATIENCE), "{what}: no event");
        assert_eq!(self.channel.take(), Ok((self.cq, 9)), "{what}");
        self.cq.acknowledge(1);
        let done = self.cq.wait(wr_ids.len());
        let found: Vec<_> = done.iter().map(|wc| (wc.wr_id, wc.status)).collect();
        let expected: Vec<_> = wr_ids.iter().map(|id| (*id, FLUSH_ERR)).collect();
        assert_eq!(found, expected, "{what}");
        assert!(!readable(self.channel.fd(), QUIET), "{what}: one a request");
    }

    fn end(self) {
        assert_eq!([self.qp.destroy(), self.cq.destroy()], [0; 2]);
        self.connection.destroy();
        assert_eq!([self.channel.destroy(), self.ctx.close()], [0; 2]);
    }
}

#[test]
fn what_waits_in_init_raises_an_event_when_it_is_flushed() {
    let alone = Alone::new();
    alone.qp.init();
    for wr_id in [1, 2] {
        assert_eq!(alone.qp.recv(wr_id, alone.mr.sge(INCOMING, 64)), 0);
    }
    let to_error = || assert_eq!(alone.qp.go_to(state::ERR), 0);
    alone.raises_an_event("INIT to ERR", to_error, &[1, 2]);
    alone.end();
}

#[test]
fn what_is_posted_in_error_raises_an_event() {
    let alone = Alone::in_error();
    for turn in 0..3 {
        let receive = || assert_eq!(alone.qp.recv(turn, alone.mr.sge(INCOMING, 64)), 0);
        alone.raises_an_event("a receive", receive, &[turn]);
        let send = || {
            let sge = alone.mr.sge(0, 64);
            assert_eq!(alone.qp.send_of(turn, sge, flag::SIGNALED), 0);
        };
        alone.raises_an_event("a send", send, &[turn]);
    }
    // Without a request there is no event.
    assert_eq!(alone.qp.recv(7, alone.mr.sge(INCOMING, 64)), 0);
    assert!(!readable(alone.channel.fd(), QUIET), "nobody asked");
    assert_eq!(alone.cq.wait(1)[0].wr_id, 7);
    alone.end();
}

/// The usual end of a server: to ERR, a last receive, and sleep until it comes.
#[test]
fn a_queue_is_drained_by_its_last_receive() {
    let ctx = Ctx::open(ALONE);
    let channel = ctx.channel();
    let connection = Connection::new(ctx, Some(channel));
    let ([_, cq], b, mr) = (connection.cqs, connection.b, connection.mr);
    for wr_id in 0..8 {
        assert_eq!(b.recv(wr_id, mr.sge(INCOMING, 64)), 0);
    }
    assert_eq!(cq.arm(false), 0);
    assert_eq!(b.go_to(state::ERR), 0);
    assert_eq!(b.recv(99, mr.sge(INCOMING, 64)), 0);
    let mut drained = Vec::new();
    while drained.last() != Some(&99) {
        assert!(readable(channel.fd(), PATIENCE), "after {drained:?}");
        assert_eq!(channel.take(), Ok((cq, 2)));
        cq.acknowledge(1);
        assert_eq!(cq.arm(false), 0);
        drained.extend(cq.poll(16).iter().map(|wc| wc.wr_id));
    }
    assert_eq!(drained, [0, 1, 2, 3, 4, 5, 6, 7, 99]);
    connection.destroy();
    assert_eq!([channel.destroy(), ctx.close()], [0; 2]);
}

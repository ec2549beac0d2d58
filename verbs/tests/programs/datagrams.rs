//! Datagrams and groups between two functions of one wire, and where packets to an address go.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use e810_verbs::abi::state::Gid;
use e810_verbs::abi::work::Wc;

use crate::harness::objects::{Ah, RC, UD, address, flag, state};
use crate::harness::{ALONE, Connection, Cq, Ctx, Mr, PATIENCE, Pd, Qp, WIRED, errno, gid, memory};

/// Of all queue pairs here.
const KEY: u32 = 0x1234_5678;
/// Bytes before a datagram's own, where its IP header is.
const AREA: usize = 40;

/// A queue pair for datagrams, and what it needs.
struct Station {
    ctx: Ctx,
    pd: Pd,
    cq: Cq,
    qp: Qp,
    mr: Mr,
    memory: *mut u8,
}

impl Station {
    fn new(device: usize) -> Self {
        let ctx = Ctx::open(device);
        let (pd, cq) = (ctx.pd(), ctx.cq(64, 0, None));
        let memory = memory(4096);
        let start = memory.as_mut_ptr();
        let mr = pd.mr(memory);
        let qp = pd.qp(UD, cq, cq);
        qp.datagrams(KEY);
        Self {
            ctx,
            pd,
            cq,
            qp,
            mr,
            memory: start,
        }
    }

    fn recv(&self, wr_id: u64) {
        assert_eq!(self.qp.recv(wr_id, self.mr.sge(0, 512)), 0);
    }

    /// Sends eight bytes, of which each is `byte`, and waits for the completion.
    fn send(&self, byte: u8, ah: Ah, to: u32) {
        // SAFETY: the test's memory, which nobody sends from now.
        unsafe { self.memory.add(2048).write_bytes(byte, 8) };
        let sge = self.mr.sge(2048, 8);
        assert_eq!(self.qp.datagram(77, sge, ah, (to, KEY)), 0);
        let wc = self.cq.wait(1)[0];
        assert_eq!((wc.wr_id, wc.status), (77, 0));
    }

    /// The datagram that came.
    fn came(&self, wr_id: u64) -> (Wc, u8) {
        let wc = self.cq.wait(1)[0];
        assert_eq!((wc.wr_id, wc.status), (wr_id, 0));
        assert_eq!(wc.byte_len as usize, AREA + 8);
        // SAFETY: the device has written there, and does not any more.
        (wc, unsafe { self.memory.add(AREA).read() })
    }

    /// `ibv_create_ah_from_wc`.
    fn answer(&self, wc: &Wc) -> Result<Ah, i32> {
        let (mut wc, area) = (*wc, self.memory.cast());
        // SAFETY: a domain, a completion, and the area of its receive.
        let ah =
            unsafe { e810_verbs::ah::answer::create_ah_from_wc(self.pd.0, &raw mut wc, area, 1) };
        if ah.is_null() {
            Err(errno())
        } else {
            Ok(Ah(ah))
        }
    }

    fn end(self) {
        assert_eq!((self.qp.destroy(), self.cq.destroy()), (0, 0));
        assert_eq!((self.mr.dereg(), self.pd.free()), (0, 0));
        assert_eq!(self.ctx.close(), 0);
    }
}

/// There and back: by the link-local GID, which has the Ethernet address in it, and by those for
/// which the other one is asked, over IPv4 and IPv6.
#[test]
fn a_datagram_is_answered_by_its_completion() {
    let [a, b] = WIRED.map(Station::new);
    for index in 0..3 {
        let there = a.pd.try_ah(address(b.ctx.gid(index), index as u8)).unwrap();
        b.recv(1);
        a.send(0x10 + index as u8, there, b.qp.number());
        let (wc, byte) = b.came(1);
        assert_eq!(byte, 0x10 + index as u8);
        assert_eq!(wc.src_qp, a.qp.number());
        // IBV_WC_GRH; IPv4 and IPv6, as programs of mlx5 look for them.
        assert_eq!(wc.wc_flags & 1, 1);
        assert_eq!(wc.sl & 3, if index == 1 { 2 } else { 1 });
        let back = b.answer(&wc).unwrap();
        a.recv(2);
        b.send(0x20 + index as u8, back, wc.src_qp);
        assert_eq!(a.came(2).1, 0x20 + index as u8);
        assert_eq!([there, back].map(Ah::destroy), [0; 2]);
        // Without the header there is nobody to answer.
        let bare = Wc { wc_flags: 0, ..wc };
        assert_eq!(b.answer(&bare), Err(libc::EINVAL));
    }
    a.end();
    b.end();
}

#[test]
fn a_group_of_each_family_is_reached_by_its_members() {
    let [a, b] = WIRED.map(Station::new);
    let v4 = gid(Ipv4Addr::new(239, 8, 1, 1));
    let v6 = gid("ff0e::810".parse::<Ipv6Addr>().unwrap());
    for (group, index) in [(v4, 1), (v6, 2)] {
        let ah = a.pd.try_ah(address(group, index)).unwrap();
        assert_eq!(b.qp.attach(group), 0);
        b.recv(1);
        // QPN of multicast.
        a.send(0x30, ah, 0xFF_FFFF);
        let (wc, byte) = b.came(1);
        assert_eq!((byte, wc.src_qp), (0x30, a.qp.number()));
        // The sender is answered, by an own address of ours.
        let back = b.answer(&wc).unwrap();
        a.recv(2);
        b.send(0x31, back, wc.src_qp);
        assert_eq!(a.came(2).1, 0x31);
        assert_eq!(b.qp.detach(group), 0);
        // Not a member any more.
        b.recv(3);
        a.send(0x32, ah, 0xFF_FFFF);
        thread::sleep(Duration::from_millis(50));
        assert_eq!(b.cq.poll(1).len(), 0);
        assert_eq!([ah, back].map(Ah::destroy), [0; 2]);
        assert_eq!(b.qp.detach(group), libc::EINVAL);
        // The receive that waits goes.
        assert_eq!(b.qp.go_to(state::ERR), 0);
        b.cq.wait(1);
        assert_eq!(b.qp.go_to(state::RESET), 0);
        b.qp.datagrams(KEY);
    }
    a.end();
    b.end();
}

#[test]
fn queue_pairs_of_two_functions_find_each_other() {
    let [one, two] = WIRED.map(Ctx::open);
    let [of_one, of_two] = [one, two].map(|ctx| Connection::new(ctx, None));
    for index in 0..3 {
        let [a, b] = [&of_one, &of_two].map(|made| made.pd.qp(RC, made.cqs[0], made.cqs[0]));
        a.connect(b.number(), two.gid(index), index as u8);
        b.connect(a.number(), one.gid(index), index as u8);
        assert_eq!(b.recv(1, of_two.mr.sge(0, 64)), 0);
        let sge = of_one.mr.sge(0, 8);
        assert_eq!(a.send_of(2, sge, flag::SIGNALED), 0);
        for (cq, wr_id) in [(of_one.cqs[0], 2), (of_two.cqs[0], 1)] {
            let wc = cq.wait(1)[0];
            assert_eq!((wc.wr_id, wc.status), (wr_id, 0), "GID {index}");
        }
        assert_eq!([a.destroy(), b.destroy()], [0; 2]);
    }
    of_one.destroy();
    of_two.destroy();
    assert_eq!([one.close(), two.close()], [0; 2]);
}

/// Nobody answers: that is said in bounded time, and others do what they like meanwhile, also
/// resolve.
#[test]
fn a_peer_that_is_not_there_keeps_nobody_waiting() {
    let [a, b] = WIRED.map(Station::new);
    let missing = [
        gid(Ipv4Addr::new(10, 8, 2, 99)),
        gid("fd00:8:2::99".parse::<Ipv6Addr>().unwrap()),
    ];
    // Once before: an IPv6 address answers a second after its function has come.
    let there: [Gid; 3] = [0, 1, 2].map(|index| b.ctx.gid(index));
    let resolve = move |pd: Pd| {
        for (dgid, index) in there.into_iter().zip(0..) {
            let ah = pd.try_ah(address(dgid, index)).unwrap();
            assert_eq!(ah.destroy(), 0);
        }
    };
    resolve(a.pd);
    let begin = Instant::now();
    let (give, take) = mpsc::channel();
    for (dgid, index) in missing.into_iter().zip([1, 2]) {
        let (give, pd) = (give.clone(), a.pd);
        thread::spawn(move || give.send(pd.try_ah(address(dgid, index)).map(drop)));
    }
    let (connection, pd) = (a.pd.qp(RC, a.cq, a.cq), a.pd);
    connection.init();
    thread::spawn(move || give.send(Err(connection.to_rtr(5, missing[0], 1))));
    thread::sleep(Duration::from_millis(100));
    // Turns of others that are through while all three still wait.
    let mut turns = 0;
    let mut outcomes = Vec::new();
    while outcomes.len() < 3 {
        resolve(pd);
        let cq = a.ctx.cq(8, 0, None);
        assert_eq!(cq.destroy(), 0);
        outcomes.extend(take.try_iter());
        turns += u32::from(outcomes.is_empty());
        assert!(begin.elapsed() < PATIENCE, "not in time");
    }
    assert_eq!(outcomes, [Err(libc::ETIMEDOUT); 3]);
    println!(
        "{:?} for missing peers, {turns} turns of others meanwhile",
        begin.elapsed()
    );
    assert_ne!(turns, 0, "nobody else came through");
    assert_eq!(connection.destroy(), 0);
    a.end();
    b.end();
}

/// Without LAN queues of others: the only function of its wire.
#[test]
fn an_own_address_needs_nobody() {
    let station = Station::new(ALONE);
    for index in 0..3 {
        let own = address(station.ctx.gid(index), index as u8);
        let ah = station.pd.try_ah(own).unwrap();
        station.recv(1);
        let sge = station.mr.sge(2048, 8);
        let to = (station.qp.number(), KEY);
        assert_eq!(station.qp.datagram(2, sge, ah, to), 0);
        let mut wr_ids: Vec<_> = station.cq.wait(2).iter().map(|wc| wc.wr_id).collect();
        wr_ids.sort_unstable();
        assert_eq!(wr_ids, [1, 2]);
        assert_eq!(ah.destroy(), 0);
    }
    // No GID of that index, and no route without one.
    let gid = station.ctx.gid(0);
    assert_eq!(station.pd.try_ah(address(gid, 9)), Err(libc::EINVAL));
    let mut local = address(gid, 0);
    local.is_global = 0;
    assert_eq!(station.pd.try_ah(local), Err(libc::EINVAL));
    station.end();
}

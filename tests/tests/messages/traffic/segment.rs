//! Three simulators on a wire with any number of ends.

use std::net::IpAddr;

use e810::{Data, Lan, MacAddr, Op, Path, QpAttr, QpType, Qpn, SendFlags, SendWr, VsiId, WcOpcode};
use e810_hal::Ns;
use e810_sim::{Mode, Sim, SimPlatform};
use e810_sim_wire::{Wire, WireName, WireSpec};
use e810_tests::traffic::verbs::datagrams::QKEY;
use e810_tests::traffic::{Setup, Side};

/// Far above what anything here takes.
const LIMIT: Ns = Ns::from_ms(60_000);
/// Bytes before the message in a receive.
const GRH: usize = 40;

/// A simulator of its own, on the wire.
struct End {
    sim: Sim,
    wire: Wire,
    side: Side<SimPlatform>,
}

/// An end with a queue pair for datagrams.
fn end(name: &WireName, number: u8) -> End {
    let sim = Sim::builder()
        .mode(Mode::Real)
        .first_mac([2, 0, 0, 0, number, 0])
        .build();
    let wire = Wire::join(&sim, &WireSpec::Segment(name.clone())).unwrap();
    let setup = Setup {
        qp_type: QpType::Ud,
        ..Setup::default()
    };
    let nic = sim.function(0);
    let lan = Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 9000,
    };
    let mut side = Side::new(nic, lan, &setup);
    for step in [
        QpAttr::ud_to_init(QKEY),
        QpAttr::ud_to_rtr(),
        QpAttr::ud_to_rts(7),
    ] {
        side.control.modify_qp(&mut side.qps[0], &step).unwrap();
    }
    End { sim, wire, side }
}

/// Polls all ends until `done` says so.
fn until(ends: &mut [End; 3], mut done: impl FnMut(&[End; 3]) -> bool) {
    let start = ends[0].sim.now();
    while !done(ends) {
        assert!(ends[0].sim.now() - start < LIMIT, "not within {LIMIT}");
        for End { side, .. } in &mut *ends {
            side.poll_cqs();
            side.progress();
        }
    }
}

/// Receives that an end completed.
fn received(end: &End) -> usize {
    let done = end.side.done.iter();
    done.filter(|done| done.wc.opcode == WcOpcode::Recv).count()
}

impl End {
    fn send(&mut self, path: &Path, qpn: Qpn, text: &[u8]) {
        let side = &mut self.side;
        let ah = side.control.create_ah(&side.pd, path).unwrap();
        let op = Op::UdSend {
            data: Data::Inline(&[text]),
            imm: None,
            to: ah.target(qpn, QKEY),
        };
        let request = SendWr {
            wr_id: 0,
            op,
            flags: SendFlags::SIGNALED,
        };
        side.post_send(0, &[request]).unwrap();
        let start = self.sim.now();
        while !side.done.iter().any(|done| done.wc.wr_id == 0) {
            assert!(self.sim.now() - start < LIMIT, "not sent within {LIMIT}");
            side.poll_cqs();
        }
        side.done.retain(|done| done.wc.wr_id != 0);
        side.control.destroy_ah(ah).unwrap();
    }
}

#[test]
fn a_datagram_to_a_group_reaches_its_members_at_every_end() {
    let name = format!("traffic-{}", std::process::id()).parse().unwrap();
    let mut ends = [1, 2, 3].map(|number| end(&name, number));
    let group: IpAddr = "239.8.10.1".parse().unwrap();
    let all = Qpn::new(0xff_ffff).unwrap();
    for End { side, .. } in &mut ends[1..] {
        let gid = side.gid;
        side.control.attach_mcast(&side.qps[0], gid, group).unwrap();
    }
    for End { side, .. } in &mut ends {
        for wr_id in 1..=4 {
            let sge = side.sge(side.incoming(), 100);
            side.post_recv(0, wr_id, &[sge]).unwrap();
        }
    }
    for round in 1..=3 {
        let path = Path::to_group(ends[0].side.gid, group);
        let text = format!("to all, {round}");
        ends[0].send(&path, all, text.as_bytes());
        until(&mut ends, |ends| {
            ends[1..].iter().all(|end| received(end) == round)
        });
        for end in &ends[1..] {
            let side = &end.side;
            let bytes = side.buffer.read(side.incoming() + GRH, text.len());
            assert_eq!(bytes, text.as_bytes());
        }
    }
    // An answer is for one of them; the wire knows where that is.
    let asker = &ends[0].side;
    let (to, number) = (asker.control.lan().mac, asker.qps[0].number());
    let path = Path::new(ends[1].side.gid, asker.ip(), to);
    let before = ends[1].wire.report();
    ends[1].send(&path, number, b"answered");
    until(&mut ends, |ends| {
        received(&ends[0]) == 1 && ends[1].wire.report().sent == before.sent + 1
    });
    assert_eq!(ends.each_ref().map(received), [1, 3, 3]);
    for End { sim, side, .. } in ends {
        assert!(side.failed.is_empty(), "{:?}", side.failed);
        side.close();
        assert_eq!(sim.findings(), []);
    }
}

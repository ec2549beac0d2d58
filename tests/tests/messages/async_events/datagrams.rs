//! Datagrams that are not sent.

use e810::{Ah, AsyncEvent, Data, Op, Path, Pd, UdTarget, WcStatus};
use e810_ceq::ae::QpEvent;
use e810_tests::traffic::verbs::datagrams::{QKEY, setup};
use e810_types::WorkQueue;

use crate::async_events::A;
use crate::async_events::stage::{Failure, Stage};
use crate::async_events::table::rows;

rows! { RAISED, raised, Raised:
    0x0132 UDA_XMIT_DGRAM_TOO_LONG, longer_than_a_packet, "a datagram longer than the interface's MTU";
    0x0133 UDA_XMIT_BAD_PD, handle_of_another_domain, "a datagram through an address handle of another protection domain";
    0x0135 UDA_L4LEN_INVALID, header_of_its_own, "a datagram whose L4LEN in the ring was changed";
    0x0406 INVALID_AH_ENTRY, handle_that_is_gone, "a datagram through an address handle that was destroyed";
}

/// A handle for the way from the first side to the second.
pub(crate) fn handle(stage: &mut Stage, pd: Option<&Pd>) -> Ah {
    let there = &stage.pair.sides[1];
    let (ip, mac) = (there.ip(), there.control.lan().mac);
    let here = &mut stage.pair.sides[0];
    let path = Path::new(here.gid, ip, mac);
    let pd = pd.unwrap_or(&here.pd);
    here.control.create_ah(pd, &path).unwrap()
}

/// A's send is refused with this status: its sends end, its receives stay.
fn send_refused(stage: &mut Stage, status: WcStatus) -> AsyncEvent {
    stage.fails(&Failure {
        at: A,
        blamed: Some(WorkQueue::Send),
        event: QpEvent::Fatal,
        sends: &[status],
        receives: &[],
    })
}

fn datagram(data: Data<'_>, ah: u32) -> Op<'_> {
    let to = UdTarget {
        ah,
        qpn: 9,
        qkey: QKEY,
    };
    Op::UdSend {
        data,
        imm: None,
        to,
    }
}

fn stage() -> Stage {
    let mut stage = Stage::new(setup());
    let incoming = stage.sge(A, 64);
    stage.receive(A, incoming);
    stage
}

fn longer_than_a_packet() -> AsyncEvent {
    let mut stage = stage();
    let ah = handle(&mut stage, None);
    let side = &mut stage.pair.sides[0];
    let port = side.control.query_port(1).unwrap();
    let mtu = port.active_mtu.unwrap().bytes() as usize;
    let long = [side.sge(0, mtu + 1)];
    stage.post(A, datagram(Data::Sges(&long), ah.number()));
    let event = send_refused(&mut stage, WcStatus::LocLenErr);
    stage.pair.sides[0].control.destroy_ah(ah).unwrap();
    stage.end();
    event
}

fn handle_of_another_domain() -> AsyncEvent {
    let mut stage = stage();
    let other = stage.pair.sides[0].control.alloc_pd().unwrap();
    let ah = handle(&mut stage, Some(&other));
    stage.post(A, datagram(Data::Inline(&[b"elsewhere"]), ah.number()));
    let event = send_refused(&mut stage, WcStatus::LocQpOpErr);
    let control = &mut stage.pair.sides[0].control;
    control.destroy_ah(ah).unwrap();
    control.dealloc_pd(other).unwrap();
    stage.end();
    event
}

fn header_of_its_own() -> AsyncEvent {
    let mut stage = stage();
    let ah = handle(&mut stage, None);
    let sge = stage.pair.sides[0].sge(0x1234, 64);
    let sges = [sge];
    // L4LEN [45:42] of the header.
    let op = datagram(Data::Sges(&sges), ah.number());
    stage.post_changed(A, op, sge.addr, |words| words[3] |= 5 << 42);
    let event = send_refused(&mut stage, WcStatus::LocLenErr);
    stage.pair.sides[0].control.destroy_ah(ah).unwrap();
    stage.end();
    event
}

fn handle_that_is_gone() -> AsyncEvent {
    let mut stage = stage();
    let ah = handle(&mut stage, None);
    let number = ah.number();
    stage.pair.sides[0].control.destroy_ah(ah).unwrap();
    stage.post(A, datagram(Data::Inline(&[b"nowhere"]), number));
    let event = send_refused(&mut stage, WcStatus::WrFlushErr);
    stage.end();
    event
}

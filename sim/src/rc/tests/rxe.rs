//! The requester against a responder that behaves like Linux' rdma_rxe (rxe_resp.c) where that
//! differs from this engine: a sequence NAK follows an RNR NAK, and a repeated READ is answered
//! with MIDDLE and LAST.

use super::testbed::config;
use super::*;
use crate::rc::psn;
use crate::wire::{Aeth, Bth, Frame, Headers, Nak, Opcode, Packet, Place, Syndrome, Verb};

/// First PSN of the requester.
const PSN: u32 = 0x12_3456;
const MTU: u32 = 256;

/// The responder.
struct Rxe {
    epsn: u32,
    msn: u32,
    /// `sent_psn_nak`.
    nak_sent: bool,
    /// Receives posted.
    receives: u32,
}

/// The byte at an address, as a READ returns it.
fn remote_byte(addr: u64) -> u8 {
    (addr % 251) as u8
}

impl Rxe {
    fn new(receives: u32) -> Self {
        Self {
            epsn: PSN,
            msn: 0,
            nak_sent: false,
            receives,
        }
    }

    fn frame(&self, opcode: Opcode, psn: u32, syndrome: Option<Syndrome>, data: &[u8]) -> Vec<u8> {
        let config = config(2, 1, PathMtu::B256);
        let mut headers = Headers::new(Bth::new(opcode, config.dest_qpn, psn));
        headers.aeth = syndrome.map(|syndrome| Aeth {
            syndrome,
            msn: self.msn,
        });
        let mut frame = Frame::new(&config.path, &headers, data.len()).unwrap();
        frame.payload_mut().copy_from_slice(data);
        frame.seal()
    }

    fn answer(&self, psn: u32, syndrome: Syndrome) -> Vec<Vec<u8>> {
        vec![self.frame(Opcode::ACKNOWLEDGE, psn, Some(syndrome), &[])]
    }

    /// Receives a request; returns the responses.
    fn take_in(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let packet = Packet::parse(frame).unwrap();
        let psn = packet.headers.bth.psn;
        if psn::before(self.epsn, psn) {
            if std::mem::replace(&mut self.nak_sent, true) {
                return vec![];
            }
            return self.answer(self.epsn, Syndrome::Nak(Nak::Sequence));
        }
        let again = psn::before(psn, self.epsn);
        if !again {
            self.nak_sent = false;
        }
        let (verb, place) = packet.headers.bth.opcode.rc().unwrap();
        if let (Verb::ReadRequest, Some(reth)) = (verb, packet.headers.reth) {
            let count = reth.len.div_ceil(MTU).max(1);
            if !again {
                self.epsn = psn::add(psn, count);
                self.msn += 1;
            }
            return self.read(psn, reth.addr, reth.len, again);
        }
        if again {
            return self.answer(psn::add(self.epsn, u32::MAX), Syndrome::Ack(31));
        }
        if verb == Verb::Send {
            if self.receives == 0 {
                return self.answer(psn, Syndrome::RnrNak(RNR_TIMER_CODE));
            }
            self.receives -= u32::from(place.ends());
        }
        self.epsn = psn::add(psn, 1);
        self.msn += u32::from(place.ends());
        if packet.headers.bth.ack_request {
            return self.answer(psn, Syndrome::Ack(31));
        }
        vec![]
    }

    fn read(&self, psn: u32, addr: u64, len: u32, again: bool) -> Vec<Vec<u8>> {
        let data: Vec<u8> = (addr..addr + u64::from(len)).map(remote_byte).collect();
        let pieces = data.chunks(MTU as usize);
        let last = pieces.len() - 1;
        pieces
            .enumerate()
            .map(|(n, piece)| {
                let opcode = match Place::of(n == 0 && !again, n == last) {
                    Place::First => Opcode::READ_RESPONSE_FIRST,
                    Place::Middle => Opcode::READ_RESPONSE_MIDDLE,
                    Place::Last => Opcode::READ_RESPONSE_LAST,
                    Place::Only => Opcode::READ_RESPONSE_ONLY,
                };
                let syndrome = opcode.has_aeth().then_some(Syndrome::Ack(31));
                self.frame(opcode, psn::add(psn, n as u32), syndrome, piece)
            })
            .collect()
    }
}

/// One round: everything that is sent now, with its responses.
fn round(testbed: &mut Testbed, rxe: &mut Rxe) -> usize {
    let frames = testbed.a.emit();
    let answers: Vec<_> = frames.iter().flat_map(|frame| rxe.take_in(frame)).collect();
    for answer in &answers {
        testbed.a.take_in(answer);
    }
    frames.len()
}

#[test]
fn a_send_of_several_packets_waits_for_its_receive() {
    let mut testbed = Testbed::new(PathMtu::B256);
    // Nothing is lost, so no retry is needed.
    testbed.a.state.config.retry = 0;
    testbed.a.state.config.rnr_retry = 3;
    let mut rxe = Rxe::new(0);
    testbed.a.post(&Post::send(&[(0, 600)]));
    testbed.a.post(&Post::send(&[(0, 100)]));
    for turn in 1..=3 {
        assert_eq!(round(&mut testbed, &mut rxe), 4, "turn {turn}");
        assert_eq!(testbed.a.node.events, []);
        assert_eq!(
            testbed.a.emit(),
            [] as [Vec<u8>; 0],
            "nothing while waiting"
        );
        let wait = testbed.a.state.next_deadline().unwrap();
        assert_eq!(wait, turn * rnr_ns(RNR_TIMER_CODE));
        testbed.a.node.now = wait;
        assert!(timer(&mut testbed.a.state, &mut testbed.a.node));
    }
    rxe.receives = 2;
    assert_eq!(round(&mut testbed, &mut rxe), 4);
    assert_eq!((testbed.a.node.sent.len(), rxe.receives), (2, 0));
    clean(&testbed);
}

#[test]
fn a_read_answered_again_with_middle_and_last() {
    let mut testbed = Testbed::new(PathMtu::B256);
    let mut rxe = Rxe::new(0);
    testbed.a.post(&Post::read(&[(1000, 1000)], 5000));
    let request = testbed.a.emit();
    // The second of four responses is lost, and the third shows that.
    let mut answers = rxe.take_in(&request[0]);
    answers.remove(1);
    for answer in &answers[..2] {
        testbed.a.take_in(answer);
    }
    assert_eq!(round(&mut testbed, &mut rxe), 1);
    assert_eq!(testbed.a.node.sent.len(), 1);
    let expected: Vec<u8> = (BASE + 5000..BASE + 6000).map(remote_byte).collect();
    assert_eq!(testbed.a.node.bytes(1000, 1000), expected);
    clean(&testbed);
    // A read of one packet, answered again with LAST.
    testbed.a.post(&Post::read(&[(3000, 100)], 0));
    let request = testbed.a.emit();
    rxe.take_in(&request[0]);
    for answer in rxe.take_in(&request[0]) {
        assert_eq!(testbed.a.take_in(&answer), Outcome::Accepted);
    }
    clean(&testbed);
    assert_eq!(testbed.a.node.sent.len(), 2);
}

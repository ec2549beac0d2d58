//! The QP state encoded as bytes.

use std::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;
use crate::rc::host::AsyncEvent;
use crate::rc::state::{Ack, Cursor, Message, Refusal, Timer};
use crate::wire::{Addresses, Nak};
use crate::wqe::{AeCode, AeSource};

/// A state in which every field differs from every other.
fn full() -> QpRcState {
    let mut config = testbed::config(1, 2, PathMtu::B4096);
    (config.qpn, config.dest_qpn, config.pd, config.pkey) =
        (0x0101_0101, 0x0202_0202, 0x0303_0303, 0x0404);
    (config.sq_quanta, config.rq_quanta, config.rq_slot_quanta) = (32768, 512, 8);
    (config.ord, config.ird, config.retry, config.rnr_retry) = (255, 128, 63, 6);
    (config.credits, config.rnr_timer) = (0x1D, 0x1C);
    (config.window, config.retransmit_ns) = (0xF1F2_F3F4, 0xE1E2_E3E4_E5E6_E7E8);
    config.path.vlan = Some(0x6001);
    config.path.ip = Addresses::V6 {
        src: Ipv6Addr::from(0xA1 << 120 | 1),
        dst: Ipv6Addr::from(0xA2 << 120 | 2),
    };
    (config.path.tos, config.path.ttl, config.path.flow_label) = (0x51, 0x52, 0x5_3535);
    let mut state = QpRcState::new(config);
    state.set_mode(Mode::Sqd);
    let requester = &mut state.requester;
    requester.una = Cursor {
        pos: 0x1111_1111_1111,
        first_psn: 0x11_1112,
        messages: 0x11_1213,
    };
    requester.next = Cursor {
        pos: 0x2222_2222_2222,
        first_psn: 0x22_2223,
        messages: 0x22_2324,
    };
    requester.limit = Some(0xD1_D2D3);
    (requester.una_psn, requester.next_psn, requester.max_psn) = (0x33_3333, 0x44_4444, 0x55_5555);
    (requester.max_pos, requester.reads, requester.retries) = (0x6666_6666_6666, 0x7777, 0x61);
    (requester.rnr_retries, requester.recovering) = (0x62, true);
    requester.timer = Timer::NotReady(0x8888_8888_8888_8888);
    let responder = &mut state.responder;
    (responder.epsn, responder.msn, responder.rq_pos) = (0x99_9999, 0xAA_AAAA, 0xBBBB_BBBB_BBBB);
    responder.message = Message::Write {
        addr: 0xCCCC_CCCC_CCCC_CCCC,
        rkey: 1,
        total: 2,
        received: 3,
    };
    (
        responder.read_head,
        responder.reads_new,
        responder.reads_again,
    ) = (255, 128, 127);
    responder.ack = Some(Ack {
        psn: 0xDD_DDDD,
        msn: 0xDC_DCDC,
    });
    let event = AsyncEvent {
        code: AeCode(0x0303),
        source: AeSource::OutboundReadResponse,
        wqe_index: 0x7ABC,
    };
    responder.refusal = Refusal::Fatal {
        psn: 0xEE_EEEE,
        nak: Nak::RemoteAccess,
        event,
    };
    state
}

#[test]
fn every_field_comes_back() {
    let state = full();
    assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    for timer in [Timer::Off, Timer::Retransmit(5)] {
        let mut state = full();
        state.requester.timer = timer;
        assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    }
    for message in [Message::None, Message::Send { received: 77 }] {
        let mut state = full();
        state.responder.message = message;
        state.responder.ack = None;
        assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    }
    let mut state = full();
    state.requester.limit = None;
    assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    let refusals = [
        Refusal::None,
        Refusal::Sequence { sent: false },
        Refusal::Sequence { sent: true },
        Refusal::NotReady { sent: false },
        Refusal::NotReady { sent: true },
    ];
    for refusal in refusals {
        let mut state = full();
        state.responder.refusal = refusal;
        assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    }
    for mode in [Mode::Idle, Mode::Rts, Mode::Sqd, Mode::Rtr, Mode::Error] {
        let mut state = full();
        state.set_mode(mode);
        assert_eq!(QpRcState::from_bytes(&state.to_bytes()), Ok(state));
    }
}

#[test]
fn fields_stand_where_the_layout_says() {
    let bytes = full().to_bytes();
    let at = |offset: usize, expected: &[u8]| {
        assert_eq!(bytes[offset..offset + expected.len()], *expected);
    };
    at(0, b"RC11\x03\xD3\xD2\xD1\0");
    at(16, &[1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 0x00, 0x10]);
    at(
        46,
        &[0b1_1111, 0x1D, 0x1C, 0xF4, 0xF3, 0xF2, 0xF1, 0xE8, 0xE7],
    );
    at(60, &[0xE1, 0, 0, 0]);
    at(64, &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x01, 0x60, 0xA1]);
    at(128, &[0x11; 6]);
    at(140, &[0x13, 0x12, 0x11]);
    at(178, &[0x77, 0x77, 0x61, 0x62, 1, 2]);
    at(184, &[0x88; 8]);
    at(192, &[0x99, 0x99, 0x99, 0]);
    at(235, &[0xDC, 0xDC, 0xDC, 0]);
    at(
        240,
        &[
            1, 0xDD, 0xDD, 0xDD, 0, 3, 0x62, 0xEE, 0xEE, 0xEE, 0, 0x03, 0x03, 0xD, 0xBC, 0x7A,
        ],
    );
}

#[test]
fn memory_that_holds_no_state_is_refused() {
    assert!(QpRcState::from_bytes(&[0; QP_STATE_BYTES]).is_err());
    assert!(QpRcState::from_bytes(&[0xFF; QP_STATE_BYTES]).is_err());
    let damage = |offset: usize, value: u8| {
        let mut bytes = full().to_bytes();
        bytes[offset] = value;
        QpRcState::from_bytes(&bytes).unwrap_err().to_string()
    };
    assert_eq!(damage(0, 0), "not a stored QP state: bad magic");
    assert_eq!(damage(4, 5), "not a stored QP state: bad mode");
    assert_eq!(damage(8, 1), "not a stored QP state: bad limit");
    assert_eq!(damage(30, 3), "not a stored QP state: bad MTU");
    assert_eq!(damage(32, 1), "not a stored QP state: bad configuration");
    assert_eq!(damage(139, 1), "not a stored QP state: bad PSN");
    assert_eq!(damage(134, 1), "not a stored QP state: bad ring position");
}

#[test]
fn the_configuration_is_checked() {
    let good = testbed::config(1, 2, PathMtu::B256);
    assert_eq!(good.validate(), Ok(()));
    assert_eq!(
        QpConfig {
            sq_quanta: 48,
            ..good
        }
        .validate(),
        Err(ConfigError::Ring(48))
    );
    assert_eq!(
        QpConfig {
            rq_quanta: 65536,
            ..good
        }
        .validate(),
        Err(ConfigError::Ring(65536))
    );
    assert_eq!(
        QpConfig {
            rq_slot_quanta: 3,
            ..good
        }
        .validate(),
        Err(ConfigError::Slot(3))
    );
    assert_eq!(
        QpConfig {
            rq_quanta: 4,
            rq_slot_quanta: 8,
            ..good
        }
        .validate(),
        Err(ConfigError::Slot(8))
    );
    assert_eq!(PathMtu::try_from(1500), Err(BadMtu(1500)));
    assert_eq!(PathMtu::try_from(2048), Ok(PathMtu::B2048));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 500 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Overwriting the state in host memory may stop the QP, but must not do anything worse.
    #[test]
    fn a_damaged_state_never_panics(
        damage in prop::collection::vec((5_usize..QP_STATE_BYTES, any::<u8>()), 1..6),
        psn_step in 0_u32..4,
    ) {
        let mut testbed = Testbed::new(PathMtu::B256);
        for number in 0..4 {
            testbed.b.receive(&[(number * 1000, 600)]);
            testbed.a.post(&Post::send(&[(0, 600)]));
            testbed.a.post(&Post::read(&[(5000, 600)], 0));
        }
        for frame in testbed.a.emit().iter().take(5) {
            testbed.b.take_in(frame);
        }
        for end in [&mut testbed.a, &mut testbed.b] {
            let mut bytes = end.state.to_bytes();
            for &(offset, value) in &damage {
                bytes[offset] = value;
            }
            if let Ok(mut state) = QpRcState::from_bytes(&bytes) {
                // Geometry and identity stay those of the test: the node has memory for these only.
                state.config = end.state.config;
                if state.responder.read_head < 16 && state.responder.reads() <= 16 {
                    end.state = state;
                }
            }
        }
        testbed.a.state.requester.next_psn ^= psn_step;
        for _ in 0..20 {
            for turn in 0..2 {
                let (from, to) = if turn == 0 { (&mut testbed.a, &mut testbed.b) } else { (&mut testbed.b, &mut testbed.a) };
                poll(&mut from.state, &mut from.node);
                from.node.now += RETRANSMIT_NS / 4;
                timer(&mut from.state, &mut from.node);
                for frame in std::mem::take(&mut from.node.out) {
                    to.take_in(&frame);
                }
            }
        }
    }
}

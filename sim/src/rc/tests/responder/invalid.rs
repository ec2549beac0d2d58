//! Invalid requests: unexpected opcode, wrong size, or not permitted.

use super::*;

#[test]
fn packets_out_of_turn() {
    for first in [
        Opcode::SEND_MIDDLE,
        Opcode::SEND_LAST,
        Opcode::WRITE_MIDDLE,
        Opcode::WRITE_LAST_IMM,
    ] {
        let mut responder = Responder::new();
        assert_eq!(responder.request(first, 0, 256), Outcome::Refused);
        responder.refused_as_invalid(0, 0x0312);
    }
    let second = [
        Opcode::SEND_FIRST,
        Opcode::SEND_ONLY,
        Opcode::WRITE_LAST,
        Opcode::READ_REQUEST,
        Opcode(0x15),
    ];
    for second in second {
        let mut responder = Responder::new();
        responder.end().receive(&[(0, 1000)]);
        assert_eq!(
            responder.request(Opcode::SEND_FIRST, 0, 256),
            Outcome::Accepted
        );
        assert_eq!(
            responder.request(second, 1, 256),
            Outcome::Refused,
            "{second:?}"
        );
        // From now on nothing is accepted, and the NAK covers the acknowledge.
        let dropped = Outcome::Dropped(DropReason::Refusing);
        assert_eq!(responder.request(Opcode::SEND_LAST, 1, 1), dropped);
        responder.refused_as_invalid(1, 0x0312);
    }
}

#[test]
fn packets_of_the_wrong_size() {
    let cases = [
        (Opcode::SEND_FIRST, 255),
        (Opcode::SEND_FIRST, 257),
        (Opcode::SEND_ONLY, 257),
    ];
    for (opcode, payload) in cases {
        let mut responder = Responder::new();
        responder.end().receive(&[(0, 1000)]);
        assert_eq!(
            responder.request(opcode, 0, payload),
            Outcome::Refused,
            "{opcode:?} {payload}"
        );
        responder.refused_as_invalid(0, 0x0312);
    }
    for (opcode, payload) in [
        (Opcode::SEND_MIDDLE, 4),
        (Opcode::SEND_LAST, 0),
        (Opcode::SEND_LAST, 257),
    ] {
        let mut responder = Responder::new();
        responder.end().receive(&[(0, 1000)]);
        responder.request(Opcode::SEND_FIRST, 0, 256);
        assert_eq!(
            responder.request(opcode, 1, payload),
            Outcome::Refused,
            "{opcode:?} {payload}"
        );
        responder.refused_as_invalid(1, 0x0312);
    }
}

#[test]
fn writes_whose_length_does_not_add_up() {
    for (total, payload) in [(10, 9), (10, 11), (0, 1), (0x8000_0000, 256)] {
        let mut responder = Responder::new();
        let outcome = responder.write(Opcode::WRITE_ONLY, 0, total, payload);
        assert_eq!(outcome, Outcome::Refused, "{total} {payload}");
        responder.refused_as_invalid(0, 0x0314);
    }
    let mut responder = Responder::new();
    assert_eq!(
        responder.write(Opcode::WRITE_FIRST, 0, 256, 256),
        Outcome::Refused
    );
    responder.refused_as_invalid(0, 0x0314);
    for (opcode, payload) in [
        (Opcode::WRITE_MIDDLE, 256),
        (Opcode::WRITE_LAST, 1),
        (Opcode::WRITE_LAST, 256),
    ] {
        let mut responder = Responder::new();
        assert_eq!(
            responder.write(Opcode::WRITE_FIRST, 0, 300, 256),
            Outcome::Accepted
        );
        assert_eq!(
            responder.request(opcode, 1, payload),
            Outcome::Refused,
            "{opcode:?} {payload}"
        );
        responder.refused_as_invalid(1, 0x0314);
    }
}

#[test]
fn atomics_are_refused() {
    let mut responder = Responder::new();
    // The builder makes no atomics: a send is changed into one, with room for the atomic header.
    let mut frame = responder.frame(&responder.headers(Opcode::SEND_ONLY, 0), 28);
    frame[42] = Opcode::FETCH_ADD.0;
    crate::wire::reseal(&mut frame);
    assert_eq!(responder.end().take_in(&frame), Outcome::Refused);
    responder.refused_as_invalid(0, 0x0312);
}

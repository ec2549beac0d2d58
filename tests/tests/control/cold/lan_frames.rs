//! Ethernet frames between the LAN ports of two functions, beside the engine's packets.

use e810::{Control, EventSet, LanInit, LanPort, MacAddr, Platform};
use e810_hal::{Clock, Ns};
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{End, Kind, Pair, Setup, Transfer};

use crate::cold::world::{assert_as_found, builder, up};

/// A function, up, with a port.
struct Side {
    nic: SimPlatform,
    control: Control<SimPlatform>,
    events: EventSet<SimPlatform>,
    port: LanPort<SimPlatform>,
}

fn side(sim: &Sim, function: u8, init: &LanInit) -> Side {
    let nic = sim.function(function);
    let (mut control, events) = up(nic.clone(), &mut |_| {}).unwrap().split();
    let port = control.open_lan(init).unwrap();
    Side {
        nic,
        control,
        events,
        port,
    }
}

impl Side {
    fn mac(&self) -> MacAddr {
        self.control.lan().mac
    }

    /// What comes within 5 ms.
    fn next(&mut self) -> Option<Vec<u8>> {
        next(&self.nic, &mut self.port)
    }

    fn end(mut self) {
        self.control
            .close_lan(self.port)
            .map_err(|(_, error)| error)
            .unwrap();
        self.control
            .shutdown(self.events)
            .map_err(|failed| failed.error)
            .unwrap();
    }
}

fn next<P: Platform>(clock: &impl Clock, port: &mut LanPort<P>) -> Option<Vec<u8>> {
    let mut into = vec![0; port.max_frame()];
    let end = clock.now() + Ns::from_ms(5);
    while clock.now() < end {
        if let Some(len) = port.receive(&mut into) {
            into.truncate(len);
            return Some(into);
        }
        clock.relax();
    }
    None
}

/// A frame of an Ethertype for experiments, `len` bytes in all.
fn frame(to: MacAddr, from: MacAddr, len: usize, seed: u8) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &[0x88, 0xB6]].concat();
    frame.extend((frame.len()..len).map(|i| (i as u8).wrapping_mul(3) ^ seed));
    frame
}

/// Every number of buffers, both ways, for more laps than one of both rings.
#[test]
fn frames_of_all_lengths_pass_both_ways() {
    let sim = builder(2).build();
    let init = LanInit::new(9000);
    let mut sides = [0, 1].map(|function| side(&sim, function, &init));
    let lengths = [
        60, 61, 64, 1514, 2047, 2048, 2049, 4096, 4097, 8192, 8193, 9014,
    ];
    for lap in 0..12 {
        for (seed, len) in (lap..).zip(lengths) {
            for (from, to) in [(0, 1), (1, 0)] {
                let sent = frame(sides[to].mac(), sides[from].mac(), len, seed);
                sides[from].port.transmit(&sent).unwrap();
                assert_eq!(sides[to].next(), Some(sent), "{len} bytes");
            }
        }
    }
    for side in &mut sides {
        assert_eq!((side.port.outstanding(), side.next()), (0, None));
        assert_eq!(side.port.tx_counts().done, 144);
        let counts = side.port.rx_counts();
        assert_eq!(
            (counts.frames, counts.malformed, counts.damaged),
            (144, 0, 0)
        );
        assert_eq!((counts.format, counts.tag_lost, counts.too_long), (0, 0, 0));
    }
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

/// One after the other as fast as the rings take them.
#[test]
fn a_burst_arrives_in_order() {
    let sim = builder(2).build();
    let mut sides = [0, 1].map(|function| side(&sim, function, &LanInit::default()));
    let (to, from) = (sides[1].mac(), sides[0].mac());
    let (mut sent, mut got) = (0u32, 0u32);
    while got < 1000 {
        while sent < 1000 && sent < got + 40 {
            let mut bytes = frame(to, from, 100, 0);
            bytes[14..18].copy_from_slice(&sent.to_be_bytes());
            if sides[0].port.transmit(&bytes).is_err() {
                break;
            }
            sent += 1;
        }
        let bytes = sides[1].next().unwrap();
        assert_eq!(bytes[14..18], got.to_be_bytes());
        got += 1;
    }
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

/// Broadcast and all IPv6 nodes from the start, others when they are joined, and no
/// other function's.
#[test]
fn groups_are_let_in_when_they_are_joined() {
    let sim = builder(2).build();
    let mut sides = [0, 1].map(|function| side(&sim, function, &LanInit::default()));
    let from = sides[0].mac();
    let arrives = |sides: &mut [Side; 2], to: MacAddr| {
        let sent = frame(to, from, 80, 1);
        sides[0].port.transmit(&sent).unwrap();
        let got = sides[1].next();
        assert!(got.is_none() || got == Some(sent));
        assert_eq!(sides[0].next(), None, "not back to its sender");
        got.is_some()
    };
    assert!(arrives(&mut sides, MacAddr([0xFF; 6])));
    assert!(arrives(&mut sides, MacAddr([0x33, 0x33, 0, 0, 0, 1])));
    let solicited = MacAddr([0x33, 0x33, 0xFF, 1, 2, 3]);
    assert!(!arrives(&mut sides, solicited));
    let [_, receiver] = &mut sides;
    let joined = receiver.control.join_lan_group(&receiver.port, solicited);
    joined.unwrap();
    assert!(arrives(&mut sides, solicited));
    let [_, receiver] = &mut sides;
    let left = receiver.control.leave_lan_group(&receiver.port, solicited);
    left.unwrap();
    assert!(!arrives(&mut sides, solicited));
    assert!(!arrives(&mut sides, MacAddr([2, 9, 9, 9, 9, 9])));
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

/// Tags stay in frames, and frames between 14 and 60 bytes arrive padded.
#[test]
fn tagged_and_short_frames_arrive_as_they_are() {
    let sim = builder(2).build();
    let mut sides = [0, 1].map(|function| side(&sim, function, &LanInit::default()));
    let (to, from) = (sides[1].mac(), sides[0].mac());
    let mut tagged = frame(to, from, 1518, 7);
    tagged[12..16].copy_from_slice(&[0x81, 0, 0x20, 42]);
    sides[0].port.transmit(&tagged).unwrap();
    assert_eq!(sides[1].next(), Some(tagged));
    for len in [14, 20, 59] {
        let mut short = frame(to, from, len, 1);
        sides[0].port.transmit(&short).unwrap();
        short.resize(60, 0);
        assert_eq!(sides[1].next(), Some(short));
    }
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

/// A receiver that does not look loses what does not fit, and goes on with what comes
/// then.
#[test]
fn a_full_ring_drops_and_recovers() {
    let sim = builder(2).build();
    let mut sides = [0, 1].map(|function| side(&sim, function, &LanInit::default()));
    let (to, from) = (sides[1].mac(), sides[0].mac());
    for _ in 0..3 {
        for seed in 0..100 {
            sides[0].port.transmit(&frame(to, from, 100, seed)).unwrap();
            sides[0].nic.delay(Ns::from_us(10));
        }
        let mut got = 0;
        while let Some(bytes) = sides[1].next() {
            assert_eq!(bytes, frame(to, from, 100, got));
            got += 1;
        }
        assert!((56..=64).contains(&got), "{got}");
    }
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

/// The engine's packets do not come here, and frames do not disturb it.
#[test]
fn frames_and_messages_do_not_meet() {
    let sim = builder(2).build();
    let mut pair = Pair::cold(&sim, Setup::default());
    let init = LanInit::default();
    let mut open = |side: usize| pair.sides[side].control.open_lan(&init).unwrap();
    let mut ports = [open(0), open(1)];
    let macs = [0, 1].map(|side: usize| pair.sides[side].control.lan().mac);
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        for side in [0, 1] {
            let sent = frame(macs[1 - side], macs[side], 600, 9);
            ports[side].transmit(&sent).unwrap();
            pair.transfer(End { side, qp: 0 }, &Transfer::new(kind, 20_000));
            let clock = sim.function(0);
            assert_eq!(next(&clock, &mut ports[1 - side]), Some(sent));
            assert_eq!(next(&clock, &mut ports[side]), None);
        }
    }
    for (side, port) in ports.into_iter().enumerate() {
        let closed = pair.sides[side].control.close_lan(port);
        closed.map_err(|(_, error)| error).unwrap();
    }
    pair.finish(&sim);
}

/// A frame interrupts on the vector of the asynchronous events, once until that is
/// handled; without a handler frames come all the same.
#[test]
fn a_frame_interrupts_and_is_there_without_a_handler() {
    let sim = builder(2).build();
    let mut sides = [0, 1].map(|function| side(&sim, function, &LanInit::default()));
    let (to, from) = (sides[1].mac(), sides[0].mac());
    let vector = sides[1].port.vector();
    let fired = |side: &Side| {
        let taken = side.nic.take_interrupts();
        taken.iter().filter(|one| **one == vector).count()
    };
    let handle = |side: &mut Side| {
        let mut parts = side.events.iter_mut();
        let part = parts.find(|part| part.vector() == vector).unwrap();
        part.on_vector(&mut |event| panic!("{event:?}"));
    };
    fired(&sides[1]);
    for round in 0..3 {
        for seed in 0..3 {
            let sent = frame(to, from, 100, seed);
            sides[0].port.transmit(&sent).unwrap();
            sides[1].nic.delay(Ns::from_us(100));
            let expected = usize::from(seed == 0);
            assert_eq!(fired(&sides[1]), expected, "round {round}, frame {seed}");
            assert_eq!(sides[1].next(), Some(sent));
        }
        handle(&mut sides[1]);
        fired(&sides[1]);
        handle(&mut sides[1]);
    }
    sides.into_iter().for_each(Side::end);
    assert_as_found(&sim);
}

mod rings;

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use e810_sim::Mode;

use super::*;
use crate::socket::{set, take_refused};

const A: Mac = [2, 0, 0, 0, 0xa, 0];
const B: Mac = [2, 0, 0, 0, 0xb, 0];
const OUTSIDE: Mac = [2, 0, 0, 0, 0xc, 0];
const ALL: Mac = [0xff; 6];

/// A name that no other test has, of this process or another.
fn name() -> WireName {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let text = format!("unit-{}-{number}", std::process::id());
    text.parse().unwrap()
}

/// A simulator with one function, and the sources and tags of the frames that come from outside.
struct End {
    wire: Wire,
    sim: Sim,
    seen: Arc<Mutex<Vec<(Mac, u8)>>>,
}

fn end(name: &WireName, mac: Mac) -> End {
    let sim = Sim::builder().mode(Mode::Real).first_mac(mac).build();
    let seen = Arc::<Mutex<Vec<_>>>::default();
    let log = Arc::clone(&seen);
    sim.set_capture(Some(Box::new(move |frame| {
        let source = frame.bytes[6..12].try_into().unwrap();
        log.lock().unwrap().push((source, frame.bytes[14]));
    })));
    let wire = Wire::join(&sim, &WireSpec::Segment(name.clone())).unwrap();
    End { wire, sim, seen }
}

impl End {
    /// Waits for so many frames from outside.
    fn wait(&self, count: usize) -> Vec<(Mac, u8)> {
        until(|| {
            let seen = self.seen.lock().unwrap();
            (seen.len() >= count).then(|| seen.clone())
        })
    }
}

fn until<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ready() {
            return answer;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "not within 60 s");
        thread::sleep(Duration::from_millis(1));
    }
}

fn frame(to: Mac, from: Mac, tag: u8) -> Vec<u8> {
    let mut frame = [&to[..], &from[..], &[0x88, 0x99, tag]].concat();
    frame.resize(60, 0);
    frame
}

/// A socket of another program, such as a virtual machine's: it receives and sends at the group's
/// port.
fn program(name: &WireName) -> UdpSocket {
    let socket = bind_shared(name.group()).unwrap();
    let loopback = Ipv4Addr::LOCALHOST;
    socket
        .join_multicast_v4(name.group().ip(), &loopback)
        .unwrap();
    // As QEMU with `localaddr=127.0.0.1`: without it the machine's routes would say where to send.
    let loopback = i32::from_ne_bytes(loopback.octets());
    set(&socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, loopback).unwrap();
    socket
}

/// The next datagram, if there is one now.
fn next(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
    let mut bytes = vec![0; 10_000];
    match socket.recv_from(&mut bytes) {
        Ok((length, from)) => {
            bytes.truncate(length);
            Some((bytes, from))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_end_announces_itself_and_takes_nothing_of_its_own() {
    let name = name();
    let program = program(&name);
    let a = end(&name, A);
    let (bytes, from) = next(&program).unwrap();
    assert_eq!((bytes, from), (announcement::of(A), a.wire.local()));
    let b = end(&name, B);
    assert_eq!(next(&program).unwrap().0, announcement::of(B));
    assert_eq!(next(&program), None);
    // Announcements are for the ends, not for functions; this is for functions.
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    outside
        .send_to(&frame(ALL, OUTSIDE, 7), name.group())
        .unwrap();
    for end in [&a, &b] {
        assert_eq!(end.wait(1), [(OUTSIDE, 7)]);
        until(|| (end.wire.report().received == 1).then_some(()));
        let report = end.wire.report();
        let expected = LinkReport {
            wire: Some(name.to_string()),
            local: end.wire.local().to_string(),
            peer: name.group().to_string(),
            received: 1,
            receive_overflows: report.receive_overflows,
            receive_buffer: report.receive_buffer,
            send_buffer: report.send_buffer,
            ..LinkReport::default()
        };
        assert_eq!(report, expected);
        assert!(report.receive_overflows.is_none_or(|count| count == 0));
    }
}

#[test]
fn names_do_not_mix() {
    let [one, other] = [name(), name()];
    let (a, b) = (end(&one, A), end(&other, B));
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    for (tag, name) in [(1, &one), (2, &other)] {
        let frame = frame(ALL, OUTSIDE, tag);
        outside.send_to(&frame, name.group()).unwrap();
    }
    assert_eq!(a.wait(1), [(OUTSIDE, 1)]);
    assert_eq!(b.wait(1), [(OUTSIDE, 2)]);
}

#[test]
fn what_is_no_frame_or_of_a_stranger_is_counted_and_dropped() {
    let name = name();
    let a = end(&name, A);
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    let good = frame(A, OUTSIDE, 1);
    let mut cut = frame(A, OUTSIDE, 2);
    cut[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 100]);
    let send = |socket: &UdpSocket, bytes: &[u8]| {
        socket.send_to(bytes, name.group()).unwrap();
        socket.send_to(bytes, a.wire.local()).unwrap();
    };
    send(&stranger, &good);
    send(&outside, &[]);
    send(&outside, &[1; 13]);
    send(&outside, &[2; crate::frame::LONGEST + 1]);
    send(&outside, &[2; 65_507]);
    send(&outside, &cut);
    send(&outside, &frame(B, OUTSIDE, 3));
    send(&outside, &good);
    let report = until(|| Some(a.wire.report()).filter(|report| report.received == 2));
    let counts = [
        (report.strangers, 2),
        (report.no_frame, 4),
        (report.too_long, 4),
        (report.truncated, 2),
        (report.not_ours, 2),
        (report.own_addresses, 0),
        (report.receive_errors, 0),
    ];
    assert!(counts.iter().all(|(is, want)| is == want), "{report:?}");
    assert_eq!(a.wait(2), [(OUTSIDE, 1); 2]);
}

#[test]
fn an_address_that_another_end_has_too_is_noticed() {
    let name = name();
    let (a, b) = (end(&name, A), end(&name, A));
    until(|| (a.wire.report().own_addresses == 1).then_some(()));
    assert_eq!(b.wire.report().own_addresses, 0, "it came later");
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    outside.send_to(&frame(ALL, A, 1), name.group()).unwrap();
    until(|| (b.wire.report().own_addresses == 1).then_some(()));
    assert_eq!(b.wait(1), [(A, 1)], "as on any wire");
}

#[test]
fn an_end_that_is_dropped_leaves_nothing_behind() {
    let name = name();
    let a = end(&name, A);
    let at = a.wire.local();
    drop(a.wire);
    let b = end(&name, B);
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    remember_refused(&outside).unwrap();
    outside.send_to(&frame(A, OUTSIDE, 1), at).unwrap();
    assert_eq!(take_refused(&outside).map(Into::into), Some(at));
    outside
        .send_to(&frame(ALL, OUTSIDE, 2), name.group())
        .unwrap();
    assert_eq!(b.wait(1), [(OUTSIDE, 2)]);
    assert_eq!(a.sim.receive_frames([]), 0, "the simulator goes on");
    assert_eq!(*a.seen.lock().unwrap(), []);
}

/// The sending side of an end, and the address table that its receiving side would fill.
#[test]
fn frames_go_to_the_end_that_has_the_address_and_else_to_all() {
    let name = name();
    let sim = Sim::builder().first_mac(A).build();
    let program = program(&name);
    let bound = segment(&sim, &name).unwrap();
    assert_eq!(next(&program).unwrap().0, announcement::of(A));
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let Source::Ends(segment) = &bound.source else {
        panic!("the source of a segment")
    };
    let mut sender = Sender {
        socket: Arc::clone(&bound.socket),
        target: bound.target,
        counts: Arc::default(),
        warned: false,
        outgoing: None,
        mac: A,
    };
    let to_all = |tag| Some((frame(B, A, tag), bound.local));
    sender.send(&frame(B, A, 1));
    assert_eq!(next(&program), to_all(1));
    let at = other.local_addr().unwrap();
    segment.hearing.known.learn(B, at, Instant::now());
    sender.send(&frame(B, A, 2));
    assert_eq!((next(&other), next(&program)), (to_all(2), None));
    sender.send(&frame(ALL, A, 3));
    let frame_to_all = Some((frame(ALL, A, 3), bound.local));
    assert_eq!((next(&other), next(&program)), (None, frame_to_all));
    // It ends; a successor at another port is not known yet.
    drop(other);
    sender.send(&frame(B, A, 4));
    sender.send(&frame(B, A, 5));
    assert_eq!(next(&program), to_all(5));
    assert_eq!(sender.counts.not_sent.get(), 0);
}

/// A virtual machine's frames come from the port that all share: an answer there would reach
/// nobody, or somebody else.
#[test]
fn the_port_of_the_group_is_nobodys_address() {
    let name = name();
    let a = end(&name, A);
    let program = program(&name);
    let known = Arc::<Ends>::default();
    let receiver = Receiver {
        sim: a.sim.clone(),
        socket: Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()),
        source: Source::Ends(Segment {
            hearing: Arc::new(Hearing {
                known: Arc::clone(&known),
                macs: vec![A],
                shared_port: name.group().port(),
                counts: Arc::default(),
            }),
            to_all: Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap()),
            own: a.wire.local(),
        }),
        counts: Arc::default(),
        stop: Arc::new(EventFd::new(EFD_NONBLOCK).unwrap()),
        rings: None,
    };
    let now = Instant::now();
    let heard = |port: u16, from: Mac| {
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        assert!(receiver.is_good(&frame(A, from, 1), at, now));
        known.of(&from, now)
    };
    assert_eq!(heard(name.group().port(), B), None);
    let at = heard(4, OUTSIDE).unwrap();
    assert_eq!(at.port(), 4);
    assert_eq!(heard(5, A), None, "our own");
    // What such a program sends arrives all the same.
    program.send_to(&frame(A, B, 9), name.group()).unwrap();
    assert_eq!(a.wait(1), [(B, 9)]);
}

#[test]
fn a_wire_that_cannot_be_joined_says_why() {
    let name = name();
    let sim = Sim::builder().build();
    // For itself, at the address of every interface.
    let at = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, name.group().port());
    let taken = UdpSocket::bind(at).unwrap();
    let error = Wire::join(&sim, &WireSpec::Segment(name.clone())).unwrap_err();
    assert!(matches!(error, WireError::Group { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("ss -ulnp") && text.contains("another name"),
        "{text}"
    );
    drop(taken);
    drop(Wire::join(&sim, &WireSpec::Segment(name)).unwrap());
    let here = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let taken = UdpSocket::bind(here).unwrap();
    let ends = format!("{here},127.0.0.1:1").parse().unwrap();
    let error = Wire::join(&sim, &WireSpec::Pair(ends)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("receiving frames at {here}: ")),
        "{text}"
    );
    drop(taken);
}

//! Rings between ends.

use std::thread;

use e810_shared::memory::{MappedMemory, PAGE, SharedMemory};
use e810_shared::ring::Writer;
use e810_shared::seqpacket::{Address, Seqpacket};
use e810_sim::link::Uplink as _;

use super::*;

/// Bytes of a ring's file.
const FILE: usize = (2 << 20) + PAGE;
/// What offers and answers begin with.
const VERSION: &[u8] = b"e810 ring 1 ";
const MOST_RINGS: usize = 32;

/// Sends a frame from an end, as its simulator does.
fn send(from: &End, frame: Vec<u8>) {
    from.wire.uplink.send(&[frame]);
}

/// Sends frames from `a` to `b` until they go through a ring; how many, with tags from 0.
fn until_ring(a: &End, b: &End, [from, to]: [Mac; 2]) -> usize {
    let before = a.wire.report();
    let mut sent = b.seen.lock().unwrap().len();
    until(|| {
        send(a, frame(to, from, sent as u8));
        sent += 1;
        b.wait(sent);
        // What is not heard of is not known for long.
        send(b, announcement::of(to));
        let report = a.wire.report();
        (report.sent_by_ring > before.sent_by_ring + 3).then_some(sent)
    })
}

#[test]
fn frames_change_from_datagrams_to_a_ring_and_stay_in_order() {
    let name = name();
    let (a, b) = (end(&name, A), end(&name, B));
    // To all, because B has not sent to A; then to the address that B has announced.
    let mut sent = 0;
    while a.wire.report().sent_by_ring < 1000 {
        send(&a, frame(B, A, (sent % 251) as u8));
        sent += 1;
        if sent % 16 == 0 {
            b.wait(sent);
        }
    }
    let seen = b.wait(sent);
    let tags = seen.iter().map(|(_, tag)| usize::from(*tag));
    assert!(tags.eq((0..sent).map(|number| number % 251)));
    let (from, to) = (a.wire.report(), b.wire.report());
    assert_eq!((from.rings_out, to.rings_in), (1, 1));
    assert_eq!((from.sent, from.not_sent), (sent as u64, 0));
    assert_eq!(
        (to.received, to.received_by_ring),
        (from.sent, from.sent_by_ring)
    );
    assert!(from.sent_by_ring < from.sent, "the first were datagrams");
    // The other way is another ring. Frames to groups are datagrams.
    until_ring(&b, &a, [B, A]);
    let ringed = a.wire.report().sent_by_ring;
    send(&a, frame(ALL, A, 3));
    b.wait(sent + 1);
    assert_eq!(a.wire.report().sent_by_ring, ringed);
    // An address that is not known for long is known as long as the ring is there.
    thread::sleep(Duration::from_millis(1200));
    send(&a, frame(B, A, 4));
    b.wait(sent + 2);
    assert_eq!(a.wire.report().sent_by_ring, ringed + 1);
    assert_eq!(a.wire.report().own_addresses, 0);
}

#[test]
fn an_end_that_ends_leaves_its_frames_and_gives_its_rings_back() {
    let name = name();
    let a = end(&name, A);
    for _ in 0..3 {
        let b = end(&name, B);
        until_ring(&a, &b, [A, B]);
        until_ring(&b, &a, [B, A]);
        let here = a.seen.lock().unwrap().len();
        for tag in 0..20 {
            send(&b, frame(A, B, tag));
        }
        drop(b);
        let seen = a.wait(here + 20);
        assert!(seen[here..].iter().map(|(_, tag)| *tag).eq(0..20));
        until(|| {
            let report = a.wire.report();
            ((report.rings_in, report.rings_out) == (0, 0)).then_some(())
        });
    }
}

#[test]
fn an_address_that_moves_to_another_end_is_followed() {
    let name = name();
    let (a, b) = (end(&name, A), end(&name, B));
    until_ring(&a, &b, [A, B]);
    let c = end(&name, OUTSIDE);
    // C takes B's address over, as any end can.
    send(&c, frame(A, B, 1));
    let before = b.seen.lock().unwrap().len();
    a.wait(1);
    send(&a, frame(B, A, 77));
    until(|| (c.wire.report().not_ours == 1).then_some(()));
    assert_eq!(b.seen.lock().unwrap().len(), before);
    // B says that it is still there.
    until_ring(&b, &a, [B, A]);
    send(&a, frame(B, A, 78));
    b.wait(before + 1);
}

/// A writer that does what it likes, from a port of its own.
struct Stranger {
    socket: UdpSocket,
    link: Seqpacket,
}

impl Stranger {
    fn connect(name: &WireName, to: &End) -> Self {
        let port = to.wire.local().port();
        let at = Address::of_name(&format!("e810-wire {} {port}", name.group())).unwrap();
        Self {
            socket: UdpSocket::bind("127.0.0.1:0").unwrap(),
            link: Seqpacket::connect_nonblocking(&at).unwrap(),
        }
    }

    fn offer(&self, memory: &SharedMemory) {
        let port = self.socket.local_addr().unwrap().port();
        let bytes = [VERSION, &port.to_be_bytes()].concat();
        self.link.send(&bytes, Some(memory.file())).unwrap();
    }

    /// What the end says next; nothing if it has closed the connection.
    fn hear(&self) -> Vec<u8> {
        let mut bytes = [0; 200];
        let length = until(|| match self.link.receive(&mut bytes) {
            Ok((length, _)) => Some(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Some(0),
            Err(error) => panic!("{error}"),
        });
        bytes[..length].to_vec()
    }

    /// The number that an end answers with.
    fn number(&self) -> u64 {
        let answer = self.hear();
        let answer = answer.strip_prefix(VERSION).expect("an answer");
        assert_eq!(answer.len(), 8 + 6);
        u64::from_be_bytes(*answer.first_chunk().unwrap())
    }

    fn tell(&self, number: u64, to: &End) {
        let frame = announcement::of_ring(OUTSIDE, number);
        self.socket.send_to(&frame, to.wire.local()).unwrap();
    }
}

fn memory() -> SharedMemory {
    SharedMemory::new(FILE, false).unwrap()
}

fn writer(memory: SharedMemory) -> Writer<MappedMemory> {
    Writer::new(memory.without_file())
}

#[test]
fn what_is_no_offer_closes_the_connection() {
    let name = name();
    let a = end(&name, A);
    let connect = || Stranger::connect(&name, &a);
    let nothing = connect();
    nothing.link.send(b"hello", None).unwrap();
    assert!(nothing.hear().is_empty());
    let other_version = connect();
    let file = memory();
    other_version
        .link
        .send(b"e810 ring 2 xx", Some(file.file()))
        .unwrap();
    assert!(other_version.hear().is_empty());
    let no_file = connect();
    no_file
        .link
        .send(&[VERSION, &[1, 2]].concat(), None)
        .unwrap();
    assert!(no_file.hear().is_empty());
    for bytes in [PAGE, FILE - PAGE, FILE + PAGE] {
        let short = connect();
        short.offer(&SharedMemory::new(bytes, false).unwrap());
        assert!(short.hear().is_empty());
    }
    assert_eq!(a.wire.report().rings_in, 0);
    // Another one is taken.
    let good = connect();
    good.offer(&memory());
    good.number();
    assert_eq!(a.wire.report().rings_in, 1);
}

#[test]
fn a_ring_is_read_when_its_port_has_told_the_number_and_ends_when_it_is_broken() {
    let name = name();
    let a = end(&name, A);
    let stranger = Stranger::connect(&name, &a);
    let file = memory();
    let again = file.file().try_clone_to_owned().unwrap();
    let again = SharedMemory::of_file(again, FILE).unwrap().without_file();
    stranger.offer(&file);
    let number = stranger.number();
    let mut writer = writer(file);
    writer.write(&frame(A, OUTSIDE, 2)).unwrap();
    writer.publish();
    // From another port, with another number, and what comes as a datagram before.
    let elsewhere = Stranger::connect(&name, &a);
    elsewhere.tell(number, &a);
    stranger.tell(number ^ 1, &a);
    stranger
        .socket
        .send_to(&frame(A, OUTSIDE, 1), a.wire.local())
        .unwrap();
    assert_eq!(a.wait(1), [(OUTSIDE, 1)]);
    stranger.tell(number, &a);
    assert_eq!(stranger.hear(), b"started");
    assert_eq!(a.wait(2)[1], (OUTSIDE, 2));
    // What is no frame is dropped.
    for bytes in [&[][..], &[1; 13], &frame(A, OUTSIDE, 3)] {
        writer.write(bytes).unwrap();
    }
    writer.publish();
    stranger.link.send(b"wake", None).unwrap();
    assert_eq!(a.wait(3)[2], (OUTSIDE, 3));
    assert_eq!(a.wire.report().no_frame, 2);
    // A position that cannot be.
    again.words()[0].store(u64::MAX / 2, Ordering::Relaxed);
    stranger.link.send(b"wake", None).unwrap();
    assert!(stranger.hear().is_empty());
    until(|| (a.wire.report().rings_in == 0).then_some(()));
    // Datagrams still come, and another ring is taken.
    stranger
        .socket
        .send_to(&frame(A, OUTSIDE, 4), a.wire.local())
        .unwrap();
    assert_eq!(a.wait(4)[3], (OUTSIDE, 4));
    let next = Stranger::connect(&name, &a);
    next.offer(&memory());
    next.number();
}

#[test]
fn so_many_rings_are_taken_and_places_come_back() {
    let name = name();
    let a = end(&name, A);
    let file = memory();
    let mut all: Vec<Stranger> = (0..MOST_RINGS)
        .map(|_| Stranger::connect(&name, &a))
        .collect();
    for one in &all {
        one.offer(&file);
        one.number();
    }
    let further = Stranger::connect(&name, &a);
    further.offer(&file);
    assert!(further.hear().is_empty());
    all.pop();
    until(|| (a.wire.report().rings_in == MOST_RINGS - 1).then_some(()));
    let next = Stranger::connect(&name, &a);
    next.offer(&file);
    next.number();
    // Those that say nothing keep nobody out.
    let silent: Vec<Stranger> = (0..3 * MOST_RINGS)
        .map(|_| Stranger::connect(&name, &a))
        .collect();
    all.clear();
    until(|| (a.wire.report().rings_in == 1).then_some(()));
    let last = Stranger::connect(&name, &a);
    last.offer(&file);
    last.number();
    drop(silent);
}

/// A reader that answers, and then does not read: frames to it are lost when its ring is full, and
/// others get theirs.
#[test]
fn a_reader_that_does_not_read_harms_itself_alone() {
    let name = name();
    let (a, b) = (end(&name, A), end(&name, B));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let at = Address::of_name(&format!("e810-wire {} {port}", name.group())).unwrap();
    let acceptor = Acceptor::bind(&at).unwrap();
    acceptor.listen().unwrap();
    socket
        .send_to(&frame(A, OUTSIDE, 1), a.wire.local())
        .unwrap();
    a.wait(1);
    send(&a, frame(OUTSIDE, A, 1));
    let link = until(|| acceptor.accept_nonblocking().ok());
    let (_, file) = until(|| link.receive(&mut [0; 200]).ok());
    let memory = SharedMemory::of_file(file.unwrap(), FILE)
        .unwrap()
        .without_file();
    let answer = [VERSION, &[7; 8], &OUTSIDE].concat();
    link.send(&answer, None).unwrap();
    until(|| (a.wire.report().rings_out == 1).then_some(()));
    let long = || {
        let mut long = frame(OUTSIDE, A, 1);
        long.resize(9000, 0);
        long
    };
    until(|| {
        send(&a, long());
        (a.wire.report().rings_full >= 10).then_some(())
    });
    until_ring(&a, &b, [A, B]);
    // It gives back more than there is.
    memory.words()[16].store(u64::MAX / 3, Ordering::Relaxed);
    until(|| {
        send(&a, long());
        (a.wire.report().rings_out == 1).then_some(())
    });
    until_ring(&a, &b, [A, B]);
}

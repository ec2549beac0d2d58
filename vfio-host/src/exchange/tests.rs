use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::thread;

use e810::{MacAddr, Mtu, Qpn, v4};
use serde_json::{Map, json};

use super::*;
use crate::pingpong::Endpoint;

/// Far above what loopback takes.
const WAIT: Duration = Duration::from_secs(20);

fn connection(wait: Duration) -> (TcpStream, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (here, peer) = listener.accept().unwrap();
    (there, Link::new(Lines::new(here, peer).unwrap(), wait))
}

fn hello(size: u32) -> Hello {
    let terms = [("command", json!("pingpong")), ("size", json!(size))];
    let endpoint = Endpoint {
        qpn: Qpn::new(7).unwrap(),
        psn: 0xFF_FFFF,
        qkey: 1,
        address: u64::MAX,
        rkey: u32::MAX,
    };
    Hello::new(
        terms
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<Map<_, _>>(),
        MacAddr([2, 0, 0, 0, 0, 1]),
        v4(10, 0, 0, 1).into(),
        Mtu::Mtu1024,
        [endpoint],
    )
}

/// What `greet` makes of a line.
fn heard(line: &[u8]) -> Result<Peer, ExchangeError> {
    let (mut there, mut link) = connection(WAIT);
    there.write_all(line).unwrap();
    drop(there.shutdown(std::net::Shutdown::Write));
    link.greet(&hello(64))
}

/// A hello with one field changed, as a line.
fn line(field: &str, value: Value) -> Vec<u8> {
    let mut message = serde_json::to_value(Message::Hello(hello(64))).unwrap();
    message[field] = value;
    let mut line = serde_json::to_vec(&message).unwrap();
    line.push(b'\n');
    line
}

#[test]
fn two_sides_learn_of_each_other_and_part() {
    let meeting = |listen: Option<&str>, connect| {
        let args = MeetingArgs {
            listen: listen.map(|at| at.parse().unwrap()),
            connect,
            wait: 20,
        };
        args.open().unwrap().unwrap()
    };
    let listener = meeting(Some("127.0.0.1:0"), None);
    let connector = meeting(None, Some(listener.at()));
    assert_eq!((listener.role, connector.role), (Role::Answer, Role::Ask));
    let side = |meeting: Meeting, mtu, errors| {
        let mut link = meeting.meet().unwrap();
        let mut hello = hello(64);
        hello.mtu = mtu;
        let peer = link.greet(&hello).unwrap();
        assert_eq!(peer.mtu, Mtu::Mtu512, "the smaller one");
        assert_eq!(peer.mac, MacAddr([2, 0, 0, 0, 0, 1]));
        assert_eq!(peer.gid, v4(10, 0, 0, 1).into());
        let [endpoint] = peer.endpoints[..] else {
            panic!("one endpoint")
        };
        assert_eq!(Place::from(endpoint), hello.places[0]);
        link.ready().unwrap();
        let verified = 10 - errors;
        link.done(Done { verified, errors }).unwrap();
        link.finish().unwrap()
    };
    let other = thread::spawn(move || side(connector, 512, 3));
    assert_eq!(side(listener, 4096, 0).errors, 3);
    assert_eq!(other.join().unwrap().errors, 0);
}

#[test]
fn what_a_stranger_says_is_an_error_of_its_own() {
    assert!(heard(&line("mtu", json!(4096))).is_ok());
    for (field, value, part) in [
        ("mac", json!("01:00:00:00:00:01"), "Ethernet address"),
        ("mac", json!("\u{1b}[2J"), "Ethernet address"),
        ("gid", json!("ff02::1"), "GID"),
        ("gid", json!("0.0.0.0"), "GID"),
        ("gid", json!(5), "IP"),
        ("mtu", json!(1500), "path MTU"),
        ("places", json!([]), "number of queue pairs"),
        ("places", json!([{"qpn": 1}]), "psn"),
        ("what", json!(1), "unknown field"),
        ("step", json!("ready"), "hello"),
        ("step", json!("dance"), "dance"),
    ] {
        let error = heard(&line(field, value)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ExchangeError::Malformed { .. }), "{text}");
        assert!(text.contains(part), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    for (field, number) in [("qpn", 1 << 24), ("psn", 1 << 24), ("qkey", 1u64 << 32)] {
        let mut place = serde_json::to_value(hello(64).places[0]).unwrap();
        place[field] = json!(number);
        let error = heard(&line("places", json!([place]))).unwrap_err();
        assert!(matches!(error, ExchangeError::Malformed { .. }), "{error}");
    }
    for garbage in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\n",
        b"null\n",
        b"[]\n",
        b"\xff\xfe\n",
        &[&[b'['; 1000][..], b"\n"].concat(),
    ] {
        let error = heard(garbage).unwrap_err();
        assert!(matches!(error, ExchangeError::Malformed { .. }), "{error}");
    }
    let error = heard(&line("e810", json!(2))).unwrap_err();
    assert!(matches!(error, ExchangeError::Version { theirs: 2, .. }));
    let other = line("terms", json!({"command": "pingpong", "size": 128}));
    let text = heard(&other).unwrap_err().to_string();
    assert!(text.contains("size 128") && text.contains("64"), "{text}");
    let other = line("terms", json!({"command": "pingpong", "size": 64, "x": 1}));
    assert!(heard(&other).unwrap_err().to_string().contains("with x 1"));
    let failed = b"{\"step\":\"failed\",\"why\":\"no \\u001b memory\"}\n";
    let text = heard(failed).unwrap_err().to_string();
    assert!(text.ends_with("gave up: no   memory"), "{text}");
}

#[test]
fn lines_and_waiting_have_limits() {
    assert!(matches!(heard(b""), Err(ExchangeError::Gone { .. })));
    assert!(matches!(heard(b"{\"st"), Err(ExchangeError::Gone { .. })));
    let (mut there, mut link) = connection(WAIT);
    let writer = thread::spawn(move || {
        // Ends when the reader has had enough.
        while there.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let error = link.greet(&hello(64)).unwrap_err();
    assert!(matches!(error, ExchangeError::TooLong { .. }), "{error}");
    drop(link);
    writer.join().unwrap();
    let (there, mut link) = connection(Duration::from_millis(10));
    let error = link.greet(&hello(64)).unwrap_err();
    assert!(matches!(error, ExchangeError::Silent { .. }), "{error}");
    drop(there);
    let mut long = hello(64);
    long.places = vec![long.places[0]; 2000];
    let (_there, mut link) = connection(WAIT);
    let error = link.greet(&long).unwrap_err();
    assert!(matches!(error, ExchangeError::TooLong { .. }), "{error}");
}

#[test]
fn a_look_does_not_wait_and_keeps_what_it_sees() {
    let (mut there, mut link) = connection(WAIT);
    assert!(!link.look().unwrap());
    there.write_all(b"{\"step\":\"done\",\"verified\"").unwrap();
    assert!(!link.look().unwrap());
    there.write_all(b":4,\"errors\":1}\n").unwrap();
    while !link.look().unwrap() {}
    drop(there);
    assert!(link.look().unwrap(), "a peer that is done may go");
    let done = Done {
        verified: 4,
        errors: 1,
    };
    assert_eq!(link.finish().unwrap(), done);
    let (there, mut link) = connection(WAIT);
    drop(there);
    let gone = loop {
        if let Err(error) = link.look() {
            break error;
        }
    };
    assert!(matches!(gone, ExchangeError::Gone { .. }));
}

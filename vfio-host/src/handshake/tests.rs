use crate::stop::StoppedBy;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use e810::{MacAddr, Mtu, Qpn, v4};
use e810_hal::Ns;
use serde_json::{Map, Value, json};

use super::messages::Message;
use super::*;
use crate::handshake::RemoteQp;

/// Far above what loopback takes.
const WAIT: Duration = Duration::from_secs(300);

fn connection(wait: Duration) -> (TcpStream, Link) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (here, peer) = listener.accept().unwrap();
    (there, Link::new(Lines::new(here, peer).unwrap(), wait))
}

/// The first PSN of the next offer: each is another side's.
static PSN: AtomicU32 = AtomicU32::new(0xFF_FFFF);

fn offer(size: u32) -> Offer {
    let terms = [("command", json!("pingpong")), ("size", json!(size))];
    let endpoint = RemoteQp {
        qpn: Qpn::new(7).unwrap(),
        psn: PSN.fetch_sub(1, Ordering::Relaxed),
        qkey: 1,
        address: u64::MAX,
        rkey: u32::MAX,
        invalidate: None,
    };
    Offer::new(
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

/// What `exchange_params` makes of a line.
fn heard(line: &[u8]) -> Result<Peer, HandshakeError> {
    let (mut there, mut link) = connection(WAIT);
    there.write_all(line).unwrap();
    drop(there.shutdown(std::net::Shutdown::Write));
    link.exchange_params(&offer(64))
}

/// A hello with one field changed, as a line.
fn line(field: &str, value: Value) -> Vec<u8> {
    let mut message = serde_json::to_value(Message::Offer(offer(64))).unwrap();
    message[field] = value;
    let mut line = serde_json::to_vec(&message).unwrap();
    line.push(b'\n');
    line
}

#[test]
fn two_sides_learn_of_each_other_and_part() {
    let rendezvous = |listen: Option<&str>, connect: Option<SocketAddr>| {
        let wait = Duration::from_secs(20);
        match (listen, connect) {
            (Some(at), _) => Rendezvous::listen(&at.parse().unwrap(), PORT, Program::E810, wait),
            (None, at) => Rendezvous::connect(&at.unwrap().into(), PORT, Program::E810, wait),
        }
        .unwrap()
    };
    let listener = rendezvous(Some("127.0.0.1:0"), None);
    let connector = rendezvous(None, Some(listener.at()));
    assert_eq!(
        (listener.role, connector.role),
        (Role::Server, Role::Client)
    );
    let side = |rendezvous: Rendezvous, mtu, errors| {
        let mut link = rendezvous.establish(&|| Ok(())).unwrap();
        let mut offer = offer(64);
        offer.mtu = mtu;
        let peer = link.exchange_params(&offer).unwrap();
        assert_eq!(peer.mtu, Mtu::Mtu512, "the smaller one");
        assert_eq!(peer.mac, Some(MacAddr([2, 0, 0, 0, 0, 1])));
        assert_eq!(peer.gid, v4(10, 0, 0, 1).into());
        let [endpoint] = peer.endpoints[..] else {
            panic!("one endpoint")
        };
        let [own] = offer.places[..] else {
            panic!("one queue pair")
        };
        let there = QpRecord::from(endpoint);
        assert_ne!(there.psn, own.psn);
        assert_eq!(
            there,
            QpRecord {
                psn: there.psn,
                ..own
            }
        );
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
        ("gid", json!("255.255.255.255"), "GID"),
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
        assert!(matches!(error, HandshakeError::Malformed { .. }), "{text}");
        assert!(text.contains(part), "{text}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    // Queue pairs of management and of multicast are nobody's.
    for (field, number) in [
        ("qpn", 0),
        ("qpn", 1),
        ("qpn", 0xFF_FFFF),
        ("qpn", 1 << 24),
        ("psn", 1 << 24),
        ("qkey", 1u64 << 32),
    ] {
        let mut place = serde_json::to_value(offer(64).places[0]).unwrap();
        place[field] = json!(number);
        let error = heard(&line("places", json!([place]))).unwrap_err();
        assert!(matches!(error, HandshakeError::Malformed { .. }), "{error}");
    }
    // A key that nobody here was asked to invalidate, and none where a peer may have none.
    let mut place = serde_json::to_value(offer(64).places[0]).unwrap();
    assert_eq!(place.get("invalidate"), None);
    place["invalidate"] = json!(0x1234);
    let error = heard(&line("places", json!([place]))).unwrap_err();
    assert!(error.to_string().contains("key to invalidate"), "{error}");
    let mut asked = offer(64);
    asked.places[0].invalidate = Some(1);
    for theirs in [Some(0x1234), None] {
        let mut other = offer(64);
        other.places[0].invalidate = theirs;
        let peer = asked.check(other, ([127, 0, 0, 1], 1).into()).unwrap();
        assert_eq!(peer.endpoints[0].invalidate, theirs);
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
        assert!(matches!(error, HandshakeError::Malformed { .. }), "{error}");
    }
    let error = heard(&line("e810", json!(1))).unwrap_err();
    assert!(matches!(error, HandshakeError::Version { theirs: 1, .. }));
    let other = line("terms", json!({"command": "pingpong", "size": 128}));
    let text = heard(&other).unwrap_err().to_string();
    assert!(text.contains("size 128") && text.contains("64"), "{text}");
    let other = line("terms", json!({"command": "pingpong", "size": 64, "x": 1}));
    let text = heard(&other).unwrap_err().to_string();
    assert!(text.contains("with x 1 and this side with no x"), "{text}");
    let hidden = "{\"step\":\"failed\",\"why\":\"a\u{202e}b\u{2028}c\u{2066}d\u{200b}e\"}\n";
    let text = heard(hidden.as_bytes()).unwrap_err().to_string();
    assert!(text.ends_with("gave up: a?b?c?d?e"), "{text:?}");
    let failed = b"{\"step\":\"failed\",\"why\":\"no \\u001b memory\"}\n";
    let text = heard(failed).unwrap_err().to_string();
    assert!(text.ends_with("gave up: no ? memory"), "{text}");
}

/// A hello of `command` with these terms.
fn asked(terms: Value) -> Offer {
    let mut offer = offer(64);
    offer.terms = terms.as_object().unwrap().clone();
    offer
}

#[test]
fn a_disagreement_names_what_matters_first_as_it_was_given() {
    let perf = json!({"command": "perf", "--op": "send", "--test": "bw", "--depth": 128, "--check": true,
        SIZES: [2, 4], "--duration": null});
    for (change, theirs, ours) in [
        (
            json!({"command": "pingpong", "--depth": null}),
            "`e810 pingpong`",
            "`e810 perf`",
        ),
        (
            json!({"--test": "lat", "--depth": 16}),
            "--test lat",
            "--test bw",
        ),
        (
            json!({"--op": "write", "--depth": 16}),
            "--op write",
            "--op send",
        ),
        (json!({"--check": false}), "no --check", "--check"),
        (json!({"--duration": 5}), "--duration 5", "no --duration"),
        (
            json!({"--duration": seconds_term(Ns::from_ms(5000))}),
            "--duration 5",
            "no --duration",
        ),
        (
            json!({"--duration": seconds_term(Ns::from_ms(200))}),
            "--duration 0.2",
            "no --duration",
        ),
        (json!({SIZES: [64]}), "--size 64", "--all"),
        (json!({"--vlan": 6}), "--vlan 6", "no --vlan"),
    ] {
        let mut other = perf.clone();
        for (name, value) in change.as_object().unwrap() {
            other[name] = value.clone();
        }
        let at: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let text = |here: &Value, there: &Value| {
            let said = asked(here.clone()).check(asked(there.clone()), at);
            said.unwrap_err().to_string()
        };
        let here = format!(
            "127.0.0.1:1 was started with {theirs} and this side with {ours}: give both the same"
        );
        let there = format!(
            "127.0.0.1:1 was started with {ours} and this side with {theirs}: give both the same"
        );
        assert_eq!((text(&perf, &other), text(&other, &perf)), (here, there));
    }
}

#[test]
fn a_listener_waits_on_when_a_stranger_connects() {
    let listen = |wait| {
        let (at, wait) = ("127.0.0.1:0".parse().unwrap(), Duration::from_secs(wait));
        Rendezvous::listen(&at, PORT, Program::E810, wait).unwrap()
    };
    let listener = listen(20);
    let at = listener.at();
    let strangers = thread::spawn(move || {
        drop(TcpStream::connect(at).unwrap());
        // One that says nothing stays until the end.
        let silent = TcpStream::connect(at).unwrap();
        let mut web = TcpStream::connect(at).unwrap();
        web.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut peer = TcpStream::connect(at).unwrap();
        peer.write_all(&line("mtu", json!(512))).unwrap();
        (silent, peer)
    });
    let mut link = listener.establish(&|| Ok(())).unwrap();
    assert_eq!(link.exchange_params(&offer(64)).unwrap().mtu, Mtu::Mtu512);
    drop(strangers.join().unwrap());
    // The watch can end it, and so does time.
    let error = listen(20)
        .establish(&|| anyhow::bail!("enough"))
        .unwrap_err();
    assert_eq!(error.to_string(), "enough");
    let listener = listen(1);
    drop(TcpStream::connect(listener.at()).unwrap());
    let error = listener.establish(&|| Ok(())).unwrap_err().to_string();
    assert!(
        error.contains("within 1s except one that does not speak"),
        "{error}"
    );
}

#[test]
fn lines_and_waiting_have_limits() {
    assert!(matches!(heard(b""), Err(HandshakeError::Gone { .. })));
    assert!(matches!(heard(b"{\"st"), Err(HandshakeError::Gone { .. })));
    let (mut there, mut link) = connection(WAIT);
    let writer = thread::spawn(move || {
        // Ends when the reader has had enough.
        while there.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let error = link.exchange_params(&offer(64)).unwrap_err();
    assert!(matches!(error, HandshakeError::TooLong { .. }), "{error}");
    drop(link);
    writer.join().unwrap();
    let (there, mut link) = connection(Duration::from_millis(10));
    let error = link.exchange_params(&offer(64)).unwrap_err();
    assert!(matches!(error, HandshakeError::Silent { .. }), "{error}");
    drop(there);
    let mut long = offer(64);
    long.places = vec![long.places[0]; 2000];
    let (_there, mut link) = connection(WAIT);
    let error = link.exchange_params(&long).unwrap_err();
    assert!(matches!(error, HandshakeError::TooLong { .. }), "{error}");
}

#[test]
fn an_echo_is_no_peer() {
    let (mut there, mut link) = connection(WAIT);
    let echo = thread::spawn(move || {
        let mut reader = there.try_clone().unwrap();
        let _ = std::io::copy(&mut reader, &mut there);
    });
    let error = link.exchange_params(&offer(64)).unwrap_err();
    assert!(matches!(error, HandshakeError::Echo { .. }), "{error}");
    drop(link);
    echo.join().unwrap();
}

#[test]
fn a_peer_that_stops_says_what_was_posted_and_why() {
    let stop_after = |seconds: Value, line: String| {
        let terms = json!({"command": "pingpong", DURATION: seconds});
        let (mut there, mut link) = connection(WAIT);
        there
            .write_all(&self::line("terms", terms.clone()))
            .unwrap();
        there.write_all(line.as_bytes()).unwrap();
        link.exchange_params(&asked(terms)).unwrap();
        while !link.try_receive()? {}
        let posted = link.stopped()?;
        Ok::<_, HandshakeError>((posted, link.check_complete()))
    };
    let stop = |line| stop_after(json!(5), line);
    for (by, said) in [
        (StoppedBy::Duration, r#""duration""#),
        (StoppedBy::Signal(2), r#"{"signal":2}"#),
    ] {
        let line = format!("{{\"step\":\"stop\",\"posted\":[5],\"by\":{said}}}");
        let message = Message::Stop {
            posted: vec![5],
            by,
        };
        assert_eq!(serde_json::to_string(&message).unwrap(), line);
        let (posted, whole) = stop(line + "\n").unwrap();
        assert_eq!(posted, Some(vec![5]));
        assert_eq!(whole.is_ok(), by == StoppedBy::Duration, "{whole:?}");
    }
    // What the version before this one said, and what none says.
    for line in [
        r#"{"step":"stop","posted":[5]}"#,
        r#"{"step":"stop","posted":[5],"by":"tiredness"}"#,
        r#"{"step":"stop","posted":[5],"by":{"signal":"2"}}"#,
        r#"{"step":"stop","posted":[5],"by":{"signal":2147483648}}"#,
        r#"{"step":"stop","posted":[],"by":"duration"}"#,
        r#"{"step":"stop","posted":[5,5],"by":"duration"}"#,
        r#"{"step":"interrupted"}"#,
    ] {
        let error = stop(format!("{line}\n")).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, HandshakeError::Malformed { .. }), "{text}");
    }
    // A time that nobody was asked for.
    let line = "{\"step\":\"stop\",\"posted\":[0],\"by\":\"duration\"}\n";
    let error = stop_after(Value::Null, line.to_owned()).unwrap_err();
    let is_malformed = matches!(error, HandshakeError::Malformed { .. });
    assert!(is_malformed, "{error}");
    let line = "{\"step\":\"interrupted\",\"signal\":-2147483648}\n";
    let error = stop(line.to_owned()).unwrap_err();
    assert!(
        matches!(error, HandshakeError::Interrupted { .. }),
        "{error}"
    );
}

#[test]
fn try_receive_does_not_wait_and_keeps_the_message() {
    let (mut there, mut link) = connection(WAIT);
    assert!(!link.try_receive().unwrap());
    there.write_all(b"{\"step\":\"done\",\"verified\"").unwrap();
    assert!(!link.try_receive().unwrap());
    there.write_all(b":4,\"errors\":1}\n").unwrap();
    while !link.try_receive().unwrap() {}
    drop(there);
    assert!(link.try_receive().unwrap(), "a peer that is done may go");
    let done = Done {
        verified: 4,
        errors: 1,
    };
    assert_eq!(link.finish().unwrap(), done);
    let (there, mut link) = connection(WAIT);
    drop(there);
    let gone = loop {
        if let Err(error) = link.try_receive() {
            break error;
        }
    };
    assert!(matches!(gone, HandshakeError::Gone { .. }));
}

/// Nothing answers there, as behind a firewall that drops: whoever watches is asked all the same.
#[test]
fn a_silent_address_is_left_when_that_is_asked() {
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    // Its queue of connections that it has not taken has an end.
    while let Ok(one) = TcpStream::connect_timeout(&at, Duration::from_millis(300)) {
        waiting.push(one);
        assert!(waiting.len() < 100_000);
    }
    let connector = Rendezvous::connect(&at.into(), PORT, Program::E810, WAIT).unwrap();
    let asked = AtomicU32::new(0);
    let ended = connector.establish(&|| match asked.fetch_add(1, Ordering::Relaxed) {
        0..3 => Ok(()),
        _ => Err(crate::stop::Interrupted(2).into()),
    });
    assert!(ended.unwrap_err().is::<crate::stop::Interrupted>());
}

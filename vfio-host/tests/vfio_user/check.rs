//! `e810 trace check`: recordings of a proxy, held against the simulator.

use std::path::{Path, PathBuf};

use e810_replay::{Outcome, Recording, Volatile, check};
use e810_sim::{Profile, Sim};
use e810_trace::record::{Descriptor, WorkQueue};
use e810_trace::{Event, Trace};

use super::processes::{E810, ServerProcess, all_verified};
use super::proxy::Proxied;

/// What a ping-pong between two proxies leaves: a recording of each function.
struct Recorded {
    traces: [Trace; 2],
    files: [PathBuf; 2],
    _server: ServerProcess,
}

impl Recorded {
    fn new(op: &str) -> Self {
        let server = ServerProcess::start();
        let folder = server.folder.as_path();
        let [a, b] = [("pa", 0), ("pb", 1)]
            .map(|(name, number)| Proxied::of(folder, name, &server.paths[number]));
        all_verified(&a.socket, &b.socket, op, 60, 3000);
        let files = ["pa", "pb"].map(|name| folder.join(format!("{name}.trace")));
        let traces = [a, b].map(Proxied::recording);
        Self {
            traces,
            files,
            _server: server,
        }
    }

    /// The replay of both, after `change` of one.
    fn replayed(&self, changed: usize, change: impl Fn(&mut Vec<Event>)) -> Outcome {
        let mut recordings = Vec::new();
        for (number, trace) in self.traces.iter().enumerate() {
            let mut trace = trace.clone();
            if number == changed {
                let mut events: Vec<Event> = Vec::new();
                events.extend(trace.records.iter().map(|record| record.event.clone()));
                change(&mut events);
                // One more or one less: the times stay as they are in front of it.
                let last = trace.records.last().unwrap().clone();
                trace.records.resize(events.len(), last);
                for (record, event) in trace.records.iter_mut().zip(events) {
                    record.event = event;
                }
            }
            let name = number.to_string();
            recordings.push(Recording { name, trace });
        }
        check(&recordings, card(), &Volatile::default()).unwrap()
    }
}

/// The card of [`ServerProcess`].
fn card() -> e810_sim::Builder {
    let small = Sim::builder()
        .seed(1)
        .cold()
        .vectors(e810_sim_server::VECTORS);
    small.profile(Profile::small())
}

/// The command, for these files.
fn command(files: &[&Path], most: usize) -> super::processes::End {
    let mut words = vec![
        "trace".to_owned(),
        "check".to_owned(),
        "--profile=small".to_owned(),
    ];
    words.push(format!("--most={most}"));
    words.extend(files.iter().map(|file| file.display().to_string()));
    E810::start(&words).end()
}

#[test]
fn the_simulator_does_again_what_it_did() {
    for op in ["send", "write", "read"] {
        let recorded = Recorded::new(op);
        let outcome = recorded.replayed(0, |_| {});
        assert_eq!(outcome.differences, [], "{op}");
        assert_eq!(outcome.findings, [""; 0], "{op}");
        let all = [outcome.reads, outcome.config_reads, outcome.interrupts];
        assert!(all.iter().all(|one| one.all > 1), "{op}: {outcome:?}");
        assert!(
            outcome.written["completions"].all > 100,
            "{op}: {outcome:?}"
        );
        let [one, other] = recorded.files.each_ref();
        let end = command(&[one, other], 10);
        assert!(end.status.success(), "{end:?}");
        assert!(end.out.ends_with("no difference\n"), "{end:?}");
    }
}

/// A number below `below`, by `seed`.
fn drawn(seed: usize, below: usize) -> usize {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 20) as usize % below
}

/// Changes a digit of a text of hexadecimal digits.
fn flip(text: &mut String, seed: usize) {
    let at = drawn(seed, text.len());
    let digit = u8::from_str_radix(&text[at..=at], 16).unwrap() ^ 1;
    text.replace_range(at..=at, &format!("{digit:x}"));
}

/// Where `is` holds.
fn places(events: &[Event], is: impl Fn(usize, &Event) -> bool) -> Vec<usize> {
    let found = events.iter().enumerate();
    let found = found.filter(|(index, event)| is(*index, event));
    found.map(|(index, _)| index).collect()
}

/// A kind of change of a recording.
struct Kind {
    what: &'static str,
    /// Whether the event with this index can be changed so.
    is: fn(&[Event], usize) -> bool,
    /// Changes it, by a seed.
    change: fn(&mut Vec<Event>, usize, usize),
    /// It is found at that very line.
    is_there: bool,
}

#[test]
fn one_change_of_a_recording_is_found() {
    let recorded = Recorded::new("send");
    let events = |of: usize| -> Vec<Event> {
        let records = recorded.traces[of].records.iter();
        records.map(|record| record.event.clone()).collect()
    };
    let changes = [
        Kind {
            what: "a register",
            is: |events, at| {
                let Event::Read {
                    offset, register, ..
                } = &events[at]
                else {
                    return false;
                };
                // The last of a poll; positions of queues may be ahead.
                let next = events[at + 1..]
                    .iter()
                    .find(|event| !matches!(event, Event::Again { .. }));
                let polls =
                    matches!(next, Some(Event::Read { offset: behind, .. }) if behind == offset);
                !polls && !["PF_FW_ATQH", "PF_FW_ARQH", "PFPE_CQPTAIL"].contains(&register.as_str())
            },
            change: |events, at, seed| {
                if let Event::Read { value, .. } = &mut events[at] {
                    value.0 ^= 1 << drawn(seed, 32);
                }
            },
            is_there: true,
        },
        Kind {
            what: "a reply of the firmware",
            is: |events, at| matches!(events[at], Event::AdminqReply(_)),
            change: |events, at, seed| {
                if let Event::AdminqReply(Descriptor {
                    descriptor, buffer, ..
                }) = &mut events[at]
                {
                    flip(
                        if seed % 2 == 0 && !buffer.is_empty() {
                            buffer
                        } else {
                            descriptor
                        },
                        seed,
                    );
                }
            },
            is_there: true,
        },
        Kind {
            what: "a reply of the engine",
            is: |events, at| matches!(events[at], Event::CqpReply { .. }),
            change: |events, at, seed| {
                if let Event::CqpReply { memory, .. } = &mut events[at] {
                    flip(&mut memory[0].bytes, seed);
                }
            },
            is_there: true,
        },
        Kind {
            what: "a completion",
            is: |events, at| matches!(events[at], Event::Cqe { cq: 1.., .. }),
            change: |events, at, seed| {
                if let Event::Cqe { bytes, .. } = &mut events[at] {
                    // Not whose it is, nor its valid bit.
                    let at = drawn(seed, 32);
                    let digit = u8::from_str_radix(&bytes[at..=at], 16).unwrap() ^ 1;
                    bytes.replace_range(at..=at, &format!("{digit:x}"));
                }
            },
            is_there: true,
        },
        Kind {
            what: "configuration space",
            is: |events, at| matches!(events[at], Event::ConfigRead { .. }),
            change: |events, at, seed| {
                if let Event::ConfigRead { bytes, .. } = &mut events[at] {
                    flip(bytes, seed);
                }
            },
            is_there: true,
        },
        Kind {
            what: "a descriptor that was sent",
            is: |events, at| {
                matches!(
                    events[at],
                    Event::LanWritten {
                        queue: WorkQueue::Send,
                        ..
                    }
                )
            },
            change: |events, at, seed| {
                if let Event::LanWritten { bytes, .. } = &mut events[at] {
                    flip(bytes, seed);
                }
            },
            is_there: true,
        },
        Kind {
            what: "a missing completion",
            is: |events, at| matches!(events[at], Event::Cqe { cq: 1.., .. }),
            change: |events, at, _| {
                events.remove(at);
            },
            is_there: false,
        },
        Kind {
            what: "an interrupt too many",
            // Not of the vector that received frames have, too.
            is: |events, at| matches!(&events[at], Event::Interrupts { vectors } if *vectors == [1]),
            change: |events, at, _| {
                let again = events[at].clone();
                events.insert(at, again);
            },
            is_there: false,
        },
    ];
    for Kind {
        what,
        is,
        change,
        is_there,
    } in changes
    {
        for seed in 0..6 {
            let of = seed % 2;
            let all = events(of);
            let found = places(&all, |index, _| is(&all, index));
            let at = found[drawn(seed, found.len())];
            let outcome = recorded.replayed(of, |events| change(events, at, seed));
            let first = outcome.differences.first();
            let first = first.unwrap_or_else(|| panic!("{what}, seed {seed}: {:?}", all[at]));
            if is_there {
                assert_eq!(
                    (first.recording.as_str(), first.line),
                    (of.to_string().as_str(), at + 1),
                    "{what}: {first}"
                );
            }
        }
    }
}

/// A register and a byte of a reply that say something else each time, such as a clock and a temperature.
#[test]
fn what_another_recording_has_otherwise_is_not_compared() {
    let recorded = Recorded::new("send");
    let other = |register: u64, byte: u8| {
        let mut trace = recorded.traces[0].clone();
        for record in &mut trace.records {
            match &mut record.event {
                Event::Read {
                    register: name,
                    value,
                    ..
                } if name == "GLPCI_LBARCTRL" => value.0 = register,
                Event::AdminqReply(Descriptor {
                    descriptor, buffer, ..
                }) if descriptor[4..8] == *"0701" => {
                    buffer.replace_range(0..2, &format!("{byte:02x}"));
                }
                _ => {}
            }
        }
        let name = String::new();
        let peer = Recording {
            name: "peer".to_owned(),
            trace: recorded.traces[1].clone(),
        };
        [Recording { name, trace }, peer]
    };
    let (one, again) = (other(0x1230, 7), other(0x4560, 9));
    let learned = Volatile::between(&one, &again);
    let replayed = |volatile: &Volatile| check(&one, card(), volatile).unwrap();
    let all = replayed(&Volatile::default()).differences;
    assert_eq!(all.len(), 2, "{all:?}");
    let outcome = replayed(&learned);
    assert_eq!(outcome.differences, []);
    for what in ["GLPCI_LBARCTRL", "AdminQ replies"] {
        assert!(outcome.left_out.contains_key(what), "{what}");
    }
    let [one, other] = recorded.files.each_ref();
    let again = format!("--again={}", one.display());
    let words = [
        "trace",
        "check",
        one.to_str().unwrap(),
        other.to_str().unwrap(),
        &again,
    ];
    let line = E810::start(&words).end().refusal();
    assert!(line.contains("give it once for each"), "{line}");
}

/// Whatever a recording says, its replay ends.
#[test]
fn recordings_with_any_numbers_are_replayed_to_an_end() {
    let recorded = Recorded::new("write");
    let text = std::fs::read_to_string(&recorded.files[0]).unwrap();
    for seed in 0..40 {
        let mut bytes = text.clone().into_bytes();
        // Digits become others: of addresses, lengths, indexes, opcodes, queues.
        for change in 0..=seed {
            let at = drawn(seed * 1000 + change, bytes.len());
            let digit = bytes[at..].iter_mut().find(|byte| byte.is_ascii_digit());
            if let Some(digit) = digit {
                *digit = b'1' + drawn(seed * 77 + change, 9) as u8;
            }
        }
        let Ok(trace) = Trace::parse(&bytes) else {
            continue;
        };
        let name = seed.to_string();
        let recordings = [
            Recording { name, trace },
            Recording {
                name: "other".to_owned(),
                trace: recorded.traces[1].clone(),
            },
        ];
        // It may differ, or ask for more memory than there is.
        let _ = check(&recordings, card(), &Volatile::default());
    }
}

#[test]
fn what_is_no_recording_is_one_line() {
    let folder = super::processes::folder();
    let own = folder.as_path().join("own.trace");
    let end = E810::start(&[
        "up".to_owned(),
        "--device=sim".to_owned(),
        format!("--trace={}", own.display()),
    ])
    .end();
    assert!(end.status.success(), "{end:?}");
    let line = command(&[&own], 1).failure();
    assert!(line.contains("is no recording of `e810 proxy`"), "{line}");
    let text = folder.as_path().join("text");
    std::fs::write(&text, "hello\n").unwrap();
    let line = command(&[&text], 1).failure();
    assert!(line.starts_with(text.to_str().unwrap()), "{line}");
}

#[test]
fn a_recording_for_others_has_no_address_of_the_machine() {
    let recorded = Recorded::new("send");
    let [file, _] = recorded.files.each_ref();
    let words = ["trace", "show", "--anonymise", file.to_str().unwrap()];
    let end = E810::start(&words).end();
    assert!(end.status.success(), "{end:?}");
    let kept = std::fs::read_to_string(file).unwrap();
    // Of both functions, as on the wire and as a number; and the name of the socket.
    for forms in [
        ["02e810000000", "00000010e802"],
        ["02e810000001", "01000010e802"],
    ] {
        assert!(forms.iter().any(|form| kept.contains(form)), "{forms:?}");
        assert!(
            !forms.iter().any(|form| end.out.contains(form)),
            "{forms:?}"
        );
    }
    assert!(!end.out.contains("vfio-user:"));
    let trace = Trace::parse(end.out.as_bytes()).unwrap();
    assert_eq!((trace.unknown, trace.is_cut), (0, false));
    assert_eq!(trace.records.len(), recorded.traces[0].records.len());
}

//! `e810 proxy`: what passes through it, and what it records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use e810_backends::memory::SharedMemory;
use e810_hal::RegOffset;
use e810_hal::regs::{
    PF_FW_ATQBAH, PF_FW_ATQBAL, PF_FW_ATQH, PF_FW_ATQLEN, PF_FW_ATQT, PFGEN_CTRL,
};
use e810_trace::{Event, Trace};
use vfio_user::Client;

use super::processes::{
    E810, Served, ServerProcess, all_verified, folder, package, pingpong, until,
};

/// A proxy of the function that `device` names.
pub(crate) struct Proxied {
    e810: E810,
    pub(crate) socket: PathBuf,
    trace: PathBuf,
}

impl Proxied {
    fn start(folder: &Path, name: &str, device: &str, options: &[&str]) -> Self {
        let socket = folder.join(format!("{name}.socket"));
        let trace = folder.join(format!("{name}.trace"));
        let mut words = vec![
            "proxy".to_owned(),
            format!("--device={device}"),
            format!("--socket={}", socket.display()),
            format!("--trace={}", trace.display()),
        ];
        words.extend(options.iter().map(|option| (*option).to_owned()));
        let mut e810 = E810::start(&words);
        let mut out = BufReader::new(e810.0.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains(socket.to_str().unwrap()), "{line}");
        e810.0.stdout = Some(out.into_inner());
        Self {
            e810,
            socket,
            trace,
        }
    }

    /// One of the function that is served at `served`.
    pub(crate) fn of(folder: &Path, name: &str, served: &Path) -> Self {
        Self::start(
            folder,
            name,
            &format!("vfio-user:{}", served.display()),
            &[],
        )
    }

    /// Ends it by a signal; its recording.
    pub(crate) fn recording(self) -> Trace {
        self.e810.signal(libc::SIGTERM);
        let end = self.e810.end();
        assert!(end.status.success(), "{end:?}");
        assert_eq!(end.err, "");
        assert!(!self.socket.exists(), "the socket was left behind");
        whole(&self.trace)
    }
}

/// A recording that came to its end.
fn whole(path: &Path) -> Trace {
    let trace = Trace::parse(&fs::read(path).unwrap()).unwrap();
    assert_eq!((trace.unknown, trace.is_cut), (0, false));
    let last = &trace.records.last().unwrap().event;
    assert!(
        matches!(last, Event::End { complete: true, .. }),
        "{last:?}"
    );
    trace
}

/// The events of a device of one kind, in their order.
fn of<'a>(trace: &'a Trace, device: u8, is: impl Fn(&Event) -> bool + 'a) -> Vec<&'a Event> {
    let events = trace
        .records
        .iter()
        .filter(|record| record.device == device);
    events
        .map(|record| &record.event)
        .filter(|event| is(event))
        .collect()
}

/// What is recorded of a device, by queue or register: only events of one have an order, because threads
/// of the driver act at once.
fn by_place(trace: &Trace, device: u8) -> BTreeMap<String, Vec<&Event>> {
    let mut places = BTreeMap::<String, Vec<&Event>>::new();
    for event in of(trace, device, |event| {
        !matches!(event, Event::NotSeen { .. })
    }) {
        if let Some(place) = place(event) {
            places.entry(place).or_default().push(event);
        }
    }
    places
}

/// The queue or register of an event.
fn place(event: &Event) -> Option<String> {
    Some(match event {
        Event::AdminqCommand(_) => "AdminQ commands".to_owned(),
        Event::AdminqReply(_) => "AdminQ replies".to_owned(),
        Event::CqpContext { .. } | Event::CqpCommand { .. } => "CQP commands".to_owned(),
        Event::CqpReply { .. } => "CQP replies".to_owned(),
        Event::Wqe { qp, queue, .. } => format!("{queue:?} requests of QP {qp}"),
        Event::Cqe { cq, .. } => format!("completions of CQ {cq}"),
        Event::Ceqe { ceq, .. } => format!("events of CEQ {ceq}"),
        Event::Aeqe { .. } => "asynchronous events".to_owned(),
        Event::LanPosted { queue, .. } => format!("LAN {queue:?} descriptors"),
        Event::LanWritten { queue, .. } => format!("LAN {queue:?} descriptors, done"),
        Event::Write { register, .. } => format!("writes to {register}"),
        Event::NotSeen { what, number, .. } => match what.as_str() {
            "CQ" => format!("completions of CQ {number}"),
            "CEQ" => format!("events of CEQ {number}"),
            "AEQ" => "asynchronous events".to_owned(),
            other => other.to_owned(),
        },
        _ => return None,
    })
}

/// The recorder of this project's own driver, which knows the driver's memory, is an independent
/// opinion of what the proxy finds in memory that was passed to it by file.
#[test]
fn a_proxy_records_what_the_driver_itself_records() {
    let served = Served::start();
    let folder = folder();
    let at = folder.as_path();
    let [a, b] =
        [("a", 0), ("b", 1)].map(|(name, number)| Proxied::of(at, name, &served.paths[number]));
    let own = at.join("own.trace");
    let end = E810::start(&[
        "pingpong".to_owned(),
        format!("--device=vfio-user:{}", a.socket.display()),
        format!("--peer=vfio-user:{}", b.socket.display()),
        format!("--ddp={}", package().display()),
        format!("--trace={}", own.display()),
        "--iters=300".to_owned(),
    ])
    .end();
    assert!(end.status.success(), "{end:?}");
    let own = whole(&own);
    for (device, proxy) in (0..).zip([a, b]) {
        let recorded = proxy.recording();
        let (expected, found) = (by_place(&own, device), by_place(&recorded, 0));
        assert!(expected.len() > 30, "{:?}", expected.keys());
        let is_not_seen = |event: &Event| matches!(event, Event::NotSeen { .. });
        assert!(of(&own, device, is_not_seen).is_empty());
        let not_seen = of(&recorded, 0, is_not_seen);
        let not_seen: BTreeSet<_> = not_seen.into_iter().filter_map(place).collect();
        for (place, expected) in &expected {
            let found = found.get(place).map_or(&[][..], Vec::as_slice);
            let mut all = expected.iter();
            let are_in_order = found.iter().all(|one| all.any(|other| other == one));
            assert!(are_in_order, "{place} of {device}");
            // A driver clears the descriptor of a frame that it has taken, and tells nobody. Entries that
            // the device writes may be written over before the proxy has looked, which it tells.
            let may_lack = place.ends_with("done") || not_seen.contains(place);
            assert!(
                may_lack || found.len() == expected.len(),
                "{place} of {device}"
            );
        }
        let more = found.keys().find(|place| !expected.contains_key(*place));
        assert_eq!(more, None);
        let users = of(&recorded, 0, |event| matches!(event, Event::User { .. }));
        assert_eq!(users.len(), 2);
    }
    assert_eq!(served.sim.findings(), []);
}

#[test]
fn a_driver_that_is_killed_leaves_the_function_to_the_next() {
    let server = ServerProcess::start();
    let folder = folder();
    let [a, b] = [("a", 0), ("b", 1)]
        .map(|(name, number)| Proxied::of(folder.as_path(), name, &server.paths[number]));
    let sent = || {
        server.report()["functions"][0]["frames_sent"]
            .as_u64()
            .unwrap()
    };
    for _ in 0..2 {
        let before = sent();
        let killed = pingpong(&a.socket, &b.socket, "write", 1_000_000, 64);
        until("messages", || (sent() > before + 100).then_some(()));
        killed.signal(libc::SIGKILL);
        drop(killed);
        all_verified(&a.socket, &b.socket, "send", 20, 64);
    }
    for proxy in [a, b] {
        let recorded = proxy.recording();
        let users = of(&recorded, 0, |event| matches!(event, Event::User { .. }));
        assert_eq!(users.len(), 8);
    }
    let (end, report) = server.stop(libc::SIGINT);
    assert!(end.status.success(), "{end:?}");
    assert_eq!(report["findings_in_all"], 0);
}

#[test]
fn a_function_that_is_gone_ends_its_proxy() {
    let server = ServerProcess::start();
    let folder = folder();
    let proxy = Proxied::of(folder.as_path(), "a", &server.paths[0]);
    let mut user = Client::new(&proxy.socket).unwrap();
    let mut bytes = [0; 4];
    user.region_read(7, 0, &mut bytes).unwrap();
    assert_eq!(bytes, 0x1592_8086_u32.to_le_bytes());
    server.e810.signal(libc::SIGKILL);
    let Proxied { e810, trace, .. } = proxy;
    let end = e810.end();
    assert_eq!(end.status.code(), Some(1), "{end:?}");
    let line = end.err.strip_prefix("e810: vfio-user:").unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    whole(&trace);
}

/// A driver of nothing but the firmware's command queue.
struct Firmware {
    user: Client,
    memory: SharedMemory,
}

impl Firmware {
    const AT: u64 = 0x10_0000;
    const ENTRIES: u32 = 16;

    fn new(socket: &Path) -> Self {
        let mut user = Client::new(socket).unwrap();
        user.region_write(7, 4, &6_u32.to_le_bytes()).unwrap();
        let memory = SharedMemory::new(4096, false).unwrap();
        let file = memory.file().as_raw_fd();
        user.dma_map(0, Self::AT, 4096, file).unwrap();
        let mut this = Self { user, memory };
        this.set(PFGEN_CTRL.off(), 1);
        until("the reset", || {
            (this.get(PFGEN_CTRL.off()) & 1 == 0).then_some(())
        });
        this.set(PF_FW_ATQBAL.off(), Self::AT as u32);
        this.set(PF_FW_ATQBAH.off(), 0);
        this.set(PF_FW_ATQLEN.off(), 1 << 31 | Self::ENTRIES);
        this
    }

    fn get(&mut self, off: RegOffset) -> u32 {
        let mut bytes = [0; 4];
        self.user
            .region_read(0, off.get().into(), &mut bytes)
            .unwrap();
        u32::from_le_bytes(bytes)
    }

    fn set(&mut self, off: RegOffset, value: u32) {
        let bytes = value.to_le_bytes();
        self.user.region_write(0, off.get().into(), &bytes).unwrap();
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.words()[index]
    }

    /// Sends a direct command; opcode and return value of its answer.
    fn command(&mut self, index: u32, opcode: u16) -> (u16, u16) {
        let first = index as usize * 4;
        self.word(first)
            .store(0x2000 | u64::from(opcode) << 16, Ordering::Release);
        self.set(PF_FW_ATQT.off(), index + 1);
        until("the answer", || {
            (self.get(PF_FW_ATQH.off()) == index + 1).then_some(())
        });
        let answer = self.word(first).load(Ordering::Acquire);
        ((answer >> 16) as u16, (answer >> 48) as u16)
    }
}

#[test]
fn commands_that_write_to_flash_do_not_reach_the_firmware() {
    for (options, reaches) in [(&[][..], "0xffff"), (&["--allow-nvm"][..], "0x0703")] {
        let served = Served::start();
        let folder = folder();
        let device = format!("vfio-user:{}", served.paths[0].display());
        let proxy = Proxied::start(folder.as_path(), "a", &device, options);
        let mut firmware = Firmware::new(&proxy.socket);
        assert_eq!(firmware.command(0, 0x0001), (0x0001, 0), "Get Version");
        let (opcode, error) = firmware.command(1, 0x0703);
        assert_eq!((opcode, error == 0), (0x0703, false));
        assert_eq!(firmware.command(2, 0x0001), (0x0001, 0));
        drop(firmware);
        proxy.e810.signal(libc::SIGTERM);
        let end = proxy.e810.end();
        assert!(end.status.success(), "{end:?}");
        let refused = &served.left(0, 1).functions[0].refused_commands;
        assert!(
            refused.keys().all(|command| command.starts_with(reaches)),
            "{refused:?}"
        );
        assert_eq!(refused.values().sum::<u64>(), 1);
        let recorded = whole(&proxy.trace);
        let sent = of(
            &recorded,
            0,
            |event| matches!(event, Event::AdminqCommand(found) if found.descriptor.starts_with("00200307")),
        );
        assert_eq!(sent.len(), 1, "as the driver sent it");
        let notes = of(&recorded, 0, |event| matches!(event, Event::Note { .. }));
        assert_eq!(notes.len(), usize::from(options.is_empty()));
        assert_eq!(
            end.err.contains("0x0703 was not passed on"),
            options.is_empty()
        );
    }
}

#[test]
fn a_simulated_function_is_passed_on_too_for_this_user_alone() {
    let folder = folder();
    let proxy = Proxied::start(folder.as_path(), "sim", "sim", &[]);
    let mode = fs::metadata(&proxy.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let end = E810::start(&[
        "up".to_owned(),
        format!("--device=vfio-user:{}", proxy.socket.display()),
        format!("--ddp={}", package().display()),
    ])
    .end();
    assert!(end.status.success(), "{end:?}");
    proxy.recording();
}

#[test]
fn a_device_that_is_none_is_not_touched() {
    let folder = folder();
    let path = folder.as_path().join("s");
    let words = |device: &str| {
        E810::start(&[
            "proxy".to_owned(),
            format!("--device={device}"),
            format!("--socket={}", path.display()),
            format!("--trace={}", folder.as_path().join("t").display()),
        ])
        .end()
    };
    let line = words("vfio-user:/nowhere").failure();
    assert!(line.contains("start the server first"), "{line}");
    fs::write(&path, "precious").unwrap();
    let line = words("sim").failure();
    assert!(
        line.starts_with(&format!("--socket {}: ", path.display())),
        "{line}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

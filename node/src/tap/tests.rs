use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use e810::{EventSet, LinkPolicy};
use e810_sim::{AqFault, Mode, PortLink, Profile, Sim, SimPlatform};

use e810_hal::Clock as _;

use super::device::TapFrames;
use super::*;
use crate::lan_init;
use crate::simulated;
use crate::station::Unresolved;
use crate::station::worker::Frames;

/// A socket in place of the interface's file: each datagram is a frame.
struct Socket(UnixDatagram);

impl TapFrames for Socket {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.recv(into)
    }

    fn write(&self, frame: &[u8]) -> io::Result<usize> {
        match frame.get(12..14) {
            // Like an interface that is down.
            Some([0x88, 0xB6]) => Err(io::Error::from_raw_os_error(libc::EIO)),
            Some([0x88, 0xB7]) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            _ => self.0.send(frame),
        }
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

type Up = (Control<SimPlatform>, EventSet<SimPlatform>);

fn up(sim: &Sim, function: u8) -> Up {
    let nic = sim.function(function);
    let start = simulated::start(&nic, 1500);
    let backing = e810::hmc::Backing::default();
    let device = start.bring_up(nic, backing, LinkPolicy::GoOn, &mut |_| {});
    device.unwrap().split()
}

/// A frame between two stations, whose last bytes identify it.
fn frame(to: MacAddr, from: MacAddr, kind: u16, bytes: usize, number: u32) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &kind.to_be_bytes()].concat();
    frame.resize(bytes - 4, 0x5A);
    frame.extend(number.to_be_bytes());
    frame
}

fn within(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(300), "{what}");
        thread::yield_now();
    }
}

/// Frames pass both ways, in order and without loss; those of a VLAN keep their tag; those that do
/// not pass are counted by cause.
#[test]
fn frames_pass_between_port_and_interface() {
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let [mut own, mut other] = [0, 1].map(|function| up(&sim, function));
    for (control, _) in [&mut own, &mut other] {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let [here, there] = [own.0.lan().mac, other.0.lan().mac];
    let mut far = other.0.open_lan(&lan_init(1500)).unwrap();
    let (stack, tap) = UnixDatagram::pair().unwrap();
    tap.set_nonblocking(true).unwrap();
    stack
        .set_read_timeout(Some(Duration::from_secs(300)))
        .unwrap();
    let (counts, stop) = (
        Arc::<ForwardingCounts>::default(),
        Arc::<AtomicBool>::default(),
    );
    let port = own.0.open_lan(&lan_init(1500)).unwrap();
    let forwarder = Forwarder::new(port, Socket(tap), Arc::clone(&counts), Arc::clone(&stop));
    let forwarder = forwarder.map_err(|(_, error)| error).unwrap();
    let thread = thread::spawn(move || forwarder.run());

    let mut into = vec![0; far.max_frame()];
    let frames = 3000u32;
    // A wire buffers nothing: no more are under way than the far port has room for.
    let taken = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..frames {
                within("room", || number - taken.load(Ordering::Relaxed) < 32);
                let bytes = if number % 2 == 0 { 60 } else { 1514 };
                stack
                    .send(&frame(there, here, 0x88B5, bytes, number))
                    .unwrap();
            }
        });
        for number in 0..frames {
            let mut length = None;
            within("a frame of the stack", || {
                length = far.receive(&mut into);
                length.is_some()
            });
            let bytes = if number % 2 == 0 { 60 } else { 1514 };
            let sent = frame(there, here, 0x88B5, bytes, number);
            assert_eq!(into.get(..length.unwrap()).unwrap(), sent, "frame {number}");
            taken.store(number + 1, Ordering::Relaxed);
        }
    });
    // IEEE 802.1Q, VLAN 5.
    let mut tagged = frame(here, there, 0x8100, 64, 7);
    tagged[14..18].copy_from_slice(&[0, 5, 0x08, 0]);
    let untagged = frame(here, there, 0x88B5, 1514, 8);
    for sent in [&tagged, &untagged] {
        far.transmit(sent).unwrap();
        let length = stack.recv(&mut into).unwrap();
        assert_eq!(into.get(..length), Some(&sent[..]));
    }
    far.transmit(&frame(here, there, 0x88B6, 60, 9)).unwrap();
    far.transmit(&frame(here, there, 0x88B7, 60, 10)).unwrap();
    // A byte more than with two tags.
    stack.send(&frame(there, here, 0x88B5, 1523, 11)).unwrap();
    let wanted = TapCounts {
        to_tap: 2,
        from_tap: frames.into(),
        too_long: 1,
        stalled: 0,
        interface_down: 1,
        refused: 1,
        unusable: 0,
    };
    within("the counts", || counts.read() == wanted);

    stop.store(true, Ordering::Relaxed);
    let port = thread.join().unwrap();
    for ((mut control, events), port) in [(own, port), (other, far)] {
        control.close_lan(port).map_err(|(_, error)| error).unwrap();
        control.shutdown(events).map_err(|e| e.error).unwrap();
    }
    assert_eq!(sim.findings(), []);
}

/// The table follows addresses; an entry in use goes once it is no longer used.
#[test]
fn gids_follow_addresses() {
    let sim = Sim::builder().functions(1).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let (mut control, events) = up(&sim, 0);
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    let (a, b) = ((ip("192.0.2.1"), None), (ip("192.0.2.1"), Some(5)));
    let mut gids = FollowedGids::default();
    let mut follow = |control: &mut Control<_>, wanted: &[(IpAddr, Option<u16>)]| {
        let mut changed = Vec::new();
        let wanted = wanted.iter().copied().collect();
        let is_left = gids.follow(control, &wanted, &mut changed);
        let changed: Vec<_> = changed.iter().map(|of| (of.index, of.is_there)).collect();
        (is_left, changed)
    };
    assert_eq!(
        follow(&mut control, &[a, b]),
        (false, vec![(1, true), (2, true)])
    );
    assert_eq!(control.find_gid(a.0, Some(5)), Some(2));
    let pd = control.alloc_pd().unwrap();
    let path = e810::Path::new(1, ip("192.0.2.2"), MacAddr([2, 0, 0, 0, 0, 9]));
    let ah = control.create_ah(&pd, &path).unwrap();
    assert_eq!(follow(&mut control, &[b]), (true, vec![]), "it is in use");
    assert_eq!(control.find_gid(a.0, None), Some(1));
    control.destroy_ah(ah).map_err(|(_, error)| error).unwrap();
    assert_eq!(follow(&mut control, &[b]), (false, vec![(1, false)]));
    assert_eq!(control.find_gid(a.0, None), None);
    // An address that no interface's path can have is refused; the others are not.
    let group = (ip("224.0.0.1"), None);
    assert_eq!(
        follow(&mut control, &[b, group, a]),
        (false, vec![(1, true)])
    );
    control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
    control.shutdown(events).map_err(|e| e.error).unwrap();
}

/// Set in the namespace that [`an_interface_follows_link_and_neighbours`] makes for itself.
const IN_NAMESPACE: &str = "E810_TAP_NAMESPACE";

/// A real interface: its carrier is the link, its stack resolves, and a neighbour that moves is
/// followed. The test makes its own network namespace, where that is possible; else
/// `tests/guest/run tap` tests it.
#[test]
fn an_interface_follows_link_and_neighbours() {
    if std::env::var_os(IN_NAMESPACE).is_none() {
        let namespace = |command: &str| {
            let mut shell = Command::new("unshare");
            shell.args(["--map-root-user", "--net", "--mount", "sh", "-c", command]);
            shell.arg(std::env::current_exe().unwrap());
            shell.env(IN_NAMESPACE, "1");
            shell
        };
        // /sys shows the interfaces of the namespace that it was mounted in.
        const SYS: &str = "mount -t sysfs sysfs /sys && test -c /dev/net/tun";
        let can_be = namespace(SYS).stderr(Stdio::null()).status();
        if !can_be.is_ok_and(|status| status.success()) {
            println!("NOT RUN: no namespace with a TAP interface can be made here (unshare(1))");
            return;
        }
        let this = "tap::tests::an_interface_follows_link_and_neighbours";
        let run = format!("{SYS} && exec \"$0\" --exact {this} --nocapture");
        let output = namespace(&run).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let [mut own, mut other] = [0, 1].map(|function| up(&sim, function));
    for (control, _) in [&mut own, &mut other] {
        control.wait_link(Ns::from_ms(5_000)).unwrap();
    }
    let plan = TapPlan {
        name: "lab0".to_owned(),
        addresses: vec!["198.51.100.1/30".parse().unwrap()],
        vlan: None,
        resolve_limit: crate::station::RESOLVE_LIMIT,
    };
    is_not_begun_in_part(&plan);
    leaves_an_interface_as_it_was(&plan);
    let mut changes = Vec::new();
    let tap = Tap::start(sim.function(0), &mut own.0, &plan, &mut changes).unwrap();
    follows(&sim, tap, &plan.name, &mut own.0, other);
    own.0.shutdown(own.1).map_err(|e| e.error).unwrap();
    assert_eq!(sim.findings(), []);
}

/// The firmware stops while the port joins the interface's groups: port and interface are given
/// back, and the function ends.
fn is_not_begun_in_part(plan: &TapPlan) {
    let sim = Sim::builder().functions(1).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let (mut control, events) = up(&sim, 0);
    // The port has a group from the start.
    sim.configure_firmware(0, |config| {
        config.fault(0x02A0, 2, AqFault::CriticalError);
    });
    let mut changes = Vec::new();
    let failed = Tap::start(sim.function(0), &mut control, plan, &mut changes);
    let error = failed.unwrap_err();
    assert!(format!("{error:#}").contains("critical"), "{error:#}");
    let path = format!("/sys/class/net/{}", plan.name);
    assert!(!std::path::Path::new(&path).exists());
    let ended = control.shutdown(events).unwrap_err();
    assert!(ended.parts.is_none(), "{ended}");
}

/// Another program's interface, and a start that fails after it was set up: the addresses that were
/// added are taken away again.
fn leaves_an_interface_as_it_was(plan: &TapPlan) {
    let ip = |words: &str| Command::new("ip").args(words.split(' ')).output();
    let name = &plan.name;
    let made = ip(&format!("tuntap add dev {name} mode tap"));
    if !made.is_ok_and(|made| made.status.success()) {
        println!("NOT RUN: no interface that stays can be made here (ip(8))");
        return;
    }
    let sim = Sim::builder().functions(1).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let (mut control, events) = up(&sim, 0);
    let addresses = || {
        let shown = ip(&format!("-4 -o address show dev {name}")).unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let start = |control: &mut Control<_>, plan: &TapPlan| {
        let started = Tap::start(sim.function(0), control, plan, &mut Vec::new());
        format!("{:#}", started.map(drop).unwrap_err())
    };
    // The LAN queues are taken.
    let port = control.open_lan(&lan_init(1500)).unwrap();
    let error = start(&mut control, plan);
    assert!(error.contains("LAN queues"), "{error}");
    let after_no_port = addresses();
    control.close_lan(port).map_err(|(_, error)| error).unwrap();
    ip(&format!("address flush dev {name}")).unwrap();
    // The second address is refused: the interface has no IPv6.
    let addresses_of = ["198.51.100.1/30", "2001:db8::1/64"].map(|own| own.parse().unwrap());
    let refused = TapPlan {
        addresses: addresses_of.to_vec(),
        ..plan.clone()
    };
    let off = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    let _ = std::fs::write(off, "1");
    let error = start(&mut control, &refused);
    assert!(error.contains("2001:db8::1"), "{error}");
    let after_refusal = addresses();
    ip(&format!("link delete {name}")).unwrap();
    control.shutdown(events).map_err(|e| e.error).unwrap();
    assert_eq!([after_no_port, after_refusal], ["", ""]);
}

fn follows(
    sim: &Sim,
    mut tap: Tap<SimPlatform>,
    name: &str,
    control: &mut Control<SimPlatform>,
    (mut other, other_events): Up,
) {
    let carrier = || std::fs::read_to_string(format!("/sys/class/net/{name}/carrier"));
    within("a carrier", || carrier().is_ok_and(|is_on| is_on == "1\n"));
    let there: IpAddr = "198.51.100.2".parse().unwrap();
    let [first, second] = [other.lan().mac, MacAddr([2, 0xAB, 0, 0, 0, 7])];
    let mut port = Frames(other.open_lan(&lan_init(1500)).unwrap());
    let nic = sim.function(1);
    let now = || nic.now();
    let claim = |mac: MacAddr| {
        let config = e810_net::Config::new(mac);
        let mut interface = e810_net::Interface::<[e810_net::Place; 8]>::new(config, now());
        let own = "198.51.100.2".parse().unwrap();
        interface
            .add_ipv4(own, 30, e810_net::Claim::Announced, now())
            .unwrap();
        interface
    };
    let interface = std::cell::RefCell::new(claim(first));
    let port_of_peer = std::cell::RefCell::new(&mut port);
    let answers = || {
        let (mut interface, mut port) = (interface.borrow_mut(), port_of_peer.borrow_mut());
        interface.poll(now(), &mut **port);
    };
    let found = tap.begin_resolve(there.into()).wait(&|| {
        answers();
        Ok(())
    });
    let found = found.unwrap();
    assert_eq!((found.via, found.mac), (there, first));
    assert_eq!(tap.mac_of(there), None, "no path goes there yet");
    tap.follow(vec![there], Vec::new());
    // In the first second the stack believes no other announcement.
    thread::sleep(Duration::from_millis(1200));
    interface.replace(claim(second));
    within("the neighbour's move", || {
        answers();
        tap.progress(control, &mut |_| {}).unwrap();
        tap.mac_of(there) == Some(second)
    });
    let no_route = tap.begin_resolve(IpAddr::from([203, 0, 113, 1]).into());
    let no_route = no_route.wait(&|| Ok(())).unwrap_err();
    let no_route = no_route.downcast::<Unresolved>().unwrap();
    assert!(
        matches!(no_route, Unresolved::NoKernelRoute { .. }),
        "{no_route}"
    );
    tap.follow(Vec::new(), vec![there]);
    within("what was followed", || {
        tap.progress(control, &mut |_| {}).unwrap();
        tap.mac_of(there).is_none()
    });

    other.close_lan(port.0).map_err(|(_, error)| error).unwrap();
    other.shutdown(other_events).map_err(|e| e.error).unwrap();
    sim.configure_firmware(0, |config| config.link = PortLink::Down);
    let mut changed = Vec::new();
    within("no carrier", || {
        control.progress().unwrap();
        tap.progress(control, &mut |change| changed.push(change))
            .unwrap();
        carrier().is_ok_and(|is_on| is_on == "0\n")
    });
    assert!(changed.contains(&TapChange::Link {
        is_up: false,
        mbps: 0
    }));
    tap.close(control).unwrap();
    assert!(carrier().is_err(), "the interface is left");
}

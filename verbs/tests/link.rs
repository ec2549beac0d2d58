//! A function of another process, opened by name as programs do: what it says of itself, and an
//! event when its link goes and comes; and it is given back when it has gone.

// UNSAFETY: calls the functions as C does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, c_int};
use std::time::{Duration, Instant};

use e810_sim::{Mode, PortLink, Profile, Sim, test_package};
use e810_sim_server::Server;
use e810_verbs::abi::constants::event::{DEVICE_FATAL, PORT_ACTIVE, PORT_ERR};
use e810_verbs::abi::device::Context;
use e810_verbs::abi::query::PortAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::abi::work::{AsyncElement, AsyncEvent};
use e810_verbs::async_events;
use e810_verbs::cq::{create_cq, destroy_cq};
use e810_verbs::device::context::{close_device, open_device};
use e810_verbs::device::{DEVICES, free_device_list, get_device_list, get_device_name};
use e810_verbs::pd::{alloc_pd, dealloc_pd};
use e810_verbs::query::gid::query_gid;
use e810_verbs::query::port::query_port;

/// `IBV_PORT_DOWN` and `IBV_PORT_ACTIVE`.
const DOWN: c_int = 1;
const ACTIVE: c_int = 4;

fn state(context: *mut Context) -> c_int {
    // SAFETY: numbers.
    let mut attr: PortAttr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and a place for the answer.
    assert_eq!(unsafe { query_port(context, 1, &raw mut attr) }, 0);
    attr.state
}

#[track_caller]
fn next_event(context: *mut Context) -> c_int {
    // SAFETY: an open context.
    let fd = unsafe { (*context).async_fd };
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor.
    let ready = unsafe { libc::poll(&raw mut poll, 1, 20_000) };
    assert_eq!(ready, 1, "no event");
    let mut event = AsyncEvent {
        element: AsyncElement { port_num: 0 },
        event_type: -1,
    };
    // SAFETY: an open context, and a place for the event.
    unsafe {
        assert_eq!(async_events::get_async_event(context, &raw mut event), 0);
        assert_eq!(event.element.port_num, 1);
        async_events::ack_async_event(&raw mut event);
    }
    event.event_type
}

#[test]
fn a_link_that_goes_and_comes_is_an_event_for_every_context() {
    let folder = std::env::temp_dir().join(format!("e810-verbs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("0.sock");
    let sim = Sim::builder().functions(2).mode(Mode::Real);
    let sim = sim.profile(Profile::small()).cold().build();
    let _server = Server::start(sim.clone(), std::slice::from_ref(&socket)).unwrap();
    let spec = format!("vfio-user:{}@10.8.1.1,fd00:8::1", socket.display());
    let package = folder.join("package");
    std::fs::write(&package, test_package()).unwrap();
    // SAFETY: no other thread of this process reads the environment now.
    unsafe {
        std::env::set_var(DEVICES, spec);
        std::env::set_var("E810_DDP", package);
    }

    let (mut count, before);
    count = 0;
    // SAFETY: a place for the count; the list is read up to its end, and freed once.
    let [one, two] = unsafe {
        let list = get_device_list(&raw mut count);
        assert_eq!(count, 1);
        assert!((*list.add(1)).is_null());
        let device = *list;
        before = descriptors();
        let name = CStr::from_ptr(get_device_name(device));
        assert_eq!(name, c"e810_0");
        let contexts = [open_device(device), open_device(device)];
        free_device_list(list);
        contexts
    };
    assert!(!one.is_null() && !two.is_null());
    assert_eq!(state(one), ACTIVE);
    assert!(signals_are_the_programs());
    let mut gid = Gid { raw: [0; 16] };
    // SAFETY: an open context, and a place for the answer.
    assert_eq!(unsafe { query_gid(one, 1, 1, &raw mut gid) }, 0);
    assert_eq!(gid.raw[10..], [0xFF, 0xFF, 10, 8, 1, 1]);

    sim.configure_firmware(0, |config| config.link = PortLink::Down);
    assert_eq!([next_event(one), next_event(two)], [PORT_ERR; 2]);
    assert_eq!(state(two), DOWN);
    sim.configure_firmware(0, |config| config.link = PortLink::Up);
    assert_eq!([next_event(one), next_event(two)], [PORT_ACTIVE; 2]);
    assert_eq!(state(one), ACTIVE);

    // A context that is closed takes nothing with it.
    // SAFETY: it was open, and is not used again.
    assert_eq!(unsafe { close_device(one) }, 0);
    assert_eq!(state(two), ACTIVE);
    // One descriptor a context: this one has nothing to read, and says so when it may not wait.
    // SAFETY: its descriptor is open.
    unsafe {
        let fd = (*two).async_fd;
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        let mut event = AsyncEvent {
            element: AsyncElement { port_num: 0 },
            event_type: -1,
        };
        assert_eq!(async_events::get_async_event(two, &raw mut event), -1);
        assert_eq!(*libc::__errno_location(), libc::EAGAIN);
    }
    assert_eq!(sim.findings(), []);
    // SAFETY: an open context.
    let (cq, pd) = unsafe {
        let (word, channel) = (std::ptr::null_mut(), std::ptr::null_mut());
        (create_cq(two, 8, word, channel, 0), alloc_pd(two))
    };
    assert!(!cq.is_null() && !pd.is_null());
    // Another function's driver resets the card: an event, and errors from then on.
    e810::reset_card(&sim.function(1)).unwrap();
    // SAFETY: its descriptor is open.
    unsafe { libc::fcntl((*two).async_fd, libc::F_SETFL, 0) };
    assert_eq!(next_event(two), DEVICE_FATAL);
    // SAFETY: numbers.
    let mut attr: PortAttr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and a place for the answer.
    let refused = unsafe { query_port(two, 1, &raw mut attr) };
    assert_eq!(refused, libc::EIO);
    // The function is given back when no context of it is left, also where objects are.
    assert!(descriptors() > before);
    // SAFETY: it is open; objects are destroyed when it is closed.
    unsafe {
        assert_eq!(close_device(two), 0);
        assert_eq!((destroy_cq(cq), dealloc_pd(pd)), (0, 0));
    }
    let limit = Instant::now() + Duration::from_secs(300);
    // The server's end of the connection is one of this process, too.
    while descriptors() > before {
        assert!(Instant::now() < limit, "the function is held");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Whether the library's thread blocks all signals that can be blocked.
fn signals_are_the_programs() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let states =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).ok());
    let of_library = states.filter(|state| state.starts_with("Name:\te810\n"));
    let mut masks = of_library.map(|state| {
        let mask = state
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:\t"));
        u64::from_str_radix(mask.unwrap_or_default(), 16).unwrap()
    });
    // SIGINT, SIGTERM, SIGUSR1.
    let some = 1 << 1 | 1 << 14 | 1 << 9;
    masks.next().is_some_and(|mask| mask & some == some)
}

//! A program of libibverbs: what it opens and makes.
//!
//! * `objects`, pointers to objects, with the functions of each;
//! * `connection`, queue pairs of one function that are connected with each other;
//! * `namespace`, where it has a TAP interface.

use std::env;
use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};
use std::{mem, ptr};

use e810_sim::test_package;
use e810_verbs::abi::device::Context;
use e810_verbs::abi::extended::CqEx;
use e810_verbs::abi::make::CqInitAttrEx;
use e810_verbs::abi::objects as abi;
use e810_verbs::abi::query::DeviceAttr;
use e810_verbs::abi::state::Gid;
use e810_verbs::abi::work::{AsyncElement, AsyncEvent};
use e810_verbs::async_events::{ack_async_event, get_async_event};
use e810_verbs::control::over_socket::CONTROL;
use e810_verbs::cq::extended::create_cq_ex;
use e810_verbs::device::context::{close_device, open_device};
use e810_verbs::device::{DEVICES, free_device_list, get_device_list};
use e810_verbs::query::device::query_device;
use e810_verbs::query::gid::query_gid;
use e810_verbs::{channel, cq, pd};

pub(crate) mod connection;
pub(crate) mod namespace;
pub(crate) mod objects;

pub(crate) use connection::Connection;
pub(crate) use objects::{Channel, Cq, Mr, Pd, Qp};

/// What any wait of a test may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The devices of this process: one on its own, two on a wire, one that another test
/// kills.
pub(crate) const ALONE: usize = 0;
pub(crate) const WIRED: [usize; 2] = [1, 2];
pub(crate) const SERVED: usize = 3;
/// Two on a wire of ports with four traffic classes, and packets of at most 1500 bytes.
pub(crate) const CLASSES: [usize; 2] = [4, 5];

/// The socket of the device that is served.
pub(crate) fn socket() -> PathBuf {
    folder().join("0.sock")
}

/// A folder of this process.
pub(crate) fn folder() -> PathBuf {
    env::temp_dir().join(format!("e810-programs-{}", std::process::id()))
}

extern "C" fn remove_folder() {
    let _ = std::fs::remove_dir_all(folder());
}

/// Removes the folders of processes that were killed, as some are that tests start.
fn remove_old_folders() {
    for entry in std::fs::read_dir(env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("e810-programs-"));
        let number = number.and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Names the devices, once, before they are listed.
fn name_devices() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        remove_old_folders();
        std::fs::create_dir_all(folder()).unwrap();
        // SAFETY: the function exists as long as the process, and takes nothing.
        assert_eq!(unsafe { libc::atexit(remove_folder) }, 0);
        let package = folder().join("package");
        std::fs::write(&package, test_package()).unwrap();
        let (wire, socket) = (std::process::id(), socket());
        let devices = format!(
            "sim@10.8.1.1,fd00:8::1 \
             sim:wire=p{wire},mac=02:00:00:00:02:01@10.8.2.1,fd00:8:2::1 \
             sim:wire=p{wire},mac=02:00:00:00:02:02@10.8.2.2,fd00:8:2::2 \
             vfio-user:{}@10.8.3.1 \
             sim:wire=c{wire},classes=4,mac=02:00:00:00:04:01@mtu=1500,10.8.4.1,fd00:8:4::1 \
             sim:wire=c{wire},classes=4,mac=02:00:00:00:04:02@mtu=1500,10.8.4.2,fd00:8:4::2",
            socket.display()
        );
        // A process that a test starts has devices of its own.
        if env::var_os(DEVICES).is_none() {
            // SAFETY: no other thread reads these variables before `ONCE` is done.
            unsafe {
                env::set_var(DEVICES, devices);
                env::set_var("E810_LOCKS", folder());
                env::set_var("E810_DDP", package);
            }
        }
    });
}

pub(crate) fn gid(ip: impl Into<IpAddr>) -> Gid {
    let v6 = match ip.into() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    Gid { raw: v6.octets() }
}

/// The error number of this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() }
}

/// An open device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ctx(pub(crate) *mut Context);

// SAFETY: contexts may be used by any thread.
unsafe impl Send for Ctx {}
// SAFETY: as above.
unsafe impl Sync for Ctx {}

impl Ctx {
    /// Opens a device by its number.
    #[track_caller]
    pub(crate) fn open(number: usize) -> Self {
        Self::try_open(number).unwrap()
    }

    /// Devices of this process.
    pub(crate) fn count() -> c_int {
        name_devices();
        let mut count = 0;
        // SAFETY: a place for the count; the list is freed once.
        unsafe { free_device_list(get_device_list(&raw mut count)) };
        count
    }

    /// The same, or the error number.
    pub(crate) fn try_open(number: usize) -> Result<Self, c_int> {
        name_devices();
        let mut count = 0;
        // SAFETY: a place for the count; the list is read within its length, and freed once.
        let context = unsafe {
            let list = get_device_list(&raw mut count);
            assert!(count as usize > number, "{count} devices");
            let context = open_device(*list.add(number));
            free_device_list(list);
            context
        };
        if context.is_null() {
            return Err(errno());
        }
        Ok(Self(context))
    }

    pub(crate) fn close(self) -> c_int {
        // SAFETY: it is open; a test uses it no more.
        unsafe { close_device(self.0) }
    }

    pub(crate) fn async_fd(self) -> RawFd {
        // SAFETY: it is open.
        unsafe { (*self.0).async_fd }
    }

    pub(crate) fn pd(self) -> Pd {
        // SAFETY: it is open.
        Pd(unsafe { pd::alloc_pd(self.0) })
    }

    pub(crate) fn channel(self) -> Channel {
        // SAFETY: it is open.
        let channel = unsafe { channel::create_comp_channel(self.0) };
        assert!(!channel.is_null());
        Channel(channel)
    }

    /// A completion queue with `context` for its word, and events that go to a channel.
    pub(crate) fn cq(self, entries: c_int, context: usize, channel: Option<Channel>) -> Cq {
        let channel = channel.map_or(ptr::null_mut(), |channel| channel.0);
        Cq(self.try_cq(entries, context, channel))
    }

    /// A completion queue of the extended interface.
    pub(crate) fn extended_cq(self, entries: u32) -> *mut CqEx {
        // SAFETY: numbers and null pointers.
        let mut attr: CqInitAttrEx = unsafe { mem::zeroed() };
        attr.cqe = entries;
        // SAFETY: it is open, and the attributes name no channel.
        unsafe { create_cq_ex(self.0, &raw mut attr) }
    }

    pub(crate) fn try_cq(
        self,
        entries: c_int,
        context: usize,
        channel: *mut abi::CompChannel,
    ) -> *mut abi::Cq {
        let word = ptr::without_provenance_mut::<c_void>(context);
        // SAFETY: it is open, and so is the channel's context.
        unsafe { cq::create_cq(self.0, entries, word, channel, 0) }
    }

    pub(crate) fn gid(self, index: c_int) -> Gid {
        let mut gid = Gid { raw: [0; 16] };
        // SAFETY: an open context, and a place for the answer.
        assert_eq!(unsafe { query_gid(self.0, 1, index, &raw mut gid) }, 0);
        gid
    }

    /// What `ibv_query_device` says, or the error number.
    pub(crate) fn try_attributes(self) -> Result<DeviceAttr, c_int> {
        // SAFETY: numbers.
        let mut attr: DeviceAttr = unsafe { mem::zeroed() };
        // SAFETY: an open context, and a place for the answer.
        match unsafe { query_device(self.0, &raw mut attr) } {
            0 => Ok(attr),
            number => Err(number),
        }
    }

    pub(crate) fn attributes(self) -> DeviceAttr {
        self.try_attributes().unwrap()
    }

    /// Waits for an event and takes it; it is not acknowledged.
    #[track_caller]
    pub(crate) fn event(self) -> AsyncEvent {
        assert!(readable(self.async_fd(), PATIENCE), "no event");
        self.take_event().unwrap()
    }

    /// `ibv_get_async_event`, which may wait.
    pub(crate) fn take_event(self) -> Result<AsyncEvent, c_int> {
        let mut event = AsyncEvent {
            element: AsyncElement { port_num: 0 },
            event_type: -1,
        };
        // SAFETY: an open context, and a place for the event.
        match unsafe { get_async_event(self.0, &raw mut event) } {
            0 => Ok(event),
            _ => Err(errno()),
        }
    }
}

/// Memory that a function of another process can use, too: it stays until the process ends.
pub(crate) fn memory(length: usize) -> &'static mut [u8] {
    // SAFETY: a new file, and a new mapping of it that nobody else has.
    unsafe {
        let file = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::ftruncate(file, length as libc::off_t), 0);
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let start = libc::mmap(ptr::null_mut(), length, read_write, shared, file, 0);
        assert_ne!(start, libc::MAP_FAILED);
        libc::close(file);
        std::slice::from_raw_parts_mut(start.cast(), length)
    }
}

/// Acknowledges an asynchronous event.
pub(crate) fn acknowledge(mut event: AsyncEvent) {
    // SAFETY: it was taken, and its object is there.
    unsafe { ack_async_event(&raw mut event) };
}

/// Whether this process is attached to its own function over a socket.
pub(crate) fn is_over_socket() -> bool {
    env::var_os(CONTROL).is_some_and(|how| how == "socket")
}

/// Whether a descriptor becomes readable in time.
pub(crate) fn readable(fd: RawFd, time: Duration) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor.
    unsafe { libc::poll(&raw mut poll, 1, time.as_millis() as c_int) == 1 }
}

/// Makes a descriptor non-blocking, or blocking.
pub(crate) fn set_nonblocking(fd: RawFd, on: bool) {
    let flags = if on { libc::O_NONBLOCK } else { 0 };
    // SAFETY: an open descriptor.
    assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }, 0);
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < limit, "{what}: not in time");
        thread::sleep(Duration::from_millis(1));
    }
}

//! The devices of the process, each opened once for all ids, and their addresses.

use core::ffi::c_int;
use std::net::IpAddr;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use e810::{DeviceAttr, Gid};
use e810_attach::messages::{
    CallBytes, Connecting, ControlEvent, DeviceEvent, EventSink, QueryDevice, QueryGids, Refused,
};
use e810_cm::machine;
use e810_connect::{Answer, Call, Told};
use e810_verbs::abi::device::{Context, Device as Listed};
use e810_verbs::abi::objects::Pd;
use e810_verbs::control::ControlPlane;
use e810_verbs::device::context::{OpenContext, open_device};
use e810_verbs::device::{array, free_device_list, get_device_list};
use e810_verbs::errno;
use e810_verbs::fork::Process;
use e810_verbs::panics::catch_panics;
use e810_verbs::pd::alloc_pd;

use crate::news;

/// How long a call waits for the way to a peer.
const WAIT: Duration = Duration::from_secs(3);

/// A device that is open.
#[derive(Debug)]
pub(crate) struct Device {
    /// Programs see it, and never close it.
    pub(crate) context: *mut Context,
    listed: *mut Listed,
    /// For programs that name none.
    pub(crate) pd: *mut Pd,
    process: Process,
    /// It hears as long as the device is here.
    _heard: Arc<dyn EventSink>,
}

// SAFETY: any thread may use a context and a protection domain.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Those that are open. Held during no command: the thread that hears of connections takes it.
static KNOWN: Mutex<Vec<Arc<Device>>> = Mutex::new(Vec::new());
/// Held while some are opened.
static OPENING: Mutex<()> = Mutex::new(());

/// What is heard of a device, by its context.
#[derive(Debug)]
struct Heard(usize);

impl EventSink for Heard {
    fn notify(&self, event: ControlEvent) {
        if event == ControlEvent::Device(DeviceEvent::DeviceFatal) {
            news::device_is_gone(self.0);
        }
    }

    fn connection(&self, told: &Told) {
        news::told(self.0, told);
    }
}

impl Device {
    fn open(listed: *mut Listed) -> Option<Arc<Self>> {
        // SAFETY: it is in the list of devices, which are never freed.
        let context = unsafe { open_device(listed) };
        if context.is_null() {
            return None;
        }
        // SAFETY: as above.
        let pd = unsafe { alloc_pd(context) };
        if pd.is_null() {
            return None;
        }
        let heard: Arc<dyn EventSink> = Arc::new(Heard(context.addr()));
        // SAFETY: it was opened just now, and nobody closes it.
        unsafe { OpenContext::of(context) }.control().listen(&heard);
        Some(Arc::new(Self {
            context,
            listed,
            pd,
            process: Process::this(),
            _heard: heard,
        }))
    }

    pub(crate) fn control(&self) -> Arc<dyn ControlPlane> {
        // SAFETY: nobody closes it.
        unsafe { OpenContext::of(self.context) }.control()
    }

    /// Its number in what is kept of all devices.
    pub(crate) fn key(&self) -> usize {
        self.context.addr()
    }

    /// Whether it is of no use any more.
    fn is_over(&self) -> bool {
        !self.process.is_this() || self.control().ask(QueryDevice {}).is_err()
    }

    /// Its addresses, by index.
    pub(crate) fn addresses(&self) -> Vec<Own> {
        let Ok(table) = self.control().ask(QueryGids {}) else {
            return Vec::new();
        };
        let own = table.entries().map(|(index, entry)| Own {
            index,
            ip: entry.gid.ip(),
            gid: entry.gid,
            vlan: entry.vlan,
        });
        own.collect()
    }

    pub(crate) fn attributes(&self) -> Result<DeviceAttr, c_int> {
        let attr = self.control().ask(QueryDevice {});
        attr.map_err(|refused| refused.errno)
    }

    /// Calls the connection manager.
    ///
    /// # Errors
    /// The number for `errno`.
    pub(crate) fn call(&self, call: &Call<'_>) -> Result<Answer, c_int> {
        let since = Instant::now();
        loop {
            let call = CallBytes::of(call);
            let answered = self.control().ask(Connecting { call });
            match answered.map_err(|refused: Refused| refused.errno)? {
                // A neighbour that was known is asked for again.
                Err(e810_connect::Refused::PathPending) if since.elapsed() < WAIT => {
                    thread::sleep(Duration::from_millis(1));
                }
                answered => return Ok(*answered.map_err(|refused| number(&refused))?),
            }
        }
    }
}

/// The number for a refusal of the connection manager.
fn number(refused: &e810_connect::Refused) -> c_int {
    use machine::Error;
    match refused {
        e810_connect::Refused::Machine(error) => match error {
            Error::InUse { .. } => libc::EADDRINUSE,
            Error::NoSlot { .. } | Error::NoListener { .. } => libc::ENOMEM,
            _ => libc::EINVAL,
        },
        e810_connect::Refused::Peer(_) => libc::ECONNREFUSED,
        e810_connect::Refused::NoPath | e810_connect::Refused::PathPending => libc::EHOSTUNREACH,
        _ => libc::EIO,
    }
}

/// An address of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) index: u8,
    pub(crate) ip: IpAddr,
    pub(crate) gid: Gid,
    pub(crate) vlan: Option<u16>,
}

/// All devices that can be opened; those that are gone are opened again.
pub(crate) fn all() -> Vec<Arc<Device>> {
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // SAFETY: the count is not wanted.
    let list = unsafe { get_device_list(ptr::null_mut()) };
    if list.is_null() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut at = list;
    loop {
        // SAFETY: the list has a null pointer at its end.
        let listed = unsafe { at.read() };
        if listed.is_null() {
            break;
        }
        let is_it = |one: &&Arc<Device>| one.listed == listed && !one.is_over();
        let device = known.iter().find(is_it).cloned();
        found.extend(device.or_else(|| Device::open(listed)));
        // SAFETY: as above.
        at = unsafe { at.add(1) };
    }
    // SAFETY: it came from above.
    unsafe { free_device_list(list) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.clone_from(&found);
    found
}

/// The device with a number.
pub(crate) fn known(key: usize) -> Option<Arc<Device>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.iter().find(|device| device.key() == key).cloned()
}

/// The device that has an address, with it.
///
/// # Errors
/// ENODEV without a device, EADDRNOTAVAIL.
pub(crate) fn with(ip: IpAddr) -> Result<(Arc<Device>, Own), c_int> {
    let devices = all();
    let found = devices.iter().find_map(|device| {
        let own = device.addresses().into_iter().find(|own| own.ip == ip)?;
        Some((device.clone(), own))
    });
    match (found, devices.is_empty()) {
        (Some(found), _) => Ok(found),
        (None, true) => Err(libc::ENODEV),
        (None, false) => Err(libc::EADDRNOTAVAIL),
    }
}

/// Whether an address stands for whoever uses it, as a destination.
pub(crate) const fn is_itself(destination: IpAddr) -> bool {
    destination.is_loopback() || destination.is_unspecified()
}

/// The device from which packets to `destination` go, the own address, and the destination: loopback,
/// or no address, stands for the first device.
///
/// # Errors
/// ENODEV without a device of that family.
pub(crate) fn towards(destination: IpAddr) -> Result<(Arc<Device>, Own, IpAddr), c_int> {
    let is_link_local = |ip: &IpAddr| match ip {
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
        IpAddr::V4(_) => false,
    };
    let mut first = None;
    for device in all() {
        for own in device.addresses() {
            // What is the device's own comes back to it.
            if own.ip == destination {
                return Ok((device, own, destination));
            }
            let is_of_kind = own.ip.is_ipv4() == destination.is_ipv4()
                && (is_link_local(&own.ip) == is_link_local(&destination));
            if is_of_kind && first.is_none() {
                first = Some((device.clone(), own));
            }
        }
    }
    let (device, own) = first.ok_or(libc::ENODEV)?;
    match is_itself(destination) {
        true => Ok((device, own, own.ip)),
        false => Ok((device, own, destination)),
    }
}

/// `rdma_get_devices`: an array of contexts with a null pointer at its end.
///
/// # Safety
/// `count` is null or can be written.
pub unsafe extern "C" fn get_devices(count: *mut c_int) -> *mut *mut Context {
    catch_panics(ptr::null_mut(), || {
        let devices = all();
        if devices.is_empty() {
            return errno::no_object(libc::ENODEV);
        }
        let contexts = devices.iter().map(|device| device.context);
        // SAFETY: the caller's.
        unsafe { array(contexts, count) }
    })
}

/// `rdma_free_devices`: frees the array; the devices stay open.
///
/// # Safety
/// `list` came from [`get_devices`] and was not freed.
pub unsafe extern "C" fn free_devices(list: *mut *mut Context) {
    // SAFETY: the caller's; it came from `malloc`.
    unsafe { libc::free(list.cast()) };
}

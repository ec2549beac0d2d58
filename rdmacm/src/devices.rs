//! The devices of the process, each opened once for all ids, and their addresses.

use core::ffi::c_int;
use std::net::IpAddr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use e810::{DeviceAttr, Gid};
use e810_attach::messages::{
    CallBytes, Connecting, ControlEvent, DeviceEvent, EventSink, QueryDevice, QueryGids, Refused,
};
use e810_attach::threads::spawn;
use e810_cm::machine;
use e810_connect::{Answer, Call, Told};
use e810_verbs::abi::device::{Context, Device as Listed};
use e810_verbs::abi::objects::Pd;
use e810_verbs::control::ControlPlane;
use e810_verbs::device::context::{OpenContext, close_device, open_again, open_device};
use e810_verbs::device::{array, free_device_list, get_device_list};
use e810_verbs::errno;
use e810_verbs::fork::{PerProcess, Process};
use e810_verbs::panics::catch_panics;
use e810_verbs::pd::alloc_pd;

use crate::{calls, news};

/// How long a call waits for the way to a peer.
const WAIT: Duration = Duration::from_secs(3);

/// How often a device that is gone is looked for.
const RETURN: Duration = Duration::from_millis(500);

/// A device that is open.
#[derive(Debug)]
pub(crate) struct Device {
    /// Programs see it, and never close it.
    pub(crate) context: *mut Context,
    pub(crate) listed: *mut Listed,
    /// For programs that name none.
    pub(crate) pd: *mut Pd,
    process: Process,
    /// It hears as long as the device is here.
    heard: Arc<Heard>,
}

// SAFETY: any thread may use a context and a protection domain.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// Those that were opened. Held during no command: the thread that hears of connections takes it.
static KNOWN: PerProcess<Mutex<Vec<Arc<Device>>>> = PerProcess::new();
/// Held while some are opened.
static OPENING: PerProcess<Mutex<()>> = PerProcess::new();

fn lock<T: Default + Send>(mutex: &'static PerProcess<Mutex<T>>) -> MutexGuard<'static, T> {
    let mutex = mutex.get_or_init(Mutex::default);
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is heard of a device.
#[derive(Debug)]
struct Heard {
    /// Its context.
    device: usize,
    is_gone: AtomicBool,
}

impl EventSink for Heard {
    fn notify(&self, event: ControlEvent) {
        if event == ControlEvent::Device(DeviceEvent::DeviceFatal) {
            self.is_gone.store(true, Ordering::Release);
            news::device_is_gone(self.device);
            await_return();
        }
    }

    fn connection(&self, told: &Told) {
        news::told(self.device, told);
    }
}

impl Device {
    fn open(listed: *mut Listed, is_first: bool) -> Option<Arc<Self>> {
        let context = match is_first {
            // SAFETY: it is in the list of devices, which are never freed.
            true => unsafe { open_device(listed) },
            // Others are not held up by a server that has ended.
            // SAFETY: as above.
            false => unsafe { open_again(listed) },
        };
        if context.is_null() {
            return None;
        }
        // SAFETY: as above.
        let pd = unsafe { alloc_pd(context) };
        if pd.is_null() {
            // SAFETY: it was opened just now.
            unsafe { close_device(context) };
            return None;
        }
        let heard = Arc::new(Heard {
            device: context.addr(),
            is_gone: AtomicBool::new(false),
        });
        let sink: Arc<dyn EventSink> = heard.clone();
        // SAFETY: it was opened just now, and nobody closes it.
        unsafe { OpenContext::of(context) }.control().listen(&sink);
        Some(Arc::new(Self {
            context,
            listed,
            pd,
            process: Process::this(),
            heard,
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
        !self.process.is_this() || self.heard.is_gone.load(Ordering::Acquire)
    }

    /// Its addresses, by index.
    ///
    /// # Errors
    /// The number for `errno`.
    pub(crate) fn addresses(&self) -> Result<Vec<Own>, c_int> {
        let table = self.control().ask(QueryGids {});
        let table = table.map_err(|refused: Refused| refused.errno)?;
        let own = table.entries().map(|(index, entry)| Own {
            index,
            ip: entry.gid.ip(),
            gid: entry.gid,
            vlan: entry.vlan,
        });
        Ok(own.collect())
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
    let _opening = lock(&OPENING);
    let known = lock(&KNOWN).clone();
    // SAFETY: the count is not wanted.
    let list = unsafe { get_device_list(ptr::null_mut()) };
    if list.is_null() {
        return Vec::new();
    }
    let (mut found, mut now_known) = (Vec::new(), Vec::new());
    let mut at = list;
    loop {
        // SAFETY: the list has a null pointer at its end.
        let listed = unsafe { at.read() };
        if listed.is_null() {
            break;
        }
        let before = known.iter().find(|one| one.listed == listed).cloned();
        let is_first = before.is_none();
        let device = before.clone().filter(|device| !device.is_over());
        let device = device.or_else(|| {
            let opened = Device::open(listed, is_first)?;
            if !is_first {
                calls::listen_again(&opened);
            }
            Some(opened)
        });
        // One that is gone stays known, as one that is to be opened again.
        now_known.extend(device.clone().or(before));
        found.extend(device);
        // SAFETY: as above.
        at = unsafe { at.add(1) };
    }
    // SAFETY: it came from above.
    unsafe { free_device_list(list) };
    *lock(&KNOWN) = now_known;
    found
}

/// Who listens at any address goes on to do so when a device is there again, as in the kernel: it is told
/// nothing, and may wait in `rdma_get_cm_event`. So a thread looks for the device as long as there is a
/// listener.
fn await_return() {
    static IS_AWAITED: PerProcess<AtomicBool> = PerProcess::new();
    let is_awaited = IS_AWAITED.get_or_init(AtomicBool::default);
    if is_awaited.swap(true, Ordering::AcqRel) {
        return;
    }
    let awaits = spawn("e810-return", move || {
        loop {
            thread::sleep(RETURN);
            if !calls::is_listened_everywhere() || all().len() == lock(&KNOWN).len() {
                break;
            }
        }
        is_awaited.store(false, Ordering::Release);
    });
    if awaits.is_err() {
        is_awaited.store(false, Ordering::Release);
    }
}

/// Whether there are devices, or were: an id can be made while the only server is away.
pub(crate) fn are_known() -> bool {
    !lock(&KNOWN).is_empty() || !all().is_empty()
}

/// The device with a number.
pub(crate) fn known(key: usize) -> Option<Arc<Device>> {
    let known = lock(&KNOWN);
    known.iter().find(|device| device.key() == key).cloned()
}

/// The device that has an address, with it.
///
/// # Errors
/// ENODEV without a device, EADDRNOTAVAIL, or the error of a device that was asked for its addresses.
pub(crate) fn with(ip: IpAddr) -> Result<(Arc<Device>, Own), c_int> {
    let mut number = libc::ENODEV;
    for device in all() {
        match device.addresses() {
            Ok(own) => match own.into_iter().find(|own| own.ip == ip) {
                Some(own) => return Ok((device, own)),
                None if number == libc::ENODEV => number = libc::EADDRNOTAVAIL,
                None => {}
            },
            Err(silent) => number = silent,
        }
    }
    Err(number)
}

/// Whether an address stands for whoever uses it, as a destination.
pub(crate) const fn is_itself(destination: IpAddr) -> bool {
    destination.is_loopback() || destination.is_unspecified()
}

/// A device and one of its addresses.
pub(crate) type Source = (Arc<Device>, Own);

/// From where packets to `destination` may go, the likeliest first, and the destination: loopback, or
/// no address, stands for the first device. Only a device knows whether it has a way.
///
/// # Errors
/// ENODEV without a device, ENETUNREACH without one that has an address of that family, or the error of a
/// device that was asked for its addresses.
pub(crate) fn towards(destination: IpAddr) -> Result<(Vec<Source>, IpAddr), c_int> {
    let mut sources: Vec<Source> = Vec::new();
    let mut number = libc::ENODEV;
    for device in all() {
        let own = match device.addresses() {
            Ok(own) => own,
            Err(silent) => {
                number = silent;
                continue;
            }
        };
        if number == libc::ENODEV {
            number = libc::ENETUNREACH;
        }
        // What is the device's own comes back to it.
        if let Some(own) = own.iter().find(|own| own.ip == destination) {
            return Ok((vec![(device, *own)], destination));
        }
        let own = own
            .into_iter()
            .filter(|own| is_of_kind(own.ip, destination));
        // Of several that are as near, the first.
        let nearest = own.min_by_key(|own| is_apart(own.ip, destination));
        sources.extend(nearest.map(|own| (device, own)));
    }
    if is_itself(destination) {
        sources.truncate(1);
        let (_, own) = sources.first().ok_or(number)?;
        let ip = own.ip;
        return Ok((sources, ip));
    }
    sources.sort_by_key(|(_, own)| is_apart(own.ip, destination));
    match sources.is_empty() {
        true => Err(number),
        false => Ok((sources, destination)),
    }
}

/// Whether an own address can be the source of packets to another.
const fn is_of_kind(own: IpAddr, destination: IpAddr) -> bool {
    match (own, destination) {
        (IpAddr::V4(_), IpAddr::V4(_)) => true,
        (IpAddr::V6(own), IpAddr::V6(destination)) => {
            own.is_unicast_link_local() == destination.is_unicast_link_local()
        }
        _ => false,
    }
}

/// How far two addresses are apart: bits behind their common prefix (RFC 6724, rule 8 of source addresses).
fn is_apart(one: IpAddr, other: IpAddr) -> u32 {
    let [one, other] =
        [one, other].map(|ip| u128::from_be_bytes(e810::GidEntry::untagged(ip).gid.0));
    u128::BITS - (one ^ other).leading_zeros()
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

//! The devices of the process: the functions that its environment names.
//!
//! A function belongs to one process, from the time when the process lists its devices until it
//! ends. All contexts of the process share it: it is brought up at its first use, and stays up.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use complain::complain;

use crate::abi::device::Device;
use crate::control::ControlPlane;
use crate::control::attached;
use crate::control::closed::Closed;
use crate::control::in_process;
use crate::errno::{self, NotOpened};
use crate::fork::Process;
use crate::panics::catch_panics;
use crate::rings::DataPathOps;
use crate::sysfs;

mod choice;
pub(crate) mod complain;
pub mod context;
pub(crate) mod ended;
mod guid;
mod ownership;
mod words;

pub use ownership::LOCKS;
use words::Named;

/// The environment variable with the devices of the process, separated by white space. Each device
/// is a function, written as for `--device` of the command, then an `@` and its IP addresses,
/// separated by commas. Several functions separated by `|` are alternatives: the process takes the
/// first one that no other process has.
pub const DEVICES: &str = "E810_VERBS";

/// `IBV_NODE_CA`, as RoCE devices are.
const CHANNEL_ADAPTER: c_int = 1;
/// `IBV_TRANSPORT_IB`.
const TRANSPORT_IB: c_int = 0;

/// A device in the list. Programs may keep pointers to it until they end.
#[repr(C)]
#[derive(Debug)]
pub struct ListedDevice {
    listed: Device,
    /// Other libraries look here for data of their own devices: zeroes.
    zeroes: [u64; 16],
    number: usize,
    process: Process,
    named: Named,
    up: Mutex<Option<Up>>,
}

/// A function that was brought up. Its own thread holds its control path while the function is
/// there, and so do contexts. When the function is gone, it is dropped with the last of these: a
/// kernel that wants it back waits for that.
#[derive(Debug)]
struct Up {
    control: Weak<dyn ControlPlane>,
    data_path: &'static DataPathOps,
}

// SAFETY: the pointers in `listed` are null; the rest is behind a mutex or never changes.
unsafe impl Sync for ListedDevice {}

impl ListedDevice {
    fn new(number: usize, named: Named) -> Self {
        let name = name_of(number);
        let sysfs = sysfs::root().to_string_lossy();
        Self {
            listed: Device {
                ops: [0; 2],
                node_type: CHANNEL_ADAPTER,
                transport_type: TRANSPORT_IB,
                name: chars(&name),
                dev_name: chars(&format!("uverbs{number}")),
                dev_path: chars(&format!("{sysfs}/class/infiniband_verbs/uverbs{number}")),
                ibdev_path: chars(&format!("{sysfs}/class/infiniband/{name}")),
            },
            zeroes: [0; 16],
            number,
            process: Process::this(),
            named,
            up: Mutex::default(),
        }
    }

    /// The device that a program names.
    ///
    /// # Safety
    /// `device` came from [`get_device_list`].
    unsafe fn of<'a>(device: *mut Device) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one that is never freed.
        unsafe { &*device.cast::<Self>() }
    }

    /// Its name.
    fn name(&self) -> String {
        name_of(self.number)
    }

    /// The device as this process has it: another function if the parent listed it and then forked.
    ///
    /// # Errors
    /// That no function is left for this process.
    fn here(&self) -> Result<&Self, NotOpened> {
        if self.process.is_this() {
            return Ok(self);
        }
        let own = choice::devices().get(self.number);
        own.ok_or_else(|| {
            NotOpened::no_device(format!(
                "{}: it belongs to process {}, which forked, and no other is free for this one",
                self.named, self.process.number
            ))
        })
    }

    /// Its control path; brings the function up if it is not up yet.
    ///
    /// # Errors
    /// Why it cannot be brought up.
    pub(crate) fn control(&self, may_wait: bool) -> Result<Arc<dyn ControlPlane>, NotOpened> {
        self.here()?.bring_up(may_wait)
    }

    fn bring_up(&self, may_wait: bool) -> Result<Arc<dyn ControlPlane>, NotOpened> {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(up) = &*up {
            let control = up.control.upgrade();
            let control = control.filter(|control| !control.is_over());
            match (control, &self.named) {
                (Some(control), _) => return Ok(control),
                (None, Named::Own(_)) => return Ok(Arc::new(Closed(up.data_path))),
                // There may be another server by now.
                (None, Named::At { .. }) => {}
            }
        }
        let control = match &self.named {
            Named::Own(opening) => in_process::open(opening.clone())?,
            Named::At { path, wait } => {
                let wait = if may_wait { *wait } else { Duration::ZERO };
                attached::open(path, wait)?
            }
        };
        *up = Some(Up {
            control: Arc::downgrade(&control),
            data_path: control.data_path(),
        });
        Ok(control)
    }
}

fn name_of(number: usize) -> String {
    format!("e810_{number}")
}

/// As much of `text` as fits, with a terminating zero.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    let room = N.saturating_sub(1);
    for (place, byte) in chars.iter_mut().zip(text.bytes().take(room)) {
        *place = byte as c_char;
    }
    chars
}

/// `ibv_get_device_list`: an array with a null pointer at its end, which the caller frees.
///
/// # Safety
/// `count` is null or can be written.
pub unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut Device {
    catch_panics(ptr::null_mut(), || {
        let devices = choice::devices().iter();
        let devices = devices.map(|device| ptr::from_ref(device).cast_mut().cast());
        // SAFETY: the caller's.
        unsafe { array(devices, count) }
    })
}

/// Pointers for a program, with a null pointer at their end, in memory of `malloc`; null and errno
/// without that.
///
/// # Safety
/// `count` is null or can be written.
pub unsafe fn array<T>(
    pointers: impl ExactSizeIterator<Item = *mut T>,
    count: *mut c_int,
) -> *mut *mut T {
    let number = pointers.len();
    let bytes = (number + 1) * size_of::<*mut T>();
    // SAFETY: any size will do; the result is checked.
    let array = unsafe { libc::malloc(bytes) }.cast::<*mut T>();
    if array.is_null() {
        return errno::no_object(libc::ENOMEM);
    }
    for (index, pointer) in pointers
        .chain([ptr::null_mut()])
        .take(number + 1)
        .enumerate()
    {
        // SAFETY: there is room for one more than there are pointers.
        unsafe { array.add(index).write(pointer) };
    }
    if !count.is_null() {
        // SAFETY: the caller's.
        unsafe { count.write(number as c_int) };
    }
    array
}

/// `ibv_free_device_list`: frees the array; the devices stay.
///
/// # Safety
/// `list` came from [`get_device_list`] and was not freed.
pub unsafe extern "C" fn free_device_list(list: *mut *mut Device) {
    // SAFETY: the caller's; it came from `malloc`.
    unsafe { libc::free(list.cast()) };
}

/// `ibv_get_device_name`.
///
/// # Safety
/// `device` came from [`get_device_list`].
pub unsafe extern "C" fn get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: the caller's.
    unsafe { &raw const (*device).name }.cast()
}

/// `ibv_get_device_guid`: in network byte order; 0 if it needs a bring-up and that fails.
///
/// # Safety
/// `device` came from [`get_device_list`].
pub unsafe extern "C" fn get_device_guid(device: *mut Device) -> u64 {
    catch_panics(0, || {
        // SAFETY: the caller's.
        let device = unsafe { ListedDevice::of(device) };
        match device.here().and_then(ListedDevice::guid) {
            Ok(guid) => guid.to_be(),
            Err(NotOpened { why, .. }) => {
                complain(&why);
                0
            }
        }
    })
}

/// `ibv_get_device_index`: the kernel's number of a device, which these devices do not have.
pub extern "C" fn get_device_index(_: *mut Device) -> c_int {
    -1
}

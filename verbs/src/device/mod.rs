//! The devices of the process: the functions that its environment names.
//!
//! A function belongs to one process, and in it to all contexts together: it is brought up when it
//! is first used, and stays so until the process ends.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::env;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use e810_backends::spec::DeviceSpec;

use crate::abi::device::Device;
use crate::control::ControlPlane;
use crate::control::in_process::{self, MTU, Opening};
use crate::errno;
use crate::panics::catch_panics;

pub mod context;

/// The environment variable with the functions of the process, separated by white space, each as
/// `--device` of the command has it, and behind an `@` its IP addresses, separated by commas.
pub const DEVICES: &str = "E810_VERBS";

/// `IBV_NODE_CA`, as RoCE devices are.
const CHANNEL_ADAPTER: c_int = 1;
/// `IBV_TRANSPORT_IB`.
const TRANSPORT_IB: c_int = 0;

/// A device in the list. Programs keep pointers to it as long as they live.
#[repr(C)]
#[derive(Debug)]
pub struct ListedDevice {
    listed: Device,
    /// Other libraries look behind it for what their own devices have there: nothing.
    zeroes: [u64; 16],
    opening: Opening,
    control: Mutex<Option<Arc<dyn ControlPlane>>>,
}

// SAFETY: the pointers in `listed` are none; the rest is behind a mutex or never changes.
unsafe impl Sync for ListedDevice {}

impl ListedDevice {
    fn new(number: usize, opening: Opening) -> Self {
        let name = format!("e810_{number}");
        Self {
            listed: Device {
                ops: [0; 2],
                node_type: CHANNEL_ADAPTER,
                transport_type: TRANSPORT_IB,
                name: chars(&name),
                dev_name: chars(&format!("uverbs{number}")),
                dev_path: chars(&format!("/sys/class/infiniband_verbs/uverbs{number}")),
                ibdev_path: chars(&format!("/sys/class/infiniband/{name}")),
            },
            zeroes: [0; 16],
            opening,
            control: Mutex::default(),
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

    /// Its control path: the function is brought up if it is not.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn control(&self) -> Result<Arc<dyn ControlPlane>, String> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = &*control {
            return Ok(control.clone());
        }
        let opened = in_process::open(self.opening.clone())?;
        Ok(control.insert(opened).clone())
    }
}

/// As much of `text` as fits, and a zero.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    let room = N.saturating_sub(1);
    for (place, byte) in chars.iter_mut().zip(text.bytes().take(room)) {
        *place = byte as c_char;
    }
    chars
}

/// The devices, found out once.
fn devices() -> &'static [ListedDevice] {
    static FOUND: OnceLock<Vec<ListedDevice>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let named = env::var(DEVICES).unwrap_or_default();
        let openings = named.split_whitespace().filter_map(|word| {
            parse(word)
                .inspect_err(|why| complain(&format!("{DEVICES}: `{word}`: {why}")))
                .ok()
        });
        let listed = openings.enumerate();
        listed
            .map(|(n, opening)| ListedDevice::new(n, opening))
            .collect()
    })
}

fn parse(word: &str) -> Result<Opening, String> {
    let (spec, addresses) = word.split_once('@').unwrap_or((word, ""));
    let addresses = addresses.split(',').filter(|address| !address.is_empty());
    let spec: DeviceSpec = spec.parse()?;
    let addresses = addresses.map(|address| {
        let ip = address.parse::<IpAddr>();
        ip.map_err(|_| format!("`{address}` is no IP address"))
    });
    Ok(Opening {
        spec,
        addresses: addresses.collect::<Result<_, _>>()?,
        mtu: MTU,
    })
}

/// Says in one line why there is no device: verbs has no other way.
fn complain(line: &str) {
    use std::io::Write as _;
    // Not `eprintln`, which panics when nobody reads.
    let _ = writeln!(std::io::stderr(), "e810: {line}");
}

/// `ibv_get_device_list`: an array that the caller frees, with a null pointer at its end.
///
/// # Safety
/// `count` is null or can be written.
pub unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut Device {
    catch_panics(ptr::null_mut(), || {
        let devices = devices();
        let bytes = (devices.len() + 1) * size_of::<*mut Device>();
        // SAFETY: any size will do; what comes is checked.
        let list = unsafe { libc::malloc(bytes) }.cast::<*mut Device>();
        if list.is_null() {
            return errno::no_object(libc::ENOMEM);
        }
        let pointers = devices
            .iter()
            .map(|device| ptr::from_ref(device).cast_mut().cast());
        for (index, device) in pointers.chain([ptr::null_mut()]).enumerate() {
            // SAFETY: there is room for one more than there are devices.
            unsafe { list.add(index).write(device) };
        }
        if !count.is_null() {
            // SAFETY: the caller's.
            unsafe { count.write(devices.len() as c_int) };
        }
        list
    })
}

/// `ibv_free_device_list`: the array; devices stay.
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

/// `ibv_get_device_guid`: in the order of the network; 0 if the function cannot be brought up.
///
/// # Safety
/// `device` came from [`get_device_list`].
pub unsafe extern "C" fn get_device_guid(device: *mut Device) -> u64 {
    catch_panics(0, || {
        // SAFETY: the caller's.
        let device = unsafe { ListedDevice::of(device) };
        let attr = device.control().and_then(|control| {
            let attr = control.query_device();
            attr.map_err(|refused| refused.to_string())
        });
        attr.map_or_else(
            |why| {
                complain(&why);
                0
            },
            |attr| attr.node_guid.to_be(),
        )
    })
}

/// `ibv_get_device_index`: the kernel's number of a device, of which there is none.
pub extern "C" fn get_device_index(_: *mut Device) -> c_int {
    -1
}

//! Contexts: a program's open devices.

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use super::{ListedDevice, complain};
use crate::abi::device::{Context, ContextOps, Device, VerbsContext};
use crate::async_events::EventQueue;
use crate::control::ControlPlane;
use crate::errno::{self, fail, no_object};
use crate::panics::catch_panics;
use crate::query::device::query_device_ex;
use crate::query::port::query_port_sized;

/// What a context has behind what libibverbs shows of it.
#[repr(C)]
#[derive(Debug)]
pub struct OpenContext {
    verbs: VerbsContext,
    control: Arc<dyn ControlPlane>,
    events: Arc<EventQueue>,
    /// What `cmd_fd` names: programs pass the descriptor on, and nobody reads it.
    _commands: OwnedFd,
}

impl OpenContext {
    /// The context that a program names.
    ///
    /// # Safety
    /// `context` came from [`open_device`] and is not closed.
    pub(crate) unsafe fn of<'a>(context: *mut Context) -> &'a Self {
        let verbs = context.wrapping_byte_sub(offset_of!(VerbsContext, context));
        // SAFETY: the caller's: the context is that part of the first field of one.
        unsafe { &*verbs.cast::<Self>() }
    }

    /// Where its commands go.
    pub(crate) fn control(&self) -> &dyn ControlPlane {
        &*self.control
    }

    /// The events of its device.
    pub(crate) fn events(&self) -> &EventQueue {
        &self.events
    }
}

/// Marks contexts that have a `verbs_context` around them.
const EXTENDED: usize = usize::MAX;

/// `ibv_open_device`: null and errno if the function cannot be brought up, which one line on
/// standard error says.
///
/// # Safety
/// `device` came from [`get_device_list`](super::get_device_list).
pub unsafe extern "C" fn open_device(device: *mut Device) -> *mut Context {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        let listed = unsafe { ListedDevice::of(device) };
        let control = match listed.control() {
            Ok(control) => control,
            Err(why) => {
                complain(&why);
                return no_object(libc::ENODEV);
            }
        };
        let vectors = match control.query_device() {
            Ok(attr) => attr.completion_vectors,
            Err(refused) => return no_object(errno::of(&refused)),
        };
        let (Ok(events), Ok(commands)) = (EventQueue::new(), placeholder()) else {
            return no_object(libc::EMFILE);
        };
        let events = Arc::new(events);
        control.listen(&events);
        let context = Context {
            device,
            ops: ops(),
            cmd_fd: commands.as_raw_fd(),
            async_fd: events.fd(),
            num_comp_vectors: vectors as c_int,
            mutex: [0; 5],
            abi_compat: EXTENDED,
        };
        let open = Box::new(OpenContext {
            verbs: verbs(context),
            control,
            events,
            _commands: commands,
        });
        let open = Box::into_raw(open);
        // SAFETY: it was made above.
        unsafe { &raw mut (*open).verbs.context }
    })
}

/// `ibv_close_device`.
///
/// # Safety
/// `context` came from [`open_device`] and is not used after this.
pub unsafe extern "C" fn close_device(context: *mut Context) -> c_int {
    catch_panics(fail(libc::EIO), || {
        let verbs = context.wrapping_byte_sub(offset_of!(VerbsContext, context));
        // SAFETY: the caller's: `open_device` made it as a box, and nobody uses it any more.
        drop(unsafe { Box::from_raw(verbs.cast::<OpenContext>()) });
        0
    })
}

/// A descriptor that is of no use but to be one.
fn placeholder() -> std::io::Result<OwnedFd> {
    Ok(OwnedFd::from(std::fs::File::open("/dev/null")?))
}

/// Functions that `verbs.h` calls through the context.
fn ops() -> ContextOps {
    // SAFETY: pointers that are null, and numbers.
    unsafe { core::mem::zeroed() }
}

/// The structure around a context.
fn verbs(context: Context) -> VerbsContext {
    // SAFETY: pointers that are null, and numbers.
    let nothing: VerbsContext = unsafe { core::mem::zeroed() };
    VerbsContext {
        query_port: Some(query_port_sized),
        query_device_ex: Some(query_device_ex),
        sz: size_of::<VerbsContext>(),
        context,
        ..nothing
    }
}

//! Contexts: a program's open devices.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::{self, offset_of};
use core::ptr;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::{ListedDevice, complain};
use crate::abi::device::{Context, ContextOps, Device, VerbsContext};
use crate::abi::objects::{Ah, CompChannel, Cq, Mr, Pd, Qp};
use crate::ah::AhObject;
use crate::async_events::ContextEvents;
use crate::control::EventSink;
use crate::control::closed::Closed;
use crate::control::{ControlPlane, Kind, QueryDevice};
use crate::cq::CqObject;
use crate::cq::extended::create_cq_ex;
use crate::errno::{self, NotOpened, no_object};
use crate::fork::Process;
use crate::import::CommandFd;
use crate::memory;
use crate::mr::MrObject;
use crate::panics::catch_panics;
use crate::parent_domain::{alloc_parent_domain, alloc_td, dealloc_td};
use crate::pd::PdObject;
use crate::qp::QpObject;
use crate::qp::extended::create_qp_ex;
use crate::query::device::query_device_ex;
use crate::query::port::query_port_sized;
use crate::rings::DataPathOps;

/// An object of a context. The order is that of destruction: an object comes after its users.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Object {
    Qp(*mut Qp),
    Ah(*mut Ah),
    Mr(*mut Mr),
    Cq(*mut Cq),
    Channel(*mut CompChannel),
    Pd(*mut Pd),
}

// SAFETY: programs use objects in any thread; here they are numbers until the context is closed.
unsafe impl Send for Object {}

/// The object behind the `ibv_context` that a program sees.
#[repr(C)]
#[derive(Debug)]
pub struct OpenContext {
    /// Programs read it; its functions are replaced when the function is gone.
    verbs: UnsafeCell<VerbsContext>,
    /// Dropped when the context of a function that is gone is closed.
    control: RwLock<Arc<dyn ControlPlane>>,
    events: Arc<ContextEvents>,
    /// Objects that the program has not destroyed, in the order in which a close destroys them.
    live: Mutex<BTreeSet<Object>>,
    /// The program has closed it; it exists as long as it has objects.
    is_closed: AtomicBool,
    /// The process that owns it: a child of `fork` has a copy.
    process: Process,
    /// The descriptor `cmd_fd`: another part of the process may open the device with it.
    commands: CommandFd,
}

impl OpenContext {
    /// The context that a program names.
    ///
    /// # Safety
    /// `context` came from [`open_device`] and is not closed.
    pub unsafe fn of<'a>(context: *mut Context) -> &'a Self {
        let verbs = context.wrapping_byte_sub(offset_of!(VerbsContext, context));
        // SAFETY: the caller's: the context is that part of the first field of one.
        unsafe { &*verbs.cast::<Self>() }
    }

    /// The control path that takes its commands.
    pub fn control(&self) -> Arc<dyn ControlPlane> {
        let control = self.control.read();
        control.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its function is gone.
    fn is_gone(&self) -> bool {
        matches!(self.control().ask(QueryDevice {}), Err(refused) if refused.kind == Kind::Gone)
    }

    /// Drops the control path: nothing in the context takes a command any more.
    fn let_go(&self) {
        let closed = Arc::new(Closed(self.control().data_path()));
        let control = self.control.write();
        let before = mem::replace(
            &mut *control.unwrap_or_else(PoisonError::into_inner),
            closed,
        );
        // It may be the last reference to a function that is gone.
        drop(before);
    }

    /// The events of its device.
    pub(crate) const fn events(&self) -> &Arc<ContextEvents> {
        &self.events
    }

    /// Whether it belongs to this process.
    pub fn is_here(&self) -> bool {
        self.process.is_this()
    }

    /// The part that programs see.
    pub(super) const fn shown(&self) -> *mut Context {
        self.verbs
            .get()
            .wrapping_byte_add(offset_of!(VerbsContext, context))
            .cast()
    }

    const fn device(&self) -> *mut Device {
        // SAFETY: it is never written after the creation.
        unsafe { (*self.shown()).device }
    }

    /// The name of its device.
    pub(crate) fn device_name(&self) -> String {
        // SAFETY: a device outlives its contexts.
        unsafe { ListedDevice::of(self.device()) }.name()
    }

    /// Whether both are contexts of one device.
    pub(crate) fn is_of_same_device(&self, other: &Self) -> bool {
        self.device() == other.device()
    }

    /// Whether one of its objects satisfies `is_it`.
    pub(crate) fn has(&self, is_it: &dyn Fn(&Object) -> bool) -> bool {
        self.live().iter().any(is_it)
    }

    pub(super) fn live(&self) -> MutexGuard<'_, BTreeSet<Object>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An object was made, or has been given functions of the extended interface.
    pub(crate) fn enter(&self, object: Object) {
        let mut live = self.live();
        live.insert(object);
        if self.events.are_over() {
            // SAFETY: it exists, as nobody has it yet.
            unsafe { self.end_of(&object) };
        }
    }

    /// Removes an object that is being destroyed. Its memory is freed after this, because then
    /// another thread's object may get the same address. If the program has closed the context
    /// before, this may free the context: nothing of it is used afterwards.
    ///
    /// # Safety
    /// The context is open, or was closed while it had this object.
    pub(crate) unsafe fn leave(context: *mut Context, object: &Object) {
        // SAFETY: the caller's.
        let open = unsafe { Self::of(context) };
        if !open.is_here() {
            return;
        }
        let mut live = open.live();
        live.remove(object);
        let is_last = live.is_empty() && open.is_closed.load(Ordering::Acquire);
        drop(live);
        if is_last {
            // SAFETY: the caller's.
            unsafe { Self::free(context) };
        }
    }

    /// # Safety
    /// It was closed, and has no object.
    unsafe fn free(context: *mut Context) {
        let verbs = context.wrapping_byte_sub(offset_of!(VerbsContext, context));
        // SAFETY: the caller's: `open_device` made it as a box.
        drop(unsafe { Box::from_raw(verbs.cast::<Self>()) });
    }

    /// Takes the remaining objects away from the device, as the kernel does when its descriptor is
    /// closed. Programs that destroy them later still find them.
    ///
    /// # Safety
    /// Nobody uses any of them any more, except to destroy them.
    unsafe fn retire_all(&self) {
        // Ends the waits of threads that wait for its events while another thread closes it.
        self.events.close();
        let is_gone = self.is_gone();
        for object in self.live().clone() {
            // SAFETY: the caller's. Events that were not acknowledged hold nothing any more.
            unsafe { give_up_events(&object) };
            // SAFETY: the caller's. An object that cannot be destroyed stays: the device may use
            // it.
            let _ = unsafe {
                match object {
                    Object::Qp(qp) if is_gone => QpObject::of(qp).abandon(),
                    Object::Cq(cq) if is_gone => CqObject::of(cq).abandon(),
                    Object::Qp(qp) => QpObject::of(qp).retire(),
                    Object::Ah(ah) => AhObject::of(ah).retire(),
                    Object::Mr(mr) => MrObject::of(mr).retire(),
                    Object::Cq(cq) => CqObject::of(cq).retire(),
                    Object::Channel(_) => 0,
                    Object::Pd(pd) => PdObject::of(pd).retire(),
                }
            };
        }
    }
}

/// Stops waiting for acknowledgements of an object's events.
///
/// # Safety
/// It exists.
unsafe fn give_up_events(object: &Object) {
    // SAFETY: the caller's.
    unsafe {
        match *object {
            Object::Cq(cq) => {
                let target = CqObject::of(cq).target();
                target.completions.give_up();
                target.errors.give_up();
            }
            Object::Qp(qp) => QpObject::of(qp).target().events.give_up(),
            _ => {}
        }
    }
}

/// Descriptors of a context: `async_fd` and `cmd_fd`, the library's own descriptor of each, and the
/// end of a pipe that makes `async_fd` readable.
const DESCRIPTORS: u32 = 5;

/// Marks contexts that have a `verbs_context` around them.
const EXTENDED: usize = usize::MAX;

/// `ibv_open_device`: null and errno if the function cannot be brought up; one line on standard
/// error says why.
///
/// # Safety
/// `device` came from [`get_device_list`](super::get_device_list).
pub unsafe extern "C" fn open_device(device: *mut Device) -> *mut Context {
    catch_panics(ptr::null_mut(), || {
        // SAFETY: the caller's.
        unsafe { open(device, true) }
    })
}

/// [`open_device`] for a device whose server has ended: waits for no other one, and says nothing.
///
/// # Safety
/// As there.
pub unsafe fn open_again(device: *mut Device) -> *mut Context {
    // SAFETY: the caller's.
    catch_panics(ptr::null_mut(), || unsafe { open(device, false) })
}

/// # Safety
/// As [`open_device`].
unsafe fn open(device: *mut Device, is_first: bool) -> *mut Context {
    // SAFETY: the caller's.
    let listed = unsafe { ListedDevice::of(device) };
    if let Err(refused) = memory::check() {
        return no_object(refused.errno);
    }
    let control = match listed.control(is_first) {
        Ok(control) => control,
        Err(NotOpened { why, errno }) => {
            if is_first {
                complain(&why);
            }
            return no_object(errno);
        }
    };
    let name = listed.name();
    let events = ContextEvents::new(&name);
    let made = events.and_then(|events| Ok((events, CommandFd::new()?)));
    let (events, commands) = match made {
        Ok(made) => made,
        Err(error) => {
            complain(&format!(
                "{name}: a context takes {DESCRIPTORS} descriptors: {error}; close what is not needed, or raise the limit (`ulimit -n`)"
            ));
            return no_object(errno::of_io(&error));
        }
    };
    let events = Arc::new(events);
    let sink: Arc<dyn EventSink> = events.clone();
    control.listen(&sink);
    // Only now: a device that goes from here on is reported as an event.
    let vectors = match control.ask(QueryDevice {}) {
        Ok(attr) => attr.completion_vectors,
        Err(refused) => return no_object(refused.errno),
    };
    let context = Context {
        device,
        ops: ops(control.data_path()),
        cmd_fd: commands.fd(),
        async_fd: events.fd(),
        num_comp_vectors: vectors as c_int,
        mutex: [0; 5],
        abi_compat: EXTENDED,
    };
    let open = Box::new(OpenContext {
        verbs: verbs(context).into(),
        control: RwLock::new(control),
        events,
        live: Mutex::default(),
        is_closed: AtomicBool::new(false),
        process: Process::this(),
        commands,
    });
    let open = Box::into_raw(open);
    // Made from the box's own pointer, with which all of it is found again and freed.
    // SAFETY: a part of what was made above; nobody else has it.
    let context = unsafe { &raw mut (*(&raw mut (*open).verbs).cast::<VerbsContext>()).context };
    // SAFETY: as above.
    let open = unsafe { &*open };
    open.commands.enter(context);
    open.events.enter_context(context);
    context
}

/// `ibv_close_device`. A child of `fork` that closes its parent's context changes nothing.
///
/// # Safety
/// `context` came from [`open_device`] and is not used after this.
pub unsafe extern "C" fn close_device(context: *mut Context) -> c_int {
    catch_panics(-1, || {
        // SAFETY: the caller's.
        let open = unsafe { OpenContext::of(context) };
        if !open.is_here() {
            return 0;
        }
        open.commands.leave();
        // SAFETY: as above.
        unsafe { open.retire_all() };
        let live = open.live();
        open.is_closed.store(true, Ordering::Release);
        let (is_empty, is_gone) = (live.is_empty(), open.is_gone());
        drop(live);
        if is_gone {
            open.let_go();
        }
        if is_empty {
            // SAFETY: the caller's: nobody uses it any more.
            unsafe { OpenContext::free(context) };
        }
        0
    })
}

/// Functions that `verbs.h` calls through the context.
fn ops(data_path: &DataPathOps) -> ContextOps {
    // SAFETY: pointers that are null, and numbers.
    let nothing: ContextOps = unsafe { mem::zeroed() };
    ContextOps {
        poll_cq: Some(data_path.poll_cq),
        req_notify_cq: Some(data_path.req_notify_cq),
        post_send: Some(data_path.post_send),
        post_recv: Some(data_path.post_recv),
        ..nothing
    }
}

/// The structure around a context.
fn verbs(context: Context) -> VerbsContext {
    // SAFETY: pointers that are null, and numbers.
    let nothing: VerbsContext = unsafe { mem::zeroed() };
    VerbsContext {
        query_port: Some(query_port_sized),
        query_device_ex: Some(query_device_ex),
        alloc_parent_domain: Some(alloc_parent_domain),
        alloc_td: Some(alloc_td),
        dealloc_td: Some(dealloc_td),
        create_cq_ex: Some(create_cq_ex),
        create_qp_ex: Some(create_qp_ex),
        sz: size_of::<VerbsContext>(),
        context,
        ..nothing
    }
}

//! Completion queues; `extended` has those of the extended interface.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::{mem, ptr};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use e810::{CqResized, Wc};

use crate::abi::device::Context;
use crate::abi::extended::CqEx;
use crate::abi::objects::{CompChannel, Cq};
use crate::acknowledged::Acknowledged;
use crate::async_events::{CqTarget, ProgramPointer, Target};
use crate::channel::{ChannelEvents, ChannelObject};
use crate::control::{CreateCq, DestroyCq, ResizeCq, Token};
use crate::device::context::{Object, OpenContext};
use crate::errno::no_object;
use crate::panics::catch_panics;
use crate::rings::CqRings;

pub mod extended;

/// The object behind the `ibv_cq` that a program sees.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CqObject {
    /// The same layout for a queue that the extended interface did not make: it begins as any.
    abi: UnsafeCell<CqEx>,
    /// The data of `rings`, which the data path uses.
    data: *const (),
    /// Taken out when the device no longer has the queue.
    rings: UnsafeCell<Option<Box<dyn CqRings>>>,
    number: u32,
    token: Token,
    target: Arc<CqTarget>,
    /// The completion that the extended interface polled last.
    current: UnsafeCell<Wc>,
}

impl CqObject {
    /// The completion queue that a program names.
    ///
    /// # Safety
    /// `cq` came from [`create_cq`] and is not destroyed.
    pub(crate) unsafe fn of<'a>(cq: *mut Cq) -> &'a Self {
        // SAFETY: the caller's: it is the first field of one.
        unsafe { &*cq.cast::<Self>() }
    }

    /// Its rings, of the type that the functions of its context know.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline(always)]
    pub(crate) unsafe fn rings_of(cq: *mut Cq) -> *const () {
        // SAFETY: the caller's.
        unsafe { (*cq.cast::<Self>()).data }
    }

    /// Assembles the object with the target of its events.
    fn assemble(
        shown: CqEx,
        rings: Box<dyn CqRings>,
        token: Token,
        channel: Option<Arc<ChannelEvents>>,
    ) -> (*mut Cq, Arc<CqTarget>) {
        let place = Box::into_raw(Box::<Self>::new_uninit());
        let cq = place.cast::<Cq>();
        let target = Arc::new(CqTarget {
            cq: ProgramPointer(cq),
            channel,
            waiting: AtomicU32::new(0),
            completions: Acknowledged::default(),
            errors: Acknowledged::default(),
        });
        let object = Self {
            number: shown.base.handle,
            abi: UnsafeCell::new(shown),
            data: ptr::from_ref(&*rings).cast(),
            rings: UnsafeCell::new(Some(rings)),
            token,
            target: target.clone(),
            current: UnsafeCell::new(Wc::default()),
        };
        // SAFETY: the place was made for one just now.
        unsafe { (*place).write(object) };
        (cq, target)
    }

    /// A completion queue without a context, on a ring that no control path has made.
    #[cfg(feature = "testing")]
    pub(crate) fn on(rings: Box<dyn CqRings>) -> *mut Cq {
        // SAFETY: null pointers and numbers.
        let shown = unsafe { mem::zeroed() };
        let (cq, _) = Self::assemble(shown, rings, Token::next(), None);
        cq
    }

    /// The part that programs see.
    const fn shown(&self) -> *mut CqEx {
        self.abi.get()
    }

    /// The completion that the extended interface polled last; it belongs to whoever holds the
    /// ring.
    const fn current(&self) -> *mut Wc {
        self.current.get()
    }

    /// Its ring; `None` after its context was closed.
    pub(crate) fn rings(&self) -> Option<&dyn CqRings> {
        // SAFETY: it is taken out only when nobody uses the queue any more.
        unsafe { (*self.rings.get()).as_deref() }
    }

    /// Destroys it in the device, unless that is done already: 0, or the error.
    ///
    /// # Safety
    /// Its context exists, and nobody else uses the queue.
    pub(crate) unsafe fn retire(&self) -> c_int {
        if self.rings().is_none() {
            return 0;
        }
        // SAFETY: the caller's.
        let open = unsafe { self.open() };
        let control = open.control();
        let destroyed = match control.ask(DestroyCq {
            number: self.number,
        }) {
            Ok(destroyed) => destroyed,
            // SAFETY: the caller's.
            Err(_) if control.is_over() => return unsafe { self.abandon() },
            Err(refused) => return refused.errno,
        };
        self.leave(open);
        // SAFETY: the caller's.
        if let Some(rings) = unsafe { (*self.rings.get()).take() } {
            rings.release(&destroyed);
        }
        0
    }

    /// Purges its events, which name it.
    fn leave(&self, open: &OpenContext) {
        open.events().leave(self.token);
        if let Some(channel) = &self.target.channel {
            channel.leave(self.token);
        }
    }

    /// Frees its memory with the function, which is gone: 0.
    ///
    /// # Safety
    /// Nobody else uses the queue.
    pub(crate) unsafe fn abandon(&self) -> c_int {
        // SAFETY: the caller's.
        let (open, rings) = unsafe { (self.open(), (*self.rings.get()).take()) };
        if rings.is_some() {
            self.leave(open);
        }
        0
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) const fn target(&self) -> &Arc<CqTarget> {
        &self.target
    }

    pub(crate) fn context(&self) -> *mut Context {
        // SAFETY: it is never written after the creation.
        unsafe { (*self.abi.get()).base.context }
    }

    /// The `cq_context` that the program gave at creation.
    pub(crate) fn program_context(&self) -> *mut c_void {
        // SAFETY: after the creation only the program itself writes it.
        unsafe { (*self.abi.get()).base.cq_context }
    }

    /// Its context.
    ///
    /// # Safety
    /// The context is open.
    pub(crate) unsafe fn open<'a>(&self) -> &'a OpenContext {
        // SAFETY: the caller's.
        unsafe { OpenContext::of(self.context()) }
    }
}

/// `ibv_create_cq`: null and EINVAL for a size or a vector that does not exist.
///
/// # Safety
/// `context` is open, and `channel` is null or one of its channels.
pub unsafe extern "C" fn create_cq(
    context: *mut Context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut Cq {
    catch_panics(ptr::null_mut(), || {
        let (Ok(entries), Ok(vector)) = (u32::try_from(entries), u32::try_from(vector)) else {
            return no_object(libc::EINVAL);
        };
        // SAFETY: the caller's.
        let made = unsafe { make(context, entries, cq_context, channel, vector) };
        made.unwrap_or_else(no_object)
    })
}

/// Makes a completion queue.
///
/// # Safety
/// As [`create_cq`].
unsafe fn make(
    context: *mut Context,
    entries: u32,
    cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: u32,
) -> Result<*mut Cq, c_int> {
    // SAFETY: the caller's.
    let open = unsafe { OpenContext::of(context) };
    let vector = u16::try_from(vector).map_err(|_| libc::EINVAL)?;
    let events = if channel.is_null() {
        None
    } else {
        // SAFETY: the caller's.
        let channel = unsafe { ChannelObject::of(channel) };
        if channel.context() != context {
            return Err(libc::EINVAL);
        }
        Some(channel.events().clone())
    };
    let token = Token::next();
    let control = open.control();
    let mut granted = None;
    let mut ask = |place| {
        let made = control.ask(CreateCq {
            place,
            vector,
            token,
        })?;
        granted = Some(made);
        Ok(made)
    };
    let rings = control
        .rings()
        .and_then(|maker| maker.cq(entries, &mut ask));
    let rings = rings.map_err(|refused| refused.errno)?;
    // The control path was asked.
    let granted = granted.ok_or(libc::EIO)?;
    // SAFETY: null pointers and numbers.
    let mut shown: CqEx = unsafe { mem::zeroed() };
    shown.base.context = context;
    shown.base.channel = channel;
    shown.base.cq_context = cq_context;
    shown.base.handle = granted.number();
    shown.base.cqe = granted.entries() as c_int;
    let (cq, target) = CqObject::assemble(shown, rings, token, events);
    if let Some(events) = &target.channel {
        events.enter();
    }
    open.events().enter(token, Target::Cq(target));
    open.enter(Object::Cq(cq));
    Ok(cq)
}

/// `ibv_resize_cq`: 0, or EINVAL if the new size is less than the number of waiting completions.
///
/// # Safety
/// `cq` is a completion queue.
pub unsafe extern "C" fn resize_cq(cq: *mut Cq, entries: c_int) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { CqObject::of(cq) };
        // SAFETY: the caller's: a context outlives its objects.
        let open = unsafe { object.open() };
        if !open.is_here() {
            return libc::EIO;
        }
        let Some(entries) = u32::try_from(entries).ok().filter(|entries| *entries > 0) else {
            return libc::EINVAL;
        };
        let Some(rings) = object.rings() else {
            return libc::EIO;
        };
        rings.let_device_end();
        let mut ring = rings.lock();
        if entries < ring.waiting() {
            return libc::EINVAL;
        }
        if !ring.can_resize() {
            return libc::EBUSY;
        }
        let mut granted = None;
        let resized = ring.resize(entries, &mut |place| {
            let resized = open.control().ask(ResizeCq {
                number: object.number,
                place,
            })?;
            granted = resized.as_ref().map(CqResized::entries);
            Ok(resized)
        });
        if let Err(refused) = resized {
            return refused.errno;
        }
        if let Some(granted) = granted {
            // SAFETY: only this writes it, and the ring's lock is held.
            unsafe { (*object.abi.get()).base.cqe = granted as c_int };
        }
        0
    })
}

/// `ibv_destroy_cq`: 0, or EBUSY while queue pairs use it. Waits until all its events that were
/// taken are acknowledged.
///
/// # Safety
/// `cq` came from [`create_cq`], and is not used after this has returned 0.
pub unsafe extern "C" fn destroy_cq(cq: *mut Cq) -> c_int {
    catch_panics(libc::EIO, || {
        // SAFETY: the caller's.
        let object = unsafe { CqObject::of(cq) };
        // SAFETY: the caller's: a context outlives its objects.
        let number = unsafe { object.retire() };
        if number != 0 {
            return number;
        }
        object.target.completions.wait();
        object.target.errors.wait();
        // SAFETY: the caller's: made as a box, and nobody uses it any more.
        unsafe {
            OpenContext::leave(object.context(), &Object::Cq(cq));
            drop(Box::from_raw(cq.cast::<CqObject>()));
        }
        0
    })
}

//! Files that become shorter while the device uses them.
//!
//! A user gives memory as files. A file that the user cuts, or for which the kernel has no page,
//! raises SIGBUS in the thread that accesses it; this would end the server and all its functions.
//! Asking for seals does not help: a virtual machine's memory is not sealed, and a file on a disk
//! cannot be. So the signal is handled: the whole mapping is replaced by pages of zeros (where its
//! pages are huge, part of it cannot be replaced), the access is repeated, and the user's
//! connection is shut down, which ends its use of the function.
//!
//! The handler does only what a signal handler may do: it loads words, and makes the system calls
//! `mmap` and `shutdown`. A SIGBUS anywhere else has its former effect.

use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Slots in a block.
const SLOTS: usize = 256;

/// A watched mapping. `turn` is odd while the rest changes.
#[derive(Debug)]
struct Slot {
    turn: AtomicUsize,
    start: AtomicUsize,
    bytes: AtomicUsize,
    user: AtomicI32,
    cut: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self {
            turn: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            user: AtomicI32::new(-1),
            cut: AtomicBool::new(false),
        }
    }

    /// Sets the watched mapping: nothing if `bytes` is 0. The caller has the lock.
    fn set(&self, start: usize, bytes: usize, user: RawFd) {
        self.turn.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.bytes.store(bytes, Ordering::SeqCst);
        self.user.store(user, Ordering::SeqCst);
        self.cut.store(false, Ordering::SeqCst);
        self.turn.fetch_add(1, Ordering::SeqCst);
    }

    /// The watched mapping, if it contains `address`.
    fn holds(&self, address: usize) -> Option<(usize, usize, RawFd)> {
        let turn = self.turn.load(Ordering::SeqCst);
        let (start, bytes, user) = (
            self.start.load(Ordering::SeqCst),
            self.bytes.load(Ordering::SeqCst),
            self.user.load(Ordering::SeqCst),
        );
        let steady = turn.is_multiple_of(2) && self.turn.load(Ordering::SeqCst) == turn;
        // Whole pages are mapped, and the last one may be short.
        let offset = address.wrapping_sub(start);
        (steady && offset < bytes).then_some((start, bytes, user))
    }
}

/// Slots in a list that only grows, so that the handler can walk it at any time.
#[derive(Debug)]
struct Block {
    slots: [Slot; SLOTS],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Self {
            slots: [const { Slot::new() }; SLOTS],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Self> {
        // SAFETY: null, or a block that was leaked when it was put there.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

static FIRST: Block = Block::new();
/// Held while slots change; the handler does not take it.
static CHANGES: Mutex<()> = Mutex::new(());
/// The former action of SIGBUS.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn slots() -> impl Iterator<Item = &'static Slot> {
    let blocks = std::iter::successors(Some(&FIRST), |block| block.next());
    blocks.flat_map(|block| &block.slots)
}

/// A mapping that is watched until this is dropped.
#[derive(Debug)]
pub(crate) struct Watch(&'static Slot);

impl Watch {
    /// Watches the mapping of `bytes` bytes at `start`, a multiple of the page size, for the user
    /// whose socket is `user`.
    ///
    /// # Safety
    /// Until the watch is dropped, the pages are a mapping that may be replaced by pages of zeros
    /// at any time and that only this process relies on as plain memory; and `user` is open. Nobody
    /// accesses the mapping during or after the drop.
    pub(crate) unsafe fn new(start: *mut u8, bytes: usize, user: RawFd) -> Self {
        install();
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |slot: &&Slot| slot.bytes.load(Ordering::SeqCst) == 0;
        let slot = slots().find(is_free).unwrap_or_else(|| {
            let blocks = std::iter::successors(Some(&FIRST), |block| block.next());
            let last = blocks.last().unwrap_or(&FIRST);
            let new: &'static mut Block = Box::leak(Box::new(Block::new()));
            let place = ptr::from_mut(new);
            last.next.store(place, Ordering::Release);
            // SAFETY: the block was leaked, and from here on is only shared.
            let [first, ..] = unsafe { &(*place).slots };
            first
        });
        slot.set(start as usize, bytes.next_multiple_of(4096), user);
        Self(slot)
    }

    /// Whether the file was cut: the mapping has zeros now.
    pub(crate) fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _changes = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.set(0, 0, -1);
    }
}

/// Installs the signal handler, at the first watch of the process.
fn install() {
    BEFORE.get_or_init(|| {
        // SAFETY: all zeros are a `sigaction`: the default action, nothing blocked.
        let [mut before, mut ours] = unsafe { [std::mem::zeroed::<libc::sigaction>(); 2] };
        let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: both are valid, and the handler is one for SA_SIGINFO that keeps to
        // what a handler may do. It finds no slot in use before `BEFORE` is set.
        if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before) } != 0 {
            log::warn!("files that are cut will end this process: SIGBUS cannot be handled");
        }
        before
    });
}

extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler of this form its information.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // Positive if the kernel reports a page; not if a process sent the signal.
    if code > 0
        && let Some(slot) = slots().find(|slot| slot.holds(address).is_some())
        && let Some((start, bytes, user)) = slot.holds(address)
        && replace(start, bytes)
    {
        slot.cut.store(true, Ordering::SeqCst);
        // SAFETY: no memory is touched, and the descriptor is open while it is watched. An error
        // means that the connection has already ended; `errno` is kept.
        keeping_errno(|| unsafe { libc::shutdown(user, libc::SHUT_RDWR) });
        return;
    }
    // Restores the former action: the repeated access, or the signal, then has that effect.
    if let Some(before) = BEFORE.get() {
        // SAFETY: the action that the kernel returned when the handler was installed.
        unsafe { libc::sigaction(signal, before, ptr::null_mut()) };
    }
    if code <= 0 {
        // SAFETY: sends a signal to this thread, which is delivered when the handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// Replaces a mapping by pages of zeros.
fn replace(start: usize, bytes: usize) -> bool {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: these pages are a watched mapping, which may be replaced at any time.
    let done = keeping_errno(|| unsafe {
        libc::mmap(start as *mut libc::c_void, bytes, both, kind, -1, 0)
    });
    done != libc::MAP_FAILED
}

/// Keeps `errno`, which a handler must not change.
fn keeping_errno<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the place of this thread's `errno`.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; only this thread uses it.
    let before = unsafe { *place };
    let result = call();
    // SAFETY: as above.
    unsafe { *place = before };
    result
}

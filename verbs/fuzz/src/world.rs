//! What is live, as a program knows it.

use core::ffi::c_int;
use core::ptr;
use std::collections::HashMap;

use e810_verbs::abi::device::{Context, VerbsContext};
use e810_verbs::abi::extended::{CqEx, QpEx};
use e810_verbs::abi::objects::{Ah, CompChannel, Cq, Mr, Pd, Qp, Td};
use e810_verbs::abi::state::Gid;

use crate::draw::Draw;

/// Objects of a kind, by numbers that are not used again while they are live.
#[derive(Debug)]
pub struct Pool<T>(Vec<Option<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Pool<T> {
    /// Puts one in.
    pub fn add(&mut self, object: T) -> usize {
        let free = self.0.iter().position(Option::is_none);
        match free {
            Some(at) => {
                self.0[at] = Some(object);
                at
            }
            None => {
                self.0.push(Some(object));
                self.0.len() - 1
            }
        }
    }

    /// One that is live.
    #[must_use]
    pub fn get(&self, at: usize) -> &T {
        self.0[at].as_ref().expect("live")
    }

    /// The same.
    pub fn get_mut(&mut self, at: usize) -> &mut T {
        self.0[at].as_mut().expect("live")
    }

    /// Takes one out.
    pub fn remove(&mut self, at: usize) -> T {
        self.0[at].take().expect("live")
    }

    /// All, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let all = self.0.iter().enumerate();
        all.filter_map(|(at, object)| Some((at, object.as_ref()?)))
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of those that are `wanted`.
    pub fn pick(&self, draw: &mut Draw, wanted: impl Fn(&T) -> bool) -> Option<usize> {
        let count = self.iter().filter(|(_, object)| wanted(object)).count();
        if count == 0 {
            return None;
        }
        let nth = draw.below(count);
        let mut all = self.iter().filter(|(_, object)| wanted(object));
        all.nth(nth).map(|(at, _)| at)
    }
}

/// A context.
#[derive(Clone, Debug)]
pub struct OpenCtx {
    /// The program's pointer.
    pub ptr: *mut Context,
    /// Which function it is of.
    pub device: usize,
    /// Closed, and objects of it are live.
    pub is_closed: bool,
    /// Of the sequence, not of one call of it.
    pub kept: bool,
}

impl OpenCtx {
    /// What is around it.
    #[must_use]
    pub fn verbs(&self) -> *mut VerbsContext {
        self.ptr
            .wrapping_byte_sub(core::mem::offset_of!(VerbsContext, context))
            .cast()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PdRole {
    Own,
    /// Another name for the one of this number.
    Parent(usize),
    /// Another name for one of another context.
    Imported(usize),
}

#[derive(Clone, Debug)]
pub struct LivePd {
    /// The program's pointer.
    pub ptr: *mut Pd,
    /// Its context.
    pub ctx: usize,
    pub role: PdRole,
    pub parents: u32,
    /// Regions, queue pairs and address handles in it.
    pub users: u32,
    /// Not destroyed by a call.
    pub kept: bool,
}

#[derive(Clone, Debug)]
pub struct LiveMr {
    /// The program's pointer.
    pub ptr: *mut Mr,
    /// Its context.
    pub ctx: usize,
    pub pd: usize,
    pub address: usize,
    /// Bytes.
    pub length: usize,
    pub key: u32,
    /// What its first byte is called.
    pub iova: u64,
    /// Another name for one.
    pub imported: bool,
    /// Memory of its own, which may be unmapped.
    pub own: Option<(usize, usize)>,
    /// Its memory was unmapped.
    pub gone: bool,
    /// Not destroyed by a call.
    pub kept: bool,
}

#[derive(Clone, Debug)]
pub struct LiveChannel {
    /// The program's pointer.
    pub ptr: *mut CompChannel,
    /// Its context.
    pub ctx: usize,
    /// Completion queues with it.
    pub cqs: u32,
    /// Not destroyed by a call.
    pub kept: bool,
}

#[derive(Clone, Debug)]
pub struct LiveCq {
    /// The program's pointer.
    pub ptr: *mut Cq,
    /// Its context.
    pub ctx: usize,
    /// Made by the extended interface.
    pub is_ex: bool,
    pub channel: Option<usize>,
    /// Queue pairs on it.
    pub users: u32,
    /// Room for completions that no queue pair was promised.
    pub room: u32,
    /// Events taken and not acknowledged.
    pub taken: u32,
    /// Other threads poll it too.
    pub shared: bool,
    /// Not destroyed by a call.
    pub kept: bool,
}

impl LiveCq {
    /// The extended one.
    #[must_use]
    pub fn ex(&self) -> *mut CqEx {
        self.ptr.cast()
    }
}

#[derive(Clone, Debug)]
pub struct LiveQp {
    /// The program's pointer.
    pub ptr: *mut Qp,
    /// Its context.
    pub ctx: usize,
    pub pd: usize,
    /// Completions of sends and receives.
    pub cqs: [usize; 2],
    /// `enum ibv_qp_type`.
    pub kind: c_int,
    /// Made with functions for requests.
    pub is_ex: bool,
    /// The last state that a call gave it; the device may have taken it to ERR since.
    pub state: c_int,
    /// Sizes granted: requests, receives, SGEs of both, inline bytes.
    pub caps: [u32; 5],
    /// In the ids of its requests.
    pub uid: u64,
    /// Requests so far.
    pub sent: u64,
    /// Receives so far.
    pub received: u64,
    pub groups: u32,
    /// Another thread uses it too.
    pub shared: bool,
    /// Not destroyed by a call.
    pub kept: bool,
}

impl LiveQp {
    /// The extended one.
    #[must_use]
    pub fn ex(&self) -> *mut QpEx {
        self.ptr.cast()
    }

    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: it is live.
        unsafe { (*self.ptr).qp_num }
    }
}

#[derive(Clone, Debug)]
pub struct LiveAh {
    /// The program's pointer.
    pub ptr: *mut Ah,
    /// Its context.
    pub ctx: usize,
    pub pd: usize,
    /// Not destroyed by a call.
    pub kept: bool,
}

/// A thread domain.
#[derive(Clone, Debug)]
pub struct LiveTd {
    /// The program's pointer.
    pub ptr: *mut Td,
}

/// Completions of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// The last request, counted from 1.
    pub sent: u64,
    /// The last receive.
    pub received: u64,
    /// A request has failed, and all behind it do.
    pub flushed: bool,
}

#[derive(Debug, Default)]
#[expect(missing_docs, reason = "a pool a kind of object")]
pub struct World {
    pub ctxs: Pool<OpenCtx>,
    pub pds: Pool<LivePd>,
    pub mrs: Pool<LiveMr>,
    pub channels: Pool<LiveChannel>,
    pub cqs: Pool<LiveCq>,
    pub qps: Pool<LiveQp>,
    pub ahs: Pool<LiveAh>,
    pub tds: Pool<LiveTd>,
    /// By the number in ids of requests.
    pub done: HashMap<u64, Done>,
}

impl World {
    /// An object of a protection domain is gone; so may that be, if its context was closed.
    pub fn leave_pd(&mut self, pd: usize) {
        if let Some(Some(pd)) = self.pds.0.get_mut(pd) {
            pd.users -= 1;
        }
    }

    /// Whether the context of a queue pair is closed.
    #[must_use]
    pub fn has_closed(&self, qp: usize) -> bool {
        self.ctxs.get(self.qps.get(qp).ctx).is_closed
    }

    /// The own protection domain that a name stands for.
    #[must_use]
    pub fn own_pd(&self, pd: usize) -> usize {
        match self.pds.get(pd).role {
            PdRole::Own => pd,
            PdRole::Parent(own) | PdRole::Imported(own) => own,
        }
    }
}

/// Memory that regions are in: a mapping of its own, which starts with a page that is not there.
#[derive(Debug)]
pub struct Arena {
    start: *mut u8,
    length: usize,
}

impl Arena {
    /// A mapping of so many bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        // SAFETY: a new mapping.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(start != libc::MAP_FAILED, "memory");
        Self {
            start: start.cast(),
            length,
        }
    }

    #[must_use]
    pub fn address(&self) -> usize {
        self.start as usize
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.length
    }

    /// Writes a byte everywhere in a range.
    pub fn fill(&self, at: usize, length: usize, byte: u8) {
        assert!(at + length <= self.length);
        // SAFETY: within the mapping, and no device works on it now.
        unsafe { self.start.add(at).write_bytes(byte, length) };
    }

    /// Writes bytes.
    pub fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        // SAFETY: as above.
        unsafe { self.start.add(at).copy_from(bytes.as_ptr(), bytes.len()) };
    }

    /// A copy of bytes.
    #[must_use]
    pub fn bytes_at(&self, at: usize, length: usize) -> Vec<u8> {
        assert!(at + length <= self.length);
        let mut bytes = vec![0; length];
        // SAFETY: as above.
        unsafe { bytes.as_mut_ptr().copy_from(self.start.add(at), length) };
        bytes
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: its own mapping.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// What is the same for all contexts of a function.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    pub gid: Gid,
    /// The place of that.
    pub index: u8,
}

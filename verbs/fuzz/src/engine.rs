//! A sequence of calls: what it begins with, what is drawn, and how all of it is destroyed.

use core::ffi::c_int;
use core::{mem, ptr};

use e810_verbs::abi::device::Device;
use e810_verbs::abi::state::Gid;

use crate::calls;
use crate::run::{Run, call};
use crate::transfer::{Pair, transfer};
use crate::world::{Arena, LiveChannel, LiveCq, LivePd, LiveQp, OpenCtx, Own, PdRole, World};

/// Bytes of the memory that regions without promises share.
const WILD: usize = 1 << 20;

/// A sequence.
#[derive(Debug)]
pub struct Engine {
    /// Its calls.
    pub run: Run,
    /// What is live.
    pub world: World,
    /// The functions.
    pub devices: [*mut Device; 2],
    /// Their addresses.
    pub own: [Own; 2],
    /// Memory of regions without promises.
    pub arena: Arena,
    /// Queue pairs whose transfers are looked at.
    pub(crate) pairs: Vec<Pair>,
    /// Other threads use objects of it.
    pub is_shared: bool,
    /// Receives that were posted complete at the end.
    pub(crate) flushes: bool,
}

/// The address of a function: `::ffff:10.8.1.N`.
#[must_use]
pub fn gid_of(device: usize) -> Gid {
    let mut raw = [0; 16];
    raw[10] = 0xFF;
    raw[11] = 0xFF;
    raw[12..].copy_from_slice(&[10, 8, 1, device as u8 + 1]);
    Gid { raw }
}

impl Engine {
    /// One on the two functions that the environment names.
    #[must_use]
    pub fn new(mut run: Run) -> Self {
        let mut count: c_int = 0;
        let list = call!(run, get_device_list(&raw mut count));
        assert!(!list.is_null() && count == 2, "two functions, not {count}");
        // SAFETY: as many as it says.
        let devices = unsafe { [*list, *list.add(1)] };
        call!(run, free_device_list(list));
        let own = [0, 1].map(|device| Own {
            gid: gid_of(device),
            index: 1,
        });
        Self {
            run,
            world: World::default(),
            devices,
            own,
            arena: Arena::new(WILD),
            pairs: Vec::new(),
            is_shared: false,
            flushes: true,
        }
    }

    /// Opens a context that stays for the sequence.
    pub fn open(&mut self, device: usize) -> usize {
        let ptr = call!(self.run, open_device(self.devices[device]));
        self.run.made(crate::api::Sym::open_device, ptr, &[0]);
        let nonblocking = |fd| {
            // SAFETY: a descriptor of the context.
            let set = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
            assert_eq!(set, 0);
        };
        // SAFETY: it is open.
        nonblocking(unsafe { (*ptr).async_fd });
        self.world.ctxs.add(OpenCtx {
            ptr,
            device,
            is_closed: false,
            kept: true,
        })
    }

    /// Makes what every sequence has.
    pub fn begin(&mut self) {
        let [first, second, third] = [0, 0, 1].map(|device| self.open(device));
        let pairs = [
            (2, first, second),
            (2, first, third),
            (4, first, first),
            (4, third, third),
        ];
        for (kind, a, b) in pairs {
            let pair = Pair::new(self, kind, [a, b]);
            if kind == 4 {
                // What the driver has for groups from the first one on, it keeps.
                calls::address::in_and_out(self, pair.qps()[0]);
            }
            self.pairs.push(pair);
        }
    }

    /// Takes objects of another thread, which outlive this sequence.
    pub fn share(&mut self, with: &Self) {
        self.is_shared = true;
        let mut ctx_of = Vec::new();
        for (at, ctx) in with.world.ctxs.iter() {
            let own = self.world.ctxs.add(ctx.clone());
            ctx_of.push((at, own));
        }
        let ctx = |theirs| ctx_of.iter().find(|(at, _)| *at == theirs).unwrap().1;
        let mut pd_of = Vec::new();
        for (at, pd) in with.world.pds.iter() {
            let own = self.world.pds.add(LivePd {
                ctx: ctx(pd.ctx),
                role: PdRole::Own,
                kept: true,
                ..pd.clone()
            });
            pd_of.push((at, own));
        }
        let pd = |theirs| pd_of.iter().find(|(at, _)| *at == theirs).unwrap().1;
        let mut channel_of = Vec::new();
        for (at, channel) in with.world.channels.iter() {
            let own = self.world.channels.add(LiveChannel {
                ctx: ctx(channel.ctx),
                kept: true,
                ..channel.clone()
            });
            channel_of.push((at, own));
        }
        let mut cq_of = Vec::new();
        for (at, cq) in with.world.cqs.iter() {
            let channel = cq.channel;
            let channel = channel.map(|theirs| {
                let found = channel_of.iter().find(|(at, _)| *at == theirs);
                found.unwrap().1
            });
            let own = self.world.cqs.add(LiveCq {
                ctx: ctx(cq.ctx),
                channel,
                room: cq.room / 4,
                // Its owner acknowledges what it has taken.
                taken: 0,
                shared: true,
                kept: true,
                ..cq.clone()
            });
            cq_of.push((at, own));
        }
        let cq = |theirs| cq_of.iter().find(|(at, _)| *at == theirs).unwrap().1;
        for (_, qp) in with.world.qps.iter() {
            self.world.qps.add(LiveQp {
                ctx: ctx(qp.ctx),
                pd: pd(qp.pd),
                cqs: qp.cqs.map(cq),
                // Its owner takes it out of them.
                groups: 0,
                shared: true,
                kept: true,
                ..qp.clone()
            });
        }
    }

    /// Makes a call, or some that belong together.
    pub fn step(&mut self) {
        match self.run.draw.below(1000) {
            0..60 => calls::device::any(self),
            60..80 => calls::memory::pd(self),
            80..150 => calls::memory::mr(self),
            150..165 => calls::cq::channel(self),
            165..200 => calls::cq::queue(self),
            200..230 => calls::cq::events(self),
            230..430 => calls::cq::poll(self),
            430..480 => calls::qp::queue_pair(self),
            480..580 => calls::qp::modify(self),
            580..600 => calls::qp::query(self),
            600..820 => calls::post::any(self),
            820..880 => calls::extended::requests(self),
            880..900 => calls::address::handle(self),
            900..920 => calls::address::group(self),
            920..935 => calls::import::any(self),
            935..945 => calls::memory::domains(self),
            _ => match self.pairs.len() {
                0 => calls::cq::poll(self),
                count => {
                    let at = self.run.draw.below(count);
                    transfer(self, at);
                }
            },
        }
    }

    /// Asks for no completions at the end: others have polled some.
    pub fn without_flush(&mut self) {
        self.flushes = false;
    }

    /// Destroys all that is this thread's own.
    pub fn end(&mut self) {
        for pair in mem::take(&mut self.pairs) {
            pair.release(self);
        }
        calls::teardown::all(self);
    }
}

/// A pointer that is none.
pub(crate) fn null<T>() -> *mut T {
    ptr::null_mut()
}

//! A program that does everything that programs do, in any order, until it is killed.

use std::ffi::c_int;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use e810_verbs::abi::state::Gid;

use crate::harness::objects::{Ah, RC, UD, address, flag, opcode, state};
use crate::harness::{
    Channel, Connection, Cq, Ctx, Mr, Pd, Qp, errno, gid, memory, set_nonblocking,
};
use crate::server::SEED;
use crate::words::Words;

/// What it is about to do; a word of the test counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Doing {
    /// Attaching itself, or opening another context.
    Opens,
    /// A command.
    Commands,
    /// A command for which it lends files, or memory.
    Lends,
    Forks,
    Posts,
}

/// Words of all victims together: children that live; what a child was wrongly granted.
pub(crate) const CHILDREN: usize = 500;
pub(crate) const GRANTED: usize = 501;
/// Queue pairs, completion queues and regions that are left of the function's.
pub(crate) const LEFT: usize = 502;
/// A victim's words begin at its number times this.
const OWN: usize = 8;

/// How often the victim of this number has begun to do something.
pub(crate) fn begun(words: Words, number: usize, doing: Doing) -> u64 {
    words.get(number * OWN + doing as usize)
}

/// Forgets what the last victim of this number has done.
pub(crate) fn forget(words: Words, number: usize) {
    (0..OWN).for_each(|at| words.set(number * OWN + at, 0));
}

/// The most objects of a kind.
const MOST: usize = 6;
const BYTES: usize = 1 << 16;
/// Multicast groups.
const GROUPS: u8 = 4;
const KEY: u32 = 0x1122_3344;

/// Numbers that differ from run to run only by their seed (SplitMix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % most as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        let most = all.len();
        (most > 0).then(|| all[self.below(most)])
    }

    fn take<T>(&mut self, all: &mut Vec<T>) -> Option<T> {
        let most = all.len();
        (most > 0).then(|| all.swap_remove(self.below(most)))
    }
}

struct Victim {
    words: Words,
    /// Its own words.
    own: usize,
    draw: Draw,
    ctx: Ctx,
    channel: Channel,
    pd: Pd,
    mr: Mr,
    mrs: Vec<Mr>,
    cqs: Vec<Cq>,
    /// Queue pairs that are connected to each other, and the queue that they complete to.
    pairs: Vec<(Qp, Qp, Cq)>,
    datagrams: Vec<(Qp, Cq)>,
    ahs: Vec<Ah>,
    contexts: Vec<Ctx>,
}

/// Acts until it is killed.
pub(crate) fn run() {
    let words = Words::of_test();
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    // The test says which of its victims this is, and the rest is drawn.
    let own = seed as usize % 16 * OWN;
    words.add(own + Doing::Opens as usize, 1);
    let ctx = Ctx::open(0);
    let (channel, pd) = (ctx.channel(), ctx.pd());
    set_nonblocking(channel.fd(), true);
    let mut victim = Victim {
        words,
        own,
        draw: Draw(seed),
        ctx,
        channel,
        pd,
        mr: pd.mr(memory(BYTES)),
        mrs: Vec::new(),
        cqs: Vec::new(),
        pairs: Vec::new(),
        datagrams: Vec::new(),
        ahs: Vec::new(),
        contexts: Vec::new(),
    };
    loop {
        victim.act();
    }
}

impl Victim {
    fn begins(&self, doing: Doing) {
        self.words.add(self.own + doing as usize, 1);
    }

    fn act(&mut self) {
        match self.draw.below(40) {
            0..12 => self.post(),
            12..16 => self.poll(),
            16..19 => self.make_pair(),
            19 => self.end_pair(),
            20 => self.restart_pair(),
            21 => self.fail_pair(),
            22..24 => self.make_cq(),
            24 => self.end_cq(),
            25 => self.resize_cq(),
            26..28 => self.make_mr(),
            28 => self.end_mr(),
            29 => self.move_mr(),
            30..32 => self.make_datagrams(),
            32 => self.end_datagrams(),
            33..35 => self.make_ah(),
            35 => self.end_ah(),
            36 => self.open_or_close(),
            37 => self.group(),
            _ => self.fork(),
        }
    }

    fn post(&mut self) {
        self.begins(Doing::Posts);
        let bytes = self.draw.below(4000) as u32;
        let (from, to) = (self.mr.sge(0, bytes), self.mr.sge(BYTES / 2, 4096));
        let remote = (to.addr, to.lkey);
        // What is full refuses.
        if let Some((qp, _)) = self.draw.one_of(&self.datagrams) {
            qp.recv(1, to);
            if let Some(ah) = self.draw.one_of(&self.ahs) {
                qp.datagram(2, self.mr.sge(0, bytes % 1000), ah, (qp.number(), KEY));
            }
        }
        let Some((a, b, cq)) = self.draw.one_of(&self.pairs) else {
            return;
        };
        match self.draw.below(4) {
            0 => a.rdma(opcode::RDMA_WRITE, 3, from, remote),
            1 => a.rdma(opcode::RDMA_READ, 4, from, remote),
            2 => b.send_of(5, from, flag::SIGNALED),
            _ => {
                b.recv(6, to);
                a.send_of(7, from, flag::SIGNALED)
            }
        };
        if self.draw.below(4) == 0 {
            cq.arm(false);
        }
    }

    fn poll(&mut self) {
        self.begins(Doing::Posts);
        for cq in &self.cqs {
            cq.poll(32);
        }
        for (_, _, cq) in &self.pairs {
            cq.poll(32);
        }
        for (_, cq) in &self.datagrams {
            cq.poll(32);
        }
        while let Ok((cq, _)) = self.channel.take() {
            cq.acknowledge(1);
        }
    }

    fn new_cq(&mut self) -> Cq {
        self.begins(Doing::Lends);
        let channel = (self.draw.below(2) == 0).then_some(self.channel);
        self.ctx.cq(64, 0, channel)
    }

    fn new_qp(&self, kind: c_int, cq: Cq) -> Qp {
        self.begins(Doing::Lends);
        self.pd.qp(kind, cq, cq)
    }

    fn connect(&self, a: Qp, b: Qp) {
        let gid = self.ctx.gid(1);
        for (own, peer) in [(a, b), (b, a)] {
            self.begins(Doing::Commands);
            own.connect(peer.number(), gid, 1);
        }
    }

    fn make_pair(&mut self) {
        if self.pairs.len() < MOST {
            let cq = self.new_cq();
            let (a, b) = (self.new_qp(RC, cq), self.new_qp(RC, cq));
            self.connect(a, b);
            self.pairs.push((a, b, cq));
        }
    }

    fn end_pair(&mut self) {
        if let Some((a, b, cq)) = self.draw.take(&mut self.pairs) {
            self.begins(Doing::Commands);
            assert_eq!([a.destroy(), b.destroy()], [0; 2]);
            assert_eq!(cq.destroy(), 0);
        }
    }

    fn restart_pair(&mut self) {
        if let Some((a, b, _)) = self.draw.one_of(&self.pairs) {
            for qp in [a, b] {
                self.begins(Doing::Commands);
                assert_eq!(qp.go_to(state::RESET), 0);
            }
            self.connect(a, b);
        }
    }

    fn fail_pair(&mut self) {
        if let Some((a, _, _)) = self.draw.one_of(&self.pairs) {
            self.begins(Doing::Commands);
            assert_eq!(a.go_to(state::ERR), 0);
        }
    }

    fn make_cq(&mut self) {
        if self.cqs.len() < MOST {
            let cq = self.new_cq();
            self.cqs.push(cq);
        }
    }

    fn end_cq(&mut self) {
        if let Some(cq) = self.draw.take(&mut self.cqs) {
            self.begins(Doing::Commands);
            assert_eq!(cq.destroy(), 0);
        }
    }

    fn resize_cq(&mut self) {
        if let Some(cq) = self.draw.one_of(&self.cqs) {
            self.begins(Doing::Lends);
            assert_eq!(cq.resize(10 + self.draw.below(500) as c_int), 0);
        }
    }

    fn make_mr(&mut self) {
        if self.mrs.len() < MOST {
            self.begins(Doing::Lends);
            let bytes = 1 + self.draw.below(20_000);
            self.mrs.push(self.pd.mr(Vec::leak(vec![0; bytes])));
        }
    }

    fn end_mr(&mut self) {
        if let Some(mr) = self.draw.take(&mut self.mrs) {
            self.begins(Doing::Commands);
            assert_eq!(mr.dereg(), 0);
        }
    }

    fn move_mr(&mut self) {
        if let Some(mr) = self.draw.one_of(&self.mrs) {
            self.begins(Doing::Commands);
            assert_eq!(mr.to_domain(self.pd), 0);
        }
    }

    fn make_datagrams(&mut self) {
        if self.datagrams.len() < MOST {
            let cq = self.new_cq();
            let qp = self.new_qp(UD, cq);
            self.begins(Doing::Commands);
            qp.datagrams(KEY);
            self.datagrams.push((qp, cq));
        }
    }

    fn end_datagrams(&mut self) {
        if let Some((qp, cq)) = self.draw.take(&mut self.datagrams) {
            self.begins(Doing::Commands);
            // A queue pair in a group is not destroyed.
            for group in 0..GROUPS {
                qp.detach(gid([239, 8, 1, group]));
            }
            assert_eq!([qp.destroy(), cq.destroy()], [0; 2]);
        }
    }

    fn make_ah(&mut self) {
        if self.ahs.len() < MOST {
            self.begins(Doing::Commands);
            let ah = self.pd.try_ah(address(self.ctx.gid(1), 1));
            self.ahs.push(ah.unwrap());
        }
    }

    fn end_ah(&mut self) {
        if let Some(ah) = self.draw.take(&mut self.ahs) {
            self.begins(Doing::Commands);
            assert_eq!(ah.destroy(), 0);
        }
    }

    fn group(&mut self) {
        if let Some((qp, _)) = self.draw.one_of(&self.datagrams) {
            let group = gid([239, 8, 1, self.draw.below(GROUPS.into()) as u8]);
            self.begins(Doing::Commands);
            // It may be in it, or not.
            match self.draw.below(2) {
                0 => qp.attach(group),
                _ => qp.detach(group),
            };
        }
    }

    fn open_or_close(&mut self) {
        self.begins(Doing::Opens);
        match self.contexts.pop() {
            Some(ctx) => assert_eq!(ctx.close(), 0),
            None => {
                let ctx = Ctx::open(0);
                let _ = Connection::new(ctx, None);
                self.contexts.push(ctx);
            }
        }
    }

    fn fork(&mut self) {
        self.begins(Doing::Forks);
        let how = self.draw.below(4);
        let parent = std::process::id();
        // SAFETY: the child runs what a program would.
        let child = unsafe { libc::fork() };
        if child == 0 {
            self.words.add(CHILDREN, 1);
            match how {
                0 => {}
                1 => self.tries_everything(),
                2 => uses_a_context_of_its_own(),
                _ => {
                    outlives(parent);
                    self.tries_everything();
                }
            }
            self.words.add(CHILDREN, u64::MAX);
            // SAFETY: nothing of the parent's is run.
            unsafe { libc::_exit(0) };
        }
        // Those that have ended before.
        // SAFETY: no status is asked for.
        while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }

    /// A child's use of its parent's objects: all of it is refused.
    fn tries_everything(&self) {
        let no = Gid { raw: [0xFF; 16] };
        let null = |is_null: bool| if is_null { errno() } else { 0 };
        let refused = [
            self.ctx.try_attributes().err().unwrap_or_default(),
            null(self.ctx.pd().0.is_null()),
            null(self.ctx.try_cq(8, 0, ptr::null_mut()).is_null()),
            self.pd.try_mr(memory(4096)).err().unwrap_or_default(),
            self.pd.try_ah(address(no, 0)).err().unwrap_or_default(),
            self.channel.take().err().unwrap_or_default(),
            self.mr.dereg(),
            self.pd.free(),
        ];
        let of_pairs = self.pairs.iter().flat_map(|(a, b, cq)| {
            [
                a.go_to(state::ERR),
                b.query().err().unwrap_or_default(),
                a.destroy(),
                cq.destroy(),
            ]
        });
        let granted = refused.into_iter().chain(of_pairs);
        let granted = granted.filter(|errno| *errno != libc::EIO).count();
        self.words.add(GRANTED, granted as u64);
    }
}

/// Lives on after its parent, which may be killed soon.
fn outlives(parent: u32) {
    let limit = Instant::now() + Duration::from_millis(500);
    while std::os::unix::process::parent_id() == parent && Instant::now() < limit {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(20));
}

/// A child that is a program itself.
fn uses_a_context_of_its_own() {
    // There may be too many programs for a moment, or the server may end.
    if let Ok(ctx) = Ctx::try_open(0) {
        let connection = Connection::new(ctx, None);
        connection.send(5, 0);
        for cq in connection.cqs {
            assert_eq!(cq.wait(1)[0].status, 0);
        }
    }
}

/// Takes everything that is left of some kinds, and says how much that is.
pub(crate) fn counts_what_is_left() {
    let words = Words::of_test();
    let kinds: usize = std::env::var(SEED).unwrap().parse().unwrap();
    let ctx = Ctx::open(0);
    let pd = ctx.pd();
    let cq = ctx.cq(8, 0, None);
    let make: [&dyn Fn() -> bool; 3] = [
        &|| pd.try_qp(RC, cq, cq).is_ok(),
        &|| !ctx.try_cq(8, 0, ptr::null_mut()).is_null(),
        &|| pd.try_mr(Vec::leak(vec![0; 64])).is_ok(),
    ];
    for (kind, make) in make.iter().take(kinds).enumerate() {
        let count = std::iter::repeat_with(make).take_while(|is_made| *is_made);
        words.set(LEFT + kind, count.count() as u64);
    }
}

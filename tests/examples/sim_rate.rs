//! How many messages the simulator carries in real time: RC SENDs from one
//! function to another, with everything on that finds mistakes.
//!
//! ```text
//! cargo run --profile fast -p e810-tests --example sim_rate -- [MESSAGES [SIGNAL [BYTES [QPS [PAIRS]]]]]
//! ```
//!
//! QPS queue pairs of a side take turns, list by list. PAIRS pairs of functions work side
//! by side, on four threads or more if there are several.
//!
//! Two threads, each a program with the engine of its function. Payload is
//! written anew for each message and compared at the receiver; IOMMU, ICRC and
//! findings are on. Of SIGNAL sends one asks for a completion (1: each does).
//! Beside the rate stands the processor time that each thread used for a message,
//! idle turns included, which other load on the machine hardly changes.
//! With `virtual` as the first argument everything runs on one thread in virtual
//! time and no rate is printed: for counting instructions.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a run that goes wrong ends the program"
)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e810::hmc::Capacity;
use e810::{Data, Lan, MacAddr, Op, QpCaps, RecvWr, SendFlags, SendWr, Sge, VsiId, Wc, WcStatus};
use e810_hal::Clock;
use e810_sim::pe::FpmProfile;
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Side};

/// Messages under way at most.
const DEPTH: u64 = 256;
/// Receives posted at most: more than messages under way, so that the sender is not told of each
/// list of receives before it can go on.
const RECEIVES: u64 = 2 * DEPTH;
/// Empty turns of which one looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// Requests posted with one doorbell, receives with one call.
const LIST: u64 = 32;
/// Completions polled for at once.
const POLLED: usize = 64;
/// Longest message, in bytes.
const LONGEST: usize = 4096;
/// A run that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(300);

struct Plan {
    messages: u64,
    signal: u64,
    bytes: usize,
    qps: u64,
}

impl Plan {
    /// The queue pair that the list beginning with message `n` goes over.
    const fn qp(&self, n: u64) -> usize {
        (n / LIST % self.qps) as usize
    }

    /// The first message of each queue pair.
    fn first(&self) -> Vec<u64> {
        (0..self.qps).map(|qp| qp * LIST).collect()
    }

    /// The message behind `n` on its queue pair.
    const fn behind(&self, n: u64) -> u64 {
        let ends = n % LIST == LIST - 1;
        n + 1 + if ends { (self.qps - 1) * LIST } else { 0 }
    }

    /// Whether message `n` asks for a completion.
    const fn signals(&self, n: u64) -> bool {
        n % self.signal == self.signal - 1 || n + 1 == self.messages
    }

    /// Receives posted at most.
    const fn receives(&self) -> u64 {
        self.depth() * (RECEIVES / DEPTH)
    }

    /// Messages under way at most: with several queue pairs, one list on each of four.
    const fn depth(&self) -> u64 {
        if self.qps == 1 { DEPTH } else { 4 * LIST }
    }
}

fn side(sim: &Sim, function: u8, setup: &Setup) -> Side<SimPlatform> {
    let platform = sim.function(function);
    let lan = Lan {
        vsi: VsiId::new(platform.vsi()).expect("a VSI"),
        mac: MacAddr(platform.mac()),
        mtu: 9000,
    };
    Side::new(platform, lan, setup)
}

/// For so many queue pairs.
fn capacity(qps: u64) -> Capacity {
    // The device takes a few for itself.
    let qps = qps as u32 + 8;
    Capacity {
        qps,
        cqs: qps,
        mrs: 64,
        ahs: 1,
        arps: 8,
        mcast_groups: 1,
        pbles: 512,
    }
}

/// What message `n` carries at word `word`.
const fn word(n: u64, word: u64) -> u64 {
    (n + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(word as u32)
        ^ word
}

fn fill(bytes: &mut [u8], n: u64) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    let last = words.len() as u64;
    for (chunk, at) in words.iter_mut().zip(0..) {
        *chunk = word(n, at).to_le_bytes();
    }
    rest.copy_from_slice(&word(n, last).to_le_bytes()[..rest.len()]);
}

/// Where message `n` has its place in the buffers, on cache lines of its own.
fn slot(n: u64, plan: &Plan) -> usize {
    (n % RECEIVES) as usize * plan.bytes.next_multiple_of(64)
}

/// A program that sends: requests posted, and completed.
struct Sender {
    posted: u64,
    done: u64,
    /// The first message not completed, of each queue pair.
    next: Vec<u64>,
    payload: Vec<u8>,
    wcs: Vec<Wc>,
}

impl Sender {
    fn new(plan: &Plan) -> Self {
        Self {
            posted: 0,
            done: 0,
            next: plan.first(),
            payload: vec![0; plan.bytes],
            wcs: vec![Wc::default(); POLLED],
        }
    }

    fn work(&mut self, side: &mut Side<SimPlatform>, plan: &Plan, allowed: u64) -> bool {
        let mut worked = false;
        let end = allowed.min(self.done + plan.depth()).min(plan.messages);
        if end >= self.posted + LIST || (end == plan.messages && end > self.posted) {
            let list = self.posted..end.min(self.posted + LIST);
            self.post(side, plan, list);
            worked = true;
        }
        let polled = side.cqs[0].poll(&mut self.wcs);
        for wc in &self.wcs[..polled] {
            assert_eq!(wc.status, WcStatus::Success);
            let next = &mut self.next[plan.qp(wc.wr_id)];
            let completed = wc.wr_id + 1 - *next;
            assert!(plan.signals(wc.wr_id) && (1..=plan.signal).contains(&completed));
            *next = plan.behind(wc.wr_id);
            self.done += completed;
        }
        worked || polled > 0
    }

    fn post(&mut self, side: &mut Side<SimPlatform>, plan: &Plan, list: std::ops::Range<u64>) {
        let buffer = side.buffer.bytes();
        let mut sges = [Sge::default(); LIST as usize];
        for (n, sge) in list.clone().zip(&mut sges) {
            fill(&mut self.payload, n);
            buffer
                .write(slot(n, plan), &self.payload)
                .expect("inside the buffer");
            *sge = side.sge(slot(n, plan), plan.bytes);
        }
        let requests: [SendWr<'_>; LIST as usize] = std::array::from_fn(|i| {
            let wr_id = list.start + i as u64;
            SendWr {
                wr_id,
                op: Op::Send {
                    data: Data::Sges(std::slice::from_ref(&sges[i])),
                    imm: None,
                },
                flags: if plan.signals(wr_id) {
                    SendFlags::SIGNALED
                } else {
                    SendFlags::empty()
                },
            }
        });
        let count = (list.end - list.start) as usize;
        side.qps[plan.qp(list.start)]
            .post_send(&requests[..count])
            .expect("room for the list");
        self.posted = list.end;
    }
}

/// A program that receives: receives posted, and filled.
struct Receiver {
    posted: u64,
    done: u64,
    /// The next message of each queue pair.
    next: Vec<u64>,
    expected: Vec<u8>,
    arrived: Vec<u8>,
    wcs: Vec<Wc>,
}

impl Receiver {
    fn new(plan: &Plan) -> Self {
        let buffer = || vec![0; plan.bytes];
        Self {
            posted: 0,
            done: 0,
            next: plan.first(),
            expected: buffer(),
            arrived: buffer(),
            wcs: vec![Wc::default(); POLLED],
        }
    }

    fn work(&mut self, side: &mut Side<SimPlatform>, plan: &Plan) -> bool {
        let mut worked = false;
        let incoming = side.incoming();
        while self.posted + LIST <= self.done + plan.receives() && self.posted < plan.messages {
            let sges: [Sge; LIST as usize] = std::array::from_fn(|i| {
                side.sge(incoming + slot(self.posted + i as u64, plan), plan.bytes)
            });
            let requests: [RecvWr<'_>; LIST as usize] = std::array::from_fn(|i| RecvWr {
                wr_id: self.posted + i as u64,
                sges: std::slice::from_ref(&sges[i]),
            });
            side.qps[plan.qp(self.posted)]
                .post_recv(&requests)
                .expect("room for receives");
            self.posted += LIST;
            worked = true;
        }
        let polled = side.cqs[1].poll(&mut self.wcs);
        let buffer = side.buffer.bytes();
        for wc in &self.wcs[..polled] {
            let n = wc.wr_id;
            let next = &mut self.next[plan.qp(n)];
            assert_eq!((wc.status, n), (WcStatus::Success, *next), "in order");
            *next = plan.behind(n);
            assert_eq!(wc.byte_len as usize, plan.bytes);
            fill(&mut self.expected, n);
            buffer
                .read(incoming + slot(n, plan), &mut self.arrived)
                .expect("inside the buffer");
            assert!(
                self.arrived == self.expected,
                "message {n}: payload differs"
            );
            self.done += 1;
        }
        worked || polled > 0
    }
}

/// Both programs on this thread.
fn exchange_here(pair: &mut Pair<SimPlatform>, plan: &Plan) {
    let (mut sender, mut receiver) = (Sender::new(plan), Receiver::new(plan));
    while receiver.done < plan.messages || sender.done < plan.messages {
        let [here, there] = &mut pair.sides[..] else {
            return;
        };
        let received = receiver.work(there, plan);
        // Only into receives that are there: RNR is another test's.
        let sent = sender.work(here, plan, receiver.posted);
        if !received && !sent {
            here.platform.relax();
        }
    }
}

/// Each program on a thread of its own, on which its function's engine runs too.
///
/// Gives the receiver's processor time in ns, which cannot be seen any more when its thread has
/// ended.
fn exchange(pair: &mut Pair<SimPlatform>, plan: &Plan) -> u64 {
    /// On a cache line of its own.
    #[repr(align(128))]
    struct Posted(AtomicU64);
    let posted = Posted(AtomicU64::new(0));
    let start = Instant::now();
    let [here, there] = &mut pair.sides[..] else {
        return 0;
    };
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut receiver = Receiver::new(plan);
            let mut empty = 0_u32;
            while receiver.done < plan.messages {
                if receiver.work(there, plan) {
                    posted.0.store(receiver.posted, Ordering::Release);
                } else {
                    there.platform.relax();
                    empty = empty.wrapping_add(1);
                    let over = || start.elapsed() > LIMIT;
                    assert!(
                        !empty.is_multiple_of(CLOCK_EVERY) || !over(),
                        "nothing arrives any more"
                    );
                }
            }
            processor_time("/proc/thread-self".as_ref())
        });
        let mut sender = Sender::new(plan);
        let (mut allowed, mut empty) = (0, 0_u32);
        while sender.done < plan.messages {
            if !sender.work(here, plan, allowed) {
                allowed = posted.0.load(Ordering::Acquire);
                here.platform.relax();
                empty = empty.wrapping_add(1);
                let over = || start.elapsed() > LIMIT;
                assert!(
                    !empty.is_multiple_of(CLOCK_EVERY) || !over(),
                    "nothing completes any more"
                );
            }
        }
        receiver.join().expect("the receiver ended")
    })
}

/// Processor time of the thread of this folder so far, in ns.
fn processor_time(task: &Path) -> u64 {
    let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Processor time of each thread of this process so far, in ns.
fn processor_times() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").into_iter().flatten() {
        let Ok(task) = task else { continue };
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        *times.entry(name.trim().to_owned()).or_default() += processor_time(&task.path());
    }
    times
}

fn main() {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let virtual_time = arguments.first().is_some_and(|first| first == "virtual");
    if virtual_time {
        arguments.remove(0);
    }
    let number = |n: usize, default: u64| {
        arguments
            .get(n)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let qps = number(3, 1).max(1);
    let plan = Plan {
        messages: number(0, 2_000_000),
        signal: number(1, 1).clamp(1, if qps == 1 { DEPTH / 2 } else { LIST }),
        bytes: (number(2, 64) as usize).min(LONGEST),
        qps,
    };
    let pairs = number(4, 1).clamp(1, 4) as u8;
    let mode = if virtual_time {
        Mode::Virtual
    } else {
        Mode::Real
    };
    let setup = Setup {
        caps: QpCaps {
            max_send_wr: 2 * DEPTH as u32,
            max_recv_wr: 2 * DEPTH as u32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        },
        cqe: 4 * DEPTH as u32,
        buffer: 2 * RECEIVES as usize * LONGEST,
        separate_cqs: true,
        queue_pairs: plan.qps as usize,
        capacity: (plan.qps > 1).then(|| capacity(plan.qps)),
        ..Setup::default()
    };
    let builder = Sim::builder().functions(2 * pairs).seed(1).mode(mode);
    let sim = match plan.qps {
        1 => builder.build(),
        // The usual one has 1,024 queue pairs.
        _ => builder.profile(FpmProfile::card()).build(),
    };
    let connected = |n| {
        let sides = vec![side(&sim, 2 * n, &setup), side(&sim, 2 * n + 1, &setup)];
        Pair::connected(sides, setup)
    };
    let mut all: Vec<_> = (0..pairs).map(connected).collect();
    let (pair, others) = all.split_first_mut().expect("a pair");
    let before = sim.link();
    let times_before = processor_times();
    let start = Instant::now();
    let receiver_time = if virtual_time {
        exchange_here(pair, &plan);
        0
    } else {
        std::thread::scope(|scope| {
            for other in others {
                scope.spawn(|| exchange(other, &plan));
            }
            exchange(pair, &plan)
        })
    };
    let elapsed = start.elapsed().as_secs_f64();
    let mut times = processor_times();
    times.insert("receiver".to_owned(), receiver_time);
    let after = sim.link();
    for pair in all {
        pair.close();
    }
    assert_eq!(sim.findings(), []);
    let frames = after.sent - before.sent;
    println!(
        "{} SENDs of {} B, verified; 1 of {} signaled, {} under way, lists of {}; {:.2} frames a message, nothing found",
        plan.messages,
        plan.bytes,
        plan.signal,
        plan.depth(),
        LIST,
        frames as f64 / (plan.messages * u64::from(pairs)) as f64,
    );
    if !virtual_time {
        println!(
            "{:.0} messages/s (simulated, real time), {:.0} ns a message",
            plan.messages as f64 * f64::from(pairs) / elapsed,
            1e9 * elapsed / (plan.messages as f64 * f64::from(pairs))
        );
        for (thread, ns) in times {
            let used = ns - times_before.get(&thread).copied().unwrap_or(0);
            println!(
                "{thread}: {:.0} ns of its processor a message",
                used as f64 / plan.messages as f64
            );
        }
    }
}

//! How many bytes the simulator carries in real time: RDMA WRITEs of 4 KiB, each verified by
//! the program that they arrive at, and beside it what copying and checking the same bytes
//! costs.
//!
//! ```text
//! cargo run --profile fast -p e810-tests --example sim_write -- [LISTS]
//! ```
//!
//! Two threads, each a program with the engine of its function; IOMMU, ICRC and findings are
//! on. The last WRITE of a list has immediate data, so that the receiver knows of the list.
//! The reference copies each payload with memcpy and takes its CRC-32, on one thread.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a run that goes wrong ends the program"
)]

use std::env;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e810::{
    Data, Lan, MacAddr, Mtu, Op, QpCaps, RecvWr, Remote, SendFlags, SendWr, Sge, VsiId, Wc,
    WcStatus,
};
use e810_hal::Clock;
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::traffic::{Pair, Setup, Side};

/// Bytes of a WRITE.
const BYTES: usize = 4096;
/// Requests posted with one doorbell.
const LIST: usize = 32;
/// Lists that are not verified, at most.
const LISTS: u64 = 4;
/// A run that takes longer is given up.
const LIMIT: Duration = Duration::from_secs(300);

fn side(sim: &Sim, function: u8, setup: &Setup) -> Side<SimPlatform> {
    let platform = sim.function(function);
    let lan = Lan {
        vsi: VsiId::new(platform.vsi()).expect("a VSI"),
        mac: MacAddr(platform.mac()),
        mtu: 9000,
    };
    Side::new(platform, lan, setup)
}

/// Bytes that payloads are parts of.
fn pool() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 29) ^ 1;
        (state >> 32) as u8
    };
    (0..2 * BYTES).map(|_| next()).collect()
}

/// Which part of the pool WRITE `n` carries: another one than those near it.
fn offset(n: u64) -> usize {
    (n % 509) as usize * 8
}

fn payload(pool: &[u8], n: u64) -> &[u8] {
    &pool[offset(n)..offset(n) + BYTES]
}

/// Where WRITE `n` has its place at the receiver.
fn slot(n: u64) -> usize {
    (n % (LISTS * LIST as u64)) as usize * BYTES
}

fn write_list(side: &mut Side<SimPlatform>, list: u64, remote: Remote) {
    let first = list * LIST as u64;
    let mut sges = [Sge::default(); LIST];
    for (n, sge) in (first..).zip(&mut sges) {
        *sge = side.sge(offset(n), BYTES);
    }
    let requests: [SendWr<'_>; LIST] = std::array::from_fn(|i| {
        let n = first + i as u64;
        let last = i + 1 == LIST;
        SendWr {
            wr_id: list,
            op: Op::Write {
                data: Data::Sges(std::slice::from_ref(&sges[i])),
                remote: Remote {
                    addr: remote.addr + slot(n) as u64,
                    ..remote
                },
                imm: last.then_some(list as u32),
            },
            flags: if last {
                SendFlags::SIGNALED
            } else {
                SendFlags::empty()
            },
        }
    });
    side.qps[0].post_send(&requests).expect("room for the list");
}

/// Writes all lists, none before there is room for it and a receive.
fn send(side: &mut Side<SimPlatform>, lists: u64, remote: Remote, ready: &AtomicU64) {
    let start = Instant::now();
    let (mut posted, mut done) = (0, 0);
    let mut wcs = [Wc::default(); 8];
    while done < lists {
        let may = lists.min(ready.load(Ordering::Acquire)).min(done + LISTS);
        if posted < may {
            write_list(side, posted, remote);
            posted += 1;
        }
        let polled = side.cqs[0].poll(&mut wcs);
        for wc in &wcs[..polled] {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, done));
            done += 1;
        }
        if polled == 0 {
            side.platform.relax();
            assert!(start.elapsed() < LIMIT, "nothing completes any more");
        }
    }
}

/// Verifies all lists; `ready` counts those that there is room for.
fn receive(side: &mut Side<SimPlatform>, pool: &[u8], lists: u64, ready: &AtomicU64) {
    let start = Instant::now();
    let (mut posted, mut done) = (0, 0);
    let mut wcs = [Wc::default(); 8];
    let mut arrived = vec![0; BYTES];
    let incoming = side.incoming();
    while done < lists {
        while posted < lists.min(done + LISTS) {
            let receive = RecvWr {
                wr_id: posted,
                sges: &[],
            };
            side.qps[0].post_recv(&[receive]).expect("room");
            posted += 1;
        }
        ready.store(posted, Ordering::Release);
        let polled = side.cqs[1].poll(&mut wcs);
        for wc in &wcs[..polled] {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, done));
            let first = done * LIST as u64;
            for n in first..first + LIST as u64 {
                let buffer = side.buffer.bytes();
                buffer
                    .read(incoming + slot(n), &mut arrived)
                    .expect("inside the buffer");
                assert!(arrived == payload(pool, n), "WRITE {n} differs");
            }
            done += 1;
        }
        if polled == 0 {
            side.platform.relax();
            assert!(start.elapsed() < LIMIT, "nothing arrives any more");
        }
    }
}

/// Bytes a second that memcpy and CRC-32 take the payloads at.
fn reference(pool: &[u8], lists: u64) -> f64 {
    let mut copies = vec![0; slot(LISTS * LIST as u64 - 1) + BYTES];
    let writes = lists * LIST as u64;
    let start = Instant::now();
    for n in 0..writes {
        let copy = &mut copies[slot(n)..slot(n) + BYTES];
        copy.copy_from_slice(payload(pool, n));
        black_box(crc32fast::hash(copy));
    }
    (writes as usize * BYTES) as f64 / start.elapsed().as_secs_f64()
}

fn main() {
    let lists = env::args()
        .nth(1)
        .map_or(20_000, |text| text.parse().expect("a number"));
    let entries = 2 * LISTS as u32 * LIST as u32;
    let setup = Setup {
        caps: QpCaps {
            max_send_wr: entries,
            max_recv_wr: entries,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline: 0,
        },
        cqe: 2 * entries,
        buffer: 2 * LISTS as usize * LIST * BYTES,
        mtu: Mtu::Mtu4096,
        separate_cqs: true,
        ..Setup::default()
    };
    let sim = Sim::builder().functions(2).seed(1).mode(Mode::Real).build();
    let sides = vec![side(&sim, 0, &setup), side(&sim, 1, &setup)];
    let mut pair = Pair::connected(sides, setup);
    let pool = pool();
    let ready = AtomicU64::new(0);
    let start = Instant::now();
    let [here, there] = &mut pair.sides[..] else {
        return;
    };
    let remote = Remote {
        addr: there.mr.address() + there.incoming() as u64,
        rkey: there.mr.rkey(),
    };
    let memory = here.buffer.bytes();
    memory.write(0, &pool).expect("inside the buffer");
    std::thread::scope(|scope| {
        scope.spawn(|| receive(there, &pool, lists, &ready));
        send(here, lists, remote, &ready);
    });
    let bytes = (lists as usize * LIST * BYTES) as f64;
    let rate = bytes / start.elapsed().as_secs_f64();
    pair.close();
    assert_eq!(sim.findings(), []);
    let reference = reference(&pool, lists);
    println!("WRITE of {BYTES} B in lists of {LIST}, each verified; nothing found");
    println!(
        "{:.2} GB/s (simulated, real time); memcpy and CRC-32 of the same bytes {:.2} GB/s; ratio {:.2}",
        rate / 1e9,
        reference / 1e9,
        rate / reference
    );
}

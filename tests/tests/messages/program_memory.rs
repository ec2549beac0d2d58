//! Programs that take memory away which they have registered, or register what they may not use:
//! the request ends in an error, and the process lives.

// UNSAFETY: maps memory, takes it away, and lends it to a device all the same.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what is not as it should be ends the test"
)]

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use e810::{
    AccessFlags, Data, Error, Lan, MacAddr, Mr, Op, QpState, Remote, Sge, SharedBytes, VsiId,
    WcStatus,
};
use e810_hal::{DmaError, Ns};
use e810_sim::{Mode, Sim, SimPlatform};
use e810_tests::traffic::scenarios::{A, B};
use e810_tests::traffic::verbs::signaled;
use e810_tests::traffic::{End, Kind, Pair, Setup, Side, Transfer, pattern};

/// Bytes of the memory, two pages.
const BYTES: usize = 8192;

/// Where the next memory goes: addresses that the kernel gives to nobody by itself, because what is
/// taken away here must not become another test's memory, which a device would write then.
static NEXT: AtomicUsize = AtomicUsize::new(0x2100_0000_0000);

/// Private memory, in two pages.
struct Memory(NonNull<u8>);

impl Memory {
    fn new(protection: i32) -> Self {
        let place = NEXT.fetch_add(1 << 24, Ordering::Relaxed);
        let hint = ptr::without_provenance_mut(place);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: new memory, where there is none.
        let start = unsafe { libc::mmap(hint, BYTES, protection, flags, -1, 0) };
        assert_eq!(start.addr(), place, "{}", io::Error::last_os_error());
        Self(NonNull::new(start.cast()).unwrap())
    }

    fn bytes(&self) -> SharedBytes {
        // SAFETY: only used while the memory is there; what the device does with a mapping of it is
        // checked (`Builder::checked_access`).
        unsafe { SharedBytes::new(self.0, BYTES) }
    }

    fn protect(&self, protection: i32) {
        // SAFETY: this memory, to which there is no reference.
        let done = unsafe { libc::mprotect(self.0.as_ptr().cast(), BYTES, protection) };
        assert_eq!(done, 0);
    }

    fn unmap(&self) {
        // SAFETY: this memory, to which there is no reference.
        let done = unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
        assert_eq!(done, 0);
    }
}

const BOTH: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// What the program does with memory that it has registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Unmapped,
    ReadOnly,
    NoRight,
}

/// What uses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Of the requester: what is sent, or read into.
    WriteFrom,
    SendFrom,
    ReadInto,
    /// Of the responder.
    WriteTo,
    ReadFrom,
    Receive,
}

impl Use {
    /// Whose memory it is.
    const fn end(self) -> End {
        match self {
            Self::WriteFrom | Self::SendFrom | Self::ReadInto => A,
            Self::WriteTo | Self::ReadFrom | Self::Receive => B,
        }
    }
}

fn pair(mode: Mode) -> (Sim, Pair<SimPlatform>) {
    let sim = Sim::builder()
        .functions(2)
        .mode(mode)
        .checked_access(true)
        .build();
    let setup = Setup {
        retry_cnt: 1,
        ..Setup::default()
    };
    let sides = [0, 1].map(|function| {
        let platform = sim.function(function);
        let lan = Lan {
            vsi: VsiId::new(platform.vsi()).unwrap(),
            mac: MacAddr(platform.mac()),
            mtu: 9000,
        };
        Side::new(platform, lan, &setup)
    });
    let pair = Pair::connected(sides.into(), setup);
    (sim, pair)
}

fn register(pair: &mut Pair<SimPlatform>, end: End, memory: &Memory) -> Mr<SimPlatform> {
    let side = pair.side(end.side);
    let mr = side.control.reg_mr(&side.pd, memory.bytes(), Setup::ACCESS);
    mr.unwrap()
}

/// One request over memory of `used`, with its length and how it ended; and the receive's end, if
/// there was one.
fn request(
    pair: &mut Pair<SimPlatform>,
    used: Use,
    mr: &Mr<SimPlatform>,
    bytes: usize,
) -> (WcStatus, Option<WcStatus>) {
    let own = [Sge {
        addr: mr.address(),
        length: bytes as u32,
        lkey: mr.lkey(),
    }];
    let good = [pair.side(0).sge(0, bytes)];
    let there = pair.side(1);
    let remote = match used {
        Use::WriteTo | Use::ReadFrom => Remote {
            addr: mr.address(),
            rkey: mr.rkey(),
        },
        _ => Remote {
            addr: there.mr.address() + there.incoming() as u64,
            rkey: there.mr.rkey(),
        },
    };
    let receives = matches!(used, Use::SendFrom | Use::Receive);
    if receives {
        let incoming = [there.sge(there.incoming(), bytes)];
        let sges = if used == Use::Receive {
            &own
        } else {
            &incoming
        };
        there.post_recv(0, 7, sges).unwrap();
    }
    let sges = if used.end() == A { &own } else { &good };
    let (data, imm) = (Data::Sges(sges), None);
    let op = match used {
        Use::WriteFrom | Use::WriteTo => Op::Write { data, remote, imm },
        Use::SendFrom | Use::Receive => Op::Send { data, imm },
        Use::ReadInto | Use::ReadFrom => Op::Read { into: sges, remote },
    };
    pair.side(0).post_send(0, &[signaled(1, op)]).unwrap();
    let sent = pair.completions(0, 1)[0].status;
    pair.during(Ns::from_ms(20));
    let received = pair.side(1).take().first().map(|wc| wc.status);
    (sent, received)
}

/// Both ends after a failure: made anew, connected, and messages pass.
fn renew(pair: &mut Pair<SimPlatform>) {
    pair.during(Ns::from_ms(20));
    for end in [A, B] {
        pair.renew(end);
    }
    for end in [A, B] {
        pair.connect(end);
        let side = pair.side(end.side);
        side.take();
        side.reported.clear();
    }
    pair.transfer(A, &Transfer::new(Kind::Send, 200));
    pair.transfer(B, &Transfer::new(Kind::Read, 5000));
}

/// Each change, each use: how request and receive end. A requester that cannot reach its own memory
/// stops for no request's fault (LOCAL_QP_CATASTROPHIC), so what was posted is flushed; a responder
/// refuses (NAK), and stops as well.
const CASES: &[(Use, Change, WcStatus, Option<WcStatus>)] = &[
    (Use::WriteFrom, Change::Unmapped, WcStatus::WrFlushErr, None),
    (Use::WriteFrom, Change::NoRight, WcStatus::WrFlushErr, None),
    (Use::SendFrom, Change::Unmapped, WcStatus::WrFlushErr, None),
    (Use::ReadInto, Change::Unmapped, WcStatus::WrFlushErr, None),
    (Use::ReadInto, Change::ReadOnly, WcStatus::WrFlushErr, None),
    (Use::WriteTo, Change::Unmapped, WcStatus::RemOpErr, None),
    (Use::WriteTo, Change::ReadOnly, WcStatus::RemOpErr, None),
    (Use::ReadFrom, Change::Unmapped, WcStatus::RemOpErr, None),
    (
        Use::Receive,
        Change::ReadOnly,
        WcStatus::RemOpErr,
        Some(WcStatus::WrFlushErr),
    ),
    (
        Use::Receive,
        Change::Unmapped,
        WcStatus::RemOpErr,
        Some(WcStatus::WrFlushErr),
    ),
];

fn memory_goes(mode: Mode) {
    let (sim, mut pair) = pair(mode);
    for (n, &(used, change, sent, received)) in CASES.iter().enumerate() {
        let memory = Memory::new(BOTH);
        let owner = used.end();
        let mr = register(&mut pair, owner, &memory);
        memory.bytes().write(0, &pattern(n as u64, BYTES)).unwrap();
        // While it is there it is of use.
        let (status, _) = request(&mut pair, used, &mr, BYTES);
        assert_eq!(status, WcStatus::Success, "{used:?}");
        match change {
            Change::Unmapped => memory.unmap(),
            Change::ReadOnly => memory.protect(libc::PROT_READ),
            Change::NoRight => memory.protect(libc::PROT_NONE),
        }
        let before = sim.stats(owner.side as u8).program_faults;
        let ended = request(&mut pair, used, &mr, BYTES);
        let reported = pair.sides.iter().map(|side| side.reported.clone());
        let reported: Vec<_> = reported.collect();
        assert_eq!(ended, (sent, received), "{used:?} {change:?}: {reported:?}");
        let failed = [A, B].map(|end| pair.side(end.side).qps[0].state() == QpState::Err);
        let both = owner == B;
        assert_eq!(failed, [true, both], "{used:?} {change:?}: {reported:?}");
        assert!(sim.stats(owner.side as u8).program_faults > before);
        // Its region is given back as any other, and the pair goes on.
        let given = pair.side(owner.side).control.dereg_mr(mr);
        given.map_err(|(_, error)| error).unwrap();
        renew(&mut pair);
        if change != Change::Unmapped {
            memory.unmap();
        }
    }
    pair.close();
    // It was no mistake of the driver's.
    assert_eq!(sim.findings(), []);
    assert_eq!(sim.stats(0).dma_faults + sim.stats(1).dma_faults, 0);
}

#[test]
fn memory_that_goes_ends_the_request_and_not_the_process() {
    memory_goes(Mode::Virtual);
}

#[test]
fn memory_that_goes_ends_the_request_in_real_time() {
    memory_goes(Mode::Real);
}

#[test]
fn what_a_program_may_not_use_is_not_registered() {
    let (sim, mut pair) = pair(Mode::Virtual);
    let side = pair.side(0);
    let local = AccessFlags::LOCAL_WRITE;
    let read = AccessFlags::REMOTE_READ;
    for (protection, access, fits) in [
        (BOTH, local, true),
        (libc::PROT_READ, read, true),
        (libc::PROT_READ, local, false),
        (libc::PROT_NONE, read, false),
        (libc::PROT_NONE, local, false),
    ] {
        let memory = Memory::new(protection);
        let made = side.control.reg_mr(&side.pd, memory.bytes(), access);
        match made {
            Ok(mr) => {
                assert!(fits, "{protection} {access:?}");
                let given = side.control.dereg_mr(mr);
                given.map_err(|(_, error)| error).unwrap();
            }
            Err(error) => {
                assert!(!fits, "{protection} {access:?}: {error}");
                assert!(matches!(error, Error::Dma(DmaError::NotAccessible { .. })));
                assert_eq!(error.errno(), e810::errno::EFAULT);
            }
        }
        memory.unmap();
        let made = side.control.reg_mr(&side.pd, memory.bytes(), access);
        assert_eq!(made.unwrap_err().errno(), e810::errno::EFAULT);
    }
    pair.close();
    assert_eq!(sim.findings(), []);
}

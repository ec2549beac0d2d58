//! Lists that are posted whole or not at all: a plan says what posting one by one finds out.

use e810_datapath::sizing::{MAX_INLINE, MAX_SGES, inline_quanta, sq_quanta};
use e810_datapath::{
    Data, ExtraOps, Op, PostError, Remote, SendFlags, SendLimits, SendPlan, SendWr, Sge, UdTarget,
    Wc,
};
use proptest::prelude::*;

use crate::common::{Bench, LIMITS, SGE, Send, TestCq, TestQp};
use crate::recorded::{rig, send};

/// Requests of so many SGEs (one more than there may be is not in order), or inline bytes.
#[derive(Clone, Copy, Debug)]
enum Size {
    Sges(u32),
    Inline(u32),
}

impl Size {
    fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            60 => (0..=MAX_SGES).prop_map(Self::Sges),
            60 => (0..=MAX_INLINE).prop_map(Self::Inline),
            1 => Just(Self::Sges(MAX_SGES + 1)),
            1 => Just(Self::Inline(MAX_INLINE + 1)),
        ]
    }

    fn quanta(self) -> u32 {
        match self {
            Self::Sges(count) => sq_quanta(count).unwrap(),
            Self::Inline(bytes) => inline_quanta(bytes),
        }
    }

    fn with<T>(self, wr_id: u64, run: impl FnOnce(&SendWr<'_>) -> T) -> T {
        let (sges, bytes) = ([SGE; MAX_SGES as usize + 1], [0; MAX_INLINE as usize + 1]);
        let pieces: [&[u8]; 1] = [match self {
            Self::Sges(_) => &[],
            Self::Inline(count) => &bytes[..count as usize],
        }];
        let data = match self {
            Self::Sges(count) => Data::Sges(&sges[..count as usize]),
            Self::Inline(_) => Data::Inline(&pieces),
        };
        let op = Op::Send { data, imm: None };
        let flags = SendFlags::SIGNALED;
        run(&SendWr { wr_id, op, flags })
    }
}

/// Counts a list; where that ends, and why.
fn plan(send: &mut Send, list: &[Size]) -> Result<(), (usize, PostError)> {
    let mut list_of = send.list().unwrap();
    let mut plan = SendPlan::default();
    for (at, size) in list.iter().enumerate() {
        let planned = size.with(at as u64, |wr| list_of.plan(&mut plan, wr));
        planned.map_err(|error| (at, error))?;
    }
    Ok(())
}

/// Posts a list up to its first error.
fn post(send: &mut Send, list: &[Size]) -> Result<(), (usize, PostError)> {
    let mut list_of = send.list().unwrap();
    for (at, size) in list.iter().enumerate() {
        let posted = size.with(at as u64, |wr| list_of.post(wr));
        posted.map_err(|error| (at, error))?;
    }
    Ok(())
}

/// The same but for how much is free, which a plan counts from its beginning.
fn alike(one: Result<(), (usize, PostError)>, other: Result<(), (usize, PostError)>) -> bool {
    match (one, other) {
        (Err((a, PostError::Full { .. })), Err((b, PostError::Full { .. }))) => a == b,
        _ => one == other,
    }
}

#[test]
fn a_plan_says_what_a_post_finds_out() {
    let lists = prop::collection::vec(prop::collection::vec(Size::any(), 0..80), 1..16);
    proptest!(|(lists in lists)| {
        let mut bench = Bench::new();
        let TestCq { mut cq, key, mut device } = bench.cq(0, 1024);
        let TestQp { key: qp, mut send, .. } = bench.qp(1, key, key);
        let mut head = 0;
        for list in &lists {
            let (free, doorbells) = (send.free_quanta(), bench.platform.0.get());
            let planned = plan(&mut send, list);
            prop_assert_eq!(send.free_quanta(), free, "a plan posts nothing");
            prop_assert_eq!(bench.platform.0.get(), doorbells);
            let posted = post(&mut send, list);
            prop_assert!(alike(planned, posted), "{:?} {:?}", planned, posted);
            head += u64::from(free - send.free_quanta());
            let last = posted.map_or_else(|(at, _)| at, |()| list.len()).checked_sub(1);
            // All of most lists complete, so that each begins where it likes.
            if let Some(last) = last && list.len() % 3 != 0 {
                device.sent(qp, (head - u64::from(list[last].quanta())) % 512);
                while cq.poll(&mut [Wc::default(); 16]) != 0 {}
            }
        }
    });
}

/// What posting refuses for other reasons than its size, a plan refuses.
#[test]
fn a_plan_refuses_what_is_not_in_order() {
    let limits = SendLimits {
        max_sge: 3,
        extra: ExtraOps::empty(),
        ..LIMITS
    };
    let long = Sge {
        length: 1 << 31,
        ..SGE
    };
    let remote = Remote { addr: 0, rkey: 0 };
    let to = UdTarget {
        ah: 0,
        qpn: 0,
        qkey: 0,
    };
    let data = Data::Sges(&[]);
    let imm = None;
    let mut rig = rig(limits);
    for op in [
        Op::Read {
            into: &[SGE, long],
            remote,
        },
        Op::Read {
            into: &[SGE; 4],
            remote,
        },
        Op::ReadInv { into: &[], remote },
        Op::UdSend { data, imm, to },
        Op::Send { data, imm },
        Op::LocalInv { stag: 1 },
        Op::Nop,
    ] {
        let mut list = rig.send.list().unwrap();
        let planned = list.plan(&mut SendPlan::default(), &send(op));
        assert_eq!(planned, list.post(&send(op)), "{op:?}");
    }
    let mut bench = Bench::new();
    let cq = bench.cq(0, 64);
    let mut qp = bench.datagram_qp(1, cq.key, cq.key);
    let beyond = UdTarget {
        ah: LIMITS.address_handles,
        ..to
    };
    for op in [
        Op::UdSend { data, imm, to },
        Op::UdSend {
            data,
            imm,
            to: beyond,
        },
        Op::Write { data, remote, imm },
        Op::SendInv { data, rkey: 1 },
    ] {
        let mut list = qp.send.list().unwrap();
        let planned = list.plan(&mut SendPlan::default(), &send(op));
        assert_eq!(planned, list.post(&send(op)), "{op:?}");
    }
}

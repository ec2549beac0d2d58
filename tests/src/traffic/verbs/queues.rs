//! Queues that change while they work: resized, drained, begun anew.

use e810::{
    Data, DroppedWrs, MacAddr, Op, Path, Platform, QpAttr, QpState, SendFlags, SendWr,
    TransitionError, WcStatus,
};
use e810_hal::Ns;

use super::super::scenarios::{A, B, many, send};
use super::super::{Kind, Pair, Setup, Transfer, pattern};

/// Both CQs change their size again and again while messages flow: none is lost,
/// none comes twice.
pub fn resized_under_load(pair: &mut Pair<impl Platform>) {
    const MESSAGES: u64 = 3000;
    const SLOT: usize = 256;
    const AHEAD: u64 = 40;
    let sizes = [60, 200, 61, 1000, 90, 64, 300];
    let incoming = pair.side(1).incoming();
    let (mut posted, mut sent, mut received, mut resizes) = (0u64, 0u64, 0u64, 0usize);
    pair.until("all messages", |pair| {
        while posted < MESSAGES && posted < sent.min(received) + AHEAD {
            let at = (posted % AHEAD) as usize * SLOT;
            let sge = pair.side(1).sge(incoming + at, SLOT);
            pair.side(1).post_recv(0, posted, &[sge]).expect("posted");
            pair.side(0).buffer.write(at, &pattern(posted, SLOT));
            send(pair, A, posted, at, SLOT, true);
            posted += 1;
        }
        for wc in pair.side(0).take() {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, sent));
            sent += 1;
        }
        for wc in pair.side(1).take() {
            assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, received));
            let at = incoming + (received % AHEAD) as usize * SLOT;
            assert!(pair.side(1).buffer.read(at, SLOT) == pattern(received, SLOT));
            received += 1;
        }
        // One resize every few messages, on either side by turns; sometimes the
        // next before the last one is done with.
        if received > resizes as u64 * 9 {
            let side = pair.side(resizes % 2);
            let size = sizes.get(resizes % sizes.len()).copied().unwrap_or(64);
            let cq = side.cqs.first_mut().expect("a CQ");
            match side.control.resize_cq(cq, size) {
                Ok(()) => {
                    assert!(cq.entries() >= size);
                    resizes += 1;
                }
                Err(error) => assert!(error.to_string().contains("under way"), "{error}"),
            }
        }
        sent == MESSAGES && received == MESSAGES
    });
    assert!(resizes > 100, "{resizes} resizes");
    for side in &mut pair.sides {
        for cq in &mut side.cqs {
            assert_eq!(cq.counters(), Default::default());
            // Back to what the next test has room in.
            side.control.resize_cq(cq, 512).expect("a resize");
        }
    }
    many(pair, 300, 5);
}

/// In SQD what was begun is finished and nothing more is; the owner is told when
/// it is, and everything goes on in RTS.
pub fn drained(pair: &mut Pair<impl Platform>) {
    const BURST: u64 = 20;
    for notify in [true, false] {
        // The peer has no receive yet: what is begun cannot end.
        for n in 0..BURST {
            send(pair, A, n, 0, 4096, true);
        }
        pair.during(Ns::from_us(50));
        let side = pair.side(0);
        let sqd = QpAttr::to_sqd(notify);
        side.control
            .modify_qp(&mut side.qps[0], &sqd)
            .expect("to SQD");
        let asked = e810::AttrMask::all();
        // Nobody has looked at the events: as far as anybody knows, it drains.
        let queried = side.control.query_qp(&side.qps[0], asked).expect("asked");
        assert_eq!(queried.attr.state, Some(QpState::Sqd));
        assert!(queried.sq_draining);
        let rts = QpAttr {
            state: Some(QpState::Rts),
            ..QpAttr::default()
        };
        let early = side.control.modify_qp(&mut side.qps[0], &rts);
        let draining = e810_datapath::Error::from(TransitionError::Draining);
        assert_eq!(early, Err(draining.into()));
        let receive = |pair: &mut Pair<_>, n| {
            let into = pair.side(1).incoming();
            let sge = pair.side(1).sge(into, 4096);
            pair.side(1).post_recv(0, n, &[sge]).expect("posted");
        };
        for n in 0..BURST {
            receive(pair, n);
        }
        pair.until("the end of the drain", |pair| {
            let side = pair.side(0);
            let queried = side.control.query_qp(&side.qps[0], asked);
            !queried.expect("asked").sq_draining
        });
        let number = pair.number(A);
        let reported = std::mem::take(&mut pair.side(0).drained);
        assert_eq!(reported, if notify { vec![number] } else { vec![] });
        // What completed by now is all that does; the rest waits.
        pair.during(Ns::from_ms(2));
        let before = pair.side(0).done.len();
        send(pair, A, BURST, 0, 4096, true);
        receive(pair, BURST);
        pair.during(Ns::from_ms(2));
        assert_eq!(pair.side(0).done.len(), before, "nothing new is begun");
        let side = pair.side(0);
        side.control
            .modify_qp(&mut side.qps[0], &rts)
            .expect("back to RTS");
        for side in 0..2 {
            let wcs = pair.completions(side, BURST as usize + 1);
            let ids: Vec<u64> = wcs.iter().map(|wc| wc.wr_id).collect();
            assert_eq!(ids, (0..=BURST).collect::<Vec<_>>());
            assert!(wcs.iter().all(|wc| wc.status == WcStatus::Success));
        }
    }
}

/// In SQD a path to nobody is given, and then the right one again. The device is
/// told on the way back to RTS and answers the peer meanwhile as before.
pub fn new_path_while_drained(pair: &mut Pair<impl Platform>) {
    let [_, to_rtr, _] = pair.steps(A);
    let right = to_rtr.path.expect("a path");
    let nobody = Path {
        destination_mac: MacAddr([2, 0xAA, 0, 0, 0, 9]),
        ..right
    };
    pair.transfer(A, &Transfer::new(Kind::Send, 100));
    for path in [nobody, right] {
        let side = pair.side(0);
        if side.qps[0].state() == QpState::Rts {
            side.control
                .modify_qp(&mut side.qps[0], &QpAttr::to_sqd(false))
                .expect("to SQD");
            pair.until("the end of the drain", |pair| {
                let side = pair.side(0);
                let queried = side.control.query_qp(&side.qps[0], e810::AttrMask::empty());
                !queried.expect("asked").sq_draining
            });
        }
        let side = pair.side(0);
        let change = QpAttr {
            path: Some(path),
            ..QpAttr::default()
        };
        side.control
            .modify_qp(&mut side.qps[0], &change)
            .expect("a path");
        let sge = side.sge(side.incoming(), 64);
        side.post_recv(0, 7, &[sge]).expect("posted");
        send(pair, B, 8, 0, 64, true);
        for side in 0..2 {
            let wc = pair.completions(side, 1);
            assert!(wc.iter().all(|wc| wc.status == WcStatus::Success));
        }
        assert_eq!(pair.side(0).qps[0].state(), QpState::Sqd);
    }
    let side = pair.side(0);
    let rts = QpAttr {
        state: Some(QpState::Rts),
        ..QpAttr::default()
    };
    side.control
        .modify_qp(&mut side.qps[0], &rts)
        .expect("back to RTS");
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        pair.transfer(A, &Transfer::new(kind, 5000));
        pair.transfer(B, &Transfer::new(kind, 5000));
    }
}

/// A queue pair is reset from every state and connected again under its number;
/// what it had outstanding never appears.
pub fn begun_anew(pair: &mut Pair<impl Platform>) {
    let asked = e810::AttrMask::all();
    for round in 0..6u64 {
        let number = pair.number(A);
        // Something everywhere: unanswered, done and not polled, flushed.
        for n in 0..4 {
            let sge = pair.side(0).sge(0, 64);
            pair.side(0).post_recv(0, 100 + n, &[sge]).expect("posted");
        }
        let sge = pair.side(0).sge(0, 100);
        let list = [0, 1, 2].map(|wr_id| SendWr {
            wr_id,
            op: Op::Send {
                data: Data::Sges(std::slice::from_ref(&sge)),
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        });
        if round > 0 {
            // The peer has no receive: they wait for it.
            pair.side(0).post_send(0, &list).expect("posted");
        }
        match round {
            2 => pair.during(Ns::from_ms(1)),
            3 | 4 => {
                let side = pair.side(0);
                side.control
                    .modify_qp(&mut side.qps[0], &QpAttr::to_error())
                    .expect("to ERR");
                if round == 4 {
                    pair.completions(0, 7);
                }
            }
            5 => {
                let side = pair.side(0);
                side.control
                    .modify_qp(&mut side.qps[0], &QpAttr::to_sqd(true))
                    .expect("to SQD");
            }
            _ => {}
        }
        let discarded = reset(pair);
        let sends = if round == 0 || round == 4 { 0 } else { 3 };
        let receives = if round == 4 { 0 } else { 4 };
        assert_eq!(discarded, DroppedWrs { sends, receives }, "round {round}");
        assert_eq!(pair.number(A), number);
        let side = pair.side(0);
        let queried = side.control.query_qp(&side.qps[0], asked).expect("asked");
        assert_eq!(queried.attr.state, Some(QpState::Reset));
        let only = QpAttr {
            state: Some(QpState::Reset),
            cur_state: Some(QpState::Reset),
            caps: Some(queried.init.caps),
            ..QpAttr::default()
        };
        assert_eq!(queried.attr, only, "nothing of before");
        pair.during(Ns::from_ms(30));
        assert_eq!(pair.side(0).take(), [], "round {round}");
        // The peer expects other PSNs by now: it starts over too.
        pair.renew(B);
        pair.side(1).take();
        pair.connect(A);
        pair.connect(B);
        for kind in [Kind::Send, Kind::Write, Kind::Read] {
            pair.transfer(A, &Transfer::new(kind, 5000));
            pair.transfer(B, &Transfer::new(kind, 5000));
        }
    }
    for side in &mut pair.sides {
        side.drained.clear();
        side.reported.clear();
    }
}

/// RESET of queue pair 0 of the first side, with its CQs.
pub fn reset(pair: &mut Pair<impl Platform>) -> DroppedWrs {
    let side = pair.side(0);
    let qp = side.qps.first_mut().expect("a QP");
    let mut cqs: Vec<_> = side.cqs.iter_mut().collect();
    side.control.reset_qp(qp, &mut cqs).expect("reset")
}

/// Receives that complete elsewhere than sends.
#[must_use]
pub fn separate() -> Setup {
    Setup {
        separate_cqs: true,
        ..Setup::default()
    }
}

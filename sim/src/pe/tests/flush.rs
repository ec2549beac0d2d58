//! FLUSH_WQES: outstanding requests are completed, in either style.

use super::engine_pair::{ALL_RIGHTS, BYTES, PD, VA, header};
use super::qp::{FLUSH_RQ, FLUSH_SQ, TestQp};
use super::test_driver::{Done, GOOD, TestDriver};
use crate::pe::Config;
use crate::variation::{ErrorRefused, FlushQpId, FlushStyle, NothingToFlush, Variation};

/// "Flush, no WQE pending" (control-path 4.5).
const NOTHING: Done = Done {
    error: true,
    major: 0xFFFF,
    minor: 0x8006,
    ..GOOD
};
/// "Invalid state".
const STATE: Done = Done {
    minor: 0x8002,
    ..NOTHING
};

fn card(variation: Variation) -> TestDriver {
    TestDriver::ready(Config {
        variation,
        ..Config::default()
    })
}

/// The findings so far, by name.
fn lints(driver: &mut TestDriver) -> Vec<&'static str> {
    let found = std::mem::take(&mut driver.env.findings);
    found.into_iter().map(|finding| finding.1).collect()
}

/// Three unsignaled or signaled entries (one a NOP) and two receives are outstanding when the QP
/// goes to ERROR.
fn flush(style: FlushStyle) -> (Vec<[u64; 4]>, Vec<[u64; 4]>, u16) {
    let mut driver = TestDriver::ready(Config {
        variation: Variation {
            flush: style,
            ..Variation::default()
        },
        ..Config::default()
    });
    let mut qp = TestQp::create(&mut driver, 3, PD, 1);
    let (stag, _) = driver.register(9, PD, VA, BYTES, ALL_RIGHTS);
    for _ in 0..2 {
        qp.post_receive(&mut driver, VA, 100, stag);
    }
    qp.post(&mut driver, 3, (VA, 8, stag), (0, 0));
    qp.put(&mut driver, [0, 0, 0, 0x0c << 32], false);
    qp.post(&mut driver, 0, (VA, 8, stag), (VA, 1));
    qp.to_error(&mut driver);
    // The device flushes nothing by itself.
    assert!(qp.send.poll(&mut driver.env).is_none());
    let done = qp.flush(&mut driver, FLUSH_SQ | FLUSH_RQ);
    assert!(!done.error);
    let mut drain = |cq: &mut super::test_driver::TestCq| {
        let mut all = Vec::new();
        while let Some((cqe, _)) = cq.poll(&mut driver.env) {
            all.push(cqe);
        }
        all
    };
    let (send, receive) = (drain(&mut qp.send), drain(&mut qp.receive));
    // Entries are flushed once: another flush finds nothing until something is posted again.
    assert_eq!(driver.env.findings, []);
    assert_eq!(qp.flush(&mut driver, FLUSH_SQ | FLUSH_RQ), NOTHING);
    assert_eq!(lints(&mut driver), ["flush-again", "flush-again"]);
    qp.post(&mut driver, 3, (VA, 8, stag), (0, 0));
    assert_eq!(qp.flush(&mut driver, FLUSH_SQ).minor, 3);
    assert_eq!(
        header(qp.send.poll(&mut driver.env).unwrap().0),
        (3, 3, true, 1, 5)
    );
    qp.post_receive(&mut driver, VA, 100, stag);
    assert_eq!(qp.flush(&mut driver, FLUSH_RQ).minor, 2);
    assert_eq!(driver.env.findings, []);
    (send, receive, done.minor)
}

#[test]
fn flush_reports_one_cqe_a_queue() {
    let (send, receive, minor) = flush(FlushStyle::PerQueue);
    assert!(!matches!(minor, 0 | 2 | 3));
    // MAJERR 1, MINERR from the command: 5 for the SQ, 1 for the RQ.
    assert_eq!(
        send.iter().map(|cqe| header(*cqe)).collect::<Vec<_>>(),
        [(0, 3, true, 1, 5)]
    );
    assert_eq!(
        receive.iter().map(|cqe| header(*cqe)).collect::<Vec<_>>(),
        [(0, 0, true, 1, 1)]
    );
}

#[test]
fn flush_reports_one_cqe_an_entry_without_nops() {
    let (send, receive, _) = flush(FlushStyle::PerWqe);
    let send: Vec<_> = send.iter().map(|cqe| header(*cqe)).collect();
    assert_eq!(send, [(0, 3, true, 1, 5), (2, 0, true, 1, 5)]);
    let receive: Vec<_> = receive.iter().map(|cqe| header(*cqe).0).collect();
    assert_eq!(receive, [0, 1]);
}

#[test]
fn flush_completions_name_their_queue_pair_or_none() {
    for (choice, named) in [(FlushQpId::Present, 3), (FlushQpId::Zero, 0)] {
        let mut driver = card(Variation {
            flush_qp_id: choice,
            ..Variation::default()
        });
        let mut qp = TestQp::create(&mut driver, 3, PD, 1);
        let (stag, _) = driver.register(9, PD, VA, BYTES, ALL_RIGHTS);
        qp.post_receive(&mut driver, VA, 100, stag);
        qp.to_error(&mut driver);
        qp.flush(&mut driver, FLUSH_RQ);
        let (cqe, _) = qp.receive.poll(&mut driver.env).unwrap();
        assert_eq!(cqe[2] >> 32 & 0xFF_FFFF, named, "{cqe:x?}");
    }
}

#[test]
fn nothing_to_flush_is_refused_or_done() {
    for (choice, answer) in [
        (NothingToFlush::Refused, NOTHING),
        (NothingToFlush::Done, GOOD),
    ] {
        let mut driver = card(Variation {
            nothing_to_flush: choice,
            ..Variation::default()
        });
        let qp = TestQp::create(&mut driver, 3, PD, 1);
        qp.connect(&mut driver);
        qp.to_error(&mut driver);
        assert_eq!(qp.flush(&mut driver, FLUSH_SQ | FLUSH_RQ), answer);
        assert_eq!(driver.env.findings, []);
    }
}

#[test]
fn error_from_where_there_is_no_need_is_refused_or_done() {
    for (choice, of_idle, answer) in [
        (ErrorRefused::Again, GOOD, STATE),
        (ErrorRefused::Known, STATE, STATE),
        (ErrorRefused::Always, STATE, STATE),
        (ErrorRefused::Never, GOOD, GOOD),
    ] {
        let mut driver = card(Variation {
            error_refused: choice,
            ..Variation::default()
        });
        let idle = TestQp::create(&mut driver, 3, PD, 1);
        assert_eq!(idle.modify(&mut driver, 6, 0), of_idle);
        // The driver requested it, so no more can be expected of it.
        idle.flush(&mut driver, FLUSH_SQ | FLUSH_RQ);
        assert_eq!(idle.destroy(&mut driver), GOOD);
        let qp = TestQp::create(&mut driver, 4, PD, 1);
        qp.connect(&mut driver);
        qp.to_error(&mut driver);
        assert_eq!(driver.env.findings, []);
        assert_eq!(qp.modify(&mut driver, 6, 0), answer);
        // Two threads of a driver may send the request twice.
        assert_eq!(driver.env.findings, []);
    }
}

/// Linux flushes a queue pair that it has drained, and programs return it to RTS. The flushed
/// entries are then not executed, and not flushed a second time.
#[test]
fn a_queue_pair_that_was_flushed_in_sqd_goes_on_behind() {
    for is_datagram in [false, true] {
        let mut driver = card(Variation {
            flush: FlushStyle::PerWqe,
            ..Variation::default()
        });
        let create = if is_datagram {
            TestQp::create_ud
        } else {
            TestQp::create
        };
        let mut qp = create(&mut driver, 3, PD, 1);
        let (stag, _) = driver.register(9, PD, VA, BYTES, ALL_RIGHTS);
        qp.connect(&mut driver);
        assert_eq!(qp.modify(&mut driver, 3, 0), GOOD);
        for _ in 0..2 {
            qp.post_receive(&mut driver, VA, 100, stag);
            qp.post(&mut driver, 3, (VA, 8, stag), (0, 0));
        }
        assert_eq!(qp.flush(&mut driver, FLUSH_SQ | FLUSH_RQ).minor, 4);
        for cq in [&mut qp.send, &mut qp.receive] {
            let flushed = core::iter::from_fn(|| cq.poll(&mut driver.env)).count();
            assert_eq!(flushed, 2);
        }
        let frames = driver.env.frames.len();
        // CQNUMVALID, ARPTABIDXVALID and ORDVALID.
        let flags = 1 << 47 | 1 << 59 | 1 << 42;
        assert_eq!(qp.modify(&mut driver, 2, flags), GOOD);
        qp.doorbell(&mut driver);
        driver.settle();
        assert_eq!(driver.env.frames.len(), frames);
        if !is_datagram {
            qp.post(&mut driver, 3, (VA, 8, stag), (0, 0));
            qp.doorbell(&mut driver);
            driver.settle();
            assert_eq!(driver.env.frames.len(), frames + 1);
        }
        qp.post_receive(&mut driver, VA, 100, stag);
        qp.to_error(&mut driver);
        qp.flush(&mut driver, FLUSH_SQ | FLUSH_RQ);
        let (cqe, _) = qp.receive.poll(&mut driver.env).unwrap();
        assert_eq!(header(cqe).0, 2, "the third");
        assert_eq!(driver.env.findings, []);
    }
}

/// The kernel's users do this with a queue pair whose connection was refused: its posted receives
/// come back.
#[test]
fn an_idle_queue_pair_can_be_drained() {
    let mut driver = TestDriver::ready(Config::default());
    let mut qp = TestQp::create(&mut driver, 3, PD, 1);
    let (stag, _) = driver.register(9, PD, VA, BYTES, ALL_RIGHTS);
    qp.post_receive(&mut driver, VA, 100, stag);
    assert_eq!(qp.modify(&mut driver, 6, 0), GOOD);
    assert_eq!(qp.flush(&mut driver, FLUSH_RQ).minor, 2);
    assert!(qp.receive.poll(&mut driver.env).is_some());
    assert_eq!(qp.destroy(&mut driver), GOOD);
    assert_eq!(driver.env.findings, []);
}

#[test]
fn a_queue_pair_at_work_is_not_destroyed() {
    let mut driver = TestDriver::ready(Config::default());
    let idle = TestQp::create(&mut driver, 3, PD, 1);
    assert_eq!(idle.destroy(&mut driver), GOOD);
    let ended = TestQp::create(&mut driver, 4, PD, 1);
    ended.connect(&mut driver);
    ended.to_error(&mut driver);
    assert_eq!(ended.destroy(&mut driver), GOOD);
    // A side that only responds is never moved to RTS; Linux' irdma destroys it as it is.
    let answering = TestQp::create(&mut driver, 2, PD, 1);
    answering.to_rtr(&mut driver);
    assert_eq!(answering.destroy(&mut driver), GOOD);
    assert_eq!(driver.env.findings, []);
    let at_work = TestQp::create(&mut driver, 5, PD, 1);
    at_work.connect(&mut driver);
    assert_eq!(at_work.destroy(&mut driver), GOOD);
    assert_eq!(lints(&mut driver), ["qp-destroy-state"]);
}

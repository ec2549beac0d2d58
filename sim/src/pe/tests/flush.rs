//! FLUSH_WQES: what is outstanding comes back, in either style.

use super::pair::{ALL_RIGHTS, BYTES, PD, VA, header};
use super::qp::{FLUSH_RQ, FLUSH_SQ, TestQp};
use super::rig::{GOOD, Rig};
use crate::pe::Config;
use crate::variation::{FlushStyle, Variation};

/// Three unsignaled or signaled entries (one a NOP) and two receives are outstanding when the QP goes to ERROR.
fn flush(style: FlushStyle) -> (Vec<[u64; 4]>, Vec<[u64; 4]>, u16) {
    let mut rig = Rig::ready(Config {
        variation: Variation {
            flush: style,
            ..Variation::default()
        },
        ..Config::default()
    });
    let mut qp = TestQp::create(&mut rig, 3, PD, 1);
    let (stag, _) = rig.register(9, PD, VA, BYTES, ALL_RIGHTS);
    for _ in 0..2 {
        qp.post_receive(&mut rig, VA, 100, stag);
    }
    qp.post(&mut rig, 3, (VA, 8, stag), (0, 0));
    qp.put(&mut rig, [0, 0, 0, 0x0c << 32], false);
    qp.post(&mut rig, 0, (VA, 8, stag), (VA, 1));
    qp.to_error(&mut rig);
    // The device by itself flushes nothing.
    assert!(qp.send.poll(&mut rig.env).is_none());
    let done = qp.flush(&mut rig, FLUSH_SQ | FLUSH_RQ);
    assert!(!done.error);
    let mut drain = |cq: &mut super::rig::TestCq| {
        let mut all = Vec::new();
        while let Some((cqe, _)) = cq.poll(&mut rig.env) {
            all.push(cqe);
        }
        all
    };
    let (send, receive) = (drain(&mut qp.send), drain(&mut qp.receive));
    // Flushed is flushed: another one finds nothing until something is posted again.
    assert_eq!(qp.flush(&mut rig, FLUSH_SQ | FLUSH_RQ), GOOD);
    qp.post(&mut rig, 3, (VA, 8, stag), (0, 0));
    assert_eq!(qp.flush(&mut rig, FLUSH_SQ | FLUSH_RQ).minor, 3);
    assert_eq!(
        header(qp.send.poll(&mut rig.env).unwrap().0),
        (3, 3, true, 1, 5)
    );
    qp.post_receive(&mut rig, VA, 100, stag);
    assert_eq!(qp.flush(&mut rig, FLUSH_RQ).minor, 2);
    assert_eq!(rig.env.findings, []);
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

//! Failures reported by several threads, and to a queue pair that goes.

use e810_datapath::slot::{Cause, Marked};
use e810_datapath::{QpState, Wc};
use e810_types::FlushCode;
use loom::thread;

use crate::model;
use crate::rig::rig;

/// Two event handlers and control: a failure is attended to exactly once, with
/// one of the causes, and never comes back to life.
#[test]
fn a_failure_is_handled_once() {
    model(|| {
        let mut rig = rig();
        let (qp, _recv, _ring) = rig.open();
        let handlers: Vec<_> = [2, 3]
            .into_iter()
            .map(|code| {
                let slots = rig.registry.slots().clone();
                thread::spawn(move || {
                    let cause = Cause {
                        queue: None,
                        code: FlushCode(code),
                    };
                    slots.mark_failed(qp, cause)
                })
            })
            .collect();
        let early = rig.registry.take_attention();
        let modified = rig.registry.set_state(qp, QpState::Rts);
        let marks: Vec<Marked> = handlers.into_iter().map(|h| h.join().unwrap()).collect();
        assert_eq!(marks.iter().filter(|mark| **mark == Marked::Now).count(), 1);
        let late = rig.registry.take_attention();
        assert_eq!(early.iter().chain(&late).count(), 1);
        assert_eq!(rig.registry.slots().qp_state(qp), Some(QpState::Err));
        assert!(early.is_none() || modified.is_err());
    });
}

/// A failure racing with the QP's destruction: it finds the QP or it does not,
/// and the slot is free in the end.
#[test]
fn a_failure_does_not_hit_the_next_qp() {
    model(|| {
        let mut rig = rig();
        let (old, recv, _ring) = rig.open();
        let slots = rig.registry.slots().clone();
        let handler = thread::spawn(move || {
            let cause = Cause {
                queue: None,
                code: FlushCode(2),
            };
            slots.mark_failed(old, cause)
        });
        drop(recv);
        rig.registry.hide_qp(old).unwrap();
        rig.registry.retire(old).unwrap();
        assert_eq!(rig.cq.poll(&mut [Wc::default()]), 0);
        let early = rig.registry.reap();
        if early.is_some() {
            let (new, _recv, _ring) = rig.open();
            assert_ne!(handler.join().unwrap(), Marked::Now);
            assert_eq!(rig.registry.slots().qp_state(new), Some(QpState::Rts));
            assert_eq!(rig.registry.take_attention(), None);
        } else {
            assert_eq!(handler.join().unwrap(), Marked::Now);
            assert_eq!(rig.registry.take_attention(), None, "the dead get none");
            assert_eq!(rig.registry.reap(), Some(0));
        }
    });
}

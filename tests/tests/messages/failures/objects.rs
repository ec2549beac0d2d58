//! Objects outside the limits of the device.

use e810::{AccessFlags, QpCaps, QpInit};
use e810_tests::traffic::{Buffer, Kind, Pair, Setup, Transfer};

use crate::failures::requests::{A, sim};

/// `unwrap` of a refusal, and `dbg!`, show what a reader can use.
#[test]
fn objects_in_a_log_are_short() {
    let sim = sim(4);
    let pair = Pair::simulated(&sim, Setup::default());
    let a = pair.sides.into_iter().next().unwrap();
    let (qp, cq) = (&a.qps[0], &a.cqs[0]);
    let number = qp.number().get().to_string();
    for (what, text, part) in [
        ("Qp", format!("{qp:?}"), number.as_str()),
        ("Cq", format!("{cq:?}"), "entries"),
        ("Mr", format!("{:?}", a.mr), "stag"),
        ("Control", format!("{:?}", a.control), "qps: 1"),
        ("EventSet", format!("{:?}", a.events), "has_async: true"),
        ("a platform", format!("{:?}", sim.function(1)), "function 1"),
    ] {
        assert!(text.contains(part), "{what}: {text}");
        assert!(text.len() < 4096, "{what}: {} bytes", text.len());
    }
    let refused = a.control.shutdown(a.events).unwrap_err();
    let text = format!("{refused:?}");
    // The reason is not at the end of all that is given back.
    assert!(text.starts_with("ShutdownError { error: "), "{text:.200}");
    assert!(text.len() < 16_384, "{} bytes: {text:.4000}", text.len());
}

#[test]
fn objects_outside_the_limits() {
    let sim = sim(4);
    let mut pair = Pair::simulated(&sim, Setup::default());
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    for cqe in [0, 1_048_575, u32::MAX] {
        let error = side.control.create_cq(cqe, 0).unwrap_err();
        let e810::Error::Datapath(e810_datapath::Error::Size(size)) = error else {
            panic!("{error}");
        };
        assert_eq!((size.field, size.value), ("cqe", cqe.into()));
    }
    let good = Setup::default().caps;
    for (field, caps) in [
        (
            "max_send_wr",
            QpCaps {
                max_send_wr: 32_769,
                ..good
            },
        ),
        (
            "max_send_wr",
            QpCaps {
                max_send_wr: u32::MAX,
                ..good
            },
        ),
        (
            "max_recv_wr",
            QpCaps {
                max_recv_wr: 32_769,
                ..good
            },
        ),
        (
            "max_recv_wr",
            QpCaps {
                max_recv_wr: u32::MAX,
                ..good
            },
        ),
        (
            "max_send_sge",
            QpCaps {
                max_send_sge: 14,
                ..good
            },
        ),
        (
            "max_recv_sge",
            QpCaps {
                max_recv_sge: 14,
                ..good
            },
        ),
        (
            "max_inline_data",
            QpCaps {
                max_inline: 102,
                ..good
            },
        ),
    ] {
        let init = QpInit::rc(&side.cqs[0], &side.cqs[0], caps);
        let error = side.control.create_qp(&side.pd, &init).unwrap_err();
        let e810::Error::Datapath(e810_datapath::Error::Size(size)) = error else {
            panic!("{field}: {error}");
        };
        assert_eq!(size.field, field);
    }
    // No memory, no right that goes with it.
    let buffer = Buffer::new(4096);
    let nothing = buffer.bytes().window(0, 0).unwrap();
    let access = AccessFlags::LOCAL_WRITE;
    let empty = side.control.reg_mr(&side.pd, nothing, access);
    assert!(
        matches!(empty, Err(e810::Error::OutOfRange { .. })),
        "{empty:?}"
    );
    let remote = AccessFlags::REMOTE_WRITE;
    let error = side.control.reg_mr(&side.pd, buffer.bytes(), remote);
    assert!(matches!(error, Err(e810::Error::Invalid { .. })));
    assert_eq!(
        side.control.commands(),
        commands,
        "nothing was asked of the device"
    );
    pair.transfer(A, &Transfer::new(Kind::Read, 5000));
    pair.finish(&sim);
}

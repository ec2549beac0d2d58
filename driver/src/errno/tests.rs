use std::format;
use std::vec::Vec;

use e810_adminq::package::LoadFailed;
use e810_datapath::SlotError;
use e810_hal::{DmaError, NoHostMemory, Ns, WaitError};

use super::*;
use crate::error::Object;
use crate::unsupported::Unsupported;

const MAP: &str = include_str!("../../../docs/verbs.md");

/// Position of a variant; one that is new is missed here by the compiler.
const fn place(error: &Error) -> usize {
    match error {
        Error::Adminq(_) => 0,
        Error::HalfConfigured(_) => 1,
        Error::Cqp(_) => 2,
        Error::Datapath(_) => 3,
        Error::Ceq(_) => 4,
        Error::Lan(_) => 5,
        Error::Wait(_) => 6,
        Error::Dma(_) => 7,
        Error::HostMemory(_) => 8,
        Error::NoDoorbells { .. } => 9,
        Error::Exhausted { .. } => 10,
        Error::InUse { .. } => 11,
        Error::Unacknowledged { .. } => 12,
        Error::ChannelClosed => 13,
        Error::Alive { .. } => 14,
        Error::NoVector { .. } => 15,
        Error::Foreign { .. } => 16,
        Error::OutOfRange { .. } => 17,
        Error::NoSuch { .. } => 18,
        Error::NotOffered(_) => 19,
        Error::Invalid { .. } => 20,
        Error::QueueSet { .. } => 21,
        Error::NotForgotten { .. } => 22,
    }
}

const VARIANTS: usize = 23;

fn all() -> Vec<(Error, &'static str, i32)> {
    let (object, id) = (Object::Cq, 7);
    let no_package = e810_adminq::Error::NoPackage;
    let half = LoadFailed {
        error: e810_adminq::Error::Locked {
            what: "x",
            limit_ms: 1,
        },
        lock_is_used_up: true,
    };
    let busy = SlotError::Busy { object: "QP", id };
    let timeout = WaitError::Timeout {
        label: "x",
        limit: Ns(1),
    };
    let dma = DmaError::OutOfMemory { bytes: 1, align: 1 };
    let (held, spare, most) = (1, 0, 1);
    let (traffic_class, qs_handle) = (0, 0);
    let (value, min, max) = (9, 0, 1);
    std::vec![
        (no_package.into(), "ENOENT", 2),
        (Error::HalfConfigured(half), "EBUSY", 16),
        (e810_cqp::Error::NoCcq.into(), "EINVAL", 22),
        (e810_datapath::Error::from(busy).into(), "EBUSY", 16),
        (e810_ceq::Error::AeqOverflow.into(), "EIO", 5),
        (e810_lan::Error::Full { frames: 1 }.into(), "ENOMEM", 12),
        (timeout.into(), "ETIMEDOUT", 110),
        (dma.into(), "ENOMEM", 12),
        (NoHostMemory { words: 1 }.into(), "ENOMEM", 12),
        (Error::NoDoorbells { size: 0 }, "EOPNOTSUPP", 95),
        (Error::Exhausted { object, limit: 1 }, "ENOMEM", 12),
        (
            Error::InUse {
                object,
                id,
                users: 1
            },
            "EBUSY",
            16
        ),
        (Error::Unacknowledged { cq: id, events: 1 }, "EBUSY", 16),
        (Error::ChannelClosed, "EIO", 5),
        (Error::Alive { object, count: 1 }, "EBUSY", 16),
        (Error::NoVector { held, spare, most }, "ENOSPC", 28),
        (Error::Foreign { object, id }, "EINVAL", 22),
        (
            Error::OutOfRange {
                what: "x",
                value,
                min,
                max
            },
            "EINVAL",
            22
        ),
        (Error::NoSuch { object, id }, "EINVAL", 22),
        (Unsupported::Srq.into(), "EOPNOTSUPP", 95),
        (Error::Invalid { what: "x" }, "EINVAL", 22),
        (
            Error::QueueSet {
                qs_handle,
                traffic_class
            },
            "EIO",
            5
        ),
        (Error::NotForgotten { destroyed: 1 }, "ENOMEM", 12),
    ]
}

#[test]
fn each_error_has_the_number_that_the_page_says() {
    let places: Vec<usize> = all().iter().map(|(error, ..)| place(error)).collect();
    assert_eq!(places, (0..VARIANTS).collect::<Vec<_>>());
    for (error, name, number) in all() {
        assert_eq!(error.errno(), number, "{error:?}");
        let debug = format!("{error:?}");
        let variant: &str = debug.split([' ', '(']).next().unwrap_or_default();
        let row = format!("| {name} | {number} | ");
        let row = MAP.lines().find(|line| line.starts_with(&row)).unwrap();
        // Those of other parts have more than one number: the page names the parts.
        let named = format!("`Error::{variant}`");
        assert!(place(&error) < 9 || row.contains(&named), "{named}: {row}");
        assert!(place(&error) >= 9 || MAP.contains(&named), "{named}");
    }
}

/// What other parts say keeps its number on the way.
#[test]
fn numbers_of_other_parts_are_handed_on() {
    let gone = WaitError::DeviceGone { label: "x" };
    for error in [
        Error::Wait(gone),
        e810_cqp::Error::Wait(gone).into(),
        e810_adminq::Error::Wait(gone).into(),
    ] {
        assert_eq!(error.errno(), 19, "{error:?}");
    }
    // Why memory was not mapped has numbers of its own, and rows that say so.
    let (address, bytes, access) = (0x1000, 4096, e810_hal::Access::Read);
    for (dma, number, named) in [
        (
            DmaError::NotAccessible {
                address,
                bytes,
                access,
            },
            14,
            "EFAULT | 14 | memory that is not there",
        ),
        (
            DmaError::NoFile { address, bytes },
            95,
            "`DmaError::NoFile`",
        ),
        (DmaError::TooManyMappings { bytes }, 12, "| ENOMEM | 12 |"),
    ] {
        assert_eq!(Error::from(dma).errno(), number, "{dma:?}");
        assert!(MAP.contains(named), "{named}");
    }
    let (object, limit) = (Object::Arp, 255);
    assert_eq!(Error::Exhausted { object, limit }.errno(), 105);
    assert!(MAP.contains("| ENOBUFS | 105 | all entries of the card's ARP table"));
    let pbles = e810_cqp::Error::NoPbles { wanted: 2, free: 1 };
    assert_eq!(Error::from(pbles).errno(), 12);
    let interval = e810_ceq::Error::Interval { us: 3, max: 2 };
    assert_eq!(Error::from(interval).errno(), 22);
    let draining = e810_datapath::state::TransitionError::Draining;
    assert_eq!(
        Error::from(e810_datapath::Error::from(draining)).errno(),
        16
    );
    let stage = StageError {
        stage: crate::stage::Stage::Adminq,
        error: Error::Wait(gone),
        undo: Some(Error::ChannelClosed),
    };
    assert_eq!(stage.errno(), 19);
    // What a `main` that gives it shows: its text, with what undoing met.
    let undo = Error::ChannelClosed;
    assert_eq!(
        format!("{stage:?}"),
        format!("{stage}; while undoing that: {undo}")
    );
    let stage = StageError {
        undo: None,
        ..stage
    };
    assert_eq!(format!("{stage:?}"), format!("{stage}"));
}

//! Members of a group that cannot receive its packets.

use super::qp::TestQp;
use super::test_driver::{GOOD, TestDriver};
use crate::pe::Config;
use crate::variation::{GroupQueueSet, Variation};
use crate::wire::{Addresses, Bth, Deth, Frame, Headers, Opcode, Path};

const GROUP: [u8; 4] = [239, 1, 2, 3];

/// A datagram to the group, with a Q_Key that no member has.
fn packet() -> Vec<u8> {
    let mut headers = Headers::new(Bth::new(Opcode::UD_SEND_ONLY, 0xFF_FFFF, 0));
    headers.deth = Some(Deth {
        qkey: 77,
        src_qp: 9,
    });
    let path = Path {
        ip: Addresses::V4 {
            src: [10, 0, 0, 2].into(),
            dst: GROUP.into(),
        },
        ..Path::default()
    };
    Frame::new(&path, &headers, 0).unwrap().seal()
}

#[test]
fn a_member_that_cannot_take_datagrams_is_named() {
    let mut driver = TestDriver::ready(Config::default());
    let datagrams = TestQp::create_ud(&mut driver, 3, 7, 1);
    datagrams.connect(&mut driver);
    let connection = TestQp::create(&mut driver, 2, 7, 1);
    let context = driver.env.alloc(4096, 4096);
    // VALIDENT [31]. QP 0 does not exist.
    for (n, member) in [3, 2, 0].into_iter().enumerate() {
        driver
            .env
            .set_word(context + 8 * n as u64, member | 1 << 31);
    }
    let ip = u64::from(u32::from_be_bytes(GROUP));
    let group = [0x0100_5e01_0203, 0, 0, 1 << 60 | 1, context, 0, ip, 0];
    assert_eq!(driver.command(0x26, group), GOOD);
    driver.engine.receive(&packet(), &mut driver.env);
    driver.settle();
    // MCG_QP_PROTOCOL_MISMATCH of the connection, ROCE_BAD_MC_QPID of the one that is not there.
    let event = |n| driver.aeqe(n).map(|event| (event.0, event.1, event.2));
    assert_eq!(event(0), Some((0x0383, connection.id, 0)));
    assert_eq!(event(1), Some((0x0382, 0, 0)));
    assert_eq!(event(2), None);
    assert_eq!(driver.env.word(driver.aeq), 0xc0de_0002);
    assert_eq!(driver.env.word(driver.aeq + 16), 0);
    assert_eq!(driver.env.findings, []);
}

/// A group whose queue set the scheduler does not know: a choice decides whether that matters.
#[test]
fn a_group_without_its_queue_set() {
    for (choice, member_is_missed) in [
        (GroupQueueSet::Needed, false),
        (GroupQueueSet::Ignored, true),
    ] {
        let variation = Variation {
            group_queue_set: choice,
            ..Variation::default()
        };
        let mut driver = TestDriver::ready(Config {
            variation,
            ..Config::default()
        });
        let context = driver.env.alloc(4096, 4096);
        // QP 0 does not exist: an event shows that the packet reached the members.
        driver.env.set_word(context, 1 << 31);
        let ip = u64::from(u32::from_be_bytes(GROUP));
        let group = [0x0100_5e01_0203, 0, 5, 1 << 60 | 1, context, 0, ip, 0];
        assert_eq!(driver.command(0x26, group), GOOD);
        driver.env.no_queue_set = true;
        driver.engine.receive(&packet(), &mut driver.env);
        driver.settle();
        assert_eq!(driver.aeqe(0).is_some(), member_is_missed, "{choice:?}");
    }
}

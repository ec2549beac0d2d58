//! Completion entries.

use super::*;

#[test]
fn a_send_completion_word_by_word() {
    let cqe = Cqe {
        context: 0x1122_3344_5566_7788,
        qp_id: 0x00AB_CDEF,
        psn: 0x12_3456,
        wqe_index: 0x7FFF,
        op: 0x0d,
        send_queue: true,
        ..Cqe::default()
    };
    let entries = cqe.encode(true, false);
    assert_eq!(
        entries.main,
        [
            0x0012_3456_0000_0000,
            0x1122_3344_5566_7788,
            0x00AB_CDEF_0000_0000,
            // VALID | SQ | OP 0x0d | WQEIDX
            0xCD00_7FFF_0000_0000,
        ]
    );
    assert_eq!(entries.extension, None);
    assert_eq!(cqe.slots(), 1);
    assert_eq!(cqe.encode(false, false).main[3], 0x4D00_7FFF_0000_0000);
}

#[test]
fn a_receive_with_immediate_takes_two_entries() {
    let cqe = Cqe {
        payload_len: 0x1000,
        qp_id: 3,
        wqe_index: 4,
        op: 0x0b,
        solicited: true,
        immediate: Some(0xCAFE_F00D),
        ..Cqe::default()
    };
    assert_eq!(cqe.slots(), 2);
    let entries = cqe.encode(true, false);
    assert_eq!(
        entries.main,
        [
            0x1000,
            0,
            3 << 32,
            VALID | 0x0b << 56 | 1 << 54 | 1 << 50 | 4 << 32
        ]
    );
    // The extension starts the next lap: its valid bit is the other one. Bit 62 says the immediate
    // is there.
    assert_eq!(entries.extension, Some([0xCAFE_F00D, 0, 0, 1 << 62]));
}

#[test]
fn an_invalidated_stag_and_an_error() {
    let cqe = Cqe {
        invalidated: Some(0x8765_4321),
        op: 0x17,
        ..Cqe::default()
    };
    assert_eq!(
        cqe.encode(true, true).main,
        [0, 0, 0x8765_4321, VALID | 0x17 << 56 | 1 << 53]
    );
    let cqe = Cqe {
        error: true,
        major: 1,
        minor: 0xB,
        push_dropped: true,
        ..Cqe::default()
    };
    assert_eq!(
        cqe.encode(true, true).main[3],
        VALID | 1 << 55 | 1 << 51 | 1 << 16 | 0xB
    );
}

#[test]
fn a_datagram_names_its_source() {
    let datagram = Datagram {
        src_qp: 0x12_3456,
        ipv4: true,
        src_mac: Some([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]),
        vlan: Some(0xE00A),
    };
    let entries = Cqe {
        datagram: Some(datagram),
        op: 0x24,
        ..Cqe::default()
    }
    .encode(true, true);
    assert_eq!(
        entries.main,
        [0, 0, 0x12_3456, VALID | 0x24 << 56 | 1 << 53 | 1 << 50]
    );
    assert_eq!(
        entries.extension,
        Some([0, 0, 0xE00A_0211_2233_4455, VALID | 1 << 61 | 1 << 60])
    );
}

//! Regions of large memory: pages as large as the memory's pieces allow.

use e810::{AccessFlags, Data, Op, Remote, SendFlags, SendWr, Sge, WcStatus};
use e810_sim::{DmaSegmentation, Sim};
use e810_tests::traffic::{Buffer, Pair, Setup, pattern};

use crate::verbs::A;

const KIB4: u64 = 4 << 10;
const MIB2: u64 = 2 << 20;
const GIB1: u64 = 1 << 30;

/// A region of `bytes` bytes that begins `into` bytes behind an address aligned
/// to `align`, written and read at its ends and at borders of pages; gives page
/// size and page list entries.
fn region(
    seed: u64,
    segments: DmaSegmentation,
    (align, into): (u64, u64),
    bytes: u64,
) -> (u64, u32) {
    let sim = Sim::builder()
        .functions(2)
        .seed(seed)
        .segmentation(segments)
        .build();
    let setup = Setup {
        buffer: 16 << 10,
        ..Setup::default()
    };
    let mut pair = Pair::simulated(&sim, setup);
    // Zeroed memory of the system that nobody touches is not there.
    let memory = Buffer::new((bytes + into + align) as usize);
    let start = memory.bytes().address().next_multiple_of(align) + into;
    let offset = (start - memory.bytes().address()) as usize;
    let window = memory.bytes().window(offset, bytes as usize).unwrap();
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    let side = &mut pair.sides[1];
    let mr = side.control.reg_mr(&side.pd, window, access).unwrap();
    let found = (mr.page_bytes(), mr.page_entries());

    let page = mr.page_bytes();
    let border = page - start % page;
    let places = [0, border, 3 * KIB4, bytes / 2, bytes - 1];
    for (serial, at) in (1..).zip(places) {
        let at = at.saturating_sub(1500).min(bytes - 3000);
        let message = pattern(serial, 3000);
        let remote = Remote {
            addr: mr.address() + at,
            rkey: mr.rkey(),
        };
        let here = &mut pair.sides[0];
        here.buffer.write(0, &message);
        let (from, into) = (here.sge(0, 3000), here.sge(8192, 3000));
        let requests = [
            Op::Write {
                data: Data::Sges(&[from]),
                remote,
                imm: None,
            },
            Op::Read {
                into: &[into],
                remote,
            },
        ];
        for op in requests {
            let request = SendWr {
                wr_id: serial,
                op,
                flags: SendFlags::SIGNALED,
            };
            pair.sides[A.side].post_send(A.qp, &[request]).unwrap();
            assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
        }
        let mut arrived = vec![0; 3000];
        window.read(at as usize, &mut arrived).unwrap();
        assert!(arrived == message, "at {at}");
        assert!(pair.sides[0].buffer.read(8192, 3000) == message);
    }
    // One byte past the end.
    let past = Sge {
        addr: mr.address() + bytes - 9,
        length: 10,
        lkey: mr.lkey(),
    };
    let request = SendWr {
        wr_id: 0,
        op: Op::Send {
            data: Data::Sges(&[past]),
            imm: None,
        },
        flags: SendFlags::SIGNALED,
    };
    pair.sides[1].post_send(0, &[request]).unwrap();
    assert_eq!(pair.completions(1, 1)[0].status, WcStatus::LocProtErr);
    let side = &mut pair.sides[1];
    side.control
        .dereg_mr(mr)
        .map_err(|(_, error)| error)
        .unwrap();
    pair.sides[1].reported.clear();
    pair.finish(&sim);
    found
}

#[test]
fn one_piece_needs_no_list() {
    assert_eq!(
        region(1, DmaSegmentation::Contiguous, (KIB4, 77), GIB1),
        (KIB4, 0)
    );
}

#[test]
fn pieces_of_2_mib_are_512_a_gib() {
    let segments = DmaSegmentation::Blocks(MIB2);
    assert_eq!(region(2, segments, (MIB2, 0), GIB1), (MIB2, 512));
    // It may begin and end inside a page.
    assert_eq!(region(3, segments, (MIB2, 5000), GIB1), (MIB2, 513));
}

#[test]
fn pieces_of_1_gib_are_one_entry_each() {
    let segments = DmaSegmentation::Blocks(GIB1);
    assert_eq!(region(4, segments, (GIB1, 0), 2 * GIB1), (GIB1, 2));
}

#[test]
fn pieces_of_4_kib_are_a_tree_where_one_list_has_no_room() {
    // 64 MiB: 16384 entries.
    let (page, entries) = region(5, DmaSegmentation::PerPage, (KIB4, 0), 64 << 20);
    assert_eq!((page, entries), (KIB4, 16_384));
}

#[test]
fn neighbours_are_one_piece() {
    // Blocks in no order: some may lie side by side, and are told apart by
    // nobody.
    let (page, entries) = region(6, DmaSegmentation::Blocks(32 << 10), (KIB4, 0), 1 << 20);
    assert_eq!((page, entries), (KIB4, 256));
}

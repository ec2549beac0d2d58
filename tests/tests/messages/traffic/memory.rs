//! Memory in pieces.

use e810::{Data, Op, SendFlags, SendWr, Sge, WcStatus};
use e810_sim::{DmaSegmentation, Sim};
use e810_tests::traffic::{Buffer, Pair, Setup, Transfer, pattern};

use crate::traffic::exchange::{A, B, KINDS, around, many};

#[test]
fn memory_cut_into_runs() {
    // 2 x 3 MiB are 1536 pages: one level of PBLEs covers 512.
    for (seed, segments, buffer) in [
        (40, DmaSegmentation::Contiguous, 6 << 20),
        (41, DmaSegmentation::PerPage, 64 << 10),
        (42, DmaSegmentation::Chunks, 1 << 20),
        (43, DmaSegmentation::PerPage, 6 << 20),
        (44, DmaSegmentation::Chunks, 6 << 20),
    ] {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .segmentation(segments)
            .build();
        let setup = Setup {
            buffer,
            ..Setup::default()
        };
        let mut pair = Pair::simulated(&sim, setup);
        let half = buffer / 2;
        for offset in [64, 4095, 4096 - 64, half / 2 + 3, half - 13_000] {
            for kind in KINDS {
                let transfer = Transfer {
                    offset,
                    pieces: 2,
                    ..Transfer::new(kind, 12_345)
                };
                pair.transfer(A, &transfer);
            }
        }
        pair.finish(&sim);
    }
}

#[test]
fn a_region_may_begin_inside_a_page() {
    for (seed, segments) in (45..).zip([
        DmaSegmentation::Contiguous,
        DmaSegmentation::PerPage,
        DmaSegmentation::Chunks,
    ]) {
        let sim = Sim::builder()
            .functions(2)
            .seed(seed)
            .segmentation(segments)
            .build();
        let mut pair = Pair::simulated(&sim, Setup::default());
        let memory = Buffer::new(5 * 4096);
        let bytes = pattern(seed, 3 * 4096);
        memory.write(1000, &bytes);
        let side = &mut pair.sides[0];
        let window = memory.bytes().window(1000, bytes.len()).unwrap();
        let mr = side
            .control
            .reg_mr(&side.pd, window, Setup::ACCESS)
            .unwrap();
        let sge = Sge {
            addr: mr.address(),
            length: mr.len() as u32,
            lkey: mr.lkey(),
        };
        let incoming = pair.sides[1].incoming();
        let remote = pair.remote(A, incoming);
        let request = SendWr {
            wr_id: 5,
            op: Op::Write {
                data: Data::Sges(&[sge]),
                remote,
                imm: None,
            },
            flags: SendFlags::SIGNALED,
        };
        pair.sides[0].post_send(0, &[request]).unwrap();
        assert_eq!(pair.completions(0, 1)[0].status, WcStatus::Success);
        assert!(pair.sides[1].buffer.read(incoming, bytes.len()) == bytes);
        let side = &mut pair.sides[0];
        side.control
            .dereg_mr(mr)
            .map_err(|(_, error)| error)
            .unwrap();
        pair.finish(&sim);
    }
}

#[test]
fn contexts_written_through_to_memory() {
    let sim = Sim::builder()
        .functions(2)
        .seed(50)
        .engine(|_, config| config.write_through = true)
        .build();
    let mut pair = Pair::simulated(&sim, Setup::default());
    around(1024, &mut pair, [A, B]);
    many(&mut pair, 200, 3);
    pair.finish(&sim);
}

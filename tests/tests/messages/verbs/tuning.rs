//! What a program says of windows, time-outs and READs in flight reaches the
//! device.

use e810::tuning::{CongestionControl, Dcqcn, Timely};
use e810::{Config, Error, Lan, MacAddr, QpInit, Tuning, VsiId, bring_up};
use e810_sim::{Sim, SimPlatform};
use e810_tests::traffic::{Kind, Pair, Setup, Side, Transfer, Watched};

use crate::verbs::{A, B, sim};

/// Bytes of the pool that a queue pair has.
const PAIR_BYTES: usize = 512;

fn lan(function: &SimPlatform) -> Lan {
    Lan {
        vsi: VsiId::new(function.vsi()).unwrap(),
        mac: MacAddr(function.mac()),
        mtu: 9000,
    }
}

pub(crate) fn pair(sim: &Sim, change: impl Fn(&mut Config)) -> Pair<Watched<SimPlatform>> {
    let setup = Setup::default();
    let side = |number| {
        let function = sim.function(number);
        let mut config = setup.config(lan(&function));
        change(&mut config);
        let platform = Watched::new(function);
        let device = bring_up(platform.clone(), &config, &mut |_| {}).unwrap();
        Side::on(device, platform, &setup)
    };
    Pair::connected(vec![side(0), side(1)], setup)
}

/// Words of a queue pair's host context.
fn context(side: &Side<Watched<SimPlatform>>, number: u32) -> Vec<u64> {
    let qps = side.control.query_device().max_qp as usize;
    let blocks = side.platform.blocks();
    // The pool of all contexts; a few numbers are reserved.
    let of_pool = |bytes: usize| bytes > qps * PAIR_BYTES && bytes < (qps + 8) * PAIR_BYTES;
    let pool = blocks
        .iter()
        .find(|block| block.align == PAIR_BYTES && of_pool(block.bytes))
        .unwrap();
    let first = number as usize * PAIR_BYTES / 8;
    (first..first + 32).map(|word| pool.get(word)).collect()
}

/// ACKCREDITS, CWNDROCE, RTOMIN, ORDSIZE and IRDSIZE of a context.
fn paced(words: &[u64]) -> (u64, u64, u64, u64, u64) {
    (
        words[7] >> 20 & 31,
        words[14] >> 32 & 0xFF_FFFF,
        words[16] >> 57,
        words[20] & 0xFF,
        words[20] >> 16 & 7,
    )
}

#[test]
fn the_settings_of_existing_drivers_reach_the_context() {
    // IRD in its code: 8, 16, 32, 64, 127 and more are 0 to 4; 16 READs are asked
    // for on the way to RTS.
    for (seed, tuning, is) in [
        (51, Tuning::LINUX, (0x1E, 0x400, 5)),
        (52, Tuning::WITHOUT_FLOW_CONTROL, (2, 0x20, 5)),
        (53, Tuning::WITH_FLOW_CONTROL, (0x1E, 0x400, 0x32)),
    ] {
        let sim = sim(seed);
        let mut pair = pair(&sim, |config| config.tuning = tuning);
        let number = pair.number(A);
        let words = context(&pair.sides[0], number);
        let (credits, window, rto_min, ord, _) = paced(&words);
        assert_eq!((credits, window, rto_min), is, "{tuning:?}");
        assert_eq!(ord, 16);
        for kind in [Kind::Send, Kind::Write, Kind::Read] {
            pair.transfer(A, &Transfer::new(kind, 20_000));
        }
        // One queue pair can have its own.
        let own = Tuning {
            window: 0x123,
            ..tuning
        };
        let side = &mut pair.sides[0];
        let init = QpInit {
            tuning: Some(own),
            ..QpInit::rc(&side.cqs[0], &side.cqs[0], Setup::default().caps)
        };
        let qp = side.control.create_qp(&side.pd, &init).unwrap();
        let words = context(&pair.sides[0], qp.number().get());
        assert_eq!(paced(&words).1, 0x123);
        pair.sides[0].control.destroy_qp(qp).unwrap();
        pair.finish(&sim);
    }
}

#[test]
fn fewer_reads_are_reported_and_kept_to() {
    let sim = sim(54);
    let tuning = Tuning {
        max_dest_rd_atomic: 32,
        max_rd_atomic: 64,
        ..Tuning::LINUX
    };
    let mut pair = pair(&sim, |config| config.tuning = tuning);
    let said = pair.sides[0].control.query_device();
    assert_eq!((said.max_dest_rd_atomic, said.max_rd_atomic), (32, 64));
    pair.renew(A);
    let number = pair.number(A);
    let (.., ord, ird) = paced(&context(&pair.sides[0], number));
    assert_eq!((ord, ird), (64, 2), "before a connection says otherwise");
    let [to_init, to_rtr, to_rts] = pair.steps(A);
    let side = &mut pair.sides[0];
    side.control.modify_qp(&mut side.qps[0], &to_init).unwrap();
    let mut more = to_rtr;
    more.max_dest_rd_atomic = Some(33);
    let error = side.control.modify_qp(&mut side.qps[0], &more).unwrap_err();
    assert!(
        matches!(error, Error::OutOfRange { max: 32, .. }),
        "{error}"
    );
    side.control.modify_qp(&mut side.qps[0], &to_rtr).unwrap();
    let mut more = to_rts;
    more.max_rd_atomic = Some(65);
    let error = side.control.modify_qp(&mut side.qps[0], &more).unwrap_err();
    assert!(
        matches!(error, Error::OutOfRange { max: 64, .. }),
        "{error}"
    );
    side.control.modify_qp(&mut side.qps[0], &to_rts).unwrap();
    pair.finish(&sim);
}

#[test]
fn congestion_control_is_switched_on_and_has_parameters() {
    let sim = sim(55);
    let timely = Timely { high: 500, low: 50 };
    let mut pair = pair(&sim, |config| {
        config.tuning.congestion = CongestionControl {
            dcqcn: true,
            dctcp: false,
            firmware: false,
            timely: Some(timely),
        };
        config.congestion = Some(Dcqcn {
            min_rate: 1,
            min_decrease_factor: 1,
            timer: 55,
            hyper_increase: 5,
            additive_increase: 40,
            byte_counter: 200_000,
            fast_recovery: 5,
            reduce_period: 50,
        });
    });
    let number = pair.number(A);
    let words = context(&pair.sides[0], number);
    // DCQCNENABLE, TIMELYENABLE; TLOW, THIGH; a TOS that says ECN capable.
    assert_eq!(words[20] >> 22 & 1, 1);
    assert_eq!(words[20] >> 27 & 1, 1);
    assert_eq!((words[25] >> 32 & 0xFF, words[25] >> 52), (50, 500));
    assert_eq!(words[3] >> 24 & 3, 2);
    for end in [A, B] {
        pair.transfer(end, &Transfer::new(Kind::Send, 9_000));
    }
    pair.finish(&sim);
}

#[test]
fn settings_that_do_not_fit_are_refused_before_anything_is_made() {
    let sim = sim(56);
    let wrong = Tuning {
        ack_credits: 32,
        ..Tuning::LINUX
    };
    let function = sim.function(0);
    let config = Config {
        tuning: wrong,
        ..Config::new(lan(&function))
    };
    let error = bring_up(function.clone(), &config, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("ACK credits"), "{error}");
    assert_eq!(error.undo, None);
    let config = Config {
        congestion: Some(Dcqcn {
            fast_recovery: 8,
            ..Dcqcn::default()
        }),
        ..Config::new(lan(&function))
    };
    let error = bring_up(function, &config, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("DCQCN fast recovery"), "{error}");
    assert!(sim.memory(0).nothing_held());
    let mut pair = pair(&sim, |_| {});
    let side = &mut pair.sides[0];
    let commands = side.control.commands();
    let init = QpInit {
        tuning: Some(wrong),
        ..QpInit::rc(&side.cqs[0], &side.cqs[0], Setup::default().caps)
    };
    let error = side.control.create_qp(&side.pd, &init).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    assert_eq!(side.control.commands(), commands);
    pair.finish(&sim);
}

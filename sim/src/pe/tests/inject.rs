//! Injected device failures.

use super::qp::TestQp;
use super::test_driver::TestDriver;
use crate::pe::{Breakage, Config, PeReg, Subject};

fn event(code: u16, source: u8, subject: Subject) -> Breakage {
    Breakage::Event {
        code,
        source,
        subject,
        wqe_index: 5,
    }
}

#[test]
fn an_event_has_the_context_of_what_it_names() {
    let mut driver = TestDriver::ready(Config::default());
    let qp = TestQp::create(&mut driver, 3, 7, 1);
    for (n, code, source, subject, context) in [
        (0, 0x0705, 0, Subject::Qp(3), 0xc0de_0003),
        (1, 0x0705, 5, Subject::Qp(1), 0),
        (2, 0x0705, 5, Subject::Qp(0x7_FFFF), 0),
        (3, 0x0702, 2, Subject::Cq(qp.send.id as u32), qp.send.id),
        (4, 0x0702, 2, Subject::Cq(0x7_FFFF), 0),
        (5, 0x0B0B, 0, Subject::Function, 0),
        (6, 0x020A, 5, Subject::Qp(3), 0xc0de_0003),
    ] {
        driver
            .engine
            .break_down(event(code, source, subject), &mut driver.env);
        let id = match subject {
            Subject::Qp(id) | Subject::Cq(id) => id.into(),
            Subject::Function => 0,
        };
        let (code_there, id_there, source_there, _, index, _) = driver.aeqe(n).unwrap();
        assert_eq!((code_there, id_there), (code.into(), id), "{n}");
        assert_eq!((source_there, index), (source.into(), 5), "{n}");
        // The CQ's context, which the test chose to equal its id, is shifted right.
        let shift = u32::from(matches!(subject, Subject::Cq(_)));
        assert_eq!(
            driver.env.word(driver.aeq + 16 * n),
            context >> shift,
            "{n}"
        );
    }
    assert_eq!(driver.env.findings, []);
}

#[test]
fn errors_are_in_their_registers() {
    let mut driver = TestDriver::ready(Config {
        pf: 2,
        ..Config::default()
    });
    driver.engine.break_down(Breakage::Push, &mut driver.env);
    assert_eq!(driver.env.oicr, 1 << 27);
    driver
        .engine
        .break_down(Breakage::Critical(0x1234), &mut driver.env);
    assert_eq!(driver.env.oicr, 3 << 27);
    assert_eq!(driver.env.reg(PeReg::CritErr), 0x1234);
    let hmc = Breakage::Hmc {
        error_type: 3,
        object_type: 14,
        data: 0x123,
    };
    driver.engine.break_down(hmc, &mut driver.env);
    assert_eq!(driver.env.oicr, 7 << 26);
    let info = driver.env.reg(PeReg::HmcErrorInfo);
    assert_eq!(info, 1 << 31 | 14 << 16 | 3 << 8 | 2);
    assert_eq!(driver.env.reg(PeReg::HmcErrorData), 0x123);
}

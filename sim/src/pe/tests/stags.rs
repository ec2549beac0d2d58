//! Creation and destruction of STags: by command, fast register, bind, invalidate.

use super::memory::{PD, QP, STAG, access, device, put, refusal, region};
use super::test_driver::{GOOD, PBLES, TestDriver};
use crate::pe::config::Config;
use crate::pe::mr::{Mr, REMOTE_READ, REMOTE_WRITE, Window};
use crate::pe::stag_wqe::Allowed;
use crate::rc::{Fault, Invalidator, Right};
use crate::wqe::{AeCode, Operation};

#[test]
fn fast_register_and_invalidate() {
    let (mut device, mut env) = device();
    let memory = env.alloc(0x4000, 4096);
    put(
        &mut device,
        &mut env,
        5,
        Mr {
            valid: false,
            most: 0x4000,
            ..region(0)
        },
    );
    let with_rights = |rights, len, level, page_size, pble| Operation::FastRegister {
        addr: 0x10_0000,
        len,
        stag_index: 5,
        stag_key: 0x77,
        rights,
        va_based: true,
        pbl_level: level,
        page_size,
        page: memory,
        pble,
    };
    let operation = |len, level, page_size, pble| with_rights(0xF, len, level, page_size, pble);
    let user = Allowed {
        qpn: QP,
        pd: PD,
        privileged: false,
        fast_register: true,
        bind: false,
    };
    let kernel = Allowed {
        privileged: true,
        ..user
    };
    let mut run = |operation: Operation, qp| match device.stag_operation(&operation, qp, &mut env) {
        Ok(()) => 0,
        Err(Fault::Stag(AeCode(code))) => code,
        Err(fault) => panic!("{fault}"),
    };
    assert_eq!(run(operation(0x1000, 0, 0, 0), user), 0x011C);
    assert_eq!(
        run(operation(0x1000, 0, 0, 0), Allowed { pd: 8, ..kernel }),
        0x0105
    );
    // The peer may write, but the owner may not.
    assert_eq!(run(with_rights(9, 0x1000, 0, 0, 0), kernel), 0x010E);
    assert_eq!(run(operation(0, 0, 0, 0), kernel), 0x0110);
    assert_eq!(run(operation(0x4001, 0, 0, 0), kernel), 0x0110);
    assert_eq!(run(operation(0x1000, 3, 0, 0), kernel), 0x011F);
    assert_eq!(run(operation(0x4000, 1, 0, 2045), kernel), 0x0121);
    assert_eq!(run(operation(0x1000, 0, 0, 0), kernel), 0);
    assert_eq!(run(operation(0x1000, 0, 0, 0), kernel), 0x010C);
    let stag = 5 << 8 | 0x77;
    assert!(
        device
            .grant(
                &access(stag, 0x10_0000, Right::RemoteRead),
                16,
                false,
                &mut env
            )
            .is_ok()
    );
    assert!(
        device
            .invalidate_stag(stag, Invalidator::Remote, PD, &mut env)
            .is_ok()
    );
    assert_eq!(
        refusal(
            &mut device,
            &mut env,
            access(stag, 0x10_0000, Right::RemoteRead),
            16
        ),
        0x0103
    );
    // The next registration may be longer than the last one, up to the allocated length.
    let longer = operation(0x4000, 0, 0, 0);
    assert!(device.stag_operation(&longer, kernel, &mut env).is_ok());
}

#[test]
fn windows_follow_their_region() {
    let (mut device, mut env) = device();
    let memory = env.alloc(0x4000, 4096);
    put(
        &mut device,
        &mut env,
        5,
        Mr {
            rights: 0x1F,
            ..region(memory)
        },
    );
    let window = Mr {
        window: Some(Window::default()),
        valid: false,
        key: 0,
        rights: 0,
        remote: false,
        ..region(0)
    };
    put(&mut device, &mut env, 6, window);
    let bind = |addr, len, rights| Operation::BindWindow {
        addr,
        len,
        parent: STAG,
        window: 6 << 8 | 0x11,
        rights,
        va_based: true,
        type1: false,
    };
    let qp = Allowed {
        qpn: QP,
        pd: PD,
        privileged: false,
        fast_register: false,
        bind: true,
    };
    let mut run = |operation: Operation, qp| match device.stag_operation(&operation, qp, &mut env) {
        Ok(()) => 0,
        Err(Fault::Stag(AeCode(code))) => code,
        Err(fault) => panic!("{fault}"),
    };
    assert_eq!(
        run(
            bind(0x10_1000, 16, REMOTE_READ),
            Allowed { bind: false, ..qp }
        ),
        0x011B
    );
    assert_eq!(run(bind(0x10_1000, 0x3000, REMOTE_READ), qp), 0x0119);
    assert_eq!(run(bind(0x10_1000, 16, REMOTE_READ | REMOTE_WRITE), qp), 0);
    assert_eq!(run(bind(0x10_1000, 16, REMOTE_READ), qp), 0x0114);
    env.poke(memory + 0x1000, b"sixteen bytes !!");
    let through = access(6 << 8 | 0x11, 0x10_1000, Right::RemoteRead);
    let grant = device.grant(&through, 16, false, &mut env).unwrap();
    let mut back = [0; 16];
    device.read_grant(&grant, &mut back, &mut env).unwrap();
    assert_eq!(&back, b"sixteen bytes !!");
    // A region with bound windows stays.
    let Err(Fault::Stag(code)) = device.invalidate_stag(STAG, Invalidator::Local, PD, &mut env)
    else {
        panic!("invalidated");
    };
    assert_eq!(code.0, 0x0113);
    assert!(
        device
            .invalidate_stag(6 << 8 | 0x11, Invalidator::Local, PD, &mut env)
            .is_ok()
    );
    assert!(
        device
            .invalidate_stag(STAG, Invalidator::Local, PD, &mut env)
            .is_ok()
    );
}

#[test]
fn stag_commands_check_what_they_name() {
    let mut driver = TestDriver::ready(Config::default());
    let reg = |len: u64, header: u64, pble: u64| {
        [
            0x1000,
            len,
            5 << 8,
            1 << 43 | 1 << 59 | 1 << 48 | header,
            0,
            0,
            pble,
            0,
        ]
    };
    // Past the committed PBLEs; LPBLSIZE 2; HPAGESIZE 3; MR clear.
    assert!(driver.command(0x0a, reg(8192, 1 << 44, PBLES - 1)).error);
    assert!(driver.command(0x0a, reg(8192, 2 << 44, 0)).error);
    assert!(driver.command(0x0a, reg(8192, 3 << 46, 0)).error);
    let mut window = reg(8192, 0, 0);
    window[3] &= !(1 << 43);
    assert!(driver.command(0x0a, window).error);
    assert_eq!(driver.env.kinds(), ["cqp-parameter"; 4]);
    driver.env.findings.clear();
    assert_eq!(driver.command(0x0a, reg(8192, 1 << 44, PBLES - 2)), GOOD);
    // In use; then not allocated any more: STag invalid.
    assert!(driver.command(0x0a, reg(8192, 1 << 44, 0)).error);
    let dealloc = [0, 0, 5 << 8, 1 << 43, 0, 0, 0, 0];
    assert_eq!(driver.command(0x0d, dealloc), GOOD);
    let done = driver.command(0x0d, dealloc);
    assert_eq!((done.error, done.minor), (true, 1));
    assert_eq!(driver.env.kinds(), ["cqp-state", "cqp-stag"]);
}

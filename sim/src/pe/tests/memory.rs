//! Access through STags, page lists, paged SDs, and entries that the device allocates.

use super::qp::TestQp;
use super::test_driver::{GOOD, TestDriver};
use crate::findings::Class;
use crate::pe::config::Config;
use crate::pe::device::Device;
use crate::pe::env::{Env, PeReg};
use crate::pe::fpm::{Kind, Layout};
use crate::pe::hmc::Sd;
use crate::pe::mr::{Mr, Window};
use crate::pe::tests::env::TestEnv;
use crate::rc::{Access, Fault, Right};
use crate::wqe::AeCode;

pub(super) const QP: u32 = 3;
pub(super) const PD: u32 = 7;

/// A device with committed and backed objects, and no CQP.
pub(super) fn device() -> (Device, TestEnv) {
    let mut env = TestEnv::new(99);
    let mut device = Device::new(Config::default(), 1);
    let mut buffer = [0; 26];
    for (offset, count) in [(0, 4), (48, 64), (112, 2048)] {
        buffer[offset / 8] = count;
    }
    device
        .hmc
        .commit(Layout::commit(device.config.profile, &buffer).unwrap());
    let address = env.alloc(0x20_0000, 4096);
    device.hmc.set_sd(
        0,
        Some(Sd {
            direct: true,
            address,
            pages: 512,
        }),
    );
    (device, env)
}

pub(super) fn region(pages: u64) -> Mr {
    Mr {
        window: None,
        valid: true,
        key: 0x5a,
        pd: PD,
        start: 0x10_0010,
        len: 0x3000,
        most: 0x3000,
        va_based: true,
        rights: 0xF,
        remote: true,
        level: 0,
        page_size: 0,
        pages,
        bound: 0,
    }
}

pub(super) fn access(stag: u32, addr: u64, right: Right) -> Access {
    Access {
        qpn: QP,
        pd: PD,
        stag,
        addr,
        right,
    }
}

pub(super) const STAG: u32 = 5 << 8 | 0x5a;

pub(super) fn put(device: &mut Device, env: &mut TestEnv, index: u64, mr: Mr) {
    device.mrs.create(index, mr, &mut device.hmc, env).unwrap();
}

pub(super) fn refusal(device: &mut Device, env: &mut TestEnv, access: Access, len: u64) -> u16 {
    match device.grant(&access, len, false, env) {
        Err(Fault::Stag(AeCode(code))) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_refusal_has_its_ae_code() {
    let (mut device, mut env) = device();
    let memory = env.alloc(0x4000, 4096);
    put(&mut device, &mut env, 5, region(memory));
    let read = |stag, addr| access(stag, addr, Right::LocalRead);
    let inside = 0x10_0010;
    let mut code = |access, len| refusal(&mut device, &mut env, access, len);
    assert_eq!(code(read(6 << 8 | 0x5a, inside), 1), 0x0102);
    assert_eq!(
        code(
            Access {
                pd: 8,
                ..read(STAG, inside)
            },
            1
        ),
        0x0105
    );
    assert_eq!(code(read(STAG ^ 1, inside), 1), 0x0106);
    assert_eq!(code(read(64 << 8, inside), 1), 0x0107);
    assert_eq!(code(read(STAG, inside - 1), 1), 0x0108);
    assert_eq!(code(read(STAG, inside), 0x3001), 0x0108);
    assert_eq!(code(read(STAG, u64::MAX), 2), 0x010A);
    // STag 0 is for privileged QPs.
    assert_eq!(code(read(0, memory), 8), 0x0206);
    // An allocated STag that is not registered.
    put(
        &mut device,
        &mut env,
        6,
        Mr {
            valid: false,
            ..region(memory)
        },
    );
    assert_eq!(
        refusal(&mut device, &mut env, read(6 << 8 | 0x5a, inside), 1),
        0x0103
    );
    // Each right alone; remote rights also need REMACCENABLED.
    let rights = [
        Right::LocalRead,
        Right::LocalWrite,
        Right::RemoteRead,
        Right::RemoteWrite,
    ];
    for (n, right) in rights.into_iter().enumerate() {
        put(
            &mut device,
            &mut env,
            7,
            Mr {
                rights: !(1 << n) & 0xF,
                ..region(memory)
            },
        );
        let wanted = access(7 << 8 | 0x5a, inside, right);
        assert_eq!(refusal(&mut device, &mut env, wanted, 1), 0x0109);
        put(
            &mut device,
            &mut env,
            7,
            Mr {
                remote: false,
                ..region(memory)
            },
        );
        let granted = device.grant(&wanted, 1, false, &mut env).is_ok();
        assert_eq!(granted, n < 2);
    }
    // A type-2 window belongs to the QP that bound it.
    let window = Window {
        parent: 5,
        qp: QP + 1,
        ..Window::default()
    };
    put(
        &mut device,
        &mut env,
        8,
        Mr {
            window: Some(window),
            ..region(0)
        },
    );
    let remote = access(8 << 8 | 0x5a, inside, Right::RemoteRead);
    assert_eq!(refusal(&mut device, &mut env, remote, 1), 0x0104);
    assert_eq!(env.findings, []);
}

/// Writes and reads back through an STag, then compares with the pages themselves.
fn round_trip(
    device: &mut Device,
    env: &mut TestEnv,
    stag: u32,
    addr: u64,
    pages: &[u64],
    first: u64,
) {
    let data: Vec<u8> = (0..0x2800_u32).map(|n| (n * 7 + n / 256) as u8).collect();
    let write = access(stag, addr, Right::RemoteWrite);
    let grant = device.grant(&write, data.len() as u64, false, env).unwrap();
    device.write_grant(&grant, &data, env).unwrap();
    let mut back = vec![0; data.len()];
    device.read_grant(&grant, &mut back, env).unwrap();
    assert_eq!(back, data);
    // The pages, joined.
    let mut there = vec![0; pages.len() * 4096];
    for (page, bytes) in pages.iter().zip(there.chunks_mut(4096)) {
        env.peek(*page, bytes);
    }
    assert_eq!(there[first as usize..][..data.len()], data);
}

#[test]
fn every_kind_of_page_list_leads_to_the_right_bytes() {
    let (mut device, mut env) = device();
    let contiguous = env.alloc(0x4000, 4096);
    let pages: Vec<u64> = (0..4).map(|_| env.alloc(4096, 4096)).collect();
    let run: Vec<u64> = (0..4).map(|n| contiguous + n * 4096).collect();
    // Level 0 and a zero-based region with an offset in its first page.
    put(&mut device, &mut env, 5, region(contiguous));
    round_trip(&mut device, &mut env, STAG, 0x10_0010, &run, 0x10);
    let zero = Mr {
        va_based: false,
        start: 0x123,
        ..region(contiguous)
    };
    put(&mut device, &mut env, 6, zero);
    round_trip(&mut device, &mut env, 6 << 8 | 0x5a, 0, &run, 0x123);
    // Level 1: PBLEs 100 to 103.
    for (n, page) in pages.iter().enumerate() {
        device
            .hmc
            .write((Kind::Pble, 100 + n as u64), 0, &[*page], &mut env)
            .unwrap();
    }
    put(
        &mut device,
        &mut env,
        7,
        Mr {
            level: 1,
            ..region(100)
        },
    );
    round_trip(
        &mut device,
        &mut env,
        7 << 8 | 0x5a,
        0x10_0010,
        &pages,
        0x10,
    );
    // Level 2: root 200 names leaf 512, root 201 leaf 1024; pages 510 to 513 are used.
    for (root, leaf) in [(200, 512), (201, 1024)] {
        device
            .hmc
            .write((Kind::Pble, root), 0, &[leaf], &mut env)
            .unwrap();
    }
    for (index, page) in [(512 + 510, 0), (512 + 511, 1), (1024, 2), (1025, 3)] {
        device
            .hmc
            .write((Kind::Pble, index), 0, &[pages[page]], &mut env)
            .unwrap();
    }
    let long = Mr {
        level: 3,
        len: 514 * 4096,
        ..region(200)
    };
    put(&mut device, &mut env, 8, long);
    round_trip(
        &mut device,
        &mut env,
        8 << 8 | 0x5a,
        0x10_0010 + 510 * 4096,
        &pages,
        0x10,
    );
    // All memory: STAGLEN 0.
    let all = Mr {
        start: 0,
        len: 0,
        pages: 0,
        ..region(0)
    };
    put(&mut device, &mut env, 9, all);
    round_trip(
        &mut device,
        &mut env,
        9 << 8 | 0x5a,
        contiguous + 5,
        &run,
        5,
    );
    // STag 0 of a privileged QP.
    let local = access(0, contiguous, Right::LocalRead);
    assert!(device.grant(&local, 8, true, &mut env).is_ok());
    assert_eq!(env.findings, []);
}

#[test]
fn driver_bits_on_top_of_the_index_do_not_count() {
    let (device, _) = device();
    // 64 MRs are committed: 14 bits are still index.
    assert_eq!(device.stag_index(0x3FFF), 0x3FFF);
    assert_eq!(device.stag_index(0x2a5 << 14 | 5), 5);
}

#[test]
fn a_paged_sd_needs_pdinv_after_each_change() {
    let (mut device, mut env) = device();
    let pd_page = env.alloc(4096, 4096);
    let backing = env.alloc(4096, 4096);
    let pble = device.hmc.address(Kind::Pble, 0).unwrap();
    let pd = pble % 0x20_0000 / 4096;
    device.hmc.set_sd(
        0,
        Some(Sd {
            direct: false,
            address: pd_page,
            pages: 512,
        }),
    );
    let fault = device.hmc.pble(0, &mut env).unwrap_err();
    device.hmc.report(0, fault, &mut env);
    assert_eq!(
        (env.kinds().as_slice(), env.oicr),
        (["hmc-backing"].as_slice(), 1 << 26)
    );
    // The entry is added, but the old one is cached.
    env.store(pd_page + 8 * pd, backing | 1).unwrap();
    env.store(backing + pble % 4096, 0xABC000).unwrap();
    assert!(device.hmc.pble(0, &mut env).is_err());
    device.hmc.invalidate_pd(0, pd);
    assert_eq!(device.hmc.pble(0, &mut env), Ok(0xABC000));
    // The entry is removed; the cached one is used until it is invalidated.
    env.store(pd_page + 8 * pd, 0).unwrap();
    assert!(device.hmc.pble(0, &mut env).is_ok());
    device.hmc.invalidate_pd(0, pd);
    assert!(device.hmc.pble(0, &mut env).is_err());
    // Harmless for an SD that is not there.
    device.hmc.invalidate_pd(3, 9);
}

#[test]
fn q1_runs_out() {
    let mut driver = TestDriver::ready(Config::default());
    // 1024 entries; IRD code 4 takes 256 for each QP.
    for id in 0..5 {
        let qp = TestQp::create(&mut driver, id, PD.into(), 1);
        let word = driver.env.word(qp.context + 160);
        driver.env.set_word(qp.context + 160, word | 4 << 16);
        qp.add_neighbour(&mut driver);
        let done = qp.modify(&mut driver, 4, 1 << 47 | 1 << 59);
        assert_eq!(done.error, id == 4);
        if id == 3 {
            // Freed when the QP is destroyed.
            qp.to_error(&mut driver);
            assert_eq!(qp.destroy(&mut driver), GOOD);
            let words = [
                0,
                0,
                qp.context,
                3 << 48 | 1 << 51 | 1 << 47 | 1 << 60 | id,
                0,
                qp.shadow,
                0,
                0,
            ];
            driver.good(0x00, words);
            assert_eq!(qp.modify(&mut driver, 4, 1 << 47 | 1 << 59), GOOD);
            assert_eq!(driver.env.findings, []);
        }
    }
    let text = "QP 4: no Q1, XF or RRF entry is left".to_owned();
    assert_eq!(driver.env.findings, [(Class::Fault, "cqp-parameter", text)]);
    // GLPE_CRITERR "Q1 resource", OICR.PE_CRITERR, one allocation error.
    assert_eq!(driver.env.reg(PeReg::CritErr), 0x0001_024D);
    assert_eq!(
        (driver.env.oicr, driver.env.reg(PeReg::FlmQ1AllocErr)),
        (1 << 28, 1)
    );
}

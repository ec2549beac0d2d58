use super::*;

fn region() -> RegisterMr {
    RegisterMr {
        index: 7,
        key: 1,
        pd: 3,
        address: 0x1234_5678,
        base: TagBase::Va,
        extent: Extent::Bytes(4096),
        page_size: PageSize::Kib4,
        pages: Pages::Contiguous(Iova(0x1000)),
        access: Access::LOCAL_READ,
        remote_atomics: false,
        hmc_function: None,
    }
}

/// A fast-register allocation is not in the golden vectors (only its refusal
/// is); the table is control-path 4.10.
#[test]
fn alloc_stag_follows_the_table() {
    let alloc = AllocMrStag::new(0x12_3456, 0x3_FFFF, Extent::Bytes(0x20_0000));
    assert_eq!(
        alloc.encode(),
        Ok([
            0,
            (0x3_FFFF << 46) | 0x20_0000,
            0x1234_5600,
            (0x09 << 32) | (1 << 43) | (1 << 53),
            0,
            0,
            0,
            0
        ])
    );
    let listed = AllocMrStag {
        pages: Pages::Level2(5),
        page_size: PageSize::Mib2,
        hmc_function: PfId::new(3),
        ..alloc
    };
    let wqe = listed.encode().unwrap();
    assert_eq!(wqe[5], 3);
    assert_eq!(wqe[6], 5);
    assert_eq!(
        wqe[3],
        (0x09 << 32) | (1 << 43) | (3 << 44) | (1 << 46) | (1 << 53) | (1 << 60)
    );
}

#[test]
fn bad_regions_are_refused() {
    let field_of = |mr: RegisterMr| match mr.encode() {
        Err(Error::OutOfRange { field, .. }) => field,
        Err(Error::Misaligned { what, .. } | Error::Invalid { what }) => what,
        other => panic!("{other:?}"),
    };
    let good = region();
    assert!(good.encode().is_ok());
    assert_eq!(
        field_of(RegisterMr {
            index: 1 << 24,
            ..good
        }),
        "STag index"
    );
    assert_eq!(
        field_of(RegisterMr {
            pd: 1 << 18,
            ..good
        }),
        "PD id"
    );
    assert_eq!(
        field_of(RegisterMr {
            extent: Extent::Bytes(MAX_MR_BYTES + 1),
            ..good
        }),
        "region length"
    );
    assert!(
        field_of(RegisterMr {
            extent: Extent::Bytes(0),
            ..good
        })
        .starts_with("a region has at least one byte")
    );
    assert_eq!(
        field_of(RegisterMr {
            pages: Pages::Level1(1 << 28),
            ..good
        }),
        "first PBLE index"
    );
    assert_eq!(
        field_of(RegisterMr {
            pages: Pages::Contiguous(Iova(0x800)),
            ..good
        }),
        "first page of a region"
    );
    assert!(PageSize::from_bytes(8192).is_err());
}

#[test]
fn the_greatest_region_fits() {
    let all = RegisterMr {
        extent: Extent::Bytes(MAX_MR_BYTES),
        remote_atomics: true,
        ..region()
    };
    let wqe = all.encode().unwrap();
    assert_eq!(wqe[1] & ((1 << 46) - 1), MAX_MR_BYTES);
    assert_eq!(wqe[3] >> 61, 1);
    for size in [PageSize::Kib4, PageSize::Mib2, PageSize::Gib1] {
        assert_eq!(PageSize::from_bytes(size.bytes()), Ok(size));
    }
}

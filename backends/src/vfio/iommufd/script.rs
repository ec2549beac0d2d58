//! Expected ioctls and their replies, transcribed from the kernel's headers: numbers
//! and bytes are written a second time here, not taken from the code under test.

use e810_hal::bus::BAR0_LEN;

use crate::vfio::mock_ioctl::{ExpectedCall, Ioctl, longs, words};

/// The offset of vfio-pci's configuration space: region 7.
pub(super) const CONFIG: u64 = 7 << 40;
pub(super) const IOAS: u32 = 2;

pub(super) const DEVICE_GET_REGION_INFO: u32 = 0x3b6c;
pub(super) const DEVICE_GET_IRQ_INFO: u32 = 0x3b6d;
pub(super) const DEVICE_SET_IRQS: u32 = 0x3b6e;
pub(super) const DEVICE_RESET: u32 = 0x3b6f;
pub(super) const DEVICE_BIND_IOMMUFD: u32 = 0x3b76;
pub(super) const DEVICE_ATTACH_IOMMUFD_PT: u32 = 0x3b77;
pub(super) const DEVICE_DETACH_IOMMUFD_PT: u32 = 0x3b78;
pub(super) const IOMMU_DESTROY: u32 = 0x3b80;
pub(super) const IOMMU_IOAS_ALLOC: u32 = 0x3b81;
pub(super) const IOMMU_IOAS_IOVA_RANGES: u32 = 0x3b84;
pub(super) const IOMMU_IOAS_MAP: u32 = 0x3b85;
pub(super) const IOMMU_IOAS_UNMAP: u32 = 0x3b86;

/// `struct vfio_device_bind_iommufd`: argsz, flags, iommufd, out_devid.
pub(super) fn bind_iommufd() -> Ioctl {
    Ioctl::new("device", DEVICE_BIND_IOMMUFD, words(&[16, 0, 0, 0]))
        .ignore_range(8..12)
        .reply(words(&[16, 0, 0, 1]))
}

/// `struct iommu_ioas_alloc`: size, flags, out_ioas_id.
pub(super) fn alloc_ioas() -> Ioctl {
    Ioctl::new("iommu", IOMMU_IOAS_ALLOC, words(&[12, 0, 0])).reply(words(&[12, 0, IOAS]))
}

/// `struct vfio_device_attach_iommufd_pt`: argsz, flags, pt_id, which the
/// kernel turns into that of the page table it made.
pub(super) fn attach_pt() -> Ioctl {
    Ioctl::new("device", DEVICE_ATTACH_IOMMUFD_PT, words(&[12, 0, IOAS])).reply(words(&[12, 0, 3]))
}

/// `struct iommu_ioas_iova_ranges`: size, ioas_id, num_iovas, reserved,
/// allowed_iovas, out_iova_alignment.
pub(super) fn iova_ranges(room: u32, ranges: &[(u64, u64)], alignment: u64) -> Ioctl {
    let argument = |count: u32, alignment: u64| {
        let mut bytes = words(&[32, IOAS, count, 0]);
        bytes.extend(longs(&[0, alignment]));
        bytes
    };
    let there: Vec<u64> = ranges
        .iter()
        .take(room as usize)
        .flat_map(|(first, last)| [*first, *last])
        .collect();
    Ioctl::new("iommu", IOMMU_IOAS_IOVA_RANGES, argument(room, 0))
        .ignore_range(16..24)
        .writes(16, longs(&there))
        .reply(argument(ranges.len() as u32, alignment))
}

/// `struct vfio_region_info`: argsz, flags, index, cap_offset, size, offset.
pub(super) fn region_bytes(
    argsz: u32,
    flags: u32,
    index: u32,
    caps: u32,
    size: u64,
    at: u64,
) -> Vec<u8> {
    let mut bytes = words(&[argsz, flags, index, caps]);
    bytes.extend(longs(&[size, at]));
    bytes
}

pub(super) fn region_info(index: u32, size: u64, at: u64) -> Ioctl {
    let expected_arg = region_bytes(32, 0, index, 0, 0, 0);
    let reply = region_bytes(32, 7, index, 0, size, at);
    Ioctl::new("device", DEVICE_GET_REGION_INFO, expected_arg).reply(reply)
}

/// `struct vfio_irq_info`: argsz, flags, index, count.
pub(super) fn irq_info(index: u32, flags: u32, count: u32) -> Ioctl {
    Ioctl::new("device", DEVICE_GET_IRQ_INFO, words(&[16, 0, index, 0]))
        .reply(words(&[16, flags, index, count]))
}

/// `struct vfio_irq_set`: argsz, flags (event descriptors, to be triggered),
/// index, start, count, descriptors.
pub(super) fn set_irqs(index: u32, start: u32, count: u32) -> Ioctl {
    let argsz = 20 + 4 * count;
    let mut expected_arg = words(&[argsz, 0x24, index, start, count]);
    expected_arg.resize(argsz as usize, 0);
    Ioctl::new("device", DEVICE_SET_IRQS, expected_arg).ignore_range(20..argsz as usize)
}

/// `struct iommu_ioas_map`: size, flags, ioas_id, reserved, user_va, length,
/// iova.
pub(super) fn map(flags: u32, address: u64, bytes: u64, iova: u64) -> Ioctl {
    let mut expected_arg = words(&[40, flags, IOAS, 0]);
    expected_arg.extend(longs(&[address, bytes, iova]));
    Ioctl::new("iommu", IOMMU_IOAS_MAP, expected_arg)
}

/// `struct iommu_ioas_unmap`: size, ioas_id, iova, length.
pub(super) fn unmap_bytes(iova: u64, bytes: u64) -> Vec<u8> {
    let mut argument = words(&[24, IOAS]);
    argument.extend(longs(&[iova, bytes]));
    argument
}

pub(super) fn unmap(iova: u64, bytes: u64) -> Ioctl {
    Ioctl::new("iommu", IOMMU_IOAS_UNMAP, unmap_bytes(iova, bytes))
}

/// The ranges of a VT-d with 48 bits, with a hole for interrupt messages and one that the firmware
/// reserves.
pub(super) const RANGES: [(u64, u64); 3] = [
    (0, 0x7aff_ffff),
    (0x7b80_0000, 0xfedf_ffff),
    (0xfef0_0000, (1 << 48) - 1),
];

pub(super) fn open_calls() -> Vec<ExpectedCall> {
    vec![
        bind_iommufd().into(),
        alloc_ioas().into(),
        attach_pt().into(),
        iova_ranges(16, &RANGES, 4096).into(),
    ]
}

pub(super) fn description() -> Vec<ExpectedCall> {
    vec![
        region_info(0, BAR0_LEN.into(), 0).into(),
        region_info(7, 4096, CONFIG).into(),
        // MSI-X, errors, the kernel's request.
        irq_info(2, 1, 64).into(),
        irq_info(3, 9, 1).into(),
        irq_info(4, 9, 1).into(),
    ]
}

/// Detached, destroyed, and closed, the device first.
pub(super) fn close_calls() -> Vec<ExpectedCall> {
    vec![
        Ioctl::new("device", DEVICE_DETACH_IOMMUFD_PT, words(&[8, 0])).into(),
        Ioctl::new("iommu", IOMMU_DESTROY, words(&[8, IOAS])).into(),
        ExpectedCall::Close("device"),
        ExpectedCall::Close("iommu"),
    ]
}

pub(super) fn closed() -> Vec<ExpectedCall> {
    vec![ExpectedCall::Close("device"), ExpectedCall::Close("iommu")]
}

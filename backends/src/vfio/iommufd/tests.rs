//! Opening and closing, against the requests and replies of `script`.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use e810_hal::{Access, Bus, RegOffset, Vector};
use vfio_bindings::bindings::vfio::{
    vfio_device_attach_iommufd_pt, vfio_device_bind_iommufd, vfio_device_detach_iommufd_pt,
};
use vmm_sys_util::eventfd::EventFd;

use super::script::*;
use super::*;
use crate::host::fake::Tree;
use crate::spec::Bdf;
use crate::transport::{DmaRegion, Transport};
use crate::vectors::{InterruptVectors, Waiter};
use crate::vfio::Vfio;
use crate::vfio::device_info::{irqs, region};
use crate::vfio::mock_ioctl::{ExpectedCall, Ioctl, MockKernel, longs, words};
use crate::vfio::open::Place;

const NAME: &str = "iommufd:0000:3b:00.0";

fn bdf() -> Bdf {
    "3b:00.0".parse().unwrap()
}

fn open_on(kernel: &MockKernel) -> Result<Opened, BackendError> {
    let device = kernel.file("device", CONFIG + 4096);
    let in_use = "/dev/vfio/devices/vfio0 /dev/vfio/24";
    attach(
        NAME,
        in_use,
        Box::new(kernel.file("iommu", 0)),
        Arc::new(device),
    )
}

/// An open function whose notices are connected to event descriptors.
fn opened(kernel: &MockKernel) -> Vfio {
    kernel.expect(open_calls());
    kernel.expect(description());
    kernel.expect([set_irqs(3, 0, 1).into(), set_irqs(4, 0, 1).into()]);
    Vfio::new(NAME.to_owned(), bdf(), open_on(kernel).unwrap()).unwrap()
}

/// The error of an opening during which the kernel answers as in `steps`.
fn refusal(steps: Vec<Vec<ExpectedCall>>) -> String {
    let kernel = MockKernel::new(steps.into_iter().flatten());
    let error = match open_on(&kernel) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    kernel.is_done();
    assert!(error.starts_with(NAME), "{error}");
    assert!(!error.contains('\n'), "one line: {error}");
    error
}

#[test]
fn a_function_is_used_and_closed_in_order() {
    let kernel = MockKernel::default();
    let vfio = opened(&kernel);
    let properties = vfio.properties();
    assert_eq!(
        properties.iova_ranges,
        [
            (1 << 20, 0x7aff_ffff),
            (0x7b80_0000, 0xfedf_ffff),
            (0xfef0_0000, (1 << 48) - 1)
        ]
    );
    assert_eq!((properties.page, properties.vectors), (4096, 64));
    assert!(properties.vectors_grow);
    assert_eq!(vfio.notice(), None);

    // Configuration space is in the file, after the regions before it.
    vfio.config_write(4, &[6, 0]).unwrap();
    let mut command = [0; 2];
    vfio.device
        .file()
        .read_exact_at(&mut command, CONFIG + 4)
        .unwrap();
    assert_eq!(command, [6, 0]);
    vfio.config_read(4, &mut command).unwrap();
    assert_eq!(command, [6, 0]);
    // So is BAR0.
    vfio.device
        .file()
        .write_all_at(&[1, 2, 3, 4], 0x1000)
        .unwrap();
    assert_eq!(vfio.registers().read32(RegOffset::new(0x1000)), 0x0403_0201);

    let memory = NonNull::<u8>::dangling();
    let address = memory.as_ptr().addr() as u64;
    let region = |access, iova| DmaRegion {
        iova,
        bytes: 0x2000,
        address: memory,
        file: None,
        access,
    };
    let event = EventFd::new(0).unwrap();
    // SAFETY: open as long as `event`.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(event.as_raw_fd()) };
    kernel.expect([
        Ioctl::new("device", DEVICE_RESET, vec![]).into(),
        map(7, address, 0x2000, 1 << 20).into(),
        map(5, address, 0x2000, 2 << 20).into(),
        set_irqs(2, 3, 2).into(),
        // No data, to be triggered: all of MSI-X is disconnected.
        Ioctl::new("device", DEVICE_SET_IRQS, words(&[20, 0x21, 2, 0, 0])).into(),
        unmap(2 << 20, 0x2000).into(),
        unmap(1 << 20, 0x2000)
            .reply(unmap_bytes(1 << 20, 0x1000))
            .into(),
    ]);
    vfio.reset().unwrap();
    // SAFETY: no device reaches the memory.
    unsafe { vfio.map(&region(Access::ReadWrite, 1 << 20)) }.unwrap();
    // SAFETY: as above.
    unsafe { vfio.map(&region(Access::Read, 2 << 20)) }.unwrap();
    vfio.connect_vectors(3, &[Some(fd), None]).unwrap();
    vfio.disconnect_vectors().unwrap();
    // The second time there is nothing to switch off.
    vfio.disconnect_vectors().unwrap();
    vfio.unmap(2 << 20, 0x2000).unwrap();
    let error = vfio.unmap(1 << 20, 0x2000).unwrap_err().to_string();
    assert!(
        error.contains("4096 of 8192 bytes were unmapped"),
        "{error}"
    );
    kernel.is_done();

    kernel.expect(close_calls());
    drop(vfio);
    kernel.is_done();
}

/// A kernel that cannot add to a set in use: the existing vectors are disconnected, and the whole
/// set is connected.
#[test]
fn a_set_that_cannot_grow_is_taken_down_first() {
    let kernel = MockKernel::default();
    kernel.expect(open_calls());
    let mut described = description();
    for step in &mut described {
        // EVENTFD, MASKABLE and NORESIZE of MSI-X (2).
        if let ExpectedCall::Ioctl(ioctl) = step
            && ioctl.expected_arg == words(&[16, 0, 2, 0])
        {
            *step = irq_info(2, 1 | 2 | 8, 64).into();
        }
    }
    kernel.expect(described);
    kernel.expect([set_irqs(3, 0, 1).into(), set_irqs(4, 0, 1).into()]);
    let vfio = Vfio::new(NAME.to_owned(), bdf(), open_on(&kernel).unwrap()).unwrap();
    assert!(!vfio.properties().vectors_grow);

    let mut vectors = InterruptVectors::default();
    let waiter = Waiter::new().unwrap();
    let mut take = || vectors.take(&vfio, &waiter);
    let down = || -> ExpectedCall {
        Ioctl::new("device", DEVICE_SET_IRQS, words(&[20, 0x21, 2, 0, 0])).into()
    };
    kernel.expect([set_irqs(2, 0, 1).into()]);
    assert_eq!(take().unwrap(), Vector::new(0));
    kernel.expect([down(), set_irqs(2, 0, 2).into()]);
    assert_eq!(take().unwrap(), Vector::new(1));
    kernel.is_done();
    // The kernel has two vectors and not three: it returns no error, and connects nothing. The two
    // are connected again.
    kernel.expect([
        down(),
        set_irqs(2, 0, 3).returns(2).into(),
        set_irqs(2, 0, 2).into(),
    ]);
    let error = take().unwrap_err().to_string();
    assert!(error.contains("no more than 2 vectors"), "{error}");
    kernel.is_done();
    // Freed and taken again without a request.
    let vector = Vector::new(0).unwrap();
    assert!(vectors.give_back(vector, &vfio, &waiter).unwrap());
    assert_eq!(vectors.take(&vfio, &waiter).unwrap(), Some(vector));
    kernel.is_done();

    kernel.expect(close_calls());
    drop(vfio);
    kernel.is_done();
}

#[test]
fn the_iommufd_is_the_one_that_is_bound() {
    let kernel = MockKernel::new([ExpectedCall::Close("iommu")]);
    let iommu = kernel.file("iommu", 0);
    let number = iommu.file().as_fd().as_raw_fd() as u32;
    let device = MockKernel::new([
        Ioctl::new("device", DEVICE_BIND_IOMMUFD, words(&[16, 0, number, 0])).into(),
        ExpectedCall::Close("device"),
    ]);
    bind(&device.file("device", 0), &iommu).unwrap();
    drop(iommu);
    device.is_done();
    kernel.is_done();
}

#[test]
fn structures_are_the_beginnings_of_the_kernels() {
    type Whole = vfio_device_bind_iommufd;
    assert_eq!(offset_of!(Bind, iommufd), offset_of!(Whole, iommufd));
    assert_eq!(offset_of!(Bind, out_devid), offset_of!(Whole, out_devid));
    assert_eq!(size_of::<Bind>(), offset_of!(Whole, token_uuid_ptr));
    type WholeAttach = vfio_device_attach_iommufd_pt;
    assert_eq!(size_of::<space::Attach>(), offset_of!(WholeAttach, pasid));
    type WholeDetach = vfio_device_detach_iommufd_pt;
    assert_eq!(size_of::<space::Detach>(), offset_of!(WholeDetach, pasid));
}

#[test]
fn a_refused_mapping_says_what_to_do() {
    let memory = NonNull::<u8>::dangling();
    let region = DmaRegion {
        iova: 1 << 20,
        bytes: 0x2000,
        address: memory,
        file: None,
        access: Access::ReadWrite,
    };
    for (errno, says) in [
        // More than may be locked, or, if this process has no limit, more than there is.
        (libc::ENOMEM, " 8192 bytes a"),
        (libc::ENOSPC, "no I/O addresses are left for 8192 bytes"),
        (libc::EEXIST, "these I/O addresses are already mapped"),
        (
            libc::EFAULT,
            "are not all memory that this process may write",
        ),
    ] {
        let kernel = MockKernel::default();
        let vfio = opened(&kernel);
        let address = memory.as_ptr().addr() as u64;
        kernel.expect([map(7, address, 0x2000, 1 << 20).fails(errno).into()]);
        // SAFETY: no device reaches the memory.
        let error = unsafe { vfio.map(&region) }.unwrap_err().to_string();
        assert!(error.starts_with(NAME) && error.contains(says), "{error}");
        // type1's limit does not apply to iommufd.
        assert!(!error.contains("type1"), "{error}");
        kernel.expect(close_calls());
        drop(vfio);
        kernel.is_done();
    }
}

#[test]
fn a_refused_binding_says_what_to_do() {
    for (errno, says) in [
        (libc::EBUSY, "`fuser /dev/vfio/devices/vfio0 /dev/vfio/24`"),
        (libc::EINVAL, "another process has it open"),
        (libc::EPERM, "iommufd.allow_unsafe_interrupts=1"),
        (libc::ENODEV, "binding it to iommufd: No such device"),
    ] {
        let error = refusal(vec![vec![bind_iommufd().fails(errno).into()], closed()]);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_was_begun_is_taken_back() {
    let no_space = alloc_ioas().fails(libc::ENOMEM);
    let error = refusal(vec![vec![bind_iommufd().into(), no_space.into()], closed()]);
    assert!(error.contains("making an I/O address space"), "{error}");

    let begun = vec![bind_iommufd().into(), alloc_ioas().into()];
    let refused = vec![attach_pt().fails(libc::EINVAL).into()];
    let error = refusal(vec![begun.clone(), refused, closed()]);
    assert!(error.contains("dmesg"), "{error}");

    let mut begun = begun;
    begun.push(attach_pt().into());
    let refused = vec![iova_ranges(16, &RANGES, 4096).fails(libc::ENOENT).into()];
    let error = refusal(vec![begun, refused, close_calls()]);
    assert!(error.contains("asking for the IOMMU"), "{error}");

    let refused = vec![region_info(0, 0, 0).fails(libc::EIO).into()];
    let error = refusal(vec![open_calls(), refused, close_calls()]);
    assert!(error.contains("asking what the function has"), "{error}");
}

#[test]
fn a_detach_that_fails_leaves_the_rest_to_closing() {
    let kernel = MockKernel::default();
    let vfio = opened(&kernel);
    let detach = Ioctl::new("device", DEVICE_DETACH_IOMMUFD_PT, words(&[8, 0]));
    kernel.expect([detach.fails(libc::EIO).into()]);
    kernel.expect(closed());
    drop(vfio);
    kernel.is_done();
}

#[test]
fn a_function_that_does_not_fit_is_closed_in_order() {
    let small = vec![region_info(0, 4096, 0).into()];
    let rest = description().split_off(1);
    let kernel = MockKernel::new([open_calls(), small, rest, close_calls()].concat());
    let error = Vfio::new(NAME.to_owned(), bdf(), open_on(&kernel).unwrap()).unwrap_err();
    kernel.is_done();
    assert!(error.to_string().contains("BAR0"), "{error}");
}

/// An address space that answers as in `steps`.
fn iommu_says(steps: Vec<ExpectedCall>) -> Result<(Vec<(u64, u64)>, u64), String> {
    let mut all: Vec<ExpectedCall> = steps;
    all.extend(close_calls());
    let kernel = MockKernel::new(all);
    let space = Ioas {
        id: IOAS,
        device: Arc::new(kernel.file("device", 0)),
        iommu: Box::new(kernel.file("iommu", 0)),
    };
    let answer = match space.iommu() {
        Ok(Ok(iommu)) => Ok((iommu.ranges, iommu.page)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    drop(space);
    kernel.is_done();
    answer
}

#[test]
fn more_ranges_than_room_are_asked_for_again() {
    // Forty ranges of 1 MiB with a hole of 1 MiB after each.
    let ranges: Vec<(u64, u64)> = (1..=40u64)
        .map(|n| (n << 21, (n << 21) + (1 << 20) - 1))
        .collect();
    let said = iommu_says(vec![
        iova_ranges(16, &ranges, 4096).fails(libc::EMSGSIZE).into(),
        iova_ranges(40, &ranges, 4096).into(),
    ]);
    assert_eq!(said.unwrap(), (ranges, 4096));
}

#[test]
fn pages_are_at_least_the_cpus() {
    for (alignment, page) in [(1, 4096), (512, 4096), (4096, 4096), (1 << 16, 1 << 16)] {
        let said = iommu_says(vec![iova_ranges(16, &RANGES, alignment).into()]);
        assert_eq!(said.unwrap().1, page);
    }
    // A range without a whole page of 64 KiB, and one that is clipped.
    let ranges = [(0x20_1000, 0x20_ffff), (0x30_1000, 0x32_2fff)];
    let said = iommu_says(vec![iova_ranges(16, &ranges, 1 << 16).into()]);
    assert_eq!(said.unwrap(), (vec![(0x31_0000, 0x31_ffff)], 1 << 16));
}

#[test]
fn nonsense_of_the_kernel_ends() {
    for alignment in [0, 3, 1 << 17, u64::MAX] {
        let said = iommu_says(vec![iova_ranges(16, &RANGES, alignment).into()]);
        assert!(said.unwrap_err().contains("make no pages"));
    }
    assert!(iommu_says(vec![iova_ranges(16, &[], 4096).into()]).is_err());
    // The kernel says that there is too little room, and then that there are not more, or endlessly
    // many.
    for ranges in [&RANGES[..], &[(1 << 21, 1 << 22); 5000][..]] {
        let answer = iova_ranges(16, ranges, 4096).fails(libc::EMSGSIZE);
        let said = iommu_says(vec![answer.into()]);
        assert!(said.unwrap_err().contains("ranges of addresses"));
    }
}

#[test]
fn a_list_of_mappable_parts_is_read() {
    // `struct vfio_region_info_cap_sparse_mmap` behind another capability:
    // header (id, version, next), number of areas, padding, areas.
    let head = |argsz, caps| region_bytes(argsz, 0xf, 0, caps, 1 << 23, 0);
    let mut whole = head(80, 32);
    whole.extend(words(&[9 | 1 << 16, 40]));
    whole.extend(words(&[1 | 1 << 16, 0, 1, 0]));
    whole.extend(longs(&[0x1000, 0x7f_f000]));
    whole.extend([0; 8]);
    let mut again = region_bytes(80, 0, 0, 0, 0, 0);
    again.resize(80, 0);
    let kernel = MockKernel::new([
        Ioctl::new(
            "device",
            DEVICE_GET_REGION_INFO,
            region_bytes(32, 0, 0, 0, 0, 0),
        )
        .reply(head(80, 0))
        .into(),
        Ioctl::new("device", DEVICE_GET_REGION_INFO, again)
            .reply(whole)
            .into(),
        irq_info(3, 0, 0).fails(libc::EINVAL).into(),
        ExpectedCall::Close("device"),
    ]);
    let device = kernel.file("device", 0);
    let region = region(&device, 0).unwrap();
    assert_eq!(region.areas, Some(vec![(0x1000, 0x7f_f000)]));
    assert_eq!((region.flags, region.size), (0xf, 1 << 23));
    // A function without such interrupts.
    assert_eq!(irqs(&device, 3).unwrap(), None);
    drop(device);
    kernel.is_done();
}

#[test]
fn a_kernel_without_device_files_is_named() {
    let tree = Tree::with_card();
    let host = tree.host();
    tree.bind("0000:3b:00.0", "vfio-pci");
    let at = "/sys/bus/pci/devices/0000:3b:00.0";
    let place: Place = place(host, NAME, bdf(), Accept::E810).unwrap();
    let says = || cdev(host, NAME, bdf(), &place).unwrap_err().to_string();
    let without = format!(
        "{NAME}: this kernel has no device files for VFIO (CONFIG_VFIO_DEVICE_CDEV, from Linux 6.6 on); use vfio:0000:3b:00.0"
    );
    // Before 6.2, and from then on without the option.
    assert_eq!(says(), without);
    tree.folder(&format!("{at}/vfio-dev/vfio5/power"));
    assert_eq!(says(), without);
    tree.file(&format!("{at}/vfio-dev/vfio5/dev"), "511:5\n");
    assert!(says().contains("the container"), "{}", says());
    let file = "/dev/vfio/devices/vfio5";
    tree.file(file, "");
    assert_eq!(cdev(host, NAME, bdf(), &place).unwrap(), host.path(file));
}

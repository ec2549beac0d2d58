//! The files of an IOMMU group: the group's own, which one process opens at a time, and those made
//! from it.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use vfio_bindings::bindings::vfio::{
    VFIO_API_VERSION, VFIO_GROUP_FLAGS_CONTAINER_SET, VFIO_GROUP_FLAGS_VIABLE, VFIO_TYPE1v2_IOMMU,
};

use super::device_info::word;
use super::ioctl::IoctlFile;
use super::kernel::request;
use super::open::not_opened;
use crate::error::BackendError;
use crate::spec::Bdf;

const GET_API_VERSION: libc::c_ulong = request(0);
const CHECK_EXTENSION: libc::c_ulong = request(1);
const SET_IOMMU: libc::c_ulong = request(2);
const GROUP_GET_STATUS: libc::c_ulong = request(3);
const GROUP_SET_CONTAINER: libc::c_ulong = request(4);
const GROUP_GET_DEVICE_FD: libc::c_ulong = request(6);

/// A container with the type1v2 IOMMU.
const CONTAINER: &str = "/dev/vfio/vfio";

/// A group in its container. The kernel releases it when both files and those of its devices are
/// closed, in whatever order.
#[derive(Debug)]
pub(super) struct GroupFiles<F = File> {
    pub(super) group: F,
    pub(super) container: F,
}

impl GroupFiles {
    /// Opens the group with this number, for the function at `bdf`, which errors call `name`.
    pub(super) fn open(name: &str, bdf: Bdf, group: &str) -> Result<Self, BackendError> {
        let open = |file: &str| {
            let opened = OpenOptions::new().read(true).write(true).open(file);
            opened.map_err(|cause| not_opened(name, file, "modprobe vfio-pci", &cause))
        };
        let container = open(CONTAINER)?;
        check_container(name, &container)?;
        let files = Self {
            group: open(&format!("/dev/vfio/{group}"))?,
            container,
        };
        files.join(name, bdf, group)?;
        Ok(files)
    }
}

impl<F: IoctlFile> GroupFiles<F> {
    /// Puts the group into the container.
    fn join(&self, name: &str, bdf: Bdf, group: &str) -> Result<(), BackendError> {
        let unfit = |what| BackendError::Unfit {
            device: name.to_owned(),
            what,
        };
        if self.status(name)? & VFIO_GROUP_FLAGS_VIABLE == 0 {
            return Err(unfit(format!(
                "IOMMU group {group} is not viable: another function in it is bound to a driver of the host; `e810 doctor {bdf}` names it"
            )));
        }
        let mut number = self.container.file().as_raw_fd().to_ne_bytes();
        // SAFETY: the request takes the number of a descriptor.
        let joined = unsafe { self.group.ioctl(GROUP_SET_CONTAINER, &mut number) };
        // SAFETY: the request takes the number of a kind of IOMMU.
        let set = || unsafe {
            self.container
                .ioctl_number(SET_IOMMU, VFIO_TYPE1v2_IOMMU.into())
        };
        joined.and_then(|_| set()).map(drop).map_err(|cause| {
            unfit(format!(
                "the IOMMU refuses group {group}: {cause} (`dmesg` says why; a platform without interrupt remapping needs vfio_iommu_type1.allow_unsafe_interrupts=1)"
            ))
        })
    }

    /// VFIO_GROUP_FLAGS_*: whether no driver of the host has a function of the group, and whether it
    /// is in a container.
    fn status(&self, name: &str) -> Result<u32, BackendError> {
        // `struct vfio_group_status`: argsz, flags.
        let mut status = [8_u32, 0].map(u32::to_ne_bytes).concat();
        // SAFETY: the request's structure.
        unsafe { self.group.ioctl(GROUP_GET_STATUS, &mut status) }.map_err(|cause| {
            BackendError::system(name, "asking for the state of its IOMMU group", &cause)
        })?;
        Ok(word(&status, 4).unwrap_or(0))
    }

    /// Checks that files that somebody has kept are those of the group whose file is `path`.
    pub(super) fn check_kept(&self, name: &str, path: &Path) -> Result<(), BackendError> {
        let system = |during| move |cause: io::Error| BackendError::system(name, during, &cause);
        let kept = self.group.file().metadata();
        let kept = kept.map_err(system("looking at the kept file of its IOMMU group"))?;
        let wanted = fs::metadata(path);
        let wanted = wanted.map_err(system("looking for the file of its IOMMU group"))?;
        let is_same = kept.file_type().is_char_device() && kept.rdev() == wanted.rdev();
        let unfit = |what| BackendError::Unfit {
            device: name.to_owned(),
            what,
        };
        if !is_same {
            return Err(unfit(format!("the kept file is not {}", path.display())));
        }
        let both = VFIO_GROUP_FLAGS_VIABLE | VFIO_GROUP_FLAGS_CONTAINER_SET;
        match self.status(name)? & both == both {
            true => Ok(()),
            false => Err(unfit(
                "its kept IOMMU group is in no container, or not viable".to_owned(),
            )),
        }
    }

    /// Opens the function of the group at `bdf`, which errors call `name`. The kernel resets it,
    /// unless somebody has it open.
    pub(super) fn device(&self, name: &str, bdf: Bdf) -> Result<File, BackendError> {
        let opened = || {
            let address = CString::new(bdf.to_string())?;
            // SAFETY: the request takes a text with a zero at its end, and writes nothing.
            let opened = unsafe {
                self.group
                    .ioctl(GROUP_GET_DEVICE_FD, &mut address.into_bytes_with_nul())
            }?;
            let number = i32::try_from(opened).map_err(io::Error::other)?;
            // SAFETY: the kernel has made it for this process just now, closed in programs that
            // this one starts.
            Ok(unsafe { File::from_raw_fd(number) })
        };
        opened().map_err(|cause: io::Error| {
            BackendError::system(name, "opening it in its IOMMU group", &cause)
        })
    }
}

/// Checks that the kernel has the interface that is used here.
fn check_container(name: &str, container: &dyn IoctlFile) -> Result<(), BackendError> {
    // SAFETY: the request takes nothing.
    let version = unsafe { container.ioctl_number(GET_API_VERSION, 0) };
    // SAFETY: the request takes the number of a kind of IOMMU.
    let has_type1 =
        || unsafe { container.ioctl_number(CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU.into()) };
    let what = match version {
        Ok(VFIO_API_VERSION) if has_type1().is_ok_and(|has| has == 1) => return Ok(()),
        Ok(VFIO_API_VERSION) => {
            "the kernel's VFIO has no type1v2 IOMMU: load it with `modprobe vfio_iommu_type1`"
        }
        _ => "the kernel's VFIO has an interface of another version",
    };
    Err(BackendError::Unfit {
        device: name.to_owned(),
        what: what.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfio::mock_ioctl::{ExpectedCall, Ioctl, MockFile, MockKernel, longs, words};

    const NAME: &str = "vfio:0000:3b:00.0";

    fn bdf() -> Bdf {
        "3b:00.0".parse().unwrap()
    }

    fn files(kernel: &MockKernel) -> GroupFiles<MockFile> {
        GroupFiles {
            group: kernel.file("group", 0),
            container: kernel.file("container", 0),
        }
    }

    fn closed() -> Vec<ExpectedCall> {
        vec![
            ExpectedCall::Close("group"),
            ExpectedCall::Close("container"),
        ]
    }

    fn status(flags: u32) -> Ioctl {
        Ioctl::new("group", 0x3b67, words(&[8, 0])).reply(words(&[8, flags]))
    }

    fn set_container() -> Ioctl {
        Ioctl::new("group", 0x3b68, words(&[0])).ignore_range(0..4)
    }

    fn set_iommu() -> Ioctl {
        Ioctl::new("container", 0x3b66, longs(&[3]))
    }

    #[test]
    fn a_group_is_put_into_its_container_and_opens_its_function() {
        let null = File::open("/dev/null").unwrap();
        let number = null.try_clone().unwrap();
        let number = std::os::fd::IntoRawFd::into_raw_fd(number);
        let kernel = MockKernel::new([
            status(1).into(),
            set_container().into(),
            set_iommu().into(),
            Ioctl::new("group", 0x3b6a, b"0000:3b:00.0\0".to_vec())
                .returns(number as u32)
                .into(),
        ]);
        let files = files(&kernel);
        files.join(NAME, bdf(), "24").unwrap();
        let device = files.device(NAME, bdf()).unwrap();
        assert_eq!(device.as_raw_fd(), number);
        kernel.expect(closed());
        drop(files);
        kernel.is_done();
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        for (steps, says) in [
            (vec![status(0).into()], "group 24 is not viable"),
            (
                vec![status(1).fails(libc::EIO).into()],
                "state of its IOMMU group",
            ),
            (
                vec![status(1).into(), set_container().fails(libc::EINVAL).into()],
                "interrupt remapping",
            ),
            (
                vec![
                    status(1).into(),
                    set_container().into(),
                    set_iommu().fails(libc::EPERM).into(),
                ],
                "the IOMMU refuses group 24",
            ),
        ] {
            let kernel = MockKernel::new(steps);
            let files = files(&kernel);
            let error = files.join(NAME, bdf(), "24").unwrap_err().to_string();
            assert!(error.starts_with(NAME) && error.contains(says), "{error}");
            assert!(!error.contains('\n'), "one line");
            kernel.expect(closed());
            drop(files);
            kernel.is_done();
        }
    }

    #[test]
    fn kept_files_are_those_of_the_group() {
        let null = || File::open("/dev/null").unwrap();
        let no_group = GroupFiles {
            group: null(),
            container: null(),
        };
        let other = no_group.check_kept(NAME, Path::new("/dev/zero"));
        let other = other.unwrap_err().to_string();
        assert!(other.contains("is not /dev/zero"), "{other}");
        let gone = no_group.check_kept(NAME, Path::new("/dev/nowhere"));
        assert!(gone.is_err());
        // It is the file, and answers as no group does.
        let error = no_group.check_kept(NAME, Path::new("/dev/null"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("state of its IOMMU group"), "{error}");
        // A file that is no device's.
        let kernel = MockKernel::default();
        let memory = files(&kernel);
        assert!(
            memory
                .check_kept(NAME, Path::new("/proc/self/mem"))
                .is_err()
        );
        kernel.expect(closed());
        drop(memory);
        kernel.is_done();
    }

    #[test]
    fn the_kernels_interface_is_checked() {
        let version = |answer| Ioctl::new("container", 0x3b64, longs(&[0])).returns(answer);
        let type1 = |answer| Ioctl::new("container", 0x3b65, longs(&[3])).returns(answer);
        for (steps, says) in [
            (vec![version(0), type1(1)], None),
            (vec![version(0), type1(0)], Some("vfio_iommu_type1")),
            (vec![version(1)], Some("another version")),
            (
                vec![version(0).fails(libc::ENOTTY)],
                Some("another version"),
            ),
        ] {
            let kernel = MockKernel::new(steps.into_iter().map(ExpectedCall::from));
            let container = kernel.file("container", 0);
            let checked = check_container(NAME, &container).map_err(|error| error.to_string());
            match says {
                None => checked.unwrap(),
                Some(says) => assert!(checked.unwrap_err().contains(says)),
            }
            kernel.expect([ExpectedCall::Close("container")]);
            drop(container);
            kernel.is_done();
        }
    }
}

//! iommufd: /dev/iommu and the function's own device file.
//!
//! Structures and numbers are those of `linux/iommufd.h` and `linux/vfio.h`, with the sizes of
//! Linux 6.6, the first that has all of this; later kernels accept them as well.

mod cdev;
#[cfg(test)]
mod script;
mod space;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::Opened;
use super::device_info::describe;
use super::ioctl::IoctlFile;
use super::kernel::request;
use super::open::{not_opened, place};
use crate::accept::Accept;
use crate::error::BackendError;
use crate::host::Host;
use crate::spec::Bdf;
use cdev::cdev;
use space::{Ioas, alloc};

const BIND_IOMMUFD: libc::c_ulong = request(18);

/// `struct vfio_device_bind_iommufd`, without the token of virtual functions.
#[derive(FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Bind {
    argsz: u32,
    flags: u32,
    iommufd: i32,
    out_devid: u32,
}

/// Opens a function; its errors call it `name`.
pub(super) fn open(name: &str, bdf: Bdf, accept: Accept) -> Result<Opened, BackendError> {
    const IOMMU: &str = "/dev/iommu";
    let host = Host::default();
    let place = place(&host, name, bdf, accept)?;
    let file = cdev(&host, name, bdf, &place)?;
    let open = |file: &Path, load| -> Result<File, BackendError> {
        let opened = OpenOptions::new().read(true).write(true).open(file);
        let at = file.display().to_string();
        opened.map_err(|cause| not_opened(name, &at, load, &cause))
    };
    let iommu = open(Path::new(IOMMU), "modprobe iommufd")?;
    let device = open(&file, "modprobe vfio-pci")?;
    let in_use = format!("{} /dev/vfio/{}", file.display(), place.group);
    attach(name, &in_use, Box::new(iommu), Arc::new(device))
}

/// Binds the device to the iommufd, gives it addresses, and describes it. `in_use` are the files
/// that another user of it would have open.
fn attach(
    name: &str,
    in_use: &str,
    iommu: Box<dyn IoctlFile>,
    device: Arc<dyn IoctlFile>,
) -> Result<Opened, BackendError> {
    let system = |during| move |cause: io::Error| BackendError::system(name, during, &cause);
    let unfit = |what| BackendError::Unfit {
        device: name.to_owned(),
        what,
    };
    bind(&*device, &*iommu).map_err(|cause| unfit(not_bound(in_use, &cause)))?;
    let id = alloc(&*iommu).map_err(system("making an I/O address space"))?;
    space::attach(&*device, id).map_err(|cause| {
        unfit(format!(
            "the IOMMU refuses the function: {cause} (`dmesg` says why)"
        ))
    })?;
    // From here on an error detaches the device from the address space again, and closes it before
    // the iommufd.
    let space = Ioas { id, device, iommu };
    let device = Arc::clone(&space.device);
    let asked = space.iommu().map_err(system("asking for the IOMMU"));
    let iommu = asked?.map_err(|cause| BackendError::Iova {
        device: name.to_owned(),
        cause,
    })?;
    let description = describe(&*device).map_err(system("asking what the function has"))?;
    Ok(Opened {
        device,
        description,
        iommu,
        addresses: None,
        space: Box::new(space),
    })
}

/// VFIO_DEVICE_BIND_IOMMUFD. Closing the device releases the binding.
fn bind(device: &dyn IoctlFile, iommu: &dyn IoctlFile) -> io::Result<()> {
    let mut bind = Bind {
        argsz: size_of::<Bind>() as u32,
        flags: 0,
        iommufd: iommu.file().as_raw_fd(),
        out_devid: 0,
    };
    // SAFETY: the request's structure.
    unsafe { device.ioctl(BIND_IOMMUFD, bind.as_mut_bytes()) }.map(drop)
}

/// Why the device cannot be bound to an iommufd.
fn not_bound(in_use: &str, cause: &io::Error) -> String {
    match cause.raw_os_error() {
        // The group is open, or has another owner.
        Some(libc::EBUSY) => format!(
            "in use: another process has it, or another function of its IOMMU group is open, in this process too (`fuser {in_use}` names it; two functions of one group go together with `vfio:`)"
        ),
        // The kernel's error if the same file is open twice.
        Some(libc::EINVAL) => format!(
            "refused by the kernel: another process has it open (`fuser {in_use}` names it), or the IOMMU does not keep memory coherent (`dmesg` says why)"
        ),
        Some(libc::EPERM) => {
            "the IOMMU does not hold interrupts apart (a platform without interrupt remapping needs iommufd.allow_unsafe_interrupts=1)"
                .to_owned()
        }
        _ => format!("binding it to iommufd: {cause}"),
    }
}

//! The device file of a function.

use std::path::{Path, PathBuf};

use crate::error::BackendError;
use crate::host::Host;
use crate::spec::Bdf;
use crate::vfio::open::Place;

/// /dev/vfio/devices/vfioN of the function at `place`; errors call it `name`.
pub(super) fn cdev(
    host: &Host,
    name: &str,
    bdf: Bdf,
    place: &Place,
) -> Result<PathBuf, BackendError> {
    let unfit = |what| BackendError::Unfit {
        device: name.to_owned(),
        what,
    };
    let devices = std::fs::read_dir(place.path.join("vfio-dev"));
    let mut devices = devices.into_iter().flatten().flatten();
    // Kernels from 6.2 on have the folder; the number of a file is only there with the option.
    let device = devices.find(|device| device.path().join("dev").exists());
    let device = device.ok_or_else(|| {
        unfit(format!(
            "this kernel has no device files for VFIO (CONFIG_VFIO_DEVICE_CDEV, from Linux 6.6 on); use vfio:{bdf}"
        ))
    })?;
    let file = Path::new("/dev/vfio/devices").join(device.file_name());
    let file = host.path(&file.to_string_lossy());
    if !file.exists() {
        return Err(unfit(format!(
            "no {}, although the function is on vfio-pci: this /dev is not the kernel's; give the container the file",
            file.display()
        )));
    }
    Ok(file)
}

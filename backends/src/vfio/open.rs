//! Opening a function, with errors that say what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use vfio_ioctls::{VfioContainer, VfioDevice, VfioError, VfioOps};

use crate::accept::Accept;
use crate::error::BackendError;
use crate::host::{Host, folder, link_name, pci};
use crate::spec::Bdf;

/// The entries of sysfs about a function before anything is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// IOMMU group.
    pub(super) group: String,
}

/// Finds the function at `bdf` and checks what it is; errors call it `name`.
pub(super) fn place(
    host: &Host,
    name: &str,
    bdf: Bdf,
    accept: Accept,
) -> Result<Place, BackendError> {
    let unfit = |what: String| BackendError::Unfit {
        device: name.to_owned(),
        what,
    };
    folder::check(host, name, bdf, accept)?;
    let path = pci::folder(host, bdf);
    let link = |file: &str| link_name(&path.join(file));
    match link("driver").as_deref() {
        Some(pci::VFIO_PCI) => {}
        Some(driver) => {
            return Err(unfit(format!(
                "its driver is {driver}; bind it to vfio-pci with `e810 bind {bdf}`"
            )));
        }
        None => {
            return Err(unfit(format!(
                "no driver is bound to it; bind it to vfio-pci with `e810 bind {bdf}`"
            )));
        }
    }
    let group = link("iommu_group").ok_or_else(|| {
        unfit(format!(
            "it is in no IOMMU group: the IOMMU is off; `e810 doctor {bdf}` says how to switch it on"
        ))
    })?;
    Ok(Place { path, group })
}

/// Opens a container.
pub(super) fn container(bdf: Bdf, place: &Place) -> Result<Arc<VfioContainer>, BackendError> {
    let container = VfioContainer::new(None).map_err(|error| explain(bdf, &place.group, &error))?;
    Ok(Arc::new(container))
}

/// Opens a device, and its group unless the container has it.
pub(super) fn device(
    bdf: Bdf,
    place: &Place,
    container: Arc<VfioContainer>,
) -> Result<VfioDevice, BackendError> {
    let ops: Arc<dyn VfioOps> = container;
    VfioDevice::new(&place.path, ops, false).map_err(|error| explain(bdf, &place.group, &error))
}

/// Why `file` cannot be opened; `load` makes it appear.
pub(super) fn not_opened(device: &str, file: &str, load: &str, cause: &io::Error) -> BackendError {
    let what = match cause.kind() {
        io::ErrorKind::NotFound => {
            format!("{file} does not exist: load the driver with `{load}`")
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "no permission to open {file}: run as root, or get access to it (`e810 doctor` says how)"
            )
        }
        io::ErrorKind::ResourceBusy => {
            format!("{file} is in use by another process (`fuser {file}` names it)")
        }
        _ => format!("{file} cannot be opened: {cause}"),
    };
    BackendError::NotOpened {
        device: device.to_owned(),
        what,
        errno: cause.raw_os_error(),
    }
}

/// The crate's error, in words that say what to do.
fn explain(bdf: Bdf, group: &str, error: &VfioError) -> BackendError {
    let device = format!("vfio:{bdf}");
    let of_file =
        |file: &str, cause: &io::Error| not_opened(&device, file, "modprobe vfio-pci", cause);
    let what = match error {
        VfioError::OpenContainer(cause) => return of_file("/dev/vfio/vfio", cause),
        VfioError::OpenGroup(cause, group) => {
            return of_file(&format!("/dev/vfio/{group}"), cause);
        }
        VfioError::GroupViable => format!(
            "IOMMU group {group} is not viable: another function in it is bound to a driver of the host; `e810 doctor {bdf}` names it"
        ),
        VfioError::VfioType1V2 | VfioError::VfioExtension => {
            "the kernel's VFIO has no type1v2 IOMMU: load it with `modprobe vfio_iommu_type1`"
                .to_owned()
        }
        VfioError::GroupSetContainer | VfioError::ContainerSetIOMMU(_) => format!(
            "{error}: the IOMMU refuses group {group} (`dmesg` says why; a platform without interrupt remapping needs vfio_iommu_type1.allow_unsafe_interrupts=1)"
        ),
        other => other.to_string(),
    };
    BackendError::Unfit { device, what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::{Tree, bdf};

    const FIRST: &str = "0000:3b:00.0";

    fn found(tree: &Tree, address: &str, accept: Accept) -> Result<Place, BackendError> {
        place(tree.host(), "vfio:test", bdf(address), accept)
    }

    #[test]
    fn each_reason_names_its_remedy() {
        let tree = Tree::with_card();
        let says = |address: &str| {
            let error = found(&tree, address, Accept::E810).unwrap_err();
            error.to_string()
        };
        let text = says(FIRST);
        assert!(text.contains("its driver is ice"), "{text}");
        assert!(text.contains("e810 bind 0000:3b:00.0"), "{text}");
        tree.remove("/sys/bus/pci/devices/0000:3b:00.0/driver");
        let text = says(FIRST);
        assert!(text.contains("no driver is bound"), "{text}");
        tree.bind(FIRST, "vfio-pci");
        assert_eq!(found(&tree, FIRST, Accept::E810).unwrap().group, "24");
        tree.remove("/sys/bus/pci/devices/0000:3b:00.0/iommu_group");
        let text = says(FIRST);
        assert!(text.contains("e810 doctor"), "{text}");
        let text = says("0000:3c:00.0");
        assert!(text.contains("e810 list"), "{text}");
    }

    #[test]
    fn another_device_is_refused_before_it_is_opened() {
        let tree = Tree::with_others();
        for (address, forced) in [("0000:65:00.0", false), ("0000:68:00.0", true)] {
            tree.bind(address, "vfio-pci");
            tree.group(address, 30);
            let refused = found(&tree, address, Accept::E810);
            assert!(matches!(refused, Err(BackendError::NotE810 { .. })));
            let found = found(&tree, address, Accept::IntelEthernet);
            assert_eq!(found.is_ok(), forced, "{address}");
        }
    }

    #[test]
    fn the_crates_errors_become_advice() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        for (error, says) in [
            (
                VfioError::OpenContainer(io::ErrorKind::NotFound.into()),
                "modprobe",
            ),
            (VfioError::OpenContainer(denied()), "e810 doctor"),
            (
                VfioError::OpenGroup(denied(), "17".to_owned()),
                "/dev/vfio/17",
            ),
            (
                VfioError::OpenGroup(busy, "17".to_owned()),
                "another process",
            ),
            (VfioError::GroupViable, "group 17 is not viable"),
            (VfioError::GroupSetContainer, "interrupt remapping"),
            (VfioError::VfioExtension, "vfio_iommu_type1"),
        ] {
            let text = explain(bdf(FIRST), "17", &error).to_string();
            assert!(text.contains(says), "{text}");
            assert!(!text.contains('\n'), "one line");
        }
    }
}

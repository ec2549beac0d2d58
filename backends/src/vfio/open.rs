//! Opening a function, with errors that say what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use e810_hal::pci_ids;
use vfio_ioctls::{VfioContainer, VfioDevice, VfioError, VfioOps};

use crate::error::BackendError;
use crate::spec::Bdf;

/// What sysfs says of a function before anything is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// IOMMU group.
    pub(super) group: String,
}

/// Finds the function in `root` (`/` on a host); errors call it `name`.
pub(super) fn place(root: &Path, name: &str, bdf: Bdf) -> Result<Place, BackendError> {
    let unfit = |what: String| BackendError::Unfit {
        device: name.to_owned(),
        what,
    };
    let path = root.join(format!("sys/bus/pci/devices/{bdf}"));
    if !path.exists() {
        return Err(unfit(
            "there is no PCI function at this address; `e810 list` shows those of E810 cards"
                .to_owned(),
        ));
    }
    let id = |file: &str| {
        let text = std::fs::read_to_string(path.join(file)).ok()?;
        u16::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let (vendor, device) = (id("vendor").unwrap_or(0), id("device").unwrap_or(0));
    if pci_ids::name(vendor, device).is_none() {
        return Err(BackendError::NotE810 {
            device: name.to_owned(),
            vendor,
            id: device,
        });
    }
    let link = |file: &str| {
        let target = std::fs::read_link(path.join(file)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    match link("driver").as_deref() {
        Some("vfio-pci") => {}
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
pub(super) fn not_opened(file: &str, load: &str, cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => {
            format!("{file} is not there: load the driver with `{load}`")
        }
        io::ErrorKind::PermissionDenied => {
            format!("no right to open {file}: run as root, or once `chown $USER {file}` as root")
        }
        io::ErrorKind::ResourceBusy => {
            format!("{file} is in use by another process (`fuser {file}` names it)")
        }
        _ => format!("{file} cannot be opened: {cause}"),
    }
}

/// The crate's error in words that say what to do.
fn explain(bdf: Bdf, group: &str, error: &VfioError) -> BackendError {
    let device = format!("vfio:{bdf}");
    let of_file = |file: &str, cause: &io::Error| not_opened(file, "modprobe vfio-pci", cause);
    let what = match error {
        VfioError::OpenContainer(cause) => of_file("/dev/vfio/vfio", cause),
        VfioError::OpenGroup(cause, group) => of_file(&format!("/dev/vfio/{group}"), cause),
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
    use std::os::unix::fs::symlink;

    fn bdf() -> Bdf {
        "3b:00.0".parse().unwrap()
    }

    /// A sysfs with one function.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, device: &str) -> Self {
            let root = std::env::temp_dir().join(format!("e810-{name}-{}", std::process::id()));
            let path = root.join("sys/bus/pci/devices/0000:3b:00.0");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("vendor"), "0x8086\n").unwrap();
            std::fs::write(path.join("device"), device).unwrap();
            Self(root)
        }
        fn link(&self, name: &str, target: &str) {
            let link = self.0.join("sys/bus/pci/devices/0000:3b:00.0").join(name);
            let _ = std::fs::remove_file(&link);
            symlink(target, link).unwrap();
        }
        fn says(&self) -> String {
            place(&self.0, "vfio:test", bdf()).unwrap_err().to_string()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_reason_names_its_remedy() {
        let tree = Tree::new("place", "0x1592\n");
        assert!(
            tree.says().contains("no driver is bound"),
            "{}",
            tree.says()
        );
        tree.link("driver", "../../../bus/pci/drivers/ice");
        assert!(tree.says().contains("its driver is ice"), "{}", tree.says());
        assert!(tree.says().contains("e810 bind 0000:3b:00.0"));
        tree.link("driver", "../../../bus/pci/drivers/vfio-pci");
        assert!(tree.says().contains("e810 doctor"), "{}", tree.says());
        tree.link("iommu_group", "../../../kernel/iommu_groups/17");
        assert_eq!(place(&tree.0, "vfio:test", bdf()).unwrap().group, "17");
        let other: Bdf = "3b:00.1".parse().unwrap();
        let error = place(&tree.0, "vfio:test", other).unwrap_err().to_string();
        assert!(error.contains("e810 list"), "{error}");
    }

    #[test]
    fn another_device_is_refused_before_it_is_opened() {
        let tree = Tree::new("other", "0x10fb\n");
        assert!(matches!(
            place(&tree.0, "vfio:test", bdf()),
            Err(BackendError::NotE810 {
                vendor: 0x8086,
                id: 0x10fb,
                ..
            })
        ));
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
            (VfioError::OpenContainer(denied()), "chown"),
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
            let text = explain(bdf(), "17", &error).to_string();
            assert!(text.contains(says), "{text}");
            assert!(!text.contains('\n'), "one line");
        }
    }
}

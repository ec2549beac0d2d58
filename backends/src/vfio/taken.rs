//! A function that an owner has left as it was when it died, and that the next one takes over.

use vfio_bindings::bindings::vfio::VFIO_PCI_MSIX_IRQ_INDEX;

use super::{Vfio, container, kernel};
use crate::accept::Accept;
use crate::error::BackendError;
use crate::function::{identify, stop_dma};
use crate::spec::{Bdf, VfioApi};
use crate::transport::{KeptFiles, Transport as _};

impl Vfio {
    /// Takes over the function at `bdf` from an owner whose files somebody has kept
    /// ([`Shares::keep`](crate::Shares::keep)). Other processes may still have the device and its
    /// container: nothing that they or the owner have mapped remains mapped, and nothing that they
    /// have begun goes on. The doorbell page stays mapped where it is.
    ///
    /// # Errors
    /// [`BackendError`]: the files are not those of that function, or the kernel refuses a step. The
    /// files are closed then.
    pub fn take_over(bdf: Bdf, accept: Accept, kept: KeptFiles) -> Result<Self, BackendError> {
        let name = format!("{}:{bdf}", VfioApi::Container.name());
        let opened = container::kept(&name, bdf, accept, kept)?;
        let vfio = Self::new(name, bdf, opened)?;
        vfio.halt(accept)?;
        Ok(vfio)
    }

    /// Stops what runs, in the order in which nothing can come after it: DMA, interrupts, the
    /// engine, and what it could reach. No register is accessed.
    fn halt(&self, accept: Accept) -> Result<(), BackendError> {
        identify(self, accept)?;
        stop_dma(self)?;
        match kernel::disable_irqs(&*self.device, VFIO_PCI_MSIX_IRQ_INDEX) {
            // They were off: the owner had not come so far.
            Err(cause) if cause.raw_os_error() == Some(libc::EINVAL) => {}
            disabled => {
                disabled.map_err(|cause| self.refused("disconnecting interrupts", cause))?;
            }
        }
        self.reset()?;
        self.space.clear().map_err(|cause| {
            self.refused(
                "taking an earlier owner's memory away from the device",
                cause,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::sync::Arc;

    use e810_hal::bus::BAR0_LEN;

    use super::*;
    use crate::vfio::Opened;
    use crate::vfio::container::Type1;
    use crate::vfio::device_info::{DeviceInfo, Irqs, Region};
    use crate::vfio::ioctl::IoctlFile as _;
    use crate::vfio::iommu::Iommu;
    use crate::vfio::mock_ioctl::{ExpectedCall, Ioctl, MockKernel, longs, words};

    const CONFIG: u64 = 7 << 40;
    /// Memory and bus mastering are on, as with a function in use.
    const RUNNING: [u8; 2] = [6, 0];
    const HALTED: [u8; 2] = [2, 0];

    /// A function with these ids, as its owner left it.
    fn left_behind(kernel: &MockKernel, ids: [u8; 4]) -> Vfio {
        let device = kernel.file("device", CONFIG + 4096);
        let file = device.file();
        file.write_all_at(&ids, CONFIG).unwrap();
        file.write_all_at(&RUNNING, CONFIG + 4).unwrap();
        let opened = Opened {
            device: Arc::new(device),
            description: DeviceInfo {
                bar0: Region {
                    flags: 7,
                    size: BAR0_LEN.into(),
                    offset: 0,
                    areas: None,
                },
                config: CONFIG,
                msix: Some(Irqs {
                    flags: 1,
                    count: 64,
                }),
                error: None,
                request: None,
            },
            iommu: Iommu::new(vec![(1 << 20, (1 << 39) - 1)], 4096, None).unwrap(),
            addresses: None,
            space: Box::new(Type1::of(kernel.file("container", 0))),
        };
        Vfio::new("vfio:test".to_owned(), "3b:00.0".parse().unwrap(), opened).unwrap()
    }

    fn closed() -> [ExpectedCall; 2] {
        [
            ExpectedCall::Close("device"),
            ExpectedCall::Close("container"),
        ]
    }

    fn interrupts_off() -> Ioctl {
        Ioctl::new("device", 0x3b6e, words(&[20, 0x21, 2, 0, 0]))
    }

    fn reset() -> Ioctl {
        Ioctl::new("device", 0x3b6f, vec![]).sees(CONFIG + 4, HALTED.to_vec())
    }

    /// `struct vfio_iommu_type1_dma_unmap`: argsz, flags (all), iova, size.
    fn unmap_all() -> Ioctl {
        let mut argument = words(&[24, 2]);
        argument.extend(longs(&[0, 0]));
        Ioctl::new("container", 0x3b72, argument)
    }

    /// Before anything is mapped, and before a register is read.
    #[test]
    fn what_the_dead_owner_had_begun_is_stopped_in_order() {
        for off in [interrupts_off(), interrupts_off().fails(libc::EINVAL)] {
            let kernel = MockKernel::new([
                off.sees(CONFIG + 4, HALTED.to_vec()).into(),
                reset().into(),
                unmap_all().into(),
            ]);
            let vfio = left_behind(&kernel, [0x86, 0x80, 0x92, 0x15]);
            vfio.halt(Accept::E810).unwrap();
            kernel.expect(closed());
            drop(vfio);
            kernel.is_done();
        }
    }

    #[test]
    fn a_function_that_cannot_be_stopped_is_not_taken() {
        let refused = |steps: Vec<Ioctl>| {
            let kernel = MockKernel::new(steps.into_iter().map(ExpectedCall::from));
            let vfio = left_behind(&kernel, [0x86, 0x80, 0x92, 0x15]);
            let error = vfio.halt(Accept::E810).unwrap_err().to_string();
            kernel.expect(closed());
            drop(vfio);
            kernel.is_done();
            error
        };
        let says = refused(vec![interrupts_off().fails(libc::EIO)]);
        assert!(says.contains("disconnecting interrupts"), "{says}");
        let says = refused(vec![interrupts_off(), reset().fails(libc::EIO)]);
        assert!(says.contains("resetting the function"), "{says}");
        let says = refused(vec![
            interrupts_off(),
            reset(),
            unmap_all().fails(libc::EINVAL),
        ]);
        assert!(says.contains("earlier owner's memory"), "{says}");
    }

    #[test]
    fn another_device_is_left_as_it_is() {
        let kernel = MockKernel::default();
        let vfio = left_behind(&kernel, [0x86, 0x80, 0x72, 0x15]);
        let refused = vfio.halt(Accept::E810);
        assert!(matches!(refused, Err(BackendError::NotE810 { .. })));
        let mut command = [0; 2];
        vfio.config_read(4, &mut command).unwrap();
        assert_eq!(command, RUNNING);
        kernel.expect(closed());
        drop(vfio);
        kernel.is_done();
    }
}

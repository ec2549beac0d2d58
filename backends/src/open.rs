//! Opening devices of any kind.
//!
//! Each kind of device is another type of platform. So the code that uses a device is a generic
//! method, [`DeviceVisitor::visit`]: [`open`] makes the devices and calls it. Nothing else chooses
//! a type by the kind of a [`DeviceSpec`].

#[cfg(feature = "sim")]
use e810_sim::{Mode, Sim};

use crate::descriptors;
use crate::device::HostDevice;
use crate::spec::DeviceSpec;
#[cfg(feature = "sim")]
use crate::spec::SimSpec;
use crate::vfio::Vfio;
use crate::vfio_user::VfioUser;
use crate::{BackendError, Function, Options};

/// Code that uses `N` devices of any type of platform.
///
/// It would be a closure `|devices| …` if closures could be generic.
pub trait DeviceVisitor<const N: usize>: Sized {
    /// The result.
    type Outcome;
    /// The error.
    type Error: From<BackendError>;

    /// Makes the simulator whose first `N` functions are used; called first if the devices are
    /// simulated. `spec` has the options in their name. By default the functions are as after
    /// power-up, and everything else is as in [`Sim::builder`].
    ///
    /// # Errors
    /// The visitor's own.
    #[cfg(feature = "sim")]
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim, Self::Error> {
        let functions = u8::try_from(N).unwrap_or(u8::MAX);
        let builder = spec.builder(Mode::default());
        Ok(builder.cold().functions(functions).build())
    }

    /// Uses the devices, in the order in which they were named. All except simulated ones were
    /// reset.
    ///
    /// # Errors
    /// The visitor's own.
    fn visit<D: HostDevice>(self, devices: [D; N]) -> Result<Self::Outcome, Self::Error>;
}

/// Opens the devices that `specs` name, 1 to 8, and has `visitor` use them.
///
/// They are of one kind ([`DeviceSpec::kind`]). Simulated ones are functions of one simulator, and
/// have one name; `options` are for the others.
///
/// # Errors
/// [`BackendError`], if a device cannot be opened or they are of several kinds; the error of
/// `visitor`.
pub fn open<const N: usize, V: DeviceVisitor<N>>(
    specs: [&DeviceSpec; N],
    options: Options,
    visitor: V,
) -> Result<V::Outcome, V::Error> {
    const { assert!(0 < N && N <= MOST, "1 to 8 devices") };
    let [first, ..] = *specs.as_slice() else {
        unreachable!("{N} devices");
    };
    descriptors::check(&specs)?;
    match first {
        #[cfg(feature = "sim")]
        DeviceSpec::Sim(spec) => {
            if let Some(other) = specs.into_iter().find(|other| *other != first) {
                return Err(unlike(first, other).into());
            }
            let mut visitor = visitor;
            let sim = visitor.simulator(spec)?;
            // The wire is left when the visitor is done.
            let _wire = spec.join(&sim)?;
            let mut number = 0..;
            visitor.visit(specs.map(|_| sim.function(number.next().unwrap_or_default())))
        }
        DeviceSpec::VfioUser(_) => visitor.visit(each(specs, |spec| match spec {
            DeviceSpec::VfioUser(path) => Function::open(VfioUser::connect(path)?, options),
            other => Err(unlike(first, other)),
        })?),
        DeviceSpec::Vfio(..) => visitor.visit(each(specs, |spec| match spec {
            DeviceSpec::Vfio(bdf, way) => {
                Function::open(Vfio::open_by(*bdf, *way, options.accept)?, options)
            }
            other => Err(unlike(first, other)),
        })?),
    }
}

/// Functions of a card.
const MOST: usize = 8;

/// Opens one device after the other. If one cannot be opened, those before it are closed.
fn each<D, const N: usize>(
    specs: [&DeviceSpec; N],
    open: impl FnMut(&DeviceSpec) -> Result<D, BackendError>,
) -> Result<[D; N], BackendError> {
    let devices: Vec<D> = specs.into_iter().map(open).collect::<Result<_, _>>()?;
    let Ok(devices) = devices.try_into() else {
        unreachable!("a device for each of {N}");
    };
    Ok(devices)
}

fn unlike(first: &DeviceSpec, other: &DeviceSpec) -> BackendError {
    BackendError::Unlike {
        device: first.to_string(),
        other: other.to_string(),
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::spec::DeviceKind;

    /// Names the devices.
    struct Names;

    impl<const N: usize> DeviceVisitor<N> for Names {
        type Outcome = usize;
        type Error = BackendError;

        fn visit<D: HostDevice>(self, devices: [D; N]) -> Result<usize, BackendError> {
            for device in &devices {
                device.probe()?;
                device.relax();
                assert_eq!(device.failure(), None);
            }
            Ok(devices.len())
        }
    }

    #[test]
    fn simulated_devices_are_functions_of_one_simulator() {
        for name in ["sim", "sim:latency=0,rate=10G"] {
            let sim: DeviceSpec = name.parse().unwrap();
            assert_eq!(sim.kind(), DeviceKind::Simulated);
            assert_eq!(open([&sim], Options::default(), Names), Ok(1));
            assert_eq!(open([&sim, &sim], Options::default(), Names), Ok(2));
        }
    }

    #[test]
    fn functions_of_one_simulator_have_one_name() {
        let [sim, other] = ["sim", "sim:rate=10G"].map(|text| text.parse().unwrap());
        let error = open([&sim, &other], Options::default(), Names).unwrap_err();
        assert!(matches!(error, BackendError::Unlike { .. }), "{error}");
    }

    #[test]
    fn devices_of_two_kinds_are_not_opened_together() {
        let [sim, served] = ["sim", "vfio-user:/nowhere"].map(|text| text.parse().unwrap());
        let error = open([&sim, &served], Options::default(), Names).unwrap_err();
        assert!(matches!(error, BackendError::Unlike { .. }), "{error}");
        // The error is that of the first one that cannot be opened.
        let error = open([&served, &sim], Options::default(), Names).unwrap_err();
        assert!(matches!(error, BackendError::Connect { .. }), "{error}");
    }
}

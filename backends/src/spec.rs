//! Names of devices, and their kinds.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use crate::addressed_spec::{AddressedSpec, MOST_WAIT, SpecAddress};
#[cfg(feature = "sim")]
pub use crate::sim_spec::{NoSimSpec, PATIENT_ACK_TIMEOUT, SimSpec};

/// The kernel interface that opens a function bound to vfio-pci.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VfioApi {
    /// `vfio`: its IOMMU group, in a container.
    Container,
    /// `iommufd`: /dev/iommu and the function's own device file.
    Iommufd,
}

impl VfioApi {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Container => "vfio",
            Self::Iommufd => "iommufd",
        }
    }
}

/// A device: simulated, behind a vfio-user socket, or real.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceSpec {
    /// `sim`, or `sim:` with options: a function of a simulator in this process.
    #[cfg(feature = "sim")]
    Sim(SimSpec),
    /// `vfio-user:PATH`: a function served on a socket.
    VfioUser(PathBuf),
    /// `vfio:BDF`, or `iommufd:BDF` with that feature: a PCI function bound to
    /// vfio-pci.
    Vfio(Bdf, VfioApi),
}

/// How a device is reached. Two devices of one kind may share a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// In this process, simulated.
    #[cfg(feature = "sim")]
    Simulated,
    /// On a vfio-user socket.
    VfioUser,
    /// Through the kernel.
    Vfio,
}

impl DeviceKind {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "sim")]
            Self::Simulated => "simulated",
            Self::VfioUser => "vfio-user",
            Self::Vfio => "vfio",
        }
    }
}

/// A PCI address, `domain:bus:device.function`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bdf {
    /// PCI domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0..=31.
    pub device: u8,
    /// Function, 0..=7.
    pub function: u8,
}

impl FromStr for Bdf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a PCI address like 0000:3b:00.0 or 3b:00.0");
        let (rest, function) = text.rsplit_once('.').ok_or_else(wrong)?;
        let mut parts = rest.split(':').rev();
        let device = parts.next().ok_or_else(wrong)?;
        let bus = parts.next().ok_or_else(wrong)?;
        let domain = parts.next().unwrap_or("0");
        // Domains that are not PCI's own, such as those of VMD, have more than four digits.
        let hex = |part: &str, limit: u32| {
            let digits = part.len() <= 8 && part.chars().all(|c| c.is_ascii_hexdigit());
            let value = u32::from_str_radix(part, 16).ok()?;
            (digits && value <= limit).then_some(value)
        };
        let (Some(domain), Some(bus), Some(device), Some(function), None) = (
            hex(domain, u32::MAX),
            hex(bus, 0xFF),
            hex(device, 31),
            hex(function, 7),
            parts.next(),
        ) else {
            return Err(wrong());
        };
        Ok(Self {
            domain,
            bus: bus as u8,
            device: device as u8,
            function: function as u8,
        })
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// The forms of a device name.
#[cfg(feature = "sim")]
const FORMS: &str = "sim, sim:wire=NAME, vfio-user:PATH, or a PCI address like 3b:00.0 (vfio:BDF)";
#[cfg(not(feature = "sim"))]
const FORMS: &str = "vfio-user:PATH, or a PCI address like 3b:00.0 (vfio:BDF)";

impl DeviceSpec {
    /// The same for text that need not be UTF-8, such as paths of sockets.
    ///
    /// # Errors
    /// As when it is parsed.
    pub fn of_os(text: &OsStr) -> Result<Self, String> {
        match (text.to_str(), text.as_bytes().strip_prefix(b"vfio-user:")) {
            (None, Some(path)) => Ok(Self::VfioUser(OsStr::from_bytes(path).into())),
            _ => text.to_string_lossy().parse(),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        #[cfg(feature = "sim")]
        if text == "sim" {
            return Ok(Self::Sim(SimSpec::default()));
        }
        let container = |bdf| Self::Vfio(bdf, VfioApi::Container);
        match text.split_once(':') {
            #[cfg(feature = "sim")]
            Some(("sim", options)) => {
                let spec: Result<SimSpec, NoSimSpec> = options.parse();
                spec.map(Self::Sim).map_err(|error| error.to_string())
            }
            // Some commands take that form themselves.
            Some(("at", path)) => Err(format!(
                "`{text}` is a function of `e810 serve`: use it with `e810 run --at {path}`, or as --device of `e810 perf`"
            )),
            Some(("vfio-user", path)) if !path.is_empty() => Ok(Self::VfioUser(path.into())),
            Some(("vfio", bdf)) => bdf.parse().map(container),
            Some(("iommufd", bdf)) => bdf.parse().map(|bdf| Self::Vfio(bdf, VfioApi::Iommufd)),
            _ => text
                .parse()
                .map(container)
                .map_err(|_| format!("`{text}` names no device: use {FORMS}")),
        }
    }
}

impl DeviceSpec {
    /// How it is reached.
    #[must_use]
    pub const fn kind(&self) -> DeviceKind {
        match self {
            #[cfg(feature = "sim")]
            Self::Sim(_) => DeviceKind::Simulated,
            Self::VfioUser(_) => DeviceKind::VfioUser,
            Self::Vfio(..) => DeviceKind::Vfio,
        }
    }

    /// Whether it is a simulated function of this process.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        #[cfg(feature = "sim")]
        let is_simulated = matches!(self, Self::Sim(_));
        #[cfg(not(feature = "sim"))]
        let is_simulated = false;
        is_simulated
    }

    /// The options in its name, if it is a simulated function of this process.
    #[cfg(feature = "sim")]
    #[must_use]
    pub const fn simulated(&self) -> Option<&SimSpec> {
        match self {
            Self::Sim(spec) => Some(spec),
            _ => None,
        }
    }

    /// The socket on which it is served, if it is reached that way.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::VfioUser(path) => Some(path),
            _ => None,
        }
    }

    /// Its PCI address, if it is a function of this machine.
    #[must_use]
    pub const fn bdf(&self) -> Option<Bdf> {
        match self {
            Self::Vfio(bdf, _) => Some(*bdf),
            _ => None,
        }
    }

    /// The form of a name of this kind.
    #[must_use]
    pub const fn form(&self) -> &'static str {
        match self {
            #[cfg(feature = "sim")]
            Self::Sim(_) => "sim",
            Self::VfioUser(_) => "vfio-user:PATH",
            Self::Vfio(_, VfioApi::Container) => "vfio:BDF",
            Self::Vfio(_, VfioApi::Iommufd) => "iommufd:BDF",
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "sim")]
            Self::Sim(spec) => write!(f, "{spec}"),
            Self::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
            Self::Vfio(bdf, way) => write!(f, "{}:{bdf}", way.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_round_trip() {
        let simulated = match cfg!(feature = "sim") {
            true => ["sim", "sim:latency=0,rate=25G"].as_slice(),
            false => &[],
        };
        let others = ["vfio-user:/run/e810.sock", "vfio:0000:3b:00.1"];
        for text in simulated.iter().copied().chain(others) {
            let spec: DeviceSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), text);
        }
        // A PCI domain has four digits; those that VMD makes have five.
        for (text, whole) in [
            ("3b:00.1", "vfio:0000:3b:00.1"),
            ("10000:01:00.0", "vfio:10000:01:00.0"),
            ("00010000:01:00.0", "vfio:10000:01:00.0"),
            ("vfio:ffffffff:01:00.0", "vfio:ffffffff:01:00.0"),
        ] {
            let bare: DeviceSpec = text.parse().unwrap();
            assert_eq!(bare.to_string(), whole);
        }
    }

    #[cfg(feature = "sim")]
    #[test]
    fn options_of_a_simulated_device_are_refused_one_by_one() {
        for (text, part) in [
            ("sim:", "rate=RATE, wire=NAME, mac=MAC and classes=N"),
            ("sim:wire=a/b", "`a/b` is not a wire name"),
            ("sim:latency=1", "`1` has no unit: give 1ns, 1us or 1ms"),
            ("sim:rate=1", "`1` has no unit: give 1K, 1M or 1G"),
            ("sim:classes=9", "`9` is not a number from 1 to 8"),
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn iommufd_is_another_way_to_a_function() {
        let spec: DeviceSpec = "iommufd:3b:00.1".parse().unwrap();
        let bdf = "3b:00.1".parse().unwrap();
        assert_eq!(spec, DeviceSpec::Vfio(bdf, VfioApi::Iommufd));
        assert_eq!(spec.to_string(), "iommufd:0000:3b:00.1");
        assert!("iommufd:".parse::<DeviceSpec>().is_err());
    }

    #[test]
    fn nonsense_is_refused_with_the_forms_there_are() {
        for text in [
            "",
            "simx",
            "vfio:",
            "vfio:zz:00.0",
            "vfio-user:",
            "3b:20.0",
            "3b:00.8",
            "1:2:3:4.5",
            "100000000:3b:00.0",
            "0000:10000:00.0",
            "+1:00.0",
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err();
            assert!(
                error.contains("vfio") || error.contains("3b:00.0"),
                "{text}: {error}"
            );
        }
    }
}

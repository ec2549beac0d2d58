//! Brings a function up: cold, from its reset on, or warm, on a LAN side that another driver has
//! set up.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use e810::hmc::{Backing, Capacity};
use e810::{
    AdminqError, ColdStart, Config, Device, Doubled, Lan, LinkPolicy, Package, PackageSource,
    Platform, QpCaps, Quirks, Reached, Ready, bring_up, bring_up_cold,
};
use e810_hal::Ns;

use e810_backends::HostDevice;
use e810_backends::host::package::{self, NoPackage, PackageFile};
use e810_backends::host::{Host, cpus, plain};
use e810_backends::printable::printable;
use e810_card::selftest::Findings;

/// How long a link may take to come up: the longest that ports need to agree on a speed with a
/// switch.
pub const LINK: Ns = Ns::from_ms(10_000);

/// How many objects a function is brought up for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// When they get their memory.
    pub backing: Backing,
    /// How many.
    pub capacity: Capacity,
    /// Fewer will do, if the device has fewer.
    pub or_fewer: bool,
    /// Protection domains.
    pub pds: u32,
    /// Memory for the requests of all queue pairs ([`Config::tracker_words_per_qp`]).
    pub tracker_words_per_qp: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        let config = Config::cold(MTU);
        Self {
            backing: config.backing,
            capacity: config.capacity,
            or_fewer: config.or_fewer,
            pds: config.pds,
            tracker_words_per_qp: config.tracker_words_per_qp,
        }
    }
}

impl Sizes {
    /// Enough for `qps` queue pairs of these capacities.
    #[must_use]
    pub fn of_queue_pairs(qps: u32, caps: QpCaps) -> Self {
        let usual = Self::default();
        // The numbers that the device reserves are the same for every capacity.
        let reserved = usual.capacity.qps - usual.capacity.usable_qps();
        let of_capacity = qps.saturating_add(reserved).next_power_of_two();
        let capacity = Capacity {
            qps: usual.capacity.qps.max(of_capacity),
            ..usual.capacity
        };
        // All queue pairs share the words, whose number is this many for each of the capacity.
        let words = u64::from(qps) * u64::from(caps.tracker_words().unwrap_or_default());
        let words = words.div_ceil(capacity.qps.into());
        Self {
            tracker_words_per_qp: usual
                .tracker_words_per_qp
                .max(u32::try_from(words).unwrap_or(u32::MAX)),
            capacity,
            ..usual
        }
    }
}

/// How a function is brought up.
#[derive(Debug)]
pub enum Start {
    /// From its reset on, with interface MTU `mtu`.
    Cold {
        /// The package for the card.
        package: Source,
        /// Bytes, Ethernet header not counted.
        mtu: u16,
        /// Completion vectors wanted.
        ceqs: u16,
        /// Another owner has the port's link: it is left as it is.
        leave_link: bool,
        /// What is known of the card.
        quirks: Quirks,
    },
    /// The LAN side is ready.
    Warm {
        /// That LAN side.
        lan: Lan,
        /// Completion vectors wanted.
        ceqs: u16,
        /// What is known of the card.
        quirks: Quirks,
    },
}

/// Completion vectors that a function gets unless a number is given: one for each CPU that is
/// online, as in existing drivers (control-path 8).
#[must_use]
pub fn usual_ceqs() -> u16 {
    ceqs_of(&Host::default())
}

fn ceqs_of(host: &Host) -> u16 {
    cpus::online(host)
}

/// Where the package comes from.
#[derive(Debug)]
pub enum Source {
    /// A file that was read.
    File(PackageFile),
    /// There is no file, so another function of the card must have loaded a package.
    Missing(NoPackage),
}

impl Source {
    /// The file that an option or a variable names (`named`), or the one that the machine has for a
    /// card with this serial number.
    ///
    /// # Errors
    /// The file that was named, or the one that was found, cannot be read.
    pub fn choose(host: &Host, named: Option<(&str, &Path)>, serial: [u8; 8]) -> Result<Self> {
        if let Some((by, path)) = named {
            let file = package::read(path).with_context(|| by.to_owned())?;
            return Ok(Self::File(file));
        }
        match package::find(host, serial) {
            Ok(file) => Ok(Self::File(file)),
            Err(missing @ NoPackage::Nowhere { .. }) => Ok(Self::Missing(missing)),
            Err(unreadable) => Err(unreadable.into()),
        }
    }

    /// The file that the variable `E810_DDP` names, or the one that the machine has for a card with
    /// this serial number.
    ///
    /// # Errors
    /// As [`Source::choose`].
    pub fn usual(serial: [u8; 8]) -> Result<Self> {
        let named = env::var_os(DDP).filter(|path| !path.is_empty());
        let named = named.map(PathBuf::from);
        let named = named.as_deref().map(|path| (DDP, path));
        Self::choose(&Host::default(), named, serial)
    }

    /// The package that a simulated firmware takes.
    #[must_use]
    pub fn simulated() -> Self {
        Self::File(PackageFile {
            path: PathBuf::from("(simulated)"),
            bytes: e810_sim::test_package(),
        })
    }
}

impl Start {
    /// From its reset on, with the package that [`Source::usual`] finds for an open device, and an
    /// interface MTU.
    ///
    /// # Errors
    /// As [`Source::usual`].
    pub fn usual(device: &impl HostDevice, mtu: u16) -> Result<Self> {
        let package = match device.identity() {
            None => Source::simulated(),
            Some(identity) => Source::usual(identity.serial)?,
        };
        Ok(Self::Cold {
            package,
            mtu,
            ceqs: usual_ceqs(),
            leave_link: false,
            quirks: chosen_quirks(None)?,
        })
    }

    /// Whether the port's link is left as it is; [`bring_up`](Self::bring_up) does not wait for it
    /// then.
    #[must_use]
    pub const fn leaves_link(&self) -> bool {
        matches!(
            self,
            Self::Cold {
                leave_link: true,
                ..
            }
        )
    }

    /// Brings the function up. `link` says what to do about its port, unless that is to be left
    /// alone; `observe` is called with each stage that was reached.
    ///
    /// # Errors
    /// A bad package; the stage that failed, and why.
    pub fn bring_up<P: Platform>(
        &self,
        platform: P,
        backing: Backing,
        link: LinkPolicy,
        observe: &mut dyn FnMut(Reached),
    ) -> Result<Device<P, Ready<P>>> {
        let sizes = Sizes {
            backing,
            ..Sizes::default()
        };
        self.bring_up_for(platform, sizes, link, observe)
    }

    /// The same, for the numbers of objects in `sizes`.
    ///
    /// # Errors
    /// As there.
    pub fn bring_up_for<P: Platform>(
        &self,
        platform: P,
        sizes: Sizes,
        link: LinkPolicy,
        observe: &mut dyn FnMut(Reached),
    ) -> Result<Device<P, Ready<P>>> {
        let with = |mut config: Config, ceqs, quirks| {
            config.quirks = quirks;
            config.backing = sizes.backing;
            config.capacity = sizes.capacity;
            config.or_fewer = sizes.or_fewer;
            config.pds = sizes.pds;
            config.tracker_words_per_qp = sizes.tracker_words_per_qp;
            config.ceqs = ceqs;
            config
        };
        match self {
            Self::Warm { lan, ceqs, quirks } => {
                let config = with(Config::new(*lan), *ceqs, *quirks);
                Ok(bring_up(platform, &config, observe)?)
            }
            Self::Cold {
                package,
                mtu,
                ceqs,
                leave_link,
                quirks,
            } => {
                let config = with(Config::cold(*mtu), *ceqs, *quirks);
                let (source, missing) = match package {
                    Source::File(file) => {
                        let package = Package::parse(&file.bytes);
                        let package = package.with_context(|| file.path.display().to_string())?;
                        (PackageSource::File(package), None)
                    }
                    Source::Missing(missing) => (PackageSource::AnotherFunction, Some(missing)),
                };
                let link = if *leave_link { LinkPolicy::Leave } else { link };
                let start = ColdStart {
                    package: source,
                    link,
                };
                let up = bring_up_cold(platform, &config, &start, observe);
                up.map_err(|error| match missing {
                    // The more useful part of the message is where a package could come from.
                    Some(missing) if is_safe_mode(&error.error) => {
                        anyhow::anyhow!("{}: {missing}", error.stage)
                    }
                    _ => error.into(),
                })
            }
        }
    }
}

/// MTU of an interface unless one is given.
pub const MTU: u16 = 1500;
/// The environment variable that names a package where no option does.
const DDP: &str = "E810_DDP";

/// The environment variable that names a file of `e810 selftest` where no option does.
const QUIRKS: &str = "E810_QUIRKS";
/// The experiments that the driver goes by, and their values.
const DEPENDED_ON: [(&str, [&str; 2]); 3] = [
    ("clear_pba", ["Keeps", "Drops"]),
    ("itr_unit", ["Field", "Double"]),
    ("rate_unit", ["BySpeed", "Double"]),
];
/// Characters of a foreign text that are told.
const TOLD: usize = 80;
/// Maximum bytes of such a file.
const LONGEST: u64 = 1 << 20;

/// What a file of `e810 selftest` says of its card, as far as drivers depend on it.
///
/// # Errors
/// The file cannot be read, or is another one.
pub fn quirks(path: &Path) -> Result<Quirks> {
    let bytes = plain::read(path, LONGEST)?;
    let findings = Findings::parse(&bytes)?;
    for (experiment, values) in DEPENDED_ON {
        match findings.value(experiment) {
            Some(value) if !values.contains(&value) => {
                let value = printable(value, TOLD);
                log::warn!(
                    "{}: {experiment} is {value}, which is not known here",
                    path.display()
                );
            }
            Some(value) => log::info!("{}: {experiment} is {value}", path.display()),
            None => {}
        }
    }
    if findings.iter().next().is_none() {
        log::warn!("{}: no experiment has found anything", path.display());
    }
    let is = |experiment, value| findings.value(experiment) == Some(value);
    Ok(Quirks {
        late_events_are_lost: is("clear_pba", "Drops"),
        doubled_units: Doubled {
            timers: is("itr_unit", "Double"),
            rate: is("rate_unit", "Double"),
        },
        ..Quirks::NONE
    })
}

/// The quirks of the file that an option names, or else the variable `E810_QUIRKS`.
///
/// # Errors
/// As [`quirks`].
pub fn chosen_quirks(named: Option<(&str, &Path)>) -> Result<Quirks> {
    let by_variable = env::var_os(QUIRKS).filter(|path| !path.is_empty());
    let by_variable = by_variable.map(PathBuf::from);
    let named = named.or(by_variable.as_deref().map(|path| (QUIRKS, path)));
    let Some((by, path)) = named else {
        return Ok(Quirks::NONE);
    };
    quirks(path).with_context(|| format!("{by} {}", path.display()))
}

/// Whether the card has no package.
fn is_safe_mode(error: &e810::Error) -> bool {
    matches!(error, e810::Error::Adminq(AdminqError::NoPackage))
}

#[cfg(test)]
mod tests {
    use e810_backends::host::fake::Tree;
    use e810_sim::Sim;

    use super::*;

    #[test]
    fn there_is_a_completion_vector_for_each_cpu_that_is_online() {
        for (list, cpus) in [("0-3,8\n", 5), ("0\n", 1), ("0-15\n", 16)] {
            let tree = Tree::with_card();
            tree.file("/sys/devices/system/cpu/online", list);
            let ceqs = ceqs_of(tree.host());
            let sim = Sim::builder().vectors(32).build();
            let nic = sim.function(0);
            let lan = Lan {
                vsi: e810::VsiId::new(nic.vsi()).unwrap(),
                mac: e810::MacAddr(nic.mac()),
                mtu: 9000,
            };
            let quirks = Quirks::NONE;
            let start = Start::Warm { lan, ceqs, quirks };
            let up = start.bring_up(nic, Backing::Full, LinkPolicy::Leave, &mut |_| {});
            let (control, events) = up.unwrap().split();
            assert_eq!(control.completion_vectors(), cpus, "{list}");
            control.shutdown(events).map_err(|e| e.error).unwrap();
        }
    }
}

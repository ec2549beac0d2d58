//! The functions that the program's processes get.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{self, Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use e810_attach::asker::gids;
use e810_attach::places::{NotServed, Places, further, start};
use e810_backends::spec::{AddressedSpec, DeviceSpec, SimSpec};
use e810_sim_wire::WireName;

use super::sysfs::Shown;
use crate::cli::RunArgs;
use crate::cli::device::{DEVICE, places};
use crate::usage::{Usage, refuse};
use e810_node::address::addresses_of;

/// Default number of simulated functions.
const COUNT: u8 = 8;

/// Functions, at least one: `all`, or those that are served.
pub(super) struct Functions {
    all: Vec<AddressedSpec>,
    /// The wire, if the command made simulated functions.
    made_on: Option<WireName>,
    /// The sockets at which another process serves them.
    served: Vec<PathBuf>,
    /// Seconds that a program waits for that process.
    wait: Option<u64>,
    /// Why it is none of a server, although one was looked for.
    lacks: Option<String>,
    /// Where each served function has GIDs.
    gids: Vec<Vec<usize>>,
}

/// Nobody asked for a server.
const NO_WAIT: Duration = Duration::ZERO;

impl Functions {
    /// The functions that the options name, else the environment, else that of a server at a usual
    /// place, else simulated ones on a wire.
    pub(super) fn of(args: &RunArgs) -> Result<Self> {
        let by_default = args.wire.is_none() && args.functions.is_none() && args.device.is_empty();
        let is_served = args.at.is_some() || args.wait.is_some();
        let of_environment = env::var_os(DEVICE).filter(|name| !name.is_empty());
        let of_environment = of_environment.filter(|_| by_default && !is_served);
        let mut lacks = None;
        if by_default && of_environment.is_none() {
            let wait = args
                .wait
                .map_or(NO_WAIT, |wait| Duration::from_nanos(wait.0));
            let places = places(args.at.as_ref()).with_how_to_wait("`--wait SECONDS`");
            match places.find(wait) {
                Ok(path) => return Self::served(path, wait),
                // Somebody says that there is one. A shell may start it later.
                Err(_)
                    if args.print_env
                        && let Some(path) = &args.at =>
                {
                    return Self::served(path, wait);
                }
                Err(NotServed::Nobody { places, .. }) if !is_served && places.are_usual() => {
                    let how = start(places.paths());
                    lacks = Some(format!("no server runs (start one: {how})"));
                }
                // A simulated function is no replacement for one that is there, and that the user
                // may not use.
                Err(error) => return Err(error.into()),
            }
        }
        let functions = Self::owned(args, of_environment)?;
        Ok(Self { lacks, ..functions })
    }

    /// Those that each process opens itself.
    fn owned(args: &RunArgs, of_environment: Option<OsString>) -> Result<Self> {
        let named = match of_environment {
            None => args.device.clone(),
            Some(name) => {
                let spec = name.to_string_lossy().parse();
                vec![spec.map_err(|error: String| Usage(format!("{DEVICE}: {error}")))?]
            }
        };
        if named.is_empty() {
            return Self::simulated(args.wire.clone(), args.functions.unwrap_or(COUNT));
        }
        for spec in &named {
            let text = spec.to_string();
            if let Err(why) = addresses_of(spec) {
                refuse!("--device `{text}`: {why}");
            }
            if text.contains(|c: char| c.is_whitespace() || c == '|') {
                refuse!(
                    "--device `{text}`: white space and | separate functions: rename the socket"
                );
            }
        }
        // The devices after it would never be used.
        let before_last = named.len().saturating_sub(1);
        let mut endless = named.iter().take(before_last).filter(|one| is_private(one));
        if let Some(endless) = endless.next()
            && !args.all
        {
            refuse!(
                "--device `{endless}`: every process gets such a function of its own, and so nobody the next --device: give it wire=NAME and mac=MAC (sim:wire=NAME,mac=MAC), or give --all"
            );
        }
        let all = named.into_iter().map(from_anywhere).collect::<Result<_>>();
        Ok(Self {
            all: all?,
            made_on: None,
            served: Vec::new(),
            wait: None,
            lacks: None,
            gids: Vec::new(),
        })
    }

    /// The functions that another process serves. A program waits for that process, too: the one
    /// that was found may be ending.
    fn served(path: &Path, wait: Duration) -> Result<Self> {
        let path = path::absolute(path)?;
        let text = path.to_string_lossy();
        if text.contains(|c: char| c.is_whitespace() || c == '|') {
            refuse!("--at {text}: white space and | separate functions: rename the socket");
        }
        Ok(Self {
            all: Vec::new(),
            made_on: None,
            served: [vec![path.clone()], further(&path)].concat(),
            wait: (!wait.is_zero()).then(|| wait.as_secs_f64().ceil() as u64),
            lacks: None,
            gids: Vec::new(),
        })
    }

    /// `count` functions on one wire, with consecutive Ethernet addresses.
    fn simulated(wire: Option<WireName>, count: u8) -> Result<Self> {
        let is_shared = wire.is_some();
        let mut spec = SimSpec {
            wire: Some(wire.map_or_else(own_wire, Ok)?),
            ..SimSpec::default()
        };
        let [a, b, c, d, e, _] = spec.first_mac();
        // Others on the wire may have been made in the same way.
        let (x, y) = if is_shared { (d, e) } else { (8, 10) };
        let all = (0..count).map(|number| {
            spec.mac = Some([a, b, c, d, e, number]);
            let own = IpAddr::V4(Ipv4Addr::new(10, x, y, number.wrapping_add(1)));
            AddressedSpec {
                spec: DeviceSpec::Sim(spec.clone()),
                addresses: vec![own.into()],
                tap: None,
                gateways: Vec::new(),
                wait: None,
                mtu: None,
            }
        });
        Ok(Self {
            all: all.collect(),
            made_on: spec.wire,
            served: Vec::new(),
            wait: None,
            lacks: None,
            gids: Vec::new(),
        })
    }

    /// The value of the library's variable.
    pub(super) fn value(&self, to_all: bool) -> String {
        if !self.served.is_empty() {
            let wait = self.wait.map(|seconds| format!("@wait={seconds}"));
            let wait = wait.unwrap_or_default();
            let served = self.served.iter();
            let names = served.map(|path| format!("at:{}{wait}", path.display()));
            return names.collect::<Vec<_>>().join(" ");
        }
        let names = self.all.iter().map(ToString::to_string);
        let between = if to_all { " " } else { "|" };
        names.collect::<Vec<_>>().join(between)
    }

    /// Says what each process gets.
    pub(super) fn shared(&self, to_all: bool) -> &'static str {
        match &*self.served {
            [] => {}
            [_] => return "all processes share it",
            _ => return "all processes share them",
        }
        match &*self.all {
            [first, ..] if is_private(first) && !to_all => {
                "each process gets a simulated function of its own"
            }
            [_] => "the first process that lists it gets it",
            _ if to_all => "each process gets all that are free",
            _ => "each process gets the first that is free",
        }
    }

    /// Asks a server for what programs read in a folder.
    pub(super) fn ask(&mut self) {
        // Each has the link-local one. A server that does not answer may let the program in later.
        let served = self.served.iter();
        let gids = served.map(|path| gids_at(path).unwrap_or_else(|| vec![0]));
        self.gids = gids.collect();
    }

    /// The devices of a process.
    pub(super) fn of_devices(&self, to_all: bool) -> Vec<Shown<'_>> {
        match to_all {
            _ if !self.served.is_empty() => {
                self.gids.iter().map(|gids| Shown::Served(gids)).collect()
            }
            true => self.all.chunks(1).map(Shown::Owned).collect(),
            false => vec![Shown::Owned(&self.all)],
        }
    }

    /// Maximum devices of a process.
    pub(super) fn most(&self, to_all: bool) -> usize {
        match self.served.len() {
            0 if to_all => self.all.len(),
            0 => 1,
            served => served,
        }
    }
}

/// Where the function that is served at `path` has GIDs.
fn gids_at(path: &Path) -> Option<Vec<usize>> {
    let places = Places::only(path.to_owned());
    let (_, socket) = places.reach(NO_WAIT).ok()?;
    let table = gids(Arc::new(socket)).ok()?;
    Some(table.entries().map(|(index, _)| index.into()).collect())
}

/// Whether each process has such a function of its own, however many there are.
fn is_private(spec: &AddressedSpec) -> bool {
    let simulated = spec.spec.simulated();
    simulated.is_some_and(|sim| sim.wire.is_none() || sim.mac.is_none())
}

/// The same function with an absolute socket path: the program may change its folder before it
/// opens the socket.
fn from_anywhere(mut spec: AddressedSpec) -> Result<AddressedSpec> {
    if let DeviceSpec::VfioUser(socket) = &mut spec.spec {
        *socket = path::absolute(&*socket)?;
    }
    Ok(spec)
}

/// A wire that no other command is on.
fn own_wire() -> Result<WireName> {
    let drawn = SimSpec {
        wire: Some("run".parse()?),
        ..SimSpec::default()
    };
    let [_, _, a, b, c, _] = drawn.first_mac();
    Ok(format!("run-{}-{a:02x}{b:02x}{c:02x}", process::id()).parse()?)
}

impl fmt::Display for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.served.is_empty() {
            let paths = self.served.iter().map(|path| path.display().to_string());
            let paths = paths.collect::<Vec<_>>().join(", ");
            let functions = match self.served.len() {
                1 => "the function",
                _ => "the functions",
            };
            return write!(f, "{functions} served at {paths}");
        }
        if let Some(lacks) = &self.lacks {
            write!(f, "{lacks}, so ")?;
        }
        let (Some(wire), [first, .., last]) = (&self.made_on, &*self.all) else {
            let names = self.all.iter().map(ToString::to_string);
            return f.write_str(&names.collect::<Vec<_>>().join(", "));
        };
        let addresses = [first, last].map(|spec| spec.addresses.first());
        let [Some(first), Some(last)] = addresses else {
            return Ok(());
        };
        let count = self.all.len();
        write!(
            f,
            "{count} simulated functions on the wire {wire}, {first} to {last}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_functions_are_on_a_wire_of_their_own() {
        let one = Functions::simulated(None, 3).unwrap();
        let other = Functions::simulated(None, 3).unwrap();
        assert_ne!(one.made_on, other.made_on);
        let wire = one.made_on.clone().unwrap();
        let value = one.value(false);
        let names: Vec<&str> = value.split('|').collect();
        assert_eq!(names.len(), 3);
        for (number, name) in names.iter().enumerate() {
            let begin = format!("sim:wire={wire},mac=02:e8:");
            let end = format!(":{number:02x}@10.8.10.{}", number + 1);
            assert!(name.starts_with(&begin) && name.ends_with(&end), "{name}");
        }
        assert_eq!(one.value(true), value.replace('|', " "));
        assert_eq!([one.most(false), one.most(true)], [1, 3]);
        let line = format!("3 simulated functions on the wire {wire}, 10.8.10.1 to 10.8.10.3");
        assert_eq!(one.to_string(), line);
    }

    #[test]
    fn sockets_are_found_from_any_folder() {
        let here = env::current_dir().unwrap();
        for (text, socket) in [
            ("a.sock", here.join("a.sock")),
            ("/b.sock", "/b.sock".into()),
        ] {
            let spec = format!("vfio-user:{text}@10.8.1.1").parse().unwrap();
            let expected = format!("vfio-user:{}@10.8.1.1", socket.display());
            assert_eq!(from_anywhere(spec).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn functions_on_the_wire_of_others_have_addresses_of_their_own() {
        let lab = || Functions::simulated(Some("lab".parse().unwrap()), 2).unwrap();
        let (one, other) = (lab(), lab());
        assert!(one.value(false).starts_with("sim:wire=lab,mac=02:e8:"));
        assert_ne!(one.value(false), other.value(false));
    }
}

//! The devices of the process, chosen when it first lists them: for each word of the environment,
//! the first function that is free.
//!
//! A child of `fork` is another process: it chooses for itself. A device that its parent listed
//! stands for the child's own device of the same number. Nothing here waits for a lock that a
//! thread of the parent may have held at the fork.

use std::env;

use e810_backends::host::{Host, process};
use e810_backends::spec::DeviceSpec;

use super::complain::complain;
use super::ownership::{Locks, Refusal};
use super::words::{self, Alternatives, Named};
use super::{DEVICES, ListedDevice};
use crate::fork::PerProcess;
use crate::panics;

/// What a process has chosen.
struct Made {
    devices: Vec<ListedDevice>,
    /// Held until the process ends.
    _locks: Locks,
}

/// The devices of this process.
pub(super) fn devices() -> &'static [ListedDevice] {
    static MADE: PerProcess<Made> = PerProcess::new();
    &MADE.get_or_init(choose).devices
}

fn choose() -> Made {
    panics::keep_silent();
    let named = env::var_os(DEVICES).unwrap_or_default();
    let (words, wrong) = words::parse(&named.to_string_lossy());
    for line in wrong {
        complain(&format!("{DEVICES}: {line}"));
    }
    let mut locks = Locks::default();
    let mut devices = Vec::new();
    for word in words {
        match first_free(word, &mut locks) {
            Ok(opening) => devices.push(ListedDevice::new(devices.len(), opening)),
            Err(line) => complain(&line),
        }
    }
    Made {
        devices,
        _locks: locks,
    }
}

/// The first of the functions that no process has.
///
/// # Errors
/// One line that says which process has them.
fn first_free(alternatives: Alternatives, locks: &mut Locks) -> Result<Named, String> {
    let mut taken = Vec::new();
    for named in alternatives {
        // Any number of programs may be attached to it.
        let Named::Own(mut opening) = named else {
            return Ok(named);
        };
        match locks.take(&opening.spec) {
            Ok(()) => {
                // An address that is to be drawn is drawn now, so that it is known.
                if let DeviceSpec::Sim(sim) = &mut opening.spec {
                    sim.mac = Some(sim.first_mac());
                }
                return Ok(Named::Own(opening));
            }
            Err(refusal) => taken.push((opening.spec.to_string(), refusal)),
        }
    }
    let lines = taken.iter().map(|(name, refusal)| sentence(name, refusal));
    let lines = lines.collect::<Vec<_>>().join("; ");
    Err(match taken.len() {
        1 => lines,
        functions => format!("none of the {functions} functions is free: {lines}"),
    })
}

fn sentence(name: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::Of(Some(pid)) => match process::name(&Host::default(), &pid.to_string()) {
            Some(program) => format!("{name}: process {pid} ({program}) has it"),
            None => format!("{name}: process {pid} has it"),
        },
        Refusal::Of(None) => format!("{name}: a process of another container has it"),
        Refusal::Here => format!("{name}: this process already has it"),
        Refusal::NoLock(why) => format!("{name}: it cannot be locked for this process: {why}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{self, Command, Stdio};

    use super::*;

    /// A device of this process for `text`.
    pub(in crate::device) fn listed(text: &str) -> ListedDevice {
        let opening = first_free(alternatives(text), &mut Locks::default()).unwrap();
        ListedDevice::new(0, opening)
    }

    fn alternatives(text: &str) -> Alternatives {
        let (mut words, wrong) = words::parse(text);
        assert_eq!(wrong, [""; 0]);
        words.remove(0)
    }

    #[test]
    fn a_drawn_address_is_known_from_then_on() {
        let mac = |text: &str| {
            let named = first_free(alternatives(text), &mut Locks::default()).unwrap();
            let Named::Own(opening) = named else {
                panic!("{named}");
            };
            opening.spec.simulated().unwrap().mac.unwrap()
        };
        assert_eq!(mac("sim"), [2, 0xe8, 0x10, 0, 0, 0]);
        assert_eq!(mac("sim:mac=02:00:00:00:01:00|sim"), [2, 0, 0, 0, 1, 0]);
        assert_eq!(mac("sim:wire=lab")[..2], [2, 0xe8]);
    }

    #[test]
    fn who_has_a_function_is_said() {
        let own = sentence("vfio:3b:00.0", &Refusal::Of(Some(process::id())));
        let begin = format!("vfio:3b:00.0: process {} (", process::id());
        assert!(
            own.starts_with(&begin) && own.ends_with(") has it"),
            "{own}"
        );
        // The process chooses its name.
        let mut named = Command::new("sh")
            .args([
                "-c",
                r"printf 'a) (b\nc\033[2J' >/proc/$$/comm; echo; read x",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(named.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let said = sentence("sim", &Refusal::Of(Some(named.id())));
        drop(named.stdin.take());
        named.wait().unwrap();
        let pid = named.id();
        assert_eq!(said, format!("sim: process {pid} (a? ?b?c?[2J) has it"));
        let gone = sentence("sim", &Refusal::Of(Some(u32::MAX)));
        assert_eq!(gone, format!("sim: process {} has it", u32::MAX));
    }
}

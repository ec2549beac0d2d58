//! The functions that the environment names: the devices of the process, and the alternatives for
//! each.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use e810_backends::spec::AddressedSpec;

use e810_attach::owner::Opening;

use crate::control::attached::{AT, WAIT};

/// A function that the environment names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Named {
    /// One that this process opens, and then owns.
    Own(Opening),
    /// One that another process serves on this socket.
    At {
        path: PathBuf,
        /// How long to wait for that process.
        wait: Duration,
    },
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(opening) => opening.spec.fmt(f),
            Self::At { path, .. } => write!(f, "{AT}{}", path.display()),
        }
    }
}

/// A device of the process: the functions that it may be, in order of preference. Never empty.
pub(super) type Alternatives = Vec<Named>;

/// Parses `SPEC@IP,IP|SPEC@IP SPEC`: each word is a device, its alternatives separated by `|`. A
/// word that names no function is skipped, and the second list has a line about it.
pub(super) fn parse(text: &str) -> (Vec<Alternatives>, Vec<String>) {
    let mut wrong = Vec::new();
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let alternatives = word.split('|').filter(|name| !name.is_empty());
        let alternatives: Alternatives = alternatives
            .filter_map(|name| match named(name) {
                Ok(named) => Some(named),
                Err(why) => {
                    wrong.push(format!("`{name}`: {why}"));
                    None
                }
            })
            .collect();
        if !alternatives.is_empty() {
            words.push(alternatives);
        }
    }
    (words, wrong)
}

fn named(name: &str) -> Result<Named, String> {
    match name.strip_prefix(AT) {
        None => opening(name).map(Named::Own),
        Some("") => Err(format!("{AT} is followed by the path of a socket")),
        Some(place) => at(place),
    }
}

/// The longest time to wait for a server, in seconds: a day.
const LONGEST_WAIT: u64 = 86_400;

/// Parses `PATH`, or `PATH@wait=SECONDS`.
fn at(place: &str) -> Result<Named, String> {
    let (path, wait) = match place.rsplit_once(WAIT) {
        None => match place.rsplit_once('@') {
            Some((_, word)) if is_meant_as_option(word) => {
                return Err(format!(
                    "`@{word}`: only @wait=SECONDS may follow the socket; a function's addresses are given to `e810 serve`"
                ));
            }
            _ => (place, 0),
        },
        Some((path, seconds)) => {
            let wait = seconds.parse().ok().filter(|wait| *wait <= LONGEST_WAIT);
            let wait = wait.ok_or_else(|| {
                format!("`@wait={seconds}`: give whole seconds, {LONGEST_WAIT} at most")
            })?;
            (path, wait)
        }
    };
    Ok(Named::At {
        path: PathBuf::from(path),
        wait: Duration::from_secs(wait),
    })
}

/// Whether what follows an `@` is no part of a path: WORD=.., or an IP address, perhaps with its
/// network's length.
fn is_meant_as_option(word: &str) -> bool {
    let is_word =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
    let ip = word.split_once('/').map_or(word, |(ip, _)| ip);
    word.split_once('=').is_some_and(|(name, _)| is_word(name)) || ip.parse::<IpAddr>().is_ok()
}

fn opening(name: &str) -> Result<Opening, String> {
    Opening::try_from(name.parse::<AddressedSpec>()?)
}

#[cfg(test)]
mod tests {
    use e810_attach::owner::SIMULATED_MTU;

    use super::*;

    /// The functions and the number of their addresses.
    fn names(words: &[Alternatives]) -> Vec<Vec<(String, usize)>> {
        let name = |named: &Named| match named {
            Named::Own(opening) => (named.to_string(), opening.addresses.len()),
            Named::At { .. } => (named.to_string(), 0),
        };
        let names = words.iter().map(|word| word.iter().map(name).collect());
        names.collect()
    }

    #[test]
    fn words_are_devices_and_have_alternatives() {
        let text =
            "sim@10.8.1.1,fd00:8::1|vfio:3b:00.0@10.8.1.2\n  sim:wire=a|at:/run/a.sock \t3b:00.1@";
        let (words, wrong) = parse(text);
        assert_eq!(wrong, [""; 0]);
        let owned = |name: &str, addresses| (name.to_owned(), addresses);
        assert_eq!(
            names(&words),
            [
                vec![owned("sim", 2), owned("vfio:0000:3b:00.0", 1)],
                vec![owned("sim:wire=a", 0), owned("at:/run/a.sock", 0)],
                vec![owned("vfio:0000:3b:00.1", 0)],
            ]
        );
        assert_eq!(parse(" \n"), (vec![], vec![]));
        let (words, wrong) = parse("sim@10.8.1.1/24,gateway=10.8.1.254,wait=7 sim");
        assert_eq!(wrong, [""; 0]);
        let openings = words.concat();
        let [Named::Own(said), Named::Own(usual)] = &openings[..] else {
            panic!("{openings:?}");
        };
        assert_eq!(said.gateways, ["10.8.1.254".parse::<IpAddr>().unwrap()]);
        assert_eq!(
            [said.wait, usual.wait].map(|wait| wait.0 / 1_000_000),
            [7000, 3000]
        );
    }

    #[test]
    fn a_server_is_waited_for_as_long_as_is_said() {
        let wait = |text| match named(text)? {
            Named::At { path, wait } => Ok((path, wait.as_secs())),
            Named::Own(opening) => Err(format!("{opening:?}")),
        };
        assert_eq!(wait("at:/a@b"), Ok(("/a@b".into(), 0)));
        assert_eq!(wait("at:/a@b@wait=30"), Ok(("/a@b".into(), 30)));
        for wrong in ["at:/a@wait=", "at:/a@wait=-1", "at:/a@wait=86401"] {
            let said = wait(wrong).unwrap_err();
            assert!(said.contains("whole seconds"), "{said}");
        }
        for wrong in ["at:/a@wiat=3", "at:/a@10.8.1.1", "at:/a@10.8.1.1/24"] {
            let said = wait(wrong).unwrap_err();
            assert!(said.contains("only @wait=SECONDS"), "{said}");
        }
    }

    #[test]
    fn the_mtu_is_that_of_the_network() {
        for (text, mtu) in [
            ("vfio:3b:00.0@10.8.1.1", 1500),
            ("vfio:3b:00.0@10.8.1.1,mtu=9000", 9000),
            ("vfio:3b:00.0@tap=e810tap", 1500),
            ("sim", SIMULATED_MTU),
            ("sim@mtu=1500", 1500),
        ] {
            assert_eq!(opening(text).unwrap().mtu, mtu, "{text}");
        }
    }

    /// An address that is never used, or that nothing can be sent to, is no gateway.
    #[test]
    fn a_gateway_is_a_host_on_a_network_of_the_addresses() {
        for (word, is_one) in [
            ("10.8.1.1/24,gateway=10.8.1.254", true),
            ("fd00:8::1/64,gateway=fe80::1", true),
            ("10.8.1.1,gateway=10.8.1.254", false),
            ("10.8.1.1/24,gateway=10.8.2.254", false),
            ("10.8.1.1/24,gateway=fd00:8::1", false),
            ("10.8.1.1/24,gateway=0.0.0.0", false),
            ("10.8.1.1/24,gateway=224.0.0.1", false),
            ("gateway=10.8.1.254", false),
            ("tap=e810tap,10.8.1.1/24,gateway=10.8.1.254", false),
        ] {
            let opening = opening(&format!("sim@{word}"));
            assert_eq!(opening.is_ok(), is_one, "{word}: {opening:?}");
        }
    }

    #[test]
    fn what_names_no_function_is_said_and_passed_over() {
        let (words, wrong) = parse("nonsense sim|sim@10.8 | vfio:zz||sim sim@10.8.1.0/24 at:");
        assert_eq!(names(&words).concat().len(), 2);
        assert_eq!(words.len(), 2);
        assert_eq!(wrong.len(), 5, "{wrong:?}");
        assert!(wrong[0].starts_with("`nonsense`: `nonsense` names no device"));
        assert_eq!(wrong[1], "`sim@10.8`: `10.8` is not an IP address");
        assert!(wrong[2].starts_with("`vfio:zz`: "));
        let network = "`sim@10.8.1.0/24`: `10.8.1.0/24` is the network or broadcast address";
        assert!(wrong[3].starts_with(network), "{wrong:?}");
    }
}

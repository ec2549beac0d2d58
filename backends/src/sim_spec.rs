//! Simulated functions of this process, as they are written in names of devices.

use std::fmt;
use std::str::FromStr;

use e810_hal::Ns;
use e810_sim::link::{
    Mac, NoRate, NoTime, ParseMacError, mac_option, parse_mac, parse_time, time_option,
};
use e810_sim::pe::TransportLimits;
use e810_sim::{Builder, FIRST_MAC, Mode, Quality, Rate, Sim};
use e810_sim_wire::{NoWireName, Wire, WireName, WireSpec};

use crate::BackendError;

/// Time without an answer after which connections send again, if a process answers that may wait for
/// a processor, or does the work of many programs. It cannot answer at once, as a card would: eight
/// times the time that queue pairs ask for was too short on a busy machine.
pub const PATIENT_ACK_TIMEOUT: Ns = Ns::from_ms(500);

/// Limits of connections on a wire, whose other end is another process. What that does not take waits
/// in the buffer of a socket, which holds 50 to 1000 packets of 4 KiB.
const ON_A_WIRE: TransportLimits = TransportLimits {
    ack_timeout: Some(PATIENT_ACK_TIMEOUT),
    window: Some(256),
    rnr_timer: None,
    ack_credits: None,
};

/// The options after `sim:` in the name of a device: `latency=2us,rate=25G,wire=lab` and
/// `mac=02:00:00:00:01:00`, any of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SimSpec {
    /// Latency of the wire; if `None`, the program chooses it.
    pub latency: Option<Ns>,
    /// Rate of the functions' ports; unlimited if `None`.
    pub rate: Option<Rate>,
    /// The segment that the functions are on, with those of other processes.
    pub wire: Option<WireName>,
    /// Traffic classes of the ports: priority `n` is in class `n` modulo this; one class if `None`.
    pub classes: Option<u8>,
    /// Ethernet address of the first function; the last byte counts on. If `None`, it is one that
    /// other ends of the wire do not have, or, without a wire, the simulator's own.
    pub mac: Option<Mac>,
}

/// Why a string names no simulated function.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSimSpec {
    /// No `=`, or an unknown option.
    #[error(
        "`{0}` is not an option of a simulated device: use sim, or sim: with any of latency=TIME, rate=RATE, wire=NAME, mac=MAC and classes=N, separated by commas"
    )]
    Unknown(String),
    /// An option twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// Not a time.
    #[error("latency: {0}")]
    Time(#[from] NoTime),
    /// Not a rate.
    #[error("rate: {0}")]
    Rate(#[from] NoRate),
    /// Not the name of a segment.
    #[error("wire: {0}")]
    Wire(#[from] NoWireName),
    /// Not a number of traffic classes.
    #[error("classes: `{0}` is not a number from 1 to 8")]
    Classes(String),
    /// Not an Ethernet address.
    #[error("mac: {0}")]
    Mac(#[from] ParseMacError),
}

impl SimSpec {
    /// A link of `quality` with the latency and the rate of this name.
    #[must_use]
    pub fn link(&self, quality: Quality) -> Quality {
        Quality {
            latency: self.latency.unwrap_or(quality.latency),
            rate: self.rate.or(quality.rate),
            ..quality
        }
    }

    /// The wire to other processes.
    #[must_use]
    pub fn to_others(&self) -> Option<WireSpec> {
        self.wire.clone().map(WireSpec::Segment)
    }

    /// Ethernet address of the first function: [`mac`](Self::mac); or one that other ends of the
    /// wire do not have, drawn each time; or, without a wire, the simulator's own.
    #[must_use]
    pub fn first_mac(&self) -> Mac {
        let drawn = || self.to_others().and_then(|wire| wire.first_mac().ok());
        self.mac.or_else(drawn).unwrap_or(FIRST_MAC)
    }

    /// A simulator for this name, to be configured further. Its time is that of `mode`, but real if
    /// it has a wire. Its link is [`Quality::default_in`] that mode, with the changes in the name.
    #[must_use]
    pub fn builder(&self, mode: Mode) -> Builder {
        let mode = match self.wire {
            Some(_) => Mode::Real,
            None => mode,
        };
        let link = self.link(Quality::default_in(mode));
        let limits = self.limits();
        let builder = Sim::builder().mode(mode).quality(link);
        let builder = builder.engine(move |_, config| config.transport = limits);
        let classes = self.classes.unwrap_or(1);
        let builder = builder.firmware(move |_, config| config.classes = low_bits(classes));
        builder.first_mac(self.first_mac())
    }

    /// Overrides of the limits that queue pairs ask for.
    fn limits(&self) -> TransportLimits {
        match self.wire {
            Some(_) => ON_A_WIRE,
            None => TransportLimits::default(),
        }
    }

    /// Joins `sim` to the wire of this name, if it has one, until the result is dropped.
    ///
    /// # Errors
    /// Why the wire cannot be joined.
    pub fn join(&self, sim: &Sim) -> Result<Option<Wire>, BackendError> {
        let wire = self.to_others();
        let joined = wire.map(|wire| Wire::join(sim, &wire)).transpose();
        joined.map_err(|cause| BackendError::Wire {
            device: self.to_string(),
            cause,
        })
    }
}

/// A bit for each class, from class 0 on.
const fn low_bits(classes: u8) -> u8 {
    u8::MAX >> (8 - classes)
}

fn classes(text: &str) -> Result<u8, NoSimSpec> {
    let classes = text.parse().ok().filter(|count| (1..=8).contains(count));
    classes.ok_or_else(|| NoSimSpec::Classes(text.to_owned()))
}

impl FromStr for SimSpec {
    type Err = NoSimSpec;

    /// Parses the options after `sim:`.
    fn from_str(text: &str) -> Result<Self, NoSimSpec> {
        let mut spec = Self::default();
        let mut names = Vec::new();
        for option in text.split(',') {
            let unknown = || NoSimSpec::Unknown(option.to_owned());
            let (name, value) = option.split_once('=').ok_or_else(unknown)?;
            if names.contains(&name) {
                return Err(NoSimSpec::Twice(name.to_owned()));
            }
            names.push(name);
            match name {
                "latency" => spec.latency = Some(parse_time(value)?),
                "rate" => spec.rate = Some(value.parse()?),
                "wire" => spec.wire = Some(value.parse()?),
                "classes" => spec.classes = Some(classes(value)?),
                "mac" => spec.mac = Some(parse_mac(value)?),
                _ => return Err(unknown()),
            }
        }
        Ok(spec)
    }
}

/// The name, with `sim`.
impl fmt::Display for SimSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = [
            self.latency
                .map(|time| format!("latency={}", time_option(time))),
            self.rate.map(|rate| format!("rate={}", rate.option())),
            self.wire.as_ref().map(|name| format!("wire={name}")),
            self.classes.map(|classes| format!("classes={classes}")),
            self.mac.map(|mac| format!("mac={}", mac_option(mac))),
        ];
        match options.into_iter().flatten().collect::<Vec<_>>() {
            none if none.is_empty() => f.write_str("sim"),
            options => write!(f, "sim:{}", options.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_in_any_order() {
        let spec: SimSpec = "rate=25G,latency=2us".parse().unwrap();
        assert_eq!(spec.to_string(), "sim:latency=2us,rate=25G");
        assert_eq!(SimSpec::default().to_string(), "sim");
        let link = spec.link(Quality {
            loss: 7,
            ..Quality::PERFECT
        });
        let expected = Quality {
            loss: 7,
            latency: Ns(2_000),
            rate: Rate::new(25_000_000_000),
            ..Quality::PERFECT
        };
        assert_eq!(link, expected);
        let several: SimSpec = "classes=4,wire=lab".parse().unwrap();
        assert_eq!(several.to_string(), "sim:wire=lab,classes=4");
        assert_eq!([1, 4, 8].map(low_bits), [1, 0xF, 0xFF]);
        let faster: SimSpec = "latency=0".parse().unwrap();
        assert_eq!(faster.link(expected).latency, Ns(0));
        assert_eq!(faster.link(expected).rate, expected.rate);
        assert_eq!(SimSpec::default().link(expected), expected);
    }

    #[test]
    fn functions_on_a_wire_have_addresses_of_their_own() {
        let spec = |text: &str| text.parse::<SimSpec>().unwrap();
        let mac = |text: &str| {
            let sim = spec(text).builder(Mode::Virtual).functions(2).build();
            assert_eq!(sim.function(1).mac()[5], sim.function(0).mac()[5] + 1);
            sim.function(0).mac()
        };
        let usual = mac("rate=1G");
        assert_eq!(usual, [0x02, 0xe8, 0x10, 0, 0, 0]);
        let drawn = [mac("wire=a"), mac("wire=a"), mac("wire=a")];
        // Two of them may be equal once in millions of runs.
        assert!(drawn[0] != drawn[1] || drawn[1] != drawn[2], "{drawn:?}");
        let name = "wire=lab-2,mac=02:00:00:00:01:00";
        assert_eq!(mac(name), [2, 0, 0, 0, 1, 0]);
        assert_eq!(spec(name).to_string(), format!("sim:{name}"));
        assert_eq!(mac("mac=02:00:00:00:01:00"), [2, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn connections_on_a_wire_wait_longer() {
        let limits = |text: &str| text.parse::<SimSpec>().unwrap().limits();
        let usual = Ns(e810_sim::rc::RETRANSMIT_NS);
        assert!(limits("wire=a").ack_timeout.unwrap() > usual);
        assert_eq!(limits("rate=1G"), TransportLimits::default());
    }

    #[test]
    fn each_mistake_has_an_error_of_its_own() {
        for text in ["", "latency", "delay=1us", "latency=1us,"] {
            let error = text.parse::<SimSpec>().unwrap_err();
            assert!(matches!(error, NoSimSpec::Unknown(_)), "{text}: {error}");
        }
        let error = |text: &str| text.parse::<SimSpec>().unwrap_err();
        assert_eq!(
            error("rate=1G,rate=1G"),
            NoSimSpec::Twice("rate".to_owned())
        );
        assert_eq!(error("latency=1"), NoTime("1".to_owned()).into());
        assert_eq!(error("rate=fast"), NoRate("fast".to_owned()).into());
        assert_eq!(error("wire="), NoWireName(String::new()).into());
        for text in ["", "0", "9", "four"] {
            let wrong = error(&format!("classes={text}"));
            assert_eq!(wrong, NoSimSpec::Classes(text.to_owned()));
        }
        assert_eq!(error("mac=1"), ParseMacError("1".to_owned()).into());
    }
}

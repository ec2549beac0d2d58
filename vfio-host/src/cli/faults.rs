//! `--faults` on the command line.

use std::str::FromStr;

use e810_sim::Quality;
use e810_sim::link::{NoTime, parse_time};

/// What the simulated wire does to frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Faults(pub Quality);

/// Why a text is not a list of faults.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FaultsError {
    /// There is no `=`, or the name is unknown.
    #[error(
        "`{0}` is not a fault: use loss=N%, dup=N%, reorder=N%, corrupt=N% and delay=TIME, separated by commas"
    )]
    Unknown(String),
    /// A fault is given twice.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// Not a share of all frames.
    #[error(
        "`{0}` is not a share of frames, like 1% or 0.05%: give 0 to 100 with at most four decimals"
    )]
    Share(String),
    /// Not a time.
    #[error(transparent)]
    Time(#[from] NoTime),
}

/// Parts per million of a number with decimals and a percent sign.
fn share(text: &str) -> Result<u32, FaultsError> {
    let wrong = || FaultsError::Share(text.to_owned());
    let number = text.strip_suffix('%').ok_or_else(wrong)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || decimals.len() > 4 {
        return Err(wrong());
    }
    let parts = format!("{whole}{decimals:0<4}").parse::<u32>();
    parts
        .ok()
        .filter(|parts| *parts <= 1_000_000)
        .ok_or_else(wrong)
}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Self, FaultsError> {
        let mut quality = Quality::PERFECT;
        let mut names = Vec::new();
        for fault in text.split(',') {
            let unknown = || FaultsError::Unknown(fault.to_owned());
            let (name, value) = fault.split_once('=').ok_or_else(unknown)?;
            if names.contains(&name) {
                return Err(FaultsError::Twice(name.to_owned()));
            }
            names.push(name);
            match name {
                "loss" => quality.loss = share(value)?,
                "dup" => quality.duplicate = share(value)?,
                "reorder" => quality.reorder = share(value)?,
                "corrupt" => quality.corrupt = share(value)?,
                "delay" => quality.jitter = parse_time(value)?,
                _ => return Err(unknown()),
            }
        }
        Ok(Self(quality))
    }
}

#[cfg(test)]
mod tests {
    use e810_hal::Ns;

    use super::*;

    #[test]
    fn all_faults_and_their_units() {
        let text = "loss=1%,dup=0.5%,reorder=100%,corrupt=0.0001%,delay=20us";
        let expected = Quality {
            loss: 10_000,
            duplicate: 5_000,
            reorder: 1_000_000,
            corrupt: 1,
            jitter: Ns(20_000),
            ..Quality::PERFECT
        };
        assert_eq!(text.parse(), Ok(Faults(expected)));
        for (text, jitter) in [
            ("delay=0ns", 0),
            ("delay=7ns", 7),
            ("delay=10000ms", 10_000_000_000),
        ] {
            let expected = Quality {
                jitter: Ns(jitter),
                ..Quality::PERFECT
            };
            assert_eq!(text.parse(), Ok(Faults(expected)));
        }
        let none = "loss=0%,dup=00.0%".parse();
        assert_eq!(none, Ok(Faults(Quality::PERFECT)));
    }

    #[test]
    fn each_mistake_has_an_error_of_its_own() {
        for text in ["", "loss", "lost=1%", "LOSS=1%", " loss=1%"] {
            let error = text.parse::<Faults>();
            assert_eq!(error, Err(FaultsError::Unknown(text.to_owned())));
        }
        let trailing = "loss=1%,".parse::<Faults>();
        assert_eq!(trailing, Err(FaultsError::Unknown(String::new())));
        let twice = "loss=1%,dup=1%,loss=1%".parse::<Faults>();
        assert_eq!(twice, Err(FaultsError::Twice("loss".to_owned())));
        for value in [
            "",
            "1",
            "%",
            ".5%",
            "1.%",
            "-1%",
            "+1%",
            "100.0001%",
            "0.00001%",
            "1e1%",
            "1,5%",
            "99999999999%",
        ] {
            let error = share(value);
            assert_eq!(error, Err(FaultsError::Share(value.to_owned())));
        }
        for value in [
            "",
            "1",
            "us",
            "1s",
            "1.5us",
            "-1us",
            "+1us",
            "10001ms",
            "99999999999999999999ns",
        ] {
            let error = format!("delay={value}").parse::<Faults>();
            assert_eq!(error, Err(NoTime(value.to_owned()).into()));
        }
    }
}

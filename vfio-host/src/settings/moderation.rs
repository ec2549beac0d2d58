//! Interrupt moderation on the command line.

use std::fmt;
use std::str::FromStr;

use e810::{Adaptive, CqModeration};

/// A setting of moderation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModerationArg(pub CqModeration);

/// Longest wait, in µs: what the card's timers can count.
const MOST_US: u16 = 8160;

const OFF: &str = "off";
const ADAPTIVE: &str = "adaptive";
const DIM: &str = "dim";

impl ModerationArg {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            CqModeration::Off => OFF,
            CqModeration::Fixed { .. } => "fixed",
            CqModeration::Adaptive(Adaptive::Load) => ADAPTIVE,
            CqModeration::Adaptive(Adaptive::Dim) => DIM,
            _ => "unknown",
        }
    }
}

/// The form of the command line.
impl fmt::Display for ModerationArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            CqModeration::Fixed {
                count: 0,
                period_us,
            } => write!(f, "{period_us}us"),
            CqModeration::Fixed { count, period_us } => write!(f, "{count}/{period_us}us"),
            _ => f.write_str(self.name()),
        }
    }
}

impl FromStr for ModerationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let (_, time) = text.split_once('/').unwrap_or(("", text));
            let has_no_unit = match number(time) {
                Some(_) => format!("the time has no unit, give {text}us; "),
                None => String::new(),
            };
            format!(
                "`{text}` is not a moderation setting: {has_no_unit}use off, adaptive, dim, TIME like 50us (at most {MOST_US}us), or COUNT/TIME like 16/50us (COUNT at most {})",
                u16::MAX
            )
        };
        let moderation = match text {
            OFF => CqModeration::Off,
            ADAPTIVE => CqModeration::Adaptive(Adaptive::Load),
            DIM => CqModeration::Adaptive(Adaptive::Dim),
            _ => {
                let (count, time) = text.split_once('/').unwrap_or(("0", text));
                let period = time.strip_suffix("us").and_then(number);
                CqModeration::Fixed {
                    count: number(count).ok_or_else(wrong)?,
                    period_us: period.filter(|us| *us <= MOST_US).ok_or_else(wrong)?,
                }
            }
        };
        Ok(Self(moderation))
    }
}

/// Digits only: no sign.
fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let fixed = |count, period_us| CqModeration::Fixed { count, period_us };
        for (text, setting) in [
            ("off", CqModeration::Off),
            ("adaptive", CqModeration::Adaptive(Adaptive::Load)),
            ("dim", CqModeration::Adaptive(Adaptive::Dim)),
            ("50us", fixed(0, 50)),
            ("16/50us", fixed(16, 50)),
            ("8160us", fixed(0, 8160)),
        ] {
            assert_eq!(text.parse(), Ok(ModerationArg(setting)));
            assert_eq!(ModerationArg(setting).to_string(), text);
        }
        for text in [
            "",
            "on",
            "50",
            "50ms",
            "us",
            "8161us",
            "+5us",
            "/5us",
            "16/",
            "70000/1us",
        ] {
            let error = text.parse::<ModerationArg>().unwrap_err();
            assert!(error.contains(&format!("`{text}` is not a moderation setting")));
        }
        for (text, right) in [("50", "50us"), ("16/50", "16/50us")] {
            let error = text.parse::<ModerationArg>().unwrap_err();
            let said = format!(
                "`{text}` is not a moderation setting: the time has no unit, give {right}; "
            );
            assert!(error.starts_with(&said), "{error}");
        }
    }
}

//! Functions and sockets on the command line.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use e810_attach::places::Places;
use e810_backends::spec::{DeviceSpec, SimSpec};

use crate::usage::Usage;

/// The environment variable that names the function if no option does.
pub(crate) const DEVICE: &str = "E810_DEVICE";

/// The environment variable that names the socket of `e810 serve` if no option does.
const AT: &str = "E810_AT";

/// Where the socket of `e810 serve` is: where the option says, else the environment, else at one of
/// the usual places.
#[must_use]
pub fn places(named: Option<&PathBuf>) -> Places {
    let of_environment = || env::var_os(AT).filter(|path| !path.is_empty());
    let path = named
        .cloned()
        .or_else(|| of_environment().map(PathBuf::from));
    path.map_or_else(Places::default, Places::only)
}

/// The function that the option `named`, else the one of the environment, else a simulated one.
///
/// # Errors
/// [`Usage`] when the environment variable does not name a function.
pub fn chosen(named: Option<&DeviceSpec>) -> anyhow::Result<DeviceSpec> {
    match named {
        Some(named) => Ok(named.clone()),
        None => of_environment(env::var_os(DEVICE)),
    }
}

fn of_environment(value: Option<OsString>) -> anyhow::Result<DeviceSpec> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(DeviceSpec::Sim(SimSpec::default()));
    };
    let spec = DeviceSpec::of_os(&value);
    Ok(spec.map_err(|error| Usage(format!("{DEVICE}: {error}")))?)
}

/// Parses the function that an option names.
///
/// # Errors
/// It is not a function.
pub(crate) fn spec(text: OsString) -> Result<DeviceSpec, String> {
    DeviceSpec::of_os(&text)
}

/// The function of a command that measures messages: its own, or that of another process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PairDevice {
    /// The command brings it up.
    Own(DeviceSpec),
    /// `at:PATH`: `e810 serve` listens at the socket.
    At(PathBuf),
}

/// Parses such a function.
///
/// # Errors
/// It is none.
pub(crate) fn pair_device(text: OsString) -> Result<PairDevice, String> {
    match text.as_bytes().strip_prefix(b"at:") {
        Some(path) => {
            let path = OsStr::from_bytes(path);
            if path.to_string_lossy().contains("@wait=") {
                return Err(
                    "`at:PATH` does not wait here: leave @wait= out, and start `e810 serve` first"
                        .to_owned(),
                );
            }
            socket_path(path.to_owned()).map(PairDevice::At)
        }
        None => spec(text).map(PairDevice::Own),
    }
}

/// Maximum bytes of a socket's path: what the kernel's addresses hold, minus the final zero.
const SOCKET_NAME: usize = 107;

/// Parses the path of a socket.
///
/// # Errors
/// The path is empty or too long.
pub fn socket_path(path: OsString) -> Result<PathBuf, String> {
    match path.len() {
        0 => Err("a socket needs a path".to_owned()),
        1..=SOCKET_NAME => Ok(path.into()),
        bytes => Err(format!(
            "the path has {bytes} bytes, but a socket's path has at most {SOCKET_NAME}: use a shorter or a relative path"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_a_function() {
        let of = |text: &str| of_environment(Some(text.into()));
        let sim = DeviceSpec::Sim(SimSpec::default());
        assert_eq!(of("").unwrap(), sim);
        assert_eq!(of_environment(None).unwrap(), sim);
        assert_eq!(of("3b:00.1").unwrap().to_string(), "vfio:0000:3b:00.1");
        let error = of("eth0").unwrap_err();
        assert!(error.is::<Usage>());
        assert!(
            error.to_string().starts_with("E810_DEVICE: `eth0`"),
            "{error}"
        );
        // What an option says counts.
        assert_eq!(chosen(Some(&sim)).unwrap(), sim);
    }

    #[test]
    fn sockets_have_short_names() {
        let path = "x".repeat(107);
        assert_eq!(socket_path(path.clone().into()), Ok(path.into()));
        let error = socket_path("x".repeat(108).into()).unwrap_err();
        assert!(
            error.contains("108 bytes") && error.contains("107"),
            "{error}"
        );
    }
}

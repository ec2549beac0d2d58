//! Output files on the command line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};

/// A parser that runs `check` on an argument, which need not be UTF-8.
pub(crate) fn checked<T: Clone + Send + Sync + 'static>(
    check: fn(OsString) -> Result<T, String>,
) -> impl TypedValueParser<Value = T> {
    OsStringValueParser::new().try_map(check)
}

/// Parses the path of a file to write.
///
/// # Errors
/// The path is empty, or `-`: standard output is for what the command prints.
pub(crate) fn output(path: OsString) -> Result<PathBuf, String> {
    match path.as_bytes() {
        b"" => Err("a file needs a path".to_owned()),
        b"-" => Err(
            "standard output is for what the command prints: name a file (`./-` if that is its name), or a FIFO (mkfifo) to read it meanwhile"
                .to_owned(),
        ),
        _ => Ok(path.into()),
    }
}

/// The same for an SVG picture.
///
/// # Errors
/// The name is that of another kind of picture.
pub(crate) fn picture(path: OsString) -> Result<PathBuf, String> {
    let path = output(path)?;
    match path.extension() {
        Some(other) if !other.eq_ignore_ascii_case("svg") => Err(format!(
            "`{}`: the picture is SVG; give a name that ends in .svg",
            path.display()
        )),
        _ => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_no_file() {
        for name in ["a", "./-", "/dev/stdout", "a.svg"] {
            assert_eq!(output(name.into()), Ok(name.into()));
        }
        for name in ["", "-"] {
            assert!(output(name.into()).is_err());
        }
        for name in ["a", "a.svg", "a.SVG", "/tmp/a.b/c"] {
            assert_eq!(picture(name.into()), Ok(name.into()));
        }
        for name in ["-", "a.png"] {
            assert!(picture(name.into()).is_err());
        }
    }
}

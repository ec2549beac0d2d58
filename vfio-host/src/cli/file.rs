//! Files that commands write, as the command line names them.

use std::path::PathBuf;

/// The path of a file to be written.
///
/// # Errors
/// None, or `-`: standard output has what the command prints.
pub(crate) fn output(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("a file needs a path".to_owned()),
        "-" => Err(
            "standard output has what the command prints: give a file, ./- for one of that name, or a FIFO (mkfifo) to read along"
                .to_owned(),
        ),
        _ => Ok(text.into()),
    }
}

/// The same of an SVG picture.
///
/// # Errors
/// The name is that of another kind of picture.
pub(crate) fn picture(text: &str) -> Result<PathBuf, String> {
    let path = output(text)?;
    match path.extension() {
        Some(other) if !other.eq_ignore_ascii_case("svg") => Err(format!(
            "`{text}`: what is written is SVG; give a name that ends in .svg"
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
            assert_eq!(output(name), Ok(name.into()));
        }
        for name in ["", "-"] {
            assert!(output(name).is_err());
        }
        for name in ["a", "a.svg", "a.SVG", "/tmp/a.b/c"] {
            assert_eq!(picture(name), Ok(name.into()));
        }
        for name in ["-", "a.png"] {
            assert!(picture(name).is_err());
        }
    }
}

//! Errors of outputs that cannot be written, with what to do.

use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Error, anyhow};

/// Adds the name of standard output to `error`, and keeps its kind.
pub(crate) fn of_standard_output(error: io::Error) -> io::Error {
    let what = match where_it_is(&error) {
        Some(first) => format!("{first}, or send it elsewhere"),
        None => "send it elsewhere".to_owned(),
    };
    io::Error::new(error.kind(), format!("standard output: {error}; {what}"))
}

/// Why the file at `path`, which `option` names, cannot be written.
pub(crate) fn of_file(option: &str, path: &Path, error: impl Into<Error>) -> Error {
    let error = with_remedy(error.into());
    anyhow!("{option} {}: {error:#}", path.display())
}

/// Why the file at `path`, which `option` names, cannot be written any further.
pub(crate) fn of_unfinished_file(option: &str, path: &Path, error: &io::Error) -> Error {
    let remedy = remedy(error).map_or_else(String::new, |remedy| format!(": {remedy}"));
    let path = path.display();
    anyhow!("{option} {path}: {error}; the file is incomplete{remedy}")
}

/// Adds what to do to the error of a file, unless it says so itself.
pub(crate) fn with_remedy(error: Error) -> Error {
    let remedy = error.downcast_ref().and_then(remedy);
    match remedy {
        Some(remedy) => anyhow!("{error:#}; {remedy}"),
        None => error,
    }
}

/// What to do about an error of the system.
fn remedy(error: &io::Error) -> Option<String> {
    if error.kind() == ErrorKind::Other {
        // This program made the error, so it says what to do.
        return None;
    }
    Some(match (error.kind(), error.raw_os_error()) {
        (ErrorKind::NotFound, _) => "make its folder, or name another file".to_owned(),
        (ErrorKind::IsADirectory, _) => "name a file in it".to_owned(),
        (ErrorKind::BrokenPipe, _) => "let its reader read to the end".to_owned(),
        (_, Some(libc::ENXIO)) => "a socket cannot be written: name another file".to_owned(),
        _ => match where_it_is(error) {
            Some(first) => format!("{first}, or name another file"),
            None => "name another file".to_owned(),
        },
    })
}

/// What may help at the place of the output.
fn where_it_is(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("make room there"),
        ErrorKind::FileTooLarge => Some("raise the limit on the size of files (`ulimit -f`)"),
        ErrorKind::PermissionDenied => Some("let this user write there"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn standard_output_is_named_and_its_error_keeps_its_kind() {
        let said = |errno| {
            let error = of_standard_output(io::Error::from_raw_os_error(errno));
            (error.kind(), error.to_string())
        };
        let full = "standard output: No space left on device (os error 28); make room there, or send it elsewhere";
        assert_eq!(
            said(libc::ENOSPC),
            (ErrorKind::StorageFull, full.to_owned())
        );
        let (kind, text) = said(libc::EPIPE);
        assert_eq!(kind, ErrorKind::BrokenPipe);
        assert!(text.ends_with("; send it elsewhere"), "{text}");
        assert!(said(libc::EFBIG).1.contains("ulimit -f"));
    }

    #[test]
    fn a_file_is_named_with_what_to_do() {
        let of = |errno| {
            let error = io::Error::from_raw_os_error(errno);
            let error = Err::<(), _>(error).context("a part").unwrap_err();
            of_file("--x", Path::new("dir/f"), error).to_string()
        };
        for (errno, what) in [
            (libc::ENOENT, "make its folder, or name another file"),
            (libc::EISDIR, "name a file in it"),
            (libc::ENOTDIR, "name another file"),
            (libc::EROFS, "name another file"),
            (libc::ENXIO, "a socket cannot be written: name another file"),
            (
                libc::EACCES,
                "let this user write there, or name another file",
            ),
            (libc::EDQUOT, "make room there, or name another file"),
        ] {
            let text = of(errno);
            assert!(text.starts_with("--x dir/f: a part: "), "{text}");
            assert!(text.ends_with(&format!("; {what}")), "{text}");
        }
        let own = io::Error::other("not a regular file: name one");
        assert_eq!(
            of_file("--x", Path::new("f"), own).to_string(),
            "--x f: not a regular file: name one"
        );
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(
            of_unfinished_file("--x", Path::new("f"), &full).to_string(),
            "--x f: No space left on device (os error 28); the file is incomplete: make room there, or name another file"
        );
    }
}

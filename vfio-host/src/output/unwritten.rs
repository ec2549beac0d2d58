//! Outputs that cannot be written: which, why, and what to do.

use std::io::{self, ErrorKind};

/// `error` of standard output, with its name. A reader that is gone stays one by its kind.
pub(crate) fn of_standard_output(error: io::Error) -> io::Error {
    let what = match first_aid(&error) {
        Some(first) => format!("{first}, or send it elsewhere"),
        None => "send it elsewhere".to_owned(),
    };
    io::Error::new(error.kind(), format!("standard output: {error}; {what}"))
}

/// `error` of a file that a user has named, with what to do.
pub(crate) fn of_file(error: &io::Error) -> io::Error {
    let what = match error.kind() {
        ErrorKind::IsADirectory => Some("name a file in it"),
        ErrorKind::NotFound => Some("make the folder first"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("name a file that you may write")
        }
        _ => first_aid(error),
    };
    let text = match what {
        Some(what) => format!("{error}; {what}"),
        None => error.to_string(),
    };
    io::Error::new(error.kind(), text)
}

/// What may help where the output goes.
fn first_aid(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("make room there"),
        ErrorKind::FileTooLarge => Some("raise the limit on the size of files (`ulimit -f`)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
}

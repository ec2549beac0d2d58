//! The program: where it is, and whether the loader gives it the libraries.

use crate::output::ending::{CannotExecute, NOT_EXECUTABLE, NOT_FOUND};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use e810_backends::host::secure_exec::ignores_environment;

use crate::usage::refuse;

/// The search path if the environment has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program and its arguments.
pub(super) struct Program<'a> {
    pub(super) path: PathBuf,
    /// The name as it was given.
    pub(super) name: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

impl<'a> Program<'a> {
    /// Finds the program at the beginning of `words`; `None` without words.
    ///
    /// # Errors
    /// [`CannotExecute`], or a program that the loader gives no other libraries.
    pub(super) fn find(words: &'a [OsString]) -> Result<Option<Self>> {
        let Some((name, arguments)) = words.split_first() else {
            return Ok(None);
        };
        let path = env::var_os("PATH").unwrap_or_else(|| PATH.into());
        let path = find(name, &path)?;
        if let Some(why) = ignores_environment(&path)? {
            refuse!(
                "{}: {why}, so the loader gives it no other libraries: run a copy of it",
                path.display()
            );
        }
        Ok(Some(Self {
            path,
            name,
            arguments,
        }))
    }
}

fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf, CannotExecute> {
    let places: Vec<PathBuf> = match name.as_bytes().contains(&b'/') {
        true => vec![name.into()],
        false => env::split_paths(path)
            .map(|folder| folder.join(name))
            .collect(),
    };
    if let Some(found) = places.iter().find(|place| is_executable(place)) {
        return Ok(found.clone());
    }
    let name = name.display();
    Err(match places.iter().any(|place| place.exists()) {
        true => CannotExecute::new(format!("{name}: it is not executable"), NOT_EXECUTABLE),
        false => CannotExecute::new(format!("{name}: no such program"), NOT_FOUND),
    })
}

fn is_executable(path: &Path) -> bool {
    let there = path.metadata();
    there.is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_where_a_shell_finds_them() {
        let path = OsStr::new("/nowhere:/usr/bin:/bin");
        let found = |name: &str| find(name.as_ref(), path);
        assert!(found("sh").unwrap().ends_with("bin/sh"));
        assert_eq!(found("/bin/sh").unwrap(), Path::new("/bin/sh"));
        for (name, code) in [
            ("no-such-program", NOT_FOUND),
            ("/nowhere/sh", NOT_FOUND),
            ("/etc/passwd", NOT_EXECUTABLE),
            ("/etc", NOT_EXECUTABLE),
        ] {
            let error = found(name).unwrap_err();
            assert_eq!(error.exit_code(), code, "{error}");
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}

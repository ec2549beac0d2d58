//! The program: where it is, and whether the loader will give it the libraries.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use e810_backends::host::secure_exec::ignores_environment;

use crate::cli::usage::refuse;

/// Exit codes of shells for a program that is not there, and for one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// Where programs are when the environment does not say.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Why a program is not executed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotExecute(String, u8);

impl CannotExecute {
    /// What the system said.
    pub(super) fn because(name: &OsStr, error: &io::Error) -> Self {
        let code = match error.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Self(format!("{}: {error}", name.display()), code)
    }

    /// The exit code, as shells have it.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        self.1
    }
}

/// A program and its arguments.
pub(super) struct Program<'a> {
    pub(super) path: PathBuf,
    /// As it was named.
    pub(super) name: &'a OsStr,
    pub(super) arguments: &'a [OsString],
}

impl<'a> Program<'a> {
    /// Finds the program that `words` begin with; there is none without words.
    ///
    /// # Errors
    /// [`CannotExecute`]; one that the loader would not give other libraries.
    pub(super) fn find(words: &'a [OsString]) -> Result<Option<Self>> {
        let Some((name, arguments)) = words.split_first() else {
            return Ok(None);
        };
        let path = env::var_os("PATH").unwrap_or_else(|| PATH.into());
        let path = find(name, &path)?;
        if let Some(why) = ignores_environment(&path)? {
            refuse!(
                "{}: {why}, so that the loader gives it no other libraries: run a copy of it",
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
        true => CannotExecute(format!("{name}: it is no program"), NOT_EXECUTABLE),
        false => CannotExecute(format!("{name}: no such program"), NOT_FOUND),
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

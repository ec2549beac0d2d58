//! The libraries for the program: libibverbs, and stubs for libraries that need the real one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context as _, Result, bail};

/// The environment variable that names their folder.
const LIBRARIES: &str = "E810_LIBRARIES";

/// Our libibverbs and librdmacm, by the name that cargo gives the one object.
const VERBS: &str = "libe810_verbs_so.so";
/// The names that cargo gives them, and those that programs use.
const NAMES: [(&str, &str); 5] = [
    (VERBS, "libibverbs.so.1"),
    (VERBS, "librdmacm.so.1"),
    ("libe810_stub_mlx5.so", "libmlx5.so.1"),
    ("libe810_stub_efa.so", "libefa.so.1"),
    ("libe810_stub_hns.so", "libhns.so.1"),
];

/// The folder with all of them.
#[derive(Debug)]
pub(super) struct Libraries(PathBuf);

impl Libraries {
    /// Finds them.
    ///
    /// # Errors
    /// They are missing; the text says where, and how to build them.
    pub(super) fn find(named: Option<&Path>) -> Result<Self> {
        let of_environment = || env::var_os(LIBRARIES).map(PathBuf::from);
        let folders = match named.map(Path::to_owned).or_else(of_environment) {
            Some(folder) => vec![folder],
            None => usual()?,
        };
        Self::in_one_of(&folders)
    }

    fn in_one_of(folders: &[PathBuf]) -> Result<Self> {
        let has_all = |folder: &Path| NAMES.iter().all(|(file, _)| folder.join(file).is_file());
        if let Some(folder) = folders.iter().find(|folder| has_all(folder)) {
            return Ok(Self(fs::canonicalize(folder)?));
        }
        let mut files = NAMES.map(|(file, _)| file).to_vec();
        files.dedup();
        let files = files.join(", ");
        let folders = folders.iter().map(|folder| folder.display().to_string());
        let folders = folders.collect::<Vec<_>>().join(" nor in ");
        bail!(
            "{files} are not in {folders}: run cargo build -p e810-verbs-so -p e810-stub-mlx5 -p e810-stub-efa -p e810-stub-hns, or give --libraries DIR"
        )
    }

    /// The variable that makes the loader load the library before the real one.
    pub(super) fn preloaded(&self, before: Option<&OsStr>) -> (&'static str, OsString) {
        let library = self.0.join(VERBS);
        ("LD_PRELOAD", in_front(library.as_os_str(), before))
    }

    /// The variable that makes the loader take them instead of the installed ones. It names a
    /// folder in `folder` where they have the names that programs use.
    pub(super) fn in_place(
        &self,
        folder: &Path,
        before: Option<&OsStr>,
    ) -> Result<(&'static str, OsString)> {
        let mut hash = DefaultHasher::new();
        self.0.hash(&mut hash);
        let version = env!("CARGO_PKG_VERSION");
        let links = folder.join(format!("lib-{version}-{:016x}", hash.finish()));
        self.link(&links)
            .with_context(|| links.display().to_string())?;
        Ok(("LD_LIBRARY_PATH", in_front(links.as_os_str(), before)))
    }

    /// Makes the missing links. Other processes may do the same at the same time.
    fn link(&self, links: &Path) -> io::Result<()> {
        fs::create_dir_all(links)?;
        for (file, name) in NAMES {
            let (library, link) = (self.0.join(file), links.join(name));
            if fs::read_link(&link).is_ok_and(|is| is == library) {
                continue;
            }
            let new = links.join(format!(".{name}.{}", process::id()));
            let _ = fs::remove_file(&new);
            symlink(&library, &new)?;
            fs::rename(&new, &link)?;
        }
        Ok(())
    }
}

/// Beside the command, where cargo puts them, or where packages put them.
fn usual() -> Result<Vec<PathBuf>> {
    let command = env::current_exe()?;
    let folder = command.parent().unwrap_or(Path::new("/"));
    Ok(vec![folder.to_owned(), folder.join("../lib/e810")])
}

/// Puts an entry in front of a colon-separated list.
fn in_front(entry: &OsStr, list: Option<&OsStr>) -> OsString {
    let mut whole = entry.to_owned();
    if let Some(list) = list.filter(|list| !list.is_empty()) {
        whole.push(":");
        whole.push(list);
    }
    whole
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use vmm_sys_util::tempdir::TempDir;

    use super::*;

    #[test]
    fn links_are_made_once_and_repaired() {
        let temporary = TempDir::new_with_prefix(env::temp_dir().join("e810-")).unwrap();
        let [built, links] = ["built", "links"].map(|name| temporary.as_path().join(name));
        fs::create_dir_all(&built).unwrap();
        let none = Libraries::in_one_of(&[links.clone(), built.clone()]).unwrap_err();
        let none = none.to_string();
        assert!(
            none.contains("cargo build") && !none.contains('\n'),
            "{none}"
        );
        for (file, _) in NAMES {
            fs::write(built.join(file), file).unwrap();
        }
        let libraries = Libraries::in_one_of(&[links.clone(), built]).unwrap();
        for _ in 0..2 {
            let (variable, folder) = libraries.in_place(&links, Some("/x".as_ref())).unwrap();
            assert_eq!(variable, "LD_LIBRARY_PATH");
            let folder = folder.into_string().unwrap();
            let folder = Path::new(folder.strip_suffix(":/x").unwrap());
            for (file, name) in NAMES {
                assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), file);
            }
            assert_eq!(fs::read_dir(folder).unwrap().count(), NAMES.len());
            fs::remove_file(folder.join("libefa.so.1")).unwrap();
        }
        let (variable, file) = libraries.preloaded(None);
        assert_eq!(variable, "LD_PRELOAD");
        assert!(Path::new(&file).ends_with(VERBS));
    }
}

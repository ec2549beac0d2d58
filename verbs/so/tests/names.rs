//! The names that the library exports, with their versions: those of `ibverbs.map`, which are those
//! of the installed library, as far as that has them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod library;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::Endianness;
use object::elf::{FileHeader64, STB_LOCAL};
use object::read::elf::{FileHeader as _, Sym as _};

/// Name → version of what a library defines for others, with `@@` before a version that programs
/// get when they are linked, `@` before an older one.
fn exported(path: &Path) -> BTreeMap<String, Vec<String>> {
    let bytes = fs::read(path);
    let bytes = bytes.inspect_err(|error| println!("{}: {error}", path.display()));
    let bytes = bytes.unwrap();
    let data = bytes.as_slice();
    let header = FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let symbols = sections
        .symbols(endian, data, object::elf::SHT_DYNSYM)
        .unwrap();
    let versions = sections.versions(endian, data).unwrap();
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.is_undefined(endian) || symbol.st_bind() == STB_LOCAL {
            continue;
        }
        let name = symbols.symbol_name(endian, symbol).unwrap();
        let name = String::from_utf8_lossy(name).into_owned();
        let version = versions.as_ref().and_then(|versions| {
            let number = versions.version_index(endian, index);
            let version = versions.version(number).ok().flatten()?;
            let at = if number.is_hidden() { "@" } else { "@@" };
            Some(format!("{at}{}", String::from_utf8_lossy(version.name())))
        });
        // The versions themselves are symbols, too.
        if !name.starts_with("IBVERBS_") && !name.starts_with("RDMACM_") {
            found
                .entry(name)
                .or_default()
                .push(version.unwrap_or_default());
        }
    }
    found
}

/// The versions that `ibverbs.map` gives names.
fn wanted() -> BTreeMap<String, String> {
    let map = include_str!("../ibverbs.map");
    let mut node = "";
    let mut names = BTreeMap::new();
    for line in map.lines().map(str::trim) {
        if let Some(name) = line.strip_suffix('{') {
            node = name.trim();
        } else if let Some(name) = line.strip_suffix(';')
            && !name.contains(['}', '*', '/'])
        {
            names.insert(name.to_owned(), format!("@@{node}"));
        }
    }
    names
}

#[test]
fn every_name_has_its_version_and_no_other_is_exported() {
    let (found, wanted) = (exported(&library::path()), wanted());
    assert_eq!(wanted.len(), 76 + 68);
    let found: BTreeMap<String, String> = found
        .into_iter()
        .map(|(name, versions)| (name, versions.concat()))
        .collect();
    assert_eq!(found, wanted);
}

/// The libraries that `E810_LIBIBVERBS` and `E810_LIBRDMACM` name, separated by colons:
/// `tests/programs/run` fetches them.
#[test]
fn the_installed_libraries_have_the_same_versions() {
    for (variable, node) in [
        ("E810_LIBIBVERBS", "@@IBVERBS_"),
        ("E810_LIBRDMACM", "@@RDMACM_"),
    ] {
        let wanted = wanted()
            .into_iter()
            .filter(|(_, version)| version.starts_with(node));
        has_the_same(variable, &wanted.collect());
    }
}

fn has_the_same(variable: &str, wanted: &BTreeMap<String, String>) {
    let Some(paths) = std::env::var_os(variable) else {
        println!("NOT RUN: {variable} names no library; tests/programs/run fetches two");
        return;
    };
    for path in std::env::split_paths(&paths) {
        let theirs = exported(&path);
        for (name, version) in wanted {
            let known = theirs.get(name);
            assert!(
                known.is_some_and(|known| known.contains(version)),
                "{}: {name}{version}, and there {known:?}",
                path.display()
            );
        }
    }
}

//! A folder as `/sys` is for RDMA devices, for programs that read there: the library names it to
//! them (`ibv_get_sysfs_path`) where `SYSFS_PATH` says so.
//!
//! It has what is so before a function is up: names, kind, and the GID table where it is known
//! which function a process gets. It has no state, rate and counters, which change: the library has
//! those.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process;

use e810::{GIDS, Gid, GidEntry, MacAddr, link_local};
use e810_backends::spec::{AddressedSpec, DeviceSpec};

/// What folders of this kind begin with; the process's number follows.
const PREFIX: &str = "sys-";
/// An index without an entry, or with one that is not known.
const NO_GID: [u8; 16] = [0; 16];

/// Makes the folder of this process in `user_folder`, for so many devices, of which `known` are
/// those whose function is known. Folders of processes that are gone are removed.
///
/// # Errors
/// The system's.
pub(super) fn make(
    user_folder: &Path,
    devices: usize,
    known: &[AddressedSpec],
) -> io::Result<PathBuf> {
    remove_old(user_folder);
    let folder = user_folder.join(format!("{PREFIX}{}", process::id()));
    // A process of before may have had this number.
    let _ = fs::remove_dir_all(&folder);
    for number in 0..devices {
        device(&folder, number, known.get(number))?;
    }
    Ok(folder)
}

/// Removes the folders of processes that are gone.
fn remove_old(user_folder: &Path) {
    for entry in fs::read_dir(user_folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|number| number.parse::<u32>().ok());
        if number.is_some_and(|number| !Path::new(&format!("/proc/{number}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn device(folder: &Path, number: usize, known: Option<&AddressedSpec>) -> io::Result<()> {
    let name = format!("e810_{number}");
    let write = |folder: &Path, file: &str, text: &str| {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(file), format!("{text}\n"))
    };
    let verbs = folder.join(format!("class/infiniband_verbs/uverbs{number}"));
    write(&verbs, "ibdev", &name)?;
    let device = folder.join("class/infiniband").join(&name);
    write(&device, "node_type", "1: CA")?;
    write(&device, "node_desc", &name)?;
    let port = device.join("ports/1");
    write(&port, "link_layer", "Ethernet")?;
    write(&port, "lid", "0x0")?;
    write(&port.join("pkeys"), "0", "0xffff")?;
    let gids = known.map(gids).unwrap_or_default();
    for index in 0..GIDS {
        let gid = gids.get(index).copied().flatten();
        write(&port.join("gids"), &index.to_string(), &text(gid))?;
        // As the kernel has it, an index without an entry has no type that can be read.
        if gid.is_some() {
            let types = port.join("gid_attrs/types");
            write(&types, &index.to_string(), "RoCE v2")?;
        }
    }
    Ok(())
}

/// The GID table of a function as it is brought up; an entry that is not known before is `None`.
fn gids(function: &AddressedSpec) -> Vec<Option<Gid>> {
    let mac = match &function.spec {
        DeviceSpec::Sim(sim) => sim.mac,
        _ => None,
    };
    let first = mac.map(|mac| IpAddr::V6(link_local(MacAddr(mac))));
    // An interface's come and go.
    let others = match function.tap {
        None => function.addresses.as_slice(),
        Some(_) => &[],
    };
    let others = others.iter().map(|own| Some(own.ip));
    let all = [first].into_iter().chain(others);
    all.map(|ip| ip.map(|ip| GidEntry::untagged(ip).gid))
        .collect()
}

/// As sysfs has a GID.
fn text(gid: Option<Gid>) -> String {
    let bytes = gid.map_or(NO_GID, |gid| gid.0);
    let (pairs, _) = bytes.as_chunks::<2>();
    let words = pairs.iter().map(|[a, b]| format!("{a:02x}{b:02x}"));
    words.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use std::env;

    use vmm_sys_util::tempdir::TempDir;

    use super::*;

    #[test]
    fn the_folder_has_what_is_known_and_old_ones_are_removed() {
        let temporary = TempDir::new_with_prefix(env::temp_dir().join("e810-")).unwrap();
        let user = temporary.as_path();
        // No process has this number: it is above the greatest that Linux gives.
        let old = user.join(format!("{PREFIX}{}", u32::MAX));
        fs::create_dir_all(old.join("class")).unwrap();
        fs::create_dir_all(user.join("sys-other")).unwrap();
        let known = [
            "sim:wire=a,mac=02:00:00:00:01:00@10.8.1.1",
            "sim@tap=t,10.8.1.2",
        ];
        let known = known.map(|text| text.parse().unwrap());
        for _ in 0..2 {
            let folder = make(user, 3, &known).unwrap();
            let read = |path: &str| fs::read_to_string(folder.join("class").join(path)).ok();
            let port = |number: usize, path: &str| {
                read(&format!("infiniband/e810_{number}/ports/1/{path}"))
            };
            assert_eq!(
                read("infiniband_verbs/uverbs2/ibdev").as_deref(),
                Some("e810_2\n")
            );
            assert_eq!(port(0, "link_layer").as_deref(), Some("Ethernet\n"));
            let zeroes = "0000:0000:0000:0000:0000:0000:0000:0000\n";
            for (number, index, gid) in [
                (0, 0, "fe80:0000:0000:0000:0000:00ff:fe00:0100\n"),
                (0, 1, "0000:0000:0000:0000:0000:ffff:0a08:0101\n"),
                (0, 2, zeroes),
                (1, 0, zeroes),
                (1, 1, zeroes),
                (2, 0, zeroes),
            ] {
                let found = port(number, &format!("gids/{index}"));
                assert_eq!(found.as_deref(), Some(gid), "e810_{number} {index}");
                let kind = port(number, &format!("gid_attrs/types/{index}"));
                assert_eq!(kind.is_some(), gid != zeroes);
            }
            assert_eq!(port(0, "gids/31").as_deref(), Some(zeroes));
            assert_eq!(port(0, "gids/32"), None);
        }
        assert!(!old.exists() && user.join("sys-other").exists());
    }
}

//! A folder that looks like `/sys` for RDMA devices, for programs that read there. The library
//! returns it (`ibv_get_sysfs_path`) if `SYSFS_PATH` names it.
//!
//! It has what is known before a bring-up and does not change: names and kind and, if it is known
//! which function a process gets, its place in the kernel's tree, its GUIDs and its GID table. For
//! several functions it has what they have in common, the types of their GIDs. Of a function that
//! another process serves it has the types of the GIDs that are there now. It has no state,
//! rate or counters, because they change, and nothing that only a bring-up shows (`fw_ver`); the
//! library has those. No entry has an interface (`gid_attrs/ndevs`): without a TAP interface there
//! is none, and the entries of a TAP interface change.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process;

use e810::{GIDS, Gid, GidEntry, MacAddr, link_local};
use e810_backends::host::pci::DEVICES;
use e810_backends::host::{Host, identity};
use e810_backends::spec::{AddressedSpec, DeviceSpec, SpecAddress};

/// Prefix of these folders; the process id follows.
const PREFIX: &str = "sys-";
/// The GID of an index without a known entry.
const NO_GID: [u8; 16] = [0; 16];

/// A device of the folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shown<'a> {
    /// The functions that it may be.
    Owned(&'a [AddressedSpec]),
    /// Another process serves it; the GID table has entries with these indices.
    Served(&'a [usize]),
}

/// Makes the folder of this process in `user_folder`, with `devices`. Removes folders of processes
/// that have ended.
///
/// # Errors
/// The system's.
pub(super) fn make(user_folder: &Path, devices: &[Shown<'_>]) -> io::Result<PathBuf> {
    remove_old(user_folder);
    let folder = user_folder.join(format!("{PREFIX}{}", process::id()));
    // An earlier process may have had this id.
    let _ = fs::remove_dir_all(&folder);
    for (number, shown) in devices.iter().enumerate() {
        device(&folder, number, *shown)?;
    }
    Ok(folder)
}

/// Removes the folders of processes that have ended.
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

fn device(folder: &Path, number: usize, shown: Shown<'_>) -> io::Result<()> {
    let known = match shown {
        Shown::Owned([one]) => Some(one),
        _ => None,
    };
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
    if let Some(DeviceSpec::Vfio(bdf, _)) = known.map(|known| &known.spec) {
        symlink(
            Path::new(DEVICES).join(bdf.to_string()),
            device.join("device"),
        )?;
    }
    let own_link_local = known.and_then(link_local_of);
    if let Some(ip) = own_link_local {
        // Both as in the library.
        let [_, _, _, _, guid @ ..] = ip.segments();
        for file in ["node_guid", "sys_image_guid"] {
            write(&device, file, &words(&guid))?;
        }
    }
    let port = device.join("ports/1");
    write(&port, "link_layer", "Ethernet")?;
    write(&port, "lid", "0x0")?;
    write(&port.join("pkeys"), "0", "0xffff")?;
    let gids = known.map(|known| gids(own_link_local, known));
    let gids = gids.unwrap_or_default();
    // The entries that each of them has.
    let has_entry = |index: usize| match shown {
        Shown::Owned(functions) => functions.iter().all(|one| index < entries(one)),
        Shown::Served(indices) => indices.contains(&index),
    };
    for index in 0..GIDS {
        let gid = gids.get(index).copied().flatten();
        write(&port.join("gids"), &index.to_string(), &text(gid))?;
        // As the kernel has it, an index without an entry has no type that can be read.
        if has_entry(index) {
            let types = port.join("gid_attrs/types");
            write(&types, &index.to_string(), "RoCE v2")?;
        }
    }
    Ok(())
}

/// The link-local address of a function, if its Ethernet address is known before a bring-up.
fn link_local_of(function: &AddressedSpec) -> Option<Ipv6Addr> {
    let mac = match &function.spec {
        DeviceSpec::Sim(sim) => sim.mac,
        DeviceSpec::Vfio(bdf, _) => identity::mac(&Host::default(), *bdf),
        DeviceSpec::VfioUser(_) => None,
    };
    mac.map(|mac| link_local(MacAddr(mac)))
}

/// A function's own addresses; those of a TAP interface change and are left out.
fn addresses(function: &AddressedSpec) -> &[SpecAddress] {
    match function.tap {
        None => &function.addresses,
        Some(_) => &[],
    }
}

/// Number of GID table entries after a bring-up, with the link-local address.
fn entries(function: &AddressedSpec) -> usize {
    1 + addresses(function).len()
}

/// The GID table after a bring-up; `None` for an entry that is not known before.
fn gids(first: Option<Ipv6Addr>, function: &AddressedSpec) -> Vec<Option<Gid>> {
    let first = first.map(IpAddr::V6);
    let others = addresses(function).iter().map(|own| Some(own.ip));
    let all = [first].into_iter().chain(others);
    all.map(|ip| ip.map(|ip| GidEntry::untagged(ip).gid))
        .collect()
}

/// A GID, or zeroes.
fn text(gid: Option<Gid>) -> String {
    words(&Ipv6Addr::from(gid.map_or(NO_GID, |gid| gid.0)).segments())
}

/// GIDs and GUIDs as in sysfs.
fn words(words: &[u16]) -> String {
    let words = words.iter().map(|word| format!("{word:04x}"));
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
            "vfio:3b:00.0@tap=t,10.8.1.2",
        ];
        let known: [AddressedSpec; 2] = known.map(|text| text.parse().unwrap());
        let several = ["sim@10.8.1.3,fd00:8::3", "sim@10.8.1.4"];
        let several: [AddressedSpec; 2] = several.map(|text| text.parse().unwrap());
        for _ in 0..2 {
            let shown = [&known[..1], &known[1..], &several].map(Shown::Owned);
            let shown = [&shown[..], &[Shown::Served(&[0, 2])]].concat();
            let folder = make(user, &shown).unwrap();
            let read = |path: &str| fs::read_to_string(folder.join("class").join(path)).ok();
            let port = |number: usize, path: &str| {
                read(&format!("infiniband/e810_{number}/ports/1/{path}"))
            };
            assert_eq!(
                read("infiniband_verbs/uverbs2/ibdev").as_deref(),
                Some("e810_2\n")
            );
            assert_eq!(port(0, "link_layer").as_deref(), Some("Ethernet\n"));
            // As the library has it, where the Ethernet address is known.
            let guid = "0000:00ff:fe00:0100\n";
            for (number, guid) in [(0, Some(guid)), (1, None), (2, None)] {
                for file in ["node_guid", "sys_image_guid"] {
                    let found = read(&format!("infiniband/e810_{number}/{file}"));
                    assert_eq!(found.as_deref(), guid, "e810_{number}/{file}");
                }
            }
            // A card's function is where the kernel has it, and no other is anywhere.
            let device = |number: usize| {
                let link = folder.join(format!("class/infiniband/e810_{number}/device"));
                fs::read_link(link).ok()
            };
            let there = Path::new("/sys/bus/pci/devices/0000:3b:00.0");
            assert_eq!([0, 1, 2].map(device), [None, Some(there.to_owned()), None]);
            // What changes, or is not known before.
            for file in ["state", "phys_state", "rate", "counters", "gid_attrs/ndevs"] {
                assert_eq!(port(0, file), None, "{file}");
                assert!(
                    !folder
                        .join(format!("class/infiniband/e810_0/ports/1/{file}"))
                        .exists()
                );
            }
            let zeroes = "0000:0000:0000:0000:0000:0000:0000:0000\n";
            // Kinds are known of what each function has, whichever it is.
            for (number, index, gid, has_kind) in [
                (0, 0, "fe80:0000:0000:0000:0000:00ff:fe00:0100\n", true),
                (0, 1, "0000:0000:0000:0000:0000:ffff:0a08:0101\n", true),
                (0, 2, zeroes, false),
                (1, 0, zeroes, true),
                (1, 1, zeroes, false),
                (2, 0, zeroes, true),
                (2, 1, zeroes, true),
                (2, 2, zeroes, false),
                (3, 0, zeroes, true),
                (3, 1, zeroes, false),
                (3, 2, zeroes, true),
            ] {
                let found = port(number, &format!("gids/{index}"));
                assert_eq!(found.as_deref(), Some(gid), "e810_{number} {index}");
                let kind = port(number, &format!("gid_attrs/types/{index}"));
                let wanted = has_kind.then_some("RoCE v2\n");
                assert_eq!(kind.as_deref(), wanted, "e810_{number} {index}");
            }
            assert_eq!(port(0, "gids/31").as_deref(), Some(zeroes));
            assert_eq!(port(0, "gids/32"), None);
        }
        assert!(!old.exists() && user.join("sys-other").exists());
    }
}

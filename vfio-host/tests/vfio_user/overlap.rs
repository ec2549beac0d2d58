//! Mappings of a user that meet others of its own, and mappings given back in
//! parts: what the device uses stays mapped in the server, and nothing else.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;

use e810_backends::memory::SharedMemory;
use vfio_user::Client;

use super::processes::{E810, Served, folder, until};

const CONFIG: u32 = 7;
const PAGE: u64 = 4096;
const OLD: u64 = 0x10_1000;
const NEW: u64 = 0x10_0000;

fn write(user: &mut Client, region: u32, offset: u64, value: u32) {
    user.region_write(region, offset, &value.to_le_bytes())
        .unwrap();
}

/// Has the firmware take a command from `OLD`; how the server ended, if it did.
fn fetch(user: &mut Client, server: &mut E810) -> Option<std::process::ExitStatus> {
    for (register, value) in [
        (0x8_0300, 0),
        (0x8_0400, 0),
        (0x8_0000, OLD as u32),
        (0x8_0100, 0),
        (0x8_0200, 1 << 31 | 8),
        (0x8_0400, 1),
    ] {
        write(user, 0, register, value);
    }
    // The head of its queue moves when the command is done.
    until("the command to be taken", || {
        let mut head = [0; 4];
        let is_read = user.region_read(0, 0x8_0300, &mut head).is_ok();
        let ended = server.0.try_wait().unwrap();
        (ended.is_some() || is_read && head == [1, 0, 0, 0]).then_some(ended)
    })
}

/// Mappings of the file in this process (server and user are one here).
fn mapped(memory: &SharedMemory) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::from(memory.file().try_clone_to_owned().unwrap());
    let inode = format!(" {} ", file.metadata().unwrap().ino());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(&inode)).count()
}

#[test]
fn a_refused_mapping_leaves_what_was_there_before() {
    let served = Served::start();
    let mut user = Client::new(&served.paths[0]).unwrap();
    let (old, new) = (
        SharedMemory::new(PAGE as usize, false).unwrap(),
        SharedMemory::new(4 * PAGE as usize, false).unwrap(),
    );
    user.dma_map(0, OLD, PAGE, old.file().as_raw_fd()).unwrap();
    assert_eq!(mapped(&old), 2, "the user's and the server's");
    user.dma_map(0, NEW, 4 * PAGE, new.file().as_raw_fd())
        .unwrap();
    assert_eq!(mapped(&new), 1, "refused: it meets the old one");
    assert_eq!(mapped(&old), 2, "the device still has it");
}

/// `e810 sim` with a user that has enabled memory and bus mastering.
fn server_and_user(name: &str) -> (vmm_sys_util::tempdir::TempDir, E810, Client) {
    let folder = folder();
    let path = folder.as_path().join(name);
    let socket = format!("--socket={}", path.display());
    let server = E810::start(&["sim", "--profile=small", &socket]);
    let mut user = until("the server's socket", || Client::new(&path).ok());
    write(&mut user, CONFIG, 4, 6);
    (folder, server, user)
}

/// The same without the second mapping: the server goes on.
#[test]
fn a_mapping_alone_does_not_end_the_server() {
    let (_folder, mut server, mut user) = server_and_user("alone");
    let old = SharedMemory::new(PAGE as usize, false).unwrap();
    user.dma_map(0, OLD, PAGE, old.file().as_raw_fd()).unwrap();
    assert_eq!(fetch(&mut user, &mut server), None);
}

#[test]
fn a_refused_mapping_does_not_end_the_server() {
    let (_folder, mut server, mut user) = server_and_user("met");
    let (old, new) = (
        SharedMemory::new(PAGE as usize, false).unwrap(),
        SharedMemory::new(4 * PAGE as usize, false).unwrap(),
    );
    user.dma_map(0, OLD, PAGE, old.file().as_raw_fd()).unwrap();
    user.dma_map(0, NEW, 4 * PAGE, new.file().as_raw_fd())
        .unwrap();
    let ended = fetch(&mut user, &mut server);
    let signal = ended.and_then(|status| status.signal());
    assert_eq!((ended, signal), (None, None), "the server died");
}

/// Given back in two halves, memory is gone, and its place is free again.
#[test]
fn what_was_given_back_in_halves_can_be_mapped_again() {
    let served = Served::start();
    let mut user = Client::new(&served.paths[0]).unwrap();
    let memory = SharedMemory::new(2 * PAGE as usize, false).unwrap();
    let fd = memory.file().as_raw_fd();
    user.dma_map(0, NEW, 2 * PAGE, fd).unwrap();
    user.dma_unmap(NEW, PAGE).unwrap();
    user.dma_unmap(NEW + PAGE, PAGE).unwrap();
    assert_eq!(mapped(&memory), 1, "the server has let go of it");
    user.dma_map(0, NEW, 2 * PAGE, fd).unwrap();
    assert_eq!(served.report().functions[0].refused_dma_maps, 0);
}

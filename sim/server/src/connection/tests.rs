//! A user on a real socket, with a real function behind it.

use super::*;
use std::sync::Arc;
use std::thread::JoinHandle;

use e810_sim::Sim;
use proptest::prelude::*;
use zerocopy::FromBytes;

use crate::device::Device;
use crate::memory_file::memory_file;
use crate::messages::{DMA_MAP, ERROR, KIND, REGION_READ, REPLY};

/// A function of a simulator with stopped time, on a thread, and its user's end.
fn served() -> (UnixStream, JoinHandle<Result<(), Lost>>, Sim) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let sim = Sim::builder().cold().build();
    let (mut device, _) = Device::of(&sim, 0);
    let thread = std::thread::spawn(move || {
        let ours = Arc::new(ours);
        device.user_came(Arc::clone(&ours));
        let end = serve_connection(&ours, &mut device);
        device.user_left();
        end
    });
    (theirs, thread, sim)
}

fn message(command: u16, size: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        id: 1,
        command,
        size,
        flags: 0,
        error: 0,
    };
    [header.as_bytes(), body].concat()
}

#[test]
fn messages_in_pieces_are_whole_messages() {
    let (mut user, thread, _sim) = served();
    // Four bytes of configuration space: vendor and device.
    let read = message(
        REGION_READ,
        32,
        &[0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0],
    );
    for piece in read
        .chunks(5)
        .chain([&[read.clone(), read.clone()].concat()[..]])
    {
        user.write_all(piece).unwrap();
    }
    let mut reply = [0; 3 * 36];
    user.read_exact(&mut reply).unwrap();
    for reply in reply.chunks(36) {
        assert_eq!(reply[32..], [0x86, 0x80, 0x92, 0x15]);
    }
    drop(user);
    assert!(thread.join().unwrap().is_ok());
}

#[test]
fn a_bad_header_is_refused_and_ends_the_connection() {
    for bad in [
        message(REGION_READ, u32::MAX, &[]),
        message(1, 8 << 20, &[]),
        message(9, 15, &[]),
    ] {
        let (mut user, thread, _sim) = served();
        user.write_all(&bad).unwrap();
        let mut received = Vec::new();
        user.read_to_end(&mut received).unwrap();
        let (header, _) = Header::read_from_prefix(&received).unwrap();
        assert_eq!((header.flags, received.len()), (REPLY | ERROR, HEADER));
        let end = thread.join().unwrap();
        assert!(matches!(end, Err(Lost::BadHeader(_))), "{end:?}");
    }
}

#[test]
fn too_many_descriptors_end_the_connection_and_are_closed() {
    let (mut user, thread, _sim) = served();
    let (watched, ours) = UnixStream::pair().unwrap();
    let fds: Vec<RawFd> = [std::os::fd::AsRawFd::as_raw_fd(&watched)].repeat(MOST_FDS + 1);
    let reset = message(13, 16, &[]);
    user.send_with_fds(&[&reset[..]], &fds).unwrap();
    let mut received = Vec::new();
    assert_eq!(user.read_to_end(&mut received).unwrap_or(0), 0);
    assert!(matches!(thread.join().unwrap(), Err(Lost::Socket(_))));
    drop(watched);
    // The other end sees the end of the stream only when every copy is closed.
    assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_map_that_wraps_is_refused_and_is_no_finding() {
    let (mut user, thread, sim) = served();
    let file = memory_file(8192);
    for (offset, address, size) in [
        (0, u64::MAX - 4095, 8192),
        (0, u64::MAX - 4095, 4096),
        (0, u64::MAX, u64::MAX),
        (u64::MAX - 4095, 0, 8192),
        (16, 0x10_0000, 4096),
    ] {
        let body: Vec<u8> = [32 | 3 << 32, offset, address, size]
            .iter()
            .flat_map(|word: &u64| word.to_ne_bytes())
            .collect();
        let map = message(DMA_MAP, 48, &body);
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        user.send_with_fds(&[&map[..]], &[fd]).unwrap();
        let mut reply = [0; HEADER];
        user.read_exact(&mut reply).unwrap();
    }
    assert_eq!(sim.function(0).attached_memory(), 0);
    assert_eq!(sim.findings(), []);
    drop(user);
    assert!(thread.join().unwrap().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random messages, complete or not, to the simulated function: each is answered or ends the
    /// connection, and the thread does not panic.
    #[test]
    fn random_messages_are_survived(
        messages in prop::collection::vec(
            (0_u16..16, prop::collection::vec(prop_oneof![0_u32..16, any::<u32>()], 0..12), any::<bool>()),
            1..20,
        ),
        rest in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let (mut user, thread, _sim) = served();
        let reader = {
            let user = user.try_clone().unwrap();
            std::thread::spawn(move || {
                let mut received = Vec::new();
                // The server may end the connection with unread bytes of ours.
                let _ = (&user).read_to_end(&mut received);
                received
            })
        };
        for (command, words, lies) in messages {
            let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let size = if lies { words.len() as u32 } else { (HEADER + body.len()) as u32 };
            if user.write_all(&message(command, size, &body)).is_err() {
                break;
            }
        }
        let _ = user.write_all(&rest);
        let _ = user.shutdown(std::net::Shutdown::Write);
        let end = thread.join();
        prop_assert!(end.is_ok(), "a panic");
        let received = reader.join().unwrap();
        let mut left = &received[..];
        while let Ok((header, _)) = Header::read_from_prefix(left) {
            prop_assert_eq!(header.flags & KIND, REPLY);
            prop_assert!(header.size as usize >= HEADER);
            left = left.get(header.size as usize..).unwrap_or_default();
        }
    }
}

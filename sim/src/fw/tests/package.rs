//! Package download, and which function may download.

use e810_hal::Ns;
use e810_hal::regs as hw;

use super::client::{Client, package_buffers, params};
use crate::findings::kind;
use crate::fw::AqCode;
use crate::fw::layout::{put, put_u16, put_u32};
use crate::{PackageStart, Sim};

const GLOBAL: [(usize, &[u8]); 2] = [(0, &[4]), (2, &[2])];

fn list(client: &mut Client) -> Vec<(Vec<u8>, Vec<u8>)> {
    let reply = client.ask(0x0c43, [0; 16], 512).ok();
    let count = reply.data32(0) as usize;
    reply.data[4..]
        .chunks_exact(40)
        .take(count)
        .map(|info| (info[..4].to_vec(), info[36..].to_vec()))
        .collect()
}

#[test]
fn the_second_function_finds_the_package_there() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    assert_eq!(list(&mut one), []);
    one.download();
    assert_eq!(list(&mut other), [(vec![1, 3, 0, 0], vec![0, 1, 0, 0])]);
    assert_eq!(global(&mut other), DONE);
    assert_eq!(sim.findings(), []);
}

/// Status of a request for the global configuration lock.
fn global(client: &mut Client) -> u16 {
    client.direct(0x0008, params(&GLOBAL)).param16(12)
}

const GRANTED: u16 = 0;
const IN_PROGRESS: u16 = 1;
const DONE: u16 = 2;

#[test]
fn the_configuration_lock_is_given_once_until_a_core_reset() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    assert_eq!(global(&mut one), GRANTED);
    assert_eq!(global(&mut other), IN_PROGRESS);
    // Nothing was downloaded, but the configuration still counts as done.
    one.direct(0x0009, params(&GLOBAL)).ok();
    assert_eq!((global(&mut one), global(&mut other)), (DONE, DONE));
    one.tell(0x0c40, [0; 16], &package_buffers()[0])
        .refused(AqCode::EPERM);
    other.nic.function_level_reset();
    let mut other = other.start();
    assert_eq!(global(&mut other), DONE, "a function's reset is no help");
    hw::GLGEN_RTRIG.set(&other.nic, 1);
    sim.run(Ns::from_ms(110));
    let mut other = other.start();
    assert_eq!(global(&mut other), GRANTED);
}

#[test]
fn a_configuration_lock_whose_time_is_over_is_not_free() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    let granted = one.direct(0x0008, params(&GLOBAL)).ok();
    sim.run(Ns::from_ms(granted.param32(4).into()));
    assert_eq!((global(&mut one), global(&mut other)), (DONE, DONE));
    one.tell(0x0c40, [0; 16], &package_buffers()[0])
        .refused(AqCode::EPERM);
}

#[test]
fn a_holder_that_is_reset_has_had_the_configuration_lock() {
    let sim = Sim::builder().functions(2).cold().build();
    let (mut one, mut other) = (Client::on(&sim, 0), Client::on(&sim, 1));
    assert_eq!(global(&mut one), GRANTED);
    one.nic.function_level_reset();
    assert_eq!(global(&mut other), DONE);
}

#[test]
fn only_the_owner_of_the_lock_downloads() {
    let mut client = Client::new();
    let buffers = package_buffers();
    client
        .tell(0x0c40, [0; 16], &buffers[0])
        .refused(AqCode::EPERM);
    client.direct(0x0008, params(&GLOBAL)).ok();
    // Other commands wait until it is over.
    client.ask(0x000a, [0; 16], 4096).refused(AqCode::EBUSY);
    let mut bad = buffers[0].clone();
    bad[0] = 0;
    let reply = client.tell(0x0c40, [0; 16], &bad);
    assert_eq!((reply.code, reply.data32(4)), (14, 14));
    client
        .tell(0x0c40, [0; 16], &buffers[0][..100])
        .refused(AqCode::EINVAL);
    client.tell(0x0c40, [0; 16], &buffers[0]).ok();
    client.direct(0x0009, params(&GLOBAL)).ok();
    assert_eq!(list(&mut client), [], "the last buffer did not come");
}

/// The last buffer is marked, and buffers that are not for the card are not sent (control-path
/// 9.10).
#[test]
fn a_download_ends_with_its_last_buffer() {
    let buffers = package_buffers();
    let lock = params(&[(0, &[4])]);
    for (last, refused, found) in [(true, false, 0), (false, false, 1), (false, true, 0)] {
        let mut client = Client::new();
        client.direct(0x0008, params(&GLOBAL)).ok();
        client
            .tell(0x0c40, params(&[(0, &[last.into()])]), &buffers[0])
            .ok();
        if refused {
            // A driver whose buffer is refused gives up.
            client
                .tell(0x0c40, [0; 16], &[0; 4096])
                .refused(AqCode::EINVAL);
        }
        assert_eq!(client.kinds(), [""; 0]);
        client.direct(0x0009, lock).ok();
        assert_eq!(client.kinds(), vec![kind::ADMINQ_BITS.name; found]);
    }
    let mut client = Client::new();
    client.direct(0x0008, params(&GLOBAL)).ok();
    let mut metadata = buffers[0].clone();
    metadata[7] |= 1 << 7;
    client.tell(0x0c40, params(&[(0, &[1])]), &metadata).ok();
    assert_eq!(client.kinds(), [kind::ADMINQ_BITS.name]);
}

#[test]
fn a_package_in_nvm_is_active_and_may_be_replaced() {
    let builder = Sim::builder().firmware(|_, fw| {
        fw.package = PackageStart::InNvm([1, 2, 0, 0]);
    });
    let mut client = Client::of(builder);
    assert_eq!(list(&mut client), [(vec![1, 2, 0, 0], vec![1, 1, 1, 0])]);
    client.download();
    let expected = [
        (vec![1, 3, 0, 0], vec![0, 1, 0, 0]),
        (vec![1, 2, 0, 0], vec![1, 0, 0, 0]),
    ];
    assert_eq!(list(&mut client), expected);
}

#[test]
fn a_package_can_be_refused() {
    let builder = Sim::builder().firmware(|_, fw| {
        fw.package = PackageStart::Refused(AqCode::EBADSIG);
    });
    let mut client = Client::of(builder);
    client.direct(0x0008, params(&GLOBAL)).ok();
    let reply = client.tell(0x0c40, [0; 16], &package_buffers()[0]);
    assert_eq!((reply.code, reply.data32(4)), (25, 25));
}

#[test]
fn vlan_mode_is_set_during_the_download_only() {
    let mut client = Client::new();
    let mut mode = [0; 100];
    mode[1] = 2;
    client.tell(0x020c, [0; 16], &mode).refused(AqCode::EPERM);
    client.direct(0x0008, params(&GLOBAL)).ok();
    client.tell(0x020c, [0; 16], &mode).ok();
    client.direct(0x0009, params(&GLOBAL)).ok();
    assert_eq!(client.ask(0x020d, [0; 16], 100).ok().data[..2], [1, 2]);
}

#[test]
fn a_package_is_updated_under_the_change_lock() {
    let mut client = Client::new();
    let update = package_buffers()[1].clone();
    let change = params(&[(0, &[3]), (2, &[2])]);
    client.tell(0x0c42, [0; 16], &update).refused(AqCode::EPERM);
    client.direct(0x0008, change).ok();
    client.tell(0x0c42, [0; 16], &update).refused(AqCode::EMODE);
    client.direct(0x0009, change).ok();
    client.download();
    client.direct(0x0008, change).ok();
    client.tell(0x0c42, [0; 16], &update).ok();
    assert_eq!(list(&mut client)[0].1, [0, 1, 0, 1], "modified");
}

/// A buffer with sections of these kinds, offsets and bytes.
pub(super) fn buffer(sections: &[(u32, usize, &[u8])]) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    put_u16(&mut bytes, 0, sections.len() as u16);
    put_u16(&mut bytes, 2, 4096);
    for (_, offset, data) in sections {
        put(&mut bytes, *offset, data);
    }
    for (index, (kind, offset, data)) in sections.iter().enumerate() {
        let at = 4 + 8 * index;
        put_u32(&mut bytes, at, *kind);
        put_u16(&mut bytes, at + 4, *offset as u16);
        put_u16(&mut bytes, at + 6, data.len() as u16);
    }
    bytes
}

/// The parser's metadata: entries from number `first` on, all filled with `fill`.
fn metadata(first: u16, entries: u16, fill: u8) -> Vec<u8> {
    let mut data = vec![fill; 4 + 24 * usize::from(entries)];
    put_u16(&mut data, 0, entries);
    put_u16(&mut data, 2, first);
    data
}

/// Entry `number` of the firmware's parser metadata.
fn entry(client: &mut Client, number: u16) -> Option<u8> {
    let reply = client.tell(
        0x0c41,
        [0; 16],
        &buffer(&[(58, 12, &metadata(number, 1, 0))]),
    );
    assert_eq!(
        reply.code == 0,
        reply.code != u16::from(AqCode::ENOENT.0),
        "{reply:?}"
    );
    (reply.code == 0).then(|| reply.data[16])
}

#[test]
fn sections_that_share_bytes_are_refused() {
    let mut client = Client::new();
    client.direct(0x0008, params(&GLOBAL)).ok();
    // If 510 sections shared the same bytes, a buffer of 4 KiB would mean 2 MiB.
    let section: &[u8] = &[0; 4000];
    for buffer in [
        buffer(&[(10, 20, section); 2]),
        buffer(&[(10, 100, &[1; 50]), (11, 149, &[2; 50])]),
        buffer(&[(10, 149, &[1; 50]), (11, 100, &[2; 50])]),
    ] {
        let reply = client.tell(0x0c40, [0; 16], &buffer);
        assert_eq!((reply.code, reply.data32(0)), (14, 12), "the second one");
    }
    // Over the list of sections itself.
    let reply = client.tell(0x0c40, [0; 16], &buffer(&[(10, 8, &[1; 50])]));
    assert_eq!((reply.code, reply.data32(0)), (14, 4));
    let good = buffer(&[(10, 150, &[1; 50]), (11, 100, &[2; 50]), (12, 200, &[])]);
    client.tell(0x0c40, [0; 16], &good).ok();
}

#[test]
fn a_download_begins_with_nothing() {
    let mut client = Client::new();
    let bring = |client: &mut Client, first, fill, last: u8| {
        let data = metadata(first, 2, fill);
        let bytes = buffer(&[(58, 1000, &data), (10, 20, &[9; 900])]);
        client.tell(0x0c40, params(&[(0, &[last])]), &bytes).ok();
    };
    client.direct(0x0008, params(&GLOBAL)).ok();
    bring(&mut client, 0, 1, 0);
    assert_eq!(entry(&mut client, 1), Some(1));
    assert_eq!(entry(&mut client, 2), None);
    // Given up and restarted: the lock is granted again after a reset of the card.
    client.direct(0x0009, params(&GLOBAL)).ok();
    hw::GLGEN_RTRIG.set(&client.nic, 1);
    client.sim.run(Ns::from_ms(110));
    let mut client = client.start();
    client.direct(0x0008, params(&GLOBAL)).ok();
    bring(&mut client, 4, 2, 0);
    assert_eq!(entry(&mut client, 1), None, "of the first attempt");
    bring(&mut client, 6, 3, 1);
    assert_eq!(
        (entry(&mut client, 5), entry(&mut client, 6)),
        (Some(2), Some(3))
    );
    // Buffers after a last one under the same lock belong to the same package.
    bring(&mut client, 8, 4, 0);
    assert_eq!(
        (entry(&mut client, 5), entry(&mut client, 8)),
        (Some(2), Some(4))
    );
}

/// Older signed files have several ranges of buffers, each ending with "last" (control-path 9.10).
#[test]
fn ranges_that_each_end_with_last_are_one_package() {
    let mut client = Client::new();
    client.direct(0x0008, params(&GLOBAL)).ok();
    for buffer in package_buffers() {
        client.tell(0x0c40, params(&[(0, &[1])]), &buffer).ok();
    }
    client.direct(0x0009, params(&GLOBAL)).ok();
    assert_eq!(list(&mut client), [(vec![1, 3, 0, 0], vec![0, 1, 0, 0])]);
}

/// Sections 80 to 88 are the engine's (control-path 9.10).
#[test]
fn a_package_without_sections_of_the_engine_brings_it_no_frames() {
    for with_them in [false, true] {
        let mut client = Client::new();
        let mac = client.nic.mac();
        let vsi = client.add_vsi();
        client.open_vsi(vsi, true).ok();
        let rule = super::switch::mac_rule(vsi, mac);
        client.tell(0x02a0, params(&[(0, &[1])]), &rule).ok();
        client.direct(0x0008, params(&GLOBAL)).ok();
        let buffers = package_buffers();
        let (engines, others) = buffers.split_last().unwrap();
        let last = if with_them { engines } else { &others[0] };
        client.tell(0x0c40, [0; 16], &others[0]).ok();
        client.tell(0x0c40, params(&[(0, &[1])]), last).ok();
        client.direct(0x0009, params(&GLOBAL)).ok();
        client.open_switch();
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&mac);
        client.sim.receive_frames([&frame[..]]);
        client.sim.run(Ns::from_ms(1));
        let received = client.sim.stats(0).frames_received;
        assert_eq!(received, u64::from(with_them));
        assert_eq!(list(&mut client).len(), 1);
    }
}

/// Bytes 66 and 69 tell the engine and the management where the tag is; 0x0203 sets the same mode
/// (control-path 9.10).
#[test]
fn a_vlan_mode_is_one_in_all_its_parts() {
    // Tagging, rdma_packet, mng_vlan_prot_id; cmd_flags of 0x0203, if it is sent; lints of the mode
    // and when the lock is released.
    type Case = ([u8; 3], Option<u8>, usize, usize);
    let cases: [Case; 7] = [
        ([4, 0x10, 0x11], Some(0), 0, 0),
        ([2, 0x1a, 0x10], Some(4), 0, 0),
        ([4, 0x1a, 0x11], Some(0), 1, 0),
        ([2, 0x1a, 0x11], Some(4), 1, 0),
        ([2, 0x1a, 0x10], Some(0), 0, 1),
        ([2, 0x1a, 0x10], None, 0, 1),
        ([4, 0x10, 0x11], Some(4), 0, 1),
    ];
    for ([tagging, rdma, management], flags, of_mode, of_release) in cases {
        let mut client = Client::new();
        client.direct(0x0008, params(&GLOBAL)).ok();
        let mut mode = [0; 100];
        (mode[1], mode[66], mode[69]) = (tagging, rdma, management);
        client.tell(0x020c, [0; 16], &mode).ok();
        assert_eq!(client.kinds(), vec!["adminq-bits"; of_mode], "{mode:x?}");
        if let Some(flags) = flags {
            let port = params(&[(0, &[flags]), (6, &[4])]);
            client.direct(0x0203, port).ok();
        }
        assert_eq!(client.kinds(), [""; 0]);
        client.direct(0x0009, params(&[(0, &[4])])).ok();
        assert_eq!(client.kinds(), vec!["adminq-bits"; of_release], "{flags:?}");
    }
    // Fields of 0x0203 without their valid bit.
    let mut client = Client::new();
    for fields in [(4, 1), (6, 1)] {
        client
            .direct(0x0203, params(&[(fields.0, &[fields.1])]))
            .ok();
        assert_eq!(client.kinds(), ["adminq-bits"]);
    }
}

use super::*;
use crate::messages::MAP_WRITE;
use proptest::prelude::*;

/// Counts the calls, and checks the caller's promise: accesses within regions.
#[derive(Default)]
struct Recorder {
    reads: usize,
    writes: Vec<Vec<u8>>,
    maps: usize,
    unmaps: Vec<(u64, u64)>,
    irqs: usize,
    resets: usize,
}

impl Recorder {
    fn inside(region: u32, offset: u64, bytes: usize) {
        assert!(bytes as u64 <= region_len(region) - offset);
    }
}

impl Function for Recorder {
    fn vectors(&self) -> u32 {
        64
    }
    fn read(&mut self, region: u32, offset: u64, into: &mut [u8]) {
        Self::inside(region, offset, into.len());
        into.fill(0xab);
        self.reads += 1;
    }
    fn write(&mut self, region: u32, offset: u64, from: &[u8]) {
        Self::inside(region, offset, from.len());
        self.writes.push(from.to_vec());
    }
    fn map(&mut self, _: &DmaMap, _: Option<File>) {
        self.maps += 1;
    }
    fn unmap(&mut self, address: u64, size: u64) {
        self.unmaps.push((address, size));
    }
    fn set_irqs(&mut self, _: &SetIrqs, _: Vec<File>) {
        self.irqs += 1;
    }
    fn reset(&mut self) {
        self.resets += 1;
    }
}

fn header(command: u16, body: usize, flags: u32) -> Header {
    Header {
        id: 7,
        command,
        size: (HEADER + body) as u32,
        flags,
        error: 0,
    }
}

fn unmap(flags: u32) -> DmaUnmap {
    DmaUnmap {
        argsz: 24,
        flags,
        address: 5,
        size: 6,
    }
}

/// Sends a complete message; returns its reply, header and body.
fn ask(
    recorder: &mut Recorder,
    command: u16,
    flags: u32,
    body: &[u8],
) -> Option<(Header, Vec<u8>)> {
    let header = header(command, body.len(), flags);
    assert_eq!(body_len(&header), Ok(body.len()));
    let mut reply = Vec::new();
    answer(recorder, &header, body, Vec::new(), &mut reply);
    let (first, rest) = Header::read_from_prefix(&reply).ok()?;
    assert_eq!(first.size as usize, reply.len());
    assert_eq!((first.id, first.command), (7, command));
    assert_eq!(first.flags & KIND, REPLY);
    Some((first, rest.to_vec()))
}

fn error(recorder: &mut Recorder, command: u16, flags: u32, body: &[u8]) -> i32 {
    let (header, rest) = ask(recorder, command, flags, body).unwrap();
    assert_eq!((header.flags, rest.len()), (REPLY | ERROR, 0));
    header.error as i32
}

fn access(region: u32, offset: u64, count: u32) -> Vec<u8> {
    let access = RegionAccess {
        offset,
        region,
        count,
    };
    access.as_bytes().to_vec()
}

const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;

#[test]
fn a_read_takes_no_more_than_its_region_has() {
    let recorder = &mut Recorder::default();
    let read = access(CONFIG, 4092, 4);
    let (first, body) = ask(recorder, REGION_READ, 0, &read).unwrap();
    assert_eq!((first.flags, &body[..16]), (REPLY, &read[..]));
    assert_eq!(body[16..], [0xab; 4]);
    for (region, offset, count) in [
        (CONFIG, 4093, 4),
        (CONFIG, 0, 4097),
        (CONFIG, u64::MAX, 2),
        (0, 0, MOST_DATA + 1),
        (0, 0, u32::MAX),
        (0, 32 << 20, 1),
        (1, 0, 1),
        (9, 0, 1),
        (u32::MAX, 0, 1),
    ] {
        let mut reply = Vec::new();
        let body = access(region, offset, count);
        let header = header(REGION_READ, body.len(), 0);
        answer(recorder, &header, &body, Vec::new(), &mut reply);
        assert_eq!(reply.len(), HEADER);
        assert!(reply.capacity() <= 64, "{} bytes", reply.capacity());
        assert_eq!(error(recorder, REGION_READ, 0, &body), libc::EINVAL);
    }
    assert_eq!(recorder.reads, 1);
    let (_, body) = ask(recorder, REGION_READ, 0, &access(0, 0, MOST_DATA)).unwrap();
    assert_eq!(body.len(), 16 + MOST_DATA as usize);
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    for (command, most) in [
        (VERSION, 4 + 4096),
        (DMA_MAP, 4096),
        (REGION_READ, 4096),
        (REGION_WRITE, 16 + (1 << 20)),
        (0, 4096),
        (u16::MAX, 4096),
    ] {
        assert_eq!(body_len(&header(command, most, 0)), Ok(most));
        for size in [0, 15, (HEADER + most) as u32 + 1, u32::MAX] {
            let header = Header {
                size,
                ..header(command, 0, 0)
            };
            assert_eq!(body_len(&header), Err(BadHeader::Size { command, size }));
        }
    }
    let reply = header(DEVICE_RESET, 0, REPLY);
    assert_eq!(body_len(&reply), Err(BadHeader::Kind(REPLY)));
}

#[test]
fn writes_have_their_data_and_may_go_unanswered() {
    let recorder = &mut Recorder::default();
    let body = [&access(0, 8, 4)[..], &[1, 2, 3, 4]].concat();
    assert_eq!(ask(recorder, REGION_WRITE, NO_REPLY, &body), None);
    let (_, reply) = ask(recorder, REGION_WRITE, 0, &body).unwrap();
    assert_eq!(reply, body[..16]);
    assert_eq!(recorder.writes, [[1, 2, 3, 4], [1, 2, 3, 4]]);
    // Fewer bytes than it says; past the end; more than a message may have.
    assert_eq!(error(recorder, REGION_WRITE, 0, &body[..19]), libc::EINVAL);
    for (offset, count) in [(4093, 4), (u64::MAX, 4), (0, u32::MAX)] {
        let body = [&access(CONFIG, offset, count)[..], &[0; 4]].concat();
        assert_eq!(error(recorder, REGION_WRITE, 0, &body), libc::EINVAL);
        // A user that posts its writes would take a reply for our mistake.
        assert_eq!(ask(recorder, REGION_WRITE, NO_REPLY, &body), None);
    }
    assert_eq!(recorder.writes.len(), 2);
}

#[test]
fn every_other_command_is_answered() {
    let recorder = &mut Recorder::default();
    let map = DmaMap {
        argsz: 32,
        flags: MAP_WRITE,
        offset: 0,
        address: 0,
        size: 4096,
    };
    assert!(
        ask(recorder, DMA_MAP, 0, map.as_bytes())
            .unwrap()
            .1
            .is_empty()
    );
    // The kernel refuses these too.
    for flags in [4, MAP_WRITE | 1 << 31] {
        let map = DmaMap { flags, ..map };
        let number = error(recorder, DMA_MAP, 0, map.as_bytes());
        assert_eq!(number, libc::EINVAL, "{flags}");
    }
    let nothing = DmaUnmap {
        size: 0,
        ..unmap(0)
    };
    let number = error(recorder, DMA_UNMAP, 0, nothing.as_bytes());
    assert_eq!(number, libc::EINVAL);
    // Without a flag; all, as QEMU requests it with the kernel's header; all, as rust-vmm's client
    // does.
    for (flags, taken) in [(0, (5, 6)), (2, (0, u64::MAX)), (4, (0, u64::MAX))] {
        let unmap = unmap(flags);
        let (_, reply) = ask(recorder, DMA_UNMAP, 0, unmap.as_bytes()).unwrap();
        assert_eq!(reply, unmap.as_bytes());
        assert_eq!(recorder.unmaps.pop(), Some(taken), "{flags}");
    }
    // With its dirty pages, and unknown flags.
    for flags in [1, 8, 2 | 16, 1 << 31] {
        let unmap = unmap(flags);
        let number = error(recorder, DMA_UNMAP, 0, unmap.as_bytes());
        assert_eq!(number, libc::EINVAL, "{flags}");
    }
    assert_eq!(recorder.unmaps, []);
    let (_, info) = ask(recorder, DEVICE_GET_INFO, 0, &[0; 16]).unwrap();
    let info = DeviceInfo::read_from_bytes(&info).unwrap();
    assert_eq!((info.flags, info.regions, info.irqs), (3, 9, 5));
    let mut asked = [0; 32];
    asked[8] = 3;
    let (_, region) = ask(recorder, DEVICE_GET_REGION_INFO, 0, &asked).unwrap();
    let region = RegionInfo::read_from_bytes(&region).unwrap();
    assert_eq!((region.index, region.size, region.flags), (3, 64 << 10, 3));
    asked[8] = 9;
    assert_eq!(
        error(recorder, DEVICE_GET_REGION_INFO, 0, &asked),
        libc::EINVAL
    );
    let mut asked = [0; 16];
    for (index, count) in [(0, 0), (2, 64), (4, 0)] {
        asked[8] = index;
        let (_, irqs) = ask(recorder, DEVICE_GET_IRQ_INFO, 0, &asked).unwrap();
        assert_eq!(IrqInfo::read_from_bytes(&irqs).unwrap().count, count);
    }
    asked[8] = 5;
    assert_eq!(
        error(recorder, DEVICE_GET_IRQ_INFO, 0, &asked),
        libc::EINVAL
    );
    let mut set = SetIrqs {
        argsz: 20,
        flags: 0x24,
        index: 2,
        start: 0,
        count: 1,
    };
    ask(recorder, DEVICE_SET_IRQS, 0, set.as_bytes()).unwrap();
    set.flags = 0x22;
    let unsupported = error(recorder, DEVICE_SET_IRQS, 0, set.as_bytes());
    assert_eq!(unsupported, libc::EOPNOTSUPP);
    set.index = 5;
    assert_eq!(
        error(recorder, DEVICE_SET_IRQS, 0, set.as_bytes()),
        libc::EINVAL
    );
    ask(recorder, DEVICE_RESET, 0, &[]).unwrap();
    assert_eq!(ask(recorder, DEVICE_RESET, NO_REPLY, &[]), None);
    assert_eq!((recorder.maps, recorder.irqs, recorder.resets), (1, 1, 2));
    for command in [0, 6, 11, 12, 14, 99, u16::MAX] {
        assert_eq!(error(recorder, command, 0, &[]), libc::EOPNOTSUPP);
    }
    // Questions need an answer, and structures need all of their bytes.
    assert_eq!(
        error(recorder, DEVICE_GET_INFO, NO_REPLY, &[0; 16]),
        libc::EINVAL
    );
    assert_eq!(error(recorder, DMA_MAP, 0, &[0; 31]), libc::EINVAL);
}

#[test]
fn versions_are_agreed_on() {
    let recorder = &mut Recorder::default();
    let message = |major: u16, minor: u16, text: &[u8]| {
        [&major.to_ne_bytes()[..], &minor.to_ne_bytes(), text].concat()
    };
    for (minor, ours) in [(0, 0), (1, 1), (7, 1)] {
        let body = message(0, minor, b"{\"capabilities\":{\"max_msg_fds\":8}}\0");
        let (_, reply) = ask(recorder, VERSION, 0, &body).unwrap();
        assert_eq!(reply[..4], message(0, ours, b""));
        let (last, text) = reply[4..].split_last().unwrap();
        assert_eq!(*last, 0);
        let text: serde_json::Value = serde_json::from_slice(text).unwrap();
        let capabilities = &text["capabilities"];
        assert_eq!(capabilities["max_data_xfer_size"], 1 << 20);
        assert_eq!(capabilities["max_msg_fds"], 1);
    }
    ask(recorder, VERSION, 0, &message(0, 0, b"")).unwrap();
    let deep = [&b"[".repeat(4000)[..], &b"]".repeat(90), b"\0"].concat();
    for text in [&b"{}"[..], b"{\0", b"\0\0", &[0xff; 4096], &deep] {
        assert_eq!(
            error(recorder, VERSION, 0, &message(0, 0, text)),
            libc::EINVAL
        );
    }
    let other = message(1, 0, b"{}\0");
    assert_eq!(error(recorder, VERSION, 0, &other), libc::EOPNOTSUPP);
    assert_eq!(error(recorder, VERSION, 0, &[0; 3]), libc::EINVAL);
}

proptest! {
    /// For any bytes: the reply has the length that it says, or there is none if none is wanted,
    /// and memory stays within the limit.
    #[test]
    fn any_message_is_answered_within_bounds(
        command in prop_oneof![0_u16..16, any::<u16>()],
        flags in prop_oneof![Just(0), Just(NO_REPLY), any::<u32>()],
        size in prop_oneof![0_u32..5000, any::<u32>()],
        // Structures with small numbers get further than random ones.
        words in prop::collection::vec(prop_oneof![0_u32..16, any::<u32>()], 0..16),
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let header = Header { id: 1, command, size, flags, error: 0 };
        let Ok(bytes) = body_len(&header) else { return Ok(()); };
        prop_assert!(bytes <= LONGEST);
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(tail);
        body.resize(bytes, 0);
        let mut reply = Vec::new();
        answer(&mut Recorder::default(), &header, &body, Vec::new(), &mut reply);
        prop_assert!(reply.len() <= HEADER + LONGEST);
        prop_assert!(reply.capacity() <= 2 * (HEADER + LONGEST));
        if let Ok((first, _)) = Header::read_from_prefix(&reply) {
            prop_assert_eq!(first.size as usize, reply.len());
            prop_assert_eq!(first.flags & KIND, REPLY);
        } else {
            prop_assert!(reply.is_empty() && flags & NO_REPLY != 0);
        }
    }
}

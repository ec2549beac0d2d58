use super::*;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

/// A file made of segments, each given without its header.
struct File(Vec<(u32, Vec<u8>)>);

const FORMAT: [u8; 4] = [1, 0, 1, 0];

impl File {
    fn bytes(&self) -> Vec<u8> {
        let count = self.0.len() as u32;
        let mut list = Vec::new();
        let mut bodies = Vec::new();
        for (kind, body) in &self.0 {
            let offset = 8 + 4 * count + bodies.len() as u32;
            list.extend(offset.to_le_bytes());
            bodies.extend(kind.to_le_bytes());
            bodies.extend(FORMAT);
            bodies.extend((44 + body.len() as u32).to_le_bytes());
            bodies.extend([0; 32]);
            bodies.extend(body);
        }
        [&[1, 0, 0, 0][..], &count.to_le_bytes(), &list, &bodies].concat()
    }
}

/// A buffer with one section of this type.
fn buffer(kind: u32, fill: u8) -> Vec<u8> {
    let mut bytes = std::vec![fill; 4096];
    bytes[..4].copy_from_slice(&[1, 0, 0, 16]);
    bytes[4..8].copy_from_slice(&kind.to_le_bytes());
    bytes[8..12].copy_from_slice(&[12, 0, 0xF4, 0x0F]);
    bytes
}

fn table(buffers: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = (buffers.len() as u32).to_le_bytes().to_vec();
    bytes.extend(buffers.concat());
    bytes
}

fn configuration(buffers: &[Vec<u8>]) -> Vec<u8> {
    // One device, two NVM versions.
    let tables = [&[1, 0, 0, 0][..], &[0; 8], &[2, 0, 0, 0], &[0; 8]].concat();
    [tables, table(buffers)].concat()
}

fn metadata(version: [u8; 4]) -> (u32, Vec<u8>) {
    let mut body = std::vec![0; 40];
    body[..4].copy_from_slice(&version);
    (1, body)
}

fn signing(fields: [u32; 6], buffers: &[Vec<u8>]) -> (u32, Vec<u8>) {
    let mut body: Vec<u8> = fields.iter().flat_map(|f| f.to_le_bytes()).collect();
    body.resize(64, 0);
    body.extend(table(buffers));
    (0x1001, body)
}

/// Metadata, and a configuration of buffers 10, 11 (PE), 12, then one that is
/// not for the firmware, then 13.
fn plain() -> File {
    let kinds = [10, 80, 12, 0x8000_0010, 13];
    let buffers: Vec<_> = kinds
        .iter()
        .map(|kind| buffer(*kind, *kind as u8))
        .collect();
    File(std::vec![
        metadata([1, 3, 30, 0]),
        (0x10, configuration(&buffers)),
    ])
}

/// First section types, with `None` for the end of a download.
fn steps(package: &Package<'_>) -> Vec<Option<u32>> {
    let mut steps = Vec::new();
    package
        .walk(|step| {
            steps.push(match step {
                Step::Buffer(bytes) => Some(crate::bytes::le32(bytes, 4)),
                Step::Last => None,
            });
            Ok::<(), PackageError>(())
        })
        .unwrap();
    steps
}

#[test]
fn an_unsigned_file_is_sent_up_to_its_metadata() {
    let file = plain().bytes();
    let package = Package::parse(&file).unwrap();
    assert_eq!(package.version(), Version::new(1, 3, 30, 0));
    assert_eq!(package.format(), Version::new(1, 0, 1, 0));
    assert!(package.has_rdma() && !package.is_signed());
    assert_eq!(steps(&package), [Some(10), Some(80), Some(12), None]);
}

#[test]
fn the_segment_knows_its_version_best() {
    let mut file = plain();
    let mut own = buffer(1, 0);
    own[12..16].copy_from_slice(&[1, 3, 41, 7]);
    file.0[1].1 = configuration(&[own]);
    let file = file.bytes();
    let package = Package::parse(&file).unwrap();
    assert_eq!(package.version(), Version::new(1, 3, 41, 7));
    assert!(!package.has_rdma());
}

#[test]
fn signatures_say_what_is_sent_and_where_a_download_ends() {
    let mut file = plain();
    let sign = |kind| [buffer(kind, 0), buffer(kind + 1, 0)];
    // Valid flags without "last", another device, another type, older file.
    file.0
        .push(signing([0x10, 1, 1, 1, 2, 0x8000_0000], &sign(100)));
    file.0
        .push(signing([0x17, 1, 1, 0, 1, 0x8000_0001], &sign(200)));
    file.0
        .push(signing([0x10, 5, 1, 0, 1, 0x8000_0001], &sign(300)));
    file.0.push(signing([0x10, 1, 1, 0, 1, 0], &sign(400)));
    file.0
        .push(signing([0x10, 1, 1, 4, 1, 0x8000_0001], &sign(500)));
    let bytes = file.bytes();
    let package = Package::parse(&bytes).unwrap();
    assert!(package.is_signed());
    let expected = [&[100, 101, 80, 12][..], &[400, 401, 10], &[500, 501, 13]];
    let mut flat: Vec<Option<u32>> = Vec::new();
    for (number, kinds) in expected.iter().enumerate() {
        flat.extend(kinds.iter().map(|kind| Some(*kind)));
        if number > 0 {
            flat.push(None);
        }
    }
    assert_eq!(steps(&package), flat);
}

#[test]
fn each_damage_is_named_with_its_place() {
    type Change = fn(&mut Vec<u8>);
    let cases: &[(Change, &str)] = &[
        (
            |file| file.truncate(7),
            "header at offset 0 needs 8 bytes, 7",
        ),
        (|file| file[0] = 2, "it begins with 2.0.0.0"),
        (|file| file[4] = 0, "number of segments at offset 4 is 0"),
        (
            |file| file[6] = 1,
            "number of segments at offset 4 is 65538",
        ),
        (
            |file| file[15] = 0x7F,
            "header of a segment at offset 2130706",
        ),
        (
            |file| file[16 + 8] = 43,
            "size of a segment at offset 24 is 43",
        ),
        (
            |file| file[16 + 11] = 0x7F,
            "segment at offset 16 needs 2130706",
        ),
        (|file| file[100] = 0x11, "no segment for the E810"),
        (|file| file[147] = 1, "table of devices at offset 148"),
        (|file| file[159] = 1, "table of NVM versions at offset 160"),
        (|file| file[171] = 1, "table of buffers at offset 172"),
        (
            |file| file[172] = 0,
            "number of sections at offset 172 is 0",
        ),
        (
            |file| file[173] = 2,
            "number of sections at offset 172 is 513",
        ),
        (
            |file| file[174] = 11,
            "end of the data in a buffer at offset 174",
        ),
        (
            |file| file[180] = 11,
            "offset of a section at offset 180 is 11",
        ),
        (
            |file| file[183] = 0x10,
            "size of a section at offset 182 is 4340",
        ),
        (
            |file| file[16 + 45] = 2,
            "version 1.2.30.0, this driver needs 1.3",
        ),
    ];
    let whole = plain().bytes();
    assert_eq!(whole[100], 0x10, "the segment begins there");
    for (change, expected) in cases {
        let mut file = whole.clone();
        change(&mut file);
        let error = Package::parse(&file).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}; expected {expected}");
    }
}

#[test]
fn a_bad_signature_is_refused_before_anything_is_sent() {
    let cases = [
        ([0x17, 1, 1, 0, 1, 0], "no signature for the E810"),
        ([0x10, 1, 0, 0, 1, 0], "for segment 0, which is no E810"),
        ([0x10, 1, 3, 0, 1, 0], "signed segment at offset"),
        ([0x10, 1, 1, 6, 0, 0], "first signed buffer at offset"),
        ([0x10, 1, 1, 3, 3, 0], "number of signed buffers at offset"),
    ];
    for (fields, expected) in cases {
        let mut file = plain();
        file.0.push(signing(fields, &[buffer(100, 0)]));
        let error = Package::parse(&file.bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut file = plain();
    file.0.push((0x1001, std::vec![0; 63]));
    assert!(Package::parse(&file.bytes()).is_err());
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let mut file = plain();
    file.0
        .push(signing([0x10, 1, 1, 0, 1, 0], &[buffer(100, 0)]));
    let bytes = file.bytes();
    assert!(Package::parse(&bytes).is_ok());
    for len in (0..200).chain((200..bytes.len()).step_by(511)) {
        assert!(Package::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn a_file_without_a_version_is_refused() {
    let mut file = plain();
    file.0.remove(0);
    let error = Package::parse(&file.bytes()).unwrap_err();
    assert_eq!(error, PackageError::NoVersion);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in the file: an answer, no panic; and what was accepted
    /// can be walked.
    #[test]
    fn no_file_panics(
        changes in prop::collection::vec((0usize..500, any::<u8>()), 0..12),
        cut in 0usize..30_000,
    ) {
        let mut file = plain();
        file.0.push(signing([0x10, 1, 1, 0, 1, 0], &[buffer(100, 0)]));
        let mut bytes = file.bytes();
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(cut);
        if let Ok(package) = Package::parse(&bytes) {
            steps(&package);
        }
    }
}

use super::*;
use crate::hmc::testing::query;

fn reply(parts: &[(Object, u64, u64)]) -> [u64; WORDS] {
    let mut reply = [0; WORDS];
    for (object, count, base) in parts {
        reply[object.commit_offset() / 8] = count | (base / 512) << 32;
    }
    reply
}

fn counts(parts: &[(Object, u32)]) -> PerObject<u32> {
    let mut counts = PerObject::default();
    for (object, count) in parts {
        counts.set(*object, *count);
    }
    counts
}

#[test]
fn a_reply_gives_counts_and_places() {
    let wanted = counts(&[(Object::Qp, 64), (Object::Apbvt, 1), (Object::Pble, 4096)]);
    let request = commit_request(&wanted);
    assert_eq!((request[0], request[5], request[14]), (64, 0, 4096));
    let reply = reply(&[
        (Object::Qp, 32, 0x20_0000),
        (Object::Apbvt, 0, 0x1000),
        (Object::Pble, 4096, 0x40_0000),
        (Object::Srq, 77, 0x40_0000),
    ]);
    let layout = Layout::decode(&reply, &wanted, &query()).unwrap();
    let qp = layout.area(Object::Qp);
    assert_eq!((qp.base, qp.count, qp.bytes), (0x20_0000, 32, 1024));
    assert_eq!(layout.area(Object::Srq).count, 0, "not asked for, not read");
    assert_eq!(layout.bytes(), 0x40_0000 + 4096 * 8);
    assert_eq!(layout.segments(), 3);
    assert_eq!(
        layout.object(Object::Qp, 31),
        Ok((0x20_0000 + 31 * 1024, 0x20_0000 + 32 * 1024))
    );
    assert!(layout.object(Object::Qp, 32).is_err());
    assert!(layout.object(Object::Cq, 0).is_err());
}

#[test]
fn only_the_count_bits_of_a_word_count() {
    let wanted = counts(&[(Object::Qp, 64), (Object::Cq, 128)]);
    let mut words = reply(&[(Object::Qp, 64, 0), (Object::Cq, 128, 0x2_0000)]);
    words[0] |= 0xFFE0_0000;
    words[1] |= 0xFFF0_0000;
    let layout = Layout::decode(&words, &wanted, &query()).unwrap();
    assert_eq!(layout.area(Object::Qp).count, 64);
    assert_eq!(layout.area(Object::Cq).count, 128);
}

#[test]
fn senseless_replies_are_refused() {
    let wanted = counts(&[(Object::Qp, 64), (Object::Cq, 128)]);
    let decode = |words: &[u64; WORDS]| Layout::decode(words, &wanted, &query());
    let good = reply(&[(Object::Qp, 64, 0), (Object::Cq, 128, 0x1_0000)]);
    assert!(decode(&good).is_ok());
    let far = reply(&[(Object::Qp, 64, 0), (Object::Cq, 128, 0x1FF_FFFF_FE00)]);
    assert!(matches!(decode(&far), Err(Error::Segments { .. })));
    assert!(decode(&[u64::MAX; WORDS]).is_err());
}

/// Existing drivers take what the answer says: nothing, or more than there was.
#[test]
fn the_answers_counts_stand() {
    let wanted = counts(&[(Object::Qp, 64), (Object::Cq, 128), (Object::Hdr, 64)]);
    let decode = |words: &[u64; WORDS]| Layout::decode(words, &wanted, &query());
    let none = reply(&[(Object::Qp, 64, 0), (Object::Cq, 128, 0x1_0000)]);
    let layout = decode(&none).unwrap();
    assert_eq!(layout.area(Object::Hdr), Area::default(), "no area");
    assert_eq!(layout.bytes(), 0x1_0000 + 128 * 128);
    let many = reply(&[(Object::Qp, 64, 0), (Object::Cq, 600_000, 0x1_0000)]);
    let layout = decode(&many).unwrap();
    assert_eq!(
        layout.area(Object::Cq).count,
        600_000,
        "the maximum is 524288"
    );
    // PBLEs that were not asked for would need memory that was not planned.
    let wanted = counts(&[(Object::Pble, 1024)]);
    let words = reply(&[(Object::Pble, 1 << 27, 0)]);
    let layout = Layout::decode(&words, &wanted, &query()).unwrap();
    assert_eq!(layout.area(Object::Pble).count, 1024);
}

/// Nobody compares areas; but the driver writes to the PBLEs.
#[test]
fn only_what_lies_among_the_pbles_is_refused() {
    let wanted = counts(&[(Object::Qp, 64), (Object::Hdr, 64), (Object::Pble, 1024)]);
    let decode = |words: &[u64; WORDS]| Layout::decode(words, &wanted, &query());
    let parts = [
        (Object::Qp, 64, 0),
        (Object::Hdr, 64, 0),
        (Object::Pble, 1024, 0x2_0000),
    ];
    let layout = decode(&reply(&parts)).unwrap();
    assert_eq!(
        layout.area(Object::Hdr).base,
        0,
        "as existing drivers take it"
    );
    let parts = [
        (Object::Qp, 64, 0),
        (Object::Hdr, 64, 0x1_8000),
        (Object::Pble, 1024, 0xFE00),
    ];
    assert!(matches!(decode(&reply(&parts)), Err(Error::Reply { .. })));
}

#[test]
fn packed_areas_follow_one_another() {
    let wanted = counts(&[(Object::Qp, 1), (Object::Arp, 3), (Object::Mr, 1)]);
    let layout = Layout::packed(&wanted, &query()).unwrap();
    assert_eq!(layout.area(Object::Qp).base, 0);
    assert_eq!(layout.area(Object::Arp).base, 1024);
    assert_eq!(layout.area(Object::Mr).base, 1536);
    assert_eq!(layout.segments(), 1);
}

//! Replies to QUERY_FPM_VAL and the checks of a commit.

use proptest::prelude::*;

use super::*;

/// Linux's choice of counts and its estimate (control-path 6.5), RoCE, with a limit on the number
/// of QPs.
struct Linux {
    profile: FpmProfile,
    reply: [u64; QUERY_BYTES / 8],
    counts: [u64; KINDS],
}

impl Linux {
    fn word(&self, offset: usize) -> (u64, u64) {
        let word = self.reply[offset / 8];
        (word & 0xFFFF_FFFF, word >> 32)
    }

    fn count(&mut self, kind: Kind, count: u64) {
        self.counts[kind as usize] = count;
    }

    fn get(&self, kind: Kind) -> u64 {
        self.counts[kind as usize]
    }

    fn q1(qp: u64) -> u64 {
        (127 * 2 * qp + 512).next_power_of_two()
    }

    /// Bytes of all objects, PBLEs included or not.
    fn bytes(&self, pble: bool) -> u64 {
        Kind::all()
            .filter(|kind| pble || *kind != Kind::Pble)
            .map(|kind| (self.get(kind) * self.profile.bytes(kind)).next_multiple_of(512))
            .sum()
    }

    fn choose_for(&mut self, qp: u64) {
        let (xf_block, q1_block) = (self.word(64).1, self.word(80).1);
        let misc = self.reply[15];
        let (multiplier, bucket) = (misc >> 16 & 0xF, misc >> 32 & 0xFFFF);
        let (rrf, rrf_block) = (self.word(128).0, self.word(136).1);
        let fsimc = self.get(Kind::FsiMc);
        self.count(Kind::Qp, qp);
        self.count(Kind::Cq, (2 * qp).min(self.word(16).0));
        self.count(
            Kind::Hte,
            (qp + fsimc).next_multiple_of(512).next_power_of_two() * multiplier,
        );
        self.count(Kind::Apbvt, 1);
        self.count(Kind::Xf, 4 * xf_block * qp);
        self.count(Kind::XfFl, 4 * qp);
        self.count(Kind::Q1, Self::q1(qp));
        self.count(Kind::Q1Fl, Self::q1(qp) / q1_block);
        self.count(Kind::Timer, (qp.div_ceil(512) + 1) * bucket);
        self.count(Kind::Hdr, qp);
        self.count(Kind::Rrf, if rrf > 0 { 32 * qp } else { 0 });
        self.count(Kind::RrfFl, if rrf > 0 { 32 * qp / rrf_block } else { 0 });
    }

    /// Runs the loop; passes it took.
    fn run(&mut self, limit: u64) -> u32 {
        for (kind, offset) in [
            (Kind::Arp, 40),
            (Kind::FsiMc, 96),
            (Kind::FsiAv, 104),
            (Kind::Md, 152),
        ] {
            self.count(kind, self.word(offset).0);
        }
        self.count(Kind::Mr, self.word(48).0);
        self.count(Kind::Pble, self.word(112).0);
        let mut qp = limit.min(self.word(8).0);
        qp = 1 << qp.ilog2();
        while Self::q1(qp) > self.word(72).0 {
            qp /= 2;
        }
        let sds = self.reply[0] >> 32 & 0x1FFF;
        for pass in 1..=2000 {
            self.choose_for(qp);
            let needed = self.bytes(true).div_ceil(SD_BYTES);
            if needed <= sds {
                return pass;
            }
            let excess = needed - sds;
            let (pble, mr) = (self.get(Kind::Pble), self.get(Kind::Mr));
            if excess > 128 && pass % 2 == 0 && qp > 128 {
                qp /= 2;
            } else if excess > 128 {
                self.count(Kind::Pble, pble / 2);
                self.count(Kind::Mr, mr / 2);
            } else {
                assert!(
                    pble > 512 * 1024 * excess,
                    "only the first steps of the loop are needed here"
                );
                self.count(Kind::Pble, pble - 256 * 1024 * excess);
            }
        }
        panic!("the loop does not end");
    }
}

/// What Linux knows before it chooses the counts.
fn asked(profile: FpmProfile) -> Linux {
    Linux {
        profile,
        reply: profile.query_reply(&Variation::default()),
        counts: [0; KINDS],
    }
}

fn linux(profile: FpmProfile, limit: u64) -> (Linux, u32) {
    let mut linux = asked(profile);
    let passes = linux.run(limit);
    (linux, passes)
}

fn commit(profile: FpmProfile, linux: &Linux) -> Layout {
    let mut buffer = [0; COMMIT_BYTES[0] / 8];
    for row in TABLE.iter().filter(|row| row.kind != Kind::Apbvt) {
        buffer[row.commit / 8] = linux.get(row.kind);
    }
    Layout::commit(profile, &buffer).unwrap()
}

#[test]
fn linux_gets_55_mb_to_6_gb_out_of_the_card_profile() {
    let (few, _) = linux(FpmProfile::card(), 128);
    let few_mb = few.bytes(false) / 1_000_000;
    assert!((50..=60).contains(&few_mb), "{few_mb} MB");
    let (many, passes) = linux(FpmProfile::card(), 262_144);
    assert_eq!(many.get(Kind::Qp), 262_144);
    let many_mb = many.bytes(false) / 1_000_000;
    assert!((5_000..=6_000).contains(&many_mb), "{many_mb} MB");
    // One pass of the shrink loop, and the layout matches the estimate.
    assert_eq!(passes, 2);
    let layout = commit(FpmProfile::card(), &many);
    assert_eq!(layout.sds(), many.bytes(true).div_ceil(SD_BYTES));
    assert!(layout.sds() <= FpmProfile::card().max_sds().into());
}

/// What in-tree drivers report of an E810-C (field-evidence 4, a), and the memory that Intel's
/// README gives for its own counts, within 15 %.
#[test]
fn linux_sees_an_e810c_in_the_profile_of_that_name() {
    let profile = FpmProfile::e810c();
    let (seen, passes) = linux(profile, 262_144);
    let counts = [Kind::Qp, Kind::Cq, Kind::Mr, Kind::FsiAv].map(|kind| seen.get(kind));
    assert_eq!(counts, [65_536, 131_072, 2_097_152, 131_072]);
    assert_eq!(passes, 3);
    let layout = commit(profile, &seen);
    assert!(layout.sds() <= profile.max_sds().into());
    for (qps, regions, mb) in [(4_096, 4_194_304, 210), (512, 524_288, 55)] {
        let mut theirs = asked(profile);
        theirs.run(qps);
        theirs.count(Kind::Mr, regions);
        theirs.choose_for(qps);
        let ours = theirs.bytes(false) / 1_000_000;
        assert!(ours.abs_diff(mb) * 100 <= mb * 15, "{qps} QPs: {ours} MB");
    }
    // Each maximum fits its register, and is at least the one that was seen.
    assert!(profile.maximum(Kind::Mr) >= 4_194_304);
    assert!((1_450..=2_900).contains(&profile.max_sds()));
}

/// Words of unused types, and maxima that no driver compares.
#[test]
fn what_nobody_reads_may_be_anything() {
    let reply = |unread_words, derived_maxima| {
        FpmProfile::small().query_reply(&Variation {
            unread_words,
            derived_maxima,
            ..Variation::default()
        })
    };
    let plain = reply(UnreadWords::Limits, DerivedMaxima::Said);
    let odd = reply(UnreadWords::Anything, DerivedMaxima::Zero);
    let differ: Vec<_> = (0..QUERY_BYTES / 8)
        .filter(|n| plain[*n] != odd[*n])
        .collect();
    // SRQ, HTE, XF, TIMER, HDR.
    assert_eq!(differ, [3, 4, 7, 11, 18]);
    assert!(odd[3] >> 32 > 15);
    assert!(
        [4, 7, 11, 18]
            .iter()
            .all(|n| odd[*n] << 32 == 0 && odd[*n] != 0)
    );
}

#[test]
fn linux_fits_the_small_profile_into_a_small_guest() {
    let (all, passes) = linux(FpmProfile::small(), 262_144);
    assert_eq!((all.get(Kind::Qp), passes), (1_024, 1));
    assert!(all.bytes(true) < 64 << 20);
    // Linux needs 512 PBLEs at least (control-path 6.7).
    assert!(commit(FpmProfile::small(), &all).extent(Kind::Pble).count >= 1024);
}

#[test]
fn what_linux_divides_by_is_not_zero() {
    for profile in [FpmProfile::card(), FpmProfile::small(), FpmProfile::e810c()] {
        let reply = profile.query_reply(&Variation::default());
        // XFBLOCKSIZE, Q1BLOCKSIZE, RRFBLOCKSIZE; HTMULTIPLIER and TIMERBUCKET; MAX_CEQS; Q1
        // maximum.
        for offset in [64, 80, 136] {
            assert!(reply[offset / 8] >> 32 > 0);
        }
        let misc = reply[15];
        assert!(misc & 0x3FF > 1 && misc >> 16 & 0xF > 0 && misc >> 32 & 0xFFFF > 0);
        assert!(reply[9] & 0xFFFF_FFFF >= 512);
    }
}

#[test]
fn offsets_and_widths_are_those_of_the_tables() {
    // Query offset and commit offset of control-path 6.2; register widths of the maxima of 2.8.
    let rows = [
        ("QP", 8, 0, 19),
        ("CQ", 16, 8, 20),
        ("HTE", 32, 24, 21),
        ("ARP", 40, 32, 17),
        ("MR", 48, 48, 23),
        ("XF", 56, 56, 28),
        ("XFFL", 64, 64, 28),
        ("Q1", 72, 72, 28),
        ("Q1FL", 80, 80, 26),
        ("TIMER", 88, 88, 29),
        ("FSIMC", 96, 96, 14),
        ("FSIAV", 104, 104, 18),
        ("PBLE", 112, 112, 29),
        ("RRF", 128, 128, 28),
        ("RRFFL", 136, 136, 26),
        ("HDR", 144, 144, 19),
        ("MD", 152, 152, 24),
    ];
    let plain = Variation::default();
    for (name, query, commit, bits) in rows {
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        assert_eq!(row.commit, commit, "{name}");
        for profile in [FpmProfile::card(), FpmProfile::e810c()] {
            let maximum = profile.maximum(row.kind);
            let reply = profile.query_reply(&plain);
            assert_eq!(reply[query / 8] & 0xFFFF_FFFF, maximum, "{name}");
            assert!(maximum < 1 << bits, "{name}");
        }
        assert_eq!(TABLE[row.kind as usize].name, name);
    }
}

#[test]
fn a_commit_beyond_the_sds_is_refused() {
    let mut buffer = [0; COMMIT_BYTES[0] / 8];
    buffer[14] = 1 << 20;
    buffer[9] = 1 << 18;
    assert!(Layout::commit(FpmProfile::small(), &buffer).is_ok());
    for (word, kind) in [(0, Kind::Qp), (14, Kind::Pble)] {
        let mut buffer = buffer;
        buffer[word] = FpmProfile::small().maximum(kind) + 1;
        let refused = Layout::commit(FpmProfile::small(), &buffer);
        assert!(matches!(refused, Err(Refused::TooMany { kind: found, .. }) if found == kind));
    }
    // All maxima together do not fit the card.
    let mut buffer = [0; COMMIT_BYTES[0] / 8];
    for row in TABLE.iter().filter(|row| row.kind != Kind::Apbvt) {
        buffer[row.commit / 8] = FpmProfile::card().maximum(row.kind);
    }
    assert!(matches!(
        Layout::commit(FpmProfile::card(), &buffer),
        Err(Refused::TooBig { .. })
    ));
}

#[test]
fn a_profile_is_what_its_reply_says() {
    let variation = Variation::default();
    for profile in [FpmProfile::card(), FpmProfile::small(), FpmProfile::e810c()] {
        let reply = profile.query_reply(&variation);
        let again = FpmProfile::from_reply(&reply).unwrap();
        assert_eq!(again.query_reply(&variation), reply);
    }
    // A reply of zeros is a card without any objects; sizes that no card has are refused.
    assert_eq!(FpmProfile::from_reply(&[]).unwrap().max_sds(), 0);
    let mut reply = FpmProfile::card().query_reply(&variation);
    reply[1] = 21 << 32 | 5;
    let error = FpmProfile::from_reply(&reply).unwrap_err();
    assert_eq!(error.to_string(), "QP: objects of 2^21 bytes");
}

proptest! {
    #[test]
    fn any_reply_is_a_profile_or_refused(
        objects in prop::collection::vec((any::<u32>(), 0_u64..=24), 25),
        words in prop::collection::vec(any::<u64>(), 2),
    ) {
        let variation = Variation::default();
        let mut reply: Vec<u64> = objects.iter().map(|(max, log2)| u64::from(*max) | log2 << 32).collect();
        (reply[0], reply[15]) = (words[0], words[1]);
        let Ok(profile) = FpmProfile::from_reply(&reply) else {
            return Ok(());
        };
        let said = profile.query_reply(&variation);
        let again = FpmProfile::from_reply(&said).unwrap();
        prop_assert_eq!(again.query_reply(&variation), said);
        // A count above a limit is refused, whatever the card.
        let mut buffer = [0; 25];
        buffer[0] = profile.maximum(Kind::Qp) + 1;
        if profile.maximum(Kind::Qp) < 1 << 20 {
            prop_assert!(Layout::commit(profile, &buffer).is_err());
        }
    }
}

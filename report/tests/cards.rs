//! Cards from files: the report of a simulated card equals the report that it was made of.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;

use e810_card::record::{from_hex, hex, runs};
use e810_card::{Document, Record, differences};
use e810_report::levels::{self, Levels};
use e810_report::passive::Identities;
use e810_report::resets::Kind;
use e810_sim::{Builder, NoCard, Profile, RecordedCard, Rng, Sim};

/// The report of function 0: levels 1 to 4.
fn report(builder: Builder) -> Document {
    let sim = builder.cold().build();
    let function = sim.function(0);
    function.function_level_reset();
    let levels = Levels {
        highest: 3,
        resets: vec![Kind::Pfr, Kind::Corer, Kind::Globr, Kind::Empr],
        identities: Identities::Removed,
    };
    let document = levels::document(&function, "sim", &levels).unwrap();
    assert_eq!(sim.findings(), []);
    document
}

fn of_card(document: &Document) -> Builder {
    Sim::builder().card(&RecordedCard::from_document(document).unwrap())
}

#[test]
fn every_profile_is_found_again() {
    for profile in [Profile::card(), Profile::small(), Profile::e810c()] {
        for functions in [1, 8] {
            let builder = Sim::builder().profile(profile).functions(functions);
            let document = report(builder.vectors(100).seed(3));
            let again = report(of_card(&document).seed(4));
            assert_eq!(differences(&document, &again), [""; 0]);
        }
    }
}

/// Registers by whose values a report itself goes: it waits for them, or is written by them.
const GOES_BY: &[&str] = &[
    "GLGEN_RSTAT",
    "GLGEN_RSTCTL",
    "GLNVM_ULD",
    "GL_MNG_FWSM",
    "GLPE_CPUSTATUS0",
    "GLPE_CPUSTATUS1",
    "GLPE_CPUSTATUS2",
    "PFGEN_CTRL",
    "PF_FUNC_RID",
    "PF_FW_",
    "PFPE_C",
    "GLPE_CRITERR",
    // They route an interrupt to a vector that the function has.
    "PFINT_",
    // Each has two addresses and one value.
    "PFHMC_",
];

/// Another card: other values of registers, other answers, other limits.
fn another_card(card: &Document, seed: u64) -> Document {
    let mut rng = Rng::new(seed);
    let mut card = card.clone();
    for record in &mut card.records {
        match record {
            Record::Register { name, values, .. } => {
                let is_fixed = GOES_BY.iter().any(|fixed| name.starts_with(fixed));
                if is_fixed || rng.below(3) != 0 {
                    continue;
                }
                let count: u32 = values.iter().map(|run| run.count).sum();
                // A few stretches of equal values, as cards have them.
                let mut all = Vec::new();
                while all.len() < count as usize {
                    let length = 1 + rng.below(u64::from(count)) as usize;
                    let value = rng.next_u64() as u32 & 0x7FFF_FFFF;
                    all.extend(std::iter::repeat_n(Some(value), length));
                }
                all.truncate(count as usize);
                *values = runs(all);
            }
            Record::AdminQ {
                opcode,
                code,
                reply,
                data,
                ..
            } => answer(*opcode, code, reply, data, &mut rng),
            Record::Cqp { name, data } => {
                let is_limits = name == "QUERY_FPM_VAL";
                let mut bytes = from_hex(data).unwrap();
                for word in bytes.chunks_exact_mut(8) {
                    // The upper half of a word can be the log2 of a size.
                    let upper = if is_limits {
                        rng.below(12)
                    } else {
                        rng.below(1 << 31)
                    };
                    let value = upper << 32 | rng.below(1 << 31);
                    word.copy_from_slice(&value.to_le_bytes());
                }
                *data = hex(&bytes);
            }
            _ => {}
        }
    }
    card
}

/// Another answer of the firmware, of a form that a card can give.
fn answer(opcode: u16, code: &mut u16, reply: &mut String, data: &mut String, rng: &mut Rng) {
    // The queue's own version, and the pages of the switch, by which a report goes on.
    if opcode == 0x0001 || opcode == 0x0200 {
        return;
    }
    if rng.below(6) == 0 {
        *code = 1 + rng.below(28) as u16;
        return;
    }
    let mut bytes = from_hex(data).unwrap();
    match opcode {
        0x000A | 0x000B => {
            let (entries, _) = bytes.as_chunks_mut::<32>();
            for entry in entries {
                let number = rng.below(1 << 13) as u32;
                if number < 1 << 12 {
                    entry[4..8].copy_from_slice(&number.to_le_bytes());
                }
            }
        }
        // Nodes have other numbers: the same added to each.
        0x0400 => {
            let by = rng.below(1 << 20) as u32;
            for branch in bytes.chunks_exact_mut(8 + 9 * 24) {
                let (elements, _) = branch[8..].as_chunks_mut::<24>();
                for teid in elements
                    .iter_mut()
                    .flat_map(|element| element[..8].as_chunks_mut().0)
                {
                    let number = u32::from_le_bytes(*teid);
                    if number != 0 && number != u32::MAX {
                        *teid = (number + by).to_le_bytes();
                    }
                }
            }
        }
        // Limits of the layers.
        0x0412 => {
            for layer in bytes.chunks_exact_mut(32).skip(1) {
                layer[4] = rng.next_u64() as u8;
                layer[10] = rng.next_u64() as u8;
            }
        }
        _ => {
            for byte in &mut bytes {
                if rng.below(4) == 0 {
                    *byte = rng.next_u64() as u8;
                }
            }
        }
    }
    *data = hex(&bytes);
    let mut bytes = from_hex(reply).unwrap();
    if let Some(byte) = bytes.last_mut() {
        *byte = rng.next_u64() as u8;
    }
    *reply = hex(&bytes);
}

#[test]
fn random_cards_are_found_again() {
    let base = report(Sim::builder().seed(1));
    // As many as the longer checks ask for; fewer each time.
    let cards: u64 = std::env::var("E810_CARDS").map_or(50, |count| count.parse().unwrap());
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let check = |first: u64| {
        let mut different = BTreeSet::new();
        for seed in (first..cards).step_by(threads as usize) {
            let card = another_card(&base, seed);
            let again = report(of_card(&card).seed(seed));
            assert_eq!(differences(&card, &again), [""; 0], "seed {seed}");
            different.extend(differences(&base, &card));
        }
        different
    };
    let different: BTreeSet<String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || check(first)))
            .collect();
        running
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    // The cards were others: registers of all states, answers, limits.
    assert!(different.len() > 200, "{}", different.len());
}

#[test]
fn a_card_that_none_can_be_is_refused() {
    let base = report(Sim::builder());
    let with = |change: &dyn Fn(&mut Record)| {
        let mut card = base.clone();
        card.records.iter_mut().for_each(change);
        RecordedCard::from_document(&card).map(drop)
    };
    let moved = with(&|record| {
        if let Record::Register { offset, .. } = record {
            *offset += 4;
        }
    });
    assert!(matches!(moved, Err(NoCard::Register { .. })), "{moved:?}");
    let longer = with(&|record| {
        if let Record::Register { values, .. } = record {
            values.extend(runs([Some(1)]));
        }
    });
    assert!(matches!(longer, Err(NoCard::Register { .. })), "{longer:?}");
    let digits = with(&|record| {
        if let Record::AdminQ { data, .. } = record {
            data.push('x');
        }
    });
    assert!(matches!(digits, Err(NoCard::Bytes { .. })), "{digits:?}");
    let tree = with(&|record| {
        if let Record::AdminQ {
            opcode: 0x0400,
            data,
            ..
        } = record
        {
            // The node below the root hangs from nothing.
            data.replace_range(2 * 32..2 * 36, "07000000");
        }
    });
    assert!(
        matches!(tree, Err(NoCard::Answer { opcode: 0x0400, .. })),
        "{tree:?}"
    );
    let limits = with(&|record| {
        if let Record::Cqp { data, .. } = record {
            *data = "ff".repeat(data.len() / 2);
        }
    });
    assert!(matches!(limits, Err(NoCard::Limits(_))), "{limits:?}");
}

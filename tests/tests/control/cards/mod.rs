//! Simulated cards that answer as a report says: what they say also holds. Drivers that are
//! brought up on them pass messages or are refused with the reason; one more than the card
//! said it has is refused.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod another;
mod limits;
mod refusals;

use e810::StageError;
use e810_card::{Document, Record};
use e810_report::levels::{self, Levels};
use e810_report::passive::Identities;
use e810_sim::{Profile, RecordedCard, Rng, Sim};
use e810_tests::traffic::{Kind, Pair, Setup, Transfer};

/// The report of a simulated card, to which tests make changes.
fn base() -> Document {
    let sim = Sim::builder()
        .cold()
        .functions(2)
        .profile(Profile::small())
        .vectors(9)
        .build();
    let levels = Levels {
        highest: 3,
        resets: Vec::new(),
        identities: Identities::Removed,
    };
    let function = sim.function(0);
    function.function_level_reset();
    levels::document(&function, "sim", &levels).unwrap()
}

/// Two functions of the card.
fn sim(card: &Document, seed: u64) -> Sim {
    let card = RecordedCard::from_document(card).unwrap();
    Sim::builder().seed(seed).functions(2).card(&card).build()
}

/// Answers to `opcode`, one after the other: code, parameters, data.
fn answers(
    card: &mut Document,
    wanted: u16,
) -> impl Iterator<Item = (&mut u16, &mut String, &mut String)> {
    card.records
        .iter_mut()
        .filter_map(move |record| match record {
            Record::AdminQ {
                opcode,
                code,
                reply,
                data,
                ..
            } if *opcode == wanted => Some((code, reply, data)),
            _ => None,
        })
}

/// Changes the bytes of an answer's data.
fn change_data(card: &mut Document, opcode: u16, change: impl Fn(&mut Vec<u8>)) {
    for (_, _, data) in answers(card, opcode) {
        let mut bytes = e810_card::record::from_hex(data).unwrap();
        change(&mut bytes);
        *data = e810_card::record::hex(&bytes);
    }
}

/// Changes the number of a capability, of function and device.
fn change_capability(card: &mut Document, id: u16, number: u32) {
    for opcode in [0x000A, 0x000B] {
        change_data(card, opcode, |data| {
            let (entries, _) = data.as_chunks_mut::<32>();
            for entry in entries {
                if entry[..2] == id.to_le_bytes() {
                    entry[4..8].copy_from_slice(&number.to_le_bytes());
                }
            }
        });
    }
}

/// Changes the words with which the control QP answered.
fn change_words(card: &mut Document, wanted: &str, change: impl Fn(usize, u64) -> u64) {
    for record in &mut card.records {
        let Record::Cqp { name, data } = record else {
            continue;
        };
        if name != wanted {
            continue;
        }
        let mut bytes = e810_card::record::from_hex(data).unwrap();
        let (words, _) = bytes.as_chunks_mut();
        for (index, word) in words.iter_mut().enumerate() {
            *word = change(8 * index, u64::from_le_bytes(*word)).to_le_bytes();
        }
        *data = e810_card::record::hex(&bytes);
    }
}

/// Brings both functions up and passes messages; nothing of the driver is left, and the
/// card has nothing to object.
fn pass_messages(sim: &Sim, frugal: bool) -> Result<(), StageError> {
    let setup = Setup {
        frugal,
        ..Setup::default()
    };
    let tried = Pair::try_cold(sim, setup);
    let mut pair = match tried {
        Ok(pair) => pair,
        Err(error) => {
            assert_eq!(sim.findings(), [], "{error}");
            for function in 0..2 {
                let held = sim.memory(function);
                assert!(held.nothing_held(), "{error}: {held:?}");
            }
            return Err(error);
        }
    };
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        pair.transfer(
            e810_tests::traffic::End { side: 0, qp: 0 },
            &Transfer::new(kind, 10_000),
        );
    }
    let _ = pair.finish(sim);
    Ok(())
}

#[test]
fn profiles_carry_messages_as_files() {
    for profile in [Profile::card(), Profile::small(), Profile::e810c()] {
        let original = Sim::builder().cold().functions(2).profile(profile).build();
        let levels = Levels {
            highest: 3,
            resets: Vec::new(),
            identities: Identities::Removed,
        };
        let document = levels::document(&original.function(0), "sim", &levels).unwrap();
        pass_messages(&sim(&document, 2), false).unwrap();
    }
}

#[test]
fn random_cards_carry_messages_or_are_refused() {
    let base = base();
    let cards: u64 = std::env::var("E810_CARDS").map_or(200, |count| count.parse().unwrap());
    let (mut carried, mut refused) = (0, Vec::new());
    for seed in 0..cards {
        let card = another::card(&base, &mut Rng::new(seed));
        match pass_messages(&sim(&card, seed), seed % 2 == 0) {
            Ok(()) => carried += 1,
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert!(carried > cards / 3, "{carried} of {cards}: {refused:#?}");
    assert!(refused.len() as u64 > cards / 20, "{carried} of {cards}");
    for error in &refused {
        let known = another::REASONS.iter().any(|reason| error.contains(reason));
        assert!(known, "no line for this card: {error}");
    }
}

//! Cards that no driver can use say why.

use e810_card::record::runs;
use e810_card::{Document, Record};

use super::{base, change_capability, change_data, change_words, pass_messages, sim};

fn refusal(change: impl FnOnce(&mut Document)) -> String {
    let mut card = base();
    change(&mut card);
    let refused = pass_messages(&sim(&card, 1), false).unwrap_err();
    refused.to_string()
}

fn set_register(card: &mut Document, wanted: &str, value: u32) {
    for record in &mut card.records {
        if let Record::Register { name, values, .. } = record
            && name == wanted
        {
            *values = runs([Some(value)]);
        }
    }
}

#[test]
fn a_card_that_cannot_be_used_says_why() {
    let says = |line: String, reason: &str| assert!(line.contains(reason), "{line}");
    let rdma = refusal(|card| change_capability(card, 0x0051, 0));
    says(rdma, "the firmware offers no RDMA on this function");
    let ports = refusal(|card| change_capability(card, 0x0005, 0xFF));
    says(ports, "(erratum E14)");
    let module = refusal(|card| change_data(card, 0x0607, |data| data[2] &= !(1 << 6)));
    says(module, "there is no module or cable in it");
    let limits = |at: usize, value: u64| {
        refusal(|card| {
            change_words(card, "QUERY_FPM_VAL", |offset, word| match offset == at {
                true => value,
                false => word,
            });
        })
    };
    // QP: objects of 1024 bytes, two of them. Then no segments.
    says(
        limits(8, 10 << 32 | 2),
        "QP objects are wanted, the device has 2",
    );
    says(limits(0, 0), "segments of 2 MiB, the device has 0");
    let engine = refusal(|card| set_register(card, "GLPE_CPUSTATUS1", 0));
    says(engine, "engine processors (GLPE_CPUSTATUS0..2)");
}

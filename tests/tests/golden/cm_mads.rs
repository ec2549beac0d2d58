//! Connection management datagrams that Linux' kernel sent, against the tables of
//! docs/reference/cm-path.md 3 and the messages of `e810-cm`: each field is where the table has it,
//! no byte is outside of the tables, and the messages have the same fields.

use std::collections::BTreeMap;

use e810_cm::Message;

use crate::hex::bytes;
use crate::report::{self, Case, Outcome};

/// The tables.
const REFERENCE: &str = include_str!("../../../docs/reference/cm-path.md");
/// Bytes of a datagram.
const MAD: usize = 256;
/// Bytes before the message (`cm-path 2.1`).
const HEADER: usize = 24;

/// Some bits of a datagram, of whole bytes or within them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Field {
    /// First bit, counted from the highest of byte 0.
    first: usize,
    bits: usize,
}

impl Field {
    /// From the columns "MAD offset" and "Size or bits".
    fn parse(offset: &str, size: &str) -> Option<Self> {
        let first = offset.parse::<usize>().ok()? * 8;
        if let Some(range) = size.strip_prefix('[') {
            let (high, low) = match range.strip_suffix(']')?.split_once(':') {
                Some((high, low)) => (high.parse::<usize>().ok()?, low.parse::<usize>().ok()?),
                None => {
                    let bit = range.strip_suffix(']')?.parse().ok()?;
                    (bit, bit)
                }
            };
            let bits = high - low + 1;
            return Some(Self {
                first: first + 7 - high,
                bits,
            });
        }
        let (count, unit) = size.split_once(' ')?;
        let count = count.parse::<usize>().ok()?;
        let bits = if unit.starts_with("bits") {
            count
        } else {
            count * 8
        };
        Some(Self { first, bits })
    }

    /// Its value, of at most 128 bits.
    fn value(self, mad: &[u8]) -> u128 {
        (self.first..self.first + self.bits).fold(0, |value, bit| {
            value << 1 | u128::from(mad[bit / 8] >> (7 - bit % 8) & 1)
        })
    }

    fn clear(self, mad: &mut [u8]) {
        for bit in self.first..self.first + self.bits {
            mad[bit / 8] &= !(0x80 >> (bit % 8));
        }
    }
}

/// The fields of a message, by name, from the table below the heading that has its attribute id.
fn table(attribute: u64) -> BTreeMap<&'static str, Field> {
    let heading = format!("(0x{attribute:04X})");
    let mut lines = REFERENCE
        .lines()
        .skip_while(|line| !(line.starts_with("### 3.") && line.contains(&heading)))
        .skip(1);
    let mut fields = BTreeMap::new();
    for line in lines.by_ref().take_while(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", cm, mad, size, name, ..] = columns.as_slice() else {
            continue;
        };
        let Some(field) = Field::parse(mad, size) else {
            continue;
        };
        assert_eq!(
            cm.parse::<usize>().unwrap() + HEADER,
            field.first / 8,
            "{line}"
        );
        assert_eq!(fields.insert(*name, field), None, "{line}");
    }
    fields
}

/// Each field of the tables is one of the message with that attribute id, at the same place: its
/// bits come back from there, and no bit that is outside of all fields does. (LAP and APR, which
/// nobody answers on RoCE, have one heading in the tables.)
#[test]
fn messages_have_the_fields_of_the_tables() {
    for attribute in 0x10..=0x18 {
        let fields = table(attribute);
        let mut empty = vec![0; MAD];
        empty[..4].copy_from_slice(&[1, 7, 2, 3]);
        empty[16..18].copy_from_slice(&(attribute as u16).to_be_bytes());
        let again = |mad: &[u8]| {
            let (header, message) = Message::decode(mad).unwrap();
            message.encode(header).to_vec()
        };
        let mut outside = empty.clone();
        outside[HEADER..].fill(0xFF);
        for (name, field) in &fields {
            let mut mad = empty.clone();
            let set = (field.first..field.first + field.bits).rev();
            // The lowest bit alone, then all bits.
            for bit in set {
                mad[bit / 8] |= 0x80 >> (bit % 8);
                if bit + 1 == field.first + field.bits || bit == field.first {
                    assert_eq!(again(&mad), mad, "{attribute:#x} {name}");
                }
            }
            field.clear(&mut outside);
        }
        assert_eq!(again(&outside), empty, "{attribute:#x}");
    }
}

#[test]
fn cm_mads() {
    report::file("cm_mads.json", |file| {
        file.each("cases", |case| Some(judge(case)));
    });
}

fn judge(case: &Case<'_>) -> Outcome {
    let attribute = case.u64("attribute");
    let [mad, mask] = ["mad_hex", "mask_hex"].map(|key| bytes(case[key].as_str().unwrap()));
    let fields = table(attribute);
    let mut outcomes = vec![
        Outcome::same("bytes", mad.len(), MAD),
        Outcome::same("bytes of the mask", mask.len(), MAD),
        // Version, class, class version, method Send, no status (cm-path 2.1).
        Outcome::same("header", &mad[..8], &[1, 7, 2, 3, 0, 0, 0, 0]),
        Outcome::same(
            "attribute",
            u64::from(u16::from_be_bytes([mad[16], mad[17]])),
            attribute,
        ),
        Outcome::same("behind the attribute", &mad[18..HEADER], &[0; 6]),
    ];
    let again = Message::decode(&mad).map(|(header, message)| message.encode(header).to_vec());
    outcomes.push(Outcome::same("message", again, Ok(mad.clone())));
    for (name, value) in case["fields"].as_object().unwrap() {
        let recorded = u128::from_str_radix(value.as_str().unwrap(), 16).unwrap();
        outcomes.push(match fields.get(name.as_str()) {
            Some(field) => Outcome::same(name, field.value(&mad), recorded),
            None => Outcome::Failed(format!("{name} is in no table of cm-path 3")),
        });
    }
    // Outside of all fields there is nothing.
    let mut rest = mad.clone();
    rest[..HEADER].fill(0);
    for field in fields.values() {
        field.clear(&mut rest);
    }
    outcomes.push(Outcome::same("bytes of no field", rest, vec![0; MAD]));
    // What is masked is what one of the two sides, or the kernel's dice, have made.
    let mut unmasked: Vec<u8> = mask.iter().map(|byte| !byte).collect();
    unmasked[8..16].fill(0);
    for name in [
        "LOCAL_COMM_ID",
        "REMOTE_COMM_ID",
        "REQUESTID",
        "LOCAL_CA_GUID",
        "LOCAL_QPN",
        "QPN",
        "REMOTE_QPN_EECN",
        "STARTING_PSN",
        "PRIMARY_FLOW_LABEL",
    ] {
        if let Some(field) = fields.get(name) {
            field.clear(&mut unmasked);
        }
    }
    if let Some(data) = fields
        .get("PRIVATE_DATA")
        .filter(|_| matches!(attribute, 0x10 | 0x17))
    {
        let data = data.first / 8;
        unmasked[data + 2..data + 4].fill(0);
        outcomes.push(addresses(&mad, &fields, data));
    }
    outcomes.push(Outcome::same(
        "masked bytes of no such field",
        unmasked,
        vec![0; MAD],
    ));
    Outcome::all(outcomes)
}

/// The header that librdmacm's messages begin with (cm-path 6.2): the IP version, and the
/// addresses, which a REQ has as GIDs too.
fn addresses(mad: &[u8], fields: &BTreeMap<&str, Field>, data: usize) -> Outcome {
    let version = mad[data + 1] >> 4;
    let address = |at: usize| {
        let bytes: [u8; 16] = mad[data + at..data + at + 16].try_into().unwrap();
        match version {
            4 => 0xFFFF << 32 | u128::from_be_bytes(bytes),
            _ => u128::from_be_bytes(bytes),
        }
    };
    let mut outcomes = vec![
        Outcome::same("version of the header", mad[data], 0),
        Outcome::same("IP version", version == 4 || version == 6, true),
    ];
    for (name, at) in [
        ("PRIMARY_LOCAL_PORT_GID", 4),
        ("PRIMARY_REMOTE_PORT_GID", 20),
    ] {
        if let Some(field) = fields.get(name) {
            outcomes.push(Outcome::same(name, address(at), field.value(mad)));
        }
    }
    Outcome::all(outcomes)
}

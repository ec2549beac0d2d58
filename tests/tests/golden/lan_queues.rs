//! Contexts of LAN queues as Linux' ice, DPDK and iPXE wrote them, against the tables of
//! docs/reference/lan-path.md (3.3 and 5.1) and against what this driver writes for the same queue.

use std::collections::BTreeMap;

use e810_adminq::op::{AddTxQueue, Command, Data, TxQueueContext};
use e810_hal::Iova;
use e810_hal::bus::{PfId, TxQueueId, VsiId};
use e810_hal::regs::RXDID_FLEX_NIC;
use e810_lan::RxQueueContext;

use crate::hex::bytes;
use crate::report::{self, Case, Outcome};

/// The tables.
const REFERENCE: &str = include_str!("../../../docs/reference/lan-path.md");

/// Where the context lies in the buffer of 0x0C30, and its bytes.
const CONTEXT: std::ops::Range<usize> = 16..38;

/// What other drivers have otherwise in a receive queue than this one: TPH, the threshold of
/// descriptors, prefetch, where a stripped tag goes.
const OTHERWISE: [&str; 7] = [
    "tphrdesc",
    "tphwdesc",
    "tphdata",
    "tphhead",
    "lrxqthresh",
    "prefena",
    "l2tsel",
];

/// The fields of a context, by name: first bit and width, as the section below `heading` has them.
fn table(heading: &str) -> BTreeMap<&'static str, (usize, usize)> {
    let lines = REFERENCE
        .lines()
        .skip_while(|line| !line.starts_with(heading));
    let mut fields = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", bits, _, names, ..] = columns.as_slice() else {
            continue;
        };
        // `[102],[103],[104]`, `[193]..[196]`: a bit for each name.
        let numbers = bits.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<usize> = numbers.filter_map(|text| text.parse().ok()).collect();
        let names: Vec<&str> = names.split(", ").collect();
        match (bits.contains(':'), numbers.as_slice()) {
            (true, &[last, first]) => {
                fields.insert(names[0], (first, last - first + 1));
            }
            (false, &[first, ..]) => {
                for (at, name) in names.into_iter().enumerate() {
                    fields.insert(name, (first + at, 1));
                }
            }
            _ => {}
        }
    }
    fields
}

/// The values of a context's fields, and the rest of it.
fn read(
    fields: &BTreeMap<&'static str, (usize, usize)>,
    context: &[u8],
) -> (BTreeMap<&'static str, u64>, Vec<u8>) {
    let mut rest = context.to_vec();
    let mut values = BTreeMap::new();
    for (name, (first, width)) in fields {
        let bits = *first..(first + width).min(context.len() * 8);
        let value = bits.clone().fold(0, |value, bit| {
            value | u64::from(context[bit / 8] >> (bit % 8) & 1) << (bit - first)
        });
        bits.for_each(|bit| rest[bit / 8] &= !(1 << (bit % 8)));
        values.insert(*name, value);
    }
    (values, rest)
}

#[test]
fn lan_queues() {
    let tx = table("### 3.3 ");
    let rx = table("### 5.1 ");
    assert_eq!((tx["base"], tx["tso_qnum"]), ((0, 57), (153, 11)));
    assert_eq!((rx["rxmax"], rx["tphhead"]), ((174, 14), (196, 1)));
    report::file("lan_queues.json", |file| {
        file.each("tx", |case| Some(transmit(case, &tx)));
        file.each("rx", |case| Some(receive(case, &rx)));
    });
}

fn transmit(case: &Case<'_>, table: &BTreeMap<&'static str, (usize, usize)>) -> Outcome {
    let group = bytes(case["group_hex"].as_str().unwrap());
    let (theirs, rest) = read(table, &group[CONTEXT]);
    let number = |at: usize| u16::from_le_bytes([group[at], group[at + 1]]);
    let context = TxQueueContext {
        ring: Iova(theirs["base"] << 7),
        entries: theirs["qlen"] as u16,
        queue: TxQueueId::new(number(8)).unwrap(),
        lport: theirs["port_num"] as u8,
        traffic_class: theirs["cgd_num"] as u8,
        pf: PfId::new(theirs["pf_num"] as u16).unwrap(),
        vsi: VsiId::new(theirs["src_vsi"] as u16).unwrap(),
    };
    let parent = u32::from(number(0)) | u32::from(number(2)) << 16;
    let command = AddTxQueue::new(parent, &context).unwrap();
    let Data::Send(ours) = command.data() else {
        return Outcome::Failed("the command brings no buffer".to_owned());
    };
    // Queues of the flow director, and iPXE's, have no time stamps.
    let mut wanted = group.clone();
    let (bit, _) = table["tsyn_ena"];
    let is_plain = case["driver"] != "ipxe" && !case["name"].as_str().unwrap().contains("director");
    if !is_plain {
        wanted[CONTEXT.start + bit / 8] |= 1 << (bit % 8);
    }
    Outcome::all([
        Outcome::same("bits of no field", rest, vec![0; CONTEXT.len()]),
        Outcome::same("time stamps", theirs["tsyn_ena"], is_plain.into()),
        Outcome::same("buffer of 0x0C30", ours, &wanted),
    ])
}

fn receive(case: &Case<'_>, table: &BTreeMap<&'static str, (usize, usize)>) -> Outcome {
    let words = case["words_hex"].as_array().unwrap().iter();
    let words = words.map(|word| u32::from_str_radix(word.as_str().unwrap(), 16).unwrap());
    let recorded: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    let (mut theirs, rest) = read(table, &recorded);
    let context = RxQueueContext {
        ring: Iova(theirs["base"] << 7),
        entries: theirs["qlen"] as u16,
        buffer: theirs["dbuf"] as u16 * 128,
        max_frame: theirs["rxmax"] as u16,
    };
    let ours = context.encode().unwrap().map(u32::to_le_bytes).concat();
    let (mut ours, our_rest) = read(table, &ours);
    let is_linux = case["driver"] == "linux";
    for name in OTHERWISE {
        // Linux has its tags stripped, in the double VLAN mode to the other place.
        if !is_linux || name == "l2tsel" {
            theirs.remove(name);
            ours.remove(name);
        }
    }
    let profile = u64::from_str_radix(case["profile_hex"].as_str().unwrap(), 16).unwrap();
    let our_profile = match is_linux {
        true => RXDID_FLEX_NIC.into(),
        false => profile,
    };
    Outcome::all([
        Outcome::same("bits of no field", &rest, &our_rest),
        Outcome::same(
            "no bits of no field",
            rest.iter().all(|byte| *byte == 0),
            true,
        ),
        Outcome::same("context", ours, theirs),
        Outcome::same("QRXFLXP_CNTXT", our_profile, profile),
    ])
}

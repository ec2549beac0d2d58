//! The questions change nothing, and what comes of a firmware that does not answer.

use std::collections::BTreeSet;
use std::io::Cursor;

use e810_sim::{AqCode, AqFault, Sim};

use super::*;
use crate::document::Document;
use crate::record::Header;

/// Bit 15 of the two-wire address makes 0x06EE a write, bits 12 and 11 change the page
/// of the module; bit 0 of byte 1 of 0x0418 would set the topology.
#[test]
fn every_query_asks_and_changes_nothing() {
    let asks = [
        0x0001, 0x0600, 0x0418, 0x06EA, 0x0A07, 0xFF32, 0xFF21, 0x06EE,
    ];
    for (name, query) in others(3) {
        assert!(asks.contains(&query.opcode), "{name}");
        assert!(!matches!(query.data(), Data::Send(_)), "{name}");
    }
    for at in (0..MODULE).step_by(BLOCK.into()) {
        let block = module_block(3, at);
        let address = u16::from_le_bytes([block.params[2], block.params[3]]);
        assert_eq!(address, 0x50, "neither a write nor a change of page");
        assert_eq!(&block.params[4..6], at.to_le_bytes());
        assert_eq!(block.params[6..], [0; 10]);
    }
    assert_eq!(get_topology()[0], 0, "not a change of the topology");
    assert_eq!(get_log()[0], 4, "not a change of the log");
}

const OPCODES: [u16; 14] = [
    0x0001, 0x000A, 0x000B, 0x0107, 0x0200, 0x020D, 0x0400, 0x0412, 0x0418, 0x0600, 0x0607, 0x06EA,
    0x06EE, 0x0C43,
];

/// The report of a function whose firmware treats the first use of `opcode` like this.
fn reported(opcode: u16, fault: AqFault) -> (Result<(), QueryError>, Document) {
    let sim = Sim::builder()
        .cold()
        .firmware(move |_, fw| fw.fault(opcode, 1, fault))
        .build();
    let header = Record::Report(Header {
        version: 1,
        program: "test".to_owned(),
        device: "sim".to_owned(),
        transport: "simulated".to_owned(),
        level: 2,
        identities: true,
    });
    let medium = Cursor::new(Vec::new());
    let mut journal = Journal::new(medium, BTreeSet::new(), header).unwrap();
    let result = ask_all(&mut journal, &sim.function(0), Identities::Kept);
    let why = result.as_ref().err().map(ToString::to_string);
    let medium = journal.finish(why).unwrap();
    assert_eq!(sim.findings(), []);
    (result, Document::parse(medium.get_ref()).unwrap())
}

#[test]
fn a_firmware_that_stops_at_any_command_ends_the_report_in_order() {
    // Get Version is not among them: the start of the queue asks it again.
    for opcode in OPCODES.into_iter().skip(1) {
        let (result, document) = reported(opcode, AqFault::Silence);
        let error = result.unwrap_err();
        assert!(
            matches!(error, QueryError::Firmware { .. }),
            "{opcode:#06x}: {error}"
        );
        let last = document.records.last().unwrap();
        assert!(
            matches!(
                last,
                Record::End {
                    complete: false,
                    ..
                }
            ),
            "{last:?}"
        );
    }
}

#[test]
fn a_refusal_is_an_answer() {
    for opcode in OPCODES.into_iter().skip(1) {
        let (result, document) = reported(opcode, AqFault::Error(AqCode::EPERM));
        result.unwrap();
        let refused = document.records.iter().any(|record| {
            matches!(record, Record::AdminQ { opcode: refused, code: 1, .. } if *refused == opcode)
        });
        assert!(refused, "{opcode:#06x}");
    }
}

#[test]
fn a_module_is_not_named() {
    assert!(is_serial(0x03, 68) && !is_serial(0x03, 92) && !is_serial(0x03, 196));
    assert!(is_serial(0x11, 196) && is_serial(0x11, 219) && !is_serial(0x11, 195));
}

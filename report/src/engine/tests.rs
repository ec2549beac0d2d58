//! Level 3 on the simulator.

use std::collections::BTreeSet;
use std::io::Cursor;

use e810_sim::Sim;

use super::*;
use crate::document::Document;
use crate::record::Header;

fn journal() -> Journal<Cursor<Vec<u8>>> {
    let header = Record::Report(Header {
        version: 1,
        program: "test".to_owned(),
        device: "sim".to_owned(),
        transport: "simulated".to_owned(),
        level: 3,
        identities: false,
    });
    Journal::new(Cursor::new(Vec::new()), BTreeSet::new(), header).unwrap()
}

#[test]
fn the_engine_says_its_limits() {
    let sim = Sim::builder().cold().build();
    let mut journal = journal();
    ask_all(&mut journal, &sim.function(0)).unwrap();
    let medium = journal.finish(None).unwrap();
    let document = Document::parse(medium.get_ref()).unwrap();
    let data = |wanted: &str| {
        let found = document.records.iter().find_map(|record| match record {
            Record::Cqp { name, data } if name == wanted => Some(data.clone()),
            _ => None,
        });
        found.unwrap()
    };
    let query = limits(&data("QUERY_FPM_VAL")).unwrap();
    assert!(query.limits(Object::Qp).max > 0 && query.max_sds > 0);
    assert!(features(&data("QUERY_RDMA_FEATURES")).unwrap().firmware().0 > 0);
    assert_eq!(sim.findings(), []);
    // Nothing is left of it: a driver starts.
    assert_eq!(sim.memory(0).dma_blocks, 0);
}

#[test]
fn what_is_no_reply_is_not_read() {
    assert!(features("").is_none());
    // A reply of zeros is a card without anything.
    assert_eq!(limits("").unwrap().limits(Object::Qp).max, 0);
    assert!(limits(&"ff".repeat(200)).is_none());
}

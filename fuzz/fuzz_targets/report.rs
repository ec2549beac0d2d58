//! Reports of others: whatever a file holds, it is read or refused, and there is a page, and
//! a simulated card or the reason why there is none. Such a card is started and asked.

#![no_main]

use e810_hal::Bus;
use e810_hal::regs::{GLGEN_RSTAT, PF_FUNC_RID};
use e810_report::config_space::ConfigSpace;
use e810_report::{Document, Journal, page};
use e810_sim::{RecordedCard, Sim};
use e810_sim_server::config_space::Place;
use libfuzzer_sys::fuzz_target;

/// The first line of a report, so that what follows it is reached.
const HEAD: &[u8] = br#"{"kind":"report","version":1,"program":"e810 0","device":"sim","transport":"simulated","level":4,"identities":false}
"#;

/// Both resets of a function, and its configuration space.
fn start(card: &RecordedCard) {
    let sim = Sim::builder().card(card).build();
    let function = sim.function(0);
    function.function_level_reset();
    let _ = (
        function.read32(GLGEN_RSTAT.off()),
        function.read32(PF_FUNC_RID.off()),
    );
    if let Some(bytes) = card.config_space() {
        let place = Place {
            card: [2, 0, 0, 0, 0, 1],
            function: 0,
            functions: 1,
            vectors: 9,
        };
        let space = e810_sim_server::config_space::ConfigSpace::recorded(&place, bytes);
        let _ = space.memory_enabled();
    }
}

fuzz_target!(|data: &[u8]| {
    let whole = [HEAD, data].concat();
    for bytes in [data, &whole] {
        if let Ok(document) = Document::parse(bytes) {
            let _ = page::page(&document);
            let _ = Journal::<std::fs::File>::to_skip(&document);
            if let Ok(card) = RecordedCard::from_document(&document) {
                start(&card);
            }
        }
    }
    let space = ConfigSpace(data.to_vec());
    let _ = (space.capabilities(), space.sizes(), space.without_serial());
});

//! Sequences of calls of libibverbs' functions (`verbs/fuzz`): the input is what is drawn. The
//! functions are brought up once a process.

#![no_main]

use std::sync::OnceLock;

use e810_verbs_fuzz::campaign::{Campaign, prepare};
use e810_verbs_fuzz::run::Apis;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    static CAMPAIGN: OnceLock<Campaign> = OnceLock::new();
    let campaign = CAMPAIGN.get_or_init(|| {
        prepare();
        Campaign {
            api: Apis::linked(),
            seed: 0,
            calls: 0,
            threads: 1,
            is_linked: true,
        }
    });
    campaign.input(data);
});

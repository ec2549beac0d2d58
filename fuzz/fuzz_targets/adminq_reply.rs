//! Decoders of AdminQ replies and events: whatever the device writes, there is
//! a value or an error.

#![no_main]

use std::sync::atomic::AtomicU64;

use e810_adminq::Answer;
use e810_adminq::descriptor::Descriptor;
use e810_adminq::event::Event;
use e810_adminq::op::{
    AddElement, AddQueueSet, AddRule, AddTxQueue, AddVsi, Command, DeleteElement, DownloadFailure,
    GetDefaultTopology, GetElement, GetLinkStatus, GetPackageInfo, GetPhyCaps, GetSwitchConfig,
    GetVersion, GetVlanMode, ListCaps, Owner, PhyReport, QueryResources, ReadMac, RequestResource,
    Resource, SetPhyConfig, TxQueueContext, VlanMode, VsiContext,
};
use e810_hal::Iova;
use e810_hal::bus::{PfId, TxQueueId};
use e810_types::MacAddr;
use libfuzzer_sys::fuzz_target;

// Two bytes of choice, a descriptor, then the buffer.
fuzz_target!(|data: &[u8]| {
    let Some((choice, rest)) = data.split_first_chunk::<2>() else {
        return;
    };
    let Some((head, buffer)) = rest.split_first_chunk::<32>() else {
        return;
    };
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
    let descriptor = Descriptor::from_words(words);
    assert_eq!(descriptor.to_words(), words, "nothing is lost");
    let cells: Vec<AtomicU64> = buffer
        .chunks(8)
        .take(512)
        .map(|chunk| {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_ne_bytes(bytes))
        })
        .collect();
    // The firmware's length, true or not.
    let answer = Answer::new(descriptor, &cells, descriptor.datalen.into());
    decode(choice[0], &answer);
});

fn decode(choice: u8, answer: &Answer<'_>) {
    let vsi = e810_adminq::VsiId::ZERO;
    let context = VsiContext::main(1, VlanMode::Single);
    match choice % 21 {
        0 => drop(Event::decode(answer)),
        1 => drop(GetVersion.decode(answer)),
        2 => drop(ListCaps(Owner::Function).decode(answer)),
        3 => drop(ReadMac.decode(answer)),
        4 => drop(GetSwitchConfig { first: 0 }.decode(answer)),
        5 => drop(AddVsi(context).decode(answer)),
        6 => drop(AddRule::mac(vsi, MacAddr([2; 6])).decode(answer)),
        7 => drop(QueryResources.decode(answer)),
        8 => {
            if let Ok(topology) = (GetDefaultTopology { lport: 0 }).decode(answer) {
                assert!(topology.iter().all(|branch| !branch.is_empty()));
            }
        }
        9 => drop(AddElement::below(1).decode(answer)),
        10 => drop(GetElement::new(1).decode(answer)),
        11 => drop(DeleteElement::new(1, 2).decode(answer)),
        12 => drop(AddQueueSet::new(1, 2).decode(answer)),
        13 => drop(GetVlanMode.decode(answer)),
        14 => drop(GetPackageInfo.decode(answer)),
        15 => drop(DownloadFailure::decode(answer)),
        16 => {
            let events = None;
            let _ = GetLinkStatus { lport: 0, events }.decode(answer);
        }
        17 => {
            let report = PhyReport::Active;
            if let Ok(caps) = (GetPhyCaps { lport: 0, report }).decode(answer) {
                let _ = SetPhyConfig::enable(0, &caps);
            }
        }
        18 => drop(RequestResource::write(Resource::GLOBAL_CONFIG, 1).grant(answer)),
        19 => tx_queue(answer),
        _ => drop(RequestResource::write(Resource::CHANGE, 1).grant(answer)),
    }
}

fn tx_queue(answer: &Answer<'_>) {
    let context = TxQueueContext {
        ring: Iova(0x1000),
        entries: 64,
        queue: TxQueueId::ZERO,
        lport: 0,
        traffic_class: 0,
        pf: PfId::ZERO,
        vsi: e810_adminq::VsiId::ZERO,
    };
    let _ = AddTxQueue::new(1, &context).map(|add| add.decode(answer));
}

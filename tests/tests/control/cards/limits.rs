//! One more than a card said it has is refused.

use e810_adminq::op::{AddElement, AddVsi, GetDefaultTopology, VlanMode, VsiContext};
use e810_adminq::{AdminQ, Error};
use e810_hal::InterruptVectors;
use e810_sim::SimPlatform;

use super::{base, change_capability, change_data, sim};

/// Uses a command until the firmware refuses it: how often it was taken, and why it ended.
fn until_refused(mut command: impl FnMut() -> Result<(), Error>) -> (u32, String) {
    /// More than any limit here.
    const MOST: u32 = 5000;
    for taken in 0..MOST {
        if let Err(error) = command() {
            return (taken, error.to_string());
        }
    }
    (MOST, "no limit".to_owned())
}

#[test]
fn vsis_end_where_the_card_says() {
    for limit in [40, 80, 768] {
        let mut card = base();
        change_capability(&mut card, 0x0017, limit);
        let sim = sim(&card, 1);
        let mut adminq = AdminQ::start(sim.function(0)).unwrap();
        let command = AddVsi(VsiContext::main(1, VlanMode::Single));
        let mut numbers = Vec::new();
        let (taken, why) = until_refused(|| {
            numbers.push(adminq.execute(&command)?.vsi.get());
            Ok(())
        });
        assert!(why.contains("ENOSPC"), "{why}");
        // The numbers are the card's: no function has one beyond.
        assert!(taken > 0 && numbers.iter().all(|number| *number < limit));
        assert!(
            numbers.iter().all(|number| *number != 4),
            "the firmware's own"
        );
    }
}

#[test]
fn layers_of_the_scheduler_end_where_the_card_says() {
    for limit in [1_u16, 3, 8] {
        let mut card = base();
        // Siblings of layer 3, and its nodes.
        change_data(&mut card, 0x0412, |data| {
            let layer = &mut data[32 * 4..][..32];
            layer[4..6].copy_from_slice(&(limit + 1).to_le_bytes());
            layer[10..12].copy_from_slice(&limit.to_le_bytes());
        });
        let sim = sim(&card, 1);
        let mut adminq: AdminQ<SimPlatform> = AdminQ::start(sim.function(0)).unwrap();
        let topology = adminq.execute(&GetDefaultTopology { lport: 0 }).unwrap();
        let entry = topology[0][2].teid;
        let (taken, why) = until_refused(|| adminq.execute(&AddElement::below(entry)).map(drop));
        assert!(why.contains("ENOSPC"), "{why}");
        // The default chain has one already.
        assert_eq!(taken, u32::from(limit) - 1);
    }
}

#[test]
fn vectors_end_where_the_card_says() {
    for limit in [1, 5, 100] {
        let mut card = base();
        change_capability(&mut card, 0x0043, limit);
        let function = sim(&card, 1).function(0);
        assert_eq!(u32::from(function.vector_count()), limit);
        for _ in 0..limit {
            assert!(function.vector_alloc().is_some());
        }
        assert_eq!(function.vector_alloc(), None);
    }
}

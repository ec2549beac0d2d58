//! How much memory a function needs.

use anyhow::{Context, Result};
use e810::{ColdStart, Config, LinkPolicy, Package, PackageSource, Platform, bring_up_cold};
use e810_sim::{Mode, Profile, Sim, test_package};

use e810_node::lan_init;
use e810_node::simulated::SIM_MTU;
use e810_node::start::usual_ceqs;

/// Mappings are rounded up to this size.
const PAGE_BYTES: u64 = 4096;
/// Bytes of a page list entry.
const PBLE_BYTES: u64 = 8;

/// Memory that a function pins before its user registers any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The host memory cache, the queues of a bring-up and those of its LAN port.
    pub device: u64,
    /// Page lists, pinned as regions are registered.
    pub page_lists: u64,
}

impl Need {
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.device.saturating_add(self.page_lists)
    }
}

/// What a function needs with the default configuration.
///
/// Measured, not estimated: the driver is brought up on a simulated card and
/// the memory it asks for is counted, in whole pages as a kernel counts them.
/// The sizes of the objects are those of the simulator's table for a card,
/// because only a card can tell its own.
///
/// # Errors
/// A bring-up that failed.
pub fn need() -> Result<Need> {
    let sim = Sim::builder().functions(1).profile(Profile::card()).cold();
    let sim = sim.mode(Mode::Virtual).build();
    let config = Config {
        ceqs: usual_ceqs(),
        ..Config::cold(SIM_MTU)
    };
    let pinned = up_and_count(sim.function(0), &config, || {
        let memory = sim.memory(0);
        // Rounding adds less than a page to each block.
        memory.dma_bytes + memory.dma_blocks * (PAGE_BYTES - 1)
    })?;
    let page_lists = u64::from(config.capacity.pbles) * PBLE_BYTES;
    Ok(Need {
        device: pinned.next_multiple_of(PAGE_BYTES),
        page_lists,
    })
}

fn up_and_count<P: Platform>(platform: P, config: &Config, count: impl Fn() -> u64) -> Result<u64> {
    let package = test_package();
    let start = ColdStart {
        package: PackageSource::File(Package::parse(&package)?),
        link: LinkPolicy::Leave,
    };
    let device = bring_up_cold(platform, config, &start, &mut |_| {})?;
    let (mut control, events) = device.split();
    let port = control.open_lan(&lan_init(config.lan.mtu))?;
    let bytes = count();
    let closed = control.close_lan(port);
    closed.map_err(|(_, error)| error)?;
    let end = control.shutdown(events);
    end.map_err(|failed| failed.error)
        .context("shutting the simulated function down")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_is_what_a_bring_up_takes() {
        let need = need().unwrap();
        // Five segments of 2 MiB and the queues; page lists for 1 GiB.
        assert!(need.device > 10 << 20, "{need:?}");
        assert!(need.device < 16 << 20, "{need:?}");
        assert_eq!(need.page_lists, 2 << 20);
    }
}

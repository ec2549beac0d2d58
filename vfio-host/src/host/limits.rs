//! How much memory this process may pin, and how much a device needs.

use anyhow::{Context, Result};
use e810::Config;
use e810_hal::Platform;
use e810_sim::{Mode, Profile, Sim};

use super::Host;

/// CAP_IPC_LOCK: who has it may pin without limit.
const CAP_IPC_LOCK: u32 = 14;
/// What a mapping is rounded up to.
const PAGE_BYTES: u64 = 4096;
/// Bytes of a page list entry.
const PBLE_BYTES: u64 = 8;

/// How much this process may pin for a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memlock {
    /// As much as there is.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
}

/// The limit of this process, `None` when the kernel does not say.
#[must_use]
pub fn memlock(host: &Host) -> Option<Memlock> {
    let status = host.text("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if effective.is_some_and(|mask| mask >> CAP_IPC_LOCK & 1 != 0) {
        return Some(Memlock::Unlimited);
    }
    let limits = host.text("/proc/self/limits")?;
    let soft = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?
        .split_ascii_whitespace()
        .next()?;
    if soft == "unlimited" {
        return Some(Memlock::Unlimited);
    }
    soft.parse().ok().map(Memlock::Bytes)
}

/// Memory one function pins before its user registers any.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The host memory cache and the queues of a bring-up.
    pub device: u64,
    /// Page lists, pinned as regions are registered.
    pub page_lists: u64,
}

impl Need {
    /// All of it.
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
    let sim = Sim::builder()
        .functions(1)
        .profile(Profile::Card)
        .mode(Mode::Virtual)
        .build();
    let platform = sim.function(0);
    let config = Config {
        ceqs: crate::start::usual_ceqs(),
        ..Config::new(crate::commands::sim_lan(&platform)?)
    };
    let pinned = up_and_count(platform, &config, || {
        let memory = sim.memory(0);
        // A page more a block than its bytes is the most that rounding adds.
        memory.dma_bytes + memory.dma_blocks * (PAGE_BYTES - 1)
    })?;
    let page_lists = u64::from(config.capacity.pbles) * PBLE_BYTES;
    Ok(Need {
        device: pinned.next_multiple_of(PAGE_BYTES),
        page_lists,
    })
}

fn up_and_count<P: Platform>(platform: P, config: &Config, count: impl Fn() -> u64) -> Result<u64> {
    let device = e810::bring_up(platform, config, &mut |_| {})?;
    let bytes = count();
    let (control, events) = device.split();
    let end = control.shutdown(events);
    end.map_err(|failed| failed.error)
        .context("shutting the simulated function down")?;
    Ok(bytes)
}

/// Huge pages of the default size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HugePages {
    /// In the pool.
    pub total: u64,
    /// Not in use.
    pub free: u64,
    /// Bytes of one.
    pub bytes: u64,
}

/// The machine's huge pages; `None` when the kernel has none.
#[must_use]
pub fn huge_pages(host: &Host) -> Option<HugePages> {
    let info = host.text("/proc/meminfo")?;
    let value = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    Some(HugePages {
        total: value("HugePages_Total:")?,
        free: value("HugePages_Free:")?,
        bytes: value("Hugepagesize:")?.checked_mul(1024)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake::Tree;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units\n\
                          Max locked memory         8388608              8388608              bytes\n";

    #[test]
    fn the_limit_and_the_capability_that_lifts_it() {
        let tree = Tree::with_card();
        tree.file("/proc/self/limits", LIMITS);
        tree.file(
            "/proc/self/status",
            "Name:\te810\nCapEff:\t0000000000003000\n",
        );
        assert_eq!(memlock(tree.host()), Some(Memlock::Bytes(8 << 20)));
        tree.file("/proc/self/status", "CapEff:\t0000000000004000\n");
        assert_eq!(memlock(tree.host()), Some(Memlock::Unlimited));
        tree.remove("/proc/self/status");
        tree.file(
            "/proc/self/limits",
            "Max locked memory         unlimited            unlimited            bytes\n",
        );
        assert_eq!(memlock(tree.host()), Some(Memlock::Unlimited));
        tree.remove("/proc/self/limits");
        assert_eq!(memlock(tree.host()), None);
    }

    #[test]
    fn the_need_is_what_a_bring_up_takes() {
        let need = need().unwrap();
        // Five segments of 2 MiB and the queues; page lists for 1 GiB.
        assert!(need.device > 10 << 20, "{need:?}");
        assert!(need.device < 16 << 20, "{need:?}");
        assert_eq!(need.page_lists, 2 << 20);
    }

    #[test]
    fn huge_pages_of_the_default_size() {
        let tree = Tree::with_card();
        let expected = HugePages {
            total: 16,
            free: 12,
            bytes: 2 << 20,
        };
        assert_eq!(huge_pages(tree.host()), Some(expected));
        tree.file("/proc/meminfo", "MemTotal: 1 kB\n");
        assert_eq!(huge_pages(tree.host()), None);
    }
}

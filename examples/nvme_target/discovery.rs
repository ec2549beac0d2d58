//! The log page of a discovery controller: one entry.

use e810_examples::nvme::bytes::put;
use e810_examples::nvme::fabrics::ADMIN_DEPTH;

use crate::target::{Config, Page};

/// Name of the subsystem that `nvme discover` connects to.
pub(crate) const SUBSYSTEM: &str = "nqn.2014-08.org.nvmexpress.discovery";
pub(crate) const LOG: u8 = 0x70;

/// Writes the log page, a header and an entry of 1024 bytes each, and returns its length.
/// `nvme discover` reads the header before and after the entry, and begins again if the number at
/// 0 has changed. Here it never does.
pub(crate) fn log(page: &mut Page, config: &Config<'_>) -> usize {
    put(page, 0, &[1]);
    put(page, 8, &[1]); // entries
    let entry = page.get_mut(1024..).unwrap_or_default();
    let family = if config.address.contains(':') { 2 } else { 1 };
    // RDMA; IPv4 or IPv6; an NVM subsystem; no word about a secure channel; port 1.
    put(entry, 0, &[1, family, 2, 0, 1]);
    // Each host gets a controller of its own.
    put(entry, 6, &[0xff; 2]);
    put(entry, 8, &ADMIN_DEPTH.to_le_bytes());
    put(entry, 32, config.port.as_bytes());
    put(entry, 256, config.subsystem.as_bytes());
    put(entry, 512, config.address.as_bytes());
    // Reliable connections; the provider; made by RDMA_CM.
    put(entry, 768, &[1, config.provider, 1]);
    2048
}

//! The limits of a device, by the names of `ibv_devinfo -v`.

use std::io::Write;

use anyhow::Result;
use e810::{Control, DeviceAttr, Platform};
use serde::Serialize;

use e810_backends::host::Host;
use e810_backends::host::pci::{self, PcieLink};
use e810_backends::spec::DeviceSpec;

/// The limits of a device that was brought up with the default configuration. The card may have
/// more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LimitsReport {
    /// Firmware of the engine, `major.minor`.
    pub fw_ver: String,
    /// Version of the package; absent if the LAN side was up already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The card's PCIe link; absent if it is not a card of this machine, or sysfs does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<PcieLink>,
    /// Ports of the function.
    pub phys_port_cnt: u8,
    /// The MAC address as EUI-64.
    pub node_guid: String,
    /// Completion vectors.
    pub num_comp_vectors: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Page sizes of a region, a bit for each power of two.
    pub page_size_cap: u64,
    /// Queue pairs.
    pub max_qp: u32,
    /// Work requests of a queue.
    pub max_qp_wr: u32,
    /// Scatter-gather entries of a request.
    pub max_sge: u32,
    /// The same of an RDMA READ.
    pub max_sge_rd: u32,
    /// Bytes of a send request that need no memory region.
    pub max_inline_data: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Completions of a queue.
    pub max_cqe: u32,
    /// Memory regions and windows together.
    pub max_mr: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// Inbound READs in flight of a queue pair.
    pub max_qp_rd_atom: u32,
    /// Outbound READs in flight of a queue pair.
    pub max_qp_init_rd_atom: u32,
    /// `none`, or `hca`: atomic operations.
    pub atomic_cap: &'static str,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs of a group.
    pub max_mcast_qp_attach: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Pages of a fast-registered region.
    pub max_fast_reg_page_list_len: u32,
}

impl LimitsReport {
    /// Of a function that is up.
    pub(super) fn of<P: Platform>(control: &Control<P>, device: &DeviceSpec, host: &Host) -> Self {
        let DeviceAttr {
            firmware: (major, minor),
            node_guid,
            max_qp,
            max_qp_wr,
            max_sge,
            max_sge_read,
            max_inline,
            max_cq,
            max_cqe,
            max_mr,
            max_mr_size,
            page_sizes,
            max_pd,
            max_ah,
            max_dest_rd_atomic,
            max_rd_atomic,
            max_mcast_groups,
            max_mcast_qp_attach,
            max_fast_reg_pages,
            completion_vectors,
            ports,
            max_srq,
            atomics,
            ..
        } = control.query_device();
        let package = control.lan_side().map(|lan| lan.package().version);
        let pcie = device.bdf().and_then(|bdf| pci::link(host, bdf));
        Self {
            fw_ver: format!("{major}.{minor}"),
            package: package.map(|version| version.to_string()),
            pcie,
            phys_port_cnt: ports,
            node_guid: guid(node_guid),
            num_comp_vectors: completion_vectors,
            max_mr_size,
            page_size_cap: page_sizes,
            max_qp,
            max_qp_wr,
            max_sge,
            max_sge_rd: max_sge_read,
            max_inline_data: max_inline,
            max_cq,
            max_cqe,
            max_mr,
            max_pd,
            max_qp_rd_atom: max_dest_rd_atomic,
            max_qp_init_rd_atom: max_rd_atomic,
            atomic_cap: if atomics { "hca" } else { "none" },
            max_mcast_grp: max_mcast_groups,
            max_mcast_qp_attach,
            max_ah,
            max_srq,
            max_fast_reg_page_list_len: max_fast_reg_pages,
        }
    }

    /// Prints a line for each.
    pub(super) fn print(&self, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "device")?;
        let mut line =
            |name: &str, value: &dyn std::fmt::Display| writeln!(out, "  {name:<27} {value}");
        line("fw_ver", &self.fw_ver)?;
        if let Some(package) = &self.package {
            line("package", package)?;
        }
        if let Some(link) = &self.pcie {
            line("pcie", link)?;
        }
        line("phys_port_cnt", &self.phys_port_cnt)?;
        line("node_guid", &self.node_guid)?;
        line("num_comp_vectors", &self.num_comp_vectors)?;
        line("max_mr_size", &format_args!("{:#x}", self.max_mr_size))?;
        line("page_size_cap", &format_args!("{:#x}", self.page_size_cap))?;
        line("max_qp", &self.max_qp)?;
        line("max_qp_wr", &self.max_qp_wr)?;
        line("max_sge", &self.max_sge)?;
        line("max_sge_rd", &self.max_sge_rd)?;
        line("max_inline_data", &self.max_inline_data)?;
        line("max_cq", &self.max_cq)?;
        line("max_cqe", &self.max_cqe)?;
        line("max_mr", &self.max_mr)?;
        line("max_pd", &self.max_pd)?;
        line("max_qp_rd_atom", &self.max_qp_rd_atom)?;
        line("max_qp_init_rd_atom", &self.max_qp_init_rd_atom)?;
        line("atomic_cap", &self.atomic_cap)?;
        line("max_mcast_grp", &self.max_mcast_grp)?;
        line("max_mcast_qp_attach", &self.max_mcast_qp_attach)?;
        line("max_ah", &self.max_ah)?;
        line("max_srq", &self.max_srq)?;
        line(
            "max_fast_reg_page_list_len",
            &self.max_fast_reg_page_list_len,
        )?;
        Ok(())
    }
}

/// Formats a GUID: four groups of 16 bits.
fn guid(guid: u64) -> String {
    let groups = [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xFFFF));
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use super::guid;

    #[test]
    fn a_guid_is_four_groups() {
        assert_eq!(guid(0x00e8_10ff_fe00_0001), "00e8:10ff:fe00:0001");
    }
}

//! Dispatch from opcode to executor, and the checks common to all commands.

use super::command::{Command, Format, Outcome, Refusal};
use crate::pe::device::Device;
use crate::pe::env::Env;
use crate::pe::fpm::Kind;

impl Device {
    /// Executes a command whose opcode has a format.
    pub(super) fn execute(&mut self, c: &Command, env: &mut dyn Env) -> Outcome {
        if needs_objects(c.opcode()) && !self.hmc.announced {
            let name = Format::of(c.opcode()).map_or("command", |format| format.name);
            return Err(Refusal::state(
                env,
                format!("{name} before SHMC_PAGES_ALLOCATED"),
            ));
        }
        match c.opcode() {
            0x00 => self.create_qp(c, env),
            0x01 => self.modify_qp(c, env),
            0x02 => self.destroy_qp(c, env),
            0x03 => self.create_cq(c, env),
            0x04 => self.modify_cq(c, env),
            0x05 => self.destroy_cq(c, env),
            0x09 => self.alloc_stag(c, env),
            0x0a => self.register_mr(c, env),
            0x0d => self.dealloc_stag(c, env),
            0x0e => self.manage_local_mac(c, env),
            0x0f => self.manage_arp(c, env),
            0x11 => self.manage_push_page(c, env),
            0x12 => self.query_features(c, env),
            0x13 => self.upload_context(c, env),
            0x14 => self.allocate_local_mac(env),
            0x15 => self.manage_pm_function(c, env),
            0x16 => self.create_ceq(c, env),
            0x18 => self.destroy_ceq(c, env),
            0x19 => self.create_aeq(c, env),
            0x1b => self.destroy_aeq(c, env),
            0x1c => self.create_address_handle(c, env),
            0x1d => self.modify_address_handle(c, env),
            0x1e => self.destroy_address_handle(c, env),
            0x1f => self.update_sds(c, env),
            0x20 => self.query_fpm(c, env),
            0x21 => self.commit_fpm(c, env),
            0x22 => self.flush_or_generate(c, env),
            0x23 => self.manage_port(c, env),
            0x25 => self.manage_quad_hash(c, env),
            0x26 => self.create_group(c, env),
            0x27 => self.modify_group(c, env),
            0x28 => self.destroy_group(c, env),
            0x29 => self.suspend_qp(c, env),
            0x2a => self.resume_qp(c, env),
            0x2b => self.announce_static_pages(c, env),
            0x2c => self.manage_node(c, env),
            0x2d => self.manage_statistics(c, env),
            0x2e => self.gather_statistics(c, env),
            0x2f => self.set_up_map(c, env),
            other => Err(Refusal::opcode(
                env,
                format!("CQP opcode {other:#04x} has no executor"),
            )),
        }
    }

    /// An index that must be below the committed count of a type.
    pub(super) fn in_range(
        &self,
        kind: Kind,
        index: u64,
        env: &mut dyn Env,
    ) -> Result<(), Refusal> {
        let count = self.hmc.count(kind);
        if index < count {
            return Ok(());
        }
        let text = format!("{} {index}: only {count} are committed", kind.name());
        Err(Refusal::parameter(env, text))
    }

    /// The HMC function id of a command must be this PF's number.
    pub(super) fn own_function(&self, id: u64, env: &mut dyn Env) -> Result<(), Refusal> {
        if id == u64::from(self.config.pf) {
            return Ok(());
        }
        let text = format!("HMC function id {id}: this is PF {}", self.config.pf);
        Err(Refusal::parameter(env, text))
    }

    /// PBLEs `first..first + count` must be committed.
    pub(super) fn pbles(&self, first: u64, count: u64, env: &mut dyn Env) -> Result<(), Refusal> {
        let committed = self.hmc.count(Kind::Pble);
        if first + count <= committed {
            return Ok(());
        }
        let text = format!(
            "PBLEs {first} to {}: only {committed} are committed",
            first + count
        );
        Err(Refusal::parameter(env, text))
    }
}

/// Whether a command works on HMC objects, which exist only after SHMC_PAGES_ALLOCATED
/// (control-path 6.6).
fn needs_objects(opcode: u8) -> bool {
    matches!(
        opcode,
        0x00..=0x05 | 0x09 | 0x0a | 0x0d | 0x0f | 0x13 | 0x16..=0x1e | 0x22 | 0x23 | 0x25..=0x2a
    )
}

/// A base address with the alignment that its queue needs.
pub(super) fn aligned(what: &str, address: u64, to: u64, env: &mut dyn Env) -> Result<(), Refusal> {
    if address.is_multiple_of(to) {
        return Ok(());
    }
    Err(Refusal::parameter(
        env,
        format!("{what} at {address:#x} is not {to}-aligned"),
    ))
}

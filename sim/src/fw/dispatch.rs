//! Dispatch from AdminQ opcode to handler.

use super::descriptor::{Answer, Command, Reply};
use super::{AqCode, Cx};
use crate::variation::{OthersInDownload, RefusedInDownload};

/// Commands that the holder of the global configuration lock may send (`ice/ice_common.c
/// ice_aq_send_cmd`).
fn goes_on_in_download(command: &Command) -> bool {
    matches!(
        command.opcode,
        0x0001
            | 0x0203
            | 0x020c
            | 0x020d
            | 0x0290..=0x0293
            | 0x0417
            | 0x0418
            | 0x0c40..=0x0c43
    ) || (command.opcode == 0x0009 && command.param16(0) == super::locks::GLOBAL)
}

/// Commands that other functions may send meanwhile: those that tell whether the lock is still
/// held, and the version, with which every driver begins `[inf served_in_download]`.
fn others_go_on_in_download(command: &Command) -> bool {
    command.opcode == 0x0001
        || (command.opcode == 0x0008 && command.param16(0) == super::locks::GLOBAL)
}

/// Commands of recovery mode, whose purpose is to repair the flash. Their selection is
/// `[inf served_in_recovery]`.
fn goes_on_in_recovery(opcode: u16) -> bool {
    matches!(
        opcode,
        0x0001..=0x0003 | 0x0008..=0x000b | 0x0701..=0x070b
    )
}

impl Cx<'_, '_> {
    /// Executes one command.
    pub(super) fn execute(&mut self, command: &Command) -> Reply {
        if self.fw.config.recovery && !goes_on_in_recovery(command.opcode) {
            return command.done().refused(AqCode::EMODE);
        }
        let now = self.now();
        let goes_on = match self.global_holder(now) {
            None => true,
            Some(holder) if holder == self.pf() => goes_on_in_download(command),
            Some(_) => match self.env.state.variation.others_in_download {
                OthersInDownload::Refused => others_go_on_in_download(command),
                OthersInDownload::Served => true,
            },
        };
        if !goes_on {
            let code = match self.env.state.variation.refused_in_download {
                RefusedInDownload::Ebusy => AqCode::EBUSY,
                RefusedInDownload::Eagain => AqCode::EAGAIN,
            };
            return command.done().refused(code);
        }
        let model = self.answer(command);
        match self.as_recorded(command, model) {
            Ok(reply) => reply,
            Err(code) => command.done().refused(code),
        }
    }

    fn answer(&mut self, command: &Command) -> Answer {
        match command.opcode {
            0x0001 => self.get_version(command),
            0x0002 => self.driver_version(command),
            0x0003 => self.queue_shutdown(command),
            0x0008 => self.request_resource(command),
            0x0009 => self.release_resource(command),
            0x000a => self.function_capabilities(command),
            0x000b => self.device_capabilities(command),
            0x0107 => self.read_mac(command),
            0x0108 => self.write_mac(command),
            0x0110 => self.clear_pxe(command),
            0x0200 => self.switch_config(command),
            0x0203 => self.set_port_parameters(command),
            0x0208 => self.allocate_resources(command),
            0x0209 => self.free_resources(command),
            0x020a => self.allocated_resources(command),
            0x020b => self.share_resource(command),
            0x020c => self.set_vlan_mode(command),
            0x020d => self.get_vlan_mode(command),
            0x0210 => self.add_vsi(command),
            0x0211 => self.update_vsi(command),
            0x0212 => self.get_vsi(command),
            0x0213 => self.free_vsi(command),
            0x0290 => self.add_recipe(command),
            0x0291 => self.recipe_to_profile(command),
            0x0292 => self.get_recipe(command),
            0x0293 => self.get_recipe_to_profile(command),
            0x02a0 => self.add_rules(command),
            0x02a1 => self.update_rules(command),
            0x02a2 => self.remove_rules(command),
            0x02a4 => self.clear_pf_config(command),
            0x0302 => self.query_pfc_mode(command),
            0x0303 => self.set_pfc_mode(command),
            0x0400 => self.default_topology(command),
            0x0401 => self.add_elements(command),
            0x0403 => self.configure_elements(command),
            0x0404 => self.get_elements(command),
            0x0408 => self.move_elements(command),
            0x0409 => self.suspend_elements(command, true),
            0x040a => self.suspend_elements(command, false),
            0x040e => self.query_port_ets(command),
            0x040f => self.delete_elements(command),
            0x0410 => self.add_rate_profiles(command),
            0x0412 => self.scheduler_resources(command),
            0x0415 => self.remove_rate_profiles(command),
            0x0418 => self.get_tx_topology(command),
            0x0600 => self.phy_capabilities(command),
            0x0601 => self.set_phy_config(command),
            0x0603 => self.set_mac_config(command),
            0x0605 => self.restart_an(command),
            0x0607 => self.link_status(command),
            0x0613 => self.set_event_mask(command),
            0x0620 => self.set_mac_loopback(command),
            0x06e0 => self.link_topology(command),
            0x06e9 => self.set_port_led(command),
            0x06ea => self.port_options(command),
            0x06ee => self.module_memory(command),
            0x0701 => self.read_nvm(command),
            0x0706 => self.nvm_checksum(command),
            0x0a00 => self.get_lldp_mib(command),
            0x0a01 => self.lldp_mib_events(command),
            0x0a05 => self.stop_lldp(command),
            0x0a06 => self.start_lldp(command),
            0x0a07 => self.cee_config(command),
            0x0a08 => self.set_local_mib(command),
            0x0a09 => self.start_stop_agent(command),
            0x0a0a => self.lldp_filter(command),
            0x0b02 => self.set_rss_key(command),
            0x0b03 => self.set_rss_lut(command),
            0x0b04 => self.get_rss_key(command),
            0x0b05 => self.get_rss_lut(command),
            0x0c30 => self.add_tx_queues(command),
            0x0c31 => self.disable_tx_queues(command),
            0x0c32 => self.move_tx_queues(command),
            0x0c33 => self.add_rdma_queue_sets(command),
            0x0c40 => self.download_package(command),
            0x0c41 => self.upload_section(command),
            0x0c42 => self.update_package(command),
            0x0c43 => self.package_list(command),
            0xff20 => self.set_health_events(command),
            0xff30 => self.configure_log(command),
            0xff31 => self.register_log(command),
            0xff32 => self.query_log(command),
            _ => Err(AqCode::ESRCH),
        }
    }
}

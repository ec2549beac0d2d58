//! Completion queues and event queues.

use super::Run;
use crate::findings::kind;
use crate::pe::aeq::{Aeq, Event};
use crate::pe::ceq::Ceq;
use crate::pe::ring::Memory;
use crate::pe::word::bits32;

impl Run<'_> {
    /// Memory of a queue, from the inputs.
    fn memory(&mut self, address: &str) -> Memory {
        let mapped = self.inputs.is_set("virtual_map");
        let first = self.inputs.number("first_pm_pbl_idx");
        Memory::new(mapped, self.inputs.number(address), first)
    }

    fn entries(&mut self) -> u32 {
        self.inputs.number("elem_cnt") as u32
    }

    fn ceq_id(&mut self) -> u16 {
        self.inputs.number("ceq_id") as u16
    }

    /// The destroy commands repeat the entry count; the device records a finding if it differs.
    pub(super) fn before_queue(&mut self) {
        match self.c.opcode() {
            0x18 => {
                let (id, entries) = (self.ceq_id(), self.entries());
                self.device.ceqs.clear();
                let ceq = Ceq::new(Memory::Contiguous(0), entries);
                self.device.ceqs.insert(id, ceq);
            }
            0x19 => {
                let at = self.inputs.number("aeq_elem_pa");
                self.env.map(at, 4096);
            }
            0x1b => {
                let entries = self.entries();
                self.device.aeq = Some(Aeq::new(Memory::Contiguous(0), entries));
            }
            _ => {}
        }
    }

    pub(super) fn after_queue(&mut self) {
        match self.c.opcode() {
            0x03 | 0x04 => self.after_cq(),
            0x05 => {
                let id = self.inputs.number("cq_id") as u32;
                let left = self.device.cq(id, self.env).unwrap().is_some();
                self.inputs.same("the CQ is there", left, false);
                self.inputs.unused(
                    "repeated from the creation",
                    &[
                        "cq_size",
                        "num_elem",
                        "virtual_map",
                        "ceq_id",
                        "cq_pa",
                        "shadow_pa",
                        "first_pm_pbl_idx",
                        "shadow_read_threshold",
                        "vsi_idx",
                        "pbl_chunk_size",
                    ],
                );
            }
            0x16 => {
                let (id, memory) = (self.ceq_id(), self.memory("ceqe_pa"));
                let ceq = self.device.ceqs.get(&id).unwrap();
                let got = (ceq.memory, u64::from(ceq.entries));
                self.inputs.same("memory", got.0, memory);
                self.inputs.field("elem_cnt", got.1);
                self.inputs.unused(
                    "the model has one VSI and never lets a timer pass",
                    &["vsi_idx", "itr_no_expire"],
                );
            }
            0x18 => {
                let id = self.ceq_id();
                let left = self.device.ceqs.contains_key(&id);
                self.inputs.same("the CEQ is there", left, false);
                let lint = self.found(kind::EVENT_QUEUE_SIZE.name);
                self.inputs.same("another entry count", lint, false);
                self.inputs.unused(
                    "repeated from the creation",
                    &[
                        "ceqe_pa",
                        "vsi_idx",
                        "virtual_map",
                        "first_pm_pbl_idx",
                        "itr_no_expire",
                    ],
                );
            }
            0x19 => {
                let entries = self.device.aeq.as_ref().unwrap().entries();
                self.inputs.field("elem_cnt", entries);
                let at = self.inputs.number("aeq_elem_pa");
                let event = Event {
                    id: 0x5A5A,
                    ..Event::default()
                };
                self.device.put_event(event, self.env);
                let first = bits32(self.env.word(at + 8), 17, 0);
                self.inputs.same("the first entry", first, event.id);
                self.inputs.unused(
                    "no list of pages in this case",
                    &["virtual_map", "first_pm_pbl_idx"],
                );
            }
            0x1b => {
                let left = self.device.aeq.is_some();
                self.inputs.same("the AEQ is there", left, false);
                let lint = self.found(kind::EVENT_QUEUE_SIZE.name);
                self.inputs.same("another entry count", lint, false);
                self.inputs.unused(
                    "repeated from the creation",
                    &["aeq_elem_pa", "virtual_map", "first_pm_pbl_idx"],
                );
            }
            other => panic!("{other:#x}"),
        }
        self.inputs.unused(
            "LPBLSIZE must go with VIRTMAP, or the device refuses the command",
            &["pbl_chunk_size"],
        );
    }

    fn after_cq(&mut self) {
        let id = self.inputs.number("cq_id") as u32;
        let memory = self.memory("cq_pa");
        let cq = self.device.cq(id, self.env).unwrap().unwrap();
        // The recorder uses other names for the first CQ.
        let ccq = self.inputs.has("num_elem");
        let (size, shadow) = match ccq {
            true => ("num_elem", "shadow_area_pa"),
            false => ("cq_size", "shadow_pa"),
        };
        let inputs = &mut self.inputs;
        inputs.field(size, cq.size);
        inputs.field(shadow, cq.shadow);
        inputs.same("memory", cq.memory, memory);
        inputs.field("shadow_read_threshold", cq.threshold);
        // Overflow of the CCQ is always checked.
        let check = ccq || inputs.is_set("check_overflow");
        inputs.same("CHKOVERFLOW", cq.check_overflow, check);
        if inputs.has("ceqe_mask") {
            inputs.field("ceqe_mask", cq.mask_events);
        }
        if self.c.opcode() == 0x03 {
            let ceq = inputs.number("ceq_id") as u16;
            inputs.same("CEQ", cq.ceq, Some(ceq));
            inputs.unused("CEQ 0 shows it", &["ceq_id_valid"]);
        } else {
            inputs.field("cq_resize", cq.resizes);
            inputs.unused("a CQ stays with its event queue", &["ceq_id"]);
            inputs.unused("an empty object of the recorder", &["new"]);
        }
        inputs.unused("the model has one VSI", &["vsi_idx"]);
    }
}

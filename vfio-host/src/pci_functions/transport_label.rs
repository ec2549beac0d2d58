//! What carries the messages of a command, in the words of reports.

use e810_backends::spec::DeviceKind;

use crate::output::wire::WireReport;

/// What carried the messages.
#[derive(Clone, Debug)]
pub(crate) struct TransportLabel {
    /// In JSON.
    pub(crate) name: &'static str,
    /// In words.
    pub(crate) text: &'static str,
    /// Details of the run.
    pub(crate) details: &'static str,
    /// The label of every figure.
    pub(crate) label: &'static str,
    /// The wire, if it is simulated in this process.
    pub(crate) wire: Option<WireReport>,
}

impl TransportLabel {
    /// Between two functions of this process.
    pub(crate) fn between(kind: DeviceKind) -> Self {
        let (text, details, label) = match kind {
            DeviceKind::Simulated => (
                "simulated, two functions in one process",
                SIMULATOR,
                "simulated",
            ),
            DeviceKind::VfioUser => (
                "vfio-user, two functions that other processes serve",
                SIMULATOR,
                "over vfio-user, simulated",
            ),
            DeviceKind::Vfio => ("VFIO, two functions bound to vfio-pci", "", "over VFIO"),
        };
        Self {
            name: kind.name(),
            text,
            details,
            label,
            wire: None,
        }
    }

    /// From a function of this process to one of another.
    pub(crate) fn to_another_process(kind: DeviceKind) -> Self {
        let between = Self::between(kind);
        let text = match kind {
            DeviceKind::Simulated => {
                "simulated, a function of this process, and one of another on the same wire"
            }
            DeviceKind::VfioUser => {
                "vfio-user, a function that another process serves, and one of another e810"
            }
            DeviceKind::Vfio => "VFIO, a function bound to vfio-pci, and one of another e810",
        };
        Self { text, ..between }
    }
}

impl TransportLabel {
    /// On a function that another process owns.
    pub(crate) const ATTACHED: Self = Self {
        name: "attached",
        text: "attached to a function that another process serves",
        details: "",
        label: "on a served function",
        wire: None,
    };
}

/// What a simulator adds to every message.
const SIMULATOR: &str = ", with IOMMU, ICRC and checks of the driver";

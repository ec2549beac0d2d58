//! A simulated card, and what must hold once a driver is done with it.

pub(crate) use e810_tests::given_back::{assert_as_found, assert_vectors_back};

use std::ops::Range;

use e810::{Config, Error, Lan, MacAddr, Platform, Result, Stage, StageError, VsiId, hmc::Backing};
use e810_hal::{DmaError, WaitError};
use e810_sim::middleware::{Layer, Layered};
use e810_sim::{Builder, Profile, Sim, SimPlatform};

/// What a bring-up asks for in each of its ways.
pub(crate) const BACKINGS: [Backing; 2] = [Backing::Full, Backing::OnDemand];

pub(crate) fn builder() -> Builder {
    Sim::builder().seed(7).profile(Profile::card())
}

/// One function of a good card.
pub(crate) fn card() -> (Sim, SimPlatform) {
    let sim = builder().build();
    let nic = sim.function(0);
    (sim, nic)
}

pub(crate) fn lan(nic: &SimPlatform) -> Lan {
    Lan {
        vsi: VsiId::new(nic.vsi()).unwrap(),
        mac: MacAddr(nic.mac()),
        mtu: 9000,
    }
}

pub(crate) fn config(nic: &SimPlatform) -> Config {
    Config::new(lan(nic))
}

/// Brings up, and shuts down at once.
pub(crate) fn up_and_down<P: Platform>(platform: P, config: &Config) -> Result<(), StageError> {
    let device = e810::bring_up(platform, config, &mut |_| {})?;
    device.shutdown().map_err(|error| StageError {
        stage: Stage::Ready,
        error,
        undo: Some(error),
    })
}

/// A card with a layer on its registers.
pub(crate) fn layered<L: Layer + Clone>(layer: &L) -> (Sim, Layered<SimPlatform, L>) {
    let (sim, nic) = card();
    (sim, Layered::new(nic, layer.clone()))
}

/// After a device that does not answer: tables and vectors are back, and memory that stays with the
/// device is said.
pub(crate) fn assert_only_device_memory_left(sim: &Sim, error: &StageError) -> u64 {
    let held = sim.memory(0);
    assert_eq!(held.host_blocks, 0, "{error}: {held:?}");
    assert_eq!(held.mappings, 0, "{error}: {held:?}");
    assert_vectors_back(&sim.function(0));
    if held.dma_blocks > 0 {
        let said = error.undo.is_some() || wait_of(&error.error).is_some();
        assert!(
            said,
            "{} blocks are held, unsaid: {error:?}",
            held.dma_blocks
        );
    }
    held.dma_blocks
}

/// The wait that an error is about.
pub(crate) fn wait_of(error: &Error) -> Option<WaitError> {
    match error {
        Error::Wait(wait) | Error::Cqp(e810_cqp::Error::Wait(wait)) => Some(*wait),
        _ => None,
    }
}

pub(crate) fn is_no_dma_memory(error: &Error) -> bool {
    let no_memory = |error: &DmaError| matches!(error, DmaError::OutOfMemory { .. });
    match error {
        Error::Dma(dma) | Error::Cqp(e810_cqp::Error::Dma(dma)) => no_memory(dma),
        _ => false,
    }
}

pub(crate) fn is_no_host_memory(error: &Error) -> bool {
    matches!(
        error,
        Error::HostMemory(_) | Error::Cqp(e810_cqp::Error::HostMemory(_))
    )
}

/// An error text names the stage and ends in something to do.
pub(crate) fn assert_explains(error: &StageError) {
    let text = error.to_string();
    let cause = text.strip_prefix(&format!("{}: ", error.stage));
    let cause = cause.unwrap_or_else(|| panic!("no stage in `{text}`"));
    // What happened, then the remedy after a colon or semicolon.
    let (what, remedy) = cause
        .rsplit_once([':', ';'])
        .unwrap_or_else(|| panic!("no remedy in `{text}`"));
    assert!(what.len() > 8 && remedy.len() > 8, "`{text}`");
    let verbs = [
        "raise", "enlarge", "reset", "check", "retry", "report", "ask", "enable", "repair",
    ];
    assert!(
        verbs.iter().any(|verb| remedy.contains(verb)),
        "no remedy in `{text}`"
    );
}

/// Lines of equal text as ranges: "1..=3 text".
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<(Range<u64>, String)>,
}

impl Table {
    pub(crate) fn row(&mut self, n: u64, text: impl Into<String>) {
        let text = text.into();
        match self.rows.last_mut() {
            Some((range, last)) if *last == text && range.end == n => range.end = n + 1,
            _ => self.rows.push((n..n + 1, text)),
        }
    }

    pub(crate) fn text(&self) -> String {
        let row = |(range, text): &(Range<u64>, String)| match range.end - range.start {
            1 => format!("{}: {text}\n", range.start),
            _ => format!("{} to {}: {text}\n", range.start, range.end - 1),
        };
        self.rows.iter().map(row).collect()
    }
}

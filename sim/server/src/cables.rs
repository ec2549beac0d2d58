//! The cables of simulated ports, to test what a program does when its link goes down.

use e810_sim::{PortLink, Sim};

/// Whether the ports of a simulator have link partners.
///
/// A port without a module stays without a partner. Functions that were made warm have no firmware
/// to report a link, and keep theirs.
#[derive(Debug)]
pub struct Cables {
    sim: Sim,
    /// For each function, its link when the cable is in; none while the cables are in.
    out: Option<Vec<PortLink>>,
}

impl Cables {
    #[must_use]
    pub const fn new(sim: Sim) -> Self {
        Self { sim, out: None }
    }

    /// Takes out the cables of all ports, or puts them back. Returns whether they are in.
    pub fn switch(&mut self) -> bool {
        let functions = 0..self.sim.functions();
        if let Some(links) = self.out.take() {
            for (function, link) in functions.zip(links) {
                self.sim
                    .configure_firmware(function, |config| config.link = link);
            }
            return true;
        }
        let mut links = Vec::new();
        for function in functions {
            let mut link = PortLink::Up;
            self.sim.configure_firmware(function, |config| {
                link = config.link;
                if config.link != PortLink::NoMedia {
                    config.link = PortLink::Down;
                }
            });
            links.push(link);
        }
        self.out = Some(links);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(sim: &Sim) -> Vec<Option<PortLink>> {
        let link = |function| {
            let mut link = None;
            sim.configure_firmware(function, |config| link = Some(config.link));
            link
        };
        (0..sim.functions()).map(link).collect()
    }

    #[test]
    fn each_port_gets_back_what_it_had() {
        let sim = Sim::builder().functions(3).cold().build();
        sim.configure_firmware(1, |config| config.link = PortLink::NoMedia);
        sim.configure_firmware(2, |config| config.link = PortLink::UpAfterMs(7));
        let before = links(&sim);
        let mut cables = Cables::new(sim.clone());
        for _ in 0..2 {
            assert!(!cables.switch());
            let (down, none) = (Some(PortLink::Down), Some(PortLink::NoMedia));
            assert_eq!(links(&sim), [down, none, down]);
            assert!(cables.switch());
            assert_eq!(links(&sim), before);
        }
    }

    #[test]
    fn warm_functions_have_nothing_to_switch() {
        let sim = Sim::builder().functions(1).build();
        let mut cables = Cables::new(sim.clone());
        assert!(!cables.switch());
        assert_eq!(links(&sim), [None]);
        assert!(cables.switch());
    }
}

//! Programs that share a function, each over a link of its own.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use e810_attach::owner::{self, Opening, Owner, QUEUE_PAIRS, Ready, SIMULATED_MTU, WAIT};
use e810_backends::HostDevice;
use e810_backends::spec::SimSpec;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim};

mod clients;
mod connections;
mod ends;
mod greedy;
mod hostile;
mod hostile_commands;
mod hostile_connections;
mod program;
mod shares;
mod talk;

/// What a test does with a function.
trait Scenario: Copy + Send + 'static {
    /// Changes the simulator before the function comes up.
    fn configure(self, _: &Sim) {}

    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D);
}

struct Starts<S> {
    scenario: S,
    done: std::sync::mpsc::Sender<thread::Result<()>>,
}

impl<S: Scenario> Ready for Starts<S> {
    fn simulator(&mut self, spec: &SimSpec) -> anyhow::Result<Sim> {
        let sim = simulator(spec, 1, Mode::Real, 1, false).build();
        self.scenario.configure(&sim);
        Ok(sim)
    }

    fn ready<D: HostDevice>(
        self,
        owner: &Arc<Owner<D>>,
        function: &D,
    ) -> anyhow::Result<Box<dyn Any>> {
        let (owner, function) = (owner.clone(), function.clone());
        thread::spawn(move || {
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.scenario.run(&owner, &function);
            }));
            self.done.send(ran)
        });
        Ok(Box::new(()))
    }
}

/// Runs a scenario on a simulated function, which stays up until the process ends.
fn with_function(scenario: impl Scenario) {
    let opening = Opening {
        spec: "sim".parse().unwrap(),
        addresses: vec!["10.8.1.1/24".parse().unwrap()],
        queue_pairs: QUEUE_PAIRS,
        tap: None,
        gateways: Vec::new(),
        wait: WAIT,
        mtu: SIMULATED_MTU,
    };
    let (done, ran) = channel();
    let failed = done.clone();
    thread::spawn(move || {
        if let Err(error) = owner::serve(&opening, Starts { scenario, done }) {
            let _ = failed.send(Err(Box::new(format!("{error:#}"))));
        }
    });
    if let Err(panic) = ran.recv().expect("an end") {
        std::panic::resume_unwind(panic);
    }
}

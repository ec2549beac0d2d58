//! Serves a function to programs until a signal ends it:
//! `serve PATH SPEC@ADDRESS`, for example `serve /tmp/e810.sock sim@10.8.1.1/24`. Then
//! `E810_VERBS=at:PATH` is its name in programs of libibverbs.

use std::any::Any;
use std::env;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result};
use e810_attach::owner::{self, MemoryOf, Opening, Owner, Ready, SIMULATED_MTU, WAIT};
use e810_attach::session::Session;
use e810_attach::socket::Listener;
use e810_backends::HostDevice;
use e810_backends::spec::{AddressedSpec, SimSpec};
use e810_node::address::addresses_of;
use e810_node::simulated::simulator;
use e810_sim::{Mode, Sim};

struct Serves(Listener);

impl Ready for Serves {
    fn simulator(&mut self, spec: &SimSpec) -> Result<Sim> {
        Ok(simulator(spec, 1, Mode::Real, 1, false).build())
    }

    fn ready<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) -> Result<Box<dyn Any>> {
        let (owner, function) = (owner.clone(), function.clone());
        println!("serving");
        thread::spawn(move || {
            loop {
                let socket = self.0.accept().expect("programs");
                eprintln!("{:?}", socket.peer());
                let (owner, function) = (owner.clone(), function.clone());
                thread::spawn(move || {
                    Session::begin(owner, function, Arc::new(socket), MemoryOf::Nobody).run();
                });
            }
        });
        Ok(Box::new(()))
    }
}

fn main() -> Result<()> {
    let [path, spec] = env::args()
        .skip(1)
        .collect::<Vec<_>>()
        .try_into()
        .map_err(|_| anyhow::anyhow!("usage: serve PATH SPEC@ADDRESS"))?;
    let said: AddressedSpec = spec.parse().map_err(anyhow::Error::msg)?;
    let opening = Opening {
        addresses: addresses_of(&said).map_err(anyhow::Error::msg)?,
        spec: said.spec,
        tap: None,
        gateways: said.gateways,
        wait: WAIT,
        mtu: SIMULATED_MTU,
    };
    let listener = Listener::bind(Path::new(&path)).context(path)?;
    owner::serve(&opening, Serves(listener))
}

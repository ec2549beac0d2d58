//! A function's Ethernet frames beside RDMA, as a network stack takes them.

use e810::{Control, LanInit, LanPort, MacAddr};
use e810_net::{Full, Port};
use metal::Metal;

use crate::report::Failure;

/// A LAN port of the driver.
pub(crate) struct Frames<'m>(LanPort<Metal<'m>>);

impl<'m> Frames<'m> {
    /// Opens the function's port.
    pub(crate) fn open(control: &mut Control<Metal<'m>>) -> Result<Self, Failure> {
        Ok(Self(control.open_lan(&LanInit::default())?))
    }

    /// Lets frames to a multicast address in.
    pub(crate) fn join(
        &self,
        control: &mut Control<Metal<'m>>,
        group: MacAddr,
    ) -> Result<(), Failure> {
        Ok(control.join_lan_group(&self.0, group)?)
    }

    /// Frames received and sent so far.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.0.rx_counts().frames, self.0.tx_counts().frames]
    }

    /// Gives the port back.
    pub(crate) fn close(self, control: &mut Control<Metal<'m>>) -> Result<(), Failure> {
        let closed = control.close_lan(self.0);
        closed.map_err(|(_, error)| error.into())
    }
}

impl Port for Frames<'_> {
    fn receive(&mut self, into: &mut [u8]) -> Option<usize> {
        self.0.receive(into)
    }

    fn transmit(&mut self, frame: &[u8]) -> Result<(), Full> {
        // Both stacks know the port's longest frame: what it refuses has no room now.
        self.0.transmit(frame).map_err(|_| Full)
    }
}

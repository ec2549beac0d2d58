//! rdma_server and rdma_client (`librdmacm/examples/rdma_server.c`): the client sends 16 bytes, the
//! server sends 16 bytes, and then both end the connection at once.

use anyhow::Result;
use e810_backends::HostDevice;
use e810_node::attended::Grant;

use crate::rig::{LIMIT, Rig};
use crate::role::Role;

const BYTES: u32 = 16;
pub(crate) const ROOM: usize = 2 * BYTES as usize;

pub(crate) fn run<P: HostDevice>(rig: Rig<P>, role: Role) -> Result<()> {
    let [own, peers] = [0, BYTES as usize].map(|offset| rig.sge(offset, BYTES));
    let mut channel = rig.channel(1)?;
    channel.receive(peers)?;
    match role {
        Role::Server(port) => {
            let listener = rig.listen(port, 1)?;
            let request = listener.next(LIMIT)?;
            channel.connection.accept(&request, &Grant::default())?;
            channel.take(1, 0, BYTES)?;
            channel.send(own)?;
            channel.take(0, 1, BYTES)?;
        }
        Role::Client(peer) => {
            channel.connection.connect(&rig.function.ask(peer)?)?;
            channel.connection.established(LIMIT)?;
            channel.send(own)?;
            channel.take(1, 1, BYTES)?;
        }
    }
    println!("a message each way");
    channel.leave()?;
    rig.close(vec![channel])
}

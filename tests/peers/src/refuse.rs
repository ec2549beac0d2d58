//! Refuses a request, or a question for a UD queue pair: no program of librdmacm's.

use anyhow::Result;
use e810_backends::HostDevice;

use crate::rig::{LIMIT, Rig};

pub(crate) fn run<P: HostDevice>(rig: Rig<P>, port: u16, is_datagram: bool) -> Result<()> {
    let listener = match is_datagram {
        true => rig.listen_datagrams(port, 1)?,
        false => rig.listen(port, 1)?,
    };
    listener.reject(&listener.next(LIMIT)?, b"not today")?;
    println!("refused");
    drop(listener);
    rig.close(Vec::new())
}

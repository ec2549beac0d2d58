//! Who comes to the owner's socket: what they say first decides what they get.

use std::sync::Arc;
use std::time::Duration;

use e810_backends::HostDevice;

use crate::link::{Ended, Link};
use crate::messages::{Hello, Malformed, Refused, Told, decode, encode};
use crate::owner::{MemoryOf, Owner};
use crate::session::Session;

/// How long somebody who has connected may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);

/// Serves one who has connected until it has gone.
///
/// # Errors
/// Why it is not served, which it was told. Nothing is wrong with one that leaves before it says
/// anything: it looked whether somebody is there.
pub fn receive<D: HostDevice>(
    owner: &Arc<Owner<D>>,
    platform: D,
    link: Arc<dyn Link>,
) -> Result<(), Refused> {
    let message = match link.receive(HELLO) {
        Err(Ended) => return Ok(()),
        Ok(None) => return refuse(&*link, Refused::silent("the program", HELLO)),
        Ok(Some(message)) => message,
    };
    let hello: Result<_, Malformed> = decode(&message.bytes);
    match hello {
        Ok(Hello::Attach) => {
            match Session::begin(owner.clone(), platform, link.clone(), MemoryOf::Nobody) {
                Ok(session) => session.run(),
                Err(why) => return refuse(&*link, why),
            }
            Ok(())
        }
        Err(said) => refuse(&*link, Refused::unintelligible("the program", said)),
    }
}

/// Whatever its version, the first byte of this tells it the owner's.
fn refuse(link: &dyn Link, why: Refused) -> Result<(), Refused> {
    // It may be gone.
    let _ = link.send(encode(&Told::Refused(why.clone())).into());
    Err(why)
}

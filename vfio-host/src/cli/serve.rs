//! Arguments of `e810 serve`.

use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::AddressedSpec;

/// Arguments of `e810 serve`.
#[derive(Args, Debug, Clone)]
pub struct ServeArgs {
    /// The function, with its IP addresses after an `@`. So far it has to be a simulated one.
    ///
    /// After the `@` come IP/LEN (without LEN, every address is on the link), gateway=IP,
    /// wait=SECONDS for a peer that does not answer [default: 3], tap=NAME and mtu=BYTES.
    #[arg(
        short,
        long,
        value_name = "SPEC[@IP,..]",
        default_value = "sim@10.8.1.1/24"
    )]
    pub device: AddressedSpec,
    /// The socket for programs: `e810 run --at PATH -- PROGRAM`.
    #[arg(long, value_name = "PATH")]
    pub at: PathBuf,
}

//! Arguments of `e810 serve`.

use std::path::PathBuf;

use clap::Args;
use e810_backends::spec::AddressedSpec;

use super::device::socket_path;
use super::file::checked;

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
    /// The socket for programs [default: E810_AT, else /run/e810/e810.sock, else
    /// $XDG_RUNTIME_DIR/e810.sock].
    ///
    /// `e810 run -- PROGRAM` finds it there by itself; other places need `e810 run --at PATH`. A
    /// user who may not make /run/e810 gets the socket in the own folder.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub at: Option<PathBuf>,
}

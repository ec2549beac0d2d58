//! Arguments of `e810 ps`.

use std::path::PathBuf;

use clap::Args;

use super::device::socket_path;
use super::file::checked;
use super::number::number;

/// Arguments of `e810 ps`.
#[derive(Args, Debug, Clone)]
pub struct PsArgs {
    /// The socket of `e810 serve` [default: E810_AT, else /run/e810/e810.sock, else
    /// $XDG_RUNTIME_DIR/e810.sock].
    ///
    /// Root and the server's user see all programs, others their own and the totals.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub at: Option<PathBuf>,
    /// Milliseconds over which rates are measured: 10 to 60000.
    #[arg(long, value_name = "MS", default_value = "200", value_parser = number::<u64>(10, 60_000))]
    pub interval: u64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

//! Arguments of `e810 doctor`.

use clap::Args;
use e810_backends::spec::Bdf;

/// Arguments of `e810 doctor`.
#[derive(Args, Debug, Clone)]
pub struct DoctorArgs {
    /// The function to check, like 0000:3b:00.0 [default: all E810 functions].
    #[arg(value_name = "BDF")]
    pub function: Option<Bdf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

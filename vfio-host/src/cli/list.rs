//! Arguments of `e810 list`.

use clap::Args;

/// Arguments of `e810 list`.
#[derive(Args, Debug, Clone)]
pub struct ListArgs {
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

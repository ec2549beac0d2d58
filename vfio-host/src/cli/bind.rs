//! Arguments of `e810 bind` and `e810 unbind`.

use clap::Args;
use e810_backends::spec::Bdf;

/// Arguments of `e810 bind` and `e810 unbind`.
#[derive(Args, Debug, Clone)]
pub struct BindArgs {
    /// The functions, like 0000:3b:00.0; those of one IOMMU group belong in one command.
    #[arg(value_name = "BDF", required = true)]
    pub functions: Vec<Bdf>,
    /// Bind a function that the default route, virtual functions or a program depend on, or one of
    /// an unknown Intel Ethernet id; unbind one that is in use.
    #[arg(long)]
    pub force: bool,
}

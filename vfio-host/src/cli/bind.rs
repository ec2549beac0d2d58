//! Arguments of `e810 bind` and `e810 unbind`.

use clap::Args;
use e810_backends::spec::Bdf;

/// Arguments of `e810 bind` and `e810 unbind`.
#[derive(Args, Debug, Clone)]
pub struct BindArgs {
    /// The functions, like 0000:3b:00.0; name all functions of an IOMMU group in one command.
    #[arg(value_name = "BDF", required = true)]
    pub functions: Vec<Bdf>,
    /// Bind a function even if the default route, virtual functions or a program depend on it, or
    /// its Intel Ethernet id is unknown; unbind a function that is in use.
    #[arg(long)]
    pub force: bool,
}

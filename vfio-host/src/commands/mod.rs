//! One module per command. It reads the arguments, does the work with the modules of
//! [`pci_functions`](crate::pci_functions) and [`measure`](crate::measure), and prints the result.

pub mod bind;
pub mod connections;
pub mod doctor;
pub mod list;
pub mod monitor;
pub mod perf;
pub mod ping;
pub mod pingpong;
pub mod proxy;
pub mod ps;
pub mod report;
pub mod run;
pub mod selftest;
pub mod serve;
pub mod sim;
pub mod stat;
pub mod tap;
pub mod trace;
pub mod up;

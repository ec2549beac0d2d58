//! Simulated functions served to other processes and to virtual machines.
//!
//! One socket is one function of one simulator, so functions on the sockets of
//! a server share a wire. A socket serves its users in turn; one that leaves,
//! in order or not, leaves a function that is reset and has no memory. The
//! engine runs on a thread of its own; a socket's thread only hands messages
//! to it.
//!
//! What a user may do to the server: fill its log, keep a socket busy, and,
//! by cutting a file that it gave, end it. What arrives in messages is
//! checked here, but for sizes, which the `vfio_user` crate trusts.

pub mod config_space;
mod device;
pub mod frame;
pub mod interrupts;
pub mod mappings;
pub mod report;
mod socket_buffers;
mod udp;

use std::fs;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result, ensure};
use e810_hal::Vectors;
use e810_sim::Sim;
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR3_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSIX_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS,
    VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{IrqInfo, ServerRegion};

use config_space::Place;
use device::{Counts, Device};
use interrupts::Interrupts;
use report::{BringUpReport, FindingReport, FunctionReport, ServerReport};
use udp::UdpWire;

use crate::link_spec::UdpEnds;
use crate::socket;

/// MSI-X vectors of a served function when nothing is said. Functions of cards
/// with four ports were seen with 512, with two ports with 1024.
pub const VECTORS: u16 = 64;

/// Functions being served. Dropping it removes the sockets; their threads end
/// with the process.
#[derive(Debug)]
pub struct Server {
    sim: Sim,
    sockets: Vec<Socket>,
    wire: Option<UdpWire>,
}

#[derive(Debug)]
struct Socket {
    path: PathBuf,
    counts: Arc<Counts>,
    interrupts: Arc<Interrupts>,
}

impl Server {
    /// Serves function 0 of `sim` on the first of `paths`, function 1 on the
    /// second, and so on.
    ///
    /// # Errors
    /// More paths than functions, a path that is in use, or no thread.
    pub fn start(sim: Sim, paths: &[PathBuf]) -> Result<Self> {
        ensure!(
            paths.len() <= usize::from(sim.functions()),
            "{} sockets for {} functions",
            paths.len(),
            sim.functions()
        );
        let mut this = Self {
            sim,
            sockets: Vec::new(),
            wire: None,
        };
        for (function, path) in (0..).zip(paths) {
            this.serve(function, path)
                .with_context(|| format!("serving function {function} on {}", path.display()))?;
        }
        Ok(this)
    }

    /// Joins the wire of the functions to that of another server: frames that
    /// are for none of them go there. A wire that was there before is cut.
    ///
    /// # Errors
    /// The local address cannot be had, or no thread.
    pub fn join_udp(&mut self, ends: UdpEnds) -> Result<()> {
        self.wire = None;
        self.wire = Some(UdpWire::join(&self.sim, ends)?);
        Ok(())
    }

    fn serve(&mut self, function: u8, path: &Path) -> Result<()> {
        let listener = socket::listen(path)?;
        let nic = self.sim.function(function);
        let interrupts = Arc::new(Interrupts::new(nic.vector_count()));
        let counts = Arc::<Counts>::default();
        // From here on the path is ours to remove.
        self.sockets.push(Socket {
            path: path.to_owned(),
            counts: Arc::clone(&counts),
            interrupts: Arc::clone(&interrupts),
        });
        let hook = Arc::clone(&interrupts);
        self.sim
            .set_interrupt_hook(function, Some(Box::new(move |vector| hook.fire(vector))));
        let server = vfio_user::Server::from_owned_fd(
            OwnedFd::from(listener),
            true,
            irqs(nic.vector_count()),
            regions(),
        );
        let place = Place {
            // One serial number a card, made of its first address.
            card: self.sim.function(0).mac(),
            function,
            functions: self.sim.functions(),
            vectors: nic.vector_count(),
        };
        let device = Device::new(nic, &place, interrupts, counts);
        thread::Builder::new()
            .name(format!("e810-serve-{function}"))
            .spawn(move || serve_in_turn(&server, device))?;
        Ok(())
    }

    /// What was seen so far.
    #[must_use]
    pub fn report(&self) -> ServerReport {
        let finding_counts = self.sim.finding_counts();
        ServerReport {
            link: self.wire.as_ref().map(UdpWire::report),
            functions: (0..).zip(&self.sockets).map(|s| self.function(s)).collect(),
            findings: self
                .sim
                .findings()
                .into_iter()
                .map(|finding| FindingReport {
                    function: finding.function,
                    kind: finding.kind.to_owned(),
                    text: finding.to_string(),
                })
                .collect(),
            findings_in_all: finding_counts.iter().map(|(_, _, count)| count).sum(),
        }
    }

    fn function(&self, (function, socket): (u8, &Socket)) -> FunctionReport {
        let stats = self.sim.stats(function);
        let resets = self.sim.reset_counts(function);
        let counts = &socket.counts;
        FunctionReport {
            socket: socket.path.display().to_string(),
            users: counts.users.load(Ordering::Relaxed),
            register_reads: stats.register_reads,
            register_writes: stats.register_writes,
            commands: stats.commands,
            frames_sent: stats.frames_sent,
            frames_received: stats.frames_received,
            interrupts: stats.interrupts,
            interrupts_delivered: socket.interrupts.sent(),
            most_dma_maps: counts.most_maps.load(Ordering::Relaxed),
            refused_dma_maps: counts.refused_maps.load(Ordering::Relaxed),
            refused_irqs: counts.refused_irqs.load(Ordering::Relaxed),
            dma_faults: stats.dma_faults,
            stopped: stats.stopped,
            function_resets: resets.flr,
            pf_resets: resets.pfr,
            bring_ups: self
                .sim
                .bring_ups(function)
                .iter()
                .map(BringUpReport::from)
                .collect(),
            refused_commands: self
                .sim
                .refused_commands(function)
                .into_iter()
                .map(|(opcode, code, count)| (format!("{opcode:#06x} with {}", code.0), count))
                .collect(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // Somebody else may have removed it already.
            let _ = fs::remove_file(&socket.path);
        }
    }
}

/// Serves one user after the other.
fn serve_in_turn(server: &vfio_user::Server, mut device: Device) {
    loop {
        // The crate panics on some messages of no sense; whoever sends them
        // loses the connection, not the server.
        let served = catch_unwind(AssertUnwindSafe(|| server.run(&mut device)));
        match served {
            Err(_) => log::warn!("a user was sent away for a message that makes no sense"),
            Ok(Ok(())) => log::debug!("a user left"),
            Ok(Err(vfio_user::Error::SocketAccept(error))) => {
                log::error!("no further users: {error}");
                return;
            }
            Ok(Err(error)) => log::info!("a user was lost: {error}"),
        }
        device.user_left();
    }
}

/// The kinds of interrupt of a PCI function: only MSI-X is there.
fn irqs(vectors: u16) -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| {
            let is_msix = index == VFIO_PCI_MSIX_IRQ_INDEX;
            IrqInfo {
                index,
                flags: if is_msix { VFIO_IRQ_INFO_EVENTFD } else { 0 },
                count: if is_msix { vectors.into() } else { 0 },
            }
        })
        .collect()
}

/// The regions of a PCI function: BARs, ROM, configuration space, VGA.
fn regions() -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_BAR0_REGION_INDEX => config_space::BAR0_LEN,
                VFIO_PCI_BAR3_REGION_INDEX => config_space::BAR3_LEN,
                VFIO_PCI_CONFIG_REGION_INDEX => config_space::LEN as u64,
                _ => 0,
            };
            let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
            ServerRegion {
                region_info: vfio_region_info {
                    argsz: size_of::<vfio_region_info>() as u32,
                    flags: if size == 0 { 0 } else { both },
                    index,
                    size,
                    ..Default::default()
                },
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

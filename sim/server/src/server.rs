//! Serves simulated functions to other processes and to virtual machines.
//!
//! Each socket is one function of one simulator, so functions on the sockets of a server share a
//! wire. A socket serves its users in turn. When a user leaves, in order or not, the function is
//! reset and has no memory. The engine runs on a thread of its own; a socket's thread only passes
//! messages to it.
//!
//! The contents of messages are checked, sizes before anything else: see [`crate::protocol`].
//! [`crate::USERS`] lists what a user can still do.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e810_sim::Sim;
use e810_sim_wire::{Wire, WireError, WireSpec};

use crate::connection::serve_connection;
use crate::device::{Counts, Device};
use crate::interrupts::Interrupts;
use crate::report::{AccessReport, BringUpReport, FindingReport, FunctionReport, ServerReport};
use crate::socket::{self, SocketFile};

/// MSI-X vectors of a served function unless a number is given. Functions of cards with four ports
/// were seen with 512, with two ports with 1024.
pub const VECTORS: u16 = 64;

/// Functions that are being served. Dropping it removes the sockets, but not files that others have
/// put in their place; the threads end with the process.
#[derive(Debug)]
pub struct Server {
    sim: Sim,
    sockets: Vec<Socket>,
    wire: Option<Wire>,
}

#[derive(Debug)]
struct Socket {
    file: SocketFile,
    counts: Arc<Counts>,
    interrupts: Arc<Interrupts>,
}

impl Server {
    /// Serves function 0 of `sim` on the first of `paths`, function 1 on the
    /// second, and so on.
    ///
    /// # Errors
    /// More paths than functions, a path that is in use, or a thread that cannot be started.
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

    /// Joins the link of the functions to a wire: frames that are for none of them go there. An
    /// earlier wire is cut. Returns the address from which this end sends.
    ///
    /// # Errors
    /// As [`Wire::join`].
    pub fn join(&mut self, wire: &WireSpec) -> Result<SocketAddr, WireError> {
        self.wire = None;
        let wire = Wire::join(&self.sim, wire)?;
        Ok(self.wire.insert(wire).local())
    }

    fn serve(&mut self, function: u8, path: &Path) -> Result<()> {
        let (listener, file) = socket::listen(path)?;
        let (device, interrupts) = Device::of(&self.sim, function);
        let counts = device.counts();
        // From here on we have to remove the path.
        self.sockets.push(Socket {
            file,
            counts,
            interrupts,
        });
        thread::Builder::new()
            .name(format!("e810-serve-{function}"))
            .spawn(move || serve_in_turn(&listener, device))?;
        Ok(())
    }

    /// Everything seen so far.
    #[must_use]
    pub fn report(&self) -> ServerReport {
        let finding_counts = self.sim.finding_counts();
        ServerReport {
            link: self.wire.as_ref().map(Wire::report),
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
            socket: socket.file.path().display().to_string(),
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
            cut_files: counts.cut_files.load(Ordering::Relaxed),
            dma_faults: stats.dma_faults,
            stopped: stats.stopped,
            function_resets: resets.flr,
            pf_resets: resets.pfr,
            arms: stats.arms,
            arms_repeated: stats.arms_repeated,
            ceqes: stats.ceqes,
            dma_bytes: self.sim.function(function).attached_bytes(),
            accesses: AccessReport::from(&self.sim.accesses(function)),
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

/// Serves one user after the other.
fn serve_in_turn(listener: &UnixListener, mut device: Device) {
    /// How long to wait for the resources that accepting needs (descriptors, memory).
    const PAUSE: Duration = Duration::from_millis(100);
    let counts = device.counts();
    loop {
        let user = match listener.accept() {
            Ok((user, _)) => Arc::new(user),
            Err(error) => {
                let tell = |more: &str| log::error!("a user could not be let in: {error}{more}");
                counts.quota.line(tell);
                thread::sleep(PAUSE);
                continue;
            }
        };
        device.user_came(Arc::clone(&user));
        // No known message makes this panic. A bug that does costs a connection, not the other
        // functions.
        match catch_unwind(AssertUnwindSafe(|| serve_connection(&user, &mut device))) {
            Ok(Ok(())) => log::debug!("a user left"),
            Ok(Err(lost)) => log::info!("a user was sent away: {lost}"),
            Err(_) => counts.quota.line(|more| {
                log::error!("a mistake of this program ended a user's connection{more}");
            }),
        }
        device.user_left();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixStream;

    use vmm_sys_util::tempdir::TempDir;

    use super::*;

    #[test]
    fn only_its_own_sockets_are_removed() {
        let folder = TempDir::new_with_prefix(std::env::temp_dir().join("e810-server-")).unwrap();
        let [taken, removed, file, own] =
            ["taken", "removed", "file", "own"].map(|name| folder.as_path().join(name));
        let paths = [&taken, &removed, &file, &own].map(PathBuf::clone);
        let server = Server::start(Sim::builder().functions(4).build(), &paths).unwrap();
        // Another process has cleaned up, and listens there now.
        fs::remove_file(&taken).unwrap();
        let _other = UnixListener::bind(&taken).unwrap();
        fs::remove_file(&removed).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, "precious").unwrap();
        drop(server);
        assert!(UnixStream::connect(&taken).is_ok());
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        assert!(!removed.exists() && !own.exists());
    }
}

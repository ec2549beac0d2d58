//! Arguments of `e810 serve`.

use std::path::PathBuf;

use clap::Args;
use e810_attach::messages::Resource;
use e810_attach::owner::QUEUE_PAIRS;
use e810_backends::spec::AddressedSpec;
use e810_hal::Ns;

use super::address::interface_name;
use super::capture::CaptureArgs;
use super::device::socket_path;
use super::file::checked;
use super::number::{number, seconds, size};

/// Parses KEY=N of what one program may have.
fn of_program(text: &str) -> Result<(Resource, u64), String> {
    if text.starts_with("programs=") {
        return Err(
            "a program has no limit of programs: --user-limits programs=N is for the programs of a user, --programs N for all"
                .to_owned(),
        );
    }
    let keys = Resource::ALL.into_iter();
    share(text, keys.filter(|key| *key != Resource::Programs))
}

/// Parses KEY=N of what the programs of a user may have.
fn of_user(text: &str) -> Result<(Resource, u64), String> {
    share(text, Resource::ALL.into_iter())
}

fn share(
    text: &str,
    mut keys: impl Iterator<Item = Resource> + Clone,
) -> Result<(Resource, u64), String> {
    let all = keys.clone().map(Resource::key).collect::<Vec<_>>();
    let all = all.join(", ");
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not KEY=N; keys: {all}"))?;
    let resource = keys.find(|one| one.key() == key);
    let resource = resource.ok_or_else(|| format!("`{key}` is none of {all}"))?;
    // Without these a program can do nothing at all.
    let least = match resource {
        Resource::Qps
        | Resource::Cqs
        | Resource::Pds
        | Resource::Bytes
        | Resource::Files
        | Resource::Programs => 1,
        Resource::Mrs
        | Resource::Ahs
        | Resource::Groups
        | Resource::Questions
        | Resource::Connections
        | Resource::Listeners => 0,
    };
    let most = match resource {
        Resource::Bytes => size(least, u64::MAX)(value)?,
        _ => number(least, u64::MAX)(value)?,
    };
    Ok((resource, most))
}

/// Parses a number of queue pairs.
fn queue_pairs(text: &str) -> Result<u32, String> {
    let count: u32 = number(64, 65_536)(text)?;
    match count.is_power_of_two() {
        true => Ok(count),
        false => Err(format!(
            "{count} is no power of two: give {}",
            count.next_power_of_two()
        )),
    }
}

/// Arguments of `e810 serve`.
#[derive(Args, Debug, Clone)]
pub struct ServeArgs {
    /// A function, with its IP addresses after an `@`: a simulated one (sim, sim:wire=NAME), or one
    /// that is bound to vfio-pci (vfio:3b:00.0). Up to 8 can be named.
    ///
    /// Each has a socket of its own: of the second the path ends in .1, of the third in .2, and so
    /// on. `e810 run` gives programs all of them, as e810_0, e810_1 and so on.
    ///
    /// After the `@` come IP/LEN (without LEN, every address is on the link), gateway=IP,
    /// wait=SECONDS for a peer that does not answer [default: 3], tap=NAME and mtu=BYTES.
    #[arg(
        short,
        long,
        value_name = "SPEC[@IP,..]",
        num_args = 1..,
        default_value = "sim@10.8.1.1/24"
    )]
    pub device: Vec<AddressedSpec>,
    /// Also give the function to the host's network stack, as TAP interface NAME. The same as
    /// tap=NAME in --device.
    #[arg(long, value_name = "NAME", value_parser = interface_name)]
    pub tap: Option<String>,
    /// Queue pairs of each function that all programs can have together. Twice as many completion
    /// queues, and at least four times as many regions, come with them.
    ///
    /// A power of two. All queue pairs together have 16.7 million queue entries.
    #[arg(long, value_name = "N", default_value_t = QUEUE_PAIRS, value_parser = queue_pairs)]
    pub queue_pairs: u32,
    /// The socket for programs [default: E810_AT, else /run/e810/e810.sock, else
    /// $XDG_RUNTIME_DIR/e810.sock].
    ///
    /// `e810 run -- PROGRAM` finds it there by itself; other places need `e810 run --at PATH`. A
    /// user who may not make a socket in /run/e810 gets one in $XDG_RUNTIME_DIR.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub at: Option<PathBuf>,
    /// What a program may have, in place of half of what there is: KEY=N,KEY=N.
    ///
    /// The keys are qps, cqs, mrs, ahs, pds, groups (multicast), bytes (of registered memory and
    /// rings; with K, M or G), files (with rings), questions (for addresses of peers, under way),
    /// connections and listeners. A program that has as much gets ENOMEM, and others notice nothing.
    #[arg(long, value_name = "KEY=N,..", value_delimiter = ',', value_parser = of_program)]
    pub program_limits: Vec<(Resource, u64)>,
    /// The same for all programs together of a user, in place of three quarters; also programs=N.
    /// Each function has its own limits.
    ///
    /// Root and the server's own user have no such limits.
    #[arg(long, value_name = "KEY=N,..", value_delimiter = ',', value_parser = of_user)]
    pub user_limits: Vec<(Resource, u64)>,
    /// Attached programs, of all users.
    #[arg(long, value_name = "N", default_value = "256", value_parser = number::<u64>(1, 65_536))]
    pub programs: u64,
    /// Create a socket at PATH, through which `e810 monitor --at PATH` monitors the functions, and
    /// `e810 connections --at PATH` lists their connections.
    #[arg(long, value_name = "PATH", value_parser = checked(socket_path))]
    pub monitor: Option<PathBuf>,
    /// After a signal, wait this long for the programs to end; none are attached meanwhile
    /// [default: do not wait].
    ///
    /// A second signal ends the server at once.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub drain: Option<Ns>,
    #[command(flatten)]
    pub capture: CaptureArgs,
}

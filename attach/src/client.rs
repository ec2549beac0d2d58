//! A Rust program on a function that another process serves: how it attaches, and what it creates.
//!
//! Everything that it creates is destroyed when the [`Client`] is gone, or its process is.

use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use e810::{
    AccessFlags, CqRing, GidEntry, MacAddr, Mtu, Path, Platform, QpAttr, QpCaps, QpRecv, QpSend,
    QpType, Qpn, SharedBytes,
};
use e810_backends::buffer::Buffer;

use crate::messages::{
    AllocPd, ControlEvent, CreateCq, CreateQp, DeallocPd, DeregMr, DestroyCq, DestroyQp,
    DeviceEvent, EventSink, Kind, Lend, Memory, ModifyQp, Operation, QueryGids, QueryPort, Refused,
    RegMr, Resolve, TakeBack, Token,
};
use crate::places::Places;
use crate::platform::AttachedPlatform;
use crate::program::{Attached, Program, SharedFunction};
use crate::threads::spawn;

/// An attached program, on a function that it reaches as a `P`.
#[derive(Debug)]
pub struct Client<P: Platform> {
    program: Arc<Program<P>>,
    watch: Arc<Watch>,
}

/// An attached program, by how it reaches the function.
#[derive(Debug)]
pub enum AnyClient {
    /// The owner simulates the function.
    Simulated(Client<AttachedPlatform>),
    /// By itself: a card's.
    Function(Client<SharedFunction>),
}

/// Sees the end of the function.
#[derive(Debug, Default)]
struct Watch {
    is_gone: AtomicBool,
}

impl EventSink for Watch {
    fn notify(&self, event: ControlEvent) {
        if event == ControlEvent::Device(DeviceEvent::DeviceFatal) {
            self.is_gone.store(true, Ordering::Release);
        }
    }
}

/// A protection domain.
#[derive(Debug)]
pub struct ClientPd(u32);

/// Registered memory. A simulated device reaches it as it reaches its owner's: a file that both have.
/// A card reaches it where this process has mapped it.
#[derive(Debug)]
pub struct ClientMr {
    buffer: Buffer,
    /// The file's address at its owner.
    lent: Option<u64>,
    key: u32,
}

/// A completion queue.
#[derive(Debug)]
pub struct ClientCq<P: Platform> {
    number: u32,
    /// Completions.
    pub ring: CqRing<P>,
}

/// A queue pair.
#[derive(Debug)]
pub struct ClientQp<P: Platform> {
    number: Qpn,
    /// Its send queue.
    pub send: QpSend<P>,
    /// Its receive queue.
    pub recv: QpRecv<P>,
}

/// The address of the function that a program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnGid {
    /// Its index in the GID table.
    pub index: u8,
    /// The address.
    pub entry: GidEntry,
}

impl AnyClient {
    /// Attaches this process to the owner that listens at `path` (`e810 serve --at PATH`).
    ///
    /// # Errors
    /// Nobody listens there, or not for this user; no memory.
    pub fn attach(path: &FilePath) -> anyhow::Result<Self> {
        let places = Places::only(path.to_owned());
        Ok(match places.attach(Duration::ZERO)? {
            Attached::Simulated(program) => Self::Simulated(Client::hearing(program)?),
            Attached::Function(program) => Self::Function(Client::hearing(program)?),
        })
    }
}

impl<P: Platform + Send + Sync + 'static> Client<P> {
    /// Starts the thread that hears the owner.
    fn hearing(program: Program<P>) -> anyhow::Result<Self> {
        let program = Arc::new(program);
        let watch = Arc::new(Watch::default());
        let sink: Arc<dyn EventSink> = watch.clone();
        program.listen(&sink);
        let (hears, wants) = (program.clone(), Arc::downgrade(&watch));
        let hear = move || hears.hear_while(|| wants.strong_count() > 0);
        spawn("e810-events", hear).context("a thread for events")?;
        Ok(Self { program, watch })
    }
}

impl<P: Platform> Client<P> {
    /// Gives a command.
    ///
    /// # Errors
    /// The owner's refusal, or the owner is gone.
    pub fn ask<O: Operation>(&self, operation: O) -> Result<O::Answer, Refused> {
        let answer = self.program.call(operation.command())?;
        O::answer(answer).map_err(Refused::unexpected)
    }

    /// Fails once the function, or its owner, is gone.
    ///
    /// # Errors
    /// It is.
    pub fn check(&self) -> Result<(), Refused> {
        match self.watch.is_gone.load(Ordering::Acquire) {
            true => Err(Refused::gone("the server of the function has ended")),
            false => Ok(()),
        }
    }

    /// Makes what the device has written visible to reads.
    pub fn sync_from_device(&self) {
        self.program.sync_from_device();
    }

    /// Whether the device is a program of this machine, which needs a processor while this one waits.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        !self.program.maps_its_memory()
    }

    /// The address with this index; without one, the first that was given to the function, or the
    /// link-local one.
    ///
    /// # Errors
    /// There is none; the owner is gone.
    pub fn own_gid(&self, index: Option<u8>) -> Result<OwnGid, Refused> {
        let wanted = match &index {
            Some(index) => std::slice::from_ref(index),
            None => &[1, 0],
        };
        let table = self.ask(QueryGids {})?;
        for index in wanted.iter().copied() {
            if let Some(entry) = table.get(index) {
                return Ok(OwnGid { index, entry });
            }
        }
        let index = index.unwrap_or_default();
        Err(Refused::no_such("GID of index", index.into()))
    }

    /// The largest path MTU of the port.
    ///
    /// # Errors
    /// The owner is gone.
    pub fn mtu(&self) -> Result<Mtu, Refused> {
        let port = self.ask(QueryPort { port: 1 })?;
        Ok(port.active_mtu.unwrap_or(Mtu::Mtu256))
    }

    /// The Ethernet address of the next hop to `destination`; waits for its answer.
    ///
    /// # Errors
    /// Nobody answers, or there is no way to it; the owner is gone.
    pub fn resolve(&self, own: &OwnGid, destination: std::net::IpAddr) -> Result<MacAddr, Refused> {
        let resolve = Resolve {
            destination,
            vlan: own.entry.vlan,
            limit: None,
        };
        Ok(self.ask(resolve)?.mac)
    }

    /// Allocates a protection domain.
    ///
    /// # Errors
    /// None is left; the owner is gone.
    pub fn alloc_pd(&self) -> Result<ClientPd, Refused> {
        self.ask(AllocPd {}).map(ClientPd)
    }

    /// Deallocates it.
    ///
    /// # Errors
    /// Something uses it; the owner is gone.
    pub fn dealloc_pd(&self, pd: ClientPd) -> Result<(), Refused> {
        self.ask(DeallocPd { number: pd.0 })
    }

    /// Allocates `bytes` zeroed bytes of memory, which the device reaches directly, and registers
    /// them.
    ///
    /// # Errors
    /// No memory, or no place for the region; the owner is gone.
    pub fn alloc_mr(
        &self,
        pd: &ClientPd,
        bytes: usize,
        access: AccessFlags,
    ) -> Result<ClientMr, Refused> {
        let no_file = |error| Refused::by_system("memory for a region", &error);
        let buffer = Buffer::new(bytes).map_err(no_file)?;
        let memory = buffer.memory();
        let lent = if self.program.maps_its_memory() {
            None
        } else {
            let file = memory.file().try_clone_to_owned().map_err(no_file)?;
            let lend = Lend {
                bytes: memory.len() as u64,
                address: Some(memory.address()),
            };
            Some(self.program.lend(lend, file)?)
        };
        let registered = self.ask(RegMr {
            pd: pd.0,
            memory: Memory {
                address: memory.start().as_ptr().addr(),
                length: bytes,
            },
            iova: memory.address(),
            access,
        });
        match registered {
            Ok(key) => Ok(ClientMr { buffer, lent, key }),
            Err(refused) => {
                // At the latest it is taken back when the client is gone.
                let _ = self.take_back(lent);
                Err(refused)
            }
        }
    }

    /// Deregisters memory. It stays in this process, where windows on it may be anywhere.
    ///
    /// # Errors
    /// The device's refusal; the owner is gone.
    pub fn dereg_mr(&self, mr: ClientMr) -> Result<(), Refused> {
        self.ask(DeregMr { key: mr.key })?;
        self.take_back(mr.lent)
    }

    fn take_back(&self, lent: Option<u64>) -> Result<(), Refused> {
        lent.map_or(Ok(()), |iova| self.ask(TakeBack { iova }))
    }

    /// Creates a completion queue for at least `entries` completions.
    ///
    /// # Errors
    /// A size that the device does not have, no memory, none left; the owner is gone.
    pub fn create_cq(&self, entries: u32) -> Result<ClientCq<P>, Refused> {
        let rings = self.program.rings();
        let memory = rings
            .cq_memory(entries)
            .map_err(self.program.why_no_memory())?;
        let granted = self.ask(CreateCq {
            place: memory.place(),
            vector: 0,
            token: Token::next(),
        });
        match granted {
            Ok(granted) => Ok(ClientCq {
                number: granted.number(),
                ring: rings.cq(memory, &granted)?,
            }),
            Err(refused) => {
                if refused.kind != Kind::MayUseMemory {
                    memory.release();
                }
                Err(refused)
            }
        }
    }

    /// Destroys it.
    ///
    /// # Errors
    /// A queue pair uses it; the owner is gone.
    pub fn destroy_cq(&self, cq: ClientCq<P>) -> Result<(), Refused> {
        let destroyed = self.ask(DestroyCq { number: cq.number })?;
        cq.ring.release(&destroyed);
        Ok(())
    }

    /// Creates a reliably connected queue pair that completes to `cq`.
    ///
    /// # Errors
    /// Sizes that the device does not have, no memory, none left; the owner is gone.
    pub fn create_qp(
        &self,
        pd: &ClientPd,
        cq: &ClientCq<P>,
        caps: QpCaps,
    ) -> Result<ClientQp<P>, Refused> {
        let rings = self.program.rings();
        let memory = rings
            .qp_memory(&caps)
            .map_err(self.program.why_no_memory())?;
        let granted = self.ask(CreateQp {
            pd: pd.0,
            qp_type: QpType::Rc,
            send_cq: cq.number,
            recv_cq: cq.number,
            caps,
            signal_all: false,
            token: Token::next(),
            place: memory.place(),
        });
        match granted {
            Ok((granted, _)) => {
                let (send, recv) = rings.qp(memory, &granted)?;
                Ok(ClientQp {
                    number: granted.number(),
                    send,
                    recv,
                })
            }
            Err(refused) => {
                if refused.kind != Kind::MayUseMemory {
                    memory.release();
                }
                Err(refused)
            }
        }
    }

    /// Changes a queue pair.
    ///
    /// # Errors
    /// A change that its state does not allow; the owner is gone.
    pub fn modify_qp(&self, qp: &ClientQp<P>, attr: QpAttr) -> Result<(), Refused> {
        let (number, attr) = (qp.number.get(), Box::new(attr));
        self.ask(ModifyQp { number, attr })
    }

    /// Connects a queue pair: from RESET to RTS. Its first packet sequence number is
    /// [`ClientQp::psn`].
    ///
    /// # Errors
    /// As [`modify_qp`](Self::modify_qp).
    pub fn connect(
        &self,
        qp: &ClientQp<P>,
        access: AccessFlags,
        (path, mtu): (Path, Mtu),
        (peer, peer_psn): (Qpn, u32),
    ) -> Result<(), Refused> {
        self.modify_qp(qp, QpAttr::to_init(access))?;
        self.modify_qp(qp, QpAttr::to_rtr(path, mtu, peer, peer_psn))?;
        self.modify_qp(qp, QpAttr::to_rts(qp.psn()))
    }

    /// Destroys a queue pair.
    ///
    /// # Errors
    /// The device's refusal; the owner is gone.
    pub fn destroy_qp(&self, qp: ClientQp<P>) -> Result<(), Refused> {
        let number = qp.number.get();
        let destroyed = self.ask(DestroyQp { number })?;
        qp.send.release(&destroyed);
        qp.recv.release(&destroyed);
        Ok(())
    }
}

impl ClientPd {
    /// Its number, in commands.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.0
    }
}

impl ClientMr {
    /// The memory.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes {
        self.buffer.bytes()
    }

    /// Its key, for local use and for peers.
    #[must_use]
    pub const fn key(&self) -> u32 {
        self.key
    }
}

impl<P: Platform> ClientQp<P> {
    /// Its number, for the peer.
    #[must_use]
    pub const fn number(&self) -> Qpn {
        self.number
    }

    /// The first packet sequence number that it sends.
    #[must_use]
    pub const fn psn(&self) -> u32 {
        0x10_0000 | self.number.get()
    }
}

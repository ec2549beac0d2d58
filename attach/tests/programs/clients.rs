//! Rust programs that attach by the path of a socket, and lend nothing but their registered memory.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use e810::{AccessFlags, Data, Op, Path, QpCaps, Remote, SendFlags, SendWr, Sge, Wc};
use e810_attach::client::{AnyClient, Client, ClientCq, ClientMr, ClientPd, ClientQp};
use e810_attach::listener::Listener;
use e810_attach::messages::{Memory, RegMr, Resource};
use e810_attach::owner::{AskedLimits, Owner};
use e810_attach::platform::AttachedPlatform;
use e810_attach::reception::Reception;
use e810_backends::HostDevice;

use crate::{Scenario, with_function};

const LIMIT: Duration = Duration::from_secs(60);
const ACCESS: AccessFlags = AccessFlags::LOCAL_WRITE
    .union(AccessFlags::REMOTE_WRITE)
    .union(AccessFlags::REMOTE_READ);
const BYTES: usize = 1 << 14;
const CAPS: QpCaps = QpCaps {
    max_send_wr: 32,
    max_recv_wr: 32,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline: 0,
};

fn attach(path: &std::path::Path) -> Client<AttachedPlatform> {
    match AnyClient::attach(path).unwrap() {
        AnyClient::Simulated(client) => client,
        AnyClient::Function(_) => panic!("it is simulated"),
    }
}

struct One {
    client: Client<AttachedPlatform>,
    pd: ClientPd,
    mr: ClientMr,
    cq: ClientCq<AttachedPlatform>,
    qp: ClientQp<AttachedPlatform>,
}

impl One {
    fn at(path: &std::path::Path) -> Self {
        let client = attach(path);
        let pd = client.alloc_pd().unwrap();
        let mr = client.alloc_mr(&pd, BYTES, ACCESS).unwrap();
        let cq = client.create_cq(64).unwrap();
        let qp = client.create_qp(&pd, &cq, CAPS).unwrap();
        Self {
            client,
            pd,
            mr,
            cq,
            qp,
        }
    }

    fn connect(&self, peer: &ClientQp<AttachedPlatform>) {
        let own = self.client.own_gid(None).unwrap();
        let ip = own.entry.gid.ip();
        let mac = self.client.resolve(&own, ip).unwrap();
        let path = (Path::new(own.index, ip, mac), self.client.mtu().unwrap());
        let peer = (peer.number(), peer.psn());
        self.client.connect(&self.qp, ACCESS, path, peer).unwrap();
    }

    /// Writes the first `count` pieces of its memory to the same places of another's.
    fn write(&mut self, count: usize, to: &ClientMr) -> Vec<Wc> {
        let address = self.mr.bytes().address();
        for n in 0..count {
            let sge = Sge {
                addr: address + 64 * n as u64,
                length: 8,
                lkey: self.mr.key(),
            };
            let remote = Remote {
                addr: to.bytes().address() + 64 * n as u64,
                rkey: to.key(),
            };
            let request = SendWr {
                wr_id: n as u64,
                op: Op::Write {
                    data: Data::Sges(&[sge]),
                    remote,
                    imm: None,
                },
                flags: SendFlags::SIGNALED,
            };
            self.qp.send.post_send(&[request]).unwrap();
        }
        let limit = Instant::now() + LIMIT;
        let mut all = Vec::new();
        while all.len() < count {
            let mut wc = [Wc::default()];
            match self.cq.ring.poll(&mut wc) {
                1 => all.extend(wc),
                _ => thread::yield_now(),
            }
            assert!(Instant::now() < limit, "{} of {count} writes", all.len());
        }
        all
    }

    fn end(self) {
        self.client.destroy_qp(self.qp).unwrap();
        self.client.destroy_cq(self.cq).unwrap();
        self.client.dereg_mr(self.mr).unwrap();
        self.client.dealloc_pd(self.pd).unwrap();
    }
}

#[derive(Clone, Copy)]
struct Attach;

impl Scenario for Attach {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        let path = std::env::temp_dir().join(format!("e810-client-{}", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        let (for_sessions, device) = (owner.clone(), function.clone());
        thread::spawn(move || {
            while let Ok(socket) = listener.accept() {
                let reception = Reception::new(for_sessions.clone(), device.clone());
                let peer = socket.peer().unwrap();
                thread::spawn(move || drop(reception.receive(Arc::new(socket), peer)));
            }
        });
        let [mut a, b] = [One::at(&path), One::at(&path)];
        a.connect(&b.qp);
        b.connect(&a.qp);
        for n in 0..16_u64 {
            a.mr.bytes()
                .write(64 * n as usize, &n.to_le_bytes())
                .unwrap();
        }
        let written = a.write(16, &b.mr);
        assert!(
            written.iter().all(|wc| wc.status.is_success()),
            "{written:?}"
        );
        for n in 0..16_u64 {
            let mut bytes = [0; 8];
            b.mr.bytes().read(64 * n as usize, &mut bytes).unwrap();
            assert_eq!(u64::from_le_bytes(bytes), n);
        }
        // Memory that was not lent: the device cannot reach it, and says so at once.
        let own = [0_u8; 64];
        let foreign = RegMr {
            pd: a.pd.number(),
            memory: Memory {
                address: own.as_ptr().addr(),
                length: own.len(),
            },
            iova: own.as_ptr().addr() as u64,
            access: ACCESS,
        };
        assert_eq!(a.client.ask(foreign).unwrap_err().errno, libc::EFAULT);
        a.client.check().unwrap();
        // Nothing is left of programs that destroy what they have, or are just gone.
        a.end();
        drop(b);
        let limit = Instant::now() + LIMIT;
        while !owner.programs().is_empty() {
            assert!(
                Instant::now() < limit,
                "programs stay: {:?}",
                owner.programs()
            );
            thread::sleep(Duration::from_millis(10));
        }
        let lock = path.with_extension("lock");
        for left in [path, lock] {
            let _ = std::fs::remove_file(left);
        }
    }
}

#[test]
fn rust_programs_attach_and_lend_what_they_register() {
    with_function(Attach);
}

#[derive(Clone, Copy)]
struct CountsOnce;

impl Scenario for CountsOnce {
    fn run<D: HostDevice>(self, owner: &Arc<Owner<D>>, function: &D) {
        const MOST: u64 = 4 << 20;
        let path = std::env::temp_dir().join(format!("e810-once-{}", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        let reception = Reception::new(owner.clone(), function.clone());
        thread::spawn(move || {
            let socket = listener.accept().unwrap();
            let peer = socket.peer().unwrap();
            drop(reception.receive(Arc::new(socket), peer));
        });
        owner.limit(&AskedLimits {
            program: vec![(Resource::Bytes, MOST)],
            ..AskedLimits::default()
        });
        let client = attach(&path);
        let pd = client.alloc_pd().unwrap();
        let bytes = MOST as usize * 3 / 4;
        let made = client.alloc_mr(&pd, bytes, ACCESS).map(drop);
        assert!(made.is_ok(), "{bytes} of {MOST} bytes: {made:?}");
    }
}

#[test]
fn memory_that_a_program_lends_and_registers_counts_once() {
    with_function(CountsOnce);
}

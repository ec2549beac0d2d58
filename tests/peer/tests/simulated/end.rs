//! One end of a connection: a function with the library, a queue pair, memory.

use std::net::Ipv4Addr;
use std::ptr::{self, NonNull};

use e810_datapath::Sge;
use e810_hal::{Clock, SharedBytes};
use e810_peer::request::Request;
use e810_peer::simulated::{Address, Node};
use e810_peer::{Calls, Library, LibraryAh, LibraryCq, LibraryMr, LibraryQp};
use e810_sim::Sim;
use e810_verbs::abi::constants::access;
use e810_verbs::abi::make::QpCap;
use e810_verbs::abi::state::{AhAttr, Gid, GlobalRoute};
use e810_verbs::abi::work::Wc;

/// Bytes of each end's memory.
pub(crate) const BYTES: usize = 128 << 10;
/// Most SGEs of both queues.
pub(crate) const SGES: u32 = 5;
/// Most inline bytes.
pub(crate) const INLINE: u32 = 101;
/// Q_Key of datagrams.
pub(crate) const QKEY: u32 = 0x1111_2222;

const ALL: i32 = (access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ) as i32;

/// Turns of the simulator without a completion before a test gives up.
const PATIENCE: usize = 300_000;

pub(crate) struct End {
    pub(crate) node: Node,
    calls: Calls,
    pub(crate) cq: LibraryCq,
    pub(crate) qp: LibraryQp,
    pub(crate) memory: SharedBytes,
    pub(crate) mr: LibraryMr,
    pub(crate) ah: Option<LibraryAh>,
}

fn room(bytes: usize) -> SharedBytes {
    let words: &'static [std::sync::atomic::AtomicU64] =
        Box::leak((0..bytes / 8).map(|_| 0.into()).collect());
    // SAFETY: leaked, and only ever used atomically.
    unsafe { SharedBytes::new(NonNull::from(words).cast(), bytes) }
}

impl End {
    pub(crate) fn new(library: &Library, sim: &Sim, function: u8, qp_type: i32) -> Self {
        let ip = Ipv4Addr::new(10, 0, 0, function + 1);
        let node = Node::new(library, sim.function(function), ip).expect("a node");
        let calls = node.opened.calls().unwrap();
        let cq = node.opened.create_cq(100).unwrap();
        let cap = QpCap {
            max_send_wr: 60,
            max_recv_wr: 40,
            max_send_sge: SGES,
            max_recv_sge: SGES,
            max_inline_data: INLINE,
        };
        let qp = node
            .opened
            .create_qp(node.pd, &cq, qp_type, cap, false)
            .unwrap();
        let memory = room(BYTES);
        let mr = node.opened.reg_mr(node.pd, memory, ALL).unwrap();
        Self {
            node,
            calls,
            cq,
            qp,
            memory,
            mr,
            ah: None,
        }
    }

    pub(crate) fn address(&self) -> Address {
        self.node.kernel.borrow().address()
    }

    pub(crate) fn connect(&mut self, peer: Address, peer_qp: u32, datagrams: bool) {
        let mut kernel = self.node.kernel.borrow_mut();
        kernel.know(peer).unwrap();
        kernel.connect(self.qp.id, peer, peer_qp, QKEY).unwrap();
        drop(kernel);
        if datagrams {
            let attr = AhAttr {
                grh: GlobalRoute {
                    dgid: Gid {
                        raw: peer.ip.to_ipv6_mapped().octets(),
                    },
                    hop_limit: 64,
                    ..GlobalRoute::default()
                },
                is_global: 1,
                port_num: 1,
                ..AhAttr::default()
            };
            self.ah = Some(self.node.opened.create_ah(self.node.pd, attr).unwrap());
        }
    }

    /// A piece of this end's memory as an SGE.
    pub(crate) fn sge(&self, offset: usize, bytes: usize) -> Sge {
        Sge {
            addr: self.memory.address() + offset as u64,
            lkey: self.mr.key(),
            length: bytes as u32,
        }
    }

    pub(crate) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.memory.read(offset, &mut read).unwrap();
        read
    }

    /// Posts a list through the library, and rings for it.
    pub(crate) fn post(&self, list: &[Request]) {
        let ah = self.ah.as_ref().map_or(ptr::null_mut(), LibraryAh::as_ptr);
        let (code, _) = self.qp.post_list(&self.calls, ah, list);
        assert_eq!(code, 0, "{list:#?}");
        assert!(self.node.carry(), "the library rang");
    }

    pub(crate) fn post_recv(&self, wr_id: u64, sges: &[Sge]) {
        assert_eq!(self.qp.post_recv(&self.calls, wr_id, sges), 0);
        assert!(!self.node.carry(), "receives have no doorbell");
    }

    /// What the library reads from the CQ now.
    pub(crate) fn poll(&self) -> Vec<Wc> {
        self.cq.poll(&self.calls).unwrap()
    }

    /// Asks for an event at the next completion.
    pub(crate) fn arm(&self) {
        self.node.opened.req_notify(&self.cq, false).unwrap();
        assert!(self.node.carry(), "the library armed");
    }
}

/// Polls both ends until they have said this much, and a little longer.
pub(crate) fn wait(ends: &[End; 2], wanted: [usize; 2]) -> [Vec<Wc>; 2] {
    let mut said = [Vec::new(), Vec::new()];
    let mut turns = 0;
    let enough = |said: &[Vec<Wc>; 2]| (0..2).all(|n| said[n].len() >= wanted[n]);
    while !enough(&said) {
        for (end, said) in ends.iter().zip(&mut said) {
            said.extend(end.poll());
        }
        ends[0].node.nic.relax();
        turns += 1;
        assert!(
            turns < PATIENCE,
            "{said:#?} of {wanted:?}, {:?}",
            ends[0].node.kernel
        );
    }
    // Whatever is too much comes now.
    for _ in 0..100 {
        ends[0].node.nic.relax();
    }
    for (end, said) in ends.iter().zip(&mut said) {
        said.extend(end.poll());
    }
    said
}

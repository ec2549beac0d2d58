//! As many objects as a program may want, at once.

use std::time::Instant;

use e810::hmc::{Backing, Capacity};
use e810::{AccessFlags, Config, QpCaps, QpInit, bring_up};
use e810_sim::{DmaSegmentation, Profile, Sim};
use e810_tests::traffic::{Buffer, Watched};

const QPS: usize = 4096;
const CQS: usize = 8192;
const MRS: usize = 65_536;

/// A choice that differs each time and repeats with its seed.
struct Choice(u64);

impl Choice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Cq,
    Qp,
    Mr,
}

/// All of them exist at once, made and destroyed in no order, each number and
/// key its own; nothing is left behind.
#[test]
fn thousands_of_objects_at_once() {
    let sim = Sim::builder()
        .functions(1)
        .seed(7)
        .profile(Profile::card())
        .segmentation(DmaSegmentation::Contiguous)
        .build();
    let function = sim.function(0);
    let lan = e810::Lan {
        vsi: e810::VsiId::new(function.vsi()).unwrap(),
        mac: e810::MacAddr(function.mac()),
        mtu: 1500,
    };
    let config = Config {
        capacity: Capacity {
            qps: QPS as u32 + 3,
            cqs: CQS as u32 + 3,
            mrs: MRS as u32 + 1,
            ..Capacity::DEFAULT
        },
        backing: Backing::OnDemand,
        // The smallest send ring and the smallest receive ring.
        tracker_words_per_qp: 1024,
        ..Config::new(lan)
    };
    let began = Instant::now();
    let platform = Watched::new(function);
    let device = bring_up(platform, &config, &mut |_| {}).unwrap();
    let (mut control, events) = device.split();
    let at_first = control.hmc().backed_bytes();
    let said = control.query_device();
    assert!(said.max_qp as usize >= QPS && said.max_cq as usize >= CQS);
    assert_eq!(said.max_mr as usize, MRS);
    let pd = control.alloc_pd().unwrap();
    let memory = Buffer::new(4096);
    let caps = QpCaps {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    };
    let mut choice = Choice(0x9E37_79B9);
    let (mut cqs, mut qps, mut mrs) = (Vec::new(), Vec::new(), Vec::new());
    while cqs.len() < CQS || qps.len() < QPS || mrs.len() < MRS {
        let kinds = [Kind::Cq, Kind::Qp, Kind::Mr, Kind::Mr, Kind::Mr, Kind::Mr];
        match kinds[choice.below(kinds.len())] {
            Kind::Cq if cqs.len() < CQS => {
                let vectors = control.completion_vectors().min(4);
                let vector = choice.below(usize::from(vectors)) as u16;
                cqs.push(control.create_cq(1, vector).unwrap());
            }
            Kind::Qp if qps.len() < QPS && !cqs.is_empty() => {
                let [send, recv] = [0, 1].map(|_| &cqs[choice.below(cqs.len())]);
                let init = QpInit::rc(send, recv, caps);
                qps.push(control.create_qp(&pd, &init).unwrap());
            }
            Kind::Mr if mrs.len() < MRS => {
                let window = memory.bytes().window(choice.below(4000), 64).unwrap();
                let mr = control.reg_mr(&pd, window, AccessFlags::LOCAL_WRITE);
                mrs.push(mr.unwrap());
            }
            _ => {}
        }
    }
    let distinct = |numbers: Vec<u32>| {
        let all = numbers.len();
        let set: std::collections::BTreeSet<u32> = numbers.into_iter().collect();
        assert_eq!(set.len(), all);
    };
    distinct(cqs.iter().map(|cq| cq.number()).collect());
    distinct(qps.iter().map(|qp| qp.number().get()).collect());
    distinct(mrs.iter().map(|mr| mr.rkey() >> 8).collect());
    assert!(control.create_cq(1, 0).is_err() || said.max_cq as usize > CQS);
    assert!(
        control
            .reg_mr(&pd, memory.bytes(), AccessFlags::empty())
            .is_err()
    );
    let held = sim.memory(0);
    println!(
        "{QPS} QPs, {CQS} CQs, {MRS} regions after {:?}: HMC {} MiB backed ({} MiB at first), {held:?}",
        began.elapsed(),
        control.hmc().backed_bytes() >> 20,
        at_first >> 20,
    );
    // Each is used before it goes: a queue pair changes its state.
    while !(qps.is_empty() && mrs.is_empty()) {
        if !qps.is_empty() && choice.below(8) == 0 {
            let mut qp = qps.swap_remove(choice.below(qps.len()));
            let to_init = e810::QpAttr::to_init(AccessFlags::REMOTE_READ);
            control.modify_qp(&mut qp, &to_init).unwrap();
            let number = qp.number();
            let again = control.destroy_qp(qp).map_err(|(_, error)| error);
            again.unwrap();
            let _ = number;
        }
        if !mrs.is_empty() {
            let mr = mrs.swap_remove(choice.below(mrs.len()));
            control.dereg_mr(mr).map_err(|(_, error)| error).unwrap();
        }
    }
    for mut cq in cqs {
        let mut none = [e810::Wc::default(); 1];
        assert_eq!(cq.poll(&mut none), 0);
        control.destroy_cq(cq).map_err(|(_, error)| error).unwrap();
    }
    control.dealloc_pd(pd).map_err(|(_, error)| error).unwrap();
    control
        .shutdown(events)
        .map_err(|failed| failed.error)
        .unwrap();
    assert!(sim.memory(0).nothing_held());
    assert_eq!(sim.findings(), []);
}

//! What sequences of calls have found, each as a few calls, and short sequences of both libraries. One test: the
//! process has its functions once.

// UNSAFETY: calls the C interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::{mem, ptr};

use e810_verbs::abi::device::{Context, VerbsContext};
use e810_verbs::abi::make::{ParentDomainInitAttr, QpCap, QpInitAttr, QpInitAttrEx};
use e810_verbs::abi::objects::{Pd, Qp};
use e810_verbs::abi::state::{Gid, QpAttr};
use e810_verbs_fuzz::api::Api;
use e810_verbs_fuzz::campaign::{Campaign, prepare, report};
use e810_verbs_fuzz::cm;
use e810_verbs_fuzz::run::{Apis, Tally, errno};
use libc::{EBUSY, EINVAL};

struct Two {
    api: Api,
    ctxs: [*mut Context; 2],
}

impl Two {
    /// Two contexts of one function.
    fn open(api: Api) -> Self {
        // SAFETY: a list that is freed, and a device of it.
        unsafe {
            let list = (api.get_device_list)(ptr::null_mut());
            let ctxs = [0, 1].map(|_| (api.open_device)(*list));
            (api.free_device_list)(list);
            Self { api, ctxs }
        }
    }

    fn verbs(&self) -> *mut VerbsContext {
        let offset = mem::offset_of!(VerbsContext, context);
        self.ctxs[0].wrapping_byte_sub(offset).cast()
    }

    fn parent(&self, pd: *mut Pd) -> *mut Pd {
        // SAFETY: null pointers and numbers; objects that are live.
        unsafe {
            let mut attr: ParentDomainInitAttr = mem::zeroed();
            attr.pd = pd;
            ((*self.verbs()).alloc_parent_domain.unwrap())(self.ctxs[0], &raw mut attr)
        }
    }

    fn close(&self) {
        for ctx in self.ctxs {
            // SAFETY: it is open.
            assert_eq!(unsafe { (self.api.close_device)(ctx) }, 0);
        }
    }
}

/// A parent domain of one is one of the same protection domain, and may outlive it.
fn parents_of_parents(two: &Two) {
    let api = &two.api;
    // SAFETY: objects that are live.
    unsafe {
        let pd = (api.alloc_pd)(two.ctxs[0]);
        let first = two.parent(pd);
        let second = two.parent(first);
        assert_eq!((api.dealloc_pd)(first), 0);
        assert_eq!((api.dealloc_pd)(pd), EBUSY);
        assert_eq!((api.dealloc_pd)(second), 0);
        let imported = (api.import_pd)(two.ctxs[0], (*pd).handle);
        let of_imported = two.parent(imported);
        (api.unimport_pd)(imported);
        assert_eq!((api.dealloc_pd)(of_imported), 0);
        assert_eq!((api.dealloc_pd)(pd), 0);
    }
}

/// A region may outlive the parent domain that it was made with, and be changed then.
fn a_region_outlives_its_parent_domain(two: &Two) {
    let api = &two.api;
    let mut memory = [0u8; 4096];
    // SAFETY: objects that are live, and memory that is there.
    unsafe {
        let pd = (api.alloc_pd)(two.ctxs[0]);
        let parent = two.parent(pd);
        let mr = (api.reg_mr)(parent, memory.as_mut_ptr().cast(), memory.len(), 1);
        assert_eq!((api.dealloc_pd)(parent), 0);
        let nothing = ptr::null_mut();
        assert_eq!((api.rereg_mr)(mr, 4, ptr::null_mut(), nothing, 0, 7), 0);
        // Nor does it take the protection domain of another context.
        let other = (api.alloc_pd)(two.ctxs[1]);
        assert_eq!((api.rereg_mr)(mr, 2, other, nothing, 0, 0), -1);
        assert_eq!(errno(), EINVAL);
        assert_eq!((api.dereg_mr)(mr), 0);
        assert_eq!((api.dealloc_pd)(other), 0);
        assert_eq!((api.dealloc_pd)(pd), 0);
    }
}

/// A close takes the protection domain away from the device, whatever parents it has, and the
/// program's pointers go in their order.
fn a_parent_domain_outlives_its_context(api: Api) {
    let two = Two::open(api);
    // SAFETY: objects that are live.
    unsafe {
        let pd = (api.alloc_pd)(two.ctxs[0]);
        let parent = two.parent(pd);
        two.close();
        assert_eq!((api.dealloc_pd)(pd), EBUSY);
        assert_eq!((api.dealloc_pd)(parent), 0);
        assert_eq!((api.dealloc_pd)(pd), 0);
    }
}

/// A queue pair, `kind` 4, in RESET.
fn queue_pair(two: &Two, pd: *mut Pd) -> *mut Qp {
    let api = &two.api;
    let none = ptr::null_mut();
    // SAFETY: objects that are live.
    unsafe {
        let cq = (api.create_cq)(two.ctxs[0], 16, none, ptr::null_mut(), 0);
        let mut attr: QpInitAttr = mem::zeroed();
        (attr.send_cq, attr.recv_cq, attr.qp_type) = (cq, cq, 4);
        attr.cap = CAP;
        (api.create_qp)(pd, &raw mut attr)
    }
}

const CAP: QpCap = QpCap {
    max_send_wr: 4,
    max_recv_wr: 4,
    max_send_sge: 1,
    max_recv_sge: 1,
    max_inline_data: 0,
};

/// RESET leaves no group: afterwards it can be left, and the queue pair destroyed.
fn groups_outlive_a_reset(two: &Two) {
    let api = &two.api;
    let mut raw = [0; 16];
    raw[..2].copy_from_slice(&[0xFF, 0x0E]);
    raw[15] = 5;
    let group = Gid { raw };
    // SAFETY: objects that are live.
    unsafe {
        let pd = (api.alloc_pd)(two.ctxs[0]);
        let qp = queue_pair(two, pd);
        let cq = (*qp).send_cq;
        assert_eq!((api.attach_mcast)(qp, &raw const group, 0), 0);
        let mut attr: QpAttr = mem::zeroed();
        attr.port_num = 1;
        for (state, mask) in [(1, 0x71), (0, 1)] {
            attr.qp_state = state;
            assert_eq!((api.modify_qp)(qp, &raw mut attr, mask), 0);
        }
        assert_eq!((api.destroy_qp)(qp), EBUSY);
        assert_eq!((api.detach_mcast)(qp, &raw const group, 0), 0);
        assert_eq!((api.destroy_qp)(qp), 0);
        assert_eq!((api.destroy_cq)(cq), 0);
        assert_eq!((api.dealloc_pd)(pd), 0);
    }
}

/// The protection domain of another context is refused, as its completion queues are.
fn a_queue_pair_is_of_one_context(two: &Two) {
    let api = &two.api;
    let none = ptr::null_mut();
    // SAFETY: objects that are live.
    unsafe {
        let pd = (api.alloc_pd)(two.ctxs[1]);
        let cq = (api.create_cq)(two.ctxs[1], 16, none, ptr::null_mut(), 0);
        let mut attr: QpInitAttrEx = mem::zeroed();
        (attr.send_cq, attr.recv_cq, attr.qp_type) = (cq, cq, 2);
        (attr.cap, attr.comp_mask, attr.pd) = (CAP, 1, pd);
        let made = ((*two.verbs()).create_qp_ex.unwrap())(two.ctxs[0], &raw mut attr);
        assert!(made.is_null());
        assert_eq!(errno(), EINVAL);
        assert_eq!((api.destroy_cq)(cq), 0);
        assert_eq!((api.dealloc_pd)(pd), 0);
    }
}

#[test]
fn what_was_found_and_a_hundred_thousand_calls() {
    prepare();
    let api = Api::linked();
    let two = Two::open(api);
    parents_of_parents(&two);
    a_region_outlives_its_parent_domain(&two);
    groups_outlive_a_reset(&two);
    a_queue_pair_is_of_one_context(&two);
    two.close();
    a_parent_domain_outlives_its_context(api);
    // Both together reach everything.
    let mut tally = Tally::default();
    for (seed, threads) in [(1, 1), (1001, 3)] {
        println!("seed {seed}, {threads} threads");
        let campaign = Campaign {
            api: Apis::linked(),
            seed,
            calls: 100_000,
            threads,
            is_linked: true,
        };
        tally.add(&campaign.run());
    }
    report(&tally).unwrap();
    // This seed's sequences wait for what takes long.
    let campaign = Campaign {
        api: Apis::linked(),
        seed: 16,
        calls: 30_000,
        threads: 1,
        is_linked: true,
    };
    cm::campaign::report(&cm::campaign::run(&campaign)).unwrap();
}

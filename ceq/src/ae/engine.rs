//! Codes about the protocol engine itself: failures of its contexts, and the
//! end of a suspension.

use super::{GEN3, asynchronous_events};

asynchronous_events! {
    0x0700 LCE_QP_CATASTROPHIC: Qp, FATAL, Flush, Roce,
        "the engine could not use the QP's context",
        "check GLPE_CRITERR and PFHMC_ERRORINFO, and that the QP's HMC memory is backed; destroy the QP";
    0x0701 LCE_FUNCTION_CATASTROPHIC: Source, GENERAL, Flush, Roce,
        "the engine could not use the function's context",
        "check GLPE_CRITERR and PFHMC_ERRORINFO, then reset the function";
    // Existing drivers drop this one. Here the CQ's users are notified, because nothing else
    // tells them that it will stay silent.
    0x0702 LCE_CQ_CATASTROPHIC: Cq, GENERAL, CqError, Roce,
        "the engine could not use a CQ's context",
        "check that the CQ's HMC memory is backed and its buffer mapped; destroy the CQ and its QPs";
    0x0703 REMOTE_QP_CATASTROPHIC: Qp, FATAL, Flush, Roce,
        "the peer's QP failed",
        "look at the peer's events, then connect both QPs anew";
    0x0704 LOCAL_QP_CATASTROPHIC: Qp, FATAL, Flush, Roce,
        "the QP failed",
        "check that its queues and their memory are mapped for the device (IOMMU faults), then make a new QP";
    0x0705 RCE_QP_CATASTROPHIC: Qp, FATAL, Flush, Roce,
        "the receiving side of the engine could not use the QP's context",
        "check GLPE_CRITERR and PFHMC_ERRORINFO, and that the QP's HMC memory is backed; destroy the QP";
    0x0900 QP_SUSPEND_COMPLETE: Qp, GENERAL, SuspendDone, Roce,
        "the QP is suspended",
        "nothing is wrong: it goes on with the queue set that RESUME_QP names";
    0x0901 CQP_DEFERRED_COMPLETE: Nothing, GENERAL, Report, Gen3,
        "a control request that was put off is complete", GEN3;
    0x0B0B ADAPTER_CATASTROPHIC: Source, GENERAL, Flush, Roce,
        "the whole adapter failed",
        "reset the device (CORER, or unload every driver of the card), and read the firmware log";
}

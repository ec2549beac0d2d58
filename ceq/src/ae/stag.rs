//! Codes about STags: regions, windows, and the requests that use them.

use super::asynchronous_events;

asynchronous_events! {
    0x0102 AMP_UNALLOCATED_STAG: Source, PROT, Flush, Roce,
        "a request used an STag index that is valid but not allocated",
        "check that the lkey or rkey belongs to a region that is still registered";
    0x0103 AMP_INVALID_STAG: Source, PROT, Flush, Roce,
        "a request used an STag that is in the invalid state",
        "register the region, or bind the window, before using its key; an invalidate may have come first";
    0x0104 AMP_BAD_QP: Source, PROT, Flush, Roce,
        "a request used an STag that is bound to another QP",
        "use a type-2 window only on the QP it was bound on";
    0x0105 AMP_BAD_PD: Source, PROT, Flush, Roce,
        "the STag and the QP are in different protection domains",
        "register the region in the QP's protection domain";
    0x0106 AMP_BAD_STAG_KEY: Source, PROT, Flush, Roce,
        "the low 8 bits of the key are not those the STag has now",
        "use the key that the last registration returned, and tell the peer about a new one";
    0x0107 AMP_BAD_STAG_INDEX: Source, PROT, Flush, Roce,
        "the STag index is out of range",
        "check the lkey of every SGE, and the rkey: this is no key that the device gave out";
    0x0108 AMP_BOUNDS_VIOLATION: Source, PROT, Flush, Roce,
        "an access went outside the region",
        "check address and length of every SGE and of the remote access against the region";
    0x0109 AMP_RIGHTS_VIOLATION: Source, PROT, Flush, Roce,
        "the region does not grant the access",
        "register it with LOCAL_WRITE for receives and reads, REMOTE_READ or REMOTE_WRITE for the peer";
    0x010A AMP_TO_WRAP: Source, PROT, Flush, Roce,
        "address plus length goes past 2^64",
        "check address and length of the request";
    0x010C AMP_FASTREG_VALID_STAG: Source, GENERAL, Flush, Roce,
        "a fast register named an STag that is valid already",
        "invalidate it first (LOCAL_INV, or SEND with invalidate from the peer)";
    0x010D AMP_FASTREG_MW_STAG: Source, GENERAL, Flush, Roce,
        "a fast register named the STag of a memory window",
        "use the key of a region allocated for fast registration";
    0x010E AMP_FASTREG_INVALID_RIGHTS: Source, GENERAL, Flush, Roce,
        "a fast register asked for rights that cannot be combined",
        "check the access flags: remote write needs local write";
    0x0110 AMP_FASTREG_INVALID_LENGTH: Source, GENERAL, Flush, Roce,
        "a fast register gave a length the page list does not cover",
        "check length, page size and number of pages of the fast register";
    0x0111 AMP_INVALIDATE_SHARED: Source, GENERAL, Flush, Roce,
        "an invalidate named a shared STag",
        "deregister shared regions instead of invalidating them";
    0x0112 AMP_INVALIDATE_NO_REMOTE_ACCESS_RIGHTS: Source, REM_ACCESS, Flush, Roce,
        "the peer invalidated an STag that has no remote rights",
        "check the key that the peer puts into SEND with invalidate";
    0x0113 AMP_INVALIDATE_MR_WITH_BOUND_WINDOWS: Source, GENERAL, Flush, Roce,
        "an invalidate named a region that still has windows bound to it",
        "invalidate the windows first";
    0x0114 AMP_MWBIND_VALID_STAG: Source, MW_BIND, Flush, Roce,
        "a bind named a window that is bound already",
        "invalidate the window before binding it again";
    0x0115 AMP_MWBIND_OF_MR_STAG: Source, GENERAL, Flush, Roce,
        "a bind named a region where the window belongs",
        "give the window's key as window, the region's as parent";
    0x0116 AMP_MWBIND_TO_ZERO_BASED_STAG: Source, GENERAL, Flush, Roce,
        "a bind named a zero-based region as parent",
        "register the parent with its virtual address";
    0x0117 AMP_MWBIND_TO_MW_STAG: Source, GENERAL, Flush, Roce,
        "a bind named a window as parent",
        "give the key of the region as parent";
    0x0118 AMP_MWBIND_INVALID_RIGHTS: Source, MW_BIND, Flush, Roce,
        "a bind asked for rights that its parent does not have",
        "register the parent with MW_BIND and the rights the window is to have";
    0x0119 AMP_MWBIND_INVALID_BOUNDS: Source, MW_BIND, Flush, Roce,
        "a bind went outside its parent",
        "check address and length of the bind against the region";
    0x011A AMP_MWBIND_TO_INVALID_PARENT: Source, GENERAL, Flush, Roce,
        "a bind named a parent that is not valid",
        "register the parent before the bind, and keep it while windows are bound";
    0x011B AMP_MWBIND_BIND_DISABLED: Source, MW_BIND, Flush, Roce,
        "binding is not enabled for the parent or for the QP",
        "register the parent with MW_BIND access";
    0x011C PRIV_OPERATION_DENIED: Qp, PROT, Flush, Roce,
        "a privileged request was posted on a QP without privilege",
        "post fast registers and requests with STag 0 only on a privileged QP (PRIVEN in its context)";
    0x011D AMP_INVALIDATE_TYPE1_MW: Qp, GENERAL, Flush, Roce,
        "an invalidate named a type-1 window",
        "unbind type-1 windows with a bind of length 0";
    0x011E AMP_MWBIND_ZERO_BASED_TYPE1_MW: Qp, GENERAL, Flush, Roce,
        "a bind of a type-1 window asked for zero-based addressing",
        "use a type-2 window, or addressing by virtual address";
    0x011F AMP_FASTREG_INVALID_PBL_HPS_CFG: Qp, GENERAL, Flush, Roce,
        "a fast register combined a page list and a page size that do not go together",
        "check page size and list level of the fast register";
    0x0120 AMP_MWBIND_WRONG_TYPE: Source, GENERAL, Flush, Roce,
        "a bind named a window of the other type",
        "post binds for type-2 windows; type-1 windows have a bind of their own";
    0x0121 AMP_FASTREG_PBLE_MISMATCH: Qp, GENERAL, Flush, Roce,
        "a fast register's page list is not the one its STag was allocated with",
        "check the number of pages against the region's maximum";
}

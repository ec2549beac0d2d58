"""What a program sees of a request that fails: the status of the completion that Linux' irdma and
libirdma make of the device's asynchronous event and flushed entries.

    errors.py DEVICE DEVICE

Expected statuses: the table of irdma's `irdma_set_flush_fields` and libirdma's
`irdma_flush_err_to_ib_wc_status` (docs/reference/data-path.md, 4.4 and 8.8).
"""

import sys

from cases import case, equal
from endpoint import *  # noqa: F403

devices = sys.argv[1:3]
STATUS = {
    IBV_WC_SUCCESS: "SUCCESS", IBV_WC_LOC_LEN_ERR: "LOC_LEN_ERR", IBV_WC_LOC_QP_OP_ERR: "LOC_QP_OP_ERR",
    IBV_WC_LOC_PROT_ERR: "LOC_PROT_ERR", IBV_WC_WR_FLUSH_ERR: "WR_FLUSH_ERR", IBV_WC_MW_BIND_ERR: "MW_BIND_ERR",
    IBV_WC_BAD_RESP_ERR: "BAD_RESP_ERR", IBV_WC_LOC_ACCESS_ERR: "LOC_ACCESS_ERR",
    IBV_WC_REM_INV_REQ_ERR: "REM_INV_REQ_ERR", IBV_WC_REM_ACCESS_ERR: "REM_ACCESS_ERR",
    IBV_WC_REM_OP_ERR: "REM_OP_ERR", IBV_WC_RETRY_EXC_ERR: "RETRY_EXC_ERR",
    IBV_WC_RNR_RETRY_EXC_ERR: "RNR_RETRY_EXC_ERR", IBV_WC_FATAL_ERR: "FATAL_ERR",
    IBV_WC_GENERAL_ERR: "GENERAL_ERR",
}


def status(wc):
    return STATUS.get(wc.status, str(wc.status))


def remote(b, offset=0, mr=None, key=None):
    mr = mr or b.mr
    return (mr.buf + offset, mr.rkey if key is None else key)


def fails(name, should, request, options=None, flushed=True, state=True):
    """`request(a, b)` posts at a; its completion has the status, what is behind it is flushed."""

    def test():
        a, b = pair(devices, **(options or {}))
        kept = request(a, b)
        if flushed:
            a.post(IBV_WR_SEND, 0, 8, wr_id=99)
        wc = a.poll()
        equal("wr_id", wc.wr_id, 2)
        equal("status", status(wc), should)
        if flushed:
            behind = a.poll()
            equal("wr_id behind", behind.wr_id, 99)
            equal("status behind", status(behind), "WR_FLUSH_ERR")
        if state:
            equal("state", a.qp.query(IBV_QP_STATE)[0].qp_state, IBV_QPS_ERR)
        del kept
        return should

    case(name, test)


fails("write-wrong-rkey", "REM_ACCESS_ERR",
      lambda a, b: a.post(IBV_WR_RDMA_WRITE, 0, 64, remote=remote(b, key=b.mr.rkey ^ 0x5a)))
fails("write-no-such-rkey", "REM_ACCESS_ERR",
      lambda a, b: a.post(IBV_WR_RDMA_WRITE, 0, 64, remote=remote(b, key=0x00ffff00)))
fails("read-wrong-rkey", "REM_ACCESS_ERR",
      lambda a, b: a.post(IBV_WR_RDMA_READ, 0, 64, remote=remote(b, key=b.mr.rkey ^ 0x5a)))
fails("write-behind-the-end", "REM_ACCESS_ERR",
      lambda a, b: a.post(IBV_WR_RDMA_WRITE, 0, 64, remote=remote(b, offset=65536 - 63)))
fails("read-behind-the-end", "REM_ACCESS_ERR",
      lambda a, b: a.post(IBV_WR_RDMA_READ, 0, 64, remote=remote(b, offset=65536 - 63)))


def no_right(opcode, access):
    def request(a, b):
        mr = MR(b.pd, 4096, access)
        a.post(opcode, 0, 64, remote=remote(b, mr=mr))
        return mr
    return request


fails("write-without-the-right", "REM_ACCESS_ERR",
      no_right(IBV_WR_RDMA_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ))
fails("read-without-the-right", "REM_ACCESS_ERR",
      no_right(IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE))


def other_pd(a, b):
    pd = PD(b.context)
    mr = MR(pd, 4096, ALL)
    a.post(IBV_WR_RDMA_WRITE, 0, 64, remote=remote(b, mr=mr))
    return mr, pd


fails("write-of-another-pd", "REM_ACCESS_ERR", other_pd)


def local_key(a, b):
    b.receive(0, 4096)
    wr = SendWR(wr_id=2, opcode=IBV_WR_SEND, num_sge=1, sg=[SGE(a.mr.buf, 64, a.mr.lkey ^ 0x77)],
                send_flags=IBV_SEND_SIGNALED)
    a.qp.post_send(wr)


fails("send-wrong-lkey", "LOC_PROT_ERR", local_key)


def local_end(a, b):
    b.receive(0, 4096)
    a.post(IBV_WR_SEND, 65536 - 63, 64)


fails("send-behind-the-end", "LOC_PROT_ERR", local_end)


def no_receive(a, b):
    a.post(IBV_WR_SEND, 0, 64)


fails("no-receive", "RNR_RETRY_EXC_ERR", no_receive, {"rnr": 1})


def nobody(a, b):
    b.qp.close()
    a.post(IBV_WR_SEND, 0, 64)


fails("no-queue-pair", "RETRY_EXC_ERR", nobody, {"retries": 1, "timeout": 10})


def both_fail(name, sender, receiver, request):
    """`request(a, b)` posts a receive at b that cannot take the send it posts at a: each side has its own status."""

    def test():
        a, b = pair(devices)
        request(a, b)
        here, there = status(a.poll()), status(b.poll())
        equal("the sender's", here, sender)
        equal("the receiver's", there, receiver)
        return f"{here}, {there}"

    case(name, test)


def too_long(a, b):
    b.receive(0, 100)
    a.post(IBV_WR_SEND, 0, 101)


both_fail("send-too-long", "REM_INV_REQ_ERR", "LOC_LEN_ERR", too_long)


def receive_key(a, b):
    b.qp.post_recv(RecvWR(1, 1, [SGE(b.mr.buf, 4096, b.mr.lkey ^ 0x33)]))
    a.post(IBV_WR_SEND, 0, 64)


both_fail("receive-wrong-lkey", "REM_OP_ERR", "LOC_PROT_ERR", receive_key)


def flush():
    """A queue pair that its program moves to ERROR gives every request back."""
    a, b = pair(devices)
    for n in range(10):
        b.receive(64 * n, 64, wr_id=n)
    attr = QPAttr(qp_state=IBV_QPS_ERR)
    b.qp.modify(attr, IBV_QP_STATE)
    ids = []
    for n in range(10):
        wc = b.poll()
        equal("status", status(wc), "WR_FLUSH_ERR")
        ids.append(wc.wr_id)
    equal("wr_ids", ids, list(range(10)))
    return "10 flushed"


case("flush-by-the-program", flush)

"""Queue pairs of pyverbs on any RDMA device: what the programs of this folder have in common."""

import time

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.libibverbs_enums import *  # noqa: F403 (the names of libibverbs)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ


def netdev_of(device, index):
    """The interface of a GID; none where the kernel does not say."""
    try:
        with open(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/ndevs/{index}") as file:
            return file.read().strip()
    except OSError:
        return ""


def gid_index(device, kind="ipv4"):
    """Index of the first GID of a kind (ipv4; ipv6: not link-local; vlan: IPv4 of a VLAN's interface) in the
    device's table."""
    root = f"/sys/class/infiniband/{device}/ports/1"
    for index in range(64):
        try:
            with open(f"{root}/gids/{index}") as file:
                gid = file.read().strip()
            with open(f"{root}/gid_attrs/types/{index}") as file:
                version = file.read().strip()
        except OSError:
            continue
        mapped = gid.startswith("0000:0000:0000:0000:0000:ffff:")
        of_vlan = "." in netdev_of(device, index)
        wanted = not mapped and not gid.startswith("fe80:") if kind == "ipv6" else mapped
        wanted = wanted and of_vlan == (kind == "vlan")
        if wanted and version == "RoCE v2" and gid.replace("0", "").strip(":"):
            return index
    raise SystemExit(f"{device} has no GID of {kind}")


class Endpoint:
    """A device with a PD, a CQ and one queue pair, or more; `qp` is the first."""

    def __init__(self, device, transport=IBV_QPT_RC, kind="ipv4", depth=64, sge=2, bytes=65536,
                 queue_pairs=1):
        self.device = device
        self.context = Context(name=device)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 2 * depth + 2)
        self.index = gid_index(device, kind)
        self.gid = self.context.query_gid(1, self.index)
        self.mr = MR(self.pd, bytes, ALL)
        self.transport = transport
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=sge, max_recv_sge=sge)
        init = QPInitAttr(qp_type=transport, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=0)
        attr = QPAttr(port_num=1)
        attr.qkey = 0x11111111
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE
        self.qps = [QP(self.pd, init, attr) for _ in range(queue_pairs)]
        self.qp = self.qps[0]

    def route(self, gid):
        """An address of the peer's GID, from our own."""
        return AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=self.index, hop_limit=64))

    def connect(self, gid, qpn, psn=0, peer_psn=0, mtu=IBV_MTU_1024, reads=16, timeout=14, retries=7, rnr=7,
                qp=None):
        """A reliable connection, ready to send."""
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE
        attr.path_mtu = mtu
        attr.max_rd_atomic = attr.max_dest_rd_atomic = reads
        attr.ah_attr = self.route(gid)
        attr.dest_qp_num = qpn
        attr.rq_psn, attr.sq_psn = peer_psn, psn
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = timeout, retries, rnr, 12
        (qp or self.qp).to_rts(attr)

    def receive(self, offset, length, wr_id=1, mr=None, qp=None):
        mr = mr or self.mr
        (qp or self.qp).post_recv(RecvWR(wr_id, 1, [SGE(mr.buf + offset, length, mr.lkey)]))

    def post(self, opcode, offset, length, wr_id=2, remote=None, imm=0, flags=IBV_SEND_SIGNALED, mr=None,
             qp=None):
        """Posts one request; remote: (address, rkey)."""
        mr = mr or self.mr
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[SGE(mr.buf + offset, length, mr.lkey)],
                    send_flags=flags, imm_data=imm)
        if remote:
            wr.set_wr_rdma(remote[1], remote[0])
        (qp or self.qp).post_send(wr)

    def poll(self, seconds=20):
        """The next completion, waited for."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            count, entries = self.cq.poll()
            if count:
                return entries[0]
            time.sleep(0)
        raise TimeoutError(f"{self.device}: no completion within {seconds} s")


def pair(devices, **options):
    """Two connected queue pairs."""
    how = {name: options.pop(name) for name in ("retries", "rnr", "reads", "timeout", "mtu") if name in options}
    a, b = (Endpoint(device, **options) for device in devices)
    a.connect(b.gid, b.qp.qp_num, **how)
    b.connect(a.gid, a.qp.qp_num, **how)
    return a, b

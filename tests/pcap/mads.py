"""Connection management datagrams of a capture, as golden data: one of each kind, with what tshark reads in its
fields.

    mads.py CAPTURE WORD...        prints JSON; WORD...: where the capture is from

Values of fields are hexadecimal. What two runs have different is masked: ids, transaction, GUID, queue pair, PSN, and the port and the flow label that
the kernel drew. Fields have the names of docs/reference/cm-path.md 3.
"""

import ipaddress
import json
import subprocess
import sys

from icrc import frames, udp_of

HEADER = 24
KINDS = {0x10: "req", 0x12: "rej", 0x13: "rep", 0x14: "rtu", 0x15: "dreq", 0x16: "drep", 0x17: "sidrreq", 0x18: "sidrrsp"}
# First byte in the datagram, and bytes.
TID = (8, 8)
LOCAL, REMOTE = (24, 4), (28, 4)
DRAWN = {
    "req": [LOCAL, (40, 8), (56, 3), (68, 3), (112, 2), (114, 1), (166, 2)],
    "rej": [LOCAL, REMOTE], "rtu": [LOCAL, REMOTE], "drep": [LOCAL, REMOTE],
    "rep": [LOCAL, REMOTE, (36, 3), (44, 3), (52, 8)],
    "dreq": [LOCAL, REMOTE, (32, 3)],
    "sidrreq": [LOCAL, (42, 2)], "sidrrsp": [LOCAL, (32, 3)],
}
# tshark's names. Its flow label and packet rate are left out: it reads them at another place than the kernel's
# own headers have them.
NAMES = {
    "serviceid": "SERVICE_ID", "localqkey": "LOCAL_Q_KEY", "responderres": "RESPONDER_RESOURCES",
    "localeecn": "LOCAL_EECN", "initdepth": "INITIATOR_DEPTH", "remoteeecn": "REMOTE_EECN",
    "remoteresptout": "REMOTE_CM_RESPONSE_TIMEOUT", "transpsvctype": "TRANSPORT_SERVICE_TYPE",
    "e2eflowctrl": "END_TO_END_FLOW_CONTROL", "localresptout": "LOCAL_CM_RESPONSE_TIMEOUT", "retrcount": "RETRY_COUNT",
    "pkey": "PARTITION_KEY", "pppmtu": "PATH_PACKET_PAYLOAD_MTU", "rdcexist": "RDC_EXISTS",
    "rnrretrcount": "RNR_RETRY_COUNT", "maxcmretr": "MAX_CM_RETRIES", "srq": "SRQ",
    "ext_transport": "EXTENDED_TRANSPORT_TYPE", "prim_locallid": "PRIMARY_LOCAL_PORT_LID",
    "prim_remotelid": "PRIMARY_REMOTE_PORT_LID", "prim_localgid": "PRIMARY_LOCAL_PORT_GID",
    "prim_remotegid": "PRIMARY_REMOTE_PORT_GID", "prim_localgid_ipv4": "PRIMARY_LOCAL_PORT_GID",
    "prim_remotegid_ipv4": "PRIMARY_REMOTE_PORT_GID", "prim_tfcclass": "PRIMARY_TRAFFIC_CLASS",
    "prim_hoplim": "PRIMARY_HOP_LIMIT", "prim_sl": "PRIMARY_SL", "prim_subnetlocal": "PRIMARY_SUBNET_LOCAL",
    "prim_localacktout": "PRIMARY_LOCAL_ACK_TIMEOUT", "msgrej": "MESSAGE_REJECTED", "rejinfolen": "REJECTED_INFO_LENGTH",
    "reason": "REASON", "tgtackdelay": "TARGET_ACK_DELAY", "failoveracc": "FAILOVER_ACCEPTED",
    "respres": "RESPONDER_RESOURCES",
}
# Where a name means another field in one message.
OTHER_NAMES = {("rep", "localeecn"): "LOCAL_EE_CONTEXT_NUMBER"}


def value(text):
    """A field of tshark as a number; an address of IPv4 as its GID."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return int(text.replace(":", ""), 16) if ":" in text else int(text, 0)
    return int(address) | (0xFFFF << 32 if address.version == 4 else 0)


def read(capture, number):
    """What tshark reads in a frame: its fields by their names, and the fields of the library's header."""
    out = subprocess.run(["tshark", "-n", "-r", capture, "-Y", f"frame.number == {number}", "-T", "json"],
                         check=True, capture_output=True, text=True).stdout
    found = {}

    def walk(tree):
        for name, inside in tree.items():
            if isinstance(inside, dict):
                walk(inside)
            elif isinstance(inside, str):
                found[name] = inside
    walk(json.loads(out)[0]["_source"]["layers"])
    return found


def cases(capture):
    with open(capture, "rb") as file:
        data = file.read()
    seen = set()
    for number, frame in enumerate(frames(data), 1):
        place = udp_of(frame)
        if place is None or frame[place[1] + 13 : place[1] + 16] != b"\0\0\1":
            continue
        # IP, UDP, BTH, DETH.
        start = place[1] + 8 + 12 + 8
        mad = frame[start : start + 256]
        kind = KINDS.get(int.from_bytes(mad[16:18], "big"))
        family = "ipv6" if frame[place[0]] >> 4 == 6 else "ipv4"
        service = ""
        if kind in ("req", "sidrreq"):
            at = 32
            port = int.from_bytes(mad[at + 6 : at + 8], "big")
            service = f"-port-{port}" if port == 4420 else ""
        if kind is None or (kind, family, service) in seen or (family == "ipv6" and "req" not in kind):
            continue
        seen.add((kind, family, service))
        mask = bytearray(b"\xff" * 256)
        for first, count in [TID] + DRAWN[kind]:
            mask[first : first + count] = bytes(count)
        if kind == "req":
            # The high digit of the byte behind the flow label is the flow label's.
            mask[114] = 0x0F
        fields = {}
        for name, text in read(capture, number).items():
            parts = name.split(".")
            if parts[:2] == ["infiniband", "cm"] and parts[2] == kind and len(parts) == 4 and parts[3] in NAMES:
                fields[OTHER_NAMES.get((kind, parts[3]), NAMES[parts[3]])] = f"{value(text):x}"
        yield {
            "name": f"{kind}-{family}{service}",
            "attribute": int.from_bytes(mad[16:18], "big"),
            "mad_hex": bytes(a & b for a, b in zip(mad, mask)).hex(),
            "mask_hex": mask.hex(),
            "fields": fields,
        }


if __name__ == "__main__":
    found = list(cases(sys.argv[1]))
    print('{"meta":' + json.dumps({"source": " ".join(sys.argv[2:])}) + ',\n"cases":[')
    print(",\n".join(json.dumps(case, separators=(",", ":")) for case in found))
    print("]}")

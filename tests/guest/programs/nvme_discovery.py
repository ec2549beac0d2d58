"""The discovery log page of an NVMe controller, as `nvme discover` reads it.

nvme_discovery.py DEVICE: prints the entries; fails if there are none.
"""

import ctypes
import fcntl
import struct
import sys

ADMIN_COMMAND = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD
GET_LOG_PAGE = 0x02
DISCOVERY = 0x70


def log_page(device, size):
    page = ctypes.create_string_buffer(size)
    words = (size // 4 - 1) << 16 | DISCOVERY
    # struct nvme_passthru_cmd: opcode, namespace, cdw2-3, metadata, address, lengths, cdw10-15, timeout, result.
    command = struct.pack("<BBHIIIQQII6III", GET_LOG_PAGE, 0, 0, 0, 0, 0, 0, ctypes.addressof(page), 0, size,
                          words, 0, 0, 0, 0, 0, 0, 0)
    status = fcntl.ioctl(device, ADMIN_COMMAND, bytearray(command))
    if status:
        sys.exit(f"error: Get Log Page: status {status:#x}")
    return page.raw


def text(field):
    return field.split(b"\0")[0].decode().strip()


with open(sys.argv[1], "rb") as device:
    _, entries, _ = struct.unpack_from("<QQH", log_page(device, 1024))
    page = log_page(device, 1024 * (1 + entries))
if entries == 0:
    sys.exit("error: no entry")
for at in range(1024, len(page), 1024):
    entry = page[at:at + 1024]
    transport, family, kind = entry[0], entry[1], entry[2]
    print(f"transport {transport}, family {family}, kind {kind}:",
          text(entry[256:512]), "at", text(entry[512:768]), "port", text(entry[32:64]))

//! The client against the `vfio_user` crate's server: the messages of the one checked
//! by an independent reading of the specification. The other way round, the crate's
//! client uses our server in most tests here.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use e810_backends::memory::SharedMemory;
use e810_backends::vfio_user::VfioUser;
use e810_backends::{Accept, BackendError, DmaRegion, Function, Options, Transport};
use e810_hal::{Access, Bus, RegOffset};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
    vfio_region_info,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::processes::folder;

/// The requests it got, in words.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, what: String) -> io::Result<()> {
        self.0.lock().unwrap().push(what);
        Ok(())
    }
}

impl ServerBackend for Recorder {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0x5a);
        self.note(format!("read {region} {offset:#x} {}", data.len()))
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.note(format!("write {region} {offset:#x} {data:?}"))
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        fd: Option<File>,
    ) -> io::Result<()> {
        let mut first = [0; 4];
        fd.unwrap().read_exact_at(&mut first, offset)?;
        let flags = flags.bits();
        self.note(format!(
            "map {flags} {offset:#x} {address:#x} {size:#x} {first:?}"
        ))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.note(format!("unmap {} {address:#x} {size:#x}", flags.bits()))
    }

    fn reset(&mut self) -> io::Result<()> {
        self.note("reset".to_owned())
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        fds: Vec<File>,
    ) -> io::Result<()> {
        let fds = fds.len();
        self.note(format!("irqs {index} {flags:#x} {start} {count} {fds}"))
    }
}

fn regions() -> Vec<ServerRegion> {
    let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    let region = |index| ServerRegion {
        region_info: vfio_region_info {
            argsz: size_of::<vfio_region_info>() as u32,
            flags: both,
            index,
            size: 32 << 20,
            ..Default::default()
        },
        sparse_areas: Vec::new(),
        mmap_fd: None,
    };
    (0..9).map(region).collect()
}

/// A server that is not ours in a thread, and the socket it listens on.
fn serve(folder: &Path, recorder: &Recorder) -> (PathBuf, thread::JoinHandle<bool>) {
    let path = folder.join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let irqs = (0..5).map(|index| IrqInfo {
        index,
        flags: VFIO_IRQ_INFO_EVENTFD,
        count: 7,
    });
    let server = Server::from_owned_fd(listener.into(), true, irqs.collect(), regions());
    let mut backend = recorder.clone();
    (
        path,
        thread::spawn(move || server.run(&mut backend).is_ok()),
    )
}

#[test]
fn a_server_of_another_device_is_asked_for_its_ids_and_nothing_else() {
    let folder = folder();
    let recorder = Recorder::default();
    let (path, thread) = serve(folder.as_path(), &recorder);
    let device = VfioUser::connect(&path).unwrap();
    let options = Options {
        accept: Accept::IntelEthernet,
        ..Options::default()
    };
    let error = Function::open(device, options).unwrap_err();
    let BackendError::NotE810 { vendor, id, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((vendor, id), (0x5a5a, 0x5a5a));
    assert!(thread.join().unwrap());
    let config = ["read 7 0x0 4", "read 7 0x4 4", "read 7 0x8 4"];
    assert_eq!(*recorder.0.lock().unwrap(), config);
}

#[test]
fn the_client_speaks_with_a_server_that_is_not_ours() {
    let folder = folder();
    let recorder = Recorder::default();
    let (path, thread) = serve(folder.as_path(), &recorder);
    let device = VfioUser::connect(&path).unwrap();
    assert_eq!(device.properties().vectors, 7);
    let mut bytes = [0; 6];
    device.config_read(0x10, &mut bytes).unwrap();
    assert_eq!(bytes, [0x5a; 6]);
    device.config_write(4, &[6, 0]).unwrap();
    let registers = device.registers();
    registers.write32(RegOffset::new(0x100), 0x0102_0304);
    assert_eq!(registers.read32(RegOffset::new(0x200)), 0x5a5a_5a5a);
    let memory = SharedMemory::new(8192, false).unwrap();
    // SAFETY: the memory lives to the end, and nobody else uses it.
    unsafe { memory.bytes() }
        .write(4096, &[1, 2, 3, 4])
        .unwrap();
    let region = DmaRegion {
        iova: 0x10_0000,
        address: memory.start(),
        bytes: 4096,
        access: Access::ReadWrite,
        file: Some((memory.file(), 4096)),
    };
    // SAFETY: as above; it is taken away again below.
    unsafe { device.map(&region) }.unwrap();
    device.unmap(0x10_0000, 4096).unwrap();
    let event = EventFd::new(EFD_NONBLOCK).unwrap();
    // SAFETY: the event lives to the end.
    let fd =
        unsafe { std::os::fd::BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&event)) };
    device
        .connect_vectors(2, &[Some(fd.as_fd()), None])
        .unwrap();
    device.disconnect_vectors().unwrap();
    device.reset().unwrap();
    assert!(device.failure().is_none());
    drop((registers, device));
    assert!(thread.join().unwrap());
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            "read 7 0x10 4",
            "read 7 0x14 2",
            "write 7 0x4 [6, 0]",
            "write 0 0x100 [4, 3, 2, 1]",
            "read 0 0x200 4",
            "map 3 0x1000 0x100000 0x1000 [1, 2, 3, 4]",
            "unmap 0 0x100000 0x1000",
            "irqs 2 0x24 2 1 1",
            "irqs 2 0x24 3 1 0",
            "irqs 2 0x21 0 0 0",
            "reset",
        ]
    );
}

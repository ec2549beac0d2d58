//! Traces of bring-ups and of messages on the simulator.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, helpers included"
)]

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use e810::{
    AccessFlags, ColdStart, Config, ConnectOptions, Control, Data, EventSet, LinkPolicy, Op,
    Package, PackageSource, QpCaps, QpInit, RecvWr, Remaining, SendFlags, SendWr, Sge, SharedBytes,
    StageError, Wc, WcStatus, bring_up_cold,
};
use e810_backends::HostDevice;
use e810_backends::observed::{DeviceMemory, Observed, Observer as _};
use e810_hal::regs::{
    PF_FW_ARQH, PF_FW_ARQLEN, PF_FW_ARQT, PF_FW_ATQBAL, PF_FW_ATQLEN, PF_FW_ATQT, PFPE_CCQPHIGH,
    PFPE_CCQPLOW, find,
};
use e810_hal::{Clock as _, Iova, Ns, RegOffset};
use e810_sim::middleware::{Inject, Layered, Rule};
use e810_sim::{AqFault, Sim, test_package};
use e810_trace::{Event, Kinds, Record, Recorder, Trace, TraceFile, diff, show};

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Others that have something to write get the processor.
        thread::yield_now();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A trace of one device, while it is written.
struct Tracing {
    bytes: Shared,
    file: Arc<Mutex<TraceFile<Shared>>>,
}

impl Tracing {
    fn begin() -> Self {
        let bytes = Shared::default();
        let file = TraceFile::begin(bytes.clone(), "test", &["sim".to_owned()]).unwrap();
        Self {
            bytes,
            file: Arc::new(Mutex::new(file)),
        }
    }

    fn device<D: HostDevice>(&self, device: D, number: u8) -> Observed {
        Observed::new(device, Arc::new(Recorder::new(number, self.file.clone())))
    }

    fn end(self) -> Trace {
        assert!(self.file.lock().unwrap().finish().is_none());
        let trace = Trace::parse(&self.bytes.0.lock().unwrap()).unwrap();
        assert_eq!((trace.unknown, trace.is_cut), (0, false));
        trace
    }
}

fn start<D: HostDevice>(device: D, ceqs: u16) -> Result<(Control<D>, EventSet<D>), StageError> {
    let file = test_package();
    let package = PackageSource::File(Package::parse(&file).unwrap());
    let link = LinkPolicy::Wait(Ns::from_ms(10_000));
    let start = ColdStart { package, link };
    let mut config = Config::cold(1500);
    config.ceqs = ceqs;
    let up = bring_up_cold(device, &config, &start, &mut |_| {})?;
    Ok(up.split())
}

fn up_and_down<D: HostDevice>(device: D, ceqs: u16) {
    let (control, events) = start(device, ceqs).unwrap();
    control.shutdown(events).map_err(|e| e.error).unwrap();
}

fn card() -> Sim {
    Sim::builder().cold().build()
}

/// The trace of a bring-up and a shutdown.
fn traced(ceqs: u16) -> (Sim, Trace) {
    let (sim, tracing) = (card(), Tracing::begin());
    up_and_down(tracing.device(sim.function(0), 0), ceqs);
    (sim, tracing.end())
}

fn count(trace: &Trace, is: impl Fn(&Event) -> bool) -> u64 {
    trace
        .records
        .iter()
        .filter(|record| is(&record.event))
        .count() as u64
}

/// The differences that are left when nothing changed, and what the simulator counts.
#[test]
fn everything_is_in_a_trace_and_nothing_changes_by_it() {
    let plain = card();
    up_and_down(plain.function(0), 1);
    let (sim, trace) = traced(1);
    assert_eq!(sim.findings(), []);
    let (stats, expected) = (sim.stats(0), plain.stats(0));
    assert_eq!(stats, expected);
    let again: u64 = trace
        .records
        .iter()
        .map(|record| match record.event {
            Event::Again { times } => times,
            _ => 0,
        })
        .sum();
    let reads = count(&trace, |event| matches!(event, Event::Read { .. }));
    assert_eq!(reads + again, stats.register_reads);
    let writes = count(&trace, |event| matches!(event, Event::Write { .. }));
    assert_eq!(writes, stats.register_writes);
    let commands = count(&trace, |event| matches!(event, Event::CqpCommand { .. }));
    assert_eq!(commands, stats.commands);
    let sent = count(&trace, |event| matches!(event, Event::AdminqCommand(_)));
    let answered = count(&trace, |event| matches!(event, Event::AdminqReply(_)));
    assert_eq!(sent, answered);
    assert!(sent > 30, "{sent}");
    let allocated = count(&trace, |event| matches!(event, Event::Allocated { .. }));
    let freed = count(&trace, |event| matches!(event, Event::Freed { .. }));
    assert_eq!(allocated, freed);
    // Reads of FPM limits, of features, and the places of a commit.
    let replies = count(&trace, |event| matches!(event, Event::CqpReply { .. }));
    assert_eq!(replies, 3);
}

#[test]
fn two_bring_ups_alike_have_no_difference() {
    let (_, one) = traced(1);
    let (_, other) = traced(1);
    assert_eq!(diff(("a", &one), ("b", &other), Kinds::ALL), "");
}

#[test]
fn a_difference_names_the_command() {
    let (_, one) = traced(1);
    let (_, other) = traced(2);
    let text = diff(("a", &one), ("b", &other), Kinds::ALL);
    assert!(text.starts_with("--- a\n+++ b\n"), "{text}");
    let commands = Kinds {
        cqp: true,
        ..Kinds::NONE
    };
    let text = diff(("a", &one), ("b", &other), commands);
    let changed = text.lines().skip(2);
    let changed: Vec<_> = changed
        .filter(|line| line.starts_with(['-', '+']))
        .collect();
    // The second queue is created and destroyed.
    assert_eq!(changed.len(), 2, "{text}");
    assert!(changed[0].starts_with("+0 CQP CREATE_CEQ q16="), "{text}");
    assert!(changed[1].starts_with("+0 CQP DESTROY_CEQ "), "{text}");
    let firmware = Kinds {
        adminq: true,
        ..Kinds::NONE
    };
    assert_eq!(diff(("a", &one), ("b", &other), firmware), "");
}

/// Lines as `ice_debug_cq` and irdma's `print_hex_dump_debug` print them in Linux 6.12.
#[test]
fn it_reads_as_linux_prints_it() {
    let (_, trace) = traced(1);
    let mut out = Vec::new();
    show(&trace, Kinds::ALL, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in [
        "AQ Command: opcode 0x0001, flags 0x2000, datalen 0x0000, retval 0x0000\n",
        "AQ Response: opcode 0x0001, flags 0x2003, datalen 0x0000, retval 0x0000\n",
        "\tcookie (h,l) 0x00000000 0x00000000\n",
        " 00000000: 05 00 01 00 ",
        "] WQE: CEQ_CREATE WQE00000010: ",
        "] HMC: COMMIT FPM BUFFER00000000: ",
        "] WQE: CQP_HOST_CTX WQE00000000: ",
        "write GLINT_DYN_CTL(",
        "the trace is whole\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let only = Kinds {
        cqp: true,
        ..Kinds::NONE
    };
    let mut out = Vec::new();
    show(&trace, only, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(
        !text.contains("AQ Command") && !text.contains(" write "),
        "{text}"
    );
}

struct Node {
    control: Control<Observed>,
    events: EventSet<Observed>,
    objects: (
        e810::Pd,
        e810::Mr<Observed>,
        e810::Cq<Observed>,
        e810::Qp<Observed>,
    ),
}

fn node(device: Observed) -> Node {
    let (mut control, events) = start(device, 1).unwrap();
    let pd = control.alloc_pd().unwrap();
    let memory = SharedBytes::from_static(vec![0; 512].leak());
    let mr = control
        .reg_mr(&pd, memory, AccessFlags::LOCAL_WRITE)
        .unwrap();
    let cq = control.create_cq(16, 0).unwrap();
    let caps = QpCaps {
        max_send_sge: 3,
        max_inline: 32,
        ..QpCaps::default()
    };
    let init = QpInit::rc(&cq, &cq, caps);
    let qp = control.create_qp(&pd, &init).unwrap();
    Node {
        control,
        events,
        objects: (pd, mr, cq, qp),
    }
}

#[test]
fn work_requests_and_completions_are_in_a_trace() {
    const MESSAGES: u64 = 300;
    let sim = Sim::builder().functions(2).cold().build();
    let tracing = Tracing::begin();
    let mut a = node(tracing.device(sim.function(0), 0));
    let mut b = node(tracing.device(sim.function(1), 1));
    let info_a = a.objects.3.info(&a.control, 0).unwrap();
    let info_b = b.objects.3.info(&b.control, 0).unwrap();
    let options = ConnectOptions::default();
    a.objects
        .3
        .connect(&mut a.control, &info_b, &options)
        .unwrap();
    b.objects
        .3
        .connect(&mut b.control, &info_a, &options)
        .unwrap();
    for number in 0..MESSAGES {
        let (_, mr, _, qp) = &mut b.objects;
        let sges = [Sge {
            addr: mr.address(),
            length: 64,
            lkey: mr.lkey(),
        }];
        qp.post_recv(&[RecvWr {
            wr_id: 1,
            sges: &sges,
        }])
        .unwrap();
        let (_, mr, _, qp) = &mut a.objects;
        // Of one, two and three fragments, and inline: requests of several lengths.
        let piece = Sge {
            addr: mr.address(),
            length: 8,
            lkey: mr.lkey(),
        };
        let sges = [piece; 3];
        let text = [7; 24];
        let data = match number % 4 {
            0 => Data::Inline(&[&text]),
            pieces => Data::Sges(&sges[..pieces as usize]),
        };
        let wr = SendWr {
            wr_id: number,
            op: Op::Send { data, imm: None },
            flags: SendFlags::SIGNALED,
        };
        qp.post_send(&[wr]).unwrap();
        for objects in [&mut b.objects, &mut a.objects] {
            let mut wc = [Wc::default()];
            while objects.2.poll(&mut wc) == 0 {
                sim.function(0).relax();
            }
            assert_eq!(wc[0].status, WcStatus::Success, "{number}: {:?}", wc[0]);
        }
    }
    for Node {
        control,
        events,
        objects: (pd, mr, cq, qp),
    } in [a, b]
    {
        let objects = Remaining {
            qps: [qp],
            ahs: [],
            cqs: [cq],
            mrs: [mr],
            pds: [pd],
        };
        control.shutdown_with(events, objects).unwrap();
    }
    let trace = tracing.end();
    let of = |device: u8, is: &dyn Fn(&Event) -> bool| {
        let records = trace.records.iter();
        let records = records.filter(|record| record.device == device && is(&record.event));
        records.count() as u64
    };
    // The send queue is filled up to the end of a chunk with requests that do nothing (0x0C).
    let is_nop = |bytes: &str| bytes.get(56..58) == Some("0c");
    let is_wqe = |event: &Event| matches!(event, Event::Wqe { bytes, .. } if !is_nop(bytes));
    let is_cqe = |event: &Event| matches!(event, Event::Cqe { cq: 1.., .. });
    for device in [0, 1] {
        assert_eq!(of(device, &is_wqe), MESSAGES, "{device}");
        assert_eq!(of(device, &is_cqe), MESSAGES, "{device}");
    }
    assert_eq!(
        count(&trace, |event| matches!(event, Event::Note { .. })),
        0
    );
    assert_eq!(sim.findings(), []);
}

/// Up to where a trace goes when the device is gone at its n-th access.
fn gone_at(nth: u64) -> Option<Trace> {
    let (sim, tracing) = (card(), Tracing::begin());
    let inject = Inject::with(Rule::Gone { nth });
    let device = Layered::new(sim.function(0), inject);
    let error = start(tracing.device(device, 0), 1).err();
    let trace = tracing.end();
    error.map(|_| trace)
}

#[test]
fn a_device_that_disappears_at_any_register() {
    let mut nth = 1;
    while let Some(trace) = gone_at(nth) {
        let mut out = Vec::new();
        show(&trace, Kinds::ALL, &mut out).unwrap();
        let is_ones = |record: &Record| match &record.event {
            Event::Read { offset, value, .. } => {
                value.0 == u64::from(u32::MAX) && offset.0 < 1 << 23
            }
            _ => false,
        };
        assert!(trace.records.iter().any(is_ones), "{nth}");
        nth += if nth < 50 { 1 } else { 17 };
    }
    assert!(nth > 70, "{nth}");
}

#[test]
fn a_firmware_that_stops_at_any_command() {
    let (_, whole) = traced(1);
    let opcodes = whole
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::AdminqCommand(found) => {
                let low = u16::from_str_radix(found.descriptor.get(4..6)?, 16).ok()?;
                let high = u16::from_str_radix(found.descriptor.get(6..8)?, 16).ok()?;
                Some(high << 8 | low)
            }
            _ => None,
        });
    let mut opcodes: Vec<u16> = opcodes.collect();
    opcodes.sort_unstable();
    opcodes.dedup();
    assert!(opcodes.len() > 20, "{opcodes:x?}");
    for opcode in opcodes {
        let (sim, tracing) = (card(), Tracing::begin());
        sim.configure_firmware(0, |config| config.fault(opcode, 1, AqFault::Silence));
        let device = tracing.device(sim.function(0), 0);
        if let Ok((control, events)) = start(device, 1) {
            // The command is of the shutdown, or one that a bring-up can do without.
            let _ = control.shutdown(events);
        }
        let trace = tracing.end();
        let unanswered = count(&trace, |event| matches!(event, Event::AdminqCommand(_)))
            - count(&trace, |event| matches!(event, Event::AdminqReply(_)));
        assert!(unanswered > 0, "{opcode:#x}");
    }
}

/// Registers have names, so that a trace can be read without the table.
#[test]
fn registers_have_names() {
    let (_, trace) = traced(1);
    for record in &trace.records {
        if let Event::Read {
            register, offset, ..
        }
        | Event::Write {
            register, offset, ..
        } = &record.event
        {
            let offset = RegOffset::try_new(offset.0 as u32).unwrap();
            assert_eq!(find(offset).unwrap().to_string(), *register);
        }
    }
}

/// A recorder of a driver that writes to registers by hand, and its memory.
fn by_hand(tracing: &Tracing) -> (Recorder<Shared>, DeviceMemory) {
    let recorder = Recorder::new(0, tracing.file.clone());
    (recorder, DeviceMemory::default())
}

/// What two threads find is in the trace in the order of the queue.
#[test]
fn answers_are_in_their_order_whoever_finds_them() {
    (0..5).for_each(|_| two_look_at_a_queue());
}

fn two_look_at_a_queue() {
    const ENTRIES: u32 = 1000;
    const AT: u64 = 0x10_0000;
    let tracing = Tracing::begin();
    let (recorder, memory) = by_hand(&tracing);
    drop(
        memory
            .insert_zeros(Iova(AT), ENTRIES as usize * 32)
            .unwrap(),
    );
    let set = |register: RegOffset, value| recorder.write(Ns(1), &memory, register, value);
    set(PF_FW_ATQBAL.off(), AT as u32);
    set(PF_FW_ATQLEN.off(), 1 << 31 | ENTRIES);
    set(PF_FW_ATQT.off(), ENTRIES - 1);
    let is_done = AtomicBool::new(false);
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    recorder.look(Ns(1), &memory);
                }
            });
        }
        for index in 0..ENTRIES - 1 {
            memory.write(Iova(AT + u64::from(index) * 32), &[1]);
            thread::yield_now();
        }
        is_done.store(true, Ordering::SeqCst);
    });
    recorder.look(Ns(1), &memory);
    let trace = tracing.end();
    let replies = trace
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::AdminqReply(found) => Some(found.index),
            _ => None,
        });
    assert!(replies.eq(0..ENTRIES - 1));
}

/// A machine has something at address 0, and drivers pass by it: they turn the queue for events on before
/// they say where it is, and end the Control QP by a context of this address.
#[test]
fn what_stands_at_address_0_is_not_the_devices() {
    let tracing = Tracing::begin();
    let (recorder, memory) = by_hand(&tracing);
    drop(memory.insert_zeros(Iova(0), 4096).unwrap());
    memory.write(Iova(0), &[0xFF; 4096]);
    for (register, value) in [
        (PF_FW_ARQH.off(), 0),
        (PF_FW_ARQT.off(), 0),
        (PF_FW_ARQLEN.off(), 1 << 31 | 64),
        (PFPE_CCQPHIGH.off(), 0),
        (PFPE_CCQPLOW.off(), 0),
    ] {
        recorder.write(Ns(1), &memory, register, value);
        recorder.look(Ns(1), &memory);
    }
    let trace = tracing.end();
    let writes = |record: &&Record| matches!(record.event, Event::Write { .. });
    assert_eq!(trace.records.iter().filter(writes).count(), 5);
    // The first two lines, the writes, and the end.
    assert_eq!(trace.records.len(), 8, "{:?}", trace.records);
}

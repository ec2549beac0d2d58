//! Messages between two functions that another process serves.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::thread;

use serde_json::Value;

use super::processes::{
    E810, Served, ServerProcess, all_verified, folder, package, pingpong, until,
};

#[test]
fn two_processes_verify_every_message() {
    let server = ServerProcess::start();
    let [a, b] = &server.paths;
    all_verified(a, b, "send", 2_000, 64);
    all_verified(a, b, "write", 500, 4096);
    all_verified(a, b, "read", 500, 20_000);
    all_verified(b, a, "send", 100, 1);
    for function in server.report()["functions"].as_array().unwrap() {
        let bring_ups = function["bring_ups"].as_array().unwrap();
        assert_eq!(bring_ups.len(), 4, "one a use");
        for cost in bring_ups {
            // Get Version and CREATE_AEQ are once in every bring-up.
            assert_eq!(
                (&cost["adminq_of"]["0x0001"], &cost["cqp_of"]["0x19"]),
                (&1.into(), &1.into())
            );
            assert!(cost["hmc_bytes"].as_u64().unwrap() >= 2 << 20);
            assert!(cost["writes_of"]["PFPE_CQPDB"].as_u64().unwrap() > 5);
        }
    }
    let (end, report) = server.stop(libc::SIGINT);
    assert!(end.status.success(), "{end:?}");
    assert!(
        end.out.contains("findings                        0"),
        "{}",
        end.out
    );
    assert_eq!(report["findings_in_all"], 0);
    for function in report["functions"].as_array().unwrap() {
        assert_eq!(function["users"], 4);
        assert!(function["frames_sent"].as_u64().unwrap() > 5_000);
        assert!(function["most_dma_maps"].as_u64().unwrap() > 2);
        assert_eq!(function["refused_dma_maps"], 0);
        // Before and after each use, and when the user is gone.
        assert_eq!(function["function_resets"], 12);
        assert!(function["commands"].as_u64().unwrap() > 40);
        // Through all resets: one AEQ a use, a doorbell a message, nothing shown any more.
        assert_eq!(function["cqp_of"]["0x19"], 4);
        assert!(function["writes_of"]["PFPE_WQEALLOC"].as_u64().unwrap() > 2_000);
        assert!(function["reads_of"]["PF_FW_ATQH"].as_u64().unwrap() > 40);
        assert_eq!(function["dma_bytes"], 0);
    }
}

#[test]
fn a_monitor_that_is_interrupted_leaves_functions_as_it_found_them() {
    let server = ServerProcess::start();
    let [a, b] = &server.paths;
    let mut monitor = E810::start(&[
        "monitor".to_owned(),
        format!("--device=vfio-user:{}", a.display()),
        format!("--peer=vfio-user:{}", b.display()),
        format!("--ddp={}", package().display()),
        "--interval=50".to_owned(),
        "--json".to_owned(),
    ]);
    // A view: the messages are on their way.
    let mut lines = BufReader::new(monitor.0.stdout.take().unwrap());
    assert!(lines.read_line(&mut String::new()).unwrap() > 0);
    monitor.signal(libc::SIGINT);
    // Nobody waits for a reader.
    let rest = thread::spawn(move || lines.read_to_string(&mut String::new()));
    let end = monitor.end();
    assert!(end.status.success(), "{end:?}");
    rest.join().unwrap().unwrap();
    // The server may see only after the end of the process that its users are gone.
    until("the users to leave", || {
        let report = server.report();
        let functions = report["functions"].as_array()?;
        let left = |function: &Value| function["users"] == 1;
        functions.iter().all(left).then_some(())
    });
    let (_, report) = server.stop(libc::SIGINT);
    assert_eq!(report["findings_in_all"], 0);
    for function in report["functions"].as_array().unwrap() {
        // Before the use and after it, and when the user is gone.
        assert_eq!(
            (&function["users"], &function["function_resets"]),
            (&1.into(), &3.into())
        );
    }
}

#[test]
fn a_bring_up_says_how_fast_the_socket_is() {
    let server = ServerProcess::start();
    let device = format!("vfio-user:{}", server.paths[1].display());
    let ddp = package().to_str().unwrap();
    let up = ["up", "--ddp", ddp, "--device", &device];
    let report = E810::start(&[&up[..], &["--json"]].concat()).end().json();
    assert_eq!(report["transport"], "vfio-user");
    assert_eq!(report["stages"].as_array().unwrap().len(), 15);
    for time in ["register_read_ns", "interrupt_ns"] {
        println!("{time}: {}", report[time]);
        assert!(report[time]["p50"].as_u64().unwrap() > 0);
    }
    let text = E810::start(&up).end();
    assert!(text.status.success(), "{text:?}");
    assert!(text.out.contains("register read, there and back"));
    let (end, report) = server.stop(libc::SIGTERM);
    assert!(end.status.success(), "{end:?}");
    let delivered = &report["functions"][1]["interrupts_delivered"];
    assert!(delivered.as_u64().unwrap() >= 400, "{delivered}");
}

/// Function and package can be named by the environment.
#[test]
fn what_no_option_names_the_environment_does() {
    let server = ServerProcess::start();
    let device = format!("vfio-user:{}", server.paths[0].display());
    let package = package().to_str().unwrap();
    let up = |ddp: &str| {
        let environment = [("E810_DEVICE", device.as_str()), ("E810_DDP", ddp)];
        E810::start_with(&["up", "--json"], &environment).end()
    };
    assert_eq!(up(package).json()["transport"], "vfio-user");
    let wrong = up("/nonexistent/ice.pkg");
    assert!(!wrong.status.success());
    let said = &wrong.err;
    assert!(
        said.contains("E810_DDP") && said.contains("/nonexistent/ice.pkg"),
        "{said}"
    );
    server.stop(libc::SIGTERM);
}

/// A function whose LAN side is said to be ready: the user gives what it is.
#[test]
fn a_warm_function_is_brought_up_as_it_is_said_to_be() {
    let folder = folder();
    let path = folder.as_path().join("w");
    let warm = [
        "sim",
        "--warm",
        "--profile=small",
        "--socket",
        path.to_str().unwrap(),
    ];
    let server = E810::start(&warm);
    until("the server", || {
        std::os::unix::net::UnixStream::connect(&path).ok()
    });
    let device = format!("vfio-user:{}", path.display());
    let up = [
        "up",
        "--json",
        "--device",
        &device,
        "--warm",
        "--mac=02:00:00:00:00:01",
        "--vsi=8",
    ];
    let report = E810::start(&up).end().json();
    assert_eq!(report["stages"].as_array().unwrap().len(), 7);
    server.signal(libc::SIGTERM);
    assert!(server.end().status.success());
}

/// All functions of a card give one serial number, so that only the first one's
/// Ethernet address is in it.
#[test]
fn a_second_warm_function_has_to_be_given_its_address() {
    let folder = folder();
    let paths = ["0", "1"].map(|name| folder.as_path().join(name));
    let mut words = ["sim", "--warm", "--profile=small", "--vectors=1024"]
        .map(str::to_owned)
        .to_vec();
    words.extend(
        paths
            .iter()
            .map(|path| format!("--socket={}", path.display())),
    );
    let server = E810::start(&words);
    let up = |path: &std::path::Path, more: &[&str]| {
        until("the server", || {
            std::os::unix::net::UnixStream::connect(path).ok()
        });
        let device = format!("vfio-user:{}", path.display());
        let words = [&["up", "--json", "--device", &device, "--warm"], more].concat();
        E810::start(&words).end()
    };
    let [first, second] = &paths;
    up(first, &[]).json();
    let refused = up(second, &[]);
    let line = refused.failure();
    assert!(
        line.contains("function 1 of its card") && line.contains("--mac"),
        "{line}"
    );
    up(second, &["--mac=02:e8:10:00:00:01"]).json();
    server.signal(libc::SIGTERM);
    assert!(server.end().status.success());
}

#[test]
fn a_user_killed_in_mid_traffic_leaves_a_clean_function() {
    let served = Served::start();
    let [a, b] = &served.paths;
    for round in 1..=3 {
        let mut user = pingpong(a, b, "write", 1_000_000_000, 4096);
        let before = served.sim.stats(0).frames_sent;
        until("traffic", || {
            assert_eq!(user.0.try_wait().unwrap(), None, "it ended by itself");
            (served.sim.stats(0).frames_sent > before + 500).then_some(())
        });
        user.signal(libc::SIGKILL);
        drop(user);
        served.left(1, round * 2 - 1);
        let report = served.left(0, round * 2 - 1);
        assert_eq!(served.sim.function(0).attached_memory(), 0);
        assert_eq!(report.findings, [], "round {round}");
        all_verified(a, b, "send", 200, 1000);
        assert_eq!(served.left(0, round * 2).findings, []);
    }
}

/// A server that was killed leaves its socket; the next one takes it over, but
/// not from a server that lives.
#[test]
fn a_dead_servers_socket_is_taken_over() {
    let mut server = ServerProcess::start();
    let socket = |path: &std::path::Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_e810"));
        command.arg("sim").arg("--socket").arg(path);
        command
    };
    let refused = socket(&server.paths[0]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("another process listens there"), "{text}");
    let file = server.folder.as_path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert_eq!(socket(&file).output().unwrap().status.code(), Some(1));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");

    server.e810.signal(libc::SIGKILL);
    server.e810.0.wait().unwrap();
    assert!(server.paths[0].exists());
    let next = E810::start(&[
        "sim".as_ref(),
        "--socket".as_ref(),
        server.paths[0].as_os_str(),
    ]);
    until("the new server", || {
        std::os::unix::net::UnixStream::connect(&server.paths[0]).ok()
    });
    next.signal(libc::SIGTERM);
    assert!(next.end().status.success());
    assert!(!server.paths[0].exists());
}

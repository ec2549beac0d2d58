use clap::CommandFactory;
use e810_backends::spec::{DeviceSpec, SimSpec};

use super::*;
use crate::cli::device::PairDevice;
use crate::measure::op::PingpongOp;

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn the_lan_side_can_be_given() {
    let words = "e810 up --warm --mac 02:E8:10:00:00:0a --vsi 9 --mtu 9000";
    let cli = Cli::try_parse_from(words.split(' ')).unwrap();
    let Command::Up(args) = cli.command else {
        panic!("up")
    };
    assert_eq!(args.start.mac, Some([2, 0xe8, 0x10, 0, 0, 10]));
    assert_eq!((args.start.vsi, args.start.mtu), (Some(9), Some(9000)));
}

#[test]
fn a_program_has_options_of_its_own() {
    let parse = |words: &str| Cli::try_parse_from(words.split(' '));
    let run = |words: &str| match parse(words).unwrap().command {
        Command::Run(args) => args,
        other => panic!("{other:?}"),
    };
    let args =
        run("e810 run -d sim@10.8.1.1 --device 3b:00.0 --all ibv_rc_pingpong -d e810_0 -g 0");
    assert_eq!(args.program, ["ibv_rc_pingpong", "-d", "e810_0", "-g", "0"]);
    let devices: Vec<String> = args.device.iter().map(ToString::to_string).collect();
    assert_eq!(devices, ["sim@10.8.1.1", "vfio:0000:3b:00.0"]);
    assert_eq!(run("e810 run -- sh -c true").program, ["sh", "-c", "true"]);
    assert_eq!(run("e810 run --print-env").program, [""; 0]);
    for bad in [
        "e810 run",
        "e810 run --all",
        "e810 run --device sim@10.8 true",
        "e810 run --device sim --wire lab true",
        "e810 run --device sim --functions 2 true",
        "e810 run --functions 251 true",
        "e810 run --wire a/b true",
        "e810 run --print-env --dev-infiniband",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn defaults_and_limits() {
    let cli = Cli::try_parse_from(["e810", "pingpong"]).unwrap();
    let Command::Pingpong(args) = cli.command else {
        panic!("pingpong")
    };
    assert_eq!(
        (args.size, args.iters, args.op),
        (None, None, PingpongOp::Send)
    );
    for bad in [
        &["e810", "pingpong", "--iters", "0"][..],
        &["e810", "pingpong", "--size", "67108865"],
        &["e810", "pingpong", "--size", "0"],
        &["e810", "pingpong", "--op", "atomic"],
        &["e810", "pingpong", "--device", "eth0"],
        &["e810", "pingpong", "--warm", "--mac", "02:e8:10:00:00"],
        &["e810", "pingpong", "--warm", "--mac", "03:e8:10:00:00:01"],
        &[
            "e810",
            "pingpong",
            "--warm",
            "--peer-mac",
            "+2:e8:10:00:00:01",
        ],
        &["e810", "pingpong", "--port", "7"],
        &["e810", "pingpong", "--wait", "7"],
        &["e810", "pingpong", "--cm"],
        &["e810", "pingpong", "--pcap", "-"],
        &["e810", "pingpong", "--trace", "-"],
        &["e810", "perf", "--plot", "-"],
        &["e810", "perf", "--plot", "a.png"],
        &["e810", "report", "--out", "-"],
        &["e810", "sim", "--socket", "a", "--report", "-"],
        &["e810", "pingpong", "--peer-mac", "02:e8:10:00:00:01"],
        &["e810", "pingpong", "--listen", "18515"],
        &["e810", "pingpong", "--connect", "127.0.0.1:x"],
        &["e810", "pingpong", "--size", "65M"],
        &["e810", "pingpong", "--duration", "1", "--iters", "5"],
        &["e810", "pingpong", "--duration", "1", "--virtual"],
        &["e810", "perf", "-D", "1", "-a"],
        &["e810", "perf", "--op", "send-inv"],
        &["e810", "monitor", "--op", "send-inv"],
        &["e810", "connections", "--device", "sim"],
        &["e810", "perf", "--csv", "--json"],
        &["e810", "pingpong", "--connect=127.0.0.1:1", "--peer=sim"],
        &["e810", "pingpong", "--connect=127.0.0.1:1", "--virtual"],
        &[
            "e810",
            "pingpong",
            "--connect=127.0.0.1:1",
            "--listen=127.0.0.1:1",
        ],
        &["e810", "pingpong", "--wait", "0"],
        &["e810", "pingpong", "--transport", "uc"],
        &["e810", "perf", "--all", "--size", "64"],
        &["e810", "perf", "--size", "8388609"],
        &["e810", "perf", "--inline", "102"],
        &["e810", "perf", "--post-list", "65"],
        &["e810", "perf", "--qps", "0"],
        &["e810", "perf", "--peer-mac", "02:e8:10:00:00:01"],
        &["e810", "up", "--warm", "--ddp", "ice.pkg"],
        &["e810", "up", "--mtu", "67"],
        &["e810", "sim"],
        &["e810", "sim", "--socket", "a", "--link", "udp"],
        &["e810", "sim", "--socket", "a", "--link", "udp:127.0.0.1:1"],
        &["e810", "sim", "--socket", "a", "--faults", "loss=1"],
        &["e810", "sim", "--socket", "a", "--latency", "1"],
        &["e810", "sim", "--socket", "a", "--rate", "25"],
        &["e810", "pingpong", "--device", "sim:rate=fast"],
        &["e810", "pingpong", "--faults", "loss=101%"],
        &["e810", "down"],
        &["e810", "bind"],
        &["e810", "bind", "eth0"],
        &["e810", "doctor", "3b:00.9"],
    ] {
        assert_eq!(Cli::try_parse_from(bad).unwrap_err().exit_code(), 2);
    }
}

#[test]
fn short_options_are_those_of_the_field() {
    let words =
        "e810 perf -s 64K -n 5 -d sim -q 2 -t 64 -l 4 -I 32 -p 7 --connect b -x 1 -m 512 -H -e";
    let cli = Cli::try_parse_from(words.split(' ')).unwrap();
    let Command::Perf(args) = cli.command else {
        panic!("perf")
    };
    assert_eq!(
        (args.size, args.iters, args.qps),
        (Some(65_536), Some(5), 2)
    );
    let sim = DeviceSpec::Sim(SimSpec::default());
    assert_eq!(args.pair.device, Some(PairDevice::Own(sim)));
    assert_eq!((args.depth, args.post_list, args.inline), (Some(64), 4, 32));
    assert_eq!(
        (args.pair.rendezvous.port, args.pair.address.gid_index),
        (7, Some(1))
    );
    assert_eq!(args.pair.address.path_mtu, Some(e810::Mtu::Mtu512));
    assert!(args.histogram && args.pair.events && !args.all);
    let cli = Cli::try_parse_from(["e810", "perf", "-a"]).unwrap();
    assert!(matches!(cli.command, Command::Perf(args) if args.all));
    let cli = Cli::try_parse_from(["e810", "pingpong", "-D", "0.7"]).unwrap();
    let time = Some(e810_hal::Ns::from_ms(700));
    assert!(matches!(cli.command, Command::Pingpong(args) if args.duration == time));
}

#[test]
fn a_wrong_number_is_refused_with_the_valid_range() {
    for (words, says) in [
        ("perf --size 1Q", "like 64, 64K or 1M (K = 1024)"),
        (
            "pingpong --iters many",
            "`many` is not a whole number from 1 to 1000000000",
        ),
        ("perf --qps 0", "from 1 to 256"),
        ("pingpong --listen 18515", "a port alone is :18515"),
        (
            "pingpong --size -1",
            "`-1` is not a size from 1 to 64M bytes",
        ),
        ("perf -q -1", "from 1 to 256"),
        ("ping -c -1 192.0.2.1", "`-1` is not a whole number"),
        ("up --mtu 67", "from 68 to 9702"),
        ("monitor --interval 1s", "from 10 to 60000"),
        ("sim --socket a --vectors 1M", "from 1 to 1024"),
        ("sim --socket a --seed x", "from 0 upwards"),
        ("sim --socket a --window 0", "from 1 to 1048576"),
        ("sim --socket a --ack-credits 32", "from 0 to 31"),
    ] {
        let words = format!("e810 {words}");
        let error = Cli::try_parse_from(words.split(' '))
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{words}: {error}");
        assert!(!error.contains("invalid digit"), "{error}");
    }
}

#[test]
fn help_of_monitor_leaves_out_what_it_refuses() {
    let mut cli = Cli::command();
    let command = cli.find_subcommand_mut("monitor").unwrap();
    let help = command.render_long_help().to_string();
    for option in [
        "--listen",
        "--connect",
        "--cm",
        "--port",
        "--with",
        "--wait",
        "--virtual",
    ] {
        let heads = help.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| word == option) && line.trim_start().starts_with('-')
        });
        assert!(!heads, "{option}: {help}");
    }
    assert!(help.contains("--device <SPEC>"), "{help}");
    assert!(!help.contains("Another process:"), "{help}");
}

/// What help says is what the command has.
#[test]
fn help_has_the_defaults_and_limits_of_the_constants() {
    use crate::commands::{perf, pingpong};
    use crate::measure::perf::{DEPTH, MAX_DEPTH, MAX_POST_LIST, MAX_QPS};
    let help = |name: &str| {
        let mut cli = Cli::command();
        let command = cli.find_subcommand_mut(name).unwrap();
        let help = command.render_long_help().to_string();
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (name, parts) in [
        (
            "perf",
            vec![
                format!("1 to 8M (K = 1024) [default: {}]", perf::SIZE),
                format!("Queue pairs, 1 to {MAX_QPS}"),
                format!("--test bw, 1 to {MAX_DEPTH} [default: {DEPTH}]"),
                format!("with one doorbell, 1 to {MAX_POST_LIST}"),
                format!("on each queue pair [default: {}]", perf::ITERATIONS),
            ],
        ),
        (
            "pingpong",
            vec![
                format!("1 to 64M (K = 1024) [default: {}]", pingpong::SIZE),
                format!("Messages to exchange [default: {}]", pingpong::ITERATIONS),
            ],
        ),
        (
            "monitor",
            vec![
                format!("Queue pairs, 1 to {MAX_QPS}"),
                format!("queue pair, 1 to {MAX_DEPTH} [default: {DEPTH}]"),
            ],
        ),
    ] {
        for part in parts {
            let help = help(name);
            assert!(help.contains(&part), "{name}: {part}: {help}");
        }
    }
}

#[test]
fn a_socket_has_a_short_path() {
    let long = "a".repeat(108);
    let error = Cli::try_parse_from(["e810", "sim", "--socket", &long]).unwrap_err();
    assert!(error.to_string().contains("at most 107"), "{error}");
}

#[test]
fn the_wire_of_a_server_can_be_changed() {
    let words =
        "e810 sim --socket /tmp/a --ack-timeout 500ms --window 32 --rnr-timer 1 --ack-credits 31";
    let cli = Cli::try_parse_from(words.split(' ')).unwrap();
    let Command::Sim(args) = cli.command else {
        panic!("sim")
    };
    let limits = e810_sim::pe::TransportLimits {
        ack_timeout: Some(e810_hal::Ns::from_ms(500)),
        window: Some(32),
        rnr_timer: Some(1),
        ack_credits: Some(31),
    };
    assert_eq!(e810_sim::pe::TransportLimits::from(args.transport), limits);
    for bad in [
        "--window 0",
        "--rnr-timer 32",
        "--ack-credits 32",
        "--ack-timeout 5",
        "--ack-timeout 0ms",
        "--ack-timeout 11000ms",
    ] {
        let words = format!("e810 sim --socket /tmp/a {bad}");
        assert!(Cli::try_parse_from(words.split(' ')).is_err(), "{bad}");
    }
}

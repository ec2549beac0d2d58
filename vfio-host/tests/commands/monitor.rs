//! `e810 monitor`: what it says of its own messages, and of another command.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{good, run, temporary_folder};

fn views(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// The vector of a function's completion queue.
fn busy(function: &Value) -> &Value {
    let number = &function["cqs"][0]["completion_vector"];
    let mut vectors = function["vectors"].as_array().unwrap().iter();
    vectors
        .find(|vector| vector["completion_vector"] == *number)
        .unwrap()
}

#[test]
fn a_snapshot_has_an_end() {
    let views = views(&good("monitor --json --duration 1 --interval 100"));
    assert!(!views.is_empty());
}

#[test]
fn messages_of_its_own_are_seen() {
    let views = views(&good(
        "monitor --json --count 2 --interval 300 --moderation 20us",
    ));
    let [first, second] = &views[..] else {
        panic!("{views:?}");
    };
    for view in [first, second] {
        assert!(number(&view["interval_ns"]) >= 300e6);
        let functions = view["functions"].as_array().unwrap();
        assert_eq!(functions.len(), 2);
        for function in functions {
            assert_eq!(function["device"], "sim");
            assert_eq!(function["port"]["state"], "active");
            let vector = busy(function);
            let cq = &function["cqs"][0];
            assert_eq!(vector["timing"]["interval_us"], 20);
            assert_eq!(
                (&cq["moderation"], &cq["wait_us"]),
                (&"fixed".into(), &20.into())
            );
            assert!(number(&vector["interrupts_per_s"]) > 0.0);
            // It is the quotient of the two rates.
            let each = number(&cq["completions_per_s"]) / number(&vector["interrupts_per_s"]);
            let reported = number(&vector["completions_per_interrupt"]);
            assert!((each - reported).abs() < each / 1e6, "{each} {reported}");
            let (waiting, entries) = (&cq["depth"]["waiting"], &cq["depth"]["entries"]);
            assert!(number(waiting) <= 256.0 && number(entries) >= 257.0);
            assert_eq!(function["async_events"]["total"], 0);
        }
        // A SEND completes once here and once there.
        let [ask, answer] = [&functions[0], &functions[1]];
        assert!(number(&ask["counters_per_s"]["RDMATXSNDS"]) > 0.0);
        assert!(number(&answer["counters_per_s"]["RDMARXSNDS"]) > 0.0);
    }
    let completions = |view: &Value| number(&view["functions"][0]["cqs"][0]["completions"]);
    assert!(completions(second) > completions(first));
}

#[test]
fn a_failure_is_seen_with_cause_and_remedy() {
    // The report is not lost with the failure.
    let mut bytes = Vec::new();
    let words = "e810 monitor --json --once --interval 2000 --faults loss=100%";
    let cli = clap::Parser::try_parse_from(words.split_whitespace()).unwrap();
    let error = e810_host::run(&cli, &mut bytes).unwrap_err();
    assert!(
        format!("{error:#}").contains("LLP_TOO_MANY_RETRIES"),
        "{error:#}"
    );
    let view = &views(&String::from_utf8(bytes).unwrap())[0];
    let events = &view["functions"][0]["async_events"];
    assert_eq!(events["total"], 1);
    let event = &events["last"][0];
    assert_eq!(event["name"], "LLP_TOO_MANY_RETRIES");
    assert!(event["object"].as_str().unwrap().starts_with("QP "));
    assert!(
        event["cause"]
            .as_str()
            .unwrap()
            .contains("did not acknowledge")
    );
    assert!(event["remedy"].as_str().unwrap().contains("4791"));
}

/// Another command, asked while it runs.
#[test]
fn another_command_is_monitored() {
    let folder = temporary_folder();
    let path = folder.as_path().join("look");
    let at = path.display().to_string();
    let perf = format!(
        "perf --test bw --size 1024 --iters 10000000 --events --moderation adaptive --monitor {at}"
    );
    // It ends when the test does: there is no end of it otherwise.
    thread::spawn(move || run(&perf));
    let limit = Instant::now() + Duration::from_secs(300);
    let text = loop {
        match run(&format!("monitor --at {at} --once --json --interval 100")) {
            Ok(text) if views(&text)[0]["functions"].as_array().unwrap().len() == 2 => break text,
            _ if Instant::now() < limit => thread::sleep(Duration::from_millis(20)),
            other => panic!("{other:?}"),
        }
    };
    let view = &views(&text)[0];
    assert_eq!(view["command"], "perf");
    let cq = &view["functions"][0]["cqs"][0];
    assert_eq!(cq["moderation"], "adaptive");
    assert!(number(&cq["profile"]["index"]) < number(&cq["profile"]["of"]));
    // For people too, and more than one at a time.
    let both = [(); 2].map(|()| {
        let words = format!("monitor --at {at} --once --interval 50");
        thread::spawn(move || good(&words))
    });
    for text in both.map(|thread| thread.join().unwrap()) {
        assert!(text.starts_with("perf (process "), "{text}");
        for word in [
            "function 0 (sim)",
            "comp. vector 0",
            "adaptive",
            "RDMATXSNDS",
        ] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
    }
}

#[test]
fn what_cannot_be_is_said() {
    let error = run("monitor --at /nonexistent/socket --once").unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("start the command to monitor with --monitor"),
        "{text}"
    );
    for (words, says) in [
        ("monitor --virtual", "leave it out"),
        ("monitor --listen 127.0.0.1:0", "perf --monitor PATH"),
        ("perf --moderation 50us", "add --events"),
        ("pingpong --moderation adaptive", "add --events"),
        ("monitor --at x --qps 2", "cannot be used with"),
        ("monitor --once --count 2", "cannot be used with"),
        (
            "perf --events --moderation 50",
            "is not a moderation setting",
        ),
    ] {
        let text = format!("{:#}", run(words).unwrap_err());
        assert!(text.contains(says), "{words}: {text}");
    }
}

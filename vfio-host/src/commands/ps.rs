//! `e810 ps`: the programs that share served functions.

use std::collections::BTreeMap;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e810_attach::asker::{Census, programs};
use e810_attach::messages::{Counts, Held, Row};
use e810_attach::places::{Places, further};
use e810_attach::socket::{Socket, named};
use serde::Serialize;

use crate::cli::PsArgs;
use crate::cli::device::places;
use crate::output::json;
use crate::output::terminal::Paint;
use crate::output::units::human_bytes;

/// A command that is under way for longer is remarkable: the device answers in milliseconds, and a
/// peer that is asked for its address within a second.
const LONG: u64 = 1000;

/// The JSON of `e810 ps`.
#[derive(Serialize)]
struct Report<'a> {
    at: String,
    /// All programs, also those of others.
    programs: u64,
    total: Held,
    is_closing: bool,
    seen: Vec<ProgramReport<'a>>,
}

#[derive(Serialize)]
struct ProgramReport<'a> {
    id: u64,
    pid: u32,
    name: &'a str,
    uid: u32,
    held: Held,
    counts: Counts,
    commands_per_second: f64,
    doorbells_per_second: f64,
    unread_messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    under_way: Option<UnderWay<'a>>,
    /// It does not read what it is told, or a command of it takes long.
    is_stuck: bool,
}

#[derive(Serialize)]
struct UnderWay<'a> {
    command: &'a str,
    ms: u64,
}

/// A served function, and its programs when they were first asked for.
struct Function {
    at: String,
    socket: Socket,
    before: Census,
    began: Instant,
}

impl Function {
    fn reach(places: &Places) -> Result<Self> {
        let (path, socket) = places.reach(Duration::ZERO)?;
        let at = path.display().to_string();
        let before = ask(&at, &socket)?;
        Ok(Self {
            at,
            socket,
            before,
            began: Instant::now(),
        })
    }
}

fn ask(at: &str, socket: &Socket) -> Result<Census> {
    // Of a socket that systemd has made, the number is systemd's.
    let server = socket.peer().ok().filter(|peer| peer.pid != 1);
    let server = server.map(|peer| format!(" ({})", named(peer.pid)));
    let asked = programs(socket);
    asked.with_context(|| format!("{at}{}", server.unwrap_or_default()))
}

/// Runs the command.
///
/// # Errors
/// Nobody serves a function there, or it does not answer.
pub fn run(args: &PsArgs, out: &mut dyn Write) -> Result<()> {
    let first = Function::reach(&places(args.at.as_ref()))?;
    let beside = further(first.at.as_ref());
    let mut functions = vec![first];
    for path in beside {
        functions.push(Function::reach(&Places::only(path))?);
    }
    if functions.iter().any(|one| !one.before.rows.is_empty()) {
        thread::sleep(Duration::from_millis(args.interval));
    }
    for Function {
        at,
        socket,
        before,
        began,
    } in functions
    {
        let now = match before.rows.is_empty() {
            true => before.clone(),
            false => ask(&at, &socket)?,
        };
        let seen = rated(&before, &now, began.elapsed());
        if args.json {
            let report = Report {
                at,
                programs: now.programs,
                total: now.total,
                is_closing: now.is_closing,
                seen,
            };
            json::write_line(out, "ps", &report)?;
        } else {
            print(&at, &now, &seen, out)?;
        }
    }
    Ok(())
}

/// The programs of the second census, with their rates since the first one.
fn rated<'a>(before: &Census, now: &'a Census, passed: Duration) -> Vec<ProgramReport<'a>> {
    let earlier: BTreeMap<u64, Counts> =
        before.rows.iter().map(|row| (row.id, row.counts)).collect();
    let per_second = |from: u64, to: u64| match passed.as_secs_f64() {
        seconds if seconds > 0.0 => to.saturating_sub(from) as f64 / seconds,
        _ => 0.0,
    };
    let rated = now.rows.iter().map(|row| {
        let before = earlier.get(&row.id).copied().unwrap_or_default();
        let under_way = row.under_way.as_ref();
        ProgramReport {
            id: row.id,
            pid: row.pid,
            name: &row.name,
            uid: row.uid,
            held: row.held,
            counts: row.counts,
            commands_per_second: per_second(before.commands, row.counts.commands),
            doorbells_per_second: per_second(before.doorbells, row.counts.doorbells),
            unread_messages: row.unread,
            under_way: under_way.map(|(command, ms)| UnderWay { command, ms: *ms }),
            is_stuck: remarks(row).next().is_some(),
        }
    });
    rated.collect()
}

/// Why a program is stuck.
fn remarks(row: &Row) -> impl Iterator<Item = String> {
    let unread = (row.unread > 0).then(|| {
        format!(
            "does not read what it is told: {} messages wait",
            row.unread
        )
    });
    let long = row.under_way.as_ref().filter(|(_, ms)| *ms > LONG);
    let long = long.map(|(command, ms)| {
        let seconds = *ms as f64 / 1e3;
        format!("{command} has been under way for {seconds:.1} s")
    });
    unread.into_iter().chain(long)
}

/// So many of something.
fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn print(at: &str, now: &Census, seen: &[ProgramReport<'_>], out: &mut dyn Write) -> Result<()> {
    let Held {
        qps,
        cqs,
        mrs,
        bytes,
        ..
    } = now.total;
    let closing = if now.is_closing {
        "; it ends, and takes no new ones"
    } else {
        ""
    };
    writeln!(
        out,
        "{at}: {}, {}, {}, {}, {} of memory{closing}",
        counted(now.programs, "program"),
        counted(qps as u64, "queue pair"),
        counted(cqs as u64, "completion queue"),
        counted(mrs as u64, "region"),
        human_bytes(bytes)
    )?;
    if !seen.is_empty() {
        let head = format!(
            "{:>7} {:<15} {:>5} {:>5} {:>5} {:>5} {:>10} {:>9} {:>7} {:>9}",
            "pid", "program", "user", "qps", "cqs", "mrs", "memory", "commands", "/s", "doorb./s"
        );
        writeln!(out, "{}", Paint::Head.on(&head))?;
    }
    for (row, program) in now.rows.iter().zip(seen) {
        writeln!(
            out,
            "{:>7} {:<15} {:>5} {:>5} {:>5} {:>5} {:>10} {:>9} {:>7.0} {:>9.0}",
            row.pid,
            row.name,
            row.uid,
            row.held.qps,
            row.held.cqs,
            row.held.mrs,
            human_bytes(row.held.bytes),
            row.counts.commands,
            program.commands_per_second,
            program.doorbells_per_second,
        )?;
        for remark in remarks(row) {
            writeln!(out, "        {}", Paint::Bad.on(&remark))?;
        }
    }
    let hidden = now.programs.saturating_sub(now.rows.len() as u64);
    if hidden > 0 {
        let hidden = counted(hidden, "more program");
        writeln!(
            out,
            "{hidden} of other users, which root and the server's user see"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, unread: u64, ms: u64) -> Row {
        Row {
            id,
            pid: 4711,
            name: "ib_write_bw".to_owned(),
            uid: 1000,
            held: Held {
                qps: 3,
                bytes: 3 << 19,
                ..Held::default()
            },
            counts: Counts {
                commands: 100 * id,
                ..Counts::default()
            },
            under_way: (ms > 0).then(|| ("ModifyQp".to_owned(), ms)),
            unread,
        }
    }

    #[test]
    fn who_is_stuck_is_said_and_rates_are_of_the_same_program() {
        let census = |rows: Vec<Row>| Census {
            total: Held::default(),
            programs: 4,
            is_closing: true,
            rows,
        };
        let mut earlier = row(1, 0, 0);
        earlier.counts.commands = 50;
        let before = census(vec![earlier]);
        let now = census(vec![row(1, 0, 900), row(2, 7, 0), row(3, 0, 2500)]);
        let seen = rated(&before, &now, Duration::from_secs(2));
        let stuck: Vec<_> = seen.iter().map(|one| one.is_stuck).collect();
        assert_eq!(stuck, [false, true, true]);
        assert_eq!(seen[0].commands_per_second, 25.0);
        let mut out = Vec::new();
        print("/run/a", &now, &seen, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in [
            "/run/a: 4 programs",
            "takes no new ones",
            "4711 ib_write_bw      1000     3",
            "1.5 MiB",
            "does not read what it is told: 7 messages wait",
            "ModifyQp has been under way for 2.5 s",
            "1 more program of other users",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("0.9 s"), "{text}");
    }
}

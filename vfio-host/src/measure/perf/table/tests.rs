use super::*;
use e810_hal::Ns;

/// The two lines of a table with one row.
fn lines(test: Test, layout: Layout) -> Vec<String> {
    let spread = Spread {
        min: 1_000,
        max: 999_999_990,
        typical: 2_000,
        average: 2_500.0,
        stdev: 9_999_990.0,
        p90: 3_000,
        p99: 4_000,
        p999: 999_999_990,
    };
    let run = Run {
        messages: 10_000_000,
        elapsed: Ns(80_000_000),
        ..Run::default()
    };
    let row = Row {
        bytes: 8 << 20,
        iterations: 10_000_000,
        latency_ns: (test == Test::Latency).then_some(spread),
        histogram: Vec::new(),
        bandwidth: run.bandwidth(100).filter(|_| test == Test::Bandwidth),
        verified: 1,
        errors: 0,
    };
    let table = Table::new(test, true, layout);
    let mut out = Vec::new();
    let columns = table.columns();
    let names = columns.iter().map(|column| match table.is_narrow() {
        true => column.short.to_owned(),
        false => column.name.to_owned(),
    });
    table.line(&names.collect::<Vec<_>>(), &mut out).unwrap();
    table.row(&row, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_table_fits_its_terminal() {
    for test in [Test::Latency, Test::Bandwidth] {
        for (width, fields) in [(60, [6, 4]), (80, [9, 5]), (200, [9, 5])] {
            let layout = Layout {
                width: Some(width),
                ..Layout::default()
            };
            for line in lines(test, layout) {
                assert!(line.chars().count() <= width, "{width}: {line}");
                let fields = fields[usize::from(test == Test::Bandwidth)];
                // "BW peak[..]" is two words.
                let words = line.replace("BW ", "BW_");
                let words = words.split_whitespace().count();
                assert!(words == fields || (width == 60 && words == 5), "{line}");
            }
        }
    }
}

#[test]
fn values_are_separated_by_commas_if_asked_for() {
    let csv = Layout {
        csv: true,
        gbits: true,
        width: Some(60),
    };
    let expected = [
        "#bytes,#iterations,BW peak[Gb/sec],BW average[Gb/sec],MsgRate[Mpps]",
        "8388608,10000000,100.00,100.00,125.000000",
    ];
    assert_eq!(lines(Test::Bandwidth, csv), expected);
    assert_eq!(lines(Test::Latency, csv)[1].split(',').count(), 9);
}

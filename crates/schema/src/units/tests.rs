//! Every accepted form, every refused one, and that shown values are read back.

use super::*;
use proptest::prelude::*;

fn bps(text: &str) -> u64 {
    parse_rate(text, Rate::from_bps(1_000_000_000).ok()).unwrap_or_else(|error| panic!("{text}: {error}")).bps()
}

#[test]
fn units_are_powers_of_ten_and_of_two() {
    assert_eq!(bps("1bit"), 1);
    assert_eq!(bps("1.5mbit"), 1_500_000);
    assert_eq!(bps("1 Gbit/s"), 1_000_000_000);
    assert_eq!(bps("1tbit"), 1_000_000_000_000);
    assert_eq!(bps("0.1 kbit"), 100);
    assert_eq!(bps("2kibit"), 2048);
    assert_eq!(bps("0.5mibit"), 524_288);
    assert_eq!(bps("0.000000000931322574615478515625gibit"), 1);
    assert_eq!(bps("30%"), 300_000_000);
    assert_eq!(bps("0.00000033%"), 3);
    assert_eq!(parse_size("1.5kB", 10_000), Ok(1500));
    assert_eq!(parse_size("64KiB", u64::MAX), Ok(65_536));
    assert_eq!(parse_size("0B", 10), Ok(0));
    assert_eq!(parse_time("1.35s"), Ok(Nanos(1_350_000_000)));
    assert_eq!(parse_time("20µs"), Ok(Nanos(20_000)));
    assert_eq!(parse_queue("100p"), Ok(QueueLength::Packets(100)));
    assert_eq!(parse_queue("2MiB"), Ok(QueueLength::Bytes(2_097_152)));
    assert_eq!(parse_queue("50ms"), Ok(QueueLength::Time(Nanos(50_000_000))));
}

#[test]
fn what_is_refused_says_why_and_what_to_write() {
    let mut table = String::new();
    let mut line = |text: &str, error: UnitError| table.push_str(&format!("{text:?}: {error}\n    {}\n", error.help()));
    let link = Rate::from_bps(100).ok();
    let rates = [
        "",
        "100",
        "1e6bit",
        "1.5",
        "0mbit",
        "0.5bit",
        "0.0015kbit",
        "-5mbit",
        "1.1tbit",
        "5kbps",
        "1.25Mbps",
        "8bps",
        "5 furlong",
        "mbit",
        ".5mbit",
        "5.mbit",
        "1..5mbit",
        "0.1%",
        "101%",
        "50 %%",
        "99999999999999999999999999mbit",
        "1_000bit",
        "5kB",
        "0.00000000000001%",
    ];
    for text in rates {
        line(text, parse_rate(text, link).unwrap_err());
    }
    line("5%", parse_rate("5%", None).unwrap_err());
    for text in ["1500", "1.5B", "2KB", "1.0001kB", "2MB", "5p", "5b"] {
        line(text, parse_size(text, 1 << 20).unwrap_err());
    }
    for text in ["100", "0p", "1.5p", "0ms", "5GB", "4294967296p"] {
        line(text, parse_queue(text).unwrap_err());
    }
    for text in ["10", "10m", "0.5ns", "1min", "20000000000s", "S"] {
        line(text, parse_time(text).unwrap_err());
    }
    insta::assert_snapshot!(table);
}

proptest! {
    #[test]
    fn what_is_shown_reads_back_exactly(value in 1u64..=1_000_000_000_000, any in any::<u64>()) {
        let rate = Rate::from_bps(value).unwrap();
        prop_assert_eq!(parse_rate(&show_rate(rate), None), Ok(rate));
        prop_assert_eq!(parse_size(&show_size(any), u64::MAX), Ok(any));
        prop_assert_eq!(parse_time(&show_time(Nanos(any))), Ok(Nanos(any)));
    }

    #[test]
    fn decimals_are_exact_or_refused(digits in 0u64..1_000_000_000_000, places in 0u32..14, unit in 0usize..8) {
        let (name, factor) = RATES[unit];
        let by = match factor { Factor::Ten(k) => 10u128.pow(k), Factor::Two(k) => 1 << k };
        let text = format!("{}{name}", decimal(u128::from(digits), places));
        let product = u128::from(digits) * by;
        let one = 10u128.pow(places);
        let found = parse_rate(&text, None);
        if product % one != 0 {
            prop_assert!(matches!(found, Err(UnitError::TooFine { .. })), "{}: {:?}", text, found);
        } else if product == 0 {
            prop_assert!(matches!(found, Err(UnitError::Zero { .. })), "{}: {:?}", text, found);
        } else if product / one > u128::from(Rate::MAX.bps()) {
            prop_assert!(matches!(found, Err(UnitError::TooLarge { .. })), "{}: {:?}", text, found);
        } else {
            prop_assert_eq!(found.map(|rate| u128::from(rate.bps())), Ok(product / one), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(text in "[0-9.]{0,60}[a-zA-Z%µ/ ]{0,6}|\\PC{0,20}") {
        let link = Rate::from_bps(1_000).ok();
        let _ = (parse_rate(&text, link), parse_size(&text, 5), parse_queue(&text), parse_time(&text));
    }
}

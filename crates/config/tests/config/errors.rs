//! What users read when a file is wrong: the place, the value, the limit, and what to do.

use fairlink_config::{Change, LinkFile, Problems, ReadOptions, Scenario};
use fairlink_core::{
    BuildError, Feature, Leniency, MAX_DEPTH,
    registry::{self, SCHEDULERS},
};
use miette::{GraphicalReportHandler, GraphicalTheme};

fn link(text: &str) -> Result<LinkFile, Problems> {
    LinkFile::parse("bad.toml", text, &ReadOptions::default())
}

/// For each case: the title, the file and its messages.
fn table(cases: &[(&str, &str)], check: impl Fn(&str) -> String) -> String {
    let mut table = String::new();
    for (title, text) in cases {
        let said = check(text);
        assert!(!said.is_empty(), "{title}: nothing is said");
        let said: String = said.lines().map(|line| without_schedulers(line) + "\n").collect();
        table += &format!("# {title}\n{said}\n");
    }
    table
}

/// Replaces lists of schedulers, which these tables do not test.
fn without_schedulers(line: &str) -> String {
    let names = |list: &str| list.split(", ").all(|name| registry::find(name).is_some());
    let Some((said, help)) = line.split_once("; ") else { return line.to_owned() };
    let (help, rest) = help.split_once("; ").map_or((help, ""), |(help, _)| (help, "; or use --lenient to ignore it"));
    let schedulers = help == "no scheduler does"
        || help.strip_prefix("supported by: ").is_some_and(names)
        || help.strip_prefix("there are: ").is_some_and(names);
    if schedulers { format!("{said}; (schedulers){rest}") } else { line.to_owned() }
}

fn refusal(text: &str) -> String {
    link(text).err().map_or(String::new(), |problems| problems.lines())
}

/// A sound link in one line, to put classes behind.
const LINK: &str = "link.rate = '1gbit'\n";

fn with_link(cases: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    cases.iter().map(|&(title, classes)| (title, format!("{LINK}{classes}"))).collect()
}

fn borrowed<'a>(cases: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    cases.iter().map(|(title, text)| (*title, text.as_str())).collect()
}

#[test]
fn errors_of_the_link_table_name_the_place_and_the_limit() {
    let class = "[[class]]\nname = 'a'\n";
    let cases = [
        ("empty file", ""),
        ("no rate", "[link]\n[[class]]\nname = 'a'"),
        ("no class", "[link]\nrate = '1gbit'"),
        ("not TOML: unquoted", "[link]\nrate = 1gbit\n[[class]]\nname = 'a'"),
        ("not TOML: unclosed", "[link\nrate = '1gbit'"),
        ("not TOML: a key twice", "[link]\nrate = '1gbit'\nrate = '2gbit'"),
        ("unknown key", "[link]\nrate = '1gbit'\nschedular = 'hls'\n[[class]]\nname = 'a'"),
        ("unknown table", "[link]\nrate = '1gbit'\n[[clases]]\nname = 'a'"),
        ("keys of tc", "[link]\nrate = '1gbit'\n[[class]]\nname = 'a'\nrate = '1mbit'\nceil = '2mbit'\nprio = 1"),
        ("keys of RouterOS", "[link]\nrate = '1gbit'\n[[class]]\nname = 'a'\nlimit-at = '1mbit'\nmax-limit = '2mbit'"),
        ("missing unit", "[link]\nrate = 1000\n[[class]]\nname = 'a'"),
        ("missing unit in quotes", "[link]\nrate = '1000'\n[[class]]\nname = 'a'"),
        ("kbps", "[link]\nrate = '500kbps'\n[[class]]\nname = 'a'"),
        ("zero rate", "[link]\nrate = '0mbit'\n[[class]]\nname = 'a'"),
        ("overflow", "[link]\nrate = '99999999999999999999tbit'\n[[class]]\nname = 'a'"),
        ("a share of itself", "[link]\nrate = '50%'\n[[class]]\nname = 'a'"),
        ("wrong type", "[link]\nrate = true\nscheduler = 5\nmtu = [1500]\n[[class]]\nname = 'a'"),
        ("wrong tables", "link = 5\n[class]\nname = 'a'"),
        ("unknown scheduler", "[link]\nrate = '1gbit'\nscheduler = 'zzz'\n[[class]]\nname = 'a'"),
        (
            "what fifo cannot honour",
            "link = { rate = '1gbit', scheduler = 'fifo' }\n[[class]]\nname = 'a'\nceiling = '5mbit'\n[[class]]\nname = 'b'\nparent = 'a'\nceiling_burst = '2kB'\nqueue = 'codel'",
        ),
        ("mtu", "[link]\nrate = '1gbit'\nmtu = '2MiB'\n[[class]]\nname = 'a'"),
        ("mtu of nothing", "[link]\nrate = '1gbit'\nmtu = '0B'\n[[class]]\nname = 'a'"),
        ("mtu with overhead", "[link]\nrate = '1gbit'\nmtu = '1MiB'\noverhead = 'atm'\n[[class]]\nname = 'a'"),
        ("overhead", "[link]\nrate = '1gbit'\noverhead = 'ethernt'\n[[class]]\nname = 'a'"),
        ("overhead in bytes", "[link]\nrate = '1gbit'\noverhead = '2kB'\n[[class]]\nname = 'a'"),
        ("buffer", "[link]\nrate = '1gbit'\nbuffer = '1MB'\n[[class]]\nname = 'a'"),
        ("memory", "[link]\nrate = '1gbit'\nmemory = '4G'\n[[class]]\nname = 'a'"),
        ("unknown default", "[link]\nrate = '1gbit'\ndefault = 'b'\n[[class]]\nname = 'a'"),
        (
            "default with children",
            "[link]\nrate = '1gbit'\ndefault = 'a'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nparent = 'a'",
        ),
        ("link file that is not there", "link = 'no/such/file.toml'"),
    ];
    assert!(link(&format!("{LINK}{class}")).is_ok());
    insta::assert_snapshot!(table(&cases, refusal));
}

#[test]
fn errors_of_classes_name_the_place_and_the_limit() {
    let too_deep: String = (0..=MAX_DEPTH)
        .map(|level| match level {
            0 => "[[class]]\nname = 'c0'\n".to_owned(),
            _ => format!("[[class]]\nname = 'c{level}'\nparent = 'c{}'\n", level - 1),
        })
        .collect();
    let cases = with_link(&[
        ("no name", "[[class]]\nweight = 1"),
        (
            "bad names",
            "[[class]]\nname = ''\n[[class]]\nname = 'link'\n[[class]]\nname = 'a=b'\n[[class]]\nname = ' a'",
        ),
        ("name of the wrong type", "[[class]]\nname = 5"),
        ("duplicate name", "[[class]]\nname = 'a'\n[[class]]\nname = 'b'\n[[class]]\nname = 'a'"),
        ("unknown parent", "[[class]]\nname = 'voice'\n[[class]]\nname = 'b'\nparent = 'vioce'"),
        ("unknown parent, nothing near", "[[class]]\nname = 'a'\nparent = 'warehouse'"),
        ("its own parent", "[[class]]\nname = 'a'\nparent = 'a'"),
        (
            "cycle",
            "[[class]]\nname = 'a'\nparent = 'b'\n[[class]]\nname = 'b'\nparent = 'c'\n[[class]]\nname = 'c'\nparent = 'a'\n\
             [[class]]\nname = 'd'\nparent = 'a'",
        ),
        ("too deep", &too_deep),
        ("unknown key", "[[class]]\nname = 'a'\nguarentee = '1mbit'"),
        ("key of nothing near", "[[class]]\nname = 'a'\ncolour = 'red'"),
        ("guarantee and weight", "[[class]]\nname = 'a'\nguarantee = '1mbit'\nweight = 3"),
        ("mixed shares", "[[class]]\nname = 'a'\nguarantee = '1mbit'\n[[class]]\nname = 'b'\nweight = 3"),
        ("weight of zero", "[[class]]\nname = 'a'\nweight = 0"),
        ("negative weight", "[[class]]\nname = 'a'\nweight = -1"),
        ("weight that overflows", "[[class]]\nname = 'a'\nweight = 99999999999999999999999"),
        ("fractional weight", "[[class]]\nname = 'a'\nweight = 1.5"),
        ("weight with a unit", "[[class]]\nname = 'a'\nweight = '3mbit'"),
        (
            "guarantees above the link's",
            "[[class]]\nname = 'a'\nguarantee = '700mbit'\n[[class]]\nname = 'b'\nguarantee = '31%'",
        ),
        (
            "guarantees above the parent's",
            "[[class]]\nname = 'a'\nguarantee = '300mbit'\n[[class]]\nname = 'b'\nparent = 'a'\nguarantee = '200mbit'\n\
             [[class]]\nname = 'c'\nparent = 'a'\nguarantee = '150.5mbit'",
        ),
        ("zero guarantee", "[[class]]\nname = 'a'\nguarantee = '0bit'"),
        ("negative guarantee", "[[class]]\nname = 'a'\nguarantee = '-1mbit'"),
        ("priority", "[[class]]\nname = 'a'\npriority = 256"),
        ("burst and quantum of zero", "[[class]]\nname = 'a'\nburst = '0B'\nquantum = '0B'"),
        ("contract of zero time", "[[class]]\nname = 'a'\ncontract = { bytes = '3kB', every = '0s' }"),
        ("contract without time", "[[class]]\nname = 'a'\ncontract = { bytes = '3kB' }"),
        ("contract of the wrong type", "[[class]]\nname = 'a'\ncontract = '3kB'"),
        ("curve of both forms", "[[class]]\nname = 'a'\nreal_time = { m1 = '1mbit', rate = '1mbit' }"),
        ("curve without length", "[[class]]\nname = 'a'\nreal_time = { m1 = '1mbit', m2 = '2mbit' }"),
        ("curve of nothing", "[[class]]\nname = 'a'\nlink_share = { m1 = '0bit', d = '1ms', m2 = '0bit' }"),
        ("curve without delay", "[[class]]\nname = 'a'\nreal_time = { burst = '160B', rate = '64kbit' }"),
        ("curve without rate", "[[class]]\nname = 'a'\nreal_time = { burst = '160B', delay = '5ms' }"),
        ("curve too steep", "[[class]]\nname = 'a'\nreal_time = { burst = '1MB', delay = '1us', rate = '64kbit' }"),
        ("leaky bucket", "[[class]]\nname = 'a'\nleaky_bucket = { burst = '1kB', peak = '1mbit', rate = '2mbit' }"),
        ("leaky buckets, none", "[[class]]\nname = 'a'\nleaky_bucket = []"),
        (
            "leaky buckets, one wrong",
            "[[class]]\nname = 'a'\nleaky_bucket = [{ burst = '1kB', peak = '2mbit', rate = '1mbit' },\n\
             { burst = '9kB', peak = '1mbit', rate = '2mbit' }, 'fast']",
        ),
        ("leaky buckets, too many", "[[class]]\nname = 'a'\nleaky_bucket = [1, 2, 3, 4, 5]"),
        ("buffer of zero", "[[class]]\nname = 'a'\nbuffer = '0p'"),
        ("buffer without unit", "[[class]]\nname = 'a'\nbuffer = 100"),
        ("buffer as a time without guarantee", "[[class]]\nname = 'a'\nbuffer = '50ms'"),
        ("buffer of less than a byte", "[[class]]\nname = 'a'\nguarantee = '1bit'\nbuffer = '50ms'"),
        ("queue", "[[class]]\nname = 'a'\nqueue = 'fqcodel'"),
        (
            "leaf setting at an inner class",
            "[[class]]\nname = 'a'\nbuffer = '10p'\n[[class]]\nname = 'b'\nparent = 'a'",
        ),
        (
            "pool below another class",
            "link.scheduler = 'htb'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nparent = 'a'\npool = 'up'",
        ),
    ]);
    insta::assert_snapshot!(table(&borrowed(&cases), refusal));
}

/// Values that no key, or only a few, can take.
const BAD_VALUES: [&str; 12] = [
    "true",
    "0",
    "5000",
    "1.5",
    "'zzz'",
    "''",
    "'-1mbit'",
    "'5kbps'",
    "'0B'",
    "'99999999999999999999GB'",
    "[]",
    "{ zzz = 1 }",
];

#[test]
fn every_key_refuses_what_it_cannot_be() {
    let keys_of = |text: &str| -> Vec<String> {
        let said = refusal(text);
        let (_, list) = said.lines().find_map(|line| line.split_once("there are: ")).unwrap();
        list.split(", ").map(str::to_owned).collect()
    };
    let mut table = String::new();
    let mut add = |place: &str, key: &str, value: &str, text: &str| {
        let said = link(text).err().map_or("taken\n".to_owned(), |problems| problems.lines());
        let said: String = said.lines().map(|line| without_schedulers(line) + "\n").collect();
        table += &format!("# {place} {key} = {value}\n{said}");
    };
    for key in keys_of("link = { rate = '1gbit', zzzzzzzz = 1 }\nclass = [{ name = 'a' }]").iter() {
        for value in BAD_VALUES {
            let rate = if key == "rate" { "" } else { "rate = '1gbit'\n" };
            add("link", key, value, &format!("[link]\n{rate}{key} = {value}\n[[class]]\nname = 'a'\n"));
        }
    }
    for key in keys_of(&format!("{LINK}class = [{{ name = 'a', zzzzzzzz = 1 }}]")).iter() {
        for value in BAD_VALUES {
            let name = if key == "name" { "" } else { "name = 'a'\n" };
            add("class", key, value, &format!("{LINK}[[class]]\n{name}{key} = {value}\n"));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn several_wrong_keys_of_a_class_are_all_said_in_the_order_of_the_file() {
    let all = "[[class]]\nname = 'a'\nzeta = 1\nqueue = 'codl'\necn = 5\nper = 'ip'\nhosts = 1\nmatch = 5\npriority = 256\n\
               ceiling = '1mbit'\nguarantee = '2'\nclassid = '1'\nbuffer = '50ms'\nisolated = 1\nbounded = 1\nalpha = 2\n";
    insta::assert_snapshot!(refusal(&format!("{LINK}{all}")));
    // Marks at the place of the first key, in the order of the list of keys, that asks for a feature.
    let text = "link = { rate = '1gbit', scheduler = 'drr' }\n[[class]]\nname = 'a'\nper = 'src-ip'\nisolated = true\nburst = '2kB'\n\
                upper_limit = { rate = '1mbit' }\nlink_share = { rate = '1mbit' }\nbounded = true\nqueue = 'codel'\n";
    insta::assert_snapshot!("places_of_features", refusal(text));
}

#[test]
fn errors_of_matches_point_into_the_match() {
    let cases = with_link(&[
        ("invalid match", "[[class]]\nname = 'a'\nmatch = ['udp dst port 70000']"),
        ("not a list", "[[class]]\nname = 'a'\nmatch = 5"),
        ("not text", "[[class]]\nname = 'a'\nmatch = [5001]"),
        ("escaped", "[[class]]\nname = 'a'\nmatch = [\"udp\\u0020dst port 70000\"]"),
        (
            "twice",
            "[[class]]\nname = 'a'\nmatch = ['udp dst port 1']\n[[class]]\nname = 'b'\nmatch = ['dst port 1 udp']",
        ),
        (
            "unreachable",
            "[[class]]\nname = 'a'\nmatch = ['vlan 5', 'src net 10.0.0.0/8']\n\
             [[class]]\nname = 'b'\nmatch = ['tcp dst port 22', 'udp src net 10.1.0.0/16']",
        ),
        (
            "unreachable range",
            "[[class]]\nname = 'a'\nmatch = ['vlan 5-7', 'vlan 10-20']\n[[class]]\nname = 'b'\nmatch = ['vlan 6-8', 'vlan 11-15', 'vlan 15-21']",
        ),
        ("backward range", "[[class]]\nname = 'a'\nmatch = ['udp src host 10.0.0.9-10.0.0.1']"),
        ("behind any", "[[class]]\nname = 'a'\nmatch = 'any'\n[[class]]\nname = 'b'\nmatch = 'dscp ef'"),
    ]);
    insta::assert_snapshot!(table(&borrowed(&cases), refusal));
    let bare = link("link.rate = '1gbit'\n[[class]]\nname = 'a'\nmatch = 'udp'\n[[class]]\nname = 'b'\nmatch = 'tcp'");
    let problems = bare.unwrap().require_default().unwrap_err();
    insta::assert_snapshot!("no_default", problems.lines());
}

#[test]
fn a_match_at_an_inner_class_is_refused() {
    // In other systems, a filter that selects an inner class has passed packets to something without a queue, and
    // filters that refer to each other have formed loops. A loop cannot be written here: a match names headers, not
    // another match or a class; the class that it belongs to ends the search. (Cycles of parents are among the errors
    // of classes.)
    let text =
        "link.rate = '1gbit'\n[[class]]\nname = 'a'\nmatch = 'udp'\n[[class]]\nname = 'b'\nparent = 'a'\nmatch = 'tcp'";
    assert_eq!(
        refusal(text),
        "bad.toml:4:9: error: \"match\" is for classes without children, and \"a\" has some; set it at the classes below\n"
    );
    for default in ["a", "link"] {
        let text = format!(
            "link.rate = '1gbit'\nlink.default = '{default}'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nparent = 'a'"
        );
        let says = refusal(&text);
        assert!(says.contains(&format!("\"{default}\" has classes below it")), "{default}: {says}");
    }
}

#[test]
fn warnings_leave_the_file_usable() {
    let warnings = |text: &str| {
        let options = ReadOptions { leniency: Leniency::Ignore, ..ReadOptions::default() };
        let file =
            LinkFile::parse("odd.toml", text, &options).unwrap_or_else(|problems| panic!("{}", problems.lines()));
        // Of a file without matches, a gateway alone would ask.
        let unreachable = Some(file.unreachable()).filter(|_| !file.matches.is_empty());
        let unreachable = unreachable.and_then(|leaves| file.unreachable_warning(leaves));
        file.warnings.iter().chain(&unreachable).map(|problem| problem.line() + "\n").collect::<String>()
    };
    let cases = with_link(&[
        (
            "what fifo cannot honour",
            "link.scheduler = 'fifo'\n[[class]]\nname = 'a'\npriority = 0\n[[class]]\nname = 'b'\npriority = 1",
        ),
        ("ceiling below guarantee", "[[class]]\nname = 'a'\nguarantee = '5mbit'\nceiling = '4mbit'"),
        ("buffer below a packet", "[[class]]\nname = 'a'\nbuffer = '1kB'"),
        ("leaves without match", "[[class]]\nname = 'a'\nmatch = 'udp'\n[[class]]\nname = 'b'\n[[class]]\nname = 'c'"),
        (
            "a leaf whose frames earlier matches take together",
            "[[class]]\nname = 'a'\nmatch = 'dst net 10.0.0.0/9'\n[[class]]\nname = 'b'\nmatch = 'dst net 10.128.0.0/9'\n\
             [[class]]\nname = 'c'\nmatch = 'dst net 10.0.0.0/8'\n[[class]]\nname = 'd'",
        ),
        (
            "guarantees under ancestor-only",
            "link.scheduler = 'cbq-ancestor-only'\n[[class]]\nname = 'a'\nguarantee = '35%'\npriority = 1\n\
             [[class]]\nname = 'b'\nguarantee = '65%'\npriority = 2",
        ),
        ("pool", "link.scheduler = 'htb'\n[[class]]\nname = 'a'\npool = 'uplinks'"),
    ]);
    let mut table = table(&borrowed(&cases), warnings);
    table +=
        &warnings("[link]\nrate = '1gbit'\ndefault = 'a'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nmatch = 'any'");
    insta::assert_snapshot!(table);
}

#[test]
fn errors_of_scenarios_name_the_place_and_the_limit() {
    const HEAD: &str =
        "duration = '10s'\nlink.rate = '1gbit'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nparent = 'a'\n";
    let refusal = |text: &str| {
        let scenario = Scenario::parse("bad.toml", text, &ReadOptions::default());
        scenario.err().map_or(String::new(), |problems| problems.lines())
    };
    let source = |rest: &str| format!("{HEAD}[[source]]\n{rest}");
    let sound = "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\n";
    assert_eq!(refusal(&source(sound)), "");
    let cases: Vec<(&str, String)> = [
        ("unknown class", "class = 'c'\nmodel = 'greedy'\npacket = '1kB'"),
        ("class with children", "class = 'a'\nmodel = 'greedy'\npacket = '1kB'"),
        ("nothing", ""),
        ("unknown model", "class = 'b'\nmodel = 'poison'\npacket = '1kB'"),
        ("window without a round trip", "class = 'b'\nmodel = 'tcp'\npacket = '1kB'\ncongestion_control = 'vegas'"),
        ("requests of nothing", "class = 'b'\nmodel = 'request_response'\npacket = '1kB'\nrequest = '0B'\nresponse = '1kB'\nrtt = '1ms'"),
        ("shaped window", "class = 'b'\nmodel = 'tcp'\npacket = '1kB'\nrtt = '1ms'\nshape = { burst = '4kB', rate = '1mbit' }"),
        ("on_off without times", "class = 'b'\nmodel = 'on_off'\npacket = '1kB'"),
        ("pareto without a mean", "class = 'b'\nmodel = 'pareto_on_off'\npacket = '1kB'\nrate = '1mbit'\non = '1s'\noff = '1s'\nk = 2"),
        ("burst of bytes", "class = 'b'\nmodel = 'cbr'\npacket = '1kB'\nrate = '1mbit'\nburst = '2kB'"),
        ("state without mean", "class = 'b'\nmodel = 'mmpp'\npacket = '1kB'\nstates = [{ packets_per_second = 0 }]"),
        ("states that never send", "class = 'b'\nmodel = 'mmpp'\npacket = '1kB'\nstates = [{ packets_per_second = 0, mean = '1s' }]"),
        ("utilisation of nothing", "class = 'b'\nmodel = 'markov'\npacket = '1kB'\nutilisation = 0"),
        ("letters of no picture", "class = 'b'\nmodel = 'mpeg'\ngop = 'IPX'\ngops_per_second = 3\ni = '1kB'\np = '1kB'"),
        ("whole pictures above the mtu", "class = 'b'\nmodel = 'mpeg'\ngop = 'I'\ngops_per_second = 3\ni = '17kB'\nwhole_frames = true"),
        ("trace without a file", "class = 'b'\nmodel = 'trace'"),
        ("trace that is not there", "class = 'b'\nmodel = 'trace'\nfile = 'none.pcap'"),
        ("trace that is a directory", "class = 'b'\nmodel = 'trace'\nfile = 'src'"),
        ("trace that is no recording", "class = 'b'\nmodel = 'trace'\nfile = 'Cargo.toml'"),
        ("faults that there are not", "class = 'b'\nmodel = 'trace'\nfile = 'Cargo.toml'\naccept = ['late']"),
        ("rho of one", "class = 'b'\nmodel = 'dar1'\npacket = '48B'\nrate = '1mbit'\nframes_per_second = 25\nrho = 1\npeak_to_mean = 5"),
        ("variance below the mean", "class = 'b'\nmodel = 'dar1'\npacket = '1kB'\nrate = '1mbit'\nframes_per_second = 25\nrho = 0.5\npeak_to_mean = 5\ndeviation_to_mean = 0.1"),
        ("no rate", "class = 'b'\nmodel = 'cbr'\npacket = '1kB'"),
        ("two rates", "class = 'b'\nmodel = 'cbr'\npacket = '1kB'\nrate = '1mbit'\npackets_per_second = 5"),
        ("saturating without a rate", "class = 'b'\nmodel = 'saturating'\npacket = '1kB'"),
        (
            "saturating in packets",
            "class = 'b'\nmodel = 'saturating'\npacket = '1kB'\nrate = '2gbit'\npackets_per_second = 5",
        ),
        ("saturating below the share", "class = 'b'\nmodel = 'saturating'\npacket = '1kB'\nrate = '999mbit'"),
        ("rate of greedy", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nrate = '1mbit'"),
        ("times of cbr", "class = 'b'\nmodel = 'cbr'\npacket = '1kB'\nrate = '1mbit'\non = '1s'"),
        ("no packets", "class = 'b'\nmodel = 'poisson'\npacket = '1kB'\npackets_per_second = 0"),
        ("packets too finely", "class = 'b'\nmodel = 'poisson'\npacket = '1kB'\npackets_per_second = 0.0001"),
        ("packets by a word", "class = 'b'\nmodel = 'poisson'\npacket = '1kB'\npackets_per_second = 'many'"),
        ("packets beyond bounds", "class = 'b'\nmodel = 'poisson'\npacket = '1kB'\npackets_per_second = 1e300"),
        ("packet above the mtu", "class = 'b'\nmodel = 'greedy'\npacket = '1501B'"),
        ("packet of nothing", "class = 'b'\nmodel = 'greedy'\npacket = '0B'"),
        ("packet without unit", "class = 'b'\nmodel = 'greedy'\npacket = 1000"),
        ("unknown lengths", "class = 'b'\nmodel = 'greedy'\npacket = 'imax'"),
        ("lengths of no mean", "class = 'b'\nmodel = 'greedy'\npacket = { exponential = '400B', min = '400B' }"),
        ("lengths outside", "class = 'b'\nmodel = 'greedy'\npacket = { lognormal = '400B', deviation = '4B', min = '900B' }"),
        ("length without weight", "class = 'b'\nmodel = 'greedy'\npacket = { mix = [['40B']] }"),
        (
            "packets above the mtu",
            "class = 'b'\nmodel = 'greedy'\npacket = { uniform = ['40B', '1490B'], header = '40B' }",
        ),
        ("packets backwards", "class = 'b'\nmodel = 'greedy'\npacket = { uniform = ['700B', '40B'] }"),
        ("one end of two", "class = 'b'\nmodel = 'greedy'\npacket = { uniform = ['700B'] }"),
        (
            "shape without rate",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { burst = '4kB' }",
        ),
        (
            "shape of a shorter burst than the packets",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { burst = '999B', rate = '1mbit' }",
        ),
        (
            "shape of nothing in a window",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { rate = '1bit', every = '1s' }",
        ),
        (
            "shape of impossible gaps",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { xmin = '9ms', xave = '4ms', i = '1s', smax = '1kB' }",
        ),
        (
            "shape of no packet in its interval",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { xmin = '1ms', xave = '4s', i = '1s', smax = '1kB' }",
        ),
        (
            "shapes, one wrong",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = [{ burst = '4kB', rate = '1mbit' },\n{ line = '0bit' }, 5]",
        ),
        (
            "shapes, none",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = []",
        ),
        (
            "shape of two forms",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { line = '1mbit', burst = '4kB' }",
        ),
        (
            "shape and police",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { line = '1mbit' }\npolice = { line = '1mbit' }",
        ),
        (
            "greedy and police",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\npolice = { burst = '4kB', rate = '1mbit' }",
        ),
        (
            "queue without shape",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape_queue = '9p'",
        ),
        (
            "queue of a time",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { line = '1mbit' }\nshape_queue = '9ms'",
        ),
        (
            "queue shorter than the packets",
            "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nshape = { line = '1mbit' }\nshape_queue = '999B'",
        ),
        ("empty interval", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nactive = ['5s..5s']"),
        ("no interval", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nactive = []"),
        ("not an interval", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nactive = ['5s-6s', 5]"),
        ("interval without unit", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nactive = ['0..6s']"),
        ("overlap", "class = 'b'\nmodel = 'greedy'\npacket = '1kB'\nactive = ['0s..5s', '4s..6s']"),
    ]
    .iter()
    .map(|&(title, rest)| (title, source(rest)))
    .chain([
        ("no duration, no source", "link.rate = '1gbit'\n[[class]]\nname = 'a'".to_owned()),
        ("no link", "duration = '1s'".to_owned()),
        ("duration of zero", "duration = '0s'\nlink.rate = '1gbit'\n[[class]]\nname = 'a'".to_owned()),
        ("warmup", format!("warmup = '10s'\nseed = -1\n{HEAD}[[source]]\n{sound}")),
        ("link in a file and here", "link = 'x.toml'\nduration = '1s'\n[[class]]\nname = 'a'".to_owned()),
        (
            "link wrong and source",
            format!("duration = '1s'\nlink.rate = '1'\n[[class]]\nname = 'a'\n[[source]]\n{sound}"),
        ),
    ])
    .collect();
    let mut table = table(&borrowed(&cases), refusal);
    let text = source(&format!("{sound}active = '5s..20s'"));
    let late = Scenario::parse("odd.toml", text, &ReadOptions::default()).unwrap();
    table += &late.warnings.iter().map(|problem| problem.line()).collect::<String>();
    insta::assert_snapshot!(table);
}

#[test]
fn a_terminal_shows_the_line_and_marks_the_place() {
    let render = |problems: &Problems| {
        let mut text = String::new();
        GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
            .with_width(110)
            .render_report(&mut text, problems)
            .unwrap();
        text
    };
    let one = link("[link]\nrate = \"10mbit\"\n\n[[class]]\nname = \"A\"\nguarantee = \"500kbps\"\n").unwrap_err();
    let two = link("[link]\nrate = \"10mbit\"\nmtu = 1500\n\n[[class]]\nname = \"A\"\n\n[[class]]\nname = \"A\"\n");
    insta::assert_snapshot!(render(&one) + "\n" + &render(&two.unwrap_err()));
}

#[test]
fn a_refusal_by_the_scheduler_itself_gets_the_name_and_the_place() {
    let file = link("link.rate = '1gbit'\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\n").unwrap();
    let class = file.names.id("b").unwrap();
    let refused = BuildError::Parameter { class, what: "quantum", value: 0, min: 1, max: 9 };
    let unsupported = BuildError::Unsupported { scheduler: "hls", class, feature: Feature::Contract };
    let lines = file.explain(&refused).lines() + &file.explain(&unsupported).lines();
    insta::assert_snapshot!(lines.lines().map(|line| without_schedulers(line) + "\n").collect::<String>());
    let other = file.for_scheduler("fofo", Leniency::Refuse).unwrap_err();
    assert!(other.lines().starts_with("bad.toml: error: there is no scheduler \"fofo\"; did you mean \"fifo\"?"));
}

#[test]
fn who_asks_for_too_much_is_told_who_can_honour_it() {
    let text =
        "link = { rate = '1gbit', scheduler = 'fifo' }\n[[class]]\nname = 'a'\n[[class]]\nname = 'b'\nparent = 'a'";
    let able: Vec<&str> =
        SCHEDULERS.iter().filter(|info| info.supports(Feature::Hierarchy)).map(|info| info.name).collect();
    assert!(able.contains(&"hls") && !able.contains(&"fifo"));
    let expected = format!("; supported by: {}; or use --lenient to ignore it\n", able.join(", "));
    assert!(refusal(text).ends_with(&expected), "{}", refusal(text));
    // The same file read for a scheduler that can, and for one that need not.
    let for_hls = ReadOptions { scheduler: Some("hls"), ..ReadOptions::default() };
    assert_eq!(LinkFile::parse("b.toml", text, &for_hls).unwrap().info().name, "hls");
    let lenient = ReadOptions { leniency: Leniency::Ignore, ..ReadOptions::default() };
    let file = LinkFile::parse("b.toml", text, &lenient).unwrap();
    assert_eq!((file.info().name, file.warnings.len()), ("fifo", 1));
}

#[test]
fn errors_beyond_the_first_twenty_are_counted() {
    let text: String = (0..100_000).map(|i| format!("[[class]]\nname = 'c{i}'\nparent = 'nobody{i}'\n")).collect();
    let problems = link(&format!("{LINK}{text}")).unwrap_err();
    assert_eq!((problems.all().len(), problems.left_out()), (20, 99_980));
}

#[test]
fn ecn_is_for_queues_that_choose_what_to_drop() {
    let class = |queue: &str| format!("{LINK}[[class]]\nname = 'a'\n{queue}\necn = true\n");
    for queue in ["", "queue = 'fifo'"] {
        let said = refusal(&class(queue));
        assert!(said.contains("has no effect on a fifo") && said.contains("fq_codel"), "{said}");
    }
    let file = link(&class("queue = 'fq_codel'")).unwrap();
    assert!(file.tree.config(file.tree.leaves()[0]).ecn);
    // A scheduler that cannot have active queues says which can.
    let options = ReadOptions { scheduler: Some("virtual-clock"), ..ReadOptions::default() };
    let said = LinkFile::parse("bad.toml", class("queue = 'codel'"), &options).err().unwrap().lines();
    assert!(said.contains("an active queue discipline") && said.contains("hls"), "{said}");
}

#[test]
fn errors_of_pools_and_further_links_name_the_place() {
    const LINKS: &str = "duration = '1s'\nlink = { rate = '10mbit', scheduler = 'htb' }\n\
        class = [{ name = 'a', guarantee = '4mbit', pool = 'up' }, { name = 'b:c', guarantee = '1mbit' }]\n\
        source = [{ class = 'a', model = 'greedy', packet = '1kB' }]\n";
    const POOL: &str = "[[pool]]\nname = 'up'\nrate = '6mbit'\nburst = '2kB'\n";
    const PEER: &str =
        "[[peer]]\nname = 'far'\nlink.rate = '10mbit'\nclass = [{ name = 'x', guarantee = '2mbit', pool = 'up' }]\n";
    let refused = |text: &str| {
        Scenario::parse("s.toml", text, &ReadOptions::default())
            .map_or_else(|problems| problems.lines(), |_| String::new())
    };
    let sound = Scenario::parse("s.toml", format!("{LINKS}{POOL}{PEER}"), &ReadOptions::default()).unwrap();
    assert_eq!((sound.link.warnings.len(), sound.peers[0].link.scheduler.as_str()), (0, "htb"));
    let members: Vec<_> =
        sound.pools[0].members.iter().map(|&(link, class, base)| (link, class.0, base.bps())).collect();
    assert_eq!(members, [(0, 1, 4_000_000), (1, 1, 2_000_000)]);
    let cases = [
        ("no such pool", LINKS.to_owned(), "s.toml:3:52: error: \"pool\" names \"up\", and there is no [[pool]]"),
        (
            "bases",
            format!("{LINKS}{POOL}{PEER}").replace("6mbit", "5mbit"),
            "6000000 bit/s together, more than its 5000000",
        ),
        ("nobody", format!("{LINKS}{POOL}").replace(", pool = 'up'", ""), "\"up\": a pool without members"),
        ("no burst", format!("{LINKS}{POOL}").replace("burst = '2kB'", ""), "burst"),
        (
            "weight",
            format!("{LINKS}{POOL}")
                .replace("guarantee = '4mbit'", "weight = 3")
                .replace("guarantee = '1mbit'", "weight = 3"),
            "needs a guarantee, by which",
        ),
        ("rule", format!("{LINKS}{POOL}rule = 'fair'\n"), "exact"),
        ("pool twice", format!("{LINKS}{POOL}{POOL}"), "\"name\" is already the name of a [[pool]]"),
        ("peer twice", format!("{LINKS}{POOL}{PEER}{PEER}"), "\"name\" is already the name of a [[peer]]"),
        ("colon", format!("{LINKS}{POOL}{PEER}").replace("'far'", "'f:r'"), "\"name\" has a colon"),
        (
            "two of a name",
            format!("{LINKS}{POOL}{PEER}").replace("'far'", "'b'"),
            "is also the beginning of the class name \"b:c\"",
        ),
        ("name", format!("{LINKS}{POOL}{PEER}").replace("'far'", "'link'"), "the name of the link itself"),
        ("key", format!("{LINKS}{POOL}{PEER}mtu = '1kB'\n"), "mtu"),
        (
            "within a peer",
            format!("{LINKS}{POOL}{PEER}").replace("'2mbit'", "'20mbit'"),
            "s.toml:11:13: error: the guarantees below the link add up to 20 Mbit/s",
        ),
        (
            "source of no link",
            format!("{LINKS}{POOL}{PEER}").replace("source = [", "source = [{ link = 'fat', class = 'x' }, "),
            "did you mean \"far\"",
        ),
        (
            "scheduler",
            format!("{LINKS}{POOL}{PEER}").replace("'htb'", "'hfsc'"),
            "sets a pool, which hfsc does not support; supported by: ",
        ),
    ];
    for (title, text, expected) in cases {
        let said = refused(&text);
        assert!(said.contains(expected), "{title}: {said}");
    }
    // In a link file alone, too.
    let said = refusal("link = { rate = '1gbit', scheduler = 'drr' }\n[[class]]\nname = 'a'\npool = 'up'");
    assert!(said.contains("supported by: ") && said.contains("hls"), "{said}");
}

#[test]
fn errors_of_changes_name_the_place_the_limit_and_what_to_do() {
    const HEAD: &str = "duration = '20s'\nlink = { rate = '10mbit', mtu = '1400B' }\n\
        class = [{ name = 'a', weight = 1 }, { name = 'b', weight = 2 }, { name = 'b1', parent = 'b' }]\n";
    const SOURCE: &str = "[[source]]\nclass = 'a'\nmodel = 'greedy'\npacket = '1kB'\n";
    const AFTER: &str = "link = { rate = '5mbit' }\nclass = [{ name = 'a' }, { name = 'c' }]\n";
    let read = |text: &str, scheduler| {
        let options = ReadOptions { scheduler, ..ReadOptions::default() };
        Scenario::parse("s.toml", text, &options)
    };
    let refused = |text: &str| read(text, None).map_or_else(|problems| problems.lines(), |_| String::new());
    let changed = |changes: &str| format!("{HEAD}{SOURCE}{changes}");
    let at = |time: &str, rest: &str| format!("[[change]]\nat = '{time}'\n{rest}");

    let sound = changed(&format!(
        "{}scheduler = 'hfsc'\n{}",
        at("5s", AFTER),
        at("10s", "link = '../../scenarios/simple.toml'")
    ));
    let file =
        read(&sound.replace("class = 'a'\nmodel", "class = 'c'\nactive = '5s..10s'\nmodel"), Some("htb")).unwrap();
    assert_eq!(file.names, ["link", "a", "b", "b1", "c", "household", "guests", "ana", "ben"]);
    assert_eq!(file.sources[0].class.0, 4);
    let numbers = |change: &Change| change.classes.iter().map(|class| class.0).collect::<Vec<_>>();
    assert_eq!((numbers(&file.changes[0]), numbers(&file.changes[1])), (vec![0, 1, 4], vec![0, 5, 6, 7, 8]));
    assert_eq!(
        (file.changes[0].name.as_str(), file.changes[1].name.as_str()),
        ("[[change]]", "../../scenarios/simple.toml")
    );
    // The scheduler that is named runs from then on, also after a change that names none; the scenario's own is left
    // alone.
    let schedulers: Vec<_> = file.changes.iter().map(|change| change.link.scheduler.as_str()).collect();
    assert_eq!((file.link.scheduler.as_str(), schedulers), ("htb", vec!["hfsc", "hfsc"]));

    let cases: Vec<(&str, String)> = vec![
        ("no time, no link", changed("[[change]]\n")),
        ("key", changed(&at("5s", &format!("when = 1\n{AFTER}")))),
        ("at the start", changed(&at("0s", AFTER))),
        ("without unit", changed(&at("5", AFTER))),
        ("at the end", changed(&at("20s", AFTER))),
        ("not in order", changed(&(at("6s", AFTER) + &at("5s", AFTER)))),
        ("twice", changed(&(at("6s", AFTER) + &at("6s", AFTER)))),
        ("scheduler", changed(&at("5s", &format!("scheduler = 'hsl'\n{AFTER}")))),
        ("file", changed(&at("5s", "link = 'none.toml'"))),
        ("file and classes", changed(&at("5s", "link = '../../scenarios/simple.toml'\nclass = []"))),
        ("within the link", changed(&at("5s", &AFTER.replace("'c'", "'a'")))),
        ("what the scheduler cannot", changed(&at("5s", &AFTER.replace("'c'", "'c', priority = 1")))),
        (
            "what another scheduler cannot",
            changed(&at("5s", &format!("scheduler = 'fifo'\n{}", AFTER.replace("'c'", "'c', parent = 'a'")))),
        ),
        ("peer", changed(&format!("{}[[peer]]\nname = 'p'\n{AFTER}", at("5s", AFTER)))),
        ("pool", changed(&format!("{}[[pool]]\nname = 'p'\n", at("5s", AFTER)))),
        ("source of a class that goes", changed(&at("5s", AFTER)).replace("class = 'a'\nmodel", "class = 'b1'\nmodel")),
        (
            "source that ends too late",
            changed(&at("5s", AFTER)).replace("class = 'a'\nmodel", "class = 'b1'\nactive = '0s..6s'\nmodel"),
        ),
        (
            "source that starts too early",
            changed(&at("5s", AFTER)).replace("class = 'a'\nmodel", "class = 'c'\nactive = '3s..6s'\nmodel"),
        ),
        ("source of a class that gets others", changed(&at("5s", &AFTER.replace("'c'", "'c', parent = 'a'")))),
        ("class of none", changed(&at("5s", AFTER)).replace("class = 'a'\nmodel", "class = 'd'\nmodel")),
        ("class with children in all", changed(&at("5s", AFTER)).replace("class = 'a'\nmodel", "class = 'b'\nmodel")),
        ("mtu", changed(&at("5s", &AFTER.replace("'5mbit'", "'5mbit', mtu = '900B'")))),
        ("not tables", format!("change = 5\n{HEAD}{SOURCE}")),
        ("too many", changed(&(0..101).map(|_| at("1s", AFTER)).collect::<String>())),
    ];
    insta::assert_snapshot!(table(&borrowed(&cases), refused));
}

#[test]
fn service_curves_that_do_not_fit_name_the_class_that_asks_for_most_and_since_when() {
    let text = "[link]\nrate = \"10mbit\"\nscheduler = \"sced\"\n\
                [[class]]\nname = \"a\"\nreal_time = { rate = \"3mbit\" }\n\
                [[class]]\nname = \"b\"\nreal_time = { m1 = \"FIRST\", d = \"3ms\", m2 = \"8mbit\" }\n";
    let refused = |first: &str| {
        let file = link(&text.replace("FIRST", first)).unwrap();
        let error = file.info().build(&file.tree, Leniency::Refuse, fairlink_core::Members::new()).err().unwrap();
        file.explain(&error).lines()
    };
    let said = refused("9mbit");
    let expected = "bad.toml:9:13: error: the sum of the real-time curves exceeds the link's 10 Mbit/s, at once when all \
                    start together; the largest is that of \"b\", 9 Mbit/s\n";
    assert_eq!(said, expected);
    let later = refused("0bit");
    assert!(later.contains("from 24 ms on when all start together; the largest is that of \"b\", 8 Mbit/s"), "{later}");
}

#[test]
fn routes_that_cannot_be_are_refused_with_their_place() {
    const LINKS: &str = "duration = '10s'\nlink.rate = '1gbit'\n[[class]]\nname = 'a'\n[[peer]]\nname = 'p'\n\
        link = { rate = '10mbit', mtu = '600B' }\nclass = [{ name = 'x' }]\n[[peer]]\nname = 'q'\nlink.rate = '10mbit'\n\
        class = [{ name = 'y' }]\n";
    let refusal = |rest: &str| {
        let text = format!("{LINKS}{rest}");
        let scenario = Scenario::parse("bad.toml", text, &ReadOptions::default());
        scenario.err().map_or(String::new(), |problems| problems.lines())
    };
    let own = |rest: &str| format!("[[source]]\nclass = 'a'\nmodel = 'greedy'\npacket = '500B'\n{rest}\n");
    assert_eq!(refusal(&own("route = ['p:x', 'q:y']\nregulator = { delay_jitter = ['1ms', '2ms'] }")), "");
    let back = "[[source]]\nlink = 'q'\nclass = 'y'\nmodel = 'greedy'\npacket = '500B'\nroute = ['a']\n";
    let circle = format!("{}{back}", own("route = ['p:x', 'q:y']"));
    for (text, expected) in [
        (own("route = ['p:z']"), "there is no class \"z\""),
        (own("route = ['q']"), "there is no class \"q\""),
        (own("route = []"), "\"route\" of a list of 0 is outside 1 class .. 1000"),
        (
            own("route = ['a']"),
            "\"route\" forms a cycle through the scenario's own link, alone or with the routes above",
        ),
        (circle, "\"route\" forms a cycle through the link \"q\", alone or with the routes above"),
        (own("route = ['p:x']").replace("500B", "601B"), "a packet of 601 B is longer than the link's mtu of 600 B"),
        (
            own("route = ['p:x']\nregulator = { delay_jitter = [] }"),
            "0 delays for 1 links before the last; write one for each",
        ),
        (
            own("regulator = { delay_jitter = [] }"),
            "\"regulator\" delays packets between two links, and the source has no route",
        ),
    ] {
        let said = refusal(&text);
        assert!(said.contains(expected) && said.starts_with("bad.toml:"), "{expected}: {said}");
    }
}

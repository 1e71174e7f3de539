//! Import of other tools' configurations, with a report.

use std::fs;

use fairlink_api::{ImportDoc, Refused, json};
use fairlink_config::SourceText;
use fairlink_config::import::{IMPORTS, ImportInfo, OptionInfo, OptionKind, Options, find};
use serde_json::Value;

#[cfg(target_os = "linux")]
use crate::in_private_network;
use crate::{Scratch, fairlink, scenario};

/// The shipped examples, with their arguments.
fn examples() -> Vec<Vec<String>> {
    let file = |name: &str| scenario(&format!("import/{name}"));
    let words = |all: &[&str]| all.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    vec![
        words(&["libreqos", &file("ShapedDevices.csv"), "--network", &file("network.json"), "--direction", "both"]),
        words(&["tc", &file("eth0.show")]),
        // These two have no filters.
        words(&["tc", &scenario("htb/htb.tc"), "--rate", "10mbit", "--allow-unmatched"]),
        words(&["tc", &scenario("htb/cbq.tc"), "--allow-unmatched"]),
        words(&["mikrotik", &file("export.rsc"), "--direction", "both"]),
        words(&["k8s", &file("pods.json"), "--rate", "1gbit", "--direction", "both"]),
        words(&["libvirt", &file("machine.xml"), &file("network.xml")]),
        words(&["pf", &file("pf.conf")]),
    ]
}

fn import(args: &[String], more: &[&str]) -> crate::Run {
    let args: Vec<&str> =
        ["import"].into_iter().chain(args.iter().map(String::as_str)).chain(more.iter().copied()).collect();
    fairlink(&args)
}

/// Reads arguments as the table has them: the import, its files and its options.
fn by_table(args: &[String]) -> (&'static ImportInfo, Vec<&String>, Options) {
    let info = find(&args[0]).unwrap();
    let (mut files, mut options) = (Vec::new(), Options::default());
    let mut rest = args[1..].iter();
    while let Some(arg) = rest.next() {
        match arg.strip_prefix("--").map(|key| (key, info.option(key))) {
            Some((key, Some(OptionInfo { kind: OptionKind::Flag, .. }))) => options = options.with(key, true),
            Some((key, Some(_))) => options = options.with(key, rest.next().unwrap().as_str()),
            Some((key, None)) if info.files.iter().any(|file| file.key == key) => files.push(rest.next().unwrap()),
            // An option of the command itself.
            Some(_) => {}
            None => files.push(arg),
        }
    }
    (info, files, options)
}

/// Every import of the table has an example and a section of the manual, and the command prints the library's document.
#[test]
fn the_command_prints_the_document_of_the_library_for_every_import() {
    let all = examples();
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/import.md")).unwrap();
    for info in IMPORTS {
        assert!(all.iter().any(|args| args[0] == info.name), "{} has no example", info.name);
        let call = format!("`fairlink import {} ", info.name);
        assert!(manual.contains(&call), "docs/import.md does not have {call}");
    }
    for args in all {
        // One link is printed.
        let args: Vec<String> = args.iter().map(|arg| arg.replace("both", "up")).collect();
        let (info, files, options) = by_table(&args);
        let sources: Vec<_> = files.iter().map(|file| SourceText::read(file).unwrap()).collect();
        let made = fairlink_api::import(info, &sources, &options).unwrap();
        let document = ImportDoc::new(info, &made, false).unwrap();
        let printed = import(&args, &["--no-compare", "--json"]);
        assert_eq!(printed.stdout, json(&document) + "\n", "{args:?}: {}", printed.stderr);
    }
}

/// Options of the table are accepted by the command; those that an import does not have are refused in the library's
/// words, before any file is read.
#[test]
fn the_command_has_the_options_of_the_table_and_refuses_others_as_the_library_does() {
    let value = |option: &OptionInfo| match option.kind {
        OptionKind::Rate => "1mbit",
        OptionKind::Name => "x",
        OptionKind::Choice(words) => words[0].0,
        OptionKind::Flag => "true",
    };
    for info in IMPORTS {
        let required = info.options.iter().filter(|option| option.required);
        let required: Vec<(&OptionInfo, _)> = required.map(|option| (option, value(option))).collect();
        let keys: Vec<&OptionInfo> = IMPORTS.iter().flat_map(|other| other.options).collect();
        for option in keys {
            let all = required.iter().copied().filter(|(other, _)| other.key != option.key);
            let all: Vec<_> = all.chain([(option, value(option))]).collect();
            let mut args = vec![info.name.to_owned(), "none".to_owned()];
            let mut options = Options::default();
            for (option, value) in all {
                args.push(format!("--{}", option.key));
                args.extend((!matches!(option.kind, OptionKind::Flag)).then(|| value.to_owned()));
                options = options.with(option.key, value);
            }
            let run = import(&args, &[]);
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
            let expected = match info.check(&options) {
                Ok(_) => "error: none\n".to_owned(),
                Err(error) => format!("error: --{}\n", Refused::from(error)),
            };
            assert!(run.stderr.starts_with(&expected), "{args:?}: {expected}{}", run.stderr);
            assert_eq!(expected == "error: none\n", info.option(option.key).is_some(), "{args:?}");
        }
    }
    let run = fairlink(&["import", "tc", "none", "--foo"]);
    assert!(run.code == 2 && run.stderr.contains("'--foo'"), "{}", run.stderr);
    let run = fairlink(&["import", "cake", "none"]);
    assert!(run.code == 2 && run.stderr.contains("'cake'"), "{}", run.stderr);
}

#[test]
fn a_file_of_another_tool_is_named_as_what_it_is() {
    let run = fairlink(&["import", "pf", &scenario("import/export.rsc")]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("this looks like a file of RouterOS, not of pf"), "{}", run.stderr);
    assert!(run.stderr.contains("import it as mikrotik"), "{}", run.stderr);
}

#[test]
fn every_example_becomes_link_files_that_a_gateway_takes_and_both_ways_of_lending_are_compared() {
    for args in examples() {
        for as_is in [false, true] {
            let dir = Scratch::new();
            let out = dir.path("made");
            let mut more = vec!["--json", "--out", &out];
            if as_is && args[0] != "k8s" {
                more.push("--as-is");
            }
            let run = import(&args, &more);
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {}", run.stdout);
            let report = run.json();
            assert!(!report["kept"].as_array().unwrap().is_empty(), "{report}");
            for link in report["links"].as_array().unwrap() {
                let file = format!("{out}/{}.toml", link["name"].as_str().unwrap());
                let checked = fairlink(&["check", &file, "--gateway", "--json"]);
                assert_eq!(checked.code, 0, "{args:?}: {}", checked.stderr);
                let checked = checked.json();
                assert_eq!(checked["link"]["scheduler"], link["scheduler"]);
                assert_eq!(
                    checked["link"]["classes"].as_array().unwrap().len() as u64,
                    link["classes"].as_u64().unwrap()
                );
                // The rates of all classes add up to the link, or less if ceilings apply.
                for case in link["cases"].as_array().unwrap() {
                    let sum = |key: &str| -> f64 {
                        case["classes"].as_array().unwrap().iter().filter_map(|class| class[key].as_f64()).sum()
                    };
                    let rate = link["capacity_bps"].as_f64().unwrap();
                    assert!(sum("after_bps") <= rate * 1.000_001 && sum("before_bps") <= rate * 1.02, "{case}");
                }
            }
        }
    }
}

#[test]
fn what_runs_now_is_shown_beside_what_would_run() {
    let run = fairlink(&["import", "tc", &scenario("import/eth0.show"), "--json"]).quiet().json();
    let link = &run["links"][0];
    assert_eq!((link["scheduler"].as_str(), link["before"].as_str()), (Some("hls"), Some("kernel-htb")));
    let rates = |case: usize, name: &str| -> [f64; 2] {
        let classes = link["cases"][case]["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["name"] == name).unwrap();
        ["before_bps", "after_bps"].map(|key| class[key].as_f64().unwrap())
    };
    let near = |found: f64, expected: f64| (found - expected).abs() < 0.02 * expected;
    for (name, rate) in [("1:10", 6e6), ("1:20", 24e6), ("1:30", 20e6)] {
        let [before, after] = rates(0, name);
        assert!(near(before, rate) && near(after, rate), "{name}: {before} {after}");
    }
    // HTB lends the 24 Mbit/s that 1:20 does not use by the quanta of 1514 and 25000 B.
    assert_eq!(link["cases"][1]["pauses"], "1:20");
    let [before, after] = rates(1, "1:10");
    assert!(near(before, 6e6 + 24e6 * 1514.0 / 26514.0) && near(after, 50e6 * 6.0 / 26.0), "{before} {after}");
    // The same for people: the file on standard output, the report on standard error.
    let run = fairlink(&["import", "tc", &scenario("import/eth0.show")]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.starts_with("# From ") && run.stdout.contains("scheduler = \"hls\""), "{}", run.stdout);
    for expected in [
        "Kept:\n",
        "Changed in meaning:\n",
        "Left out:\n",
        "What classes get while 1:20 pauses and all others are busy:\n",
    ] {
        assert!(run.stderr.contains(expected), "{expected}: {}", run.stderr);
    }
    assert!(run.stderr.contains("1:10           7.37 Mbit/s"), "{}", run.stderr);
    // Without the comparison there are no tables.
    let run = fairlink(&["import", "tc", &scenario("import/eth0.show"), "--no-compare"]);
    assert!(!run.stderr.contains("What classes get"), "{}", run.stderr);
}

#[test]
fn a_class_that_no_frame_can_reach_is_told_first_and_imported_only_where_that_is_allowed() {
    let dir = Scratch::new();
    let script = "qdisc add dev eth0 root handle 1: htb default 30\n\
                  class add dev eth0 parent 1: classid 1:1 htb rate 1mbit\n\
                  class add dev eth0 parent 1:1 classid 1:10 htb rate 500kbit ceil 1mbit\n\
                  class add dev eth0 parent 1:1 classid 1:20 htb rate 300kbit ceil 1mbit\n\
                  class add dev eth0 parent 1:1 classid 1:30 htb rate 200kbit ceil 1mbit\n\
                  filter add dev eth0 parent 1: prio 1 handle 10 fw flowid 1:10\n\
                  filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip dport 80 0xffff flowid 1:20\n";
    let script = dir.write("fw.tc", script);
    let out = dir.path("made");
    let refused = fairlink(&["import", "tc", &script, "--out", &out]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.starts_with("WARNING: eth0: no frame can reach 1 of 3 leaves: 1:10\n"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("fw.tc:6: a filter to 1:10 is left out"), "{}", refused.stderr);
    let line = |class: &str| refused.stderr.lines().find(|line| line.trim().starts_with(class)).unwrap().to_owned();
    assert!(line("1:10").contains("0 bit/s    -100.0 %") && line("1:20").contains("600 kbit/s"), "{}", refused.stderr);
    assert!(refused.stderr.ends_with("write the missing matches into the link file\n"), "{}", refused.stderr);
    assert!(!fs::exists(&out).unwrap() && refused.stdout.is_empty());
    let report = fairlink(&["import", "tc", &script, "--json"]);
    assert_eq!((report.code, report.json()["links"][0]["unreachable"][0].as_str()), (1, Some("1:10")));
    let allowed = fairlink(&["import", "tc", &script, "--out", &out, "--allow-unmatched"]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
    assert!(
        allowed.stderr.starts_with("WARNING: eth0: no frame can reach 1 of 3 leaves: 1:10\n"),
        "{}",
        allowed.stderr
    );
    // The kernel may still choose the class by its number; a gateway may not.
    let file = format!("{out}/eth0.toml");
    let unreachable = |args: &[&str]| fairlink(args).json()["unreachable"].clone();
    assert_eq!(unreachable(&["check", &file, "--json"]), Value::from(Vec::<String>::new()));
    let checked = unreachable(&["check", &file, "--json", "--gateway"]);
    assert_eq!(checked, Value::from(vec!["1:10"]));
}

#[test]
fn many_circuits_are_written_as_tables_and_the_report_stays_short() {
    let dir = Scratch::new();
    let mut devices =
        String::from("Circuit ID,Circuit Name,Parent Node,IPv4,Download Min,Upload Min,Download Max,Upload Max\n");
    for at in 0..200 {
        devices +=
            &format!("c{at},\"House {at}, Street\",{},10.0.0.{at},1,1,{},5\n", ["Tower", "Hut"][at % 2], 5 + at % 20);
    }
    let devices = dir.write("devices.csv", &devices);
    let network = scenario("import/network.json");
    let out = dir.path("isp");
    let run = fairlink(&["import", "libreqos", &devices, "--network", &network, "--out", &out]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert!(run.stderr.contains("(the 20 largest differences of 200; --json has all)"), "{}", run.stderr);
    assert!(run.stderr.lines().count() < 80, "{}", run.stderr);
    let link = fs::read_to_string(format!("{out}/down.toml")).unwrap();
    assert!(link.lines().count() <= 20, "{link}");
    assert_eq!(fs::read_to_string(format!("{out}/down.csv")).unwrap().lines().count(), 201);
    let checked = fairlink(&["check", &format!("{out}/down.toml"), "--gateway", "--json"]).json();
    let classes = checked["link"]["classes"].as_array().unwrap();
    let class = |name: &str| classes.iter().find(|class| class["name"] == name).unwrap();
    assert_eq!(class("c7")["parent"], "Hut");
    assert_eq!(class("c7")["terms"]["ceiling_bps"].as_u64(), Some(12_000_000));
    // 100 circuits of 1 Mbit/s below a node of 60, which with its sibling's 100 has to fit into 150, and those with 1 %
    // of them into the link.
    let guarantee = (150e6 * 150.0 / 151.5 * 60.0 / 160.0 / 100.0_f64).floor();
    assert_eq!(class("c7")["terms"]["guarantee_bps"].as_f64(), Some(guarantee));
    // Nothing is written over.
    let again = fairlink(&["import", "libreqos", &devices, "--network", &network, "--out", &out]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("down.toml already exists"), "{}", again.stderr);
}

/// A manifest has no address, so that no frame reaches its classes; the pods that run have some.
#[test]
fn manifests_are_named_until_pods_that_run_are_given() {
    let dir = Scratch::new();
    let template = "metadata: {annotations: {kubernetes.io/ingress-bandwidth: 10M}}";
    let manifest =
        format!("kind: Deployment\nmetadata: {{name: web}}\nspec:\n  replicas: 2\n  template: {{{template}}}\n");
    let file = dir.write("web.yaml", &manifest);
    let run = fairlink(&["import", "k8s", &file, "--rate", "1gbit"]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{}", run.stderr);
    for said in ["WARNING", "web 1 of 2, web 2 of 2", "kubectl get pods -A -o yaml"] {
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
    let allowed = fairlink(&["import", "k8s", &file, "--rate", "1gbit", "--allow-unmatched"]);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
    assert_eq!(allowed.stdout.matches("ceiling = \"10Mbit\"").count(), 2, "{}", allowed.stdout);
    let pod = format!(
        "kind: Pod\n{}\nstatus: {{podIP: 10.0.0.1}}\n",
        template.replace("{annotations", "{name: web-1, annotations")
    );
    let run = fairlink(&["import", "k8s", &dir.write("pods.yaml", &pod), "--rate", "1gbit"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("match = [\"dst net 10.0.0.1/32\"]"), "{}", run.stdout);
}

#[test]
fn what_is_wrong_ends_with_2_and_nothing_is_written() {
    let dir = Scratch::new();
    let out = dir.path("made");
    let short = dir.write(
        "short.csv",
        "Circuit ID,IPv4,Download Min,Upload Min,Download Max,Upload Max\n1,10.0.0.1,1,1,2,2\n2,10.0.0.2,1,1,2\n",
    );
    let script = dir.write("script.tc", "tc qdisc add dev eth0 root handle 1: htb\nifconfig eth0 up\n");
    let rsc = dir.write("a.rsc", "/queue simple\nadd name=a max-limit=1M/fast\n");
    let yaml = dir.write("pods.yaml", "kind: List\n");
    let xml = dir.write("a.xml", "<domain>\n");
    let devices = scenario("import/ShapedDevices.csv");
    let cases: [(&[&str], &str); 9] = [
        (&["libreqos", &short, "--rate", "1gbit"], "this row has 5 fields, and there are 6 columns"),
        (&["libreqos", &short], "this row has 5 fields"),
        (&["libreqos", &devices, "--network", &short], "this is not JSON"),
        (&["libreqos", "none.csv"], "none.csv"),
        (&["tc", &script], "this is not a tc command: \"ifconfig\""),
        (&["mikrotik", &rsc], "\"max-limit\" is \"1M/fast\""),
        (&["k8s", &yaml, "--rate", "1gbit"], "-o json"),
        (&["k8s", &yaml, "--rate", "1gbit", "--as-is"], "no lending to keep"),
        (&["libvirt", &xml], "this is not XML"),
    ];
    for (args, said) in cases {
        let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
        let run = import(&args, &["--out", &out]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        // Messages are wrapped on a narrow terminal.
        let flat: String = run.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(said), "{args:?}: {}", run.stderr);
        assert!(fs::metadata(&out).is_err(), "{args:?}");
    }
    // Two links have no one standard output.
    let run = fairlink(&["import", "libreqos", &devices, "--rate", "1gbit", "--direction", "both"]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("several links (down, up): write them with --out DIR"), "{}", run.stderr);
}

/// Name, rate in Mbit/s, scheduler.
type OneLink<'a> = (&'a str, u64, &'a str);

#[test]
fn every_option_of_a_tool_reaches_its_reader() {
    let dir = Scratch::new();
    let device = |name: &str| {
        format!(
            "tc qdisc add dev {name} root handle 1: htb default 1\ntc class add dev {name} parent 1: classid 1:1 htb rate 8mbit\n"
        )
    };
    let script = dir.write("a.tc", &(device("eth0") + &device("eth1")));
    let tree = "/queue tree\nadd name=a parent=wan max-limit=1M\nadd name=b parent=lan max-limit=2M\n";
    let export = dir.write("a.rsc", &format!("{tree}/queue simple\nadd name=s target=10.0.0.1 max-limit=3M/4M\n"));
    let pod = |name: &str, node: usize| {
        format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"nodeName": "n{node}"}}, "status": {{"podIP": "10.0.0.{node}"}}}}"#
        )
    };
    let pods = dir.write("a.json", &format!(r#"{{"kind": "List", "items": [{}, {}]}}"#, pod("a", 1), pod("b", 2)));
    let altq = |interface: &str, mbit: u8, queue: &str| {
        format!(
            "altq on {interface} cbq bandwidth {mbit}Mb queue {{ {queue} }}\nqueue {queue} on {interface} bandwidth 50% cbq(default)\n"
        )
    };
    let pf = dir.write("pf.conf", &(altq("em0", 10, "a") + &altq("em1", 20, "b")));
    let file = |name: &str| scenario(&format!("import/{name}"));
    let (devices, network) = (file("ShapedDevices.csv"), file("network.json"));
    let (machine, machines) = (file("machine.xml"), file("network.xml"));
    // With the one link that there is, and a class that only this choice has.
    let cases: [(&[&str], OneLink<'_>, &str); 17] = [
        (&["tc", &script, "--dev", "eth1"], ("eth1", 8, "hls"), "1:1"),
        (&["tc", &script, "--dev", "eth0", "--rate", "50mbit"], ("eth0", 50, "hls"), "1:1"),
        (&["tc", &script, "--dev", "eth0", "--as-is"], ("eth0", 8, "htb"), "1:1"),
        (&["mikrotik", &export, "--queues", "tree", "--parent", "lan"], ("lan", 2, "hls"), "b"),
        (&["mikrotik", &export, "--queues", "tree", "--parent", "wan", "--rate", "9mbit"], ("wan", 9, "hls"), "a"),
        (&["mikrotik", &export, "--queues", "simple", "--direction", "up"], ("up", 3, "hls"), "s"),
        (&["mikrotik", &export, "--queues", "simple", "--as-is"], ("down", 4, "htb"), "s"),
        (&["k8s", &pods, "--rate", "5mbit", "--node", "n2", "--direction", "up"], ("up", 5, "hls"), "b"),
        (&["libreqos", &devices, "--network", &network, "--rate", "77mbit", "--as-is"], ("down", 77, "htb"), "others"),
        (&["libreqos", &devices, "--network", &network, "--direction", "up"], ("up", 50, "hls"), "others"),
        (&["libreqos", &devices, "--network", &network, "--weights", "ceiling"], ("down", 150, "hls"), "others"),
        (&["mikrotik", &export, "--queues", "simple", "--weights", "equal"], ("down", 4, "hls"), "s"),
        (&["libvirt", &machine, &machines, "--rate", "96mbit", "--as-is"], ("down", 96, "htb"), "web"),
        (&["libvirt", &machine, &machines, "--direction", "up"], ("up", 48, "hls"), "web"),
        (&["pf", &pf, "--interface", "em1"], ("em1", 20, "hls"), "b"),
        (&["pf", &pf, "--interface", "em0", "--rate", "30mbit"], ("em0", 30, "hls"), "a"),
        (&["pf", &pf, "--interface", "em0", "--as-is"], ("em0", 10, "cbq-top-level"), "a"),
    ];
    for option in IMPORTS.iter().flat_map(|info| info.options.iter().map(move |option| (info.name, option.key))) {
        let has = |args: &[&str]| args[0] == option.0 && args.contains(&format!("--{}", option.1).as_str());
        assert!(cases.iter().any(|(args, ..)| has(args)), "{option:?} has no case");
    }
    for (args, (name, mbit, scheduler), class) in cases {
        let all: Vec<&str> =
            ["import"].iter().chain(args).copied().chain(["--json", "--no-compare", "--allow-unmatched"]).collect();
        let report = fairlink(&all).quiet().json();
        assert_eq!(report["tool"], args[0]);
        let [link] = &report["links"].as_array().unwrap()[..] else { panic!("{args:?}: one link: {report}") };
        assert_eq!(
            (link["name"].as_str(), link["capacity_bps"].as_u64()),
            (Some(name), Some(mbit * 1_000_000)),
            "{args:?}"
        );
        assert_eq!(link["scheduler"], scheduler, "{args:?}");
        let [file] = &report["files"].as_array().unwrap()[..] else { panic!("{args:?}: one file: {report}") };
        assert_eq!(file["name"], format!("{name}.toml"));
        assert!(file["text"].as_str().unwrap().contains(&format!("name = \"{class}\"")), "{args:?}: {file}");
    }
}

#[test]
fn of_several_files_all_are_written_or_none() {
    let dir = Scratch::new();
    let out = dir.path("made");
    fs::create_dir(&out).unwrap();
    let there = dir.write("made/up.toml", "mine");
    let (devices, network) = (scenario("import/ShapedDevices.csv"), scenario("import/network.json"));
    let run = fairlink(&["import", "libreqos", &devices, "--network", &network, "--direction", "both", "--out", &out]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("up.toml already exists; choose another name, or remove it"), "{}", run.stderr);
    assert_eq!(fs::read_to_string(there).unwrap(), "mine");
    assert!(fs::metadata(format!("{out}/down.toml")).is_err(), "down.toml was written before");
}

#[test]
fn classes_of_traffic_that_the_tool_does_not_share_out_are_not_compared() {
    let (devices, network) = (scenario("import/ShapedDevices.csv"), scenario("import/network.json"));
    let report = fairlink(&["import", "libreqos", &devices, "--network", &network, "--json"]).quiet().json();
    assert!(report["files"][0]["text"].as_str().unwrap().contains("name = \"others\""));
    for case in report["links"][0]["cases"].as_array().unwrap() {
        assert!(case["classes"].as_array().unwrap().iter().all(|class| class["name"] != "others"), "{case}");
    }
}

#[test]
fn keys_of_tc_are_refused_with_ours() {
    let dir = Scratch::new();
    let link = dir.write(
        "a.toml",
        "[link]\nrate = \"1gbit\"\n[[class]]\nname = \"a\"\nrate = \"1mbit\"\nceil = \"2mbit\"\nprio = 1\n",
    );
    let run = fairlink(&["check", &link]);
    assert_eq!(run.code, 2);
    let flat: String = run.stderr.replace('│', " ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        flat.matches("the keys for tc's \"rate\" and \"ceil\" are \"guarantee\" and \"ceiling\"").count(),
        2,
        "{}",
        run.stderr
    );
    assert!(flat.contains("the key for \"prio\" of tc is \"priority\""), "{}", run.stderr);
}

/// Sets up a device as the script says, and shows what became of it in every form.
#[cfg(target_os = "linux")]
const LIVE: &str = r#"
command -v tc > /dev/null || { echo "no tc" > "$D/why"; exit 0; }
sed 's/eth0/va/g' "$D/set-up.tc" > "$D/va.tc"
tc -batch "$D/va.tc" 2> "$D/errors" || { cp "$D/errors" "$D/why"; exit 0; }
for how in "-d" "-s -d" "-j -d"; do
    name=$(echo "$how" | tr -d ' ')
    (tc $how qdisc show dev va; tc $how class show dev va; tc $how filter show dev va) > "$D/va$name.show"
    "$F" import tc "$D/va$name.show" --as-is --json --dev va > "$D/va$name.json"
done
"$F" import tc "$D/va.tc" --as-is --json > "$D/commands.json"
"#;

/// The kernel's own account of a device is imported as the commands that set it up are.
#[cfg(target_os = "linux")]
#[test]
fn what_the_kernel_shows_is_imported_as_the_commands_that_set_it_up() {
    let dir = Scratch::new();
    dir.write(
        "set-up.tc",
        "qdisc add dev eth0 root handle 1: htb default 30 r2q 20\n\
         class add dev eth0 parent 1: classid 1:1 htb rate 100mbit burst 15k cburst 15k\n\
         class add dev eth0 parent 1:1 classid 1:10 htb rate 30mbit ceil 100mbit prio 0 quantum 3000 burst 15k cburst 15k\n\
         class add dev eth0 parent 1:1 classid 1:20 htb rate 50mbit ceil 80mbit burst 15k cburst 15k\n\
         class add dev eth0 parent 1:20 classid 1:21 htb rate 20mbit ceil 80mbit prio 1 burst 15k cburst 15k\n\
         class add dev eth0 parent 1:20 classid 1:22 htb rate 512kbit ceil 80mbit prio 2 burst 15k cburst 15k\n\
         class add dev eth0 parent 1:1 classid 1:30 htb rate 1500kbit ceil 100mbit burst 15k cburst 15k\n\
         qdisc add dev eth0 parent 1:22 handle 22: pfifo limit 50\n\
         filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst 10.1.0.0/16 match ip dport 80 0xffff flowid 1:10\n\
         filter add dev eth0 parent 1: protocol ip prio 2 u32 match ip protocol 17 0xff match ip tos 0xb8 0xfc flowid 1:21\n\
         filter add dev eth0 parent 1: protocol ipv6 prio 6 u32 match ip6 dst 2001:db8::/32 flowid 1:22\n",
    );
    let Some(run) = in_private_network(LIVE, &dir, &[]) else { return };
    if let Ok(why) = fs::read_to_string(dir.path("why")) {
        println!("SKIPPED: the kernel's HTB cannot be set up: {}", why.trim());
        return;
    }
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let classes = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(dir.path(name)).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
        let link = report["files"][0]["text"].as_str().unwrap().to_owned();
        let file = dir.write("made.toml", &link);
        let expanded = fairlink(&["check", &file, "--json", "--scheduler", "htb"]);
        assert_eq!(expanded.code, 0, "{name}: {}", expanded.stderr);
        let mut classes = expanded.json()["link"]["classes"].as_array().unwrap().clone();
        // The positions in the file differ, and the settings are equal.
        let said = |class: &Value| {
            let head = format!("name = {}\n", class["name"]);
            let begin = link.find(&head).unwrap();
            link[begin..]
                .split("\n\n")
                .next()
                .unwrap()
                .trim_end()
                .lines()
                .map(|line| line.split("  #").next().unwrap().trim_end().to_owned())
                .collect::<Vec<_>>()
        };
        let lines: Vec<Vec<String>> = classes.iter().map(said).collect();
        for (class, lines) in classes.iter_mut().zip(lines) {
            class["lines"] = lines.into();
        }
        classes.sort_by_key(|class| class["name"].as_str().unwrap().to_owned());
        classes
    };
    let expected = classes("commands.json");
    assert_eq!(expected.len(), 6);
    for name in ["va-d.json", "va-s-d.json", "va-j-d.json"] {
        for (found, expected) in classes(name).iter().zip(&expected) {
            let close = |one: &str, other: &str| {
                // The kernel keeps bursts as times, which costs some bytes.
                let bytes = |line: &str| {
                    line.strip_prefix("burst = \"")
                        .or(line.strip_prefix("ceiling_burst = \""))
                        .and_then(|rest| rest.trim_end_matches("B\"").parse::<f64>().ok())
                };
                one == other
                    || bytes(one).zip(bytes(other)).is_some_and(|(one, other)| (one - other).abs() < 0.01 * other)
            };
            let lines = |class: &Value| {
                class["lines"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|line| line.as_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            let (found, expected) = (lines(found), lines(expected));
            assert_eq!(found.len(), expected.len(), "{name}: {found:?} {expected:?}");
            for (one, other) in found.iter().zip(&expected) {
                assert!(close(one, other), "{name}: {one} is not {other} in {found:?}");
            }
        }
    }
}

/// A script with what public ones have: functions, loops, programs by path, marks, a question for the default device.
#[cfg(target_os = "linux")]
const SCRIPT: &str = r#"#!/bin/bash
[ "$EUID" -eq 0 ] && [ "$(id -u)" = 0 ] || exit 7
PATH=/sbin:/usr/sbin:$PATH
TC=/sbin/tc
DEV=$(ip route show default | sed 's/.*dev //')
UP=$1
modprobe sch_htb
$TC qdisc del dev $DEV root 2>/dev/null
$TC qdisc add dev $DEV root handle 1: htb default 30
$TC class add dev $DEV parent 1: classid 1:1 htb rate ${UP}kbit
for n in 10 20 30; do
    $TC class add dev $DEV parent 1:1 classid 1:$n htb rate $((UP / 4))kbit ceil ${UP}kbit
    tc qdisc add dev $DEV parent 1:$n fq_codel
done
mark() {
    /usr/sbin/iptables -t mangle -A POSTROUTING -o $DEV -p "$1" --dport "$2" -j MARK --set-mark "$3"
    tc filter add dev $DEV parent 1: protocol ip prio 1 handle "$3" fw flowid 1:"$3"0
}
mark udp 5060 1
mark tcp $WEB 2
"#;

#[cfg(target_os = "linux")]
#[test]
fn a_script_is_run_and_its_marks_become_matches() {
    let dir = Scratch::new();
    let script = dir.path("shape.sh");
    fs::write(&script, SCRIPT).unwrap();
    let out = dir.path("made");
    let run = fairlink(&["import", "tc", "--run", &script, "--set", "WEB=443", "--json", "--out", &out, "--", "8000"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let report = run.json();
    let text = fs::read_to_string(format!("{out}/eth0.toml")).unwrap();
    for line in [
        "rate = \"8Mbit\"",
        "match = [\"ip udp dst port 5060\"]",
        "match = [\"ip tcp dst port 443\"]",
        "queue = \"fq_codel\"",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let ran = report["ran"].to_string();
    assert!(ran.contains("not run: modprobe sch_htb") && ran.contains("ip route show default"), "{ran}");
    assert_eq!(report["links"][0]["classes"], 4);
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_changes_nothing_and_reaches_nothing() {
    use std::net::TcpListener;

    let dir = Scratch::new();
    let script = dir.path("bad.sh");
    let (made, kept) = (dir.path("made-by-script"), dir.path("kept"));
    fs::write(&kept, "kept").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let me = std::process::id();
    let text = format!(
        "#!/bin/bash\n(echo x > {made}) 2>/dev/null && echo wrote >&2\n(echo x > {kept}) 2>/dev/null && echo overwrote >&2\n\
         (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected >&2\n(builtin kill -9 {me}) 2>/dev/null && echo killed >&2\n\
         /bin/rm -f {kept}\necho y > $TMPDIR/own || echo no-scratch >&2\n\
         tc qdisc add dev eth0 root handle 1: htb default 10\ntc class add dev eth0 parent 1: classid 1:10 htb rate 1mbit\n\
         "
    );
    fs::write(&script, text).unwrap();
    let run = fairlink(&["import", "tc", "--run", &script, "--no-compare"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.contains("WARNING"), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("not run: rm -f {kept}")), "{}", run.stderr);
    assert!(!std::path::Path::new(&made).exists());
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(run.stdout.contains("name = \"1:10\""));
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_that_sets_nothing_up_is_an_error_with_what_it_said() {
    let dir = Scratch::new();
    let script = dir.path("usage.sh");
    fs::write(&script, "echo 'usage: shape DEV' >&2\nexit 3\n").unwrap();
    let run = fairlink(&["import", "tc", "--run", &script]);
    assert_eq!(run.code, 2);
    for said in ["gave no command of tc", "usage: shape DEV", "exit status: 3", "behind --"] {
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
    fs::write(&script, "#!/usr/bin/python3\nprint()\n").unwrap();
    let run = fairlink(&["import", "tc", "--run", &script]);
    assert!(run.code == 2 && run.stderr.contains("\"python3\""), "{}", run.stderr);
}

#[test]
fn a_file_in_latin_1_is_refused_with_its_line() {
    let dir = Scratch::new();
    let file = dir.path("ShapedDevices.csv");
    fs::write(&file, b"Circuit ID,IPv4\n1,10.0.0.1\nMu\xf1oz,10.0.0.2\n").unwrap();
    let run = fairlink(&["import", "libreqos", &file, "--rate", "1gbit"]);
    assert_eq!(run.code, 2);
    let said = run.stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    assert!(said.contains("the byte 0xf1 in line 3, column 3") && said.contains("iconv -f latin1"), "{said}");
}

/// Three plans with the same minimum, as LibreQoS recommends, and the same of RouterOS.
#[test]
fn weights_decide_what_plans_get_when_all_are_busy() {
    let dir = Scratch::new();
    let file = dir.path("ShapedDevices.csv");
    let mut text = "Circuit ID,IPv4,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps\n".to_owned();
    for (at, plan) in [400, 200, 100, 100].iter().enumerate() {
        text += &format!("c{at},10.0.0.{},1,1,{plan},{plan}\n", at + 1);
    }
    fs::write(&file, text).unwrap();
    let export = dir.path("export.rsc");
    let mut text = "/queue simple\n".to_owned();
    for (at, plan) in [400, 200, 100, 100].iter().enumerate() {
        text += &format!("add limit-at=1M/1M max-limit={plan}M/{plan}M name=c{at} target=10.0.0.{}/32\n", at + 1);
    }
    fs::write(&export, text).unwrap();
    let plans = |tool: &str, file: &str, weights: &str| -> Vec<(u64, u64, f64)> {
        let run = fairlink(&["import", tool, file, "--rate", "202mbit", "--weights", weights, "--json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let report = run.json();
        let of = |plan: &Value| {
            let mean = plan["mean_bps"].as_f64().unwrap();
            assert!(plan["least_bps"].as_f64().unwrap() <= mean + 1.0);
            (plan["ceiling_bps"].as_u64().unwrap() / 1_000_000, plan["classes"].as_u64().unwrap(), mean / 1e6)
        };
        report["links"][0]["plans"].as_array().unwrap().iter().map(of).collect()
    };
    for (tool, file) in [("libreqos", &file), ("mikrotik", &export)] {
        for (weights, expected) in
            [("guarantee", [50.0, 50.0, 50.0]), ("ceiling", [100.0, 50.0, 25.0]), ("equal", [50.0, 50.0, 50.0])]
        {
            let found = plans(tool, file, weights);
            assert_eq!(found.iter().map(|plan| (plan.0, plan.1)).collect::<Vec<_>>(), [(400, 1), (200, 1), (100, 2)]);
            for (plan, expected) in found.iter().zip(expected) {
                assert!((plan.2 / expected - 1.0).abs() < 0.03, "{tool}, {weights}: {found:?}");
            }
        }
    }
    let run = fairlink(&["import", "libreqos", &file, "--rate", "202mbit", "--weights", "equal", "--as-is"]);
    assert!(run.code == 2 && run.stderr.contains("leave one of them out"), "{}", run.stderr);
}

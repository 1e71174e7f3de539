//! The book: its links lead somewhere, and every command that the tutorials show is run, in the order in which they
//! stand, in a network namespace that ends with the test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Scratch, in_private_network, unless_starved};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the contents of the shell blocks, concatenated. After a block that starts a background process, it waits for
/// that process to begin.
fn shown(page: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => {
                inside = false;
                if script.trim_end().ends_with('&') {
                    script.push_str("until_listens\n");
                }
            }
            (true, line) => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    script
}

/// The cables of the tutorials, and where commands look for programs, files and sockets.
const SETTING: &str = r#"
for pair in "va users0" "vb lan0" "vc wan0" "vd net0"; do
    set -- $pair
    ip link set $1 down
    ip link set $1 name $2
    ip link set $2 up
done
mkdir "$D/bin" "$D/work" "$D/run"
ln -s "$F" "$D/bin/fairlink"
lab=$(dirname "$F")/fairlink-lab
[ -x "$lab" ] || { echo "$lab is missing: cargo build -p fairlink-lab" >&2; exit 1; }
ln -s "$lab" "$D/bin/fairlink-lab"
export PATH="$D/bin:$PATH" XDG_RUNTIME_DIR="$D/run"
until_listens() { n=0; until ls "$D"/run/*.sock > /dev/null 2>&1; do n=$((n + 1)); [ $n -lt 5000 ]; sleep 0.01; done; }
cd "$D/work"
"#;

/// Runs a page and returns its output; `None` if that is impossible here. The limit is 90 s.
fn run(page: &str) -> Option<String> {
    let text = fs::read_to_string(docs().join("tutorials").join(page)).expect("the page");
    let dir = Scratch::new();
    let commands = shown(&text);
    assert!(commands.matches("fairlink").count() >= 5, "{commands}");
    let page_script = dir.write("page.sh", &format!("set -eu\n{SETTING}\nset -x\n{commands}"));
    let script = format!("timeout 90 bash {page_script} > \"$D/out\" 2> \"$D/err\"");
    let ended = in_private_network(&script, &dir, &[])?;
    let said = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
    let (out, err) = (said("out"), said("err"));
    assert!(ended.status.success(), "{page}: {}\n{out}\n{err}", String::from_utf8_lossy(&ended.stderr));
    assert!(!out.is_empty());
    Some(out)
}

#[test]
fn the_tutorial_of_a_home_link_works_as_it_stands() {
    unless_starved(|| {
        let Some(out) = run("home.md") else { return };
        // Calls wait less than a millisecond in the mean under the file's scheduler, twice, and more than a tenth of a
        // second under fifo.
        let calls = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let calls: Vec<(f64, &str)> = calls
            .filter(|row| {
                row.first() == Some(&"calls")
                    && row.len() > 10
                    && row[6] != "-"
                    && row[1].parse::<u64>().is_ok()
                    && row[5].contains('.')
            })
            .map(|row| (row[6].parse().expect("a delay"), row[7]))
            .collect();
        let units: Vec<&str> = calls.iter().map(|(_, unit)| *unit).collect();
        assert_eq!(units, ["us", "us", "ms"], "{calls:?}\n{out}");
        assert!(calls[2].0 > 100.0, "{calls:?}\n{out}");
        // 200 pings beside an upload, under fifo and under the file's scheduler: at the end of a row is the longest delay.
        let pings = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let longest: Vec<f64> = pings
            .filter(|row| row.starts_with(&["devices", "200", "200", "0", "0"]))
            .map(|row| row[row.len() - 2].parse::<f64>().expect("a delay") * seconds(row[row.len() - 1]))
            .collect();
        assert!(longest.len() == 2 && longest[0] > 0.05 && longest[0] > 50.0 * longest[1], "{longest:?}\n{out}");
        assert!(out.contains("Seen: beside the upload by TCP ("), "{out}");
        // The gateway passes no more than the file's rate, however much is sent.
        let passed: f64 = ["devices", "bulk"].iter().flat_map(|class| received(&out, class)).sum();
        assert!(passed > 1.0 && passed <= 19.5, "{passed} Mbit/s\n{out}");
    });
}

/// A unit of time, as tables have it, in seconds.
fn seconds(unit: &str) -> f64 {
    match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        other => panic!("{other} is no unit of time"),
    }
}

#[test]
fn the_tutorial_of_a_provider_works_as_it_stands() {
    unless_starved(|| {
        let Some(out) = run("provider.md") else { return };
        // Ada has bought 100 Mbit/s, and is sent more than that in both directions.
        let rates: Vec<f64> = received(&out, "ada").collect();
        let within = |rate: &f64| (10.0..=101.0).contains(rate);
        assert!(rates.len() == 2 && rates.iter().all(within), "{rates:?} Mbit/s\n{out}");
        // By the gateway's own count her frames met her class, and no other.
        let others = out.lines().filter(|line| line.starts_with("others "));
        let counts = others.map(|line| line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect());
        let counts: Vec<Vec<u64>> = counts.filter(|counts: &Vec<u64>| counts.len() > 3).collect();
        assert!(counts.len() == 2 && counts.iter().all(|counts| counts[0] < 200), "{counts:?}\n{out}");
    });
}

/// The rates of a class in the tables of `receive`, in Mbit/s.
fn received<'a>(out: &'a str, class: &'a str) -> impl Iterator<Item = f64> + 'a {
    let tables = out.split("received for ").skip(1);
    tables.filter_map(move |table| {
        let row = table.lines().find(|line| line.split_whitespace().next() == Some(class))?;
        let cells: Vec<&str> = row.split_whitespace().collect();
        let at = cells.iter().position(|cell| *cell == "Mbit/s")?;
        cells[at - 1].parse().ok()
    })
}

#[test]
fn the_tutorial_of_tenants_works_as_it_stands() {
    unless_starved(|| {
        let Some(out) = run("tenants.md") else { return };
        // Red gets what blue leaves, and its classes share it by 25 to 15 %.
        let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
        for row in ["red-storage unlimited 593.8 Mbit/s", "red-else unlimited 356.2 Mbit/s"] {
            assert!(words.contains(row), "{row}\n{out}");
        }
        assert!(out.contains("max-min fairness (hls): no gain"), "{out}");
        // Blue sends 500 Mbit/s where 475 are its share: red-storage gets the other 475 under hls, and less under htb.
        let rate = |scheduler: &str| -> f64 {
            let table = out.split(&format!("{scheduler}, mean of 3 runs")).nth(1).expect("the runs of a scheduler");
            let row = table.lines().find_map(|line| line.strip_prefix("red-storage")).expect("its row");
            row.split_whitespace().next().and_then(|rate| rate.parse().ok()).expect("a rate")
        };
        let (hls, htb) = (rate("hls"), rate("htb"));
        assert!((hls - 475.0).abs() < 3.0 && htb < hls - 10.0, "{hls} {htb}\n{out}");
    });
}

#[test]
fn the_tutorial_of_a_laboratory_works_as_it_stands() {
    unless_starved(|| {
        let Some(out) = run("lab.md") else { return };
        // While C pauses, A1 and B2 get the same under hls and hfsc, and not under htb.
        let paused = out.split("\n1 .. 2 s").nth(1).expect("the phase in which C pauses");
        let row = |class: &str| -> [f64; 4] {
            let row = paused.lines().find_map(|line| line.trim().strip_prefix(class)).expect("a row");
            let rates: Vec<f64> = row.split_whitespace().map(|rate| rate.parse().expect("a rate")).collect();
            rates.try_into().expect("the ideal and three schedulers")
        };
        let ([ideal, hls, htb, hfsc], [_, other_hls, other_htb, _]) = (row("A1"), row("B2"));
        let same = |one: f64, other: f64| (one - other).abs() < 0.01 * one;
        assert!(same(ideal, 47.5) && same(hls, ideal) && same(hfsc, ideal) && same(hls, other_hls), "{paused}");
        assert!(other_htb > 1.2 * htb, "{paused}");
        // Runs differ by their seeds, so that intervals have a width.
        let sweep = out.split("link.rate").nth(1).expect("the sweep");
        let widths = sweep.split("± ").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        let widths: Vec<f64> = widths.collect();
        assert!(widths.len() >= 10 && widths.iter().filter(|&&width| width > 0.0).count() >= 6, "{widths:?}\n{sweep}");
        assert!(out.contains("fig51"), "{out}");
    });
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let mut links = 0;
    for folder in ["", "tutorials", "schedulers"] {
        for entry in fs::read_dir(docs().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_none_or(|extension| extension != "md") {
                continue;
            }
            let text = fs::read_to_string(&path).expect("a page");
            for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
                let file = link.split('#').next().unwrap_or_default();
                if !file.is_empty() && !file.contains("://") {
                    assert!(path.with_file_name(file).exists(), "{}: {link}", path.display());
                    links += 1;
                }
            }
        }
    }
    assert!(links > 50, "{links}");
}

#[test]
fn every_page_of_the_book_is_there_and_every_page_there_is_in_the_book() {
    let summary = fs::read_to_string(docs().join("SUMMARY.md")).expect("the list of pages");
    let listed: Vec<&str> =
        summary.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(page, _)| page).collect();
    for page in &listed {
        assert!(docs().join(page).exists(), "{page}");
    }
    for folder in ["", "tutorials", "schedulers"] {
        for entry in fs::read_dir(docs().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(docs()).expect("below").to_str().expect("text").to_owned();
                assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "{name} is in no chapter");
            }
        }
    }
}

/// Tables, blocks of code and pictures may be wider.
#[test]
fn lines_of_documents_have_at_most_120_columns() {
    let root = docs().join("..");
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "DESIGN.md", "CHANGELOG.md"].map(|page| root.join(page)).into();
    for folder in ["", "tutorials", "schedulers"] {
        let entries = fs::read_dir(docs().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            let is_free = is_code || line.trim_start().starts_with(['|', '!']);
            assert!(is_free || line.chars().count() <= 120, "{}:{}: {line}", page.display(), number + 1);
        }
    }
}

/// The texts with links that people follow: the README and the manual, by their paths from the root.
fn pages() -> Vec<(PathBuf, String)> {
    fn collect(directory: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, pages);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                pages.push(path);
            }
        }
    }
    let mut pages = vec![docs().join("../README.md")];
    collect(&docs(), &mut pages);
    pages.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a page");
        (path, text)
    };
    pages.into_iter().map(read).collect()
}

/// The addresses of links and pictures in Markdown, without those in code.
fn addresses(text: &str) -> Vec<String> {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    let outside_code = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let plain = lines.map(outside_code).collect::<Vec<_>>().join("\n");
    let ends = |rest: &str| rest.split_once(')').map(|(address, _)| address.to_owned());
    plain.split("](").skip(1).filter_map(ends).collect()
}

/// The names that a link may have behind `#`: those of headings, as GitHub and mdbook make them, and explicit ones.
fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
        let kept =
            title.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>();
        Some(kept.trim().replace(' ', "-"))
    };
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned());
    text.lines().filter_map(heading).chain(named).collect()
}

#[test]
fn no_link_of_the_readme_and_the_manual_is_dead() {
    let mut dead = Vec::new();
    let mut seen = 0;
    for (path, text) in pages() {
        for address in addresses(&text).iter().filter(|address| !address.contains("://")) {
            seen += 1;
            let (file, anchor) = address.split_once('#').unwrap_or((address, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("a directory").join(file) };
            let there = || anchors(&fs::read_to_string(&target).expect("a text")).iter().any(|known| known == anchor);
            if !target.exists() || (!anchor.is_empty() && !there()) {
                dead.push(format!("{}: {address}", path.display()));
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn pictures_of_a_scenario_have_a_link_that_opens_it_in_the_page() {
    let root = docs().join("..");
    let build = fs::read_to_string(root.join("web/build.mjs")).expect("the list of examples");
    let (_, list) = build.split_once("const examples = [").expect("the list");
    let (list, _) = list.split_once("\n];").expect("its end");
    let names: Vec<&str> = list.lines().filter_map(|line| line.rsplit('"').nth(1)).collect();
    assert!(names.len() > 9, "{names:?}");
    let page = fs::read_to_string(docs().join("page.md")).expect("the chapter on the page");
    for name in &names {
        assert!(root.join(format!("scenarios/{name}.toml")).exists(), "{name}");
        assert!(page.contains(&format!("<a id=\"example={name}\"></a>[`{name}`](page.md#example={name})")), "{name}");
    }
    assert_eq!(page.matches("<a id=\"example=").count(), names.len(), "examples that the page has not");
    let of_scenarios = ["demo.svg", "ping.svg", "tree.svg", "exp2-H-hls.svg", "hfsc-delay.svg"];
    let mut pictures = 0;
    for (path, text) in pages() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("![") && of_scenarios.iter().any(|picture| line.ends_with(&format!("{picture})"))) {
                pictures += 1;
                let below = lines.get(at + 2).copied().unwrap_or_default();
                assert!(below.contains("page.md#example="), "{}:{}: {below}", path.display(), at + 1);
            }
        }
    }
    assert!(pictures >= 10, "{pictures}");
}

//! Pools between the links of a gateway, on packets, in a network namespace that ends with the test.

use std::fs;

use serde_json::Value;

use crate::{Scratch, in_private_network, unless_starved};

const SCRIPT: &str = r#"
ctl() { "$F" ctl "$@" --control "$D/socket"; }
"$F" gateway "$D/links.toml" --ignore-offloads --fail-open never --control "$D/socket" --metrics 127.0.0.1:9400 --drain 0s --json > "$D/gateway.json" 2> "$D/gateway.log" & gateway=$!
until_exists "$D/socket"
"$F" generate "$D/traffic.toml" --out va --duration 1500ms > /dev/null & one=$!
"$F" generate "$D/traffic.toml" --out vd --duration 1500ms > /dev/null & other=$!
sleep 0.5
ctl stats --json > "$D/before.json"
ctl stats --interval 500ms --json > "$D/interval.json"
ctl stats --json > "$D/after.json"
bash -c 'exec 3<> /dev/tcp/127.0.0.1/9400; printf "GET /metrics HTTP/1.1\r\n\r\n" >&3; cat <&3' > "$D/scraped.txt"
! ctl rate d 15mbit --link down 2> "$D/rate.log"
ctl rate d 13mbit --link down > "$D/rate.txt"
ctl reload "$D/faster.toml" > "$D/reload.txt"
! ctl reload "$D/slower.toml" 2> "$D/slower.log"
ctl reload "$D/ratio.toml" > "$D/ratio.txt"
wait $one $other
kill -INT $gateway
wait $gateway
"#;

fn links() -> String {
    let link = |name: &str, from: &str, to: &str, class: &str, guarantee: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nin = \"{from}\"\nout = \"{to}\"\nrate = \"100mbit\"\n[[link.class]]\n\
             name = \"{class}\"\nguarantee = \"{guarantee}\"\npool = \"up\"\nbuffer = \"50p\"\nmatch = \"any\"\n"
        )
    };
    let pool = "[[pool]]\nname = \"up\"\nrate = \"20mbit\"\nburst = \"10kB\"\n";
    format!("{pool}{}{}", link("down", "vb", "vc", "d", "12mbit"), link("back", "vc", "vb", "u", "6mbit"))
}

fn sent(stats: &Value) -> [f64; 2] {
    [0, 1].map(|link| stats["links"][link]["classes"][0]["counts"]["sent"]["bytes"].as_f64().unwrap_or(f64::NAN))
}

fn uptime(stats: &Value) -> f64 {
    stats["links"][0]["gateway"]["uptime_s"].as_f64().unwrap_or(f64::NAN)
}

#[test]
fn links_that_share_a_pool_send_no_more_than_it_has_and_change_with_it() {
    unless_starved(|| {
        for scheduler in ["hls", "htb"] {
            let dir = Scratch::new();
            let links = links().replace("[[link.class]]", &format!("scheduler = \"{scheduler}\"\n[[link.class]]"));
            dir.write("links.toml", &links);
            dir.write("faster.toml", &links.replace("\"20mbit\"", "\"30mbit\""));
            dir.write("slower.toml", &links.replace("\"20mbit\"", "\"15mbit\""));
            dir.write("ratio.toml", &links.replace("burst = \"10kB\"", "burst = \"10kB\"\nrule = \"ratio\""));
            let traffic = "duration = \"2s\"\n[link]\nrate = \"1gbit\"\n[[class]]\nname = \"all\"\n\
                       match = [\"udp dst port 5001\", \"any\"]\n[[source]]\nclass = \"all\"\nmodel = \"cbr\"\n\
                       packet = \"1000B\"\nrate = \"40mbit\"\n";
            dir.write("traffic.toml", traffic);
            let Some(run) = in_private_network(SCRIPT, &dir, &[]) else { return };
            let read = |name: &str| fs::read_to_string(dir.path(name)).unwrap_or_default();
            assert!(run.status.success(), "{}{}", String::from_utf8_lossy(&run.stderr), read("gateway.log"));
            let json = |name: &str| {
                serde_json::from_str::<Value>(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            let [before, after, end] = ["before.json", "after.json", "gateway.json"].map(json);
            // No more than the pool brings, its burst and 12 periods, and what each link has a turn for.
            let brought = 20e6 / 8.0 * (uptime(&after) - uptime(&before));
            let grown: Vec<f64> =
                sent(&after).iter().zip(sent(&before)).map(|(after, before)| after - before).collect();
            let slack = 10_000.0 + 20e6 / 8.0 * 12e-3 + 2.0 * 64.0 * 1_522.0;
            assert!(grown[0] + grown[1] <= brought + slack, "{scheduler}: {grown:?} of {brought}");
            // Each more than a third of its guarantee, however crowded the machine is.
            assert!(
                grown[0] > brought * 12.0 / 20.0 / 3.0 && grown[1] > brought * 6.0 / 20.0 / 3.0,
                "{scheduler}: {grown:?}"
            );
            // Both want all: the ideals are two thirds and one third of the pool.
            let interval = json("interval.json");
            let ideal = |link: usize| interval["links"][link]["spans"][0]["classes"][0]["rates"]["ideal_bps"].as_f64();
            let near = |ideal: f64, exact: f64| (ideal - exact).abs() <= 0.02 * exact;
            match scheduler {
                "hls" => {
                    assert!(near(ideal(0).unwrap(), 40e6 / 3.0) && near(ideal(1).unwrap(), 20e6 / 3.0), "{interval}")
                }
                // Sharing of a pool among links has no rule here.
                _ => assert_eq!((ideal(0), ideal(1)), (None, None), "{interval}"),
            }
            let scraped = read("scraped.txt");
            let ideals = ["down", "back"].map(|link| {
                let line = format!("fairlink_link_ideal_bits_per_second{{link=\"{link}\"}} ");
                scraped.lines().find_map(|text| text.strip_prefix(&line)?.parse::<f64>().ok())
            });
            match scheduler {
                "hls" => {
                    assert!(near(ideals[0].unwrap(), 40e6 / 3.0) && near(ideals[1].unwrap(), 20e6 / 3.0), "{scraped}")
                }
                _ => assert_eq!(ideals, [None, None], "{scraped}"),
            }
            let all = sent(&end).iter().sum::<f64>();
            assert!(all <= 30e6 / 8.0 * uptime(&end) + slack, "{scheduler}: {all} in {}", uptime(&end));
            for link in 0..2 {
                assert_eq!(end["links"][link]["gateway"]["balanced"], true, "{end}");
            }
            assert!(
                read("rate.log").contains("pool \"up\"") && read("rate.log").contains("21000000"),
                "{}",
                read("rate.log")
            );
            assert!(
                read("slower.log").contains("18000000 bit/s together, more than its 15000000"),
                "{}",
                read("slower.log")
            );
            assert!(read("rate.txt").contains("13 Mbit/s"), "{}", read("rate.txt"));
        }
    });
}

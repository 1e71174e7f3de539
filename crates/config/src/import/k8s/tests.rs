use super::*;
use crate::link::LinkFile;

/// What `kubectl get pods -A -o json` prints, as far as it is looked at.
fn pods() -> String {
    let pod = |name: &str, spec: &str, annotations: &str, status: &str| {
        format!(
            r#"{{"kind": "Pod", "metadata": {{"namespace": "shop", "name": "{name}", "annotations": {{{annotations}}}}}, "spec": {{{spec}}}, "status": {{{status}}}}}"#
        )
    };
    let node = r#""nodeName": "node-1""#;
    let all = [
        pod(
            "web",
            node,
            r#""kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "1Gi""#,
            r#""podIP": "10.244.0.5", "podIPs": [{"ip": "10.244.0.5"}, {"ip": "fd00::5"}]"#,
        ),
        pod("db", node, "", r#""podIP": "10.244.0.6""#),
        pod("agent", r#""nodeName": "node-1", "hostNetwork": true"#, "", r#""podIP": "192.0.2.1""#),
        pod("pending", "", r#""kubernetes.io/ingress-bandwidth": "1M""#, ""),
        pod("far", r#""nodeName": "node-2""#, "", r#""podIP": "10.244.1.5""#),
    ];
    format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, all.join(","))
}

fn options(node: Option<&str>) -> Options {
    let directions = vec![Direction::Down, Direction::Up];
    Options { rate: Rate::from_bps(100_000_000).unwrap(), node: node.map(str::to_owned), directions }
}

fn ceiling(link: &LinkFile, name: &str) -> Option<u64> {
    link.tree.config(link.names.id(name).unwrap()).ceiling.map(|rate| rate.bps())
}

#[test]
fn limits_of_pods_are_ceilings_of_equal_classes() {
    let imported = import("pods.json", pods(), &options(Some("node-1"))).unwrap();
    let [down, up] = &imported.links[..] else { panic!("two links") };
    assert_eq!(ceiling(&down.link, "shop/web"), Some(10_000_000));
    // No more than the link.
    assert_eq!(ceiling(&up.link, "shop/web"), Some(100_000_000));
    assert_eq!(ceiling(&down.link, "shop/db"), None);
    let matches: Vec<String> = down.link.matches.iter().map(|(_, made)| made.to_string()).collect();
    assert_eq!(matches, ["dst net 10.244.0.5/32", "dst net fd00::5/128", "dst net 10.244.0.6/32"]);
    assert_eq!(up.link.matches[0].1.to_string(), "src net 10.244.0.5/32");
    assert_eq!(down.before, None);
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "1 pod in the network of the host, whose address is the node's");
    assert!(said[1].starts_with("limits: each pod has a token bucket of its own there"), "{said:?}");
}

#[test]
fn what_is_no_list_of_running_pods_of_one_node_is_refused() {
    let refused =
        |text: &str, node: Option<&str>| import("pods.json", text, &options(node)).expect_err("wrong").lines();
    assert!(refused("apiVersion: v1\nkind: List\n", None).contains("kubectl get pods -A -o json > pods.json"));
    assert!(refused("{\"kind\": \"Node\"}", None).contains("this is Node, and neither a pod nor a list of pods"));
    assert!(refused("{\"kind\": ", None).contains("this is not JSON"));
    assert!(refused(&pods(), None).contains("choose one with --node: node-1, node-2"));
    assert!(refused(&pods(), Some("node-3")).contains("there are pods on: node-1, node-2"));
    let wrong = pods().replace("\"10M\"", "\"10Mbit\"");
    assert!(
        refused(&wrong, Some("node-1")).contains("kubernetes.io/ingress-bandwidth of the pod shop/web is \"10Mbit\"")
    );
    let same = pods().replace("10.244.0.6", "10.244.0.5");
    assert!(refused(&same, Some("node-1")).contains("the pods shop/web and shop/db both have 10.244.0.5/32"));
}

#[test]
fn quantities_are_those_of_kubernetes() {
    for (text, bps) in [
        ("10M", 10_000_000),
        ("1.5G", 1_500_000_000),
        ("64Ki", 65_536),
        ("3Mi", 3_145_728),
        ("2Gi", 2_147_483_648),
        ("5e5", 500_000),
        ("800", 800),
        ("2500m", 2),
    ] {
        assert_eq!(quantity(text), Some(bps), "{text}");
    }
    for wrong in ["", "M", "-1M", "1Mbit", "5T5", "0", "2T", "10 M"] {
        assert_eq!(quantity(wrong), None, "{wrong}");
    }
}

#[test]
fn pods_without_an_address_are_left_out_and_one_has_to_be_left() {
    let bare = pods().replace(r#""podIP": "10.244.0.6""#, "");
    let imported = import("pods.json", bare.as_str(), &options(Some("node-1"))).unwrap();
    assert_eq!(imported.links[0].link.names.id("shop/db"), None);
    assert_eq!(imported.kept, ["1 pods with their addresses, 1 of them with limits"]);
    let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "1 pod without an address, which do not run");
    let none = bare.replace(r#""podIP": "10.244.0.5", "podIPs": [{"ip": "10.244.0.5"}, {"ip": "fd00::5"}]"#, "");
    let refused = import("pods.json", none, &options(Some("node-1"))).expect_err("nothing is left").lines();
    assert!(refused.contains("no pod is left to import"), "{refused}");
}

/// The address of a pod that has ended may be another's by now.
#[test]
fn pods_that_have_ended_are_left_out() {
    let with = |phase: &str| {
        pods().replace(r#""podIP": "10.244.0.6""#, &format!(r#""phase": "{phase}", "podIP": "10.244.0.5""#))
    };
    for phase in ["Succeeded", "Failed"] {
        let imported = import("pods.json", with(phase), &options(Some("node-1"))).unwrap();
        assert!(imported.links[0].link.names.id("shop/db").is_none(), "{phase}");
        let notes: String = imported.notes.iter().map(ToString::to_string).collect();
        assert!(notes.contains("1 pod that have ended (Succeeded or Failed)"), "{notes}");
    }
    assert!(import("pods.json", with("Running"), &options(Some("node-1"))).is_err());
}

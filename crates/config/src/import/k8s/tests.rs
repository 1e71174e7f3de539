use super::*;
use crate::link::LinkFile;

/// The relevant part of the output of `kubectl get pods -A -o json`.
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

fn import(name: &str, text: impl Into<String>, options: &Options) -> Result<Imported, Problems> {
    super::super::tests::import(&INFO, &[(name, &text.into())], options)
}

fn options(node: Option<&str>) -> Options {
    let options = Options::default().with("rate", "100mbit").with("direction", "both");
    node.map_or(options.clone(), |node| options.with("node", node))
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
    assert_eq!(said[0], "1 pod in the host network, which has the node's address");
    assert!(said[1].starts_with("limits: Kubernetes polices each pod"), "{said:?}");
}

#[test]
fn what_is_no_list_of_running_pods_of_one_node_is_refused() {
    let refused =
        |text: &str, node: Option<&str>| import("pods.json", text, &options(node)).expect_err("wrong").lines();
    assert!(refused("apiVersion: v1\nkind: List\n", None).contains("this is List, not a pod or a list of pods"));
    assert!(refused("a: 1\n", None).starts_with("pods.json:1:1: error: this has no kind"));
    assert!(refused("", None).contains("there is no object in this file"));
    assert!(refused("{\"kind\": \"Node\"}", None).contains("this is Node, not a pod or a list of pods"));
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
    assert_eq!(said[0], "1 pod without an address (not running)");
    let none = bare.replace(r#""podIP": "10.244.0.5", "podIPs": [{"ip": "10.244.0.5"}, {"ip": "fd00::5"}]"#, "");
    let refused = import("pods.json", none, &options(Some("node-1"))).expect_err("nothing is left").lines();
    assert!(refused.contains("there is no pod to import"), "{refused}");
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

/// The same pods, as `kubectl get pods -A -o yaml` prints them.
#[test]
fn pods_are_the_same_in_yaml() {
    let text = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata:\n    annotations:\n      kubernetes.io/ingress-bandwidth: 10M\n      \
        kubernetes.io/egress-bandwidth: 1Gi\n    name: web\n    namespace: shop\n  spec:\n    nodeName: node-1\n  status:\n    podIP: 10.244.0.5\n    \
        podIPs:\n    - ip: 10.244.0.5\n    - ip: fd00::5\n- metadata: {name: db, namespace: shop}\n  spec: {nodeName: node-1}\n  status: {podIP: 10.244.0.6}\n\
        - {metadata: {name: far}, spec: {nodeName: node-2}, status: {podIP: 10.244.1.5}}\nkind: List\n";
    let (yaml, json) = (
        import("pods.json", text, &options(Some("node-1"))).unwrap(),
        import("pods.json", pods(), &options(Some("node-1"))).unwrap(),
    );
    assert_eq!(yaml.links[0].text, json.links[0].text);
    assert_eq!(yaml.links[1].text, json.links[1].text);
    let wrong = text.replace("10M", "10MB");
    let refused = import("pods.yaml", wrong, &options(Some("node-1"))).expect_err("no quantity").lines();
    assert!(
        refused.starts_with("pods.yaml:7:40: error: kubernetes.io/ingress-bandwidth of the pod shop/web is \"10MB\""),
        "{refused}"
    );
    let bare = text.replace("10M", "1000000");
    let refused = import("pods.yaml", bare, &options(Some("node-1"))).expect_err("a number").lines();
    assert!(refused.contains("is the number 1000000; annotations are strings"), "{refused}");
}

const MANIFESTS: &str = "apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        kubernetes.io/ingress-bandwidth: 10M
---
apiVersion: v1
kind: Pod
metadata:
  name: one
  annotations: {kubernetes.io/egress-bandwidth: \"5M\"}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: fetch}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {kubernetes.io/ingress-bandwidth: 1M}}
---
apiVersion: v1
kind: Pod
metadata: {name: free}
---
";

#[test]
fn manifests_have_a_class_for_each_replica_that_no_frame_reaches_and_say_so() {
    let imported = import("web.yaml", MANIFESTS, &options(None)).unwrap();
    let link = &imported.links[0].link;
    let unreachable: Vec<&str> = link.unreachable().iter().map(|&class| link.names.name(class)).collect();
    assert_eq!(unreachable, ["one", "shop/web 1 of 2", "shop/web 2 of 2", "fetch"]);
    assert_eq!([ceiling(link, "shop/web 2 of 2"), ceiling(link, "one")], [Some(10_000_000), None]);
    assert_eq!(ceiling(&imported.links[1].link, "one"), Some(5_000_000));
    let said: Vec<String> = imported.notes.iter().map(|note| note.line()).collect();
    let of = |what: &str| said.iter().find(|note| note.contains(what)).unwrap_or_else(|| panic!("{what}: {said:#?}"));
    assert!(of("the Deployment shop/web").contains("web.yaml:5:1"), "{said:#?}");
    assert!(of("the Deployment shop/web").contains("kubectl get pods -A -o yaml"), "{said:#?}");
    of("1 manifest without limits");
    of("objects without pods: 1 Service");
}

/// Running pods have addresses, and the object that requested them adds no class.
#[test]
fn an_object_whose_pods_run_is_not_counted_again() {
    let running = |owner: &str, labels: &str| {
        format!(
            "{MANIFESTS}kind: Pod\nmetadata: {{name: web-1, namespace: shop, labels: {labels}, ownerReferences: [{owner}]}}\n\
             spec: {{nodeName: a}}\nstatus: {{podIP: 10.0.0.1}}\n"
        )
    };
    let replicas = |text: &str| {
        let link = import("web.yaml", text, &options(None)).unwrap().links.remove(0).link;
        link.names.id("shop/web 1 of 2").is_some()
    };
    assert!(replicas(&running("", "{app: other}")));
    assert!(!replicas(&running("", "{app: web, hash: x}")));
    assert!(!replicas(&running("{kind: Deployment, name: web}", "{}")));
    // Neither is a set of replicas that belongs to it.
    let set = format!(
        "{MANIFESTS}kind: ReplicaSet\nmetadata: {{name: web-5d, namespace: shop, ownerReferences: [{{kind: Deployment, name: web}}]}}\n\
         spec: {{replicas: 2, template: {{metadata: {{annotations: {{kubernetes.io/ingress-bandwidth: 10M}}}}}}}}\n"
    );
    let link = import("web.yaml", set, &options(None)).unwrap().links.remove(0).link;
    assert!(link.names.id("shop/web-5d 1 of 2").is_none() && link.names.id("shop/web 1 of 2").is_some());
    let job = format!(
        "{MANIFESTS}kind: Pod\nmetadata: {{name: fetch-1-x, ownerReferences: [{{kind: Job, name: fetch-1}}]}}\nstatus: {{podIP: 10.0.0.1}}\n"
    );
    let link = import("web.yaml", job, &options(None)).unwrap().links.remove(0).link;
    assert!(link.names.id("fetch").is_none() && link.names.id("fetch-1-x").is_some());
}

#[test]
fn what_limits_nothing_or_cannot_be_read_is_said() {
    let of = |text: &str| import("a.yaml", text, &options(None));
    let own = "kind: Deployment\nmetadata: {name: a, annotations: {kubernetes.io/ingress-bandwidth: 1M}}\nspec:\n  template: {metadata: {annotations: {kubernetes.io/ingress-bandwidth: 2M}}}\n";
    let imported = of(own).unwrap();
    assert_eq!(ceiling(&imported.links[0].link, "a"), Some(2_000_000));
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.to_string().contains("the bandwidth annotations of the Deployment a itself"))
    );
    let unknown = format!(
        "{own}---\nkind: Rollout\nmetadata: {{name: r}}\nspec: {{template: {{metadata: {{annotations: {{kubernetes.io/ingress-bandwidth: 3M}}}}}}}}\n"
    );
    let imported = of(&unknown).unwrap();
    assert!(imported.notes.iter().any(|note| note.to_string().starts_with("r of Rollout")));
    for (text, said) in [
        ("kind: Pod\nmetadata: {annotations: {kubernetes.io/ingress-bandwidth: 1M}}\n", "this Pod has no name"),
        (
            &own.replace("template:", "replicas: -1\n  template:"),
            "a.yaml:4:13: error: \"replicas\" of the Deployment a is not a whole number",
        ),
        (&own.replace("template:", "replicas: 10001\n  template:"), "from 0 to 10000"),
        (&own.replace("2M", "0"), "is the number 0; annotations are strings"),
        ("kind: Service\nmetadata: {name: a}\n", "this is Service, not a pod or a list of pods"),
        ("kind: Pod\nmetadata: {name: a}\n", "there is no pod to import"),
    ] {
        let refused = of(text).expect_err(said).lines();
        assert!(refused.contains(said), "{refused}");
    }
    let none = of(&own.replace("template:", "replicas: 0\n  template:")).expect_err("no pod").lines();
    assert!(none.contains("there is no pod to import"), "{none}");
}

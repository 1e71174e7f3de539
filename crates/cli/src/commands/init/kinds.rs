//! Classes for each kind of use.

use super::Toward;

/// A kind of use.
#[derive(Debug)]
pub(crate) struct Kind {
    /// As on the command line.
    pub(crate) name: &'static str,
    /// In a question.
    pub(crate) what: &'static str,
    /// In the first line of the file.
    pub(super) title: &'static str,
    /// True if the link is a provider's line, of which there are several kinds.
    pub(super) has_line: bool,
    /// The rest of `[link]`, and the classes. `SIDE` and `USER` stand for `src` or `dst`: the far end and the user's
    /// end of a packet. A line with `PER` is left out if all packets are of one machine.
    classes: &'static str,
}

impl Kind {
    /// Returns the classes for packets of this direction; `own` if all of them are of one machine.
    pub(super) fn text(&self, toward: Toward, own: bool) -> String {
        let (far, user) = if toward == Toward::Internet { ("dst", "src") } else { ("src", "dst") };
        let lines = self.classes.lines().filter(|line| !own || !line.contains("PER"));
        let mut text = String::new();
        for line in lines {
            text.push_str(&line.replace("PER", "per").replace("SIDE", far).replace("USER", user));
            text.push('\n');
        }
        text
    }
}

/// All kinds.
pub(crate) const KINDS: [Kind; 5] = [
    Kind {
        name: "home",
        what: "calls and games first, equal shares for devices, bulk last",
        title: "The link of a home",
        has_line: true,
        classes: HOME,
    },
    Kind {
        name: "office",
        what: "calls, work, guests and backups",
        title: "The link of an office",
        has_line: true,
        classes: OFFICE,
    },
    Kind {
        name: "provider",
        what: "subscribers by plan, below their towers",
        title: "A provider's link",
        has_line: true,
        classes: PROVIDER,
    },
    Kind {
        name: "tenants",
        what: "tenants of a data centre by VLAN, with classes of their own",
        title: "A link that tenants share",
        has_line: false,
        classes: TENANTS,
    },
    Kind {
        name: "lab",
        what: "classes by UDP port, as in Experiment 2 of the HLS paper",
        title: "A link to experiment with",
        has_line: false,
        classes: LAB,
    },
];

const HOME: &str = r#"default = "devices"         # frames that no class matches, ARP among them

[[class]]
name = "calls"              # sent first, within the class's own share
guarantee = "15%"
latency_critical = true
burst = "3kB"               # `check` prints the delay bound
match = ["dscp ef", "dscp cs5", "udp SIDE port 3478-3481", "udp SIDE port 5060-5061"]

[[class]]
name = "devices"            # everything else
guarantee = "75%"
queue = "fq_codel"          # a queue for each connection
ecn = true
PER = "USER-ip"             # an equal share for each device

[[class]]
name = "bulk"               # marked as background traffic; may use the whole link while others are idle
guarantee = "10%"
queue = "fq_codel"
ecn = true
match = ["dscp le", "dscp cs1"]
"#;

const OFFICE: &str = r#"default = "others"          # frames that no class matches, ARP among them

[[class]]
name = "calls"              # sent first, within the class's own share
guarantee = "10%"
latency_critical = true
burst = "6kB"               # `check` prints the delay bound
match = ["dscp ef", "udp SIDE port 3478-3481", "udp SIDE port 5060-5061"]

[[class]]
name = "staff"              # machines with these addresses
guarantee = "60%"
queue = "fq_codel"          # a queue for each connection
ecn = true
PER = "USER-ip"             # an equal share for each machine
match = ["USER net 10.0.0.0/16"]

[[class]]
name = "guests"             # never more than half of the link
guarantee = "10%"
ceiling = "50%"
queue = "fq_codel"
ecn = true
PER = "USER-ip"
match = ["USER net 192.168.0.0/16"]

[[class]]
name = "backup"             # may use the whole link while others are idle
guarantee = "5%"
queue = "fq_codel"
ecn = true
match = ["dscp le", "dscp cs1", "tcp SIDE port 873"]

[[class]]
name = "others"
guarantee = "15%"
queue = "fq_codel"
ecn = true
"#;

const PROVIDER: &str = r#"default = "others"          # frames that no class matches, ARP among them

[template.plan]             # settings common to all plans
queue = "fq_codel"          # a queue for each connection
ecn = true

[template.home]
template = "plan"
weight = 1                  # of the tower's rate
ceiling = "10%"             # of the link; or a rate such as "100mbit"

[template.business]
template = "plan"
weight = 5
ceiling = "50%"

[[class]]
name = "north"              # a tower: its subscribers share its rate
guarantee = "50%"
ceiling = "60%"

[[class]]
name = "south"
guarantee = "40%"

# Subscribers one by one ...
[[class]]
name = "ada"
parent = "north"
template = "home"
match = ["USER host 100.64.0.1", "USER net 2001:db8:0:1::/64"]

[[class]]
name = "bakery"
parent = "north"
template = "business"
match = ["USER host 100.64.0.8-100.64.0.11"]

[[class]]
name = "chen"
parent = "south"
template = "home"
match = ["USER host 100.64.1.1"]

# ... or all from a table, a class for each row, with columns `name`, `tower`, `plan` and `addresses`:
#
# [[classes]]
# from = "subscribers.csv"
# parent = "{tower}"
# template = "{plan}"
# match = ["USER host {addresses}"]

[[class]]
name = "others"             # unknown addresses: an equal share for each
guarantee = "10%"
queue = "fq_codel"
ecn = true
PER = "USER-ip"
"#;

const TENANTS: &str = r#"default = "others"          # frames that no class matches, ARP among them

[[class]]
name = "red"                # a tenant: its classes share its rate
guarantee = "40%"

[[class]]
name = "red-storage"
parent = "red"
guarantee = "25%"
queue = "fq_codel"
ecn = true
match = ["vlan 100-109 tcp SIDE port 3260", "vlan 100-109 tcp SIDE port 2049"]

[[class]]
name = "red-else"
parent = "red"
guarantee = "15%"
queue = "fq_codel"
ecn = true
match = ["vlan 100-109"]

[[class]]
name = "blue"
guarantee = "40%"
ceiling = "80%"
queue = "fq_codel"
ecn = true
PER = "USER-ip"             # an equal share for each machine of the tenant
match = ["vlan 110-119"]

[[class]]
name = "others"
guarantee = "20%"
queue = "fq_codel"
ecn = true
"#;

const LAB: &str = r#"
[[class]]
name = "A"
guarantee = "30%"

[[class]]
name = "A1"
parent = "A"
guarantee = "6%"
match = ["udp dst port 5001"]

[[class]]
name = "A2"
parent = "A"
guarantee = "24%"
match = ["udp dst port 5002"]

[[class]]
name = "B"
guarantee = "30%"

[[class]]
name = "B1"
parent = "B"
guarantee = "6%"
match = ["udp dst port 5003"]

[[class]]
name = "B2"
parent = "B"
guarantee = "24%"
match = ["udp dst port 5004"]

[[class]]
name = "C"                  # while it is idle, A and B share its rate equally, whatever is guaranteed below them
guarantee = "40%"
match = ["any"]
"#;

//! The recorders: scripts of the shell that stand in the place of programs, and the record that they write.
//!
//! A record is words that end with a zero byte: first their number, then the kind of the command, its name and its
//! arguments. Each recorder writes with one command, so that those of a pipeline do not mix.

/// Programs whose commands set up classes or marks.
const RULES: [&str; 8] =
    ["tc", "iptables", "ip6tables", "iptables-legacy", "ip6tables-legacy", "iptables-nft", "ip6tables-nft", "nft"];
/// Programs that take rules from a file.
const RESTORED: [&str; 2] = ["iptables-restore", "ip6tables-restore"];
/// Programs whose commands are listed and not run.
const LISTED: [&str; 79] = [
    "route",
    "modprobe",
    "insmod",
    "rmmod",
    "depmod",
    "ethtool",
    "sysctl",
    "ipset",
    "brctl",
    "bridge",
    "vconfig",
    "ifup",
    "ifdown",
    "ifenslave",
    "nameif",
    "service",
    "systemctl",
    "rc-service",
    "rc-update",
    "update-rc.d",
    "chkconfig",
    "initctl",
    "kill",
    "killall",
    "pkill",
    "rm",
    "rmdir",
    "mv",
    "cp",
    "ln",
    "mkdir",
    "mknod",
    "touch",
    "chmod",
    "chown",
    "chgrp",
    "install",
    "dd",
    "truncate",
    "mount",
    "umount",
    "reboot",
    "shutdown",
    "halt",
    "poweroff",
    "crontab",
    "at",
    "logger",
    "wget",
    "curl",
    "ssh",
    "scp",
    "rsync",
    "nc",
    "ping",
    "traceroute",
    "apt-get",
    "apt",
    "yum",
    "dnf",
    "apk",
    "opkg",
    "pip",
    "docker",
    "podman",
    "nsenter",
    "conntrack",
    "iw",
    "iwconfig",
    "dhclient",
    "udhcpc",
    "pppd",
    "runner",
    "fc",
    "ebtables",
    "arptables",
    "setcap",
    "useradd",
    "mail",
];
/// Programs whose recorders answer.
const ANSWERED: [&str; 9] = ["ip", "ifconfig", "id", "whoami", "sudo", "sleep", "lsmod", "uci", "nvram"];

/// Returns the names of all programs that have a recorder.
pub(super) fn names() -> Vec<&'static str> {
    [&RULES[..], &RESTORED, &LISTED, &ANSWERED].concat()
}

/// Returns each recorder with its text. `device` has the default route where the script asks.
pub(super) fn all(record: &str, device: &str) -> Vec<(&'static str, String)> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let (record, device) = (quoted(record), quoted(device));
    let note = |kind: &str, name: &str| format!("printf '%s\\0' \"$(($# + 2))\" {kind} {name} \"$@\" >> {record}");
    let shell = "#!/bin/sh\n";
    let mut made: Vec<(&'static str, String)> = Vec::new();
    for name in RULES {
        let keep = note("rule", name);
        // Answers to queries, and files of commands.
        let body = match name {
            "tc" => format!(
                "while [ $# -gt 0 ]; do case \"$1\" in\n-b|-batch|-force) if [ \"$1\" = -force ]; then shift; continue; fi\nif [ -n \"$2\" ] && [ \"$2\" != - ]; then t=$(cat \"$2\"); else t=$(cat); fi\nprintf '%s\\0' 3 batch tc \"$t\" >> {record}; exit 0;;\n-n|-netns) shift; [ $# -gt 0 ] && shift;;\n-*) shift;;\n*) break;; esac; done\n{keep}\n"
            ),
            // A file of rules, or standard input.
            "nft" => format!(
                "f=; n=; for w in \"$@\"; do if [ -n \"$n\" ]; then f=$w; n=; fi; case \"$w\" in -f|--file) n=1;; esac; done\nif [ -n \"$f\" ]; then if [ \"$f\" = - ]; then t=$(cat); else t=$(cat \"$f\"); fi; printf '%s\\0' 3 nft nft \"$t\" >> {record}; exit 0; fi\n{keep}\n"
            ),
            _ => format!("{keep}\ncase \" $* \" in *' -C '*|*' --check '*) exit 1;; esac\nexit 0\n"),
        };
        made.push((name, format!("{shell}{body}")));
    }
    for name in RESTORED {
        let program = name.trim_end_matches("-restore");
        made.push((name, format!("{shell}t=$(cat)\nprintf '%s\\0' 3 restore {program} \"$t\" >> {record}\n")));
    }
    for name in LISTED {
        made.push((name, format!("{shell}{}\n", note("listed", name))));
    }
    let (listed, answered) = (note("listed", "ip"), note("answered", "ip"));
    made.push((
        "ip",
        format!(
            "{shell}d={device}\nfor w in \"$@\"; do case \"$w\" in\nadd|del|delete|set|replace|change|flush|append|exec|attach|up|down) {listed}; exit 0;; esac; done\n{answered}\nfor w in \"$@\"; do case \"$w\" in\nlink|addr|address|a|l|show|list|ls|dev|-*|up) ;; route|r|ro|rule|get|default|table|main|exact|match|[0-9]*) ;; *) d=$w;; esac; done\nlink() {{ echo \"2: $d: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default qlen 1000\"; echo \"    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\"; }}\nfor w in \"$@\"; do case \"$w\" in\nget) echo \"192.0.2.9 via 192.0.2.1 dev $d src 192.0.2.2 uid 0\"; exit 0;; esac; done\nfor w in \"$@\"; do case \"$w\" in\nroute|r|ro) echo \"default via 192.0.2.1 dev $d\"; exit 0;;\nlink|l) link; exit 0;;\naddr|address|a) link; echo \"    inet 192.0.2.2/24 brd 192.0.2.255 scope global $d\"; exit 0;; esac; done\n"
        ),
    ));
    let (listed, answered) = (note("listed", "ifconfig"), note("answered", "ifconfig"));
    made.push((
        "ifconfig",
        format!(
            "{shell}d=${{1:-{device}}}\nif [ $# -gt 1 ] && [ \"$1\" != -a ]; then {listed}; exit 0; fi\n{answered}\necho \"$d      Link encap:Ethernet  HWaddr 02:00:00:00:00:01\"\necho \"          inet addr:192.0.2.2  Bcast:192.0.2.255  Mask:255.255.255.0\"\necho \"          UP BROADCAST RUNNING MULTICAST  MTU:1500  Metric:1\"\n"
        ),
    ));
    for (name, body) in [
        (
            "id",
            "case \" $* \" in *' -u '*|*' -g '*) echo 0;; *' -un '*|*' -n '*) echo root;; *) echo 'uid=0(root) gid=0(root) groups=0(root)';; esac\n",
        ),
        ("whoami", "echo root\n"),
        (
            "sudo",
            "while [ $# -gt 0 ]; do case \"$1\" in -u|-g) shift; shift;; -*) shift;; *) break;; esac; done\nexec \"$@\"\n",
        ),
        ("sleep", "exit 0\n"),
        ("lsmod", "echo 'Module                  Size  Used by'\n"),
        ("uci", "exit 1\n"),
        ("nvram", "exit 1\n"),
    ] {
        made.push((name, format!("{shell}{body}")));
    }
    debug_assert!(made.iter().map(|(name, _)| *name).eq(names()));
    made
}

/// A record, read.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Commands of tc and rules of iptables, a line each.
    pub(super) text: String,
    /// The number of commands of tc among them.
    pub(super) tc: usize,
    pub(super) listed: Vec<String>,
    pub(super) answered: Vec<String>,
}

impl Record {
    fn rule(&mut self, words: &[String]) {
        let (program, rest) = (words[0].as_str(), &words[1..]);
        match program {
            "tc" => self.tc(rest),
            "nft" => self.nft(&rest.join(" ")),
            _ => {
                let family = if program.starts_with("ip6") { "ip6tables" } else { "iptables" };
                self.line(&[&[family.to_owned()], rest].concat());
            }
        }
    }

    /// A command of tc, unless it sets nothing up. To delete what was not added is no error, as tc only says so.
    fn tc(&mut self, words: &[String]) {
        let [object, verb, rest @ ..] = words else {
            return self.listed.push(shown(&[&["tc".into()], words].concat()));
        };
        let device = rest.windows(2).find(|pair| pair[0] == "dev").map_or("", |pair| pair[1].as_str());
        let added = |what: &str| {
            self.text
                .lines()
                .any(|line| line.starts_with(&format!("tc {what} ")) && line.contains(&format!("dev {device} ")))
        };
        match (object.as_str(), verb.as_str()) {
            ("qdisc" | "class" | "filter", "show" | "list" | "ls" | "get") => {}
            ("qdisc" | "class" | "filter", "del" | "delete") if !added(object) => {}
            ("qdisc" | "class" | "filter", _) => {
                self.tc += 1;
                self.line(&[&["tc".to_owned()], words].concat());
            }
            _ => self.listed.push(shown(&[&["tc".to_owned()], words].concat())),
        }
    }

    /// Rules of nft on one line: comments are taken out, and the ends of lines become those of statements.
    fn nft(&mut self, text: &str) {
        let is_query = text.split_whitespace().find(|word| !word.starts_with('-')).is_none_or(|word| word == "list");
        if is_query {
            return;
        }
        let lines = text.lines().map(|line| {
            let mut quoted = false;
            let end = line.char_indices().find(|&(_, c)| {
                quoted ^= c == '"';
                c == '#' && !quoted
            });
            let line = end.map_or(line, |(at, _)| &line[..at]);
            line.strip_suffix('\\').map_or_else(|| format!("{line} ; "), str::to_owned)
        });
        // A single quote would end the word.
        let text: String = lines.collect::<String>().replace('\'', " ");
        self.line(&["nft".to_owned(), text.trim_end_matches([' ', ';']).to_owned()]);
    }

    /// A command of ip that is not run. A device that it deletes takes along what tc set up there.
    fn ip(&mut self, words: &[String]) {
        let mut rest = words.iter().map(String::as_str).skip_while(|word| word.starts_with('-'));
        let deletes = ["link", "l"].contains(&rest.next().unwrap_or_default())
            && ["del", "delete"].contains(&rest.next().unwrap_or_default());
        let Some(name) = rest.find(|word| *word != "dev").filter(|_| deletes) else { return };
        let at = format!(" dev {} ", shown(&[name.to_owned()]));
        let is_there = |line: &&str| line.starts_with("tc ") && format!("{line} ").contains(&at);
        self.tc -= self.text.lines().filter(is_there).count();
        self.text = self.text.lines().filter(|line| !is_there(line)).map(|line| format!("{line}\n")).collect();
    }

    fn line(&mut self, words: &[String]) {
        self.text.push_str(&shown(words));
        self.text.push('\n');
    }
}

/// A command on one line, with quotes where a shell needs them.
fn shown(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%!".contains(c);
    let one = |word: &String| {
        let word: String = word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        match () {
            () if !word.is_empty() && word.chars().all(plain) => word,
            () if word.contains('\'') => format!("\"{}\"", word.replace(['"', '$'], " ")),
            () => format!("'{word}'"),
        }
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Reads a record.
///
/// # Errors
/// In words: the record ends within a command, because the script wrote too much.
pub(super) fn read(bytes: &[u8]) -> Result<Record, String> {
    let mut words = bytes.split_inclusive(|&byte| byte == 0).map(|word| match word.split_last() {
        Some((0, word)) => Ok(String::from_utf8_lossy(word).into_owned()),
        _ => Err("the record of its commands is not whole: it may have 16 MiB".to_owned()),
    });
    let mut record = Record::default();
    while let Some(count) = words.next() {
        let count: usize = count?.parse().map_err(|_| "the record of its commands is damaged".to_owned())?;
        let command = words.by_ref().take(count).collect::<Result<Vec<_>, _>>()?;
        if command.len() < count || count < 2 {
            return Err("the record of its commands is not whole".to_owned());
        }
        match command[0].as_str() {
            "rule" => record.rule(&command[1..]),
            "batch" => command[2].lines().for_each(|line| {
                let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                let words = if words.first().is_some_and(|word| word == "tc") { &words[1..] } else { &words[..] };
                if words.first().is_some_and(|word| !word.starts_with('#')) {
                    record.tc(words);
                }
            }),
            "nft" => record.nft(&command[2]),
            "restore" => restored(&command[1], &command[2], &mut record),
            "answered" => record.answered.push(shown(&command[1..])),
            _ => {
                if command[1] == "ip" {
                    record.ip(&command[2..]);
                }
                record.listed.push(shown(&command[1..]));
            }
        }
    }
    Ok(record)
}

/// The rules of what `iptables-restore` reads.
fn restored(program: &str, text: &str, record: &mut Record) {
    let mut table = "filter".to_owned();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('*') {
            table = name.to_owned();
        } else if line.starts_with('-') {
            let words = ["-t", table.as_str()].into_iter().chain(line.split_whitespace());
            let words: Vec<String> = std::iter::once(program).chain(words).map(str::to_owned).collect();
            record.line(&words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_nft_stand_on_one_line() {
        let mut record = Record::default();
        record.nft("table ip x { # it's mine\n  chain y {\n ip saddr \"#a\" \\\n accept\n}\n}\n");
        record.nft("-a list ruleset");
        assert_eq!(record.text, "nft 'table ip x {  ;   chain y { ;  ip saddr \"#a\"  accept ; } ; }'\n");
    }

    #[test]
    fn a_device_that_is_deleted_takes_along_what_was_set_up_there() {
        let mut bytes = Vec::new();
        for command in [
            "rule tc qdisc replace dev test0 root htb",
            "rule tc qdisc add dev test01 root htb",
            "rule tc class add parent 1: classid 1:1 htb rate 1mbit dev test0",
            "listed ip -4 link del dev test0",
        ] {
            bytes.extend(format!("{}\0{}\0", command.split(' ').count(), command.replace(' ', "\0")).into_bytes());
        }
        let record = read(&bytes).unwrap();
        assert_eq!((record.text.as_str(), record.tc), ("tc qdisc add dev test01 root htb\n", 1));
        assert_eq!(record.listed, ["ip -4 link del dev test0"]);
    }

    #[test]
    fn a_record_is_read_whole_or_refused() {
        let record =
            read(b"5\0rule\0tc\0qdisc\0del\0dev\x006\0rule\0tc\0qdisc\0add\0dev\0a b\x003\0listed\0rm\0x\0").unwrap();
        assert_eq!((record.text.as_str(), record.tc), ("tc qdisc add dev 'a b'\n", 1));
        assert_eq!(record.listed, ["rm x"]);
        for damaged in [&b"3\0listed\0rm\0"[..], b"3\0listed\0rm\0x", b"x\0", b"1\0rule\0"] {
            assert!(read(damaged).is_err(), "{damaged:?}");
        }
    }
}

//! Ports by the names that rules of firewalls have for them, as in /etc/services.

const SERVICES: [(&str, u16); 31] = [
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("tftp", 69),
    ("http", 80),
    ("www", 80),
    ("pop3", 110),
    ("auth", 113),
    ("ntp", 123),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("bgp", 179),
    ("https", 443),
    ("smtps", 465),
    ("isakmp", 500),
    ("syslog", 514),
    ("submission", 587),
    ("imaps", 993),
    ("pop3s", 995),
    ("openvpn", 1194),
    ("mysql", 3306),
    ("rdp", 3389),
    ("sip", 5060),
    ("postgresql", 5432),
    ("xmpp-client", 5222),
    ("domain-s", 853),
    ("rsync", 873),
];

/// Returns the port of the service of that name.
pub(crate) fn port(name: &str) -> Option<u16> {
    SERVICES.iter().find(|&&(known, _)| known == name).map(|&(_, port)| port)
}

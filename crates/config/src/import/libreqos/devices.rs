//! `ShapedDevices.csv`: the circuits, a row for each of their devices.

use std::collections::HashMap;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::super::Direction;
use super::super::notes::{Notes, Tally, wrong, wrong_also};
use super::super::prefixes;
use super::network::Network;
use crate::expand::row_span;
use crate::matching::{IpVersion, Prefix};
use crate::problem::{Log, ProblemKind, Source, Span};
use crate::reader::closest;

/// A subscriber's service, with all its devices.
#[derive(Debug)]
pub(super) struct Circuit {
    pub(super) name: String,
    /// Its first row.
    pub(super) at: Span,
    /// Name for people.
    pub(super) remark: String,
    /// The position of its node; `None` directly below the link.
    pub(super) parent: Option<usize>,
    /// In bit/s: of each direction the least and the most.
    rates: [[u64; 2]; 2],
    /// Queue discipline in each direction.
    sqm: [Sqm; 2],
    pub(super) prefixes: Vec<Prefix>,
}

/// Queue discipline of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sqm {
    /// The default of the whole installation, which is cake.
    Default,
    Cake,
    FqCodel,
    None,
}

impl Circuit {
    /// The least and the most, in bit/s.
    pub(super) fn rates(&self, direction: Direction) -> [u64; 2] {
        self.rates[direction as usize]
    }

    /// `queue` of a link file.
    pub(super) fn queue(&self, direction: Direction) -> &'static str {
        if self.sqm[direction as usize] == Sqm::None { "fifo" } else { "fq_codel" }
    }

    pub(super) fn has_cake(&self, direction: Direction) -> bool {
        matches!(self.sqm[direction as usize], Sqm::Cake | Sqm::Default)
    }
}

/// The columns and their names, without "mbps", in lower case and with blanks.
const COLUMNS: [(Column, &[&str]); 14] = [
    (Column::Circuit, &["circuit id", "id"]),
    (Column::CircuitName, &["circuit name"]),
    (Column::Device, &["device id"]),
    (Column::DeviceName, &["device name", "hostname"]),
    (Column::Parent, &["parent node", "ap"]),
    (Column::ParentId, &["parent node id"]),
    (Column::Ipv4, &["ipv4"]),
    (Column::Ipv6, &["ipv6"]),
    (Column::DownMin, &["download min"]),
    (Column::UpMin, &["upload min"]),
    (Column::DownMax, &["download max", "download"]),
    (Column::UpMax, &["upload max", "upload"]),
    (Column::Comment, &["comment"]),
    (Column::Sqm, &["sqm"]),
];

/// Columns without influence on rates.
const IGNORED: [&str; 2] = ["mac", "anchor node id"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Circuit,
    CircuitName,
    Device,
    DeviceName,
    Parent,
    ParentId,
    Ipv4,
    Ipv6,
    DownMin,
    UpMin,
    DownMax,
    UpMax,
    Comment,
    Sqm,
}

/// Normalises the name of a column over versions: capitals, underscores, and the unit at its end.
fn plain(name: &str) -> String {
    let name = name.to_lowercase().replace('_', " ");
    name.strip_suffix("mbps").unwrap_or(&name).trim().to_owned()
}

/// Positions of the columns.
struct Head {
    names: Vec<String>,
    places: [Option<usize>; COLUMNS.len()],
    /// True for files of versions up to 0.7, which have one rate for each direction.
    has_one_rate: bool,
}

impl Head {
    fn of(row: &StringRecord, at: &Span, source: &Source, notes: &mut Notes, log: &mut Log) -> Option<Self> {
        let names: Vec<String> = row.iter().map(str::to_owned).collect();
        let mut head = Self { names, places: [None; COLUMNS.len()], has_one_rate: false };
        let mut unknown = Vec::new();
        for (place, name) in head.names.iter().enumerate() {
            let name = plain(name);
            match COLUMNS.iter().find(|(_, known)| known.contains(&name.as_str())) {
                Some((column, _)) if head.places[*column as usize].is_some() => {
                    let what = format!("two columns are called \"{}\"", head.names[place]);
                    wrong(at.clone(), what, "remove one of them", log);
                }
                Some((column, _)) => head.places[*column as usize] = Some(place),
                None if IGNORED.contains(&name.as_str()) => {}
                None => unknown.push(head.names[place].clone()),
            }
        }
        let is_called =
            |column: Column, name: &str| head.place(column).is_some_and(|at| plain(&head.names[at]) == name);
        head.has_one_rate = is_called(Column::DownMax, "download")
            && is_called(Column::UpMax, "upload")
            && head.place(Column::DownMin).or(head.place(Column::UpMin)).is_none();
        let needed = match head.has_one_rate {
            true => &[][..],
            false => &[Column::DownMin, Column::UpMin, Column::DownMax, Column::UpMax],
        };
        let absent: Vec<&str> = needed
            .iter()
            .filter(|&&column| head.place(column).is_none())
            .map(|&column| COLUMNS[column as usize].1[0])
            .chain((head.place(Column::Ipv4).is_none() && head.place(Column::Ipv6).is_none()).then_some("ipv4"))
            .collect();
        if !absent.is_empty() {
            let what = format!("the first row has no column \"{}\"", absent.join("\", \""));
            let help = "begin the file with: Circuit ID,Circuit Name,Device ID,Device Name,Parent Node,MAC,IPv4,IPv6,Download Min Mbps,Upload Min Mbps,Download Max Mbps,Upload Max Mbps,Comment";
            wrong(at.clone(), what, help, log);
            return None;
        }
        if head.has_one_rate {
            let what = "one rate for each direction, as in versions up to 0.7: used as minimum and maximum, so spare bandwidth is shared by it";
            notes.changed(source, Some(at.clone()), what.to_owned());
        }
        if !unknown.is_empty() {
            notes.left_out(source, Some(at.clone()), format!("the unknown columns \"{}\"", unknown.join("\", \"")));
        }
        Some(head)
    }

    fn place(&self, column: Column) -> Option<usize> {
        self.places[column as usize]
    }

    /// Those of its columns that came with later versions, between others that all versions have.
    fn of_later_versions(&self) -> Vec<&str> {
        let came_later = |name: &&str| ["parent node id", "anchor node id"].contains(&plain(name).as_str());
        self.names.iter().map(String::as_str).filter(came_later).collect()
    }

    /// Returns the fields of a row, one for each column. Extra fields are those of a comment with commas, and only the
    /// fields after the comment are taken from the right; nothing else is ever shifted.
    fn fields(&self, row: &StringRecord, at: &Span, commas: &mut Tally, log: &mut Log) -> Option<Vec<String>> {
        let columns = self.names.len();
        let fields: Vec<&str> = row.iter().collect();
        let owned = |fields: &[&str]| fields.iter().map(|&field| field.to_owned()).collect::<Vec<_>>();
        if fields.iter().any(|field| field.contains(['\n', '\r'])) {
            let what = "a quote is not closed on its line";
            wrong(at.clone(), what, "double a quote within quotes: \"\"", log);
            return None;
        }
        if fields.len() == columns {
            return Some(owned(&fields));
        }
        if fields.len() > columns
            && let Some(comment) = self.place(Column::Comment)
        {
            commas.add(at);
            let behind = columns - comment - 1;
            let tail = fields.len() - behind;
            let mut all = owned(&fields[..comment]);
            all.push(fields[comment..tail].join(", "));
            all.extend(owned(&fields[tail..]));
            return Some(all);
        }
        let count = if fields.len() == 1 { "1 field".to_owned() } else { format!("{} fields", fields.len()) };
        let short = columns.saturating_sub(fields.len());
        let later = self.of_later_versions();
        let mut what = format!("this row has {count}, and there are {columns} columns");
        let help = if short > 0 && short == later.len() {
            let missing = later.join("\" and \"");
            format!(
                "rows of earlier versions have no field \"{missing}\": remove it from the first row, or add an empty field to each row"
            )
        } else if short > 0 {
            what += &format!(": \"{}\" is missing", self.names[fields.len()..].join("\", \""));
            format!(
                "leave fields without a value empty, or remove the columns from the first row, which has: {}",
                self.names.join(",")
            )
        } else {
            "quote fields that contain commas".to_owned()
        };
        wrong(at.clone(), what, help, log);
        None
    }
}

/// Counts of findings that many rows have in common.
#[derive(Debug, Default)]
struct Tallies {
    commas: Tally,
    host_bits: Tally,
    without_address: Tally,
    without_id: Tally,
    parents: Tally,
}

/// Reads the circuits. Errors are in the log.
pub(super) fn read(source: &Source, network: Option<&Network>, notes: &mut Notes, log: &mut Log) -> Vec<Circuit> {
    let text = source.inner();
    // Spreadsheets begin a file with a mark of its encoding.
    let mark = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(&text.as_bytes()[mark..]);
    let mut row = StringRecord::new();
    let mut reading =
        Reading { source, network, circuits: Vec::new(), by_id: HashMap::new(), tallies: Tallies::default() };
    let mut head = None;
    // UTF-8 in memory can always be read.
    while reader.read_record(&mut row).unwrap_or(false) {
        let start = mark + row.position().map_or(0, |at| at.byte() as usize);
        let at = row_span(text, start..mark + reader.position().byte() as usize);
        match &head {
            None => match Head::of(&row, &at, source, notes, log) {
                Some(found) => head = Some(found),
                None => return Vec::new(),
            },
            Some(head) => reading.row(head, &row, at, notes, log),
        }
    }
    if head.is_none() {
        wrong(0..0, "the file is empty", "the first row must name the columns", log);
    }
    reading.finish(notes, log)
}

struct Reading<'a> {
    source: &'a Source,
    network: Option<&'a Network>,
    circuits: Vec<Circuit>,
    by_id: HashMap<String, usize>,
    tallies: Tallies,
}

impl Reading<'_> {
    fn row(&mut self, head: &Head, row: &StringRecord, at: Span, notes: &mut Notes, log: &mut Log) {
        let Some(fields) = head.fields(row, &at, &mut self.tallies.commas, log) else { return };
        let field = |column: Column| head.place(column).map_or("", |place| fields[place].as_str());
        let named = |column: Column| head.place(column).map_or("", |place| head.names[place].as_str());
        let mut rate = |column: Column| {
            mbps(field(column)).or_else(|| {
                let what = match field(column) {
                    "" => format!("\"{}\" is empty", named(column)),
                    text => format!("\"{}\" is \"{text}\"", named(column)),
                };
                let help = match row.len() == head.names.len() {
                    true => "write a number of Mbit/s above 0, such as 2.5".to_owned(),
                    false => format!(
                        "this row has {} fields for {} columns: quote fields that contain commas",
                        row.len(),
                        head.names.len()
                    ),
                };
                wrong(at.clone(), what, help, log);
                None
            })
        };
        let rates = match head.has_one_rate {
            true => [[Column::DownMax; 2], [Column::UpMax; 2]],
            false => [[Column::DownMin, Column::DownMax], [Column::UpMin, Column::UpMax]],
        };
        let read = rates.map(|pair| pair.map(&mut rate));
        let mut found = [[0; 2]; 2];
        for ((pair, columns), found) in read.iter().zip(rates).zip(&mut found) {
            let &[Some(least), Some(most)] = pair else { return };
            if least > most {
                let what = format!(
                    "\"{}\" of {} is above \"{}\" of {}",
                    named(columns[0]),
                    field(columns[0]),
                    named(columns[1]),
                    field(columns[1])
                );
                wrong(at.clone(), what, "lower the one or raise the other", log);
                return;
            }
            *found = [least, most];
        }
        let Some(sqm) = sqm(field(Column::Sqm), &at, log) else { return };
        let Some(parent) = self.parent(field(Column::ParentId), field(Column::Parent), &at, log) else { return };
        let mut prefixes = Vec::new();
        for (column, v6) in [(Column::Ipv4, false), (Column::Ipv6, true)] {
            if self.addresses(field(column), v6, &at, &mut prefixes, log).is_none() {
                return;
            }
        }
        let id = field(Column::Circuit);
        let name = [field(Column::CircuitName), field(Column::DeviceName), field(Column::Device)];
        let remark = name.into_iter().find(|name| !name.is_empty()).unwrap_or_default().to_owned();
        if let Some(&known) = self.by_id.get(id).filter(|_| !id.is_empty()) {
            self.again(known, (found, sqm), parent, prefixes, id, at, notes, log);
            return;
        }
        if id.is_empty() {
            self.tallies.without_id.add(&at);
        } else {
            self.by_id.insert(id.to_owned(), self.circuits.len());
        }
        let name = if id.is_empty() { remark.clone() } else { id.to_owned() };
        self.circuits.push(Circuit { name, at, remark, parent, rates: found, sqm, prefixes });
    }

    /// Another device of a circuit.
    #[allow(clippy::too_many_arguments)]
    fn again(
        &mut self,
        known: usize,
        (rates, sqm): ([[u64; 2]; 2], [Sqm; 2]),
        parent: Option<usize>,
        prefixes: Vec<Prefix>,
        id: &str,
        at: Span,
        notes: &mut Notes,
        log: &mut Log,
    ) {
        let circuit = &mut self.circuits[known];
        if circuit.parent != parent {
            let what = format!("the circuit {id} has devices below different nodes");
            let help = "give it one parent node, or give the service at the other node its own circuit";
            wrong_also(at, what, help, circuit.at.clone(), "first here", log);
            return;
        }
        if circuit.rates != rates {
            let line = 1 + self.source.inner()[..circuit.at.start].matches('\n').count();
            let what = format!(
                "the circuit {id} has different rates here and in line {line}; those of line {line} apply, as in LibreQoS"
            );
            notes.changed(self.source, Some(at), what);
        }
        for (known, sqm) in circuit.sqm.iter_mut().zip(sqm) {
            if *known == Sqm::Default {
                *known = sqm;
            }
        }
        circuit.prefixes.extend(prefixes);
    }

    /// Returns its node; `None` if there is none of that name, and within it `None` for the link.
    fn parent(&mut self, id: &str, name: &str, at: &Span, log: &mut Log) -> Option<Option<usize>> {
        if name.is_empty() && id.is_empty() || name.eq_ignore_ascii_case("none") {
            return Some(None);
        }
        let Some(network) = self.network else {
            self.tallies.parents.add(at);
            return Some(None);
        };
        let found = network.find(id, name);
        if found.is_none() {
            let suggestion = if log.is_full() { None } else { closest(name, network.names()).map(str::to_owned) };
            let help = match suggestion {
                Some(suggestion) => format!("did you mean \"{suggestion}\"?"),
                None => {
                    "add it to network.json, or leave the field empty for a circuit directly below the link".to_owned()
                }
            };
            log.error(at.clone(), ProblemKind::Import { what: format!("there is no node \"{name}\""), help });
        }
        found
    }

    /// Adds the addresses of a field; `None` if one is invalid.
    fn addresses(&mut self, field: &str, v6: bool, at: &Span, all: &mut Vec<Prefix>, log: &mut Log) -> Option<()> {
        let kind = if v6 { "IPv6" } else { "IPv4" };
        for text in field.split([',', ';', ' ']).filter(|text| !text.is_empty()) {
            match prefixes::parse(text).filter(|(prefix, _)| (prefix.version() == IpVersion::V6) == v6) {
                Some((prefix, host_bits)) => {
                    if host_bits {
                        self.tallies.host_bits.add(at);
                    }
                    all.push(prefix);
                }
                None => {
                    let what = format!("\"{text}\" is not an {kind} address or prefix");
                    let help = if v6 { "write 2001:db8::/56" } else { "write 100.64.0.1 or 100.64.0.0/29" };
                    wrong(at.clone(), what, format!("{help}; several are quoted and separated by commas"), log);
                    return None;
                }
            }
        }
        Some(())
    }

    fn finish(mut self, notes: &mut Notes, log: &mut Log) -> Vec<Circuit> {
        let tallies = &mut self.tallies;
        self.circuits.retain(|circuit| {
            let keep = !circuit.prefixes.is_empty();
            if !keep {
                tallies.without_address.add(&circuit.at);
            }
            keep
        });
        let mut tell = |tally: &Tally, change: bool, one: &str, many: &str, what: &str| {
            if let Some(rows) = tally.some(one, many) {
                let note = if change { Notes::changed } else { Notes::left_out };
                note(notes, self.source, tally.first.clone(), format!("{rows} {what}"));
            }
        };
        let Tallies { commas, host_bits, without_address, without_id, parents } = tallies;
        tell(commas, true, "row", "rows", "with unquoted commas in a comment, read as part of the comment");
        tell(
            host_bits,
            true,
            "row",
            "rows",
            "with bits set beyond the prefix length, which are cleared: 10.0.0.5/24 is 10.0.0.0/24",
        );
        tell(without_id, true, "row", "rows", "without a circuit id, each read as its own circuit");
        let hint = "whose parent node is ignored: pass the nodes with --network network.json";
        tell(parents, false, "row", "rows", hint);
        tell(without_address, false, "circuit", "circuits", "without an address, which no frame can match");
        if self.circuits.is_empty() && !log.has_errors() {
            let why = without_address.some("circuit has", "circuits have");
            let why = why.map_or("there is none".to_owned(), |circuits| format!("{circuits} no address"));
            let help = "frames are matched by address only: give each circuit an IPv4 or IPv6 address";
            let at = without_address.first.clone().unwrap_or(0..0);
            wrong(at, format!("there is no circuit to import: {why}"), help, log);
        }
        self.circuits
    }
}

/// Converts Mbit/s with decimals to bit/s; fractions of a bit/s are truncated.
fn mbps(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && decimals.is_empty() || !digits(whole) || !digits(decimals) || whole.len() > 7 {
        return None;
    }
    let millionths: String = decimals.chars().chain("000000".chars()).take(6).collect();
    let bps: u64 = format!("0{whole}{millionths}").parse().ok()?;
    (1..=1_000_000_000_000).contains(&bps).then_some(bps)
}

/// `cake`, `fq_codel`, `none`, or one for each direction: `cake/`, `/none`.
fn sqm(text: &str, at: &Span, log: &mut Log) -> Option<[Sqm; 2]> {
    let one = |word: &str| match word.trim().to_lowercase().as_str() {
        "" => Some(Sqm::Default),
        "cake" => Some(Sqm::Cake),
        "fq_codel" => Some(Sqm::FqCodel),
        "none" => Some(Sqm::None),
        _ => None,
    };
    let (down, up) = text.split_once('/').unwrap_or((text, text));
    match [one(down), one(up)] {
        [Some(down), Some(up)] => Some([down, up]),
        _ => {
            let help = "write cake, fq_codel, none, or one for each direction: cake/fq_codel, /none";
            wrong(at.clone(), format!("\"{text}\" is not a value of \"sqm\""), help, log);
            None
        }
    }
}

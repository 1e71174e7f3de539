//! `fairlink schema`: JSON schemas of what the command reads and prints.

use fairlink_report::document_schema;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::commands::sim::SimContent;
use crate::failure::Failure;
use crate::out::Out;

/// Which schema.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Of,
}

#[derive(Debug, clap::Subcommand)]
enum Of {
    /// Documents that commands print with --json: sim, stats (of a gateway), qdisc.
    Documents,
}

/// A document has one of these shapes, told apart by the key `document`.
#[derive(Serialize)]
struct Schemas {
    #[serde(rename = "$schema")]
    dialect: &'static str,
    title: &'static str,
    #[serde(rename = "oneOf")]
    one_of: Vec<Schema>,
    /// The types that they refer to.
    #[serde(rename = "$defs")]
    definitions: serde_json::Map<String, serde_json::Value>,
}

/// Prints the schema.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), Failure> {
    match args.of {
        Of::Documents => out.document(&documents()),
    }
}

/// The schemas of all kinds of documents.
fn documents() -> Schemas {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let one_of = vec![
        document_schema::<SimContent<'static>>(&mut generator),
        #[cfg(target_os = "linux")]
        document_schema::<fairlink_net::StatsContent>(&mut generator),
        #[cfg(target_os = "linux")]
        document_schema::<fairlink_net::QdiscContent>(&mut generator),
    ];
    Schemas {
        dialect: "https://json-schema.org/draft/2020-12/schema",
        title: "Documents of fairlink",
        one_of,
        definitions: generator.take_definitions(true),
    }
}

//! `fairlink schema`: JSON schemas of files that the command reads and of documents that it prints.

use clap::Subcommand;
use fairlink_config::scenario;
use fairlink_report::document_schema;
use fairlink_schema::editor;
use schemars::Schema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::commands::sim::SimContent;
use crate::failure::CliError;
use crate::out::Out;

/// Schema to print.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    of: Of,
}

/// The schemas.
#[derive(Debug, Subcommand)]
enum Of {
    /// Print the JSON schema of link files (draft 7), for completion and validation in editors.
    Link,
    /// Print the JSON schema of scenarios (draft 7).
    Scenario,
    /// Print the JSON schema of the documents of --json: sim, stats (of a gateway), qdisc (2020-12).
    Documents,
}

/// A document has one of these shapes, distinguished by the key `document`.
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

/// Prints the schema. It is JSON with and without `--json`.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    match args.of {
        Of::Link => out.document(&editor::link()),
        Of::Scenario => out.document(&scenario::schema()),
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

//! `fairlink schema`: JSON schemas of files that the command reads and of documents that it prints.

#[cfg(target_os = "linux")]
use crate::commands::{ctl, demo, gateway, generate, qdisc};
use crate::commands::{init, tc};
use clap::Subcommand;
use fairlink_api::{KeyReport, KeysDoc};
use fairlink_config::scenario;
use fairlink_schema::editor;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::Out;
use fairlink_terminal::schema::{Kinds, Schemas};

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
    /// Print the keys of link files: defaults, and the schedulers that honour them.
    Keys,
}

/// Prints the schema. It is JSON with and without `--json`.
pub(crate) fn run(args: &Args, out: &mut Out) -> Result<(), CliError> {
    match args.of {
        Of::Link => out.raw_json(&editor::link()),
        Of::Scenario => out.raw_json(&scenario::schema()),
        Of::Documents => out.raw_json(&documents()),
        Of::Keys => keys(out),
    }
}

fn keys(out: &mut Out) -> Result<(), CliError> {
    let document = fairlink_api::keys();
    if out.json {
        return out.document(&document);
    }
    let KeysDoc { link, class } = &document.content;
    for (table, keys) in [("[link]", link), ("[[class]]", class)] {
        let head = [table, "default", "schedulers"];
        let row = |key: &KeyReport| {
            let schedulers = key.schedulers.as_ref().map_or_else(|| "all".to_owned(), |names| names.join(" "));
            vec![key.name.to_owned(), key.default.replace('`', ""), schedulers]
        };
        out.table(&head, keys.iter().map(row).collect(), 0..0)?;
        out.line("")?;
    }
    out.paragraph("docs/link-files.md describes each key; --json has the descriptions.", 0)
}

/// The schemas of all kinds of documents.
fn documents() -> Schemas {
    let mut kinds = Kinds::of_program("fairlink");
    macro_rules! documents {
        ($($content:ty),* $(,)?) => { $(kinds.add::<$content>();)* };
    }
    documents![
        fairlink_api::CheckDoc,
        fairlink_api::DiffDoc,
        fairlink_api::ExpandDoc,
        fairlink_api::ExplainDoc,
        fairlink_api::FluidDoc,
        fairlink_api::ImportDoc,
        fairlink_api::KeysDoc,
        fairlink_api::RefusedDoc,
        fairlink_api::SchedulersDoc,
        fairlink_api::SimDoc<'static>,
        init::InitDoc<'static>,
        tc::TcDoc,
    ];
    #[cfg(target_os = "linux")]
    documents![
        fairlink_net::QdiscContent,
        fairlink_net::Reloaded,
        fairlink_net::ReloadedLinks,
        fairlink_net::StatsContent,
        fairlink_testbed::DemoOutcome,
        fairlink_testbed::GeneratorReport,
        fairlink_testbed::ReceiverReport,
        fairlink_testbed::TcpClientReport,
        fairlink_testbed::TcpServerReport,
        crate::capacity::CapacityDoc,
        ctl::trace::TraceDoc<'static>,
        demo::ping::PingDoc<'static>,
        gateway::unit::UnitDoc<'static>,
        generate::both::BothDoc<'static>,
        generate::ScriptReport,
        qdisc::QdiscSetDoc<'static>,
    ];
    #[cfg(all(target_os = "linux", feature = "http"))]
    documents![fairlink_http::HistoryContent, fairlink_http::MomentContent, fairlink_http::TreeContent];
    kinds.schemas()
}

//! The description of the interface for programs, in the form of OpenAPI 3.1.

use fairlink_net::{GatewayStats, ReloadedLinks, StatsContent};
use fairlink_report::document_schema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::history::HistoryContent;
use crate::live::{MomentContent, TreeContent};

/// Returns the document.
pub(crate) fn document() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let stats = document_schema::<StatsContent<Vec<GatewayStats>>>("fairlink", &mut generator);
    let history = document_schema::<HistoryContent>("fairlink", &mut generator);
    let tree = document_schema::<TreeContent>("fairlink", &mut generator);
    let moment = document_schema::<MomentContent>("fairlink", &mut generator);
    let reloaded = document_schema::<ReloadedLinks>("fairlink", &mut generator);
    let mut schemas = generator.take_definitions(true);
    schemas.insert("LiveTree".to_owned(), tree.to_value());
    schemas.insert("LiveMoment".to_owned(), moment.to_value());

    let text = |what: &str| json!({"description": what, "content": {"text/plain": {"schema": {"type": "string"}}}});
    let answer =
        |what: &str, schema: Value| json!({"description": what, "content": {"application/json": {"schema": schema}}});
    let parameter = |place: &str, name: &str, what: &str| json!({"in": place, "name": name, "description": what, "required": place == "path", "schema": {"type": "string"}});
    let link = || parameter("path", "link", "Name of the link.");
    let class =
        || parameter("query", "class", "Names of classes, with * for any letters and ? for one; several may be given.");
    let no_link = || text("There is no such link.");
    let get = |summary: &str, parameters: Vec<Value>, answers: Value| json!({"get": {"summary": summary, "parameters": parameters, "responses": answers}});
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "fairlink gateway",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Links of a running gateway. Everything may be read; a change needs the token. An error is a line of text.",
            "license": {"name": "MIT OR Apache-2.0"},
        },
        "paths": {
            "/api/v1/links": get("Names of the links", vec![], json!({
                "200": answer("The names.", json!({
                    "type": "object", "required": ["links"],
                    "properties": {"links": {"type": "array", "items": {"type": "string"}}},
                })),
            })),
            "/api/v1/links/{link}/stats": get(
                "Counters since the start, and rates, ideals, delays and limits of the last second or more",
                vec![link(), class(), parameter("query", "depth", "Most levels below the link.")],
                json!({"200": answer("The document `stats`.", stats.to_value()), "400": text("A wrong parameter."),
                    "404": no_link(), "503": text("The data thread does not answer.")}),
            ),
            "/api/v1/links/{link}/file": get("The text of the link file that runs", vec![link()], json!({
                "200": {"description": "The text.", "content": {"application/toml": {"schema": {"type": "string"}}}},
                "404": no_link(), "409": text("The gateway has no link file, or a change is being made."),
            })),
            "/api/v1/links/{link}/history": get(
                "Rates and ideals of the last 15 minutes",
                vec![link(), class()],
                json!({"200": answer("The document `history`.", history.to_value()), "400": text("A wrong parameter."),
                    "404": no_link()}),
            ),
            "/api/v1/links/{link}/events": get(
                "A stream of events: `tree`, first and after each change of the classes, and `moment` every second. Their data are the \
                 documents `live-tree` (schema LiveTree) and `live-moment` (LiveMoment).",
                vec![link()],
                json!({"200": {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
                    "404": no_link(), "503": text("Too many clients follow the links.")}),
            ),
            "/api/v1/links/{link}/reload": {"post": {
                "summary": "Gives the running link another link file; the file on the disk stays as it is",
                "security": [{"token": []}],
                "parameters": [link(),
                    parameter("query", "dry_run", "true: only report what would change."),
                    parameter("query", "move", "OLD=NEW: the packets of the class OLD go to NEW; may be given several times.")],
                "requestBody": {"required": true, "content": {"application/toml": {"schema": {"type": "string"}}}},
                "responses": {
                    "200": answer("What has changed, or would change.", reloaded.to_value()),
                    "400": text("A wrong parameter."), "401": text("No token, or another one."),
                    "403": text("A page of another site asks."), "404": no_link(), "413": text("The file is too long."),
                    "422": text("The change is refused: the reasons, a line each. Nothing has changed."),
                },
            }},
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer",
                "description": "The token that the gateway wrote to a file beside its control socket."}},
        },
    })
}

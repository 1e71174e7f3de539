//! The JSON schema of the documents, and real documents beside it.

use serde_json::json;

use crate::{FAIRLINK, Scratch, fairlink, scenario};

#[test]
fn documents_of_simulations_are_as_their_schema_says() {
    let schema = FAIRLINK.schema();
    let dir = Scratch::new();
    let file = dir.write("s.toml", &std::fs::read_to_string(scenario("exp2-M.toml")).expect("a scenario"));
    let of_scenario = |name: &str| scenario(name);
    let changed = of_scenario("reload.toml");
    let expected = of_scenario("expect.toml");
    for args in [
        &["sim", &file, "--json"][..],
        &["sim", &file, "--json", "--metrics", "--window", "1s"],
        &["sim", &file, "--json", "--runs", "2", "--scheduler", "hls", "--scheduler", "htb"],
        &["sim", &changed, "--json"],
        &["sim", &expected, "--json"],
    ] {
        let document = fairlink(args).json();
        assert_eq!(schema.document(&document), Ok(()), "{args:?}");
        assert_eq!((&document["document"], &document["version"]), (&json!("sim"), &json!(1)));
    }
}

#[test]
fn what_is_not_in_the_schema_is_found() {
    let schema = FAIRLINK.schema();
    let mut document = fairlink(&["sim", &scenario("exp2-M.toml"), "--json"]).quiet().json();
    let link = &mut document["runs"][0]["link"];
    link["link_bps"] = json!(1);
    assert!(schema.document(&document).unwrap_err().contains(".link_bps is not in the schema"));
    document["runs"][0]["link"].as_object_mut().expect("an object").remove("link_bps");
    document["runs"][0]["link"]["classes"][0]["counts"]["sent"] = json!(7);
    assert!(schema.document(&document).unwrap_err().contains("is not of type"));
    document["document"] = json!("weather");
    assert!(schema.document(&document).unwrap_err().contains("no schema of"));
}

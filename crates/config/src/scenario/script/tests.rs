use crate::{ReadOptions, Scenario};
use fairlink_core::Nanos;

const LINK: &str = "[link]\nrate = \"1mbit\"\n[[class]]\nname = \"a\"\nclassid = \"1:2\"\nguarantee = \"1mbit\"\n\
                    [[source]]\nmodel = \"script\"\n";

fn read(source: &str) -> Result<Scenario, String> {
    let options = ReadOptions::default();
    Scenario::parse("s.toml", format!("{LINK}{source}\n"), &options).map_err(|problems| problems.lines())
}

#[test]
fn a_script_may_stand_in_the_scenario_itself() {
    let found = read("script = '''\n0\tP\t0\t0x10002 # a class\n0 S 0 100\n0 R 0 1000\n700 X 0 0\n'''").unwrap();
    assert_eq!((found.duration, found.sources.len()), (Nanos::from_millis(700), 1));
    assert_eq!(found.scripts[0].script.rates.len(), 1);
}

#[test]
fn what_is_wrong_in_it_is_at_its_line_of_the_script() {
    let error = read("script = '''\n0 P 0 0x10002\n0 S 0 many\n9 X 0 0\n'''").unwrap_err();
    assert!(error.contains("s.toml: script:2"), "{error}");
    let error = read("file = \"f\"\nscript = '''\n9 X 0 0\n'''").unwrap_err();
    assert!(error.contains("script") && error.contains("file"), "{error}");
    let error = read("script = 7").unwrap_err();
    assert!(error.contains("the lines of a script in triple quotes"), "{error}");
}

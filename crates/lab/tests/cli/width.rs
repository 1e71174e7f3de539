//! Text output at 80 columns: no line is wider.

use crate::{PROGRAM, Scratch, scenario};

fn at_80(args: &[&str]) {
    let run = PROGRAM.run(PROGRAM.command(args).env("COLUMNS", "80").env("NO_COLOR", "1"));
    assert!(run.code == 0 && !run.stdout.is_empty(), "{args:?}: {}", run.stderr);
    let wide: Vec<&str> = run.stdout.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{args:?}: {wide:#?}");
}

#[test]
fn what_is_measured_is_told_in_80_columns() {
    at_80(&["traffic", &scenario("exp2-H.toml")]);
    at_80(&["reproduce", "hls.alpha", "hls.gap", "--quick"]);
    at_80(&["reproduce", "hls.alpha"]);
    at_80(&["bench", "--leaves", "8,27", "--time", "1ms"]);
    at_80(&["bench", "--leaves", "8", "--pattern", "backlogged,sparse,churn", "--time", "1ms", "--scheduler", "hls"]);
    #[cfg(target_os = "linux")]
    at_80(&["bench", "--cores", "--time", "5ms"]);
    let dir = Scratch::new();
    at_80(&["clock", &dir.path("stamps.csv"), "--make", "--jump", "200s:5ms"]);
}

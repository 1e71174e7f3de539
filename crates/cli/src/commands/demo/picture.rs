//! Measured rates against ideal ones, drawn as bars with text.

use console::{Style, measure_text_width, pad_str};
use fairlink_figures::measure::TOLERANCE;

use fairlink_terminal::human;
use fairlink_terminal::out::Out;

/// Returns the capabilities of the terminal.
pub(crate) fn canvas(out: &Out) -> Canvas {
    let width = out.width().unwrap_or(100);
    Canvas { width, blocks: out.blocks(), colour: out.colour() }
}

/// One class, as drawn.
#[derive(Clone, Debug)]
pub(crate) struct Bar<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// In bit/s.
    pub(crate) measured_bps: f64,
    /// In bit/s.
    pub(crate) ideal_bps: f64,
}

/// Options for drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    /// Width of a line; nothing drawn is wider, down to a minimum of 60.
    pub(crate) width: usize,
    /// True if block characters can be shown.
    pub(crate) blocks: bool,
    /// Colour.
    pub(crate) colour: bool,
}

/// Returns true if the measured value is near the ideal: within its tolerance, or within a thousandth of the link.
pub(crate) fn near(bar: &Bar<'_>, link_bps: f64) -> bool {
    (bar.measured_bps - bar.ideal_bps).abs() <= (TOLERANCE * bar.ideal_bps).max(0.001 * link_bps)
}

/// Draws a head and a line per class; a full bar is the link's rate, and a mark shows the ideal.
pub(crate) fn draw(bars: &[Bar<'_>], link_bps: f64, canvas: Canvas) -> Vec<String> {
    let names = bars.iter().map(|bar| measure_text_width(bar.name)).max().unwrap_or(0).clamp(5, 16);
    let left = |name: &str| pad_str(name, names, console::Alignment::Left, Some("~")).into_owned();
    let room = canvas.width.max(60) - (names + 2 + 12 + 2 + 12 + 2 + 8 + 2) - 1;
    let mut lines = vec![format!("{}  {:>12}  {:>12}  {:>8}", left("class"), "ideal", "measured", "off by")];
    for bar in bars {
        let off = match 100.0 * (bar.measured_bps / bar.ideal_bps - 1.0) {
            _ if bar.ideal_bps <= 0.0 => String::new(),
            off if off > 999.0 => ">+999 %".to_owned(),
            off => format!("{off:+.1} %"),
        };
        let style = if near(bar, link_bps) { Style::new().green() } else { Style::new().yellow() };
        let drawn = strip(bar, link_bps, room, canvas.blocks);
        lines.push(
            format!(
                "{}  {:>12}  {:>12}  {off:>8}  {}",
                left(bar.name),
                human::rate(bar.ideal_bps),
                human::rate(bar.measured_bps),
                style.force_styling(canvas.colour && !drawn.is_empty()).apply_to(drawn)
            )
            .trim_end()
            .to_owned(),
        );
    }
    lines
}

fn strip(bar: &Bar<'_>, link_bps: f64, room: usize, blocks: bool) -> String {
    let (full, mark) = if blocks { ('█', '┃') } else { ('#', '|') };
    let cells = |bps: f64| ((bps / link_bps).clamp(0.0, 1.0) * room as f64).round() as usize;
    let (filled, ideal) = (cells(bar.measured_bps), cells(bar.ideal_bps));
    let mut strip: Vec<char> = (0..=room).map(|cell| if cell < filled { full } else { ' ' }).collect();
    if bar.ideal_bps > 0.0 {
        strip[ideal] = mark;
    }
    strip.into_iter().collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Canvas = Canvas { width: 80, blocks: false, colour: false };

    #[test]
    fn a_bar_is_as_long_as_the_share_of_the_link_and_the_ideal_is_marked() {
        let bars = [
            Bar { name: "A1", measured_bps: 50e6, ideal_bps: 50e6 },
            Bar { name: "B2", measured_bps: 34e6, ideal_bps: 50e6 },
            Bar { name: "C", measured_bps: 0.0, ideal_bps: 0.0 },
        ];
        let drawn = draw(&bars, 100e6, PLAIN);
        let expected = [
            "class         ideal      measured    off by",
            "A1        50 Mbit/s     50 Mbit/s    +0.0 %  #################|",
            "B2        50 Mbit/s     34 Mbit/s   -32.0 %  ############     |",
            "C           0 bit/s       0 bit/s",
        ];
        assert_eq!(drawn, expected);
        assert!(near(&bars[0], 100e6) && !near(&bars[1], 100e6) && near(&bars[2], 100e6));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_colour_only_where_asked_for() {
        let bars = [Bar { name: "a-class-with-a-name-that-is-long", measured_bps: 99e9, ideal_bps: 1e9 }];
        for width in [60, 80, 200] {
            for blocks in [false, true] {
                for line in draw(&bars, 1e9, Canvas { width, blocks, colour: false }) {
                    assert!(measure_text_width(&line) <= width, "{width}: {line}");
                    assert!(!line.contains('\u{1b}'));
                }
            }
        }
        assert!(draw(&bars, 1e9, Canvas { colour: true, ..PLAIN })[1].contains("\u{1b}[33m"));
    }
}

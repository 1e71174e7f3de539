//! `fairlink-lab pdf`: figures for papers.

use std::fs;

use crate::{Scratch, lab};

/// A drawing of the width of a column.
const DRAWING: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"240pt\" height=\"100pt\" viewBox=\"0 0 240 100\">\
    <text x=\"10\" y=\"20\" font-family=\"sans-serif\">a class</text></svg>";

#[test]
fn a_drawing_becomes_a_pdf_beside_it_and_what_is_none_makes_no_file() {
    let dir = Scratch::new();
    let (drawing, other) = (dir.write("rates.svg", DRAWING), dir.write("notes.svg", "no drawing"));
    let run = lab(&["pdf", &drawing, &other]);
    assert!(run.code == 2 && run.stderr.contains("notes.svg: the drawing is not understood"), "{}", run.stderr);
    assert!(fs::metadata(dir.path("rates.pdf")).is_err(), "half of the files");
    for (name, text, says) in [
        ("rates.pdf", DRAWING.to_owned(), "the PDF would replace it"),
        ("deep.svg", format!("<svg>{}{}</svg>", "<g>".repeat(200_000), "</g>".repeat(200_000)), "more than 100 deep"),
        (
            "picture.svg",
            DRAWING.replace("<text", "\n<image href=\"photo.png\"/><text"),
            "picture.svg: line 2: <image> refers to \"photo.png\"; pictures and other files are not converted",
        ),
        (
            "wide.svg",
            DRAWING.replace("240pt", "240000pt"),
            "wide.svg: line 1: a page of 240000 x 100 pt; the limit of PDF is",
        ),
        ("long.svg", format!("{}{DRAWING}", " ".repeat(70_000_000)), " B; the limit is 67108864 B: draw less at once"),
    ] {
        let run = lab(&["pdf", &dir.write(name, &text)]);
        assert!(run.code == 2 && run.stderr.contains(says), "{}", run.stderr);
        fs::remove_file(dir.path(name)).unwrap();
    }
    assert_eq!(lab(&["pdf", &drawing, "--json"]).quiet().json()["files"][0], dir.path("rates.pdf"));
    let run = lab(&["pdf", &drawing]).quiet();
    assert_eq!(run.stdout, format!("{}\n", dir.path("rates.pdf")));
    let pdf = fs::read(dir.path("rates.pdf")).unwrap();
    let text = String::from_utf8_lossy(&pdf);
    assert!(text.starts_with("%PDF-") && text.contains("/FontFile") && text.contains("DejaVuSans"), "no font");
}

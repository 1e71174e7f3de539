//! The part of a file shown around a place. Renderers inspect every character of these lines several times, and a line
//! may be as long as the file.

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use super::{Source, Span};

/// Bytes before and after a place that are shown at most.
const MARGIN: usize = 400;
/// Bytes of a place that are marked at most.
const MARKED: usize = 200;

/// A file's text, of which no more than a few lines' worth is shown at a time.
#[derive(Clone, Debug)]
pub(super) struct Excerpt(pub(super) Source);

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let text = self.0.inner();
        let start = boundary(text, span.offset().saturating_sub(MARGIN));
        let end = boundary(text, span.offset().saturating_add(span.len()).saturating_add(MARGIN).min(text.len()));
        let window = &text[start..end];
        let within = SourceSpan::from((span.offset().saturating_sub(start), span.len()));
        let shown = window.read_span(&within, before, after)?;
        // Lines and columns of the window, as lines and columns of the file.
        let above = &text[..start];
        let line = above.bytes().filter(|&byte| byte == b'\n').count() + shown.line();
        let column = match shown.line() {
            0 => above.len() - above.rfind('\n').map_or(0, |at| at + 1) + shown.column(),
            _ => shown.column(),
        };
        let span = SourceSpan::from((start + shown.span().offset(), shown.span().len()));
        let name = self.0.name().to_owned();
        let contents = MietteSpanContents::new_named(name, shown.data(), span, line, column, shown.line_count());
        Ok(Box::new(contents))
    }
}

/// As much of a place as is marked.
pub(super) fn marked(text: &str, span: &Span) -> Span {
    let end = if span.len() > MARKED { boundary(text, span.start + MARKED) } else { span.end };
    span.start..end.max(span.start)
}

/// Returns the start of the character at `at`.
fn boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

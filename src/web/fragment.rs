//! A part of a page on its way to a page that is open: by an event stream, or as the answer to a form.
//!
//! A fragment is addressed by the id of what it replaces, so that applying it twice does no harm. Pieces of text that
//! is being written are the one exception: they are appended.

use askama::Template;
use askama::filters::HtmlSafe;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};

/// How a fragment is applied. Replacing is done by changing only what differs, so that a text that is being typed, an
/// opened detail and the focus stay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Swap {
    /// The element itself is replaced.
    Whole,
    /// What is inside the element is replaced.
    Inside,
    /// Text is added at the element's end.
    Append,
}

/// A part of a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Fragment {
    /// The id of the element that it is for; a page without it leaves the fragment out.
    target: String,
    swap: Swap,
    html: String,
}

impl Fragment {
    /// A template for an element; one that cannot be rendered is left out, and the page keeps what it shows.
    pub(crate) fn new(target: impl Into<String>, swap: Swap, content: &impl Template) -> Option<Self> {
        match content.render() {
            Ok(html) => Some(Self { target: target.into(), swap, html }),
            Err(error) => {
                tracing::error!(%error, "a fragment cannot be rendered");
                None
            }
        }
    }

    /// Text, escaped, for an element.
    pub(crate) fn text(target: impl Into<String>, swap: Swap, text: &str) -> Self {
        let mut html = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '<' => html.push_str("&#60;"),
                '>' => html.push_str("&#62;"),
                '&' => html.push_str("&#38;"),
                '"' => html.push_str("&#34;"),
                '\'' => html.push_str("&#39;"),
                // The parser of an event stream takes it for the end of a line.
                '\r' => html.push_str("&#13;"),
                c => html.push(c),
            }
        }
        Self { target: target.into(), swap, html }
    }

    /// A short message in the corner.
    pub(crate) fn toast(toast: &Toast) -> Option<Self> {
        Self::new("toasts", Swap::Append, toast)
    }
}

impl fmt::Display for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let swap = match self.swap {
            Swap::Whole => "outerMorph",
            Swap::Inside => "innerMorph",
            Swap::Append => "beforeend",
        };
        // Ids are ours: letters, digits and dashes.
        write!(f, r##"<hx-partial hx-target="#{}" hx-swap="{swap}">{}</hx-partial>"##, self.target, self.html)
    }
}
impl HtmlSafe for Fragment {}

/// A short message in the corner.
#[derive(Clone, Debug, Template)]
#[template(
    source = r#"<div class="toast {{ tone }}"{% if alert %} role="alert"{% endif %}>{{ icon }}<span>{{ text }}</span></div>"#,
    ext = "html"
)]
pub(crate) struct Toast {
    /// Its colour.
    pub(crate) tone: super::ui::Tone,
    /// Its icon.
    pub(crate) icon: super::ui::Icon,
    /// What it says.
    pub(crate) text: String,
    /// Whether a reader must be interrupted.
    pub(crate) alert: bool,
}

/// Fragments as the answer to a form of a live page.
pub(crate) fn answer(status: StatusCode, fragments: impl IntoIterator<Item = Fragment>) -> Response {
    let body: String = fragments.into_iter().map(|fragment| fragment.to_string()).collect();
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
}

/// What one stream has sent, to send only what differs.
#[derive(Debug, Default)]
pub(crate) struct Sent(HashMap<String, u64>);

impl Sent {
    /// The fragments that the page does not show yet.
    pub(crate) fn news(&mut self, fragments: Vec<Fragment>) -> Vec<Fragment> {
        fragments
            .into_iter()
            .filter(|fragment| {
                let mut hasher = DefaultHasher::new();
                fragment.hash(&mut hasher);
                let digest = hasher.finish();
                fragment.swap == Swap::Append
                    || self.0.insert(fragment.target.clone(), digest) != Some(digest)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f35_text_cannot_break_out_of_a_fragment() {
        let hostile = "</hx-partial><script>alert(1)</script>\r\n\r\nevent: x\rdata: y'\"&";
        let fragment = Fragment::text("stream-text", Swap::Append, hostile).to_string();
        assert_eq!(
            fragment,
            "<hx-partial hx-target=\"#stream-text\" hx-swap=\"beforeend\">&#60;/hx-partial&#62;&#60;script&#62;alert(1)\
             &#60;/script&#62;&#13;\n&#13;\nevent: x&#13;data: y&#39;&#34;&#38;</hx-partial>"
        );
    }

    #[test]
    fn f36_what_a_page_shows_is_not_sent_again() {
        let part = |text: &str| Fragment::text("a", Swap::Whole, text);
        let piece = Fragment::text("b", Swap::Append, "x");
        let mut sent = Sent::default();
        assert_eq!(sent.news(vec![part("1"), piece.clone()]).len(), 2);
        assert_eq!(sent.news(vec![part("1"), piece.clone()]), [piece]);
        assert_eq!(sent.news(vec![part("2")]), [part("2")]);
        assert!(sent.news(vec![part("2")]).is_empty());
    }
}

//! Markdown as models write it, as a tree that templates render: nothing of it is ever markup by itself. Pure.
//!
//! Raw HTML is text. Pictures are not loaded. A link leads to http or https alone, and its true address stands beside it;
//! any other address is text.

use super::ui::{Marked, components};
use super::visible_text::VisibleText;
use askama::Template;
use pulldown_cmark::{Event, Options, Parser, Tag};
use reqwest::Url;

/// How deep quotes and lists may nest; what is deeper stands at this depth.
const MOST_DEPTH: usize = 16;
/// Longest address that can be followed, in bytes.
const MOST_ADDRESS: usize = 2_000;

/// A text in Markdown.
#[derive(Clone, PartialEq, Eq, Debug, Default, Template)]
#[template(source = "{% for node in self.0 %}{{ node }}{% endfor %}", ext = "html")]
pub(crate) struct Markdown(Vec<Node>);

/// One piece, with what stands in it.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "ui/markdown.html")]
struct Node {
    kind: Kind,
    children: Vec<Node>,
}

components!(Markdown, Node);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Text(Marked),
    Code(Marked),
    CodeBlock(Marked),
    Paragraph,
    Heading,
    Quote,
    List,
    Ordered(u64),
    Item,
    Rule,
    Break,
    Emphasis,
    Strong,
    Strike,
    Table,
    Head,
    Row,
    HeadCell,
    Cell,
    /// Whether the address is not to be said again, because the text is it.
    Link {
        href: String,
        shown: Marked,
        said: bool,
    },
    /// An address that is not followed.
    Address(Marked),
    Image,
    /// Something without a form of its own.
    Plain,
}

impl Markdown {
    /// Reads a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut builder = Builder { open: vec![node(Kind::Plain)], too_deep: 0, in_head: false, code: None };
        for event in Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
            builder.take(event);
        }
        Self(builder.finish())
    }

    /// Whether there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn node(kind: Kind) -> Node {
    Node { kind, children: Vec::new() }
}

struct Builder {
    /// Pieces that have begun, the outermost first. Never empty.
    open: Vec<Node>,
    /// Pieces that have begun beyond the depth; they have no form.
    too_deep: usize,
    in_head: bool,
    /// The text of the block of code that has begun.
    code: Option<String>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(_) => self.end(),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.leaf(Kind::Text(Marked::code(&text))),
            },
            Event::Code(text) => self.leaf(Kind::Code(Marked::code(&text))),
            // A tag is shown as it was written.
            Event::Html(text) | Event::InlineHtml(text) => self.leaf(Kind::Text(Marked::code(&text))),
            Event::SoftBreak => self.leaf(Kind::Text(Marked::code("\n"))),
            Event::HardBreak => self.leaf(Kind::Break),
            Event::Rule => self.leaf(Kind::Rule),
            // These are parts of Markdown that are not switched on.
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.leaf(Kind::Text(Marked::code(&text)));
            }
            Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if self.open.len() > MOST_DEPTH {
            self.too_deep = self.too_deep.saturating_add(1);
            return;
        }
        let kind = match tag {
            Tag::Paragraph => Kind::Paragraph,
            Tag::Heading { .. } => Kind::Heading,
            Tag::BlockQuote(_) => Kind::Quote,
            Tag::CodeBlock(_) => {
                self.code = Some(String::new());
                Kind::CodeBlock(Marked::default())
            }
            Tag::List(None) => Kind::List,
            Tag::List(Some(first)) => Kind::Ordered(*first),
            Tag::Item => Kind::Item,
            Tag::Table(_) => Kind::Table,
            Tag::TableHead => {
                self.in_head = true;
                Kind::Head
            }
            Tag::TableRow => Kind::Row,
            Tag::TableCell if self.in_head => Kind::HeadCell,
            Tag::TableCell => Kind::Cell,
            Tag::Emphasis => Kind::Emphasis,
            Tag::Strong => Kind::Strong,
            Tag::Strikethrough => Kind::Strike,
            Tag::Link { dest_url, .. } => link(dest_url),
            Tag::Image { dest_url, .. } => {
                self.open.push(node(Kind::Image));
                // Where it would have been loaded from is said after its description.
                self.open.push(node(link(dest_url)));
                return;
            }
            _ => Kind::Plain,
        };
        self.open.push(node(kind));
    }

    fn end(&mut self) {
        if self.too_deep > 0 {
            self.too_deep = self.too_deep.saturating_sub(1);
            return;
        }
        if self.open.len() < 2 {
            return;
        }
        let Some(mut done) = self.open.pop() else { return };
        if matches!(done.kind, Kind::CodeBlock(_)) {
            let code = self.code.take().unwrap_or_default();
            done.kind = Kind::CodeBlock(Marked::code(code.strip_suffix('\n').unwrap_or(&code)));
        }
        if matches!(done.kind, Kind::Head) {
            self.in_head = false;
        }
        let done = finished(done);
        let into_image = self.open.last().is_some_and(|outer| outer.kind == Kind::Image);
        self.add(done);
        if into_image && let Some(image) = self.open.pop() {
            self.add(image);
        }
    }

    fn leaf(&mut self, kind: Kind) {
        self.add(node(kind));
    }

    fn add(&mut self, piece: Node) {
        if let Some(outer) = self.open.last_mut() {
            outer.children.push(piece);
        }
    }

    fn finish(mut self) -> Vec<Node> {
        while self.open.len() > 1 {
            self.too_deep = 0;
            self.end();
        }
        self.open.pop().map(|root| root.children).unwrap_or_default()
    }
}

/// A link whose text is known: whether the text is the address, or the address has to be said beside it.
fn finished(mut done: Node) -> Node {
    let text = plain(&done.children);
    match &mut done.kind {
        Kind::Link { href, said, .. } => {
            let bare = |text: &str| {
                text.trim_start_matches("https://")
                    .trim_start_matches("http://")
                    .trim_end_matches('/')
                    .to_owned()
            };
            *said = bare(&text) == bare(href);
            if text.trim().is_empty() {
                done.children = vec![node(Kind::Text(Marked::code(href)))];
                *said = true;
            }
            done
        }
        Kind::Address(shown) => {
            let said = text == shown.0.to_string();
            let address = std::mem::take(shown);
            done.kind = Kind::Plain;
            if !said {
                done.children.push(node(Kind::Address(address)));
            }
            done
        }
        _ => done,
    }
}

fn plain(nodes: &[Node]) -> String {
    nodes
        .iter()
        .map(|node| match &node.kind {
            Kind::Text(text) | Kind::Code(text) => text.0.to_string(),
            _ => plain(&node.children),
        })
        .collect()
}

/// The form of an address: a link only if it leads to http or https, and shows where to.
fn link(address: &str) -> Kind {
    let followed = Url::parse(address).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.as_str().len() <= MOST_ADDRESS
    });
    match followed {
        Some(url) => Kind::Link {
            shown: Marked(VisibleText::of_address(url.as_str())),
            href: url.as_str().to_owned(),
            said: false,
        },
        None => Kind::Address(Marked(VisibleText::of_address(address))),
    }
}

#[cfg(test)]
mod tests;

//! Small pieces of markup that stand everywhere: icons, badges, tiers, tool names, marked text.

use super::visible_text::VisibleText;
use askama::Template;
use askama::filters::HtmlSafe;
use sluicegate_gateway::CallState;
use sluicegate_policy::Tier;
use std::fmt;

/// Declares templates whose output may stand in another template with plain braces: they escape for themselves.
macro_rules! components {
    ($($name:ty),+ $(,)?) => { $(impl askama::filters::HtmlSafe for $name {})+ };
}
pub(crate) use components;

/// The colour group of a component; the words are the stylesheet's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    /// Allowed.
    Allow,
    /// Held.
    Hold,
    /// Denied.
    Deny,
    /// In motion.
    Info,
    /// Flagged, for people's eyes.
    Taint,
    /// Everything the gate did not decide.
    Neutral,
}

impl fmt::Display for Tone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "tone-allow",
            Self::Hold => "tone-hold",
            Self::Deny => "tone-deny",
            Self::Info => "tone-info",
            Self::Taint => "tone-taint",
            Self::Neutral => "tone-neutral",
        })
    }
}

/// An icon of the sprite in `templates/icons.html`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Icon(pub(crate) &'static str);

impl fmt::Display for Icon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spin = if self.0 == "spin" { " icon--spin" } else { "" };
        write!(f, r##"<svg class="icon{spin}" aria-hidden="true"><use href="#i-{}"/></svg>"##, self.0)
    }
}
impl HtmlSafe for Icon {}

/// A decision or a state: icon and word.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(
    source = r#"<span class="badge{% if plain %} badge--plain{% endif %} {{ tone }}">{{ icon }}{{ word }}</span>"#,
    ext = "html"
)]
pub(crate) struct Badge {
    /// Its colour.
    pub(crate) tone: Tone,
    /// Its icon.
    pub(crate) icon: Icon,
    /// Its word.
    pub(crate) word: String,
    /// Without a box, in dense rows.
    pub(crate) plain: bool,
}

/// The tier of a tool: one, two or three bars.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Template)]
#[template(path = "ui/risk.html")]
pub(crate) struct Risk(pub(crate) Tier);

impl Risk {
    fn tone(self) -> Tone {
        match self.0 {
            Tier::Safe => Tone::Allow,
            Tier::Moderate => Tone::Hold,
            Tier::High => Tone::Deny,
        }
    }

    fn word(self) -> &'static str {
        match self.0 {
            Tier::Safe => "Safe",
            Tier::Moderate => "Moderate",
            Tier::High => "High",
        }
    }
}

/// Server and tool by their true names, marks included.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(
    source = r#"<span class="tool" hx-ignore>{% if let Some(server) = server %}<span class="tool__server">{{ server }}/</span>{% endif %}{{ tool }}</span>"#,
    ext = "html"
)]
pub(crate) struct ToolName {
    /// The server's name; a name that fits no tool has none.
    pub(crate) server: Option<Marked>,
    /// The tool's name.
    pub(crate) tool: Marked,
}

impl ToolName {
    /// Names as recorded; the server's is empty if the name fits no tool.
    pub(crate) fn new(server: &str, tool: &str) -> Self {
        let server = (!server.is_empty()).then(|| Marked(VisibleText::of_address(server)));
        Self { server, tool: Marked(VisibleText::of_address(tool)) }
    }

    /// In plain text, marks in brackets.
    pub(crate) fn plain(&self) -> String {
        match &self.server {
            Some(server) => format!("{}/{}", server.0, self.tool.0),
            None => self.tool.0.to_string(),
        }
    }
}

/// Text in which what cannot be seen is marked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Template)]
#[template(path = "ui/marked.html")]
pub(crate) struct Marked(pub(crate) VisibleText);

impl Marked {
    /// Marks a text.
    pub(crate) fn of(text: &str) -> Self {
        Self(VisibleText::of(text))
    }

    /// Marks a text that is laid out in lines.
    pub(crate) fn code(text: &str) -> Self {
        Self(VisibleText::of_code(text))
    }
}

components!(Badge, Risk, ToolName, Marked);

/// A message of ours as a sentence of its own: errors and reasons are written in lower case, to stand in others.
pub(crate) fn sentence(message: &str) -> String {
    let mut chars = message.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Icon, tone and word of a call's state.
pub(crate) fn call_state(state: CallState) -> (Tone, Icon, &'static str) {
    match state {
        CallState::Proposed => (Tone::Info, Icon("spin"), "Proposed"),
        CallState::Pending => (Tone::Hold, Icon("hold"), "Waiting for approval"),
        CallState::Approved => (Tone::Allow, Icon("check"), "Approved"),
        CallState::Executing => (Tone::Info, Icon("spin"), "Running"),
        CallState::Denied => (Tone::Deny, Icon("deny"), "Denied"),
        CallState::Expired => (Tone::Neutral, Icon("expired"), "Expired"),
        CallState::Withdrawn => (Tone::Neutral, Icon("x"), "Withdrawn"),
        CallState::Completed => (Tone::Allow, Icon("check-circle"), "Completed"),
        CallState::Failed => (Tone::Neutral, Icon("fail"), "Failed"),
        CallState::Unknown => (Tone::Neutral, Icon("fail"), "Outcome unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_icon_of_a_state_is_in_the_sprite() {
        let sprite = include_str!("../../templates/icons.html");
        for state in CallState::ALL {
            let (_, Icon(name), _) = call_state(*state);
            assert!(sprite.contains(&format!(r#"id="i-{name}""#)), "{state}: {name}");
        }
    }

    /// F35: names and texts of others stand between tags, escaped.
    #[test]
    fn f35_foreign_names_are_text() {
        let hostile = r#"<img src=x onerror=alert(1)>" hx-get="/x" hx-trigger="load"#;
        let html = format!("{}{}", ToolName::new(hostile, hostile), Marked::of(hostile));
        assert!(!html.contains("<img") && !html.contains(r#"hx-get=""#), "{html}");
        assert!(html.contains("&#60;img"), "{html}");
    }
}

//! What stands around every page: navigation, the state of the gate, who is signed in, the live connection.

use super::error::WebError;
use super::events::Region;
use super::guard::CurrentUser;
use super::state::WebState;
use super::ui::{Icon, Tone, components};
use askama::Template;

/// A page of the main navigation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// `/`
    Overview,
    /// `/agent`
    Agent,
    /// `/approvals`
    Approvals,
    /// `/policies`
    Policies,
    /// `/audit`
    Audit,
    /// `/tools`
    Tools,
    /// `/settings`
    Settings,
}

impl Place {
    const ALL: [Self; 7] = [
        Self::Overview,
        Self::Agent,
        Self::Approvals,
        Self::Policies,
        Self::Audit,
        Self::Tools,
        Self::Settings,
    ];

    const fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Overview => ("Overview", "/", "overview"),
            Self::Agent => ("Agent", "/agent", "agent"),
            Self::Approvals => ("Approvals", "/approvals", "approvals"),
            Self::Policies => ("Policies", "/policies", "policies"),
            Self::Audit => ("Audit", "/audit", "audit"),
            Self::Tools => ("Tools", "/tools", "tools"),
            Self::Settings => ("Settings", "/settings", "settings"),
        }
    }
}

/// The number of held calls in the navigation. Always there, so that it can be replaced; empty at none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Template)]
#[template(
    source = r#"<span class="count tone-hold push" id="nav-pending"{% if self.0 == 0 %} hidden{% endif %}>{{ self.0 }}<span class="sr-only"> waiting</span></span>"#,
    ext = "html"
)]
pub(crate) struct NavPending(pub(crate) u64);

/// What the gate does at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(
    source = r#"<p class="gate" id="gate-status"><strong><span class="dot{% if tone == Tone::Allow %} dot--live{% endif %} {{ tone }}"></span>{{ headline }}</strong><span>{{ detail }}</span></p>"#,
    ext = "html"
)]
pub(crate) struct GateStatus {
    tone: Tone,
    headline: &'static str,
    detail: String,
}

impl GateStatus {
    /// The gate under a policy revision; without one it denies everything.
    pub(crate) fn under(revision: Option<i64>) -> Self {
        match revision {
            Some(revision) => Self {
                tone: Tone::Allow,
                headline: "Gate enforcing",
                detail: format!("Policy v{revision}, default deny"),
            },
            None => Self {
                tone: Tone::Deny,
                headline: "Gate closed",
                detail: "No readable policy: every call is denied".to_owned(),
            },
        }
    }
}

components!(NavPending, GateStatus);

/// A link of the navigation.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) href: &'static str,
    pub(crate) icon: Icon,
    pub(crate) current: bool,
    pub(crate) counts: bool,
    pub(crate) wide: bool,
}

/// What `layout.html` needs. Every page's template has one as its field `frame`.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The page's title.
    pub(crate) title: String,
    /// Where it belongs.
    pub(crate) place: Place,
    /// Who is signed in.
    pub(crate) person: String,
    /// With which role.
    pub(crate) role: &'static str,
    /// Held calls.
    pub(crate) pending: NavPending,
    /// What the gate does.
    pub(crate) gate: GateStatus,
    /// The address of the page's event stream.
    pub(crate) stream: String,
}

impl Frame {
    /// The main navigation.
    pub(crate) fn links(&self) -> impl Iterator<Item = Link> {
        Place::ALL.into_iter().map(|place| {
            let (name, href, icon) = place.parts();
            Link {
                name,
                href,
                icon: Icon(icon),
                current: place == self.place,
                counts: place == Place::Approvals,
                wide: place == Place::Settings,
            }
        })
    }

    /// Two letters for who is signed in.
    pub(crate) fn initials(&self) -> String {
        self.person.chars().filter(|c| c.is_alphanumeric()).take(2).collect::<String>().to_uppercase()
    }
}

impl WebState {
    /// The frame of a page for this reader. `region` is what the page's stream keeps alive; at least the frame itself.
    pub(crate) async fn frame(
        &self,
        user: &CurrentUser,
        place: Place,
        title: &str,
        region: Region,
    ) -> Result<Frame, WebError> {
        Ok(Frame {
            title: title.to_owned(),
            place,
            person: user.person.to_string(),
            role: user.role.as_str(),
            pending: NavPending(self.calls.pending_count().await?),
            gate: GateStatus::under(self.policy().await?.map(|policy| policy.revision.id.0)),
            stream: region.address(),
        })
    }
}
